/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete run PLAN: trains as the plan says.
 *
 * Output: a line now and then and, on a terminal, a progress line. With `--json` or `--log -`, standard output has only
 * the run log; with `--trace -`, only the trace.
 */
#include "base/units.h"
#include "cli/frame/interrupt.h"
#include "cli/frame/outputs.h"
#include "cli/inspect/plan_summary.h"
#include "cli/run/run_heading.h"
#include "cli/run/run_hosts.h"
#include "cli/run/run_line.h"
#include "cli/run/run_machine.h"
#include "cli/run/run_options.h"
#include "cli/run/run_plan.h"
#include "cli/run/run_samples.h"
#include "cli/run/run_terminal.h"
#include "cli/run/stall.h"
#include "cli/trace/trace.h"
#include "cli/trace/trace_ranks.h"
#include "cli/verbs.h"
#include "profiler/processor_load.h"
#include "runtime/run/run_log.h"
#include "runtime/run/run_timeline.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct run_options {
    struct ah_run_options run; /* first: AH_RUN_DATA_OPTIONS */
    const char *trace;
    bool force, local, pace;
    const char *hosts;
    struct ah_option_real stall_after;
    struct ah_option_integer sample_every;
    const char *prompts;
};

#define FIELD(name) offsetof(struct run_options, name)

static const char *const replaced_logs[] = {"runlog", NULL};
static const char *const replaced_traces[] = {AH_OUTPUT_TRACE, NULL};

/* clang-format off */
static const struct ah_option run_table[] = {
    AH_RUN_DATA_OPTIONS,
    {"valid", 0, AH_OPTION_FILES, "PATH", NULL, FIELD(run.valid), "also measure the loss on these held-out "
                                                                  "data"},
    {"valid-every", 0, AH_OPTION_COUNT, "N", NULL, FIELD(run.valid_every),
     "also measure it every this many steps (default: before the first step and at the end)"},
    {"steps", 0, AH_OPTION_COUNT, "N", NULL, FIELD(run.steps),
     "steps of the whole run, including those before --resume (default 100)"},
    {"epochs", 0, AH_OPTION_REAL, "X", NULL, FIELD(run.epochs),
     "passes of the whole run through the data, instead of --steps; 0.5 is half a pass"},
    {"lr", 0, AH_OPTION_REAL, "X", NULL, FIELD(run.lr), "highest learning rate (default 3e-4; with --weights 1e-5)"},
    {"schedule", 0, AH_OPTION_WORD, "WORD", ah_run_words_schedule, FIELD(run.schedule),
     "learning rate after the warm-up (default cosine, which falls to a tenth)"},
    {"warmup", 0, AH_OPTION_COUNT, "N", NULL, FIELD(run.warmup),
     "steps during which the learning rate rises (default a tenth of all, at most 100; with --weights 3 %)"},
    {"betas", 0, AH_OPTION_TEXT, "B1,B2", NULL, FIELD(run.betas), "decay rates of AdamW's moments (default "
                                                                  "0.9,0.95)"},
    {"epsilon", 0, AH_OPTION_REAL, "X", NULL, FIELD(run.epsilon), "epsilon of AdamW (default 1e-8)"},
    {"weight-decay", 0, AH_OPTION_REAL, "X", NULL, FIELD(run.weight_decay),
     "weight decay of matrices, never of biases and norms (default 0.1; with --weights 0)"},
    {"weights", 0, AH_OPTION_FILE, "DIR", NULL, FIELD(run.weights),
     "begin with these safetensors, named as by Hugging Face (default: fresh weights)"},
    {"adapter", 0, AH_OPTION_FILE, "DIR", NULL, FIELD(run.adapter),
     "with --weights and a plan with adapters: begin with these, in peft's files (default: fresh adapters)"},
    {"tokenizer", 0, AH_OPTION_FILE, "DIR", NULL, FIELD(run.tokenizer),
     "save this folder's tokenizer in each checkpoint (default: that of --weights, or of the checkpoint resumed)"},
    {"save", 0, AH_OPTION_FOLDER, "DIR", NULL, FIELD(run.save),
     "save checkpoints into this folder: at the end, when interrupted, and as --save-every says (default: with "
     "--resume, where it was saved)"},
    {"no-save", 0, AH_OPTION_FLAG, NULL, NULL, FIELD(run.no_save), "keep nothing of this run"},
    {"save-every", 0, AH_OPTION_COUNT, "N", NULL, FIELD(run.save_every), "also save every this many steps"},
    {"prompts", 0, AH_OPTION_FILE, "FILE", NULL, FIELD(prompts),
     "after each save, show and log what the model says to each line of this file; it is computed on the CPU"},
    {"sample-every", 0, AH_OPTION_COUNT, "N", NULL, FIELD(sample_every),
     "with --prompts: only every this many steps and at the end; without --save-every, saves then"},
    {"keep", 0, AH_OPTION_COUNT, "N", NULL, FIELD(run.keep),
     "keep this many of the newest checkpoints (default 2; 0: all)"},
    {"keep-best", 0, AH_OPTION_FLAG, NULL, NULL, FIELD(run.keep_best),
     "also keep the checkpoint with the lowest held-out loss"},
    {"on-divergence", 0, AH_OPTION_WORD, "WORD", ah_run_words_divergence, FIELD(run.on_divergence),
     "when the loss rises by a fifth: warn, and exit with 9 if it is still so at the end; or stop at once "
     "(default warn)"},
    {"resume", 0, AH_OPTION_FILE, "DIR", NULL, FIELD(run.resume),
     "continue from this checkpoint, or the newest complete one in this folder; options not given stay as "
     "before"},
    {"log", 0, AH_OPTION_OUTPUT, "FILE", replaced_logs, FIELD(run.log),
     "write the run log here, a line per step ('-': standard output); with --resume, continue the existing "
     "one"},
    {"trace", 0, AH_OPTION_OUTPUT, "FILE", replaced_traces, FIELD(trace),
     "write the measured timeline of a few steps of all ranks beside the predicted one, for Perfetto or "
     "chrome://tracing"},
    AH_OUTPUT_FORCE_ROW(struct run_options),
    AH_RUN_RANKS_ROWS(struct run_options),
    {"other-device", 0, AH_OPTION_FLAG, NULL, NULL, FIELD(run.other_device),
     "run a plan that was made for another kind of device"},
    AH_STALL_OPTION(FIELD(stall_after)),
    {NULL, 0, AH_OPTION_FLAG, NULL, NULL, 0, NULL}};
/* clang-format on */

enum { LINES = 10 }; /* number of lines about steps during a run */

struct running {
    struct ah_cli *cli;
    const struct run_options *options;
    struct ah_run_terminal terminal;
    struct ah_run_plan loaded;
    struct ah_run_options given; /* the command line's options, completed from the document */
    struct ah_run run;
    struct ah_run_log log;
    struct ah_run_timeline *timeline; /* NULL: no trace was requested */
    struct ah_progress progress;
    struct ah_run_samples samples;
    bool quiet; /* print nothing for people: --quiet is given, or standard output is for a log or trace */
    struct ah_error unsaid; /* why standard output could not be written */
    struct ah_run_line line;
    struct ah_document machine; /* the plan's, if it is found */
    struct ah_load load;        /* load of the machine at the start of the first step */
};

/* ---- what people see ---- */

static void put_line(struct running *running)
{
    struct ah_error err = {0};
    ah_terminal_erase(&running->progress);
    if (!running->quiet && ah_cli_flush(running->cli, &err) && !running->unsaid.code)
        running->unsaid = err;
    ah_buffer_clear(&running->cli->out);
}

static bool is_shown(const struct running *running, uint64_t step)
{
    uint64_t steps = running->run.settings.steps, every = (steps + LINES - 1) / LINES;
    return step == running->run.resumed_step + 1 || step == steps || step % every == 0;
}

static void on_step(void *context, const struct ah_step_record *record, double step_us)
{
    struct running *running = context;
    const struct ah_plan_training *training = &running->run.step;
    const uint64_t steps = running->run.settings.steps, before = running->run.resumed_step;
    struct ah_buffer line = {0};
    ah_run_line_add(&running->line, record, step_us, (double)(training->batch * training->seq));
    ah_run_log_step(&running->log, record, step_us);
    if (running->timeline)
        ah_run_timeline_step(running->timeline, record->step);
    if (running->quiet)
        return;
    ah_run_line_put(&running->line, &line, steps, &running->run.utilisation);
    if (is_shown(running, record->step)) {
        ah_buffer_printf(&running->cli->out, "%s\n", line.data ? line.data : "");
        put_line(running);
    }
    ah_terminal_draw(&running->progress, (double)(record->step - before) / (double)(steps - before),
                     line.data ? line.data : "");
    ah_buffer_release(&line);
}

static void on_op(void *context, const struct ah_op_record *record)
{
    const struct running *running = context;
    ah_run_timeline_op(running->timeline, record);
}

static void on_evaluated(void *context, uint64_t step, double loss, uint64_t tokens)
{
    struct running *running = context;
    ah_run_log_evaluation(&running->log, step, loss, tokens);
    if (running->quiet)
        return;
    ah_buffer_printf(&running->cli->out,
                     "held-out loss after step %" PRIu64 ": %.4f, perplexity %.4g (%" PRIu64 " tokens)\n",
                     step, loss, exp(loss), tokens);
    put_line(running);
}

static void on_saved(void *context, uint64_t step, double us, const struct ah_checkpoints_saved *saved)
{
    struct running *running = context;
    char text[AH_UNITS_TEXT_MAX];
    ah_run_log_save(&running->log, step, us, saved->path);
    ah_terminal_erase(&running->progress);
    if (saved->warning[0])
        ah_cli_tell(running->cli, AH_CLI_WARNING, "%s", saved->warning);
    if (!running->quiet) {
        ah_buffer_printf(&running->cli->out, "saved after step %" PRIu64 ": %s, in %s\n", step,
                         ah_cli_clean(running->cli, saved->path), ah_units_print_time(text, us));
        put_line(running);
    }
    ah_run_samples_show(&running->samples, &running->run, step, saved->path);
}

/* ---- the verb ---- */

static int open_trace(struct running *running, struct ah_error *err)
{
    const struct ah_run *run = &running->run;
    const struct ah_recorded_steps steps = ah_run_traced_steps(run);
    const struct ah_run_timeline_options options = {.first_step = steps.first, .steps = steps.n};
    ah_trainer_time_ops(run->trainer);
    int rc = ah_run_timeline_new(&running->timeline, run->plan, &options, err);
    if (!rc)
        ah_run_timeline_record(running->timeline, ah_trainer_device(run->trainer), run->resumed_step);
    return rc;
}

/* Decides whether standard output is for people, the log, or the trace; refuses two of these at once. */
static int share_output(struct running *running, struct ah_error *err)
{
    const struct run_options *options = running->options;
    const bool log = options->run.log && !strcmp(options->run.log, "-");
    const bool trace = options->trace && !strcmp(options->trace, "-");
    if (trace && (log || running->cli->json))
        return ah_error_set(err, AH_E_USAGE,
                            "'--trace -' and '%s' both want standard output; give '--trace' a file",
                            log ? "--log -" : "--json");
    running->quiet = log || trace || running->cli->json || running->cli->arguments.quiet;
    return AH_OK;
}

/* Opens the log. A log named by an option was checked before, a resumed run's own log is checked here; an error's
 * message says so. */
static int open_log(struct running *running, struct ah_error *err)
{
    const char *given = running->options->run.log, *path = running->run.options->log;
    int rc = path && !given ? ah_run_log_check(path, err) : AH_OK;
    rc = rc ? rc : ah_run_log_open(&running->log, &running->run, path, running->cli->json, err);
    if (rc != AH_E_IO || !path || given)
        return rc;
    const struct ah_error why = *err;
    return ah_error_set(err, rc, "%.700s; the run used it before: give another with '--log'", why.text);
}

/* Checks that what is saved, or the base of adapters, has the tokenizer that samples need. */
static int check_samples(const struct running *running, struct ah_error *err)
{
    const struct ah_run *run = &running->run;
    const char *base = run->plan->model.lora ? run->options->weights : NULL;
    char path[PATH_MAX];
    if (!running->samples.n || !run->save || (!base && ah_companions_has_tokenizer(&run->companions)))
        return AH_OK;
    if (base && (snprintf(path, sizeof path, "%s/tokenizer.json", base) >= PATH_MAX || !access(path, F_OK)))
        return AH_OK;
    return ah_error_set(
        err, AH_E_USAGE,
        base ? "'--prompts' needs a tokenizer.json in '%s', the folder of '--weights'"
             : "'--prompts' needs a tokenizer, which checkpoints of this run lack; give '--tokenizer' "
               "DIR%s",
        base ? base : "");
}

static int open_running(struct running *running, struct ah_error *err)
{
    const struct run_options *options = running->options;
    const char *path = running->cli->arguments.operands[0];
    const struct ah_run_plan_wish wish = {.local = options->local,
                                          .emulates = options->run.emulate,
                                          .paces = options->pace,
                                          .moves = options->run.other_device,
                                          .hosts = options->hosts};
    running->given = options->run;
    int rc = share_output(running, err);
    running->samples = (struct ah_run_samples){.cli = running->cli,
                                               .every = options->sample_every,
                                               .path = options->prompts,
                                               .log = &running->log,
                                               .silent = running->quiet};
    rc = rc ? rc : ah_run_samples_open(&running->samples, &running->given, err);
    if (!rc)
        rc = ah_run_plan_load(&running->loaded, path, &wish, err);
    running->given.ranks = running->loaded.ranks;
    running->given.traces = options->trace;
    running->given.watch = ah_stall_watch(running->cli, &options->stall_after);
    if (rc || running->loaded.launches || ah_run_plan_follows(&running->loaded))
        return rc;
    if (!rc && options->run.log && options->run.resume)
        rc = ah_run_log_check(options->run.log, err);
    if (!rc)
        rc = ah_run_options_check(&running->given, running->loaded.plan, err);
    running->terminal.host.stop = ah_interrupt_catch();
    running->line.no_lanes = running->loaded.ranks != NULL;
    if (!rc && !running->loaded.ranks)
        running->given.machine =
            ah_run_machine_find(&running->machine, running->loaded.plan, path, &running->cli->arena);
    if (!rc)
        rc = ah_run_open(&running->run, &running->terminal.host, running->loaded.plan, &running->given, err);
    if (!rc)
        rc = check_samples(running, err);
    if (!rc && options->trace && !running->loaded.ranks)
        rc = open_trace(running, err);
    if (!rc)
        rc = open_log(running, err);
    return rc;
}

/* Says, before training, what will not be saved. A vocabulary of bytes needs no tokenizer. */
static void tell_of_saving(const struct running *running)
{
    const struct ah_run *run = &running->run;
    if (run->position.step >= run->settings.steps)
        return;
    if (!run->save && !running->options->run.no_save)
        ah_cli_tell(running->cli, AH_CLI_NOTE,
                    "without --save DIR nothing is kept: the trained weights are lost at the end");
    if (run->save && !running->options->run.save)
        ah_cli_tell(
            running->cli, AH_CLI_NOTE,
            "checkpoints go to '%s', the folder that this run resumes from; --no-save turns saving off",
            run->save);
    if (run->save && run->plan->model.vocabulary != AH_DATASET_BYTE_VOCABULARY &&
        !ah_companions_has_tokenizer(&run->companions))
        ah_cli_tell(
            running->cli, AH_CLI_NOTE,
            "checkpoints will lack a tokenizer, which other programs need to use them; --tokenizer DIR adds "
            "one");
}

static int run_steps(struct running *running, struct ah_error *err)
{
    const struct ah_run_listener listener = {.step = on_step,
                                             .op = running->timeline ? on_op : NULL,
                                             .evaluated = on_evaluated,
                                             .saved = on_saved,
                                             .context = running};
    if (!running->quiet) {
        ah_run_heading_print(running->cli, &running->run, &running->options->run);
        put_line(running);
    }
    tell_of_saving(running);
    running->progress = ah_terminal_progress();
    ah_load_read(&running->load);
    int rc = ah_run_train(&running->run, &listener, err);
    ah_terminal_erase(&running->progress);
    return rc;
}

/* Prints one line that compares measurements with predictions; `report` says more. */
static void summarize(struct running *running, const struct ah_runlog_end *end)
{
    char measured[AH_UNITS_TEXT_MAX], predicted[AH_UNITS_TEXT_MAX];
    if (running->quiet || !(end->median_step_us > 0))
        return;
    ah_buffer_printf(&running->cli->out, "a step took %s (median), %s %s: %+.1f %%\n",
                     ah_units_print_time(measured, end->median_step_us),
                     ah_units_print_time(predicted, end->predicted_step_us),
                     ah_plan_predicted(running->run.plan->time.estimated), 100 * end->step_error);
    put_line(running);
}

/* Prints other load on the machine: it may be why a run was slow. */
static void summarize_load(struct running *running)
{
    char text[160];
    const char *sentence = text;
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned processors = online > 0 ? (unsigned)online : 1;
    double taken;
    struct ah_load now;
    ah_load_read(&now);
    if (running->quiet || !ah_load_noise(&running->load, &now, processors, "run", text, sizeof text) ||
        !ah_load_disturbed(&sentence, 1, &taken, &processors))
        return;
    ah_buffer_printf(
        &running->cli->out,
        "other programs or the hypervisor took %.1f of %u processors during the run, which slowed its "
        "steps\n",
        taken, processors);
    ah_cli_fit(running->cli, 0, 2);
    put_line(running);
}

/* Prints one line about what the trace shows, and what it cannot show. */
static void summarize_overlap(struct running *running, const struct ah_runlog_overlap *overlap)
{
    char steps[64];
    if (running->quiet || !overlap)
        return;
    snprintf(steps, sizeof steps, overlap->steps > 1 ? "steps %" PRIu64 " to %" PRIu64 : "step %" PRIu64,
             overlap->first_step, overlap->first_step + overlap->steps - 1);
    const double percent = 100 / overlap->total_us;
    ah_buffer_printf(&running->cli->out,
                     "%s: compute was busy %.1f %% of the time, only copies %.1f %%, only the host %.1f %%, "
                     "nothing %.1f %%%s\n",
                     steps, percent * overlap->compute_us, percent * overlap->copy_us,
                     percent * overlap->host_us, percent * overlap->idle_us,
                     overlap->source == AH_RUNLOG_HARDWARE_SAYS ? " (kernels and copies, recorded)" : "");
    ah_cli_fit(running->cli, 0, 2);
    put_line(running);
}

static int end_trace(struct running *running, struct ah_runlog_end *end, struct ah_error *err)
{
    if (!running->timeline)
        return AH_OK;
    const struct ah_error *why = ah_run_timeline_end(running->timeline);
    if (why->code && why->code != AH_E_UNSUPPORTED)
        ah_cli_tell(running->cli, AH_CLI_WARNING, "the trace lacks kernels and copies: %s", why->text);
    int rc = ah_run_timeline_overlap(running->timeline, &running->cli->arena, &end->overlap, err);
    if (!rc && end->overlap && end->overlap->lost)
        ah_cli_tell(running->cli, AH_CLI_WARNING,
                    "%" PRIu64 " records of work were lost, so the shares in the trace are too low",
                    end->overlap->lost);
    return rc;
}

static int write_trace(struct running *running, struct ah_error *err)
{
    const char *path = running->options->trace;
    if (!path)
        return AH_OK;
    int rc = running->loaded.ranks
                 ? ah_trace_ranks_write(&running->run, running->cli, path, err)
                 : ah_trace_write_run(running->cli, path, running->run.plan, running->timeline, err);
    if (!rc && strcmp(path, "-") != 0)
        ah_cli_tell(running->cli, AH_CLI_WROTE, "%s; open it in ui.perfetto.dev or chrome://tracing", path);
    return rc;
}

static int close_log(struct running *running, int rc, struct ah_error *err)
{
    struct ah_error own = {0};
    struct ah_runlog_end end = {.step = running->run.position.step,
                                .reason = !rc                      ? AH_RUNLOG_DONE
                                          : rc == AH_E_INTERRUPTED ? AH_RUNLOG_INTERRUPTED
                                                                   : AH_RUNLOG_FAILED,
                                .error = rc && rc != AH_E_INTERRUPTED ? err->text : NULL};
    int closed = ah_tally_end(running->run.tally, &running->cli->arena, &end, &own);
    if (!closed)
        closed = end_trace(running, &end, &own);
    if (!closed)
        summarize(running, &end);
    if (!closed)
        summarize_load(running);
    if (!closed)
        summarize_overlap(running, end.overlap);
    int written = ah_run_log_close(&running->log, &end, closed ? NULL : &own);
    closed = closed ? closed : written;
    if (!rc && closed)
        *err = own;
    return rc ? rc : closed;
}

static int train(struct running *running, struct ah_error *err)
{
    const struct ah_run_settings *settings = &running->run.settings;
    struct ah_error own = {0};
    if (running->run.position.step >= settings->steps)
        ah_cli_tell(running->cli, AH_CLI_NOTE, "all %" PRIu64 " step%s done already%s", settings->steps,
                    settings->steps == 1 ? " is" : "s are",
                    settings->rate.schedule == AH_RATE_CONSTANT ? "; give more with --steps" : "");
    int trained = run_steps(running, err);
    int rc = close_log(running, trained, err);
    /* Writes the trace even if the log cannot be written, or if the run diverged. */
    if (!trained || trained == AH_E_INTERRUPTED || running->run.diverged) {
        int written = write_trace(running, &own);
        if (!written && running->unsaid.code)
            own = running->unsaid;
    }
    if (!rc && own.code)
        *err = own;
    else if (rc && own.code)
        ah_cli_tell(running->cli, AH_CLI_WARNING, "%s", own.text);
    if (!rc && !running->run.save && !running->options->run.no_save &&
        running->run.position.step > running->run.resumed_step)
        ah_cli_tell(running->cli, AH_CLI_NOTE, "nothing was kept of this run: --save DIR keeps the weights");
    return rc ? rc : own.code;
}

/* Runs a rank other than 0. Each process reports only its own failures. */
static int follow_rank_0(struct running *running)
{
    struct ah_cli *cli = running->cli;
    struct ah_error err = {0};
    ah_interrupt_leave();
    const int rc = ah_run_ranks_follow(running->loaded.ranks, ah_stall_watch(cli, NULL), &err);
    const int status = !rc                                                    ? 0
                       : ah_run_ranks_failed_elsewhere(running->loaded.ranks) ? ah_error_exit_status(rc)
                                                                              : ah_cli_fail(cli, &err);
    ah_run_ranks_tell_waits(running->loaded.ranks, &running->terminal.host);
    ah_run_plan_release(&running->loaded);
    return status;
}

/* Starts the ranks on their hosts and waits for them. Prints nothing, because the ranks print everything. */
static int launch(struct running *running)
{
    struct ah_error err = {0};
    int status = 0;
    int rc = ah_run_hosts_launch(running->cli, running->options->hosts,
                                 running->loaded.document.body.cluster_plan, &status, &err);
    ah_run_plan_release(&running->loaded);
    return rc == AH_E_USAGE ? ah_cli_fail_usage(running->cli, &err)
           : rc             ? ah_cli_fail(running->cli, &err)
                            : status;
}

static int run_run(struct ah_cli *cli, const void *given)
{
    struct running *running = ah_arena_alloc(&cli->arena, sizeof *running);
    struct ah_error err = {0};
    if (!running) {
        ah_error_memory(&err);
        return ah_cli_fail(cli, &err);
    }
    *running = (struct running){.cli = cli, .options = given};
    ah_run_terminal_init(&running->terminal, cli);
    int rc = open_running(running, &err);
    if (!rc && ah_run_plan_follows(&running->loaded))
        return follow_rank_0(running);
    if (!rc && running->loaded.launches)
        return launch(running);
    if (!rc)
        rc = train(running, &err);
    const bool saved = running->run.saved_path[0];
    ah_run_ranks_give_up(running->loaded.ranks, rc, &err);
    ah_run_ranks_tell_pace(running->loaded.ranks, &running->terminal.host);
    ah_run_log_close(&running->log, NULL, NULL);
    ah_run_timeline_free(running->timeline);
    ah_run_close(&running->run);
    ah_document_release(&running->machine);
    int status = rc == AH_E_USAGE ? ah_cli_fail_usage(cli, &err) : 0;
    if (rc == AH_E_INTERRUPTED && saved && !cli->json) { /* not a failure: the run stopped on request */
        ah_cli_tell(cli, AH_CLI_NOTE, "%s", err.text);
        status = ah_error_exit_status(rc);
    } else if (rc && rc != AH_E_USAGE) {
        status = ah_cli_fail(cli, &err);
    }
    ah_run_ranks_tell_waits(running->loaded.ranks, &running->terminal.host);
    ah_run_plan_release(&running->loaded); /* ends the process if its world was lost */
    return status;
}

const struct ah_verb ah_verb_run = {
    .name = "run",
    .summary = "train with a plan",
    .description =
        "Trains the plan's model on the plan's device: uses exactly the memory that the plan gives, and "
        "overlaps compute, copies and the host's updates in the plan's order. Losses and weights depend only "
        "on model, training, data and seed, bit for bit, whatever the plan offloads or recomputes.\n\nData "
        "are token files as written by autohete tokenize, llm.c or nanoGPT; plain text works only for a "
        "model with a vocabulary of 256, where bytes are tokens. Weights come from a Hugging Face folder or "
        "are fresh; checkpoints use the same names.\n\nAll ranks of a cluster plan run together: '--local' "
        "runs them as threads of this process, '--hosts FILE' starts a process for each, and so does 'mpirun "
        "-n N autohete run ...'. Losses and weights are the same as with one process.\n\nAn interrupt "
        "(Ctrl-C; also SIGTERM, SIGHUP and SIGUSR1) finishes the steps under way, saves to the --save "
        "folder, and exits with 130; a second one ends at once and leaves the previous checkpoint valid. "
        "With --resume the run continues to the same final weights, under this or any other plan of the same "
        "numeric signature. If the newest checkpoint is damaged, the newest one whose files all match their "
        "sha256 is used, with a warning.",
    .syntax = {.options = run_table, .operands = {AH_OPERAND_FILE, "PLAN", 1, 1, NULL}},
    .options_bytes = sizeof(struct run_options),
    .examples = {{"run plan.json --data corpus.txt --steps 200",
                  "train a model of bytes (vocabulary 256) on text"},
                 {"run plan.json --data train.bin --valid val.bin --weights llama-2-7b --epochs 2 --save out",
                  "fine-tune and save"},
                 {"run plan.json --resume out", "continue where it stopped"},
                 {"run cluster-plan.json --local --data corpus.txt", "all ranks of a cluster plan, here"},
                 {"run plan.json --data train.bin --json | jq '.loss // empty'", "losses as they arrive"}},
    .run = run_run,
};
