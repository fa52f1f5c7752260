/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests names made from processor models, the thread counts that are measured, and the sizes of arrays.
 */
#include "profiler/measure_internal.h"

#include "tests/support/check.h"

#include <string.h>

TEST(host, slugs_of_real_models)
{
    static const char *const models[][2] = {
        {"Intel(R) Xeon(R) Processor", "intel-xeon"},
        {"Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz", "intel-xeon-gold-6148"},
        {"AMD EPYC 7713 64-Core Processor", "amd-epyc-7713"},
        {"AMD Ryzen 9 7950X 16-Core Processor", "amd-ryzen-9-7950x"},
        {"13th Gen Intel(R) Core(TM) i7-13700K", "13th-intel-i7-13700k"},
        {"AMD Ryzen 7 PRO 8840U w/ Radeon 780M Graphics", "amd-ryzen-7-pro-8840u-w-780m"},
        {"Neoverse-N1", "neoverse-n1"},
        {"NVIDIA A100-SXM4-40GB", "nvidia-a100-sxm4-40gb"},
        {"unknown", "unknown"},
        {"", "unknown"},
        {"(R) @ 3GHz", "unknown"},
    };
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        char slug[64];
        ah_host_slug(models[i][0], slug, sizeof slug);
        assert_string_equal(slug, models[i][1]);
    }
}

TEST(host, slugs_end_at_a_word)
{
    char slug[12];
    ah_host_slug("Intel(R) Xeon(R) Platinum 8480C", slug, sizeof slug);
    assert_string_equal(slug, "intel-xeon");
    char word[300];
    memset(word, 'x', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    ah_host_slug(word, slug, sizeof slug);
    assert_true(strlen(slug) < sizeof slug);
}

TEST(host, thread_counts)
{
    static const struct {
        unsigned processors, most;
        unsigned expected[5]; /* ends with 0 */
    } cases[] = {
        {1, 4, {1}},          {2, 4, {1, 2}},         {3, 4, {1, 2, 3}},      {4, 4, {1, 2, 4}},
        {8, 4, {1, 2, 4, 8}}, {16, 4, {1, 4, 8, 16}}, {12, 4, {1, 4, 8, 12}}, {64, 2, {1, 64}},
        {64, 1, {1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ah_measure_limits limits = {.thread_counts = cases[i].most};
        const struct ah_measure measure = {.limits = &limits};
        unsigned counts[AH_MEASURE_COUNTS_MAX];
        size_t n = ah_measure_threads(&measure, cases[i].processors, counts);
        for (size_t j = 0; j < n; j++)
            assert_int_equal(counts[j], cases[i].expected[j]);
        assert_int_equal(n < 5 ? cases[i].expected[n] : 0, 0);
    }
}

TEST(host, arrays_fit_the_memory)
{
    struct ah_measure measure = {.available_bytes = UINT64_C(1) << 30};
    assert_int_equal(ah_measure_fit(&measure, 512 << 20), 64 << 20);
    assert_int_equal(ah_measure_fit(&measure, 10 << 20), 10 << 20);
    measure.available_bytes = 1 << 20;
    assert_int_equal(ah_measure_fit(&measure, 512 << 20), 1 << 20);
}
