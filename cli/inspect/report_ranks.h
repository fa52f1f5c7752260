/* SPDX-License-Identifier: Apache-2.0
 *
 * Report ranks: for a run of a cluster plan, each rank's measurements and prediction, and who holds up the others.
 */
#ifndef AH_CLI_INSPECT_REPORT_RANKS_H
#define AH_CLI_INSPECT_REPORT_RANKS_H

#include "cli/frame/cli.h"
#include "cli/frame/emit.h"
#include "schemas/runlog.h"

/* True if the log has ranks, measured or predicted. */
bool ah_report_ranks_any(const struct ah_runlog *runlog);

/* The rank for which all others wait: its compute works longer than any other's, by at least the share
 * AH_REPORT_RANKS_MORE. NULL: no rank does. */
#define AH_REPORT_RANKS_MORE 0.05
const struct ah_runlog_rank *ah_report_ranks_holder(const struct ah_runlog_rank *ranks, size_t n);

/* Appends a sentence about that rank; nothing if nothing was measured, or for a single rank. */
void ah_report_ranks_put_sentence(struct ah_cli *cli, const struct ah_runlog *runlog, struct ah_buffer *out);

/* Prints a table of times, one of what ranks send and hold and, with `verbose`, one of the other lanes. */
void ah_report_ranks_text(struct ah_cli *cli, const struct ah_runlog *runlog, bool verbose);

/* Adds `ranks` and `holds_up`; nothing if the log has no ranks. */
void ah_report_ranks_json(struct ah_emit *emit, const struct ah_runlog *runlog);

#endif
