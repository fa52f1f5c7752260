/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the settings beside checkpoints for `--resume`, and writes them for a run that saves.
 */
#include "runtime/run/run_resume.h"

#include "base/file.h"
#include "schemas/resume.h"

#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Returns the folder that contains the checkpoint from which the run resumes. */
static const char *folder_of(const struct ah_checkpoints_found *found, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s", found->path);
    return found->folder[0] ? found->folder : dirname(path);
}

bool ah_run_resume_same_folder(const char *a, const char *b)
{
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static void take_list(struct ah_option_list *list, const char **items, size_t n)
{
    if (!list->n)
        *list = (struct ah_option_list){.items = items, .n = n};
}

static void take_count(struct ah_option_integer *count, uint64_t value)
{
    if (!count->given)
        *count = (struct ah_option_integer){.given = true, .value = value};
}

static void take_missing_options(struct ah_run *run, struct ah_run_options *options,
                                 const struct ah_resume *before, bool continues)
{
    if (!options->data.n && !options->data_format)
        options->data_format = before->data_format;
    take_list(&options->data, before->data, before->n_data);
    if (!options->valid.n)
        take_count(&options->valid_every, before->valid_every);
    take_list(&options->valid, before->valid, before->n_valid);
    if (!options->weights && run->plan->model.lora)
        options->weights = before->weights;
    run->divergence.first = before->first_loss;
    if (!run->save)
        return;
    take_count(&options->save_every, before->save_every);
    take_count(&options->keep, before->keep);
    options->keep_best |= before->keeps_best;
    if (!continues)
        return;
    run->best = before->best;
    if (!options->log)
        options->log = before->log;
}

static int check_format(const struct ah_resume *before, const char *name, struct ah_error *err)
{
    char shown[AH_DOCUMENT_NAME_MAX];
    size_t i = 0;
    while (before->data_format && ah_run_words_format[i] &&
           strcmp(before->data_format, ah_run_words_format[i]) != 0)
        i++;
    if (ah_run_words_format[i])
        return AH_OK;
    return ah_error_set(err, AH_E_DOCUMENT, "%s: data_format: '%s' is not a data format; see '--data-format'",
                        ah_document_short_name(name, shown), before->data_format);
}

int ah_run_resume_read(struct ah_run *run, struct ah_error *err)
{
    char path[PATH_MAX], name[PATH_MAX + sizeof "/" AH_RESUME_FILE];
    int rc = AH_OK;
    if (!run->options->resume)
        return AH_OK;
    struct ah_run_options *options = ah_arena_alloc(run->host->arena, sizeof *options);
    if (!options)
        return ah_error_memory(err);
    *options = *run->options;
    run->options = options;
    const char *folder = folder_of(&run->found, path);
    if (!run->save && !options->no_save)
        run->save = ah_arena_strdup(run->host->arena, folder);
    if (!run->save && !options->no_save)
        return ah_error_memory(err);
    snprintf(name, sizeof name, "%s/" AH_RESUME_FILE, folder);
    if (!access(name, F_OK)) {
        rc = ah_document_load(&run->resumed, name, AH_DOCUMENT_RESUME, err);
        if (!rc)
            rc = check_format(run->resumed.body.resume, name, err);
        if (!rc)
            take_missing_options(run, options, run->resumed.body.resume,
                                 run->save && ah_run_resume_same_folder(run->save, folder));
    }
    if (!rc && !options->data.n)
        rc = ah_error_set(err, AH_E_USAGE,
                          "'--data' is missing, and '%s' has no " AH_RESUME_FILE " that records it", folder);
    if (!rc && options->keep_best && !options->valid.n)
        rc = ah_error_set(err, AH_E_USAGE, "'--keep-best' needs '--valid' FILE, the data held out");
    return rc;
}

const char *ah_run_resume_absolute(struct ah_run *run, const char *path)
{
    char folder[PATH_MAX], full[2 * PATH_MAX];
    if (path[0] == '/' || !getcwd(folder, sizeof folder))
        return path;
    snprintf(full, sizeof full, "%s/%s", folder, path);
    const char *kept = ah_arena_strdup(run->host->arena, full);
    return kept ? kept : path;
}

static const char **all_absolute(struct ah_run *run, const struct ah_option_list *list)
{
    const char **items = ah_arena_array(run->host->arena, list->n, sizeof *items);
    for (size_t i = 0; items && i < list->n; i++)
        items[i] = ah_run_resume_absolute(run, list->items[i]);
    return items;
}

/* Fills run->resume from the run's current state. Paths are made absolute only the first time. */
static bool fill_resume(struct ah_run *run)
{
    const struct ah_run_options *options = run->options;
    struct ah_resume *resume = &run->resume;
    if (!resume->generator) {
        *resume = (struct ah_resume){.generator = "autohete " AUTOHETE_VERSION,
                                     .data = all_absolute(run, &options->data),
                                     .n_data = options->data.n,
                                     .data_format = options->data_format,
                                     .valid = all_absolute(run, &options->valid),
                                     .n_valid = options->valid.n,
                                     .weights = options->weights && run->plan->model.lora
                                                    ? ah_run_resume_absolute(run, options->weights)
                                                    : NULL,
                                     .valid_every = run->settings.valid_every,
                                     .save_every = run->settings.save_every,
                                     .keep = run->settings.keep,
                                     .log = options->log && strcmp(options->log, "-") != 0
                                                ? ah_run_resume_absolute(run, options->log)
                                                : NULL,
                                     .keeps_best = options->keep_best};
    }
    resume->first_loss = run->divergence.first;
    resume->best = run->best;
    return resume->data && (resume->valid || !resume->n_valid);
}

void ah_run_resume_write(struct ah_run *run)
{
    char name[PATH_MAX + sizeof "/" AH_RESUME_FILE];
    struct ah_error err = {0};
    struct ah_document document = {.kind = AH_DOCUMENT_RESUME, .body.resume = &run->resume};
    snprintf(name, sizeof name, "%s/" AH_RESUME_FILE, run->save);
    int rc = fill_resume(run) ? ah_document_save(&document, name, &err) : ah_error_memory(&err);
    if (rc)
        ah_run_tell(run->host, AH_RUN_WARNING, "%s; --resume will ask again for --data%s", err.text,
                    run->plan->model.lora ? " and for the base model, --weights" : "");
}
