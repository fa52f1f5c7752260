/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that, for any groups, each micro-batch is added once and in order, as in "((g0 + g1) + ...) + (...)". The
 * expected sums are written out as texts.
 */
#include "runtime/schedule/fold.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 256 };

/* Writes the sum as text, adding as training does with two accumulators. */
static void walk(const struct ah_plan_training *training, char *ret_total)
{
    char total[TEXT_MAX] = "", apart[TEXT_MAX] = "", now[TEXT_MAX];
    for (uint64_t m = 0; m < training->micro_batches; m++) {
        const struct ah_fold fold = ah_fold_of(training, m);
        char *place = fold.separate ? apart : total;
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
    assert_int_equal(ah_folds_separate(&training), apart);
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

enum { SPELLED_MAX = 7, DRAWS = 64 };

static float add_up(const struct ah_plan_training *training, const float *gradients)
{
    float total = 0, apart = 0;
    for (uint64_t m = 0; m < training->micro_batches; m++) {
        const struct ah_fold fold = ah_fold_of(training, m);
        float *place = fold.separate ? &apart : &total;
        *place = fold.opens ? gradients[m] : *place + gradients[m];
        if (fold.closes)
            total += apart;
    }
    return total;
}

/* Returns a training with groups of sums. If bit i of `cuts` is set, a group ends after micro-batch i. */
static struct ah_plan_training cut(uint64_t micro_batches, unsigned cuts, uint64_t *sums)
{
    size_t n = 0;
    sums[0] = 0;
    for (uint64_t m = 0; m < micro_batches; m++) {
        sums[n]++;
        if (m + 1 < micro_batches && cuts >> m & 1)
            sums[++n] = 0;
    }
    return (struct ah_plan_training){.micro_batches = micro_batches, .sums = sums, .n_sums = n + 1};
}

struct spelled {
    uint64_t joined[SPELLED_MAX];
    size_t n;
    float totals[DRAWS];
};

static void spell(struct spelled *ret_spelled, uint64_t micro_batches, unsigned cuts,
                  float draws[][SPELLED_MAX])
{
    const struct ah_plan_training training = cut(micro_batches, cuts, ret_spelled->joined);
    for (size_t i = 0; i < DRAWS; i++)
        ret_spelled->totals[i] = add_up(&training, draws[i]);
    ret_spelled->n = ah_plan_join_sums(ret_spelled->joined, training.n_sums);
    const struct ah_plan_training joined = {
        .micro_batches = micro_batches, .sums = ret_spelled->joined, .n_sums = ret_spelled->n};
    for (size_t i = 0; i < DRAWS; i++)
        assert_true(add_up(&joined, draws[i]) == ret_spelled->totals[i]);
}

TEST(fold, has_equal_bits_where_groups_are_spelled_alike_once_joined)
{
    static struct spelled all[1 << (SPELLED_MAX - 1)];
    float draws[DRAWS][SPELLED_MAX];
    uint64_t random = 0x2545f4914f6cdd1d;
    for (size_t i = 0; i < DRAWS; i++)
        for (size_t m = 0; m < SPELLED_MAX; m++)
            draws[i][m] = (float)(check_uniform(&random) - 0.5);
    for (uint64_t micro_batches = 1; micro_batches <= SPELLED_MAX; micro_batches++) {
        const unsigned n = 1u << (micro_batches - 1);
        for (unsigned a = 0; a < n; a++) {
            spell(&all[a], micro_batches, a, draws);
            for (unsigned b = 0; b < a; b++) {
                const bool alike = all[a].n == all[b].n && memcmp(all[a].joined, all[b].joined,
                                                                  all[a].n * sizeof *all[a].joined) == 0;
                assert_int_equal(memcmp(all[a].totals, all[b].totals, sizeof all[a].totals) == 0, alike);
            }
        }
    }
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
