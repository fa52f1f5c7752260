/* SPDX-License-Identifier: Apache-2.0
 *
 * Solving: the bound, the candidates, and what is short where there is no solution.
 *
 * BOUND. Where all vectors of counts are few, the best of them; else the exact optimum of the linear relaxation. How
 * many there are is a matter of blocks and configs alone, so the choice does not change with a cost or a budget; and
 * both are minima over a set that neither changes, or only grows, of sums of whole coefficients: monotone to the bit.
 * At the end a relative 1e-9 is taken off, which no rounding in a simulated period reaches.
 *
 * DOMINATED columns are left out of what is solved: one that is nowhere below another of its class can be replaced
 * by it.
 *
 * CANDIDATES beyond exact ones: the integer program's incumbent, the relaxation rounded, and incumbents of the program
 * with one of the incumbent's columns forbidden, largest counts first.
 */
#include "planner/milp_solve_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VECTORS_MOST = 100000, NODES_FIRST = 400, NODES_NEXT = 100, EXCLUSIONS = 5 };

#define BOUND_SLACK 1e-9

struct solving {
    struct ah_milp milp;
    struct ah_milp_choice choice;
    size_t *active;
    int64_t *limits;
    double *values; /* by active column, and the objective */
    struct ah_milp_best best;
    bool exact;
    struct ah_arena *arena;
};

/* ---- the list of the best ---- */

int ah_milp_best_init(struct ah_milp_best *ret_best, const struct ah_milp *milp, size_t most,
                      struct ah_arena *arena, struct ah_error *err)
{
    *ret_best = (struct ah_milp_best){.most = most, .limit = INT64_MAX};
    for (size_t i = 0; i < most; i++) {
        ret_best->counts[i] =
            ah_arena_array(arena, milp->n_classes * AH_CONFIGS_MAX, sizeof **ret_best->counts);
        if (!ret_best->counts[i])
            return ah_error_memory(err);
    }
    return AH_OK;
}

/* Does item i have these counts? Columns of one config count together. */
static bool same_counts(const struct ah_milp_best *best, size_t i, const struct ah_milp *milp,
                        const uint32_t *counts)
{
    for (size_t j = 0; j < milp->n_columns; j++) {
        const struct ah_milp_column *column = &milp->columns[j];
        bool pair = j + 1 < milp->n_columns && milp->columns[j + 1].kept && !column->kept;
        uint32_t count = counts[j] + (pair ? counts[j + 1] : 0);
        if (!column->kept && best->counts[i][column->of_class * AH_CONFIGS_MAX + column->config] != count)
            return false;
    }
    return true;
}

static void best_remove(struct ah_milp_best *best, size_t i)
{
    uint32_t *counts = best->counts[i];
    best->n--;
    memmove(best->counts + i, best->counts + i + 1, (best->n - i) * sizeof *best->counts);
    memmove(best->objective + i, best->objective + i + 1, (best->n - i) * sizeof *best->objective);
    best->counts[best->n] = counts;
}

static void best_insert(struct ah_milp_best *best, const struct ah_milp *milp, const uint32_t *counts,
                        int64_t objective)
{
    size_t at = best->n;
    uint32_t *free_counts = best->counts[best->n];
    while (at && best->objective[at - 1] > objective) {
        best->objective[at] = best->objective[at - 1];
        best->counts[at] = best->counts[at - 1];
        at--;
    }
    memset(free_counts, 0, milp->n_classes * AH_CONFIGS_MAX * sizeof *free_counts);
    for (size_t j = 0; j < milp->n_columns; j++)
        free_counts[milp->columns[j].of_class * AH_CONFIGS_MAX + milp->columns[j].config] += counts[j];
    best->objective[at] = objective;
    best->counts[at] = free_counts;
    best->n++;
}

void ah_milp_best_offer(struct ah_milp_best *best, const struct ah_milp *milp, const uint32_t *counts,
                        int64_t objective)
{
    for (size_t i = 0; i < best->n; i++) {
        if (!same_counts(best, i, milp, counts))
            continue;
        if (best->objective[i] <= objective)
            return;
        best_remove(best, i);
        break;
    }
    if (best->n == best->most) {
        if (objective >= best->objective[best->n - 1])
            return;
        best->n--;
    }
    best_insert(best, milp, counts, objective);
    best->limit = best->n == best->most ? best->objective[best->n - 1] : INT64_MAX;
}

/* ---- what to solve ---- */

/* Is column a nowhere above b, and either below somewhere or the first of two equals? */
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

static int begin(struct solving *s, const struct ah_milp_input *input, struct ah_error *err)
{
    struct ah_milp *milp = &s->milp;
    int rc = ah_milp_build(milp, input, s->arena, err);
    rc = rc ? rc : ah_milp_best_init(&s->best, milp, AH_MILP_CANDIDATES_MAX, s->arena, err);
    if (rc)
        return rc;
    s->active = ah_arena_array(s->arena, milp->n_columns, sizeof *s->active);
    s->limits = ah_arena_array(s->arena, milp->n_rows, sizeof *s->limits);
    s->values = ah_arena_array(s->arena, milp->n_columns + 1, sizeof *s->values);
    if (!s->active || !s->limits || !s->values)
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

/* ---- candidates ---- */

/* Offers counts by column where they keep every limit, exactly. */
static void offer_checked(struct solving *s, const uint32_t *counts)
{
    const struct ah_milp *milp = &s->milp;
    int64_t most = 0;
    for (size_t i = 0; i < milp->n_rows; i++) {
        int64_t sum = 0;
        for (size_t j = 0; j < milp->n_columns; j++)
            sum += counts[j] * ah_milp_coefficients(milp, i)[j];
        if (milp->rows[i].kind == AH_MILP_TIME)
            most = sum > most ? sum : most;
        else if (sum > milp->rows[i].limit)
            return;
    }
    ah_milp_best_offer(&s->best, milp, counts, most);
}

/* Rounds values of active columns to counts that add up in every class: down, then up where most is missing. */
static void round_values(const struct solving *s, const struct ah_milp_choice *choice, const double *values,
                         uint32_t *ret_counts)
{
    const struct ah_milp *milp = &s->milp;
    memset(ret_counts, 0, milp->n_columns * sizeof *ret_counts);
    for (size_t k = 0; k < milp->n_classes; k++) {
        uint32_t left = milp->classes[k].blocks;
        for (size_t a = 0; a < choice->n_active; a++) {
            if (milp->columns[choice->active[a]].of_class != k)
                continue;
            double whole = floor(values[a] + 1e-6);
            uint32_t count = whole > 0 ? (uint32_t)whole : 0;
            count = count < left ? count : left;
            ret_counts[choice->active[a]] = count;
            left -= count;
        }
        for (; left; left--) {
            size_t most = SIZE_MAX;
            double missing = -INFINITY;
            for (size_t a = 0; a < choice->n_active; a++) {
                double lacks = values[a] - ret_counts[choice->active[a]];
                if (milp->columns[choice->active[a]].of_class == k && lacks > missing) {
                    missing = lacks;
                    most = choice->active[a];
                }
            }
            ret_counts[most]++;
        }
    }
}

static int offer_incumbent(struct solving *s, const struct ah_milp_choice *choice, size_t nodes,
                           uint32_t *counts, struct ah_error *err)
{
    bool found = false;
    int rc = ah_milp_round(&s->milp, choice, nodes, s->arena, &found, s->values, err);
    if (rc || !found)
        return rc;
    round_values(s, choice, s->values, counts);
    offer_checked(s, counts);
    return AH_OK;
}

/* Is column j of the class's only config, or the other column of its config? */
static bool same_config(const struct ah_milp *milp, size_t a, size_t b)
{
    return milp->columns[a].of_class == milp->columns[b].of_class &&
           milp->columns[a].config == milp->columns[b].config;
}

/* The choice without one config; false: the class would have none left. */
static bool exclude(const struct solving *s, size_t column, size_t *active, struct ah_milp_choice *ret_choice)
{
    *ret_choice = s->choice;
    ret_choice->active = active;
    ret_choice->n_active = 0;
    size_t of_class = 0;
    for (size_t a = 0; a < s->choice.n_active; a++) {
        size_t j = s->choice.active[a];
        if (same_config(&s->milp, j, column))
            continue;
        active[ret_choice->n_active++] = j;
        of_class += s->milp.columns[j].of_class == s->milp.columns[column].of_class;
    }
    return of_class > 0;
}

/* The active column with the most blocks in the best counts that is not marked; SIZE_MAX: none. */
static size_t next_used(const struct solving *s, const uint32_t *counts, const bool *done)
{
    size_t next = SIZE_MAX;
    uint32_t most = 0;
    for (size_t a = 0; a < s->choice.n_active; a++) {
        size_t j = s->choice.active[a];
        const struct ah_milp_column *column = &s->milp.columns[j];
        uint32_t count = counts[column->of_class * AH_CONFIGS_MAX + column->config];
        if (!done[j] && count > most) {
            most = count;
            next = j;
        }
    }
    return next;
}

static int more_candidates(struct solving *s, uint32_t *counts, struct ah_error *err)
{
    const struct ah_milp *milp = &s->milp;
    size_t *active = ah_arena_array(s->arena, milp->n_columns, sizeof *active);
    bool *done = ah_arena_array(s->arena, milp->n_columns, sizeof *done);
    uint32_t *first = ah_arena_array(s->arena, milp->n_classes * AH_CONFIGS_MAX, sizeof *first);
    if (!active || !done || !first)
        return ah_error_memory(err);
    memcpy(first, s->best.counts[0], milp->n_classes * AH_CONFIGS_MAX * sizeof *first);
    for (int i = 0; i < EXCLUSIONS; i++) {
        struct ah_milp_choice choice;
        size_t column = next_used(s, first, done);
        if (column == SIZE_MAX)
            break;
        for (size_t j = 0; j < milp->n_columns; j++)
            done[j] |= same_config(milp, j, column);
        if (!exclude(s, column, active, &choice))
            continue;
        int rc = offer_incumbent(s, &choice, NODES_NEXT, counts, err);
        if (rc)
            return rc;
    }
    return AH_OK;
}

/* ---- bound ---- */

static int solve_by_relaxation(struct solving *s, double *ret_units, struct ah_error *err)
{
    uint32_t *counts = ah_arena_array(s->arena, s->milp.n_columns, sizeof *counts);
    if (!counts)
        return ah_error_memory(err);
    int rc = ah_milp_relax(&s->milp, &s->choice, s->arena, ret_units, s->values, err);
    if (rc || isinf(*ret_units))
        return rc;
    round_values(s, &s->choice, s->values, counts);
    offer_checked(s, counts);
    rc = offer_incumbent(s, &s->choice, NODES_FIRST, counts, err);
    return rc || !s->best.n ? rc : more_candidates(s, counts, err);
}

static int solve_exactly(struct solving *s, double *ret_units, struct ah_error *err)
{
    int rc = ah_milp_enumerate(&s->milp, &s->choice, s->arena, &s->best, err);
    *ret_units = s->best.n ? (double)s->best.objective[0] : (double)INFINITY;
    return rc;
}

static double bound_us(double units)
{
    return units / AH_MILP_UNITS_PER_US * (1 - BOUND_SLACK);
}

/* ---- shortage ---- */

/* The least that rows of one kind can be kept to, time apart; INFINITY: the other limits allow nothing. */
static int least_of(struct solving *s, enum ah_milp_row_kind kind, double *ret_bytes, struct ah_error *err)
{
    struct ah_milp_choice choice = s->choice;
    choice.objective = kind;
    if (!s->exact)
        return ah_milp_relax(&s->milp, &choice, s->arena, ret_bytes, s->values, err);
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

/* ---- the two functions ---- */

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
    int rc = begin(&s, input, err);
    if (rc)
        return rc;
    struct ah_milp_result result = {
        .n_classes = s.milp.n_classes, .class_of = s.milp.class_of, .exact = s.exact};
    rc = s.exact ? solve_exactly(&s, &units, err) : solve_by_relaxation(&s, &units, err);
    if (rc)
        return rc;
    result.feasible = !isinf(units);
    result.bound_us = result.feasible ? bound_us(units) : 0;
    rc = result.feasible ? keep_candidates(&s, &result, err) : find_shortage(&s, &result.shortage, err);
    if (rc == AH_OK)
        *ret_result = result;
    return rc;
}
