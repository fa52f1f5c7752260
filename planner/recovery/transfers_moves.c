/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of moves. For each role it has the shards that are not kept, as ranges of blocks, slices and kinds from one
 * source. A range begins with the first shard outside all ranges so far. It takes all kinds of that block and slice
 * with the same source, then further slices, then further blocks, as long as all of these have that source.
 */
#include "planner/recovery/transfers_internal.h"

#include <stdlib.h>
#include <string.h>

struct listing {
    struct ah_transfers *f;
    struct ah_moves *moves;
    size_t room;
    struct ah_transfers_source *sources; /* by shard: its source for one role */
};

static bool same_source(const struct ah_transfers_source *a, const struct ah_transfers_source *b)
{
    return a->there && b->there && a->relayed == b->relayed && a->tier == b->tier && a->medium == b->medium &&
           a->node == b->node && a->gpu == b->gpu && a->via == b->via;
}

/* Returns a source on the role's own node: a GPU, or the host. */
static struct ah_transfers_source inside(const struct ah_gpu_role *role, enum ah_medium medium, uint64_t gpu,
                                         bool relayed)
{
    return (struct ah_transfers_source){.there = true,
                                        .relayed = relayed,
                                        .tier = AH_TIER_NODE,
                                        .medium = medium,
                                        .node = role->node,
                                        .gpu = medium == AH_MEDIUM_GPU ? gpu : AH_INVENTORY_NO_GPU};
}

/* Returns a shard's source for one role. The node's first role gets it from outside, the others from that role. */
static struct ah_transfers_source source_of(struct listing *l, size_t r, size_t shard)
{
    const struct ah_transfers *f = l->f;
    const struct ah_gpu_role *role = &f->roles.items[r];
    struct ah_transfers_view *view = ah_transfers_view(f, role->node, shard);
    if (view->holder) {
        const struct ah_holder *holder = &f->input->holders->entries[view->holder - 1];
        return inside(role, holder->medium, holder->gpu, false);
    }
    if (view->taker) {
        const struct ah_gpu_role *taker = &f->roles.items[view->taker - 1];
        bool gpu = ah_role_destination(taker, f->input->states, shard) == AH_DESTINATION_GPU;
        return inside(role, gpu ? AH_MEDIUM_GPU : AH_MEDIUM_HOST, taker->gpu, true);
    }
    view->taker = (uint32_t)(r + 1);
    struct ah_transfers_source source = view->by;
    source.node = source.tier == AH_TIER_DISK ? role->node : source.node;
    return source;
}

static void find_sources(struct listing *l, size_t r)
{
    const struct ah_transfers *f = l->f;
    const struct ah_gpu_role *role = &f->roles.items[r];
    const struct ah_states *states = f->input->states;
    memset(l->sources, 0, f->n_shards * sizeof *l->sources);
    for (size_t shard = 0; shard < f->n_shards; shard++)
        if (ah_states_bytes(states, shard) && ah_role_needs(role, states, shard) &&
            !ah_role_kept(role, states, f->input->holders, shard))
            l->sources[shard] = source_of(l, r, shard);
}

/* ---- ranges ---- */

struct range {
    size_t first_row, end_row, first_slice, end_slice;
    bool kinds[AH_SHARD_KINDS];
    enum ah_destination place;
    struct ah_transfers_source source;
};

static bool fits(const struct listing *l, const struct ah_gpu_role *role, const struct range *range,
                 size_t shard)
{
    return same_source(&l->sources[shard], &range->source) &&
           ah_role_destination(role, l->f->input->states, shard) == range->place;
}

static bool slice_fits(const struct listing *l, const struct ah_gpu_role *role, const struct range *range,
                       size_t row, size_t slice)
{
    for (unsigned k = 0; k < AH_SHARD_KINDS; k++) {
        const struct ah_shard shard = {row, slice, (enum ah_shard_kind)k};
        if (range->kinds[k] && !fits(l, role, range, ah_states_index(l->f->input->states, shard)))
            return false;
    }
    return true;
}

static bool row_fits(const struct listing *l, const struct ah_gpu_role *role, const struct range *range,
                     size_t row)
{
    for (size_t slice = range->first_slice; slice < range->end_slice; slice++)
        if (!slice_fits(l, role, range, row, slice))
            return false;
    return true;
}

static struct range grow_range(const struct listing *l, const struct ah_gpu_role *role, size_t shard)
{
    const struct ah_states *states = l->f->input->states;
    struct ah_shard at = ah_states_shard(states, shard);
    struct range range = {.first_row = at.row,
                          .end_row = at.row + 1,
                          .first_slice = at.slice,
                          .end_slice = at.slice + 1,
                          .place = ah_role_destination(role, states, shard),
                          .source = l->sources[shard]};
    for (unsigned k = 0; k < AH_SHARD_KINDS; k++) {
        const struct ah_shard other = {at.row, at.slice, (enum ah_shard_kind)k};
        range.kinds[k] = fits(l, role, &range, ah_states_index(states, other));
    }
    while (range.end_slice < states->slices && slice_fits(l, role, &range, at.row, range.end_slice))
        range.end_slice++;
    bool table = at.row == states->n_blocks; /* the tied table is always a separate range */
    while (!table && range.end_row < states->n_blocks && row_fits(l, role, &range, range.end_row))
        range.end_row++;
    return range;
}

/* Marks the shards of a range as listed; returns their bytes. */
static uint64_t empty(struct listing *l, const struct range *range)
{
    const struct ah_states *states = l->f->input->states;
    uint64_t bytes = 0;
    for (size_t row = range->first_row; row < range->end_row; row++)
        for (size_t slice = range->first_slice; slice < range->end_slice; slice++)
            for (unsigned k = 0; k < AH_SHARD_KINDS; k++) {
                if (!range->kinds[k])
                    continue;
                const struct ah_shard at = {row, slice, (enum ah_shard_kind)k};
                size_t shard = ah_states_index(states, at);
                l->sources[shard].there = false;
                bytes += ah_states_bytes(states, shard);
            }
    return bytes;
}

/* ---- moves ---- */

static struct ah_move *new_move(struct listing *l)
{
    struct ah_moves *moves = l->moves;
    if (moves->n_moves == l->room) {
        size_t room = l->room ? 2 * l->room : 64;
        struct ah_move *more = ah_arena_array(l->f->arena, room, sizeof *more);
        if (!more)
            return NULL;
        if (moves->n_moves)
            memcpy(more, moves->moves, moves->n_moves * sizeof *more);
        moves->moves = more;
        l->room = room;
    }
    return &moves->moves[moves->n_moves++];
}

static void add_bytes(struct ah_moves_bytes *bytes, enum ah_tier tier, uint64_t moved)
{
    uint64_t *const tiers[AH_TIERS] = {&bytes->node, &bytes->disk, &bytes->peer, &bytes->storage};
    *tiers[tier] += moved;
}

static bool put_move(struct listing *l, const struct ah_gpu_role *role, const struct range *range)
{
    const struct ah_transfers_input *input = l->f->input;
    const struct ah_transfers_source *source = &range->source;
    bool tied = range->first_row == input->states->n_blocks;
    struct ah_move *move = new_move(l);
    unsigned *kinds = ah_arena_array(l->f->arena, AH_SHARD_KINDS, sizeof *kinds);
    if (!move || !kinds)
        return false;
    *move = (struct ah_move){.rank = role->rank,
                             .place = range->place,
                             .first_block = tied ? 0 : range->first_row,
                             .blocks = range->end_row - range->first_row,
                             .tied = tied,
                             .first_slice = range->first_slice,
                             .slices = range->end_slice - range->first_slice,
                             .kinds = kinds,
                             .tier = source->tier,
                             .medium = source->medium,
                             .node = source->tier == AH_TIER_STORAGE ? NULL
                                                                     : input->cluster->nodes[source->node].id,
                             .gpu = source->gpu,
                             .via = source->via ? input->cluster->nodes[source->via - 1].id : NULL,
                             .relayed = source->relayed};
    for (unsigned k = 0; k < AH_SHARD_KINDS; k++)
        if (range->kinds[k])
            kinds[move->n_kinds++] = k;
    move->bytes = empty(l, range);
    add_bytes(&l->moves->bytes, move->tier, move->bytes);
    return true;
}

int ah_transfers_list(struct ah_transfers *f, struct ah_moves *moves, struct ah_error *err)
{
    struct listing l = {.f = f, .moves = moves};
    l.sources = calloc(f->n_shards + 1, sizeof *l.sources);
    int rc = l.sources ? AH_OK : ah_error_memory(err);
    moves->moves = NULL;
    moves->n_moves = 0;
    moves->bytes = (struct ah_moves_bytes){0};
    for (size_t r = 0; r < f->roles.n && !rc; r++) {
        find_sources(&l, r);
        for (size_t shard = 0; shard < f->n_shards && !rc; shard++) {
            if (!l.sources[shard].there)
                continue;
            struct range range = grow_range(&l, &f->roles.items[r], shard);
            if (!put_move(&l, &f->roles.items[r], &range))
                rc = ah_error_memory(err);
        }
    }
    free(l.sources);
    return rc;
}
