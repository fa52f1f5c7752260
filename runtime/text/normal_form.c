/* SPDX-License-Identifier: Apache-2.0
 *
 * Normal forms. Steps follow each other; each reads what the one before has made. Replacements can multiply each
 * other's output, so growth has a limit that no real normalizer meets.
 */
#include "runtime/text/text_internal.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { GROWTH_MOST = 64, GROWTH_BESIDE = 4096, PARTS_MOST = 20 };

static bool is_ascii(struct ah_text_piece text)
{
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.at[i] >= 0x80)
            return false;
    return true;
}

/* ---- NFC ---- */

#define COMPOSING (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE)

/* Characters, a number each. */
struct letters {
    utf8proc_int32_t *items; /* owned */
    size_t n, room;
};

/* Appends the parts of a character. Returns false if there is no memory. */
static bool add_parts(struct letters *letters, utf8proc_int32_t letter)
{
    int bound = 0;
    if (letters->n + PARTS_MOST + 1 > letters->room) { /* one more for utf8proc_reencode() */
        const size_t room = 2 * letters->room + 64;
        utf8proc_int32_t *grown = realloc(letters->items, room * sizeof *grown);
        if (!grown)
            return false;
        letters->items = grown;
        letters->room = room;
    }
    const utf8proc_ssize_t n =
        utf8proc_decompose_char(letter, letters->items + letters->n, PARTS_MOST, COMPOSING, &bound);
    letters->n += n > 0 ? (size_t)n : 0;
    return n > 0 && n <= PARTS_MOST;
}

static unsigned class_of(utf8proc_int32_t letter)
{
    return (unsigned)utf8proc_get_property(letter)->combining_class & 255;
}

/* Sorts marks by their class; equal ones keep their order. */
static bool sort_marks(utf8proc_int32_t *marks, size_t n)
{
    size_t places[257] = {0};
    utf8proc_int32_t *copy = malloc(n * sizeof *copy);
    if (!copy)
        return false;
    memcpy(copy, marks, n * sizeof *copy);
    for (size_t i = 0; i < n; i++)
        places[class_of(copy[i]) + 1]++;
    for (size_t i = 0; i < 256; i++)
        places[i + 1] += places[i];
    for (size_t i = 0; i < n; i++)
        marks[places[class_of(copy[i])]++] = copy[i];
    free(copy);
    return true;
}

/* Puts the marks of each letter in order. utf8proc_decompose() would do it in quadratic time. */
static bool order_marks(struct letters *letters)
{
    bool done = true;
    for (size_t i = 0, end; i < letters->n && done; i = end + 1) {
        bool sorted = true;
        unsigned before = 0, class;
        for (end = i; end < letters->n && (class = class_of(letters->items[end])) != 0; end++) {
            sorted = sorted && before <= class;
            before = class;
        }
        done = sorted || sort_marks(letters->items + i, end - i);
    }
    return done;
}

static bool take_apart(struct ah_text_piece text, struct letters *letters)
{
    utf8proc_int32_t letter = 0;
    bool done = true;
    for (size_t at = 0; at < text.size && done; at += ah_text_letter(text.at + at)) {
        utf8proc_iterate((const utf8proc_uint8_t *)text.at + at, (utf8proc_ssize_t)(text.size - at), &letter);
        done = add_parts(letters, letter);
    }
    return done && order_marks(letters);
}

/* Appends the text in composed form. Text of ASCII is composed. */
static void put_composed(struct ah_text_piece text, struct ah_buffer *out)
{
    struct letters letters = {0};
    if (is_ascii(text)) {
        ah_buffer_append(out, text.at, text.size);
        return;
    }
    const utf8proc_ssize_t size =
        take_apart(text, &letters) ? utf8proc_reencode(letters.items, (utf8proc_ssize_t)letters.n, COMPOSING)
                                   : -1;
    if (size < 0)
        out->failed = true;
    else
        ah_buffer_append(out, (const char *)letters.items, (size_t)size);
    free(letters.items);
}

/* ---- steps ---- */

static void put_replaced(struct ah_text_piece text, const struct ah_text_normal *normal,
                         struct ah_buffer *out)
{
    size_t kept = 0;
    for (size_t at = 0; at + normal->from.size <= text.size;) {
        if (memcmp(text.at + at, normal->from.at, normal->from.size) != 0) {
            at++;
            continue;
        }
        ah_buffer_append(out, text.at + kept, at - kept);
        ah_buffer_append(out, normal->to.at, normal->to.size);
        kept = at += normal->from.size;
    }
    ah_buffer_append(out, text.at + kept, text.size - kept);
}

static void put_step(struct ah_text_piece text, const struct ah_text_normal *normal, struct ah_buffer *out)
{
    switch (normal->kind) {
    case AH_TEXT_NORMAL_NFC:
        put_composed(text, out);
        break;
    case AH_TEXT_NORMAL_PREPEND:
        if (text.size)
            ah_buffer_append(out, normal->to.at, normal->to.size);
        ah_buffer_append(out, text.at, text.size);
        break;
    case AH_TEXT_NORMAL_REPLACE:
        put_replaced(text, normal, out);
        break;
    }
}

int ah_text_normalize(const struct ah_text_tokenizer *tokenizer, struct ah_text_piece text,
                      struct ah_buffer *out, struct ah_error *err)
{
    struct ah_buffer steps[2] = {{0}, {0}};
    const size_t most = GROWTH_MOST * text.size + GROWTH_BESIDE;
    bool grows = false;
    for (size_t i = 0; i < tokenizer->n_normals && !grows; i++) {
        struct ah_buffer *to = i + 1 == tokenizer->n_normals ? out : &steps[i & 1];
        ah_buffer_clear(to);
        put_step(text, &tokenizer->normals[i], to);
        text = (struct ah_text_piece){to->data ? to->data : "", to->size};
        grows = to->failed || to->size > most;
    }
    const bool failed = steps[0].failed || steps[1].failed || out->failed;
    ah_buffer_release(&steps[0]);
    ah_buffer_release(&steps[1]);
    if (!failed && grows)
        return ah_error_set(err, AH_E_UNSUPPORTED,
                            "the tokenizer's normalizers make this text more than 64 times as long");
    return failed ? ah_error_memory(err) : AH_OK;
}
