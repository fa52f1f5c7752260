/* SPDX-License-Identifier: Apache-2.0
 *
 * Priority: ranks items, so that lanes can run the most urgent one first.
 *
 * 1. The item needed by the earliest compute position comes first, needed directly or by items in between. Position
 *    numbers continue in later iterations. Ties go to the longer chain of work up to it, then to the lower block.
 * 2. Edges between items of other lanes form no cycle, even over iterations: every cycle contains a compute op.
 */
#include "runtime/schedule/schedule_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The ranks found so far. `chain`: the longest chain of work from an item's end to the position where it is due. */
struct ranking {
    const struct ah_items *items;
    uint32_t positions;
    uint64_t *rank;
    double *chain;
    /* by item: the number of its followers, in lanes other than compute, whose rank is not final */
    uint32_t *left;
    uint32_t *queue;
    size_t n_queue;
};

/* Passes v's rank to the items that v waits for: they are needed no later than v, and v's work comes in between. */
static void pass_rank(struct ranking *r, uint32_t v)
{
    const struct ah_items *items = r->items;
    for (uint32_t e = items->first_edge[v]; e < items->first_edge[v + 1]; e++) {
        uint32_t from = items->edges[e].from;
        if (from < r->positions)
            continue;
        uint64_t at = items->edges[e].back * (uint64_t)r->positions + r->rank[v];
        if (at < r->rank[from] || (at == r->rank[from] && r->chain[v] > r->chain[from]))
            r->chain[from] = r->chain[v];
        r->rank[from] = at < r->rank[from] ? at : r->rank[from];
        if (v >= r->positions && --r->left[from] == 0)
            r->queue[r->n_queue++] = from;
    }
}

static void count_followers(struct ranking *r)
{
    memset(r->left, 0, r->items->n * sizeof *r->left);
    for (uint32_t e = r->items->first_edge[r->positions]; e < r->items->first_edge[r->items->n]; e++)
        r->left[r->items->edges[e].from]++;
    for (uint32_t i = r->positions; i < r->items->n; i++)
        if (!r->left[i])
            r->queue[r->n_queue++] = i;
}

/* Ranks all items, each after its followers (rule 2). At the end, an item's `chain` includes the item itself. Returns
 * the longest chain of more than one item. */
static double rank_items(struct ranking *r, const double *duration)
{
    double longest = 0;
    for (uint32_t i = 0; i < r->items->n; i++) {
        r->rank[i] = i < r->positions ? i : 3 * (uint64_t)r->positions;
        r->chain[i] = 0;
    }
    count_followers(r);
    for (uint32_t p = 0; p < r->positions; p++)
        pass_rank(r, p);
    for (size_t k = 0; k < r->n_queue; k++) {
        uint32_t v = r->queue[k];
        bool alone = r->chain[v] <= 0;
        r->chain[v] += duration[v];
        longest = !alone && r->chain[v] > longest ? r->chain[v] : longest;
        pass_rank(r, v);
    }
    return longest;
}

enum { KEY_CHAIN_BITS = 16, KEY_BLOCK_BITS = 14 };

uint64_t ah_priority_step(const struct ah_iteration *iteration)
{
    return (uint64_t)iteration->positions << (KEY_CHAIN_BITS + KEY_BLOCK_BITS);
}

static int grow_ranking(struct ah_priority_memory *m, size_t n, struct ah_error *err)
{
    int rc = ah_grow(&m->rank, n, sizeof(uint64_t), err);
    rc = rc ? rc : ah_grow(&m->chain, n, sizeof(double), err);
    rc = rc ? rc : ah_grow(&m->left, n, sizeof(uint32_t), err);
    return rc ? rc : ah_grow(&m->queue, n, sizeof(uint32_t), err);
}

int ah_priority_set(struct ah_priority_memory *m, const struct ah_iteration *iteration,
                    const struct ah_items *items, const double *duration_us, uint64_t *ret_priority,
                    struct ah_error *err)
{
    int rc = grow_ranking(m, items->n, err);
    if (rc)
        return rc;
    struct ranking r = {.items = items,
                        .positions = (uint32_t)iteration->positions,
                        .rank = m->rank.items,
                        .chain = m->chain.items,
                        .left = m->left.items,
                        .queue = m->queue.items};
    double longest = rank_items(&r, duration_us);
    for (uint32_t i = 0; i < items->n; i++) {
        double share = longest > 0 ? fmin(r.chain[i] / longest, 1.0) : 0;
        uint64_t behind = (uint64_t)((1.0 - share) * ((1 << KEY_CHAIN_BITS) - 1));
        ret_priority[i] =
            (r.rank[i] << KEY_CHAIN_BITS | behind) << KEY_BLOCK_BITS | iteration->ops[items->op[i]].block;
    }
    return AH_OK;
}

void ah_priority_release(struct ah_priority_memory *memory)
{
    struct ah_grow *all[] = {&memory->rank, &memory->chain, &memory->left, &memory->queue};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->items);
    *memory = (struct ah_priority_memory){0};
}
