/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests choosing algorithms for products, on a device (fake_device.h) with a known speed for each algorithm.
 */
#include "runtime/device/algorithm.h"
#include "runtime/schedule/products.h"
#include "tests/unit/profiler/profile_case.h"

#include <stdlib.h>

static const struct ah_plan_training usual = {.batch = 4, .micro_batches = 2, .seq = 64, .dtype = AH_BF16};

/* Profiles a device with this rate of bf16 products. */
static void open_case(struct profile_case *c, double flops_per_s, const double offers[FAKE_OFFERS_MAX])
{
    struct fake_rates rates = {.kind = AH_DEVICE_CUDA, .library = "fake 1.0"};
    rates.matmul_flops_per_s[AH_FP32] = 5e10;
    rates.matmul_flops_per_s[AH_BF16] = flops_per_s;
    memcpy(rates.offers, offers, sizeof rates.offers);
    profile_case_open(c, "tiny", usual, &rates);
}

/* Returns the number of the chosen algorithm, and checks that all products of the job have it. */
static unsigned chosen(struct profile_case *c)
{
    const struct ah_algorithms *algorithms = c->document.body.machine->algorithms;
    struct ah_algorithm *products = NULL;
    char digits[17] = {0};
    size_t n = 0;
    CHECK_OK(ah_products_list(&c->job.job, &c->job.arena, &products, &n, &c->err), c->err);
    assert_true(n > 8);
    for (size_t i = 0; i < n; i++) {
        const struct ah_algorithm *entry = ah_algorithms_find(algorithms, &products[i]);
        assert_non_null(entry);
        if (i > 0)
            assert_string_equal(entry->words, algorithms->products[0].words);
    }
    memcpy(digits, algorithms->products[0].words, 16);
    return (unsigned)strtoul(digits, NULL, 16);
}

TEST(algorithms, the_fastest_is_chosen)
{
    static const struct {
        double offers[FAKE_OFFERS_MAX];
        unsigned best;
    } cases[] = {
        {{1, 1.5, 2, 1.2}, 2},
        {{1, 1.019, 0.5, 0}, 0}, /* algorithm 1 is not fast enough */
        {{1, 1.03, 0, 0}, 1},
        {{1, 0, 0, 0}, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct profile_case c;
        open_case(&c, 5e10, cases[i].offers);
        assert_string_equal(c.document.body.machine->algorithms->library, "fake 1.0");
        assert_int_equal(c.document.body.machine->algorithms->n_products, 0);
        CHECK_OK(profile_case_extend(&c), c.err);
        assert_int_equal(chosen(&c), cases[i].best);
        const struct ah_algorithm *entry = &c.document.body.machine->algorithms->products[0];
        check_near(entry->first_us->median / entry->us->median, cases[i].offers[cases[i].best], 0.01);
        profile_case_close(&c);
    }
}

/* A second measurement, even for another model, changes no choice. With another library, products are chosen anew. */
TEST(algorithms, stay_once_chosen)
{
    struct profile_case c;
    struct ah_plan_training longer = usual;
    open_case(&c, 5e10, (const double[FAKE_OFFERS_MAX]){1, 2, 0, 0});
    CHECK_OK(profile_case_extend(&c), c.err);
    size_t n = c.document.body.machine->algorithms->n_products;
    c.rates.offers[2] = 8;
    CHECK_OK(profile_case_extend(&c), c.err);
    assert_int_equal(chosen(&c), 1);
    assert_int_equal(c.document.body.machine->algorithms->n_products, n);

    test_job_close(&c.job);
    longer.seq = 80;
    test_job_open(&c.job, "tiny", longer);
    CHECK_OK(profile_case_extend(&c), c.err);
    assert_true(c.document.body.machine->algorithms->n_products > n);

    c.rates.library = "fake 2.0";
    CHECK_OK(profile_case_extend(&c), c.err);
    assert_string_equal(c.document.body.machine->algorithms->library, "fake 2.0");
    assert_int_equal(chosen(&c), 2);
    profile_case_close(&c);
}

/* Blocks are measured with the chosen algorithms. */
TEST(algorithms, are_what_blocks_take)
{
    struct profile_case slow, fast;
    open_case(&slow, 1e9, (const double[FAKE_OFFERS_MAX]){1, 0, 0, 0});
    CHECK_OK(profile_case_extend(&slow), slow.err);
    double slow_us = slow.document.body.machine->blocks[1].forward_us.median;
    profile_case_close(&slow);
    open_case(&fast, 1e9, (const double[FAKE_OFFERS_MAX]){1, 4, 0, 0});
    CHECK_OK(profile_case_extend(&fast), fast.err);
    check_near(slow_us / fast.document.body.machine->blocks[1].forward_us.median, 4, 0.1);
    profile_case_close(&fast);
}

/* Printing and reading the document keeps the table. */
TEST(algorithms, stand_in_the_document)
{
    struct profile_case c;
    struct ah_buffer text = {0};
    struct ah_document again = {0};
    struct ah_device_options options = {0};
    char before[AH_SHA256_HEX_MAX], after[AH_SHA256_HEX_MAX];
    open_case(&c, 5e10, (const double[FAKE_OFFERS_MAX]){1, 2, 0, 0});
    CHECK_OK(profile_case_extend(&c), c.err);
    CHECK_OK(ah_document_print(&c.document, &text, &c.err), c.err);
    CHECK_OK(ah_document_parse(&again, "machine.json", text.data, text.size, AH_DOCUMENT_MACHINE, &c.err),
             c.err);
    ah_algorithms_digest(c.document.body.machine->algorithms, before);
    ah_algorithms_digest(again.body.machine->algorithms, after);
    assert_string_equal(before, after);
    CHECK_OK(ah_device_algorithm_table(again.body.machine->algorithms, &again.arena, &options, &c.err),
             c.err);
    assert_string_equal(options.library, "fake 1.0");
    assert_int_equal(options.n_algorithms, again.body.machine->algorithms->n_products);
    assert_int_equal(options.algorithms[0].words[0], 1);
    assert_int_equal(options.algorithms[0].words[1], 0xabcdef);
    ah_document_release(&again);
    ah_buffer_release(&text);
    profile_case_close(&c);
}

/* A device without a library has no table. */
TEST(algorithms, need_a_library)
{
    struct profile_case c;
    open_case(&c, 5e10, (const double[FAKE_OFFERS_MAX]){1, 2, 0, 0});
    ah_document_release(&c.document);
    c.rates.library = NULL;
    CHECK_OK(ah_profiler_run_within(&c.document, &c.options, &profile_case_limits, &c.err), c.err);
    CHECK_OK(profile_case_extend(&c), c.err);
    assert_null(c.document.body.machine->algorithms);
    profile_case_close(&c);
}
