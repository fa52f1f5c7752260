/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/train/clocks.h"

int64_t ah_clocks_offset(const struct ah_clocks_exchange *exchanges, size_t n, int64_t *ret_within_ns)
{
    int64_t least = INT64_MIN, most = INT64_MAX;
    *ret_within_ns = 0;
    if (!n)
        return 0;
    for (size_t i = 0; i < n; i++) {
        const int64_t from = (int64_t)(exchanges[i].there_ns - exchanges[i].back_ns),
                      to = (int64_t)(exchanges[i].there_ns - exchanges[i].sent_ns);
        least = from > least ? from : least;
        most = to < most ? to : most;
    }
    *ret_within_ns = most > least ? (most - least + 1) / 2
                                  : 0; /* clocks that differ in speed may leave no possible offset */
    return least + (most - least) / 2;
}
