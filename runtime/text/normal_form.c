/* SPDX-License-Identifier: Apache-2.0
 *
 * Normal forms. Steps follow each other; each reads what the one before has made.
 */
#include "runtime/text/text_internal.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static bool is_ascii(struct ah_text_piece text)
{
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.at[i] >= 0x80)
            return false;
    return true;
}

/* Appends the text in composed form. Text of ASCII is composed. */
static void put_composed(struct ah_text_piece text, struct ah_buffer *out)
{
    utf8proc_uint8_t *composed = NULL;
    if (is_ascii(text)) {
        ah_buffer_append(out, text.at, text.size);
        return;
    }
    const utf8proc_ssize_t size =
        utf8proc_map((const utf8proc_uint8_t *)text.at, (utf8proc_ssize_t)text.size, &composed,
                     (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    if (size < 0)
        out->failed = true;
    else
        ah_buffer_append(out, (const char *)composed, (size_t)size);
    free(composed);
}

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
    for (size_t i = 0; i < tokenizer->n_normals; i++) {
        struct ah_buffer *to = i + 1 == tokenizer->n_normals ? out : &steps[i & 1];
        ah_buffer_clear(to);
        put_step(text, &tokenizer->normals[i], to);
        text = (struct ah_text_piece){to->data ? to->data : "", to->size};
        if (to->failed)
            break;
    }
    const bool failed = steps[0].failed || steps[1].failed || out->failed;
    ah_buffer_release(&steps[0]);
    ah_buffer_release(&steps[1]);
    return failed ? ah_error_memory(err) : AH_OK;
}
