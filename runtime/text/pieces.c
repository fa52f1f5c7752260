/* SPDX-License-Identifier: Apache-2.0
 *
 * Hash tables with open addressing, at most half full.
 */
#include "runtime/text/text_internal.h"

#include <string.h>

static size_t slots_for(size_t n)
{
    size_t slots = 16;
    while (slots < 2 * n + 2)
        slots *= 2;
    return slots;
}

static uint64_t hash_piece(struct ah_text_piece piece)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (size_t i = 0; i < piece.size; i++)
        hash = (hash ^ (unsigned char)piece.at[i]) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 29;
}

bool ah_text_vocabulary_init(struct ah_text_vocabulary *vocabulary, struct ah_arena *arena, size_t n)
{
    const size_t slots = slots_for(n);
    *vocabulary = (struct ah_text_vocabulary){.room = n, .mask = slots - 1};
    vocabulary->pieces = ah_arena_array(arena, n + 1, sizeof *vocabulary->pieces);
    vocabulary->ids = ah_arena_array(arena, n + 1, sizeof *vocabulary->ids);
    vocabulary->slots = ah_arena_array(arena, slots, sizeof *vocabulary->slots);
    return vocabulary->pieces && vocabulary->ids && vocabulary->slots;
}

static uint32_t *slot_of(const struct ah_text_vocabulary *vocabulary, struct ah_text_piece piece)
{
    size_t at = hash_piece(piece) & vocabulary->mask;
    for (; vocabulary->slots[at]; at = (at + 1) & vocabulary->mask) {
        const struct ah_text_piece *has = &vocabulary->pieces[vocabulary->slots[at] - 1];
        if (has->size == piece.size && memcmp(has->at, piece.at, piece.size) == 0)
            break;
    }
    return &vocabulary->slots[at];
}

void ah_text_vocabulary_add(struct ah_text_vocabulary *vocabulary, struct ah_text_piece piece, uint32_t id)
{
    uint32_t *slot = slot_of(vocabulary, piece);
    if (!*slot) {
        vocabulary->pieces[vocabulary->n] = piece;
        *slot = (uint32_t)++vocabulary->n;
    }
    vocabulary->ids[*slot - 1] = id;
}

uint32_t ah_text_vocabulary_find(const struct ah_text_vocabulary *vocabulary, struct ah_text_piece piece)
{
    const uint32_t slot = *slot_of(vocabulary, piece);
    return slot ? vocabulary->ids[slot - 1] : AH_TEXT_NONE;
}

bool ah_text_merges_init(struct ah_text_merges *merges, struct ah_arena *arena, size_t n)
{
    const size_t slots = slots_for(n);
    *merges = (struct ah_text_merges){.mask = slots - 1};
    merges->items = ah_arena_array(arena, slots, sizeof *merges->items);
    for (size_t i = 0; merges->items && i < slots; i++)
        merges->items[i].id = AH_TEXT_NONE;
    return merges->items != NULL;
}

static struct ah_text_merge *place_of(const struct ah_text_merges *merges, uint32_t left, uint32_t right)
{
    const uint64_t pair = (uint64_t)left << 32 | right;
    size_t at = (pair * UINT64_C(0x9e3779b97f4a7c15) >> 32) & merges->mask;
    while (merges->items[at].id != AH_TEXT_NONE &&
           (merges->items[at].left != left || merges->items[at].right != right))
        at = (at + 1) & merges->mask;
    return &merges->items[at];
}

void ah_text_merges_add(struct ah_text_merges *merges, const struct ah_text_merge *merge)
{
    struct ah_text_merge *place = place_of(merges, merge->left, merge->right);
    merges->n += place->id == AH_TEXT_NONE;
    *place = *merge;
}

const struct ah_text_merge *ah_text_merges_find(const struct ah_text_merges *merges, uint32_t left,
                                                uint32_t right)
{
    const struct ah_text_merge *place = place_of(merges, left, right);
    return place->id == AH_TEXT_NONE ? NULL : place;
}
