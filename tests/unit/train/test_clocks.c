/* SPDX-License-Identifier: Apache-2.0
 *
 * Two clocks and a way between them: what is found is off by no more than half of the shortest ways differ.
 */
#include "runtime/train/clocks.h"
#include "tests/support/check.h"

#include <stdlib.h>

TEST(clocks, of_none_are_one)
{
    assert_int_equal(ah_clocks_offset(NULL, 0), 0);
}

/* Ways of 10 to 20 us, which differ by at most 2 us for half of the exchanges; the others are late on one way only, by up to 10 ms. */
TEST(clocks, are_found_by_the_shortest_ways)
{
    uint64_t seed = check_seed(31);
    for (int k = 0; k < 200; k++) {
        struct ah_clocks_exchange exchanges[AH_CLOCKS_EXCHANGES];
        const int64_t ahead = (int64_t)(check_random(&seed) % 2000000000) - 1000000000;
        uint64_t now_ns = 5000000000;
        for (size_t i = 0; i < AH_CLOCKS_EXCHANGES; i++) {
            const uint64_t there = 10000 + check_random(&seed) % 2000,
                           back = 10000 + check_random(&seed) % 2000;
            const uint64_t late = i % 2 ? 0 : 30000 + check_random(&seed) % 10000000;
            exchanges[i].sent_ns = now_ns;
            now_ns += there + late;
            exchanges[i].there_ns = (uint64_t)((int64_t)now_ns + ahead);
            now_ns += back;
            exchanges[i].back_ns = now_ns;
        }
        const int64_t error = ah_clocks_offset(exchanges, AH_CLOCKS_EXCHANGES) - ahead;
        assert_true(llabs(error) <= 1000);
    }
}
