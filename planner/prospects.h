/* SPDX-License-Identifier: Apache-2.0
 *
 * Prospects: plans the same request with one thing changed. `plan --explain` shows what more memory or faster links
 * would bring; `plan --sweep` plans a ladder of device memories, batches or sequences.
 *
 *     struct ah_prospect rows[AH_PROSPECTS_EXPLAINED];
 *     rc = ah_prospects_explain(&request, rows, err);
 *
 *     rc = ah_prospects_ladder(&request, AH_PROSPECT_BATCH, values, &n, err);     // or values of the user's
 *     struct ah_prospect_change change = {AH_PROSPECT_BATCH, value};
 *     rc = ah_prospects_plan(&request, change, &row, err);    // for each value
 *
 * A row describes the plan that `plan` finds for the changed request, without remedies. For more memory than the
 * machine has, a larger copy of the machine is planned. The same request gives the same rows.
 */
#ifndef AH_PLANNER_PROSPECTS_H
#define AH_PLANNER_PROSPECTS_H

#include "planner/planner.h"

/* The first AH_PROSPECTS_EXPLAINED are the rows of ah_prospects_explain(), in this order. */
enum ah_prospect_kind {
    AH_PROSPECT_UNCHANGED,
    AH_PROSPECT_MORE_DEVICE_MEMORY, /* value: bytes, one GiB more */
    AH_PROSPECT_H2D,              /* twice the bandwidth of the link from the host to the device; value: 2 */
    AH_PROSPECT_D2H,              /* twice the bandwidth from the device to the host */
    AH_PROSPECT_LINKS,            /* twice the bandwidth in both directions */
    AH_PROSPECT_MORE_HOST_MEMORY, /* value: bytes, twice the budget or the host's memory */
    AH_PROSPECTS_EXPLAINED,
    AH_PROSPECT_DEVICE_MEMORY = AH_PROSPECTS_EXPLAINED, /* value: bytes, the reserve included */
    AH_PROSPECT_BATCH,
    AH_PROSPECT_SEQ,
};

struct ah_prospect_change {
    enum ah_prospect_kind kind;
    uint64_t value;
};

/* Numbers of blocks, by config. */
struct ah_prospect_blocks {
    size_t all;
    size_t recompute, selective; /* activations */
    size_t weights_host;
    size_t optimizer_host, streamed;
};

struct ah_prospect {
    struct ah_prospect_change change;
    bool as_asked; /* the change leaves the request as it is */
    bool beyond_machine;
    bool feasible;
    double step_us, tokens_per_s;
    uint64_t micro_batches;
    uint64_t device_bytes; /* the reserve included */
    uint64_t host_bytes;
    struct ah_prospect_blocks blocks;
    bool proven;          /* infeasible: proven that no plan exists; false: none was found */
    const char *resource; /* infeasible: the memory that is short; static */
    uint64_t short_bytes; /* infeasible: bytes lacking; 0: unknown */
    bool at_least;        /* every plan lacks short_bytes or more */
};

/* Plans the changed request. AH_E_USAGE: the value makes no sense for it. Infeasible is a result, not an error. */
int ah_prospects_plan(const struct ah_plan_request *request, struct ah_prospect_change change,
                      struct ah_prospect *ret_row, struct ah_error *err);

int ah_prospects_explain(const struct ah_plan_request *request,
                         struct ah_prospect ret_rows[AH_PROSPECTS_EXPLAINED], struct ah_error *err);

/* Sets values worth planning: ascending, and including the request's own. Device memory: from just below the least with
 * a plan, found by a quick search, up to the use of a plan without a limit. Batch, seq: from an eighth to four times
 * the request's. AH_E_NO_PLAN: no amount of device memory is enough. */
enum { AH_PROSPECTS_LADDER_MAX = 16 };
int ah_prospects_ladder(const struct ah_plan_request *request, enum ah_prospect_kind kind,
                        uint64_t ret_values[AH_PROSPECTS_LADDER_MAX], size_t *ret_n, struct ah_error *err);

/* Counts the configs of the plan's blocks. */
struct ah_prospect_blocks ah_prospects_count(const struct ah_plan *plan);

#endif
