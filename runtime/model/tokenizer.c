/* SPDX-License-Identifier: Apache-2.0
 *
 * Source: bytes_to_unicode() of openai/gpt-2 (src/encoder.py). A byte printable in Latin-1 is its own letter; letters
 * of other bytes are U+0100, U+0101, ... In model.vocab, BPE and WordLevel have {"piece": id}, and Unigram has
 * [["piece", score], ...].
 */
#include "runtime/model/tokenizer.h"

#include "base/buffer.h"
#include "base/file.h"
#include "schemas/cursor.h"
#include "schemas/document.h"
#include "schemas/json.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FILE_MAX_BYTES = 256 << 20, IDS_MAX = 1 << 22, LETTERS = 512 };

struct loading {
    struct ah_tokenizer *tokenizer;
    bool byte_level;
    short bytes[LETTERS]; /* by letter: the encoded byte; -1: none */
    bool failed;          /* there was no memory */
};

static void set_letters(short bytes[LETTERS])
{
    int next = 256;
    for (int i = 0; i < LETTERS; i++)
        bytes[i] = -1;
    for (int byte = 0; byte < 256; byte++) {
        const bool own = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
        bytes[own ? byte : next++] = (short)byte;
    }
}

/* Reads the letter at `*from`, of one or two bytes of UTF-8. Returns -1 for a longer letter, without moving. */
static int take_letter(const char **from)
{
    const unsigned char *at = (const unsigned char *)*from;
    if (at[0] >= 0x80 && ((at[0] & 0xE0) != 0xC0 || (at[1] & 0xC0) != 0x80))
        return -1;
    *from += at[0] < 0x80 ? 1 : 2;
    return at[0] < 0x80 ? at[0] : (at[0] & 0x1F) << 6 | (at[1] & 0x3F);
}

/* Decodes a piece in place, since the decoded bytes are never longer. */
static void decode(const struct loading *loading, char *piece)
{
    unsigned byte;
    char end;
    char *to = piece;
    if (!loading->byte_level && strlen(piece) == 6 && sscanf(piece, "<0x%2X%c", &byte, &end) == 2 &&
        end == '>') {
        piece[0] = (char)byte;
        piece[1] = '\0';
        return;
    }
    for (const char *from = piece; *from;) {
        const char *begin = from;
        const int letter = loading->byte_level ? take_letter(&from) : -1;
        if (letter >= 0 && letter < LETTERS && loading->bytes[letter] >= 0) {
            *to++ = (char)loading->bytes[letter];
        } else if (!loading->byte_level && strncmp(begin, "\xe2\x96\x81", 3) == 0) {
            *to++ = ' ';
            from = begin + 3;
        } else {
            from = from > begin ? from : begin + 1;
            while (begin < from)
                *to++ = *begin++;
        }
    }
    *to = '\0';
}

/* Sets the text of a piece; the text is in the arena. Ignores an id that is out of range. */
static void set_piece_text(struct loading *loading, uint64_t id, const char *piece)
{
    struct ah_tokenizer *tokenizer = loading->tokenizer;
    loading->failed = loading->failed || !piece;
    if (loading->failed || id >= IDS_MAX)
        return;
    tokenizer->texts[id] = piece;
    tokenizer->n = id >= tokenizer->n ? id + 1 : tokenizer->n;
}

static void put_piece(struct loading *loading, uint64_t id, const char *piece)
{
    char *copy = piece ? ah_arena_strdup(&loading->tokenizer->arena, piece) : NULL;
    if (copy)
        decode(loading, copy);
    set_piece_text(loading, id, copy);
}

static void read_vocabulary(struct loading *loading, struct ah_cursor *cursor)
{
    struct ah_arena *arena = &loading->tokenizer->arena;
    uint64_t id = 0;
    if (ah_cursor_enter(cursor, '{')) {
        while (!loading->failed && ah_cursor_next(cursor, '}')) {
            const char *piece = ah_cursor_key(cursor, arena);
            if (ah_cursor_count(cursor, &id))
                put_piece(loading, id, piece);
            else
                ah_cursor_skip(cursor);
        }
    } else if (ah_cursor_enter(cursor, '[')) {
        for (; !loading->failed && ah_cursor_next(cursor, ']'); id++) {
            if (!ah_cursor_enter(cursor, '[')) {
                ah_cursor_skip(cursor);
                continue;
            }
            for (bool first = true; ah_cursor_next(cursor, ']'); first = false)
                if (first && ah_cursor_peek(cursor) == '"')
                    put_piece(loading, id, ah_cursor_text(cursor, arena));
                else
                    ah_cursor_skip(cursor);
        }
    } else {
        ah_cursor_skip(cursor);
    }
}

static void read_model(struct loading *loading, struct ah_cursor *cursor)
{
    if (!ah_cursor_enter(cursor, '{'))
        ah_cursor_skip(cursor);
    else
        while (!loading->failed && ah_cursor_next(cursor, '}')) {
            const char *key = ah_cursor_key(cursor, &loading->tokenizer->arena);
            if (key && strcmp(key, "vocab") == 0)
                read_vocabulary(loading, cursor);
            else
                ah_cursor_skip(cursor);
        }
}

/* Reads [{"id": 5, "content": "<|endoftext|>"}, ...], whose texts are not encoded. */
static void read_added(struct loading *loading, struct ah_cursor *cursor)
{
    struct ah_arena *arena = &loading->tokenizer->arena;
    if (!ah_cursor_enter(cursor, '[')) {
        ah_cursor_skip(cursor);
        return;
    }
    while (!loading->failed && ah_cursor_next(cursor, ']')) {
        const char *content = NULL;
        uint64_t id = UINT64_MAX;
        if (!ah_cursor_enter(cursor, '{')) {
            ah_cursor_skip(cursor);
            continue;
        }
        while (ah_cursor_next(cursor, '}')) {
            const char *key = ah_cursor_key(cursor, arena);
            if (key && strcmp(key, "content") == 0 && ah_cursor_peek(cursor) == '"')
                content = ah_cursor_text(cursor, arena);
            else if (!key || strcmp(key, "id") != 0 || !ah_cursor_count(cursor, &id))
                ah_cursor_skip(cursor);
        }
        if (content)
            set_piece_text(loading, id, content);
    }
}

/* Reads the model, then added tokens. The file has them in the other order, but added tokens override the model's. */
static void read_all(struct loading *loading, const struct ah_buffer *text)
{
    for (int pass = 0; pass < 2; pass++) {
        struct ah_cursor cursor = {text->data, text->data + text->size};
        if (!ah_cursor_enter(&cursor, '{'))
            return;
        while (!loading->failed && ah_cursor_next(&cursor, '}')) {
            const char *key = ah_cursor_key(&cursor, &loading->tokenizer->arena);
            if (key && !pass && strcmp(key, "model") == 0)
                read_model(loading, &cursor);
            else if (key && pass && strcmp(key, "added_tokens") == 0)
                read_added(loading, &cursor);
            else
                ah_cursor_skip(&cursor);
        }
    }
}

static int parse_vocabulary(struct ah_tokenizer *tokenizer, const char *path, const struct ah_buffer *text,
                            struct ah_error *err)
{
    char shown[AH_DOCUMENT_NAME_MAX];
    const char *name = ah_document_short_name(path, shown);
    struct loading loading = {.tokenizer = tokenizer,
                              .byte_level = strstr(text->data, "\"ByteLevel\"") != NULL};
    int rc = ah_json_scan(&(struct ah_json_source){name, text->data, text->size, 1}, err);
    if (rc)
        return rc;
    set_letters(loading.bytes);
    tokenizer->texts = ah_arena_array(&tokenizer->arena, IDS_MAX, sizeof *tokenizer->texts);
    loading.failed = !tokenizer->texts;
    read_all(&loading, text);
    if (loading.failed)
        return ah_error_memory(err);
    return tokenizer->n
               ? AH_OK
               : ah_error_set(err, AH_E_DOCUMENT,
                              "%s: holds no vocabulary ('model.vocab'); name a tokenizer.json", name);
}

int ah_tokenizer_load(struct ah_tokenizer *ret_tokenizer, const char *path, struct ah_error *err)
{
    char inside[PATH_MAX];
    struct stat about;
    struct ah_buffer text = {0};
    *ret_tokenizer = (struct ah_tokenizer){0};
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) {
        if (snprintf(inside, sizeof inside, "%s/tokenizer.json", path) >= (int)sizeof inside)
            return ah_error_set(err, AH_E_IO, "%.64s...: the name is too long", path);
        path = inside;
    }
    int rc = ah_file_check_regular(path, err);
    rc = rc ? rc : ah_file_read(path, FILE_MAX_BYTES, &text, err);
    rc = rc ? rc : parse_vocabulary(ret_tokenizer, path, &text, err);
    ah_buffer_release(&text);
    if (rc)
        ah_tokenizer_release(ret_tokenizer);
    return rc;
}

const char *ah_tokenizer_text(const struct ah_tokenizer *tokenizer, uint64_t id)
{
    return id < tokenizer->n ? tokenizer->texts[id] : NULL;
}

void ah_tokenizer_release(struct ah_tokenizer *tokenizer)
{
    ah_arena_release(&tokenizer->arena);
    *tokenizer = (struct ah_tokenizer){0};
}
