/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests how many ops a lane completed within a window of time, parts of ops included.
 */
#include "profiler/lanes_internal.h"

#include "tests/support/check.h"

TEST(lanes, counts_parts_of_ops)
{
    /* the gap before the second op counts as its time */
    const struct ah_span spans[] = {
        {.start_ns = 100, .end_ns = 200}, {.start_ns = 220, .end_ns = 300}, {.start_ns = 300, .end_ns = 500}};
    check_near(ah_lanes_done_between(spans, 3, 0, 1000), 3, 1e-12);
    check_near(ah_lanes_done_between(spans, 3, 100, 500), 3, 1e-12);
    check_near(ah_lanes_done_between(spans, 3, 150, 400), 0.5 + 1 + 0.5, 1e-12);
    check_near(ah_lanes_done_between(spans, 3, 225, 250), 0.25, 1e-12);
    check_near(ah_lanes_done_between(spans, 3, 0, 100), 0, 1e-12);
    check_near(ah_lanes_done_between(spans, 3, 500, 900), 0, 1e-12);
    check_near(ah_lanes_done_between(spans, 0, 0, 900), 0, 1e-12);
}
