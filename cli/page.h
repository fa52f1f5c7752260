/* SPDX-License-Identifier: Apache-2.0
 *
 * Page: a plan as one self-contained HTML page, which needs no network.
 *
 * The page is a constant (cli/page/, joined and embedded at build time by page/embed.cmake) with a hole for data: the
 * plan's numbers, two steady iterations of its replay, and what the device arena holds, as JSON. All that is drawn is
 * drawn by the page's own script. Every number on it that a clock made says that it is simulated.
 *
 *     rc = ah_page_write(cli, "plan.html", plan, &err);
 */
#ifndef AH_CLI_PAGE_H
#define AH_CLI_PAGE_H

#include "cli/cli.h"
#include "schemas/plan.h"

/* Replays the plan and writes the page to `path` (`-`: standard output, through cli->out). AH_E_DOCUMENT: the plan
 * cannot run. AH_E_IO names the path, where nothing was changed. */
int ah_page_write(struct ah_cli *cli, const char *path, const struct ah_plan *plan, struct ah_error *err);

#endif
