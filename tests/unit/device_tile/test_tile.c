/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares kernels, bit for bit, with fmaf() in the order of operations in tile.h. The numbers are random, of many
 * sizes and partly denormal, and products take one step or several. Also tests stores of every width.
 */
#include "runtime/device/tile/tile.h"

#include "base/bf16.h"
#include "tests/support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = AH_TILE_WORDS };

struct fixture {
    uint64_t random;
    uint32_t a[AH_TILE_ROWS][WORDS];
    uint32_t b[WORDS][AH_TILE_COLUMNS];
    float sums[AH_TILE_SUMS];
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->random = check_seed(77);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

/* Returns a random number of either sign, of size 2^-low to 2. */
static float random_float(struct fixture *f, int low)
{
    float size =
        ldexpf((float)check_uniform(&f->random) + 1, -(int)(check_random(&f->random) % (unsigned)low));
    return check_random(&f->random) % 2 ? size : -size;
}

static uint32_t random_word(struct fixture *f, enum ah_dtype words, int low)
{
    float value = random_float(f, low);
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (words == AH_FP32)
        return bits;
    return (uint32_t)ah_bf16_from_fp32(random_float(f, low)) << 16 | ah_bf16_from_fp32(value);
}

static float flush(float value)
{
    return fpclassify(value) == FP_SUBNORMAL ? copysignf(0, value) : value;
}

static float as_float(uint32_t word)
{
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static float even(uint32_t word)
{
    return flush(as_float(word << 16));
}

static float odd(uint32_t word)
{
    return flush(as_float(word & 0xffff0000));
}

static float sum_fma(const struct fixture *f, size_t row, size_t column, float sum, uint64_t words)
{
    for (uint64_t w = 0; w < words; w++)
        sum = fmaf(as_float(f->a[row][w]), as_float(f->b[w][column]), sum);
    return sum;
}

static float sum_dot(const struct fixture *f, size_t row, size_t column, float sum, uint64_t words)
{
    for (uint64_t w = 0; w < words; w++) {
        sum = flush(fmaf(odd(f->a[row][w]), odd(f->b[w][column]), sum));
        sum = flush(fmaf(even(f->a[row][w]), even(f->b[w][column]), sum));
    }
    return sum;
}

static float sum_amx(const struct fixture *f, size_t row, size_t column, float sum, uint64_t words)
{
    for (uint64_t first = 0; first < words; first += 16) {
        float evens = 0, odds = 0;
        for (uint64_t w = first; w < first + 16; w++) {
            evens = flush(fmaf(even(f->a[row][w]), even(f->b[w][column]), evens));
            odds = flush(fmaf(odd(f->a[row][w]), odd(f->b[w][column]), odds));
        }
        sum = flush(sum + flush(evens + odds));
    }
    return sum;
}

typedef float sum_fn(const struct fixture *f, size_t row, size_t column, float sum, uint64_t words);

static sum_fn *sum_of(const struct ah_tile_kernel *kernel)
{
    if (kernel->words == AH_FP32)
        return sum_fma;
    return strcmp(kernel->name, "amx") == 0 ? sum_amx : sum_dot;
}

/* Checks a product with a random number of rows. It replaces `sums` if `is_first`, and otherwise adds to them. */
static void check_product(struct fixture *f, const struct ah_tile_kernel *kernel, bool is_first, int low)
{
    const uint64_t words = 16 * (1 + check_random(&f->random) % (WORDS / 16));
    const uint64_t rows = 1 + check_random(&f->random) % AH_TILE_ROWS;
    float before[AH_TILE_SUMS];
    memcpy(before, f->sums, sizeof before);
    for (size_t i = 0; i < (size_t)AH_TILE_ROWS * WORDS; i++)
        f->a[i / WORDS][i % WORDS] = random_word(f, kernel->words, low);
    for (size_t i = 0; i < (size_t)WORDS * AH_TILE_COLUMNS; i++)
        f->b[i / AH_TILE_COLUMNS][i % AH_TILE_COLUMNS] = random_word(f, kernel->words, low);
    const struct ah_tile_operands operands = {f->a, AH_TILE_ROW_BYTES, f->b, rows, words};
    if (kernel->begin)
        kernel->begin();
    kernel->multiply(f->sums, &operands, is_first);
    if (kernel->end)
        kernel->end();
    for (size_t i = 0; i < rows * AH_TILE_COLUMNS; i++) {
        float wanted =
            sum_of(kernel)(f, i / AH_TILE_COLUMNS, i % AH_TILE_COLUMNS, is_first ? 0 : before[i], words);
        if (memcmp(&wanted, &f->sums[i], sizeof wanted) != 0)
            fail_msg("%s: sum %zu of %llu words is %a, expected %a", kernel->name, i,
                     (unsigned long long)words, (double)f->sums[i], (double)wanted);
    }
}

TEST_IN(tile, adds_in_the_stated_order, setup, teardown)
{
    struct fixture *f = *state;
    for (enum ah_tile_level level = AH_TILE_PORTABLE; level <= ah_tile_detect(); level++)
        for (enum ah_dtype in = AH_FP32; in <= AH_BF16; in++)
            for (int i = 0; i < 6; i++) {
                const int low = i < 3 ? 10 : 148; /* the last three rounds have denormal numbers */
                check_product(f, ah_tile_kernel(level, in), true, low);
                check_product(f, ah_tile_kernel(level, in), false, low);
            }
}

static float get(const void *data, enum ah_dtype dtype, size_t i)
{
    return dtype == AH_FP32 ? ((const float *)data)[i] : ah_bf16_to_fp32(((const uint16_t *)data)[i]);
}

static void check_stored(struct fixture *f, const struct ah_tile_kernel *kernel,
                         const struct ah_tile_out *out)
{
    uint32_t before[AH_TILE_ROWS * 40];
    memcpy(before, out->c, sizeof before);
    kernel->store(f->sums, out);
    for (size_t i = 0; i < out->rows * out->stride; i++) {
        const size_t row = i / out->stride, column = i % out->stride;
        float wanted = get(before, out->dtype, i);
        if (column < out->columns) {
            float value = f->sums[row * AH_TILE_COLUMNS + column] * out->alpha;
            value = out->bias ? value + get(out->bias, out->bias_dtype, column) : value;
            value = out->accumulate ? value + wanted : value;
            wanted = out->dtype == AH_FP32 ? value : ah_bf16_to_fp32(ah_bf16_from_fp32(value));
        }
        float got = get(out->c, out->dtype, i);
        if (memcmp(&got, &wanted, sizeof got) != 0)
            fail_msg("%s: element (%zu, %zu) of %llu columns is %a, expected %a", kernel->name, row, column,
                     (unsigned long long)out->columns, (double)got, (double)wanted);
    }
}

TEST_IN(tile, stores_every_width, setup, teardown)
{
    struct fixture *f = *state;
    uint32_t c[AH_TILE_ROWS * 40];
    uint32_t bias[AH_TILE_COLUMNS];
    static const float alphas[] = {1, 0.5f, -3};
    for (int i = 0; i < 400; i++) {
        enum ah_tile_level level = (enum ah_tile_level)((unsigned)i % (ah_tile_detect() + 1u));
        const struct ah_tile_kernel *kernel =
            ah_tile_kernel(level, (enum ah_dtype)(check_random(&f->random) % 2));
        bool pairs = kernel->words == AH_BF16; /* sums of pairs are never denormal */
        struct ah_tile_out out = {
            .c = c,
            .dtype = (enum ah_dtype)(check_random(&f->random) % 2),
            .stride = AH_TILE_COLUMNS + check_random(&f->random) % 9,
            .bias = check_random(&f->random) % 2 ? bias : NULL,
            .bias_dtype = (enum ah_dtype)(check_random(&f->random) % 2),
            .rows = 1 + check_random(&f->random) % AH_TILE_ROWS,
            .columns = i % 3 ? AH_TILE_COLUMNS : 1 + check_random(&f->random) % AH_TILE_COLUMNS,
        };
        out.accumulate = check_random(&f->random) % 2;
        out.alpha = alphas[check_random(&f->random) % 3];
        for (size_t j = 0; j < AH_TILE_SUMS; j++)
            f->sums[j] = random_float(f, pairs ? 126 : 148);
        for (size_t j = 0; j < sizeof c / sizeof c[0]; j++)
            c[j] = random_word(f, out.dtype, 148);
        for (size_t j = 0; j < AH_TILE_COLUMNS; j++)
            bias[j] = random_word(f, out.bias_dtype, 148);
        check_stored(f, kernel, &out);
    }
}

/* As numerics.md says, NaNs become quiet and keep sign and upper payload. Infinities stay infinities. */
TEST_IN(tile, stores_what_is_no_number, setup, teardown)
{
    struct fixture *f = *state;
    static const uint32_t bits[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x7f812345, 0x7f7fffff};
    for (enum ah_tile_level level = AH_TILE_PORTABLE; level <= ah_tile_detect(); level++) {
        uint16_t c[AH_TILE_COLUMNS];
        const struct ah_tile_out out = {
            .c = c, .dtype = AH_BF16, .stride = 32, .alpha = 1, .rows = 1, .columns = 32};
        for (size_t i = 0; i < AH_TILE_COLUMNS; i++)
            memcpy(&f->sums[i], &bits[i % 6], sizeof bits[0]);
        ah_tile_kernel(level, AH_BF16)->store(f->sums, &out);
        for (size_t i = 0; i < AH_TILE_COLUMNS; i++)
            assert_int_equal(c[i], ah_bf16_from_fp32(f->sums[i]));
    }
}
