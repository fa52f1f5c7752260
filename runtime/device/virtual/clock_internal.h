/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the clock's files: the check of a graph (clock_check.c), the graph as it is taken in (clock_load.c), a run
 * (clock.c), and why it stood still (clock_deadlock.c).
 */
#ifndef AH_RUNTIME_DEVICE_VIRTUAL_CLOCK_INTERNAL_H
#define AH_RUNTIME_DEVICE_VIRTUAL_CLOCK_INTERNAL_H

#include "runtime/device/virtual/clock.h"

#include <stdbool.h>

enum { CLOCK_SETS = 256, CLOCK_PROBES = 8 };

/* How many dependencies of an instance have not finished. An absent one waits for none: what its op has is counted down
 * from AWAY, and never so far that the bit goes. */
#define CLOCK_ABSENT UINT32_C(0x80000000)
#define CLOCK_AWAY   UINT32_MAX
#define CLOCK_DONE   UINT32_C(0x7fffffff) /* set only where a deadlock is explained */

struct clock_heap_item {
    uint64_t key;
    uint32_t at; /* instance */
    uint32_t op;
};

/* An op as a run needs it. */
struct clock_op {
    double duration;
    uint64_t priority;
    uint32_t first_follower; /* into `followers`; the next op's is the end */
    uint32_t needed;         /* of the course that runs: the instances below this number are needed */
    uint8_t lane;
    uint8_t row; /* of demands + 1; 0: it asks for nothing */
    uint8_t takes, gives;
    uint8_t absent;
};

/* The row that each lane's running op asks by, 0 where it asks for nothing: a byte each, lane 0 lowest. */
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
    struct ah_clock_graph graph; /* loaded; n_ops is 0 where none is, or an empty one */
    bool loaded;

    /* By op. */
    struct clock_op *ops;  /* n_ops + 1 */
    uint32_t *needs;       /* how many dependencies it has */
    uint32_t *needs_first; /* the same in the first iteration: those of its own iteration */
    uint32_t *early;       /* n_early ops that wait for nothing in some iteration, or are absent */
    size_t n_early;
    uint32_t *followers; /* by dependency: its instance, in an iteration 0; in the next: op + n_ops */

    /* By instance. */
    struct ah_clock_span *spans;
    struct clock_heap_item *ready; /* heaps of each lane, where its ops lie in `order` */
    uint32_t *order;
    uint32_t *given;   /* ops that gave places back, ring by ring, as they did */
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
    size_t places;
    size_t taken; /* so far, by ops that started */
    size_t given; /* so far, by ops that finished */
    size_t first; /* of its ops in `given` */
};

struct clock_lane {
    enum ah_clock_rule rule;
    uint32_t at, op;        /* running */
    uint32_t next, next_op; /* of a frozen lane; AH_CLOCK_NO_OP: none is left */
    uint32_t iteration;     /* of `next`: its first instance */
    size_t first;           /* of its ops in `order` and of its heaps in `ready` */
    size_t n;               /* its ops */
    size_t taken;           /* ops started */
    uint8_t ring;           /* of which its ops take places */
    uint8_t limit;
    uint8_t row;              /* of the running op; 0: none runs, or it asks for nothing */
    bool was_slowed;          /* the running op, at some time */
    struct clock_heap free;   /* ready, and take no place */
    struct clock_heap takers; /* ready, and take one */
    double since;             /* when `remaining` was true */
    double remaining;
    double speed;
    double busy;
    double slowed;
    double lost[AH_SHARE_RESOURCES]; /* by the running op to each resource */
};

struct clock_run {
    const struct ah_clock_course *course;
    struct ah_clock_memory *memory;
    const struct clock_op *ops;
    uint32_t n_ops;       /* of an iteration */
    uint32_t n_instances; /* of all */
    size_t n_lanes;
    double now;
    size_t left; /* instances that are needed and have not finished */
    bool fresh;  /* an op that asks for something started since speeds were shared */
    struct clock_key key;
    struct clock_key set_key; /* of the speeds that were looked up last */
    const struct clock_speeds *set;
    double finish[AH_CLOCK_LANES]; /* since + remaining / speed; DBL_MAX: the lane is idle */
    struct clock_lane lanes[AH_CLOCK_LANES];
    struct clock_ring rings[AH_CLOCK_RINGS];
};

static inline bool clock_is_absent(const struct ah_clock_memory *memory, uint32_t at)
{
    return memory->waiting[at] & CLOCK_ABSENT;
}

/* Have its dependencies finished? */
static inline bool clock_is_ready(const struct ah_clock_memory *memory, uint32_t at)
{
    return !memory->waiting[at] || clock_is_absent(memory, at);
}

/* The ring that an instance takes a place of. */
static inline uint8_t clock_takes(const struct ah_clock_memory *memory, uint32_t at, uint32_t op)
{
    return clock_is_absent(memory, at) ? AH_CLOCK_NO_RING : memory->ops[op].takes;
}

/* AH_E_USAGE names the first number out of range. Orders of frozen lanes are not looked at. */
int ah_clock_check(const struct ah_clock_graph *graph, struct ah_error *err);

/* AH_E_FAILED, about a run in which nothing runs and ops are left: names one of them and what it waits for. */
int ah_clock_explain_deadlock(const struct clock_run *run, struct ah_error *err);

#endif
