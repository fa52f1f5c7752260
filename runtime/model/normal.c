/* SPDX-License-Identifier: Apache-2.0
 *
 * Box and Muller, "A note on the generation of random normal deviates", 1958. The 32-bit words a, b, c, d give
 *
 *     radius(a) cos(turn(b)), radius(a) sin(turn(b)), radius(c) cos(turn(d)), radius(c) sin(turn(d))
 *     radius(x) = sqrt(-2 log((x + 1/2) / 2^32))     turn(y) = 2 pi (y + 1/2) / 2^32
 *
 * All numbers are doubles. The only operations are + - * / and sqrt, whose rounding IEEE 754 defines, in the order of
 * the source (the build forbids contraction). C libraries' log and sin differ between versions.
 */
#include "runtime/model/normal_internal.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* Fields of a double. */
static const uint64_t fraction_bits = UINT64_C(0xFFFFFFFFFFFFF), sqrt_2_fraction = UINT64_C(0x6A09E667F3BCD);
enum { EXPONENT_OF_1 = 1023 };

/* Numbers of coefficients: those of z, z^2, ..., after the leading 1. */
enum { LOG_TERMS = 10, SINE_TERMS = 8, COSINE_TERMS = 9 };

/* atanh(s) / s as a series in z = s^2, for |s| <= 0.172. The omitted terms are below 1e-18. */
static const double log_terms[LOG_TERMS] = {1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11,
                                            1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21};
/* sin(x) / x and cos(x) as series in z = x^2, for |x| <= pi / 4. The omitted terms are below 1e-18. */
static const double sine_terms[SINE_TERMS] = {
    -1.0 / 6,        1.0 / 120,        -1.0 / 5040,          1.0 / 362880,
    -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000};
static const double cosine_terms[COSINE_TERMS] = {-1.0 / 2,
                                                  1.0 / 24,
                                                  -1.0 / 720,
                                                  1.0 / 40320,
                                                  -1.0 / 3628800,
                                                  1.0 / 479001600,
                                                  -1.0 / 87178291200,
                                                  1.0 / 20922789888000,
                                                  -1.0 / 6402373705728000};

/* Returns terms[0] z + terms[1] z^2 + ... */
static double series(const double *terms, size_t n, double z)
{
    double sum = 0;
    for (size_t i = n; i > 0; i--)
        sum = (sum + terms[i - 1]) * z;
    return sum;
}

double ah_normal_log(double x)
{
    const double ln2 = 0x1.62e42fefa39efp-1;
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    /* x = m 2^exponent with m in [sqrt(1/2), sqrt(2)); m has the fraction of x, and the exponent of 1 or of 1/2 */
    uint64_t over = (bits & fraction_bits) >= sqrt_2_fraction;
    int exponent = (int)(bits >> 52) - EXPONENT_OF_1 + (int)over;
    bits = (bits & fraction_bits) | (EXPONENT_OF_1 - over) << 52;
    double m;
    memcpy(&m, &bits, sizeof m);
    double s = (m - 1) / (m + 1);
    return 2 * (s + s * series(log_terms, LOG_TERMS, s * s)) + exponent * ln2;
}

/* Divides the turn into eighths, so that no angle is above pi/4. In even eighths, the angle counts from the previous
 * quarter. In odd ones it counts back from the next quarter, where sine and cosine are exchanged. */
void ah_normal_turn(uint32_t bits, double *ret_sine, double *ret_cosine)
{
    const double two_pi = 0x1.921fb54442d18p+2;
    uint32_t quarter = bits >> 30, odd = bits >> 29 & 1;
    double fraction = ((double)(bits & 0x1FFFFFFFu) + 0.5) * 0x1p-32; /* exact, without rounding */
    double x = (odd ? 0.125 - fraction : fraction) * two_pi;
    double sine = x + x * series(sine_terms, SINE_TERMS, x * x);
    double cosine = 1 + series(cosine_terms, COSINE_TERMS, x * x);
    double across = odd ? sine : cosine, up = odd ? cosine : sine; /* in the first quarter of the turn */
    double rotated_across = quarter & 1 ? -up : across, rotated_up = quarter & 1 ? across : up;
    *ret_cosine = quarter & 2 ? -rotated_across : rotated_across;
    *ret_sine = quarter & 2 ? -rotated_up : rotated_up;
}

void ah_normal_four(const uint32_t bits[4], double ret_normal[4])
{
    for (int pair = 0; pair < 4; pair += 2) {
        double sine, cosine;
        double radius = sqrt(-2 * ah_normal_log(((double)bits[pair] + 0.5) * 0x1p-32));
        ah_normal_turn(bits[pair + 1], &sine, &cosine);
        ret_normal[pair] = radius * cosine;
        ret_normal[pair + 1] = radius * sine;
    }
}
