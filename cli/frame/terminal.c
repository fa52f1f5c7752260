/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/frame/terminal.h"

#include "base/threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COLUMNS_DEFAULT = 80, COLUMNS_LEAST = 40, COLUMNS_MOST = 160 };

#define LEFT_FROM  0.05 /* fraction of the work to be done before a remaining time is shown */
#define REMEMBERED 0.5  /* how far back an estimate looks, as a fraction of the elapsed time */

enum { BAR_COLUMNS = 20, LINE_MAX_BYTES = 512, REDRAW_NS = 100 * 1000 * 1000 };

static bool can_steer(int fd)
{
    const char *term = getenv("TERM");
    return isatty(fd) && term && *term && strcmp(term, "dumb") != 0;
}

static const struct ah_style plain = {"", "", "", "", "", ""};
static const struct ah_style colours = {"\033[1m", "\033[2m", "\033[31m", "\033[33m", "\033[32m", "\033[0m"};

struct ah_style ah_terminal_style_when(int fd, const char *when)
{
    return !strcmp(when, "always") ? colours : !strcmp(when, "never") ? plain : ah_terminal_style(fd);
}

struct ah_style ah_terminal_style(int fd)
{
    const char *no_color = getenv("NO_COLOR");
    return can_steer(fd) && !(no_color && *no_color) ? colours : plain;
}

/* Returns the length of a sequence at `text` that must not reach a terminal; 0: harmless. Such are controls, C1
 * controls (U+0080 to U+009F), and controls of the direction of text (U+202A to U+202E, U+2066 to U+2069). */
static size_t steering_bytes(const char *text)
{
    unsigned char bytes[3] = {0};
    for (size_t i = 0; i < 3 && (i == 0 || bytes[i - 1]); i++)
        bytes[i] = (unsigned char)text[i];
    if (bytes[0] < 0x20 || bytes[0] == 0x7f)
        return 1;
    if (bytes[0] == 0xc2 && bytes[1] >= 0x80 && bytes[1] < 0xa0)
        return 2;
    bool embeds = bytes[1] == 0x80 && bytes[2] >= 0xaa && bytes[2] <= 0xae;
    bool isolates = bytes[1] == 0x81 && bytes[2] >= 0xa6 && bytes[2] <= 0xa9;
    return bytes[0] == 0xe2 && (embeds || isolates) ? 3 : 0;
}

void ah_terminal_clean(char *text)
{
    char *to = text;
    for (const char *from = text; *from;) {
        size_t steering = steering_bytes(from);
        *to++ = steering ? '?' : *from;
        from += steering ? steering : 1;
    }
    *to = '\0';
}

size_t ah_terminal_width(const char *text)
{
    size_t columns = 0;
    for (; *text; text++)
        columns += ((unsigned char)*text & 0xc0) != 0x80;
    return columns;
}

size_t ah_terminal_columns(int fd)
{
    struct winsize size = {0};
    if (ioctl(fd, TIOCGWINSZ, &size) != 0 || !size.ws_col)
        return COLUMNS_DEFAULT;
    return size.ws_col < COLUMNS_LEAST  ? COLUMNS_LEAST
           : size.ws_col > COLUMNS_MOST ? COLUMNS_MOST
                                        : size.ws_col;
}

size_t ah_terminal_table_columns(int fd)
{
    return isatty(fd) ? ah_terminal_columns(fd) : 0;
}

void ah_terminal_wrap(struct ah_buffer *out, const char *text, size_t indent, size_t columns)
{
    size_t column = indent;
    for (bool first = true; *text; first = false) {
        size_t length = strcspn(text, " ");
        if (!first && column + 1 + length > columns) {
            ah_buffer_printf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!first) {
            ah_buffer_puts(out, " ");
            column++;
        }
        ah_buffer_append(out, text, length);
        column += length;
        text += length + (text[length] == ' ');
    }
    ah_buffer_puts(out, "\n");
}

const char *ah_terminal_bar(char *out, double fraction, size_t columns, bool points)
{
    double full = fraction > 0 ? fraction * (double)columns + 0.5 : 0;
    size_t n = 0;
    for (; n < columns && (double)n + 1 <= full; n++)
        out[n] = '#';
    for (; points && n < columns; n++)
        out[n] = '.';
    out[n] = '\0';
    return out;
}

static bool progress_off;

void ah_terminal_no_progress(void)
{
    progress_off = true;
}

/* Returns the number of bytes of `line` that fit `columns`; ends behind a word. */
static int whole_words(const char *line, size_t columns)
{
    size_t bytes = 0, words = 0;
    for (size_t column = 0; line[bytes] && column < columns; column++) {
        do
            bytes++;
        while (((unsigned char)line[bytes] & 0xc0) == 0x80);
        if (line[bytes] == ' ' || !line[bytes])
            words = bytes;
    }
    return (int)words;
}

struct ah_progress ah_terminal_progress(void)
{
    return (struct ah_progress){.shown = !progress_off && can_steer(STDERR_FILENO),
                                .start_ns = ah_threads_now_ns()};
}

double ah_terminal_left_s(struct ah_progress *progress, double elapsed_s, double fraction)
{
    if (fraction < LEFT_FROM || fraction >= 1)
        return -1;
    const double whole_s = elapsed_s / fraction, passed_s = elapsed_s - progress->judged_s;
    const double weight = progress->whole_s > 0 ? passed_s / (passed_s + elapsed_s * REMEMBERED) : 1;
    progress->whole_s += weight * (whole_s - progress->whole_s);
    progress->judged_s = elapsed_s;
    return progress->whole_s > elapsed_s ? progress->whole_s - elapsed_s : 0;
}

/* Prints "3 s left", "1:05 left"; nothing if `seconds` is negative, which means unknown. */
static void print_left(char out[32], double seconds)
{
    out[0] = '\0';
    if (seconds < 0)
        return;
    long left_s = (long)(seconds + 0.5);
    if (left_s < 60)
        snprintf(out, 32, "%ld s left", left_s);
    else
        snprintf(out, 32, "%ld:%02ld left", left_s / 60, left_s % 60);
}

void ah_terminal_draw(struct ah_progress *progress, double fraction, const char *what)
{
    uint64_t now_ns = ah_threads_now_ns();
    if (!progress->shown || now_ns - progress->drawn_ns < REDRAW_NS)
        return;
    progress->drawn_ns = now_ns;
    char line[LINE_MAX_BYTES];
    double elapsed_s = (double)(now_ns - progress->start_ns) * 1e-9;
    if (fraction < 0) {
        snprintf(line, sizeof line, "%.0f s  %s", elapsed_s, what);
    } else {
        char bar[BAR_COLUMNS + 1];
        char left[32];
        print_left(left, ah_terminal_left_s(progress, elapsed_s, fraction));
        snprintf(line, sizeof line, "[%s] %3.0f %%  %-12s %s",
                 ah_terminal_bar(bar, fraction, BAR_COLUMNS, true), fraction * 100, left, what);
    }
    fprintf(stderr, "\r\033[K%.*s", whole_words(line, ah_terminal_columns(STDERR_FILENO) - 1), line);
    fflush(stderr);
}

void ah_terminal_erase(struct ah_progress *progress)
{
    if (progress->shown && progress->drawn_ns)
        fputs("\r\033[K", stderr);
    progress->drawn_ns = 0;
}
