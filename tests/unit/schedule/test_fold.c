/* SPDX-License-Identifier: Apache-2.0
 *
 * Fold: whatever the groups, walking through the micro-batches adds each once, in order, as "((g0 + g1) + ...) + (...)" says;
 * against sums written out by hand over texts.
 */
#include "runtime/schedule/fold.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 256 };

/* What training does with two places. */
static void walk(const struct ah_plan_training *training, char *ret_total)
{
    char total[TEXT_MAX] = "", apart[TEXT_MAX] = "", now[TEXT_MAX];
    for (uint64_t m = 0; m < training->micro_batches; m++) {
        const struct ah_fold fold = ah_fold_of(training, m);
        char *place = fold.apart ? apart : total;
        if (fold.opens)
            snprintf(now, sizeof now, "%c", (char)('a' + m));
        else
            snprintf(now, sizeof now, "(%.200s+%c)", place, (char)('a' + m));
        strcpy(place, now);
        if (!fold.closes)
            continue;
        snprintf(now, sizeof now, "(%.120s+%.120s)", total, apart);
        strcpy(total, now);
    }
    strcpy(ret_total, total);
}

static void expect(uint64_t *sums, size_t n, uint64_t micro_batches, uint64_t apart, const char *text)
{
    const struct ah_plan_training training = {.micro_batches = micro_batches, .sums = sums, .n_sums = n};
    char total[TEXT_MAX];
    walk(&training, total);
    assert_string_equal(total, text);
    assert_int_equal(ah_folds_apart(&training), apart);
    assert_int_equal(ah_fold_bytes(&training), apart ? 8 : 4);
}

TEST(fold, adds_group_by_group_in_order)
{
    expect(NULL, 0, 1, 0, "a");
    expect(NULL, 0, 3, 0, "((a+b)+c)");
    expect((uint64_t[]){2, 2}, 2, 4, 1, "((a+b)+(c+d))");
    expect((uint64_t[]){1, 3, 2}, 3, 6, 2, "((a+((b+c)+d))+(e+f))");
    expect((uint64_t[]){3, 1, 2}, 3, 6, 1, "((((a+b)+c)+d)+(e+f))");
    expect((uint64_t[]){2, 2, 1}, 3, 5, 1, "(((a+b)+(c+d))+e)");
}

TEST(fold, of_one_micro_batch_behind_the_first_adds_as_one_group_does)
{
    expect((uint64_t[]){1, 1, 1}, 3, 3, 0, "((a+b)+c)");
    expect((uint64_t[]){2, 1, 1}, 3, 4, 0, "(((a+b)+c)+d)");
}

TEST(fold, names_the_micro_batches_of_a_group)
{
    uint64_t sums[] = {1, 3, 2};
    const struct ah_plan_training training = {.micro_batches = 6, .sums = sums, .n_sums = 3};
    for (uint64_t m = 1; m < 4; m++) {
        assert_int_equal(ah_fold_of(&training, m).first, 1);
        assert_int_equal(ah_fold_of(&training, m).last, 3);
    }
    assert_int_equal(ah_fold_of(&training, 5).first, 4);
    assert_int_equal(ah_fold_of(&training, 5).last, 5);
}
