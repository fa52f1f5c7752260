/* SPDX-License-Identifier: Apache-2.0
 *
 * Prices, by Lagrange. Let w >= 0 be weights of the time rows with sum 1, and p >= 0 prices of the other rows. Then
 *
 *     T >= sum of w x time rows + sum of p x (rows - limits)
 *
 * for all counts that keep the limits. The right side is a constant plus a sum over blocks. Any w and p are valid. With
 * those of the linear relaxation's optimum, the least value of the right side is that optimum.
 */
#include "planner/bound/milp_solve_internal.h"

#include <math.h>

/* Converts the prices of rows to us. Makes them valid: none is negative, and those of the time rows add up to 1. */
static void normalize(const struct ah_milp *milp, const double *row_prices, double *ret_us)
{
    double weights = 0;
    for (size_t i = 0; i < milp->n_rows; i++)
        if (milp->rows[i].kind == AH_MILP_TIME)
            weights += fmax(row_prices[i], 0);
    for (size_t i = 0; i < milp->n_rows; i++)
        ret_us[i] = weights > 0 ? fmax(row_prices[i], 0) / weights / AH_MILP_UNITS_PER_US : 0;
}

static double price_of(const struct ah_milp *milp, const double *row_us, size_t column)
{
    double us = 0;
    for (size_t i = 0; i < milp->n_rows; i++)
        us += row_us[i] * (double)ah_milp_coefficients(milp, i)[column];
    return us;
}

/* Returns the least price in a class, and sets prices relative to it. A config has the lower price of its columns. */
static double price_class(const struct ah_milp *milp, const struct ah_milp_class *class, const double *row_us,
                          double *ret_prices)
{
    double least = INFINITY;
    for (size_t config = 0; config < AH_CONFIGS_MAX; config++)
        ret_prices[config] = INFINITY;
    for (size_t j = class->first_column; j < class->first_column + class->n_columns; j++) {
        double *price = &ret_prices[milp->columns[j].config];
        *price = fmin(*price, price_of(milp, row_us, j));
        least = fmin(least, *price);
    }
    for (size_t config = 0; config < AH_CONFIGS_MAX; config++)
        ret_prices[config] -= least;
    return least;
}

int ah_milp_prices(const struct ah_milp *milp, const double *row_prices, struct ah_arena *arena,
                   struct ah_milp_result *result, struct ah_error *err)
{
    double *row_us = ah_arena_array(arena, milp->n_rows, sizeof *row_us);
    result->prices_us = ah_arena_array(arena, milp->n_classes * AH_CONFIGS_MAX, sizeof *result->prices_us);
    if (!row_us || !result->prices_us)
        return ah_error_memory(err);
    normalize(milp, row_prices, row_us);
    result->base_us = 0;
    for (size_t i = 0; i < milp->n_rows; i++)
        if (milp->rows[i].kind != AH_MILP_TIME && row_us[i] > 0)
            result->base_us -= row_us[i] * (double)milp->rows[i].limit;
    for (size_t k = 0; k < milp->n_classes; k++) {
        const struct ah_milp_class *class = &milp->classes[k];
        result->base_us +=
            class->blocks * price_class(milp, class, row_us, result->prices_us + k * AH_CONFIGS_MAX);
    }
    return AH_OK;
}
