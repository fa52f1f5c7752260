/* SPDX-License-Identifier: Apache-2.0
 *
 * Replay: runs a plan document on the virtual clock: its own ops, times, sharing and frozen orders, nothing else.
 *
 * The timeline covers `iterations` iterations from a cold start; the last ones are steady. Items are tiles.
 */
#ifndef AH_RUNTIME_SCHEDULE_REPLAY_H
#define AH_RUNTIME_SCHEDULE_REPLAY_H

#include "base/arena.h"
#include "base/error.h"
#include "schemas/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Why an item started later than the lane was free for it. */
enum ah_replay_reason {
    AH_REPLAY_NO_WAIT,
    AH_REPLAY_DATA,   /* what it reads was not there */
    AH_REPLAY_MEMORY, /* its place was not free: a ring, or a compute position it may not come before */
    AH_REPLAY_REASONS
};

struct ah_replay_item {
    uint32_t op; /* of the plan */
    uint32_t tile;
    uint32_t iteration;
    enum ah_plan_lane lane;
    double start_us, finish_us;
    double slowed_us; /* more than its time at full speed */
    double waited_us; /* the lane was idle before it */
    enum ah_replay_reason reason;
    uint32_t waited_for; /* item; UINT32_MAX: none */
    uint8_t slowed_by;   /* index into sharing.resources; 255: none */
};

struct ah_replay_lane {
    double busy_us, idle_us, slowed_us;  /* of a steady iteration */
    double waited_us[AH_REPLAY_REASONS]; /* idle_us by reason; rest: nothing to do */
    double slowed_by_us[16];             /* slowed_us by resource */
};

struct ah_replay {
    struct ah_replay_item *items; /* lane by lane, in their order; in the arena */
    size_t n_items;
    size_t iterations; /* that were run; what is said of a steady one is of the one before the last */
    size_t first_of_lane[5];
    double first_us;  /* duration of the first iteration, without updates of gradients from before it */
    double period_us; /* of a steady one */
    bool steady;      /* all items come back after the same time; if not, more iterations may tell more */
    double exposed_us[3];
    struct ah_replay_lane lanes[4];
};

/* `plan` was read from a document, or emitted. AH_E_DOCUMENT: an op that the rules of docs/planning.md do not allow, or
 * one that is missing; orders and dependencies that cannot run. AH_E_USAGE: fewer than 3 iterations. */
int ah_replay_run(const struct ah_plan *plan, size_t iterations, struct ah_arena *arena,
                  struct ah_replay *ret_replay, struct ah_error *err);

/* Runs a few iterations, and more if these do not repeat each other yet: the times of `plan->time` are of this run. The
 * same errors. */
int ah_replay_steady(const struct ah_plan *plan, struct ah_arena *arena, struct ah_replay *ret_replay,
                     struct ah_error *err);

/* The order of each lane that dispatching by `scheduling` gives, as indices into ops, in the arena: what `lanes` of an
 * emitted plan are. The same errors. */
int ah_replay_dispatch(const struct ah_plan *plan, struct ah_arena *arena, struct ah_plan_lanes *ret_lanes,
                       struct ah_error *err);

#endif
