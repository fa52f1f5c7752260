/* SPDX-License-Identifier: Apache-2.0
 *
 * Solver: linear programs, in exact arithmetic, and integer programs, approximately. The only user of GLPK.
 *
 *     minimise    objective x
 *     subject to  row_lower <= coefficients x <= row_upper,  0 <= x <= upper
 *
 * ah_solver_relax() ignores which columns are integer. If all numbers are whole, it returns the exact optimum, or
 * reports that there is none: floating-point pivots lead to a basis, exact pivots check and improve it, and the
 * objective is rounded once, towards zero. (GLPK replaces numbers that are not whole by fractions within 1e-10 of
 * them.) ah_solver_round() is for guidance: its caller checks the values, and finding none proves nothing.
 *
 * The solver prints nothing and uses no clocks: the same problem gives the same result. A misuse of GLPK, which would
 * otherwise end the process, returns AH_E_FAILED. Each call makes and frees the GLPK environment of the calling thread,
 * so nothing else in that thread may use GLPK at the same time. Different threads are independent.
 */
#ifndef AH_PLANNER_BOUND_SOLVER_H
#define AH_PLANNER_BOUND_SOLVER_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* A program of at least one column and one row. Arrays are borrowed during the call. Numbers are finite unless
 * noted. */
struct ah_solver_problem {
    size_t n_columns, n_rows;
    const double *objective;    /* by column */
    const double *upper;        /* by column; INFINITY: none */
    const bool *integer;        /* by column */
    const double *row_lower;    /* by row; -INFINITY: none */
    const double *row_upper;    /* by row; INFINITY: none */
    const double *coefficients; /* (n_rows, n_columns) */
};

enum ah_solver_status {
    AH_SOLVER_OPTIMAL,    /* relax: the exact optimum; round: a solution within the gap */
    AH_SOLVER_FEASIBLE,   /* round: the best solution found before the limit on nodes */
    AH_SOLVER_INFEASIBLE, /* relax: proven to have no solution; round: none was found */
    AH_SOLVER_UNBOUNDED
};

struct ah_solver_result {
    enum ah_solver_status status;
    double objective; /* if optimal or feasible */
    double *values;   /* by column; the caller's array, written if optimal or feasible */
    double *
        prices; /* (optional) by row; the caller's array, written if relax finds the optimum: by how much the objective
                 * falls if the row's limit rises by 1. Rounded */
};

struct ah_solver_limits {
    double gap;   /* a search stops at a solution this near the optimum, relative to it */
    size_t nodes; /* of the search tree; 0: no limit */
};

/* Solves the problem. AH_E_FAILED: GLPK gave up (out of memory, or a bug); the message has GLPK's reason. */
int ah_solver_relax(const struct ah_solver_problem *problem, struct ah_solver_result *result,
                    struct ah_error *err);
int ah_solver_round(const struct ah_solver_problem *problem, const struct ah_solver_limits *limits,
                    struct ah_solver_result *result, struct ah_error *err);

/* Writes the problem in the LP format, so that other solvers can be compared. AH_E_IO. */
int ah_solver_write(const struct ah_solver_problem *problem, const char *path, struct ah_error *err);

#endif
