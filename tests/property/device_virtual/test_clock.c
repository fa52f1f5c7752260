/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the clock on random graphs. The test takes the spans of a run as given and checks them by other means than the
 * clock's. Dependencies, lanes and rules are checked by comparing all pairs, sharing by cutting time at every start and
 * finish and bisecting each piece. Together, they determine the schedule, so nothing is simulated here.
 */
#include "runtime/device/virtual/clock.h"
#include "tests/property/device_virtual/fill.h"
#include "tests/support/check.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRAPHS = 1000, MAX_OPS = 64, MAX_DEPENDENCIES = MAX_OPS * 6, MAX_ROWS = 12 };

/* Exact graphs have small whole durations, many ties and zeros, and share nothing. Shared graphs have random ones. */
enum style { STYLE_EXACT, STYLE_SHARED };

struct graph {
    struct ah_clock_graph of;
    double duration[MAX_OPS];
    uint32_t lane[MAX_OPS];
    uint32_t demand[MAX_OPS];
    uint64_t priority[MAX_OPS];
    size_t first[MAX_OPS + 1];
    uint32_t dependency[MAX_DEPENDENCIES];
    enum ah_clock_rule rule[AH_CLOCK_LANES];
    uint32_t order[MAX_OPS];
    struct ah_share_demand demands[MAX_ROWS];
    double capacity[AH_SHARE_RESOURCES];
};

static void draw_resources(struct graph *g, uint64_t *seed)
{
    g->of.n_resources = 1 + check_random(seed) % 4;
    g->of.n_demands = 1 + check_random(seed) % MAX_ROWS;
    for (size_t r = 0; r < g->of.n_resources; r++)
        g->capacity[r] = 0.5 + check_uniform(seed);
    for (size_t row = 0; row < g->of.n_demands; row++) {
        for (size_t r = 0; r < g->of.n_resources; r++)
            if (check_random(seed) % 2)
                g->demands[row].amount[r] = check_uniform(seed);
        if (check_random(seed) % 4 == 0)
            g->demands[row].weight = 0.5 + check_uniform(seed);
    }
}

/* Draws dependencies on ops of lower rank. The ranks are a random permutation of the indices. */
static void draw_dependencies(struct graph *g, uint64_t *seed, const uint32_t *rank)
{
    size_t n = 0;
    for (uint32_t op = 0; op < g->of.n_ops; op++) {
        g->first[op] = n;
        for (size_t k = check_random(seed) % 5; k > 0; k--) {
            uint32_t other = (uint32_t)(check_random(seed) % g->of.n_ops);
            if (rank[other] < rank[op])
                g->dependency[n++] = other;
        }
    }
    g->first[g->of.n_ops] = n;
}

static void shuffle(uint32_t *items, size_t n, uint64_t *seed)
{
    for (size_t i = 0; i < n; i++)
        items[i] = (uint32_t)i;
    for (size_t i = n; i > 1; i--) {
        size_t j = check_random(seed) % i;
        uint32_t swap = items[i - 1];
        items[i - 1] = items[j];
        items[j] = swap;
    }
}

/* Draws a frozen order for every lane that agrees with the ranks. */
static void draw_order(struct graph *g, const uint32_t *rank)
{
    uint32_t by_rank[MAX_OPS];
    size_t at = 0;
    for (uint32_t op = 0; op < g->of.n_ops; op++)
        by_rank[rank[op]] = op;
    for (uint32_t l = 0; l < g->of.n_lanes; l++)
        for (size_t k = 0; k < g->of.n_ops; k++)
            if (g->lane[by_rank[k]] == l)
                g->order[at++] = by_rank[k];
}

static struct graph *draw(uint64_t *seed, enum style style)
{
    static struct graph g;
    uint32_t rank[MAX_OPS];
    memset(&g, 0, sizeof g);
    g.of = (struct ah_clock_graph){.n_ops = 1 + check_random(seed) % MAX_OPS,
                                   .n_lanes = 1 + check_random(seed) % (check_random(seed) % 8 ? 5 : 16),
                                   .duration_us = g.duration,
                                   .lane = g.lane,
                                   .priority = g.priority,
                                   .dependency_first = g.first,
                                   .dependency = g.dependency,
                                   .rule = g.rule,
                                   .order = g.order};
    bool zeros = check_random(seed) % 2;
    shuffle(rank, g.of.n_ops, seed);
    if (style == STYLE_SHARED) {
        draw_resources(&g, seed);
        g.of.demand = g.demand;
        g.of.demands = g.demands;
        g.of.capacity = g.capacity;
    }
    for (size_t l = 0; l < g.of.n_lanes; l++)
        g.rule[l] = (enum ah_clock_rule)(check_random(seed) % 3);
    for (size_t op = 0; op < g.of.n_ops; op++) {
        g.lane[op] = (uint32_t)(check_random(seed) % g.of.n_lanes);
        g.priority[op] = check_random(seed) % 8;
        g.duration[op] =
            style == STYLE_EXACT ? (double)(1 + check_random(seed) % 5) : 0.01 + check_uniform(seed);
        if (zeros && check_random(seed) % 6 == 0)
            g.duration[op] = 0;
        if (style == STYLE_SHARED)
            g.demand[op] = (uint32_t)(check_random(seed) % g.of.n_demands);
    }
    draw_dependencies(&g, seed, rank);
    draw_order(&g, rank);
    return &g;
}

static void run(struct ah_clock *clock, const struct ah_clock_graph *graph,
                struct ah_clock_result *ret_result)
{
    struct ah_error err = {0};
    CHECK_OK(ah_clock_reserve(clock, graph, 1, &err), err);
    CHECK_OK(ah_clock_run(clock, graph, ret_result, &err), err);
}

/* ---- what the spans must satisfy ---- */

static void check_dependencies(const struct ah_clock_graph *graph, const struct ah_clock_span *spans)
{
    for (size_t op = 0; op < graph->n_ops; op++) {
        double ready = 0;
        bool waited_for_one = spans[op].waited_for == AH_CLOCK_NO_OP;
        for (size_t at = graph->dependency_first[op]; at < graph->dependency_first[op + 1]; at++) {
            uint32_t dependency = graph->dependency[at];
            ready = fmax(ready, spans[dependency].finish_us);
            waited_for_one |=
                dependency == spans[op].waited_for && spans[dependency].finish_us >= spans[op].ready_us;
        }
        assert_true(waited_for_one);
        assert_int_equal(spans[op].waited_for == AH_CLOCK_NO_OP,
                         graph->dependency_first[op] == graph->dependency_first[op + 1]);
        assert_memory_equal(&spans[op].ready_us, &ready, sizeof ready);
        assert_true(spans[op].start_us >= ready);
    }
}

/* Checks that each lane runs each of its ops once, one at a time. A frozen lane starts each op as soon as it can. */
static void check_lanes(const struct ah_clock_graph *graph, const struct ah_clock_result *result)
{
    bool seen[MAX_OPS] = {false};
    for (size_t l = 0; l < graph->n_lanes; l++) {
        const struct ah_clock_lane *lane = &result->lanes[l];
        double free_at = 0;
        double busy = 0;
        for (size_t i = 0; i < lane->n; i++) {
            uint32_t op = result->order[lane->first + i];
            const struct ah_clock_span *span = &result->spans[op];
            assert_true(op < graph->n_ops && graph->lane[op] == l && !seen[op]);
            seen[op] = true;
            assert_true(span->start_us >= free_at && span->finish_us >= span->start_us);
            if (graph->rule[l] == AH_CLOCK_FROZEN) {
                assert_int_equal(op, graph->order[lane->first + i]);
                assert_true(span->start_us <= fmax(free_at, span->ready_us));
            }
            free_at = span->finish_us;
            busy += span->finish_us - span->start_us;
        }
        assert_true(free_at <= result->end_us);
        check_near(lane->busy_us, busy, 1e-12);
        check_near(lane->idle_us, result->end_us - busy, 1e-9);
    }
    for (size_t op = 0; op < graph->n_ops; op++)
        assert_true(seen[op]);
}

/* True if a priority or fifo lane must take `a` before `b` when `a` and `b` are ready. */
static bool goes_first(const struct ah_clock_graph *graph, const struct ah_clock_span *spans, size_t a,
                       size_t b)
{
    if (graph->rule[graph->lane[a]] == AH_CLOCK_PRIORITY && graph->priority[a] != graph->priority[b])
        return graph->priority[a] < graph->priority[b];
    if (graph->rule[graph->lane[a]] == AH_CLOCK_FIFO && spans[a].ready_us != spans[b].ready_us)
        return spans[a].ready_us < spans[b].ready_us;
    return a < b;
}

/* Checks that, while a ready op waits, its lane is always busy with ops that go first or started before it was ready.
 * An op without duration may make others ready within an instant, after lanes chose. So equal times are not checked. */
static void check_choices(const struct ah_clock_graph *graph, const struct ah_clock_result *result)
{
    bool zeros = false;
    for (size_t op = 0; op < graph->n_ops; op++)
        zeros |= graph->duration_us[op] <= 0;
    for (size_t op = 0; op < graph->n_ops; op++) {
        const struct ah_clock_span *span = &result->spans[op];
        double covered = span->ready_us;
        if (graph->rule[graph->lane[op]] == AH_CLOCK_FROZEN)
            continue;
        const struct ah_clock_lane *lane = &result->lanes[graph->lane[op]];
        for (size_t i = 0; i < lane->n && result->order[lane->first + i] != op; i++) {
            uint32_t other = result->order[lane->first + i];
            const struct ah_clock_span *before = &result->spans[other];
            if (before->start_us > span->ready_us || (before->start_us >= span->ready_us && !zeros))
                assert_true(goes_first(graph, result->spans, other, op));
            if (before->start_us <= covered)
                covered = fmax(covered, before->finish_us);
        }
        assert_true(covered >= span->start_us);
    }
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Cuts time at every start and finish. In each piece, the running ops advance at the speeds found by bisection. */
static void check_sharing(const struct ah_clock_graph *graph, const struct ah_clock_result *result)
{
    double cuts[2 * MAX_OPS];
    double advanced[MAX_OPS] = {0};
    double slowed[AH_CLOCK_LANES] = {0};
    size_t n_cuts = 0;
    for (size_t op = 0; op < graph->n_ops; op++) {
        cuts[n_cuts++] = result->spans[op].start_us;
        cuts[n_cuts++] = result->spans[op].finish_us;
    }
    qsort(cuts, n_cuts, sizeof *cuts, ascending);
    for (size_t c = 0; c + 1 < n_cuts; c++) {
        const struct ah_share_demand *parts[AH_SHARE_PARTS];
        double speeds[AH_SHARE_PARTS];
        size_t ops[AH_SHARE_PARTS];
        size_t n = 0;
        for (size_t op = 0; op < graph->n_ops; op++)
            if (result->spans[op].start_us <= cuts[c] && result->spans[op].finish_us > cuts[c]) {
                ops[n] = op;
                parts[n++] = &graph->demands[graph->demand[op]];
            }
        fill_by_bisection(parts, n, graph->capacity, graph->n_resources, speeds);
        for (size_t i = 0; i < n; i++)
            advanced[ops[i]] += speeds[i] * (cuts[c + 1] - cuts[c]);
    }
    for (size_t op = 0; op < graph->n_ops; op++) {
        const struct ah_clock_span *span = &result->spans[op];
        double stretched = span->finish_us - span->start_us - graph->duration_us[op];
        check_near(advanced[op], graph->duration_us[op], 1e-7);
        slowed[graph->lane[op]] += stretched;
        if (span->slowed_by == AH_SHARE_NONE)
            assert_true(stretched <= 1e-12 * (1 + span->finish_us));
        else
            assert_true(graph->demands[graph->demand[op]].amount[span->slowed_by] > 0 && stretched > 0);
    }
    for (size_t l = 0; l < graph->n_lanes; l++)
        check_near(result->lanes[l].slowed_us, slowed[l], 1e-9);
}

static void check_all(const struct ah_clock_graph *graph, const struct ah_clock_result *result)
{
    check_dependencies(graph, result->spans);
    check_lanes(graph, result);
    check_choices(graph, result);
    if (graph->demand)
        check_sharing(graph, result);
    else
        for (size_t op = 0; op < graph->n_ops; op++)
            assert_true(result->spans[op].finish_us == result->spans[op].start_us + graph->duration_us[op]);
}

/* ---- the properties ---- */

static void each_run_satisfies_the_invariants(enum style style, uint64_t fallback)
{
    uint64_t seed = check_seed(fallback);
    struct ah_clock clock = {0};
    size_t slowed = 0;
    for (int i = 0; i < GRAPHS; i++) {
        struct ah_clock_result result;
        struct graph *g = draw(&seed, style);
        run(&clock, &g->of, &result);
        check_all(&g->of, &result);
        for (size_t op = 0; op < g->of.n_ops; op++)
            slowed += result.spans[op].slowed_by != AH_SHARE_NONE;
    }
    assert_true(style == STYLE_EXACT || slowed > 5 * GRAPHS); /* ops contend for resources */
    ah_clock_release(&clock);
}

TEST(clock, exact_runs_satisfy_the_invariants)
{
    each_run_satisfies_the_invariants(STYLE_EXACT, 11);
}

TEST(clock, shared_runs_satisfy_the_invariants)
{
    each_run_satisfies_the_invariants(STYLE_SHARED, 12);
}

TEST(clock, frozen_replay_gives_the_same_bits)
{
    uint64_t seed = check_seed(13);
    struct ah_clock clock = {0};
    for (int i = 0; i < GRAPHS; i++) {
        struct ah_clock_result result;
        struct ah_clock_result again;
        struct ah_clock fresh = {0};
        struct graph *g = draw(&seed, i % 2 ? STYLE_SHARED : STYLE_EXACT);
        run(&clock, &g->of, &result);
        struct ah_clock_graph frozen = g->of;
        frozen.rule = NULL;
        frozen.order = result.order;
        run(&fresh, &frozen, &again);
        assert_memory_equal(&result.lanes, &again.lanes, sizeof result.lanes);
        assert_memory_equal(&result.end_us, &again.end_us, sizeof result.end_us);
        for (size_t op = 0; op < g->of.n_ops; op++) {
            assert_memory_equal(&result.spans[op].start_us, &again.spans[op].start_us, sizeof(double));
            assert_memory_equal(&result.spans[op].finish_us, &again.spans[op].finish_us, sizeof(double));
            assert_memory_equal(&result.spans[op].ready_us, &again.spans[op].ready_us, sizeof(double));
            assert_int_equal(result.spans[op].slowed_by, again.spans[op].slowed_by);
        }
        ah_clock_release(&fresh);
    }
    ah_clock_release(&clock);
}

/* This is exact without sharing and in frozen lanes, because their times consist of max and + only. */
TEST(clock, a_faster_op_never_hurts)
{
    uint64_t seed = check_seed(14);
    struct ah_clock clock = {0};
    struct ah_clock other = {0};
    for (int i = 0; i < GRAPHS; i++) {
        struct ah_clock_result slow;
        struct ah_clock_result fast;
        struct graph *g = draw(&seed, STYLE_SHARED);
        g->of.demand = NULL;
        g->of.rule = NULL;
        run(&clock, &g->of, &slow);
        for (size_t op = 0; op < g->of.n_ops; op++)
            if (check_random(&seed) % 3 == 0)
                g->duration[op] *= check_uniform(&seed);
        run(&other, &g->of, &fast);
        for (size_t op = 0; op < g->of.n_ops; op++)
            assert_true(fast.spans[op].finish_us <= slow.spans[op].finish_us);
    }
    ah_clock_release(&clock);
    ah_clock_release(&other);
}

/* Scaling durations by a power of two is exact, so every time scales by exactly that factor. */
TEST(clock, times_scale_with_durations)
{
    uint64_t seed = check_seed(15);
    struct ah_clock clock = {0};
    struct ah_clock other = {0};
    for (int i = 0; i < GRAPHS; i++) {
        struct ah_clock_result once;
        struct ah_clock_result scaled;
        struct graph *g = draw(&seed, STYLE_SHARED);
        run(&clock, &g->of, &once);
        for (size_t op = 0; op < g->of.n_ops; op++)
            g->duration[op] *= 1024;
        run(&other, &g->of, &scaled);
        for (size_t op = 0; op < g->of.n_ops; op++)
            assert_true(scaled.spans[op].finish_us == 1024 * once.spans[op].finish_us);
    }
    ah_clock_release(&clock);
    ah_clock_release(&other);
}

/* True if `from` waits for `to` through dependencies and frozen orders. */
static bool waits_for(const struct ah_clock_graph *graph, uint32_t from, uint32_t to)
{
    bool reached[MAX_OPS] = {false};
    uint32_t stack[MAX_OPS];
    size_t n = 0;
    stack[n++] = from;
    while (n > 0) {
        uint32_t op = stack[--n];
        for (uint32_t other = 0; other < graph->n_ops; other++) {
            bool edge = false;
            for (size_t at = graph->dependency_first[op]; at < graph->dependency_first[op + 1]; at++)
                edge |= graph->dependency[at] == other;
            if (graph->lane[other] == graph->lane[op] && graph->rule[graph->lane[op]] == AH_CLOCK_FROZEN)
                for (size_t k = 1; k < graph->n_ops; k++)
                    edge |= graph->order[k] == op && graph->order[k - 1] == other;
            if (edge && other == to)
                return true;
            if (edge && !reached[other]) {
                reached[other] = true;
                stack[n++] = other;
            }
        }
    }
    return false;
}

/* Adds a random edge. The clock must fail if and only if there is a cycle, and name an op on a cycle. */
TEST(clock, finds_cycles_and_only_cycles)
{
    uint64_t seed = check_seed(16);
    struct ah_clock clock = {0};
    int cycles = 0;
    for (int i = 0; i < 2 * GRAPHS; i++) {
        struct ah_clock_result result;
        struct ah_error err = {0};
        struct graph *g = draw(&seed, STYLE_EXACT);
        size_t op = check_random(&seed) % g->of.n_ops;
        size_t end = g->first[g->of.n_ops];
        memmove(&g->dependency[g->first[op] + 1], &g->dependency[g->first[op]],
                (end - g->first[op]) * sizeof *g->dependency);
        g->dependency[g->first[op]] = (uint32_t)(check_random(&seed) % g->of.n_ops);
        for (size_t later = op + 1; later <= g->of.n_ops; later++)
            g->first[later]++;
        bool cyclic = waits_for(&g->of, (uint32_t)op, (uint32_t)op);
        CHECK_OK(ah_clock_reserve(&clock, &g->of, 1, &err), err);
        int rc = ah_clock_run(&clock, &g->of, &result, &err);
        assert_int_equal(rc, cyclic ? AH_E_FAILED : AH_OK);
        unsigned named = 0;
        if (cyclic) {
            assert_int_equal(sscanf(err.text, "op %u", &named), 1);
            assert_true(waits_for(&g->of, named, named));
        }
        cycles += cyclic;
    }
    assert_true(cycles > GRAPHS / 4 && cycles < GRAPHS);
    ah_clock_release(&clock);
}
