/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by all tests: cmocka with what it needs included, and a few checks of our own.
 *
 *     static void test_units__reads_gib(void **state) { ... CHECK_OK(ah_units_parse_bytes("1GiB", &n, &err),
 * err); } int main(void) { const struct CMUnitTest tests[] = {...}; return cmocka_run_group_tests(tests,
 * NULL, NULL); }
 */
#ifndef AH_TESTS_SUPPORT_CHECK_H
#define AH_TESTS_SUPPORT_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"

/* The call returns AH_OK, else its error text is shown. */
#define CHECK_OK(call, err)                                                                                  \
    do {                                                                                                     \
        int check_rc_ = (call);                                                                              \
        if (check_rc_)                                                                                       \
            fail_msg("%s: %s (%d)", #call, (err).text, check_rc_);                                           \
    } while (0)

/* The call fails with `code` and its text contains `part`. */
#define CHECK_FAILS(call, err, expected, part)                                                               \
    do {                                                                                                     \
        int check_rc_ = (call);                                                                              \
        if (check_rc_ != (expected))                                                                         \
            fail_msg("%s: returned %d, expected %d (%s)", #call, check_rc_, (expected), (err).text);         \
        check_text_has((err).text, (part));                                                                  \
    } while (0)

/* How many of so many cases a test tries: all, or with $AH_TEST_SHORT (under sanitizers) a sixth, at least one. */
size_t check_share(size_t cases);

/* How many cases a random test draws: $AH_TEST_INSTANCES, else `usual`. */
size_t check_instances(size_t usual);

/* Fails the test unless `text` contains `part`. */
void check_text_has(const char *text, const char *part);

/* |a - b| <= tolerance * max(1, |b|). */
void check_near(double a, double b, double tolerance);

/* Seed of a random test: $AH_TEST_SEED, else `fallback`; prints it so that a failure can be repeated. */
uint64_t check_seed(uint64_t fallback);

/* A small generator for test data (xorshift), and a uniform double in [0, 1). */
uint64_t check_random(uint64_t *state);
double check_uniform(uint64_t *state);

/* The plain xorshift: a number below `below`. */
uint64_t check_draw(uint64_t *state, uint64_t below);

#endif
