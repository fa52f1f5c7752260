/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocates the clock's memory and loads graphs. Loading gathers what a run reads about an op in one place, and turns
 * lists of dependencies into lists of followers.
 */
#include "runtime/device/virtual/clock_internal.h"

#include <stdlib.h>
#include <string.h>

static size_t alloc_array(size_t *used_bytes, size_t count, size_t size)
{
    size_t offset = *used_bytes;
    *used_bytes += (count * size + 63) & ~(size_t)63;
    return offset;
}

/* Allocates a clock's memory of this size in one piece. NULL: out of memory. */
static struct ah_clock_memory *make_memory(size_t n_ops, size_t n_dependencies, size_t n_instances)
{
    struct ah_clock_memory m = {
        .max_ops = n_ops, .max_dependencies = n_dependencies, .max_instances = n_instances};
    size_t bytes = 0;
    (void)alloc_array(&bytes, 1, sizeof m);
    size_t ops = alloc_array(&bytes, n_ops + 1, sizeof *m.ops);
    size_t needs = alloc_array(&bytes, n_ops, sizeof *m.needs);
    size_t needs_first = alloc_array(&bytes, n_ops, sizeof *m.needs_first);
    size_t early = alloc_array(&bytes, n_ops, sizeof *m.early);
    size_t followers = alloc_array(&bytes, n_dependencies, sizeof *m.followers);
    size_t spans = alloc_array(&bytes, n_instances, sizeof *m.spans);
    size_t ready = alloc_array(&bytes, n_instances, sizeof *m.ready);
    size_t order = alloc_array(&bytes, n_instances, sizeof *m.order);
    size_t given = alloc_array(&bytes, n_instances, sizeof *m.given);
    size_t waiting = alloc_array(&bytes, n_instances, sizeof *m.waiting);
    char *base = malloc(bytes);
    if (!base)
        return NULL;
    m.ops = (void *)(base + ops);
    m.needs = (void *)(base + needs);
    m.needs_first = (void *)(base + needs_first);
    m.early = (void *)(base + early);
    m.followers = (void *)(base + followers);
    m.spans = (void *)(base + spans);
    m.ready = (void *)(base + ready);
    m.order = (void *)(base + order);
    m.given = (void *)(base + given);
    m.waiting = (void *)(base + waiting);
    memcpy(base, &m, sizeof m);
    return (void *)base;
}

static size_t dependencies(const struct ah_clock_graph *graph)
{
    return graph->dependency_first ? graph->dependency_first[graph->n_ops] : 0;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

int ah_clock_reserve(struct ah_clock *clock, const struct ah_clock_graph *graph, size_t iterations,
                     struct ah_error *err)
{
    const struct ah_clock_memory *old = clock->memory;
    size_t n_ops = graph->n_ops, n_dependencies = dependencies(graph);
    if (iterations && n_ops >= CLOCK_ABSENT / iterations)
        return ah_error_set(err, AH_E_USAGE,
                            "%zu times a graph of %zu ops is too much for the clock; at most %u ops in total",
                            iterations, n_ops, CLOCK_ABSENT - 1);
    if (n_dependencies >= CLOCK_ABSENT)
        return ah_error_set(err, AH_E_USAGE,
                            "a graph of %zu dependencies is too large for the clock; at most %u",
                            n_dependencies, CLOCK_ABSENT - 1);
    size_t n_instances = n_ops * iterations;
    if (old && old->max_ops >= n_ops && old->max_dependencies >= n_dependencies &&
        old->max_instances >= n_instances)
        return AH_OK;
    struct ah_clock_memory *memory =
        old ? make_memory(larger(n_ops, old->max_ops), larger(n_dependencies, old->max_dependencies),
                          larger(n_instances, old->max_instances))
            : make_memory(n_ops, n_dependencies, n_instances);
    if (!memory)
        return ah_error_memory(err);
    free(clock->memory);
    clock->memory = memory;
    return AH_OK;
}

void ah_clock_release(struct ah_clock *clock)
{
    free(clock->memory);
    clock->memory = NULL;
}

static int check_room(const struct ah_clock *clock, const struct ah_clock_graph *graph, struct ah_error *err)
{
    const struct ah_clock_memory *m = clock->memory;
    if (!m || graph->n_ops > m->max_ops)
        return ah_error_set(err, AH_E_CAPACITY,
                            "the clock has room for %zu ops, but the graph has %zu; reserve more",
                            m ? m->max_ops : 0, graph->n_ops);
    if (dependencies(graph) > m->max_dependencies)
        return ah_error_set(err, AH_E_CAPACITY,
                            "the clock has room for %zu dependencies, but the graph has %zu; reserve more",
                            m->max_dependencies, dependencies(graph));
    return AH_OK;
}

/* True if the row uses any resource. */
static bool asks(const struct ah_clock_graph *graph, uint32_t row)
{
    for (size_t r = 0; r < graph->n_resources; r++)
        if (graph->demands[row].amount[r] > 0)
            return true;
    return false;
}

static void load_ops(struct ah_clock_memory *m, const struct ah_clock_graph *graph)
{
    uint8_t rows[AH_CLOCK_DEMANDS];
    for (uint32_t row = 0; row < graph->n_demands; row++)
        rows[row] = asks(graph, row) ? (uint8_t)(row + 1) : 0;
    for (size_t i = 0; i < graph->n_ops; i++)
        m->ops[i] = (struct clock_op){.duration = graph->duration_us[i],
                                      .priority = graph->priority ? graph->priority[i] : 0,
                                      .lane = (uint8_t)graph->lane[i],
                                      .row = graph->demand ? rows[graph->demand[i]] : 0,
                                      .takes = graph->takes ? graph->takes[i] : AH_CLOCK_NO_RING,
                                      .gives = graph->gives ? graph->gives[i] : AH_CLOCK_NO_RING,
                                      .absent = graph->absent ? graph->absent[i] : 0};
    m->ops[graph->n_ops].first_follower = 0;
}

/* Counts each op's followers, then stores them in `followers`, from last to first. */
static void load_dependencies(struct ah_clock_memory *m, const struct ah_clock_graph *graph)
{
    struct clock_op *ops = m->ops;
    size_t n = graph->n_ops;
    const uint8_t *back = graph->dependency_back;
    for (size_t at = graph->dependency_first ? graph->dependency_first[0] : 0; at < dependencies(graph); at++)
        ops[graph->dependency[at]].first_follower++;
    for (size_t i = 1; i <= n; i++)
        ops[i].first_follower += ops[i - 1].first_follower;
    for (size_t i = n; i-- > 0;) {
        size_t first = graph->dependency_first ? graph->dependency_first[i] : 0;
        size_t end = graph->dependency_first ? graph->dependency_first[i + 1] : 0;
        uint32_t before = 0;
        for (size_t at = first; at < end; at++) {
            uint32_t next_iteration = back ? back[at] : 0;
            before += next_iteration;
            m->followers[--ops[graph->dependency[at]].first_follower] = (uint32_t)(i + next_iteration * n);
        }
        m->needs[i] = (uint32_t)(end - first);
        m->needs_first[i] = (uint32_t)(end - first) - before;
    }
    m->n_early = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!m->needs_first[i] || ops[i].absent)
            m->early[m->n_early++] = i;
}

int ah_clock_load(struct ah_clock *clock, const struct ah_clock_graph *graph, struct ah_error *err)
{
    int rc = check_room(clock, graph, err);
    if (rc)
        return rc;
    clock->memory->loaded = false;
    rc = ah_clock_check(graph, err);
    if (rc)
        return rc;
    load_ops(clock->memory, graph);
    load_dependencies(clock->memory, graph);
    memset(clock->memory->keys, 0, sizeof clock->memory->keys);
    clock->memory->graph = *graph;
    clock->memory->loaded = true;
    return AH_OK;
}
