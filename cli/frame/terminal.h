/* SPDX-License-Identifier: Apache-2.0
 *
 * Terminal: output for a person's screen: colours, a progress line, safe text.
 *
 * Colours are used only if the stream is a terminal, TERM is not `dumb`, and NO_COLOR (no-color.org) is unset or empty.
 * The progress line is drawn only if standard error is a terminal.
 */
#ifndef AH_CLI_FRAME_TERMINAL_H
#define AH_CLI_FRAME_TERMINAL_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sequences to print around text; all empty if there are no colours. */
struct ah_style {
    const char *bold;
    const char *dim;
    const char *red;
    const char *yellow;
    const char *green;
    const char *reset;
};

struct ah_style ah_terminal_style(int fd);

/* `when`: "always" or "never"; for any other text, decides as ah_terminal_style() does. */
struct ah_style ah_terminal_style_when(int fd, const char *when);

/* Replaces, in place, what could steer a terminal by '?': control characters, C1 controls in UTF-8, direction marks. */
void ah_terminal_clean(char *text);

/* Returns how many columns `text` takes: the number of its code points. */
size_t ah_terminal_width(const char *text);

/* Returns the width of the terminal at `fd` in columns, 40 to 160; 80 if `fd` is no terminal. */
size_t ah_terminal_columns(int fd);

/* Returns the width for tables: 0 if `fd` is no terminal, so that programs read each row as one line. */
size_t ah_terminal_table_columns(int fd);

/* Appends `text` and a newline, broken between words before `columns`; the first line is at column `indent` already. */
void ah_terminal_wrap(struct ah_buffer *out, const char *text, size_t indent, size_t columns);

/* Prints "####......", `columns` characters, or "####" without `points`. Returns `out`: room for columns + 1. */
const char *ah_terminal_bar(char *out, double fraction, size_t columns, bool points);

/* One line on standard error that is redrawn: what is being done, a bar, per cent, remaining time. */
struct ah_progress {
    bool shown;        /* standard error is a terminal */
    uint64_t start_ns; /* when the whole work began */
    uint64_t drawn_ns; /* when last drawn */
    double whole_s;    /* smoothed estimate of the whole time; 0: not known yet */
    double judged_s;   /* elapsed time at the last update of whole_s */
};

struct ah_progress ah_terminal_progress(void);

/* From now on this process shows no progress line. */
void ah_terminal_no_progress(void);

/* `fraction` of the work is done; below 0: the amount of work is unknown, so elapsed time is shown. Draws at most ten
 * times a second. */
void ah_terminal_draw(struct ah_progress *progress, double fraction, const char *what);

/* Returns the seconds still needed after `elapsed_s`, given the share done; below 0 while too little is done to tell.
 * Earlier estimates count, too, so the number does not jump when parts of the work differ in speed. */
double ah_terminal_left_s(struct ah_progress *progress, double elapsed_s, double fraction);

/* Removes the line; the next ah_terminal_draw() draws it again. */
void ah_terminal_erase(struct ah_progress *progress);

#endif
