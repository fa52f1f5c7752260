/* SPDX-License-Identifier: Apache-2.0
 *
 * Arena: memory of one document or plan, allocated piece by piece and freed all at once.
 *
 * It grows by chunks from malloc; pieces never move and are zeroed. Training memory is not from here: it is planned and
 * addressed by offsets (runtime/device/device.h).
 *
 *     struct ah_arena arena = {0};                    // ready to use
 *     char *name = ah_arena_strdup(&arena, "gpt2");   // NULL: out of memory
 *     ah_arena_release(&arena);
 *
 * Not safe for two threads at once.
 */
#ifndef AH_BASE_ARENA_H
#define AH_BASE_ARENA_H

#include <stddef.h>

struct ah_arena_chunk;

struct ah_arena {
    struct ah_arena_chunk *chunks; /* owned; newest first */
    size_t used_bytes;             /* bytes used in the newest chunk */
    size_t total_bytes;            /* bytes allocated in all chunks */
};

/* Returns `size` zeroed bytes aligned for any type (max_align_t), in the arena; NULL when out of memory. */
void *ah_arena_alloc(struct ah_arena *arena, size_t size);

/* Returns `count` zeroed items of `size` bytes; NULL when out of memory or when the product overflows. */
void *ah_arena_array(struct ah_arena *arena, size_t count, size_t size);

/* Copy a string, or its first `length` bytes, and add a NUL; in the arena. NULL when out of memory. */
char *ah_arena_strdup(struct ah_arena *arena, const char *text);
char *ah_arena_strndup(struct ah_arena *arena, const char *text, size_t length);

/* Frees everything; the arena is empty and usable again. */
void ah_arena_release(struct ah_arena *arena);

#endif
