/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets are merged from their first intervals on, so that each function but the sort visits an interval once.
 */
#include "base/intervals.h"

#include <stdlib.h>

static int by_start(const void *left, const void *right)
{
    const struct ah_interval *a = left, *b = right;
    return a->start < b->start ? -1 : a->start > b->start;
}

size_t ah_intervals_unite(struct ah_interval *intervals, size_t n)
{
    size_t kept = 0;
    if (n)
        qsort(intervals, n, sizeof *intervals, by_start);
    for (size_t i = 0; i < n; i++) {
        struct ah_interval next = intervals[i];
        if (next.end <= next.start)
            continue;
        if (kept && next.start <= intervals[kept - 1].end) {
            if (next.end > intervals[kept - 1].end)
                intervals[kept - 1].end = next.end;
        } else
            intervals[kept++] = next;
    }
    return kept;
}

size_t ah_intervals_intersect(const struct ah_interval *a, size_t n_a, const struct ah_interval *b,
                              size_t n_b, struct ah_interval *ret_both)
{
    size_t i = 0, k = 0, n = 0;
    while (i < n_a && k < n_b) {
        int64_t start = a[i].start > b[k].start ? a[i].start : b[k].start;
        int64_t end = a[i].end < b[k].end ? a[i].end : b[k].end;
        if (start < end)
            ret_both[n++] = (struct ah_interval){start, end};
        if (a[i].end < b[k].end)
            i++;
        else
            k++;
    }
    return n;
}

int64_t ah_intervals_length(const struct ah_interval *intervals, size_t n)
{
    int64_t length = 0;
    for (size_t i = 0; i < n; i++)
        length += intervals[i].end - intervals[i].start;
    return length;
}
