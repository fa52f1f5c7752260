/* SPDX-License-Identifier: Apache-2.0
 *
 * Run samples: reads prompts, runs 'autohete sample' on what was saved, and reads its answers for the run log.
 */
#include "cli/run/run_samples.h"

#include "base/file.h"
#include "cli/frame/lines.h"
#include "schemas/cursor.h"
#include "schemas/json.h"
#include "schemas/run_log_read.h"

#include <inttypes.h>
#include <string.h>

enum { PROMPTS_MAX = 255, FILE_BYTES_MAX = 1 << 20, ANSWERS_BYTES_MAX = 64 << 20 };

static int check(const struct ah_run_samples *samples, const struct ah_run_options *options,
                 struct ah_error *err)
{
    if (!samples->path)
        return samples->every.given
                   ? ah_error_set(err, AH_E_USAGE,
                                  "'--sample-every' needs '--prompts' FILE, with a prompt a line")
                   : AH_OK;
    if (options->no_save || (!options->save && !options->resume))
        return ah_error_set(err, AH_E_USAGE,
                            "'--prompts' needs '--save' DIR: samples are those of saved models");
    if (samples->every.given && !samples->every.value)
        return ah_error_set(err, AH_E_USAGE, "'--sample-every' is 0; give at least 1");
    if (samples->every.given && options->save_every.given && options->save_every.value &&
        samples->every.value % options->save_every.value)
        return ah_error_set(err, AH_E_USAGE,
                            "'--sample-every' %" PRIu64 " is no multiple of '--save-every' %" PRIu64
                            "; samples are those of saved models",
                            samples->every.value, options->save_every.value);
    return AH_OK;
}

/* Adds a line of the file. */
static int add_prompt(struct ah_run_samples *samples, const char *line, size_t length, size_t number,
                      struct ah_error *err)
{
    if (length && line[length - 1] == '\r')
        length--;
    if (!length)
        return AH_OK;
    if (samples->n == PROMPTS_MAX)
        return ah_error_set(err, AH_E_USAGE, "'--prompts' '%s' has more than %d prompts; leave some out",
                            samples->path, PROMPTS_MAX);
    const char *prompt = ah_arena_strndup(&samples->cli->arena, line, length);
    if (!prompt)
        return ah_error_memory(err);
    if (!ah_json_is_utf8(prompt))
        return ah_error_set(err, AH_E_USAGE,
                            "'--prompts' '%s': line %zu is not UTF-8; save the file as UTF-8", samples->path,
                            number);
    samples->prompts[samples->n++] = prompt;
    return AH_OK;
}

int ah_run_samples_open(struct ah_run_samples *samples, struct ah_run_options *options, struct ah_error *err)
{
    struct ah_buffer text = {0};
    size_t number = 0;
    int rc = check(samples, options, err);
    if (rc || !samples->path)
        return rc;
    if (samples->every.given && !options->save_every.given)
        options->save_every = samples->every;
    rc = ah_file_read(samples->path, FILE_BYTES_MAX, &text, err);
    samples->prompts = ah_arena_array(&samples->cli->arena, PROMPTS_MAX, sizeof *samples->prompts);
    if (!rc && !samples->prompts)
        rc = ah_error_memory(err);
    for (const char *at = text.data; !rc && *at; at += *at == '\n') {
        const size_t length = strcspn(at, "\n");
        rc = add_prompt(samples, at, length, ++number, err);
        at += length;
    }
    ah_buffer_release(&text);
    if (!rc && !samples->n)
        rc = ah_error_set(err, AH_E_USAGE, "'--prompts' '%s' has no prompt; write one a line", samples->path);
    return rc;
}

/* ---- answers ---- */

struct answers {
    struct ah_arena *arena;
    struct ah_runlog_sample *items;
    size_t n;
};

/* Reads the answers of 'autohete sample -o', an array. */
static int read_answers(struct answers *answers, struct ah_cursor *cursor, uint64_t step,
                        struct ah_error *err)
{
    answers->items = ah_arena_array(answers->arena, PROMPTS_MAX + 1, sizeof *answers->items);
    if (!answers->items)
        return ah_error_memory(err);
    while (ah_cursor_next(cursor, ']')) {
        if (answers->n > PROMPTS_MAX || !ah_cursor_enter(cursor, '{')) {
            ah_cursor_skip(cursor);
            continue;
        }
        struct ah_runlog_sample *sample = &answers->items[answers->n++];
        *sample = (struct ah_runlog_sample){.step = step, .prompt = "", .text = ""};
        while (ah_cursor_next(cursor, '}')) {
            const char *key = ah_cursor_key(cursor, answers->arena);
            const char **text = !key                     ? NULL
                                : !strcmp(key, "prompt") ? &sample->prompt
                                : !strcmp(key, "text")   ? &sample->text
                                : !strcmp(key, "data")   ? &sample->data
                                                         : NULL;
            if (text && ah_cursor_peek(cursor) != '"')
                text = NULL;
            if (text)
                *text = ah_cursor_text(cursor, answers->arena);
            else
                ah_cursor_skip(cursor);
            if (!key || (text && !*text))
                return ah_error_memory(err);
        }
    }
    return AH_OK;
}

static int load_answers(struct answers *answers, const char *path, uint64_t step, struct ah_error *err)
{
    struct ah_buffer text = {0};
    int rc = ah_file_read(path, ANSWERS_BYTES_MAX, &text, err);
    rc = rc ? rc : ah_json_scan(&(struct ah_json_source){path, text.data, text.size, 1}, err);
    struct ah_cursor cursor = {text.data, text.data + text.size};
    if (!rc && ah_cursor_enter(&cursor, '{'))
        while (!rc && ah_cursor_next(&cursor, '}')) {
            const char *key = ah_cursor_key(&cursor, answers->arena);
            if (!key)
                rc = ah_error_memory(err);
            else if (!strcmp(key, "answers") && ah_cursor_enter(&cursor, '['))
                rc = read_answers(answers, &cursor, step, err);
            else
                ah_cursor_skip(&cursor);
        }
    ah_buffer_release(&text);
    return rc;
}

/* ---- samples of a run ---- */

static int log_answers(const struct ah_run_samples *samples, const char *path, uint64_t step,
                       struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct answers answers = {.arena = &arena};
    const int rc = load_answers(&answers, path, step, err);
    for (size_t i = 0; i < answers.n && !rc; i++)
        ah_run_log_sample(samples->log, &answers.items[i]);
    ah_arena_release(&arena);
    return rc;
}

void ah_run_samples_show(const struct ah_run_samples *samples, const struct ah_run *run, uint64_t step,
                         const char *checkpoint)
{
    struct ah_error err = {0};
    struct ah_lines lines = {.cli = samples->cli, .err = &err, .silent = samples->silent};
    const char *base = run->plan->model.lora ? run->options->weights : NULL;
    const bool logs = samples->log->n_outlets > 0;
    if (!samples->n || (samples->silent && !logs) ||
        (samples->every.given && step % samples->every.value && step != run->settings.steps))
        return;
    ah_lines_begin(&lines, "sample");
    ah_lines_add(&lines, "%s", base ? base : checkpoint);
    ah_lines_text(&lines, "adapter", base ? checkpoint : NULL);
    for (size_t i = 0; i < samples->n; i++)
        ah_lines_add(&lines, "%s", samples->prompts[i]);
    if (logs) {
        ah_lines_add(&lines, "-o");
        ah_lines_add(&lines, "%s/samples.json", run->save);
    }
    int rc = ah_lines_run(&lines);
    if (!rc && logs)
        rc = log_answers(samples, lines.words[lines.n - 1], step, &err);
    if (rc)
        ah_cli_tell(samples->cli, AH_CLI_WARNING,
                    "there are no samples after step %" PRIu64 "; the run goes on%s%s", step,
                    err.text[0] ? ": " : "", err.text);
    ah_lines_close(&lines);
}

/* ---- samples of a run that has ended ---- */

/* Writes the log again, with lines of samples after those of the step. */
static int insert(const struct ah_run_log_text *log, const char *path, const struct answers *answers,
                  uint64_t step, struct ah_error *err)
{
    struct ah_buffer text = {0}, whole = {0};
    int rc = ah_file_read(path, AH_RUN_LOG_BYTES_MAX, &whole, err);
    const size_t at = (size_t)ah_run_log_bytes_to(log, step);
    if (!rc)
        ah_buffer_append(&text, whole.data, at);
    for (size_t i = 0; i < answers->n && !rc; i++)
        rc = ah_runlog_print_sample(&answers->items[i], &text, err);
    if (!rc)
        ah_buffer_append(&text, whole.data + at, whole.size - at);
    rc = rc || !text.failed ? rc : ah_error_memory(err);
    rc = rc ? rc : ah_file_write(path, text.data, text.size, err);
    ah_buffer_release(&text);
    ah_buffer_release(&whole);
    return rc;
}

int ah_run_samples_add(struct ah_cli *cli, const char *path, const char *answers_path, uint64_t step,
                       struct ah_error *err)
{
    struct ah_run_log_text log;
    struct answers answers = {.arena = &cli->arena};
    int rc = ah_run_log_read(path, &log, err);
    if (!rc && !log.begun)
        rc = ah_run_log_not_begun(path, err);
    const struct ah_runlog *runlog = rc ? NULL : log.document.body.runlog;
    if (runlog && runlog->end && step > runlog->end->step)
        step = runlog->end->step;
    bool there = runlog && (!runlog->end || step + 1 < runlog->first_step);
    for (size_t i = 0; runlog && i < runlog->n_samples; i++)
        there |= runlog->samples[i].step == step;
    if (!rc && !there)
        rc = load_answers(&answers, answers_path, step, err);
    if (!rc && !there)
        rc = insert(&log, path, &answers, step, err);
    ah_document_release(&log.document);
    return rc;
}
