/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by all tests: cmocka and the headers that it needs, cases that register themselves, and a few checks.
 *
 *     TEST(units, reads_gib)                        // in test_units.c of tests/unit/base
 *     {
 *         CHECK_OK(ah_units_parse_bytes("1GiB", &n, &err), err);
 *     }
 *     TEST_IN(file, is_replaced, root_make, root_remove) { ... *state is what root_make left there ... }
 *
 * All cases of one room and kind are one program. It runs all cases, or those named on its command line:
 *
 *     build/test/tests/unit.base units              // a module
 *     build/test/tests/unit.base units.reads_gib    // one case, which CTest knows as unit.base.units.reads_gib
 */
#ifndef AH_TESTS_SUPPORT_CHECK_H
#define AH_TESTS_SUPPORT_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"

/* Defines a case of `module`, the file's name without test_. CMake reads these lines: tests/CMakeLists.txt. */
#define TEST(module, behaviour) TEST_IN(module, behaviour, NULL, NULL)

/* Defines a case that runs between cmocka's set-up and tear-down functions; either may be NULL. */
#define TEST_IN(module, behaviour, set_up, tear_down)                                                        \
    static void test_##module##__##behaviour(void **state);                                                  \
    __attribute__((constructor)) static void register_##module##__##behaviour(void)                          \
    {                                                                                                        \
        static struct check_case entry = {                                                                   \
            NULL, {#module "." #behaviour, test_##module##__##behaviour, set_up, tear_down, NULL}};          \
        check_register(&entry);                                                                              \
    }                                                                                                        \
    static void test_##module##__##behaviour(__attribute__((unused)) void **state)

struct check_case {
    struct check_case *next;
    struct CMUnitTest test;
};

/* Adds a case, before main() runs. `entry` must stay valid. */
void check_register(struct check_case *entry);

/* Ends the case as skipped, because it cannot run here. A program that runs only this case exits with 77. */
void check_skip(const char *reason);

/* Fails the test unless the call returns AH_OK. Shows the call's error text. */
#define CHECK_OK(call, err)                                                                                  \
    do {                                                                                                     \
        int check_rc_ = (call);                                                                              \
        if (check_rc_)                                                                                       \
            fail_msg("%s: %s (%d)", #call, (err).text, check_rc_);                                           \
    } while (0)

/* Fails the test unless the call fails with `expected` and its text contains `part`. */
#define CHECK_FAILS(call, err, expected, part)                                                               \
    do {                                                                                                     \
        int check_rc_ = (call);                                                                              \
        if (check_rc_ != (expected))                                                                         \
            fail_msg("%s: returned %d, expected %d (%s)", #call, check_rc_, (expected), (err).text);         \
        check_text_has((err).text, (part));                                                                  \
    } while (0)

/* Returns the number of random cases to try: `full` times $AH_TEST_SCALE (0.1 if it is not set), at least one. */
size_t check_scaled(size_t full);

/* Fails the test unless `text` contains `part`. */
void check_text_has(const char *text, const char *part);

/* Fails the test unless |a - b| <= tolerance * max(1, |b|). */
void check_near(double a, double b, double tolerance);

/* Returns the seed of a random test: $AH_TEST_SEED or `fallback`. Prints it so that a failure can be repeated. */
uint64_t check_seed(uint64_t fallback);

/* Returns a random number for test data (xorshift with a multiplier); check_uniform(), a double in [0, 1). */
uint64_t check_random(uint64_t *state);
double check_uniform(uint64_t *state);

/* Returns a random number smaller than `below` (xorshift without a multiplier). */
uint64_t check_draw(uint64_t *state, uint64_t below);

#endif
