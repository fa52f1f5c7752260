/* SPDX-License-Identifier: Apache-2.0
 *
 * Holders: finds the newest step whose states can all be reached, and who has them.
 */
#include "planner/recovery/holders.h"

#include "runtime/schedule/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gathering {
    const struct ah_inventory *inventory;
    const struct ah_cluster *cluster;
    const struct ah_states *states;
    size_t *node_of;  /* by holding: node of the cluster; n_nodes: storage; SIZE_MAX: unreachable */
    uint8_t *covered; /* by shard: some holder has the shard of the step being checked */
    uint64_t *steps;  /* steps of the reachable holdings, newest first, each once */
    size_t n_steps;
};

/* ---- what can be reached ---- */

static size_t find_node(const struct ah_cluster *cluster, const char *id)
{
    for (size_t n = 0; n < cluster->n_nodes; n++)
        if (strcmp(cluster->nodes[n].id, id) == 0)
            return n;
    return SIZE_MAX;
}

static size_t node_of_holding(const struct gathering *g, const struct ah_inventory_holding *holding)
{
    if (holding->medium == AH_MEDIUM_STORAGE)
        return g->cluster->cloud ? g->cluster->n_nodes : SIZE_MAX;
    size_t n = find_node(g->cluster, holding->node);
    if (n == SIZE_MAX)
        return n;
    const struct ah_cluster_node *node = &g->cluster->nodes[n];
    bool there = (holding->medium != AH_MEDIUM_GPU || holding->gpu < node->gpus) &&
                 (holding->medium != AH_MEDIUM_DISK || node->disk_bytes_per_s > 0);
    return there ? n : SIZE_MAX;
}

static int newest_first(const void *a, const void *b)
{
    uint64_t p = *(const uint64_t *)a, q = *(const uint64_t *)b;
    return (p < q) - (p > q);
}

static int gather_holdings(struct gathering *g, struct ah_arena *arena, struct ah_error *err)
{
    const struct ah_inventory *inventory = g->inventory;
    size_t n = 0;
    g->node_of = ah_arena_array(arena, inventory->n_holdings, sizeof *g->node_of);
    g->steps = ah_arena_array(arena, inventory->n_holdings, sizeof *g->steps);
    g->covered = ah_arena_array(arena, ah_states_shards(g->states), sizeof *g->covered);
    if (!g->node_of || !g->steps || !g->covered)
        return ah_error_memory(err);
    for (size_t i = 0; i < inventory->n_holdings; i++) {
        g->node_of[i] = node_of_holding(g, &inventory->holdings[i]);
        if (g->node_of[i] != SIZE_MAX)
            g->steps[n++] = inventory->holdings[i].step;
    }
    qsort(g->steps, n, sizeof *g->steps, newest_first);
    for (size_t i = 0; i < n; i++)
        if (!i || g->steps[i] != g->steps[i - 1])
            g->steps[g->n_steps++] = g->steps[i];
    return AH_OK;
}

/* ---- the step ---- */

static void mark_row(const struct gathering *g, const struct ah_inventory_holding *holding, size_t row,
                     uint8_t *holds)
{
    uint64_t end = ah_inventory_slices_end(g->inventory, holding);
    for (uint64_t slice = holding->first_slice; slice < end; slice++)
        for (unsigned k = 0; k < AH_SHARD_KINDS; k++) {
            const struct ah_shard shard = {row, slice, (enum ah_shard_kind)k};
            if (ah_inventory_holds_kind(holding, shard.kind))
                holds[ah_states_index(g->states, shard)] = 1;
        }
}

static void mark_shards(const struct gathering *g, const struct ah_inventory_holding *holding, uint8_t *holds)
{
    const struct ah_states *states = g->states;
    for (uint64_t b = holding->first_block; b < holding->first_block + holding->blocks; b++)
        mark_row(g, holding, b, holds);
    if (ah_states_covers(states, holding->first_block, holding->blocks, states->n_blocks))
        mark_row(g, holding, states->n_blocks, holds);
}

/* Returns the first shard of `step` missing from all reachable holders; the number of shards if none is missing. */
static size_t first_missing(const struct gathering *g, uint64_t step)
{
    size_t n = ah_states_shards(g->states), shard = 0;
    memset(g->covered, 0, n);
    for (size_t i = 0; i < g->inventory->n_holdings; i++)
        if (g->node_of[i] != SIZE_MAX && g->inventory->holdings[i].step == step)
            mark_shards(g, &g->inventory->holdings[i], g->covered);
    while (shard < n && (g->covered[shard] || !ah_states_bytes(g->states, shard)))
        shard++;
    return shard;
}

static bool holds_shard(const struct gathering *g, const struct ah_inventory_holding *holding,
                        struct ah_shard shard)
{
    return ah_states_covers(g->states, holding->first_block, holding->blocks, shard.row) &&
           shard.slice >= holding->first_slice &&
           shard.slice < ah_inventory_slices_end(g->inventory, holding) &&
           ah_inventory_holds_kind(holding, shard.kind);
}

/* Returns the unreachable holding that contained the shard; NULL: unknown. */
static const struct ah_inventory_holding *who_had(const struct gathering *g, struct ah_shard shard,
                                                  uint64_t step)
{
    for (size_t i = 0; i < g->inventory->n_holdings; i++) {
        const struct ah_inventory_holding *holding = &g->inventory->holdings[i];
        if (g->node_of[i] == SIZE_MAX && holding->step == step && holds_shard(g, holding, shard))
            return holding;
    }
    return NULL;
}

/* True if a holding is in a storage, which has no node. */
static bool has_storage(const struct gathering *g)
{
    for (size_t i = 0; i < g->inventory->n_holdings; i++)
        if (g->inventory->holdings[i].medium == AH_MEDIUM_STORAGE)
            return true;
    return false;
}

static int fail_missing(const struct gathering *g, struct ah_error *err)
{
    const char *cluster = g->cluster->name;
    if (!g->n_steps && !g->cluster->cloud && has_storage(g))
        return ah_error_set(
            err, AH_E_INFEASIBLE,
            "holdings: none is on a node of cluster '%s', and the storage of others is not in "
            "it; bring back a node, or add the storage's rates as 'cloud'",
            cluster);
    if (!g->n_steps)
        return ah_error_set(
            err, AH_E_INFEASIBLE,
            "holdings: none is on a node of cluster '%s' or in its storage ('cloud'); bring back a node, or "
            "add what storage holds",
            cluster);
    uint64_t step = g->steps[0];
    struct ah_shard shard = ah_states_shard(g->states, first_missing(g, step));
    const struct ah_inventory_holding *had = who_had(g, shard, step);
    const char *by = !had ? NULL : had->node ? had->node : "storage";
    char what[AH_NAME_MAX], remedy[256];
    if (shard.row == g->states->n_blocks)
        snprintf(what, sizeof what, "the tied table");
    else
        ah_name_block((struct ah_name_blocks){.of_model = g->states->n_blocks}, shard.row, what);
    if (!by)
        snprintf(remedy, sizeof remedy, "add a holding of it, or of a whole older step");
    else
        snprintf(remedy, sizeof remedy, "bring back '%.128s', which had it, or add a whole older step", by);
    return ah_error_set(err, AH_E_INFEASIBLE,
                        "holdings: no step is complete. Of the newest, step %" PRIu64
                        ", cluster '%s' lacks '%s' of slice %zu of %s; %s",
                        step, cluster, ah_words_shard_kind[shard.kind], shard.slice, what, remedy);
}

static int choose_step(struct gathering *g, uint64_t *ret_step, struct ah_error *err)
{
    for (size_t i = 0; i < g->n_steps; i++)
        if (first_missing(g, g->steps[i]) == ah_states_shards(g->states)) {
            *ret_step = g->steps[i];
            return AH_OK;
        }
    return fail_missing(g, err);
}

/* ---- holders ---- */

static int by_holder(const void *a, const void *b)
{
    const struct ah_holder *p = a, *q = b;
    if (p->node != q->node)
        return p->node < q->node ? -1 : 1;
    if (p->medium != q->medium)
        return p->medium < q->medium ? -1 : 1;
    return (p->gpu > q->gpu) - (p->gpu < q->gpu);
}

static struct ah_holder *holder_of(struct ah_holders *holders, const struct gathering *g, size_t i,
                                   struct ah_arena *arena)
{
    const struct ah_inventory_holding *holding = &g->inventory->holdings[i];
    struct ah_holder holder = {.medium = holding->medium, .node = g->node_of[i], .gpu = holding->gpu};
    for (size_t p = 0; p < holders->n_entries; p++)
        if (by_holder(&holders->entries[p], &holder) == 0)
            return &holders->entries[p];
    holder.holds = ah_arena_array(arena, ah_states_shards(g->states), sizeof *holder.holds);
    if (!holder.holds)
        return NULL;
    holders->entries[holders->n_entries] = holder;
    return &holders->entries[holders->n_entries++];
}

int ah_holders_init(struct ah_holders *ret_holders, const struct ah_inventory *inventory,
                    const struct ah_cluster *cluster, const struct ah_states *states, struct ah_arena *arena,
                    struct ah_error *err)
{
    struct gathering g = {.inventory = inventory, .cluster = cluster, .states = states};
    struct ah_holders holders = {0};
    int rc = gather_holdings(&g, arena, err);
    rc = rc ? rc : choose_step(&g, &holders.step, err);
    if (rc)
        return rc;
    holders.lost_steps = inventory->step - holders.step;
    holders.entries = ah_arena_array(arena, inventory->n_holdings, sizeof *holders.entries);
    if (!holders.entries)
        return ah_error_memory(err);
    for (size_t i = 0; i < inventory->n_holdings; i++) {
        holders.unreachable += g.node_of[i] == SIZE_MAX;
        if (g.node_of[i] == SIZE_MAX || inventory->holdings[i].step != holders.step)
            continue;
        struct ah_holder *holder = holder_of(&holders, &g, i, arena);
        if (!holder)
            return ah_error_memory(err);
        mark_shards(&g, &inventory->holdings[i], holder->holds);
    }
    qsort(holders.entries, holders.n_entries, sizeof *holders.entries, by_holder);
    *ret_holders = holders;
    return AH_OK;
}

const struct ah_holder *ah_holders_find(const struct ah_holders *holders, enum ah_medium medium, size_t node,
                                        uint64_t gpu)
{
    const struct ah_holder key = {.medium = medium, .node = node, .gpu = gpu};
    return holders->n_entries
               ? bsearch(&key, holders->entries, holders->n_entries, sizeof *holders->entries, by_holder)
               : NULL;
}

const struct ah_holder *ah_holders_in_memory(const struct ah_holders *holders, size_t node, size_t shard)
{
    const struct ah_holder *found = NULL;
    for (size_t p = 0; p < holders->n_entries; p++) {
        const struct ah_holder *holder = &holders->entries[p];
        if (holder->node != node || holder->medium > AH_MEDIUM_HOST || !holder->holds[shard])
            continue;
        if (holder->medium == AH_MEDIUM_HOST)
            return holder;
        found = found ? found : holder;
    }
    return found;
}
