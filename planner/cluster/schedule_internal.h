/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which a stage works: 1F1B, as numbers.
 */
#ifndef AH_PLANNER_CLUSTER_SCHEDULE_INTERNAL_H
#define AH_PLANNER_CLUSTER_SCHEDULE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ah_turn {
    bool backward;
    uint64_t micro_batch;
};

/* What stage `i` of `n_stages` does as its k-th of 2m passes. */
static inline struct ah_turn ah_turn_of(size_t i, size_t n_stages, uint64_t m, uint64_t k)
{
    uint64_t warm = n_stages - 1 - i;
    warm = warm < m ? warm : m;
    if (k < warm)
        return (struct ah_turn){false, k};
    k -= warm;
    if (k < 2 * (m - warm))
        return (struct ah_turn){k % 2 == 1, k % 2 ? k / 2 : warm + k / 2};
    return (struct ah_turn){true, k - (m - warm)};
}

#endif
