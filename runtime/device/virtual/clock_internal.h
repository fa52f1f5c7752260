/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the clock's files: the check of a graph (clock_check.c) that precedes its run (clock.c), what a run knows,
 * and why it stood still (clock_deadlock.c).
 */
#ifndef AH_RUNTIME_DEVICE_VIRTUAL_CLOCK_INTERNAL_H
#define AH_RUNTIME_DEVICE_VIRTUAL_CLOCK_INTERNAL_H

#include "runtime/device/virtual/clock.h"

#include <stdbool.h>

enum { CLOCK_SETS = 256, CLOCK_PROBES = 8 };

enum clock_state { CLOCK_WAITING, CLOCK_READY, CLOCK_DONE };

struct clock_heap_item {
    uint64_t key;
    uint32_t op;
};

/* The op that each lane runs, as one byte per lane: its demand row + 1, 0 where it asks for nothing. */
union clock_key {
    uint8_t lane[AH_CLOCK_LANES];
    uint64_t word[AH_CLOCK_LANES / sizeof(uint64_t)];
};

struct clock_set {
    union clock_key key; /* all zero: free */
    double speed[AH_CLOCK_LANES];
    uint8_t limit[AH_CLOCK_LANES];
};

/* Everything by op has room for max_ops. */
struct ah_clock_memory {
    size_t max_ops;
    struct ah_clock_span *spans;
    struct clock_heap_item *ready; /* heaps of each lane, where its ops lie in `order` */
    uint32_t *order;
    uint32_t *waiter;   /* first op in the list of those waiting for this one */
    uint32_t *next;     /* in that list */
    uint32_t *given;    /* ops that gave places back, ring by ring, as they did */
    size_t *looking_at; /* the dependency in whose list the op is, as index into the graph's array */
    uint8_t *state;     /* enum clock_state */
    struct clock_set sets[CLOCK_SETS];
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
    uint32_t op; /* running, or AH_CLOCK_NO_OP */
    uint8_t limit;
    bool was_slowed;          /* the running op, at some time */
    size_t first;             /* of its ops in `order` and of its heaps in `ready` */
    size_t taken;             /* ops started */
    uint8_t ring;             /* of which its ops take places */
    struct clock_heap free;   /* ready, and take no place */
    struct clock_heap takers; /* ready, and take one */
    double since;             /* when `remaining` was true */
    double remaining;
    double speed;
    double finish; /* since + remaining / speed */
    double busy;
    double slowed;
    double lost[AH_SHARE_RESOURCES]; /* by the running op to each resource; valid when was_slowed */
};

struct clock_run {
    const struct ah_clock_graph *graph;
    struct ah_clock_memory *memory;
    double now;
    size_t done;
    union clock_key key;
    bool key_changed;
    bool asks[AH_CLOCK_DEMANDS]; /* the row asks for something */
    struct clock_lane lanes[AH_CLOCK_LANES];
    struct clock_ring rings[AH_CLOCK_RINGS];
};

/* AH_E_USAGE names the first number out of range. Orders of frozen lanes are not looked at. */
int ah_clock_check(const struct ah_clock_graph *graph, struct ah_error *err);

/* AH_E_FAILED, about a run in which nothing runs and ops are left: names one of them and what it waits for. */
int ah_clock_explain_deadlock(const struct clock_run *run, struct ah_error *err);

#endif
