/* SPDX-License-Identifier: Apache-2.0
 *
 * Byte-pair encoding: a word's symbols are merged, the pair of the lowest rank first, the leftmost of equal ones, until
 * no pair can be merged. Symbols are a linked list; a heap has the pairs. A pair in the heap may be outdated: then its
 * symbols are not what they were, and it is passed over. Places in the list have 32 bits, so a word has fewer bytes
 * than NOBODY.
 *
 * Source: Word::merge_all() and BPE::merge_word() of huggingface/tokenizers.
 */
#include "runtime/text/text_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOBODY UINT32_MAX

struct symbol {
    uint32_t id, before, after; /* neighbours; NOBODY: none */
};

/* A pair that can be merged: its left symbol, and what it becomes. */
struct pair {
    uint32_t rank, left, id;
    uint32_t left_id, right_id;
};

struct ah_text_bpe {
    struct symbol *symbols; /* owned */
    size_t n, room;
    struct pair *heap; /* owned; the lowest rank first, then the leftmost */
    size_t n_heap, heap_room;
};

int ah_text_bpe_new(struct ah_text_bpe **ret_bpe, struct ah_error *err)
{
    *ret_bpe = calloc(1, sizeof **ret_bpe);
    return *ret_bpe ? AH_OK : ah_error_memory(err);
}

void ah_text_bpe_free(struct ah_text_bpe *bpe)
{
    if (!bpe)
        return;
    free(bpe->symbols);
    free(bpe->heap);
    free(bpe);
}

/* ---- symbols ---- */

static bool add_symbol(struct ah_text_bpe *bpe, uint32_t id)
{
    if (bpe->n == bpe->room) {
        const size_t room = bpe->room ? 2 * bpe->room : 64;
        struct symbol *grown = realloc(bpe->symbols, room * sizeof *grown);
        if (!grown)
            return false;
        bpe->symbols = grown;
        bpe->room = room;
    }
    bpe->symbols[bpe->n] = (struct symbol){id, bpe->n ? (uint32_t)bpe->n - 1 : NOBODY, NOBODY};
    if (bpe->n)
        bpe->symbols[bpe->n - 1].after = (uint32_t)bpe->n;
    bpe->n++;
    return true;
}

/* Adds the bytes of a character that no piece has. Returns false in `ret_known` if one of them is no piece. */
static bool add_bytes(struct ah_text_bpe *bpe, const struct ah_text_tokenizer *tokenizer,
                      struct ah_text_piece letter, bool *ret_known)
{
    *ret_known = true;
    for (size_t i = 0; i < letter.size; i++)
        *ret_known &= tokenizer->byte_ids[(unsigned char)letter.at[i]] != AH_TEXT_NONE;
    bool added = true;
    for (size_t i = 0; i < letter.size && *ret_known && added; i++)
        added = add_symbol(bpe, tokenizer->byte_ids[(unsigned char)letter.at[i]]);
    return added;
}

/* Makes the symbols of a word of characters. */
static bool add_letters(struct ah_text_bpe *bpe, const struct ah_text_tokenizer *tokenizer,
                        struct ah_text_piece word)
{
    bool after_unknown = false, added = true;
    for (size_t at = 0, size; at < word.size && added; at += size) {
        size = ah_text_letter(word.at + at);
        const struct ah_text_piece letter = {word.at + at, size};
        const uint32_t id = ah_text_vocabulary_find(&tokenizer->vocabulary, letter);
        bool known = id != AH_TEXT_NONE;
        if (known)
            added = add_symbol(bpe, id);
        else if (tokenizer->byte_fallback)
            added = add_bytes(bpe, tokenizer, letter, &known);
        if (!known && tokenizer->unknown != AH_TEXT_NONE && !(after_unknown && tokenizer->fuses_unknown))
            added = add_symbol(bpe, tokenizer->unknown);
        after_unknown = !known;
    }
    return added;
}

static bool add_word(struct ah_text_bpe *bpe, const struct ah_text_tokenizer *tokenizer,
                     struct ah_text_piece word)
{
    if (!tokenizer->on_bytes)
        return add_letters(bpe, tokenizer, word);
    bool added = true;
    for (size_t i = 0; i < word.size && added; i++) {
        const uint32_t id = tokenizer->letter_ids[(unsigned char)word.at[i]];
        if (id != AH_TEXT_NONE)
            added = add_symbol(bpe, id);
        else if (tokenizer->unknown != AH_TEXT_NONE)
            added = add_symbol(bpe, tokenizer->unknown);
    }
    return added;
}

/* ---- the heap ---- */

static bool comes_before(const struct pair *a, const struct pair *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->left < b->left;
}

static bool push(struct ah_text_bpe *bpe, const struct ah_text_tokenizer *tokenizer, uint32_t left)
{
    const struct symbol *symbol = &bpe->symbols[left];
    if (symbol->after == NOBODY)
        return true;
    const uint32_t right_id = bpe->symbols[symbol->after].id;
    const struct ah_text_merge *merge = ah_text_merges_find(&tokenizer->merges, symbol->id, right_id);
    if (!merge)
        return true;
    if (bpe->n_heap == bpe->heap_room) {
        const size_t room = bpe->heap_room ? 2 * bpe->heap_room : 64;
        struct pair *grown = realloc(bpe->heap, room * sizeof *grown);
        if (!grown)
            return false;
        bpe->heap = grown;
        bpe->heap_room = room;
    }
    const struct pair pair = {merge->rank, left, merge->id, symbol->id, right_id};
    size_t at = bpe->n_heap++;
    for (; at && comes_before(&pair, &bpe->heap[(at - 1) / 2]); at = (at - 1) / 2)
        bpe->heap[at] = bpe->heap[(at - 1) / 2];
    bpe->heap[at] = pair;
    return true;
}

static struct pair pop(struct ah_text_bpe *bpe)
{
    const struct pair top = bpe->heap[0], last = bpe->heap[--bpe->n_heap];
    size_t at = 0, child;
    while ((child = 2 * at + 1) < bpe->n_heap) {
        child += child + 1 < bpe->n_heap && comes_before(&bpe->heap[child + 1], &bpe->heap[child]);
        if (!comes_before(&bpe->heap[child], &last))
            break;
        bpe->heap[at] = bpe->heap[child];
        at = child;
    }
    bpe->heap[at] = last;
    return top;
}

/* ---- merging ---- */

/* True if the pair's symbols are still what they were. */
static bool stands(const struct ah_text_bpe *bpe, const struct pair *pair)
{
    const struct symbol *left = &bpe->symbols[pair->left];
    return left->id == pair->left_id && left->after != NOBODY &&
           bpe->symbols[left->after].id == pair->right_id;
}

static bool merge_all(struct ah_text_bpe *bpe, const struct ah_text_tokenizer *tokenizer)
{
    bool done = true;
    bpe->n_heap = 0;
    for (uint32_t i = 0; i < bpe->n && done; i++)
        done = push(bpe, tokenizer, i);
    while (bpe->n_heap && done) {
        const struct pair pair = pop(bpe);
        if (!stands(bpe, &pair))
            continue;
        struct symbol *left = &bpe->symbols[pair.left], *right = &bpe->symbols[left->after];
        left->id = pair.id;
        left->after = right->after;
        right->id = AH_TEXT_NONE; /* it is gone */
        if (left->after != NOBODY)
            bpe->symbols[left->after].before = pair.left;
        done =
            push(bpe, tokenizer, pair.left) && (left->before == NOBODY || push(bpe, tokenizer, left->before));
    }
    return done;
}

int ah_text_bpe_word(struct ah_text_bpe *bpe, const struct ah_text_tokenizer *tokenizer,
                     struct ah_text_piece word, struct ah_text_ids *ids, struct ah_error *err)
{
    bpe->n = 0;
    if (!word.size)
        return AH_OK;
    if (word.size >= NOBODY)
        return ah_error_set(
            err, AH_E_UNSUPPORTED,
            "a word of %zu bytes is too long for this tokenizer; split the text into documents of "
            "less than 4 GiB",
            word.size);
    if (!add_word(bpe, tokenizer, word) || !merge_all(bpe, tokenizer))
        return ah_error_memory(err);
    for (uint32_t at = bpe->n ? 0 : NOBODY; at != NOBODY; at = bpe->symbols[at].after)
        if (!ah_text_ids_add(ids, bpe->symbols[at].id))
            return ah_error_memory(err);
    return AH_OK;
}
