/* SPDX-License-Identifier: Apache-2.0
 *
 * Trace: timelines as Chrome trace events, for Perfetto and chrome://tracing: a simulated timeline, by itself or beside
 * the measured one of a run.
 *
 * Each lane is a track, and each item (a tile of an op) a complete event; another track shows iterations. A simulation
 * also shows memory by class as counters, and why compute waited: arrows lead back from item to item, up to an item
 * that was not late. Times are rounded to nanoseconds, events are in order of time, and events of a lane do not
 * overlap. Simulated timelines are labelled so.
 */
#ifndef AH_CLI_TRACE_TRACE_H
#define AH_CLI_TRACE_TRACE_H

#include "cli/frame/cli.h"
#include "runtime/run/run_timeline.h"
#include "runtime/schedule/replay.h"

/* Writes every iteration of `replay`, a replay of `plan`, to `path` (`-`: standard output, through cli->out). AH_E_IO
 * names the path, and the file is unchanged. Four iterations or more include two steady ones. */
int ah_trace_write(struct ah_cli *cli, const char *path, const struct ah_plan *plan,
                   const struct ah_replay *replay, struct ah_error *err);

/* The same with two processes, "predicted (simulated)" and "measured". It shows as many steps of the replay as were
 * measured (1 if none was): the last complete ones, starting at time 0. */
int ah_trace_write_both(struct ah_cli *cli, const char *path, const struct ah_plan *plan,
                        const struct ah_replay *replay, const struct ah_timeline *measured,
                        struct ah_error *err);

/* The same with what was kept of a run of `plan`. If the run was too short for the chosen steps, the file shows an
 * earlier step, or only the predicted timeline. */
int ah_trace_write_run(struct ah_cli *cli, const char *path, const struct ah_plan *plan,
                       const struct ah_run_timeline *timeline, struct ah_error *err);

#endif
