/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/recovery/relabel.h"

#include "planner/recovery/assignment.h"
#include "planner/recovery/roles.h"

#include <stdlib.h>
#include <string.h>

enum { ON_NODE_WEIGHT = 8 };

struct relabelling {
    const struct ah_cluster *cluster;
    const struct ah_states *states;
    const struct ah_holders *holders;
    struct ah_arena *arena;
    struct ah_roles roles;
    size_t *first_role; /* by node, plus the end: its first role; the roles of a node are adjacent */
    uint64_t *first_rank;
    size_t *new_node; /* by node: its new name is that node's */
    uint64_t *new_rank;
    uint64_t n_ranks;
};

/* ---- bytes that stay ---- */

/* Returns the bytes of the role's shards in `held` that the role needs in memory `holder` (-1: in any). */
static double held_bytes(const struct relabelling *l, const struct ah_gpu_role *role, const uint8_t *held,
                         int holder)
{
    const struct ah_states *states = l->states;
    double sum = 0;
    for (size_t row = 0; row <= states->n_blocks; row++) {
        if (!ah_states_covers(states, role->stage->first_block, role->stage->blocks, row))
            continue;
        size_t begin = ah_states_index(states, (struct ah_shard){row, role->first_slice, AH_SHARD_WEIGHT});
        size_t end = ah_states_index(states, (struct ah_shard){row, role->end_slice, AH_SHARD_WEIGHT});
        for (size_t shard = begin; shard < end; shard++)
            if (held[shard] && (holder < 0 || holder == (int)ah_role_destination(role, states, shard)))
                sum += (double)ah_states_bytes(states, shard);
    }
    return sum;
}

/* Sets `held` for every shard in any memory or disk of `node`, and clears it for the others. */
static void mark_held(const struct relabelling *l, size_t node, uint8_t *held)
{
    size_t n = ah_states_shards(l->states);
    memset(held, 0, n);
    for (size_t p = 0; p < l->holders->n_entries; p++)
        for (size_t shard = 0; shard < n && l->holders->entries[p].node == node; shard++)
            held[shard] |= l->holders->entries[p].holds[shard];
}

static double kept_bytes(const struct relabelling *l, const struct ah_gpu_role *role, size_t node,
                         uint64_t gpu)
{
    const struct ah_holder *in_gpu = ah_holders_find(l->holders, AH_MEDIUM_GPU, node, gpu);
    const struct ah_holder *on_host = ah_holders_find(l->holders, AH_MEDIUM_HOST, node, AH_INVENTORY_NO_GPU);
    return (in_gpu ? held_bytes(l, role, in_gpu->holds, AH_DESTINATION_GPU) : 0) +
           (on_host ? held_bytes(l, role, on_host->holds, AH_DESTINATION_HOST) : 0);
}

/* ---- GPUs of a node ---- */

/* Assigns the roles of node `from` to GPUs of node `to` (`ret_gpu`: by role). Between equals, a role keeps its GPU. */
static int assign_gpus(const struct relabelling *l, size_t from, size_t to, size_t *ret_gpu, double *ret_kept,
                       struct ah_error *err)
{
    size_t first = l->first_role[from], rows = l->first_role[from + 1] - first;
    size_t columns = l->cluster->nodes[to].gpus;
    double sum = 0;
    *ret_kept = 0;
    if (!rows)
        return AH_OK;
    double *weights = calloc(rows * columns, sizeof *weights);
    if (!weights)
        return ah_error_memory(err);
    for (size_t i = 0; i < rows; i++)
        for (size_t gpu = 0; gpu < columns; gpu++) {
            const struct ah_gpu_role *role = &l->roles.items[first + i];
            weights[i * columns + gpu] = 2 * kept_bytes(l, role, to, gpu) + (role->gpu == gpu ? 1 : 0);
        }
    int rc = ah_assignment_solve(weights, rows, columns, ret_gpu, &sum, err);
    free(weights);
    *ret_kept = sum / 2;
    return rc;
}

/* ---- nodes ---- */

static bool named_in_pairs(const struct ah_cluster *cluster, const char *id)
{
    for (size_t i = 0; i < cluster->n_pairs; i++)
        if (strcmp(cluster->pairs[i].a, id) == 0 || strcmp(cluster->pairs[i].b, id) == 0)
            return true;
    return false;
}

static bool same_rates(const struct ah_cluster_node *p, const struct ah_cluster_node *q)
{
    const double rates[][2] = {{p->intra_bytes_per_s, q->intra_bytes_per_s},
                               {p->intra_latency_us, q->intra_latency_us},
                               {p->nic_bytes_per_s, q->nic_bytes_per_s},
                               {p->nic_latency_us, q->nic_latency_us},
                               {p->host_memory_bytes_per_s, q->host_memory_bytes_per_s},
                               {p->host_link_bytes_per_s, q->host_link_bytes_per_s}};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (rates[i][0] < rates[i][1] || rates[i][0] > rates[i][1])
            return false;
    return true;
}

static bool equal_nodes(const struct ah_cluster *cluster, size_t a, size_t b)
{
    const struct ah_cluster_node *p = &cluster->nodes[a], *q = &cluster->nodes[b];
    if (a == b)
        return true;
    return strcmp(p->gpu, q->gpu) == 0 && p->gpus == q->gpus &&
           p->host_memory_bytes == q->host_memory_bytes && same_rates(p, q) &&
           !named_in_pairs(cluster, p->id) && !named_in_pairs(cluster, q->id);
}

static int weigh_nodes(const struct relabelling *l, const size_t *members, size_t n, double *weights,
                       struct ah_error *err)
{
    uint8_t *held = malloc(ah_states_shards(l->states));
    size_t *gpus = calloc(l->roles.n + 1, sizeof *gpus);
    int rc = held && gpus ? AH_OK : ah_error_memory(err);
    for (size_t j = 0; j < n && !rc; j++) {
        mark_held(l, members[j], held);
        for (size_t i = 0; i < n && !rc; i++) {
            double kept = 0, there = 0;
            rc = assign_gpus(l, members[i], members[j], gpus, &kept, err);
            for (size_t r = l->first_role[members[i]]; r < l->first_role[members[i] + 1]; r++)
                there += held_bytes(l, &l->roles.items[r], held, -1);
            weights[i * n + j] = ON_NODE_WEIGHT * there + kept + (i == j ? 0.5 : 0);
        }
    }
    free(held);
    free(gpus);
    return rc;
}

/* Assigns new names among the nodes equal to `node`, which is the first of them. */
static int assign_nodes(struct relabelling *l, size_t node, struct ah_error *err)
{
    size_t n_nodes = l->cluster->n_nodes, n = 0;
    size_t *members = calloc(2 * n_nodes, sizeof *members), *columns = members + n_nodes;
    double *weights = NULL, sum;
    int rc = members ? AH_OK : ah_error_memory(err);
    for (size_t other = node; other < n_nodes && !rc; other++)
        if (equal_nodes(l->cluster, node, other))
            members[n++] = other;
    if (!rc) {
        weights = calloc(n * n, sizeof *weights);
        rc = weights ? weigh_nodes(l, members, n, weights, err) : ah_error_memory(err);
    }
    rc = rc ? rc : ah_assignment_solve(weights, n, n, columns, &sum, err);
    for (size_t i = 0; i < n && !rc; i++)
        l->new_node[members[i]] = members[columns[i]];
    free(weights);
    free(members);
    return rc;
}

static int assign_all(struct relabelling *l, struct ah_error *err)
{
    int rc = AH_OK;
    for (size_t n = 0; n < l->cluster->n_nodes && !rc; n++) {
        bool first = true;
        for (size_t before = 0; before < n; before++)
            first &= !equal_nodes(l->cluster, before, n);
        if (first)
            rc = assign_nodes(l, n, err);
    }
    size_t *gpus = calloc(l->roles.n + 1, sizeof *gpus);
    rc = rc ? rc : gpus ? AH_OK : ah_error_memory(err);
    for (size_t n = 0; n < l->cluster->n_nodes && !rc; n++) {
        double kept;
        size_t first = l->first_role[n], end = l->first_role[n + 1];
        rc = assign_gpus(l, n, l->new_node[n], gpus, &kept, err);
        for (size_t r = first; r < end && !rc; r++)
            l->new_rank[l->roles.items[r].rank] = l->first_rank[l->new_node[n]] + gpus[r - first];
    }
    free(gpus);
    return rc;
}

/* ---- the plan ---- */

static int begin_relabelling(struct relabelling *l, const struct ah_cluster_plan *plan, struct ah_error *err)
{
    size_t n_nodes = l->cluster->n_nodes, r = 0;
    int rc = ah_roles_init(&l->roles, plan, l->cluster, l->states, l->arena, err);
    if (rc)
        return rc;
    l->n_ranks = ah_cluster_gpus(l->cluster);
    l->first_role = ah_arena_array(l->arena, n_nodes + 1, sizeof *l->first_role);
    l->first_rank = ah_arena_array(l->arena, n_nodes + 1, sizeof *l->first_rank);
    l->new_node = ah_arena_array(l->arena, n_nodes, sizeof *l->new_node);
    l->new_rank = ah_arena_array(l->arena, l->n_ranks, sizeof *l->new_rank);
    if (!l->first_role || !l->first_rank || !l->new_node || !l->new_rank)
        return ah_error_memory(err);
    for (size_t n = 0; n < n_nodes; n++) {
        l->first_rank[n + 1] = l->first_rank[n] + l->cluster->nodes[n].gpus;
        while (r < l->roles.n && l->roles.items[r].node == n)
            r++;
        l->first_role[n + 1] = r;
    }
    return AH_OK;
}

static void rename_ranks(const struct relabelling *l, uint64_t *ranks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ranks[i] = l->new_rank[ranks[i]];
}

static const char *node_of(const struct relabelling *l, uint64_t rank)
{
    size_t n = 0;
    while (rank >= l->first_rank[n + 1])
        n++;
    return l->cluster->nodes[n].id;
}

/* Lists the ranks without a stage. */
static int rename_idle(const struct relabelling *l, struct ah_cluster_plan *plan, struct ah_error *err)
{
    bool *used = calloc(l->n_ranks + 1, sizeof *used);
    uint64_t *idle = ah_arena_array(l->arena, l->n_ranks, sizeof *idle);
    size_t n = 0;
    if (!used || !idle) {
        free(used);
        return ah_error_memory(err);
    }
    for (size_t r = 0; r < l->roles.n; r++)
        used[l->new_rank[l->roles.items[r].rank]] = true;
    for (uint64_t rank = 0; rank < l->n_ranks; rank++)
        if (!used[rank])
            idle[n++] = rank;
    plan->idle_ranks = idle;
    plan->n_idle_ranks = n;
    free(used);
    return AH_OK;
}

int ah_relabel_plan(const struct ah_cluster *cluster, const struct ah_states *states,
                    const struct ah_holders *holders, struct ah_arena *arena, struct ah_cluster_plan *plan,
                    struct ah_error *err)
{
    struct relabelling l = {.cluster = cluster, .states = states, .holders = holders, .arena = arena};
    int rc = begin_relabelling(&l, plan, err);
    rc = rc ? rc : assign_all(&l, err);
    rc = rc ? rc : rename_idle(&l, plan, err);
    if (rc)
        return rc;
    for (size_t p = 0; p < plan->n_pipelines; p++)
        for (size_t i = 0; i < plan->pipelines[p].n_stages; i++) {
            struct ah_cluster_plan_stage *stage = &plan->pipelines[p].stages[i];
            rename_ranks(&l, stage->ranks, stage->n_ranks);
            stage->node = node_of(&l, stage->ranks[0]);
        }
    for (size_t s = 0; s < plan->n_segments; s++)
        for (size_t g = 0; g < plan->segments[s].n_groups; g++)
            rename_ranks(&l, plan->segments[s].groups[g].ranks, plan->segments[s].groups[g].n_ranks);
    return AH_OK;
}
