/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that every place has one sample and every sample one place. This is tested for all small n, for n around powers
 * of two and four (where the walked square changes), and for random n.
 */
#include "runtime/train/data/permutation.h"
#include "tests/support/check.h"

#include <stdlib.h>
#include <string.h>

enum { SMALL = 520, RANDOM_CASES = 200, RANDOM_MOST = 30000 };

static void check_bijective(uint64_t seed, uint64_t epoch, uint64_t n, unsigned char *seen)
{
    memset(seen, 0, (size_t)n);
    for (uint64_t place = 0; place < n; place++) {
        uint64_t sample = ah_permutation_at(seed, epoch, n, place);
        if (sample >= n || seen[sample])
            fail_msg("seed %llu, epoch %llu, n %llu: place %llu has sample %llu, %s",
                     (unsigned long long)seed, (unsigned long long)epoch, (unsigned long long)n,
                     (unsigned long long)place, (unsigned long long)sample,
                     sample >= n ? "beyond the end" : "for the second time");
        seen[sample] = 1;
    }
}

TEST(permutation, is_bijective)
{
    unsigned char *seen = malloc((1 << 17) + 2);
    assert_non_null(seen);
    uint64_t random = check_seed(71);
    for (uint64_t n = 1; n <= SMALL; n++)
        for (uint64_t epoch = 0; epoch < 3; epoch++)
            check_bijective(check_random(&random), epoch, n, seen);
    for (unsigned bits = 9; bits <= 17; bits++)
        for (uint64_t n = (UINT64_C(1) << bits) - 1; n <= (UINT64_C(1) << bits) + 1; n++)
            check_bijective(check_random(&random), bits, n, seen);
    for (int i = 0; i < RANDOM_CASES; i++)
        check_bijective(check_random(&random), check_random(&random) >> 16,
                        1 + check_random(&random) % RANDOM_MOST, seen);
    free(seen);
}

/* Compares two samples, for qsort(). */
static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

TEST(permutation, huge_sets_stay_inside)
{
    enum { PLACES = 20000 };
    uint64_t random = check_seed(72), *samples = malloc(PLACES * sizeof *samples);
    assert_non_null(samples);
    for (unsigned bits = 30; bits <= 62; bits += 4) {
        uint64_t n = (UINT64_C(1) << bits) - check_random(&random) % (UINT64_C(1) << (bits - 1));
        for (uint64_t place = 0; place < PLACES; place++) {
            samples[place] = ah_permutation_at(bits, 0, n, place);
            assert_true(samples[place] < n);
        }
        qsort(samples, PLACES, sizeof *samples, compare);
        for (size_t i = 1; i < PLACES; i++)
            assert_true(samples[i - 1] < samples[i]);
    }
    free(samples);
}
