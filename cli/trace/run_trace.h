/* SPDX-License-Identifier: Apache-2.0
 *
 * Run trace: the measured timeline of a few steps of a run beside the predicted one, as Chrome trace events (trace.h).
 *
 * The file has two processes, "predicted (simulated)" and "measured", with the same lanes and names. In both, time 0 is
 * the start of a steady step. If the device records its hardware, kernels and copies have a row below each lane.
 *
 *     rc = ah_run_trace_new(&trace, plan, &(struct ah_run_trace_options){.first_step = 3, .steps = 4}, err);
 *     ah_run_trace_record(trace, device, 0);
 *     ... observer's op: ah_run_trace_op(trace, record); its step: ah_run_trace_step(trace, step);
 *     why = ah_run_trace_end(trace);
 *     rc = ah_run_trace_overlap(trace, &arena, &end.overlap, err);
 *     rc = ah_run_trace_write(trace, cli, path, err);
 *     ah_run_trace_free(trace);
 *
 * ah_run_trace_new() allocates all memory, ah_run_trace_op() none. For ranks of a cluster plan see trace_ranks.h.
 */
#ifndef AH_CLI_TRACE_RUN_TRACE_H
#define AH_CLI_TRACE_RUN_TRACE_H

#include "cli/frame/cli.h"
#include "runtime/train/trainer.h"
#include "schemas/plan.h"
#include "schemas/runlog.h"

#include <stdint.h>

struct ah_run_trace;

struct ah_run_trace_options {
    uint64_t first_step; /* number of the first step shown; 0: the third one of the run */
    uint64_t steps;      /* how many steps are shown; 0: 4 */
};

/* `plan` is borrowed until free. */
int ah_run_trace_new(struct ah_run_trace **ret_trace, const struct ah_plan *plan,
                     const struct ah_run_trace_options *options, struct ah_error *err);

/* Before the run: lets the device record its hardware during the chosen steps; it stays open until ah_run_trace_end().
 * `steps_before`: steps done before this run. */
void ah_run_trace_record(struct ah_run_trace *trace, struct ah_device *device, uint64_t steps_before);

/* Call it for every op of the run; it keeps the ops of the chosen steps. The primitive ops of an item (a tile of a
 * plan's op) are kept as one. */
void ah_run_trace_op(struct ah_run_trace *trace, const struct ah_op_record *record);

/* Call it for every step that is done, after its ops. */
void ah_run_trace_step(struct ah_run_trace *trace, uint64_t step);

/* After the run, while the device is open. Returns why the device recorded nothing: AH_OK if it did or was not asked,
 * AH_E_UNSUPPORTED if it cannot. */
const struct ah_error *ah_run_trace_end(struct ah_run_trace *trace);

/* Computes where the time of the shown steps went, from what the device recorded, or otherwise from its lanes. Call it
 * after ah_run_trace_end(). The result is in `arena`; NULL if no step is complete. AH_E_MEMORY. */
int ah_run_trace_overlap(const struct ah_run_trace *trace, struct ah_arena *arena,
                         struct ah_runlog_overlap **ret_overlap, struct ah_error *err);

/* Writes to `path` (`-`: standard output, through cli->out). If the run was too short for the chosen steps, the file
 * shows an earlier step, or only the predicted timeline. AH_E_IO names the path, and the file is unchanged. */
int ah_run_trace_write(const struct ah_run_trace *trace, struct ah_cli *cli, const char *path,
                       struct ah_error *err);

/* NULL is fine. */
void ah_run_trace_free(struct ah_run_trace *trace);

#endif
