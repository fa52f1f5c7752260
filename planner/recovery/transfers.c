/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/recovery/transfers_internal.h"

#include <math.h>
#include <string.h>

/* ---- sources and needs ---- */

static void view_holders(struct ah_transfers *f)
{
    const struct ah_holders *holders = f->input->holders;
    for (size_t p = 0; p < holders->n_entries; p++) {
        const struct ah_holder *holder = &holders->entries[p];
        if (holder->medium == AH_MEDIUM_STORAGE) {
            f->in_storage = holder->holds;
            continue;
        }
        for (size_t shard = 0; shard < f->n_shards; shard++) {
            struct ah_transfers_view *view = ah_transfers_view(f, holder->node, shard);
            if (!holder->holds[shard])
                continue;
            if (holder->medium == AH_MEDIUM_DISK)
                view->on_disk = true;
            else if (!view->holder || holder->medium == AH_MEDIUM_HOST)
                view->holder = (uint32_t)(p + 1);
        }
    }
}

static void view_role(struct ah_transfers *f, size_t r, uint8_t *counted)
{
    const struct ah_states *states = f->input->states;
    const struct ah_gpu_role *role = &f->roles.items[r];
    for (size_t shard = 0; shard < f->n_shards; shard++) {
        uint64_t bytes = ah_states_bytes(states, shard);
        if (!bytes || !ah_role_needs(role, states, shard))
            continue;
        bool port = ah_role_destination(role, states, shard) == AH_DESTINATION_GPU;
        f->needed += bytes;
        f->all_bytes[r] += port ? (double)bytes : 0;
        if (!counted[role->node * f->n_shards + shard]) {
            counted[role->node * f->n_shards + shard] = 1;
            f->node_bytes[role->node] += (double)bytes;
        }
        if (ah_role_kept(role, states, f->input->holders, shard)) {
            f->kept += bytes;
            continue;
        }
        f->port_bytes[r] += port ? (double)bytes : 0;
        struct ah_transfers_view *view = ah_transfers_view(f, role->node, shard);
        view->wanted = !view->holder;
    }
}

static int view_roles(struct ah_transfers *f, struct ah_error *err)
{
    const struct ah_transfers_input *input = f->input;
    size_t n_nodes = input->cluster->n_nodes;
    int rc = ah_roles_init(&f->roles, input->plan, input->cluster, input->states, f->arena, err);
    if (rc)
        return rc;
    f->n_shards = ah_states_shards(input->states);
    f->views = ah_arena_array(f->arena, n_nodes * f->n_shards, sizeof *f->views);
    f->port_bytes = ah_arena_array(f->arena, f->roles.n, sizeof *f->port_bytes);
    f->all_bytes = ah_arena_array(f->arena, f->roles.n, sizeof *f->all_bytes);
    f->node_bytes = ah_arena_array(f->arena, n_nodes, sizeof *f->node_bytes);
    uint8_t *counted = ah_arena_array(f->arena, n_nodes * f->n_shards, sizeof *counted);
    if (!f->views || !f->port_bytes || !f->all_bytes || !f->node_bytes || !counted)
        return ah_error_memory(err);
    view_holders(f);
    for (size_t r = 0; r < f->roles.n; r++)
        view_role(f, r, counted);
    return AH_OK;
}

/* ---- ways ---- */

/* Returns the host memory of the leader's node, from which shards are relayed. */
static struct ah_transfers_source relay_from(const struct ah_transfers *f,
                                             const struct ah_transfer_piece *piece)
{
    return (struct ah_transfers_source){.there = true,
                                        .relayed = true,
                                        .tier = AH_TIER_PEER,
                                        .medium = AH_MEDIUM_HOST,
                                        .node = f->nodes[piece->bundle][piece->leader],
                                        .gpu = AH_INVENTORY_NO_GPU};
}

static void apply_result(struct ah_transfers *f, const struct ah_transfer_result *result)
{
    for (size_t i = 0; i < result->n_pieces; i++) {
        const struct ah_transfer_piece *piece = &result->pieces[i];
        const struct ah_transfer_bundle *bundle = &f->problem.bundles[piece->bundle];
        const size_t *shards = f->shards + f->first[piece->bundle] + piece->first;
        for (size_t k = 0; k < piece->count; k++)
            for (size_t d = 0; d < bundle->n_receivers; d++) {
                struct ah_transfers_view *view = ah_transfers_view(f, f->nodes[piece->bundle][d], shards[k]);
                view->by = piece->choices[d] == AH_TRANSFER_RELAYED
                               ? relay_from(f, piece)
                               : ah_transfers_option_source(
                                     f, shards[k], bundle->receivers[d].options[piece->choices[d]].source);
            }
    }
}

/* ---- times ---- */

/* Returns the rate into the memory of one GPU of a node, in bytes/s. */
static double port_rate(const struct ah_cluster_node *node)
{
    return node->host_link_bytes_per_s > 0 ? node->host_link_bytes_per_s : node->intra_bytes_per_s;
}

/* Returns the longest time in which `bytes` enter the memory of a GPU; `ret_role`: that GPU's role. */
static double ports_s(const struct ah_transfers *f, const double *bytes, size_t *ret_role)
{
    double longest = 0;
    for (size_t r = 0; r < f->roles.n; r++) {
        double s = bytes[r] / port_rate(&f->input->cluster->nodes[f->roles.items[r].node]);
        if (s > longest) {
            longest = s;
            *ret_role = r;
        }
    }
    return longest;
}

static double baseline_s(const struct ah_transfers *f)
{
    const struct ah_cluster *cluster = f->input->cluster;
    size_t role;
    double longest = ports_s(f, f->all_bytes, &role), all = 0;
    if (!cluster->cloud)
        return 0;
    for (size_t n = 0; n < cluster->n_nodes; n++) {
        double rate = fmin(cluster->cloud->node_bytes_per_s, cluster->nodes[n].nic_bytes_per_s);
        all += f->node_bytes[n];
        longest = fmax(longest, f->node_bytes[n] / rate);
    }
    return fmax(longest, all / cluster->cloud->total_bytes_per_s);
}

static int predict(const struct ah_transfers *f, const struct ah_transfer_result *result,
                   struct ah_moves_predicted *predicted, struct ah_error *err)
{
    size_t role = 0;
    double port = ports_s(f, f->port_bytes, &role), time_s = fmax(result->time_s, port);
    predicted->time_us = 1e6 * time_s;
    predicted->bound_us = fmin(1e6 * fmax(result->bound_s, port), predicted->time_us);
    predicted->gap = time_s > 0 ? (predicted->time_us - predicted->bound_us) / predicted->time_us : 0;
    predicted->baseline_us = 1e6 * baseline_s(f);
    predicted->speed_up = time_s > 0 ? predicted->baseline_us / predicted->time_us : 0;
    predicted->limit = NULL;
    if (!(time_s > 0))
        return AH_OK;
    if (port >= result->time_s) {
        const char *id = f->input->cluster->nodes[f->roles.items[role].node].id;
        char *text = ah_arena_alloc(f->arena, strlen(id) + 32);
        predicted->limit = text;
        if (text)
            strcat(strcpy(text, "into GPUs of "), id);
    } else {
        predicted->limit = ah_transfers_resource_name(f, result->limit);
    }
    return predicted->limit ? AH_OK : ah_error_memory(err);
}

int ah_transfers_plan(const struct ah_transfers_input *input, struct ah_arena *arena, struct ah_moves *moves,
                      struct ah_error *err)
{
    struct ah_transfers f = {.input = input, .arena = arena};
    struct ah_transfer_result result = {0};
    int rc = view_roles(&f, err);
    rc = rc ? rc : ah_transfers_bundle(&f, err);
    rc = rc ? rc : ah_transfer_solve(&f.problem, &input->limits, arena, &result, err);
    if (rc)
        return rc;
    apply_result(&f, &result);
    rc = predict(&f, &result, &moves->predicted, err);
    rc = rc ? rc : ah_transfers_list(&f, moves, err);
    moves->bytes.needed = f.needed;
    moves->bytes.kept = f.kept;
    return rc;
}
