/* SPDX-License-Identifier: Apache-2.0
 *
 * Trace: timelines as Chrome trace events, for Perfetto and chrome://tracing. A simulated timeline is shown alone or
 * together with the measured timeline of a run.
 *
 * Each lane is a track, and each item (a tile of an op) a complete event; another track shows iterations. A simulation
 * also shows memory by class as counters, and why compute waited: arrows lead back from item to item, up to an item
 * that was not late. Times are rounded to nanoseconds, events are in order of time, and events of a lane do not
 * overlap. Simulated timelines are labelled as such.
 */
#ifndef AH_CLI_TRACE_TRACE_H
#define AH_CLI_TRACE_TRACE_H

#include "cli/frame/cli.h"
#include "runtime/run/run_timeline.h"
#include "runtime/schedule/replay.h"

/* Writes all iterations of `replay`, a replay of `plan`, to `path` (`-`: standard output, through cli->out). Four
 * iterations or more include two steady ones. AH_E_IO names the path; the file is then unchanged. */
int ah_trace_write(struct ah_cli *cli, const char *path, const struct ah_plan *plan,
                   const struct ah_replay *replay, struct ah_error *err);

/* Writes two processes, "predicted (simulated)" and "measured". Shows as many steps of the replay as were measured, at
 * least 1: the last complete ones, starting at time 0. Errors: as ah_trace_write(). */
int ah_trace_write_both(struct ah_cli *cli, const char *path, const struct ah_plan *plan,
                        const struct ah_replay *replay, const struct ah_timeline *measured,
                        struct ah_error *err);

/* Writes the recorded steps of a run beside the prediction. If the run was too short for the chosen steps, the file
 * shows an earlier step, or only the predicted timeline. Errors: as ah_trace_write(). */
int ah_trace_write_run(struct ah_cli *cli, const char *path, const struct ah_plan *plan,
                       const struct ah_run_timeline *timeline, struct ah_error *err);

#endif
