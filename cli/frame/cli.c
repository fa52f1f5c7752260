/* SPDX-License-Identifier: Apache-2.0
 *
 * The frame in which every verb runs (cli.h): finds the verb, reads its options, runs it, and prints its output.
 */
#include "cli/frame/cli.h"

#include "base/file.h"
#include "cli/frame/emit.h"
#include "cli/frame/help.h"
#include "cli/frame/outputs.h"
#include "schemas/nearest.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VERBS_MAX = 32 };

const struct ah_verb *ah_cli_find(const struct ah_verb *const *verbs, const char *name)
{
    for (; *verbs; verbs++)
        if (!strcmp((*verbs)->name, name))
            return *verbs;
    return NULL;
}

/* Verbs of other programs, and what to use here instead. */
static const struct {
    const char *names, *instead;
} elsewhere[] = {
    {" train pretrain fit ",
     "'autohete plan MODEL -o plan.json' plans the training, 'autohete run plan.json --data FILE' trains"},
    {" fine-tune sft lora ", "'autohete finetune MODEL DATA -o OUT' does all of it"},
    {" generate chat infer predict ", "'autohete sample DIR PROMPT' shows what a model says"},
    {" serve ", "a checkpoint is a Hugging Face folder: serve it with vLLM, llama.cpp or transformers"},
    {" eval evaluate validate test ",
     "'autohete run' measures the loss on held-out data with '--valid FILE'"},
    {" tokenise prepare preprocess ", "'autohete tokenize INPUT... --model DIR -o FOLDER' makes token files"},
    {" convert ", "checkpoints need no conversion: they are Hugging Face folders"},
    {" resume ", "'autohete run plan.json --resume DIR' continues from the newest checkpoint in DIR"},
    {" bench benchmark measure ", "'autohete profile' measures a machine, 'autohete compare MODEL "
                                  "--measured' a plan against other policies"},
};

int ah_cli_unknown(struct ah_cli *cli, const char *name, struct ah_error *err)
{
    const char *names[VERBS_MAX];
    size_t n = 0;
    for (; cli->verbs[n] && n < VERBS_MAX; n++)
        names[n] = cli->verbs[n]->name;
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (ah_options_lists(elsewhere[i].names, name))
            return ah_error_set(err, AH_E_USAGE, "there is no verb '%s': %s", name, elsewhere[i].instead);
    const char *near = ah_nearest(name, names, n);
    return ah_error_set(err, AH_E_USAGE, "unknown verb '%s'%s%s%s", name, near ? "; did you mean '" : "",
                        near ? near : "", near ? "'?" : "");
}

int ah_cli_flush(struct ah_cli *cli, struct ah_error *err)
{
    if (cli->out.failed)
        return ah_error_memory(err);
    int failed = cli->out_closed ? 0 : ah_file_write_all(STDOUT_FILENO, cli->out.data, cli->out.size);
    ah_buffer_clear(&cli->out);
    if (failed == EPIPE)
        cli->out_closed = true;
    else if (failed)
        return ah_error_set(err, AH_E_IO, "standard output cannot be written: %s", strerror(failed));
    return AH_OK;
}

/* Prints a label in colour and a line on standard error. On a terminal, wraps the line. */
static void put_labelled(const struct ah_cli *cli, const char *colour, const char *label, const char *text)
{
    const size_t columns = ah_terminal_table_columns(STDERR_FILENO);
    struct ah_buffer lines = {0};
    if (columns)
        ah_terminal_wrap(&lines, text, strlen(label) + 1, columns);
    const bool wrapped = columns && !lines.failed;
    fprintf(stderr, "%s%s%s %s%s", colour, label, cli->err_style.reset, wrapped ? lines.data : text,
            wrapped ? "" : "\n");
    ah_buffer_release(&lines);
}

void ah_cli_tell(struct ah_cli *cli, enum ah_cli_label label, const char *format, ...)
{
    if (cli->json || (cli->arguments.quiet && label != AH_CLI_WARNING))
        return;
    const struct {
        const char *colour, *label;
    } labels[] = {[AH_CLI_NOTE] = {cli->err_style.bold, "note:"},
                  [AH_CLI_WARNING] = {cli->err_style.yellow, "warning:"},
                  [AH_CLI_WROTE] = {cli->err_style.green, "wrote"}};
    char text[AH_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ah_terminal_clean(text);
    put_labelled(cli, labels[label].colour, labels[label].label, text);
}

void ah_cli_nothing_written(struct ah_error *err)
{
    const char *said = "; nothing was written";
    size_t length = strlen(err->text);
    if (!strstr(err->text, said + 2) && length + strlen(said) < sizeof err->text)
        memcpy(err->text + length, said, strlen(said) + 1);
}

const char *ah_cli_clean(struct ah_cli *cli, const char *text)
{
    char *copy = ah_arena_strdup(&cli->arena, text);
    if (!copy) {
        cli->out.failed = true;
        return "";
    }
    ah_terminal_clean(copy);
    return copy;
}

void ah_cli_put_wrapped(struct ah_cli *cli, struct ah_buffer *text, size_t indent)
{
    ah_buffer_printf(&cli->out, "%*s", (int)indent, "");
    if (text->failed)
        cli->out.failed = true;
    else
        ah_terminal_wrap(&cli->out, text->data, indent, cli->columns);
    ah_buffer_release(text);
}

void ah_cli_fit(struct ah_cli *cli, size_t mark, size_t indent)
{
    if (!cli->table_columns || cli->out.failed || cli->out.size == mark)
        return;
    char *text = ah_arena_strdup(&cli->arena, cli->out.data + mark);
    if (!text) {
        cli->out.failed = true;
        return;
    }
    cli->out.size = mark;
    for (char *end; *text; text = end + 1) {
        end = strchr(text, '\n');
        if (!end) {
            ah_buffer_puts(&cli->out, text);
            return;
        }
        *end = '\0';
        ah_terminal_wrap(&cli->out, text, indent, cli->table_columns);
    }
}

static int exit_status(const struct ah_cli *cli, int code)
{
    int status = ah_error_exit_status(code);
    int least = cli->verb ? cli->verb->least_trouble : 0;
    return status < least ? least : status;
}

static void print_json_error(const struct ah_error *err, int status, const struct ah_cli_details *details)
{
    struct ah_buffer line = {0};
    struct ah_emit emit = {.out = &line, .one_line = true};
    ah_emit_open(&emit, NULL, '{');
    ah_emit_open(&emit, "error", '{');
    ah_emit_error_fields(&emit, err, status);
    if (details)
        details->json(details->context, &emit);
    ah_emit_close(&emit);
    ah_emit_close(&emit);
    /* Without memory for JSON, the plain text is better than silence. */
    fprintf(stderr, "%s\n", line.failed ? err->text : line.data);
    ah_buffer_release(&line);
}

static void print_error(const struct ah_cli *cli, const struct ah_error *err, int status,
                        const struct ah_cli_details *details)
{
    struct ah_error safe = *err;
    ah_terminal_clean(safe.text);
    if (cli->json) {
        print_json_error(&safe, status, details);
        return;
    }
    put_labelled(cli, cli->err_style.red, "error:", safe.text);
    if (!details)
        return;
    struct ah_buffer lines = {0};
    details->text(cli, details->context, &lines);
    if (!lines.failed && lines.size)
        fputs(lines.data, stderr);
    ah_buffer_release(&lines);
}

int ah_cli_fail_with(struct ah_cli *cli, const struct ah_error *err, const struct ah_cli_details *details)
{
    (void)ah_cli_flush(cli, NULL);
    int status = exit_status(cli, err->code);
    print_error(cli, err, status, details);
    return status;
}

int ah_cli_fail(struct ah_cli *cli, const struct ah_error *err)
{
    return ah_cli_fail_with(cli, err, NULL);
}

int ah_cli_fail_usage(struct ah_cli *cli, const struct ah_error *err)
{
    int status = ah_cli_fail(cli, err);
    if (err->code == AH_E_USAGE && !cli->json)
        fprintf(stderr, "try 'autohete %s%s--help'\n", cli->verb ? cli->verb->name : "",
                cli->verb ? " " : "");
    return status;
}

static int run_verb(struct ah_cli *cli, const char *const *words)
{
    struct ah_error err = {0};
    void *options = NULL;
    if (cli->verb->options_bytes && !(options = ah_arena_alloc(&cli->arena, cli->verb->options_bytes))) {
        ah_error_memory(&err);
        return ah_cli_fail(cli, &err);
    }
    if (ah_options_parse(&cli->verb->syntax, words, &cli->arena, options, &cli->arguments, &err))
        return ah_cli_fail_usage(cli, &err);
    cli->json = cli->arguments.json;
    if (cli->arguments.color) {
        cli->out_style = ah_terminal_style_when(STDOUT_FILENO, cli->arguments.color);
        cli->err_style = ah_terminal_style_when(STDERR_FILENO, cli->arguments.color);
    }
    if (cli->arguments.quiet || cli->arguments.no_progress)
        ah_terminal_no_progress();
    if (cli->arguments.help) {
        ah_help_verb(cli, cli->verb);
        return 0;
    }
    if (ah_outputs_check(&cli->verb->syntax, &cli->arguments, options, &err))
        return ah_cli_fail_usage(cli, &err);
    return cli->verb->run(cli, options);
}

static void print_version(struct ah_cli *cli)
{
    if (!cli->json) {
        ah_buffer_puts(&cli->out, "autohete " AUTOHETE_VERSION "\n");
        return;
    }
    struct ah_emit emit = {.out = &cli->out};
    ah_emit_open(&emit, NULL, '{');
    ah_emit_text(&emit, "name", "autohete");
    ah_emit_text(&emit, "version", AUTOHETE_VERSION);
    ah_emit_close(&emit);
}

/* Options that are given instead of a verb. */
struct global_options {
    bool version;
};

static const struct ah_option global_table[] = {
    {"version", 0, AH_OPTION_FLAG, NULL, NULL, offsetof(struct global_options, version), "print the version"},
    {NULL, 0, AH_OPTION_FLAG, NULL, NULL, 0, NULL}};

/* Returns the verb behind misplaced options, as in "--json check x"; NULL: there is none. */
static const char *late_verb(const struct ah_cli *cli, const char *const *words)
{
    while (*words && !ah_cli_find(cli->verbs, *words))
        words++;
    return *words;
}

static int run_global(struct ah_cli *cli, const char *const *words)
{
    struct ah_error err = {0};
    struct global_options options = {0};
    const struct ah_option_syntax syntax = {.options = global_table};
    const char *late = late_verb(cli, words);
    if (!*words)
        ah_error_set(&err, AH_E_USAGE, "a verb is missing");
    else if (late)
        ah_error_set(&err, AH_E_USAGE, "the verb comes first: autohete %s %s", late, *words);
    else
        ah_options_parse(&syntax, words, &cli->arena, &options, &cli->arguments, &err);
    if (!err.code && !options.version && !cli->arguments.help)
        ah_error_set(&err, AH_E_USAGE, "a verb is missing");
    if (err.code)
        return ah_cli_fail_usage(cli, &err);
    if (options.version)
        print_version(cli);
    else
        ah_help_all(cli);
    return 0;
}

static int run_words(struct ah_cli *cli, const char *const *words)
{
    if (!*words || **words == '-')
        return run_global(cli, words);
    cli->verb = ah_cli_find(cli->verbs, *words);
    if (cli->verb)
        return run_verb(cli, words + 1);
    struct ah_error err = {0};
    ah_cli_unknown(cli, *words, &err);
    return ah_cli_fail_usage(cli, &err);
}

/* True if the next word is this option's value. */
static bool takes_next(const struct ah_verb *verb, const char *word)
{
    for (const struct ah_option *row = verb ? verb->syntax.options : NULL; row && row->name; row++) {
        bool spelled = !strncmp(word, "--", 2)
                           ? !strcmp(word + 2, row->name)
                           : row->letter && word[0] == '-' && word[1] == row->letter && !word[2];
        if (spelled)
            return row->kind != AH_OPTION_FLAG;
    }
    return false;
}

/* True if --json is given. Called before anything else, so that errors in the command line are also JSON. */
static bool asks_for_json(const struct ah_verb *const *verbs, const char *const *words)
{
    const struct ah_verb *verb = *words ? ah_cli_find(verbs, *words) : NULL;
    for (; *words && strcmp(*words, "--") != 0; words++) {
        if (!strcmp(*words, "--json"))
            return true;
        if (takes_next(verb, *words) && words[1])
            words++;
    }
    return false;
}

int ah_cli_main(const struct ah_verb *const *verbs, int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file that grows too large is then a write error with a message */
    const char *const *words = (const char *const *)(argv + (argc > 0));
    struct ah_cli cli = {.verbs = verbs,
                         .words = words,
                         .json = asks_for_json(verbs, words),
                         .out_style = ah_terminal_style(STDOUT_FILENO),
                         .err_style = ah_terminal_style(STDERR_FILENO),
                         .columns = ah_terminal_columns(STDOUT_FILENO),
                         .table_columns = ah_terminal_table_columns(STDOUT_FILENO)};
    int status = run_words(&cli, words);
    struct ah_error err = {0};
    if (ah_cli_flush(&cli, &err)) {
        ah_buffer_clear(&cli.out);
        int failed = ah_cli_fail(&cli, &err);
        status = status > failed ? status : failed;
    }
    ah_buffer_release(&cli.out);
    ah_arena_release(&cli.arena);
    return status;
}
