/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of the schedule: an iteration as ops, items and edges, and its growing memory.
 *
 * An ITEM is a tile of an op; a lane runs its items one after another. Items of the compute lane are numbered first:
 * item p has position p. The items of other lanes follow, op by op, tile by tile.
 */
#ifndef AH_RUNTIME_SCHEDULE_SCHEDULE_INTERNAL_H
#define AH_RUNTIME_SCHEDULE_SCHEDULE_INTERNAL_H

#include "runtime/device/virtual/clock.h"
#include "runtime/schedule/names.h"
#include "runtime/schedule/schedule.h"

enum ah_ring { AH_RING_HOST_GRADIENTS, AH_RING_HOST_WEIGHTS, AH_RING_DEVICE_STATES, AH_RINGS };

/* A growing array. `items` is owned and has room for `room` elements. */
struct ah_grow {
    void *items;
    size_t room;
};

/* Makes room for `n` elements of `size` bytes; the contents are kept. AH_E_MEMORY. */
int ah_grow(struct ah_grow *grow, size_t n, size_t size, struct ah_error *err);

/* An iteration as ops, made from a choice (compile.c) or a plan (graph.c). */
struct ah_iteration {
    struct ah_plan_op *ops;
    size_t n_ops;
    uint32_t *compute; /* op by position */
    size_t positions;
    size_t n_blocks;
    uint64_t micro_batches;
    bool clip;
    bool is_part;
    bool adds_up;             /* gradients are added up, over micro-batches, pipelines or a split table */
    uint64_t slots[AH_RINGS]; /* slots of each ring; 0: no ring */
    uint32_t head;            /* position of the first head op */
    uint64_t weight_bytes;    /* per element of a weight, or of one micro-batch's gradient */
    uint64_t state_bytes;     /* per element of optimizer state */
};

/* A wait for item `from`, in the iteration `back` iterations earlier. */
struct ah_edge {
    uint32_t from;
    uint32_t back;
};

/* Items and edges of an iteration. */
struct ah_items {
    size_t n;
    uint32_t *op; /* by item */
    /* by item: the position after which the item is issued; for a compute item, its own position */
    uint32_t *issue;
    uint32_t *first_tile; /* by op, n_ops + 1: the index in `of_tile` of its first tile */
    uint32_t *of_tile;    /* the item of each tile, op by op */
    uint32_t *first_edge; /* by item, n + 1: the index in `edges` of its first edge */
    struct ah_edge *edges;
    uint8_t *takes; /* by item: a ring, or AH_CLOCK_NO_RING */
    uint8_t *gives;
    const uint32_t *update_of; /* by block: its device_adam op; UINT32_MAX: none */
};

/* The frozen order of the lanes other than compute: the items of one round. */
struct ah_orders {
    uint32_t *item[AH_PLAN_LANES];
    size_t n[AH_PLAN_LANES];
};

/* Storage of ah_items_build(). */
struct ah_items_memory {
    struct ah_grow op, issue, first_tile, of_tile, first_edge, edges, takes, gives;
    struct ah_grow pairs, by_block, next, due_first, due_next;
};

/* Derives items and edges by the rules of docs/planning.md. AH_E_DOCUMENT: the rules forbid an op, or require one that
 * is missing; the text says which. */
int ah_items_build(struct ah_items_memory *memory, const struct ah_iteration *iteration,
                   struct ah_items *ret_items, struct ah_error *err);
void ah_items_release(struct ah_items_memory *memory);

/* graph.c: read a plan document as an iteration, and its lists as orders of items. AH_E_DOCUMENT, AH_E_MEMORY. */
int ah_reading_iteration(const struct ah_plan *plan, struct ah_grow *compute_memory,
                         struct ah_iteration *ret_iteration, struct ah_error *err);
int ah_reading_orders(const struct ah_plan *plan, const struct ah_items *items, struct ah_grow *order_memory,
                      struct ah_grow *seen_memory, struct ah_orders *ret_orders, struct ah_error *err);

/* priority.c: sets a key for each item. The smaller its key, the earlier an item is needed. With each later iteration,
 * all keys grow by ah_priority_step(). `duration_us` is indexed by item. */
struct ah_priority_memory {
    struct ah_grow rank, chain, left, queue;
};
int ah_priority_set(struct ah_priority_memory *memory, const struct ah_iteration *iteration,
                    const struct ah_items *items, const double *duration_us, uint64_t *ret_priority,
                    struct ah_error *err);
uint64_t ah_priority_step(const struct ah_iteration *iteration);
void ah_priority_release(struct ah_priority_memory *memory);

/* Storage of runs on the clock. */
struct ah_dispatch_memory {
    struct ah_clock clock;
    struct ah_grow duration, lane, absent, first, dependency, back, priority; /* the graph */
    struct ah_share_demand demands[AH_PLAN_LANES];
    double capacity[AH_SHARE_RESOURCES];
    uint32_t slots[AH_RINGS];
    struct ah_priority_memory priority_memory;
    /* orders of a round and of a run; instances that a run must finish */
    struct ah_grow frozen, order, needed;
};

struct ah_sim_run {
    const struct ah_iteration *iteration;
    const struct ah_items *items;
    const struct ah_plan_sharing *sharing;
    const double *op_us; /* by op: the time of all its tiles */
    size_t iterations;   /* at least 3 */
    bool whole; /* run to the end; if false, only until the functions below have the numbers they need */
};

/* Sets what each lane demands of the shared resources, and their capacities, which are 1. */
void ah_dispatch_share(const struct ah_plan_sharing *sharing,
                       struct ah_share_demand ret_demands[AH_PLAN_LANES],
                       double ret_capacity[AH_SHARE_RESOURCES]);

/* Prepares runs of up to `iterations` iterations. */
int ah_dispatch_load(struct ah_dispatch_memory *memory, const struct ah_sim_run *run, size_t iterations,
                     struct ah_error *err);

/* Dispatches three loaded iterations by priority (or fifo) and freezes the order of one steady round. The period is
 * that of the dispatch, from the first head of iteration 1 to the first head of iteration 2. */
int ah_dispatch_freeze(struct ah_dispatch_memory *memory, const struct ah_sim_run *run,
                       enum ah_scheduling scheduling, struct ah_orders *ret_orders, double *ret_period_us,
                       struct ah_error *err);

/* Runs frozen orders after ah_dispatch_load(). The result is valid until the next run. In it, item i of iteration r is
 * op r * items->n + i. */
int ah_dispatch_run(struct ah_dispatch_memory *memory, const struct ah_sim_run *run,
                    const struct ah_orders *orders, struct ah_clock_result *ret_result, struct ah_error *err);

/* Runs frozen orders for AH_SCHEDULE_ITERATIONS or, if not all items recur after the same time by then, for
 * AH_SCHEDULE_ITERATIONS_UNSTEADY. Sets `run->iterations`. The result is as for ah_dispatch_run(). */
int ah_dispatch_run_steady(struct ah_dispatch_memory *memory, struct ah_sim_run *run,
                           const struct ah_orders *orders, struct ah_clock_result *ret_result,
                           struct ah_error *err);

/* Returns the time of an iteration: the longest time after which an item recurs in the last complete iteration. */
double ah_dispatch_period(const struct ah_sim_run *run, const struct ah_clock_result *result);

/* True if all items recur after the same time. */
bool ah_dispatch_steady(const struct ah_sim_run *run, const struct ah_clock_result *result);

/* Sets the time for which compute waits in the last complete iteration, by the lane that it waits for. */
void ah_dispatch_exposed(const struct ah_sim_run *run, const struct ah_clock_result *result,
                         double ret_exposed_us[AH_PLAN_LANES]);
void ah_dispatch_release(struct ah_dispatch_memory *memory);

/* Storage of ah_compile(). */
struct ah_compile_memory {
    struct ah_grow ops, last_position, compute, tensors, names, base, base_of, base_end_us, attached, count,
        blocks;
};

/* A choice compiled to an iteration and the tensors of the device arena. */
struct ah_compiled {
    struct ah_iteration iteration;
    struct ah_layout_tensor *tensors;
    struct ah_tensor_name *names;
    size_t n_tensors;
    struct ah_plan_staging staging;
    uint64_t pinned_bytes;
    uint64_t pageable_bytes;
};

int ah_compile(struct ah_compile_memory *memory, const struct ah_job *job, const struct ah_choice *choice,
               struct ah_compiled *ret_compiled, struct ah_error *err);
void ah_compile_release(struct ah_compile_memory *memory);

struct ah_schedule_memory {
    const struct ah_job *job;
    struct ah_compile_memory compile_memory;
    struct ah_items_memory items_memory;
    struct ah_dispatch_memory dispatch_memory;
    struct ah_layout layout;
    struct ah_compiled compiled;
    struct ah_items items;
    struct ah_orders orders;
    struct ah_score score;
    struct ah_grow op_us;
};

enum { AH_SCHEDULE_ITERATIONS = 4, AH_SCHEDULE_ITERATIONS_UNSTEADY = 10 };

/* Ends an evaluation: runs the frozen orders, for longer if they are not steady soon, and fills the score's times. */
int ah_schedule_run_frozen(struct ah_schedule_memory *m, struct ah_sim_run *run, struct ah_score *score,
                           struct ah_error *err);

#endif
