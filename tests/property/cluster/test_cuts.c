/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares cuts of small random graphs with all partitions. Every part has a vertex, and the heaviest part is as light
 * as possible. The cut seldom exceeds the least cut of partitions with such parts.
 */
#include "planner/cluster/policies/cuts.h"
#include "tests/property/cluster/problems.h"

#include <math.h>
#include <stdio.h>

enum { GRAPHS = 200, MOST_VERTICES = 8 };

struct graph {
    struct ah_cut_graph graph;
    double weights[MOST_VERTICES], edges[MOST_VERTICES * MOST_VERTICES];
};

static void draw_graph(struct graph *g, uint64_t *random)
{
    size_t n = 2 + check_draw(random, MOST_VERTICES - 1);
    g->graph = (struct ah_cut_graph){n, g->weights, g->edges};
    for (size_t v = 0; v < n; v++) {
        g->weights[v] = check_draw(random, 2) ? 1 : 2;
        for (size_t u = 0; u <= v; u++)
            g->edges[u * n + v] = g->edges[v * n + u] = check_draw(random, 3) ? draw_real(random, 0, 1) : 5;
    }
}

/* Computes the weights of the heaviest part and of the cut. Returns false if a part is empty. */
static bool judge(const struct graph *g, size_t k, const size_t *part, double *ret_heaviest, double *ret_cut)
{
    double weight[MOST_VERTICES] = {0};
    *ret_heaviest = *ret_cut = 0;
    for (size_t v = 0; v < g->graph.n; v++) {
        weight[part[v]] += g->weights[v];
        for (size_t u = 0; u < v; u++)
            *ret_cut += part[u] == part[v] ? 0 : g->edges[u * g->graph.n + v];
    }
    for (size_t q = 0; q < k; q++) {
        if (weight[q] <= 0)
            return false;
        *ret_heaviest = fmax(*ret_heaviest, weight[q]);
    }
    return true;
}

/* Returns the least cut among partitions whose heaviest part is within `limit`. */
static double least_cut(const struct graph *g, size_t k, double limit)
{
    size_t part[MOST_VERTICES] = {0};
    double heaviest, cut, least = INFINITY;
    for (bool more = true; more;) {
        if (judge(g, k, part, &heaviest, &cut) && heaviest <= limit)
            least = fmin(least, cut);
        size_t v = 0;
        for (; v < g->graph.n && ++part[v] == k; v++)
            part[v] = 0;
        more = v < g->graph.n;
    }
    return least;
}

TEST(cuts, are_near_the_least)
{
    uint64_t random = 0xd1342543de82ef95;
    size_t least = 0;
    for (size_t i = 0; i < GRAPHS; i++) {
        struct graph g;
        struct ah_error err = {0};
        size_t part[MOST_VERTICES];
        double heaviest, cut, all = 0;
        draw_graph(&g, &random);
        size_t k = 1 + check_draw(&random, g.graph.n < 4 ? g.graph.n : 4);
        CHECK_OK(ah_cuts_find(&g.graph, k, part, &err), err);
        assert_true(judge(&g, k, part, &heaviest, &cut));
        for (size_t v = 0; v < g.graph.n; v++)
            all += g.weights[v];
        assert_true(heaviest <= ceil(all / (double)k) + 1);
        double best = least_cut(&g, k, heaviest);
        assert_true(cut <= 2 * best + 1e-9);
        least += cut <= best * (1 + 1e-9);
    }
    printf("%zu of %d cuts are the least\n", least, GRAPHS);
    assert_true(least >= GRAPHS * 8 / 10);
}

/* There are four pairs of neighbours. Fast links stay inside parts, or connect parts if edges weigh the inverse. */
TEST(cuts, keep_heavy_edges)
{
    double weights[8], edges[64], inverse[64];
    size_t part[8];
    struct ah_error err = {0};
    for (size_t v = 0; v < 8; v++) {
        weights[v] = 1;
        for (size_t u = 0; u < 8; u++)
            inverse[u * 8 + v] = 1 / (edges[u * 8 + v] = u / 2 == v / 2 ? 100 : 1);
    }
    CHECK_OK(ah_cuts_find(&(struct ah_cut_graph){8, weights, edges}, 4, part, &err), err);
    for (size_t v = 0; v < 8; v += 2)
        assert_int_equal(part[v], part[v + 1]);
    CHECK_OK(ah_cuts_find(&(struct ah_cut_graph){8, weights, inverse}, 4, part, &err), err);
    for (size_t v = 0; v < 8; v += 2)
        assert_int_not_equal(part[v], part[v + 1]);
}
