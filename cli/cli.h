/* SPDX-License-Identifier: Apache-2.0
 *
 * Cli: the frame that every verb runs in.
 *
 * A verb is a constant: its name, what help says about it, its tables of options and operands, and a
 * function. main.c holds the table of verbs; the frame finds the verb, reads its options, runs it, prints
 * what it said and turns errors into exit statuses. The rules of output:
 *
 *   1. Data goes to `out` and from there to standard output; everything else to standard error.
 *   2. An error is one line, `error: <sentence>`, or with --json one line of JSON, on standard error.
 *   3. Standard output that cannot be written (a full disk) is an error; a reader that went away is not.
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
#ifndef AH_CLI_CLI_H
#define AH_CLI_CLI_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "cli/options.h"
#include "cli/terminal.h"

#include <stdbool.h>
#include <stddef.h>

struct ah_cli;
struct ah_emit;

/* A command line and what it is for; the command without its `autohete`. */
struct ah_example {
    const char *command;
    const char *purpose;
};

enum { AH_VERB_EXAMPLES = 6 };

struct ah_verb {
    const char *name;
    const char *summary;     /* a clause: lower case, no full stop */
    const char *description; /* paragraphs, an empty line between two */
    struct ah_option_syntax syntax;
    size_t options_bytes; /* of the verb's options struct; 0: it has none */
    struct ah_example examples[AH_VERB_EXAMPLES];
    int least_trouble; /* exit status that errors have at least: 2 where 1 means something else */
    int (*run)(struct ah_cli *cli, const void *options); /* returns the exit status */
};

struct ah_cli {
    const struct ah_verb *const *verbs; /* NULL-terminated, borrowed */
    const struct ah_verb *verb;         /* the one that runs; NULL before it is known */
    const char *const *words;           /* the command line behind `autohete`; NULL-terminated, borrowed */
    struct ah_arguments arguments;      /* its operands */
    struct ah_arena arena;              /* for whatever lives as long as the command */
    struct ah_buffer out;               /* standard output, written at the end or by ah_cli_flush() */
    struct ah_style out_style;
    struct ah_style err_style;
    size_t columns;       /* that sentences may take on standard output */
    size_t table_columns; /* that tables may take there; 0, as many as they need, where it is no terminal */
    bool json;
    bool out_closed; /* the reader of standard output went away: say nothing more there */
};

/* Runs a command line; returns the exit status. argv[argc] is NULL. */
int ah_cli_main(const struct ah_verb *const *verbs, int argc, char **argv);

/* NULL for an unknown name. */
const struct ah_verb *ah_cli_find(const struct ah_verb *const *verbs, const char *name);

/* AH_E_USAGE for a verb that does not exist, with the nearest one. */
int ah_cli_unknown(struct ah_cli *cli, const char *name, struct ah_error *err);

/* Prints an error (after what is in `out`, so that the order of the two is kept on a terminal) and returns
 * the exit status for it. */
int ah_cli_fail(struct ah_cli *cli, const struct ah_error *err);

/* The same with more to say: `text` prints lines below the sentence, `json` fields of the error's object. */
struct ah_cli_details {
    void (*text)(const struct ah_cli *cli, const void *context, struct ah_buffer *out);
    void (*json)(const void *context, struct ah_emit *emit);
    const void *context;
};
int ah_cli_fail_with(struct ah_cli *cli, const struct ah_error *err, const struct ah_cli_details *details);

/* ah_cli_fail() of the command line itself (AH_E_USAGE), with the way to the help. */
int ah_cli_fail_usage(struct ah_cli *cli, const struct ah_error *err);

/* Appends "; nothing was written" to a sentence that does not say so. */
void ah_cli_nothing_written(struct ah_error *err);

/* The first word of a line on standard error. An error has its own: ah_cli_fail(). */
enum ah_cli_label {
    AH_CLI_NOTE,    /* `note: <sentence>` */
    AH_CLI_WARNING, /* `warning: <sentence>`: what the person asked for may not be what they want */
    AH_CLI_WROTE,   /* `wrote <files>` */
};

/* Prints a line for the person on standard error; nothing with --json, and with --quiet only warnings. */
void ah_cli_tell(struct ah_cli *cli, enum ah_cli_label label, const char *format, ...) AH_PRINTF(3, 4);

/* A copy of `text`, in the arena, that is safe on a terminal; "" when out of memory, which `out` then knows. */
const char *ah_cli_clean(struct ah_cli *cli, const char *text);

/* Appends `text` to `out`, indented and broken at the width of the terminal; releases it. */
void ah_cli_put_wrapped(struct ah_cli *cli, struct ah_buffer *text, size_t indent);

/* Breaks the lines that `out` was given since it had `mark` bytes, between words, where they would not fit a terminal; what
 * goes on is indented. Does nothing where standard output is none: there a line stays a line. */
void ah_cli_fit(struct ah_cli *cli, size_t mark, size_t indent);

/* Writes all of it, waiting where the descriptor would block. Returns 0 or an errno. */
int ah_cli_write(int fd, const char *bytes, size_t size);

/* Writes `out` to standard output and empties it. AH_E_IO says why it cannot be written. */
int ah_cli_flush(struct ah_cli *cli, struct ah_error *err);

#endif
