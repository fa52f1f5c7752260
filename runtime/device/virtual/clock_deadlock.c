/* SPDX-License-Identifier: Apache-2.0
 *
 * Explains a deadlock: nothing runs, but ops remain. Each of them waits for a dependency, for an earlier op of its
 * frozen lane, or for a slot of a ring.
 */
#include "runtime/device/virtual/clock_internal.h"

#include <string.h>

/* Marks the finished ops. In a deadlock, every op that started has finished. */
static void clock_mark_done(const struct clock_run *run)
{
    for (size_t l = 0; l < run->n_lanes; l++)
        for (size_t k = 0; k < run->lanes[l].taken; k++)
            run->memory->waiting[run->memory->order[run->lanes[l].first + k]] = CLOCK_DONE;
}

static bool clock_is_done(const struct clock_run *run, uint32_t at)
{
    return run->memory->waiting[at] == CLOCK_DONE;
}

static const struct clock_lane *clock_lane_of(const struct clock_run *run, uint32_t at)
{
    return &run->lanes[run->ops[at % run->n_ops].lane];
}

/* True if the unfinished op waits for a slot of a ring. */
static bool clock_lacks_slot(const struct clock_run *run, uint32_t at)
{
    const struct clock_lane *lane = clock_lane_of(run, at);
    return clock_is_ready(run->memory, at) && (lane->rule != AH_CLOCK_FROZEN || lane->next == at);
}

/* Returns the first dependency that never finished. */
static uint32_t clock_unfinished(const struct clock_run *run, uint32_t at)
{
    const struct ah_clock_graph *graph = &run->memory->graph;
    uint32_t op = at % run->n_ops;
    for (size_t i = graph->dependency_first[op]; i < graph->dependency_first[op + 1]; i++) {
        uint32_t back = graph->dependency_back && graph->dependency_back[i] ? run->n_ops : 0;
        uint32_t of = at - op + graph->dependency[i];
        if (of >= back && !clock_is_done(run, of - back))
            return of - back;
    }
    return AH_CLOCK_NO_OP;
}

/* Returns the op for which unfinished op `at` waits. If `at` lacks a slot, that is the op of its ring in `givers`. */
static uint32_t clock_blocker(const struct clock_run *run, const uint32_t *givers, uint32_t at)
{
    if (!clock_is_ready(run->memory, at))
        return clock_unfinished(run, at);
    return clock_lacks_slot(run, at) ? givers[run->ops[at % run->n_ops].takes] : clock_lane_of(run, at)->next;
}

static int clock_say_blocked(const struct clock_run *run, uint32_t op, uint32_t blocker, struct ah_error *err)
{
    uint32_t lane = run->ops[op % run->n_ops].lane;
    uint32_t blocking_lane = blocker == AH_CLOCK_NO_OP ? lane : run->ops[blocker % run->n_ops].lane;
    if (!clock_lacks_slot(run, op))
        return ah_error_set(
            err, AH_E_FAILED,
            "op %u on lane %u can never start: it waits for op %u on lane %u, which in turn waits for op "
            "%u; dependencies, frozen orders of lanes and slots of rings contain a cycle",
            op, lane, blocker, blocking_lane, op);
    uint8_t ring = run->ops[op % run->n_ops].takes;
    size_t slots = run->rings[ring].slots;
    if (blocker == AH_CLOCK_NO_OP)
        return ah_error_set(err, AH_E_FAILED,
                            "op %u on lane %u can never start: it waits for one of the %zu slots of ring %u, "
                            "but no remaining op gives one back",
                            op, lane, slots, ring);
    return ah_error_set(err, AH_E_FAILED,
                        "op %u on lane %u can never start: it waits for one of the %zu slots of ring %u, "
                        "which op %u on lane "
                        "%u would give back, which in turn waits for op %u; the ring needs more slots",
                        op, lane, slots, ring, blocker, blocking_lane, op);
}

/* Sets the error for a deadlock. Following blockers from any unfinished op ends in a cycle, or at an op for which no
 * slot will be free. The error names that op, or the lowest op of the cycle, if possible one that lacks a slot. */
int ah_clock_explain_deadlock(const struct clock_run *run, struct ah_error *err)
{
    uint32_t givers[AH_CLOCK_RINGS]; /* for each ring, the first unfinished op that gives a slot back */
    memset(givers, 0xff, sizeof givers);
    clock_mark_done(run);
    for (uint32_t at = run->n_instances; at-- > 0;) {
        uint8_t ring = run->ops[at % run->n_ops].gives;
        if (ring != AH_CLOCK_NO_RING && !clock_is_done(run, at) && !clock_is_absent(run->memory, at))
            givers[ring] = at;
    }
    uint32_t op = 0;
    while (clock_is_done(run, op))
        op++;
    for (size_t i = 0; i < run->n_instances; i++) {
        uint32_t blocker = clock_blocker(run, givers, op);
        if (blocker == AH_CLOCK_NO_OP)
            return clock_say_blocked(run, op, blocker, err);
        op = blocker;
    }
    uint32_t named = op;
    for (uint32_t at = clock_blocker(run, givers, op); at != op; at = clock_blocker(run, givers, at)) {
        bool lacks = clock_lacks_slot(run, at);
        bool named_lacks = clock_lacks_slot(run, named);
        if (lacks != named_lacks ? lacks : at < named)
            named = at;
    }
    return clock_say_blocked(run, named, clock_blocker(run, givers, named), err);
}
