/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of the tally.
 *
 *     tally.c          sums of steps, their window, medians
 *     tally_waits.c    what compute waited for
 *     tally_others.c   what compute waited for from other ranks
 *     tally_predict.c  what the plan predicts
 */
#ifndef AH_RUNTIME_TRAIN_TALLY_INTERNAL_H
#define AH_RUNTIME_TRAIN_TALLY_INTERNAL_H

#include "runtime/schedule/graph.h"
#include "runtime/schedule/messages.h"
#include "runtime/train/tally.h"

enum {
    TALLY_EXPOSED =
        AH_DEVICE_LANES - 1, /* a device's own lanes except compute, starting with AH_PLAN_LANE_H2D */
    /* possible waits: for device lanes except compute (lane - 1), and for the gate */
    TALLY_WAITS = AH_DEVICE_LANES_ALL,
    TALLY_GATE = AH_DEVICE_LANES_ALL, /* the gate, counted like a lane */
    TALLY_KEPT = 4, /* number of instances kept of each item; more than there are steps in progress */
    TALLY_DATA_KEPT = 64,
    TALLY_SUMS_KEPT = 256
};

/* An instance of an item, from its first primitive op to its last one. */
struct tally_done {
    uint64_t iteration; /* number of its step; 0: no instance */
    uint64_t from_ns;   /* end of the previous op in its lane */
    uint64_t start_ns, end_ns;
    uint64_t take; /* number of slots that its ring gave out before this one */
};

/* An item that gave back a slot of a ring. A circular list keeps these items in order. */
struct tally_given {
    uint32_t item;
    uint64_t iteration;
};
struct tally_ring {
    uint64_t slots, taken, given;
    size_t room;
    struct tally_given *gave; /* in the arena */
};

/* An op that no plan mentions. */
struct tally_data {
    uint64_t start_ns, end_ns;
};

/* For a rank's plan: messages from other ranks, and sums with them. */
struct tally_others {
    bool any;
    struct ah_messages messages;
    /* by micro-batch, the last TALLY_KEPT times of arrival; NULL: nothing arrives on this channel */
    uint64_t *arrived_ns[AH_CHANNELS];
    uint64_t *arrived[AH_CHANNELS]; /* by micro-batch: number of arrivals so far */
    uint64_t first_step;            /* first step of this call of run; 0: no step is done yet */
    struct tally_data *sums;        /* circular list of the last TALLY_SUMS_KEPT spans */
    uint64_t n_sums;
};

struct tally_waits {
    const struct ah_plan *plan;
    struct tally_others others;
    struct ah_graph graph;
    struct tally_done *done; /* TALLY_KEPT instances of each item */
    struct tally_ring rings[AH_GRAPH_RINGS];
    struct tally_data data[AH_PLAN_LANES][TALLY_DATA_KEPT]; /* circular lists */
    uint64_t n_data[AH_PLAN_LANES];
    uint32_t current[AH_DEVICE_LANES_ALL]; /* by lane: the running item; AH_GRAPH_NONE: none */
    uint64_t current_step[AH_DEVICE_LANES_ALL];
    uint64_t end_ns[AH_DEVICE_LANES_ALL]; /* by lane: the end of the last reported op */
};

int ah_tally_waits_init(struct tally_waits *waits, const struct ah_plan *plan, struct ah_arena *arena,
                        struct ah_error *err);
void ah_tally_waits_begin(struct tally_waits *waits);
void ah_tally_waits_op(struct tally_waits *waits, const struct ah_op_record *record);

/* Computes how long compute waited for each other lane in the round of `step`. All its ops must have been reported. */
void ah_tally_waits_exposed(const struct tally_waits *waits, uint64_t step, double ret_us[TALLY_EXPOSED]);

/* Iteration `step` as the rank's compute sees it, from the end of the previous one. Work and waits do not overlap. */
struct tally_iteration {
    double us, compute_us;
    double waits_us[TALLY_WAITS];
};
void ah_tally_waits_iteration(const struct tally_waits *waits, uint64_t step,
                              struct tally_iteration *ret_iteration);

/* tally_others.c; only if there are other ranks. */
int ah_tally_others_init(struct tally_waits *waits, struct ah_arena *arena, struct ah_error *err);
void ah_tally_others_begin(struct tally_waits *waits);
/* Records an op that no plan mentions, on a lane of messages. */
void ah_tally_others_op(struct tally_waits *waits, const struct ah_op_record *record);
/* Charge idle time of compute. `sent` charges sends before the item, and returns their end. `blame` charges sums and
 * the needed message, if they end after `after_ns`, and returns the end of the rest. */
uint64_t ah_tally_others_sent(const struct tally_waits *waits, uint32_t item, const struct tally_done *done,
                              double us[TALLY_WAITS]);
uint64_t ah_tally_others_blame(const struct tally_waits *waits, uint32_t item, uint64_t iteration,
                               const uint64_t from_after_to_ns[3], double us[TALLY_WAITS]);
bool ah_tally_others_sends(const struct tally_waits *waits, uint32_t item);

/* Returns an instance of an item; NULL if it is no longer kept. */
const struct tally_done *ah_tally_waits_done(const struct tally_waits *waits, uint32_t item,
                                             uint64_t iteration);
/* Charges what of [began_ns, to_ns] is after `from_ns` to a device lane or the gate. Returns the end of the rest. */
uint64_t ah_tally_waits_charge(double us[TALLY_WAITS], size_t lane, uint64_t from_ns, uint64_t began_ns,
                               uint64_t to_ns);

/* Lists the parts whose time is above 0, by lane, and within a lane the longest first. */
int ah_tally_parts(double us[AH_RUNLOG_OPS][AH_PLAN_LANES], struct ah_arena *arena,
                   struct ah_runlog_part **ret_parts, size_t *ret_n, struct ah_error *err);

#endif
