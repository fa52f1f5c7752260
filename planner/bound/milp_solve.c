/* SPDX-License-Identifier: Apache-2.0
 *
 * Solving: the bound, the candidates and, if there is no solution, the shortage.
 *
 * BOUND. If there are few vectors of counts, the bound is the best of them; otherwise it is the exact optimum of the
 * linear relaxation. Only blocks and configs decide which, so costs and budgets do not change the kind of bound. Both
 * kinds are minima of sums of whole coefficients, and larger budgets never shrink the set of counts. So the bound is
 * monotone to the bit. At the end it is reduced by a relative 1e-9, more than any rounding in a simulated period.
 *
 * DOMINATED columns are left out: some other column of the class has no larger coefficient and can replace them.
 */
#include "planner/bound/milp_solve_internal.h"

#include <math.h>

enum { VECTORS_MOST = 100000 };

#define BOUND_SLACK 1e-9

struct solving {
    struct ah_milp milp;
    struct ah_milp_choice choice;
    size_t *active;
    int64_t *limits;
    double *values; /* by active column, and the objective */
    double *prices; /* by row */
    struct ah_milp_best best;
    bool exact;
    struct ah_arena *arena;
};

/* ---- what to solve ---- */

/* True if a can replace b: no coefficient of a is larger, and one is smaller or a is the first of two equal columns. */
static bool dominates(const struct ah_milp *milp, size_t a, size_t b)
{
    bool below = a < b;
    for (size_t i = 0; i < milp->n_rows; i++) {
        const int64_t *row = ah_milp_coefficients(milp, i);
        if (row[a] > row[b])
            return false;
        below |= row[a] < row[b];
    }
    return below;
}

static void find_active(struct solving *s)
{
    const struct ah_milp *milp = &s->milp;
    for (size_t j = 0; j < milp->n_columns; j++) {
        const struct ah_milp_class *class = &milp->classes[milp->columns[j].of_class];
        bool dominated = false;
        for (size_t other = class->first_column; other < class->first_column + class->n_columns; other++)
            dominated |= other != j && dominates(milp, other, j);
        if (!dominated)
            s->active[s->choice.n_active++] = j;
    }
}

static int begin_solving(struct solving *s, const struct ah_milp_input *input, struct ah_error *err)
{
    struct ah_milp *milp = &s->milp;
    int rc = ah_milp_build(milp, input, s->arena, err);
    rc = rc ? rc : ah_milp_best_init(&s->best, milp, AH_MILP_CANDIDATES_MAX, s->arena, err);
    if (rc)
        return rc;
    s->active = ah_arena_array(s->arena, milp->n_columns, sizeof *s->active);
    s->limits = ah_arena_array(s->arena, milp->n_rows, sizeof *s->limits);
    s->values = ah_arena_array(s->arena, milp->n_columns + 1, sizeof *s->values);
    s->prices = ah_arena_array(s->arena, milp->n_rows, sizeof *s->prices);
    if (!s->active || !s->limits || !s->values || !s->prices)
        return ah_error_memory(err);
    find_active(s);
    for (size_t i = 0; i < milp->n_rows; i++)
        s->limits[i] = milp->rows[i].limit;
    s->choice.active = s->active;
    s->choice.limits = s->limits;
    s->choice.objective = AH_MILP_TIME;
    s->exact = ah_milp_vectors(milp, VECTORS_MOST) < VECTORS_MOST;
    return AH_OK;
}

/* ---- bound ---- */

static int solve_by_relaxation(struct solving *s, double *ret_units, struct ah_error *err)
{
    int rc = ah_milp_relax(&s->milp, &s->choice, s->arena, ret_units, s->values, s->prices, err);
    return rc || isinf(*ret_units)
               ? rc
               : ah_milp_candidates(&s->milp, &s->choice, s->values, s->arena, &s->best, err);
}

static int solve_exactly(struct solving *s, double *ret_units, struct ah_error *err)
{
    double relaxed;
    int rc = ah_milp_enumerate(&s->milp, &s->choice, s->arena, &s->best, err);
    *ret_units = s->best.n ? (double)s->best.objective[0] : (double)INFINITY;
    return rc || !s->best.n
               ? rc
               : ah_milp_relax(&s->milp, &s->choice, s->arena, &relaxed, s->values, s->prices, err);
}

static double bound_us(double units)
{
    return units / AH_MILP_UNITS_PER_US * (1 - BOUND_SLACK);
}

/* ---- shortage ---- */

/* Finds the least limit of one kind of rows that some counts keep, ignoring time. INFINITY: other limits allow none. */
static int least_of(struct solving *s, enum ah_milp_row_kind kind, double *ret_bytes, struct ah_error *err)
{
    struct ah_milp_choice choice = s->choice;
    choice.objective = kind;
    if (!s->exact)
        return ah_milp_relax(&s->milp, &choice, s->arena, ret_bytes, s->values, NULL, err);
    struct ah_milp_best best;
    int rc = ah_milp_best_init(&best, &s->milp, 1, s->arena, err);
    rc = rc ? rc : ah_milp_enumerate(&s->milp, &choice, s->arena, &best, err);
    *ret_bytes = !rc && best.n ? (double)best.objective[0] : (double)INFINITY;
    return rc;
}

static void set_limits(struct solving *s, enum ah_milp_row_kind kind, int64_t limit)
{
    for (size_t i = 0; i < s->milp.n_rows; i++)
        if (s->milp.rows[i].kind == kind)
            s->limits[i] = limit;
}

static uint64_t beyond(double bytes, uint64_t budget)
{
    if (isinf(bytes))
        return AH_MILP_NEVER;
    uint64_t needed = (uint64_t)ceil(bytes);
    return needed > budget ? needed - budget : 0;
}

static int find_shortage(struct solving *s, struct ah_milp_shortage *shortage, struct ah_error *err)
{
    const struct ah_milp_input *input = s->milp.input;
    double device = 0, host = 0;
    int rc = least_of(s, AH_MILP_DEVICE, &device, err);
    rc = rc ? rc : least_of(s, AH_MILP_HOST, &host, err);
    if (rc)
        return rc;
    shortage->device_bytes = beyond(device, input->device_bytes);
    shortage->host_bytes = beyond(host, input->host_bytes);
    if (!isinf(device) || !isinf(host))
        return AH_OK;
    set_limits(s, AH_MILP_HOST, INT64_MAX);
    rc = least_of(s, AH_MILP_DEVICE, &device, err);
    if (rc)
        return rc;
    shortage->both_device_bytes = beyond(device, input->device_bytes);
    set_limits(s, AH_MILP_DEVICE, (int64_t)(input->device_bytes + shortage->both_device_bytes));
    rc = least_of(s, AH_MILP_HOST, &host, err);
    shortage->both_host_bytes = rc ? 0 : beyond(host, input->host_bytes);
    return rc;
}

/* ---- public functions ---- */

static int keep_candidates(const struct solving *s, struct ah_milp_result *result, struct ah_error *err)
{
    result->candidates = ah_arena_array(s->arena, s->best.n + 1, sizeof *result->candidates);
    if (!result->candidates)
        return ah_error_memory(err);
    result->n_candidates = s->best.n;
    for (size_t i = 0; i < s->best.n; i++)
        result->candidates[i] =
            (struct ah_milp_candidate){bound_us((double)s->best.objective[i]), s->best.counts[i]};
    return AH_OK;
}

int ah_milp_solve(const struct ah_milp_input *input, struct ah_arena *arena,
                  struct ah_milp_result *ret_result, struct ah_error *err)
{
    struct solving s = {.arena = arena};
    double units = INFINITY;
    int rc = begin_solving(&s, input, err);
    if (rc)
        return rc;
    struct ah_milp_result result = {
        .n_classes = s.milp.n_classes, .class_of = s.milp.class_of, .exact = s.exact};
    rc = s.exact ? solve_exactly(&s, &units, err) : solve_by_relaxation(&s, &units, err);
    if (rc)
        return rc;
    result.feasible = !isinf(units);
    result.bound_us = result.feasible ? bound_us(units) : 0;
    if (result.feasible)
        rc = ah_milp_prices(&s.milp, s.prices, arena, &result, err);
    if (!rc)
        rc = result.feasible ? keep_candidates(&s, &result, err) : find_shortage(&s, &result.shortage, err);
    if (rc == AH_OK)
        *ret_result = result;
    return rc;
}
