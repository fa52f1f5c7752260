/* SPDX-License-Identifier: Apache-2.0
 *
 * Assignment: gives each row a different column such that the sum of weights is largest. The result is exact, by the
 * Hungarian method (shortest augmenting paths with potentials), in rows^2 x columns steps.
 */
#ifndef AH_PLANNER_RECOVERY_ASSIGNMENT_H
#define AH_PLANNER_RECOVERY_ASSIGNMENT_H

#include "base/error.h"

#include <stddef.h>

/* Assigns columns. `weights`: (rows, columns), rows <= columns; whole numbers below 2^53 / rows are summed exactly.
 * `ret_column`: by row. Equal weights always give the same assignment. AH_E_MEMORY. */
int ah_assignment_solve(const double *weights, size_t rows, size_t columns, size_t *ret_column,
                        double *ret_sum, struct ah_error *err);

#endif
