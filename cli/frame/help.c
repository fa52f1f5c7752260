/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the help of a verb from its tables.
 */
#include "cli/frame/help.h"

#include "cli/frame/emit.h"

#include <stdio.h>
#include <string.h>

enum { HELP_COLUMNS = 80, SPELLING_MAX = 64 };

/* Prints "-o, --output FILE". Returns `out`. */
static const char *spell(char out[SPELLING_MAX], const struct ah_option *option)
{
    char letter[8] = "    ";
    if (option->letter)
        snprintf(letter, sizeof letter, "-%c, ", option->letter);
    snprintf(out, SPELLING_MAX, "%s--%s%s%s", letter, option->name, option->value ? " " : "",
             option->value ? option->value : "");
    return out;
}

/* Appends `text`, wrapped, and releases it. */
static void put_buffer(struct ah_buffer *out, struct ah_buffer *text, size_t indent)
{
    if (text->failed)
        out->failed = true;
    else
        ah_terminal_wrap(out, text->data, indent, HELP_COLUMNS - 2);
    ah_buffer_release(text);
}

static void put_paragraphs(struct ah_buffer *out, const char *text)
{
    while (*text) {
        const char *end = strstr(text, "\n\n");
        size_t length = end ? (size_t)(end - text) : strlen(text);
        struct ah_buffer paragraph = {0};
        ah_buffer_append(&paragraph, text, length);
        put_buffer(out, &paragraph, 0);
        ah_buffer_puts(out, "\n");
        text += length + (end ? 2 : 0);
    }
}

static void put_option(struct ah_cli *cli, const struct ah_option *option)
{
    enum { HELP_INDENT = 26 };
    char spelling[SPELLING_MAX];
    spell(spelling, option);
    ah_buffer_printf(&cli->out, "  %s%s%s", cli->out_style.bold, spelling, cli->out_style.reset);
    if (strlen(spelling) + 4 > HELP_INDENT)
        ah_buffer_printf(&cli->out, "\n%*s", HELP_INDENT, "");
    else
        ah_buffer_printf(&cli->out, "%*s", (int)(HELP_INDENT - 2 - strlen(spelling)), "");
    struct ah_buffer text = {0};
    ah_buffer_puts(&text, option->help);
    if (ah_options_list_words(option)) {
        ah_buffer_puts(&text, ": ");
        ah_options_join(&text, option->words);
    }
    put_buffer(&cli->out, &text, HELP_INDENT);
}

/* Appends "[-o FILE] [--quick] FILE...". */
static void put_syntax(struct ah_buffer *out, const struct ah_option_syntax *syntax)
{
    for (const struct ah_option *option = syntax->options; option && option->name; option++) {
        if (option->letter)
            ah_buffer_printf(out, "[-%c", option->letter);
        else
            ah_buffer_printf(out, "[--%s", option->name);
        ah_buffer_printf(out, "%s%s]%s ", option->value ? "\t" : "", option->value ? option->value : "",
                         ah_options_repeats(option) ? "..." : "");
    }
    ah_buffer_puts(out, "[--json]");
    const struct ah_operands *operands = &syntax->operands;
    for (unsigned i = 0; i < ah_options_operand_names(operands); i++) {
        bool many = operands->max > 2;
        ah_buffer_printf(out, operands->min > i ? " %s%s" : " [%s%s]", operands->name, many ? "..." : "");
        if (many)
            break;
    }
}

static void put_usage(struct ah_cli *cli, const struct ah_verb *verb)
{
    struct ah_buffer syntax = {0};
    char start[64];
    snprintf(start, sizeof start, "usage: autohete %s ", verb->name);
    ah_buffer_puts(&cli->out, start);
    put_syntax(&syntax, &verb->syntax);
    struct ah_buffer *out = &cli->out;
    size_t from = out->size;
    put_buffer(out, &syntax, strlen(start));
    /* put_syntax() used tabs to keep each option and its value on one line */
    for (size_t i = from; i < out->size; i++)
        if (out->data[i] == '\t')
            out->data[i] = ' ';
}

static void put_heading(struct ah_cli *cli, const char *text)
{
    ah_buffer_printf(&cli->out, "%s%s%s\n", cli->out_style.bold, text, cli->out_style.reset);
}

static void put_examples(struct ah_cli *cli, const struct ah_verb *verb)
{
    if (!verb->examples[0].command)
        return;
    ah_buffer_puts(&cli->out, "\n");
    put_heading(cli, "Examples");
    for (size_t i = 0; i < AH_VERB_EXAMPLES && verb->examples[i].command; i++)
        ah_buffer_printf(&cli->out, "  autohete %s\n      %s\n", verb->examples[i].command,
                         verb->examples[i].purpose);
}

static void help_verb_text(struct ah_cli *cli, const struct ah_verb *verb)
{
    put_usage(cli, verb);
    ah_buffer_puts(&cli->out, "\n");
    put_paragraphs(&cli->out, verb->description);
    put_heading(cli, "Options");
    for (const struct ah_option *option = verb->syntax.options; option && option->name; option++)
        put_option(cli, option);
    for (const struct ah_option *option = ah_options_common; option->name; option++)
        put_option(cli, option);
    put_examples(cli, verb);
}

static void emit_option(struct ah_emit *emit, const struct ah_option *option)
{
    ah_emit_open(emit, NULL, '{');
    ah_emit_text(emit, "name", option->name);
    if (option->letter)
        ah_emit_text(emit, "letter", (char[]){option->letter, '\0'});
    if (option->value)
        ah_emit_text(emit, "value", option->value);
    ah_emit_text(emit, "help", option->help);
    ah_emit_close(emit);
}

static void emit_verb(struct ah_emit *emit, const struct ah_verb *verb)
{
    ah_emit_open(emit, NULL, '{');
    ah_emit_text(emit, "name", verb->name);
    ah_emit_text(emit, "summary", verb->summary);
    ah_emit_open(emit, "options", '[');
    for (const struct ah_option *option = verb->syntax.options; option && option->name; option++)
        emit_option(emit, option);
    for (const struct ah_option *option = ah_options_common; option->name; option++)
        emit_option(emit, option);
    ah_emit_close(emit);
    ah_emit_close(emit);
}

void ah_help_verb(struct ah_cli *cli, const struct ah_verb *verb)
{
    struct ah_emit emit = {.out = &cli->out};
    if (cli->json)
        emit_verb(&emit, verb);
    else
        help_verb_text(cli, verb);
}

static void help_all_text(struct ah_cli *cli)
{
    size_t mark = cli->out.size;
    ah_buffer_puts(
        &cli->out,
        "usage: autohete VERB [options]\n\nTrains transformers that do not fit the accelerator's memory: "
        "measures the machine,\nplans what happens to every block, proves how good the plan is, trains with "
        "it, and shows,\nsimulates, compares and checks plans.\n\n");
    ah_cli_fit(cli, mark, 0);
    put_heading(cli, "Verbs");
    for (const struct ah_verb *const *verb = cli->verbs; *verb; verb++)
        ah_buffer_printf(&cli->out, "  %s%-12s%s %s\n", cli->out_style.bold, (*verb)->name,
                         cli->out_style.reset, (*verb)->summary);
    ah_buffer_puts(&cli->out,
                   "\n'autohete help VERB' explains a verb; 'autohete --version' prints the version.\n");
}

void ah_help_all(struct ah_cli *cli)
{
    if (!cli->json) {
        help_all_text(cli);
        return;
    }
    struct ah_emit emit = {.out = &cli->out};
    ah_emit_open(&emit, NULL, '{');
    ah_emit_open(&emit, "verbs", '[');
    for (const struct ah_verb *const *verb = cli->verbs; *verb; verb++)
        emit_verb(&emit, *verb);
    ah_emit_close(&emit);
    ah_emit_close(&emit);
}
