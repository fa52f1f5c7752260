/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks: a trainer as one of several that train a model together, each some of its blocks (docs/distributed.md).
 *
 * Messages between neighbours are ops: a send is the plan's own, on the lane `send`; a receive is submitted with the item at
 * whose position its tensor begins to live, since from there on its place is free. Everything else goes in host memory: over
 * the first rank that trains anything the sums that the norm needs (the gate), over rank 0 the losses of each step and whether
 * it was the last, pieces of weights and moments, and what is to be done next.
 *
 * INVARIANTS
 * 1. A receive waits for all that the item at its position waits for, and for all compute before it.
 * 2. Compute goes on behind a send when the send is done.
 * 3. Every rank that trains takes the same sums through the same gate, and so has the same factor; every rank hears of the
 *    same last step before it submits what would follow it.
 * 4. In a world whose messages of data take turns, the order of compute is their order: a receive goes out when it is needed,
 *    together with the send before it, where nothing else lies between; so neighbours meet in pairs (1F1B).
 * 5. Orders come from rank 0, one after another, at drained points. Who fails revokes the world, so that nobody waits for it.
 */
#ifndef AH_RUNTIME_TRAIN_RANKS_H
#define AH_RUNTIME_TRAIN_RANKS_H

#include "runtime/train/links.h"

struct ah_tally;

/* What is received together with a send. */
struct ranks_partner {
    bool any;
    enum ah_channel channel;
    uint32_t micro_batch;
};

struct ranks {
    const struct ah_trainer_rank *options; /* NULL: one rank trains all */
    struct ah_messages messages;
    uint32_t last_pass;          /* position of the last pass or message of a step */
    struct ah_links *links, own; /* the place's, or the trainer's own */

    /* Of channels by which something arrives. */
    uint32_t *begun[AH_CHANNELS];    /* by position: messages of a step that have a place by then */
    uint64_t *received[AH_CHANNELS]; /* by micro-batch: ticket in the latest step */
    uint64_t posted[AH_CHANNELS];    /* receives of this run */
    bool *joined[AH_CHANNELS];       /* in a world of turns, by micro-batch: a send brings it; else NULL */

    /* Of channels by which something is sent. */
    uint64_t sent;                              /* ticket of the latest send of all */
    struct ranks_partner *partner[AH_CHANNELS]; /* in a world of turns, by micro-batch; else NULL */
    uint64_t moved[AH_CHANNELS];                /* sends so far; the lane's */
    bool trains_now;                            /* else no send brings anything */

    struct ah_comm_moved *together; /* owned: messages of the lane `sums` that go with the next one */
    size_t n_together;
    double *losses; /* owned: of a step's micro-batches, all at rank 0 */

    float *piece;           /* owned: what a rank but 0 reads or writes for rank 0 */
    struct beats *beats;    /* owned; NULL: nobody watches (beats.c) */
    struct ah_tally *tally; /* owned; of a rank but 0 */
    uint64_t heard;         /* of all devices, as last told; used atomically */
    enum { RANKS_UNKNOWN, RANKS_SHARED, RANKS_APART } folder; /* rank 0: do owners see where it saves? */
    bool ended;                                               /* there is nothing more to tell the others */
};

/* What is decided once for all at the end of a step, or before a batch of an evaluation. */
struct ranks_verdict {
    double loss, grad_norm; /* a rank that trains nothing has no norm of its own */
    bool stop;
};

/* Reads the program's messages; before it is bound. */
int ah_ranks_read(struct ah_trainer *t, struct ah_error *err);
/* Which receives go out with which sends, once links are there; nothing in a world whose messages are independent. */
int ah_ranks_pair(struct ah_trainer *t, struct ah_error *err);
/* Collective: agrees on channels. */
int ah_ranks_meet(struct ah_trainer *t, struct ah_error *err);
void ah_ranks_release(struct ah_trainer *t);

static inline bool ah_ranks_several(const struct ranks *ranks)
{
    return ranks->options != NULL;
}

/* Rank 0 leads, whatever it trains; a trainer alone leads nobody. */
static inline bool ah_ranks_leads(const struct ranks *ranks)
{
    return ranks->options && !ranks->options->rank;
}

/* Sequences and micro-batches of a step, whoever trains on them; and where those of this rank's pipeline begin. */
uint64_t ah_ranks_step_batch(const struct ah_trainer *t);
uint64_t ah_ranks_step_micro_batches(const struct ah_trainer *t);
uint64_t ah_ranks_first_row(const struct ah_trainer *t);

/* Of ops: `context` is the trainer. */
int ah_ranks_move(void *context, const struct ah_op_moved *moved, struct ah_error *err);
int ah_ranks_gate(void *context, struct ah_error *err);

/* What only some ranks know of a step that is done, at rank 0: from the head's the loss of each micro-batch, into the header of
 * the step, and from the gatekeeper the norm. */
int ah_ranks_gather(struct ah_trainer *t, int64_t step, double *grad_norm, struct ah_error *err);
/* The verdict of rank 0, at all. */
int ah_ranks_agree(struct ah_trainer *t, struct ranks_verdict *verdict, struct ah_error *err);

/* Orders of rank 0. */
enum ranks_order_kind {
    RANKS_RUN,
    RANKS_EVALUATE,
    RANKS_READ,
    RANKS_WRITE,
    RANKS_MEASURED,
    RANKS_RECORDED,
    RANKS_MEET, /* these five of together.c; a note follows, and a report answers */
    RANKS_FILL,
    RANKS_SAME,
    RANKS_LOAD,
    RANKS_HASH,
    RANKS_END
};
struct ranks_order {
    enum ranks_order_kind kind;
    uint64_t steps;
    enum ah_trainer_vector vector;
    struct ah_weights_piece piece;
};
int ah_ranks_order(struct ah_trainer *t, const struct ranks_order *order, struct ah_error *err);
/* The same to the first rank that has the piece's block, or to all of them but 0, with the values that come back, or go. */
int ah_ranks_read_piece(struct ah_trainer *t, enum ah_trainer_vector vector,
                        const struct ah_weights_piece *piece, float *ret_values, struct ah_error *err);
int ah_ranks_write_piece(struct ah_trainer *t, enum ah_trainer_vector vector,
                         const struct ah_weights_piece *piece, const float *values, struct ah_error *err);

/* measured.c. Of a rank but 0: what follows a run order, told to its tally; and its answer to RANKS_MEASURED. */
int ah_ranks_run(struct ah_trainer *t, uint64_t steps, struct ah_error *err);
int ah_ranks_tell_measured(struct ah_trainer *t, struct ah_error *err);
/* recorded.c: its answer to RANKS_RECORDED. */
int ah_ranks_tell_recorded(struct ah_trainer *t, struct ah_error *err);

/* Of the device's watch; `context` is the trainer. */
bool ah_ranks_beside(const void *context, char *ret_text, size_t room);
uint64_t ah_ranks_pulse(const void *context);

/* Of the device: an op of this rank failed, and with it all messages behind it. `context` is the trainer. */
void ah_ranks_failed(void *context, const struct ah_error *why);

/* After a failure of this rank: the others end, too. Returns the code of the first failure of all, and says whose it was. */
int ah_ranks_fail(struct ah_trainer *t, int rc, struct ah_error *err);

#endif
