/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares rounding with an oracle that uses no bit operations. The oracle picks the nearer of the two neighbouring
 * bf16 values, by distances in double. These distances are exact.
 */
#include "base/bf16.h"

#include "tests/support/check.h"

#include <math.h>

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Returns the value of a bf16 number by its definition; 0x7F80 (infinity) counts as 2^128. */
static double value_of(uint16_t stored)
{
    int exponent = stored >> 7 & 255, fraction = stored & 127;
    double size = exponent ? ldexp(128 + fraction, exponent - 134) : ldexp(fraction, -133);
    return stored & 0x8000 ? -size : size;
}

static uint16_t nearest(float value)
{
    uint16_t toward_zero = (uint16_t)(bits_of(value) >> 16), away = (uint16_t)(toward_zero + 1);
    double below = fabs((double)value - value_of(toward_zero)), above = fabs(value_of(away) - (double)value);
    if (below != above)
        return below < above ? toward_zero : away;
    return toward_zero % 2 ? away : toward_zero;
}

static void check_conversion(uint32_t bits)
{
    float value = float_of(bits);
    uint16_t stored = ah_bf16_from_fp32(value);
    uint16_t expected = nearest(value);
    if (isnan(value)) /* sign and upper payload stay, the quiet bit is set */
        expected = (uint16_t)(bits >> 16 | 0x0040);
    else if (isinf(value))
        expected = signbit(value) ? 0xFF80 : 0x7F80;
    if (stored != expected)
        fail_msg("0x%08x became 0x%04x, not 0x%04x", bits, stored, expected);
}

/* Tests each of the 65536 upper halves, with lower halves around every rounding decision. */
TEST(bf16, all_upper_halves)
{
    static const uint16_t lows[] = {0,      1,      2,      0x0FFF, 0x7FFE, 0x7FFF,
                                    0x8000, 0x8001, 0x8002, 0xC000, 0xFFFE, 0xFFFF};
    for (uint32_t high = 0; high <= 0xFFFF; high++)
        for (size_t i = 0; i < sizeof lows / sizeof lows[0]; i++)
            check_conversion(high << 16 | lows[i]);
}

/* Tests each of the 65536 lower halves, with upper halves of every sort: zero, denormal, normal, largest, inf, NaN. */
TEST(bf16, all_lower_halves)
{
    static const uint16_t highs[] = {0,      1,      0x007F, 0x0080, 0x3F7F, 0x3F80, 0x7F7E, 0x7F7F,
                                     0x7F80, 0x7FC0, 0x8000, 0x8001, 0xBF80, 0xFF7F, 0xFF80, 0xFFFF};
    for (uint32_t low = 0; low <= 0xFFFF; low++)
        for (size_t i = 0; i < sizeof highs / sizeof highs[0]; i++)
            check_conversion((uint32_t)highs[i] << 16 | low);
}

TEST(bf16, random)
{
    uint64_t seed = check_seed(61);
    for (int i = 0; i < 2000000; i++)
        check_conversion((uint32_t)check_random(&seed));
}

TEST(bf16, back_is_exact)
{
    for (uint32_t stored = 0; stored <= 0xFFFF; stored++) {
        float value = ah_bf16_to_fp32((uint16_t)stored);
        if (isnan(value)) {
            assert_int_equal(bits_of(value), stored << 16);
            continue;
        }
        if (isfinite(value))
            assert_true((double)value == value_of((uint16_t)stored));
        assert_int_equal(ah_bf16_from_fp32(value), stored);
    }
}

TEST(bf16, known_values)
{
    assert_int_equal(ah_bf16_from_fp32(1.0f), 0x3F80);
    assert_int_equal(ah_bf16_from_fp32(-2.0f), 0xC000);
    assert_int_equal(ah_bf16_from_fp32(3.14159274f), 0x4049);
    assert_int_equal(ah_bf16_from_fp32(-0.0f), 0x8000);
    assert_int_equal(ah_bf16_from_fp32(3.4028234e38f), 0x7F80); /* rounds to infinity */
    assert_int_equal(ah_bf16_from_fp32(1.00390625f), 0x3F80);   /* a tie: rounds down, to even */
    assert_int_equal(ah_bf16_from_fp32(1.01171875f), 0x3F82);   /* a tie: rounds up, to even */
    assert_int_equal(ah_bf16_from_fp32(float_of(0x7F800001)), 0x7FC0);
    assert_int_equal(ah_bf16_from_fp32(float_of(0xFFFFFFFF)), 0xFFFF);
}
