/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the offset of two clocks. Its error is within the reported bound, small if each direction was fast once.
 */
#include "runtime/train/clocks.h"
#include "tests/support/check.h"

#include <stdlib.h>

TEST(clocks, of_none_are_one)
{
    int64_t within_ns = 1;
    assert_int_equal(ah_clocks_offset(NULL, 0, &within_ns), 0);
    assert_int_equal(within_ns, 0);
}

/* A message takes 10 us or more in each direction. Two of three messages are up to 10 ms late. */
TEST(clocks, are_found_by_all_ways)
{
    uint64_t seed = check_seed(31);
    for (int k = 0; k < 200; k++) {
        struct ah_clocks_exchange exchanges[AH_CLOCKS_EXCHANGES];
        const int64_t ahead = (int64_t)(check_random(&seed) % 2000000000) - 1000000000;
        uint64_t now_ns = 5000000000, shortest[2] = {UINT64_MAX, UINT64_MAX};
        int64_t within_ns;
        for (size_t i = 0; i < AH_CLOCKS_EXCHANGES; i++) {
            uint64_t ways[2];
            for (int way = 0; way < 2; way++) {
                ways[way] = 10000 + (check_random(&seed) % 3 ? check_random(&seed) % 10000000 : 0);
                shortest[way] = ways[way] < shortest[way] ? ways[way] : shortest[way];
            }
            exchanges[i].sent_ns = now_ns;
            exchanges[i].there_ns = (uint64_t)((int64_t)(now_ns + ways[0]) + ahead);
            now_ns += ways[0] + ways[1];
            exchanges[i].back_ns = now_ns;
        }
        const int64_t error = ah_clocks_offset(exchanges, AH_CLOCKS_EXCHANGES, &within_ns) - ahead;
        assert_true(llabs(error) <= within_ns);
        assert_in_range(within_ns, (shortest[0] + shortest[1]) / 2, (shortest[0] + shortest[1] + 1) / 2 + 1);
    }
}
