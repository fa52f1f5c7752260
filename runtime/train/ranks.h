/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks: makes a trainer one of several that train a model together, each with some of its blocks
 * (docs/distributed.md).
 *
 * Messages between neighbours are ops. A send is an op of the plan, on the lane `send`. A receive is submitted with the
 * item at the first position of its tensor's lifetime, when the memory is free. All else goes through host memory. The
 * first rank that trains collects the sums for the norm (the gate). Rank 0 collects each step's losses, decides whether
 * the step was the last, moves pieces of weights and moments, and gives orders.
 *
 * INVARIANTS
 * 1. A receive waits for all ops for which the item at its position waits, and for all compute before that item.
 * 2. Compute after a send waits until the send is done.
 * 3. All ranks that train get the same sums through the gate, and so the same factor. Every rank learns that a step is
 *    the last before it submits ops of a later step.
 * 4. If data messages take turns in the world, they move in the order of compute. A receive moves when it is needed, or
 *    together with the send before it if nothing comes between. So neighbours exchange in pairs (1F1B).
 * 5. Orders come from rank 0, one by one, at drained points. A rank that fails revokes the world: nobody waits for it.
 */
#ifndef AH_RUNTIME_TRAIN_RANKS_H
#define AH_RUNTIME_TRAIN_RANKS_H

#include "runtime/train/links.h"

struct ah_tally;

/* The message that is received together with a send, if there is one. */
struct ranks_partner {
    bool any;
    enum ah_channel channel;
    uint32_t micro_batch;
};

struct ranks {
    const struct ah_trainer_rank *options; /* NULL: a single rank trains the model */
    struct ah_messages messages;
    uint32_t last_pass;          /* position of the last pass or message of a step */
    struct ah_links *links, own; /* the links in use: those of the place, or `own` */

    /* The next four fields are for channels that receive. */
    uint32_t *begun[AH_CHANNELS];    /* by position: how many messages of a step have free memory by then */
    uint64_t *received[AH_CHANNELS]; /* by micro-batch: ticket of the receive in the latest step */
    uint64_t posted[AH_CHANNELS];    /* number of receives in this run */
    /* if messages take turns, by micro-batch: true if it moves with a send; else NULL */
    bool *joined[AH_CHANNELS];

    /* The next four fields are for channels that send. */
    uint64_t sent;                              /* ticket of the latest send on any channel */
    struct ranks_partner *partner[AH_CHANNELS]; /* if messages take turns, by micro-batch; else NULL */
    uint64_t moved[AH_CHANNELS];                /* number of sends so far; used only by the lane `send` */
    bool trains_now;                            /* if false, a receive is posted alone, not with a send */

    struct ah_comm_moved *together; /* owned: messages of the lane `sums` that will move with the next one */
    size_t n_together;
    double *losses;  /* owned: losses of a step's micro-batches; at rank 0, those of all pipelines */
    double *arrived; /* owned: losses of one rank */

    float *piece;           /* owned; NULL at rank 0: values read or written on its order */
    struct beats *beats;    /* owned; NULL: nobody watches (beats.c) */
    struct ah_tally *tally; /* owned; NULL at rank 0 */
    uint64_t heard;         /* pulse of all devices, as last received from rank 0; used atomically */
    /* at rank 0: whether the owners see the folder of the latest save */
    enum { RANKS_UNKNOWN, RANKS_SHARED, RANKS_APART } folder;
    bool ended; /* no messages may be sent to the others any more */
};

/* The decision that rank 0 sends to all ranks at the end of a step, or before a batch of an evaluation. */
struct ranks_verdict {
    double loss, grad_norm; /* for ranks that train nothing, which have no norm themselves */
    bool stop;
};

/* Reads the program's messages, before the program is bound. */
int ah_ranks_read(struct ah_trainer *t, struct ah_error *err);
/* Finds the receives that move together with sends, once links are open. Does nothing if messages are independent. */
int ah_ranks_pair(struct ah_trainer *t, struct ah_error *err);
/* Waits until every rank has opened its device. On GPUs, one that still takes memory might wait for a GPU on which a
 * message of another waits. Does nothing if messages are independent. */
int ah_ranks_ready(struct ah_trainer *t, struct ah_error *err);
/* Opens the links if the place has none. Collective. */
int ah_ranks_meet(struct ah_trainer *t, struct ah_error *err);
void ah_ranks_release(struct ah_trainer *t);

static inline bool ah_ranks_several(const struct ranks *ranks)
{
    return ranks->options != NULL;
}

/* True for rank 0 of several ranks, even if it trains nothing. */
static inline bool ah_ranks_leads(const struct ranks *ranks)
{
    return ranks->options && !ranks->options->rank;
}

/* Return sequences and micro-batches of a step over all pipelines. */
uint64_t ah_ranks_step_batch(const struct ah_trainer *t);
uint64_t ah_ranks_step_micro_batches(const struct ah_trainer *t);

/* Returns the number, in the step of all pipelines, of a rank's m-th micro-batch. If ranks share states, the last one
 * may be beyond the step: then another one is computed for nothing. */
uint64_t ah_ranks_micro_batch(const struct ah_trainer *t, uint32_t rank, uint64_t m);

/* Returns the number of this rank among those that share states; 0 if none do. */
uint64_t ah_ranks_shard(const struct ah_trainer *t);

/* Called by ops; `context` is the trainer. */
int ah_ranks_move(void *context, const struct ah_op_moved *moved, struct ah_error *err);
int ah_ranks_gate(void *context, struct ah_error *err);

/* Collects at rank 0 what only some ranks know about a finished step: the losses of micro-batches, from ranks with a
 * head, into the step's header; and the norm, from the gatekeeper. */
int ah_ranks_gather(struct ah_trainer *t, int64_t step, double *grad_norm, struct ah_error *err);
/* Sends the verdict of rank 0 to all ranks. */
int ah_ranks_agree(struct ah_trainer *t, struct ranks_verdict *verdict, struct ah_error *err);

/* The orders that rank 0 gives to all other ranks. */
enum ranks_order_kind {
    RANKS_RUN,
    RANKS_EVALUATE,
    RANKS_READ,
    RANKS_WRITE,
    RANKS_MEASURED,
    RANKS_RECORDED,
    RANKS_MEET, /* the five from here on are for together.c: a note follows the order, and a report answers it */
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
/* Order the owner of the piece to read, or every other rank that holds the piece to write, and move the values. */
int ah_ranks_read_piece(struct ah_trainer *t, uint32_t owner, enum ah_trainer_vector vector,
                        const struct ah_weights_piece *piece, float *ret_values, struct ah_error *err);
int ah_ranks_write_piece(struct ah_trainer *t, enum ah_trainer_vector vector,
                         const struct ah_weights_piece *piece, const float *values, struct ah_error *err);

/* measured.c, for ranks other than 0: run as ordered and report to the tally; answer RANKS_MEASURED. */
int ah_ranks_run(struct ah_trainer *t, uint64_t steps, struct ah_error *err);
int ah_ranks_tell_measured(struct ah_trainer *t, struct ah_error *err);
/* recorded.c: answers RANKS_RECORDED. */
int ah_ranks_tell_recorded(struct ah_trainer *t, struct ah_error *err);

/* Called by the device's watch; `context` is the trainer. */
bool ah_ranks_other_waits(const void *context, char *ret_text, size_t room);
uint64_t ah_ranks_pulse(const void *context);

/* Tells other ranks that an op of this rank failed, and with it all later messages. `context` is the trainer. */
void ah_ranks_failed(void *context, const struct ah_error *why);

/* Ends the run on all ranks after this rank failed. Returns the world's first failure; `err` names its rank. */
int ah_ranks_fail(struct ah_trainer *t, int rc, struct ah_error *err);

#endif
