/* SPDX-License-Identifier: Apache-2.0
 *
 * Bundles: groups of equal shards. Shards are equal if they have the same size and every node wants or has them in the
 * same way. They are sorted so that equal shards are adjacent, and cut into bundles between unequal ones.
 */
#include "planner/recovery/transfers_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FROM_DISK, FROM_STORAGE, FROM_PEERS };

/* How a shard stands with a node, as bits. */
enum { WANTED = 1, IN_MEMORY = 2, ON_DISK = 4 };
static int standing(const struct ah_transfers_view *view)
{
    return (view->wanted ? WANTED : 0) | (view->holder ? IN_MEMORY : 0) | (view->on_disk ? ON_DISK : 0);
}

static int compare_shards(const void *a, const void *b, void *transfers)
{
    const struct ah_transfers *f = transfers;
    size_t p = *(const size_t *)a, q = *(const size_t *)b;
    uint64_t p_bytes = ah_states_bytes(f->input->states, p), q_bytes = ah_states_bytes(f->input->states, q);
    if (p_bytes != q_bytes)
        return p_bytes > q_bytes ? -1 : 1;
    for (size_t n = 0; n < f->input->cluster->n_nodes; n++) {
        int x = standing(ah_transfers_view(f, n, p)), y = standing(ah_transfers_view(f, n, q));
        if (x != y)
            return x - y;
    }
    return f->in_storage ? f->in_storage[p] - f->in_storage[q] : 0;
}

static int in_order(const void *a, const void *b, void *transfers)
{
    size_t p = *(const size_t *)a, q = *(const size_t *)b;
    int order = compare_shards(a, b, transfers);
    return order ? order : (p > q) - (p < q);
}

/* ---- resources ---- */

static int rate_resources(struct ah_transfers *f, struct ah_error *err)
{
    const struct ah_cluster *cluster = f->input->cluster;
    size_t n = cluster->n_nodes * AH_TRANSFERS_PER_NODE;
    f->problem.n_resources = n + 1 + 2 * cluster->n_pairs;
    f->rates = ah_arena_array(f->arena, f->problem.n_resources, sizeof *f->rates);
    if (!f->rates)
        return ah_error_memory(err);
    f->problem.rates = f->rates;
    for (size_t i = 0; i < cluster->n_nodes; i++) {
        const struct ah_cluster_node *node = &cluster->nodes[i];
        f->rates[ah_transfers_resource(i, AH_TRANSFERS_OUT)] = node->nic_bytes_per_s;
        f->rates[ah_transfers_resource(i, AH_TRANSFERS_IN)] = node->nic_bytes_per_s;
        f->rates[ah_transfers_resource(i, AH_TRANSFERS_DISK)] = fmax(node->disk_bytes_per_s, 1);
        f->rates[ah_transfers_resource(i, AH_TRANSFERS_STORAGE)] =
            cluster->cloud ? cluster->cloud->node_bytes_per_s : 1;
    }
    f->rates[n] = cluster->cloud ? cluster->cloud->total_bytes_per_s : 1;
    for (size_t i = 0; i < cluster->n_pairs; i++)
        f->rates[n + 1 + 2 * i] = f->rates[n + 2 + 2 * i] = cluster->pairs[i].bytes_per_s;
    return AH_OK;
}

const char *ah_transfers_resource_name(const struct ah_transfers *f, size_t resource)
{
    static const char *const words[AH_TRANSFERS_PER_NODE] = {"network out of ", "network into ", "disk of ",
                                                             "storage into "};
    const struct ah_cluster *cluster = f->input->cluster;
    size_t n = cluster->n_nodes * AH_TRANSFERS_PER_NODE;
    char text[320];
    if (resource < n) {
        snprintf(text, sizeof text, "%s%s", words[resource % AH_TRANSFERS_PER_NODE],
                 cluster->nodes[resource / AH_TRANSFERS_PER_NODE].id);
    } else if (resource == n) {
        snprintf(text, sizeof text, "storage, all together");
    } else {
        const struct ah_cluster_pair *pair = &cluster->pairs[(resource - n - 1) / 2];
        bool back = (resource - n - 1) % 2;
        snprintf(text, sizeof text, "network from %s to %s", back ? pair->b : pair->a,
                 back ? pair->a : pair->b);
    }
    return ah_arena_strdup(f->arena, text);
}

/* Adds the resource of a pair of nodes, if there is one. */
static void pass_pair(const struct ah_transfers *f, size_t from, size_t to, struct ah_transfer_option *option)
{
    const struct ah_cluster *cluster = f->input->cluster;
    const char *a = cluster->nodes[from].id, *b = cluster->nodes[to].id;
    for (size_t i = 0; i < cluster->n_pairs; i++) {
        const struct ah_cluster_pair *pair = &cluster->pairs[i];
        bool forth = !strcmp(pair->a, a) && !strcmp(pair->b, b);
        if (forth || (!strcmp(pair->a, b) && !strcmp(pair->b, a)))
            option->passes[option->n_passes++] =
                cluster->n_nodes * AH_TRANSFERS_PER_NODE + 1 + 2 * i + (forth ? 0 : 1);
    }
}

/* ---- options ---- */

static struct ah_transfer_option from_peer(const struct ah_transfers *f, size_t from, size_t to, bool disk)
{
    struct ah_transfer_option option = {
        .source = FROM_PEERS + 2 * from + disk,
        .passes = {ah_transfers_resource(from, AH_TRANSFERS_OUT), ah_transfers_resource(to, AH_TRANSFERS_IN)},
        .n_passes = 2};
    if (disk)
        option.passes[option.n_passes++] = ah_transfers_resource(from, AH_TRANSFERS_DISK);
    pass_pair(f, from, to, &option);
    return option;
}

static struct ah_transfer_option from_storage(const struct ah_transfers *f, size_t to)
{
    return (struct ah_transfer_option){.source = FROM_STORAGE,
                                       .passes = {ah_transfers_resource(to, AH_TRANSFERS_STORAGE),
                                                  f->input->cluster->n_nodes * AH_TRANSFERS_PER_NODE,
                                                  ah_transfers_resource(to, AH_TRANSFERS_IN)},
                                       .n_passes = 3};
}

/* Returns the option in which node `via` reads the shard from storage and passes it on as it arrives. */
static struct ah_transfer_option from_storage_via(const struct ah_transfers *f, size_t via, size_t to)
{
    size_t n_nodes = f->input->cluster->n_nodes;
    struct ah_transfer_option option = {
        .source = FROM_PEERS + 2 * n_nodes + via,
        .passes = {ah_transfers_resource(via, AH_TRANSFERS_STORAGE), n_nodes * AH_TRANSFERS_PER_NODE,
                   ah_transfers_resource(via, AH_TRANSFERS_IN), ah_transfers_resource(via, AH_TRANSFERS_OUT),
                   ah_transfers_resource(to, AH_TRANSFERS_IN)},
        .n_passes = 5};
    pass_pair(f, via, to, &option);
    return option;
}

/* Lists options, nearer ones first. With sources `near`, omits those farther than necessary. */
static size_t put_options(const struct ah_transfers *f, size_t shard, size_t to,
                          struct ah_transfer_option *out)
{
    bool all = f->input->sources == AH_SOURCES_FAST;
    size_t n = 0;
    if (ah_transfers_view(f, to, shard)->on_disk)
        out[n++] = (struct ah_transfer_option){
            .source = FROM_DISK, .passes = {ah_transfers_resource(to, AH_TRANSFERS_DISK)}, .n_passes = 1};
    for (int disk = 0; disk < 2 && (all || !n || out[0].source != FROM_DISK); disk++)
        for (size_t from = 0; from < f->input->cluster->n_nodes; from++) {
            const struct ah_transfers_view *view = ah_transfers_view(f, from, shard);
            if (from != to && (disk ? view->on_disk && !view->holder : view->holder > 0))
                out[n++] = from_peer(f, from, to, disk);
        }
    if (f->in_storage && f->in_storage[shard] && (all || !n))
        out[n++] = from_storage(f, to);
    for (size_t via = 0; via < f->input->cluster->n_nodes && all && f->in_storage && f->in_storage[shard];
         via++)
        if (via != to)
            out[n++] = from_storage_via(f, via, to);
    return n;
}

static int put_receivers(struct ah_transfers *f, size_t shard, const size_t *nodes,
                         struct ah_transfer_bundle *bundle, struct ah_error *err)
{
    struct ah_transfer_receiver *receivers = ah_arena_array(f->arena, bundle->n_receivers, sizeof *receivers);
    size_t most = 3 * f->input->cluster->n_nodes + 2;
    struct ah_transfer_option *scratch = calloc(most, sizeof *scratch);
    int rc = receivers && scratch ? AH_OK : ah_error_memory(err);
    for (size_t d = 0; d < bundle->n_receivers && !rc; d++) {
        size_t n = put_options(f, shard, nodes[d], scratch);
        struct ah_transfer_option *options = ah_arena_array(f->arena, n, sizeof *options);
        if (!options) {
            rc = ah_error_memory(err);
            break;
        }
        memcpy(options, scratch, n * sizeof *options);
        receivers[d] = (struct ah_transfer_receiver){.options = options, .n_options = n};
        for (size_t i = 0; i < n && f->input->sources == AH_SOURCES_FAST; i++)
            if (options[i].source == FROM_STORAGE)
                receivers[d].fallback = i + 1;
    }
    free(scratch);
    bundle->receivers = receivers;
    return rc;
}

/* Sets the allowed relays. With sources `near`, a node with the shard on its disk accepts none. */
static int put_relays(struct ah_transfers *f, size_t shard, const size_t *nodes,
                      struct ah_transfer_bundle *bundle, struct ah_error *err)
{
    size_t n = bundle->n_receivers;
    if (n < 2)
        return AH_OK;
    struct ah_transfer_option *relays = ah_arena_array(f->arena, n * n, sizeof *relays);
    if (!relays)
        return ah_error_memory(err);
    for (size_t from = 0; from < n; from++)
        for (size_t to = 0; to < n; to++)
            if (from != to &&
                (f->input->sources == AH_SOURCES_FAST || !ah_transfers_view(f, nodes[to], shard)->on_disk))
                relays[from * n + to] = from_peer(f, nodes[from], nodes[to], false);
    bundle->relays = relays;
    return AH_OK;
}

/* ---- bundles ---- */

static int put_bundle(struct ah_transfers *f, size_t b, size_t begin, size_t end,
                      struct ah_transfer_bundle *bundle, struct ah_error *err)
{
    size_t shard = f->shards[begin], n_nodes = f->input->cluster->n_nodes;
    *bundle =
        (struct ah_transfer_bundle){.bytes = ah_states_bytes(f->input->states, shard), .count = end - begin};
    f->first[b] = begin;
    f->nodes[b] = ah_arena_array(f->arena, n_nodes, sizeof *f->nodes[b]);
    if (!f->nodes[b])
        return ah_error_memory(err);
    bool anywhere = false;
    for (size_t n = 0; n < n_nodes; n++) {
        const struct ah_transfers_view *view = ah_transfers_view(f, n, shard);
        anywhere |= view->holder || view->on_disk;
        if (view->wanted)
            f->nodes[b][bundle->n_receivers++] = n;
    }
    bundle->once = !anywhere && f->input->sources == AH_SOURCES_NEAR;
    int rc = put_receivers(f, shard, f->nodes[b], bundle, err);
    return rc ? rc : put_relays(f, shard, f->nodes[b], bundle, err);
}

static size_t gather_wanted(struct ah_transfers *f)
{
    size_t count = 0;
    for (size_t shard = 0; shard < f->n_shards; shard++) {
        bool wanted = false;
        for (size_t n = 0; n < f->input->cluster->n_nodes; n++)
            wanted |= ah_transfers_view(f, n, shard)->wanted;
        if (wanted)
            f->shards[count++] = shard;
    }
    return count;
}

int ah_transfers_bundle(struct ah_transfers *f, struct ah_error *err)
{
    int rc = rate_resources(f, err);
    if (rc)
        return rc;
    f->shards = ah_arena_array(f->arena, f->n_shards, sizeof *f->shards);
    if (!f->shards)
        return ah_error_memory(err);
    size_t count = gather_wanted(f), n = 0;
    qsort_r(f->shards, count, sizeof *f->shards, in_order, f);
    for (size_t i = 0; i < count; i++)
        n += !i || compare_shards(&f->shards[i - 1], &f->shards[i], f) != 0;
    struct ah_transfer_bundle *bundles = ah_arena_array(f->arena, n + 1, sizeof *bundles);
    f->first = ah_arena_array(f->arena, n + 1, sizeof *f->first);
    f->nodes = ah_arena_array(f->arena, n + 1, sizeof *f->nodes);
    if (!bundles || !f->first || !f->nodes)
        return ah_error_memory(err);
    for (size_t i = 0, j, b = 0; i < count && !rc; i = j, b++) {
        for (j = i + 1; j < count && compare_shards(&f->shards[i], &f->shards[j], f) == 0; j++)
            ;
        rc = put_bundle(f, b, i, j, &bundles[b], err);
    }
    f->problem.bundles = bundles;
    f->problem.n_bundles = n;
    return rc;
}

struct ah_transfers_source ah_transfers_option_source(const struct ah_transfers *f, size_t shard,
                                                      size_t source)
{
    struct ah_transfers_source from = {.there = true, .gpu = AH_INVENTORY_NO_GPU};
    if (source == FROM_DISK || source == FROM_STORAGE) {
        from.tier = source == FROM_DISK ? AH_TIER_DISK : AH_TIER_STORAGE;
        from.medium = source == FROM_DISK ? AH_MEDIUM_DISK : AH_MEDIUM_STORAGE;
        from.node = f->input->cluster->n_nodes;
        return from;
    }
    size_t n_nodes = f->input->cluster->n_nodes;
    if (source >= FROM_PEERS + 2 * n_nodes) {
        from.tier = AH_TIER_STORAGE;
        from.medium = AH_MEDIUM_STORAGE;
        from.node = n_nodes;
        from.via = 1 + source - FROM_PEERS - 2 * n_nodes;
        return from;
    }
    from.tier = AH_TIER_PEER;
    from.node = (source - FROM_PEERS) / 2;
    from.medium = AH_MEDIUM_DISK;
    if ((source - FROM_PEERS) % 2 == 0) {
        const struct ah_holder *holder =
            &f->input->holders->entries[ah_transfers_view(f, from.node, shard)->holder - 1];
        from.medium = holder->medium;
        from.gpu = holder->gpu;
    }
    return from;
}
