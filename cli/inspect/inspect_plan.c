/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows a plan at a glance: its speed, its quality, what limits it, the config of each block, the use of memory, and
 * the results of other policies. Every time in a plan is a prediction and is labelled as one.
 */
#include "cli/inspect/inspect.h"
#include "cli/inspect/inspect_plan_internal.h"

#include "base/units.h"
#include "cli/inspect/plan_summary.h"

#include <inttypes.h>
#include <string.h>

/* The plan's sequences decide which of longrope's two lists of factors all of its batches have. */
static void put_longrope(struct ah_buffer *out, const struct ah_plan *plan)
{
    const struct ah_model_rope *rope = plan->model.rope;
    if (rope && rope->kind == AH_ROPE_LONGROPE)
        ah_buffer_printf(out, "; longrope with its %s factors, as for %s than %" PRIu64 " tokens",
                         plan->training.seq > rope->original_positions ? "long" : "short",
                         plan->training.seq > rope->original_positions ? "more" : "no more",
                         rope->original_positions);
}

static void put_training(struct ah_buffer *out, const struct ah_plan *plan)
{
    const struct ah_plan_training *training = &plan->training;
    ah_plan_put_batch(out, training->batch, training->seq);
    if (training->micro_batches > 1)
        ah_buffer_printf(out, " in %" PRIu64 " micro-batches (%s%s", training->micro_batches,
                         plan->micro_batch_order == AH_BLOCK_MAJOR ? "block by block" : "one after another",
                         training->n_sums ? ", added up in groups of " : ")");
    ah_plan_put_sums(out, training->sums, training->n_sums);
    ah_buffer_puts(out, training->n_sums ? ")" : "");
    if (training->tied == AH_TIED_SPLIT)
        ah_buffer_puts(out, ", tied table split");
    ah_buffer_printf(out, ", %s, states %s, %s", ah_words_dtype[training->dtype],
                     ah_words_dtype[training->state_dtype],
                     training->clip > 0 ? "gradients clipped" : "no clipping");
    ah_plan_put_lora(out, "; ", &plan->model);
    put_longrope(out, plan);
    if (plan->threads && plan->threads->compute)
        ah_buffer_printf(out, "; threads: %" PRIu64 " for compute, %" PRIu64 " for the host lane",
                         plan->threads->compute, plan->threads->host);
}

void ah_inspect_plan_put_policy(struct ah_buffer *out, const struct ah_plan *plan)
{
    ah_buffer_printf(out, "policy %s", ah_words_policy[plan->policy]);
    if (plan->scheduling != AH_SCHEDULING_PRIORITY)
        ah_buffer_printf(out, ", scheduling %s", ah_words_scheduling[plan->scheduling]);
    ah_plan_put_without(out, plan->without, plan->n_without);
    ah_buffer_puts(out, "; ");
    ah_plan_put_quality(out, &plan->solver);
}

/* Names the options with which 'profile' measures the plan's blocks: their times depend on them. */
static void put_estimated(struct ah_buffer *out, const struct ah_plan *plan)
{
    const struct ah_plan_training *training = &plan->training;
    const bool whole = training->n_trainable == 1 && !strcmp(training->trainable[0], "*");
    if (!plan->time.estimated)
        return;
    ah_buffer_printf(out,
                     "Times are estimates: the machine's document has no measured times of these blocks; "
                     "'profile --model M --batch %" PRIu64,
                     training->batch);
    if (training->micro_batches > 1)
        ah_buffer_printf(out, " --micro-batches %" PRIu64, training->micro_batches);
    ah_buffer_printf(out, " --seq %" PRIu64 "%s%s' on that machine adds them.", training->seq,
                     training->dtype == AH_FP32 ? " --dtype fp32" : "",
                     plan->model.lora ? " --lora ..."
                     : whole          ? ""
                                      : " --freeze ...");
}

void ah_inspect_plan_headline(struct ah_cli *cli, const struct ah_plan *plan)
{
    static void (*const lines[])(struct ah_buffer *, const struct ah_plan *) = {ah_inspect_plan_put_policy,
                                                                                put_training, put_estimated};
    char text[AH_UNITS_TEXT_MAX];
    struct ah_buffer headline = {0}, what_if = {0};
    if (plan->n_what_if) {
        ah_plan_put_what_if(&what_if, plan);
        ah_cli_put_wrapped(cli, &what_if, 0);
    }
    ah_buffer_printf(&headline, "%s%s on %s: %s a step, %.0f tokens/s%s (%s)", cli->out_style.bold,
                     ah_cli_clean(cli, plan->inputs.model.name), ah_cli_clean(cli, plan->inputs.machine.name),
                     ah_units_print_time(text, plan->time.step_us), plan->tokens_per_s, cli->out_style.reset,
                     ah_plan_predicted(plan->time.estimated));
    ah_cli_put_wrapped(cli, &headline, 0);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct ah_buffer line = {0};
        lines[i](&line, plan);
        if (line.size || line.failed)
            ah_cli_put_wrapped(cli, &line, 0);
    }
}

static void lane_cells(struct ah_table *table, const struct ah_plan *plan, enum ah_plan_lane lane)
{
    enum { BAR_COLUMNS = 24 };
    char text[AH_UNITS_TEXT_MAX];
    char bar[BAR_COLUMNS + 1];
    double share = plan->time.step_us > 0 ? plan->time.busy_us[lane] / plan->time.step_us : 0;
    ah_table_cell(table, "%s", ah_words_plan_lane[lane]);
    ah_table_cell(table, "%s", ah_terminal_bar(bar, share, BAR_COLUMNS, true));
    ah_table_cell(table, "%.0f %%", 100 * share);
    ah_table_cell(table, "%s", ah_units_print_time(text, plan->time.busy_us[lane]));
    ah_table_cell(table, "%s",
                  lane == AH_PLAN_LANE_COMPUTE ? ""
                                               : ah_units_print_time(text, plan->time.exposed_us.of[lane]));
}

static void put_speed(struct ah_cli *cli, const struct ah_plan *plan)
{
    struct ah_table table = {.arena = &cli->arena,
                             .columns = {"lane", "", ">busy", ">works", ">compute waits for it"}};
    for (unsigned lane = 0; lane < ah_plan_lane_count(plan); lane++)
        lane_cells(&table, plan, (enum ah_plan_lane)lane);
    ah_inspect_table(cli, "what limits the speed", &table);
    struct ah_buffer sentence = {0};
    ah_plan_put_bottleneck(&sentence, &plan->time);
    ah_cli_put_wrapped(cli, &sentence, 2);
}

static void put_alternatives(struct ah_cli *cli, const struct ah_plan *plan)
{
    char text[AH_UNITS_TEXT_MAX];
    struct ah_table table = {.arena = &cli->arena, .columns = {"policy", ">step", ">against this plan"}};
    for (size_t i = 0; i < plan->n_alternatives; i++) {
        const struct ah_plan_alternative *alternative = &plan->alternatives[i];
        ah_table_cell(&table, "%s", ah_words_policy[alternative->policy]);
        ah_table_cell(&table, "%s",
                      alternative->feasible ? ah_units_print_time(text, alternative->step_us)
                                            : "does not fit");
        if (alternative->feasible && plan->time.step_us > 0)
            ah_table_cell(&table, "%.2f x", alternative->step_us / plan->time.step_us);
        else
            ah_table_cell(&table, "%s", "");
    }
    ah_inspect_table(cli,
                     plan->time.estimated ? "other policies (predicted from estimates)"
                                          : "other policies (predicted)",
                     &table);
}

void ah_inspect_plan_parts(struct ah_cli *cli, const struct ah_plan *plan)
{
    put_speed(cli, plan);
    ah_inspect_plan_blocks(cli, plan);
    ah_inspect_plan_memory(cli, plan);
    put_alternatives(cli, plan);
}

void ah_inspect_plan_text(struct ah_cli *cli, const struct ah_document *document)
{
    const struct ah_plan *plan = document->body.plan;
    ah_inspect_plan_headline(cli, plan);
    ah_inspect_plan_parts(cli, plan);
    ah_inspect_signature_text(cli, &plan->numeric_signature);
    ah_inspect_pairs(cli, "annotations", plan->annotations, plan->n_annotations);
}
