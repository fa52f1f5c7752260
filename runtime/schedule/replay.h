/* SPDX-License-Identifier: Apache-2.0
 *
 * Replay: runs a plan document on the virtual clock, with its own ops, times, sharing and frozen orders.
 *
 * The timeline shows `iterations` iterations from a cold start; the last ones are steady. Each item is one tile.
 */
#ifndef AH_RUNTIME_SCHEDULE_REPLAY_H
#define AH_RUNTIME_SCHEDULE_REPLAY_H

#include "base/arena.h"
#include "base/error.h"
#include "schemas/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The reason why an item started later than its lane was free. */
enum ah_replay_reason {
    AH_REPLAY_NO_WAIT,
    AH_REPLAY_DATA,   /* its input was not there */
    AH_REPLAY_MEMORY, /* its memory was in use: no ring slot was free, or a gradient was still being sent */
    AH_REPLAY_REASONS
};

struct ah_replay_item {
    uint32_t op; /* index in the plan's ops */
    uint32_t tile;
    uint32_t iteration;
    enum ah_plan_lane lane;
    double start_us, finish_us;
    double slowed_us; /* its time beyond that at full speed */
    double waited_us; /* the time its lane was idle before it */
    enum ah_replay_reason reason;
    uint32_t waited_for; /* index of the item for which it waited longest; UINT32_MAX: none */
    uint8_t slowed_by;   /* index into sharing.resources; 255: none */
};

struct ah_replay_lane {
    double busy_us, idle_us, slowed_us; /* in a steady iteration */
    /* parts of idle_us with a reason; in the rest, the lane had nothing to do */
    double waited_us[AH_REPLAY_REASONS];
    double slowed_by_us[16]; /* slowed_us by resource */
};

struct ah_replay {
    struct ah_replay_item *items; /* lane by lane, in the lane's order; in the arena */
    size_t n_items;
    size_t iterations; /* number of iterations in the run; the last but one counts as the steady one */
    size_t first_of_lane[AH_PLAN_LANES + 1];
    double first_us;  /* duration of the first iteration, which lacks updates with earlier gradients */
    double period_us; /* of a steady iteration */
    bool steady;      /* all items recur after the same time; if false, try more iterations */
    double exposed_us[AH_PLAN_LANES]; /* time that compute waits for each lane */
    struct ah_replay_lane lanes[AH_PLAN_LANES];
};

/* `plan` was read from a document, or emitted. AH_E_DOCUMENT: the rules of docs/planning.md forbid an op or require a
 * missing one, or the orders deadlock. AH_E_USAGE: fewer than 3 iterations. AH_E_MEMORY. */
int ah_replay_run(const struct ah_plan *plan, size_t iterations, struct ah_arena *arena,
                  struct ah_replay *ret_replay, struct ah_error *err);

/* Runs a few iterations, or more if those are not steady. `plan->time` states the times of this run. Errors are those
 * of ah_replay_run(), except AH_E_USAGE. */
int ah_replay_steady(const struct ah_plan *plan, struct ah_arena *arena, struct ah_replay *ret_replay,
                     struct ah_error *err);

/* Dispatches by `scheduling` and returns the order of each lane, as indices into ops, in the arena. An emitted plan has
 * the same order in `lanes`. Errors are those of ah_replay_run(), except AH_E_USAGE. */
int ah_replay_dispatch(const struct ah_plan *plan, struct ah_arena *arena, struct ah_plan_lanes *ret_lanes,
                       struct ah_error *err);

#endif
