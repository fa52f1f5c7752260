/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory inside an op: chooses the tensors that a block saves, and the offsets of scratch.
 *
 * SAVED. keep saves every tensor that forward writes and backward reads. selective drops those that cheap steps can
 * recompute from the remaining ones. So selective never saves more than keep.
 *
 * SCRATCH. A tensor's lifetime lasts from the first step that touches it to the last. It includes the whole loop over
 * chunks if that touches the tensor and the tensor outlives a chunk. Each tensor gets the lowest offset where it
 * overlaps no tensor alive at the same time. The result depends on the order of tensors, so a few orders are tried and
 * the lowest peak is taken. In the tests, it equals the largest sum of bytes alive at one step, a lower bound.
 */
#include "runtime/schedule/program_internal.h"

#include "runtime/schedule/layout.h"

#include <string.h>

static uint64_t align(uint64_t bytes)
{
    return (bytes + AH_LAYOUT_ALIGN - 1) / AH_LAYOUT_ALIGN * AH_LAYOUT_ALIGN;
}

/* ---- saved ---- */

static bool reads(const struct node *node, size_t place)
{
    for (size_t i = 0; i < AH_OP_ARGS; i++)
        if (node->step.place[i] == place && (node->role[i] == AH_ROLE_IN || node->role[i] == AH_ROLE_INOUT))
            return true;
    return false;
}

static bool writes(const struct node *node, size_t place)
{
    for (size_t i = 0; i < AH_OP_ARGS; i++)
        if (node->step.place[i] == place && (node->role[i] == AH_ROLE_OUT || node->role[i] == AH_ROLE_INOUT))
            return true;
    return false;
}

static bool is_intermediate(size_t place)
{
    return place < TENSORS && ah_program_tensor_rules[place].home == AH_HOME_SCRATCH;
}

static void find_kept(struct ah_program_block *block, bool *kept)
{
    for (size_t tensor = 0; tensor < TENSORS; tensor++) {
        bool made = false, used = false;
        for (size_t i = 0; i < block->forward.n; i++)
            made |= writes(&block->forward.nodes[i], tensor);
        for (size_t i = 0; i < block->backward.n; i++)
            used |= reads(&block->backward.nodes[i], tensor);
        kept[tensor] = made && used && is_intermediate(tensor);
    }
}

/* True if backward can repeat this step: it is cheap, and every intermediate tensor that it only reads is kept. */
static bool is_repeatable(const struct node *node, const bool *kept)
{
    if (!node->rule->cheap)
        return false;
    for (size_t i = 0; i < AH_OP_ARGS; i++) {
        size_t place = node->step.place[i];
        if (node->role[i] == AH_ROLE_IN && is_intermediate(place) && !kept[place])
            return false;
    }
    return true;
}

/* True if `selective` may drop the tensor. A norm's small statistics are dropped only together with its result. */
static bool is_droppable(const struct ah_program_block *block, size_t tensor, const bool *kept)
{
    bool droppable = kept[tensor];
    for (size_t i = 0; i < block->forward.n && droppable; i++) {
        const struct node *node = &block->forward.nodes[i];
        size_t result = node->step.place[0];
        if (writes(node, tensor))
            droppable = is_repeatable(node, kept) && (result == tensor || is_droppable(block, result, kept));
    }
    return droppable;
}

void ah_program_memory_choose(struct ah_program_block *block)
{
    bool *kept = block->saved[AH_ACTIVATIONS_KEEP];
    find_kept(block, kept);
    for (size_t tensor = 0; tensor < TENSORS; tensor++)
        block->saved[AH_ACTIVATIONS_SELECTIVE][tensor] = kept[tensor] && !is_droppable(block, tensor, kept);
    memset(block->saved[AH_ACTIVATIONS_RECOMPUTE], 0, sizeof block->saved[AH_ACTIVATIONS_RECOMPUTE]);
}

uint64_t ah_program_memory_saved(const struct ah_program_block *block, enum ah_activations activations,
                                 uint64_t *ret_offsets)
{
    uint64_t bytes = 0;
    for (size_t tensor = 0; tensor < TENSORS; tensor++) {
        if (!block->saved[activations][tensor])
            continue;
        ret_offsets[tensor] = bytes;
        bytes += align(ah_program_tensor_bytes(&block->context, (enum tensor)tensor));
    }
    return bytes;
}

/* ---- scratch ---- */

struct piece {
    uint64_t bytes;
    uint64_t offset;
    uint32_t from, to; /* first and last step of its lifetime */
    uint8_t place;
    bool placed;
};

struct pieces {
    struct piece of[AH_PROGRAM_PLACES_MAX];
    size_t n;
};

static void touch(struct piece *piece, uint32_t from, uint32_t to)
{
    piece->from = from < piece->from ? from : piece->from;
    piece->to = to > piece->to ? to : piece->to;
}

/* The first and last step of the loop over chunks. If there is no loop, or it runs once, `first` > `last`. */
struct loop {
    uint32_t first, last;
};

static struct loop find_loop(const struct ah_program *program)
{
    struct loop loop = {UINT32_MAX, 0};
    uint64_t turns = 0;
    for (uint32_t i = 0; i < program->n_ops; i++) {
        if (!program->ops[i].in_loop)
            continue;
        loop.first = i < loop.first ? i : loop.first;
        loop.last = i;
        if (program->ops[i].op.kind == AH_OP_CROSS_ENTROPY)
            turns += program->ops[i].times;
    }
    return turns > 1 ? loop : (struct loop){1, 0};
}

/* Finds the lifetime of a place. Returns false if the place is not scratch or no step touches it. */
static bool piece_of(const struct ah_program *program, struct loop loop, size_t place,
                     struct piece *ret_piece)
{
    bool touched = false;
    struct piece piece = {
        .bytes = align(program->places[place].bytes), .from = UINT32_MAX, .place = (uint8_t)place};
    bool of_chunk = place < TENSORS && ah_program_tensor_rules[place].rows == CHUNK;
    for (uint32_t i = 0; i < program->n_ops; i++)
        for (size_t arg = 0; arg < AH_OP_ARGS; arg++) {
            if (program->ops[i].place[arg] != place)
                continue;
            touched = true;
            touch(&piece, i, i);
            if (!of_chunk && i >= loop.first && i <= loop.last)
                touch(&piece, loop.first, loop.last);
        }
    *ret_piece = piece;
    return touched && program->places[place].home == AH_HOME_SCRATCH;
}

static bool lives_overlap(const struct piece *a, const struct piece *b)
{
    return a->from <= b->to && b->from <= a->to;
}

/* Returns the lowest offset at which `piece` overlaps no placed piece alive at the same time. */
static uint64_t lowest_offset(const struct pieces *pieces, const struct piece *piece)
{
    uint64_t offset = 0;
    bool moved = true;
    while (moved) {
        moved = false;
        for (size_t i = 0; i < pieces->n; i++) {
            const struct piece *other = &pieces->of[i];
            bool disjoint = offset + piece->bytes <= other->offset || other->offset + other->bytes <= offset;
            if (!other->placed || disjoint || !lives_overlap(piece, other))
                continue;
            offset = other->offset + other->bytes;
            moved = true;
        }
    }
    return offset;
}

typedef bool before_fn(const struct piece *a, const struct piece *b);

static bool born_before(const struct piece *a, const struct piece *b)
{
    return a->from != b->from ? a->from < b->from : a->bytes > b->bytes;
}

static bool larger(const struct piece *a, const struct piece *b)
{
    return a->bytes != b->bytes ? a->bytes > b->bytes : a->from < b->from;
}

/* Sorts by insertion, because there are only a few dozen pieces. */
static void sort_pieces(struct pieces *pieces, before_fn *before)
{
    for (size_t i = 1; i < pieces->n; i++) {
        struct piece piece = pieces->of[i];
        size_t at = i;
        for (; at > 0 && before(&piece, &pieces->of[at - 1]); at--)
            pieces->of[at] = pieces->of[at - 1];
        pieces->of[at] = piece;
    }
}

static uint64_t fit_first(struct pieces *pieces, before_fn *before)
{
    uint64_t peak = 0;
    sort_pieces(pieces, before);
    for (size_t i = 0; i < pieces->n; i++)
        pieces->of[i].placed = false;
    for (size_t i = 0; i < pieces->n; i++) {
        struct piece *piece = &pieces->of[i];
        piece->offset = lowest_offset(pieces, piece);
        piece->placed = true;
        peak = piece->offset + piece->bytes > peak ? piece->offset + piece->bytes : peak;
    }
    return peak;
}

static bool lives_longer(const struct piece *a, const struct piece *b)
{
    uint32_t as = a->to - a->from, bs = b->to - b->from;
    return as != bs ? as > bs : a->bytes > b->bytes;
}

/* True if `a` is sorted before `b`: it has the later last step or, if those are equal, more bytes. */
static bool dies_after(const struct piece *a, const struct piece *b)
{
    return a->to != b->to ? a->to > b->to : a->bytes > b->bytes;
}

void ah_program_memory_place(struct ah_program *program)
{
    static before_fn *const orders[] = {born_before, larger, lives_longer, dies_after};
    struct pieces pieces = {.n = 0};
    struct loop loop = find_loop(program);
    for (size_t place = 0; place < program->n_places; place++)
        pieces.n += piece_of(program, loop, place, &pieces.of[pieces.n]);
    program->scratch_bytes = UINT64_MAX;
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        uint64_t peak = fit_first(&pieces, orders[i]);
        if (peak >= program->scratch_bytes)
            continue;
        program->scratch_bytes = peak;
        for (size_t at = 0; at < pieces.n; at++)
            program->places[pieces.of[at].place].offset_bytes = pieces.of[at].offset;
    }
}
