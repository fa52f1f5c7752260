/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the order of stages with all orders of up to six nodes, and islands with a flood fill over fast links.
 */
#include "planner/cluster/search/islands.h"
#include "planner/cluster/search/route.h"
#include "tests/property/cluster/problems.h"

#include <math.h>
#include <stdio.h>

enum { CASES = 300, NODES = 6, MOST_NODES = 12 };

struct network {
    struct ah_cluster_problem problem;
    struct ah_problem_kind kind;
    struct ah_problem_class classes[MOST_NODES];
    struct ah_problem_link links[MOST_NODES * MOST_NODES];
};

/* Draws nodes on nested islands, where links of each outer level are several times slower. */
static void draw_islands(struct network *n, size_t nodes, uint64_t *random)
{
    double slower = draw_real(random, 1.2, 12);
    size_t near[MOST_NODES], far[MOST_NODES];
    memset(n, 0, sizeof *n);
    n->kind = (struct ah_problem_kind){.gpu = "gpu", .tp = 1};
    n->problem = (struct ah_cluster_problem){.n_kinds = 1,
                                             .n_classes = nodes,
                                             .kinds = &n->kind,
                                             .classes = n->classes,
                                             .links = n->links,
                                             .boundary_bytes = 1000};
    for (size_t a = 0; a < nodes; a++) {
        far[a] = check_draw(random, 2);
        near[a] = 2 * far[a] + check_draw(random, 2);
        n->classes[a] = (struct ah_problem_class){0, a, 1, 1e9};
        for (size_t b = 0; b <= a; b++) {
            double hops = a == b ? 0 : near[a] == near[b] ? 1 : far[a] == far[b] ? 2 : 3;
            n->links[a * nodes + b] = n->links[b * nodes + a] =
                (struct ah_problem_link){1e9 / pow(slower, hops) * draw_real(random, 1, 1.2), 0};
        }
    }
}

/* Returns the least time over all orders of the entries beginning at `at`. */
static double least_us(const struct network *n, size_t *classes, size_t count, size_t at)
{
    double least = INFINITY;
    if (at == count)
        return ah_route_us(&n->problem, classes, count);
    for (size_t i = at; i < count; i++) {
        size_t first = classes[at];
        classes[at] = classes[i];
        classes[i] = first;
        least = fmin(least, least_us(n, classes, count, at + 1));
        classes[i] = classes[at];
        classes[at] = first;
    }
    return least;
}

TEST(route, is_near_the_least)
{
    uint64_t random = 0x9e3779b97f4a7c15;
    size_t least = 0;
    for (size_t i = 0; i < CASES; i++) {
        struct network n;
        size_t nodes = 2 + check_draw(&random, NODES - 1), classes[2 * NODES], each[NODES],
               count[NODES] = {0}, at = 0;
        draw_islands(&n, nodes, &random);
        for (size_t c = 0; c < nodes; c++)
            for (size_t units = 1 + check_draw(&random, 2); units; units--)
                classes[at++] = c;
        for (size_t c = 0; c < nodes; c++)
            each[c] = c;
        double inside_us = ah_route_us(&n.problem, classes, at) - ah_route_us(&n.problem, each, nodes);
        double before_us = ah_route_us(&n.problem, classes, at);
        bool changed = ah_route_improve(&n.problem, classes, at);
        double us = ah_route_us(&n.problem, classes, at);
        assert_true(changed ? us < before_us : us <= before_us);
        for (size_t s = 0; s < at; s++) { /* units of a class stay together */
            count[classes[s]]++;
            assert_true(count[classes[s]] == 1 || classes[s - 1] == classes[s]);
        }
        double best_us = least_us(&n, each, nodes, 0) + inside_us;
        assert_true(us <= 1.25 * best_us);
        least += us <= best_us * (1 + 1e-9);
    }
    printf("%zu of %d orders are the best\n", least, CASES);
    assert_true(least >= CASES * 9 / 10);
}

TEST(route, stays_where_links_are_alike)
{
    struct network n;
    uint64_t random = 1;
    size_t classes[] = {3, 1, 1, 0, 2};
    draw_islands(&n, 4, &random);
    for (size_t i = 0; i < 16; i++)
        n.links[i] = (struct ah_problem_link){1e9, 5};
    assert_false(ah_route_improve(&n.problem, classes, 5));
    assert_int_equal(classes[0], 3);
    assert_int_equal(classes[4], 2);
}

/* Marks the nodes connected to `from` by links of `least` or more bytes per second. */
static void flood(const struct network *n, size_t from, double least, bool *reached)
{
    reached[from] = true;
    for (size_t c = 0; c < n->problem.n_classes; c++)
        if (!reached[c] && n->links[from * n->problem.n_classes + c].bytes_per_s >= least)
            flood(n, c, least, reached);
}

TEST(route, islands_are_what_fast_links_reach)
{
    uint64_t random = 0xbf58476d1ce4e5b9;
    size_t levels = 0;
    for (size_t i = 0; i < CASES; i++) {
        struct network n;
        struct ah_islands islands;
        struct ah_error err = {0};
        size_t island[MOST_NODES], before = 1, nodes = 1 + check_draw(&random, MOST_NODES);
        draw_islands(&n, nodes, &random);
        CHECK_OK(ah_islands_init(&islands, &n.problem, &err), err);
        for (size_t level = 0; level < islands.n_levels; level++) {
            size_t count = ah_islands_at(&islands, level, island);
            assert_true(count > before); /* each level has more islands */
            before = count;
            for (size_t a = 0; a < nodes; a++) {
                bool reached[MOST_NODES] = {0};
                flood(&n, a, islands.levels[level], reached);
                for (size_t b = 0; b < nodes; b++) {
                    assert_int_equal(reached[b], island[a] == island[b]);
                    assert_true(reached[b] ||
                                n.links[a * nodes + b].bytes_per_s * 4 <= islands.levels[level]);
                }
            }
        }
        levels += islands.n_levels;
        ah_islands_release(&islands);
    }
    assert_true(levels > CASES / 4);
}
