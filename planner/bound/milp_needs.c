/* SPDX-License-Identifier: Apache-2.0
 *
 * Lower bounds for one choice: each row is summed over the configs of all blocks. A block that may keep fetched weights
 * has two columns; each row counts the lesser coefficient.
 */
#include "planner/bound/milp_internal.h"

#include <string.h>

struct needs {
    struct ah_milp milp;
    uint32_t *counts; /* by column; `kept` columns have 0 */
};

static int find_column(const struct ah_milp *milp, size_t block, const struct ah_config *config,
                       size_t *ret_column, struct ah_error *err)
{
    const struct ah_milp_class *class = &milp->classes[milp->class_of[block]];
    for (size_t j = class->first_column; j < class->first_column + class->n_columns; j++) {
        if (milp->columns[j].kept || memcmp(&milp->columns[j].choice, config, sizeof *config) != 0)
            continue;
        *ret_column = j;
        return AH_OK;
    }
    return ah_error_set(err, AH_E_USAGE, "block %zu cannot have this config: choose one of ah_configs()",
                        block);
}

static int64_t row_sum(const struct needs *needs, size_t row)
{
    const struct ah_milp *milp = &needs->milp;
    const int64_t *values = ah_milp_coefficients(milp, row);
    int64_t sum = 0;
    for (size_t j = 0; j < milp->n_columns; j++) {
        sum += needs->counts[j] * values[j];
        bool pair = j + 1 < milp->n_columns && milp->columns[j + 1].kept && !milp->columns[j].kept;
        uint64_t keepable = milp->keepable[milp->columns[j].of_class];
        if (pair && values[j + 1] < values[j])
            sum -= (int64_t)(needs->counts[j] < keepable ? needs->counts[j] : keepable) *
                   (values[j] - values[j + 1]);
    }
    return sum;
}

int ah_milp_needs(const struct ah_milp_input *input, const struct ah_config *configs,
                  struct ah_milp_needs *ret_needs, struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_milp_input all = *input;
    all.allowed = NULL;
    struct needs needs = {0};
    struct ah_milp_needs result = {.limit = "compute"};
    int64_t units = 0;
    int rc = ah_milp_build(&needs.milp, &all, &arena, err);
    if (rc == AH_OK && !(needs.counts = ah_arena_array(&arena, needs.milp.n_columns, sizeof *needs.counts)))
        rc = ah_error_memory(err);
    for (size_t block = 0; rc == AH_OK && block < input->job->n_blocks; block++) {
        size_t column = 0;
        rc = find_column(&needs.milp, block, &configs[block], &column, err);
        if (rc == AH_OK)
            needs.counts[column]++;
    }
    for (size_t i = 0; rc == AH_OK && i < needs.milp.n_rows; i++) {
        const struct ah_milp_row *row = &needs.milp.rows[i];
        int64_t sum = row_sum(&needs, i);
        if (row->kind == AH_MILP_TIME && sum > units) {
            units = sum;
            result.limit = row->name;
        }
        uint64_t bytes = (uint64_t)(sum > 0 ? sum : 0);
        if (row->kind == AH_MILP_DEVICE && bytes > result.device_bytes)
            result.device_bytes = bytes;
        if (row->kind == AH_MILP_HOST)
            result.host_bytes = bytes;
    }
    result.time_us = (double)units / AH_MILP_UNITS_PER_US;
    if (rc == AH_OK)
        *ret_needs = result;
    ah_arena_release(&arena);
    return rc;
}
