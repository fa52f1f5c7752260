/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/cluster/segments.h"

#include <stdlib.h>
#include <string.h>

/* An owner of a segment: a stage and its class. */
struct owner {
    uint32_t stage;
    size_t class;
};

static int by_class(const void *a, const void *b)
{
    const struct owner *p = a, *q = b;
    if (p->class != q->class)
        return p->class < q->class ? -1 : 1;
    return (p->stage > q->stage) - (p->stage < q->stage);
}

static const struct ah_stage *holder(const struct ah_pipeline *pipeline, size_t block, uint32_t *ret_index)
{
    size_t i = 0;
    while (pipeline->stages[i].end <= block)
        i++;
    *ret_index = (uint32_t)i;
    return &pipeline->stages[i];
}

/* Lists the stages of every pipeline with either of two blocks, sorted by class. Returns their number. */
static size_t find_owners(const struct ah_arrangement *arrangement, size_t block, size_t other,
                          struct owner *ret_owners)
{
    size_t n = 0;
    uint32_t before = 0;
    for (size_t p = 0; p < arrangement->n_pipelines; p++) {
        uint32_t i, j;
        const struct ah_stage *stage = holder(&arrangement->pipelines[p], block, &i);
        ret_owners[n++] = (struct owner){before + i, stage->class};
        stage = holder(&arrangement->pipelines[p], other, &j);
        if (j != i)
            ret_owners[n++] = (struct owner){before + j, stage->class};
        before += (uint32_t)arrangement->pipelines[p].n_stages;
    }
    qsort(ret_owners, n, sizeof *ret_owners, by_class);
    return n;
}

/* Sets the time of a ring: that of its slowest edge, plus the latencies. */
static void price_ring(const struct ah_cluster_problem *problem, const struct owner *owners,
                       struct ah_segment *segment)
{
    size_t n = segment->n_owners;
    double volume = ah_segment_volume(n, segment->bytes);
    double slowest_us = 0, latency_us = 0;
    bool leaves = false;
    for (size_t i = 0; i < n; i++) {
        size_t a = owners[i].class, b = owners[(i + 1) % n].class;
        const struct ah_problem_link *link = &problem->links[a * problem->n_classes + b];
        bool inside = problem->classes[a].node == problem->classes[b].node;
        uint64_t s = ah_problem_kind_of(problem, a)->tp, t = ah_problem_kind_of(problem, b)->tp;
        double us = 1e6 * volume / (inside ? (double)(s < t ? s : t) : 1) / link->bytes_per_s;
        slowest_us = us > slowest_us ? us : slowest_us;
        latency_us = link->latency_us > latency_us ? link->latency_us : latency_us;
        leaves |= !inside;
    }
    segment->volume_bytes = leaves ? volume : 0;
    segment->ring_us = slowest_us + 2 * (double)(n - 1) * latency_us;
}

struct building {
    const struct ah_cluster_problem *problem;
    const struct ah_arrangement *arrangement;
    struct ah_segments segments;
    struct owner *owners;
    size_t used;
};

static void add_segment(struct building *b, const struct ah_segment *given, size_t other)
{
    struct ah_segment segment = *given;
    segment.n_owners = find_owners(b->arrangement, segment.first, other, b->owners);
    if (segment.n_owners < 2 || !segment.bytes)
        return;
    price_ring(b->problem, b->owners, &segment);
    segment.owners = b->segments.owners + b->used;
    for (size_t i = 0; i < segment.n_owners; i++)
        segment.owners[i] = b->owners[i].stage;
    b->used += segment.n_owners;
    b->segments.items[b->segments.n++] = segment;
}

static bool is_cut(const struct ah_arrangement *arrangement, size_t block)
{
    for (size_t p = 0; p < arrangement->n_pipelines; p++)
        for (size_t i = 0; i < arrangement->pipelines[p].n_stages; i++)
            if (arrangement->pipelines[p].stages[i].first == block)
                return true;
    return false;
}

int ah_segments_init(struct ah_segments *ret_segments, const struct ah_cluster_problem *problem,
                     const struct ah_arrangement *arrangement, struct ah_error *err)
{
    size_t most = problem->n_blocks + 1, n = arrangement->n_pipelines;
    struct building b = {.problem = problem, .arrangement = arrangement};
    b.segments.items = calloc(most, sizeof *b.segments.items);
    b.segments.owners = calloc((most + 1) * n, sizeof *b.segments.owners);
    b.owners = calloc(2 * n, sizeof *b.owners);
    if (!b.segments.items || !b.segments.owners || !b.owners) {
        free(b.owners);
        ah_segments_release(&b.segments);
        return ah_error_memory(err);
    }
    for (size_t end = problem->n_blocks, at = end; at-- > 0;) {
        if (!is_cut(arrangement, at))
            continue;
        struct ah_segment segment = {.first = at, .end = end};
        for (size_t i = at; i < end; i++)
            segment.bytes += problem->gradient_bytes[i];
        add_segment(&b, &segment, at);
        end = at;
    }
    if (problem->tied_bytes)
        add_segment(&b, &(struct ah_segment){.end = 1, .tied = true, .bytes = problem->tied_bytes},
                    problem->n_blocks - 1);
    free(b.owners);
    *ret_segments = b.segments;
    return AH_OK;
}

void ah_segments_release(struct ah_segments *segments)
{
    if (!segments)
        return;
    free(segments->items);
    free(segments->owners);
    *segments = (struct ah_segments){0};
}
