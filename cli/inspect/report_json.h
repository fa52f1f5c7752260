/* SPDX-License-Identifier: Apache-2.0
 *
 * Report JSON: the numbers of a report, for programs and for its page.
 */
#ifndef AH_CLI_INSPECT_REPORT_JSON_H
#define AH_CLI_INSPECT_REPORT_JSON_H

#include "cli/frame/emit.h"
#include "runtime/run/runlog_summary.h"
#include "schemas/run_log_read.h"

/* Adds the fields of `report --json` to an object opened by the caller. */
void ah_report_json(struct ah_emit *emit, const struct ah_run_log_text *text,
                    const struct ah_runlog_summary *summary);

#endif
