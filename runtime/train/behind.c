/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/train/behind.h"

/* Returns the lowest rank of the circle that contains `in`. */
static uint32_t lowest_of_circle(const uint32_t *waits_for, uint32_t in)
{
    uint32_t lowest = in;
    for (uint32_t at = waits_for[in]; at != in; at = waits_for[at])
        lowest = at < lowest ? at : lowest;
    return lowest;
}

void ah_behind_find(const uint32_t *waits_for, uint32_t ranks, uint32_t *ret_root)
{
    for (uint32_t rank = 0; rank < ranks; rank++) {
        uint32_t at = rank, hops = 0;
        while (waits_for[at] != AH_BEHIND_NOBODY && hops++ < ranks)
            at = waits_for[at];
        ret_root[rank] = waits_for[at] == AH_BEHIND_NOBODY ? at : lowest_of_circle(waits_for, at);
    }
}
