/* SPDX-License-Identifier: Apache-2.0
 *
 * (1) to (3) are the rules in the header.
 */
#include "profiler/cluster_measured.h"

#include "base/buffer.h"
#include "profiler/profile_rank.h"
#include "schemas/field.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    PAIRS_MAX = 4096,
    NAME_BYTES = 200,
    NAME_MOST = 100,
};

static const double memory_off = 0.05, rate_off = 0.10, pair_rate_off = 0.10, pair_latency_off = 0.25,
                    pair_latency_off_us = 10;

struct making {
    const struct ah_cluster_measured *measured;
    struct ah_arena *arena;
    struct ah_cluster *cluster;
    struct ah_profile_rank *ranks; /* by host */
    size_t *firsts;                /* by type: its first host's number */
    uint64_t *n_of;                /* by type: its number of hosts */
};

static const struct ah_machine *machine_of(const struct making *making, size_t host)
{
    return making->measured->hosts[host].document->body.machine;
}

/* ---- (1) ranks ---- */

/* Counts the ranks of all hosts on the same machine as this one. */
static uint64_t ranks_on_machine(const struct ah_cluster_measured *measured, size_t host)
{
    uint64_t n = 0;
    for (size_t i = 0; i < measured->n_hosts; i++)
        n += measured->hosts[i].first == measured->hosts[host].first ? measured->hosts[i].slots : 0;
    return n;
}

static int read_rank(struct making *making, size_t host, struct ah_error *err)
{
    const struct ah_measured_host *given = &making->measured->hosts[host];
    const struct ah_machine *machine = machine_of(making, host);
    const uint64_t ranks = ranks_on_machine(making->measured, host);
    struct ah_profile_rank_options options = {.ranks = ranks};
    if (machine->device.kind != machine_of(making, 0)->device.kind)
        return ah_error_set(err, AH_E_DOCUMENT,
                            "hosts '%s' and '%s' have different kinds of device; a cluster needs one kind",
                            making->measured->hosts[0].name, given->name);
    if (machine->device.kind == AH_DEVICE_CPU && ranks > machine->host.threads)
        return ah_error_set(err, AH_E_USAGE,
                            "host '%s' has %" PRIu64 " threads for %" PRIu64 " slots; give it at most one "
                            "slot per thread",
                            given->name, machine->host.threads, ranks);
    if (machine->device.kind != AH_DEVICE_CPU) {
        options.ranks = 0;
        if (ranks > 1)
            return ah_error_set(err, AH_E_USAGE,
                                "host '%s' has %" PRIu64 " slots, but only one of its GPUs is measured; "
                                "write 'slots=1'",
                                given->name, ranks);
    }
    return ah_profile_rank_read(machine, given->name, &options, &making->ranks[host], err);
}

/* ---- (2) types ---- */

static bool is_near(double a, double b, double off)
{
    return fabs(a - b) <= off * fmax(fabs(a), fabs(b));
}

static bool is_alike(const struct ah_machine *m, const struct ah_cluster_gpu *gpu,
                     const struct ah_machine *other_m, const struct ah_cluster_gpu *other)
{
    return !strcmp(m->device.name, other_m->device.name) && gpu->compute_threads == other->compute_threads &&
           gpu->host_threads == other->host_threads &&
           is_near((double)gpu->memory_bytes, (double)other->memory_bytes, memory_off) &&
           is_near(gpu->flops_per_s, other->flops_per_s, rate_off) &&
           is_near(gpu->fp32_flops_per_s, other->fp32_flops_per_s, rate_off) &&
           is_near(gpu->memory_bytes_per_s, other->memory_bytes_per_s, rate_off);
}

static const char *number_name(struct ah_arena *arena, const char *base, uint64_t number)
{
    char text[NAME_BYTES];
    snprintf(text, sizeof text, "%.100s-%" PRIu64, base, number);
    return ah_arena_strdup(arena, text);
}

static const char *new_type_name(const struct making *making, const char *base)
{
    const struct ah_cluster *cluster = making->cluster;
    const char *name = base;
    bool taken = true;
    for (uint64_t number = 2; name && taken; number++) {
        taken = false;
        for (size_t i = 0; i < cluster->n_gpus; i++)
            taken = taken || !strcmp(cluster->gpus[i].name, name);
        name = taken ? number_name(making->arena, base, number) : name;
    }
    return name;
}

/* Finds the type of the host's ranks: that of an earlier host, or a new one. `ret_type` is its number. */
static int find_type(struct making *making, size_t host, size_t *ret_type, struct ah_error *err)
{
    struct ah_cluster *cluster = making->cluster;
    const struct ah_machine *machine = machine_of(making, host);
    struct ah_cluster_gpu gpu = ah_profile_rank_gpu(&making->ranks[host]);
    size_t type = 0;
    while (type < cluster->n_gpus) {
        const struct ah_cluster_gpu first = ah_profile_rank_gpu(&making->ranks[making->firsts[type]]);
        if (is_alike(machine, &gpu, machine_of(making, making->firsts[type]), &first))
            break;
        type++;
    }
    *ret_type = type;
    if (type < cluster->n_gpus)
        return AH_OK;
    gpu.name = new_type_name(making, machine->name);
    if (!gpu.name)
        return ah_error_memory(err);
    making->firsts[type] = host;
    cluster->gpus[cluster->n_gpus++] = gpu;
    return AH_OK;
}

static double mean_of(double mean, double value, double n)
{
    return mean + (value - mean) / n;
}

/* Updates a type for the n-th of its hosts. */
static void add_to_type(struct ah_cluster_gpu *type, const struct ah_cluster_gpu *gpu, double n)
{
    type->memory_bytes = gpu->memory_bytes < type->memory_bytes ? gpu->memory_bytes : type->memory_bytes;
    type->reserved_bytes =
        gpu->reserved_bytes > type->reserved_bytes ? gpu->reserved_bytes : type->reserved_bytes;
    type->flops_per_s = mean_of(type->flops_per_s, gpu->flops_per_s, n);
    type->fp32_flops_per_s = mean_of(type->fp32_flops_per_s, gpu->fp32_flops_per_s, n);
    type->memory_bytes_per_s = mean_of(type->memory_bytes_per_s, gpu->memory_bytes_per_s, n);
}

/* ---- nodes ---- */

/* Returns the host's name as a valid id of a node, with a number added if an earlier node has that id. */
static const char *node_id(const struct making *making, size_t host)
{
    const struct ah_cluster *cluster = making->cluster;
    char *base = ah_arena_strndup(making->arena, making->measured->hosts[host].name,
                                  strnlen(making->measured->hosts[host].name, NAME_MOST));
    for (char *at = base; at && *at; at++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-", *at))
            *at = '-';
    if (base && !ah_field_fits_text(AH_TEXT_NAME, base))
        base = ah_arena_strdup(making->arena, "host");
    const char *id = base;
    bool taken = true;
    for (uint64_t number = 2; id && taken; number++) {
        taken = false;
        for (size_t i = 0; i < cluster->n_nodes; i++)
            taken = taken || !strcmp(cluster->nodes[i].id, id);
        id = taken ? number_name(making->arena, base, number) : id;
    }
    return id;
}

static int add_node(struct making *making, size_t host, const char *gpu, struct ah_error *err)
{
    const struct ah_measured_host *given = &making->measured->hosts[host];
    const struct ah_machine *machine = machine_of(making, host);
    const struct ah_profile_rank *rank = &making->ranks[host];
    const double share = (double)given->slots / (double)rank->ranks; /* this host's fraction of the machine */
    const char *id = node_id(making, host);
    if (!id)
        return ah_error_memory(err);
    making->cluster->nodes[making->cluster->n_nodes++] = (struct ah_cluster_node){
        .id = id,
        .gpu = gpu,
        .gpus = given->slots,
        .intra_bytes_per_s = rank->link_bytes_per_s,
        .intra_latency_us = rank->link_latency_us,
        .host_memory_bytes = rank->host_memory_bytes / rank->ranks * given->slots,
        .host_memory_bytes_per_s = rank->host_bytes_per_s * share,
        .host_link_bytes_per_s = rank->host_link_bytes_per_s, /* already for one rank */
        .disk_bytes_per_s = machine->disk ? machine->disk->read_bytes_per_s.median * share : 0};
    return AH_OK;
}

static int add_host(struct making *making, size_t host, struct ah_error *err)
{
    size_t type = 0;
    int rc = find_type(making, host, &type, err);
    if (rc)
        return rc;
    const struct ah_cluster_gpu gpu = ah_profile_rank_gpu(&making->ranks[host]);
    add_to_type(&making->cluster->gpus[type], &gpu, (double)++making->n_of[type]);
    return add_node(making, host, making->cluster->gpus[type].name, err);
}

/* ---- (3) links ---- */

/* Sets the card to the node's best links: all links count or, if `between`, only those between machines. */
static void fill_nic(const struct making *making, size_t host, bool between)
{
    const struct ah_cluster_measured *measured = making->measured;
    struct ah_cluster_node *node = &making->cluster->nodes[host];
    for (size_t i = 0; i < measured->n_links; i++) {
        const struct ah_measured_link *link = &measured->links[i];
        const bool between_hosts = measured->hosts[link->a].first != measured->hosts[link->b].first;
        if ((link->a != host && link->b != host) || (between && !between_hosts))
            continue;
        if (!(node->nic_bytes_per_s > 0) || link->link.latency_us < node->nic_latency_us)
            node->nic_latency_us = link->link.latency_us;
        node->nic_bytes_per_s = fmax(node->nic_bytes_per_s, link->link.bytes_per_s);
    }
}

static bool is_unequal(const struct ah_cluster *cluster, const struct ah_measured_link *link)
{
    const struct ah_cluster_link cards = ah_cluster_link_of(cluster, link->a, link->b);
    const double slower = link->link.latency_us - cards.latency_us;
    return fabs(link->link.bytes_per_s - cards.bytes_per_s) > pair_rate_off * cards.bytes_per_s ||
           fabs(slower) > fmax(pair_latency_off * cards.latency_us, pair_latency_off_us);
}

static int add_pairs(struct making *making, struct ah_error *err)
{
    struct ah_cluster *cluster = making->cluster;
    struct ah_cluster_pair *pairs =
        ah_arena_array(making->arena, making->measured->n_links + 1, sizeof *pairs);
    size_t n = 0;
    if (!pairs)
        return ah_error_memory(err);
    for (size_t i = 0; i < making->measured->n_links; i++) {
        const struct ah_measured_link *link = &making->measured->links[i];
        if (is_unequal(cluster, link))
            pairs[n++] = (struct ah_cluster_pair){cluster->nodes[link->a].id, cluster->nodes[link->b].id,
                                                  link->link.bytes_per_s, link->link.latency_us};
    }
    cluster->pairs = pairs; /* set last, because each pair is judged as if no pairs were listed */
    cluster->n_pairs = n;
    return n <= PAIRS_MAX
               ? AH_OK
               : ah_error_set(err, AH_E_CAPACITY,
                              "%zu pairs of hosts have links unlike their cards' rates, but a cluster "
                              "document holds at most %d; measure fewer hosts at once",
                              n, PAIRS_MAX);
}

/* ---- names ---- */

/* Makes the cluster's name from its nodes, such as "a+b+5-more". */
static int name_cluster(struct making *making, struct ah_error *err)
{
    const struct ah_cluster *cluster = making->cluster;
    struct ah_buffer text = {0};
    for (size_t i = 0; i < cluster->n_nodes && !text.failed; i++) {
        if (i && text.size + strlen(cluster->nodes[i].id) > NAME_MOST) {
            ah_buffer_printf(&text, "+%zu-more", cluster->n_nodes - i);
            break;
        }
        ah_buffer_printf(&text, "%s%s", i ? "+" : "", cluster->nodes[i].id);
    }
    making->cluster->name = text.failed ? NULL : ah_arena_strdup(making->arena, text.data);
    ah_buffer_release(&text);
    return making->cluster->name ? AH_OK : ah_error_memory(err);
}

static int fill_sources(struct making *making, struct ah_error *err)
{
    static const struct ah_text_pair said[] = {
        {"gpus", "measured on each host; hosts alike: their least memory, their mean rates"},
        {"gpus.memory_bytes_per_s",
         "derived from what AdamW moves on the device, taken as 80 % of this rate"},
        {"nodes", "'profile --hosts': a node for each host, a rank for each slot"},
        {"nodes.host_memory_bytes_per_s", "AdamW on the host, measured"},
        {"nodes.intra_bytes_per_s", "the profiles' links, the slower direction"},
        {"nodes.nic_bytes_per_s", "measured: the best of the node's links, by ping-pong over MPI"},
        {"nodes.nic_latency_us", "the same"},
        {"pairs", "measured: only pairs 10 % slower, or 25 % and 10 us later, than their nodes' numbers"}};
    struct ah_text_pair *copy = ah_arena_alloc(making->arena, sizeof said);
    if (!copy)
        return ah_error_memory(err);
    memcpy(copy, said, sizeof said);
    making->cluster->sources = copy;
    making->cluster->n_sources = sizeof said / sizeof *said;
    return AH_OK;
}

/* Sets, for each type with a single host, the digest of that host's profile. */
static int name_profiles(struct making *making, struct ah_error *err)
{
    int rc = AH_OK;
    for (size_t type = 0; type < making->cluster->n_gpus && !rc; type++) {
        char *sha256 = making->n_of[type] == 1 ? ah_arena_alloc(making->arena, AH_DOCUMENT_DIGEST_MAX) : NULL;
        if (making->n_of[type] != 1)
            continue;
        if (!sha256)
            return ah_error_memory(err);
        rc = ah_document_digest(making->measured->hosts[making->firsts[type]].document, sha256, err);
        making->cluster->gpus[type].machine_sha256 = sha256;
    }
    return rc;
}

static int fill_cluster(struct making *making, struct ah_error *err)
{
    const struct ah_cluster_measured *measured = making->measured;
    int rc = AH_OK;
    for (size_t i = 0; i < measured->n_hosts && !rc; i++)
        rc = read_rank(making, i, err);
    for (size_t i = 0; i < measured->n_hosts && !rc; i++)
        rc = add_host(making, i, err);
    for (size_t i = 0; i < measured->n_hosts && !rc; i++) {
        fill_nic(making, i, true);
        if (!(making->cluster->nodes[i].nic_bytes_per_s > 0))
            fill_nic(making, i, false);
    }
    rc = rc ? rc : add_pairs(making, err);
    rc = rc ? rc : name_profiles(making, err);
    rc = rc ? rc : name_cluster(making, err);
    return rc ? rc : fill_sources(making, err);
}

int ah_cluster_measured(const struct ah_cluster_measured *measured, struct ah_arena *arena,
                        struct ah_cluster *ret_cluster, struct ah_error *err)
{
    const size_t n = measured->n_hosts;
    struct ah_cluster cluster = {.generator = "autohete " AUTOHETE_VERSION,
                                 .device = measured->hosts[0].document->body.machine->device.kind};
    struct making making = {.measured = measured, .arena = arena, .cluster = &cluster};
    cluster.gpus = ah_arena_array(arena, n, sizeof *cluster.gpus);
    cluster.nodes = ah_arena_array(arena, n, sizeof *cluster.nodes);
    making.ranks = ah_arena_array(arena, n, sizeof *making.ranks);
    making.firsts = ah_arena_array(arena, n, sizeof *making.firsts);
    making.n_of = ah_arena_array(arena, n, sizeof *making.n_of);
    if (!cluster.gpus || !cluster.nodes || !making.ranks || !making.firsts || !making.n_of)
        return ah_error_memory(err);
    int rc = fill_cluster(&making, err);
    if (!rc)
        *ret_cluster = cluster;
    return rc;
}
