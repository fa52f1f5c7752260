/* SPDX-License-Identifier: Apache-2.0
 *
 * Trace: a simulated timeline as Chrome trace events, which Perfetto and chrome://tracing show.
 *
 * One track a lane, one complete event an item (a tile of an op) with what it is and why it waited; arrows along what
 * compute waited for, back to where nothing was late; memory by class as counters; a track of iterations that says which
 * are steady. Times are rounded to nanoseconds, events are in the order of time, events of a lane do not overlap. The
 * trace says of itself that it is simulated.
 */
#ifndef AH_CLI_TRACE_H
#define AH_CLI_TRACE_H

#include "cli/cli.h"
#include "runtime/schedule/replay.h"

/* Writes every iteration of `replay`, which is of this plan, to `path` (`-`: standard output, through cli->out).
 * AH_E_IO names the path, where nothing was changed. Four iterations or more have two steady ones. */
int ah_trace_write(struct ah_cli *cli, const char *path, const struct ah_plan *plan,
                   const struct ah_replay *replay, struct ah_error *err);

#endif
