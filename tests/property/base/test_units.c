/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests round trips of sizes, counts and rates. The oracles are strtod() and snprintf() of the C library.
 */
#include "base/units.h"

#include "tests/support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 20000 };

static uint64_t random_bytes(uint64_t *seed)
{
    return check_random(seed) >> check_random(seed) % 64;
}

static const struct {
    const char *suffix;
    double scale;
} units[] = {{"B", 1}, {"kB", 1e3},     {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},
             {"", 1},  {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};

TEST(units, bare_numbers_are_exact)
{
    uint64_t seed = check_seed(31);
    for (int round = 0; round < ROUNDS; round++) {
        struct ah_error err = {0};
        uint64_t bytes = random_bytes(&seed), back = 0;
        char text[64];
        snprintf(text, sizeof text, "%llu", (unsigned long long)bytes);
        CHECK_OK(ah_units_parse_bytes(text, &back, &err), err);
        assert_int_equal(back, bytes);
        CHECK_OK(ah_units_parse_count(text, &back, &err), err);
        assert_int_equal(back, bytes);
    }
}

/* A decimal fraction times its unit is rounded to nearest, like the number that strtod() reads. */
TEST(units, fractions_round_to_nearest)
{
    uint64_t seed = check_seed(32);
    for (int round = 0; round < ROUNDS; round++) {
        struct ah_error err = {0};
        size_t unit = check_random(&seed) % (sizeof units / sizeof units[0]);
        char text[64], number[32];
        uint64_t back = 0;
        snprintf(number, sizeof number, "%u.%0*u", (unsigned)(check_random(&seed) % 1000),
                 (int)(1 + check_random(&seed) % 3), (unsigned)(check_random(&seed) % 10));
        snprintf(text, sizeof text, "%s%s%s", number,
                 check_random(&seed) % 2 && units[unit].suffix[0] ? " " : "", units[unit].suffix);
        CHECK_OK(ah_units_parse_bytes(text, &back, &err), err);
        assert_true(fabs((double)back - strtod(number, NULL) * units[unit].scale) <= 0.5 + 1e-3);
    }
}

/* Reading a printed number gives that number, within half of its last digit. */
TEST(units, printed_sizes_read_back)
{
    uint64_t seed = check_seed(33);
    for (int round = 0; round < ROUNDS; round++) {
        struct ah_error err = {0};
        uint64_t bytes = random_bytes(&seed) >> 1, back = 0;
        double rate = (double)bytes, rate_back = 0;
        char text[AH_UNITS_TEXT_MAX];
        CHECK_OK(ah_units_parse_bytes(ah_units_print_bytes(text, bytes), &back, &err), err);
        double step = bytes < 1024 ? 0 : 0.0501 * exp2(10 * fmin(4, floor(log2((double)back) / 10)));
        assert_true(fabs((double)back - (double)bytes) <= step);
        CHECK_OK(ah_units_parse_rate(ah_units_print_rate(text, rate), &rate_back, &err), err);
        assert_true(fabs(rate_back - rate) <= 0.0501 * fmax(rate, 1));
        char *point = strchr(text, '.');
        if (point && !strstr(text, "TB")) /* the part before the point has no more than three digits */
            assert_true(point - text <= 3);
    }
}
