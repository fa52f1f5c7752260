/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the tally share.
 *
 *     tally.c          sums of steps, their window, medians
 *     tally_waits.c    what compute waited for
 *     tally_predict.c  what the plan says
 */
#ifndef AH_RUNTIME_TRAIN_TALLY_INTERNAL_H
#define AH_RUNTIME_TRAIN_TALLY_INTERNAL_H

#include "runtime/schedule/rounds.h"
#include "runtime/train/tally.h"

enum {
    TALLY_LANES = AH_ROUNDS_LANES,
    TALLY_EXPOSED = TALLY_LANES - 1, /* lanes but compute, from AH_PLAN_LANE_H2D on */
    TALLY_KEPT = 4,                  /* instances of an item, and steps under way with room to spare */
    TALLY_DATA_KEPT = 64
};

/* An instance of an item: of its first primitive op to its last one. */
struct tally_done {
    uint64_t iteration; /* by number of the step that it is of; 0: nothing is here */
    uint64_t from_ns;   /* end of what was before it in its lane */
    uint64_t start_ns, end_ns;
    uint64_t take; /* which taking of its ring it was */
};

/* The items that gave places of a ring back, one after another: a circle. */
struct tally_given {
    uint32_t item;
    uint64_t iteration;
};
struct tally_ring {
    uint64_t places, taken, given;
    size_t room;
    struct tally_given *gave; /* in the arena */
};

/* An op that no plan mentions. */
struct tally_data {
    uint64_t start_ns, end_ns;
};

struct tally_waits {
    const struct ah_plan *plan;
    struct ah_rounds rounds;
    struct tally_done *done; /* TALLY_KEPT of each item */
    struct tally_ring rings[AH_ROUNDS_RINGS];
    struct tally_data data[TALLY_LANES][TALLY_DATA_KEPT]; /* circles */
    uint64_t n_data[TALLY_LANES];
    uint32_t current[TALLY_LANES]; /* item; AH_ROUNDS_NONE: none */
    uint64_t current_step[TALLY_LANES];
    uint64_t end_ns[TALLY_LANES]; /* of the last op heard of */
};

int ah_tally_waits_init(struct tally_waits *waits, const struct ah_plan *plan, struct ah_arena *arena,
                        struct ah_error *err);
void ah_tally_waits_begin(struct tally_waits *waits);
void ah_tally_waits_op(struct tally_waits *waits, const struct ah_op_record *record, enum ah_plan_lane lane);

/* Time that compute waited for each other lane in the round of this step, whose ops were all heard of. */
void ah_tally_waits_exposed(const struct tally_waits *waits, uint64_t step, double ret_us[TALLY_EXPOSED]);

/* Lists what is above 0, by lane, the longest first. */
int ah_tally_parts(double us[AH_RUNLOG_OPS][TALLY_LANES], struct ah_arena *arena,
                   struct ah_runlog_part **ret_parts, size_t *ret_n, struct ah_error *err);

#endif
