/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/recovery/roles.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int by_rank(const void *a, const void *b)
{
    const struct ah_gpu_role *p = a, *q = b;
    return (p->rank > q->rank) - (p->rank < q->rank);
}

/* Sets the node and GPU of a rank. Returns false if the cluster has fewer ranks. */
static bool find_rank(const struct ah_cluster *cluster, uint64_t rank, struct ah_gpu_role *role)
{
    uint64_t first = 0;
    for (size_t n = 0; n < cluster->n_nodes; n++) {
        if (rank < first + cluster->nodes[n].gpus) {
            role->node = n;
            role->gpu = rank - first;
            return true;
        }
        first += cluster->nodes[n].gpus;
    }
    return false;
}

static int add_stage(struct ah_roles *roles, const struct ah_cluster_plan_stage *stage,
                     const struct ah_cluster *cluster, const struct ah_states *states, struct ah_error *err)
{
    if (states->slices % stage->tp)
        return ah_error_set(err, AH_E_MISMATCH,
                            "a stage on '%s' has degree %" PRIu64 ", which does not divide the %zu slices of "
                            "the inventory",
                            stage->node, stage->tp, states->slices);
    size_t share = states->slices / stage->tp;
    for (size_t r = 0; r < stage->tp; r++) {
        struct ah_gpu_role role = {
            .rank = stage->ranks[r], .stage = stage, .first_slice = r * share, .end_slice = (r + 1) * share};
        if (!find_rank(cluster, role.rank, &role) || strcmp(cluster->nodes[role.node].id, stage->node) != 0)
            return ah_error_set(err, AH_E_MISMATCH, "rank %" PRIu64 " is not on node '%s' of cluster '%s'",
                                role.rank, stage->node, cluster->name);
        roles->items[roles->n++] = role;
    }
    return AH_OK;
}

int ah_roles_init(struct ah_roles *ret_roles, const struct ah_cluster_plan *plan,
                  const struct ah_cluster *cluster, const struct ah_states *states, struct ah_arena *arena,
                  struct ah_error *err)
{
    struct ah_roles roles = {0};
    size_t n = 0;
    for (size_t p = 0; p < plan->n_pipelines; p++)
        for (size_t i = 0; i < plan->pipelines[p].n_stages; i++)
            n += plan->pipelines[p].stages[i].tp;
    roles.items = ah_arena_array(arena, n, sizeof *roles.items);
    if (!roles.items)
        return ah_error_memory(err);
    for (size_t p = 0; p < plan->n_pipelines; p++)
        for (size_t i = 0; i < plan->pipelines[p].n_stages; i++) {
            int rc = add_stage(&roles, &plan->pipelines[p].stages[i], cluster, states, err);
            if (rc)
                return rc;
        }
    qsort(roles.items, roles.n, sizeof *roles.items, by_rank);
    *ret_roles = roles;
    return AH_OK;
}

bool ah_role_needs(const struct ah_gpu_role *role, const struct ah_states *states, size_t shard)
{
    struct ah_shard s = ah_states_shard(states, shard);
    return s.slice >= role->first_slice && s.slice < role->end_slice &&
           ah_states_covers(states, role->stage->first_block, role->stage->blocks, s.row);
}

/* Returns a row's config. For the tied table: the embedding's if the stage has the embedding, otherwise the head's. */
static const struct ah_cluster_plan_config *config_of(const struct ah_cluster_plan_stage *stage,
                                                      const struct ah_states *states, size_t row)
{
    uint64_t block = row < states->n_blocks ? row : stage->first_block ? states->n_blocks - 1 : 0;
    for (size_t i = 0; i < stage->n_configs; i++)
        if (block < stage->configs[i].first_block + stage->configs[i].blocks)
            return &stage->configs[i];
    return &stage->configs[stage->n_configs - 1];
}

enum ah_destination ah_role_destination(const struct ah_gpu_role *role, const struct ah_states *states,
                                        size_t shard)
{
    struct ah_shard s = ah_states_shard(states, shard);
    const struct ah_cluster_plan_config *config = config_of(role->stage, states, s.row);
    bool host = s.kind == AH_SHARD_WEIGHT
                    ? config->weights == AH_WEIGHTS_HOST
                    : config->optimizer == AH_OPTIMIZER_HOST || config->optimizer == AH_OPTIMIZER_STREAMED;
    return host ? AH_DESTINATION_HOST : AH_DESTINATION_GPU;
}

const struct ah_holder *ah_role_kept(const struct ah_gpu_role *role, const struct ah_states *states,
                                     const struct ah_holders *holders, size_t shard)
{
    bool host = ah_role_destination(role, states, shard) == AH_DESTINATION_HOST;
    const struct ah_holder *holder = ah_holders_find(holders, host ? AH_MEDIUM_HOST : AH_MEDIUM_GPU,
                                                     role->node, host ? AH_INVENTORY_NO_GPU : role->gpu);
    return holder && holder->holds[shard] ? holder : NULL;
}
