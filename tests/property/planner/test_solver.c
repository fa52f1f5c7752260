/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares solutions of random small programs with CBC's: relaxations to CBC's digits, integer programs without a gap.
 */
#include "tests/property/planner/cbc.h"

#include <math.h>

enum { PROGRAMS = 40, COLUMNS = 8, ROWS = 6 };

struct random_program {
    double objective[COLUMNS], upper[COLUMNS], lower[ROWS], most[ROWS], coefficients[ROWS * COLUMNS];
    bool integer[COLUMNS];
    struct ah_solver_problem problem;
};

static void make(struct random_program *p, uint64_t *random, bool integer)
{
    for (size_t j = 0; j < COLUMNS; j++) {
        p->objective[j] = floor(check_uniform(random) * 20) - 4;
        p->upper[j] = 1 + floor(check_uniform(random) * 9);
        p->integer[j] = integer && j % 4;
    }
    for (size_t i = 0; i < ROWS; i++) {
        double sum = 0;
        for (size_t j = 0; j < COLUMNS; j++) {
            double value = floor(check_uniform(random) * 12) - 3;
            p->coefficients[i * COLUMNS + j] = value;
            sum += value * p->upper[j] * check_uniform(random);
        }
        bool equal = i == 0, from_below = i % 2;
        p->lower[i] = equal || from_below ? floor(sum) : (double)-INFINITY;
        p->most[i] = equal || !from_below ? floor(sum) : (double)INFINITY;
    }
    p->problem = (struct ah_solver_problem){.n_columns = COLUMNS,
                                            .n_rows = ROWS,
                                            .objective = p->objective,
                                            .upper = p->upper,
                                            .integer = p->integer,
                                            .row_lower = p->lower,
                                            .row_upper = p->most,
                                            .coefficients = p->coefficients};
}

static void check_values(const struct random_program *p, const double *values, double tolerance)
{
    for (size_t i = 0; i < ROWS; i++) {
        double sum = 0;
        for (size_t j = 0; j < COLUMNS; j++)
            sum += p->coefficients[i * COLUMNS + j] * values[j];
        assert_true(sum >= p->lower[i] - tolerance && sum <= p->most[i] + tolerance);
    }
}

static void compare(uint64_t seed, bool integer)
{
    uint64_t random = check_seed(seed);
    size_t feasible = 0;
    for (int i = 0; i < PROGRAMS; i++) {
        struct random_program p;
        struct ah_error err = {0};
        double values[COLUMNS], expected;
        struct ah_solver_result result = {.values = values};
        make(&p, &random, integer);
        bool exists = cbc_solve(&p.problem, &expected);
        if (integer)
            CHECK_OK(ah_solver_round(&p.problem, &(struct ah_solver_limits){0}, &result, &err), err);
        else
            CHECK_OK(ah_solver_relax(&p.problem, &result, &err), err);
        assert_int_equal(result.status, exists ? AH_SOLVER_OPTIMAL : AH_SOLVER_INFEASIBLE);
        if (!exists)
            continue;
        feasible++;
        check_near(result.objective, expected, 1e-6);
        check_values(&p, values, integer ? 1e-6 : 1e-9);
        for (size_t j = 0; j < COLUMNS; j++)
            assert_true(!p.integer[j] || fabs(values[j] - round(values[j])) < 1e-6);
    }
    print_message("%zu of %d programs had a solution\n", feasible, PROGRAMS);
    assert_in_range(feasible, PROGRAMS / 4, PROGRAMS - 1);
}

TEST(solver, relaxes_as_cbc_does)
{
    compare(11, false);
}

TEST(solver, rounds_as_cbc_does)
{
    compare(12, true);
}
