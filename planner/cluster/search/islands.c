/* SPDX-License-Identifier: Apache-2.0
 *
 * Prim's algorithm visits classes along the fastest links. It visits all classes of an island before it leaves by a
 * slower link. So the islands are the parts of the order of visits between slower links.
 */
#include "planner/cluster/search/islands.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const double gap = 4;

/* Visits all classes, the first one first. `links` is by place in the order, `near` by class. */
static void visit_classes(struct ah_islands *islands, const struct ah_cluster_problem *problem, double *near)
{
    const size_t n = islands->n_classes;
    for (size_t c = 0; c < n; c++)
        near[c] = c ? -1 : 0;
    for (size_t i = 0, next = 0; i < n; i++) {
        islands->order[i] = next;
        islands->links[i] = near[next];
        for (size_t c = 0; c < n; c++) {
            double bytes_per_s = problem->links[next * n + c].bytes_per_s;
            if (near[c] < bytes_per_s)
                near[c] = bytes_per_s;
        }
        for (size_t at = 0; at <= i; at++)
            near[islands->order[at]] = -2;
        next = 0;
        for (size_t c = 1; c < n; c++)
            next = near[c] > near[next] ? c : next;
    }
}

static int slower_first(const void *a, const void *b)
{
    const double *p = a, *q = b;
    return (*p > *q) - (*p < *q);
}

static void find_levels(struct ah_islands *islands)
{
    const size_t n = islands->n_classes;
    memcpy(islands->levels, islands->links, n * sizeof *islands->levels);
    qsort(islands->levels, n, sizeof *islands->levels, slower_first);
    for (size_t i = 1; i + 1 < n; i++) /* skips the least: the first class has no link */
        if (islands->levels[i] * gap <= islands->levels[i + 1])
            islands->levels[islands->n_levels++] = islands->levels[i + 1];
}

int ah_islands_init(struct ah_islands *ret_islands, const struct ah_cluster_problem *problem,
                    struct ah_error *err)
{
    struct ah_islands islands = {.n_classes = problem->n_classes};
    double *near = calloc(islands.n_classes, sizeof *near);
    islands.order = calloc(islands.n_classes, sizeof *islands.order);
    islands.links = calloc(islands.n_classes, sizeof *islands.links);
    islands.levels = calloc(islands.n_classes, sizeof *islands.levels);
    bool done = near && islands.order && islands.links && islands.levels;
    if (done) {
        visit_classes(&islands, problem, near);
        find_levels(&islands);
        *ret_islands = islands;
    } else {
        ah_islands_release(&islands);
    }
    free(near);
    return done ? AH_OK : ah_error_memory(err);
}

void ah_islands_release(struct ah_islands *islands)
{
    if (!islands)
        return;
    free(islands->order);
    free(islands->links);
    free(islands->levels);
    *islands = (struct ah_islands){0};
}

size_t ah_islands_at(const struct ah_islands *islands, size_t level, size_t *ret_island)
{
    size_t n = 0;
    for (size_t i = 0; i < islands->n_classes; i++) {
        n += i == 0 || islands->links[i] < islands->levels[level];
        ret_island[islands->order[i]] = n - 1;
    }
    return n;
}
