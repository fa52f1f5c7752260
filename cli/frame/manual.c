/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the manual. Source: mdoc(7). Each sentence begins on its own line, as mandoc's style checks require.
 */
#include "cli/frame/manual.h"

#include <ctype.h>
#include <string.h>

enum { MANUAL_COLUMNS = 80 };

static const char head[] = ".\\\" SPDX-License-Identifier: Apache-2.0\n"
                           ".\\\" This is the output of 'autohete help --man'.\n"
                           ".Dd November 21, 2026\n"
                           ".Dt AUTOHETE 1\n"
                           ".Os\n"
                           ".Sh NAME\n"
                           ".Nm autohete\n"
                           ".Nd train transformers that do not fit the accelerator's memory\n"
                           ".Sh SYNOPSIS\n";

static const char description[] =
    ".Sh DESCRIPTION\n"
    ".Nm\n"
    "measures a machine, plans for every block of a model what happens to its\n"
    "activations, weights and optimizer state, and proves how good the plan is.\n"
    "Machines, models, clusters and plans are JSON documents, which it checks,\n"
    "shows and compares.\n"
    "Data is printed to standard output, everything else to standard error; the\n"
    "file name\n"
    ".Sq -\n"
    "is standard input or output.\n"
    "Files are written whole or not at all: what was there before stays until the\n"
    "new content is complete.\n"
    ".Pp\n"
    "Sizes are written with binary or decimal units, 12GiB or 12GB; a bare number\n"
    "is bytes.\n"
    ".Sh VERBS\n"
    ".Bl -tag -width Ds\n";

static const char tail[] =
    ".Sh ENVIRONMENT\n.Bl -tag -width XDG_CACHE_HOME\n.It Ev AUTOHETE_PLUGIN_DIR\nThe folder to search for "
    "device plugins, instead of the installed ones.\n.It Ev NO_COLOR\nWhen set and not empty, nothing is "
    "coloured.\n.It Ev TERM\nWhen\n.Sq dumb ,\nthere are neither colours nor a progress line.\n.It Ev "
    "TMPDIR\nThe folder whose disk\n.Cm profile\nmeasures; /tmp where it is not set.\n.It Ev "
    "XDG_CACHE_HOME\nWhere profiles are kept, in the folder\n.Pa autohete ;\n~/.cache where it is not "
    "set.\n.El\n.Sh FILES\n.Bl -tag -width Ds\n.It Pa ~/.cache/autohete/machine-cpu.json\n.It Pa "
    "~/.cache/autohete/machine-cuda.json\nThe last profiles of this machine, one per device.\nWithout\n.Fl "
    "-machine\nplans are made for the GPU's profile if there is one.\n.El\n.Sh EXIT STATUS\n.Bl -tag -width "
    "130 -compact\n.It 0\nDone.\n.It 1\nA failure; a file or folder that is missing or cannot be read; an "
    "output that\ncannot be written; a rank of a training that is lost; for\n.Cm diff :\nthe documents are "
    "different.\n.It 2\nThe command line is wrong.\n.It 3\nA document (model, machine, plan, run log and so "
    "on) is not valid; files of weights or of\na checkpoint are there and damaged.\n.It 4\nNo plan exists, "
    "proven.\n.It 5\nNo plan was found; one may still exist.\n.It 6\nAn input is stale or belongs to another "
    "document.\n.It 7\nA device or a library is missing, cannot do what is asked, or has stopped making "
    "progress.\n.It 8\nAn assertion failed.\n.It 9\nA number is not finite.\n.It 130\nInterrupted by the "
    "user.\n.El\n.Pp\nWith\n.Fl -json ,\nan error is one line of JSON on standard error: an object\n.Va "
    "error\nwith\n.Va code ,\n.Va exit_status\nand\n.Va message .\n";

static bool ends_sentence(const char *text, const char *blank)
{
    return blank > text && strchr(".?", blank[-1]) && isupper((unsigned char)blank[1]);
}

/* Prints `text` in filled lines, with each sentence on a new line. Escapes backslashes, and text that would be a
 * request or macro at the beginning of a line. */
static void put_text(struct ah_buffer *out, const char *text)
{
    size_t column = 0;
    for (const char *at = text; *at; at++) {
        size_t next = strcspn(at + 1, " ") + 1;
        if (*at == ' ' && (ends_sentence(text, at) || column + next >= MANUAL_COLUMNS)) {
            ah_buffer_puts(out, "\n");
            column = 0;
            continue;
        }
        if (!column && (*at == '.' || *at == '\''))
            ah_buffer_puts(out, "\\&");
        if (*at == '\\')
            ah_buffer_puts(out, "\\e");
        else
            ah_buffer_append(out, at, 1);
        column++;
    }
    ah_buffer_puts(out, "\n");
}

/* Prints `text` in filled lines and releases it. */
static void put_buffer(struct ah_buffer *out, struct ah_buffer *text)
{
    if (text->failed)
        out->failed = true;
    else
        put_text(out, text->data);
    ah_buffer_release(text);
}

/* Prints a clause as a sentence, with a capital letter and a full stop. Lists `words` (optional) at its end. */
static void put_clause(struct ah_buffer *out, const char *clause, const char *const *words)
{
    struct ah_buffer text = {0};
    ah_buffer_printf(&text, "%c%s", toupper((unsigned char)clause[0]), clause + 1);
    if (words) {
        ah_buffer_puts(&text, ": ");
        ah_options_join(&text, words);
    }
    ah_buffer_puts(&text, ".");
    put_buffer(out, &text);
}

static void put_paragraphs(struct ah_buffer *out, const char *text)
{
    for (const char *end; *text; text = end) {
        const char *gap = strstr(text, "\n\n");
        end = gap ? gap + 2 : text + strlen(text);
        struct ah_buffer paragraph = {0};
        ah_buffer_append(&paragraph, text, gap ? (size_t)(gap - text) : strlen(text));
        put_buffer(out, &paragraph);
        ah_buffer_puts(out, gap ? ".Pp\n" : "");
    }
}

static void put_option(struct ah_buffer *out, const struct ah_option *option)
{
    ah_buffer_puts(out, ".It ");
    if (option->letter)
        ah_buffer_printf(out, "Fl %c , ", option->letter);
    ah_buffer_printf(out, "Fl -%s", option->name);
    if (option->value)
        ah_buffer_printf(out, " Ar %s", option->value);
    ah_buffer_puts(out, "\n");
    put_clause(out, option->help, ah_options_list_words(option) ? option->words : NULL);
}

static void put_options(struct ah_buffer *out, const struct ah_option *table)
{
    for (const struct ah_option *option = table; option && option->name; option++)
        put_option(out, option);
}

static void put_synopsis(struct ah_buffer *out, const struct ah_verb *verb)
{
    const struct ah_operands *operands = &verb->syntax.operands;
    ah_buffer_printf(out, ".Nm\n.Cm %s\n", verb->name);
    for (const struct ah_option *option = verb->syntax.options; option && option->name; option++) {
        if (option->letter)
            ah_buffer_printf(out, ".Op Fl %c", option->letter);
        else
            ah_buffer_printf(out, ".Op Fl -%s", option->name);
        ah_buffer_printf(out, "%s%s\n", option->value ? " Ar " : "", option->value ? option->value : "");
    }
    ah_buffer_puts(out, ".Op Fl -json\n");
    const unsigned names = ah_options_operand_names(operands);
    for (unsigned i = 0; i < names; i++)
        ah_buffer_printf(out, ".%sAr %s%s\n", operands->min > i ? "" : "Op ", operands->name,
                         i + 1 == names && operands->max > 2 ? " ..." : "");
}

static void put_verb(struct ah_buffer *out, const struct ah_verb *verb)
{
    ah_buffer_printf(out, ".It Cm %s\n", verb->name);
    put_paragraphs(out, verb->description);
    if (verb->syntax.options) {
        ah_buffer_puts(out, ".Bl -tag -width Ds\n");
        put_options(out, verb->syntax.options);
        ah_buffer_puts(out, ".El\n");
    }
}

static void put_examples(struct ah_buffer *out, const struct ah_verb *const *verbs)
{
    ah_buffer_puts(out, ".Sh EXAMPLES\n.Bl -tag -width Ds\n");
    for (; *verbs; verbs++)
        for (size_t i = 0; i < AH_VERB_EXAMPLES && (*verbs)->examples[i].command; i++) {
            const struct ah_example *example = &(*verbs)->examples[i];
            ah_buffer_printf(out, ".It Li \"autohete %s\"\n", example->command);
            put_clause(out, example->purpose, NULL);
        }
    ah_buffer_puts(out, ".El\n");
}

void ah_manual_print(const struct ah_verb *const *verbs, struct ah_buffer *out)
{
    ah_buffer_puts(out, head);
    for (const struct ah_verb *const *verb = verbs; *verb; verb++)
        put_synopsis(out, *verb);
    ah_buffer_puts(out, ".Nm\n.Fl -version\n");
    ah_buffer_puts(out, description);
    for (const struct ah_verb *const *verb = verbs; *verb; verb++)
        put_verb(out, *verb);
    ah_buffer_puts(out, ".El\n.Pp\nEvery verb also takes:\n.Bl -tag -width Ds\n");
    put_options(out, ah_options_common);
    ah_buffer_puts(out, ".El\n");
    /* mdoc(7) requires examples after the exit status. */
    ah_buffer_puts(out, tail);
    put_examples(out, verbs);
}
