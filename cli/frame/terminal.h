/* SPDX-License-Identifier: Apache-2.0
 *
 * Terminal: output for a person's screen: colours, a progress line, safe text.
 *
 * Colours are used only if the stream is a terminal, TERM is not `dumb`, and NO_COLOR (no-color.org) is unset or empty.
 * The progress line is shown only if standard error is a terminal.
 */
#ifndef AH_CLI_FRAME_TERMINAL_H
#define AH_CLI_FRAME_TERMINAL_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sequences to print around text; empty without colours. */
struct ah_style {
    const char *bold;
    const char *dim;
    const char *red;
    const char *yellow;
    const char *green;
    const char *reset;
};

struct ah_style ah_terminal_style(int fd);

/* Returns colours if `when` is "always", none if it is "never", and otherwise what ah_terminal_style() returns. */
struct ah_style ah_terminal_style_when(int fd, const char *when);

/* Replaces, in place, what could control a terminal by '?': controls, C1 controls in UTF-8, and direction marks. */
void ah_terminal_clean(char *text);

/* Returns the width of `text` in columns: its number of code points. */
size_t ah_terminal_width(const char *text);

/* Returns the width of the terminal at `fd`, from 40 to 160 columns; 80 if `fd` is not a terminal. */
size_t ah_terminal_columns(int fd);

/* Returns the width for tables; 0 if `fd` is not a terminal, so that programs read one line per row. */
size_t ah_terminal_table_columns(int fd);

/* Appends `text` and a newline, broken between words to `columns`. `indent` columns of the first line are taken. */
void ah_terminal_wrap(struct ah_buffer *out, const char *text, size_t indent, size_t columns);

/* Prints "####......" in `columns` characters, or "####" without `points`. Returns `out`, with room for columns + 1. */
const char *ah_terminal_bar(char *out, double fraction, size_t columns, bool points);

/* A line on standard error, drawn again and again: a bar, per cent, remaining time, and what is being done. */
struct ah_progress {
    bool shown;        /* standard error is a terminal */
    uint64_t start_ns; /* start of the whole work */
    uint64_t drawn_ns; /* time of the last drawing */
    double whole_s;    /* smoothed estimate of the whole time; 0: none yet */
    double judged_s;   /* elapsed time at the last update of whole_s */
};

struct ah_progress ah_terminal_progress(void);

/* Shows no progress line in this process from now on. */
void ah_terminal_no_progress(void);

/* Draws the line, at most ten times a second. `fraction`: the part of the work that is done; if negative, the amount of
 * work is unknown, and the elapsed time is shown. */
void ah_terminal_draw(struct ah_progress *progress, double fraction, const char *what);

/* Estimates the remaining seconds after `elapsed_s`, from the fraction done; negative while too little is done.
 * Includes earlier estimates, so that the number does not jump when parts of the work differ in speed. */
double ah_terminal_left_s(struct ah_progress *progress, double elapsed_s, double fraction);

/* Erases the line; the next ah_terminal_draw() draws it again. */
void ah_terminal_erase(struct ah_progress *progress);

#endif
