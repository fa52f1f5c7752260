/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows a cluster: its types of GPU, its nodes and the links between them.
 */
#include "cli/inspect/inspect.h"

#include "base/units.h"
#include "schemas/cluster.h"

#include <inttypes.h>

static void put_facts(struct ah_cli *cli, const struct ah_cluster *cluster)
{
    char a[AH_UNITS_TEXT_MAX];
    char b[AH_UNITS_TEXT_MAX];
    struct ah_table facts = ah_inspect_facts(cli);
    ah_table_cell(&facts, "cluster");
    ah_table_cell(&facts, "%s", cluster->name);
    ah_table_cell(&facts, cluster->device == AH_DEVICE_CPU ? "CPU ranks" : "GPUs");
    ah_table_cell(&facts, "%" PRIu64 " in %zu nodes, together %s", ah_cluster_gpus(cluster), cluster->n_nodes,
                  ah_units_print_flops(a, ah_cluster_flops_per_s(cluster)));
    if (cluster->cloud) {
        ah_table_cell(&facts, "cloud storage");
        ah_table_cell(&facts, "%s a node, %s together",
                      ah_units_print_rate(a, cluster->cloud->node_bytes_per_s),
                      ah_units_print_rate(b, cluster->cloud->total_bytes_per_s));
    }
    ah_table_cell(&facts, "written by");
    ah_table_cell(&facts, "%s", cluster->generator);
    ah_table_print(&facts, &cli->out, cli->out_style, cli->table_columns);
}

static bool tells_fp32(const struct ah_cluster *cluster)
{
    bool has_fp32 = false;
    for (size_t i = 0; i < cluster->n_gpus; i++)
        has_fp32 = has_fp32 || cluster->gpus[i].fp32_flops_per_s > 0;
    return has_fp32;
}

static void put_rate(struct ah_table *table, double flops_per_s)
{
    char text[AH_UNITS_TEXT_MAX];
    ah_table_cell(table, "%s", flops_per_s > 0 ? ah_units_print_flops(text, flops_per_s) : "-");
}

/* Prints the types of GPU. Leaves out columns in which no type has a number. */
static void put_gpus(struct ah_cli *cli, const struct ah_cluster *cluster)
{
    const bool fp32 = tells_fp32(cluster), cpu = cluster->device == AH_DEVICE_CPU;
    struct ah_table table = {.arena = &cli->arena, .columns = {"type", ">memory", ">reserved", ">bf16 rate"}};
    char text[AH_UNITS_TEXT_MAX];
    size_t column = 4;
    if (fp32)
        table.columns[column++] = ">fp32 rate";
    table.columns[column++] = "rate is";
    if (cpu)
        table.columns[column] = "cores of compute + host";
    for (size_t i = 0; i < cluster->n_gpus; i++) {
        const struct ah_cluster_gpu *gpu = &cluster->gpus[i];
        ah_table_cell(&table, "%s", gpu->name);
        ah_table_cell(&table, "%s", ah_units_print_bytes(text, gpu->memory_bytes));
        ah_table_cell(&table, "%s", ah_units_print_bytes(text, gpu->reserved_bytes));
        put_rate(&table, gpu->flops_per_s);
        if (fp32)
            put_rate(&table, gpu->fp32_flops_per_s);
        ah_table_cell(&table, "%s", gpu->flops_origin == AH_FLOPS_PEAK ? "peak" : "achieved");
        if (cpu && gpu->compute_threads)
            ah_table_cell(&table, "%" PRIu64 " + %" PRIu64, gpu->compute_threads, gpu->host_threads);
        else if (cpu)
            ah_table_cell(&table, "-");
    }
    ah_inspect_table(cli, cpu ? "types of rank" : "GPU types", &table);
}

static void put_nodes(struct ah_cli *cli, const struct ah_cluster *cluster)
{
    struct ah_table table = {.arena = &cli->arena,
                             .columns = {"node", cluster->device == AH_DEVICE_CPU ? "ranks" : "GPUs",
                                         ">inside", ">network", ">latency", ">host memory", ">disk", "zone",
                                         ""}};
    char text[AH_UNITS_TEXT_MAX];
    for (size_t i = 0; i < cluster->n_nodes; i++) {
        const struct ah_cluster_node *node = &cluster->nodes[i];
        ah_table_cell(&table, "%s", node->id);
        ah_table_cell(&table, "%" PRIu64 " %s", node->gpus, node->gpu);
        ah_table_cell(&table, "%s", ah_units_print_rate(text, node->intra_bytes_per_s));
        ah_table_cell(&table, "%s", ah_units_print_rate(text, node->nic_bytes_per_s));
        ah_table_cell(&table, "%s", ah_units_print_time(text, node->nic_latency_us));
        ah_table_cell(&table, "%s", ah_units_print_bytes(text, node->host_memory_bytes));
        ah_table_cell(&table, "%s",
                      node->disk_bytes_per_s > 0 ? ah_units_print_rate(text, node->disk_bytes_per_s) : "-");
        ah_table_cell(&table, "%s", node->zone ? node->zone : "");
        ah_table_cell(&table, "%s", node->spot ? "spot" : "");
    }
    ah_inspect_table(cli, "nodes", &table);
}

static void put_pairs(struct ah_cli *cli, const struct ah_cluster *cluster)
{
    struct ah_table table = {.arena = &cli->arena, .columns = {"from", "to", ">rate", ">latency"}};
    char text[AH_UNITS_TEXT_MAX];
    for (size_t i = 0; i < cluster->n_pairs; i++) {
        ah_table_cell(&table, "%s", cluster->pairs[i].a);
        ah_table_cell(&table, "%s", cluster->pairs[i].b);
        ah_table_cell(&table, "%s", ah_units_print_rate(text, cluster->pairs[i].bytes_per_s));
        ah_table_cell(&table, "%s", ah_units_print_time(text, cluster->pairs[i].latency_us));
    }
    ah_inspect_table(cli, "connections unlike the nodes' own rates", &table);
}

void ah_inspect_cluster_text(struct ah_cli *cli, const struct ah_document *document)
{
    const struct ah_cluster *cluster = document->body.cluster;
    put_facts(cli, cluster);
    put_gpus(cli, cluster);
    put_nodes(cli, cluster);
    put_pairs(cli, cluster);
    ah_inspect_pairs(cli, "sources", cluster->sources, cluster->n_sources);
}

void ah_inspect_cluster_json(struct ah_emit *emit, const struct ah_document *document)
{
    const struct ah_cluster *cluster = document->body.cluster;
    ah_emit_text(emit, "name", cluster->name);
    ah_emit_text(emit, "device", ah_words_device_kind[cluster->device]);
    ah_emit_integer(emit, "nodes", cluster->n_nodes);
    ah_emit_integer(emit, "gpus", ah_cluster_gpus(cluster));
    ah_emit_number(emit, "flops_per_s", ah_cluster_flops_per_s(cluster));
    ah_emit_open(emit, "gpu_types", '[');
    for (size_t i = 0; i < cluster->n_gpus; i++) {
        ah_emit_open(emit, NULL, '{');
        ah_emit_text(emit, "name", cluster->gpus[i].name);
        ah_emit_integer(emit, "memory_bytes", cluster->gpus[i].memory_bytes);
        if (cluster->gpus[i].flops_per_s > 0)
            ah_emit_number(emit, "flops_per_s", cluster->gpus[i].flops_per_s);
        if (cluster->gpus[i].fp32_flops_per_s > 0)
            ah_emit_number(emit, "fp32_flops_per_s", cluster->gpus[i].fp32_flops_per_s);
        ah_emit_close(emit);
    }
    ah_emit_close(emit);
}
