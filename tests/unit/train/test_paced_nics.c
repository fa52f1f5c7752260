/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests ways of NICs. A way carries one message at a time, the lowest turn first. All ranks share one page.
 */
#include "runtime/train/paced_nics.h"

#include "base/threads.h"
#include "tests/support/check.h"

#include <string.h>

enum { MS = 1000000 };

static struct ah_paced_nics *new_ways(void)
{
    struct ah_paced_nics *nics = NULL;
    assert_int_equal(ah_paced_nics_new(&nics, 8, 3, NULL), AH_OK);
    return nics;
}

static uint64_t take(struct ah_paced_nics *nics, uint32_t turn, uint32_t from, uint32_t to, uint64_t ms)
{
    const struct ah_paced_nics_use uses[] = {{from, ms * MS, 0}, {to, 0, ms * MS}};
    uint64_t start_ns = 0;
    ah_paced_nics_take(nics, turn, uses, 2, &start_ns);
    return start_ns;
}

static void wait_for(struct ah_paced_nics *nics, uint32_t turn, uint32_t from, uint32_t to, uint64_t ms)
{
    const struct ah_paced_nics_use uses[] = {{from, ms * MS, 0}, {to, 0, ms * MS}};
    ah_paced_nics_wait(nics, turn, uses, 2);
}

/* True if the turn can go at `now_ms` of the test's clock. Checks that it starts then. */
static bool goes(struct ah_paced_nics *nics, uint32_t turn, uint32_t from, uint32_t to, uint64_t ms,
                 uint64_t now_ms)
{
    const struct ah_paced_nics_use uses[] = {{from, ms * MS, 0}, {to, 0, ms * MS}};
    uint64_t ns = 0;
    const bool taken = ah_paced_nics_try(nics, turn, uses, 2, MS, now_ms * MS, &ns);
    assert_true(taken ? ns == now_ms * MS : ns > now_ms * MS);
    return taken;
}

static bool comes_and_goes(struct ah_paced_nics *nics, uint32_t turn, uint32_t from, uint32_t to, uint64_t ms,
                           uint64_t now_ms)
{
    wait_for(nics, turn, from, to, ms);
    return goes(nics, turn, from, to, ms, now_ms);
}

TEST(paced_nics, a_way_is_taken_by_one_at_a_time)
{
    struct ah_paced_nics *nics = new_ways();
    assert_true(comes_and_goes(nics, 0, 0, 1, 20, 1));
    assert_true(comes_and_goes(nics, 1, 1, 0, 20, 2)); /* the opposite direction is free */
    assert_true(comes_and_goes(nics, 2, 0, 2, 0, 3));  /* no wait, because nothing is sent */
    assert_false(comes_and_goes(nics, 3, 0, 2, 20, 20));
    assert_true(goes(nics, 3, 0, 2, 20, 21));
    assert_true(comes_and_goes(nics, 4, 2, 1, 5,
                               22)); /* the message before holds only the ways out of 0 and into 2 */
    ah_paced_nics_free(nics);
}

/* The message with the lowest turn goes first, whatever the order of arrival. */
TEST(paced_nics, of_those_who_wait_the_lowest_turn_goes_first)
{
    static const uint32_t turns[] = {6, 4, 2};
    struct ah_paced_nics *nics = new_ways();
    assert_true(comes_and_goes(nics, 7, 0, 1, 100, 1));
    for (size_t i = 0; i < 3; i++)
        assert_false(comes_and_goes(nics, turns[i], 0, 1, 10, 20 * (i + 1)));
    for (size_t gone = 0; gone < 3; gone++) {
        const uint64_t now_ms = 101 + 10 * gone;
        for (size_t i = 0; i < 2 - gone; i++)
            assert_false(goes(nics, turns[i], 0, 1, 10, now_ms));
        assert_true(goes(nics, turns[2 - gone], 0, 1, 10, now_ms));
    }
    ah_paced_nics_free(nics);
}

/* Takers sleep until their ways are free. */
TEST(paced_nics, who_takes_waits)
{
    struct ah_paced_nics *nics = new_ways();
    const uint64_t first_ns = take(nics, 0, 0, 1, 20), second_ns = take(nics, 3, 0, 2, 20);
    assert_true(second_ns >= first_ns + 20 * MS);
    assert_true(ah_threads_now_ns() >= second_ns);
    ah_paced_nics_free(nics);
}

TEST(paced_nics, who_joins_has_the_same)
{
    struct ah_paced_nics *nics = new_ways(), *same = NULL;
    char name[AH_PACED_NICS_NAME_MAX];
    ah_paced_nics_name(nics, name);
    assert_int_equal(ah_paced_nics_join(&same, name, NULL), AH_OK);
    const uint64_t first_ns = take(nics, 0, 0, 1, 10);
    assert_true(take(same, 1, 0, 1, 10) >= first_ns + 10 * MS);
    ah_paced_nics_count(nics, 0);
    ah_paced_nics_count(same, 7);
    ah_paced_nics_free(nics);
    const struct ah_paced_nics_totals totals = ah_paced_nics_totals(same);
    assert_int_equal(totals.ops, 2);
    assert_int_equal(totals.late, 1);
    assert_int_equal(totals.late_ns, 7);
    ah_paced_nics_free(same);
}

TEST(paced_nics, are_none_elsewhere)
{
    struct ah_paced_nics *nics = NULL;
    struct ah_error err = {0};
    assert_int_equal(ah_paced_nics_join(&nics, "/proc/1/fd/9999", &err), AH_E_USAGE);
    assert_non_null(strstr(err.text, "'--pace' works only for ranks on one machine"));
    assert_null(nics);
}
