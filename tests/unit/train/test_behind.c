/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests finding the rank that delays the others. Each rank reports for which other rank it waits.
 */
#include "runtime/train/behind.h"

#include "tests/support/check.h"

#include <inttypes.h>

enum { RANKS_MAX = 8 };
#define NOBODY AH_BEHIND_NOBODY

static void expect(const uint32_t *waits_for, uint32_t ranks, const uint32_t *roots)
{
    uint32_t found[RANKS_MAX];
    ah_behind_find(waits_for, ranks, found);
    for (uint32_t rank = 0; rank < ranks; rank++)
        if (found[rank] != roots[rank])
            fail_msg("rank %" PRIu32 " is held up by rank %" PRIu32 ", not %" PRIu32, rank, roots[rank],
                     found[rank]);
}

TEST(behind, who_waits_for_nobody_is_held_up_by_nobody)
{
    expect((const uint32_t[]){NOBODY, NOBODY, NOBODY}, 3, (const uint32_t[]){0, 1, 2});
    expect((const uint32_t[]){NOBODY}, 1, (const uint32_t[]){0});
}

TEST(behind, the_end_of_a_chain_holds_up_all_of_it)
{
    expect((const uint32_t[]){1, 2, NOBODY, 2}, 4, (const uint32_t[]){2, 2, 2, 2});
    expect((const uint32_t[]){NOBODY, 0, 1, 2, 3}, 5, (const uint32_t[]){0, 0, 0, 0, 0});
}

TEST(behind, chains_apart_have_ends_of_their_own)
{
    expect((const uint32_t[]){1, NOBODY, 3, NOBODY}, 4, (const uint32_t[]){1, 1, 3, 3});
}

TEST(behind, a_circle_has_its_lowest_rank)
{
    expect((const uint32_t[]){1, 0}, 2, (const uint32_t[]){0, 0});
    expect((const uint32_t[]){3, 2, 3, 1, NOBODY}, 5, (const uint32_t[]){1, 1, 1, 1, 4});
}
