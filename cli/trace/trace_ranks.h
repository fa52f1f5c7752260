/* SPDX-License-Identifier: Apache-2.0
 *
 * Trace of ranks: the work of all ranks of a run in a few steps, with its prediction, as Chrome trace events (trace.h).
 *
 * A rank has two processes, for its measured and its predicted timeline; each lane of its device is a track. Arrows
 * follow measured messages from their send to their arrival. Measured times are on rank 0's clock
 * (runtime/train/clocks.h), from the first start of the first shown step on any rank. The prediction is the replay,
 * with sends in executors' lanes, from the start of its second step, which is steady.
 */
#ifndef AH_CLI_TRACE_TRACE_RANKS_H
#define AH_CLI_TRACE_TRACE_RANKS_H

#include "cli/frame/cli.h"
#include "runtime/run/run.h"

/* Collects all ranks' records on rank 0, while nothing runs, and writes the trace to `path` (`-`: standard output,
 * through cli->out). AH_E_IO names the path, and the file is unchanged. Errors of messages and of the replay. */
int ah_trace_ranks_write(struct ah_run *run, struct ah_cli *cli, const char *path, struct ah_error *err);

#endif
