/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the clock's files, which check a graph (clock_check.c), load it (clock_load.c), run it (clock.c), and
 * explain a deadlock (clock_deadlock.c).
 */
#ifndef AH_RUNTIME_DEVICE_VIRTUAL_CLOCK_INTERNAL_H
#define AH_RUNTIME_DEVICE_VIRTUAL_CLOCK_INTERNAL_H

#include "runtime/device/virtual/clock.h"

#include <stdbool.h>

enum { CLOCK_SETS = 256, CLOCK_PROBES = 8 };

/* Special values of `waiting`, the number of an instance's unfinished dependencies. An absent instance waits for none.
 * Its count starts at AWAY, which is so high that counting down never clears the ABSENT bit. */
#define CLOCK_ABSENT UINT32_C(0x80000000)
#define CLOCK_AWAY   UINT32_MAX
#define CLOCK_DONE   UINT32_C(0x7fffffff) /* the instance has finished; set only to explain a deadlock */

struct clock_heap_item {
    uint64_t key;
    uint32_t at; /* instance */
    uint32_t op;
};

struct clock_op {
    double duration;
    uint64_t priority;
    uint32_t first_follower; /* index of its first follower in `followers`; the next op's index is the end */
    uint32_t needed;         /* the running course needs the instances of the op below this number */
    uint8_t lane;
    uint8_t row; /* its demand row + 1; 0: the op uses no resource */
    uint8_t takes, gives;
    uint8_t absent;
};

/* The key of a running set: a byte per lane, lane 0 lowest, with the `row` of its running op; 0: no op or resource. */
enum { CLOCK_KEY_LANES = 8, CLOCK_KEY_BITS = 8 };
struct clock_key {
    uint64_t word[AH_CLOCK_LANES / CLOCK_KEY_LANES];
};

struct clock_speeds {
    double speed[AH_CLOCK_LANES];
    uint8_t limit[AH_CLOCK_LANES];
};

struct ah_clock_memory {
    size_t max_ops, max_dependencies, max_instances;
    struct ah_clock_graph graph; /* the loaded graph; n_ops is 0 if no graph is loaded, or an empty one */
    bool loaded;

    /* By op. */
    struct clock_op *ops; /* n_ops + 1 */
    uint32_t *needs;      /* number of dependencies */
    uint32_t
        *needs_first; /* number of dependencies in the same iteration, the only ones of the first iteration */
    uint32_t *early;  /* n_early ops that wait for nothing, or are absent, in some iteration */
    size_t n_early;
    uint32_t *followers; /* by dependency: the op that waits, + n_ops if it waits in the next iteration */

    /* By instance. */
    struct ah_clock_span *spans;
    struct clock_heap_item *ready; /* heaps of each lane, from the index of its ops in `order` on */
    uint32_t *order;
    uint32_t *given;   /* ops that gave slots back, by ring, then by time */
    uint32_t *waiting; /* see CLOCK_ABSENT */

    struct clock_key keys[CLOCK_SETS]; /* all zero: free */
    struct clock_speeds sets[CLOCK_SETS];
};

/* Ready ops of a priority or fifo lane. */
struct clock_heap {
    struct clock_heap_item *items;
    size_t n;
};

struct clock_ring {
    size_t slots;
    size_t taken; /* number of slots taken so far */
    size_t given; /* number of slots given back so far */
    size_t first; /* index of the ring's ops in `given` */
};

struct clock_lane {
    enum ah_clock_rule rule;
    uint32_t at, op; /* the running instance and its op */
    uint32_t next,
        next_op;        /* frozen lanes: the next instance to run, and its op; AH_CLOCK_NO_OP: none remains */
    uint32_t iteration; /* first instance of the iteration of `next` */
    size_t first;       /* index of its ops in `order` and of its heaps in `ready` */
    size_t n;           /* number of its ops */
    size_t taken;       /* number of ops started */
    uint8_t ring;       /* the ring from which its ops take slots */
    uint8_t limit;
    uint8_t row;              /* row of the running op; 0: no op runs, or it uses no resource */
    bool was_slowed;          /* other ops have slowed the running op */
    struct clock_heap free;   /* ready ops that take no slot */
    struct clock_heap takers; /* ready ops that take a slot */
    double since;             /* the time at which `remaining` remained */
    double remaining;
    double speed;
    double busy;
    double slowed;
    double lost[AH_SHARE_RESOURCES]; /* time that each resource has cost the running op */
};

struct clock_run {
    const struct ah_clock_course *course;
    struct ah_clock_memory *memory;
    const struct clock_op *ops;
    uint32_t n_ops;       /* ops per iteration */
    uint32_t n_instances; /* instances of all iterations */
    size_t n_lanes;
    double now;
    size_t left; /* number of needed instances that have not finished */
    bool fresh;  /* an op with demands has started since speeds were computed */
    struct clock_key key;
    struct clock_key set_key; /* key of `set`, the speeds looked up last */
    const struct clock_speeds *set;
    double finish[AH_CLOCK_LANES]; /* since + remaining / speed; DBL_MAX: the lane is idle */
    struct clock_lane lanes[AH_CLOCK_LANES];
    struct clock_ring rings[AH_CLOCK_RINGS];
};

static inline bool clock_is_absent(const struct ah_clock_memory *memory, uint32_t at)
{
    return memory->waiting[at] & CLOCK_ABSENT;
}

/* True if all dependencies have finished. */
static inline bool clock_is_ready(const struct ah_clock_memory *memory, uint32_t at)
{
    return !memory->waiting[at] || clock_is_absent(memory, at);
}

/* Returns the ring from which an instance takes a slot, or AH_CLOCK_NO_RING. */
static inline uint8_t clock_takes(const struct ah_clock_memory *memory, uint32_t at, uint32_t op)
{
    return clock_is_absent(memory, at) ? AH_CLOCK_NO_RING : memory->ops[op].takes;
}

/* Checks all of a graph but the orders of frozen lanes. AH_E_USAGE names the first number out of range. */
int ah_clock_check(const struct ah_clock_graph *graph, struct ah_error *err);

/* Sets AH_E_FAILED for a run in which nothing runs although ops remain; names one and what it waits for. */
int ah_clock_explain_deadlock(const struct clock_run *run, struct ah_error *err);

#endif
