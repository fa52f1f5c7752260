/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the replay's files: how items affect other ranks (cluster_replay_marks.c), and stages that play their
 * programs (cluster_replay_stage.c). Messages between stages keep their order. So a count over all steps identifies
 * each: the k-th output, gradient or freed slot.
 */
#ifndef AH_PLANNER_CLUSTER_SIM_CLUSTER_REPLAY_INTERNAL_H
#define AH_PLANNER_CLUSTER_SIM_CLUSTER_REPLAY_INTERNAL_H

#include "base/arena.h"
#include "planner/cluster/sim/cluster_replay.h"
#include "planner/cluster/sim/event_tree.h"
#include "planner/cluster/sim/nics.h"
#include "runtime/schedule/graph.h"
#include "runtime/schedule/messages.h"

enum { REPLAY_SETS = 1 << AH_PLAN_LANES, REPLAY_WAITING = 2, REPLAY_NONE = UINT32_MAX };

/* How an item affects other ranks, as bits. */
enum {
    MARK_INPUT = 1,        /* waits for the output of the previous stage */
    MARK_GRADIENT = 2,     /* waits for the next stage's gradient, or its word (messages.h) */
    MARK_SENDS_OUTPUT = 4, /* the output has arrived when the item ends */
    MARK_SENDS_GRADIENT = 8,
    MARK_SLOT = 16,        /* waits for a free slot at the previous stage */
    MARK_FREES_SLOT = 32,  /* last use of a gradient received from another stage */
    MARK_BEFORE_GATE = 64, /* the gate waits for it */
    MARK_BEHIND_GATE = 128,
    MARK_ENDS_STEP = 256, /* last item of the compute lane; the next step's inputs may arrive after it */
    MARK_NEXT_STEP = 512  /* work for the next step */
};

struct rank_marks {
    const struct ah_plan *plan;
    struct ah_graph graph;
    struct ah_messages messages;
    double *duration_us; /* by item, at full speed */
    uint16_t *marks;     /* by item */
    uint32_t *
        first_final; /* by item: the first block whose gradients become final at its end; REPLAY_NONE: none */
    uint32_t *next_final; /* by block: the next block that becomes final at the same item */
    uint64_t before_gate; /* number of items of a step before the gate */
    uint64_t counted;     /* number of items that belong to a step */
    uint64_t micro_batches;
    bool frees_slots;
    double speeds[REPLAY_SETS][AH_PLAN_LANES]; /* by set of working lanes */
};

struct replay_lane {
    size_t at;      /* position in the order of the lane */
    uint32_t round; /* pass over the order; round 0 is before the first step */
    bool done, works, held;
    uint32_t item, step; /* at `at` */
    uint32_t waits_for;  /* this item must have ended ... */
    uint32_t times;      /* ... this many times before the lane's item can start */
    double start_us, since_us, left_us, speed, end_us;
};

struct stage_state {
    const struct rank_marks *rank;
    const struct ah_cluster_plan_stage *stage;
    size_t node; /* a node has the index of its first stage */
    struct replay_lane lanes[AH_PLAN_LANES];
    uint32_t *ended; /* by item: how often it has ended */
    uint64_t taken[AH_GRAPH_RINGS], given[AH_GRAPH_RINGS];
    uint64_t outputs, gradients, slots; /* counts of sent outputs, sent gradients, freed slots */
    uint32_t *segments;                 /* its segments, in the order of the plan */
    size_t n_segments, front;           /* front: the next segment to sum */
};

struct sum {
    const struct ah_cluster_plan_segment *segment;
    uint32_t *owners; /* stages */
    size_t n_owners;
    double volume_bytes; /* bytes through each owner's NIC; 0: all owners are in one node */
    uint64_t left[AH_CLUSTER_REPLAY_STEPS]; /* number of its owners' blocks whose gradients are not final */
    uint32_t step;
    bool works;
    double start_us, end_us;
};

/* Events are numbered in this order: ends of stages, ends of sums, starts of stages, starts of sums. */
struct cluster_replay {
    const struct ah_cluster_plan *plan;
    const struct ah_cluster_replay_listener *listener;
    struct ah_arena *arena;
    struct rank_marks *programs;
    struct stage_state *stages;
    size_t n_stages;
    struct sum *sums;
    size_t n_sums;
    uint32_t *sum_of; /* by block of the model: index of its sum; REPLAY_NONE: none */
    uint32_t tied;    /* index of the tied table's sum; REPLAY_NONE: none */
    double boundary_bytes;
    struct ah_nics nics;
    struct ah_event_tree events;
    double now_us;
    uint64_t gate[AH_CLUSTER_REPLAY_STEPS]; /* by step: items and sums that the gate still waits for */
    double ends_us[AH_CLUSTER_REPLAY_STEPS];
    uint64_t left; /* items and sums of all steps that are not done */
    uint64_t held;
};

/* Makes the marks of a program, in `arena` (cluster_replay_marks.c). AH_E_DOCUMENT, AH_E_MEMORY. */
int ah_cluster_replay_read(const struct ah_plan *program, struct ah_arena *arena,
                           struct rank_marks *ret_marks, struct ah_error *err);

/* Begins a stage, ends the items that end at `now_us`, and starts those that can start (cluster_replay_stage.c). */
int ah_cluster_replay_begin(struct cluster_replay *c, size_t state, struct ah_error *err);
void ah_cluster_replay_end_items(struct cluster_replay *c, size_t state);
void ah_cluster_replay_start_items(struct cluster_replay *c, size_t state);

/* Tells the loop that a stage may be able to start something (cluster_replay.c). */
void ah_cluster_replay_wake(struct cluster_replay *c, size_t state);
void ah_cluster_replay_gradient_is_final(struct cluster_replay *c, size_t state, uint32_t block,
                                         uint32_t step);
void ah_cluster_replay_is_before_gate(struct cluster_replay *c,
                                      uint32_t step); /* an item or sum before the gate has ended */

#endif
