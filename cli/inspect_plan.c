/* SPDX-License-Identifier: Apache-2.0
 *
 * Neighbouring blocks with one group and one config are shown as one row. Every time of a plan is a prediction,
 * and is called so.
 */
#include "cli/inspect.h"

#include "base/units.h"
#include "schemas/plan.h"

#include <inttypes.h>
#include <string.h>

static void put_facts(struct ah_cli *cli, const struct ah_plan *plan)
{
    char text[AH_UNITS_TEXT_MAX];
    const struct ah_plan_solver *solver = &plan->solver;
    struct ah_table facts = ah_inspect_facts(cli);
    ah_table_cell(&facts, "plan for");
    ah_table_cell(&facts, "%s on %s", plan->inputs.model.name, plan->inputs.machine.name);
    ah_table_cell(&facts, "policy");
    ah_table_cell(&facts, "%s, scheduling %s, micro-batches %s", ah_words_policy[plan->policy],
                  ah_words_scheduling[plan->scheduling], ah_words_micro_order[plan->micro_batch_order]);
    ah_table_cell(&facts, "step");
    ah_table_cell(&facts, "%s predicted%s, %.0f tokens/s", ah_units_print_time(text, plan->time.step_us),
                  plan->time.estimated ? " (some costs are estimated, not measured)" : "",
                  plan->tokens_per_s);
    ah_table_cell(&facts, "how good");
    if (solver->status == AH_PLAN_OPTIMAL)
        ah_table_cell(&facts, "proven optimal");
    else if (solver->bound_us > 0)
        ah_table_cell(&facts, "within %.1f %% of the bound (%s), which no plan can beat", 100 * solver->gap,
                      ah_units_print_time(text, solver->bound_us));
    else
        ah_table_cell(&facts, "not known: there is no bound");
    ah_table_cell(&facts, "written by");
    ah_table_cell(&facts, "%s", plan->generator);
    ah_table_print(&facts, &cli->out, cli->out_style);
}

static void bytes_row(struct ah_table *table, const char *what, uint64_t bytes, uint64_t capacity_bytes)
{
    char text[AH_UNITS_TEXT_MAX];
    ah_table_cell(table, "%s", what);
    ah_table_cell(table, "%s", ah_units_print_bytes(text, bytes));
    ah_table_cell(table, "%s", capacity_bytes ? ah_units_print_bytes(text, capacity_bytes) : "");
}

static void put_memory(struct ah_cli *cli, const struct ah_plan *plan)
{
    const struct ah_plan_memory *memory = &plan->memory;
    const struct ah_plan_by_class *by_class = &memory->by_class;
    struct ah_table table = {.arena = &cli->arena, .columns = {"", ">used", ">of"}};
    bytes_row(&table, "device", memory->device_bytes, memory->device_capacity_bytes);
    bytes_row(&table, "  weights", by_class->weights, 0);
    bytes_row(&table, "  gradients", by_class->gradients, 0);
    bytes_row(&table, "  optimizer states", by_class->optimizer, 0);
    bytes_row(&table, "  activations", by_class->activations, 0);
    bytes_row(&table, "  staging", by_class->staging, 0);
    bytes_row(&table, "  workspace", by_class->workspace, 0);
    bytes_row(&table, "reserved beside", memory->reserved_bytes, 0);
    bytes_row(&table, "host", memory->host_bytes, memory->host_capacity_bytes);
    bytes_row(&table, "  pinned", memory->pinned_bytes, 0);
    bytes_row(&table, "  pageable", memory->pageable_bytes, 0);
    ah_inspect_table(cli, "memory", &table);
}

static void time_row(struct ah_table *table, const char *what, double us, double exposed_us)
{
    char text[AH_UNITS_TEXT_MAX];
    ah_table_cell(table, "%s", what);
    ah_table_cell(table, "%s", ah_units_print_time(text, us));
    ah_table_cell(table, "%s", exposed_us >= 0 ? ah_units_print_time(text, exposed_us) : "");
}

static void put_times(struct ah_cli *cli, const struct ah_plan *plan)
{
    const struct ah_plan_time *time = &plan->time;
    struct ah_table table = {.arena = &cli->arena, .columns = {"lane", ">works", ">compute waits for it"}};
    time_row(&table, "compute", time->compute_us, -1);
    time_row(&table, "h2d", time->h2d_us, time->exposed_us.h2d);
    time_row(&table, "d2h", time->d2h_us, time->exposed_us.d2h);
    time_row(&table, "host", time->host_us, time->exposed_us.host);
    ah_inspect_table(cli, "predicted time of a step", &table);
}

static bool same_config(const struct ah_plan_block *a, const struct ah_plan_block *b)
{
    return !strcmp(a->group, b->group) && a->activations == b->activations && a->weights == b->weights &&
           a->optimizer == b->optimizer && a->accumulator == b->accumulator;
}

static void put_blocks(struct ah_cli *cli, const struct ah_plan *plan)
{
    struct ah_table table = {
        .arena = &cli->arena,
        .columns = {"blocks", "group", "activations", "weights", "optimizer", "gradient sums"}};
    for (size_t first = 0, next; first < plan->n_blocks; first = next) {
        const struct ah_plan_block *block = &plan->blocks[first];
        for (next = first + 1; next < plan->n_blocks && same_config(block, &plan->blocks[next]);)
            next++;
        if (next - first > 1)
            ah_table_cell(&table, "%zu-%zu", first, next - 1);
        else
            ah_table_cell(&table, "%zu", first);
        ah_table_cell(&table, "%s", block->group);
        ah_table_cell(&table, "%s", ah_words_activations[block->activations]);
        ah_table_cell(&table, "%s", ah_words_weights[block->weights]);
        ah_table_cell(&table, "%s", ah_words_optimizer[block->optimizer]);
        ah_table_cell(&table, "%s", ah_words_accumulator[block->accumulator]);
    }
    ah_inspect_table(cli, "blocks", &table);
}

static void put_alternatives(struct ah_cli *cli, const struct ah_plan *plan)
{
    char text[AH_UNITS_TEXT_MAX];
    struct ah_table table = {.arena = &cli->arena, .columns = {"policy", ">predicted step"}};
    for (size_t i = 0; i < plan->n_alternatives; i++) {
        const struct ah_plan_alternative *alternative = &plan->alternatives[i];
        ah_table_cell(&table, "%s", ah_words_policy[alternative->policy]);
        ah_table_cell(&table, "%s",
                      alternative->feasible ? ah_units_print_time(text, alternative->step_us)
                                            : "does not fit");
    }
    ah_inspect_table(cli, "other policies", &table);
}

void ah_inspect_plan_text(struct ah_cli *cli, const struct ah_document *document)
{
    const struct ah_plan *plan = document->body.plan;
    put_facts(cli, plan);
    put_memory(cli, plan);
    put_times(cli, plan);
    put_blocks(cli, plan);
    put_alternatives(cli, plan);
    ah_inspect_signature_text(cli, &plan->numeric_signature);
}

static void emit_configs(struct ah_emit *emit, const struct ah_plan *plan)
{
    ah_emit_open(emit, "blocks", '[');
    for (size_t i = 0; i < plan->n_blocks; i++) {
        const struct ah_plan_block *block = &plan->blocks[i];
        ah_emit_open(emit, NULL, '{');
        ah_emit_integer(emit, "index", block->index);
        ah_emit_text(emit, "group", block->group);
        ah_emit_text(emit, "activations", ah_words_activations[block->activations]);
        ah_emit_text(emit, "weights", ah_words_weights[block->weights]);
        ah_emit_text(emit, "optimizer", ah_words_optimizer[block->optimizer]);
        ah_emit_close(emit);
    }
    ah_emit_close(emit);
}

void ah_inspect_plan_json(struct ah_emit *emit, const struct ah_document *document)
{
    const struct ah_plan *plan = document->body.plan;
    ah_emit_text(emit, "model", plan->inputs.model.name);
    ah_emit_text(emit, "machine", plan->inputs.machine.name);
    ah_emit_text(emit, "policy", ah_words_policy[plan->policy]);
    ah_emit_text(emit, "scheduling", ah_words_scheduling[plan->scheduling]);
    ah_emit_number(emit, "step_us", plan->time.step_us);
    ah_emit_bool(emit, "estimated", plan->time.estimated);
    ah_emit_number(emit, "tokens_per_s", plan->tokens_per_s);
    ah_emit_text(emit, "status", ah_words_plan_status[plan->solver.status]);
    ah_emit_number(emit, "bound_us", plan->solver.bound_us);
    ah_emit_number(emit, "gap", plan->solver.gap);
    ah_emit_integer(emit, "device_bytes", plan->memory.device_bytes);
    ah_emit_integer(emit, "device_capacity_bytes", plan->memory.device_capacity_bytes);
    ah_emit_integer(emit, "host_bytes", plan->memory.host_bytes);
    ah_emit_integer(emit, "host_capacity_bytes", plan->memory.host_capacity_bytes);
    emit_configs(emit, plan);
    ah_inspect_signature_json(emit, &plan->numeric_signature);
}
