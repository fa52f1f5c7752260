/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of the trainer.
 *
 *     trainer.c   open and close: binds ops, prepares the device, allocates
 *     state.c     weights and moments, at drained points
 *     queue.c     ops to lanes: moves, tickets, one array at a time
 *     round.c     submits the items of a round, each after the items it waits for
 *     norm_copy.c the turn of the copy of squares to the host, since no plan mentions it
 *     shares.c    the turns of sums over pipelines, and the ops that wait for them
 *     ranks.c     one of several ranks: orders of rank 0, and the gate
 *     links.c     channels of a rank
 *     pace.c      slows ops and messages to their planned times
 *     together.c  a rank's part of a checkpoint, if all see the folder
 *     run.c       steps: loads data and headers ahead, reports records afterwards
 *     evaluate.c  forward passes only
 *     beats.c     progress that ranks report to rank 0 during a run
 *     whereabouts.c  progress of this rank
 */
#ifndef AH_RUNTIME_TRAIN_TRAINER_INTERNAL_H
#define AH_RUNTIME_TRAIN_TRAINER_INTERNAL_H

#include "runtime/train/bind.h"
#include "runtime/train/checkpoint/checkpoint_folder.h"
#include "runtime/train/pace.h"
#include "runtime/train/ranks.h"
#include "runtime/train/recorded.h"
#include "runtime/train/trainer.h"

enum { QUEUE_OPS = 64, SPANS_READ = 256, STEP_NONE = -1, WAITS_EACH = AH_DEVICE_LANES_ALL, STEPS_MARKED = 4 };

/* An op's waits, by lane the latest ticket. A wait costs nothing if it is over or on the op's own lane. */
struct waits {
    uint64_t ticket[AH_DEVICE_LANES_ALL]; /* 0: none */
};
static inline void waits_add(struct waits *waits, uint32_t lane, uint64_t ticket)
{
    if (ticket > waits->ticket[lane])
        waits->ticket[lane] = ticket;
}
static inline void waits_merge(struct waits *waits, const struct waits *others)
{
    for (uint32_t lane = 0; lane < AH_DEVICE_LANES_ALL; lane++)
        waits_add(waits, lane, others->ticket[lane]);
}

/* A slot for data on the device. In each run, steps count from 0, and slots are empty at the beginning. */
struct data_slot {
    int64_t step; /* STEP_NONE: empty */
    uint64_t micro_batch;
    uint64_t loaded; /* h2d ticket of the copy */
    uint64_t used;   /* compute ticket of the last reader */
};

struct ring_slot {
    uint64_t ticket; /* ticket of the op that gave the slot back; 0: never used */
    uint32_t lane;
    uint32_t slot;
};

/* The slots of a ring, as a circular list in the order in which they become free. */
struct ring {
    struct ring_slot *free; /* array of `slots` entries, in the trainer's arena */
    uint64_t slots, taken, given;
};

/* An item's latest instances. At most two rounds are in progress, with ops of three steps. */
struct item_state {
    int64_t step[STEPS_MARKED];    /* steps of the latest instances, by step % STEPS_MARKED */
    uint64_t ticket[STEPS_MARKED]; /* 0: no op, so nothing to wait for */
    uint8_t lane[STEPS_MARKED];    /* of the ticket */
    uint32_t slot[AH_GRAPH_RINGS];
};

struct staged {
    uint64_t tokens; /* loss-bearing tokens */
    double rate;
    uint64_t end[AH_DEVICE_LANES_ALL]; /* tickets with which its round ends */
    uint64_t h2d_bytes, d2h_bytes;
};

struct queue {
    struct ah_submission submissions[QUEUE_OPS];
    struct ah_op ops[QUEUE_OPS];
    struct ah_wait waits[QUEUE_OPS][WAITS_EACH];
    size_t n;
    uint64_t last[AH_DEVICE_LANES_ALL]; /* last ticket of each lane, queued ops included */
};

/* The copy of squares to the host (norm_copy.c). */
struct norm_copy {
    uint32_t norm;   /* item; AH_GRAPH_NONE: nothing is clipped */
    size_t place;    /* index in the round's d2h order; beyond the end: the norm's turn */
    int64_t step;    /* step of the latest copy */
    int64_t skipped; /* latest step whose copy was not submitted at `place` */
    uint64_t ticket;
};

/* Gradients of some blocks to be added up over pipelines (shares.c). */
struct share_state {
    uint32_t *makers; /* items that complete this pipeline's own sums */
    size_t n_makers;
    bool is_ours;
    int64_t step; /* step of the latest sum */
    uint64_t ticket;
};

struct shares {
    struct share_state *of; /* by share */
    uint32_t *needed_by;    /* by item: the share whose total it needs; AH_GRAPH_NONE: none */
    size_t n, next;         /* the round's next share */
};

/* Spans of the steps in options.recorded (recorded.c). */
struct recording {
    struct ah_recorded_span *spans; /* in the trainer's arena */
    size_t n, room;                 /* room 0: nothing is recorded */
    uint64_t lost;
    ptrdiff_t current[AH_DEVICE_LANES_ALL]; /* index of the newest span of each lane; -1: none */
};

struct ah_trainer {
    struct ah_trainer_options options;
    struct ah_arena arena;
    struct ah_job job;
    struct ah_flat *flats; /* at rank 0 of several: by block of the model; else NULL */
    struct ranks ranks;
    struct ah_graph graph;
    struct ah_addresses addresses;
    struct ah_bound bound;
    struct ah_device *device;
    bool documents;
    bool times_ops;         /* time each op separately; otherwise items */
    uint64_t steps;         /* number of steps done, earlier runs included */
    uint64_t reported_step; /* number of steps done, updated during a run; used atomically */

    struct queue queue;
    struct item_state *items;
    /* if ranks share states: by step % STEPS_MARKED and item, what an item without ops waits for; else NULL */
    struct waits *passed_on;
    struct waits carried[AH_PLAN_LANES]; /* by lane: what its latest items without ops wait for */
    uint32_t *next_data; /* by position: the next one that reads another micro-batch; `positions`: none */
    struct ring rings[AH_GRAPH_RINGS];
    struct data_slot slots[2];
    uint32_t last_slot;
    size_t cursor[AH_PLAN_LANES]; /* index into the lane's order of the round */
    int64_t filled;               /* last step in the staging */
    uint64_t header_loaded[2];    /* h2d tickets of headers, by parity of the step */
    uint64_t header_used[2];      /* compute tickets of the headers' last readers */
    uint64_t loss_copied[2];      /* d2h tickets of losses */
    struct norm_copy norm_copy;
    struct shares shares;
    struct pace pace;
    uint64_t factor_loaded; /* h2d ticket of the header's copy after the latest norm */
    struct staged staged[AH_STEPS_STAGED];
    struct staged *counted; /* the step for which submitted bytes count */
    struct ah_span_reader readers[AH_DEVICE_LANES_ALL];
    struct ah_span spans[SPANS_READ];
    uint64_t busy_ns[2][AH_DEVICE_LANES]; /* of the round to be reported next [0], and of later rounds [1] */
    /* end of the last op: of the round to be reported next [0], and of later rounds [1] */
    uint64_t last_end_ns[2];
    struct recording recording;
};

/* An index for each enum ah_offset_term. */
struct move_indices {
    uint64_t of[AH_OFFSET_TERMS];
};

/* queue.c */
/* Queues bound ops [first, end) on a lane. The first op gets these waits. `ret_ticket` (optional) is the ticket of the
 * last op or, without ops, the lane's last ticket. `learn`: includes ops that only training needs. */
struct ops_of_item {
    uint32_t first, end;
    uint32_t lane;
    bool learn;
    uint64_t tag;
};
int ah_queue_ops(struct ah_trainer *t, const struct ops_of_item *ops, const struct waits *waits,
                 const struct move_indices *moves, uint64_t *ret_ticket, struct ah_error *err);
int ah_queue_flush(struct ah_trainer *t, struct ah_error *err);
struct ops_of_item ah_queue_extra(const struct ah_trainer *t, enum ah_bind_extra extra, uint32_t lane);

/* round.c */
enum round_part {
    ROUND_WHOLE,
    ROUND_BEFORE,  /* two rounds before the first: fetches for the first step */
    ROUND_OPENING, /* everything before the first head of step 0 */
    ROUND_CLOSING  /* everything from the head of the last step, without a next step */
};
int64_t ah_round_step(const struct ah_trainer *t, uint32_t item, int64_t round);
bool ah_round_leaves_out(const struct ah_trainer *t, uint32_t item, enum round_part part);

/* Makes bytes submitted from now on count for this round. Bytes before the first round count for the first. */
void ah_round_count(struct ah_trainer *t, int64_t round);
/* True if all items of the lanes compute and net on which `item` depends are submitted. Adds waits for them. */
bool ah_round_computed(const struct ah_trainer *t, uint32_t item, int64_t step, struct waits *waits);
void ah_round_reset(struct ah_trainer *t);
int ah_round_submit(struct ah_trainer *t, int64_t step, enum round_part part, struct ah_error *err);
int ah_round_load(struct ah_trainer *t, int64_t step, uint64_t micro_batch, uint32_t *ret_slot,
                  struct ah_error *err);
int ah_round_receive(struct ah_trainer *t, enum ah_channel channel, uint64_t micro_batch,
                     const struct waits *waits, struct ah_error *err);
/* If messages take turns: adds waits for all messages so far. */
void ah_round_after_messages(const struct ah_trainer *t, struct waits *waits);
int ah_round_header(struct ah_trainer *t, int64_t step, const struct waits *waits, uint64_t *ret_ticket,
                    struct ah_error *err);

/* norm_copy.c. Errors of ah_replay_run(). */
int ah_norm_copy_place(const struct ah_graph *graph, const struct ah_plan *plan,
                       struct norm_copy *ret_norm_copy, struct ah_error *err);
/* True if d2h has reached the turn of the copy. Advance then submits it, unless compute must continue first. */
bool ah_norm_copy_due(const struct ah_trainer *t, int64_t round, enum round_part part);
int ah_norm_copy_advance(struct ah_trainer *t, int64_t round, bool *ret_done, struct ah_error *err);
int ah_norm_copy_submit(struct ah_trainer *t, int64_t step, const struct waits *waits, struct ah_error *err);
/* Lets d2h skip the copy of the sums, when no lane can continue. Returns false if d2h does not wait for the copy. */
bool ah_norm_copy_skip(struct ah_trainer *t, int64_t round, enum round_part part);

/* shares.c. Call once rounds are read. */
int ah_shares_init(struct ah_trainer *t, struct ah_error *err);
/* Submits every share that is ready. Sets `ret_any` if there was one. */
int ah_shares_advance(struct ah_trainer *t, int64_t round, enum round_part part, bool *ret_any,
                      struct ah_error *err);
/* Adds waits for the total that the item needs. Returns false if that total is not submitted yet. */
bool ah_shares_ready(const struct ah_trainer *t, uint32_t item, int64_t step, struct waits *waits);
/* Adds waits for all totals of a step. Returns false if one is not submitted yet. */
bool ah_shares_all(const struct ah_trainer *t, int64_t step, struct waits *waits);
void ah_shares_reset(struct ah_trainer *t);

/* state.c. True if this rank holds the block of the model, or a copy of its table. */
bool ah_state_wants(const struct ah_trainer *t, uint64_t block);

/* Returns the addresses of a block of the model; NULL if this rank does not hold it. */
const struct ah_addresses_block *ah_state_block(const struct ah_trainer *t, uint64_t block);
const struct ah_flat *ah_state_flat(const struct ah_trainer *t, uint64_t block);
/* Does ah_trainer_write() for a block that this rank holds. */
int ah_state_write(struct ah_trainer *t, enum ah_trainer_vector vector, const struct ah_weights_piece *piece,
                   const float *values, struct ah_error *err);
/* Copies `bytes` from the bounce buffer to the device. */
int ah_state_send(struct ah_trainer *t, struct ah_ref to, uint64_t bytes, struct ah_error *err);

/* persist.c: a source and a sink for this rank's blocks only. */
struct ah_checkpoint_source ah_persist_own_source(struct ah_trainer *t);
struct ah_checkpoint_sink ah_persist_own_sink(struct ah_trainer *t);

/* together.c. Return calls for rank 0; NULL if it leads nobody, or must save alone. Other ranks obey its orders. */
const struct ah_checkpoint_together *ah_together_saving(const struct ah_trainer *t);
const struct ah_checkpoint_together *ah_together_loading(const struct ah_trainer *t);
int ah_together_obey(struct ah_trainer *t, const struct ranks_order *order, struct ah_error *err);

/* beats.c: start when device and links are open; stop after the last order, before the device is closed. */
int ah_beats_start(struct ah_trainer *t, struct ah_error *err);
void ah_beats_stop(struct ah_trainer *t);

/* recorded.c. Call init once ops are bound; then ah_recorded_op() for every op. */
int ah_recorded_init(struct ah_trainer *t, struct ah_error *err);
void ah_recorded_op(struct ah_trainer *t, const struct ah_op_record *record);

/* whereabouts.c. Reads what this rank is doing. Any thread, while the device is open; `waits_ns` stays 0. */
void ah_whereabouts_read(const struct ah_trainer *t, struct ah_trainer_beat *ret_beat);

/* run.c */
int ah_run_stage(struct ah_trainer *t, struct ah_batches *batches, uint64_t cursor, int64_t step,
                 uint64_t *ret_bearing, struct ah_error *err);
/* True if ops of this kind exist for each micro-batch. */
bool ah_run_is_of_micro_batch(enum ah_plan_op_kind kind);
/* Adds to `err` the place in the training where the device failed. Any thread. */
void ah_run_place(const struct ah_trainer *t, struct ah_error *err);
/* Names the op with this tag: "'forward' of block 'layer.3'"; "" if it is in no plan. `context` is the trainer. */
void ah_run_name(const void *context, uint64_t tag, char *ret_name, size_t room);
struct ah_ref ah_run_header(const struct ah_trainer *t, int64_t step, uint64_t offset_bytes);
/* Adds up the losses of a step's micro-batches from left to right, from `before` on (NULL: from the first on). */
double ah_run_loss(const struct ah_trainer *t, int64_t step, const double *before);

#endif
