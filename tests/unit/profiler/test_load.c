/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests processor load read from lines of /proc/stat: our own work, the work of others, and time taken by a hypervisor.
 */
#include "profiler/processor_load.h"

#include "tests/support/check.h"

#include <string.h>

static struct ah_load load_of(const char *text, double own_s)
{
    struct ah_load load;
    assert_true(ah_load_parse(text, 100, &load));
    load.own_s = own_s;
    return load;
}

TEST(load, parses_the_kernels_line)
{
    struct ah_load load;
    assert_true(
        ah_load_parse("cpu  1572 10 667 253550 982 20 17 200 50 0\ncpu0 575 0 254 127488\n", 100, &load));
    check_near(load.busy_s, 22.86, 1e-12); /* user + nice + system + irq + softirq; user includes guest */
    check_near(load.steal_s, 2.0, 1e-12);
    check_near(load.total_s, 2570.18, 1e-12);
}

TEST(load, refuses_what_is_not_one)
{
    struct ah_load load = {1, 1, 1, 1};
    assert_false(ah_load_parse("", 100, &load));
    assert_false(ah_load_parse("intr 1 2 3 4 5 6 7 8", 100, &load));
    assert_false(ah_load_parse("cpu 1 2 3", 100, &load));
    assert_false(ah_load_parse("cpu 1 2 3 4 5 6 7 8", 0, &load));
    assert_true(load.total_s == 0 && load.busy_s == 0);
}

/* There are two processors. The two readings are 10 seconds apart. */
static const char before_text[] = "cpu 1000 0 0 1000 0 0 0 0 0 0";

TEST(load, own_work_is_not_others)
{
    char text[160] = "";
    struct ah_load before = load_of(before_text, 5);
    struct ah_load after = load_of("cpu 2500 0 0 1500 0 0 0 0 0 0", 20);
    check_near(ah_load_others(&before, &after, 2), 0, 1e-12);
    assert_false(ah_load_noise(&before, &after, 2, "x", text, sizeof text));
}

TEST(load, others_and_steal_are_named)
{
    char text[160] = "";
    struct ah_load before = load_of(before_text, 0);
    struct ah_load after = load_of("cpu 1500 0 100 2400 0 0 0 0 0 0", 1);
    check_near(ah_load_others(&before, &after, 2), 0.5, 1e-12);
    assert_true(ah_load_noise(&before, &after, 2, "links", text, sizeof text));
    check_text_has(text, "links: ");
    check_text_has(text, "0.50 of 2 processors");

    after = load_of("cpu 1000 0 0 2950 0 0 0 50 0 0", 0);
    check_near(ah_load_stolen(&before, &after, 2), 0.05, 1e-12);
    assert_true(ah_load_noise(&before, &after, 2, "links", text, sizeof text));
    check_text_has(text, "hypervisor took 0.05");
}

TEST(load, short_windows_are_not_judged)
{
    char text[160] = "";
    struct ah_load before = load_of(before_text, 0);
    struct ah_load after = load_of("cpu 1040 0 0 1040 0 0 0 0 0 0", 0);
    assert_false(ah_load_noise(&before, &after, 2, "x", text, sizeof text));
    assert_false(ah_load_noise(&before, &before, 0, "x", text, sizeof text));
}

TEST(load, reads_this_machine)
{
    struct ah_load before;
    struct ah_load after;
    ah_load_read(&before);
    for (volatile unsigned i = 0; i < 3000000; i++)
        ;
    ah_load_read(&after);
    assert_true(after.own_s > before.own_s);
    assert_true(after.total_s >= before.total_s);
}

TEST(load, sentences_tell_of_a_disturbance)
{
    char text[160] = "";
    struct ah_load before = load_of(before_text, 0);
    struct ah_load after = load_of("cpu 1500 0 100 2400 0 0 0 20 0 0", 1);
    double taken = 0;
    unsigned processors = 0;
    assert_true(ah_load_noise(&before, &after, 2, "links", text, sizeof text));
    const char *const sentences[] = {"matmul: 3 of 8 spread by more than 3 % (MAD / median): nn 4 %",
                                     "memory: meanwhile other processes used 0.11 of 2 processors, the "
                                     "hypervisor took 0.00",
                                     text};
    assert_true(ah_load_disturbed(sentences, 3, &taken, &processors));
    check_near(taken, 0.51, 0.02);
    assert_int_equal(processors, 2);
    assert_false(ah_load_disturbed(sentences, 2, &taken, &processors));
    assert_false(ah_load_disturbed(NULL, 0, &taken, &processors));
}
