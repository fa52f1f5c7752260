/* SPDX-License-Identifier: Apache-2.0 */
#include "schemas/cluster.h"

#include "schemas/kinds_internal.h"
#include "schemas/rows_internal.h"

#include <string.h>

#define RATE_MAX    1e18
#define THREADS_MAX 1048576

static const char *const kind_words[] = {"cluster", NULL};
static const char *const origin_words[] = {"measured", "peak", NULL};

static int gpu_check(const void *group, struct ah_error *err)
{
    const struct ah_cluster_gpu *gpu = group;
    if (gpu->flops_per_s <= 0 && gpu->fp32_flops_per_s <= 0)
        return ah_meaning_fail(err, "flops_per_s",
                               "is missing, and so is fp32_flops_per_s; give at least "
                               "one");
    if ((gpu->compute_threads > 0) != (gpu->host_threads > 0))
        return ah_meaning_fail(err, gpu->host_threads ? "compute_threads" : "host_threads",
                               "is missing; give both or neither");
    return gpu->reserved_bytes < gpu->memory_bytes
               ? AH_OK
               : ah_meaning_fail(err, "reserved_bytes", "leaves nothing of memory_bytes");
}

static const struct ah_field gpu_fields[] = {
    AH_ROW_NAME(ah_cluster_gpu, name, "Name of the type."),
    AH_ROW_COUNT(ah_cluster_gpu, memory_bytes, 1, AH_FIELD_COUNT_MAX, "Memory of one GPU."),
    AH_ROW_COUNT(ah_cluster_gpu, reserved_bytes, 0, AH_FIELD_COUNT_MAX, "Context and library workspace."),
    {.name = "flops_per_s",
     AH_NUMBER_AT(ah_cluster_gpu, flops_per_s),
     .flags = AH_FIELD_OPTIONAL | AH_FIELD_ABOVE | AH_FIELD_NO_DEFAULT,
     .max = RATE_MAX,
     .about = "Rate of bf16 matrix products; absent: none."},
    {.name = "fp32_flops_per_s",
     AH_NUMBER_AT(ah_cluster_gpu, fp32_flops_per_s),
     .flags = AH_FIELD_OPTIONAL | AH_FIELD_ABOVE | AH_FIELD_NO_DEFAULT,
     .max = RATE_MAX,
     .about = "Rate of fp32 matrix products; absent: assumed equal to that of bf16."},
    AH_ROW_WORD(ah_cluster_gpu, flops_origin, origin_words, "Measured, or the peak of a data sheet."),
    {.name = "memory_bytes_per_s",
     AH_NUMBER_AT(ah_cluster_gpu, memory_bytes_per_s),
     .flags = AH_FIELD_OPTIONAL,
     .max = RATE_MAX,
     .about = "Rate of the GPU's own memory; 0: unknown."},
    {.name = "compute_threads",
     AH_COUNT_AT(ah_cluster_gpu, compute_threads),
     .flags = AH_FIELD_OPTIONAL,
     .max = THREADS_MAX,
     .about = "For CPU devices: cores of the compute lane."},
    {.name = "host_threads",
     AH_COUNT_AT(ah_cluster_gpu, host_threads),
     .flags = AH_FIELD_OPTIONAL,
     .max = THREADS_MAX,
     .about = "For CPU devices: cores of the host lane."},
    {.name = "machine_sha256",
     AH_TEXT_AT(ah_cluster_gpu, machine_sha256),
     .form = AH_TEXT_SHA256,
     .flags = AH_FIELD_OPTIONAL,
     .about = "Digest of the machine document that profiled it."},
    {0}};
AH_TABLE(gpu, ah_cluster_gpu, "gpu", "A type of GPU.", gpu_check);

static const struct ah_field node_fields[] = {
    AH_ROW_NAME(ah_cluster_node, id, "Name of the node."),
    AH_ROW_NAME(ah_cluster_node, gpu, "Type of its GPUs."),
    AH_ROW_COUNT(ah_cluster_node, gpus, 1, 1024, "How many."),
    {.name = "intra_bytes_per_s",
     AH_NUMBER_AT(ah_cluster_node, intra_bytes_per_s),
     .flags = AH_FIELD_ABOVE,
     .max = RATE_MAX,
     .about = "Rate between two GPUs of the node."},
    AH_ROW_NUMBER(ah_cluster_node, intra_latency_us, 1e9, "Latency of such a transfer."),
    {.name = "nic_bytes_per_s",
     AH_NUMBER_AT(ah_cluster_node, nic_bytes_per_s),
     .flags = AH_FIELD_ABOVE,
     .max = RATE_MAX,
     .about = "Rate out of the node, and into it."},
    AH_ROW_NUMBER(ah_cluster_node, nic_latency_us, 1e9, "Latency of such a transfer."),
    AH_ROW_COUNT(ah_cluster_node, host_memory_bytes, 1, AH_FIELD_COUNT_MAX, "Memory of the host."),
    {.name = "host_memory_bytes_per_s",
     AH_NUMBER_AT(ah_cluster_node, host_memory_bytes_per_s),
     .flags = AH_FIELD_OPTIONAL,
     .max = RATE_MAX,
     .about = "Memory rate that AdamW reaches on all cores; 0: unknown, so nothing is kept on this host."},
    {.name = "host_link_bytes_per_s",
     AH_NUMBER_AT(ah_cluster_node, host_link_bytes_per_s),
     .flags = AH_FIELD_OPTIONAL,
     .max = RATE_MAX,
     .about = "Rate between the host and each GPU, each way; 0: unknown, so nothing is kept on this host."},
    {.name = "disk_bytes_per_s",
     AH_NUMBER_AT(ah_cluster_node, disk_bytes_per_s),
     .flags = AH_FIELD_OPTIONAL,
     .max = RATE_MAX,
     .about = "Read rate of the local disk; 0: none."},
    {.name = "zone",
     AH_TEXT_AT(ah_cluster_node, zone),
     .form = AH_TEXT_NAME,
     .flags = AH_FIELD_OPTIONAL,
     .about = "Nodes with the same zone fail together."},
    {.name = "spot",
     AH_BOOL_AT(ah_cluster_node, spot),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Can the node be taken away (spot)?"},
    {0}};
AH_TABLE(node, ah_cluster_node, "node", "A host and its GPUs, all of one type.", NULL);

static const struct ah_field pair_fields[] = {
    AH_ROW_NAME(ah_cluster_pair, a, "A node."),
    AH_ROW_NAME(ah_cluster_pair, b, "Another node."),
    {.name = "bytes_per_s",
     AH_NUMBER_AT(ah_cluster_pair, bytes_per_s),
     .flags = AH_FIELD_ABOVE,
     .max = RATE_MAX,
     .about = "Rate between them, each way."},
    AH_ROW_NUMBER(ah_cluster_pair, latency_us, 1e9, "Latency of such a transfer."),
    {0}};
AH_TABLE(pair, ah_cluster_pair, "pair", "Two nodes whose link differs from the slower of their NICs.", NULL);

static const struct ah_field time_fields[] = {
    AH_ROW_SHA256(ah_cluster_time, model_sha256, "Digest of the model."),
    AH_ROW_NAME(ah_cluster_time, group, "Group of its blocks."),
    AH_ROW_NAME(ah_cluster_time, gpu, "Type of GPU."),
    AH_ROW_COUNT(ah_cluster_time, tp, 1, 1024, "GPUs that share it."),
    AH_ROW_COUNT(ah_cluster_time, sequences, 1, 16777216, "Sequences of the micro-batch."),
    AH_ROW_COUNT(ah_cluster_time, seq, 1, 268435456, "Tokens of a sequence."),
    AH_ROW_WORD(ah_cluster_time, dtype, ah_words_dtype, "Of weights."),
    AH_ROW_WORD(ah_cluster_time, activations, ah_words_activations, "What backward recomputes."),
    AH_ROW_NUMBER(ah_cluster_time, forward_us, 1e15, "Forward, including messages between the GPUs."),
    AH_ROW_NUMBER(
        ah_cluster_time, backward_us, 1e15,
        "Backward, including messages between the GPUs; 0 for the head if its forward includes it."),
    {0}};
AH_TABLE(time, ah_cluster_time, "time", "Measured passes of a block over a micro-batch.", NULL);

static const struct ah_field cloud_fields[] = {{.name = "node_bytes_per_s",
                                                AH_NUMBER_AT(ah_cluster_cloud, node_bytes_per_s),
                                                .flags = AH_FIELD_ABOVE,
                                                .max = RATE_MAX,
                                                .about = "One node alone."},
                                               {.name = "total_bytes_per_s",
                                                AH_NUMBER_AT(ah_cluster_cloud, total_bytes_per_s),
                                                .flags = AH_FIELD_ABOVE,
                                                .max = RATE_MAX,
                                                .about = "All nodes together."},
                                               {0}};
AH_TABLE(cloud, ah_cluster_cloud, "cloud", "Storage that outlives the nodes.", NULL);

static const struct ah_cluster_gpu *find_gpu(const struct ah_cluster *cluster, const char *name)
{
    for (size_t i = 0; i < cluster->n_gpus; i++)
        if (strcmp(cluster->gpus[i].name, name) == 0)
            return &cluster->gpus[i];
    return NULL;
}

static const struct ah_cluster_node *find_node(const struct ah_cluster *cluster, const char *id)
{
    for (size_t i = 0; i < cluster->n_nodes; i++)
        if (strcmp(cluster->nodes[i].id, id) == 0)
            return &cluster->nodes[i];
    return NULL;
}

static int check_threads(const struct ah_cluster *cluster, struct ah_error *err)
{
    const bool cpu = cluster->device == AH_DEVICE_CPU;
    for (size_t i = 0; i < cluster->n_gpus; i++)
        if ((cluster->gpus[i].compute_threads > 0) != cpu)
            return ah_meaning_fail_item(err, "gpus", i, "compute_threads",
                                        cpu ? "is missing; device 'cpu' computes on cores"
                                            : "belongs to device 'cpu', but this cluster's device is a GPU");
    return AH_OK;
}

static int check_nodes(const struct ah_cluster *cluster, struct ah_error *err)
{
    for (size_t i = 0; i < cluster->n_gpus; i++)
        if (find_gpu(cluster, cluster->gpus[i].name) != &cluster->gpus[i])
            return ah_meaning_fail_item(err, "gpus", i, "name", "'%s' appears twice", cluster->gpus[i].name);
    for (size_t i = 0; i < cluster->n_nodes; i++) {
        const struct ah_cluster_node *node = &cluster->nodes[i];
        if (!find_gpu(cluster, node->gpu))
            return ah_meaning_fail_item(err, "nodes", i, "gpu", "'%s' is the name of no entry in gpus",
                                        node->gpu);
        if (find_node(cluster, node->id) != node)
            return ah_meaning_fail_item(err, "nodes", i, "id", "'%s' appears twice", node->id);
    }
    return AH_OK;
}

static bool same_pair(const struct ah_cluster_pair *p, const struct ah_cluster_pair *q)
{
    return (strcmp(p->a, q->a) == 0 && strcmp(p->b, q->b) == 0) ||
           (strcmp(p->a, q->b) == 0 && strcmp(p->b, q->a) == 0);
}

static bool same_time(const struct ah_cluster_time *p, const struct ah_cluster_time *q)
{
    return strcmp(p->model_sha256, q->model_sha256) == 0 && strcmp(p->group, q->group) == 0 &&
           strcmp(p->gpu, q->gpu) == 0 && p->tp == q->tp && p->sequences == q->sequences &&
           p->seq == q->seq && p->dtype == q->dtype && p->activations == q->activations;
}

static int check_times(const struct ah_cluster *cluster, struct ah_error *err)
{
    for (size_t i = 0; i < cluster->n_times; i++) {
        if (!find_gpu(cluster, cluster->times[i].gpu))
            return ah_meaning_fail_item(err, "times", i, "gpu", "'%s' is the name of no entry in gpus",
                                        cluster->times[i].gpu);
        for (size_t j = 0; j < i; j++)
            if (same_time(&cluster->times[i], &cluster->times[j]))
                return ah_meaning_fail_item(err, "times", i, NULL, "measures the same as times[%zu]", j);
    }
    return AH_OK;
}

static int cluster_check(const void *group, struct ah_error *err)
{
    const struct ah_cluster *cluster = group;
    int rc = check_threads(cluster, err);
    if (!rc)
        rc = check_nodes(cluster, err);
    if (!rc)
        rc = check_times(cluster, err);
    for (size_t i = 0; i < cluster->n_pairs && !rc; i++) {
        const struct ah_cluster_pair *pair = &cluster->pairs[i];
        const char *missing = !find_node(cluster, pair->a) ? "a" : !find_node(cluster, pair->b) ? "b" : NULL;
        if (missing)
            rc = ah_meaning_fail_item(err, "pairs", i, missing, "'%s' is the id of no entry in nodes",
                                      *missing == 'a' ? pair->a : pair->b);
        else if (strcmp(pair->a, pair->b) == 0)
            rc = ah_meaning_fail_item(err, "pairs", i, NULL, "'%s' is paired with itself", pair->a);
        for (size_t j = 0; j < i && !rc; j++)
            if (same_pair(pair, &cluster->pairs[j]))
                rc = ah_meaning_fail_item(err, "pairs", i, NULL, "'%s' to '%s' appears twice", pair->a,
                                          pair->b);
    }
    return rc;
}

static const struct ah_field cluster_fields[] = {
    AH_FIELD_HEAD(ah_cluster, kind_words),
    {.name = "name",
     AH_TEXT_AT(ah_cluster, name),
     .flags = AH_FIELD_LABEL,
     .form = AH_TEXT_NAME,
     .about = "Short name of the cluster."},
    {.name = "device",
     AH_WORD_AT(ah_cluster, device, ah_words_device_kind),
     .flags = AH_FIELD_OPTIONAL,
     .fallback = AH_DEVICE_CUDA,
     .about = "Device of all ranks; cpu: gpus are shares of hosts."},
    {.name = "gpus",
     AH_GROUPS_AT(ah_cluster, gpus, &gpu_table),
     .min_items = 1,
     .max_items = 64,
     .about = "Types of GPU."},
    {.name = "nodes",
     AH_GROUPS_AT(ah_cluster, nodes, &node_table),
     .min_items = 1,
     .max_items = 4096,
     .about = "The nodes."},
    {.name = "pairs",
     AH_GROUPS_AT(ah_cluster, pairs, &pair_table),
     .flags = AH_FIELD_OPTIONAL,
     .max_items = 4096,
     .about = "Links that differ from the nodes' own rates."},
    {.name = "times",
     AH_GROUPS_AT(ah_cluster, times, &time_table),
     .flags = AH_FIELD_OPTIONAL,
     .max_items = 4096,
     .about = "Measured passes of blocks."},
    {.name = "cloud",
     AH_GROUP_AT(ah_cluster, cloud, &cloud_table),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Storage that outlives the nodes."},
    {.name = "sources",
     AH_MAP_AT(ah_cluster, sources),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Where numbers come from."},
    AH_FIELD_ANNOTATIONS(ah_cluster),
    {0}};
AH_TABLE(cluster, ah_cluster, "cluster", "Nodes with GPUs of unequal kinds, and the network between them.",
         cluster_check);

const struct ah_kind ah_kind_cluster = {
    .table = &cluster_table, .alternatives = (const struct ah_field_table *const[]){&cluster_table, NULL}};

const struct ah_cluster_gpu *ah_cluster_gpu_of(const struct ah_cluster *cluster,
                                               const struct ah_cluster_node *node)
{
    return find_gpu(cluster, node->gpu);
}

struct ah_cluster_link ah_cluster_link_of(const struct ah_cluster *cluster, size_t a, size_t b)
{
    const struct ah_cluster_node *p = &cluster->nodes[a], *q = &cluster->nodes[b];
    if (a == b)
        return (struct ah_cluster_link){p->intra_bytes_per_s, p->intra_latency_us};
    const struct ah_cluster_pair nodes = {.a = p->id, .b = q->id};
    for (size_t i = 0; i < cluster->n_pairs; i++)
        if (same_pair(&cluster->pairs[i], &nodes))
            return (struct ah_cluster_link){cluster->pairs[i].bytes_per_s, cluster->pairs[i].latency_us};
    return (struct ah_cluster_link){
        p->nic_bytes_per_s < q->nic_bytes_per_s ? p->nic_bytes_per_s : q->nic_bytes_per_s,
        p->nic_latency_us > q->nic_latency_us ? p->nic_latency_us : q->nic_latency_us};
}

double ah_cluster_gpu_flops_per_s(const struct ah_cluster_gpu *gpu, enum ah_dtype dtype)
{
    return dtype == AH_FP32 && gpu->fp32_flops_per_s > 0 ? gpu->fp32_flops_per_s : gpu->flops_per_s;
}

bool ah_cluster_has(const struct ah_cluster *cluster, enum ah_dtype dtype, const char **ret_gpu)
{
    for (size_t i = 0; i < cluster->n_gpus; i++)
        if (!(ah_cluster_gpu_flops_per_s(&cluster->gpus[i], dtype) > 0)) {
            *ret_gpu = cluster->gpus[i].name;
            return false;
        }
    return true;
}

uint64_t ah_cluster_gpus(const struct ah_cluster *cluster)
{
    uint64_t gpus = 0;
    for (size_t i = 0; i < cluster->n_nodes; i++)
        gpus += cluster->nodes[i].gpus;
    return gpus;
}

double ah_cluster_flops_per_s(const struct ah_cluster *cluster)
{
    double sum = 0;
    for (size_t i = 0; i < cluster->n_nodes; i++) {
        const struct ah_cluster_gpu *gpu = find_gpu(cluster, cluster->nodes[i].gpu);
        enum ah_dtype dtype = gpu && gpu->flops_per_s > 0 ? AH_BF16 : AH_FP32;
        sum += gpu ? (double)cluster->nodes[i].gpus * ah_cluster_gpu_flops_per_s(gpu, dtype) : 0;
    }
    return sum;
}
