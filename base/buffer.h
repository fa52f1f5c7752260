/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffer: a growing array of bytes, for reading files and printing documents.
 *
 * Failure is sticky: after an allocation failed, every call does nothing and `failed` stays set. So a writer checks
 * only once, at its end. `data` always has a NUL after its last byte once anything was appended.
 *
 *     struct ah_buffer out = {0};
 *     ah_buffer_printf(&out, "%d blocks", n);
 *     if (out.failed) ...
 *     ah_buffer_release(&out);
 */
#ifndef AH_BASE_BUFFER_H
#define AH_BASE_BUFFER_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct ah_buffer {
    char *data; /* owned; NULL while empty */
    size_t size;
    size_t capacity;
    bool failed;
};

void ah_buffer_append(struct ah_buffer *buffer, const void *bytes, size_t size);
void ah_buffer_puts(struct ah_buffer *buffer, const char *text);
void ah_buffer_printf(struct ah_buffer *buffer, const char *format, ...) AH_PRINTF(2, 3);

/* Makes room for `size` more bytes; false (and failed) when out of memory. */
bool ah_buffer_reserve(struct ah_buffer *buffer, size_t size);

/* Empties the buffer, keeps its memory, clears `failed`. */
void ah_buffer_clear(struct ah_buffer *buffer);
void ah_buffer_release(struct ah_buffer *buffer);

#endif
