/* SPDX-License-Identifier: Apache-2.0
 *
 * Options: the only parser of command lines, driven by tables.
 *
 * A verb describes its options in a table of rows {name, letter, kind, ...}. Each row names the field of the verb's
 * options struct for the value, so a verb reads fields and never words. Help (help.h), the manual page (manual.h) and
 * completion (verb_completion.c) are made from the same tables.
 *
 *     struct greet_options { bool loud; const char *name; };
 *     static const struct ah_option greet_table[] = {
 *         {"loud", 0, AH_OPTION_FLAG, NULL, NULL, offsetof(struct greet_options, loud), "in capitals"},
 *         {"name", 'n', AH_OPTION_TEXT, "NAME", NULL, offsetof(struct greet_options, name), "whom"},
 *         {NULL}};
 *
 * Accepted: `--name VALUE`, `--name=VALUE`, `-n VALUE`, `-nVALUE`; options and operands in any order; after `--` only
 * operands; `-` alone is an operand. If an option is given twice, the last value counts, unless its kind collects
 * values. The zero value of every field is its default.
 */
#ifndef AH_CLI_FRAME_OPTIONS_H
#define AH_CLI_FRAME_OPTIONS_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/option_value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ah_option_kind {
    AH_OPTION_FLAG, /* field: bool */
    AH_OPTION_TEXT, /* field: const char *, not empty */
    AH_OPTION_FILE, /* field: const char *, not empty; a file or folder to read */
    AH_OPTION_FILES, /* field: struct ah_option_list; files, folders or patterns to read; may be given many times */
    AH_OPTION_OUTPUT, /* field: const char *, not empty; a file to write; `words`: kinds it may replace (outputs.h) */
    AH_OPTION_FOLDER, /* field: const char *, not empty; a folder to write to */
    AH_OPTION_BYTES,  /* field: struct ah_option_integer; "12GiB" */
    AH_OPTION_COUNT,  /* field: struct ah_option_integer; "8", "1.5k", or one of `words` */
    AH_OPTION_REAL,   /* field: struct ah_option_real; "0.5", not negative, or one of `words` */
    AH_OPTION_WORD,   /* field: const char *, one of `words` */
    AH_OPTION_TEXTS,  /* field: struct ah_option_list; may be given many times */
};

struct ah_option {
    const char *name; /* without dashes; NULL ends a table */
    char letter;      /* (optional) the short spelling */
    enum ah_option_kind kind;
    const char *value; /* name of the value in help; NULL for a flag */
    const char *const
        *words; /* (optional) NULL-terminated: the values of a WORD, suggestions for a TEXT, or words accepted
                    * instead of a number */
    size_t offset;    /* offset of the field in the verb's options */
    const char *help; /* a clause: lower case, no full stop */
};

enum ah_operand_kind {
    AH_OPERAND_NONE,
    AH_OPERAND_FILE,
    AH_OPERAND_WORD, /* one of `words` */
    AH_OPERAND_VERB, /* name of a verb; not checked by the parser */
};

struct ah_operands {
    enum ah_operand_kind kind;
    const char *name; /* name of the operand in help; with a space, the names of all */
    unsigned min, max;
    const char *const *words; /* NULL-terminated */
};

/* The options and operands of a verb. */
struct ah_option_syntax {
    const struct ah_option *options; /* NULL: none */
    struct ah_operands operands;
};

/* The options common to all verbs, and the operands. */
struct ah_arguments {
    bool json;
    bool help;
    bool quiet, no_progress;
    const char *color;     /* NULL: auto */
    const char **operands; /* in arena; texts are borrowed from argv */
    size_t n_operands;
};

/* The rows of the common options, with fields of struct ah_arguments. */
extern const struct ah_option ah_options_common[];

/* Reads `words` (NULL-terminated, without program and verb) into `ret_options`, which must be zeroed, and
 * `ret_arguments`. AH_E_USAGE names the word and a similar one, if there is any. With `--help`, operands are not
 * counted. After a failure, discard both outputs. */
int ah_options_parse(const struct ah_option_syntax *syntax, const char *const *words, struct ah_arena *arena,
                     void *ret_options, struct ah_arguments *ret_arguments, struct ah_error *err);

/* True if the option's value names a file or folder; ah_options_repeats(): if it may be given several times. */
bool ah_options_is_path(const struct ah_option *option);
bool ah_options_repeats(const struct ah_option *option);

/* Returns how often usage has the operands' name: at most twice, and once if it names all of them. */
unsigned ah_options_operand_names(const struct ah_operands *operands);

/* True if help lists the words of the row. The value's name of a number ("N|auto") already has them, and an output's
 * words are not for users to write. */
bool ah_options_list_words(const struct ah_option *option);

/* True if `names`, a text like " two words ", contains the word `name`. An _ in `name` matches a -. */
bool ah_options_lists(const char *names, const char *name);

/* Appends the words, separated by commas: "cpu, cuda". */
void ah_options_join(struct ah_buffer *out, const char *const *words);

#endif
