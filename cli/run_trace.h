/* SPDX-License-Identifier: Apache-2.0
 *
 * Run trace: the measured timeline of a few steps of a run beside the predicted one, as Chrome trace events (trace.h).
 *
 * One file with two processes, "predicted (simulated)" and "measured", the same lanes and names in both. Time 0 is the start
 * of a steady step in both. Where the device records what its hardware does, kernels and copies have a row below each lane.
 *
 *     rc = ah_run_trace_new(&trace, plan, &(struct ah_run_trace_options){.first_step = 3, .steps = 4}, err);
 *     ah_run_trace_record(trace, device, 0);
 *     ... observer's op: ah_run_trace_op(trace, record); its step: ah_run_trace_step(trace, step);
 *     why = ah_run_trace_end(trace);
 *     rc = ah_run_trace_overlap(trace, &arena, &end.overlap, err);
 *     rc = ah_run_trace_write(trace, cli, path, err);
 *     ah_run_trace_free(trace);
 *
 * New takes all memory: op allocates nothing. What ranks of a cluster plan did is another file's (trace_ranks.h).
 */
#ifndef AH_CLI_RUN_TRACE_H
#define AH_CLI_RUN_TRACE_H

#include "cli/cli.h"
#include "runtime/train/trainer.h"
#include "schemas/plan.h"
#include "schemas/runlog.h"

#include <stdint.h>

struct ah_run_trace;

struct ah_run_trace_options {
    uint64_t first_step; /* number of the first one that is shown; 0: the third that is heard of */
    uint64_t steps;      /* 0: 4 */
};

/* Steady steps of a run whose last one is `last`, where it has enough of them. */
struct ah_run_trace_options ah_run_trace_choose(uint64_t steps_before, uint64_t last);

/* `plan` is borrowed until free. */
int ah_run_trace_new(struct ah_run_trace **ret_trace, const struct ah_plan *plan,
                     const struct ah_run_trace_options *options, struct ah_error *err);

/* Before the run: lets the device, which is open until end, record its hardware for the chosen steps. `steps_before`: done
 * before this run. */
void ah_run_trace_record(struct ah_run_trace *trace, struct ah_device *device, uint64_t steps_before);

/* Told of every op of the run; keeps those of the chosen steps, the primitive ops of an item (a tile of an op of the plan) as
 * one. */
void ah_run_trace_op(struct ah_run_trace *trace, const struct ah_op_record *record);

/* Told of every step that is done, behind its ops. */
void ah_run_trace_step(struct ah_run_trace *trace, uint64_t step);

/* Behind the run, while the device is open. Why the device recorded nothing: AH_OK where it did or was not asked,
 * AH_E_UNSUPPORTED where it cannot. */
const struct ah_error *ah_run_trace_end(struct ah_run_trace *trace);

/* Where the time of the steps that are shown went, by what the device recorded, else by its lanes; behind end. In `arena`;
 * NULL where no step is complete. AH_E_MEMORY. */
int ah_run_trace_overlap(const struct ah_run_trace *trace, struct ah_arena *arena,
                         struct ah_runlog_overlap **ret_overlap, struct ah_error *err);

/* Writes to `path` (`-`: standard output, through cli->out). Where the run was too short for the chosen steps,
 * one before them is shown, or the predicted timeline alone. AH_E_IO names the path, where nothing was changed. */
int ah_run_trace_write(const struct ah_run_trace *trace, struct ah_cli *cli, const char *path,
                       struct ah_error *err);

/* NULL is fine. */
void ah_run_trace_free(struct ah_run_trace *trace);

#endif
