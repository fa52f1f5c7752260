/* SPDX-License-Identifier: Apache-2.0
 *
 * Report ranks: for a run of a cluster plan, each rank's measurements and predictions, and who delays the others.
 */
#ifndef AH_CLI_INSPECT_REPORT_RANKS_H
#define AH_CLI_INSPECT_REPORT_RANKS_H

#include "cli/frame/cli.h"
#include "cli/frame/emit.h"
#include "schemas/runlog.h"

/* True if the log has ranks, measured or predicted. */
bool ah_report_ranks_any(const struct ah_runlog *runlog);

/* Returns the rank that all others wait for: its compute works longer than any other's, by a fraction of at least
 * AH_REPORT_RANKS_MORE. NULL: there is no such rank. */
#define AH_REPORT_RANKS_MORE 0.05
const struct ah_runlog_rank *ah_report_ranks_holder(const struct ah_runlog_rank *ranks, size_t n);

/* Appends a sentence about that rank. Appends nothing if nothing was measured, or for a single rank. */
void ah_report_ranks_put_sentence(struct ah_cli *cli, const struct ah_runlog *runlog, struct ah_buffer *out);

/* Prints tables of times, of what ranks send and hold, and, with `verbose`, of the other lanes. */
void ah_report_ranks_text(struct ah_cli *cli, const struct ah_runlog *runlog, bool verbose);

/* Adds `ranks` and `holds_up`, if the log has ranks. */
void ah_report_ranks_json(struct ah_emit *emit, const struct ah_runlog *runlog);

#endif
