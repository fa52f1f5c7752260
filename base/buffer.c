/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buffer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 256 };

bool ah_buffer_reserve(struct ah_buffer *buffer, size_t size)
{
    if (buffer->failed)
        return false;
    if (size > SIZE_MAX / 2 - buffer->size - 1) {
        buffer->failed = true;
        return false;
    }
    size_t need = buffer->size + size + 1;
    if (need <= buffer->capacity)
        return true;
    size_t capacity = buffer->capacity ? buffer->capacity : FIRST_CAPACITY;
    while (capacity < need)
        capacity *= 2;
    char *data = realloc(buffer->data, capacity);
    if (!data) {
        buffer->failed = true;
        return false;
    }
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

void ah_buffer_append(struct ah_buffer *buffer, const void *bytes, size_t size)
{
    if (!ah_buffer_reserve(buffer, size))
        return;
    if (size)
        memcpy(buffer->data + buffer->size, bytes, size);
    buffer->size += size;
    buffer->data[buffer->size] = '\0';
}

void ah_buffer_puts(struct ah_buffer *buffer, const char *text)
{
    ah_buffer_append(buffer, text, strlen(text));
}

void ah_buffer_printf(struct ah_buffer *buffer, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0)
        buffer->failed = true;
    else if (ah_buffer_reserve(buffer, (size_t)length)) {
        vsnprintf(buffer->data + buffer->size, (size_t)length + 1, format, again);
        buffer->size += (size_t)length;
    }
    va_end(again);
}

void ah_buffer_clear(struct ah_buffer *buffer)
{
    buffer->size = 0;
    buffer->failed = false;
    if (buffer->data)
        buffer->data[0] = '\0';
}

void ah_buffer_release(struct ah_buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct ah_buffer){0};
}
