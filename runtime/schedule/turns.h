/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns: the order in which a stage of a pipeline works: one forward, one backward (1F1B).
 */
#ifndef AH_RUNTIME_SCHEDULE_TURNS_H
#define AH_RUNTIME_SCHEDULE_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns how many of its `m` forwards stage `i` of `n_stages` does before its forwards and backwards alternate. */
static inline uint64_t ah_turn_ahead(size_t i, size_t n_stages, uint64_t m)
{
    return n_stages - 1 - i < m ? n_stages - 1 - i : m;
}

struct ah_turn {
    bool backward;
    uint64_t micro_batch;
};

/* Returns pass number k, counted from 0, of the 2m passes of stage `i` of `n_stages`. */
static inline struct ah_turn ah_turn_of(size_t i, size_t n_stages, uint64_t m, uint64_t k)
{
    uint64_t warm = ah_turn_ahead(i, n_stages, m);
    if (k < warm)
        return (struct ah_turn){false, k};
    k -= warm;
    if (k < 2 * (m - warm))
        return (struct ah_turn){k % 2 == 1, k % 2 ? k / 2 : warm + k / 2};
    return (struct ah_turn){true, k - (m - warm)};
}

#endif
