/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests converting entries of algorithm tables to ops and back.
 */
#include "runtime/device/algorithm.h"
#include "tests/support/check.h"

#include <string.h>

static struct ah_op product(enum ah_matmul_form form, enum ah_epilogue epilogue)
{
    struct ah_op op = {.kind = AH_OP_MATMUL};
    for (uint32_t i = 0; i < 3; i++)
        op.arg[i] = (struct ah_ref){AH_ARENA_DEVICE, AH_BF16, 64 * i, 0};
    if (epilogue != AH_EPILOGUE_NONE)
        op.arg[3] = (struct ah_ref){AH_ARENA_DEVICE, AH_BF16, 512, 0};
    op.u.matmul = (struct ah_op_matmul){.form = form, .epilogue = epilogue, .m = 4, .n = 8, .k = 16};
    return op;
}

static void check_strides(enum ah_matmul_form form, uint64_t a, uint64_t b)
{
    struct ah_op op = product(form, AH_EPILOGUE_NONE);
    struct ah_algorithm entry;
    assert_true(ah_device_algorithm_entry(&op, &entry));
    assert_int_equal(entry.a_stride, a);
    assert_int_equal(entry.b_stride, b);
    assert_int_equal(entry.c_stride, 8);
    op.arg[1].row_stride = a; /* the stride of dense rows, given explicitly */
    struct ah_algorithm same;
    assert_true(ah_device_algorithm_entry(&op, &same));
    assert_true(ah_algorithm_same_product(&entry, &same));
    op.arg[0].row_stride = 100;
    assert_true(ah_device_algorithm_entry(&op, &same));
    assert_int_equal(same.c_stride, 100);
    assert_false(ah_algorithm_same_product(&entry, &same));
}

TEST(algorithm, strides_are_those_of_rows)
{
    check_strides(AH_MATMUL_NN, 16, 8);
    check_strides(AH_MATMUL_NT, 16, 16);
    check_strides(AH_MATMUL_TN, 4, 8);
}

TEST(algorithm, comes_back)
{
    for (uint32_t i = 0; i < 24; i++) {
        struct ah_op op =
            product((enum ah_matmul_form)(i % 3), i / 3 % 2 ? AH_EPILOGUE_BIAS : AH_EPILOGUE_NONE);
        struct ah_operand operands[AH_OP_ARGS];
        struct ah_error err = {0};
        struct ah_algorithm entry, again;
        op.u.matmul.accumulate = i / 6 % 2;
        op.arg[0].dtype = i / 6 % 2 ? AH_FP32 : AH_BF16;
        op.arg[3].dtype = op.arg[0].dtype;
        op.arg[2].row_stride = i / 12 ? 200 : 0;
        assert_true(ah_device_algorithm_entry(&op, &entry));
        struct ah_op back = ah_device_algorithm_op(&entry);
        CHECK_OK(ah_op_operands(&back, operands, &err), err);
        assert_true(ah_device_algorithm_entry(&back, &again));
        assert_true(ah_algorithm_same_product(&entry, &again));
        assert_int_equal(again.bias, i / 3 % 2);
        assert_int_equal(again.accumulate, i / 6 % 2);
    }
}

TEST(algorithm, is_not_of_every_op)
{
    struct ah_op op = {.kind = AH_OP_COPY};
    struct ah_algorithm entry;
    assert_false(ah_device_algorithm_entry(&op, &entry));
    op = product(AH_MATMUL_NN, AH_EPILOGUE_BIAS_GELU);
    assert_false(ah_device_algorithm_entry(&op, &entry));
    op = product(AH_MATMUL_NN, AH_EPILOGUE_BIAS);
    op.arg[3].dtype = AH_FP32;
    assert_false(ah_device_algorithm_entry(&op, &entry));
}

TEST(algorithm, words_come_back)
{
    const uint64_t words[AH_ALGORITHM_WORDS] = {0, 1, UINT64_MAX, UINT64_C(0x0123456789abcdef), 4, 5, 6, 1};
    char digits[AH_ALGORITHM_DIGITS + 1];
    struct ah_arena arena = {0};
    struct ah_device_options options = {0};
    struct ah_error err = {0};
    ah_device_algorithm_print(words, digits);
    assert_int_equal(strlen(digits), AH_ALGORITHM_DIGITS);
    assert_memory_equal(digits + 48, "0123456789abcdef", 16);
    struct ah_algorithm entry = {
        .m = 1, .n = 2, .k = 3, .a_stride = 3, .b_stride = 2, .c_stride = 2, .words = digits};
    const struct ah_algorithms table = {.library = "fake 1.0", .products = &entry, .n_products = 1};
    CHECK_OK(ah_device_algorithm_table(NULL, &arena, &options, &err), err);
    assert_null(options.library);
    CHECK_OK(ah_device_algorithm_table(&table, &arena, &options, &err), err);
    assert_string_equal(options.library, "fake 1.0");
    assert_int_equal(options.n_algorithms, 1);
    assert_memory_equal(options.algorithms[0].words, words, sizeof words);
    ah_arena_release(&arena);
}

/* The digest covers the library and the choices, but no times. */
TEST(algorithm, digest_is_of_what_decides_bits)
{
    struct ah_metric *us = (struct ah_metric *)(uintptr_t)8;
    struct ah_algorithm entry = {.m = 1, .n = 2, .k = 3, .words = "0a"};
    struct ah_algorithms table = {.library = "fake 1.0", .products = &entry, .n_products = 1};
    char digests[7][AH_SHA256_HEX_MAX];
    ah_algorithms_digest(&table, digests[0]);
    entry.us = us;
    ah_algorithms_digest(&table, digests[1]);
    assert_string_equal(digests[0], digests[1]);
    entry.words = "0b";
    ah_algorithms_digest(&table, digests[1]);
    entry.accumulate = true;
    ah_algorithms_digest(&table, digests[2]);
    entry.b_stride = 9;
    ah_algorithms_digest(&table, digests[3]);
    table.library = "fake 1.1";
    ah_algorithms_digest(&table, digests[4]);
    table.n_products = 0;
    ah_algorithms_digest(&table, digests[5]);
    for (size_t i = 0; i < 6; i++)
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(digests[i], digests[j]);
}
