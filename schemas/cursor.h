/* SPDX-License-Identifier: Apache-2.0
 *
 * Cursor: walks over JSON text that ah_json_scan() has accepted. It builds no tree, so even a header with hundreds of
 * thousands of tensors takes no memory besides its text. On other text, its behaviour is undefined.
 *
 *     if (ah_cursor_enter(&cursor, '{'))
 *         while (ah_cursor_next(&cursor, '}')) {
 *             const char *key = ah_cursor_key(&cursor, arena);      // NULL: out of memory
 *             ah_cursor_skip(&cursor);
 *         }
 */
#ifndef AH_SCHEMAS_CURSOR_H
#define AH_SCHEMAS_CURSOR_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

struct ah_cursor {
    const char *at;
    const char *end;
};

/* Moves to the next token and returns its first character; returns 0 at the end of the text. */
char ah_cursor_peek(struct ah_cursor *cursor);

/* Enters the container that begins with `open` ('{' or '[') at the cursor. Returns false, unmoved, if there is none. */
bool ah_cursor_enter(struct ah_cursor *cursor, char open);

/* Moves to the next item and returns true. After the last item, leaves the container and returns false. */
bool ah_cursor_next(struct ah_cursor *cursor, char close);

/* Returns the string at the cursor ('"'), with escapes resolved, and moves past it. NULL: out of memory. */
const char *ah_cursor_text(struct ah_cursor *cursor, struct ah_arena *arena);

/* Returns the key at the cursor and moves to the key's value. NULL: out of memory. */
const char *ah_cursor_key(struct ah_cursor *cursor, struct ah_arena *arena);

/* Reads the whole number at the cursor and moves past it. Returns false if there is none, or it is 2^64 or more. */
bool ah_cursor_count(struct ah_cursor *cursor, uint64_t *ret_count);

/* Moves past the value at the cursor. */
void ah_cursor_skip(struct ah_cursor *cursor);

#endif
