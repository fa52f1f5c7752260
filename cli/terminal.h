/* SPDX-License-Identifier: Apache-2.0
 *
 * Terminal: what may be sent to a person's screen: colours, a line that moves, text that is safe.
 *
 * Colours only where the stream is a terminal, TERM is not `dumb` and NO_COLOR (no-color.org) is not set to
 * something. The progress line is drawn on standard error only where that is a terminal.
 */
#ifndef AH_CLI_TERMINAL_H
#define AH_CLI_TERMINAL_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sequences to print around text; all empty where there are no colours. */
struct ah_style {
    const char *bold;
    const char *dim;
    const char *red;
    const char *yellow;
    const char *green;
    const char *reset;
};

struct ah_style ah_terminal_style(int fd);

/* `when`: "always", "never", or as ah_terminal_style() says. */
struct ah_style ah_terminal_style_when(int fd, const char *when);

/* Replaces what could steer a terminal (control characters, C1 controls in UTF-8, marks of direction) by '?', in place. */
void ah_terminal_clean(char *text);

/* Columns that `text` takes: its code points. */
size_t ah_terminal_width(const char *text);

/* Columns of the terminal at `fd`, 40 to 160; 80 where it is none. */
size_t ah_terminal_columns(int fd);

/* The same for tables: 0 where it is no terminal, so that a program reads each row as one line. */
size_t ah_terminal_table_columns(int fd);

/* Appends `text` and a newline, broken between words before `columns`; the first line is at column `indent` already. */
void ah_terminal_wrap(struct ah_buffer *out, const char *text, size_t indent, size_t columns);

/* "####......" of `columns` characters, or without the points. `out` has room for columns + 1. Returns `out`. */
const char *ah_terminal_bar(char *out, double fraction, size_t columns, bool points);

/* One line on standard error that is redrawn: what is done, a bar, per cent, time left. */
struct ah_progress {
    bool shown;        /* standard error is a terminal */
    uint64_t start_ns; /* of the whole work */
    uint64_t drawn_ns; /* when last drawn */
    double whole_s;    /* what all of it will take, smoothed; 0: nobody knows yet */
    double judged_s;   /* when that was last said, from the start */
};

struct ah_progress ah_terminal_progress(void);

/* From here on no progress line is shown in this process. */
void ah_terminal_no_progress(void);

/* `fraction` of the work is done; below 0: nobody knows how much there is, so time passed is shown. Draws at most ten
 * times a second. */
void ah_terminal_draw(struct ah_progress *progress, double fraction, const char *what);

/* Seconds left after `elapsed_s`, by the share done; below 0 while too little is done to tell. Parts of the work are not
 * equally fast: what was said before counts, so that the number does not jump. */
double ah_terminal_left_s(struct ah_progress *progress, double elapsed_s, double fraction);

/* Removes the line; draws again when told to. */
void ah_terminal_erase(struct ah_progress *progress);

#endif
