/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of a machine document, and functions that look up its rates.
 */
#include "schemas/machine.h"

#include "schemas/algorithms_internal.h"
#include "schemas/kinds_internal.h"
#include "schemas/rows_internal.h"

#include <math.h>
#include <string.h>

#define RATE_MAX  1e18
#define BYTES_MAX AH_FIELD_COUNT_MAX

static const char *const kind_words[] = {"machine", NULL};
static const char *const origin_words[] = {"measured", "synthetic", NULL};

static int metric_check(const void *group, struct ah_error *err)
{
    const struct ah_metric *metric = group;
    if (metric->min > metric->median)
        return ah_meaning_fail_numbers(err, "min", metric->min, "is above the median", metric->median);
    if (metric->max < metric->median)
        return ah_meaning_fail_numbers(err, "max", metric->max, "is below the median", metric->median);
    return AH_OK;
}

static const struct ah_field metric_fields[] = {
    AH_ROW_COUNT(ah_metric, n, 0, 1e9, "Samples; 0: not measured here, see sources."),
    AH_ROW_NUMBER(ah_metric, median, RATE_MAX, "Median of the samples."),
    AH_ROW_NUMBER(ah_metric, mad, RATE_MAX, "Median absolute deviation from the median."),
    AH_ROW_NUMBER(ah_metric, min, RATE_MAX, "Smallest sample."),
    AH_ROW_NUMBER(ah_metric, max, RATE_MAX, "Largest sample."),
    {0}};
const struct ah_field_table ah_metric_table = {.name = "metric",
                                               .about = "A measured number and its spread.",
                                               .bytes = sizeof(struct ah_metric),
                                               .fields = metric_fields,
                                               .check = metric_check};

static const struct ah_field host_fields[] = {
    {.name = "cpu_model", AH_TEXT_AT(ah_machine_host, cpu_model), .about = "The processor's name."},
    {.name = "isa", AH_TEXT_AT(ah_machine_host, isa), .about = "Widest vector set used."},
    AH_ROW_COUNT(ah_machine_host, sockets, 1, 1024, "Processors."),
    AH_ROW_COUNT(ah_machine_host, numa_nodes, 1, 4096, "Memory nodes."),
    AH_ROW_COUNT(ah_machine_host, cores, 1, 1048576, "Physical cores."),
    AH_ROW_COUNT(ah_machine_host, threads, 1, 1048576, "Hardware threads that a process may use."),
    AH_ROW_COUNT(ah_machine_host, memory_bytes, 1, BYTES_MAX,
                 "The kernel's total, or what a control group allows."),
    AH_ROW_COUNT(ah_machine_host, memlock_bytes, 0, BYTES_MAX,
                 "Memory that may be locked; all memory if unlimited."),
    {.name = "process_bytes",
     AH_COUNT_AT(ah_machine_host, process_bytes),
     .flags = AH_FIELD_OPTIONAL,
     .max = BYTES_MAX,
     .about = "What a run takes beside its arenas: code, libraries, the driver, a save."},
    {0}};
AH_TABLE(host, ah_machine_host, "host", "The host: processors and memory.", NULL);

static const struct ah_field pcie_fields[] = {
    AH_ROW_COUNT(ah_machine_pcie, generation, 1, 64, "Generation that it runs at."),
    AH_ROW_COUNT(ah_machine_pcie, width, 1, 1024, "Lanes that it uses."),
    AH_ROW_COUNT(ah_machine_pcie, max_generation, 1, 64, "Highest generation that both ends support."),
    AH_ROW_COUNT(ah_machine_pcie, max_width, 1, 1024, "Most lanes that both ends support."),
    {0}};
AH_TABLE(pcie, ah_machine_pcie, "pcie", "The device's link to the host, while copies ran.", NULL);

static int device_check(const void *group, struct ah_error *err)
{
    const struct ah_machine_device *device = group;
    if (device->reserve_bytes >= device->memory_bytes)
        return ah_meaning_fail(err, "reserve_bytes", "leaves nothing of memory_bytes");
    return AH_OK;
}

static const struct ah_field device_fields[] = {
    AH_ROW_WORD(ah_machine_device, kind, ah_words_device_kind, "Kind of device."),
    {.name = "name", AH_TEXT_AT(ah_machine_device, name), .about = "The device's own name."},
    AH_ROW_COUNT(ah_machine_device, memory_bytes, 1, BYTES_MAX,
                 "What an arena and the reserve may fill together."),
    AH_ROW_COUNT(ah_machine_device, reserve_bytes, 0, BYTES_MAX, "Context and library workspace."),
    {.name = "bf16",
     AH_BOOL_AT(ah_machine_device, bf16),
     .about = "Does it multiply bf16 matrices natively?"},
    {.name = "pcie",
     AH_GROUP_AT(ah_machine_device, pcie, &pcie_table),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Its PCIe link."},
    {0}};
AH_TABLE(device, ah_machine_device, "device", "The accelerator, or the CPU standing in for one.",
         device_check);

static const struct ah_field memory_fields[] = {
    AH_ROW_WORD(ah_machine_memory, pattern, ah_words_memory_pattern, "What was done to memory."),
    AH_ROW_COUNT(ah_machine_memory, threads, 1, 1048576, "Number of threads."),
    AH_ROW_GROUP(ah_machine_memory, bytes_per_s, &ah_metric_table, "Bytes read and written, both counted."),
    {0}};
AH_TABLE(memory, ah_machine_memory, "memory", "Bandwidth of host memory.", NULL);

static const struct ah_field point_fields[] = {
    AH_ROW_COUNT(ah_machine_point, bytes, 1, BYTES_MAX, "Size of one copy."),
    AH_ROW_GROUP(ah_machine_point, us, &ah_metric_table, "Time of one copy."),
    {0}};
AH_TABLE(point, ah_machine_point, "point", "Copies of one size.", NULL);

static const struct ah_field link_fields[] = {
    AH_ROW_WORD(ah_machine_link, direction, ah_words_direction, "h2d: host to device; d2h: device to host."),
    AH_ROW_NUMBER(ah_machine_link, latency_us, 1e9, "Fitted: time = latency + bytes / rate."),
    AH_ROW_GROUP(ah_machine_link, bytes_per_s, &ah_metric_table,
                 "Median: fitted; spread: at the largest size."),
    AH_ROW_NUMBER(ah_machine_link, fit_error, RATE_MAX, "Worst relative residual of the fit."),
    {.name = "points",
     AH_GROUPS_AT(ah_machine_link, points, &point_table),
     .flags = AH_FIELD_OPTIONAL,
     .about = "The measurements behind the fit."},
    {0}};
AH_TABLE(link, ah_machine_link, "link", "Copies between host and device, one way alone.", NULL);

static const struct ah_field matmul_fields[] = {
    AH_ROW_WORD(ah_machine_matmul, dtype, ah_words_dtype, "Type of both factors."),
    AH_ROW_WORD(ah_machine_matmul, form, ah_words_matmul_form, "Which factor is transposed."),
    AH_ROW_COUNT(ah_machine_matmul, m, 1, 1e9, "Rows of the result."),
    AH_ROW_COUNT(ah_machine_matmul, n, 1, 1e9, "Columns of the result."),
    AH_ROW_COUNT(ah_machine_matmul, k, 1, 1e9, "Length of each sum."),
    AH_ROW_COUNT(ah_machine_matmul, threads, 0, 1048576, "Threads of the host; 0 on a GPU."),
    AH_ROW_GROUP(ah_machine_matmul, flops_per_s, &ah_metric_table, "2 m n k / time."),
    {0}};
AH_TABLE(matmul, ah_machine_matmul, "matmul", "Matrix products of one shape.", NULL);

static const struct ah_field adam_fields[] = {
    AH_ROW_WORD(ah_machine_adam, side, ah_words_side, "Where the update runs."),
    AH_ROW_COUNT(ah_machine_adam, threads, 0, 1048576, "Threads of the host; 0 on a GPU."),
    AH_ROW_WORD(ah_machine_adam, state_dtype, ah_words_dtype, "Type of the moments."),
    AH_ROW_WORD(ah_machine_adam, gradient_dtype, ah_words_dtype, "Type of the gradient."),
    AH_ROW_WORD(ah_machine_adam, weight_dtype, ah_words_dtype,
                "Type of the weight written in the same "
                "pass."),
    AH_ROW_GROUP(ah_machine_adam, params_per_s, &ah_metric_table, "Parameters updated."),
    AH_ROW_NUMBER(
        ah_machine_adam, bandwidth_share, 100,
        "Bytes moved per second over the best in-place scale bandwidth of the same run; 0: unknown."),
    {0}};
AH_TABLE(adam, ah_machine_adam, "adam", "Speed of the optimizer's update.", NULL);

static int beside_check(const void *group, struct ah_error *err)
{
    const struct ah_machine_beside *beside = group;
    if (beside->part == beside->beside)
        return ah_meaning_fail(err, "beside", "a part cannot work beside itself");
    return AH_OK;
}

static const struct ah_field beside_fields[] = {
    AH_ROW_WORD(ah_machine_beside, part, ah_words_part, "The part whose rate is measured."),
    AH_ROW_WORD(ah_machine_beside, beside, ah_words_part, "The part that works all the time."),
    AH_ROW_GROUP(ah_machine_beside, kept, &ah_metric_table, "Share that it keeps of its rate when alone."),
    {0}};
AH_TABLE(beside, ah_machine_beside, "beside", "While one part works, what another keeps of its rate.",
         beside_check);

static const struct ah_field backward_fields[] = {
    AH_ROW_WORD(ah_machine_backward, activations, ah_words_activations,
                "What the block kept of its activations."),
    AH_ROW_GROUP(ah_machine_backward, us, &ah_metric_table, "Time of the pass."),
    {0}};
AH_TABLE(backward, ah_machine_backward, "backward", "The backward pass, with what it recomputes.", NULL);

static int block_check(const void *group, struct ah_error *err)
{
    const struct ah_machine_block *block = group;
    for (size_t i = 0; i < block->n_backward; i++)
        for (size_t j = 0; j < i; j++)
            if (block->backward[i].activations == block->backward[j].activations)
                return ah_meaning_fail_item(err, "backward", i, "activations", "%s appears twice",
                                            ah_words_activations[block->backward[i].activations]);
    return AH_OK;
}

static const struct ah_field block_fields[] = {
    AH_ROW_NAME(ah_machine_block, group, "Which blocks of the model, for people."),
    AH_ROW_SHA256(
        ah_machine_block, program_sha256,
        "Digest of all that the block computes, sizes and types included; not of the model's name."),
    AH_ROW_WORD(ah_machine_block, dtype, ah_words_dtype, "Type of its weights."),
    AH_ROW_COUNT(ah_machine_block, sequences, 1, UINT32_MAX, "Sequences of a micro-batch."),
    AH_ROW_COUNT(ah_machine_block, seq, 1, UINT32_MAX, "Tokens of a sequence."),
    AH_ROW_COUNT(ah_machine_block, threads, 0, 1048576, "Threads of the compute lane; 0 on a GPU."),
    AH_ROW_GROUP(ah_machine_block, forward_us, &ah_metric_table,
                 "Time of the forward pass; of the head: forward, loss and backward."),
    {.name = "backward",
     AH_GROUPS_AT(ah_machine_block, backward, &backward_table),
     .flags = AH_FIELD_OPTIONAL,
     .max_items = 3,
     .about = "The backward pass under each config of activations."},
    {0}};
AH_TABLE(block, ah_machine_block, "block",
         "The forward and backward passes of a model's blocks over one micro-batch, as in a training step.",
         block_check);

static const struct ah_field disk_fields[] = {
    AH_ROW_GROUP(ah_machine_disk, read_bytes_per_s, &ah_metric_table, "Rate of reading one large file."),
    AH_ROW_GROUP(ah_machine_disk, write_bytes_per_s, &ah_metric_table,
                 "Rate of writing one large file, until it is on the disk."),
    {0}};
AH_TABLE(disk, ah_machine_disk, "disk", "The disk that checkpoints go to.", NULL);

static int machine_check(const void *group, struct ah_error *err)
{
    const struct ah_machine *machine = group;
    for (size_t i = 0; i < machine->n_links; i++)
        for (size_t j = 0; j < i; j++)
            if (machine->links[i].direction == machine->links[j].direction)
                return ah_meaning_fail_item(err, "links", i, "direction", "%s appears twice",
                                            ah_words_direction[machine->links[i].direction]);
    for (size_t i = 0; i < machine->n_beside; i++)
        for (size_t j = 0; j < i; j++)
            if (machine->beside[i].part == machine->beside[j].part &&
                machine->beside[i].beside == machine->beside[j].beside)
                return ah_meaning_fail_item(err, "beside", i, NULL, "%s beside %s appears twice",
                                            ah_words_part[machine->beside[i].part],
                                            ah_words_part[machine->beside[i].beside]);
    for (size_t i = 0; i < machine->n_blocks; i++)
        if (ah_machine_find_block(machine, machine->blocks[i].program_sha256, machine->blocks[i].threads) !=
            &machine->blocks[i])
            return ah_meaning_fail_item(err, "blocks", i, "program_sha256",
                                        "appears twice with the same threads");
    return AH_OK;
}

static const struct ah_field machine_fields[] = {
    AH_FIELD_HEAD(ah_machine, kind_words),
    {.name = "name",
     AH_TEXT_AT(ah_machine, name),
     .flags = AH_FIELD_LABEL,
     .form = AH_TEXT_NAME,
     .about = "Short name of the machine."},
    AH_ROW_WORD(ah_machine, origin, origin_words,
                "measured on the machine, or synthetic: assembled from the named sources."),
    {.name = "emulates",
     AH_TEXT_AT(ah_machine, emulates),
     .form = AH_TEXT_NAME,
     .flags = AH_FIELD_OPTIONAL,
     .about = "The machine whose ratios lanes were slowed to while this was measured."},
    AH_ROW_GROUP(ah_machine, host, &host_table, "The host."),
    AH_ROW_GROUP(ah_machine, device, &device_table, "The device."),
    {.name = "memory",
     AH_GROUPS_AT(ah_machine, memory, &memory_table),
     .flags = AH_FIELD_OPTIONAL,
     .max_items = 256,
     .about = "Bandwidth of host memory by pattern and threads."},
    {.name = "links",
     AH_GROUPS_AT(ah_machine, links, &link_table),
     .flags = AH_FIELD_OPTIONAL,
     .max_items = 2,
     .about = "Copies each way."},
    {.name = "matmul",
     AH_GROUPS_AT(ah_machine, matmul, &matmul_table),
     .flags = AH_FIELD_OPTIONAL,
     .max_items = 4096,
     .about = "Matrix products by shape, type, form and threads."},
    {.name = "adam",
     AH_GROUPS_AT(ah_machine, adam, &adam_table),
     .flags = AH_FIELD_OPTIONAL,
     .max_items = 256,
     .about = "Optimizer updates by side, threads and types."},
    {.name = "beside",
     AH_GROUPS_AT(ah_machine, beside, &beside_table),
     .flags = AH_FIELD_OPTIONAL,
     .max_items = 64,
     .about = "What parts keep of their rate beside each other."},
    {.name = "launch_us",
     AH_GROUP_AT(ah_machine, launch_us, &ah_metric_table),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Least time of an op of the compute lane, from many tiny ones."},
    {.name = "blocks",
     AH_GROUPS_AT(ah_machine, blocks, &block_table),
     .flags = AH_FIELD_OPTIONAL,
     .max_items = AH_MACHINE_BLOCKS_MAX,
     .about = "Blocks of models that were measured, by threads."},
    {.name = "algorithms",
     AH_GROUP_AT(ah_machine, algorithms, &ah_algorithms_table),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Algorithms of the device's matrix products, if a library computes them."},
    {.name = "disk",
     AH_GROUP_AT(ah_machine, disk, &disk_table),
     .flags = AH_FIELD_OPTIONAL,
     .about = "The disk."},
    {.name = "noise",
     AH_TEXTS_AT(ah_machine, noise),
     .flags = AH_FIELD_OPTIONAL,
     .max_items = 1024,
     .about = "Noisy measurements, one sentence each."},
    {.name = "sources",
     AH_MAP_AT(ah_machine, sources),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Sources of numbers that were not measured."},
    AH_FIELD_ANNOTATIONS(ah_machine),
    {0}};
static const struct ah_rule machine_rules[] = {
    {"origin", "synthetic", AH_RULE_REQUIRES, "sources", NULL,
     "is missing; a synthetic machine must give the sources of its numbers"},
    {0}};
static const struct ah_field_table machine_table = {
    .name = "machine",
    .about = "A profile: what a planner may believe about one machine.",
    .bytes = sizeof(struct ah_machine),
    .fields = machine_fields,
    .rules = machine_rules,
    .check = machine_check};

const struct ah_kind ah_kind_machine = {
    .table = &machine_table, .alternatives = (const struct ah_field_table *const[]){&machine_table, NULL}};

double ah_machine_matmul_flops_per_s(const struct ah_machine *machine, enum ah_dtype dtype)
{
    double best = 0;
    for (size_t i = 0; i < machine->n_matmul; i++)
        if (machine->matmul[i].dtype == dtype)
            best = fmax(best, machine->matmul[i].flops_per_s.median);
    return best;
}

double ah_machine_link_bytes_per_s(const struct ah_machine *machine, enum ah_direction direction)
{
    for (size_t i = 0; i < machine->n_links; i++)
        if (machine->links[i].direction == direction)
            return machine->links[i].bytes_per_s.median;
    return 0;
}

double ah_machine_adam_params_per_s(const struct ah_machine *machine, enum ah_side side, enum ah_dtype weight)
{
    double best = 0;
    for (size_t i = 0; i < machine->n_adam; i++)
        if (machine->adam[i].side == side && machine->adam[i].weight_dtype == weight &&
            machine->adam[i].state_dtype == AH_FP32)
            best = fmax(best, machine->adam[i].params_per_s.median);
    return best;
}

double ah_machine_adam_bytes(enum ah_dtype state, enum ah_dtype gradient, enum ah_dtype weight)
{
    size_t working = weight == AH_BF16 ? ah_dtype_bytes(AH_BF16) : 0;
    return (double)(2 * sizeof(float) + 4 * ah_dtype_bytes(state) + ah_dtype_bytes(gradient) + working);
}

const struct ah_machine_block *ah_machine_find_block(const struct ah_machine *machine,
                                                     const char *program_sha256, uint64_t threads)
{
    for (size_t i = 0; i < machine->n_blocks; i++)
        if (machine->blocks[i].threads == threads &&
            !strcmp(machine->blocks[i].program_sha256, program_sha256))
            return &machine->blocks[i];
    return NULL;
}

double ah_machine_kept(const struct ah_machine *machine, enum ah_part part, enum ah_part other)
{
    for (size_t i = 0; i < machine->n_beside; i++)
        if (machine->beside[i].part == part && machine->beside[i].beside == other)
            return machine->beside[i].kept.median;
    return 1;
}
