/* SPDX-License-Identifier: Apache-2.0
 *
 * The natural logarithm: ln x = n ln 2 + ln m, m in [sqrt 1/2, sqrt 2), and with s = (m - 1) / (m + 1)
 *
 *     ln m = 2 (s + s^3 / 3 + s^5 / 5 + ... + s^13 / 13),
 *
 * in double, with IEEE 754 operations only, so it is the same everywhere. |s| < 0.172, so omitted terms are below
 * 1e-12.
 */
#include "runtime/device/math/math_log.h"

#include <math.h>

float ah_log_natural(float x)
{
    int n;
    if (!(x > 0) || isinf(x))
        return x < 0 ? NAN : x == 0 ? -INFINITY : x;
    double m = frexp((double)x, &n);
    if (m < 0.70710678118654752) {
        m *= 2;
        n--;
    }
    const double s = (m - 1) / (m + 1), s2 = s * s;
    double sum = 0;
    for (int k = 13; k >= 1; k -= 2)
        sum = sum * s2 + 1.0 / k;
    return (float)(n * 0.69314718055994531 + 2 * s * sum);
}
