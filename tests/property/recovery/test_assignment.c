/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares assignments of up to 6 rows to up to 7 columns with all possible ones.
 */
#include "planner/recovery/assignment.h"

#include "tests/support/check.h"

#include <math.h>
#include <stdint.h>

enum { ROWS = 6, COLUMNS = 7, INSTANCES = 400 };

static double best_of(const double *weights, size_t rows, size_t columns, size_t row, unsigned used)
{
    double best = row == rows ? 0 : -INFINITY;
    for (size_t j = 0; j < columns && row < rows; j++)
        if (!(used & 1U << j))
            best = fmax(best, weights[row * columns + j] +
                                  best_of(weights, rows, columns, row + 1, used | 1U << j));
    return best;
}

TEST(assignment, is_the_best_of_all)
{
    for (uint64_t i = 0; i < INSTANCES; i++) {
        uint64_t random = 2463534242u + 31 * i;
        size_t rows = 1 + check_draw(&random, ROWS), columns = rows + check_draw(&random, COLUMNS - rows + 1);
        double weights[ROWS * COLUMNS], sum, again = 0;
        size_t column[ROWS];
        struct ah_error err = {0};
        unsigned used = 0;
        for (size_t k = 0; k < rows * columns; k++)
            weights[k] = check_draw(&random, 3) ? (double)check_draw(&random, 20) : 0;
        CHECK_OK(ah_assignment_solve(weights, rows, columns, column, &sum, &err), err);
        for (size_t r = 0; r < rows; r++) {
            assert_true(column[r] < columns && !(used & 1U << column[r]));
            used |= 1U << column[r];
            again += weights[r * columns + column[r]];
        }
        assert_true(fabs(sum - again) < 1e-9);
        assert_true(fabs(sum - best_of(weights, rows, columns, 0, 0)) < 1e-9);
    }
}
