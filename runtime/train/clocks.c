/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/train/clocks.h"

#include <stdlib.h>

static int by_way(const void *left, const void *right)
{
    const struct ah_clocks_exchange *a = left, *b = right;
    const uint64_t of_a = a->back_ns - a->sent_ns, of_b = b->back_ns - b->sent_ns;
    return (of_a > of_b) - (of_a < of_b);
}

static int by_number(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

int64_t ah_clocks_offset(struct ah_clocks_exchange *exchanges, size_t n)
{
    int64_t offsets[AH_CLOCKS_BEST];
    if (!n)
        return 0;
    qsort(exchanges, n, sizeof *exchanges, by_way);
    n = n < AH_CLOCKS_BEST ? n : AH_CLOCKS_BEST;
    for (size_t i = 0; i < n; i++)
        offsets[i] = (int64_t)(exchanges[i].there_ns - exchanges[i].sent_ns -
                               (exchanges[i].back_ns - exchanges[i].sent_ns) / 2);
    qsort(offsets, n, sizeof *offsets, by_number);
    return offsets[n / 2];
}
