/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedule: turns a config for every block into ops, memory, the order of every lane, and the time of an iteration.
 * Pure: no device, no threads. The rules are in docs/planning.md; this is their only implementation.
 *
 *     compile.c   choice -> ops with compute positions, and tensors with lifetimes over them
 *     layout.c    lifetimes -> offsets and peak
 *     items.c     ops -> which tile waits for which, for both a choice and a plan document
 *     dispatch.c  edges -> a frozen order of every lane, and its steady period on the virtual clock
 *     emit_plan.c      all of this -> the plan document
 *
 *     struct ah_schedule schedule = {0};
 *     rc = ah_schedule_init(&schedule, &job, err);
 *     rc = ah_schedule_evaluate(&schedule, &choice, &score, err);   // as often as you like
 *     rc = ah_schedule_emit(&schedule, &choice, arena, plan, err);  // the last evaluated choice, as a document
 *     ah_schedule_release(&schedule);
 *
 * The same choice gives the same bits. One thread at a time per schedule.
 */
#ifndef AH_RUNTIME_SCHEDULE_SCHEDULE_H
#define AH_RUNTIME_SCHEDULE_SCHEDULE_H

#include "base/arena.h"
#include "base/error.h"
#include "runtime/schedule/costs.h"
#include "runtime/schedule/job.h"
#include "runtime/schedule/layout.h"

#include <stdbool.h>
#include <stdint.h>

/* The choices for one block, a byte each, so that configs compare and copy as bytes. */
struct ah_config {
    uint8_t activations; /* enum ah_activations */
    uint8_t weights;     /* enum ah_weights */
    uint8_t optimizer;   /* enum ah_optimizer */
    uint8_t accumulator; /* enum ah_accumulator: none with one micro-batch or without gradients */
};

enum { AH_CONFIGS_MAX = 32 };

/* Every valid config of a block of this group, in a fixed order (device before host, keep before recompute). The
 * embedding, the head and groups without backward only `keep`; frozen groups have optimizer none. Returns how many. */
size_t ah_configs(const struct ah_job *job, const struct ah_job_group *group,
                  struct ah_config ret_configs[AH_CONFIGS_MAX]);

/* The choices that hold for all blocks. */
struct ah_knobs {
    uint64_t tile_elements; /* a multiple of AH_PLAN_TILE_UNIT */
    enum ah_micro_order micro_order;
    uint32_t
        fetch_ahead; /* a fetch may begin this many compute positions early; 0: only when its user is next */
    uint32_t
        send_behind; /* compute positions for which a gradient may stay on the device after its backward; 0:
                             compute waits for the copy */
    uint32_t host_gradient_tiles; /* slots of the ring; 0: gradients move as whole vectors */
    uint32_t host_weight_tiles;
    uint32_t device_state_tiles; /* at least 1 where a block's optimizer is streamed */
    bool updates_after_backward; /* updates begin only after the last backward */
    bool step_ends;              /* an iteration begins only when the previous iteration is completely done */
    enum ah_scheduling scheduling;
};

struct ah_choice {
    const struct ah_config *configs; /* by block */
    struct ah_knobs knobs;
    const struct ah_costs *costs;
    const double
        *base_us; /* (optional) times of forward, backward and sends, in compute order; replace costs */
    double
        enough_us; /* (optional) if a dispatch's period is over 1 % longer, it counts, and its order is not run */
    uint64_t enough_bytes; /* (optional) a layout that needs no more than this is not improved */
};

enum ah_waited_lane { AH_WAIT_H2D, AH_WAIT_D2H, AH_WAIT_HOST, AH_WAIT_LANES };

struct ah_score {
    double period_us;
    double busy_us[4];                /* by enum ah_plan_lane: work of an iteration, slowed by sharing */
    double work_us[4];                /* the same at full speed */
    double exposed_us[AH_WAIT_LANES]; /* how long compute waits for each lane in an iteration */
    struct ah_layout_result device;
    uint64_t pinned_bytes;
    uint64_t pageable_bytes;
    uint64_t link_bytes; /* both ways, in an iteration */
    uint64_t tiles;      /* of all ops of an iteration: simulation time grows with them */
};

struct ah_schedule_memory;

struct ah_schedule {
    struct ah_schedule_memory *memory; /* owned; NULL before init */
};

/* Starts with empty memory for choices of this job, which stays borrowed. Evaluating grows it when a choice needs more
 * room than any before. AH_E_MEMORY. */
int ah_schedule_init(struct ah_schedule *schedule, const struct ah_job *job, struct ah_error *err);

/* Fills the part of the score that needs no order. Host bytes, link bytes and work of the lanes are exact; the device's
 * live bytes are a lower bound of its peak. Other times are 0. */
int ah_schedule_measure(struct ah_schedule *schedule, const struct ah_choice *choice,
                        struct ah_score *ret_score, struct ah_error *err);

/* Fills the whole score. AH_E_FAILED: there is no plan, because rings are so small that the lanes deadlock. */
int ah_schedule_evaluate(struct ah_schedule *schedule, const struct ah_choice *choice,
                         struct ah_score *ret_score, struct ah_error *err);

/* Fills blocks, staging, sharing, threads, memory (without capacities), time, ops, lanes and arena of `ret_plan` from
 * the choice that was evaluated last; texts and arrays in `arena`. */
int ah_schedule_emit(struct ah_schedule *schedule, const struct ah_choice *choice, struct ah_arena *arena,
                     struct ah_plan *ret_plan, struct ah_error *err);

void ah_schedule_release(struct ah_schedule *schedule);

#endif
