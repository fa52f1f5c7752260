/* SPDX-License-Identifier: Apache-2.0
 *
 * Run log: writes lines to the log and to standard output during a run.
 */
#include "runtime/run/run_log.h"

#include "base/file.h"
#include "runtime/run/run_log_keep.h"
#include "runtime/run/run_measured.h"
#include "runtime/run/run_ranks.h"
#include "schemas/checkpoint.h"
#include "schemas/machine.h"
#include "schemas/run_log_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- lines ---- */

/* Notes a failure, and removes the partly written line from the file. A device or a pipe cannot be cut. */
static void fail_line(struct ah_run_log_outlet *outlet, int reason)
{
    int uncut = outlet->descriptor == STDOUT_FILENO || ftruncate(outlet->descriptor, outlet->whole_bytes);
    (void)uncut;
    ah_error_set(&outlet->failure, AH_E_IO, "the run log '%s' cannot be written: %s", outlet->path,
                 strerror(reason));
}

/* True if lines can still be written. It is no failure if the reader of standard output has closed it. */
static bool is_open(const struct ah_run_log *log, const struct ah_run_log_outlet *outlet)
{
    bool unread = outlet->descriptor == STDOUT_FILENO && *log->run->host->output_closed;
    return outlet->descriptor >= 0 && !outlet->failure.code && !unread;
}

static bool is_wanted(const struct ah_run_log *log)
{
    for (size_t i = 0; i < log->n_outlets; i++)
        if (is_open(log, &log->outlets[i]))
            return true;
    return false;
}

static void write_outlet(struct ah_run_log *log, struct ah_run_log_outlet *outlet)
{
    int failed = ah_file_write_all(outlet->descriptor, log->line.data, log->line.size);
    if (failed == EPIPE && outlet->descriptor == STDOUT_FILENO)
        *log->run->host->output_closed = true;
    else if (failed)
        fail_line(outlet, failed);
    outlet->whole_bytes += (off_t)log->line.size;
}

/* Writes the printed line, unless `rc` is a failure. Reports a failure at once, since the run may continue for days. */
static void write_line(struct ah_run_log *log, int rc, const struct ah_error *err)
{
    for (size_t i = 0; i < log->n_outlets; i++) {
        struct ah_run_log_outlet *outlet = &log->outlets[i];
        bool failed = outlet->failure.code != 0;
        if (!failed && rc)
            outlet->failure = *err;
        if (is_open(log, outlet) && (log->begun || !outlet->continues))
            write_outlet(log, outlet);
        if (!failed && outlet->failure.code && log->begun)
            ah_run_tell(log->run->host, AH_RUN_WARNING, "%s; training continues without it",
                        outlet->failure.text);
    }
    ah_buffer_clear(&log->line);
}

/* Returns the first failure of an outlet; AH_OK if none failed. */
static int first_failure(const struct ah_run_log *log, struct ah_error *err)
{
    for (size_t i = 0; i < log->n_outlets; i++)
        if (log->outlets[i].failure.code) {
            if (err)
                *err = log->outlets[i].failure;
            return log->outlets[i].failure.code;
        }
    return AH_OK;
}

/* ---- the header ---- */

/* A file can be locked and cut, unlike a pipe or a device. */
static bool is_file(int descriptor)
{
    struct stat about;
    return descriptor != STDOUT_FILENO && !fstat(descriptor, &about) && S_ISREG(about.st_mode);
}

/* Locks the file for as long as it is open. A file system without locks is no error. */
static int lock_file(int descriptor, const char *path, struct ah_error *err)
{
    if (!flock(descriptor, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK)
        return AH_OK;
    return ah_error_set(err, AH_E_IO, "'--log' '%s': another run is writing it; give another name", path);
}

/* Checks that no other run is writing the log that a resumed run would cut or rename. */
static int check_idle(const char *path, struct ah_error *err)
{
    int descriptor = strcmp(path, "-") != 0 ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    if (descriptor < 0)
        return AH_OK; /* a log that cannot be opened is reported where it is read or written */
    int rc = is_file(descriptor) ? lock_file(descriptor, path, err) : AH_OK;
    close(descriptor);
    return rc;
}

static int open_outlet(struct ah_run_log *log, const char *path, const struct ah_run_log_kept *kept,
                       struct ah_error *err)
{
    struct ah_run_log_outlet outlet = {.path = path, .descriptor = STDOUT_FILENO};
    if (strcmp(path, "-") != 0)
        outlet.descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (outlet.descriptor < 0)
        return ah_error_set(err, AH_E_IO, "the run log '%s' cannot be written: %s", path, strerror(errno));
    const bool file = is_file(outlet.descriptor);
    int rc = file ? lock_file(outlet.descriptor, path, err) : AH_OK;
    if (rc) {
        close(outlet.descriptor);
        return rc;
    }
    outlet.whole_bytes = (off_t)kept->bytes;
    outlet.continues = kept->bytes > 0;
    if (file && (ftruncate(outlet.descriptor, outlet.whole_bytes) ||
                 lseek(outlet.descriptor, outlet.whole_bytes, SEEK_SET) < 0))
        fail_line(&outlet, errno);
    if (kept->lacks_newline && is_open(log, &outlet)) {
        int failed = ah_file_write_all(outlet.descriptor, "\n", 1);
        outlet.whole_bytes++;
        if (failed)
            fail_line(&outlet, failed);
    }
    log->outlets[log->n_outlets++] = outlet;
    return AH_OK;
}

static void write_header(struct ah_run_log *log)
{
    struct ah_run *run = log->run;
    struct ah_plan plan = *run->plan;
    const struct ah_document document = {.kind = AH_DOCUMENT_PLAN, .body = {.plan = &plan}};
    char sha256[AH_DOCUMENT_DIGEST_MAX] = "";
    struct ah_error err = {0};
    struct ah_runlog_predicted predicted = {0};
    const struct ah_runlog header = {.annotations = run->remarks,
                                     .n_annotations = run->n_remarks,
                                     .generator = "autohete " AUTOHETE_VERSION,
                                     .plan_sha256 = sha256,
                                     .model = plan.inputs.model.name,
                                     .device = ah_trainer_device(run->trainer)->info.name,
                                     .policy = ah_words_policy[plan.policy],
                                     .paced = ah_run_ranks_paced(run->options->ranks),
                                     .emulates =
                                         run->emulated.body.machine ? run->emulated.body.machine->name : NULL,
                                     .first_step = run->resumed_step + 1,
                                     .model_flops = run->utilisation.model_flops,
                                     .peak_flops_per_s = run->utilisation.peak_flops_per_s,
                                     .numeric_signature = run->signature,
                                     .predicted = &predicted};
    int rc = ah_document_digest(&document, sha256, &err);
    if (!rc)
        rc = ah_tally_predict(run->plan, run->host->arena, &predicted, &err);
    if (!rc && run->options->ranks)
        rc = ah_run_measured_predict(ah_run_ranks_cluster_plan(run->options->ranks), run->host->arena,
                                     &predicted.ranks, &predicted.n_ranks, &err);
    if (!rc)
        rc = ah_runlog_print_header(&header, &log->line, &err);
    write_line(log, rc, &err);
    log->begun = true;
}

/* Writes into a log that continues where the run was resumed; a new log's header says it. */
static void write_resume(struct ah_run_log *log)
{
    struct ah_error err = {0};
    const struct ah_runlog_resume resume = {.step = log->run->resumed_step};
    const int rc = ah_runlog_print_resume(&resume, &log->line, &err);
    for (size_t i = 0; i < log->n_outlets; i++) {
        struct ah_run_log_outlet *outlet = &log->outlets[i];
        if (rc && !outlet->failure.code)
            outlet->failure = err;
        if (outlet->continues && is_open(log, outlet))
            write_outlet(log, outlet);
    }
    ah_buffer_clear(&log->line);
}

int ah_run_log_check(const char *path, struct ah_error *err)
{
    struct stat about;
    struct ah_run_log_text text;
    if (!strcmp(path, "-") || stat(path, &about) || !S_ISREG(about.st_mode))
        return AH_OK;
    int rc = ah_run_log_read(path, &text, err);
    if (rc)
        return rc == AH_E_MEMORY
                   ? rc
                   : ah_error_set(
                         err, AH_E_USAGE,
                         "'--log' '%s' exists but is not a run log that can be continued; give another "
                         "name",
                         path);
    ah_document_release(&text.document);
    return access(path, W_OK)
               ? ah_error_set(err, AH_E_IO, "the run log '%s' cannot be written: %s", path, strerror(errno))
               : AH_OK;
}

int ah_run_log_open(struct ah_run_log *ret_log, struct ah_run *run, const char *path, bool shown,
                    struct ah_error *err)
{
    struct ah_run_log_kept kept = {0};
    *ret_log = (struct ah_run_log){.run = run, .facts = ah_trainer_facts(run->trainer)};
    const bool resumes = path && run->options->resume;
    int rc = resumes ? check_idle(path, err) : AH_OK;
    if (!rc && resumes)
        rc = ah_run_log_keep(run, path, &kept, err);
    if (!rc && path && !kept.complete)
        rc = open_outlet(ret_log, path, &kept, err);
    if (!rc && shown && (!path || strcmp(path, "-") != 0))
        rc = open_outlet(ret_log, "-", &(struct ah_run_log_kept){0}, err);
    if (rc || !ret_log->n_outlets)
        return rc;
    write_header(ret_log);
    write_resume(ret_log);
    return first_failure(ret_log, err);
}

/* ---- events ---- */

void ah_run_log_step(struct ah_run_log *log, const struct ah_step_record *record, double step_us)
{
    const uint64_t *touched = log->facts.touched_bytes;
    const struct ah_plan_training *training = &log->run->step;
    struct ah_error err = {0};
    struct ah_runlog_step step = {
        .step = record->step,
        .loss = record->loss,
        .tokens = record->tokens,
        .lr = record->rate,
        .grad_norm = training->clip > 0 ? record->grad_norm : AH_RUNLOG_NO_NORM,
        .step_us = step_us,
        .tokens_per_s = step_us > 0 ? (double)(training->batch * training->seq) / step_us * 1e6 : 0,
        .learned_tokens_per_s = step_us > 0 ? (double)record->tokens / step_us * 1e6 : 0,
        .h2d_bytes = record->h2d_bytes,
        .d2h_bytes = record->d2h_bytes,
        .device_peak_bytes = touched[AH_ARENA_DEVICE],
        .host_peak_bytes = touched[AH_ARENA_PINNED] + touched[AH_ARENA_PAGEABLE]};
    for (int lane = 0; lane < AH_DEVICE_LANES; lane++)
        step.busy_us[lane] = (double)record->busy_ns[lane] * 1e-3;
    if (is_wanted(log))
        write_line(log, ah_runlog_print_step(&step, &log->line, &err), &err);
}

void ah_run_log_evaluation(struct ah_run_log *log, uint64_t step, double loss, uint64_t tokens)
{
    struct ah_error err = {0};
    const struct ah_runlog_evaluation evaluation = {.step = step, .loss = loss, .tokens = tokens};
    if (is_wanted(log))
        write_line(log, ah_runlog_print_evaluation(&evaluation, &log->line, &err), &err);
}

void ah_run_log_sample(struct ah_run_log *log, const struct ah_runlog_sample *sample)
{
    struct ah_error err = {0};
    if (is_wanted(log))
        write_line(log, ah_runlog_print_sample(sample, &log->line, &err), &err);
}

/* Returns the bytes of all files of a checkpoint, according to its manifest. */
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
    if (!is_wanted(log))
        return;
    const struct ah_runlog_save save = {.step = step, .us = us, .bytes = checkpoint_bytes(path)};
    write_line(log, ah_runlog_print_save(&save, &log->line, &err), &err);
    for (size_t i = 0; i < log->n_outlets;
         i++) /* sync to disk, so that even after a power failure the log has the checkpoint's steps */
        if (log->outlets[i].descriptor > STDERR_FILENO)
            (void)fsync(log->outlets[i].descriptor);
}

static void close_outlet(struct ah_run_log_outlet *outlet)
{
    if (outlet->descriptor > STDERR_FILENO && close(outlet->descriptor) && !outlet->failure.code)
        ah_error_set(&outlet->failure, AH_E_IO, "the run log '%s' cannot be written: %s", outlet->path,
                     strerror(errno));
    outlet->descriptor = -1;
}

int ah_run_log_close(struct ah_run_log *log, const struct ah_runlog_end *end, struct ah_error *err)
{
    struct ah_error own = {0};
    if (end && is_wanted(log)) {
        struct ah_runlog_end with_ranks = *end;
        with_ranks.ranks = log->run->ranks;
        with_ranks.n_ranks = log->run->n_ranks;
        write_line(log, ah_runlog_print_end(&with_ranks, &log->line, &own), &own);
    }
    for (size_t i = 0; i < log->n_outlets; i++)
        close_outlet(&log->outlets[i]);
    ah_buffer_release(&log->line);
    return first_failure(log, err);
}
