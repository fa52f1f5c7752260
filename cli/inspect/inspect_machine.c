/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows a machine: its rates as tables for people, a summary for programs.
 */
#include "cli/inspect/inspect.h"

#include "base/units.h"
#include "schemas/machine.h"

#include <stdio.h>

typedef const char *print_rate(char out[AH_UNITS_TEXT_MAX], double value);

static const char *print_share(char out[AH_UNITS_TEXT_MAX], double share)
{
    snprintf(out, AH_UNITS_TEXT_MAX, "%.1f %%", share * 100);
    return out;
}

/* Adds three cells: the median, its spread, and the number of samples. */
static void metric_cells(struct ah_table *table, const struct ah_metric *metric, print_rate *print)
{
    char text[AH_UNITS_TEXT_MAX];
    ah_table_cell(table, "%s", print(text, metric->median));
    if (!metric->n) {
        ah_table_cell(table, "given");
        ah_table_cell(table, "-");
        return;
    }
    ah_table_cell(table, "%.1f %%", metric->median > 0 ? 100 * metric->mad / metric->median : 0);
    ah_table_cell(table, "%llu", (unsigned long long)metric->n);
}

static void put_facts(struct ah_cli *cli, const struct ah_machine *machine)
{
    static const char *const origins[] = {"measured", "synthetic: its numbers were given, not measured"};
    const struct ah_machine_host *host = &machine->host;
    const struct ah_machine_device *device = &machine->device;
    char a[AH_UNITS_TEXT_MAX];
    char b[AH_UNITS_TEXT_MAX];
    struct ah_table facts = ah_inspect_facts(cli);
    ah_table_cell(&facts, "machine");
    ah_table_cell(&facts, "%s (%s)", machine->name, origins[machine->origin]);
    if (machine->emulates) {
        ah_table_cell(&facts, "emulates");
        ah_table_cell(&facts, "%s: lanes were slowed to match its ratios", machine->emulates);
    }
    ah_table_cell(&facts, "host");
    ah_table_cell(&facts, "%s, %llu core%s, %llu thread%s, %llu NUMA node%s, %s", host->cpu_model,
                  (unsigned long long)host->cores, host->cores == 1 ? "" : "s",
                  (unsigned long long)host->threads, host->threads == 1 ? "" : "s",
                  (unsigned long long)host->numa_nodes, host->numa_nodes == 1 ? "" : "s", host->isa);
    ah_table_cell(&facts, "host memory");
    ah_table_cell(&facts, "%s, of which %s may be locked", ah_units_print_bytes(a, host->memory_bytes),
                  ah_units_print_bytes(b, host->memlock_bytes));
    ah_table_cell(&facts, "device");
    ah_table_cell(&facts, "%s: %s%s", ah_words_device_kind[device->kind], device->name,
                  device->bf16 ? ", bf16" : ", no bf16");
    ah_table_cell(&facts, "device memory");
    ah_table_cell(&facts, "%s, of which %s are reserved", ah_units_print_bytes(a, device->memory_bytes),
                  ah_units_print_bytes(b, device->reserve_bytes));
    if (device->pcie) {
        ah_table_cell(&facts, "link");
        ah_table_cell(&facts, "PCIe %llu x%llu, of %llu x%llu", (unsigned long long)device->pcie->generation,
                      (unsigned long long)device->pcie->width,
                      (unsigned long long)device->pcie->max_generation,
                      (unsigned long long)device->pcie->max_width);
    }
    ah_table_cell(&facts, "written by");
    ah_table_cell(&facts, "%s", machine->generator);
    ah_table_print(&facts, &cli->out, cli->out_style, cli->table_columns);
}

/* Prints the rates of algorithms. Entries without times, such as those of plans, are left out. */
static void put_algorithms(struct ah_cli *cli, const struct ah_machine *machine)
{
    const struct ah_algorithms *algorithms = machine->algorithms;
    char text[AH_UNITS_TEXT_MAX], title[192];
    struct ah_table table = {.arena = &cli->arena,
                             .columns = {"dtype", "form", ">m", ">n", ">k", ">time", ">first choice's"}};
    for (size_t i = 0; algorithms && i < algorithms->n_products; i++) {
        const struct ah_algorithm *row = &algorithms->products[i];
        if (!row->us || !row->first_us)
            continue;
        ah_table_cell(&table, "%s", ah_words_dtype[row->dtype]);
        ah_table_cell(&table, "%s", ah_words_matmul_form[row->form]);
        ah_table_cell(&table, "%llu", (unsigned long long)row->m);
        ah_table_cell(&table, "%llu", (unsigned long long)row->n);
        ah_table_cell(&table, "%llu", (unsigned long long)row->k);
        ah_table_cell(&table, "%s", ah_units_print_time(text, row->us->median));
        ah_table_cell(&table, "%s", ah_units_print_time(text, row->first_us->median));
    }
    snprintf(title, sizeof title, "algorithms of %.128s", algorithms ? algorithms->library : "");
    ah_inspect_table(cli, title, &table);
}

static void put_matmul(struct ah_cli *cli, const struct ah_machine *machine)
{
    struct ah_table table = {
        .arena = &cli->arena,
        .columns = {"dtype", "form", ">m", ">n", ">k", ">threads", ">rate", ">spread", ">samples"}};
    for (size_t i = 0; i < machine->n_matmul; i++) {
        const struct ah_machine_matmul *row = &machine->matmul[i];
        ah_table_cell(&table, "%s", ah_words_dtype[row->dtype]);
        ah_table_cell(&table, "%s", ah_words_matmul_form[row->form]);
        ah_table_cell(&table, "%llu", (unsigned long long)row->m);
        ah_table_cell(&table, "%llu", (unsigned long long)row->n);
        ah_table_cell(&table, "%llu", (unsigned long long)row->k);
        ah_table_cell(&table, "%llu", (unsigned long long)row->threads);
        metric_cells(&table, &row->flops_per_s, ah_units_print_flops);
    }
    ah_inspect_table(cli, "matrix products", &table);
}

static void put_memory(struct ah_cli *cli, const struct ah_machine *machine)
{
    struct ah_table table = {.arena = &cli->arena,
                             .columns = {"pattern", ">threads", ">rate", ">spread", ">samples"}};
    for (size_t i = 0; i < machine->n_memory; i++) {
        ah_table_cell(&table, "%s", ah_words_memory_pattern[machine->memory[i].pattern]);
        ah_table_cell(&table, "%llu", (unsigned long long)machine->memory[i].threads);
        metric_cells(&table, &machine->memory[i].bytes_per_s, ah_units_print_rate);
    }
    ah_inspect_table(cli, "host memory", &table);
}

static void put_links(struct ah_cli *cli, const struct ah_machine *machine)
{
    struct ah_table table = {
        .arena = &cli->arena,
        .columns = {"direction", ">rate", ">spread", ">samples", ">latency", ">fit error", ">sizes"}};
    for (size_t i = 0; i < machine->n_links; i++) {
        const struct ah_machine_link *link = &machine->links[i];
        char latency[AH_UNITS_TEXT_MAX];
        ah_table_cell(&table, "%s", ah_words_direction[link->direction]);
        metric_cells(&table, &link->bytes_per_s, ah_units_print_rate);
        ah_table_cell(&table, "%s", ah_units_print_time(latency, link->latency_us));
        ah_table_cell(&table, "%.1f %%", 100 * link->fit_error);
        ah_table_cell(&table, "%zu", link->n_points);
    }
    ah_inspect_table(cli, "links", &table);
}

static void put_adam(struct ah_cli *cli, const struct ah_machine *machine)
{
    struct ah_table table = {.arena = &cli->arena,
                             .columns = {"side", ">threads", "states", "gradients", "weights", ">params/s",
                                         ">spread", ">samples", ">of bandwidth"}};
    for (size_t i = 0; i < machine->n_adam; i++) {
        const struct ah_machine_adam *row = &machine->adam[i];
        char share[AH_UNITS_TEXT_MAX];
        ah_table_cell(&table, "%s", ah_words_side[row->side]);
        ah_table_cell(&table, "%llu", (unsigned long long)row->threads);
        ah_table_cell(&table, "%s", ah_words_dtype[row->state_dtype]);
        ah_table_cell(&table, "%s", ah_words_dtype[row->gradient_dtype]);
        ah_table_cell(&table, "%s", ah_words_dtype[row->weight_dtype]);
        metric_cells(&table, &row->params_per_s, ah_units_print_count);
        ah_table_cell(&table, "%s",
                      row->bandwidth_share > 0 ? print_share(share, row->bandwidth_share) : "-");
    }
    ah_inspect_table(cli, "AdamW", &table);
}

static void put_launches(struct ah_cli *cli, const struct ah_machine *machine)
{
    struct ah_table table = {.arena = &cli->arena, .columns = {"op", ">at least", ">spread", ">samples"}};
    if (!machine->launch_us)
        return;
    ah_table_cell(&table, "tiny");
    metric_cells(&table, machine->launch_us, ah_units_print_time);
    ah_inspect_table(cli, "launches", &table);
}

static void put_beside(struct ah_cli *cli, const struct ah_machine *machine)
{
    struct ah_table table = {.arena = &cli->arena,
                             .columns = {"part", "beside", ">keeps", ">spread", ">samples"}};
    for (size_t i = 0; i < machine->n_beside; i++) {
        ah_table_cell(&table, "%s", ah_words_part[machine->beside[i].part]);
        ah_table_cell(&table, "%s", ah_words_part[machine->beside[i].beside]);
        metric_cells(&table, &machine->beside[i].kept, print_share);
    }
    ah_inspect_table(cli, "beside each other", &table);
}

/* Adds the cell of a pass: its median, or "-" if the block does not have it. */
static void pass_cell(struct ah_table *table, const struct ah_metric *us)
{
    char text[AH_UNITS_TEXT_MAX];
    ah_table_cell(table, "%s", us ? ah_units_print_time(text, us->median) : "-");
}

static double spread_of(const struct ah_metric *metric)
{
    return metric->median > 0 ? metric->mad / metric->median : 0;
}

static void put_block(struct ah_table *table, const struct ah_machine_block *block)
{
    const struct ah_metric *passes[AH_ACTIVATIONS_RECOMPUTE + 1] = {NULL};
    double spread = spread_of(&block->forward_us);
    for (size_t i = 0; i < block->n_backward; i++) {
        const struct ah_metric *us = &block->backward[i].us;
        passes[block->backward[i].activations] = us;
        spread = spread_of(us) > spread ? spread_of(us) : spread;
    }
    ah_table_cell(table, "%s", block->group);
    ah_table_cell(table, "%s", ah_words_dtype[block->dtype]);
    ah_table_cell(table, "%llu x %llu", (unsigned long long)block->sequences, (unsigned long long)block->seq);
    ah_table_cell(table, "%llu", (unsigned long long)block->threads);
    pass_cell(table, &block->forward_us);
    for (size_t i = 0; i <= AH_ACTIVATIONS_RECOMPUTE; i++)
        pass_cell(table, passes[i]);
    ah_table_cell(table, "%.1f %%", 100 * spread);
    ah_table_cell(table, "%llu", (unsigned long long)block->forward_us.n);
}

static void put_blocks(struct ah_cli *cli, const struct ah_machine *machine)
{
    struct ah_table table = {.arena = &cli->arena,
                             .columns = {"blocks", "dtype", ">tokens", ">threads", ">forward",
                                         ">backward, keep", ">selective", ">recompute", ">spread",
                                         ">samples"}};
    for (size_t i = 0; i < machine->n_blocks; i++)
        put_block(&table, &machine->blocks[i]);
    ah_inspect_table(cli, "blocks of models", &table);
}

static void put_disk(struct ah_cli *cli, const struct ah_machine *machine)
{
    if (!machine->disk)
        return;
    struct ah_table table = {.arena = &cli->arena, .columns = {"disk", ">rate", ">spread", ">samples"}};
    ah_table_cell(&table, "read");
    metric_cells(&table, &machine->disk->read_bytes_per_s, ah_units_print_rate);
    ah_table_cell(&table, "write");
    metric_cells(&table, &machine->disk->write_bytes_per_s, ah_units_print_rate);
    ah_inspect_table(cli, "disk", &table);
}

void ah_inspect_machine_text(struct ah_cli *cli, const struct ah_document *document)
{
    const struct ah_machine *machine = document->body.machine;
    put_facts(cli, machine);
    put_matmul(cli, machine);
    put_algorithms(cli, machine);
    put_memory(cli, machine);
    put_links(cli, machine);
    put_adam(cli, machine);
    put_beside(cli, machine);
    put_launches(cli, machine);
    put_blocks(cli, machine);
    put_disk(cli, machine);
    ah_inspect_list(cli, "noise", machine->noise, machine->n_noise);
    ah_inspect_pairs(cli, "sources", machine->sources, machine->n_sources);
}

static void put_rate(struct ah_table *table, const char *what, const char *rate, double value)
{
    if (!(value > 0))
        return;
    ah_table_cell(table, "%s", what);
    ah_table_cell(table, "%s", rate);
}

/* Prints the rates in the document. */
static void put_rates(struct ah_cli *cli, const struct ah_machine *machine)
{
    const struct ah_machine_disk *disk = machine->disk;
    const double fp32 = ah_machine_matmul_flops_per_s(machine, AH_FP32);
    const double bf16 = ah_machine_matmul_flops_per_s(machine, AH_BF16);
    const double h2d = ah_machine_link_bytes_per_s(machine, AH_H2D);
    const double d2h = ah_machine_link_bytes_per_s(machine, AH_D2H);
    const double adam = ah_machine_adam_params_per_s(machine, AH_HOST, AH_FP32);
    char text[AH_UNITS_TEXT_MAX], rate[AH_UNITS_TEXT_MAX + 16];
    struct ah_table table = ah_inspect_facts(cli);
    ah_buffer_puts(&cli->out, "\n");
    put_rate(&table, "products fp32", ah_units_print_flops(text, fp32), fp32);
    put_rate(&table, "products bf16", ah_units_print_flops(text, bf16), bf16);
    put_rate(&table, "host to device", ah_units_print_rate(text, h2d), h2d);
    put_rate(&table, "device to host", ah_units_print_rate(text, d2h), d2h);
    snprintf(rate, sizeof rate, "%s params/s", ah_units_print_count(text, adam));
    put_rate(&table, "host AdamW", rate, adam);
    put_rate(&table, "disk reads", ah_units_print_rate(text, disk ? disk->read_bytes_per_s.median : 0),
             disk ? disk->read_bytes_per_s.median : 0);
    put_rate(&table, "disk writes", ah_units_print_rate(text, disk ? disk->write_bytes_per_s.median : 0),
             disk ? disk->write_bytes_per_s.median : 0);
    ah_table_print(&table, &cli->out, cli->out_style, cli->table_columns);
}

void ah_inspect_machine_summary(struct ah_cli *cli, const struct ah_document *document)
{
    const struct ah_machine *machine = document->body.machine;
    put_facts(cli, machine);
    put_rates(cli, machine);
    if (machine->n_blocks)
        put_blocks(cli, machine);
    if (machine->n_noise)
        ah_buffer_printf(&cli->out,
                         "\n%zu remark%s on noise; 'profile -v' or 'inspect' shows every "
                         "measurement\n",
                         machine->n_noise, machine->n_noise == 1 ? "" : "s");
}

/* Adds a rate, if the document has one. */
static void emit_rate(struct ah_emit *emit, const char *key, double rate)
{
    if (rate > 0)
        ah_emit_number(emit, key, rate);
}

void ah_inspect_machine_json(struct ah_emit *emit, const struct ah_document *document)
{
    const struct ah_machine *machine = document->body.machine;
    ah_emit_text(emit, "name", machine->name);
    ah_emit_bool(emit, "measured", machine->origin == AH_MACHINE_MEASURED);
    if (machine->emulates)
        ah_emit_text(emit, "emulates", machine->emulates);
    ah_emit_text(emit, "cpu_model", machine->host.cpu_model);
    ah_emit_text(emit, "isa", machine->host.isa);
    ah_emit_integer(emit, "cores", machine->host.cores);
    ah_emit_integer(emit, "threads", machine->host.threads);
    ah_emit_integer(emit, "host_memory_bytes", machine->host.memory_bytes);
    ah_emit_text(emit, "device", ah_words_device_kind[machine->device.kind]);
    ah_emit_text(emit, "device_name", machine->device.name);
    ah_emit_integer(emit, "device_memory_bytes", machine->device.memory_bytes);
    emit_rate(emit, "fp32_flops_per_s", ah_machine_matmul_flops_per_s(machine, AH_FP32));
    emit_rate(emit, "bf16_flops_per_s", ah_machine_matmul_flops_per_s(machine, AH_BF16));
    emit_rate(emit, "h2d_bytes_per_s", ah_machine_link_bytes_per_s(machine, AH_H2D));
    emit_rate(emit, "d2h_bytes_per_s", ah_machine_link_bytes_per_s(machine, AH_D2H));
    emit_rate(emit, "host_adam_fp32_params_per_s", ah_machine_adam_params_per_s(machine, AH_HOST, AH_FP32));
    emit_rate(emit, "host_adam_bf16_params_per_s", ah_machine_adam_params_per_s(machine, AH_HOST, AH_BF16));
    emit_rate(emit, "launch_us", machine->launch_us ? machine->launch_us->median : 0);
    ah_emit_integer(emit, "blocks", machine->n_blocks);
    ah_emit_open(emit, "noise", '[');
    for (size_t i = 0; i < machine->n_noise; i++)
        ah_emit_text(emit, NULL, machine->noise[i]);
    ah_emit_close(emit);
}
