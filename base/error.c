/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct error_row {
    int code;
    int exit_status;
    const char *word;
    const char *meaning;
};

static const struct error_row error_rows[] = {{AH_OK, 0, "ok", "no error"},
#define ERROR_ROW(name, value, exit_status, word, text) {name, exit_status, word, text},
                                              AH_ERRORS(ERROR_ROW)
#undef ERROR_ROW
};

static const struct error_row *error_row(int code)
{
    for (size_t i = 0; i < sizeof error_rows / sizeof error_rows[0]; i++)
        if (error_rows[i].code == code)
            return &error_rows[i];
    return &error_rows[1];
}

int ah_error_set(struct ah_error *err, int code, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        err->code = code;
    }
    return code;
}

int ah_error_prefix(struct ah_error *err, int code, const char *format, ...)
{
    if (err) {
        char head[AH_ERROR_TEXT_MAX];
        char tail[AH_ERROR_TEXT_MAX];
        va_list args;
        va_start(args, format);
        vsnprintf(head, sizeof head, format, args);
        va_end(args);
        memcpy(tail, err->text, sizeof tail);
        if ((size_t)snprintf(err->text, sizeof err->text, "%s: %s", head, tail) >= sizeof err->text)
            err->text[sizeof err->text - 1] = '\0';
        err->code = code;
    }
    return code;
}

int ah_error_memory(struct ah_error *err)
{
    return ah_error_set(err, AH_E_MEMORY, "out of memory; close other programs or use a smaller input");
}

int ah_error_exit_status(int code)
{
    return error_row(code)->exit_status;
}

const char *ah_error_word(int code)
{
    return error_row(code)->word;
}

const char *ah_error_meaning(int code)
{
    return error_row(code)->meaning;
}
