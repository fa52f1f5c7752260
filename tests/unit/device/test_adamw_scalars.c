/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the scalars with sums computed term by term in long double. The weights of a moving average after t steps
 * add up to rest * (1 + beta + ... + beta^(t - 1)).
 */
#include "runtime/device/adamw_scalars.h"

#include "tests/support/check.h"

#include <math.h>

static long double weights(float beta, float rest, uint32_t steps)
{
    long double sum = 0, weight = rest;
    for (uint32_t i = 0; i < steps; i++, weight *= beta)
        sum += weight;
    return sum;
}

/* Checks that `got` was rounded only once: the error is at most half an ulp, plus a little for the reference. */
static void check_rounded(const char *what, float got, long double expected)
{
    float ulp = fabsf(nextafterf(got, INFINITY) - got);
    long double off = fabsl((long double)got - expected);
    if (off > 0.5001L * ulp)
        fail_msg("%s is %.9g, expected %.12Lg: off by %.3Lf ulp", what, (double)got, expected, off / ulp);
}

TEST(adamw_scalars, correct_what_the_average_weighs)
{
    static const double betas[][2] = {{0.9, 0.999}, {0.9, 0.95}, {0.8, 0.99}, {0, 0}, {0.95, 0.9999}};
    static const uint32_t steps[] = {1, 2, 3, 10, 1000, 100000};
    for (size_t i = 0; i < sizeof betas / sizeof betas[0]; i++)
        for (size_t j = 0; j < sizeof steps / sizeof steps[0]; j++) {
            const struct ah_adamw_settings settings = {.lr = 3e-4,
                                                       .beta1 = betas[i][0],
                                                       .beta2 = betas[i][1],
                                                       .epsilon = 1e-8,
                                                       .weight_decay = 0.1,
                                                       .step = steps[j],
                                                       .seed = 77};
            struct ah_adamw_scalars s;
            ah_adamw_scalars_init(&s, &settings);
            assert_true(s.beta1 == (float)betas[i][0] && s.beta2 == (float)betas[i][1]);
            check_rounded("rest1", s.rest1, 1 - (long double)s.beta1);
            check_rounded("rest2", s.rest2, 1 - (long double)s.beta2);
            check_rounded("neg_rate", s.neg_rate, -3e-4L / weights(s.beta1, s.rest1, steps[j]));
            check_rounded("root_scale", s.root_scale, 1 / sqrtl(weights(s.beta2, s.rest2, steps[j])));
            check_rounded("decay", s.decay, 1 - 3e-5L);
            assert_true(s.epsilon == 1e-8f && s.grad_scale == 1 && s.grad_norm == 0);
            assert_true(s.step == steps[j] && s.seed == 77);
        }
}

/* If the gradient is constant, its corrected average equals it at every step, because betas are fp32. Corrections with
 * the double betas would be off by 1e-5. */
TEST(adamw_scalars, give_a_constant_gradient_back)
{
    struct ah_adamw_settings settings = {.lr = 1, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 0};
    double m = 0, v = 0;
    for (settings.step = 1; settings.step <= 2000; settings.step++) {
        struct ah_adamw_scalars s;
        ah_adamw_scalars_init(&s, &settings);
        m = (double)s.beta1 * m + (double)s.rest1 * 3;
        v = (double)s.beta2 * v + (double)s.rest2 * 9;
        assert_true(fabs((double)-s.neg_rate * m - 3) < 3 * 2e-7);
        assert_true(fabs((double)s.root_scale * sqrt(v) - 3) < 3 * 2e-7);
    }
}
