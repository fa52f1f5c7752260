/* SPDX-License-Identifier: Apache-2.0
 *
 * The program of transfer_solver.h for planner/bound/solver.h. Its columns are T in seconds, then for each bundle y(l),
 * then for each receiver d: f(d,s), and r(l,d) for all l that may relay to d. A bundle with one receiver has no y and
 * no r. Its rows are (1) to (4) by bundle, then (5) by resource. The relaxation's prices of rows (5) give the bound,
 * which is evaluated separately. The integer search gives counts, which are dealt out to shards.
 */
#include "planner/recovery/transfer_solver_internal.h"

#include "planner/bound/solver.h"

#include <math.h>
#include <stdlib.h>

struct program {
    const struct ah_transfer_problem *transfers;
    struct ah_solver_problem problem;
    double *numbers; /* owned: memory of all arrays below */
    double *objective, *upper, *row_lower, *row_upper, *coefficients, *values, *prices;
    bool *integer;
    size_t *column_of; /* by bundle: its first column */
    size_t row;        /* the next row to make */
};

static bool has_relays(const struct ah_transfer_bundle *bundle)
{
    return bundle->n_receivers > 1 && bundle->relays;
}

static size_t columns_of(const struct ah_transfer_bundle *bundle)
{
    size_t n = has_relays(bundle) ? bundle->n_receivers * (1 + bundle->n_receivers) : 0;
    for (size_t d = 0; d < bundle->n_receivers; d++)
        n += bundle->receivers[d].n_options;
    return n;
}

static size_t rows_of(const struct ah_transfer_bundle *bundle)
{
    size_t n = bundle->n_receivers;
    return n + (has_relays(bundle) ? 1 + n * n + (bundle->once ? n : 0) : 0);
}

size_t ah_transfer_columns(const struct ah_transfer_problem *transfers)
{
    size_t n = 1;
    for (size_t b = 0; b < transfers->n_bundles; b++)
        n += columns_of(&transfers->bundles[b]);
    return n;
}

/* ---- columns ---- */

static size_t column_y(const struct program *p, size_t b, size_t leader)
{
    return p->column_of[b] + leader;
}

static size_t column_r(const struct program *p, size_t b, size_t leader, size_t d)
{
    size_t n = p->transfers->bundles[b].n_receivers;
    return p->column_of[b] + n + leader * n + d;
}

static size_t column_f(const struct program *p, size_t b, size_t d, size_t option)
{
    const struct ah_transfer_bundle *bundle = &p->transfers->bundles[b];
    size_t n = bundle->n_receivers, at = p->column_of[b] + (has_relays(bundle) ? n * (1 + n) : 0);
    for (size_t i = 0; i < d; i++)
        at += bundle->receivers[i].n_options;
    return at + option;
}

static int reserve(struct program *p, struct ah_error *err)
{
    const struct ah_transfer_problem *transfers = p->transfers;
    size_t columns = ah_transfer_columns(transfers), rows = transfers->n_resources;
    for (size_t b = 0; b < transfers->n_bundles; b++)
        rows += rows_of(&transfers->bundles[b]);
    p->column_of = calloc(transfers->n_bundles + 1, sizeof *p->column_of);
    p->integer = calloc(columns, sizeof *p->integer);
    p->numbers = calloc(3 * columns + 3 * rows + rows * columns, sizeof *p->numbers);
    if (!p->column_of || !p->integer || !p->numbers)
        return ah_error_memory(err);
    p->objective = p->numbers;
    p->upper = p->objective + columns;
    p->values = p->upper + columns;
    p->row_lower = p->values + columns;
    p->row_upper = p->row_lower + rows;
    p->prices = p->row_upper + rows;
    p->coefficients = p->prices + rows;
    p->problem = (struct ah_solver_problem){columns,    rows,         p->objective, p->upper,
                                            p->integer, p->row_lower, p->row_upper, p->coefficients};
    return AH_OK;
}

static void release_program(struct program *p)
{
    free(p->column_of);
    free(p->integer);
    free(p->numbers);
}

/* ---- rows ---- */

static double *cell(struct program *p, size_t row, size_t column)
{
    return &p->coefficients[row * p->problem.n_columns + column];
}

static size_t new_row(struct program *p, double lower, double upper)
{
    p->row_lower[p->row] = lower;
    p->row_upper[p->row] = upper;
    return p->row++;
}

/* Adds rows (1) and (2), and rows (4) if shards are fetched once. */
static void put_leaders(struct program *p, size_t b)
{
    const struct ah_transfer_bundle *bundle = &p->transfers->bundles[b];
    size_t n = bundle->n_receivers;
    size_t all = new_row(p, (double)bundle->count, (double)bundle->count);
    for (size_t leader = 0; leader < n; leader++) {
        *cell(p, all, column_y(p, b, leader)) = 1;
        for (size_t d = 0; d < n; d++) {
            size_t row = new_row(p, -INFINITY, 0);
            *cell(p, row, column_r(p, b, leader, d)) = 1;
            if (ah_transfer_allows(bundle, leader, d, AH_TRANSFER_RELAYED))
                *cell(p, row, column_y(p, b, leader)) = -1;
        }
    }
    for (size_t d = 0; d < n && bundle->once; d++) {
        size_t row = new_row(p, -INFINITY, 0);
        *cell(p, row, column_y(p, b, d)) = -1;
        for (size_t s = 0; s < bundle->receivers[d].n_options; s++)
            *cell(p, row, column_f(p, b, d, s)) = 1;
    }
}

/* Adds rows (3). */
static void put_receivers(struct program *p, size_t b)
{
    const struct ah_transfer_bundle *bundle = &p->transfers->bundles[b];
    for (size_t d = 0; d < bundle->n_receivers; d++) {
        size_t row = new_row(p, (double)bundle->count, (double)bundle->count);
        for (size_t s = 0; s < bundle->receivers[d].n_options; s++)
            *cell(p, row, column_f(p, b, d, s)) = 1;
        for (size_t leader = 0; leader < bundle->n_receivers && has_relays(bundle); leader++)
            *cell(p, row, column_r(p, b, leader, d)) = 1;
    }
}

static void put_passes(struct program *p, size_t first_row, const struct ah_transfer_bundle *bundle,
                       const struct ah_transfer_option *option, size_t column)
{
    for (size_t i = 0; i < option->n_passes; i++)
        *cell(p, first_row + option->passes[i], column) += (double)bundle->bytes;
}

/* Adds rows (5). */
static void put_resources(struct program *p)
{
    const struct ah_transfer_problem *transfers = p->transfers;
    size_t first_row = p->row;
    for (size_t r = 0; r < transfers->n_resources; r++)
        *cell(p, new_row(p, -INFINITY, 0), 0) = -transfers->rates[r];
    for (size_t b = 0; b < transfers->n_bundles; b++) {
        const struct ah_transfer_bundle *bundle = &transfers->bundles[b];
        for (size_t d = 0; d < bundle->n_receivers; d++) {
            for (size_t s = 0; s < bundle->receivers[d].n_options; s++)
                put_passes(p, first_row, bundle, &bundle->receivers[d].options[s], column_f(p, b, d, s));
            for (size_t leader = 0; leader < bundle->n_receivers && has_relays(bundle); leader++)
                put_passes(p, first_row, bundle, &bundle->relays[leader * bundle->n_receivers + d],
                           column_r(p, b, leader, d));
        }
    }
}

static void build_program(struct program *p)
{
    const struct ah_transfer_problem *transfers = p->transfers;
    size_t column = 1;
    p->objective[0] = 1;
    p->upper[0] = INFINITY;
    for (size_t b = 0; b < transfers->n_bundles; b++) {
        size_t end = column + columns_of(&transfers->bundles[b]);
        p->column_of[b] = column;
        for (; column < end; column++) {
            p->upper[column] = (double)transfers->bundles[b].count;
            p->integer[column] = true;
        }
    }
    for (size_t b = 0; b < transfers->n_bundles; b++) {
        if (has_relays(&transfers->bundles[b]))
            put_leaders(p, b);
        put_receivers(p, b);
    }
    put_resources(p);
}

/* ---- its solution ---- */

/* Lowers a column's count by one; false: the count is used up. */
static bool take_one(struct program *p, size_t column)
{
    if (p->values[column] < 0.5)
        return false;
    p->values[column] -= 1;
    return true;
}

static int take_option(struct program *p, size_t b, size_t d)
{
    const struct ah_transfer_receiver *receiver = &p->transfers->bundles[b].receivers[d];
    for (size_t s = 0; s < receiver->n_options; s++)
        if (take_one(p, column_f(p, b, d, s)))
            return (int)s;
    return AH_TRANSFER_RELAYED;
}

/* Gives every shard of a bundle a leader, and each receiver a choice. Returns false if the counts do not add up. */
static bool deal_ways(struct program *p, size_t b, int *ways)
{
    const struct ah_transfer_bundle *bundle = &p->transfers->bundles[b];
    size_t n = bundle->n_receivers, leader = 0;
    bool relays = has_relays(bundle);
    for (size_t i = 0; i < bundle->count; i++, ways += 1 + n) {
        while (relays && leader < n && !take_one(p, column_y(p, b, leader)))
            leader++;
        if (leader == n)
            return false;
        ways[0] = (int)leader;
        for (size_t d = 0; d < n; d++) {
            bool relayed = relays && d != leader && take_one(p, column_r(p, b, leader, d));
            ways[1 + d] = relayed ? AH_TRANSFER_RELAYED : take_option(p, b, d);
            if (!relayed && ways[1 + d] == AH_TRANSFER_RELAYED)
                return false;
        }
    }
    return true;
}

static bool deal_all(struct program *p, int *ways)
{
    for (size_t b = 0; b < p->transfers->n_bundles; b++) {
        if (!deal_ways(p, b, ways))
            return false;
        ways += p->transfers->bundles[b].count * (1 + p->transfers->bundles[b].n_receivers);
    }
    return true;
}

static double bound_of(const struct program *p)
{
    const struct ah_transfer_problem *transfers = p->transfers;
    double *prices = p->prices + (p->problem.n_rows - transfers->n_resources);
    for (size_t r = 0; r < transfers->n_resources; r++)
        prices[r] = fabs(prices[r]);
    return ah_transfer_bound(transfers, prices, NULL);
}

int ah_transfer_program(const struct ah_transfer_problem *transfers, size_t nodes, double below_s,
                        int *ret_ways, bool *ret_found, double *ret_bound_s, struct ah_error *err)
{
    struct program p = {.transfers = transfers};
    struct ah_solver_result relaxed = {0}, whole = {0};
    const struct ah_solver_limits limits = {.gap = 0, .nodes = nodes};
    int rc = reserve(&p, err);
    if (rc)
        goto out;
    build_program(&p);
    relaxed.values = whole.values = p.values;
    relaxed.prices = p.prices;
    rc = ah_solver_relax(&p.problem, &relaxed, err);
    if (rc)
        goto out;
    *ret_bound_s = relaxed.status == AH_SOLVER_OPTIMAL ? bound_of(&p) : 0;
    *ret_found = false;
    if (below_s <= *ret_bound_s * (1 + 1e-9))
        goto out;
    rc = ah_solver_round(&p.problem, &limits, &whole, err);
    if (!rc && (whole.status == AH_SOLVER_OPTIMAL || whole.status == AH_SOLVER_FEASIBLE))
        *ret_found = deal_all(&p, ret_ways);
out:
    release_program(&p);
    return rc;
}
