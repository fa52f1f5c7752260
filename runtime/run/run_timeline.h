/* SPDX-License-Identifier: Apache-2.0
 *
 * Run timeline: keeps the work of the lanes in a few steps of a run, for traces, and measures how these steps spent
 * their time. If the device records its hardware, kernels and copies are kept, too.
 *
 *     rc = ah_run_timeline_new(&timeline, plan, &(struct ah_run_timeline_options){.first_step = 3, .steps = 4}, err);
 *     ah_run_timeline_record(timeline, device, 0);
 *     ... observer's op: ah_run_timeline_op(timeline, record); its step: ah_run_timeline_step(timeline, step);
 *     why = ah_run_timeline_end(timeline);
 *     rc = ah_run_timeline_overlap(timeline, &arena, &end.overlap, err);
 *     rc = ah_run_timeline_cut(timeline, &arena, &measured, err);
 *     ah_run_timeline_free(timeline);
 *
 * ah_run_timeline_new() allocates all memory, ah_run_timeline_op() none. Ranks of a cluster plan keep records instead
 * (runtime/train/recorded.h).
 */
#ifndef AH_RUN_RUN_TIMELINE_H
#define AH_RUN_RUN_TIMELINE_H

#include "base/arena.h"
#include "runtime/device/device.h"
#include "runtime/train/trainer.h"
#include "schemas/plan.h"
#include "schemas/runlog.h"

#include <stdint.h>

/* A piece of a lane's work. Times are in ns since the measured timeline's zero. */
struct ah_timeline_slice {
    size_t op; /* index in the plan; SIZE_MAX: the work of no op, such as copying a batch */
    uint64_t tile;
    uint64_t step; /* the step of its iteration */
    enum ah_plan_lane lane;
    uint64_t first_ticket, last_ticket; /* tickets of its ops */
    int64_t start_ns, end_ns;
};

/* A kernel, a copy or a fill, as the device recorded it. A lane's activities are in order of time, without overlap. */
struct ah_timeline_activity {
    const struct ah_device_activity *activity;
    const struct ah_timeline_slice *slice; /* the slice of its op; NULL if unknown */
    int64_t start_ns, end_ns;              /* times like those of slices */
};

struct ah_timeline_step {
    uint64_t step;
    int64_t start_ns, end_ns; /* beginning and end of the step's compute */
};

/* What a timeline shows. Times are in ns since the first step's start. */
struct ah_timeline {
    const struct ah_timeline_slice *slices;
    size_t n_slices;
    const struct ah_timeline_activity *activities; /* (optional) */
    size_t n_activities;
    const struct ah_timeline_step *steps;
    size_t n_steps;
};

struct ah_run_timeline;

struct ah_run_timeline_options {
    uint64_t first_step; /* number of the first shown step; 0: the run's third step */
    uint64_t steps;      /* number of shown steps; 0: 4 */
};

/* Makes a timeline; `plan` is borrowed until free. */
int ah_run_timeline_new(struct ah_run_timeline **ret_timeline, const struct ah_plan *plan,
                        const struct ah_run_timeline_options *options, struct ah_error *err);

/* Lets the device record its hardware during the chosen steps. Call it before the run. The device must stay open until
 * ah_run_timeline_end(). `steps_before`: number of steps done before this run. */
void ah_run_timeline_record(struct ah_run_timeline *timeline, struct ah_device *device,
                            uint64_t steps_before);

/* Keeps an op if it belongs to the chosen steps. Call it for every op of the run. The primitive ops of an item (a tile
 * of a plan's op) are kept as one slice. */
void ah_run_timeline_op(struct ah_run_timeline *timeline, const struct ah_op_record *record);

/* Call for every finished step, after its ops. */
void ah_run_timeline_step(struct ah_run_timeline *timeline, uint64_t step);

/* Ends recording, after the run and while the device is open. Returns why the device recorded nothing: AH_OK if it did
 * or was not asked to, AH_E_UNSUPPORTED if it cannot. */
const struct ah_error *ah_run_timeline_end(struct ah_run_timeline *timeline);

/* Computes how the shown steps spent their time, from the device's recording or, without one, from its lanes. Call it
 * after ah_run_timeline_end(). The result is in `arena`; NULL if no step is complete. AH_E_MEMORY. */
int ah_run_timeline_overlap(const struct ah_run_timeline *timeline, struct ah_arena *arena,
                            struct ah_runlog_overlap **ret_overlap, struct ah_error *err);

/* Returns the shown steps, in `arena`: those chosen steps that are complete or, if none is, the last complete step
 * before. Call it after ah_run_timeline_end(). AH_E_MEMORY. */
int ah_run_timeline_cut(const struct ah_run_timeline *timeline, struct ah_arena *arena,
                        struct ah_timeline *ret_measured, struct ah_error *err);

/* Returns the number of steps in a complete timeline. */
uint64_t ah_run_timeline_steps(const struct ah_run_timeline *timeline);

/* NULL is fine. */
void ah_run_timeline_free(struct ah_run_timeline *timeline);

#endif
