/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes GLPK's functions fail, one after another and in every way. The solver must return an error or the right result.
 */
#include "planner/bound/solver.h"

#include "tests/support/check.h"
#include "tests/support/fault.h"

#include <glpk.h>
#include <math.h>
#include <string.h>

int __real_glp_simplex(glp_prob *problem, const glp_smcp *parameters);
int __real_glp_exact(glp_prob *problem, const glp_smcp *parameters);
int __real_glp_intopt(glp_prob *problem, const glp_iocp *parameters);
int __real_glp_init_env(void);
int __real_glp_get_status(glp_prob *problem);
int __wrap_glp_simplex(glp_prob *problem, const glp_smcp *parameters);
int __wrap_glp_exact(glp_prob *problem, const glp_smcp *parameters);
int __wrap_glp_intopt(glp_prob *problem, const glp_iocp *parameters);
int __wrap_glp_init_env(void);
int __wrap_glp_get_status(glp_prob *problem);

/* What each function returns without doing its work. 0 means that it works, and ABORTS that it reports misuse. */
enum { ABORTS = -1 };
static struct {
    int simplex, exact, exact_calls, intopt, init_env, status;
} fails;

static int result_of(int how)
{
    if (how == ABORTS)
        glp_error("a misuse\n");
    return how;
}

int __wrap_glp_simplex(glp_prob *problem, const glp_smcp *parameters)
{
    return fails.simplex ? result_of(fails.simplex) : __real_glp_simplex(problem, parameters);
}

int __wrap_glp_exact(glp_prob *problem, const glp_smcp *parameters)
{
    if (fails.exact && fails.exact_calls-- > 0)
        return result_of(fails.exact);
    return __real_glp_exact(problem, parameters);
}

int __wrap_glp_intopt(glp_prob *problem, const glp_iocp *parameters)
{
    return fails.intopt ? result_of(fails.intopt) : __real_glp_intopt(problem, parameters);
}

int __wrap_glp_init_env(void)
{
    return fails.init_env ? fails.init_env : __real_glp_init_env();
}

int __wrap_glp_get_status(glp_prob *problem)
{
    return fails.status ? fails.status : __real_glp_get_status(problem);
}

/* Minimises -2x - y, where x + y = 10, 3x + y <= 17, x <= 4. The optimum is -13.5 relaxed, -13 in whole numbers. */
static int solve(bool whole, struct ah_solver_result *result, struct ah_error *err)
{
    static const double objective[] = {-2, -1}, upper[] = {4, INFINITY}, lower[] = {10, -INFINITY};
    static const double most[] = {10, 17}, coefficients[] = {1, 1, 3, 1};
    static const bool integer[] = {true, true};
    static double values[2];
    const struct ah_solver_problem problem = {.n_columns = 2,
                                              .n_rows = 2,
                                              .objective = objective,
                                              .upper = upper,
                                              .integer = integer,
                                              .row_lower = lower,
                                              .row_upper = most,
                                              .coefficients = coefficients};
    result->values = values;
    return whole ? ah_solver_round(&problem, &(struct ah_solver_limits){0}, result, err)
                 : ah_solver_relax(&problem, result, err);
}

static int clear(void **state)
{
    (void)state;
    memset(&fails, 0, sizeof fails);
    return 0;
}

TEST_IN(solver, exact_needs_no_simplex, clear, NULL)
{
    struct ah_solver_result result = {0};
    struct ah_error err = {0};
    fails.simplex = GLP_EFAIL;
    CHECK_OK(solve(false, &result, &err), err);
    assert_int_equal(result.status, AH_SOLVER_OPTIMAL);
    check_near(result.objective, -13.5, 0);
    CHECK_OK(solve(true, &result, &err), err);
    assert_int_equal(result.status, AH_SOLVER_INFEASIBLE); /* that GLPK found no solution proves nothing */
}

TEST_IN(solver, starts_again_from_another_basis, clear, NULL)
{
    struct ah_solver_result result = {0};
    struct ah_error err = {0};
    fails.exact = GLP_ESING;
    fails.exact_calls = 1;
    CHECK_OK(solve(false, &result, &err), err);
    check_near(result.objective, -13.5, 0);
    fails.exact_calls = 2;
    CHECK_FAILS(solve(false, &result, &err), err, AH_E_FAILED, "code");
    fails.exact = GLP_EITLIM;
    fails.exact_calls = 1;
    CHECK_FAILS(solve(false, &result, &err), err, AH_E_FAILED, "code");
}

/* If a status is neither optimal nor infeasible, it proves nothing. */
TEST_IN(solver, takes_no_status_for_another, clear, NULL)
{
    struct ah_solver_result result = {0};
    struct ah_error err = {0};
    fails.status = GLP_UNDEF;
    CHECK_FAILS(solve(false, &result, &err), err, AH_E_FAILED, "code");
    fails.status = GLP_INFEAS;
    CHECK_FAILS(solve(false, &result, &err), err, AH_E_FAILED, "code");
}

TEST_IN(solver, comes_back_and_works_again, clear, NULL)
{
    struct ah_solver_result result = {0};
    struct ah_error err = {0};
    int *const all[] = {&fails.simplex, &fails.exact, &fails.intopt};
    for (size_t i = 0; i < 3; i++) {
        clear(NULL);
        *all[i] = ABORTS;
        fails.exact_calls = 1;
        CHECK_FAILS(solve(i == 2, &result, &err), err, AH_E_FAILED, "stopped");
        clear(NULL);
        CHECK_OK(solve(true, &result, &err), err);
        check_near(result.objective, -13, 1e-9);
    }
    fails.intopt = GLP_EFAIL;
    CHECK_FAILS(solve(true, &result, &err), err, AH_E_FAILED, "code");
    fails.init_env = 2;
    CHECK_FAILS(solve(true, &result, &err), err, AH_E_MEMORY, "memory");
}
