/* SPDX-License-Identifier: Apache-2.0
 *
 * Can the pipelines of an arrangement be done within T? A pipeline (y, m) uses y(k) units of kind k for m
 * micro-batches. There are N(k) units of kind k, M micro-batches to do, and at most D pipelines:
 *
 *     maximise sum of m x(y, m)  subject to  sum of y(k) x(y, m) <= N(k) for each k,   sum of x <= D           (1)
 *
 * over all (y, m) that can be done in time. If the maximum is less than M, T is too short. Prices w(k), v >= 0 prove
 * that. If every such pipeline costs at least its number of micro-batches,
 *
 *     v + sum of y(k) w(k) >= m                                                                                (2)
 *
 * then the micro-batches of all of them are at most
 *
 *     WORTH  =  D v + sum of N(k) w(k)                                                                         (3)
 *
 * GLPK's optimum of (1) over some pipelines has good prices. They are raised until their worth is almost M. Then, for
 * every m, pipeline_pricing.c looks for a pipeline that violates (2), which becomes one more column. So neither GLPK
 * nor rounded prices can make a proof wrong. New prices are averaged with the old: few columns give extreme prices.
 *
 * WHOLE pipelines: if (1) with fractions of pipelines reaches M but little more, prices are raised to that value. By
 * (2), each pipeline of an arrangement of M micro-batches costs at most worth - M more than its micro-batches. Let
 * cap(y) be the most micro-batches that a pipeline of units y can do at such a cost, and
 *
 *     room(R) = max over y within R of cap(y) + room(R - y)                                                    (4)
 *
 * over the vectors R of units. If room of all units is less than M, T is too short.
 *
 * CASES. The kinds used by all pipelines decide how gradients are added up. All owners of a block can be inside one
 * node of kind k only if every pipeline has units in that node, so the node has as many units as there are pipelines. A
 * case is proven or split, first by the number of pipelines: with 2 or 3, each byte of gradients passes an owner at
 * least once; with more, at least 1.5 times. Then it is split kind by kind: either owners may be together in its nodes
 * and every pipeline has units of it, or sums leave its nodes. One pipeline alone is a case: m = M, no sums.
 */
#include "planner/cluster/bound/grouping.h"

#include "planner/bound/solver.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    COLUMNS_MAX = 512,
    ROUNDS_MAX = 40,
    VIOLATIONS = 6, /* violations to find before prices are changed */
    FEW_PIPELINES = 3,
    SPLIT_KINDS = 4, /* cases are split by this many kinds at most */
    LATTICE_MAX = 1 << 12
};

#define AHEAD      1.03       /* x m: for a pipeline of m micro-batches, prices above this count as this */
#define ALMOST     (1 - 1e-9) /* x M: the worth to which prices are raised */
#define WHOLE_MOST 1.01       /* x M: whole pipelines are tried if (1) has at most this value */

struct situation { /* a case */
    struct ah_pipeline_pricing_sums sums;
    double most; /* largest number of pipelines; INFINITY: any number */
    bool alone;  /* there is exactly one pipeline */
};

struct proving {
    struct ah_grouping *g;
    struct situation situation;
    double within_us;
    double worth; /* (3) for the prices */
    uint64_t last_step;
    bool last; /* the case cannot be split further */
};

/* ---- life cycle ---- */

/* Returns the longest of the blocks' updates, each on its fastest kind. */
static double least_update_us(const struct ah_pipeline_pricing *c)
{
    double longest = 0;
    for (size_t b = 0; b < c->problem->n_blocks; b++) {
        double least = INFINITY;
        for (size_t k = 0; k < c->n_kinds; k++)
            if (c->kinds[k].units)
                least = fmin(least, c->problem->kinds[k].blocks[b].update_us);
        longest = fmax(longest, least);
    }
    return longest;
}

static bool can_group(const struct ah_cluster_problem *problem)
{
    for (size_t a = 0; a < problem->n_classes; a++)
        for (size_t b = 0; b < a; b++)
            if (problem->classes[a].node == problem->classes[b].node)
                return false;
    return problem->n_kinds <= AH_PIPELINE_PRICING_KINDS && problem->n_blocks <= UINT8_MAX &&
           ah_problem_units(problem) > 0;
}

int ah_grouping_init(struct ah_grouping *ret_grouping, const struct ah_cluster_problem *problem,
                     bool *ret_can, struct ah_error *err)
{
    struct ah_grouping g = {.problem = problem};
    *ret_can = can_group(problem);
    if (!*ret_can)
        return AH_OK;
    g.columns = calloc(COLUMNS_MAX, sizeof *g.columns);
    int rc = g.columns ? ah_pipeline_pricing_init(&g.pricing, problem, err) : ah_error_memory(err);
    if (rc) {
        free(g.columns);
        return rc;
    }
    g.update_us = least_update_us(&g.pricing);
    for (size_t k = 0; k < problem->n_kinds; k++) {
        double us = 0;
        for (size_t b = 0; b < problem->n_blocks; b++)
            us += problem->kinds[k].blocks[b].forward_us +
                  problem->kinds[k].blocks[b].backward_us[AH_ACTIVATIONS_KEEP];
        g.prices[k] = 1 / fmax(us, 1e-9);
        g.units[k] = (double)g.pricing.kinds[k].units;
    }
    *ret_grouping = g;
    return AH_OK;
}

void ah_grouping_release(struct ah_grouping *grouping)
{
    if (!grouping)
        return;
    ah_pipeline_pricing_release(&grouping->pricing);
    free(grouping->columns);
    *grouping = (struct ah_grouping){0};
}

/* ---- prices ---- */

static double all_of(const struct proving *p)
{
    return (double)p->g->problem->micro_batches;
}

static double worth(const struct proving *p)
{
    const struct ah_grouping *g = p->g;
    double sum = isinf(p->situation.most) ? 0 : p->situation.most * g->base;
    for (size_t k = 0; k < g->problem->n_kinds; k++)
        sum += g->units[k] * g->prices[k];
    return sum;
}

static void raise_prices(struct proving *p, double target)
{
    double by = target / worth(p);
    for (size_t k = 0; k < p->g->problem->n_kinds; k++)
        p->g->prices[k] *= by;
    p->g->base *= by;
    p->worth = target;
}

static void find_cheapest(struct proving *p, uint64_t m, double below, struct ah_pipeline_price *ret_found)
{
    const struct ah_pipeline_pricing_query query = {.within_us = p->within_us,
                                                    .micro_batches = m,
                                                    .prices = p->g->prices,
                                                    .base = p->g->base,
                                                    .below = below,
                                                    .sums = p->situation.sums};
    ah_pipeline_pricing_cheapest(&p->g->pricing, &query, ret_found);
}

static bool is_spent(const struct proving *p)
{
    return p->g->pricing.steps > p->last_step || p->g->n_columns + VIOLATIONS > COLUMNS_MAX;
}

/* Checks (2) for all m, from *m on and wrapping around, until VIOLATIONS are found. Memory and time grow with m, so the
 * cheapest pipeline for m is no dearer than that for m + 1: some m can be skipped. True: (2) holds for all m. */
static bool check_prices(struct proving *p, uint64_t *m)
{
    const uint64_t all = p->g->problem->micro_batches;
    const uint64_t least = p->situation.alone ? all : 1;
    size_t violations = 0;
    for (uint64_t done = least; done <= all && violations < VIOLATIONS && !is_spent(p);) {
        struct ah_pipeline_price found;
        uint64_t from = *m;
        double below = fmax((double)*m, floor((double)*m * AHEAD));
        find_cheapest(p, *m, below, &found);
        if (found.price < (double)*m) {
            struct ah_grouping_column *column = &p->g->columns[p->g->n_columns++];
            column->micro_batches = (double)*m;
            memcpy(column->units, found.units, sizeof column->units);
            violations++;
            *m += 1 + *m / 16;
        } else {
            *m = (uint64_t)fmin(found.price, below) + 1;
        }
        done += *m - from;
        *m = *m > all ? least : *m;
    }
    return !violations && !is_spent(p);
}

/* ---- (1) ---- */

static void fill_rows(const struct proving *p, double *objective, double *upper, double *rows)
{
    const struct ah_grouping *g = p->g;
    const size_t n = g->n_columns, kinds = g->problem->n_kinds;
    for (size_t j = 0; j < n; j++) {
        objective[j] = -g->columns[j].micro_batches;
        upper[j] = INFINITY;
        for (size_t k = 0; k < kinds; k++)
            rows[k * n + j] = g->columns[j].units[k];
        rows[kinds * n + j] = 1;
    }
}

/* Computes the optimum of (1) over the columns, and its prices; INFINITY: GLPK found none. */
static int solve(const struct proving *p, double *ret_value, double ret_prices[AH_PIPELINE_PRICING_KINDS + 1],
                 struct ah_error *err)
{
    const struct ah_grouping *g = p->g;
    const size_t n = g->n_columns, n_rows = g->problem->n_kinds + 1;
    double *numbers = calloc(n * (n_rows + 3), sizeof *numbers);
    bool *integer = calloc(n, sizeof *integer);
    double lower[AH_PIPELINE_PRICING_KINDS + 1], limits[AH_PIPELINE_PRICING_KINDS + 1];
    struct ah_error ignored = {0};
    *ret_value = INFINITY;
    if (!numbers || !integer) {
        free(numbers);
        free(integer);
        return ah_error_memory(err);
    }
    for (size_t i = 0; i < n_rows; i++) {
        lower[i] = -INFINITY;
        limits[i] = i + 1 < n_rows ? g->units[i] : p->situation.most;
    }
    double *objective = numbers, *upper = numbers + n, *values = upper + n, *rows = values + n;
    fill_rows(p, objective, upper, rows);
    const struct ah_solver_problem problem = {n, n_rows, objective, upper, integer, lower, limits, rows};
    struct ah_solver_result result = {.values = values, .prices = ret_prices};
    if (!ah_solver_relax(&problem, &result, &ignored) && result.status == AH_SOLVER_OPTIMAL)
        *ret_value = -result.objective;
    free(numbers);
    free(integer);
    return AH_OK;
}

static void move_prices(struct proving *p, const double *prices, double target)
{
    struct ah_grouping *g = p->g;
    const size_t kinds = g->problem->n_kinds;
    for (size_t k = 0; k < kinds; k++)
        g->prices[k] = (g->prices[k] + fmax(prices[k], 0)) / 2;
    g->base = isinf(p->situation.most) ? 0 : (g->base + fmax(prices[kinds], 0)) / 2;
    raise_prices(p, target);
}

/* ---- (4) ---- */

struct lattice {
    size_t radix[AH_PIPELINE_PRICING_KINDS], places;
    uint64_t *caps; /* (places) */
    uint64_t *room; /* (most + 1, places): by number of pipelines; `most` 0: for any number */
    size_t most;
};

static bool is_within(const struct ah_pipeline_pricing *c, const struct lattice *l, size_t small,
                      size_t large)
{
    for (size_t k = 0; k < c->n_kinds; k++)
        if (small / l->radix[k] % (c->kinds[k].units + 1) > large / l->radix[k] % (c->kinds[k].units + 1))
            return false;
    return true;
}

static void find_caps(struct proving *p, struct lattice *l, bool *ret_all)
{
    const uint64_t all = p->g->problem->micro_batches;
    struct ah_pipeline_price found;
    *ret_all = true;
    for (uint64_t m = p->situation.alone ? all : 1; m <= all && *ret_all; m++) {
        const struct ah_pipeline_pricing_query query = {.within_us = p->within_us,
                                                        .micro_batches = m,
                                                        .prices = p->g->prices,
                                                        .base = p->g->base,
                                                        .below = (double)m +
                                                                 (p->worth - all_of(p)) * (1 + 1e-9) + 1e-6,
                                                        .sums = p->situation.sums,
                                                        .radix = l->radix,
                                                        .found = l->caps};
        ah_pipeline_pricing_cheapest(&p->g->pricing, &query, &found);
        *ret_all = !p->g->pricing.overflow && p->g->pricing.steps <= p->last_step;
    }
}

static void find_room(const struct ah_pipeline_pricing *c, struct lattice *l)
{
    for (size_t d = 0; d < (l->most ? l->most : 1); d++) {
        const uint64_t *before = l->room + d * l->places;
        uint64_t *now = l->room + (l->most ? d + 1 : 0) * l->places;
        for (size_t units = 1; units < l->places; units++)
            for (size_t place = units; place < l->places && l->caps[units]; place++)
                if (is_within(c, l, units, place) && before[place - units] + l->caps[units] > now[place])
                    now[place] = before[place - units] + l->caps[units];
    }
}

static int prove_whole(struct proving *p, bool *ret_does, struct ah_error *err)
{
    const struct ah_pipeline_pricing *c = &p->g->pricing;
    struct lattice l = {.places = 1};
    bool all;
    *ret_does = false;
    for (size_t k = 0; k < c->n_kinds && l.places <= LATTICE_MAX; k++) {
        l.radix[k] = l.places;
        l.places *= c->kinds[k].units + 1;
    }
    if (l.places > LATTICE_MAX)
        return AH_OK;
    l.most = p->situation.most <= FEW_PIPELINES ? (size_t)p->situation.most : 0;
    l.caps = calloc(l.places * (l.most + 2), sizeof *l.caps);
    if (!l.caps)
        return ah_error_memory(err);
    l.room = l.caps + l.places;
    find_caps(p, &l, &all);
    if (all)
        find_room(c, &l);
    *ret_does = all && l.room[(l.most + 1) * l.places - 1] < p->g->problem->micro_batches;
    free(l.caps);
    return AH_OK;
}

/* ---- cases ---- */

/* Tries to prove one case without splitting it. */
static int prove_case(struct proving *p, bool *ret_does, struct ah_error *err)
{
    struct ah_grouping *g = p->g;
    uint64_t m = p->situation.alone ? g->problem->micro_batches : 1;
    *ret_does = false;
    g->n_columns = 0;
    if (isinf(p->situation.most))
        g->base = 0;
    raise_prices(p, all_of(p) * ALMOST);
    for (size_t round = 0; round < ROUNDS_MAX; round++) {
        double value, prices[AH_PIPELINE_PRICING_KINDS + 1];
        if (check_prices(p, &m)) {
            *ret_does = p->worth < all_of(p);
            return *ret_does ? AH_OK : prove_whole(p, ret_does, err);
        }
        int rc = is_spent(p) ? AH_OK : solve(p, &value, prices, err);
        if (rc || is_spent(p) || value > (p->last ? WHOLE_MOST : ALMOST) * all_of(p))
            return rc;
        move_prices(p, prices, fmax(value * 1.001, all_of(p) * ALMOST));
    }
    return AH_OK;
}

/* Makes one half of a case split at `level`. Returns false if no arrangement is in that half. */
static bool halve(const struct ah_grouping *g, const struct situation *from, size_t level, int half,
                  struct situation *ret_half)
{
    *ret_half = *from;
    if (level == 0) {
        ret_half->most = half ? FEW_PIPELINES : (double)INFINITY;
        ret_half->sums.volume = half ? 1 : 2.0 * FEW_PIPELINES / (FEW_PIPELINES + 1);
        return true;
    }
    const struct ah_pipeline_pricing_kind *kind = &g->pricing.kinds[level - 1];
    const uint32_t bit = UINT32_C(1) << (level - 1);
    if (half) {
        ret_half->sums.together &= ~bit;
        return true;
    }
    ret_half->sums.needed |= bit;
    ret_half->most = fmin(from->most, (double)kind->units_of_node);
    return ret_half->most >= (from->sums.volume > 1 ? FEW_PIPELINES + 1 : 2);
}

static int prove_all(struct proving *p, size_t level, bool *ret_does, struct ah_error *err)
{
    const struct ah_grouping *g = p->g;
    const struct situation situation = p->situation;
    const size_t kinds = g->problem->n_kinds < SPLIT_KINDS ? g->problem->n_kinds : SPLIT_KINDS;
    p->last = level > kinds || situation.alone;
    int rc = prove_case(p, ret_does, err);
    if (rc || *ret_does || level > kinds || situation.alone)
        return rc;
    *ret_does = true;
    for (int half = 0; half < 2 && *ret_does && !rc; half++)
        if (halve(g, &situation, level, half, &p->situation))
            rc = prove_all(p, level + 1, ret_does, err);
    p->situation = situation;
    return rc;
}

int ah_grouping_proves(struct ah_grouping *grouping, double step_us, uint64_t *steps, bool *ret_does,
                       struct ah_error *err)
{
    const uint64_t begun = grouping->pricing.steps;
    struct proving p = {.g = grouping,
                        .situation = {.most = 1, .alone = true},
                        .within_us = step_us - grouping->update_us,
                        .last_step = begun + *steps};
    *ret_does = false;
    if (!(p.within_us > 0)) {
        *ret_does = true;
        return AH_OK;
    }
    int rc = prove_all(&p, 0, ret_does, err);
    if (!rc && *ret_does) {
        p.situation = (struct situation){.sums = {1, UINT32_MAX, 0}, .most = INFINITY};
        rc = prove_all(&p, 0, ret_does, err);
    }
    const uint64_t done = grouping->pricing.steps - begun;
    *steps -= done < *steps ? done : *steps;
    return rc;
}
