/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares solutions with all choices, for problems of up to 5 shards with up to 4 sources each. Larger problems are
 * checked piece by piece, and against their bound.
 */
#include "planner/recovery/transfer_solver.h"

#include "tests/support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 4, OUT = 0, IN = NODES, DISK = 2 * NODES, STORAGE = 3 * NODES, RESOURCES = 3 * NODES + 1 };
enum { SHARDS = 5, SOURCES = 4 };

/* ---- instances ---- */

struct problem {
    struct ah_transfer_problem problem;
    double rates[RESOURCES];
    struct ah_transfer_bundle bundles[64];
    struct ah_transfer_receiver receivers[64][NODES];
    struct ah_transfer_option options[64][NODES][SOURCES];
    struct ah_transfer_option relays[64][NODES * NODES];
    size_t nodes[64][NODES]; /* nodes of the receivers */
};

static struct ah_transfer_option through(size_t source, size_t n, size_t a, size_t b, size_t c)
{
    return (struct ah_transfer_option){.source = source, .passes = {a, b, c}, .n_passes = n};
}

/* Draws up to SOURCES options, but one or more: the node's own disk, peers' memory or disk, storage. */
static size_t draw_options(uint64_t *random, size_t node, struct ah_transfer_option *out)
{
    size_t n = 0, most = 1 + check_draw(random, SOURCES);
    if (check_draw(random, 4) == 0)
        out[n++] = through(0, 1, DISK + node, 0, 0);
    for (size_t peer = 0; peer < NODES && n < most; peer++) {
        if (peer == node || check_draw(random, 2))
            continue;
        out[n++] = check_draw(random, 3) ? through(1 + peer, 2, OUT + peer, IN + node, 0)
                                         : through(1 + peer, 3, OUT + peer, IN + node, DISK + peer);
    }
    if (!n || n < most)
        out[n++] = through(9, 2, STORAGE, IN + node, 0);
    return n;
}

static void draw_bundle(struct problem *c, size_t b, uint64_t *random, size_t count, size_t receivers)
{
    struct ah_transfer_bundle *bundle = &c->bundles[b];
    size_t first = check_draw(random, NODES);
    *bundle = (struct ah_transfer_bundle){.bytes = 1 + check_draw(random, 1000),
                                          .count = count,
                                          .receivers = c->receivers[b],
                                          .n_receivers = receivers,
                                          .relays = receivers > 1 ? c->relays[b] : NULL,
                                          .once = receivers > 1 && check_draw(random, 3) == 0};
    for (size_t d = 0; d < receivers; d++) {
        c->nodes[b][d] = (first + d) % NODES;
        size_t n = draw_options(random, c->nodes[b][d], c->options[b][d]);
        c->receivers[b][d] = (struct ah_transfer_receiver){.options = c->options[b][d], .n_options = n};
    }
    for (size_t from = 0; from < receivers; from++)
        for (size_t to = 0; to < receivers; to++)
            if (from != to && (bundle->once || check_draw(random, 4)))
                c->relays[b][from * receivers + to] =
                    through(10, 2, OUT + c->nodes[b][from], IN + c->nodes[b][to], 0);
}

static void draw_instance(struct problem *c, uint64_t *random, size_t shards, size_t most_receivers)
{
    memset(c, 0, sizeof *c);
    for (size_t r = 0; r < RESOURCES; r++)
        c->rates[r] = (double)(1 + check_draw(random, 50));
    c->problem = (struct ah_transfer_problem){c->rates, RESOURCES, c->bundles, 0};
    size_t several = 2; /* more receivers would give too many choices to try */
    for (size_t left = shards; left;) {
        size_t count = check_draw(random, 3) && left > 1 ? 2 : 1,
               receivers = 1 + check_draw(random, most_receivers);
        receivers = shards > SHARDS || several >= count ? receivers : 1;
        several -= receivers > 1 && several >= count ? count : 0;
        count = shards > SHARDS ? left < 8 ? left : 1 + check_draw(random, 8) : count;
        draw_bundle(c, c->problem.n_bundles++, random, count, receivers);
        left -= count;
    }
}

/* ---- the oracle: all choices ---- */

struct search {
    const struct ah_transfer_problem *problem;
    double bytes[RESOURCES];
    double best;
};

static void go_on(struct search *s, size_t b, size_t i);

static double longest(const struct search *s)
{
    double most = 0;
    for (size_t r = 0; r < RESOURCES; r++)
        most = fmax(most, s->bytes[r] / s->problem->rates[r]);
    return most;
}

static void add(struct search *s, const struct ah_transfer_option *option, double bytes)
{
    for (size_t i = 0; i < option->n_passes; i++)
        s->bytes[option->passes[i]] += bytes;
}

/* Tries all sources for receiver `d` of shard `i` of bundle `b`, whose leader is given, and all receivers after it. */
static void try_receiver(struct search *s, size_t b, size_t i, size_t leader, size_t d)
{
    const struct ah_transfer_bundle *bundle = &s->problem->bundles[b];
    double bytes = (double)bundle->bytes;
    if (longest(s) >= s->best)
        return;
    if (d == bundle->n_receivers) {
        go_on(s, b, i + 1);
        return;
    }
    if (d == leader || !bundle->once)
        for (size_t o = 0; o < bundle->receivers[d].n_options; o++) {
            add(s, &bundle->receivers[d].options[o], bytes);
            try_receiver(s, b, i, leader, d + 1);
            add(s, &bundle->receivers[d].options[o], -bytes);
        }
    if (d != leader && bundle->relays[leader * bundle->n_receivers + d].n_passes) {
        add(s, &bundle->relays[leader * bundle->n_receivers + d], bytes);
        try_receiver(s, b, i, leader, d + 1);
        add(s, &bundle->relays[leader * bundle->n_receivers + d], -bytes);
    }
}

static void go_on(struct search *s, size_t b, size_t i)
{
    if (b < s->problem->n_bundles && i == s->problem->bundles[b].count) {
        b++;
        i = 0;
    }
    if (b == s->problem->n_bundles) {
        s->best = fmin(s->best, longest(s));
        return;
    }
    for (size_t leader = 0; leader < s->problem->bundles[b].n_receivers; leader++)
        try_receiver(s, b, i, leader, 0);
}

/* ---- what a result says ---- */

/* Checks that every shard is in one piece, that every choice is allowed, and that the pieces take the reported time. */
static void check_pieces(const struct problem *c, const struct ah_transfer_result *result)
{
    struct search s = {.problem = &c->problem};
    size_t at = 0;
    for (size_t b = 0; b < c->problem.n_bundles; b++) {
        const struct ah_transfer_bundle *bundle = &c->bundles[b];
        for (size_t next = 0; next < bundle->count; at++) {
            const struct ah_transfer_piece *piece = &result->pieces[at];
            assert_true(at < result->n_pieces && piece->bundle == b && piece->first == next && piece->count);
            next += piece->count;
            for (size_t d = 0; d < bundle->n_receivers; d++) {
                bool relayed = piece->choices[d] == AH_TRANSFER_RELAYED;
                assert_true(relayed ? d != piece->leader : d == piece->leader || !bundle->once);
                const struct ah_transfer_option *option =
                    relayed ? &bundle->relays[piece->leader * bundle->n_receivers + d]
                            : &bundle->receivers[d].options[piece->choices[d]];
                assert_true(option->n_passes > 0);
                add(&s, option, (double)(bundle->bytes * piece->count));
            }
        }
    }
    assert_int_equal(at, result->n_pieces);
    assert_true(fabs(longest(&s) - result->time_s) <= 1e-9 * result->time_s);
    assert_true(result->bound_s <= result->time_s);
    assert_true(fabs(s.bytes[result->limit] / c->rates[result->limit] - result->time_s) <=
                1e-9 * result->time_s);
}

static struct ah_transfer_result solve(const struct problem *c, size_t columns, struct ah_arena *arena)
{
    const struct ah_transfer_limits limits = {columns, 2000};
    struct ah_transfer_result result;
    struct ah_error err = {0};
    CHECK_OK(ah_transfer_solve(&c->problem, &limits, arena, &result, &err), err);
    check_pieces(c, &result);
    return result;
}

TEST(transfer_solver, is_the_best_of_all_choices)
{
    static struct problem c;
    size_t instances = check_scaled(6000), greedy = 0;
    for (size_t i = 0; i < instances; i++) {
        uint64_t random = 88172645463325252u + 977 * i;
        struct ah_arena arena = {0};
        draw_instance(&c, &random, 1 + check_draw(&random, SHARDS), 2);
        struct search s = {.problem = &c.problem, .best = INFINITY};
        go_on(&s, 0, 0);
        struct ah_transfer_result result = solve(&c, 400, &arena);
        if (fabs(result.time_s - s.best) > 1e-9 * s.best)
            fail_msg("instance %zu: %.9f s where %.9f s is the least", i, result.time_s, s.best);
        assert_true(result.bound_s <= s.best * (1 + 1e-12));
        struct ah_transfer_result piecewise = solve(&c, 0, &arena);
        assert_true(piecewise.bound_s <= s.best * (1 + 1e-12));
        greedy += piecewise.time_s > s.best * (1 + 1e-9);
        ah_arena_release(&arena);
    }
    assert_true(greedy > 0 || instances < 600); /* otherwise the program was never needed */
    printf("%zu instances; piece by piece %zu of them take longer than the least\n", instances, greedy);
}

TEST(transfer_solver, is_near_its_bound_where_shards_are_many)
{
    static struct problem c;
    double worst = 0, sum = 0;
    enum { INSTANCES = 20 };
    for (size_t i = 0; i < INSTANCES; i++) {
        uint64_t random = 362436069362436069u + 7919 * i;
        struct ah_arena arena = {0};
        draw_instance(&c, &random, 200, NODES);
        struct ah_transfer_result result = solve(&c, 0, &arena);
        double gap = (result.time_s - result.bound_s) / result.time_s;
        worst = fmax(worst, gap);
        sum += gap;
        ah_arena_release(&arena);
    }
    printf("piece by piece: above the bound by %.4f on average, at most %.4f\n", sum / INSTANCES, worst);
    assert_true(worst < 0.1);
}

/* Gives each receiver two last options. The last is storage over its node's own link. The other is storage through
 * another node and that node's link. Nothing is fetched just once. Returns the time of taking everything from
 * storage. */
static double make_plain(struct problem *c, uint64_t *random)
{
    struct search s = {.problem = &c->problem};
    for (size_t b = 0; b < c->problem.n_bundles; b++) {
        struct ah_transfer_bundle *bundle = &c->bundles[b];
        bundle->once = false;
        for (size_t d = 0; d < bundle->n_receivers; d++) {
            struct ah_transfer_receiver *receiver = &c->receivers[b][d];
            struct ah_transfer_option *options = c->options[b][d];
            size_t node = c->nodes[b][d], via = (node + 1 + check_draw(random, NODES - 1)) % NODES;
            receiver->n_options = receiver->fallback = receiver->n_options < 2 ? 2 : receiver->n_options;
            options[receiver->n_options - 2] = (struct ah_transfer_option){
                .source = 9, .passes = {DISK + via, STORAGE, IN + via, OUT + via, IN + node}, .n_passes = 5};
            options[receiver->n_options - 1] = through(9, 3, DISK + node, STORAGE, IN + node);
            add(&s, &options[receiver->n_options - 1], (double)(bundle->bytes * bundle->count));
        }
    }
    return longest(&s);
}

TEST(transfer_solver, is_never_slower_than_the_plain_one)
{
    static struct problem c;
    size_t instances = check_scaled(6000);
    for (size_t i = 0; i < instances; i++) {
        uint64_t random = 521288629546311u + 104729 * i;
        struct ah_arena arena = {0};
        draw_instance(&c, &random, 1 + check_draw(&random, 12), 2);
        c.rates[STORAGE] *= (double)(1 + check_draw(&random, 10));
        double plain_s = make_plain(&c, &random);
        struct ah_transfer_result result = solve(&c, 0, &arena);
        if (result.time_s > plain_s * (1 + 1e-12))
            fail_msg("instance %zu: %.9f s, all from storage %.9f s", i, result.time_s, plain_s);
        ah_arena_release(&arena);
    }
}
