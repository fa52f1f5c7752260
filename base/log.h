/* SPDX-License-Identifier: Apache-2.0
 *
 * Log sink: how a library tells a person something without printing. The program that owns the terminal passes a sink
 * down; there is no global sink. A NULL sink, or a sink without `write`, discards messages.
 *
 *     static void to_stderr(void *context, enum ah_log_level level, const char *text) { ... }
 *     struct ah_log log = {.write = to_stderr, .least = AH_LOG_INFO};
 *     ah_log_printf(&log, AH_LOG_WARNING, "the machine is noisy: %s", why);
 *
 * Safe for several threads at once when `write` is.
 */
#ifndef AH_BASE_LOG_H
#define AH_BASE_LOG_H

#include "base/error.h"

enum ah_log_level { AH_LOG_DEBUG, AH_LOG_INFO, AH_LOG_WARNING, AH_LOG_ERROR };

enum { AH_LOG_TEXT_MAX = 1024 };

struct ah_log {
    void (*write)(void *context, enum ah_log_level level,
                  const char *text); /* one line, no newline at its end */
    void *context;                   /* borrowed while the sink is used */
    enum ah_log_level least;         /* lower levels are dropped */
};

/* Formats the text and passes it on, cut to less than AH_LOG_TEXT_MAX bytes. Allocates nothing. */
void ah_log_printf(const struct ah_log *log, enum ah_log_level level, const char *format, ...)
    AH_PRINTF(3, 4);

/* Returns "debug", "info", "warning" or "error". */
const char *ah_log_level_name(enum ah_log_level level);

#endif
