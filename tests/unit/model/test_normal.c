/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares our logarithm, sine and cosine with the C library's in long double.
 */
#include "runtime/model/normal_internal.h"
#include "tests/support/check.h"

#include <math.h>

static long double worst;

static void note(long double error)
{
    error = fabsl(error);
    worst = error > worst ? error : worst;
}

TEST(normal, logarithm_is_right)
{
    uint64_t random = check_seed(1);
    worst = 0;
    for (uint64_t i = 0; i < 400000; i++) {
        uint32_t bits = i < 1000   ? (uint32_t)i
                        : i < 2000 ? (uint32_t)(1999 - i) - 1000
                                   : (uint32_t)check_random(&random);
        double x = ((double)bits + 0.5) * 0x1p-32;
        long double expected = logl((long double)x);
        note(((long double)ah_normal_log(x) - expected) / expected);
    }
    for (int i = -200; i < 200; i++) { /* around 1, and where the power of two changes */
        double x = 0.5 * sqrt(2) * (1 + i * 0x1p-52), y = 1 + i * 0x1p-53;
        note(((long double)ah_normal_log(x) - logl((long double)x)) / logl((long double)x));
        if (i)
            note(((long double)ah_normal_log(y) - logl((long double)y)) / logl((long double)y));
    }
    print_message("log: %.3Lg\n", worst);
    assert_true(worst < 4e-16L);
}

TEST(normal, sine_and_cosine_are_right)
{
    const long double two_pi = 6.283185307179586476925286766559005768L;
    uint64_t random = check_seed(2);
    worst = 0;
    for (uint64_t i = 0; i < 400000; i++) {
        /* First the borders of eighths of a turn with their neighbours, and then random values. */
        uint32_t bits = i < 800 ? (uint32_t)((i / 100) << 29) + (uint32_t)(i % 100) - 50
                                : (uint32_t)check_random(&random);
        long double angle = two_pi * (((long double)bits + 0.5L) * 0x1p-32L);
        double sine, cosine;
        ah_normal_turn(bits, &sine, &cosine);
        note((long double)sine - sinl(angle));
        note((long double)cosine - cosl(angle));
    }
    print_message("sine, cosine: %.3Lg\n", worst);
    assert_true(worst < 4e-16L);
}

TEST(normal, tails_end_where_bits_do)
{
    double normal[4];
    ah_normal_four((const uint32_t[]){0, 0, UINT32_MAX, 0}, normal);
    check_near(normal[0], 6.7637, 1e-4);
    assert_true(normal[0] < 6.77);
    check_near(normal[2], 1.5259e-5, 1e-8);
}
