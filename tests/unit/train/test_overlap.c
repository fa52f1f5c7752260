/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the measured overlap with a count over single moments.
 */
#include "runtime/train/overlap.h"

#include "tests/support/check.h"

#include <stdbool.h>

enum { ROUNDS = 500, MOMENTS = 60, MOST = 25, LANES = 4 };

static const struct ah_interval window = {1010, 1050};

TEST(overlap, is_what_a_count_says)
{
    uint64_t seed = check_seed(17);
    for (int round = 0; round < ROUNDS; round++) {
        struct ah_overlap_work work[MOST];
        bool busy[LANES][MOMENTS] = {{false}};
        struct ah_runlog_overlap overlap;
        struct ah_arena arena = {0};
        struct ah_error err = {0};
        size_t n = check_random(&seed) % (MOST + 1);
        for (size_t i = 0; i < n; i++) {
            size_t lane = check_random(&seed) % LANES, start = check_random(&seed) % MOMENTS;
            size_t end = start + check_random(&seed) % 9;
            end = end < MOMENTS ? end : MOMENTS;
            work[i] = (struct ah_overlap_work){(enum ah_plan_lane)lane,
                                               {1000 + (int64_t)start, 1000 + (int64_t)end}};
            for (size_t at = start; at < end; at++)
                busy[lane][at] = true;
        }
        double us[4] = {0}, lane_us[LANES] = {0}, exposed_us[LANES] = {0};
        for (size_t at = 10; at < 50; at++) {
            bool compute = busy[AH_PLAN_LANE_COMPUTE][at], host = busy[AH_PLAN_LANE_HOST][at];
            bool copy = busy[AH_PLAN_LANE_H2D][at] || busy[AH_PLAN_LANE_D2H][at];
            us[compute ? 0 : copy ? 1 : host ? 2 : 3] += 1e-3;
            for (size_t lane = 0; lane < LANES; lane++) {
                lane_us[lane] += busy[lane][at] ? 1e-3 : 0;
                exposed_us[lane] += busy[lane][at] && !compute ? 1e-3 : 0;
            }
        }
        CHECK_OK(ah_overlap_measure(work, n, window, &arena, &overlap, &err), err);
        check_near(overlap.total_us, 0.040, 1e-12);
        check_near(overlap.compute_us, us[0], 1e-12);
        check_near(overlap.copy_us, us[1], 1e-12);
        check_near(overlap.host_us, us[2], 1e-12);
        check_near(overlap.idle_us, us[3], 1e-12);
        assert_int_equal(overlap.n_lanes, LANES);
        for (size_t lane = 0; lane < LANES; lane++) {
            assert_int_equal(overlap.lanes[lane].lane, lane);
            check_near(overlap.lanes[lane].busy_us, lane_us[lane], 1e-12);
            check_near(overlap.lanes[lane].exposed_us, exposed_us[lane], 1e-12);
        }
        ah_arena_release(&arena);
    }
}
