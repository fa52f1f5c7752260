/* SPDX-License-Identifier: Apache-2.0
 *
 * Cursor: the text is known to be valid JSON, so no function here checks it.
 */
#include "schemas/cursor.h"

#include <string.h>

char ah_cursor_peek(struct ah_cursor *cursor)
{
    while (cursor->at < cursor->end && memchr(" \t\r\n", *cursor->at, 4))
        cursor->at++;
    return (char)(cursor->at < cursor->end ? *cursor->at : '\0');
}

bool ah_cursor_enter(struct ah_cursor *cursor, char open)
{
    if (ah_cursor_peek(cursor) != open)
        return false;
    cursor->at++;
    return true;
}

bool ah_cursor_next(struct ah_cursor *cursor, char close)
{
    char c = ah_cursor_peek(cursor);
    if (c == ',') {
        cursor->at++;
        c = ah_cursor_peek(cursor);
    }
    if (c != close)
        return true;
    cursor->at++;
    return false;
}

/* Moves past the string at the cursor. */
static void pass_text(struct ah_cursor *cursor)
{
    for (cursor->at++; *cursor->at != '"'; cursor->at++)
        cursor->at += *cursor->at == '\\';
    cursor->at++;
}

static unsigned hex4(const char *digits)
{
    unsigned value = 0;
    for (int i = 0; i < 4; i++) {
        unsigned c = (unsigned char)digits[i];
        value = value * 16 + (c <= '9' ? c - '0' : (c | 0x20u) - 'a' + 10);
    }
    return value;
}

static char *put_utf8(char *to, unsigned code)
{
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xC0 | code >> 6);
        *to++ = (char)(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        *to++ = (char)(0xE0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 0x3F));
        *to++ = (char)(0x80 | (code & 0x3F));
    } else {
        *to++ = (char)(0xF0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 0x3F));
        *to++ = (char)(0x80 | (code >> 6 & 0x3F));
        *to++ = (char)(0x80 | (code & 0x3F));
    }
    return to;
}

/* Decodes an escape to `*to`; `from` is after its backslash. Returns the end of the escape. */
static const char *put_escape(const char *from, char **to)
{
    static const char letters[] = "bfnrt", meanings[] = "\b\f\n\r\t";
    if (*from != 'u') {
        const char *letter = strchr(letters, *from);
        *(*to)++ = (char)(letter ? meanings[letter - letters] : *from);
        return from + 1;
    }
    unsigned code = hex4(from + 1);
    from += 5;
    if (code >= 0xD800 && code <= 0xDBFF) { /* the low surrogate must follow */
        code = 0x10000 + ((code - 0xD800) << 10) + (hex4(from + 2) - 0xDC00);
        from += 6;
    }
    *to = put_utf8(*to, code);
    return from;
}

const char *ah_cursor_text(struct ah_cursor *cursor, struct ah_arena *arena)
{
    ah_cursor_peek(cursor);
    const char *from = cursor->at + 1;
    pass_text(cursor);
    const char *end = cursor->at - 1;
    char *text = ah_arena_strndup(arena, from, (size_t)(end - from)); /* the decoded text is never longer */
    if (!text || !memchr(from, '\\', (size_t)(end - from)))
        return text;
    char *to = text;
    while (from < end) {
        if (*from == '\\')
            from = put_escape(from + 1, &to);
        else
            *to++ = *from++;
    }
    *to = '\0';
    return text;
}

const char *ah_cursor_key(struct ah_cursor *cursor, struct ah_arena *arena)
{
    const char *key = ah_cursor_text(cursor, arena);
    ah_cursor_peek(cursor);
    cursor->at++; /* the colon */
    ah_cursor_peek(cursor);
    return key;
}

bool ah_cursor_count(struct ah_cursor *cursor, uint64_t *ret_count)
{
    uint64_t count = 0;
    char c = ah_cursor_peek(cursor);
    if (c < '0' || c > '9')
        return false;
    for (; cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9'; cursor->at++)
        if (__builtin_mul_overflow(count, 10, &count) ||
            __builtin_add_overflow(count, (uint64_t)(*cursor->at - '0'), &count))
            return false;
    if (cursor->at < cursor->end && memchr(".eE", *cursor->at, 3))
        return false;
    *ret_count = count;
    return true;
}

void ah_cursor_skip(struct ah_cursor *cursor)
{
    size_t depth = 0;
    do {
        char c = ah_cursor_peek(cursor);
        if (c == '"') {
            pass_text(cursor);
        } else if (c == '{' || c == '[') {
            depth++;
            cursor->at++;
        } else if (c == '}' || c == ']') {
            depth--;
            cursor->at++;
        } else if (c == ',' || c == ':') {
            cursor->at++;
        } else { /* a number or a word */
            while (cursor->at < cursor->end && !memchr(" \t\r\n,:]}", *cursor->at, 8))
                cursor->at++;
        }
    } while (depth && cursor->at < cursor->end);
}
