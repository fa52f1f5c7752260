/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that a job's list has each product of the job's programs exactly once, and the selection from a table.
 */
#include "runtime/device/algorithm.h"
#include "runtime/schedule/products.h"
#include "runtime/schedule/program.h"
#include "schemas/machine.h"
#include "tests/property/schedule/jobs.h"

static const struct ah_plan_training usual = {.batch = 4, .micro_batches = 2, .seq = 256, .dtype = AH_BF16};

static size_t count(const struct ah_algorithm *products, size_t n, const struct ah_algorithm *wanted)
{
    size_t times = 0;
    for (size_t i = 0; i < n; i++)
        times += ah_algorithm_same_product(&products[i], wanted);
    return times;
}

/* Checks that every product of one program is listed, and returns their number. */
static size_t check_program(const struct ah_program *program, const struct ah_algorithm *products, size_t n)
{
    size_t found = 0;
    for (size_t i = 0; i < program->n_ops; i++) {
        struct ah_algorithm entry;
        if (!ah_device_algorithm_entry(&program->ops[i].op, &entry))
            continue;
        assert_int_equal(count(products, n, &entry), 1);
        found++;
        if (program->ops[i].first_writes) {
            entry.accumulate = false;
            assert_int_equal(count(products, n, &entry), 1);
        }
    }
    return found;
}

TEST(products, are_those_of_the_programs)
{
    for (size_t m = 0; m < TEST_MODELS; m++) {
        struct test_job j;
        struct ah_program program;
        struct ah_error err = {0};
        struct ah_algorithm *products = NULL;
        size_t n = 0, found = 0;
        test_job_open(&j, test_models[m], usual);
        CHECK_OK(ah_products_list(&j.job, &j.arena, &products, &n, &err), err);
        for (size_t g = 0; g < j.job.n_groups; g++)
            for (int pass = 0; pass < 2; pass++)
                for (int way = 0; way < AH_ACTIVATIONS_WAYS; way++) {
                    CHECK_OK(ah_program_build(&j.job, &j.job.groups[g], (enum ah_pass)pass,
                                              (enum ah_activations)way, &program, &err),
                             err);
                    found += check_program(&program, products, n);
                }
        assert_true(n >= 10 && found > n);
        test_job_close(&j);
    }
}

/* The table has half of the job's products, other entries, and times. Selecting gives that half, without times. */
TEST(products, are_selected_from_a_table)
{
    static struct ah_metric us = {.n = 1, .median = 2, .min = 2, .max = 2};
    struct test_job j;
    struct ah_error err = {0};
    struct ah_algorithm *products = NULL, *table;
    struct ah_algorithms *selected = NULL;
    size_t n = 0;
    test_job_open(&j, "gpt2-124m", usual);
    CHECK_OK(ah_products_select(&j.job, NULL, &j.arena, &selected, &err), err);
    assert_null(selected);

    CHECK_OK(ah_products_list(&j.job, &j.arena, &products, &n, &err), err);
    table = ah_arena_array(&j.arena, n + 1, sizeof *table);
    assert_non_null(table);
    struct ah_algorithms algorithms = {.library = "fake 1.0", .products = table};
    table[algorithms.n_products++] = (struct ah_algorithm){.m = 1, .n = 1, .k = 1, .words = "1"};
    for (size_t i = n; i-- > n / 2;) {
        struct ah_algorithm *entry = &table[algorithms.n_products++];
        *entry = products[i];
        entry->words = "2";
        entry->us = entry->first_us = &us;
    }
    CHECK_OK(ah_products_select(&j.job, &algorithms, &j.arena, &selected, &err), err);
    assert_string_equal(selected->library, "fake 1.0");
    assert_int_equal(selected->n_products, n - n / 2);
    for (size_t i = 0; i < selected->n_products; i++) {
        assert_true(ah_algorithm_same_product(&selected->products[i], &products[n - 1 - i]));
        assert_string_equal(selected->products[i].words, "2");
        assert_null(selected->products[i].us);
        assert_null(selected->products[i].first_us);
    }
    test_job_close(&j);
}
