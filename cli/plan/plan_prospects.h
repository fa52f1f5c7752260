/* SPDX-License-Identifier: Apache-2.0
 *
 * Plan prospects: `plan --explain` and `plan --sweep`. They show what limits a plan, and plans for other machines,
 * batches or sequence lengths: as tables, as JSON, and on the plan's page. Every row was planned (planner/prospects.h).
 *
 *     rc = ah_plan_prospects_parse(&prospects, explain, sweep, &cli->arena, err);    // before anything long
 *     rc = ah_plan_prospects_find(&prospects, &request, plan, err);                  // plan NULL: there is none
 *     ah_plan_prospects_put(cli, &prospects);  or  ah_plan_prospects_emit(&emit, &prospects);
 */
#ifndef AH_CLI_PLAN_PLAN_PROSPECTS_H
#define AH_CLI_PLAN_PLAN_PROSPECTS_H

#include "cli/frame/cli.h"
#include "cli/frame/emit.h"
#include "planner/prospects.h"

extern const char *const ah_plan_prospects_words[]; /* what '--sweep' can vary */

struct ah_plan_prospects {
    bool explain;
    bool sweep;
    enum ah_prospect_kind swept;
    uint64_t values[AH_PROSPECTS_LADDER_MAX];
    size_t n_values; /* 0: the planner chooses */

    /* Results of ah_plan_prospects_find(). */
    struct ah_buffer limits; /* what limits the plan, in sentences; empty without a plan */
    struct ah_prospect explained[AH_PROSPECTS_EXPLAINED];
    size_t n_explained; /* 0: without --explain, or without a plan */
    struct ah_prospect points[AH_PROSPECTS_LADDER_MAX];
    size_t n_points;
};

/* Parses `sweep`: "batch", "batch=1,2,4", "device-memory=8GiB,16GiB"; NULL: no sweep. AH_E_USAGE says what is wrong. */
int ah_plan_prospects_parse(struct ah_plan_prospects *ret_prospects, bool explain, const char *sweep,
                            struct ah_error *err);

/* Plans every row. `plan`: the plan of the request itself; NULL: there is none. */
int ah_plan_prospects_find(struct ah_plan_prospects *prospects, const struct ah_plan_request *request,
                           const struct ah_plan *plan, struct ah_error *err);
void ah_plan_prospects_release(struct ah_plan_prospects *prospects);

/* Prints tables, each below its heading. */
void ah_plan_prospects_put(struct ah_cli *cli, const struct ah_plan_prospects *prospects);

/* Adds "explain" and "sweep", as far as they were requested, to an object opened by the caller. */
void ah_plan_prospects_emit(struct ah_emit *emit, const struct ah_plan_prospects *prospects);

#endif
