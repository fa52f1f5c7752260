/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests ways of NICs. A way carries one message at a time, the lowest turn first. All ranks share one page.
 */
#include "runtime/train/paced_nics.h"

#include "base/threads.h"
#include "tests/support/check.h"

#include <pthread.h>
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

TEST(paced_nics, a_way_is_taken_by_one_at_a_time)
{
    struct ah_paced_nics *nics = new_ways();
    const uint64_t first_ns = take(nics, 0, 0, 1, 20);
    assert_true(take(nics, 1, 1, 0, 20) - first_ns < 20 * MS); /* the opposite direction is free */
    assert_true(take(nics, 2, 0, 2, 0) >= first_ns);           /* no wait, because nothing is sent */
    const uint64_t second_ns = take(nics, 3, 0, 2, 20);
    assert_true(second_ns >= first_ns + 20 * MS);
    assert_true(ah_threads_now_ns() >= second_ns);
    assert_true(take(nics, 4, 2, 1, 5) <
                second_ns + 20 * MS); /* the second message holds only the ways out of 0 and into 2 */
    ah_paced_nics_free(nics);
}

struct taker {
    struct ah_paced_nics *nics;
    pthread_t thread;
    uint32_t turn;
    uint64_t start_ns;
};

static void *take_later(void *context)
{
    struct taker *taker = context;
    taker->start_ns = take(taker->nics, taker->turn, 0, 1, 10);
    return NULL;
}

/* The message with the lowest turn goes first, whatever the order of arrival. */
TEST(paced_nics, of_those_who_wait_the_lowest_turn_goes_first)
{
    struct ah_paced_nics *nics = new_ways();
    struct taker takers[] = {{nics, 0, 6, 0}, {nics, 0, 4, 0}, {nics, 0, 2, 0}};
    const uint64_t first_ns = take(nics, 7, 0, 1, 100);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&takers[i].thread, NULL, take_later, &takers[i]), 0);
        ah_threads_sleep_until_ns(first_ns + (i + 1) * 20 * MS);
    }
    for (size_t i = 0; i < 3; i++)
        pthread_join(takers[i].thread, NULL);
    assert_true(takers[2].start_ns >= first_ns + 100 * MS);
    assert_true(takers[1].start_ns >= takers[2].start_ns + 10 * MS);
    assert_true(takers[0].start_ns >= takers[1].start_ns + 10 * MS);
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
