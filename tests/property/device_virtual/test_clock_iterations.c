/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests graphs run for several iterations. The times must be those of one longer graph with all iterations.
 */
#include "runtime/device/virtual/clock.h"
#include "tests/support/check.h"

#include <stdbool.h>
#include <string.h>

enum {
    GRAPHS = 1500,
    MAX_OPS = 24,
    MAX_ITERATIONS = 5,
    MAX_DEPENDENCIES = 4 * MAX_OPS,
    LANES = 4,
    RINGS = 2
};
enum { MAX_INSTANCES = MAX_OPS * MAX_ITERATIONS };

struct graph {
    struct ah_clock_graph of;
    double duration[MAX_OPS];
    uint32_t lane[MAX_OPS];
    uint64_t priority[MAX_OPS];
    size_t first[MAX_OPS + 1];
    uint32_t dependency[MAX_DEPENDENCIES];
    uint8_t back[MAX_DEPENDENCIES];
    uint8_t absent[MAX_OPS], takes[MAX_OPS], gives[MAX_OPS];
    uint32_t places[RINGS];
    struct ah_share_demand demands[LANES];
    double capacity[1];
    enum ah_clock_rule rule[LANES];
};

/* Draws ops. An op waits for lower ops of its iteration and for any ops of the iteration before. Lane 1 may take slots
 * of ring 0, and lane 2 gives them back. Lane 2 may take slots of ring 1, and lane 3 gives them back. */
static void draw(struct graph *g, uint64_t *seed)
{
    size_t n = 2 + check_random(seed) % (MAX_OPS - 1), edges = 0;
    memset(g, 0, sizeof *g);
    for (size_t i = 0; i < n; i++) {
        g->first[i] = edges;
        for (uint64_t k = check_random(seed) % 4; k > 0; k--) {
            g->back[edges] = !i || check_random(seed) % 3 == 0;
            g->dependency[edges] = (uint32_t)(check_random(seed) % (g->back[edges] ? n : i));
            edges++;
        }
        g->lane[i] = (uint32_t)(check_random(seed) % LANES);
        g->duration[i] = check_random(seed) % 5 ? 1 + (double)(check_random(seed) % 6) : 0;
        g->priority[i] = check_random(seed) % 16;
        g->absent[i] = (uint8_t)(check_random(seed) % 8 ? 0 : 1 + check_random(seed) % 3);
        g->takes[i] = g->gives[i] = AH_CLOCK_NO_RING;
        if (g->lane[i] == 1 || g->lane[i] == 2)
            g->takes[i] = check_random(seed) % 2 ? (uint8_t)(g->lane[i] - 1) : AH_CLOCK_NO_RING;
        if (g->lane[i] > 1)
            g->gives[i] = (uint8_t)(g->lane[i] - 2);
    }
    g->first[n] = edges;
    for (size_t r = 0; r < RINGS; r++)
        g->places[r] = (uint32_t)(2 + check_random(seed) % 12);
    for (size_t l = 0; l < LANES; l++) {
        g->demands[l].amount[0] = l ? check_uniform(seed) : 0;
        g->rule[l] = (enum ah_clock_rule)(check_random(seed) % 3);
    }
    g->capacity[0] = 1;
    g->of = (struct ah_clock_graph){.n_ops = n,
                                    .n_lanes = LANES,
                                    .n_demands = LANES,
                                    .n_resources = 1,
                                    .n_rings = RINGS,
                                    .duration_us = g->duration,
                                    .lane = g->lane,
                                    .demand = g->lane,
                                    .priority = g->priority,
                                    .dependency_first = g->first,
                                    .dependency = g->dependency,
                                    .dependency_back = g->back,
                                    .absent = g->absent,
                                    .takes = g->takes,
                                    .gives = g->gives,
                                    .ring_slots = g->places,
                                    .demands = g->demands,
                                    .capacity = g->capacity};
}

enum { STEP = 5 };

struct written {
    double duration[MAX_INSTANCES];
    uint32_t lane[MAX_INSTANCES];
    uint64_t priority[MAX_INSTANCES];
    size_t first[MAX_INSTANCES + 1];
    uint32_t dependency[MAX_DEPENDENCIES * MAX_ITERATIONS];
    uint8_t takes[MAX_INSTANCES], gives[MAX_INSTANCES];
};

static struct ah_clock_graph write_out(const struct graph *g, size_t iterations, struct written *w)
{
    size_t n = g->of.n_ops, edges = 0;
    for (size_t at = 0; at < n * iterations; at++) {
        size_t op = at % n, r = at / n;
        bool absent = (g->absent[op] & AH_CLOCK_NOT_FIRST && !r) ||
                      (g->absent[op] & AH_CLOCK_NOT_LAST && r + 1 == iterations);
        w->duration[at] = absent ? 0 : g->duration[op];
        w->lane[at] = g->lane[op];
        w->priority[at] = g->priority[op] + r * STEP;
        w->takes[at] = absent ? AH_CLOCK_NO_RING : g->takes[op];
        w->gives[at] = absent ? AH_CLOCK_NO_RING : g->gives[op];
        w->first[at] = edges;
        for (size_t e = g->first[op]; e < g->first[op + 1] && !absent; e++)
            if (g->back[e] <= r)
                w->dependency[edges++] = (uint32_t)((r - g->back[e]) * n + g->dependency[e]);
    }
    w->first[n * iterations] = edges;
    struct ah_clock_graph out = g->of;
    out.n_ops = n * iterations;
    out.duration_us = w->duration;
    out.lane = out.demand = w->lane;
    out.priority = w->priority;
    out.dependency_first = w->first;
    out.dependency = w->dependency;
    out.dependency_back = out.absent = NULL;
    out.takes = w->takes;
    out.gives = w->gives;
    out.rule = g->rule;
    return out;
}

static void check_same(const struct ah_clock_span *a, const struct ah_clock_span *b)
{
    assert_memory_equal(&a->ready_us, &b->ready_us, 4 * sizeof(double));
    assert_int_equal(a->waited_for, b->waited_for);
    assert_int_equal(a->gave_slot, b->gave_slot);
    assert_int_equal(a->slowed_by, b->slowed_by);
}

/* Checks that ops have the times of a full course even if a course needs only some iterations of each op. */
static void check_needed(struct ah_clock *clock, struct ah_clock_course course, size_t n,
                         const struct ah_clock_span *all, uint64_t *seed)
{
    uint32_t needed[MAX_OPS];
    struct ah_clock_result result;
    struct ah_error err = {0};
    for (size_t op = 0; op < n; op++)
        needed[op] = (uint32_t)(check_random(seed) % (course.iterations + 2));
    course.needed = needed;
    CHECK_OK(ah_clock_repeat(clock, &course, &result, &err), err);
    for (size_t at = 0; at < n * course.iterations; at++)
        if (at / n < needed[at % n])
            check_same(&result.spans[at], &all[at]);
}

TEST(clock_iterations, are_what_is_written_out)
{
    static struct graph g;
    static struct written w;
    static struct ah_clock_span all[MAX_INSTANCES];
    uint64_t seed = check_seed(31);
    struct ah_clock clock = {0}, other = {0};
    size_t failed = 0, absent = 0;
    for (int i = 0; i < GRAPHS; i++) {
        size_t iterations = 1 + check_random(&seed) % MAX_ITERATIONS;
        struct ah_clock_result result, expected;
        struct ah_error err = {0}, expected_err = {0};
        draw(&g, &seed);
        const struct ah_clock_course course = {
            .iterations = iterations, .rule = g.rule, .priority_step = STEP};
        struct ah_clock_graph out = write_out(&g, iterations, &w);
        CHECK_OK(ah_clock_reserve(&other, &out, 1, &err), err);
        CHECK_OK(ah_clock_reserve(&clock, &g.of, iterations, &err), err);
        CHECK_OK(ah_clock_load(&clock, &g.of, &err), err);
        int rc = ah_clock_run(&other, &out, &expected, &expected_err);
        assert_int_equal(ah_clock_repeat(&clock, &course, &result, &err), rc);
        failed += rc != 0;
        if (rc) {
            assert_string_equal(err.text, expected_err.text);
            continue;
        }
        for (size_t at = 0; at < out.n_ops; at++) {
            check_same(&result.spans[at], &expected.spans[at]);
            absent += g.absent[at % g.of.n_ops] != 0;
        }
        assert_memory_equal(result.order, expected.order, out.n_ops * sizeof *result.order);
        assert_memory_equal(result.lanes, expected.lanes, sizeof result.lanes);
        memcpy(all, result.spans, out.n_ops * sizeof *all);
        check_needed(&clock, course, g.of.n_ops, all, &seed);
    }
    assert_true(failed > GRAPHS / 50 && failed < GRAPHS / 2 && absent > GRAPHS);
    ah_clock_release(&clock);
    ah_clock_release(&other);
}

/* One course of a loaded graph does not affect the next. */
TEST(clock_iterations, run_again_as_before)
{
    static struct graph g;
    static struct ah_clock_span before[MAX_INSTANCES];
    uint64_t seed = check_seed(32);
    struct ah_clock clock = {0};
    for (int i = 0; i < 200; i++) {
        struct ah_clock_result result;
        struct ah_error err = {0};
        draw(&g, &seed);
        struct ah_clock_course course = {.iterations = 3, .rule = g.rule, .priority_step = STEP};
        CHECK_OK(ah_clock_reserve(&clock, &g.of, MAX_ITERATIONS, &err), err);
        CHECK_OK(ah_clock_load(&clock, &g.of, &err), err);
        if (ah_clock_repeat(&clock, &course, &result, &err))
            continue;
        memcpy(before, result.spans, 3 * g.of.n_ops * sizeof *before);
        course.iterations = 2 + check_random(&seed) % 4;
        (void)ah_clock_repeat(&clock, &course, &result, &err);
        course.iterations = 3;
        CHECK_OK(ah_clock_repeat(&clock, &course, &result, &err), err);
        for (size_t at = 0; at < 3 * g.of.n_ops; at++)
            check_same(&result.spans[at], &before[at]);
    }
    ah_clock_release(&clock);
}
