/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests exponentials and the functions built from them. Their errors, over all of fp32, are measured against double.
 * Every level must give equal bits.
 */
#include "base/isa.h"
#include "runtime/device/math/math_log.h"
#include "tests/support/check.h"
#include "tests/unit/device_math/functions.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Tests every STEP-th bit pattern as an argument; STEP is a prime, so all low bits occur. */
enum { STEP = 39989, LANES = 16 };

static float of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Returns |y - exact| in ulps of `exact`. */
static double ulps(float y, double exact)
{
    const double size = fabs(exact) < (double)FLT_MIN ? (double)FLT_MIN : fabs(exact);
    return fabs((double)y - exact) / ldexp(1, ilogb(size) - 23);
}

static double exact_of(enum function function, double x)
{
    switch (function) {
    case FUNCTION_EXP:
        return exp(fmin(x, 88)); /* it treats larger x as 88 */
    case FUNCTION_EXP2:
        return exp2(x);
    case FUNCTION_SIGMOID:
        return 1 / (1 + exp(-x));
    case FUNCTION_REST:
        return 1 / (1 + exp(x));
    case FUNCTION_TANH:
        return tanh(x);
    case FUNCTION_SLOPE:
        return 1 / (cosh(x) * cosh(x));
    case FUNCTION_TAIL:
    case FUNCTIONS:
        break;
    }
    return erfc(fabs(x) / sqrt(2)) / 2;
}

/* Promised errors in ulp, where the exact result's size is `least` or more. Where it is smaller, so is that of y, and
 * functions that are never negative stay so. */
static const struct {
    double ulp;
    double per_square; /* added error per x^2, for the normal tail */
    double least;
} promises[FUNCTIONS] = {
    [FUNCTION_EXP] = {1.1, 0, FLT_MIN},   [FUNCTION_EXP2] = {1.0, 0, FLT_MIN},
    [FUNCTION_SIGMOID] = {3, 0, FLT_MIN}, [FUNCTION_REST] = {3, 0, FLT_MIN},
    [FUNCTION_TANH] = {3, 0, FLT_MIN},    [FUNCTION_SLOPE] = {6, 0, 4 * FLT_MIN},
    [FUNCTION_TAIL] = {3, 3, 9.9e-10},
};

static void check_value(enum function function, float x, float y)
{
    const double exact = exact_of(function, (double)x);
    if (isnan(x)) {
        assert_true(isnan(y));
    } else if (exact > (double)FLT_MAX * 0.7) {
        assert_true(isinf(y) || ulps(y, exact) <= promises[function].ulp);
    } else if (fabs(exact) < promises[function].least) {
        assert_true(function == FUNCTION_TANH || y >= 0);
        assert_true(fabs((double)y) <= promises[function].least);
    } else {
        const double square = isinf(x) ? 0 : (double)x * (double)x;
        const double bound = promises[function].ulp + promises[function].per_square * square;
        if (!(ulps(y, exact) <= bound))
            fail_msg("function %d of %a: %a, exactly %a: %.2f ulp", (int)function, (double)x, (double)y,
                     exact, ulps(y, exact));
    }
}

static function_apply *const levels[] = {[AH_ISA_PORTABLE] = functions_portable,
                                         [AH_ISA_AVX2] = functions_avx2,
                                         [AH_ISA_AVX512] = functions_avx512};

static void check_sixteen(enum function function, const float x[LANES])
{
    float expected[LANES], y[LANES];
    functions_portable(function, expected, x);
    for (int i = 0; i < LANES; i++)
        check_value(function, x[i], expected[i]);
    for (unsigned isa = AH_ISA_AVX2; isa <= ah_isa_detect(); isa++) {
        levels[isa](function, y, x);
        for (int i = 0; i < LANES; i++)
            if (!isnan(x[i]))
                assert_memory_equal(&y[i], &expected[i], sizeof y[i]);
            else
                assert_true(isnan(y[i]));
    }
}

TEST(functions, are_as_exact_as_they_say_at_every_level)
{
    for (enum function function = 0; function < FUNCTIONS; function++) {
        uint32_t bits = 0;
        for (uint64_t done = 0; done <= UINT32_MAX / STEP; done += LANES) {
            float x[LANES];
            for (int i = 0; i < LANES; i++, bits += STEP)
                x[i] = of_bits(bits);
            check_sixteen(function, x);
        }
    }
}

/* Arguments of ordinary size, positive and negative, are tested here because few bit patterns have such a size. */
TEST(functions, are_exact_where_arguments_are)
{
    uint64_t random = check_seed(17);
    for (enum function function = 0; function < FUNCTIONS; function++)
        for (int round = 0; round < 4000; round++) {
            float x[LANES];
            for (int i = 0; i < LANES; i++)
                x[i] = (float)ldexp(check_uniform(&random) - 0.5, (int)(check_random(&random) % 12) - 2);
            check_sixteen(function, x);
        }
}

TEST(functions, edges)
{
    const float x[LANES] = {0,          -0.0f,     INFINITY, -INFINITY, NAN,   FLT_MAX, -FLT_MAX, FLT_MIN,
                            -87.33654f, -87.3366f, 88.3f,    89,        -1000, 1000,    5.5f,     -5.5f};
    float y[LANES];
    for (enum function function = 0; function < FUNCTIONS; function++)
        check_sixteen(function, x);
    functions_portable(FUNCTION_EXP, y, x);
    assert_true(y[0] == 1 && y[1] == 1 && y[3] == 0 && isnan(y[4]) && y[12] == 0);
    functions_portable(FUNCTION_EXP2, y, x);
    assert_true(y[0] == 1 && y[3] == 0 && y[12] == 0 && isnan(y[4]) && isinf(y[13]));
    functions_portable(FUNCTION_SIGMOID, y, x);
    assert_true(y[0] == 0.5f && y[2] == 1 && y[3] == 0);
    functions_portable(FUNCTION_TANH, y, x);
    assert_true(y[0] == 0 && y[2] == 1 && y[3] == -1 && y[5] == 1 && y[6] == -1);
    functions_portable(FUNCTION_SLOPE, y, x);
    assert_true(y[0] == 1 && y[2] == 0 && y[3] == 0 && y[5] == 0);
}

TEST(functions, logarithm)
{
    assert_true(isinf(ah_log_natural(0)) && ah_log_natural(0) < 0 && isnan(ah_log_natural(-1)));
    assert_true(ah_log_natural(INFINITY) > FLT_MAX && isnan(ah_log_natural(NAN)) && ah_log_natural(1) == 0);
    for (uint32_t bits = 1; bits < 0x7f800000; bits += STEP) {
        const float x = of_bits(bits), y = ah_log_natural(x);
        if (!(ulps(y, log((double)x)) <= 0.51))
            fail_msg("ln %a: %a, %.3f ulp", (double)x, (double)y, ulps(y, log((double)x)));
    }
}
