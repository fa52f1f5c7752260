/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 16384 };

struct ah_arena_chunk {
    struct ah_arena_chunk *next; /* owned */
    size_t capacity_bytes;
    alignas(max_align_t) unsigned char data[];
};

static int arena_grow(struct ah_arena *arena, size_t size)
{
    size_t capacity = size > CHUNK_BYTES ? size : CHUNK_BYTES;
    if (capacity > SIZE_MAX - sizeof(struct ah_arena_chunk))
        return 0;
    struct ah_arena_chunk *chunk = calloc(1, sizeof *chunk + capacity);
    if (!chunk)
        return 0;
    chunk->next = arena->chunks;
    chunk->capacity_bytes = capacity;
    arena->chunks = chunk;
    arena->used_bytes = 0;
    return 1;
}

void *ah_arena_alloc(struct ah_arena *arena, size_t size)
{
    size_t align = alignof(max_align_t);
    if (size > SIZE_MAX - align)
        return NULL;
    size = (size + align - 1) / align * align;
    if (!arena->chunks || size > arena->chunks->capacity_bytes - arena->used_bytes)
        if (!arena_grow(arena, size))
            return NULL;
    void *piece = arena->chunks->data + arena->used_bytes;
    arena->used_bytes += size;
    arena->total_bytes += size;
    return piece;
}

void *ah_arena_array(struct ah_arena *arena, size_t count, size_t size)
{
    if (size && count > SIZE_MAX / size)
        return NULL;
    return ah_arena_alloc(arena, count * size);
}

char *ah_arena_strdup(struct ah_arena *arena, const char *text)
{
    return ah_arena_strndup(arena, text, strlen(text));
}

char *ah_arena_strndup(struct ah_arena *arena, const char *text, size_t length)
{
    if (length == SIZE_MAX)
        return NULL;
    char *copy = ah_arena_alloc(arena, length + 1);
    if (copy)
        memcpy(copy, text, length);
    return copy;
}

void ah_arena_release(struct ah_arena *arena)
{
    struct ah_arena_chunk *chunk = arena->chunks;
    while (chunk) {
        struct ah_arena_chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
    *arena = (struct ah_arena){0};
}
