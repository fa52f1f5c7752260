/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the canonical reduction against its definition as a recursion, and against exact sums.
 */
#include "runtime/device/host/reduce.h"

#include "base/bf16.h"
#include "base/pool.h"
#include "tests/support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 16, ROWS = AH_REDUCE_LEAF / LANES };

static float term(const struct ah_reduce_input *in, uint64_t i)
{
    if (i >= in->count)
        return 0.0f;
    volatile float x = in->dtype == AH_BF16 ? ah_bf16_to_fp32(((const uint16_t *)in->data)[i])
                                            : ((const float *)in->data)[i];
    volatile float square = x * x;
    return in->kind == AH_REDUCE_SUM_SQUARES ? square : x;
}

/* Returns the sum of rows [row, row + rows) of one lane of a leaf, computed as the sum of both halves' sums. */
static float lane_sum(const struct ah_reduce_input *in, uint64_t leaf, uint64_t lane, uint64_t row,
                      uint64_t rows)
{
    if (rows == 1)
        return term(in, leaf * AH_REDUCE_LEAF + row * LANES + lane);
    volatile float sum =
        lane_sum(in, leaf, lane, row, rows / 2) + lane_sum(in, leaf, lane, row + rows / 2, rows / 2);
    return sum;
}

static float leaf_sum(const struct ah_reduce_input *in, uint64_t leaf)
{
    float lanes[LANES];
    for (uint64_t l = 0; l < LANES; l++)
        lanes[l] = lane_sum(in, leaf, l, 0, ROWS);
    for (int half = LANES / 2; half; half /= 2)
        for (int l = 0; l < half; l++) {
            volatile float sum = lanes[l] + lanes[l + half];
            lanes[l] = sum;
        }
    return lanes[0];
}

static double defined(const struct ah_reduce_input *in)
{
    double total = 0.0;
    for (uint64_t first = 0; first < in->count; first += AH_REDUCE_LEAF)
        total += (double)leaf_sum(in, first / AH_REDUCE_LEAF);
    return total;
}

static void same_double(double got, double expected)
{
    if (memcmp(&got, &expected, sizeof got) && !(isnan(got) && isnan(expected)))
        fail_msg("%a, expected %a", got, expected);
}

/* Fills with numbers of very different size, so that a different order of adding gives a different sum. */
static void fill(void *data, enum ah_dtype dtype, uint64_t n, uint64_t *random)
{
    for (uint64_t i = 0; i < n; i++) {
        float x = (float)ldexp(check_uniform(random) - 0.5, (int)(check_random(random) % 24));
        if (dtype == AH_BF16)
            ((uint16_t *)data)[i] = ah_bf16_from_fp32(x);
        else
            ((float *)data)[i] = x;
    }
}

TEST(reduce, equals_its_definition_on_every_instruction_set)
{
    static const uint64_t counts[] = {0, 1, 15, 16, 17, 127, 4095, 4096, 4097, 3 * 4096 + 5, 8 * 4096};
    static float data[8 * AH_REDUCE_LEAF + 1];
    uint64_t random = check_seed(51);
    const enum ah_isa best = ah_isa_detect();
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (int number = 0; number < 4; number++) {
            enum ah_dtype dtype = (enum ah_dtype)(number & 1);
            /* The input begins at the second element, so no vector is aligned. */
            char *begin = (char *)data + (dtype == AH_BF16 ? 2 : 4);
            struct ah_reduce_input in = {begin, dtype, (enum ah_reduce_kind)(number >> 1), counts[c]};
            fill(begin, dtype, counts[c], &random);
            double expected = defined(&in);
            for (enum ah_isa isa = AH_ISA_PORTABLE; isa <= best; isa++)
                same_double(ah_reduce_run(isa, NULL, &in, 0.0), expected);
        }
}

TEST(reduce, infinities_nans_and_denormals)
{
    static float data[AH_REDUCE_LEAF];
    struct ah_reduce_input in = {data, AH_FP32, AH_REDUCE_SUM, AH_REDUCE_LEAF};
    const enum ah_isa best = ah_isa_detect();
    for (int i = 0; i < AH_REDUCE_LEAF; i++)
        data[i] = 0x1p-149f;
    for (enum ah_isa isa = AH_ISA_PORTABLE; isa <= best; isa++)
        same_double(ah_reduce_run(isa, NULL, &in, 0.0), 4096 * 0x1p-149);
    data[77] = INFINITY;
    for (enum ah_isa isa = AH_ISA_PORTABLE; isa <= best; isa++)
        same_double(ah_reduce_run(isa, NULL, &in, 0.0), (double)INFINITY);
    data[4000] = NAN;
    for (enum ah_isa isa = AH_ISA_PORTABLE; isa <= best; isa++)
        assert_true(isnan(ah_reduce_run(isa, NULL, &in, 0.0)));
}

/* Sums more leaves than fit a window, in any ranges and on any number of threads. */
TEST(reduce, threads_and_ranges_change_nothing)
{
    const uint64_t count = 9000ull * AH_REDUCE_LEAF + 33, leaves = ah_reduce_leaf_count(count);
    uint64_t random = check_seed(52);
    uint16_t *data = malloc(count * sizeof *data);
    float *sums = malloc(leaves * sizeof *sums);
    struct ah_reduce_input in = {data, AH_BF16, AH_REDUCE_SUM_SQUARES, count};
    const enum ah_isa best = ah_isa_detect();
    assert_non_null(data);
    assert_non_null(sums);
    for (uint64_t i = 0; i < count; i++)
        data[i] = (uint16_t)(0x3c00 + (check_random(&random) & 0x83ff));
    double alone = ah_reduce_run(best, NULL, &in, 0.0);
    for (unsigned threads = 2; threads <= 3; threads++) {
        struct ah_pool *pool;
        struct ah_error err;
        CHECK_OK(ah_pool_new(&pool, &(struct ah_pool_options){.threads = threads}, &err), err);
        same_double(ah_reduce_run(best, pool, &in, 0.0), alone);
        ah_pool_free(pool);
    }
    for (uint64_t end = leaves, begin; end; end = begin) {
        begin = end > 777 ? end - 777 : 0;
        ah_reduce_leaves(best, &in, begin, end, sums + begin);
    }
    same_double(ah_reduce_add(ah_reduce_add(0.0, sums, 100), sums + 100, leaves - 100), alone);
    const uint64_t cut = 8500ull * AH_REDUCE_LEAF;
    struct ah_reduce_input head = in, tail = in;
    head.count = cut;
    tail.data = data + cut;
    tail.count = count - cut;
    same_double(ah_reduce_run(best, NULL, &tail, ah_reduce_run(best, NULL, &head, 0.0)), alone);
    free(sums);
    free(data);
}

/* Pairwise summation of 4096 terms errs by no more than 12 rounding errors of the sum of magnitudes. */
TEST(reduce, is_close_to_the_exact_sum)
{
    static float data[20000];
    uint64_t random = check_seed(53);
    struct ah_reduce_input in = {data, AH_FP32, AH_REDUCE_SUM, 20000};
    long double exact = 0, magnitude = 0;
    fill(data, AH_FP32, 20000, &random);
    for (int i = 0; i < 20000; i++) {
        exact += (long double)data[i];
        magnitude += (long double)fabsf(data[i]);
    }
    double got = ah_reduce_run(ah_isa_detect(), NULL, &in, 0.0);
    assert_true(fabsl((long double)got - exact) <= 12 * 0x1p-24L * magnitude);
}
