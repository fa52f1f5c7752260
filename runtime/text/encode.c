/* SPDX-License-Identifier: Apache-2.0
 *
 * Encodes text: added tokens of the text as it is, then normal forms of what lies between them, then added tokens of
 * those, then words, then tokens.
 *
 * Source: TokenizerImpl::encode() and AddedVocabulary::extract_and_normalize() of huggingface/tokenizers.
 */
#include "runtime/text/text_internal.h"

#include <stdlib.h>

struct encoding {
    const struct ah_text_tokenizer *tokenizer;
    struct ah_text_bpe *bpe;
    struct ah_text_ids *ids;
    struct ah_buffer normal; /* of the text in hand */
};

bool ah_text_ids_add(struct ah_text_ids *ids, uint32_t id)
{
    if (ids->n == ids->room) {
        const size_t room = ids->room ? 2 * ids->room : 256;
        uint32_t *grown = realloc(ids->items, room * sizeof *grown);
        if (!grown)
            return false;
        ids->items = grown;
        ids->room = room;
    }
    ids->items[ids->n++] = id;
    return true;
}

void ah_text_ids_release(struct ah_text_ids *ids)
{
    free(ids->items);
    *ids = (struct ah_text_ids){0};
}

/* Returns the id of a word that is a piece; AH_TEXT_NONE: it is none. Words of bytes are spelled as letters. */
static uint32_t id_of_word(const struct ah_text_tokenizer *tokenizer, struct ah_text_piece word)
{
    char spelled[512];
    size_t size = 0;
    if (!tokenizer->on_bytes)
        return ah_text_vocabulary_find(&tokenizer->vocabulary, word);
    if (2 * word.size > sizeof spelled)
        return AH_TEXT_NONE;
    for (size_t i = 0; i < word.size; i++) {
        const uint32_t letter = ah_text_byte_letter((unsigned char)word.at[i]);
        if (letter >= 0x80)
            spelled[size++] = (char)(0xC0 | letter >> 6);
        spelled[size++] = (char)(letter >= 0x80 ? 0x80 | (letter & 0x3F) : letter);
    }
    return ah_text_vocabulary_find(&tokenizer->vocabulary, (struct ah_text_piece){spelled, size});
}

static int take_word(void *context, struct ah_text_piece word, struct ah_error *err)
{
    struct encoding *encoding = context;
    const uint32_t id =
        encoding->tokenizer->whole_words ? id_of_word(encoding->tokenizer, word) : AH_TEXT_NONE;
    if (id == AH_TEXT_NONE)
        return ah_text_bpe_word(encoding->bpe, encoding->tokenizer, word, encoding->ids, err);
    return ah_text_ids_add(encoding->ids, id) ? AH_OK : ah_error_memory(err);
}

static int encode_plain(struct encoding *encoding, struct ah_text_piece text, bool first,
                        struct ah_error *err)
{
    return ah_text_split(encoding->tokenizer, text, first, take_word, encoding, err);
}

/* Encodes a text between added tokens. `first`: nothing is before it. */
static int encode_between(struct encoding *encoding, struct ah_text_piece text, bool first,
                          struct ah_error *err)
{
    if (!text.size)
        return AH_OK;
    if (encoding->tokenizer->n_normals) {
        const int rc = ah_text_normalize(encoding->tokenizer, text, &encoding->normal, err);
        if (rc)
            return rc;
        text = (struct ah_text_piece){encoding->normal.data, encoding->normal.size};
    }
    int rc = AH_OK;
    for (size_t at = 0; at < text.size && !rc;) {
        const struct ah_text_found found = ah_text_added_find(encoding->tokenizer, text, at, true);
        rc =
            encode_plain(encoding, (struct ah_text_piece){text.at + at, found.begin - at}, first && !at, err);
        if (!rc && found.token && !ah_text_ids_add(encoding->ids, found.token->id))
            rc = ah_error_memory(err);
        at = found.end;
    }
    return rc;
}

int ah_text_encode(const struct ah_text_tokenizer *tokenizer, const char *text, size_t size,
                   struct ah_text_ids *ids, struct ah_error *err)
{
    struct encoding encoding = {.tokenizer = tokenizer, .ids = ids};
    const struct ah_text_piece whole = {text, size};
    int rc = ah_text_bpe_new(&encoding.bpe, err);
    for (size_t at = 0; at < size && !rc;) {
        const struct ah_text_found found = ah_text_added_find(tokenizer, whole, at, false);
        rc = encode_between(&encoding, (struct ah_text_piece){text + at, found.begin - at}, !at, err);
        if (!rc && found.token && !ah_text_ids_add(ids, found.token->id))
            rc = ah_error_memory(err);
        at = found.end;
    }
    ah_text_bpe_free(encoding.bpe);
    ah_buffer_release(&encoding.normal);
    return rc;
}
