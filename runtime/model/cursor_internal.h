/* SPDX-License-Identifier: Apache-2.0
 *
 * Cursor: walks over JSON text that ah_json_scan() has accepted, without a tree, so that a header with hundreds of
 * thousands of tensors costs its text and no more. On text that was not scanned it does anything.
 *
 *     if (ah_cursor_enter(&cursor, '{'))
 *         while (ah_cursor_next(&cursor, '}')) {
 *             const char *key = ah_cursor_key(&cursor, arena);      // NULL: out of memory
 *             ah_cursor_skip(&cursor);
 *         }
 */
#ifndef AH_RUNTIME_MODEL_CURSOR_INTERNAL_H
#define AH_RUNTIME_MODEL_CURSOR_INTERNAL_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

struct ah_cursor {
    const char *at;
    const char *end;
};

/* Goes to the next token and returns its first character; 0 at the end of the text. */
char ah_cursor_peek(struct ah_cursor *cursor);

/* Steps into the container that `open` ('{' or '[') begins; false, at the same place, where another value stands. */
bool ah_cursor_enter(struct ah_cursor *cursor, char open);

/* Is there one more item? Goes to it, else out of the container. */
bool ah_cursor_next(struct ah_cursor *cursor, char close);

/* The text here, without its escapes, and goes behind it. Needs '"' here. NULL: out of memory. */
const char *ah_cursor_text(struct ah_cursor *cursor, struct ah_arena *arena);

/* The key here, and goes to its value. NULL: out of memory. */
const char *ah_cursor_key(struct ah_cursor *cursor, struct ah_arena *arena);

/* The whole number here, and goes behind it; false where it is none or is 2^64 or more. */
bool ah_cursor_count(struct ah_cursor *cursor, uint64_t *ret_count);

/* Goes behind the value here. */
void ah_cursor_skip(struct ah_cursor *cursor);

#endif
