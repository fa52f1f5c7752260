/* SPDX-License-Identifier: Apache-2.0
 *
 * Cluster planner: model + cluster + training -> the best cluster plan it can find, with its gap to the bound.
 * docs/clusters.md explains the method.
 *
 *     struct ah_cluster_request request = {.model = model, .model_sha256 = ..., .cluster = cluster, ...};
 *     rc = ah_cluster_planner_plan(&request, &arena, &plan, &shortage, err);
 *
 * With a policy, the plan is the one that another system would make (cluster_policies.h). Our own search also considers
 * the policies' plans, so `optimal` is never slower than any of them.
 *
 * The planner tries every degree of tensor parallelism that divides the model (one for all types, or one for each) with
 * every allowed size of micro-batch. Each combination is a problem to search. The same request gives the same plan, to
 * the byte, because budgets are numbers of evaluations.
 */
#ifndef AH_PLANNER_CLUSTER_CLUSTER_PLANNER_H
#define AH_PLANNER_CLUSTER_CLUSTER_PLANNER_H

#include "base/arena.h"
#include "base/error.h"
#include "schemas/cluster.h"
#include "schemas/cluster_plan.h"
#include "schemas/model.h"

/* The search for arrangements: by changing good ones (graph), by exhausting small problems (exact), or both. */
enum ah_cluster_search { AH_CLUSTER_SEARCH_BOTH, AH_CLUSTER_SEARCH_EXACT, AH_CLUSTER_SEARCH_GRAPH };
extern const char *const ah_words_cluster_search[];

struct ah_cluster_request {
    const struct ah_model *model;
    const char *model_sha256;
    const struct ah_cluster *cluster;
    const char *cluster_sha256;
    struct ah_plan_training training; /* micro_batches: the sum over all pipelines */
    bool any_micro_batches;           /* the planner chooses training.micro_batches */
    bool sums_stay; /* gradients are added up as the training says (groups.h); optimal only, tp 1 */
    enum ah_tp_mode tp_mode;
    uint64_t tp; /* degree of all types (symmetric only); 0: tries every degree */
    enum ah_cluster_search search;
    enum ah_cluster_policy policy; /* used only by ah_cluster_planner_plan() */
    unsigned without;              /* enum ah_offload_without (offload_costs.h) */
    uint32_t effort;               /* level; 0 means 2; budgets double with each level */
    const char *generator;         /* program name to put in the document */

    /* (optional) Called now and then with the problems done and planned; true ends planning with AH_E_INTERRUPTED. */
    bool (*progress)(void *context, uint64_t done, uint64_t planned);
    void *context;
};

/* For messages: bytes needed by the states of one copy of the model, and bytes of all GPUs (and hosts, if used). */
struct ah_cluster_shortage {
    bool proven;
    double needed_bytes, available_bytes;
};

/* Makes a plan. AH_E_INFEASIBLE: proven that no plan exists; AH_E_NO_PLAN: none was found. Both fill the shortage.
 * AH_E_USAGE, AH_E_DOCUMENT: the training makes no sense. `ret_plan` points into `arena` and the request. */
int ah_cluster_planner_plan(const struct ah_cluster_request *request, struct ah_arena *arena,
                            struct ah_cluster_plan *ret_plan, struct ah_cluster_shortage *ret_shortage,
                            struct ah_error *err);

/* Makes the best plan of every policy, in the order of enum ah_cluster_policy; NULL: none was found that fits. */
int ah_cluster_planner_compare(const struct ah_cluster_request *request, struct ah_arena *arena,
                               struct ah_cluster_plan *ret_plans[AH_CLUSTER_POLICIES], struct ah_error *err);

#endif
