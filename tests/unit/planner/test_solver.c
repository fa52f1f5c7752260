/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the solver on problems solved by hand: relaxed, in whole numbers, unbounded, cut off, and misused.
 */
#include "planner/bound/solver.h"

#include "tests/support/check.h"

#include <math.h>

/* Minimises -2x - y and similar costs, where x + y = 10, 3x + y <= 17 and x <= 4. */
static const double upper[] = {4, INFINITY};
static const bool integer[] = {true, true};
static const double lower[] = {10, -INFINITY};
static const double most[] = {10, 17};
static const double coefficients[] = {1, 1, 3, 1};

static struct ah_solver_problem problem_of(const double objective[2])
{
    return (struct ah_solver_problem){.n_columns = 2,
                                      .n_rows = 2,
                                      .objective = objective,
                                      .upper = upper,
                                      .integer = integer,
                                      .row_lower = lower,
                                      .row_upper = most,
                                      .coefficients = coefficients};
}

TEST(solver, relaxes)
{
    static const double objective[] = {-2, -1};
    struct ah_solver_problem problem = problem_of(objective);
    double values[2];
    struct ah_solver_result result = {.values = values};
    struct ah_error err = {0};
    CHECK_OK(ah_solver_relax(&problem, &result, &err), err);
    assert_int_equal(result.status, AH_SOLVER_OPTIMAL);
    check_near(result.objective, -13.5, 0);
    check_near(values[0], 3.5, 0);
    check_near(values[1], 6.5, 0);
}

TEST(solver, rounds)
{
    static const double objective[] = {-2, -1};
    struct ah_solver_problem problem = problem_of(objective);
    double values[2];
    struct ah_solver_result result = {.values = values};
    struct ah_error err = {0};
    CHECK_OK(ah_solver_round(&problem, &(struct ah_solver_limits){0}, &result, &err), err);
    assert_int_equal(result.status, AH_SOLVER_OPTIMAL);
    check_near(result.objective, -13, 1e-9);
    check_near(values[0], 3, 1e-9);
}

/* 3x + y and x + 3y are limited to 2^51, so 4x + 4y is limited to 2^52. No tolerance is fine enough to exclude 2^52 +
 * 1. */
TEST(solver, is_exact)
{
    static const double objective[] = {1, 0}, much[] = {0x1p52, 0x1p52}, rows[] = {3, 1, 1, 3, 4, 4};
    static const double row_upper[] = {0x1p51, 0x1p51, INFINITY};
    double row_lower[] = {-INFINITY, -INFINITY, 0x1p52 + 1};
    struct ah_solver_problem problem = {.n_columns = 2,
                                        .n_rows = 3,
                                        .objective = objective,
                                        .upper = much,
                                        .integer = integer,
                                        .row_lower = row_lower,
                                        .row_upper = row_upper,
                                        .coefficients = rows};
    double values[2];
    struct ah_solver_result result = {.values = values};
    struct ah_error err = {0};
    CHECK_OK(ah_solver_relax(&problem, &result, &err), err);
    assert_int_equal(result.status, AH_SOLVER_INFEASIBLE);
    row_lower[2] = 0x1p52;
    CHECK_OK(ah_solver_relax(&problem, &result, &err), err);
    assert_int_equal(result.status, AH_SOLVER_OPTIMAL);
    assert_true(result.objective == 0x1p49);
}

TEST(solver, sees_what_has_no_end)
{
    static const double objective[] = {1, -1}, coefficient[] = {1, 0};
    struct ah_solver_problem problem = problem_of(objective);
    struct ah_error err = {0};
    double values[2];
    struct ah_solver_result result = {.values = values};
    problem.n_rows = 1;
    problem.coefficients = coefficient;
    problem.row_lower = (const double[]){0};
    CHECK_OK(ah_solver_relax(&problem, &result, &err), err);
    assert_int_equal(result.status, AH_SOLVER_UNBOUNDED);
}

/* A knapsack that needs branching. With few nodes there is an incumbent or nothing, with all nodes the optimum. */
TEST(solver, stops_after_nodes)
{
    enum { N = 12 };
    double objective[N], ones[N], row[N];
    bool all[N];
    uint64_t random = 5;
    for (int j = 0; j < N; j++) {
        row[j] = 50 + (double)(check_random(&random) % 50);
        objective[j] = -row[j] - (double)(check_random(&random) % 7);
        ones[j] = 1;
        all[j] = true;
    }
    const double none = -INFINITY, limit = 300;
    struct ah_solver_problem problem = {.n_columns = N,
                                        .n_rows = 1,
                                        .objective = objective,
                                        .upper = ones,
                                        .integer = all,
                                        .row_lower = &none,
                                        .row_upper = &limit,
                                        .coefficients = row};
    double values[N];
    struct ah_solver_result few = {.values = values}, whole = {.values = values};
    struct ah_error err = {0};
    CHECK_OK(ah_solver_round(&problem, &(struct ah_solver_limits){.nodes = 3}, &few, &err), err);
    CHECK_OK(ah_solver_round(&problem, &(struct ah_solver_limits){0}, &whole, &err), err);
    assert_int_not_equal(few.status, AH_SOLVER_OPTIMAL);
    assert_int_equal(whole.status, AH_SOLVER_OPTIMAL);
}

TEST(solver, comes_back_from_misuse)
{
    static const double objective[] = {-2, -1};
    struct ah_solver_problem problem = problem_of(objective);
    struct ah_error err = {0};
    double values[2];
    struct ah_solver_result result = {.values = values};
    problem.n_columns = 0; /* without this check, GLPK would abort() */
    CHECK_FAILS(ah_solver_relax(&problem, &result, &err), err, AH_E_FAILED, "stopped");
    problem = problem_of(objective);
    CHECK_OK(ah_solver_relax(&problem, &result, &err), err);
    CHECK_FAILS(ah_solver_write(&problem, "/nowhere/there.lp", &err), err, AH_E_IO, "'/nowhere/there.lp'");
}
