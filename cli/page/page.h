/* SPDX-License-Identifier: Apache-2.0
 *
 * Page: a plan, a cluster plan or a run as one self-contained HTML page that needs no network.
 *
 * A page is a constant (cli/page/, joined and embedded at build time by page/embed.cmake) with a place for its data, as
 * JSON. For a plan, the data are its numbers, two steady iterations of its replay, and the contents of the device
 * arena. For a cluster plan, they are the document; for two plans, the facts of each and the differences; for a run,
 * its report and its curves. The page's own script draws everything. Numbers from the virtual clock are marked as
 * simulated.
 *
 *     rc = ah_page_write(cli, "plan.html", &document, NULL, &err);
 */
#ifndef AH_CLI_PAGE_PAGE_H
#define AH_CLI_PAGE_PAGE_H

#include "cli/frame/cli.h"
#include "cli/plan/plan_prospects.h"
#include "runtime/run/runlog_summary.h"
#include "schemas/document.h"
#include "schemas/run_log_read.h"

/* Writes the page of a document to `path` (`-`: standard output, through cli->out). `prospects` (optional): results to
 * add for a plan. AH_E_USAGE: the document is not a plan. AH_E_DOCUMENT: the plan cannot run. AH_E_IO names the path;
 * the file is then unchanged. */
int ah_page_write(struct ah_cli *cli, const char *path, const struct ah_document *document,
                  const struct ah_plan_prospects *prospects, struct ah_error *err);

/* Writes the page of the differences between two plans. Errors: as ah_page_write(). */
int ah_page_write_diff(struct ah_cli *cli, const char *path, const struct ah_plan *a, const struct ah_plan *b,
                       struct ah_error *err);

/* Writes the page of a run. `text` was read from cli's first operand and begun. AH_E_IO, AH_E_MEMORY. */
int ah_page_write_report(struct ah_cli *cli, const char *path, const struct ah_run_log_text *text,
                         const struct ah_runlog_summary *summary, struct ah_error *err);

#endif
