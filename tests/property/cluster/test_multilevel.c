/* SPDX-License-Identifier: Apache-2.0
 *
 * The multilevel partitioner on random graphs. Of any size: parts cover the vertices once, are what is told of them and within
 * their bounds where that is told; a refinement never ends worse than it began, and a move changes the cut by its gain;
 * levels keep all weight. Of small ones: the cut against all partitions with the same bounds.
 */
#include "planner/cluster/cuts_internal.h"
#include "tests/property/cluster/instances.h"

#include <math.h>
#include <stdio.h>

enum { LARGE = 40, MOST_LARGE = 72, SMALL = 150, MOST_SMALL = 9, MOST_PARTS = 8 };

struct graph {
    struct ah_multilevel_problem problem;
    double weights[MOST_LARGE], memory[MOST_LARGE], edges[MOST_LARGE * MOST_LARGE];
};

/* Vertices on islands, fast inside; memory for all parts, or hardly. */
static void draw_graph(struct graph *g, size_t n, size_t k, uint64_t *random)
{
    size_t islands = 1 + check_draw(random, 4), island[MOST_LARGE];
    double enough = check_draw(random, 3) ? 3 : 1.2;
    g->problem =
        (struct ah_multilevel_problem){{n, g->weights, g->edges}, check_draw(random, 4) ? g->memory : NULL};
    for (size_t v = 0; v < n; v++) {
        island[v] = check_draw(random, islands);
        g->weights[v] = (double)(1 + check_draw(random, 3));
        g->memory[v] = enough * (double)k / (double)n * draw_real(random, 0.5, 1.5);
        for (size_t u = 0; u <= v; u++)
            g->edges[u * n + v] = g->edges[v * n + u] = island[u] == island[v] ? 5 : draw_real(random, 0, 1);
    }
}

static struct ah_multilevel_measure judge(const struct graph *g, size_t k, const size_t *part)
{
    const size_t n = g->problem.graph.n;
    double weight[MOST_PARTS] = {0}, memory[MOST_PARTS] = {0}, dealt[MOST_PARTS] = {0}, mean = 0, limit = 0;
    struct ah_multilevel_measure m = {.least_memory = INFINITY};
    for (size_t v = 0; v < n; v++) {
        weight[part[v]] += g->weights[v];
        memory[part[v]] += g->memory[v];
        mean += g->weights[v] / (double)k;
        for (size_t u = 0; u < v; u++)
            m.cut += part[u] == part[v] ? 0 : g->edges[u * n + v];
    }
    for (double heavy = 3; heavy > 0; heavy--) /* dealt out heaviest first */
        for (size_t v = 0; v < n; v++) {
            size_t to = 0;
            for (size_t q = 0; q < k; q++)
                to = dealt[q] < dealt[to] ? q : to;
            dealt[to] += g->weights[v] > heavy - 0.5 && g->weights[v] < heavy + 0.5 ? heavy : 0;
        }
    for (size_t q = 0; q < k; q++)
        limit = fmax(limit, dealt[q]);
    limit = fmax(limit, mean * 1.03);
    for (size_t q = 0; q < k; q++) {
        m.heaviest = fmax(m.heaviest, weight[q]);
        m.excess += fmax(0, weight[q] / limit - 1);
        if (g->problem.memory) {
            m.least_memory = fmin(m.least_memory, memory[q]);
            m.excess += fmax(0, 1 - memory[q]);
        }
    }
    return m;
}

static void check_cover(const size_t *part, size_t n, size_t k)
{
    size_t count[MOST_PARTS] = {0};
    for (size_t v = 0; v < n; v++) {
        assert_true(part[v] < k);
        count[part[v]]++;
    }
    for (size_t q = 0; q < k; q++)
        assert_true(count[q] > 0);
}

TEST(multilevel, parts_are_as_told)
{
    uint64_t random = 0x853c49e6748fea9b;
    size_t within = 0;
    static struct graph g;
    for (size_t i = 0; i < LARGE; i++) {
        struct ah_error err = {0};
        struct ah_multilevel_measure told, again;
        size_t part[MOST_LARGE], other[MOST_LARGE], n = 10 + check_draw(&random, MOST_LARGE - 9);
        size_t k = 1 + check_draw(&random, MOST_PARTS);
        draw_graph(&g, n, k, &random);
        CHECK_OK(ah_multilevel_cut(&g.problem, k, part, &told, &err), err);
        check_cover(part, n, k);
        const struct ah_multilevel_measure is = judge(&g, k, part);
        check_near(told.cut, is.cut, 1e-6);
        check_near(told.heaviest, is.heaviest, 1e-6);
        if (g.problem.memory)
            check_near(told.least_memory, is.least_memory, 1e-6);
        check_near(told.excess, is.excess, 1e-6);
        within += told.excess <= 0;
        CHECK_OK(ah_multilevel_cut(&g.problem, k, other, &again, &err), err);
        assert_memory_equal(part, other, n * sizeof *part);
    }
    printf("%zu of %d partitions are within their bounds\n", within, LARGE);
    assert_true(within >= LARGE * 9 / 10);
}

/* The least cut within the bounds; INFINITY: there is none. */
static double least_cut(const struct graph *g, size_t k)
{
    size_t part[MOST_SMALL] = {0}, n = g->problem.graph.n;
    double least = INFINITY;
    for (bool more = true; more;) {
        size_t count[MOST_PARTS] = {0}, used = 0, v = 0;
        for (size_t u = 0; u < n; u++)
            used += count[part[u]]++ == 0;
        const struct ah_multilevel_measure is = judge(g, k, part);
        if (used == k && is.excess <= 1e-9)
            least = fmin(least, is.cut);
        for (; v < n && ++part[v] == k; v++)
            part[v] = 0;
        more = v < n;
    }
    return least;
}

TEST(multilevel, is_near_the_least_cut)
{
    uint64_t random = 0xda3e39cb94b95bdb;
    size_t least = 0, possible = 0, missed = 0;
    double worst = 1;
    static struct graph g;
    for (size_t i = 0; i < SMALL; i++) {
        struct ah_error err = {0};
        struct ah_multilevel_measure told;
        size_t part[MOST_SMALL], n = 2 + check_draw(&random, MOST_SMALL - 1);
        size_t k = 1 + check_draw(&random, n < 3 ? n : n < 8 ? 4 - (n == 3) : 3);
        draw_graph(&g, n, k, &random);
        CHECK_OK(ah_multilevel_cut(&g.problem, k, part, &told, &err), err);
        double best = least_cut(&g, k);
        if (isinf(best))
            continue;
        possible++;
        if (told.excess > 0) {
            missed++;
            continue;
        }
        worst = fmax(worst, best > 0 ? told.cut / best : 1);
        least += told.cut <= best * (1 + 1e-9);
    }
    printf("%zu of %zu cuts are the least, the worst %.2f of it; %zu are not within the bounds\n", least,
           possible, worst, missed);
    assert_true(worst <= 1.5);
    assert_true(least >= possible * 9 / 10);
    assert_true(missed <= possible / 20);
}

TEST(multilevel, refinement_never_ends_worse)
{
    uint64_t random = 0x2545f4914f6cdd1d;
    static struct graph g;
    for (size_t i = 0; i < LARGE; i++) {
        struct ah_cutting c;
        struct ah_error err = {0};
        size_t n = 8 + check_draw(&random, MOST_LARGE - 7), k = 2 + check_draw(&random, MOST_PARTS - 1);
        draw_graph(&g, n, k, &random);
        CHECK_OK(ah_cuts_reserve(&c, &g.problem.graph, k, &err), err);
        c.memories = g.problem.memory;
        c.limit = 1.1 * ah_cuts_mean(&c);
        for (size_t v = 0; v < n; v++)
            c.part[v] = v < k ? v : check_draw(&random, k);
        ah_refine_count(&c);
        for (size_t moves = 0; moves < 10; moves++) {
            double before = judge(&g, k, c.part).cut;
            size_t v = check_draw(&random, n), to = check_draw(&random, k);
            if (to == c.part[v] || c.count[c.part[v]] == 1)
                continue;
            double gain = ah_refine_gain(&c, v, to);
            ah_refine_move(&c, v, to);
            check_near(before - gain, judge(&g, k, c.part).cut, 1e-6);
            check_near(ah_refine_cut(&c), judge(&g, k, c.part).cut, 1e-6);
        }
        double excess = ah_refine_excess(&c), cut = ah_refine_cut(&c);
        ah_refine_run(&c);
        check_cover(c.part, n, k);
        assert_true(ah_refine_excess(&c) <= excess + 1e-9);
        assert_true(ah_refine_excess(&c) < excess - 1e-9 || ah_refine_cut(&c) <= cut * (1 + 1e-9));
        ah_cuts_release(&c);
    }
}

TEST(multilevel, levels_keep_all_weight)
{
    uint64_t random = 0x14057b7ef767814f;
    static struct graph g;
    for (size_t i = 0; i < LARGE; i++) {
        struct ah_error err = {0};
        struct ah_cut_level coarse;
        size_t n = 2 + check_draw(&random, MOST_LARGE - 1);
        double members[MOST_LARGE], weight[MOST_LARGE] = {0}, memory[MOST_LARGE] = {0},
                                    cap = 2 + draw_real(&random, 0, 5);
        draw_graph(&g, n, 1, &random);
        struct ah_cut_level fine = {g.problem.graph, g.memory, members, NULL, NULL};
        for (size_t v = 0; v < n; v++)
            members[v] = 1;
        CHECK_OK(ah_coarsen_level(&fine, cap, &coarse, &err), err);
        for (size_t v = 0; v < n; v++) {
            assert_true(fine.coarser[v] <= v);
            weight[fine.coarser[v]] += g.weights[v];
            memory[fine.coarser[v]] += g.memory[v];
        }
        for (size_t v = 0; v < coarse.graph.n; v++) {
            check_near(coarse.graph.weights[v], weight[v], 1e-6);
            check_near(coarse.memory[v], memory[v], 1e-6);
            assert_true(coarse.members[v] < 1.5 || (coarse.members[v] < 2.5 && weight[v] <= cap));
            for (size_t u = 0; u < v; u++) {
                double edge = 0;
                for (size_t a = 0; a < n; a++)
                    for (size_t b = 0; b < n; b++)
                        edge += fine.coarser[a] == u && fine.coarser[b] == v ? g.edges[a * n + b] : 0;
                check_near(coarse.graph.edges[u * coarse.graph.n + v], edge, 1e-6);
            }
        }
        free(coarse.numbers);
        free(fine.coarser);
    }
}

/* Two islands of twelve, and a matching that joins nothing across them. */
TEST(multilevel, pairs_have_heavy_edges)
{
    enum { N = 24 };
    double weights[N], members[N], edges[N * N];
    struct ah_error err = {0};
    struct ah_cut_level coarse;
    for (size_t v = 0; v < N; v++) {
        weights[v] = members[v] = 1;
        for (size_t u = 0; u < N; u++)
            edges[u * N + v] = u % 2 == v % 2 ? 10 : 1;
    }
    struct ah_cut_level fine = {{N, weights, edges}, NULL, members, NULL, NULL};
    CHECK_OK(ah_coarsen_level(&fine, 2, &coarse, &err), err);
    assert_int_equal(coarse.graph.n, N / 2);
    for (size_t v = 0; v < N; v++)
        for (size_t u = 0; u < v; u++)
            assert_true(fine.coarser[u] != fine.coarser[v] || u % 2 == v % 2);
    free(coarse.numbers);
    free(fine.coarser);
}
