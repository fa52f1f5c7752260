/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan executed by `run`: for one machine or a cluster. Loading a cluster plan also connects the ranks.
 *
 *     rc = ah_run_plan_load(&loaded, path, &wish, err);
 *     if (!rc && ah_run_plan_follows(&loaded))
 *         ... ah_run_ranks_follow(loaded.ranks, err) ...
 *     ... ah_run_open(&run, cli, loaded.plan, ...) with options.ranks = loaded.ranks ...
 *     ah_run_plan_release(&loaded);                     // after ah_run_close() and once a failure has been reported
 */
#ifndef AH_CLI_RUN_RUN_PLAN_H
#define AH_CLI_RUN_RUN_PLAN_H

#include "runtime/run/run_ranks.h"

struct ah_run_plan {
    struct ah_document document;
    const struct ah_plan *plan; /* the document's plan, or the program of this rank */
    bool launches;              /* the ranks are to be started on the hosts named on the command line */
    struct ah_run_ranks *ranks; /* owned; NULL for a plan for one machine */
};

/* The command line's choices. */
struct ah_run_plan_wish {
    bool local, emulates, paces, moves; /* moves: to another device than the plan's */
    const char *hosts; /* (optional) file of the hosts for the ranks; the plan is then only checked */
};

/* Loads and proves a plan (proof.h). Errors of that, with the file's name. AH_E_USAGE: options do not fit the plan;
 * AH_E_UNSUPPORTED: the plan cannot be run yet. Errors of ah_run_ranks_new(). */
int ah_run_plan_load(struct ah_run_plan *ret_plan, const char *path, const struct ah_run_plan_wish *wish,
                     struct ah_error *err);

/* True if this process is a rank other than 0. */
bool ah_run_plan_follows(const struct ah_run_plan *plan);

/* Releases a plan; accepts a zeroed one. */
void ah_run_plan_release(struct ah_run_plan *plan);

#endif
