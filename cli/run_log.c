/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_log.h"

#include "schemas/checkpoint.h"
#include "schemas/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- lines ---- */

/* Of a line that did not fit into a file, nothing stays; a device or a pipe cannot be cut. */
static void fail_line(struct ah_run_log *log, int reason)
{
    int uncut = log->descriptor == STDOUT_FILENO || ftruncate(log->descriptor, log->whole_bytes);
    (void)uncut;
    ah_error_set(&log->failure, AH_E_IO, "the run log '%s' cannot be written: %s", log->path,
                 strerror(reason));
}

/* What was printed, if it was. A reader of standard output that went away is no failure. */
static void write_line(struct ah_run_log *log, int rc, const struct ah_error *err)
{
    if (!log->failure.code && rc)
        log->failure = *err;
    int failed = log->failure.code ? 0 : ah_cli_write(log->descriptor, log->line.data, log->line.size);
    if (failed == EPIPE && log->descriptor == STDOUT_FILENO)
        log->run->cli->out_closed = true;
    else if (failed)
        fail_line(log, failed);
    log->whole_bytes += (off_t)log->line.size;
    ah_buffer_clear(&log->line);
}

static bool is_open(const struct ah_run_log *log)
{
    return log->path && !log->failure.code && !log->run->cli->out_closed;
}

/* ---- the header ---- */

static int open_file(struct ah_run_log *log, struct ah_error *err)
{
    if (!strcmp(log->path, "-")) {
        log->descriptor = STDOUT_FILENO;
        return AH_OK;
    }
    log->descriptor = open(log->path, O_WRONLY | O_CREAT | O_CLOEXEC | O_TRUNC, 0666);
    if (log->descriptor >= 0)
        return AH_OK;
    return ah_error_set(err, AH_E_IO, "the run log '%s' cannot be written: %s", log->path, strerror(errno));
}

static void write_header(struct ah_run_log *log)
{
    struct ah_run *run = log->run;
    struct ah_plan plan = *run->plan;
    const struct ah_document document = {.kind = AH_DOCUMENT_PLAN, .body = {.plan = &plan}};
    char sha256[AH_DOCUMENT_DIGEST_MAX] = "";
    struct ah_error err = {0};
    struct ah_runlog_predicted predicted = {0};
    const struct ah_runlog header = {.generator = "autohete " AUTOHETE_VERSION,
                                     .plan_sha256 = sha256,
                                     .model = plan.inputs.model.name,
                                     .device = ah_trainer_device(run->trainer)->info.name,
                                     .policy = ah_words_policy[plan.policy],
                                     .emulates =
                                         run->emulated.body.machine ? run->emulated.body.machine->name : NULL,
                                     .first_step = run->resumed_step + 1,
                                     .numeric_signature = run->signature,
                                     .predicted = &predicted};
    int rc = ah_document_digest(&document, sha256, &err);
    if (!rc)
        rc = ah_tally_predict(run->plan, &run->cli->arena, &predicted, &err);
    if (!rc)
        rc = ah_runlog_print_header(&header, &log->line, &err);
    write_line(log, rc, &err);
}

int ah_run_log_check(const char *path, bool resumes, struct ah_error *err)
{
    struct stat about;
    if (!strcmp(path, "-"))
        return AH_OK;
    if (resumes && stat(path, &about) == 0 && S_ISREG(about.st_mode))
        return ah_error_set(err, AH_E_USAGE,
                            "'--log' '%s' is there, from the run before this one goes on; give another name",
                            path);
    return ah_cli_check_writable(path, err);
}

int ah_run_log_open(struct ah_run_log *ret_log, struct ah_run *run, const char *path, struct ah_error *err)
{
    *ret_log = (struct ah_run_log){
        .run = run, .path = path, .descriptor = -1, .facts = ah_trainer_facts(run->trainer)};
    if (!path)
        return AH_OK;
    int rc = open_file(ret_log, err);
    if (!rc)
        write_header(ret_log);
    if (!rc && ret_log->failure.code)
        *err = ret_log->failure;
    return rc ? rc : ret_log->failure.code;
}

/* ---- what happens ---- */

void ah_run_log_step(struct ah_run_log *log, const struct ah_step_record *record, double step_us)
{
    const uint64_t *touched = log->facts.touched_bytes;
    struct ah_error err = {0};
    const struct ah_runlog_step step = {
        .step = record->step,
        .loss = record->loss,
        .tokens = record->tokens,
        .lr = record->rate,
        .grad_norm = log->run->plan->training.clip > 0 ? record->grad_norm : AH_RUNLOG_NO_NORM,
        .step_us = step_us,
        .tokens_per_s = step_us > 0 ? (double)record->tokens / step_us * 1e6 : 0,
        .compute_us = (double)record->busy_ns[AH_LANE_COMPUTE] * 1e-3,
        .h2d_us = (double)record->busy_ns[AH_LANE_H2D] * 1e-3,
        .d2h_us = (double)record->busy_ns[AH_LANE_D2H] * 1e-3,
        .host_us = (double)record->busy_ns[AH_LANE_HOST] * 1e-3,
        .h2d_bytes = record->h2d_bytes,
        .d2h_bytes = record->d2h_bytes,
        .device_peak_bytes = touched[AH_ARENA_DEVICE],
        .host_peak_bytes = touched[AH_ARENA_PINNED] + touched[AH_ARENA_PAGEABLE]};
    if (is_open(log))
        write_line(log, ah_runlog_print_step(&step, &log->line, &err), &err);
}

void ah_run_log_evaluation(struct ah_run_log *log, uint64_t step, double loss, uint64_t tokens)
{
    struct ah_error err = {0};
    const struct ah_runlog_evaluation evaluation = {.step = step, .loss = loss, .tokens = tokens};
    if (is_open(log))
        write_line(log, ah_runlog_print_evaluation(&evaluation, &log->line, &err), &err);
}

/* All files of a checkpoint, by its manifest. */
static uint64_t checkpoint_bytes(const char *folder)
{
    struct ah_document manifest = {0};
    struct ah_buffer path = {0};
    uint64_t bytes = 0;
    ah_buffer_printf(&path, "%s/" AH_CHECKPOINT_MANIFEST, folder);
    if (!path.failed && !ah_document_load(&manifest, path.data, AH_DOCUMENT_CHECKPOINT, NULL))
        for (size_t i = 0; i < manifest.body.checkpoint->n_files; i++)
            bytes += manifest.body.checkpoint->files[i].bytes;
    ah_document_release(&manifest);
    ah_buffer_release(&path);
    return bytes;
}

void ah_run_log_save(struct ah_run_log *log, uint64_t step, double us, const char *path)
{
    struct ah_error err = {0};
    if (!is_open(log))
        return;
    const struct ah_runlog_save save = {.step = step, .us = us, .bytes = checkpoint_bytes(path)};
    write_line(log, ah_runlog_print_save(&save, &log->line, &err), &err);
}

int ah_run_log_close(struct ah_run_log *log, const struct ah_runlog_end *end, struct ah_error *err)
{
    struct ah_error own = {0};
    if (!log->path)
        return AH_OK;
    if (is_open(log) && end)
        write_line(log, ah_runlog_print_end(end, &log->line, &own), &own);
    if (log->descriptor > STDERR_FILENO && close(log->descriptor) && !log->failure.code)
        ah_error_set(&log->failure, AH_E_IO, "the run log '%s' cannot be written: %s", log->path,
                     strerror(errno));
    log->descriptor = -1;
    ah_buffer_release(&log->line);
    if (log->failure.code && err)
        *err = log->failure;
    return log->failure.code;
}
