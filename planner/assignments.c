/* SPDX-License-Identifier: Apache-2.0
 *
 * Assignments as numbers are counted up: the last block's config changes most often.
 */
#include "planner/assignments.h"

#include <stdlib.h>

uint64_t ah_assignments_count(const struct ah_vary *vary)
{
    struct ah_config all[AH_CONFIGS_MAX];
    uint64_t product = 1;
    for (size_t block = 0; block < vary->job->n_blocks; block++)
        if (__builtin_mul_overflow(product, ah_vary_options(vary, block, all), &product))
            return UINT64_MAX;
    return product;
}

/* Gives the blocks their configs by the digits of `number`. */
static void assign(const struct ah_vary *vary, uint64_t number, struct ah_config *configs)
{
    for (size_t block = vary->job->n_blocks; block-- > 0;) {
        struct ah_config all[AH_CONFIGS_MAX];
        size_t n = ah_vary_options(vary, block, all);
        configs[block] = all[number % n];
        number /= n;
    }
}

int ah_assignments_try(struct ah_trial *trial, const struct ah_vary *vary, const struct ah_knobs *knobs,
                       struct ah_error *err)
{
    uint64_t count = ah_assignments_count(vary), work = trial->limits.work;
    struct ah_config *configs = malloc(vary->job->n_blocks * sizeof *configs);
    int rc = configs ? AH_OK : ah_error_memory(err);
    trial->limits.work = 0;
    for (uint64_t number = 0; number < count && !rc; number++) {
        enum ah_verdict verdict;
        assign(vary, number, configs);
        rc = ah_trial_run(trial, configs, knobs, &verdict, err);
    }
    trial->limits.work = work;
    free(configs);
    return rc;
}
