/* SPDX-License-Identifier: Apache-2.0
 *
 * Clock: a simulated device. It finds when each op of a graph would start and finish.
 *
 * LANES run one op at a time; different lanes run at the same time. An op starts when its dependencies have finished, a
 * slot is free for it (RINGS), and its lane takes it. The lane's rule says which op a free lane takes:
 *
 *   frozen     the next op of a given order; if that cannot start yet, the lane waits for it
 *   priority   the op with the smallest key among those that can start; ties by index
 *   fifo       the op that has been ready longest among those that can start; ties by index
 *
 * RINGS are slots in memory. An op may take a slot of a ring when it starts, and an op may give one back when it
 * finishes. In a ring with R slots, the n-th op to take one starts once n - R slots have been given back. In a priority
 * or fifo lane, other ops may overtake an op that waits for a slot. One lane has all ops that take from a ring, one
 * lane has all that give back to it, and a lane takes from one ring only.
 *
 * SHARING. An op takes `duration_us` at full speed. Its demand row says how much of each resource it then uses. share.h
 * gives speeds to the ops that run at the same time, again whenever the running set changes.
 *
 * AT EACH INSTANT, all ops that end at that time finish first. Then each lane, in ascending order, takes one op. An op
 * without duration finishes at once and frees its lane; then every lane may take an op again.
 *
 * The result of a priority or fifo run contains the order of every lane. A frozen run with that order gives the same
 * times, to the bit.
 *
 *     struct ah_clock clock = {0};
 *     struct ah_clock_result result;
 *     rc = ah_clock_reserve(&clock, &graph, 1, err);         // allocates
 *     rc = rc ? rc : ah_clock_run(&clock, &graph, &result, err);   // allocates nothing; call it as often as you like
 *     printf("%g us\n", result.end_us);
 *     ah_clock_release(&clock);
 *
 * ITERATIONS. A graph describes one iteration, and a COURSE runs it several times. Op i of iteration r is instance
 * r x n_ops + i. It has the op's lane, duration, ring and demand, and waits for its dependencies' instances of the same
 * iteration or of the one before (iteration -1 has none). Results, orders and errors refer to instances; with one
 * iteration, these are the ops.
 *
 *     rc = ah_clock_reserve(&clock, &graph, 3, err);
 *     rc = rc ? rc : ah_clock_load(&clock, &graph, err);                // checks and copies the graph
 *     rc = rc ? rc : ah_clock_repeat(&clock, &course, &result, err);    // as often as you like
 *
 * The same graph and course give the same bits. One thread at a time per clock.
 */
#ifndef AH_RUNTIME_DEVICE_VIRTUAL_CLOCK_H
#define AH_RUNTIME_DEVICE_VIRTUAL_CLOCK_H

#include "base/error.h"
#include "runtime/device/virtual/share.h"

#include <stddef.h>
#include <stdint.h>

enum { AH_CLOCK_LANES = AH_SHARE_PARTS, AH_CLOCK_DEMANDS = 255, AH_CLOCK_RINGS = 8, AH_CLOCK_NO_RING = 255 };

#define AH_CLOCK_NO_OP UINT32_MAX

enum ah_clock_rule { AH_CLOCK_FROZEN, AH_CLOCK_PRIORITY, AH_CLOCK_FIFO };

/* Bits for the iterations of a course in which an op is absent. An absent instance takes no time and no slot of a ring,
 * gives none back, and waits only for its turn in its lane. */
enum { AH_CLOCK_NOT_FIRST = 1, AH_CLOCK_NOT_LAST = 2 };

/* All pointers are borrowed until the last run of the graph. Arrays have an element per op unless stated otherwise. */
struct ah_clock_graph {
    size_t n_ops;
    size_t n_lanes;     /* <= AH_CLOCK_LANES */
    size_t n_demands;   /* <= AH_CLOCK_DEMANDS */
    size_t n_resources; /* <= AH_SHARE_RESOURCES */
    size_t n_rings;     /* <= AH_CLOCK_RINGS */

    const double *duration_us; /* at full speed; 0 to 1e15 */
    const uint32_t *lane;
    const uint32_t *demand;   /* row of `demands`; NULL: no op uses any resource */
    const uint64_t *priority; /* keys of priority lanes; NULL: all equal */

    /* Op i waits for dependency[dependency_first[i]] to dependency[dependency_first[i + 1] - 1]. */
    const size_t *dependency_first; /* n_ops + 1; NULL: no op waits for any */
    const uint32_t *dependency;
    const uint8_t
        *dependency_back;  /* 1: waits for an op of the previous iteration; 0: of the same one; NULL: all 0 */
    const uint8_t *absent; /* AH_CLOCK_NOT_... bits; NULL: all 0 */

    const uint8_t *takes; /* the ring from which the op takes a slot, or AH_CLOCK_NO_RING; NULL: none does */
    const uint8_t *gives; /* the ring to which it gives a slot back, or AH_CLOCK_NO_RING; NULL: none does */
    const uint32_t *ring_slots; /* slots by ring; all are free at the start */

    const enum ah_clock_rule *rule; /* rule of each lane for ah_clock_run(), as in a course */
    const uint32_t *order;          /* orders of frozen lanes for ah_clock_run(), as in a course */

    const struct ah_share_demand *demands;
    const double *capacity; /* by resource */
};

struct ah_clock_course {
    size_t iterations;              /* at least 1 */
    const enum ah_clock_rule *rule; /* by lane; NULL: all frozen */

    /* The instances of lane 0 in order, then those of lane 1, and so on. ah_clock_result.order has this form and may be
     * passed in, even to the same clock. Read only for frozen lanes; NULL: ascending. */
    const uint32_t *order;

    uint64_t priority_step; /* added to the keys from one iteration to the next */

    /* By op: how many of its instances, from the first on, must finish; NULL: all. The run ends once these have
     * finished, so spans of other instances only show what happened until then. */
    const uint32_t *needed;
};

struct ah_clock_span {
    double ready_us; /* when its dependencies had finished */
    double slot_us;  /* when the slot it took became free; 0: free from the start, or it takes no slot */
    double start_us; /* later than ready_us and slot_us if the lane was busy or had to run another op first */
    double finish_us;    /* later than start_us + duration_us if other ops slowed it */
    uint32_t waited_for; /* the dependency that finished last; AH_CLOCK_NO_OP: it has none */
    uint32_t gave_slot;  /* the op that gave the slot back; AH_CLOCK_NO_OP: slot_us is 0 */
    uint32_t slowed_by; /* the resource that cost the op the most time; AH_SHARE_NONE: it ran at full speed */
};

struct ah_clock_lane {
    size_t first;     /* index of the lane's first op in `order` */
    size_t n;         /* number of its ops that have started; all if all are needed */
    double busy_us;   /* time in which an op ran */
    double idle_us;   /* time in which no op ran; busy + idle = end (except for rounding) */
    double slowed_us; /* part of busy_us that full speed would have saved */
};

struct ah_clock_result {
    double end_us;                     /* when the last op finishes */
    const struct ah_clock_span *spans; /* by op; borrowed until the clock's next call */
    const uint32_t *order; /* the ops of each lane in the order in which they ran; borrowed like `spans` */
    struct ah_clock_lane lanes[AH_CLOCK_LANES];
};

struct ah_clock_memory;

struct ah_clock {
    struct ah_clock_memory *memory; /* owned; NULL before the first reserve */
};

/* Reserves memory for `iterations` iterations of graphs with at most as many ops and dependencies as `graph`, of which
 * nothing else is read. Never shrinks; unloads the loaded graph. AH_E_MEMORY leaves the clock unchanged. */
int ah_clock_reserve(struct ah_clock *clock, const struct ah_clock_graph *graph, size_t iterations,
                     struct ah_error *err);

/* Loads a graph for any number of courses; allocates nothing. AH_E_CAPACITY: more ops or dependencies than reserved.
 * AH_E_USAGE: a number is out of range; the text names its op and the range, and no graph is loaded. */
int ah_clock_load(struct ah_clock *clock, const struct ah_clock_graph *graph, struct ah_error *err);

/* Runs the loaded graph; allocates nothing. AH_E_CAPACITY: more iterations than reserved. AH_E_USAGE: no graph, no
 * iteration, or a frozen order that does not have each op once. AH_E_FAILED: a deadlock of dependencies, frozen orders
 * and slots of rings; the text names one of the ops, and what it waits for. */
int ah_clock_repeat(struct ah_clock *clock, const struct ah_clock_course *course,
                    struct ah_clock_result *ret_result, struct ah_error *err);

/* Loads the graph and runs one iteration of it. */
int ah_clock_run(struct ah_clock *clock, const struct ah_clock_graph *graph,
                 struct ah_clock_result *ret_result, struct ah_error *err);

/* Frees the memory; the clock is empty and usable again. */
void ah_clock_release(struct ah_clock *clock);

#endif
