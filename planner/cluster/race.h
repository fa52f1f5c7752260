/* SPDX-License-Identifier: Apache-2.0
 *
 * Race: which of n things comes first while their times change, by a tree of winners. On a tie, the lower index wins.
 */
#ifndef AH_PLANNER_CLUSTER_RACE_H
#define AH_PLANNER_CLUSTER_RACE_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct ah_race {
    double *us; /* owned: (places), by thing */
    uint32_t *
        winners; /* owned: (places), of the two below: 2i and 2i + 1, the things themselves from `places` on */
    size_t places; /* a power of two */
};

/* All things begin at INFINITY. AH_E_MEMORY. */
int ah_race_init(struct ah_race *ret_race, size_t n, struct ah_error *err);
void ah_race_release(struct ah_race *race);

void ah_race_set(struct ah_race *race, size_t thing, double us);

static inline size_t ah_race_first(const struct ah_race *race)
{
    return race->winners[1];
}

#endif
