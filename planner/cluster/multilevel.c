/* SPDX-License-Identifier: Apache-2.0
 *
 * First partitions of the coarsest graph, refined; the best of them is then refined on each finer graph. Heavy vertices are
 * dealt out first also on the finest graph: the limit of a part is what that reaches, where it is above the balance.
 */
#include "planner/cluster/cuts_internal.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BALANCE 1.03
enum { LEVELS_MOST = 24, COARSE_PARTS = 4, COARSE_LEAST = 24 };

/* Of the vertices without a part the one with the most pull, or with the least; SIZE_MAX: there is none. */
static size_t pulled(const struct ah_cutting *c, bool most)
{
    size_t best = SIZE_MAX;
    for (size_t v = 0; v < c->graph.n; v++) {
        bool more = best != SIZE_MAX && c->pull[v] > c->pull[best];
        bool less = best != SIZE_MAX && c->pull[v] < c->pull[best];
        if (c->part[v] == SIZE_MAX && (best == SIZE_MAX || (most ? more : less)))
            best = v;
    }
    return best;
}

/* One part after another grows from the vertex that is least near to those that are left, by the one that is nearest, up to
 * its share of the weight that is left. */
static void start_by_growth(struct ah_cutting *c)
{
    size_t n = c->graph.n, left = n;
    double all = 0;
    for (size_t v = 0; v < n; v++) {
        all += c->graph.weights[v];
        c->part[v] = SIZE_MAX;
    }
    for (size_t q = 0; q < c->k; q++) {
        const double share = all / (double)(c->k - q);
        double weight = 0;
        for (size_t v = 0; v < n; v++) {
            c->pull[v] = 0;
            for (size_t u = 0; u < n; u++)
                c->pull[v] += u == v || c->part[u] != SIZE_MAX ? 0 : c->graph.edges[v * n + u];
        }
        for (size_t in_part = 0; left > c->k - 1 - q; in_part++) {
            size_t v = pulled(c, in_part > 0);
            if (in_part && q + 1 < c->k && weight + c->graph.weights[v] / 2 > share)
                break;
            c->part[v] = q;
            weight += c->graph.weights[v];
            left--;
            for (size_t u = 0; u < n; u++)
                c->pull[u] = (in_part ? c->pull[u] : 0) + c->graph.edges[v * n + u];
        }
        all -= weight;
    }
}

/* The best of the first partitions, into `part`. */
static void cut_coarsest(struct ah_cutting *c)
{
    void (*const starts[])(struct ah_cutting *) = {ah_cuts_deal_by_weight, ah_cuts_deal_rows,
                                                   start_by_growth};
    double best_excess = INFINITY, best_cut = INFINITY;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        starts[i](c);
        ah_refine_run(c);
        double excess = ah_refine_excess(c), cut = ah_refine_cut(c);
        if (i && !ah_refine_is_better(excess, cut, best_excess, best_cut))
            continue;
        best_excess = excess;
        best_cut = cut;
        memcpy(c->best, c->part, c->graph.n * sizeof *c->best);
    }
    memcpy(c->part, c->best, c->graph.n * sizeof *c->best);
}

/* ---- levels ---- */

struct levels {
    struct ah_cut_level items[LEVELS_MOST];
    size_t n;
};

static void release_levels(struct levels *levels)
{
    for (size_t i = 0; i < levels->n; i++) {
        free(levels->items[i].numbers);
        free(levels->items[i].coarser);
    }
}

/* Until there are few vertices for each part, or few pairs are found. */
static int make_levels(struct levels *levels, size_t k, double cap, struct ah_error *err)
{
    size_t few = COARSE_PARTS * k > COARSE_LEAST ? COARSE_PARTS * k : COARSE_LEAST;
    while (levels->n < LEVELS_MOST) {
        struct ah_cut_level *fine = &levels->items[levels->n - 1], *coarse = fine + 1;
        if (fine->graph.n <= few)
            return AH_OK;
        int rc = ah_coarsen_level(fine, cap, coarse, err);
        if (rc)
            return rc;
        levels->n++;
        if (coarse->graph.n > fine->graph.n - fine->graph.n / 8)
            return AH_OK;
    }
    return AH_OK;
}

/* The partition of a coarser graph, on a finer one. In place: no vertex's coarser one has a higher number. */
static void project(const struct ah_cut_level *fine, size_t *part)
{
    for (size_t v = fine->graph.n; v-- > 0;)
        part[v] = part[fine->coarser[v]];
}

static void look_at(struct ah_cutting *c, const struct ah_cut_level *level)
{
    c->graph = level->graph;
    c->memories = level->memory;
}

static void cut_levels(struct ah_cutting *c, const struct levels *levels)
{
    look_at(c, &levels->items[levels->n - 1]);
    cut_coarsest(c);
    for (size_t i = levels->n - 1; i-- > 0;) {
        project(&levels->items[i], c->part);
        look_at(c, &levels->items[i]);
        ah_refine_run(c);
    }
    ah_refine_count(c);
}

static void measure(const struct ah_cutting *c, struct ah_multilevel_measure *ret_measure)
{
    struct ah_multilevel_measure measure = {ah_refine_cut(c), ah_cuts_heaviest(c), INFINITY,
                                            ah_refine_excess(c)};
    for (size_t q = 0; q < c->k && c->memories; q++)
        measure.least_memory = fmin(measure.least_memory, c->memory[q]);
    *ret_measure = measure;
}

int ah_multilevel_cut(const struct ah_multilevel_problem *problem, size_t k, size_t *ret_part,
                      struct ah_multilevel_measure *ret_measure, struct ah_error *err)
{
    struct ah_cutting c;
    struct levels levels = {.items = {{.graph = problem->graph, .memory = problem->memory}}, .n = 1};
    double *members = calloc(problem->graph.n, sizeof *members);
    int rc = ah_cuts_reserve(&c, &problem->graph, k, err);
    levels.items[0].members = levels.items[0].numbers = members;
    if (!rc && !members)
        rc = ah_error_memory(err);
    if (!rc) {
        const double mean = ah_cuts_mean(&c);
        for (size_t v = 0; v < problem->graph.n; v++)
            members[v] = 1;
        ah_cuts_deal_by_weight(&c);
        c.limit = fmax(BALANCE * mean, ah_cuts_heaviest(&c));
        rc = make_levels(&levels, k, mean / 2, err);
    }
    if (!rc) {
        cut_levels(&c, &levels);
        memcpy(ret_part, c.part, problem->graph.n * sizeof *ret_part);
        measure(&c, ret_measure);
    }
    release_levels(&levels);
    ah_cuts_release(&c);
    return rc;
}
