/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void ah_log_printf(const struct ah_log *log, enum ah_log_level level, const char *format, ...)
{
    if (!log || !log->write || level < log->least)
        return;
    char text[AH_LOG_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    log->write(log->context, level, text);
}

const char *ah_log_level_name(enum ah_log_level level)
{
    static const char *const names[] = {"debug", "info", "warning", "error"};
    return names[level];
}
