/* SPDX-License-Identifier: Apache-2.0
 *
 * Cli: the frame in which every verb runs.
 *
 * A verb is a constant: its name, its help, its tables of options and operands, and a function. main.c has the table of
 * verbs. The frame finds the verb, reads its options, runs it, prints its output and turns errors into exit statuses.
 * The rules of output:
 *
 *   1. Data goes to `out` and from there to standard output; everything else goes to standard error.
 *   2. An error is one line, `error: <sentence>`, or with --json one line of JSON, on standard error.
 *   3. It is an error if standard output cannot be written (a full disk), but not if its reader closed the pipe.
 *   4. Control characters of documents and file names never reach a terminal.
 *
 *     static int greet_run(struct ah_cli *cli, const void *given)
 *     {
 *         const struct greet_options *options = given;
 *         struct ah_error err = {0};
 *         if (greet(options->name, &cli->out, &err))
 *             return ah_cli_fail(cli, &err);
 *         return 0;
 *     }
 */
#ifndef AH_CLI_FRAME_CLI_H
#define AH_CLI_FRAME_CLI_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "cli/frame/options.h"
#include "cli/frame/terminal.h"

#include <stdbool.h>
#include <stddef.h>

struct ah_cli;
struct ah_emit;

/* A command line, without `autohete`, and its purpose. */
struct ah_example {
    const char *command;
    const char *purpose;
};

enum { AH_VERB_EXAMPLES = 6 };

struct ah_verb {
    const char *name;
    const char *summary;     /* a clause: lower case, no full stop */
    const char *description; /* paragraphs with an empty line between them */
    struct ah_option_syntax syntax;
    size_t options_bytes; /* size of the verb's options struct; 0: it has none */
    struct ah_example examples[AH_VERB_EXAMPLES];
    int least_trouble; /* lowest exit status of errors: 2 if 1 is another result of the verb */
    int (*run)(struct ah_cli *cli, const void *options); /* returns the exit status */
};

struct ah_cli {
    const struct ah_verb *const *verbs; /* NULL-terminated, borrowed */
    const struct ah_verb *verb;         /* the verb that runs; NULL before it is known */
    const char *const *words;           /* the command line after `autohete`; NULL-terminated, borrowed */
    struct ah_arguments arguments;      /* its operands and common options */
    struct ah_arena arena;              /* for everything that lasts until the command ends */
    struct ah_buffer out;               /* standard output, written at the end or by ah_cli_flush() */
    struct ah_style out_style;
    struct ah_style err_style;
    size_t columns;       /* width for sentences on standard output */
    size_t table_columns; /* width of tables; 0: no terminal, so tables have their natural width */
    bool json;
    bool out_closed; /* standard output was closed by its reader: do not write to it */
};

/* Runs a command line; returns the exit status. argv[argc] is NULL. */
int ah_cli_main(const struct ah_verb *const *verbs, int argc, char **argv);

/* Returns the verb called `name`; NULL for an unknown name. */
const struct ah_verb *ah_cli_find(const struct ah_verb *const *verbs, const char *name);

/* Sets `err` for an unknown verb, with the most similar verb as a suggestion. Returns AH_E_USAGE. */
int ah_cli_unknown(struct ah_cli *cli, const char *name, struct ah_error *err);

/* Writes `out`, then prints an error (in this order, for a terminal), and returns the error's exit status. */
int ah_cli_fail(struct ah_cli *cli, const struct ah_error *err);

/* Details of an error: `text` prints lines below the sentence, `json` adds fields to the error's object. */
struct ah_cli_details {
    void (*text)(const struct ah_cli *cli, const void *context, struct ah_buffer *out);
    void (*json)(const void *context, struct ah_emit *emit);
    const void *context;
};
int ah_cli_fail_with(struct ah_cli *cli, const struct ah_error *err, const struct ah_cli_details *details);

/* Prints an error of the command line (AH_E_USAGE) with a pointer to the help, and returns the exit status. */
int ah_cli_fail_usage(struct ah_cli *cli, const struct ah_error *err);

/* Appends "; nothing was written" to the message, unless the message already says so. */
void ah_cli_nothing_written(struct ah_error *err);

/* The label of a line on standard error. Errors are printed by ah_cli_fail(). */
enum ah_cli_label {
    AH_CLI_NOTE,    /* `note: <sentence>` */
    AH_CLI_WARNING, /* `warning: <sentence>`: perhaps not what the person wants */
    AH_CLI_WROTE,   /* `wrote <files>` */
};

/* Prints a line for people on standard error. With --json prints nothing, with --quiet only warnings. */
void ah_cli_tell(struct ah_cli *cli, enum ah_cli_label label, const char *format, ...) AH_PRINTF(3, 4);

/* Returns a copy of `text`, in the arena, that is safe on a terminal; "" if out of memory, and `out` has failed. */
const char *ah_cli_clean(struct ah_cli *cli, const char *text);

/* Appends `text` to `out`, indented and wrapped at the terminal's width; releases `text`. */
void ah_cli_put_wrapped(struct ah_cli *cli, struct ah_buffer *text, size_t indent);

/* Wraps all lines of `out` after byte `mark` that are too long for the terminal, and indents their continuations. Does
 * nothing if standard output is not a terminal. */
void ah_cli_fit(struct ah_cli *cli, size_t mark, size_t indent);

/* Writes `out` to standard output and empties it. AH_E_IO: writing failed; the text says why. */
int ah_cli_flush(struct ah_cli *cli, struct ah_error *err);

#endif
