/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks, seeds and random numbers for all tests (check.h).
 */
#include "tests/support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t check_scaled(size_t full)
{
    const char *text = getenv("AH_TEST_SCALE");
    double scaled = ceil((double)full * (text ? strtod(text, NULL) : 0.1));
    return scaled > 1 ? (size_t)scaled : 1;
}

void check_text_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' does not contain '%s'", text, part);
}

void check_near(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance * fmax(1.0, fabs(b))))
        fail_msg("%.17g is not within %g of %.17g", a, tolerance, b);
}

uint64_t check_seed(uint64_t fallback)
{
    const char *text = getenv("AH_TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 0) : fallback;
    print_message("AH_TEST_SEED=%llu\n", (unsigned long long)seed);
    return seed ? seed : 1;
}

uint64_t check_draw(uint64_t *state, uint64_t below)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state % below;
}

uint64_t check_random(uint64_t *state)
{
    (void)check_draw(state, 1);
    return *state * 0x2545F4914F6CDD1DULL;
}

double check_uniform(uint64_t *state)
{
    return (double)(check_random(state) >> 11) * 0x1p-53;
}
