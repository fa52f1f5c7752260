/* SPDX-License-Identifier: Apache-2.0
 *
 * Run samples: reads prompts, and runs 'autohete sample' on what was saved.
 */
#include "cli/run/run_samples.h"

#include "base/file.h"
#include "cli/frame/lines.h"

#include <inttypes.h>
#include <string.h>

enum { PROMPTS_MAX = 255, FILE_BYTES_MAX = 1 << 20 };

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

int ah_run_samples_open(struct ah_run_samples *samples, struct ah_run_options *options, struct ah_error *err)
{
    struct ah_buffer text = {0};
    int rc = check(samples, options, err);
    if (rc || !samples->path)
        return rc;
    if (samples->every.given && !options->save_every.given)
        options->save_every = samples->every;
    rc = ah_file_read(samples->path, FILE_BYTES_MAX, &text, err);
    samples->prompts = ah_arena_array(&samples->cli->arena, PROMPTS_MAX, sizeof *samples->prompts);
    if (!rc && !samples->prompts)
        rc = ah_error_memory(err);
    for (const char *at = text.data; !rc && *at && samples->n < PROMPTS_MAX; at += *at == '\n') {
        const size_t length = strcspn(at, "\n");
        if (length && !(samples->prompts[samples->n++] = ah_arena_strndup(&samples->cli->arena, at, length)))
            rc = ah_error_memory(err);
        at += length;
    }
    ah_buffer_release(&text);
    if (!rc && !samples->n)
        rc = ah_error_set(err, AH_E_USAGE, "'--prompts' '%s' has no prompt; write one a line", samples->path);
    return rc;
}

void ah_run_samples_show(const struct ah_run_samples *samples, uint64_t step, uint64_t last_step,
                         const char *base, const char *checkpoint)
{
    struct ah_error err = {0};
    struct ah_lines lines = {.cli = samples->cli, .err = &err};
    if (!samples->n || (samples->every.given && step % samples->every.value && step != last_step))
        return;
    ah_lines_begin(&lines, "sample");
    ah_lines_add(&lines, "%s", base ? base : checkpoint);
    ah_lines_text(&lines, "adapter", base ? checkpoint : NULL);
    for (size_t i = 0; i < samples->n; i++)
        ah_lines_add(&lines, "%s", samples->prompts[i]);
    if (ah_lines_run(&lines))
        ah_cli_tell(samples->cli, AH_CLI_WARNING,
                    "there are no samples after step %" PRIu64 "; the run goes on%s%s", step,
                    err.text[0] ? ": " : "", err.text);
    ah_lines_close(&lines);
}
