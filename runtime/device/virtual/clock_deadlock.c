/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a run of the clock stood still before its end: nothing runs, and ops are left. Each of them waits for a
 * dependency, for the op that its frozen lane runs first, or for a place of a ring.
 */
#include "runtime/device/virtual/clock_internal.h"

#include <string.h>

/* An op that never finished, and waits for a place. */
static bool clock_lacks_place(const struct clock_run *run, uint32_t op)
{
    const struct clock_lane *lane = &run->lanes[run->graph->lane[op]];
    if (run->memory->state[op] == CLOCK_WAITING)
        return false;
    return lane->rule != AH_CLOCK_FROZEN || run->memory->order[lane->first + lane->taken] == op;
}

/* The op that an op that never finished waits for; of those that could give it a place, the one in `givers`. */
static uint32_t clock_blocker(const struct clock_run *run, const uint32_t *givers, uint32_t op)
{
    if (run->memory->state[op] == CLOCK_WAITING)
        return run->graph->dependency[run->memory->looking_at[op]];
    if (clock_lacks_place(run, op))
        return givers[run->graph->takes[op]];
    const struct clock_lane *lane = &run->lanes[run->graph->lane[op]];
    return run->memory->order[lane->first + lane->taken];
}

static int clock_say_blocked(const struct clock_run *run, uint32_t op, uint32_t blocker, struct ah_error *err)
{
    const uint32_t *lane = run->graph->lane;
    if (!clock_lacks_place(run, op))
        return ah_error_set(
            err, AH_E_FAILED,
            "op %u on lane %u can never start: it waits for op %u on lane %u, which in turn waits for op "
            "%u; dependencies, frozen orders of lanes and places of rings contain a cycle",
            op, lane[op], blocker, lane[blocker], op);
    uint8_t ring = run->graph->takes[op];
    size_t places = run->rings[ring].places;
    if (blocker == AH_CLOCK_NO_OP)
        return ah_error_set(
            err, AH_E_FAILED,
            "op %u on lane %u can never start: it waits for one of the %zu places of ring %u, "
            "and no op is left that gives one back",
            op, lane[op], places, ring);
    return ah_error_set(err, AH_E_FAILED,
                        "op %u on lane %u can never start: it waits for one of the %zu places of ring %u, "
                        "which op %u on lane "
                        "%u would give back, which in turn waits for op %u; the ring needs more places",
                        op, lane[op], places, ring, blocker, lane[blocker], op);
}

/* Following blockers from any unfinished op ends on a cycle, of which the lowest op is named (one that lacks a place,
 * if there is any), or at an op to which nobody gives a place. */
int ah_clock_explain_deadlock(const struct clock_run *run, struct ah_error *err)
{
    uint32_t givers[AH_CLOCK_RINGS]; /* of each ring, the first unfinished */
    memset(givers, 0xff, sizeof givers);
    for (uint32_t op = (uint32_t)run->graph->n_ops; run->graph->gives && op-- > 0;)
        if (run->memory->state[op] != CLOCK_DONE && run->graph->gives[op] != AH_CLOCK_NO_RING)
            givers[run->graph->gives[op]] = op;
    uint32_t op = 0;
    while (run->memory->state[op] == CLOCK_DONE)
        op++;
    for (size_t i = 0; i < run->graph->n_ops; i++) {
        uint32_t blocker = clock_blocker(run, givers, op);
        if (blocker == AH_CLOCK_NO_OP)
            return clock_say_blocked(run, op, blocker, err);
        op = blocker;
    }
    uint32_t named = op;
    for (uint32_t at = clock_blocker(run, givers, op); at != op; at = clock_blocker(run, givers, at)) {
        bool lacks = clock_lacks_place(run, at);
        bool named_lacks = clock_lacks_place(run, named);
        if (lacks != named_lacks ? lacks : at < named)
            named = at;
    }
    return clock_say_blocked(run, named, clock_blocker(run, givers, named), err);
}
