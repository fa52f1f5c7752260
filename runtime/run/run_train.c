/* SPDX-License-Identifier: Apache-2.0
 *
 * Does the steps of a run, stretch by stretch.
 *
 * INVARIANTS
 * 1. At the end of a stretch, the data's position is that of the last reported step, as a checkpoint needs it.
 * 2. If a step fails, the run ends without saving, so the previous checkpoint stays the newest.
 */
#include "base/threads.h"
#include "base/units.h"
#include "runtime/run/run.h"
#include "runtime/run/run_measured.h"
#include "runtime/run/run_resume.h"
#include "runtime/run/run_status.h"
#include "runtime/train/persist.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct stretch {
    struct ah_run *run;
    const struct ah_run_listener *listener;
};

/* Looks for divergence. Once the run diverges, its last checkpoint is kept, so that a person can start over from it. */
static void watch_loss(struct ah_run *run, double loss)
{
    double last;
    const char *policy = run->options->on_divergence;
    ah_divergence_step(&run->divergence, loss);
    if (run->diverged || !ah_divergence_is(&run->divergence, &last))
        return;
    run->diverged = true;
    run->stopped = policy && !strcmp(policy, "stop");
    run->kept_step = run->saved_step == UINT64_MAX ? run->resumed_step : run->saved_step;
    if (!run->stopped)
        ah_run_tell(run->host, AH_RUN_WARNING,
                    "the run is diverging: after step %" PRIu64 " the last %d steps have a median loss of "
                    "%.4f, the first %d had %.4f; a lower --lr may help; --on-divergence stop ends such a "
                    "run",
                    run->position.step, AH_DIVERGENCE_LAST, last, AH_DIVERGENCE_FIRST, run->divergence.first);
}

static bool on_step(void *context, const struct ah_step_record *record)
{
    struct stretch *stretch = context;
    struct ah_run *run = stretch->run;
    double step_us = ah_tally_step(run->tally, record);
    run->position.step = record->step;
    run->position.cursor = record->step * run->step.batch;
    run->position.tokens += record->tokens;
    if (isfinite(record->loss) && isfinite(record->grad_norm)) {
        if (stretch->listener->step)
            stretch->listener->step(stretch->listener->context, record, step_us);
        watch_loss(run, record->loss);
    }
    ah_run_status_warn(run->status);
    return !ah_run_is_stopped(run->host) && !run->stopped;
}

static void on_op(void *context, const struct ah_op_record *record)
{
    const struct stretch *stretch = context;
    ah_tally_op(stretch->run->tally, record);
    if (stretch->listener->op)
        stretch->listener->op(stretch->listener->context, record);
}

/* Returns the number of steps until the next evaluation, save or end. */
static uint64_t stretch_steps(const struct ah_run *run)
{
    const uint64_t every[] = {run->settings.save_every, run->held_out ? run->settings.valid_every : 0};
    uint64_t done = run->position.step, end = run->settings.steps;
    for (size_t i = 0; i < sizeof every / sizeof *every; i++) {
        uint64_t next = every[i] ? (done / every[i] + 1) * every[i] : end;
        end = next < end ? next : end;
    }
    return end - done;
}

static int train(struct ah_run *run, const struct ah_run_listener *listener, struct ah_error *err)
{
    struct stretch stretch = {.run = run, .listener = listener};
    const struct ah_observer observer = {.step = on_step, .context = &stretch, .op = on_op};
    ah_tally_begin(run->tally, ah_threads_now_ns());
    return ah_trainer_run(run->trainer, stretch_steps(run), &observer, err);
}

static bool is_due(uint64_t step, uint64_t every, bool at_end)
{
    return at_end || (every && step % every == 0);
}

static int evaluate_held_out(struct ah_run *run, const struct ah_run_listener *listener, struct ah_error *err)
{
    struct ah_trainer_evaluation evaluation;
    if (!run->held_out)
        return AH_OK;
    int rc = ah_trainer_evaluate(run->trainer, &run->held_out_batches, run->host->stop, &evaluation, err);
    if (rc == AH_E_INTERRUPTED) /* ah_run_train() looks for interrupts itself */
        return AH_OK;
    if (!rc && !isfinite(evaluation.loss))
        rc = ah_error_set(err, AH_E_NUMERIC, "the held-out loss after step %" PRIu64 " is not finite",
                          run->position.step);
    if (!rc) {
        run->evaluated_step = run->position.step;
        run->evaluated_loss = evaluation.loss;
    }
    if (!rc && listener->evaluated)
        listener->evaluated(listener->context, run->position.step, evaluation.loss, evaluation.tokens);
    return rc;
}

/* Notes the step if it is the best so far, with --keep-best. If two are equally good, the newer one is the best. */
static void compare_with_best(struct ah_run *run)
{
    if (!run->options->keep_best || run->evaluated_step != run->position.step ||
        (run->best && run->best->loss < run->evaluated_loss))
        return;
    run->best_place = (struct ah_resume_best){run->position.step, run->evaluated_loss};
    run->best = &run->best_place;
}

static struct ah_checkpoints_keep to_keep(const struct ah_run *run)
{
    struct ah_checkpoints_keep keep = {.newest = run->settings.keep};
    if (run->best)
        keep.also[keep.n_also++] = run->best->step;
    if (run->diverged)
        keep.also[keep.n_also++] = run->kept_step;
    return keep;
}

/* Waits until a watching person has freed disk space. Returns true if there is enough space now. */
static bool wait_for_room(const struct ah_run *run)
{
    enum { PATIENCE_S = 600 };
    char needed[AH_UNITS_TEXT_MAX], available[AH_UNITS_TEXT_MAX];
    struct ah_checkpoints_room room;
    const bool was_stopped = ah_run_is_stopped(run->host);
    for (unsigned waited_s = 0; run->host->attended && waited_s <= PATIENCE_S; waited_s++) {
        if (ah_checkpoints_find_room(run->checkpoints, 0, 1, &room, NULL))
            return false;
        if (room.free_bytes >= room.needed_bytes)
            return waited_s > 0; /* if it never waited, the save failed for another reason */
        if (!waited_s)
            ah_run_tell(run->host, AH_RUN_WARNING,
                        "'%s' has %s free, and the checkpoint of step %" PRIu64 " needs %s: free some space "
                        "within %d minutes and it will be saved; an interrupt gives up the save",
                        run->save, ah_units_print_bytes(available, room.free_bytes), run->position.step,
                        ah_units_print_bytes(needed, room.needed_bytes), PATIENCE_S / 60);
        (void)sleep(1);
        if (ah_run_is_stopped(run->host) != was_stopped)
            return false;
    }
    return false;
}

/* If the last checkpoint was not saved: saves only the weights or, failing that, waits for room and saves again. */
static int rescue(struct ah_run *run, const struct ah_checkpoint_source *source,
                  struct ah_checkpoints_saved *ret_saved, struct ah_error *err)
{
    struct ah_error own = {0};
    char path[PATH_MAX];
    const struct ah_error why = *err;
    if (!ah_checkpoints_save_weights(run->checkpoints, &run->position, source, path, &own))
        return ah_error_set(err, why.code,
                            "%.500s; the weights of step %" PRIu64 " alone were saved in '%.300s'; a new run "
                            "can begin with them: '--weights'",
                            why.text, run->position.step, path);
    if (!wait_for_room(run))
        return why.code;
    const struct ah_checkpoints_keep keep = to_keep(run);
    return ah_checkpoints_save(run->checkpoints, &run->position, source, &keep, ret_saved, err);
}

/* Saves. Before the last step, a failure does not end the run, because the previous checkpoint is whole. */
static int save(struct ah_run *run, const struct ah_run_listener *listener, bool last, struct ah_error *err)
{
    if (!run->checkpoints || run->saved_step == run->position.step)
        return AH_OK;
    const struct ah_checkpoint_source source = ah_persist_source(run->trainer);
    struct ah_checkpoints_saved saved;
    struct ah_error own = {0};
    uint64_t start_ns = ah_threads_now_ns();
    const struct ah_resume_best *best = run->best, before = best ? *best : (struct ah_resume_best){0};
    if (!run->resume.generator) /* before the first save, so that the file is beside every checkpoint */
        ah_run_resume_write(run);
    compare_with_best(run);
    const struct ah_checkpoints_keep keep = to_keep(run);
    int rc = ah_checkpoints_save(run->checkpoints, &run->position, &source, &keep, &saved, &own);
    if (rc) { /* a checkpoint that was not saved cannot be the best */
        run->best_place = before;
        run->best = best ? &run->best_place : NULL;
    }
    if (rc == AH_E_IO && !last) {
        ah_run_tell(run->host, AH_RUN_WARNING, "%s; training continues, and the next save tries again",
                    own.text);
        return AH_OK;
    }
    if (rc == AH_E_IO)
        rc = rescue(run, &source, &saved, &own);
    if (rc) {
        if (err)
            *err = own;
        return rc;
    }
    run->saved_step = run->position.step;
    ah_run_resume_write(run);
    memcpy(run->saved_path, saved.path, sizeof run->saved_path);
    if (listener->saved)
        listener->saved(listener->context, run->position.step,
                        (double)(ah_threads_now_ns() - start_ns) * 1e-3, &saved);
    return AH_OK;
}

static int between(struct ah_run *run, const struct ah_run_listener *listener, struct ah_error *err)
{
    const struct ah_run_settings *settings = &run->settings;
    bool at_end = run->position.step >= settings->steps;
    const bool saves = is_due(run->position.step, settings->save_every, at_end);
    int rc = AH_OK;
    if (!ah_run_is_stopped(run->host) &&
        (is_due(run->position.step, settings->valid_every, at_end) || (saves && run->options->keep_best)))
        rc = evaluate_held_out(run, listener, err);
    if (rc != AH_E_NUMERIC && saves) {
        int saved = save(run, listener, at_end || ah_run_is_stopped(run->host) || rc, rc ? NULL : err);
        rc = rc ? rc : saved;
    }
    return rc;
}

/* Adds the last saved checkpoint to the message of a failed run. */
static int name_last_checkpoint(const struct ah_run *run, int rc, struct ah_error *err)
{
    size_t length = strlen(err->text);
    const char *path = run->saved_path[0] ? run->saved_path : run->found.path;
    double last;
    if (rc == AH_E_NUMERIC)
        length +=
            (size_t)snprintf(err->text + length, sizeof err->text - length, "; start over with a lower --lr");
    if (rc == AH_E_NUMERIC && ah_divergence_is(&run->divergence, &last)) {
        if (run->save && run->kept_step)
            snprintf(err->text + length, sizeof err->text - length,
                     "; the checkpoint of step %" PRIu64 " in '%.500s' predates it", run->kept_step,
                     run->save);
    } else if (rc != AH_E_INTERRUPTED && path[0] && length < sizeof err->text)
        snprintf(err->text + length, sizeof err->text - length, "; the checkpoint '%.500s' is unchanged",
                 path);
    return rc;
}

/* Returns the error of a run that diverged; AH_OK if it did not, or has recovered. */
static int say_diverged(const struct ah_run *run, struct ah_error *err)
{
    double last;
    if (!run->diverged || !ah_divergence_is(&run->divergence, &last))
        return AH_OK;
    return ah_error_set(
        err, AH_E_NUMERIC,
        "the run diverged: after step %" PRIu64 " the last %d steps have a median loss of %.4f, the first %d "
        "had %.4f",
        run->position.step, AH_DIVERGENCE_LAST, last, AH_DIVERGENCE_FIRST, run->divergence.first);
}

static int say_interrupted(const struct ah_run *run, struct ah_error *err)
{
    uint64_t step = run->position.step;
    const struct ah_run_options *options = run->options;
    if (run->saved_path[0] && options->resume && !strcmp(options->resume, run->save))
        return ah_error_set(err, AH_E_INTERRUPTED,
                            "interrupted after step %" PRIu64 "; saved: run the same command to continue",
                            step);
    if (run->saved_path[0])
        return ah_error_set(err, AH_E_INTERRUPTED,
                            "interrupted after step %" PRIu64 "; saved: run the same command with --resume "
                            "'%s'%s%s%s to continue",
                            step, run->save, options->weights || options->resume ? " in place of --" : "",
                            options->weights  ? "weights"
                            : options->resume ? "resume "
                                              : "",
                            options->resume ? options->resume : "");
    if (step == run->resumed_step)
        return ah_error_set(err, AH_E_INTERRUPTED, "interrupted before its first step; nothing was trained");
    return ah_error_set(err, AH_E_INTERRUPTED,
                        "interrupted after step %" PRIu64 "; nothing was saved (--save DIR would)", step);
}

static int run_steps(struct ah_run *run, const struct ah_run_listener *listener, struct ah_error *err)
{
    int rc = AH_OK;
    if (!run->position.step && run->held_out)
        rc = evaluate_held_out(run, listener, err);
    while (!rc && run->position.step < run->settings.steps && !ah_run_is_stopped(run->host)) {
        rc = train(run, listener, err);
        if (!rc && run->stopped)
            rc = say_diverged(run, err);
        if (!rc)
            rc = between(run, listener, err);
    }
    if (!rc && run->position.step > run->resumed_step)
        rc = save(run, listener, true, err);
    if (!rc && run->position.step >= run->settings.steps)
        rc = say_diverged(run, err);
    if (rc)
        return name_last_checkpoint(run, rc, err);
    return run->position.step < run->settings.steps ? say_interrupted(run, err) : AH_OK;
}

int ah_run_train(struct ah_run *run, const struct ah_run_listener *listener, struct ah_error *err)
{
    ah_run_status_begin(run->status);
    struct ah_error own = {0};
    int rc = run_steps(run, listener, err);
    const int measured = ah_run_measured_collect(run, &own);
    if (!rc && measured) {
        rc = measured;
        *err = own;
    }
    ah_run_status_end(run->status, rc);
    return rc;
}
