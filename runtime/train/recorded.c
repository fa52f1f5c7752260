/* SPDX-License-Identifier: Apache-2.0
 *
 * Recorded: each rank saves the spans of its ops in memory, and rank 0 collects them.
 *
 * 1. Recording starts one round before the first step, because early ops of a step run in the previous round.
 * 2. Every rank but 0 exchanges messages for the clocks (clocks.h), then sends its counts, then its spans in pieces.
 */
#include "runtime/train/recorded.h"

#include "base/threads.h"
#include "runtime/train/clocks.h"
#include "runtime/train/trainer_internal.h"

#include <string.h>

enum { DATA_EACH = 16, NONE = -1 };
enum { PIECE = AH_LINKS_PIECE_BYTES / sizeof(struct ah_recorded_span) };

struct counts {
    uint64_t n, lost;
};

int ah_recorded_init(struct ah_trainer *t, struct ah_error *err)
{
    struct recording *recording = &t->recording;
    const struct ah_recorded_steps *steps = &t->options.recorded;
    if (!steps->n)
        return AH_OK;
    const uint64_t rounds = steps->n + 2;
    const uint64_t others = (t->job.training.micro_batches + 1) * DATA_EACH + t->bound.n_ops;
    recording->room = rounds * (t->graph.n_items + others);
    recording->spans = ah_arena_array(&t->arena, recording->room, sizeof *recording->spans);
    for (size_t lane = 0; lane < AH_DEVICE_LANES_ALL; lane++)
        recording->current[lane] = NONE;
    return recording->spans ? AH_OK : ah_error_memory(err);
}

static bool is_kept(const struct ah_trainer *t, uint64_t round)
{
    const struct ah_recorded_steps *steps = &t->options.recorded;
    return round + 1 >= steps->first && round < steps->first + steps->n;
}

void ah_recorded_op(struct ah_trainer *t, const struct ah_op_record *record)
{
    struct recording *recording = &t->recording;
    const struct ah_graph *graph = &t->graph;
    const bool of_plan = record->op != SIZE_MAX;
    ptrdiff_t *current = &recording->current[record->lane];
    if (!recording->room || !is_kept(t, record->step))
        return;
    const bool early =
        of_plan && graph->items[graph->of_tile[graph->first_tile[record->op] + record->tile]].early;
    const struct ah_recorded_span span = {.step = record->step + early,
                                          .lane = record->lane,
                                          .op = of_plan ? (uint32_t)record->op : AH_RECORDED_NO_OP,
                                          .tile = (uint32_t)record->tile,
                                          .start_ns = (int64_t)record->start_ns,
                                          .end_ns = (int64_t)record->end_ns};
    struct ah_recorded_span *last = *current == NONE ? NULL : &recording->spans[*current];
    if (of_plan && last && last->op == span.op && last->tile == span.tile && last->step == span.step) {
        last->end_ns = span.end_ns;
    } else if (recording->n == recording->room) {
        recording->lost++;
    } else {
        *current = (ptrdiff_t)recording->n;
        recording->spans[recording->n++] = span;
    }
}

static int answer_clock(struct ah_trainer *t, struct ah_error *err)
{
    const struct ah_links *links = t->ranks.links;
    int rc = AH_OK;
    for (int i = 0; i < AH_CLOCKS_EXCHANGES && !rc; i++) {
        uint64_t now_ns;
        rc = ah_links_move(links, links->other[0].down, &now_ns, sizeof now_ns, err);
        now_ns = ah_threads_now_ns();
        rc = rc ? rc : ah_links_move(links, links->other[0].up, &now_ns, sizeof now_ns, err);
    }
    return rc;
}

int ah_ranks_tell_recorded(struct ah_trainer *t, struct ah_error *err)
{
    const struct ah_links *links = t->ranks.links;
    const struct recording *recording = &t->recording;
    struct counts counts = {recording->n, recording->lost};
    int rc = answer_clock(t, err);
    rc = rc ? rc : ah_links_move(links, links->other[0].up, &counts, sizeof counts, err);
    for (size_t at = 0; at < recording->n && !rc; at += PIECE) {
        const size_t n = recording->n - at < PIECE ? recording->n - at : PIECE;
        rc = ah_links_move(links, links->other[0].up, recording->spans + at, n * sizeof *recording->spans,
                           err);
    }
    return rc;
}

/* ---- rank 0 ---- */

static int ask_clock(const struct ah_trainer *t, uint32_t rank, struct ah_recorded *ret_recorded,
                     struct ah_error *err)
{
    const struct ah_links *links = t->ranks.links;
    struct ah_clocks_exchange exchanges[AH_CLOCKS_EXCHANGES];
    int rc = AH_OK;
    for (int i = 0; i < AH_CLOCKS_EXCHANGES && !rc; i++) {
        struct ah_clocks_exchange *one = &exchanges[i];
        one->sent_ns = ah_threads_now_ns();
        rc = ah_links_move(links, links->other[rank].down, &one->sent_ns, sizeof one->sent_ns, err);
        rc = rc ? rc : ah_links_move(links, links->other[rank].up, &one->there_ns, sizeof one->there_ns, err);
        one->back_ns = ah_threads_now_ns();
    }
    if (!rc)
        ret_recorded->clock_ns =
            ah_clocks_offset(exchanges, AH_CLOCKS_EXCHANGES, &ret_recorded->clock_within_ns);
    return rc;
}

static int receive_recorded(struct ah_trainer *t, uint32_t rank, struct ah_arena *arena,
                            struct ah_recorded *ret_recorded, struct ah_error *err)
{
    const struct ah_links *links = t->ranks.links;
    struct counts counts = {0, 0};
    int rc = ask_clock(t, rank, ret_recorded, err);
    rc = rc ? rc : ah_links_move(links, links->other[rank].up, &counts, sizeof counts, err);
    if (rc)
        return rc;
    ret_recorded->n = counts.n;
    ret_recorded->lost = counts.lost;
    ret_recorded->spans = ah_arena_array(arena, counts.n + 1, sizeof *ret_recorded->spans);
    if (!ret_recorded->spans)
        return ah_error_memory(err);
    for (size_t at = 0; at < counts.n && !rc; at += PIECE) {
        const size_t n = counts.n - at < PIECE ? counts.n - at : PIECE;
        rc = ah_links_move(links, links->other[rank].up, ret_recorded->spans + at,
                           n * sizeof *ret_recorded->spans, err);
    }
    for (size_t i = 0; i < counts.n && !rc; i++) {
        ret_recorded->spans[i].start_ns -= ret_recorded->clock_ns;
        ret_recorded->spans[i].end_ns -= ret_recorded->clock_ns;
    }
    return rc;
}

int ah_recorded_collect(struct ah_trainer *t, struct ah_arena *arena, struct ah_recorded *ret_recorded,
                        struct ah_error *err)
{
    ret_recorded[0] =
        (struct ah_recorded){.spans = t->recording.spans, .n = t->recording.n, .lost = t->recording.lost};
    int rc = ah_ranks_order(t, &(struct ranks_order){.kind = RANKS_RECORDED}, err);
    for (uint32_t rank = 1; rank < t->options.rank->ranks && !rc; rank++) {
        ret_recorded[rank] = (struct ah_recorded){.spans = NULL};
        rc = receive_recorded(t, rank, arena, &ret_recorded[rank], err);
    }
    return ah_ranks_fail(t, rc, err);
}
