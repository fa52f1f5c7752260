/* SPDX-License-Identifier: Apache-2.0
 *
 * Run heading: one function for each group of lines, in the order in which they are printed.
 */
#include "cli/run/run_heading.h"

#include "base/units.h"
#include "cli/inspect/plan_summary.h"
#include "runtime/run/run_ranks.h"
#include "runtime/schedule/names.h"
#include "runtime/train/world.h"

#include <inttypes.h>
#include <unistd.h>

/* Prints the learning rate and the weight decay, and which of these are defaults for fine-tuning. */
static void say_learning(struct ah_buffer *out, const struct ah_run *run,
                         const struct ah_run_options *options)
{
    const struct ah_run_settings *settings = &run->settings;
    ah_buffer_printf(
        out, "learning rate %g (%s, warm-up %" PRIu64 " of %" PRIu64 " step%s), weight decay %g\n",
        settings->rate.lr, ah_run_words_schedule[settings->rate.schedule], settings->rate.warmup_steps,
        settings->steps, settings->steps == 1 ? "" : "s", settings->weight_decay);
    if (options->weights && !run->plan->model.lora &&
        !(options->lr.given && options->weight_decay.given && options->warmup.given))
        ah_buffer_printf(out, "fine-tuning defaults: %s%s%s; they differ from those of fresh weights\n",
                         options->lr.given ? "" : "--lr 1e-5 (not 3e-4) ",
                         options->weight_decay.given ? "" : "--weight-decay 0 (not 0.1) ",
                         options->warmup.given ? "" : "--warmup of 3 % (not 10 %)");
}

/* Names the files in which the width of tokens was only inferred from their values. */
static void say_widths(struct ah_cli *cli, const struct ah_dataset *data)
{
    for (size_t i = 0; data && i < ah_dataset_facts(data)->files; i++) {
        const struct ah_dataset_file *file = ah_dataset_file(data, i);
        if (!file->by_values)
            continue;
        ah_buffer_printf(
            &cli->out,
            "%s: read as %u-bit tokens, the only width that fits the vocabulary ('--data-format %s' confirms "
            "it)\n",
            ah_cli_clean(cli, file->path), 8 * file->token_bytes, ah_dataset_format_word(file->format));
        return;
    }
}

/* Prints which micro-batches a rank computes, unless it computes all of them. */
static void print_share(const struct ah_trainer_rank *place, struct ah_buffer *out)
{
    const struct ah_trainer_stage *stage = &place->stages[place->rank];
    const uint64_t last = stage->first_micro_batch + stage->micro_batches - 1;
    if (place->pipelines < 2)
        return;
    if (place->shards && stage->micro_batches > 1)
        ah_buffer_printf(out, "; micro-batches %" PRIu64 " to %" PRIu64 " in steps of %" PRIu32,
                         stage->first_micro_batch,
                         stage->first_micro_batch + (stage->micro_batches - 1) * place->ranks, place->ranks);
    else if (place->shards)
        ah_buffer_printf(out, "; micro-batch %" PRIu64, stage->first_micro_batch);
    if (place->shards)
        return;
    ah_buffer_printf(out, "; pipeline %" PRIu32 ", micro-batch", stage->pipeline);
    if (stage->micro_batches > 1)
        ah_buffer_printf(out, "es %" PRIu64 " to", stage->first_micro_batch);
    ah_buffer_printf(out, " %" PRIu64, last);
}

/* Prints where each rank runs, and which blocks it has. */
static void say_ranks(struct ah_cli *cli, const struct ah_run_ranks *ranks)
{
    const struct ah_world *world = ah_run_ranks_world(ranks);
    const size_t idle = ah_run_ranks_cluster_plan(ranks)->n_idle_ranks;
    const bool threads = ah_run_ranks_are_threads(ranks);
    struct ah_buffer *out = &cli->out;
    if (threads)
        ah_buffer_printf(out, "%" PRIu32 " rank%s of this process", world->ranks,
                         world->ranks == 1 ? ", a thread" : "s, threads");
    else
        ah_buffer_printf(out, "%" PRIu32 " rank%s; 'kill -USR1 %ld' on host '%s' saves and ends all",
                         world->ranks, world->ranks == 1 ? "" : "s", (long)getpid(),
                         ah_cli_clean(cli, ah_run_ranks_host(ranks, 0)));
    if (ah_run_ranks_paced(ranks))
        ah_buffer_printf(out, "\n  paced: every op and message takes as long as planned");
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        const struct ah_plan *program = world->programs[rank];
        struct ah_buffer blocks = {0};
        ah_name_range(ah_names_of_plan(program), 0, program->n_blocks, &blocks);
        ah_buffer_printf(out, "\n  rank %" PRIu32, rank);
        if (!threads)
            ah_buffer_printf(out, " on %s", ah_cli_clean(cli, ah_run_ranks_host(ranks, rank)));
        ah_buffer_printf(out, ", as node %s: %s", ah_cli_clean(cli, ah_run_ranks_node(ranks, rank)),
                         blocks.failed ? "?" : ah_cli_clean(cli, blocks.data));
        print_share(&world->places[rank], out);
        ah_buffer_release(&blocks);
    }
    if (idle)
        ah_buffer_printf(out, "\n  %zu GPU%s of the plan idle%s and %s not started", idle,
                         idle == 1 ? "" : "s", idle == 1 ? "s" : "", idle == 1 ? "is" : "are");
    ah_buffer_printf(out, "\n");
}

void ah_run_heading_print(struct ah_cli *cli, const struct ah_run *run, const struct ah_run_options *given)
{
    const struct ah_dataset_facts *data = ah_dataset_facts(run->data);
    char text[AH_UNITS_TEXT_MAX];
    ah_buffer_printf(&cli->out, "%s%s%s on %s, policy %s: %s a step %s\n", cli->out_style.bold,
                     ah_cli_clean(cli, run->plan->inputs.model.name), cli->out_style.reset,
                     ah_cli_clean(cli, ah_trainer_device(run->trainer)->info.name),
                     ah_words_policy[run->plan->policy], ah_units_print_time(text, run->plan->time.step_us),
                     ah_plan_predicted(run->plan->time.estimated));
    if (run->options->ranks)
        say_ranks(cli, run->options->ranks);
    ah_buffer_printf(&cli->out, "data: %s tokens, ", ah_units_print_count(text, (double)data->tokens));
    ah_buffer_printf(&cli->out, "%" PRIu64 " step%s an epoch; ", ah_batches_steps(&run->batches),
                     ah_batches_steps(&run->batches) == 1 ? "" : "s");
    if (run->resumed_step)
        ah_buffer_printf(&cli->out, "continues after step %" PRIu64 "\n", run->resumed_step);
    else
        ah_buffer_printf(&cli->out, "%s\n",
                         run->options->weights ? "begins with given weights" : "begins with fresh weights");
    if (run->plan->model.lora && !run->options->weights && !run->resumed_step && run->save)
        ah_cli_tell(
            cli, AH_CLI_WARNING,
            "the adapters are trained beside fresh weights, which are not saved; give the base model with "
            "'--weights'");
    if (run->save && run->room.needed_bytes && run->room.free_bytes < UINT64_MAX) {
        char available[AH_UNITS_TEXT_MAX];
        ah_buffer_printf(&cli->out, "checkpoints in %s: %s at most, %s free\n", ah_cli_clean(cli, run->save),
                         ah_units_print_bytes(text, run->room.needed_bytes),
                         ah_units_print_bytes(available, run->room.free_bytes));
    }
    say_learning(&cli->out, run, given);
    say_widths(cli, run->data);
    say_widths(cli, run->held_out);
    ah_cli_fit(cli, 0, 2);
}
