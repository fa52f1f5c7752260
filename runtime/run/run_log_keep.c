/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides how much of an earlier log a resumed run keeps, and renames a log that it cannot continue.
 */
#include "runtime/run/run_log_keep.h"

#include "schemas/run_log_read.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Checks that the log at `path` belongs to the resumed run. If so, this run trains the steps after the checkpoint again
 * and logs them with the same losses. */
static int check_same_run(const struct ah_run *run, const char *path, const struct ah_run_log_text *text,
                          struct ah_error *err)
{
    char field[AH_SIGNATURE_PATH_MAX];
    if (!ah_signature_differs(&text->document.body.runlog->numeric_signature, &run->signature, field))
        return AH_OK;
    return ah_error_set(err, AH_E_MISMATCH,
                        "'--log' '%s' is the log of another run: its '%s' differs; give another name", path,
                        field);
}

/* Returns the reason why the log cannot be continued; NULL if it can. */
static const char *obstacle(const struct ah_run *run, const struct ah_runlog *runlog, const char *plan_sha256)
{
    const char *device = ah_trainer_device(run->trainer)->info.name;
    if (runlog->first_step > run->resumed_step + 1)
        return "begins after the step from which this run resumes";
    if (runlog->first_step + runlog->n_steps <= run->resumed_step)
        return "ends before the step from which this run resumes";
    if (strcmp(runlog->plan_sha256, plan_sha256) != 0)
        return "belongs to another plan";
    return strcmp(runlog->device, device) != 0 ? "belongs to another device" : NULL;
}

/* Renames the file to the first unused name of PATH.1, PATH.2 and so on. */
static int set_aside(const struct ah_run *run, const char *path, const char *why, struct ah_error *err)
{
    char aside[PATH_MAX];
    for (unsigned n = 1;; n++) {
        if (snprintf(aside, sizeof aside, "%s.%u", path, n) >= (int)sizeof aside)
            return ah_error_set(err, AH_E_IO, "%.64s...: the name is too long", path);
        if (link(path, aside) == 0)
            break;
        if (errno != EEXIST)
            return ah_error_set(err, AH_E_IO, "the run log '%s' %s, and cannot be kept as '%s': %s", path,
                                why, aside, strerror(errno));
    }
    if (unlink(path))
        return ah_error_set(err, AH_E_IO, "the run log '%s' cannot be renamed: %s", path, strerror(errno));
    ah_run_tell(run->host, AH_RUN_WARNING, "the run log '%s' %s; it is kept as '%s', and a new one begins",
                path, why, aside);
    return AH_OK;
}

static int find_kept_part(const struct ah_run *run, const char *path, const struct ah_run_log_text *text,
                          struct ah_run_log_kept *ret_kept, struct ah_error *err)
{
    char sha256[AH_DOCUMENT_DIGEST_MAX] = "";
    struct ah_plan plan = *run->plan;
    const struct ah_document document = {.kind = AH_DOCUMENT_PLAN, .body = {.plan = &plan}};
    const struct ah_runlog *runlog = text->document.body.runlog;
    const uint64_t steps = run->settings.steps;
    int rc = check_same_run(run, path, text, err);
    if (!rc)
        rc = ah_document_digest(&document, sha256, err);
    if (rc)
        return rc;
    const char *why = obstacle(run, runlog, sha256);
    if (why && run->resumed_step >= steps) { /* no step will come that could not follow these */
        ret_kept->complete = true;
        return AH_OK;
    }
    if (why)
        return set_aside(run, path, why, err);
    ret_kept->bytes = ah_run_log_bytes_to(text, run->resumed_step);
    ret_kept->lacks_newline = text->lacks_newline && ret_kept->bytes == text->whole_bytes;
    ret_kept->complete = runlog->end && runlog->end->reason == AH_RUNLOG_DONE && runlog->end->step >= steps &&
                         run->resumed_step >= steps;
    return AH_OK;
}

int ah_run_log_keep(const struct ah_run *run, const char *path, struct ah_run_log_kept *ret_kept,
                    struct ah_error *err)
{
    struct stat about;
    struct ah_run_log_text text;
    *ret_kept = (struct ah_run_log_kept){0};
    if (!strcmp(path, "-") || stat(path, &about) || !S_ISREG(about.st_mode))
        return AH_OK;
    int rc = ah_run_log_read(path, &text, err);
    if (!rc && text.begun)
        rc = find_kept_part(run, path, &text, ret_kept, err);
    ah_document_release(&text.document);
    return rc;
}
