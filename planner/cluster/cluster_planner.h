/* SPDX-License-Identifier: Apache-2.0
 *
 * Cluster planner: model + cluster + training -> the best cluster plan that it can find, and how far it is from the
 * bound. docs/clusters.md says how.
 *
 *     struct ah_cluster_request request = {.model = model, .model_sha256 = ..., .cluster = cluster, ...};
 *     rc = ah_cluster_planner_plan(&request, &arena, &plan, &shortage, err);
 *
 * With a policy the plan is that of another system (cluster_policies.h). What policies find are candidates of our own
 * search, so that `optimal` is never slower than one of them.
 *
 * It tries every degree of tensor parallelism that divides the model (one for all types, or one a type) with every size
 * of micro-batch that was allowed, each an instance to search. Deterministic: the same request gives the same plan, to
 * the byte; budgets are numbers of evaluations.
 */
#ifndef AH_PLANNER_CLUSTER_CLUSTER_PLANNER_H
#define AH_PLANNER_CLUSTER_CLUSTER_PLANNER_H

#include "base/arena.h"
#include "base/error.h"
#include "schemas/cluster.h"
#include "schemas/cluster_plan.h"
#include "schemas/model.h"

/* How arrangements are looked for: by changing good ones, by exhausting small instances, or both. */
enum ah_cluster_search { AH_CLUSTER_SEARCH_BOTH, AH_CLUSTER_SEARCH_EXACT, AH_CLUSTER_SEARCH_GRAPH };
extern const char *const ah_words_cluster_search[];

struct ah_cluster_request {
    const struct ah_model *model;
    const char *model_sha256;
    const struct ah_cluster *cluster;
    const char *cluster_sha256;
    struct ah_plan_training training; /* micro_batches: of all pipelines together */
    bool any_micro_batches;           /* the planner chooses training.micro_batches */
    bool sums_stay; /* gradients are added up as the training says (groups.h); optimal only, tp 1 */
    enum ah_tp_mode tp_mode;
    uint64_t tp; /* the one degree of all types; 0: every one is tried. Symmetric only */
    enum ah_cluster_search search;
    enum ah_cluster_policy policy; /* ah_cluster_planner_plan(): whose plan */
    unsigned without;              /* enum ah_away_without (away.h) */
    uint32_t effort;               /* 0: 2; budgets double with each level */
    const char *generator;         /* of the document */

    /* (optional) Called now and then with the instances done and planned; true stops with AH_E_INTERRUPTED. */
    bool (*progress)(void *context, uint64_t done, uint64_t planned);
    void *context;
};

/* What the model takes and the cluster has, for a person: of the states of one copy, all GPUs together. */
struct ah_cluster_shortage {
    bool proven;
    double needed_bytes, available_bytes;
};

/* AH_E_INFEASIBLE: proven; AH_E_NO_PLAN: none found; both fill the shortage. AH_E_USAGE, AH_E_DOCUMENT: a training that
 * makes no sense. `ret_plan` points into `arena` and the request. */
int ah_cluster_planner_plan(const struct ah_cluster_request *request, struct ah_arena *arena,
                            struct ah_cluster_plan *ret_plan, struct ah_cluster_shortage *ret_shortage,
                            struct ah_error *err);

/* Every policy at its best, in the order of enum ah_cluster_policy; NULL where none was found that fits. */
int ah_cluster_planner_compare(const struct ah_cluster_request *request, struct ah_arena *arena,
                               struct ah_cluster_plan *ret_plans[AH_CLUSTER_POLICIES], struct ah_error *err);

#endif
