/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines: a verb that works by other verbs. Each is a command line that one could have typed. It is printed, and
 * runs as a process of its own. FOLDER/commands.sh keeps the lines that are done, so the same lines go on where they
 * were interrupted.
 *
 *     rc = ah_lines_open(&lines, cli, folder, err);
 *     ah_lines_begin(&lines, "tokenize");
 *     ah_lines_add(&lines, "%s", input);
 *     ah_lines_text(&lines, "loss", options->loss);      // nothing if that is NULL
 *     rc = ah_lines_do(&lines);
 *     ah_lines_close(&lines);
 */
#ifndef AH_CLI_FRAME_LINES_H
#define AH_CLI_FRAME_LINES_H

#include "cli/frame/cli.h"

enum {
    AH_LINES_WORDS_MAX = 4160,
    AH_LINES_SIGNALLED = 128 /* least status of a process that was interrupted, or that a signal ended */
};

struct ah_lines {
    struct ah_cli *cli;
    const char *folder;
    struct ah_error *err;
    struct ah_buffer done; /* commands.sh: lines that are done */
    size_t at;             /* in `done`: the next line */
    const char *begun;     /* the line that had begun when the lines ended the last time; NULL: none */
    struct ah_buffer kept; /* the line that stands for the next one; empty: its own */
    const char *words[AH_LINES_WORDS_MAX + 1];
    size_t n;
    bool silent; /* print nothing, nor does the process; as with --json and --quiet */
    bool failed; /* a word was too long, or is missing for lack of memory */
    int status;  /* of the process that failed; 0: none did */
};

/* Makes the folder, or reads what is done in it. */
int ah_lines_open(struct ah_lines *ret_lines, struct ah_cli *cli, const char *folder, struct ah_error *err);
void ah_lines_close(struct ah_lines *lines);

/* Begins a line, and adds words to it: any word; options, if they are given. */
void ah_lines_begin(struct ah_lines *lines, const char *verb);
void ah_lines_add(struct ah_lines *lines, const char *format, ...) AH_PRINTF(2, 3);
void ah_lines_text(struct ah_lines *lines, const char *option, const char *value);
void ah_lines_list(struct ah_lines *lines, const char *option, const struct ah_option_list *values);
void ah_lines_count(struct ah_lines *lines, const char *option, const struct ah_option_integer *value);
void ah_lines_real(struct ah_lines *lines, const char *option, const struct ah_option_real *value);

/* Runs the line, unless it is done, and keeps it. AH_E_USAGE: another line was done here. AH_E_FAILED: the process
 * failed, with `status`, or did not start. */
int ah_lines_do(struct ah_lines *lines);

/* Likewise, but a process that fails is noted, and the next line may run; unless a signal ended it. */
int ah_lines_try(struct ah_lines *lines);

/* Runs the line without keeping it: its result says whether it is done. */
int ah_lines_run(struct ah_lines *lines);

/* Finds whether the line is done. If not, it has begun, and is kept when the next line, which does the rest of it, is
 * done. AH_E_USAGE: another line had begun, and something was made by it (`made`); or as of ah_lines_do(). */
int ah_lines_goes_on(struct ah_lines *lines, bool made, bool *ret_done);

/* True if there is a file of that name in the folder. */
bool ah_lines_has(const struct ah_lines *lines, const char *name);

#endif
