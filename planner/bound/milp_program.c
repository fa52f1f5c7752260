/* SPDX-License-Identifier: Apache-2.0
 *
 * Program: the rows in the solver's form, with a column for each active column and one for the objective.
 *
 * All numbers are whole and below 2^53; for such numbers the solver is exact.
 */
#include "planner/bound/milp_solve_internal.h"

#include "planner/bound/solver.h"

#include <math.h>

/* The integer solver may exceed limits by this fraction. So it gets lower limits, and its counts are checked. */
#define ROUND_MARGIN 0x1p-22
#define ROUND_GAP    1e-3

struct program {
    struct ah_solver_problem problem;
    double *objective, *upper, *row_lower, *row_upper, *coefficients;
    bool *integer;
    size_t *row_of; /* by row of the milp: the index of its row in the program; 0: none */
};

static int allocate(struct program *p, const struct ah_milp *milp, const struct ah_milp_choice *choice,
                    struct ah_arena *arena, struct ah_error *err)
{
    size_t columns = choice->n_active + 1, rows = milp->n_rows + milp->n_classes;
    p->objective = ah_arena_array(arena, columns, sizeof *p->objective);
    p->upper = ah_arena_array(arena, columns, sizeof *p->upper);
    p->integer = ah_arena_array(arena, columns, sizeof *p->integer);
    p->row_lower = ah_arena_array(arena, rows, sizeof *p->row_lower);
    p->row_upper = ah_arena_array(arena, rows, sizeof *p->row_upper);
    p->coefficients = ah_arena_array(arena, rows * columns, sizeof *p->coefficients);
    p->row_of = ah_arena_array(arena, milp->n_rows, sizeof *p->row_of);
    if (!p->row_of || !p->objective || !p->upper || !p->integer || !p->row_lower || !p->row_upper ||
        !p->coefficients)
        return ah_error_memory(err);
    p->problem = (struct ah_solver_problem){.n_columns = columns,
                                            .n_rows = 0,
                                            .objective = p->objective,
                                            .upper = p->upper,
                                            .integer = p->integer,
                                            .row_lower = p->row_lower,
                                            .row_upper = p->row_upper,
                                            .coefficients = p->coefficients};
    return AH_OK;
}

static double *add_row(struct program *p, double lower, double upper)
{
    size_t row = p->problem.n_rows++;
    p->row_lower[row] = lower;
    p->row_upper[row] = upper;
    return p->coefficients + row * p->problem.n_columns;
}

static void add_limit(struct program *p, const struct ah_milp *milp, const struct ah_milp_choice *choice,
                      size_t row, bool whole)
{
    bool objective = milp->rows[row].kind == choice->objective;
    double limit = objective ? 0 : (double)choice->limits[row];
    if (!objective && choice->limits[row] == INT64_MAX)
        return;
    if (whole && milp->rows[row].kind != AH_MILP_CAP)
        limit -= limit * ROUND_MARGIN;
    p->row_of[row] = p->problem.n_rows; /* the rows of the classes come first */
    double *values = add_row(p, -INFINITY, limit);
    for (size_t j = 0; j < choice->n_active; j++)
        values[j] = (double)ah_milp_coefficients(milp, row)[choice->active[j]];
    if (objective)
        values[choice->n_active] = -1;
}

static void fill_program(struct program *p, const struct ah_milp *milp, const struct ah_milp_choice *choice,
                         bool whole)
{
    for (size_t j = 0; j < choice->n_active; j++) {
        p->upper[j] = milp->classes[milp->columns[choice->active[j]].of_class].blocks;
        p->integer[j] = true;
    }
    p->objective[choice->n_active] = 1;
    p->upper[choice->n_active] = INFINITY;
    for (size_t k = 0; k < milp->n_classes; k++) {
        double *values = add_row(p, milp->classes[k].blocks, milp->classes[k].blocks);
        for (size_t j = 0; j < choice->n_active; j++)
            values[j] = milp->columns[choice->active[j]].of_class == k;
    }
    for (size_t i = 0; i < milp->n_rows; i++)
        add_limit(p, milp, choice, i, whole);
}

/* Sets the prices of all rows of the milp; 0 for a row that is not in the program. */
static void spread_prices(const struct program *p, const struct ah_milp *milp, const double *prices,
                          double *ret_prices)
{
    for (size_t i = 0; i < milp->n_rows; i++)
        ret_prices[i] = p->row_of[i] ? prices[p->row_of[i]] : 0;
}

int ah_milp_relax(const struct ah_milp *milp, const struct ah_milp_choice *choice, struct ah_arena *arena,
                  double *ret_objective, double *ret_values, double *ret_prices, struct ah_error *err)
{
    struct program p = {0};
    struct ah_solver_result result = {.values = ret_values};
    int rc = allocate(&p, milp, choice, arena, err);
    if (!rc && ret_prices)
        result.prices = ah_arena_array(arena, milp->n_rows + milp->n_classes, sizeof *result.prices);
    if (!rc && ret_prices && !result.prices)
        rc = ah_error_memory(err);
    if (rc)
        return rc;
    fill_program(&p, milp, choice, false);
    rc = ah_solver_relax(&p.problem, &result, err);
    if (rc)
        return rc;
    *ret_objective = result.status == AH_SOLVER_OPTIMAL ? result.objective : (double)INFINITY;
    if (ret_prices && result.status == AH_SOLVER_OPTIMAL)
        spread_prices(&p, milp, result.prices, ret_prices);
    return AH_OK;
}

int ah_milp_round(const struct ah_milp *milp, const struct ah_milp_choice *choice, size_t nodes,
                  struct ah_arena *arena, bool *ret_found, double *ret_values, struct ah_error *err)
{
    struct program p = {0};
    struct ah_solver_result result = {.values = ret_values};
    struct ah_solver_limits limits = {.gap = ROUND_GAP, .nodes = nodes};
    int rc = allocate(&p, milp, choice, arena, err);
    if (rc)
        return rc;
    fill_program(&p, milp, choice, true);
    rc = ah_solver_round(&p.problem, &limits, &result, err);
    if (rc)
        return rc;
    *ret_found = result.status == AH_SOLVER_OPTIMAL || result.status == AH_SOLVER_FEASIBLE;
    return AH_OK;
}
