/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/run/run_host.h"

#include <stdarg.h>
#include <stdio.h>

void ah_run_tell(const struct ah_run_host *host, enum ah_run_tone tone, const char *format, ...)
{
    char text[AH_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    host->tell(host->context, tone, text);
}

bool ah_run_is_stopped(const struct ah_run_host *host)
{
    return atomic_load(host->stop) != 0;
}
