/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines: command lines as processes, and the file that keeps those that are done.
 */
#include "cli/frame/lines.h"

#include "base/file.h"
#include "cli/frame/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* Before a line that has begun and is not done. */
#define BEGUN "# begun: "

enum { COMMANDS_BYTES_MAX = 1 << 22, FLAGS_MAX = 2 };

/* ---- lines ---- */

void ah_lines_add(struct ah_lines *lines, const char *format, ...)
{
    char word[PATH_MAX + 64];
    va_list arguments;
    va_start(arguments, format);
    const int size = vsnprintf(word, sizeof word, format, arguments);
    va_end(arguments);
    const char *kept = size < (int)sizeof word ? ah_arena_strdup(&lines->cli->arena, word) : NULL;
    lines->failed |= !kept || lines->n >= AH_LINES_WORDS_MAX;
    if (!lines->failed)
        lines->words[lines->n++] = kept;
}

void ah_lines_begin(struct ah_lines *lines, const char *verb)
{
    lines->n = 0;
    lines->failed = false;
    ah_lines_add(lines, "autohete");
    ah_lines_add(lines, "%s", verb);
}

void ah_lines_text(struct ah_lines *lines, const char *option, const char *value)
{
    if (!value)
        return;
    ah_lines_add(lines, "--%s", option);
    ah_lines_add(lines, "%s", value);
}

void ah_lines_list(struct ah_lines *lines, const char *option, const struct ah_option_list *values)
{
    for (size_t i = 0; i < values->n; i++)
        ah_lines_text(lines, option, values->items[i]);
}

void ah_lines_count(struct ah_lines *lines, const char *option, const struct ah_option_integer *value)
{
    if (!value->given)
        return;
    ah_lines_add(lines, "--%s", option);
    ah_lines_add(lines, "%" PRIu64, value->value);
}

void ah_lines_real(struct ah_lines *lines, const char *option, const struct ah_option_real *value)
{
    if (!value->given)
        return;
    ah_lines_add(lines, "--%s", option);
    ah_lines_add(lines, "%.10g", value->value);
}

/* Prints the words as a shell reads them. */
static int print_line(const struct ah_lines *lines, struct ah_buffer *out)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+@%";
    for (size_t i = 0; i < lines->n; i++) {
        const char *word = lines->words[i];
        ah_buffer_puts(out, i ? " " : "");
        if (*word && !word[strspn(word, plain)]) {
            ah_buffer_puts(out, word);
            continue;
        }
        ah_buffer_puts(out, "'");
        for (; *word; word++)
            ah_buffer_printf(out, *word == '\'' ? "'\\%c'" : "%c", *word);
        ah_buffer_puts(out, "'");
    }
    ah_buffer_puts(out, "\n");
    return lines->failed || out->failed ? ah_error_memory(lines->err) : AH_OK;
}

/* ---- processes ---- */

static bool is_silent(const struct ah_lines *lines)
{
    return lines->silent || lines->cli->json || lines->cli->arguments.quiet;
}

/* Waits for the process. If this one is asked to stop, it asks the process, too; a terminal has asked it already, and
 * SIGUSR1 never ends it at once. */
static int wait_for(pid_t child, const atomic_int *stop)
{
    const struct timespec nap = {.tv_nsec = 20 * 1000 * 1000};
    int state = 0;
    bool asked = false;
    pid_t ended;
    while ((ended = waitpid(child, &state, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
        if (atomic_load(stop) && !asked)
            kill(child, SIGUSR1);
        asked = atomic_load(stop);
        nanosleep(&nap, NULL);
    }
    return WIFEXITED(state) ? WEXITSTATUS(state) : AH_LINES_SIGNALLED + WTERMSIG(state);
}

/* Runs the line as a process. AH_E_FAILED: it cannot be started, or it failed: then `status` is not 0. */
static int run_process(struct ah_lines *lines)
{
    const atomic_int *stop = ah_interrupt_catch();
    const char *words[AH_LINES_WORDS_MAX + FLAGS_MAX + 1];
    posix_spawn_file_actions_t files;
    size_t n = lines->n;
    pid_t child = 0;
    int rc = posix_spawn_file_actions_init(&files);
    memcpy(words, lines->words, n * sizeof *words);
    if (lines->cli->json) /* of which errors remain */
        words[n++] = "--json";
    if (lines->silent || lines->cli->arguments.quiet)
        words[n++] = "--quiet";
    words[n] = NULL;
    if (!rc && is_silent(lines))
        rc = posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    rc = rc ? rc
            : posix_spawn(&child, "/proc/self/exe", &files, NULL, (char *const *)(uintptr_t)words, environ);
    posix_spawn_file_actions_destroy(&files);
    if (rc)
        return ah_error_set(lines->err, AH_E_FAILED, "'autohete %s' cannot be started: %s", lines->words[1],
                            strerror(rc));
    lines->status = wait_for(child, stop);
    return lines->status ? AH_E_FAILED : AH_OK;
}

static int show(struct ah_lines *lines, const char *mark, const char *line)
{
    struct ah_cli *cli = lines->cli;
    if (is_silent(lines))
        return AH_OK;
    ah_buffer_printf(&cli->out, "%s%.*s\n", mark, (int)strlen(line) - 1, ah_cli_clean(cli, line));
    return ah_cli_flush(cli, lines->err);
}

/* ---- what is done ---- */

int ah_lines_open(struct ah_lines *ret_lines, struct ah_cli *cli, const char *folder, struct ah_error *err)
{
    char path[PATH_MAX];
    *ret_lines = (struct ah_lines){.cli = cli, .folder = folder, .err = err};
    if (mkdir(folder, 0777) && errno != EEXIST)
        return ah_error_set(err, AH_E_IO, "%s: cannot be made: %s", folder, strerror(errno));
    if (!ah_lines_has(ret_lines, "commands.sh"))
        return AH_OK;
    snprintf(path, sizeof path, "%s/commands.sh", folder);
    const int rc = ah_file_read(path, COMMANDS_BYTES_MAX, &ret_lines->done, err);
    if (rc)
        return rc;
    char *begun = strstr(ret_lines->done.data, "\n" BEGUN);
    ret_lines->begun = begun ? ah_arena_strdup(&cli->arena, begun + sizeof BEGUN) : NULL;
    ret_lines->at = strcspn(ret_lines->done.data, "\n") + 1;
    if (begun) {
        ret_lines->done.size = (size_t)(begun - ret_lines->done.data) + 1;
        begun[1] = '\0';
    }
    return begun && !ret_lines->begun ? ah_error_memory(err) : AH_OK;
}

void ah_lines_close(struct ah_lines *lines)
{
    ah_buffer_release(&lines->done);
    ah_buffer_release(&lines->kept);
}

bool ah_lines_has(const struct ah_lines *lines, const char *name)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/%s", lines->folder, name) < (int)sizeof path &&
           !access(path, F_OK);
}

/* Writes commands.sh, with the line that has begun, if there is one. */
static int write_commands(struct ah_lines *lines, const char *begun)
{
    char path[PATH_MAX];
    struct ah_buffer text = {0};
    ah_buffer_append(&text, lines->done.data, lines->done.size);
    if (begun)
        ah_buffer_printf(&text, BEGUN "%s", begun);
    int rc = AH_OK;
    if (snprintf(path, sizeof path, "%s/commands.sh", lines->folder) >= (int)sizeof path || text.failed)
        rc = ah_error_memory(lines->err);
    rc = rc ? rc : ah_file_write(path, text.data, text.size, lines->err);
    ah_buffer_release(&text);
    return rc;
}

/* Appends the line to commands.sh. */
static int record(struct ah_lines *lines, const char *line)
{
    if (!lines->done.size)
        ah_buffer_puts(&lines->done, "#!/bin/sh\n");
    ah_buffer_puts(&lines->done, line);
    lines->at = lines->done.size;
    return lines->done.failed ? ah_error_memory(lines->err) : write_commands(lines, NULL);
}

static int refuse(const struct ah_lines *lines, const char *was, const char *would)
{
    return ah_error_set(
        lines->err, AH_E_USAGE,
        "'%s' was begun with '%.*s', and this would be '%.*s'; give the same options, or another folder",
        lines->folder, (int)strcspn(was, "\n"), was, (int)strcspn(would, "\n"), would);
}

/* Finds whether the next line that is done is this one. AH_E_USAGE: it is another. */
static int check_done(struct ah_lines *lines, const char *line, bool *ret_done)
{
    const char *next = lines->done.data ? lines->done.data + lines->at : "";
    *ret_done = lines->at < lines->done.size;
    return !*ret_done || !strncmp(next, line, strlen(line)) ? AH_OK : refuse(lines, next, line);
}

int ah_lines_goes_on(struct ah_lines *lines, bool made, bool *ret_done)
{
    ah_buffer_release(&lines->kept);
    int rc = print_line(lines, &lines->kept);
    rc = rc ? rc : check_done(lines, lines->kept.data, ret_done);
    if (!rc && !*ret_done && made && lines->begun && strcmp(lines->begun, lines->kept.data) != 0)
        rc = refuse(lines, lines->begun, lines->kept.data);
    if (!rc && !*ret_done)
        rc = write_commands(lines, lines->kept.data);
    if (rc || *ret_done)
        ah_buffer_release(&lines->kept);
    return rc;
}

int ah_lines_run(struct ah_lines *lines)
{
    struct ah_buffer line = {0};
    int rc = print_line(lines, &line);
    rc = rc ? rc : show(lines, "$ ", line.data);
    rc = rc ? rc : run_process(lines);
    ah_buffer_release(&line);
    return rc;
}

/* Does the line. With `tries`, goes on if its process fails. */
static int do_line(struct ah_lines *lines, bool tries)
{
    struct ah_buffer line = {0};
    bool done = false;
    int rc = print_line(lines, &line);
    const char *recorded = lines->kept.size ? lines->kept.data : line.data;
    rc = rc ? rc : check_done(lines, recorded, &done);
    rc = rc ? rc : show(lines, done ? "done: " : "$ ", line.data);
    if (!rc && done)
        lines->at += strlen(line.data);
    if (!rc && !done) {
        rc = run_process(lines);
        if (tries && rc && lines->status && lines->status < AH_LINES_SIGNALLED) {
            ah_cli_tell(lines->cli, AH_CLI_NOTE, "'autohete %s' ended with %d; training goes on without it",
                        lines->words[1], lines->status);
            rc = lines->status = 0;
        }
        rc = rc ? rc : record(lines, recorded);
    }
    ah_buffer_release(&line);
    ah_buffer_release(&lines->kept);
    return rc;
}

int ah_lines_do(struct ah_lines *lines)
{
    return do_line(lines, false);
}

int ah_lines_try(struct ah_lines *lines)
{
    return do_line(lines, true);
}
