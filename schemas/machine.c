/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of a machine document, and the few rates that others take from it.
 */
#include "schemas/machine.h"

#include "schemas/algorithms_internal.h"
#include "schemas/kinds_internal.h"

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
    {.name = "n",
     AH_COUNT_AT(ah_metric, n),
     .max = 1e9,
     .about = "Samples; 0: not measured here, see sources."},
    {.name = "median", AH_NUMBER_AT(ah_metric, median), .max = RATE_MAX, .about = "Median of the samples."},
    {.name = "mad",
     AH_NUMBER_AT(ah_metric, mad),
     .max = RATE_MAX,
     .about = "Median absolute deviation from the median."},
    {.name = "min", AH_NUMBER_AT(ah_metric, min), .max = RATE_MAX, .about = "Smallest sample."},
    {.name = "max", AH_NUMBER_AT(ah_metric, max), .max = RATE_MAX, .about = "Largest sample."},
    {0}};
const struct ah_field_table ah_metric_table = {.name = "metric",
                                               .about = "A measured number and its spread.",
                                               .bytes = sizeof(struct ah_metric),
                                               .fields = metric_fields,
                                               .check = metric_check};

static const struct ah_field host_fields[] = {
    {.name = "cpu_model", AH_TEXT_AT(ah_machine_host, cpu_model), .about = "The processor's name."},
    {.name = "isa", AH_TEXT_AT(ah_machine_host, isa), .about = "Widest vector set used."},
    {.name = "sockets", AH_COUNT_AT(ah_machine_host, sockets), .min = 1, .max = 1024, .about = "Processors."},
    {.name = "numa_nodes",
     AH_COUNT_AT(ah_machine_host, numa_nodes),
     .min = 1,
     .max = 4096,
     .about = "Memory nodes."},
    {.name = "cores",
     AH_COUNT_AT(ah_machine_host, cores),
     .min = 1,
     .max = 1048576,
     .about = "Physical cores."},
    {.name = "threads",
     AH_COUNT_AT(ah_machine_host, threads),
     .min = 1,
     .max = 1048576,
     .about = "Hardware threads that a process may use."},
    {.name = "memory_bytes",
     AH_COUNT_AT(ah_machine_host, memory_bytes),
     .min = 1,
     .max = BYTES_MAX,
     .about = "The kernel's total, or what a control group allows."},
    {.name = "memlock_bytes",
     AH_COUNT_AT(ah_machine_host, memlock_bytes),
     .max = BYTES_MAX,
     .about = "How much memory may be locked; all of it where that is unlimited."},
    {0}};
static const struct ah_field_table host_table = {.name = "host",
                                                 .about = "The host: processors and memory.",
                                                 .bytes = sizeof(struct ah_machine_host),
                                                 .fields = host_fields};

#define PCIE(member, most, sentence)                                                                         \
    {                                                                                                        \
        .name = #member, AH_COUNT_AT(ah_machine_pcie, member), .min = 1, .max = (most), .about = (sentence)  \
    }
static const struct ah_field pcie_fields[] = {PCIE(generation, 64, "Generation that it runs at."),
                                              PCIE(width, 1024, "Lanes that it uses."),
                                              PCIE(max_generation, 64, "Highest generation of both ends."),
                                              PCIE(max_width, 1024, "Most lanes of both ends."),
                                              {0}};
static const struct ah_field_table pcie_table = {.name = "pcie",
                                                 .about = "The device's link to the host, while copies ran.",
                                                 .bytes = sizeof(struct ah_machine_pcie),
                                                 .fields = pcie_fields};

static int device_check(const void *group, struct ah_error *err)
{
    const struct ah_machine_device *device = group;
    if (device->reserve_bytes >= device->memory_bytes)
        return ah_meaning_fail(err, "reserve_bytes", "leaves nothing of memory_bytes");
    return AH_OK;
}

static const struct ah_field device_fields[] = {
    {.name = "kind", AH_WORD_AT(ah_machine_device, kind, ah_words_device_kind), .about = "Kind of device."},
    {.name = "name", AH_TEXT_AT(ah_machine_device, name), .about = "The device's own name."},
    {.name = "memory_bytes",
     AH_COUNT_AT(ah_machine_device, memory_bytes),
     .min = 1,
     .max = BYTES_MAX,
     .about = "What an arena and the reserve may fill together."},
    {.name = "reserve_bytes",
     AH_COUNT_AT(ah_machine_device, reserve_bytes),
     .max = BYTES_MAX,
     .about = "Context and library workspace."},
    {.name = "bf16",
     AH_BOOL_AT(ah_machine_device, bf16),
     .about = "Does it multiply bf16 matrices natively?"},
    {.name = "pcie",
     AH_GROUP_AT(ah_machine_device, pcie, &pcie_table),
     .flags = AH_FIELD_OPTIONAL,
     .about = "The link that it hangs on."},
    {0}};
static const struct ah_field_table device_table = {.name = "device",
                                                   .about =
                                                       "The accelerator, or the CPU standing in for one.",
                                                   .bytes = sizeof(struct ah_machine_device),
                                                   .fields = device_fields,
                                                   .check = device_check};

static const struct ah_field memory_fields[] = {
    {.name = "pattern",
     AH_WORD_AT(ah_machine_memory, pattern, ah_words_memory_pattern),
     .about = "What was done to memory."},
    {.name = "threads",
     AH_COUNT_AT(ah_machine_memory, threads),
     .min = 1,
     .max = 1048576,
     .about = "By how many threads."},
    {.name = "bytes_per_s",
     AH_GROUP_AT(ah_machine_memory, bytes_per_s, &ah_metric_table),
     .about = "Bytes read and written, both counted."},
    {0}};
static const struct ah_field_table memory_table = {.name = "memory",
                                                   .about = "Bandwidth of host memory.",
                                                   .bytes = sizeof(struct ah_machine_memory),
                                                   .fields = memory_fields};

static const struct ah_field point_fields[] = {
    {.name = "bytes",
     AH_COUNT_AT(ah_machine_point, bytes),
     .min = 1,
     .max = BYTES_MAX,
     .about = "Size of one copy."},
    {.name = "us", AH_GROUP_AT(ah_machine_point, us, &ah_metric_table), .about = "Time of one copy."},
    {0}};
static const struct ah_field_table point_table = {.name = "point",
                                                  .about = "Copies of one size.",
                                                  .bytes = sizeof(struct ah_machine_point),
                                                  .fields = point_fields};

static const struct ah_field link_fields[] = {{.name = "direction",
                                               AH_WORD_AT(ah_machine_link, direction, ah_words_direction),
                                               .about = "h2d: host to device; d2h: device to host."},
                                              {.name = "latency_us",
                                               AH_NUMBER_AT(ah_machine_link, latency_us),
                                               .max = 1e9,
                                               .about = "Fitted: time = latency + bytes / rate."},
                                              {.name = "bytes_per_s",
                                               AH_GROUP_AT(ah_machine_link, bytes_per_s, &ah_metric_table),
                                               .about = "Median: fitted; spread: of the largest size."},
                                              {.name = "fit_error",
                                               AH_NUMBER_AT(ah_machine_link, fit_error),
                                               .max = RATE_MAX,
                                               .about = "Worst relative residual of the fit."},
                                              {.name = "points",
                                               AH_GROUPS_AT(ah_machine_link, points, &point_table),
                                               .flags = AH_FIELD_OPTIONAL,
                                               .about = "What was fitted."},
                                              {0}};
static const struct ah_field_table link_table = {.name = "link",
                                                 .about = "Copies between host and device, one way alone.",
                                                 .bytes = sizeof(struct ah_machine_link),
                                                 .fields = link_fields};

static const struct ah_field matmul_fields[] = {
    {.name = "dtype", AH_WORD_AT(ah_machine_matmul, dtype, ah_words_dtype), .about = "Type of both factors."},
    {.name = "form",
     AH_WORD_AT(ah_machine_matmul, form, ah_words_matmul_form),
     .about = "Which factor is transposed."},
    {.name = "m", AH_COUNT_AT(ah_machine_matmul, m), .min = 1, .max = 1e9, .about = "Rows of the result."},
    {.name = "n", AH_COUNT_AT(ah_machine_matmul, n), .min = 1, .max = 1e9, .about = "Columns of the result."},
    {.name = "k", AH_COUNT_AT(ah_machine_matmul, k), .min = 1, .max = 1e9, .about = "Length of each sum."},
    {.name = "threads",
     AH_COUNT_AT(ah_machine_matmul, threads),
     .max = 1048576,
     .about = "Threads of the host; 0 on a GPU."},
    {.name = "flops_per_s",
     AH_GROUP_AT(ah_machine_matmul, flops_per_s, &ah_metric_table),
     .about = "2 m n k / time."},
    {0}};
static const struct ah_field_table matmul_table = {.name = "matmul",
                                                   .about = "Matrix products of one shape.",
                                                   .bytes = sizeof(struct ah_machine_matmul),
                                                   .fields = matmul_fields};

static const struct ah_field adam_fields[] = {
    {.name = "side", AH_WORD_AT(ah_machine_adam, side, ah_words_side), .about = "Where the update runs."},
    {.name = "threads",
     AH_COUNT_AT(ah_machine_adam, threads),
     .max = 1048576,
     .about = "Threads of the host; 0 on a GPU."},
    {.name = "state_dtype",
     AH_WORD_AT(ah_machine_adam, state_dtype, ah_words_dtype),
     .about = "Of the moments."},
    {.name = "gradient_dtype",
     AH_WORD_AT(ah_machine_adam, gradient_dtype, ah_words_dtype),
     .about = "Of the gradient."},
    {.name = "weight_dtype",
     AH_WORD_AT(ah_machine_adam, weight_dtype, ah_words_dtype),
     .about = "Of the weight written in the same pass."},
    {.name = "params_per_s",
     AH_GROUP_AT(ah_machine_adam, params_per_s, &ah_metric_table),
     .about = "Parameters updated."},
    {.name = "bandwidth_share",
     AH_NUMBER_AT(ah_machine_adam, bandwidth_share),
     .max = 100,
     .about = "Bytes moved per second over the best in-place scale bandwidth of the same run; 0: unknown."},
    {0}};
static const struct ah_field_table adam_table = {.name = "adam",
                                                 .about = "Speed of the optimizer's update.",
                                                 .bytes = sizeof(struct ah_machine_adam),
                                                 .fields = adam_fields};

static int beside_check(const void *group, struct ah_error *err)
{
    const struct ah_machine_beside *beside = group;
    if (beside->part == beside->beside)
        return ah_meaning_fail(err, "beside", "a part does not work beside itself");
    return AH_OK;
}

static const struct ah_field beside_fields[] = {{.name = "part",
                                                 AH_WORD_AT(ah_machine_beside, part, ah_words_part),
                                                 .about = "The part whose rate is measured."},
                                                {.name = "beside",
                                                 AH_WORD_AT(ah_machine_beside, beside, ah_words_part),
                                                 .about = "The part that works all the time."},
                                                {.name = "kept",
                                                 AH_GROUP_AT(ah_machine_beside, kept, &ah_metric_table),
                                                 .about = "Share of its solo rate that it keeps."},
                                                {0}};
static const struct ah_field_table beside_table = {
    .name = "beside",
    .about = "While one part works, what another keeps of its rate.",
    .bytes = sizeof(struct ah_machine_beside),
    .fields = beside_fields,
    .check = beside_check};

static const struct ah_field backward_fields[] = {
    {.name = "activations",
     AH_WORD_AT(ah_machine_backward, activations, ah_words_activations),
     .about = "What the block kept of its activations."},
    {.name = "us", AH_GROUP_AT(ah_machine_backward, us, &ah_metric_table), .about = "Time of the pass."},
    {0}};
static const struct ah_field_table backward_table = {.name = "backward",
                                                     .about = "The backward pass, with what it recomputes.",
                                                     .bytes = sizeof(struct ah_machine_backward),
                                                     .fields = backward_fields};

static int block_check(const void *group, struct ah_error *err)
{
    const struct ah_machine_block *block = group;
    for (size_t i = 0; i < block->n_backward; i++)
        for (size_t j = 0; j < i; j++)
            if (block->backward[i].activations == block->backward[j].activations)
                return ah_meaning_fail_item(err, "backward", i, "activations", "%s stands twice",
                                            ah_words_activations[block->backward[i].activations]);
    return AH_OK;
}

static const struct ah_field block_fields[] = {
    {.name = "group",
     AH_TEXT_AT(ah_machine_block, group),
     .form = AH_TEXT_NAME,
     .about = "Which blocks of the model, for people."},
    {.name = "program_sha256",
     AH_TEXT_AT(ah_machine_block, program_sha256),
     .form = AH_TEXT_SHA256,
     .about = "Digest of all that the block computes, sizes and types included; not of the model's name."},
    {.name = "dtype", AH_WORD_AT(ah_machine_block, dtype, ah_words_dtype), .about = "Of its weights."},
    {.name = "sequences",
     AH_COUNT_AT(ah_machine_block, sequences),
     .min = 1,
     .max = UINT32_MAX,
     .about = "Of a micro-batch."},
    {.name = "seq",
     AH_COUNT_AT(ah_machine_block, seq),
     .min = 1,
     .max = UINT32_MAX,
     .about = "Tokens of a sequence."},
    {.name = "threads",
     AH_COUNT_AT(ah_machine_block, threads),
     .max = 1048576,
     .about = "Threads of the compute lane; 0 on a GPU."},
    {.name = "forward_us",
     AH_GROUP_AT(ah_machine_block, forward_us, &ah_metric_table),
     .about = "Time of the forward pass; of the head: forward, loss and backward."},
    {.name = "backward",
     AH_GROUPS_AT(ah_machine_block, backward, &backward_table),
     .flags = AH_FIELD_OPTIONAL,
     .max_items = 3,
     .about = "The backward pass under each config of activations."},
    {0}};
static const struct ah_field_table block_table = {
    .name = "block",
    .about = "Passes of a model's blocks over a micro-batch, as a training step has them.",
    .bytes = sizeof(struct ah_machine_block),
    .fields = block_fields,
    .check = block_check};

static const struct ah_field disk_fields[] = {
    {.name = "read_bytes_per_s",
     AH_GROUP_AT(ah_machine_disk, read_bytes_per_s, &ah_metric_table),
     .about = "Reading one large file."},
    {.name = "write_bytes_per_s",
     AH_GROUP_AT(ah_machine_disk, write_bytes_per_s, &ah_metric_table),
     .about = "Writing one, synced."},
    {0}};
static const struct ah_field_table disk_table = {.name = "disk",
                                                 .about = "The disk that checkpoints go to.",
                                                 .bytes = sizeof(struct ah_machine_disk),
                                                 .fields = disk_fields};

static int machine_check(const void *group, struct ah_error *err)
{
    const struct ah_machine *machine = group;
    for (size_t i = 0; i < machine->n_links; i++)
        for (size_t j = 0; j < i; j++)
            if (machine->links[i].direction == machine->links[j].direction)
                return ah_meaning_fail_item(err, "links", i, "direction", "%s stands twice",
                                            ah_words_direction[machine->links[i].direction]);
    for (size_t i = 0; i < machine->n_beside; i++)
        for (size_t j = 0; j < i; j++)
            if (machine->beside[i].part == machine->beside[j].part &&
                machine->beside[i].beside == machine->beside[j].beside)
                return ah_meaning_fail_item(err, "beside", i, NULL, "%s beside %s stands twice",
                                            ah_words_part[machine->beside[i].part],
                                            ah_words_part[machine->beside[i].beside]);
    for (size_t i = 0; i < machine->n_blocks; i++)
        if (ah_machine_find_block(machine, machine->blocks[i].program_sha256, machine->blocks[i].threads) !=
            &machine->blocks[i])
            return ah_meaning_fail_item(err, "blocks", i, "program_sha256",
                                        "stands twice with as many threads");
    return AH_OK;
}

static const struct ah_field machine_fields[] = {
    AH_FIELD_HEAD(ah_machine, kind_words),
    {.name = "name",
     AH_TEXT_AT(ah_machine, name),
     .flags = AH_FIELD_LABEL,
     .form = AH_TEXT_NAME,
     .about = "Short name of the machine."},
    {.name = "origin",
     AH_WORD_AT(ah_machine, origin, origin_words),
     .about = "measured on the machine, or synthetic: put together from the sources named."},
    {.name = "emulates",
     AH_TEXT_AT(ah_machine, emulates),
     .form = AH_TEXT_NAME,
     .flags = AH_FIELD_OPTIONAL,
     .about = "The machine whose ratios lanes were slowed to while this was measured."},
    {.name = "host", AH_GROUP_AT(ah_machine, host, &host_table), .about = "The host."},
    {.name = "device", AH_GROUP_AT(ah_machine, device, &device_table), .about = "The device."},
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
    {.name = "blocks",
     AH_GROUPS_AT(ah_machine, blocks, &block_table),
     .flags = AH_FIELD_OPTIONAL,
     .max_items = AH_MACHINE_BLOCKS_MAX,
     .about = "Blocks of models that were measured, by threads."},
    {.name = "algorithms",
     AH_GROUP_AT(ah_machine, algorithms, &ah_algorithms_table),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Of the device's matrix products, where a library does them."},
    {.name = "disk",
     AH_GROUP_AT(ah_machine, disk, &disk_table),
     .flags = AH_FIELD_OPTIONAL,
     .about = "The disk."},
    {.name = "noise",
     AH_TEXTS_AT(ah_machine, noise),
     .flags = AH_FIELD_OPTIONAL,
     .max_items = 1024,
     .about = "What was noisy, a sentence each."},
    {.name = "sources",
     AH_MAP_AT(ah_machine, sources),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Where a number comes from that was not measured."},
    AH_FIELD_ANNOTATIONS(ah_machine),
    {0}};
static const struct ah_rule machine_rules[] = {
    {"origin", "synthetic", AH_RULE_REQUIRES, "sources", NULL,
     "is missing; a synthetic machine says where its numbers come from"},
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
