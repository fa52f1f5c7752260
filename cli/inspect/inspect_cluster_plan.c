/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete inspect CLUSTER-PLAN: pipelines, stages, what is on hosts, and whether `run` can execute the plan.
 */
#include "cli/inspect/inspect.h"
#include "cli/inspect/inspect_plan_internal.h"

#include "base/units.h"
#include "cli/inspect/plan_summary.h"
#include "runtime/run/run_ranks.h"
#include "schemas/cluster_plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* the smallest fraction that is mentioned */
static const double noticed = 0.005;

/* True if the search was limited to plans that add up gradients like another plan. */
static bool keeps_sums(const struct ah_cluster_plan *plan)
{
    for (size_t i = 0; i < plan->n_annotations; i++)
        if (!strcmp(plan->annotations[i].key, "sums"))
            return true;
    return false;
}

/* Prints how good the plan is. */
static void put_quality(struct ah_cli *cli, const struct ah_cluster_plan *plan)
{
    char bound[AH_UNITS_TEXT_MAX];
    struct ah_buffer line = {0};
    if (plan->sharding) {
        ah_inspect_plan_put_policy(&line, &plan->programs[0]);
        ah_cli_put_wrapped(cli, &line, 0);
        return;
    }
    if (plan->solver.status == AH_PLAN_OPTIMAL)
        ah_buffer_printf(&cli->out, "optimal: no other plan%s is simulated faster (proven by enumeration)\n",
                         keeps_sums(plan) ? " with these sums" : "");
    else if (plan->solver.status == AH_PLAN_WITHIN_GAP)
        ah_buffer_printf(&cli->out, "within %.1f %% of the best possible step (bound %s)\n",
                         fmax(100 * (plan->solver.objective_us / plan->solver.bound_us - 1), 0.1),
                         ah_units_print_time(bound, plan->solver.bound_us));
    else if (plan->policy != AH_CLUSTER_POLICY_OPTIMAL)
        ah_buffer_printf(&cli->out, "as %s arranges it, at its best setting\n",
                         ah_words_cluster_policy[plan->policy]);
}

static void put_headline(struct ah_cli *cli, const struct ah_cluster_plan *plan)
{
    char step[AH_UNITS_TEXT_MAX];
    const struct ah_cluster_plan_predicted *predicted = &plan->predicted;
    size_t mark = cli->out.size;
    struct ah_buffer sums = {0};
    char clip[48] = "";
    ah_buffer_puts(&sums, plan->training.n_sums ? ", added up in groups of " : "");
    ah_plan_put_sums(&sums, plan->training.sums, plan->training.n_sums);
    cli->out.failed |= sums.failed;
    if (plan->training.clip > 0)
        snprintf(clip, sizeof clip, ", clipped at %g", plan->training.clip);
    ah_buffer_printf(&cli->out, "%s%s on %s%s: %s a step, %.0f tokens/s (simulated%s)\n", cli->out_style.bold,
                     ah_cli_clean(cli, plan->inputs.model.name), ah_cli_clean(cli, plan->inputs.cluster.name),
                     cli->out_style.reset, ah_units_print_time(step, predicted->step_us),
                     predicted->tokens_per_s, predicted->estimated ? ", from estimated costs" : "");
    put_quality(cli, plan);
    ah_buffer_printf(&cli->out,
                     "%" PRIu64 " sequence%s of %" PRIu64 " tokens in %" PRIu64
                     " micro-batch%s%s, %s, states %s%s%s\n",
                     plan->training.batch, plan->training.batch == 1 ? "" : "s", plan->training.seq,
                     plan->training.micro_batches, plan->training.micro_batches == 1 ? "" : "es",
                     sums.data ? sums.data : "", ah_words_dtype[plan->training.dtype],
                     ah_words_dtype[plan->training.state_dtype], clip,
                     plan->sharding                     ? ""
                     : plan->tp_mode == AH_TP_SYMMETRIC ? "; symmetric degrees"
                                                        : "; asymmetric degrees");
    struct ah_buffer without = {0};
    if (!plan->sharding)
        ah_plan_put_without(&without, plan->without, plan->n_without);
    if (without.size)
        ah_buffer_printf(&cli->out, "planned%s\n", without.data + 1);
    cli->out.failed |= without.failed;
    ah_buffer_release(&without);
    ah_buffer_release(&sums);
    if (plan->model && plan->model->lora) {
        ah_plan_put_lora(&cli->out, "", plan->model);
        ah_buffer_puts(&cli->out, "\n");
    }
    ah_cli_fit(cli, mark, 0);
}

/* Appends ranks in the form "0-3, 8". */
static void put_ranks(struct ah_buffer *out, const uint64_t *ranks, size_t n)
{
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && ranks[j] == ranks[j - 1] + 1; j++)
            ;
        ah_buffer_printf(out, "%s%" PRIu64, i ? ", " : "", ranks[i]);
        if (j > i + 1)
            ah_buffer_printf(out, "-%" PRIu64, ranks[j - 1]);
    }
}

static void cell_ranks(struct ah_table *table, const uint64_t *ranks, size_t n)
{
    struct ah_buffer text = {0};
    put_ranks(&text, ranks, n);
    if (text.failed)
        table->failed = true;
    else
        ah_table_cell(table, "%s", n ? text.data : "");
    ah_buffer_release(&text);
}

/* Adds a cell in the form "30 keep, 2 recompute". */
static void cell_configs(struct ah_table *table, const struct ah_cluster_plan_stage *stage)
{
    uint64_t counts[AH_ACTIVATIONS_RECOMPUTE + 1] = {0};
    char text[128];
    size_t at = 0;
    for (size_t i = 0; i < stage->n_configs; i++)
        counts[stage->configs[i].activations] += stage->configs[i].blocks;
    text[0] = '\0';
    for (size_t i = 0; i <= AH_ACTIVATIONS_RECOMPUTE; i++)
        if (counts[i])
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%" PRIu64 " %s", at ? ", " : "", counts[i],
                                   ah_words_activations[i]);
    ah_table_cell(table, "%s", text);
}

static void put_pipelines(struct ah_cli *cli, const struct ah_cluster_plan *plan)
{
    char text[AH_UNITS_TEXT_MAX], time[AH_UNITS_TEXT_MAX], heading[128];
    for (size_t p = 0; p < plan->n_pipelines; p++) {
        const struct ah_cluster_plan_pipeline *pipeline = &plan->pipelines[p];
        struct ah_table table = {.arena = &cli->arena,
                                 .columns = {"stage", "node", "GPUs", "ranks", "blocks", "activations",
                                             ">memory", ">of", ">micro-batch", ">busy"}};
        for (size_t i = 0; i < pipeline->n_stages; i++) {
            const struct ah_cluster_plan_stage *stage = &pipeline->stages[i];
            ah_table_cell(&table, "%zu", i);
            ah_table_cell(&table, "%s", stage->node);
            ah_table_cell(&table, "%" PRIu64 " %s", stage->tp, stage->gpu);
            cell_ranks(&table, stage->ranks, stage->n_ranks);
            ah_inspect_cell_blocks(&table, plan->blocks, stage->first_block, stage->blocks);
            cell_configs(&table, stage);
            ah_table_cell(&table, "%s", ah_units_print_bytes(text, stage->memory_bytes));
            ah_table_cell(&table, "%s", ah_units_print_bytes(text, stage->capacity_bytes));
            ah_table_cell(&table, "%s", ah_units_print_time(text, stage->forward_us + stage->backward_us));
            ah_table_cell(&table, "%.0f %%", 100 * stage->busy_us / plan->predicted.step_us);
        }
        snprintf(heading, sizeof heading, "pipeline %zu: %" PRIu64 " micro-batch%s in %s", p,
                 pipeline->micro_batches, pipeline->micro_batches == 1 ? "" : "es",
                 ah_units_print_time(time, pipeline->time_us));
        ah_inspect_table(cli, heading, &table);
    }
}

/* Adds a cell: the number of blocks with weights on the host or, without `weights`, with `optimizer`; "-": none. */
static void cell_count(struct ah_table *table, const struct ah_cluster_plan_stage *stage, bool weights,
                       enum ah_optimizer optimizer)
{
    uint64_t blocks = 0;
    for (size_t i = 0; i < stage->n_configs; i++) {
        const struct ah_cluster_plan_config *config = &stage->configs[i];
        if (weights ? config->weights == AH_WEIGHTS_HOST : config->optimizer == optimizer)
            blocks += config->blocks;
    }
    if (blocks)
        ah_table_cell(table, "%" PRIu64, blocks);
    else
        ah_table_cell(table, "-");
}

/* Prints the stages with blocks on their hosts, if there are any. */
static void put_hosts(struct ah_cli *cli, const struct ah_cluster_plan *plan)
{
    struct ah_table table = {.arena = &cli->arena,
                             .columns = {"pipeline", "stage", "node", ">states updated", ">states streamed",
                                         ">weights", ">host memory"}};
    char text[AH_UNITS_TEXT_MAX];
    for (size_t p = 0; p < plan->n_pipelines; p++)
        for (size_t i = 0; i < plan->pipelines[p].n_stages; i++) {
            const struct ah_cluster_plan_stage *stage = &plan->pipelines[p].stages[i];
            if (!stage->host_bytes)
                continue;
            ah_table_cell(&table, "%zu", p);
            ah_table_cell(&table, "%zu", i);
            ah_table_cell(&table, "%s", stage->node);
            cell_count(&table, stage, false, AH_OPTIMIZER_HOST);
            cell_count(&table, stage, false, AH_OPTIMIZER_STREAMED);
            cell_count(&table, stage, true, AH_OPTIMIZER_HOST);
            ah_table_cell(&table, "%s", ah_units_print_bytes(text, stage->host_bytes));
        }
    ah_inspect_table(cli, "blocks with something on their host", &table);
}

static void put_segments(struct ah_cli *cli, const struct ah_cluster_plan *plan)
{
    struct ah_table table = {.arena = &cli->arena,
                             .columns = {"blocks", ">gradients", ">time alone", ">slices", "ranks of each"}};
    char text[AH_UNITS_TEXT_MAX];
    for (size_t i = 0; i < plan->n_segments; i++) {
        const struct ah_cluster_plan_segment *segment = &plan->segments[i];
        if (segment->tied)
            ah_table_cell(&table, "tied table");
        else
            ah_inspect_cell_blocks(&table, plan->blocks, segment->first_block, segment->blocks);
        ah_table_cell(&table, "%s", ah_units_print_bytes(text, segment->bytes));
        ah_table_cell(&table, "%s", ah_units_print_time(text, segment->time_us));
        ah_table_cell(&table, "%zu", segment->n_groups);
        struct ah_buffer ranks = {0};
        for (size_t g = 0; g < segment->n_groups && g < 2; g++) {
            ah_buffer_printf(&ranks, "%s(", g ? " " : "");
            put_ranks(&ranks, segment->groups[g].ranks, segment->groups[g].n_ranks);
            ah_buffer_printf(&ranks, ")");
        }
        ah_buffer_printf(&ranks, "%s", segment->n_groups > 2 ? " ..." : "");
        ah_table_cell(&table, "%s", ranks.failed ? "" : ranks.data);
        table.failed |= ranks.failed;
        ah_buffer_release(&ranks);
    }
    ah_inspect_table(cli, "gradients added up between pipelines", &table);
}

static size_t count_ranks(const struct ah_cluster_plan *plan, size_t program)
{
    size_t n = 0;
    for (size_t p = 0; p < plan->n_pipelines; p++)
        for (size_t i = 0; i < plan->pipelines[p].n_stages; i++)
            if (plan->pipelines[p].stages[i].program == program)
                n += plan->pipelines[p].stages[i].n_ranks;
    return n;
}

/* Prints a table of the ranks' programs, if there are any. */
static void put_programs(struct ah_cli *cli, const struct ah_cluster_plan *plan)
{
    struct ah_table table = {.arena = &cli->arena,
                             .columns = {">program", ">ranks", "blocks", ">laid out", ">on the host",
                                         ">step alone", ">waits for link and host"}};
    char text[AH_UNITS_TEXT_MAX];
    for (size_t i = 0; i < plan->n_programs; i++) {
        const struct ah_plan *program = &plan->programs[i];
        const struct ah_plan_memory *memory = &program->memory;
        double exposed_us = 0;
        for (int lane = 0; lane < AH_PLAN_LANES; lane++)
            exposed_us += program->time.exposed_us.of[lane];
        ah_table_cell(&table, "%zu", i);
        ah_table_cell(&table, "%zu", count_ranks(plan, i));
        ah_inspect_cell_blocks(&table, plan->blocks, ah_plan_first_block(program), program->n_blocks);
        ah_table_cell(&table, "%s",
                      ah_units_print_bytes(text, memory->device_bytes + memory->reserved_bytes));
        ah_table_cell(&table, "%s",
                      memory->host_bytes ? ah_units_print_bytes(text, memory->host_bytes) : "-");
        ah_table_cell(&table, "%s", ah_units_print_time(text, program->time.step_us));
        ah_table_cell(&table, "%s", ah_units_print_time(text, exposed_us));
    }
    ah_inspect_table(cli, "what each rank does, a plan of its own", &table);
}

static bool differ(double us, double other_us)
{
    return fabs(us - other_us) > noticed * other_us;
}

/* Appends the time of all programs simulated together, if it differs from the step time used by the search. */
static void put_replay(struct ah_buffer *line, const struct ah_cluster_plan_predicted *predicted)
{
    char step[AH_UNITS_TEXT_MAX], period[AH_UNITS_TEXT_MAX];
    if (predicted->programs_us <= 0 || (!differ(predicted->programs_us, predicted->step_us) &&
                                        !differ(predicted->programs_period_us, predicted->step_us)))
        return;
    ah_buffer_printf(line, "; simulated rank by rank: first step %s, later steps %s",
                     ah_units_print_time(step, predicted->programs_us),
                     ah_units_print_time(period, predicted->programs_period_us));
}

/* Prints what each of the equal GPUs does and what limits it. */
static void put_sharding(struct ah_cli *cli, const struct ah_cluster_plan *plan)
{
    char rate[AH_UNITS_TEXT_MAX], used[AH_UNITS_TEXT_MAX], there[AH_UNITS_TEXT_MAX];
    const struct ah_plan *program = &plan->programs[0];
    struct ah_buffer line = {0};
    const char *what = program->numeric_signature.device == AH_DEVICE_CPU ? "ranks" : "GPUs";
    const bool uneven = plan->training.micro_batches % plan->n_pipelines;
    ah_buffer_printf(&line, "%zu %s share all states: %s%" PRIu64 " micro-batch%s each; messages at %s",
                     plan->n_pipelines, what, uneven ? "at most " : "", program->training.micro_batches,
                     program->training.micro_batches == 1 ? "" : "es",
                     ah_units_print_rate(rate, plan->sharding->fabric_bytes_per_s));
    ah_cli_put_wrapped(cli, &line, 0);
    ah_plan_put_bottleneck(&line, &program->time);
    ah_cli_put_wrapped(cli, &line, 0);
    ah_buffer_printf(&line, "device memory %s of %s each",
                     ah_units_print_bytes(used, ah_plan_device_bytes(program)),
                     ah_units_print_bytes(there, program->memory.device_capacity_bytes));
    if (program->memory.host_capacity_bytes > program->memory.process_bytes)
        ah_buffer_printf(&line, "; host memory %s of %s each",
                         ah_units_print_bytes(used, ah_plan_host_bytes(program)),
                         ah_units_print_bytes(there, program->memory.host_capacity_bytes));
    ah_cli_put_wrapped(cli, &line, 0);
}

void ah_inspect_cluster_plan_summary(struct ah_cli *cli, const struct ah_cluster_plan *plan)
{
    char pipelines[AH_UNITS_TEXT_MAX], sync[AH_UNITS_TEXT_MAX], update[AH_UNITS_TEXT_MAX];
    const struct ah_cluster_plan_predicted *predicted = &plan->predicted;
    struct ah_buffer line = {0};
    if (plan->sharding && plan->programs[0].n_what_if) {
        ah_plan_put_what_if(&line, &plan->programs[0]);
        ah_cli_put_wrapped(cli, &line, 0);
    }
    put_headline(cli, plan);
    if (plan->sharding) {
        put_sharding(cli, plan);
        return;
    }
    ah_buffer_printf(
        &line,
        "%zu pipeline%s: %s, then %s to add up gradients and %s to update; GPUs wait %.0f %% of the "
        "pipelines' time; the busiest is stage %" PRIu64 " of pipeline %" PRIu64,
        plan->n_pipelines, plan->n_pipelines == 1 ? "" : "s",
        ah_units_print_time(pipelines, predicted->pipelines_us),
        ah_units_print_time(sync, predicted->exposed_sync_us),
        ah_units_print_time(update, predicted->update_us), 100 * predicted->bubble,
        predicted->bottleneck_stage, predicted->bottleneck_pipeline);
    put_replay(&line, predicted);
    if (plan->n_idle_ranks) {
        ah_buffer_printf(&line, "; idle: rank%s ", plan->n_idle_ranks == 1 ? "" : "s");
        put_ranks(&line, plan->idle_ranks, plan->n_idle_ranks);
    }
    ah_cli_put_wrapped(cli, &line, 0);
}

/* Prints how to `run` the plan, or why that is impossible. */
static void put_run(struct ah_cli *cli, const struct ah_cluster_plan *plan)
{
    struct ah_error why = {0};
    struct ah_buffer line = {0};
    const uint64_t ranks = ah_run_ranks_of_plan(plan);
    if (ah_run_ranks_check(plan, &why))
        ah_buffer_printf(&line, "run: planned only: %s", why.text);
    else if (ranks == 1)
        ah_buffer_puts(&line, "run: 1 rank, by 'run --local'");
    else
        ah_buffer_printf(
            &line, "run: %" PRIu64 " ranks, by 'run --local', '--hosts FILE' or 'mpirun -n %" PRIu64 "'",
            ranks, ranks);
    ah_cli_put_wrapped(cli, &line, 0);
}

void ah_inspect_cluster_plan_text(struct ah_cli *cli, const struct ah_document *document)
{
    const struct ah_cluster_plan *plan = document->body.cluster_plan;
    ah_inspect_cluster_plan_summary(cli, plan);
    put_run(cli, plan);
    if (plan->sharding) {
        ah_inspect_plan_parts(cli, &plan->programs[0]);
    } else {
        put_pipelines(cli, plan);
        put_hosts(cli, plan);
        put_segments(cli, plan);
        put_programs(cli, plan);
    }
    ah_inspect_pairs(cli, "annotations", plan->annotations, plan->n_annotations);
}

void ah_inspect_cluster_plan_json(struct ah_emit *emit, const struct ah_document *document)
{
    const struct ah_cluster_plan *plan = document->body.cluster_plan;
    struct ah_error why = {0}; /* the reason for which `run` refuses the plan */
    ah_emit_text(emit, "model", plan->inputs.model.name);
    ah_emit_text(emit, "cluster", plan->inputs.cluster.name);
    if (plan->model)
        ah_plan_emit_lora(emit, plan->model);
    ah_emit_integer(emit, "pipelines", plan->n_pipelines);
    ah_emit_bool(emit, "sharded", plan->sharding);
    ah_emit_integer(emit, "idle_gpus", plan->n_idle_ranks);
    ah_emit_integer(emit, "programs", plan->n_programs);
    ah_emit_integer(emit, "ranks", ah_run_ranks_of_plan(plan));
    ah_emit_text(emit, "refused", ah_run_ranks_check(plan, &why) ? why.text : NULL);
    ah_emit_number(emit, "step_us", plan->predicted.step_us);
    if (plan->n_programs) {
        ah_emit_number(emit, "programs_us", plan->predicted.programs_us);
        ah_emit_number(emit, "programs_period_us", plan->predicted.programs_period_us);
    }
    ah_emit_number(emit, "tokens_per_s", plan->predicted.tokens_per_s);
    ah_emit_number(emit, "exposed_sync_us", plan->predicted.exposed_sync_us);
    ah_emit_number(emit, "bubble", plan->predicted.bubble);
    ah_emit_text(emit, "policy",
                 plan->sharding ? ah_words_policy[plan->programs[0].policy]
                                : ah_words_cluster_policy[plan->policy]);
    ah_emit_text(emit, "status", ah_words_plan_status[plan->solver.status]);
    ah_emit_number(emit, "bound_us", plan->solver.bound_us);
    ah_emit_number(emit, "gap", plan->solver.gap);
}
