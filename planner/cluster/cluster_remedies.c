/* SPDX-License-Identifier: Apache-2.0
 *
 * Each remedy is the request with one change, planned with little effort. It is listed if that gives a plan.
 */
#include "planner/cluster/cluster_remedies.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { EFFORT_LEAST = 1, NODES_MOST = 256, NODES_TRIES = 5, SEQ_LEAST = 64 };

struct remedies {
    const struct ah_cluster_request *request;
    const struct ah_cluster_shortage *shortage;
    struct ah_arena scratch; /* memory for one plan at a time */
    struct ah_cluster_remedies *out;
};

/* Plans `changed`, and lists the remedy if there is a plan. Finding no plan is not an error. */
static int try_it(struct remedies *r, const struct ah_cluster_request *changed,
                  const struct ah_cluster_remedy *remedy, bool *ret_works, struct ah_error *err)
{
    struct ah_cluster_request request = *changed;
    struct ah_cluster_plan plan;
    struct ah_cluster_shortage shortage;
    request.effort = EFFORT_LEAST;
    int rc = ah_cluster_planner_plan(&request, &r->scratch, &plan, &shortage, err);
    *ret_works = !rc;
    if (!rc) {
        r->out->items[r->out->n] = *remedy;
        r->out->items[r->out->n++].step_us = plan.predicted.step_us;
    }
    ah_arena_release(&r->scratch);
    return rc == AH_E_INTERRUPTED || rc == AH_E_MEMORY ? rc : AH_OK;
}

static int try_with(struct remedies *r, struct ah_error *err)
{
    struct ah_cluster_request changed = *r->request;
    bool works;
    changed.without = 0;
    return r->request->without
               ? try_it(r, &changed, &(struct ah_cluster_remedy){AH_CLUSTER_REMEDY_WITH, 0, NULL, 0}, &works,
                        err)
               : AH_OK;
}

static int try_policy(struct remedies *r, struct ah_error *err)
{
    struct ah_cluster_request changed = *r->request;
    bool works;
    changed.policy = AH_CLUSTER_POLICY_OPTIMAL;
    return r->request->policy != changed.policy
               ? try_it(r, &changed, &(struct ah_cluster_remedy){AH_CLUSTER_REMEDY_POLICY, 0, NULL, 0},
                        &works, err)
               : AH_OK;
}

/* Tries a degree for each type of GPU, if the cluster has several types. */
static int try_tp(struct remedies *r, struct ah_error *err)
{
    struct ah_cluster_request changed = *r->request;
    bool works;
    changed.tp_mode = AH_TP_ASYMMETRIC;
    changed.tp = 0;
    return !r->request->sums_stay && r->request->tp_mode != changed.tp_mode && r->request->cluster->n_gpus > 1
               ? try_it(r, &changed, &(struct ah_cluster_remedy){AH_CLUSTER_REMEDY_TP, 0, NULL, 0}, &works,
                        err)
               : AH_OK;
}

/* Tries micro-batches of one sequence each. */
static int try_micro_batches(struct remedies *r, struct ah_error *err)
{
    struct ah_cluster_request changed = *r->request;
    uint64_t batch = changed.training.batch;
    bool works;
    if (changed.sums_stay || changed.any_micro_batches || changed.training.micro_batches == batch)
        return AH_OK;
    changed.training.micro_batches = batch;
    return try_it(r, &changed, &(struct ah_cluster_remedy){AH_CLUSTER_REMEDY_MICRO_BATCHES, batch, NULL, 0},
                  &works, err);
}

static double memory_of(const struct ah_cluster *cluster, const struct ah_cluster_node *node)
{
    for (size_t i = 0; i < cluster->n_gpus; i++)
        if (!strcmp(cluster->gpus[i].name, node->gpu))
            return (double)node->gpus *
                   (double)(cluster->gpus[i].memory_bytes - cluster->gpus[i].reserved_bytes);
    return 0;
}

/* Returns a copy of the cluster with `more` nodes like `node`; NULL: out of memory. */
static const struct ah_cluster *with_nodes(struct remedies *r, const struct ah_cluster_node *node,
                                           uint64_t more)
{
    const struct ah_cluster *cluster = r->request->cluster;
    struct ah_cluster *larger = ah_arena_array(&r->scratch, 1, sizeof *larger);
    if (!larger)
        return NULL;
    *larger = *cluster;
    larger->n_nodes = cluster->n_nodes + more;
    larger->nodes = ah_arena_array(&r->scratch, larger->n_nodes, sizeof *larger->nodes);
    if (!larger->nodes)
        return NULL;
    memcpy(larger->nodes, cluster->nodes, cluster->n_nodes * sizeof *cluster->nodes);
    for (uint64_t i = 0; i < more; i++) {
        char id[256];
        snprintf(id, sizeof id, "%.200s+%" PRIu64, node->id, i + 1);
        larger->nodes[cluster->n_nodes + i] = *node;
        larger->nodes[cluster->n_nodes + i].id = ah_arena_strdup(&r->scratch, id);
        if (!larger->nodes[cluster->n_nodes + i].id)
            return NULL;
    }
    return larger;
}

/* Adds copies of the node with the most memory: first as many as the states need, then more. */
static int try_nodes(struct remedies *r, struct ah_error *err)
{
    const struct ah_cluster *cluster = r->request->cluster;
    const struct ah_cluster_node *node = &cluster->nodes[0];
    for (size_t i = 1; i < cluster->n_nodes; i++)
        if (memory_of(cluster, &cluster->nodes[i]) > memory_of(cluster, node))
            node = &cluster->nodes[i];
    double lacking = r->shortage->needed_bytes - r->shortage->available_bytes;
    double least = ceil(fmax(lacking, 0) / memory_of(cluster, node));
    uint64_t more = least < 1 ? 1 : least > NODES_MOST ? NODES_MOST + 1 : (uint64_t)least;
    bool works = false;
    int rc = AH_OK;
    for (size_t i = 0; i < NODES_TRIES && more <= NODES_MOST && !works && !rc; i++) {
        struct ah_cluster_request changed = *r->request;
        changed.cluster = with_nodes(r, node, more);
        if (!changed.cluster)
            return ah_error_memory(err);
        rc = try_it(r, &changed, &(struct ah_cluster_remedy){AH_CLUSTER_REMEDY_NODES, more, node, 0}, &works,
                    err);
        more += i < 1 ? 1 : (more + 1) / 2;
    }
    return rc;
}

static int try_seq(struct remedies *r, struct ah_error *err)
{
    struct ah_cluster_request changed = *r->request;
    bool works = false;
    int rc = AH_OK;
    if (changed.sums_stay || r->shortage->needed_bytes > r->shortage->available_bytes)
        return AH_OK; /* shorter sequences do not shrink states */
    for (uint64_t seq = changed.training.seq / 2; seq >= SEQ_LEAST && !works && !rc; seq /= 2) {
        changed.training.seq = seq;
        rc = try_it(r, &changed, &(struct ah_cluster_remedy){AH_CLUSTER_REMEDY_SEQ, seq, NULL, 0}, &works,
                    err);
    }
    return rc;
}

static int try_state_dtype(struct remedies *r, struct ah_error *err)
{
    struct ah_cluster_request changed = *r->request;
    bool works;
    if (changed.sums_stay || changed.training.dtype != AH_BF16 || changed.training.state_dtype == AH_BF16)
        return AH_OK;
    changed.training.state_dtype = AH_BF16;
    return try_it(r, &changed, &(struct ah_cluster_remedy){AH_CLUSTER_REMEDY_STATE_DTYPE, 0, NULL, 0}, &works,
                  err);
}

int ah_cluster_remedies_find(const struct ah_cluster_request *request,
                             const struct ah_cluster_shortage *shortage,
                             struct ah_cluster_remedies *ret_remedies, struct ah_error *err)
{
    static int (*const tries[])(struct remedies *, struct ah_error *) = {
        try_with, try_policy, try_tp, try_micro_batches, try_nodes, try_seq, try_state_dtype};
    struct remedies r = {.request = request, .shortage = shortage, .out = ret_remedies};
    int rc = AH_OK;
    ret_remedies->n = 0;
    for (size_t i = 0; i < sizeof tries / sizeof *tries && !rc; i++)
        rc = tries[i](&r, err);
    ah_arena_release(&r.scratch);
    return rc;
}
