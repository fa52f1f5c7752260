/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedule: turns a config for every block into ops, memory, the order of every lane, and the time of an iteration. It
 * uses no device and no threads. The rules are in docs/planning.md; this is their only implementation.
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

/* The choices for one block. Each is one byte, so configs can be compared and copied as bytes. */
struct ah_config {
    uint8_t activations; /* enum ah_activations */
    uint8_t weights;     /* enum ah_weights */
    uint8_t optimizer;   /* enum ah_optimizer */
    uint8_t accumulator; /* enum ah_accumulator; none with one micro-batch or without gradients */
};

enum { AH_CONFIGS_MAX = 32 };

/* Lists every valid config of a block of this group in a fixed order: device before host, keep before recompute. The
 * embedding, the head and groups without backward only `keep`; frozen groups have optimizer none. Returns how many. */
size_t ah_configs(const struct ah_job *job, const struct ah_job_group *group,
                  struct ah_config ret_configs[AH_CONFIGS_MAX]);

/* The choices that hold for all blocks. */
struct ah_knobs {
    uint64_t tile_elements; /* a multiple of AH_PLAN_TILE_UNIT */
    enum ah_micro_order micro_order;
    /* How many compute positions early a fetch may begin; 0: it begins when the op that needs it is next. */
    uint32_t fetch_ahead;
    /* Compute positions for which a gradient may outlast its backward; 0: compute waits for the copy. */
    uint32_t send_behind;
    uint32_t host_gradient_tiles; /* slots of the ring; 0: gradients are sent as whole vectors */
    uint32_t host_weight_tiles;
    uint32_t device_state_tiles; /* at least 1 where a block's optimizer is streamed */
    bool updates_after_backward; /* updates begin only after the last backward */
    bool step_ends;              /* an iteration begins only after the previous one is completely done */
    enum ah_scheduling scheduling;
};

struct ah_choice {
    const struct ah_config *configs; /* by block */
    struct ah_knobs knobs;
    const struct ah_costs *costs;
    /* (optional) Times of forward, backward and sends, in compute order. They replace those of `costs`. */
    const double *base_us;
    /* (optional) If a dispatch's period is over 1 % longer than this, it is the score, and the order is not run. */
    double enough_us;
    uint64_t enough_bytes; /* (optional) a layout whose peak is at most this is not improved */
};

struct ah_score {
    double period_us;
    double busy_us[AH_PLAN_LANES]; /* time of a lane's work in an iteration, slowed by sharing */
    double work_us[AH_PLAN_LANES]; /* the same at full speed */
    double
        exposed_us[AH_PLAN_LANES]; /* time that compute waits for each lane in an iteration; 0 for compute */
    struct ah_layout_result device;
    uint64_t pinned_bytes;
    uint64_t pageable_bytes;
    uint64_t link_bytes; /* sum of both directions, in an iteration */
    /* number of tiles of all ops of an iteration; the more there are, the longer a simulation takes */
    uint64_t tiles;
};

struct ah_schedule_memory;

struct ah_schedule {
    struct ah_schedule_memory *memory; /* owned; NULL before init */
};

/* Prepares for choices of this job, which stays borrowed. Memory grows when an evaluated choice needs more than any
 * before. AH_E_MEMORY. */
int ah_schedule_init(struct ah_schedule *schedule, const struct ah_job *job, struct ah_error *err);

/* Fills the parts of the score that need no order. Host bytes, link bytes and the lanes' work are exact; the device's
 * live bytes are a lower bound of its peak. Other times are 0. */
int ah_schedule_measure(struct ah_schedule *schedule, const struct ah_choice *choice,
                        struct ah_score *ret_score, struct ah_error *err);

/* Fills the whole score. AH_E_FAILED: no plan exists, because rings are so small that the lanes deadlock. */
int ah_schedule_evaluate(struct ah_schedule *schedule, const struct ah_choice *choice,
                         struct ah_score *ret_score, struct ah_error *err);

/* Fills blocks, staging, sharing, threads, memory (without capacities), time, ops, lanes and arena of `ret_plan` from
 * the choice evaluated last. Texts and arrays are in `arena`. */
int ah_schedule_emit(struct ah_schedule *schedule, const struct ah_choice *choice, struct ah_arena *arena,
                     struct ah_plan *ret_plan, struct ah_error *err);

void ah_schedule_release(struct ah_schedule *schedule);

#endif
