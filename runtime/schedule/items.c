/* SPDX-License-Identifier: Apache-2.0
 *
 * Items: finds which tile waits for which, by the numbered rules of docs/planning.md.
 *
 * key(item) = 2 x position for compute items, 2 x issue + 1 for others. A wait of v for u means the latest u before v:
 * of the same iteration if key(u) <= key(v), otherwise of the iteration before (`back` = 1).
 *
 * The tiles of an op are done one after another, so waiting for the last tile means waiting for all. The compute order
 * itself (rule 1) is the frozen order of the compute lane and needs no edges.
 */
#include "runtime/schedule/schedule_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS_NONE = UINT32_MAX, EDGES_AN_ITEM = 5, REUSES_MAX = 1 << 26 };

struct pair {
    uint32_t item, from, back;
};

struct build {
    const struct ah_iteration *it;
    struct ah_items items;
    struct pair *pairs;
    size_t n_pairs, max_pairs;
    uint32_t *by_block; /* by kind and block: the first op; `next` leads to the further ones */
    uint32_t *next;
    uint32_t *due_first, *due_next; /* chains of send_gradients ops that are due at the same position */
    struct ah_error *err;
};

static const uint8_t lane_of[] = {
    [AH_PLAN_FETCH] = AH_PLAN_LANE_H2D,           [AH_PLAN_FORWARD] = AH_PLAN_LANE_COMPUTE,
    [AH_PLAN_BACKWARD] = AH_PLAN_LANE_COMPUTE,    [AH_PLAN_SEND_GRADIENTS] = AH_PLAN_LANE_D2H,
    [AH_PLAN_ACCUMULATE] = AH_PLAN_LANE_HOST,     [AH_PLAN_NORM] = AH_PLAN_LANE_HOST,
    [AH_PLAN_HOST_ADAM] = AH_PLAN_LANE_HOST,      [AH_PLAN_DEVICE_ADAM] = AH_PLAN_LANE_COMPUTE,
    [AH_PLAN_UPLOAD] = AH_PLAN_LANE_H2D,          [AH_PLAN_STATES_IN] = AH_PLAN_LANE_H2D,
    [AH_PLAN_STATES_OUT] = AH_PLAN_LANE_D2H,      [AH_PLAN_GATHER] = AH_PLAN_LANE_HOST,
    [AH_PLAN_SEND_OUTPUT] = AH_PLAN_LANE_COMPUTE, [AH_PLAN_SEND_INPUT_GRADIENT] = AH_PLAN_LANE_COMPUTE,
    [AH_PLAN_SCATTER] = AH_PLAN_LANE_NET,         [AH_PLAN_ALL_GATHER] = AH_PLAN_LANE_NET,
};

/* ---- ops by kind and block ---- */

static uint32_t first_op(const struct build *b, enum ah_plan_op_kind kind, uint64_t block)
{
    return b->by_block[(size_t)kind * b->it->n_blocks + block];
}

static uint32_t find_op(const struct build *b, enum ah_plan_op_kind kind, uint64_t block,
                        uint64_t micro_batch)
{
    uint32_t op = first_op(b, kind, block);
    while (op != ITEMS_NONE && b->it->ops[op].micro_batch != micro_batch)
        op = b->next[op];
    return op;
}

/* Kinds that a block has at most once. */
static const bool once_a_block[AH_PLAN_OP_KINDS] = {
    [AH_PLAN_NORM] = true,   [AH_PLAN_HOST_ADAM] = true, [AH_PLAN_DEVICE_ADAM] = true,
    [AH_PLAN_UPLOAD] = true, [AH_PLAN_STATES_IN] = true, [AH_PLAN_STATES_OUT] = true,
};

/* Checks that an op obeys what the rules assume. `again`: the block has an earlier op of this kind. */
static int check_op(const struct build *b, uint32_t op, bool again)
{
    const struct ah_plan_op *it = &b->it->ops[op];
    const char *kind = ah_words_plan_op[it->op];
    if (lane_of[it->op] != it->lane)
        return ah_error_set(b->err, AH_E_DOCUMENT, "ops[%" PRIu32 "].lane: '%s' is not done by '%s'", op,
                            kind, ah_words_plan_lane[it->lane]);
    if (again && once_a_block[it->op])
        return ah_error_set(b->err, AH_E_DOCUMENT,
                            "ops[%" PRIu32 "]: a block has only one '%s', but block %" PRIu64 " has "
                            "another",
                            op, kind, it->block);
    if (it->op == AH_PLAN_NORM && it->tiles != 1)
        return ah_error_set(b->err, AH_E_DOCUMENT, "ops[%" PRIu32 "].tiles: a '%s' is one", op, kind);
    if (it->lane != AH_PLAN_LANE_COMPUTE &&
        (it->issue_after >= b->it->positions || it->due_before >= b->it->positions))
        return ah_error_set(b->err, AH_E_DOCUMENT,
                            "ops[%" PRIu32 "]: '%s' needs 'issue_after' and 'due_before', below %zu", op,
                            kind, b->it->positions);
    return AH_OK;
}

static int index_ops(struct build *b)
{
    size_t cells = (size_t)(AH_PLAN_OP_KINDS)*b->it->n_blocks;
    memset(b->by_block, 0xff, cells * sizeof *b->by_block);
    for (uint32_t op = (uint32_t)b->it->n_ops; op-- > 0;) {
        const struct ah_plan_op *it = &b->it->ops[op];
        uint32_t *first = &b->by_block[(size_t)it->op * b->it->n_blocks + it->block];
        int rc = check_op(b, op, *first != ITEMS_NONE);
        if (rc)
            return rc;
        b->next[op] = *first;
        *first = op;
    }
    return AH_OK;
}

/* ---- items ---- */

static uint32_t tile_item(const struct build *b, uint32_t op, uint64_t tile)
{
    return b->items.of_tile[b->items.first_tile[op] + tile];
}

static uint32_t last_item(const struct build *b, uint32_t op)
{
    return tile_item(b, op, b->it->ops[op].tiles - 1);
}

static void number_tiles(struct build *b)
{
    uint32_t *first = b->items.first_tile;
    first[0] = 0;
    for (size_t op = 0; op < b->it->n_ops; op++)
        first[op + 1] = first[op] + (uint32_t)b->it->ops[op].tiles;
}

/* Assigns numbers to items: to compute items by position, with tiles counted from the head, then to the other items.
 * Filling in positions moves each `first_tile` forward, so it is moved back afterwards. */
static void number_items(struct build *b)
{
    struct ah_items *items = &b->items;
    for (uint32_t i = 0; i < b->it->positions; i++) {
        uint32_t p = (b->it->head + i) % (uint32_t)b->it->positions;
        uint32_t op = b->it->compute[p];
        items->of_tile[items->first_tile[op]++] = p;
        items->op[p] = op;
        items->issue[p] = p;
    }
    for (size_t op = b->it->n_ops; op-- > 0;)
        if (b->it->ops[op].lane == AH_PLAN_LANE_COMPUTE)
            items->first_tile[op] -= (uint32_t)b->it->ops[op].tiles;
    uint32_t item = (uint32_t)b->it->positions;
    for (uint32_t op = 0; op < b->it->n_ops; op++) {
        const struct ah_plan_op *it = &b->it->ops[op];
        for (uint64_t tile = 0; tile < it->tiles && it->lane != AH_PLAN_LANE_COMPUTE; tile++, item++) {
            items->of_tile[items->first_tile[op] + tile] = item;
            items->op[item] = op;
            items->issue[item] = (uint32_t)it->issue_after;
        }
    }
}

/* Tile j of states_out is issued after the update of tile j. */
static int issue_states_out(struct build *b)
{
    for (uint64_t block = 0; block < b->it->n_blocks; block++) {
        uint32_t out = first_op(b, AH_PLAN_STATES_OUT, block);
        uint32_t in = first_op(b, AH_PLAN_STATES_IN, block);
        uint32_t update = first_op(b, AH_PLAN_DEVICE_ADAM, block);
        if (out == ITEMS_NONE && in == ITEMS_NONE)
            continue;
        if (out == ITEMS_NONE || in == ITEMS_NONE || update == ITEMS_NONE ||
            b->it->ops[out].tiles != b->it->ops[update].tiles ||
            b->it->ops[in].tiles != b->it->ops[update].tiles)
            return ah_error_set(b->err, AH_E_DOCUMENT,
                                "blocks[%" PRIu64 "]: streamed states need states_in, device_adam and "
                                "states_out with the same number of tiles",
                                block);
        for (uint64_t tile = 0; tile < b->it->ops[out].tiles; tile++)
            b->items.issue[tile_item(b, out, tile)] = tile_item(b, update, tile);
    }
    return AH_OK;
}

/* ---- edges ---- */

static uint64_t key(const struct build *b, uint32_t item)
{
    return 2 * (uint64_t)b->items.issue[item] + (item >= b->it->positions);
}

static void edge(struct build *b, uint32_t item, uint32_t from)
{
    if (b->n_pairs < b->max_pairs)
        b->pairs[b->n_pairs] = (struct pair){item, from, key(b, from) > key(b, item)};
    b->n_pairs++;
}

/* Makes op v wait for op u: tile by tile if they have equally many, else for all of u. Ignores ITEMS_NONE. */
static void wait_for(struct build *b, uint32_t v, uint32_t u)
{
    if (v == ITEMS_NONE || u == ITEMS_NONE)
        return;
    uint64_t tiles = b->it->ops[v].tiles;
    if (tiles != b->it->ops[u].tiles) {
        edge(b, tile_item(b, v, 0), last_item(b, u));
        return;
    }
    for (uint64_t tile = 0; tile < tiles; tile++)
        edge(b, tile_item(b, v, tile), tile_item(b, u, tile));
}

/* Makes op v wait for all of op u. Does nothing if v or u is ITEMS_NONE. */
static void wait_for_all(struct build *b, uint32_t v, uint32_t u)
{
    if (v != ITEMS_NONE && u != ITEMS_NONE)
        edge(b, tile_item(b, v, 0), last_item(b, u));
}

/* Adds the edges of rule 2, and those between the tiles of an op. */
static void position_edges(struct build *b)
{
    for (uint32_t op = 0; op < b->it->n_ops; op++) {
        const struct ah_plan_op *it = &b->it->ops[op];
        if (it->lane == AH_PLAN_LANE_COMPUTE)
            continue;
        edge(b, tile_item(b, op, 0), (uint32_t)it->issue_after);
        for (uint64_t tile = 1; tile < it->tiles; tile++)
            edge(b, tile_item(b, op, tile), tile_item(b, op, tile - 1));
        if (it->op != AH_PLAN_STATES_IN)
            edge(b, (uint32_t)it->due_before, last_item(b, op));
    }
}

/* Adds the edges of rules 3 and 4. */
static int host_update_edges(struct build *b, uint64_t block)
{
    uint32_t adam = first_op(b, AH_PLAN_HOST_ADAM, block);
    uint32_t upload = first_op(b, AH_PLAN_UPLOAD, block);
    uint32_t sum = find_op(b, AH_PLAN_ACCUMULATE, block, b->it->micro_batches - 1);
    uint32_t send = first_op(b, AH_PLAN_SEND_GRADIENTS, block);
    if ((upload != ITEMS_NONE || send != ITEMS_NONE) != (adam != ITEMS_NONE) ||
        (adam != ITEMS_NONE && send == ITEMS_NONE))
        return ah_error_set(b->err, AH_E_DOCUMENT,
                            "blocks[%" PRIu64 "]: host_adam needs send_gradients, and upload needs host_adam",
                            block);
    wait_for(b, upload, adam);
    wait_for(b, adam, sum != ITEMS_NONE ? sum : send);
    for (uint32_t op = first_op(b, AH_PLAN_ACCUMULATE, block); op != ITEMS_NONE; op = b->next[op]) {
        uint64_t m = b->it->ops[op].micro_batch;
        uint32_t sent = find_op(b, AH_PLAN_SEND_GRADIENTS, block, m);
        if (sent != ITEMS_NONE && b->it->ops[sent].issue_after > b->it->ops[op].issue_after)
            return ah_error_set(b->err, AH_E_DOCUMENT,
                                "blocks[%" PRIu64 "]: 'accumulate' of micro-batch %" PRIu64
                                " is issued before its 'send_gradients'",
                                block, m);
        wait_for(b, op, sent);
        if (!m)
            continue;
        uint32_t before = find_op(b, AH_PLAN_ACCUMULATE, block, m - 1);
        wait_for(b, op, before);
        if (!b->it->slots[AH_RING_HOST_GRADIENTS])
            wait_for(b, find_op(b, AH_PLAN_SEND_GRADIENTS, block, m), before);
    }
    return AH_OK;
}

static uint32_t find_norm(const struct build *b)
{
    uint32_t norm = ITEMS_NONE;
    for (uint64_t block = 0; block < b->it->n_blocks && norm == ITEMS_NONE && b->it->clip; block++)
        norm = first_op(b, AH_PLAN_NORM, block);
    return norm;
}

/* Adds the edges of rule 5. */
static int norm_edges(struct build *b)
{
    if (!b->it->clip)
        return AH_OK;
    uint32_t norm = find_norm(b);
    if (norm == ITEMS_NONE)
        return ah_error_set(b->err, AH_E_DOCUMENT, "ops: gradients are clipped, but there is no norm op");
    for (uint64_t block = 0; block < b->it->n_blocks; block++) {
        wait_for(b, norm, find_op(b, AH_PLAN_ACCUMULATE, block, b->it->micro_batches - 1));
        wait_for(b, norm, find_op(b, AH_PLAN_SCATTER, block, b->it->micro_batches - 1));
        uint32_t host = first_op(b, AH_PLAN_HOST_ADAM, block);
        uint32_t device = first_op(b, AH_PLAN_DEVICE_ADAM, block);
        if (host != ITEMS_NONE)
            edge(b, tile_item(b, host, 0), tile_item(b, norm, 0));
        if (device != ITEMS_NONE)
            edge(b, tile_item(b, device, 0), tile_item(b, norm, 0));
    }
    return AH_OK;
}

/* Returns the op that brings a block's gradients to the host; ITEMS_NONE if neither weights nor sum are there. */
static uint32_t arrival(const struct build *b, uint64_t block)
{
    bool on_host = first_op(b, AH_PLAN_HOST_ADAM, block) != ITEMS_NONE &&
                   first_op(b, AH_PLAN_UPLOAD, block) == ITEMS_NONE;
    uint32_t sum = find_op(b, AH_PLAN_ACCUMULATE, block, b->it->micro_batches - 1);
    if (!on_host && sum == ITEMS_NONE)
        return ITEMS_NONE;
    return sum != ITEMS_NONE ? sum : first_op(b, AH_PLAN_SEND_GRADIENTS, block);
}

/* Adds the edges of rule 10. */
static void arrival_edges(struct build *b)
{
    const uint32_t norm = find_norm(b);
    for (uint64_t from = 0; from < b->it->n_blocks && b->it->is_part; from++) {
        uint32_t arrived = arrival(b, from);
        wait_for_all(b, norm, arrived);
        for (uint64_t block = 0; block < b->it->n_blocks && arrived != ITEMS_NONE; block++) {
            wait_for_all(b, first_op(b, AH_PLAN_DEVICE_ADAM, block), arrived);
            wait_for_all(b, first_op(b, AH_PLAN_HOST_ADAM, block), arrived);
            if (first_op(b, AH_PLAN_UPLOAD, block) != ITEMS_NONE &&
                first_op(b, AH_PLAN_ACCUMULATE, block) == ITEMS_NONE)
                wait_for_all(b, first_op(b, AH_PLAN_SEND_GRADIENTS, block), arrived);
        }
    }
}

/* Returns an upper bound for the number of edges of rule 10. */
static size_t count_arrivals(const struct ah_iteration *it)
{
    size_t n[AH_PLAN_OP_KINDS] = {0};
    for (size_t op = 0; op < it->n_ops && it->is_part; op++)
        n[it->ops[op].op]++;
    return n[AH_PLAN_HOST_ADAM] *
           (n[AH_PLAN_DEVICE_ADAM] + n[AH_PLAN_HOST_ADAM] + n[AH_PLAN_UPLOAD] + n[AH_PLAN_NORM]);
}

/* Adds the edges of rule 6: between ops of each block's states, and between all copies, in order of use. */
static void streamed_edges(struct build *b)
{
    for (uint64_t block = 0; block < b->it->n_blocks; block++) {
        uint32_t in = first_op(b, AH_PLAN_STATES_IN, block);
        uint32_t out = first_op(b, AH_PLAN_STATES_OUT, block);
        uint32_t update = first_op(b, AH_PLAN_DEVICE_ADAM, block);
        if (in == ITEMS_NONE)
            continue;
        wait_for(b, update, in);
        wait_for(b, out, update);
        wait_for(b, in, out);
    }
    uint32_t before = ITEMS_NONE;
    for (uint32_t i = 0; i < b->it->positions; i++) {
        uint32_t p = (b->it->head + i) % (uint32_t)b->it->positions;
        uint32_t op = b->items.op[p];
        uint32_t in = b->it->ops[op].op == AH_PLAN_DEVICE_ADAM
                          ? first_op(b, AH_PLAN_STATES_IN, b->it->ops[op].block)
                          : ITEMS_NONE;
        if (in == ITEMS_NONE)
            continue;
        uint32_t first = b->items.first_tile[op];
        uint32_t tile = 0;
        while (b->items.of_tile[first + tile] != p)
            tile++;
        uint32_t item = tile_item(b, in, tile);
        if (before != ITEMS_NONE)
            edge(b, item, before);
        before = item;
    }
}

/* Returns the number of elements of a block's trained vector, from the bytes of its copies; 0 if it has none. */
static uint64_t trained_elements(const struct build *b, uint64_t block)
{
    uint32_t sent = first_op(b, AH_PLAN_SEND_GRADIENTS, block);
    uint32_t out = first_op(b, AH_PLAN_STATES_OUT, block);
    bool device_sum = b->it->adds_up && first_op(b, AH_PLAN_ACCUMULATE, block) == ITEMS_NONE;
    if (sent != ITEMS_NONE)
        return b->it->ops[sent].bytes / (device_sum ? sizeof(float) : b->it->weight_bytes);
    return out != ITEMS_NONE ? b->it->ops[out].bytes / (b->it->state_bytes + b->it->weight_bytes) : 0;
}

static bool fetches_rows(const struct build *b, const struct ah_plan_op *fetch)
{
    const struct ah_plan_op *user = &b->it->ops[b->items.op[fetch->due_before]];
    return !fetch->block && !user->block && user->op == AH_PLAN_FORWARD;
}

/* Adds the edges of rule 7. */
static void fetch_edges(struct build *b, uint64_t block)
{
    uint32_t adam = first_op(b, AH_PLAN_HOST_ADAM, block);
    uint32_t update = adam != ITEMS_NONE ? adam : first_op(b, AH_PLAN_STATES_OUT, block);
    for (uint32_t op = first_op(b, AH_PLAN_FETCH, block); op != ITEMS_NONE; op = b->next[op]) {
        const struct ah_plan_op *fetch = &b->it->ops[op];
        uint32_t gather = find_op(b, AH_PLAN_GATHER, block, fetch->micro_batch);
        if (gather != ITEMS_NONE && fetches_rows(b, fetch))
            wait_for(b, op, gather);
        else if (fetch->bytes / b->it->weight_bytes == trained_elements(b, block))
            wait_for(b, op, update);
        else
            wait_for_all(b, op, update); /* the tiles of the fetch differ from those of the update */
    }
    for (uint32_t op = first_op(b, AH_PLAN_GATHER, block); op != ITEMS_NONE; op = b->next[op])
        wait_for(b, op, update);
}

/* Returns the fetch of the rank's own part, from which all ranks gather the same weights; ITEMS_NONE: there is none. */
static uint32_t fetch_of(const struct build *b, const struct ah_plan_op *gather)
{
    uint32_t op = first_op(b, AH_PLAN_FETCH, gather->block);
    while (op != ITEMS_NONE && b->it->ops[op].due_before != gather->due_before)
        op = b->next[op];
    return op;
}

/* Adds the edges of rules 11 and 12. */
static void shard_edges(struct build *b, uint64_t block)
{
    const uint32_t sum = find_op(b, AH_PLAN_SCATTER, block, b->it->micro_batches - 1);
    const uint32_t device = first_op(b, AH_PLAN_DEVICE_ADAM, block);
    for (uint64_t m = 1; m < b->it->micro_batches && sum != ITEMS_NONE; m++)
        wait_for_all(b, find_op(b, AH_PLAN_SCATTER, block, m), find_op(b, AH_PLAN_SCATTER, block, m - 1));
    wait_for_all(b, device, sum);
    wait_for_all(b, sum == ITEMS_NONE ? ITEMS_NONE : first_op(b, AH_PLAN_SEND_GRADIENTS, block), sum);
    for (uint32_t op = first_op(b, AH_PLAN_ALL_GATHER, block); op != ITEMS_NONE; op = b->next[op]) {
        const uint32_t fetch = fetch_of(b, &b->it->ops[op]);
        wait_for(b, op, fetch);
        if (fetch == ITEMS_NONE) /* an update on the device ends at or before the op's `issue_after` */
            wait_for_all(b, op, first_op(b, AH_PLAN_UPLOAD, block));
    }
}

/* Returns the number of edges of rule 9, or REUSES_MAX if there are more. Adds the edges if `add`. */
static size_t reuse_edges(struct build *b, bool add)
{
    /* by position: the last op due there that sends or scatters gradients; `due_next` leads to the others */
    uint32_t *first = b->due_first;
    size_t n = 0;
    memset(first, 0xff, b->it->positions * sizeof *first);
    for (uint32_t op = 0; op < b->it->n_ops; op++) {
        const struct ah_plan_op *it = &b->it->ops[op];
        if ((it->op != AH_PLAN_SEND_GRADIENTS && it->op != AH_PLAN_SCATTER) ||
            it->due_before >= b->it->positions)
            continue;
        b->due_next[op] = first[it->due_before];
        first[it->due_before] = op;
    }
    for (uint32_t op = 0; op < b->it->n_ops; op++) {
        const struct ah_plan_op *it = &b->it->ops[op];
        if ((it->op != AH_PLAN_FETCH && it->op != AH_PLAN_ALL_GATHER) || it->issue_after >= b->it->positions)
            continue;
        uint32_t sent = first[(it->issue_after + 1) % b->it->positions];
        for (; sent != ITEMS_NONE && n < REUSES_MAX; sent = b->due_next[sent], n++)
            if (add)
                edge(b, tile_item(b, op, 0), last_item(b, sent));
    }
    return n;
}

static int all_edges(struct build *b)
{
    position_edges(b);
    (void)reuse_edges(b, true);
    arrival_edges(b);
    int rc = norm_edges(b);
    for (uint64_t block = 0; block < b->it->n_blocks && !rc; block++) {
        rc = host_update_edges(b, block);
        fetch_edges(b, block);
        shard_edges(b, block);
    }
    streamed_edges(b);
    return rc;
}

/* Sorts the edges by the item that waits. */
static void collect_edges(struct build *b)
{
    struct ah_items *items = &b->items;
    memset(items->first_edge, 0, (items->n + 1) * sizeof *items->first_edge);
    for (size_t i = 0; i < b->n_pairs; i++)
        items->first_edge[b->pairs[i].item]++;
    uint32_t sum = 0;
    for (size_t i = 0; i <= items->n; i++) {
        sum += i < items->n ? items->first_edge[i] : 0;
        items->first_edge[i] = sum;
    }
    for (size_t i = b->n_pairs; i-- > 0;)
        items->edges[--items->first_edge[b->pairs[i].item]] =
            (struct ah_edge){b->pairs[i].from, b->pairs[i].back};
}

/* ---- rings (rule 8) ---- */

static void mark_tiles(const struct build *b, uint8_t *rings, uint32_t op, enum ah_ring ring)
{
    for (uint64_t tile = 0; op != ITEMS_NONE && tile < b->it->ops[op].tiles; tile++)
        rings[tile_item(b, op, tile)] = (uint8_t)ring;
}

static void ring_of_block(const struct build *b, uint64_t block)
{
    uint8_t *takes = b->items.takes, *gives = b->items.gives;
    uint32_t adam = first_op(b, AH_PLAN_HOST_ADAM, block);
    uint32_t upload = first_op(b, AH_PLAN_UPLOAD, block);
    if (b->it->slots[AH_RING_HOST_GRADIENTS]) {
        for (uint32_t op = first_op(b, AH_PLAN_SEND_GRADIENTS, block); op != ITEMS_NONE; op = b->next[op]) {
            uint32_t sum = find_op(b, AH_PLAN_ACCUMULATE, block, b->it->ops[op].micro_batch);
            mark_tiles(b, takes, op, AH_RING_HOST_GRADIENTS);
            mark_tiles(b, gives, sum != ITEMS_NONE ? sum : adam, AH_RING_HOST_GRADIENTS);
        }
    }
    if (b->it->slots[AH_RING_HOST_WEIGHTS] && upload != ITEMS_NONE) {
        mark_tiles(b, takes, adam, AH_RING_HOST_WEIGHTS);
        mark_tiles(b, gives, upload, AH_RING_HOST_WEIGHTS);
    }
    if (b->it->slots[AH_RING_DEVICE_STATES]) {
        mark_tiles(b, takes, first_op(b, AH_PLAN_STATES_IN, block), AH_RING_DEVICE_STATES);
        mark_tiles(b, gives, first_op(b, AH_PLAN_STATES_OUT, block), AH_RING_DEVICE_STATES);
    }
}

static void mark_rings(const struct build *b)
{
    memset(b->items.takes, AH_CLOCK_NO_RING, b->items.n);
    memset(b->items.gives, AH_CLOCK_NO_RING, b->items.n);
    for (uint64_t block = 0; block < b->it->n_blocks; block++)
        ring_of_block(b, block);
}

/* ---- memory ---- */

static int grow_all(struct ah_items_memory *m, struct build *b)
{
    size_t tiles = 0;
    for (size_t op = 0; op < b->it->n_ops; op++)
        tiles += b->it->ops[op].tiles;
    b->items.n = tiles;
    size_t cells = (size_t)(AH_PLAN_OP_KINDS)*b->it->n_blocks;
    int rc = ah_grow(&m->due_first, b->it->positions, sizeof *b->due_first, b->err);
    rc = rc ? rc : ah_grow(&m->due_next, b->it->n_ops, sizeof *b->due_next, b->err);
    if (rc)
        return rc;
    b->due_first = m->due_first.items;
    b->due_next = m->due_next.items;
    size_t reuses = reuse_edges(b, false);
    if (reuses == REUSES_MAX)
        return ah_error_set(b->err, AH_E_DOCUMENT,
                            "ops: too many fetch and send_gradients ops meet at one position; plan again");
    b->max_pairs = EDGES_AN_ITEM * tiles + 6 * b->it->n_blocks + reuses + count_arrivals(b->it);
    rc = rc ? rc : ah_grow(&m->op, tiles, sizeof *b->items.op, b->err);
    rc = rc ? rc : ah_grow(&m->issue, tiles, sizeof *b->items.issue, b->err);
    rc = rc ? rc : ah_grow(&m->first_tile, b->it->n_ops + 1, sizeof *b->items.first_tile, b->err);
    rc = rc ? rc : ah_grow(&m->of_tile, tiles, sizeof *b->items.of_tile, b->err);
    rc = rc ? rc : ah_grow(&m->first_edge, tiles + 1, sizeof *b->items.first_edge, b->err);
    rc = rc ? rc : ah_grow(&m->edges, b->max_pairs, sizeof *b->items.edges, b->err);
    rc = rc ? rc : ah_grow(&m->takes, tiles, 1, b->err);
    rc = rc ? rc : ah_grow(&m->gives, tiles, 1, b->err);
    rc = rc ? rc : ah_grow(&m->pairs, b->max_pairs, sizeof *b->pairs, b->err);
    rc = rc ? rc : ah_grow(&m->by_block, cells, sizeof *b->by_block, b->err);
    return rc ? rc : ah_grow(&m->next, b->it->n_ops, sizeof *b->next, b->err);
}

int ah_items_build(struct ah_items_memory *memory, const struct ah_iteration *iteration,
                   struct ah_items *ret_items, struct ah_error *err)
{
    struct build b = {.it = iteration, .err = err};
    int rc = grow_all(memory, &b);
    if (rc)
        return rc;
    b.items.op = memory->op.items;
    b.items.issue = memory->issue.items;
    b.items.first_tile = memory->first_tile.items;
    b.items.of_tile = memory->of_tile.items;
    b.items.first_edge = memory->first_edge.items;
    b.items.edges = memory->edges.items;
    b.items.takes = memory->takes.items;
    b.items.gives = memory->gives.items;
    b.pairs = memory->pairs.items;
    b.by_block = memory->by_block.items;
    b.next = memory->next.items;
    rc = index_ops(&b);
    if (rc)
        return rc;
    number_tiles(&b);
    number_items(&b);
    rc = issue_states_out(&b);
    if (!rc)
        rc = all_edges(&b);
    if (!rc && b.n_pairs > b.max_pairs) /* some op occurs far more often than a valid iteration allows */
        rc = ah_error_set(err, AH_E_DOCUMENT, "ops: %zu waits for %zu tiles are too many; plan again",
                          b.n_pairs, b.items.n);
    if (rc)
        return rc;
    collect_edges(&b);
    mark_rings(&b);
    b.items.update_of = b.by_block + (size_t)AH_PLAN_DEVICE_ADAM * iteration->n_blocks;
    *ret_items = b.items;
    return AH_OK;
}

void ah_items_release(struct ah_items_memory *memory)
{
    struct ah_grow *all[] = {&memory->op,         &memory->issue,    &memory->first_tile, &memory->of_tile,
                             &memory->first_edge, &memory->edges,    &memory->takes,      &memory->gives,
                             &memory->pairs,      &memory->by_block, &memory->next,       &memory->due_first,
                             &memory->due_next};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->items);
    *memory = (struct ah_items_memory){0};
}
