/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the text printed for a status, which may be recent or old.
 */
#include "cli/inspect/status_text.h"

#include "tests/support/check.h"

#include <string.h>

static struct ah_status_wait waits[] = {
    {.rank = 2, .message = AH_STATUS_GRADIENT, .micro_batch = 5, .us = 12.5e6},
    {.rank = 0, .message = AH_STATUS_OUTPUT, .sends = true, .micro_batch = 1, .us = 3e6},
    {.rank = 3, .message = AH_STATUS_NORM, .micro_batch = AH_STATUS_NO_MICRO_BATCH, .us = 0}};

/* Rank 0 waits for rank 1, which waits for rank 2; rank 4 waits for rank 3. */
static struct ah_status_rank ranks[] = {
    {.rank = 0,
     .host = "a",
     .step = 12,
     .op = AH_PLAN_BACKWARD,
     .block = "layer.3",
     .micro_batch = 5,
     .waits_for = &waits[0]},
    {.rank = 1,
     .host = "b",
     .step = 12,
     .op = AH_STATUS_NO_OP,
     .micro_batch = AH_STATUS_NO_MICRO_BATCH,
     .waits_for = &waits[1]},
    {.rank = 2, .host = "c", .step = 11, .op = AH_STATUS_NO_OP, .micro_batch = AH_STATUS_NO_MICRO_BATCH},
    {.rank = 3, .host = "d", .step = 12, .op = AH_PLAN_NORM, .micro_batch = AH_STATUS_NO_MICRO_BATCH},
    {.rank = 4,
     .host = "e",
     .step = 12,
     .op = AH_PLAN_NORM,
     .micro_batch = AH_STATUS_NO_MICRO_BATCH,
     .waits_for = &waits[2]}};

static struct ah_status made(void)
{
    return (struct ah_status){.model = "tiny",
                              .step = 12,
                              .steps = 200,
                              .updated_us = UINT64_C(1790000000000000),
                              .ranks = ranks,
                              .n_ranks = sizeof ranks / sizeof *ranks};
}

/* Checks that the text printed `old_us` after the status was written begins with `begin`. */
static void expect(const struct ah_status *status, int64_t old_us, const char *begin)
{
    struct ah_cli cli = {.out_style = {"", "", "", "", "", ""}};
    ah_status_put(&cli, status, (uint64_t)((int64_t)status->updated_us + old_us));
    assert_false(cli.out.failed);
    if (strncmp(cli.out.data, begin, strlen(begin)) != 0)
        fail_msg("it says\n%s\nand not\n%s", cli.out.data, begin);
    ah_buffer_release(&cli.out);
    ah_arena_release(&cli.arena);
}

TEST(status_text, says_who_is_behind)
{
    const struct ah_status status = made();
    expect(&status, 3500000,
           "tiny: after step 12 of 200, 3 s ago\n"
           "rank 2 on host 'c' is behind: 2 others wait for it, the longest 12 s so far\n"
           "rank 3 on host 'd' is behind: 1 other waits for it, under 1 s so far\n"
           "\n"
           "rank  step  host  at                                  waits for                                  "
           "       for\n"
           "   0    12  a     backward of layer.3, micro-batch 5  rank 2: the gradient of micro-batch 5      "
           "      12 s\n"
           "   1    12  b     -                                   rank 0 to take the output of micro-batch 1 "
           "       3 s\n"
           "   2    11  c     works beside its device\n"
           "   3    12  d     norm\n"
           "   4    12  e     norm                                rank 3: sums for the norm                  "
           " under 1 s\n");
}

TEST(status_text, says_when_nobody_waits)
{
    struct ah_status status = made();
    status.ranks = &ranks[2];
    status.n_ranks = 2;
    expect(&status, 0, "tiny: after step 12 of 200, under 1 s ago\nno rank is behind the others\n\n");
}

TEST(status_text, says_how_old_it_is)
{
    struct ah_status status = made();
    status.n_ranks = 1;
    expect(&status, 9999999, "tiny: after step 12 of 200, 9 s ago\n");
    expect(&status, 10000001, "tiny: after step 12 of 200; no update for 10 s: the run may have died\n");
    expect(&status, 130000000, "tiny: after step 12 of 200; no update for 2 min: the run may have died\n");
    expect(&status, -5000000, "tiny: after step 12 of 200, under 1 s ago\n"); /* our clock is slow */
    status.ended = AH_STATUS_INTERRUPTED;
    expect(&status, INT64_C(3) * 86400 * 1000000,
           "tiny: interrupted after step 12 of 200, 3 days ago\n\nrank");
}

TEST(status_text, ages_are_whole_units)
{
    char text[AH_STATUS_AGE_MAX];
    assert_string_equal(ah_status_print_age(text, 0), "under 1 s");
    assert_string_equal(ah_status_print_age(text, 1e6), "1 s");
    assert_string_equal(ah_status_print_age(text, 119.9e6), "119 s");
    assert_string_equal(ah_status_print_age(text, 120e6), "2 min");
    assert_string_equal(ah_status_print_age(text, 7199e6), "119 min");
    assert_string_equal(ah_status_print_age(text, 7200e6), "2 h");
    assert_string_equal(ah_status_print_age(text, 47.9 * 3600e6), "47 h");
    assert_string_equal(ah_status_print_age(text, 48 * 3600e6), "2 days");
}

/* The ranks wait in a circle, so no single rank delays all others. */
TEST(status_text, says_that_ranks_wait_in_a_circle)
{
    struct ah_status_wait first = waits[0], other = waits[1];
    struct ah_status_rank two[] = {ranks[0], ranks[1]};
    struct ah_status status = made();
    first.rank = 1;
    two[0].waits_for = &first;
    two[1].waits_for = &other;
    status.ranks = two;
    status.n_ranks = 2;
    expect(&status, 0,
           "tiny: after step 12 of 200, under 1 s ago\n"
           "rank 0 on host 'a' seems to be in a circle of ranks that wait for each other: 1 other "
           "waits for it, 3 s so far\n");
}

/* Messages in flight can look like a circle of waiting ranks, but only for a moment. */
TEST(status_text, says_nothing_of_a_circle_that_passes)
{
    struct ah_status_wait first = waits[0], other = waits[1];
    struct ah_status_rank two[] = {ranks[0], ranks[1]};
    struct ah_status status = made();
    first.rank = 1;
    first.us = other.us = 5e5;
    two[0].waits_for = &first;
    two[1].waits_for = &other;
    status.ranks = two;
    status.n_ranks = 2;
    expect(&status, 0, "tiny: after step 12 of 200, under 1 s ago\nno rank is behind the others\n");
}

/* The last known wait of a silent rank is ignored. */
TEST(status_text, says_who_does_not_answer)
{
    struct ah_status_rank five[5];
    struct ah_status status = made();
    memcpy(five, ranks, sizeof five);
    five[0].silent_us = 65e6;
    status.ranks = five;
    expect(&status, 0,
           "tiny: after step 12 of 200, under 1 s ago\n"
           "rank 0 on host 'a' has not answered for 65 s; this is its last report: 1 other "
           "waits for "
           "it, 3 s so far\n"
           "rank 3 on host 'd' is behind: 1 other waits for it, under 1 s so far\n\n");
}
