/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests casts, sums and copies against code for one element, on every instruction set of this processor.
 */
#include "runtime/device/host/convert.h"

#include "base/bf16.h"
#include "tests/support/check.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { N = 300, EDGE = 16, WIDTH = 1100, ROWS = 150 };

/* Returns the bf16 nearest to x, by comparing both neighbours in double. x is no NaN. */
static uint16_t nearest_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint16_t down = (uint16_t)(bits >> 16), up = (uint16_t)(down + 1);
    if (isinf(x) || !(bits & 0xffff))
        return down;
    double low = fabs((double)ah_bf16_to_fp32(down)), high = fabs((double)ah_bf16_to_fp32(up));
    if ((up & 0x7fff) == 0x7f80)
        high = 0x1p128; /* infinity counts as this value */
    double to_low = fabs((double)x) - low, to_high = high - fabs((double)x);
    if (to_low == to_high)
        return down & 1 ? up : down;
    return to_low < to_high ? down : up;
}

static float any_float(uint64_t *random)
{
    static const uint32_t edges[] = {0x00000000, 0x80000000, 0x00000001, 0x00008000, 0x00018000,
                                     0x007fffff, 0x7f7fffff, 0x7f7f7fff, 0x7f7f8000, 0x7f800000,
                                     0xff800000, 0x7f800001, 0xffc12345, 0x3f808000, 0x3f818000};
    uint64_t r = check_random(random);
    uint32_t bits = r & 3 ? (uint32_t)(r >> 16) : edges[(r >> 8) % (sizeof edges / sizeof *edges)];
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float get(const void *data, enum ah_dtype dtype, uint64_t i)
{
    return dtype == AH_BF16 ? ah_bf16_to_fp32(((const uint16_t *)data)[i]) : ((const float *)data)[i];
}

static void put(void *data, enum ah_dtype dtype, uint64_t i, float x)
{
    if (dtype == AH_BF16)
        ((uint16_t *)data)[i] = isnan(x) ? (uint16_t)(ah_bf16_from_fp32(x) | 0x40) : nearest_bf16(x);
    else
        ((float *)data)[i] = x;
}

static void fill_any(void *data, enum ah_dtype dtype, uint64_t n, uint64_t *random)
{
    for (uint64_t i = 0; i < n; i++)
        put(data, dtype, i, any_float(random));
}

static void same(const char *what, const void *got, const void *expected, enum ah_dtype dtype, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        float x = get(got, dtype, i), y = get(expected, dtype, i);
        if (memcmp(&x, &y, sizeof x) && !(isnan(x) && isnan(y)))
            fail_msg("%s[%u]: %a, expected %a", what, (unsigned)i, (double)x, (double)y);
    }
}

/* Returns a random range within the N elements, often a small one. */
static void any_range(uint64_t *random, uint64_t *ret_begin, uint64_t *ret_end)
{
    uint64_t most = check_random(random) % 3 ? 70 : N;
    *ret_begin = check_random(random) % EDGE;
    *ret_end = *ret_begin + check_random(random) % (most - EDGE);
}

TEST(convert, cast_rounds_to_nearest_even)
{
    uint64_t random = check_seed(61), begin, end;
    const enum ah_isa best = ah_isa_detect();
    for (int round = 0; round < 4000; round++) {
        enum ah_dtype to = (enum ah_dtype)(round & 1), from = (enum ah_dtype)(round >> 1 & 1);
        float src[N], got[N], expected[N];
        enum ah_isa isa = (enum ah_isa)(check_random(&random) % ((uint64_t)best + 1));
        any_range(&random, &begin, &end);
        fill_any(src, from, N, &random);
        memset(got, 0x11, sizeof got);
        memcpy(expected, got, sizeof got);
        for (uint64_t i = begin; i < end; i++)
            put(expected, to, i, get(src, from, i));
        ah_convert_cast(isa, (struct ah_convert_out){got, to}, (struct ah_convert_in){src, from}, begin, end);
        same("cast", got, expected, to, N);
        if (to == AH_BF16 && from == AH_FP32) {
            memset(got, 0x11, sizeof got);
            ah_convert_stream_bf16(isa, (uint16_t *)(void *)got, src, begin, end);
            same("streamed cast", got, expected, to, N);
        }
    }
}

/* Widening is exact for all 65536 patterns, and narrowing gives the pattern back. NaNs become quiet. */
TEST(convert, every_bf16_survives)
{
    static uint16_t all[1 << 16], back[1 << 16];
    static float wide[1 << 16];
    const enum ah_isa best = ah_isa_detect();
    for (uint32_t i = 0; i < 1 << 16; i++)
        all[i] = (uint16_t)i;
    for (enum ah_isa isa = AH_ISA_PORTABLE; isa <= best; isa++) {
        ah_convert_cast(isa, (struct ah_convert_out){wide, AH_FP32}, (struct ah_convert_in){all, AH_BF16}, 0,
                        1 << 16);
        ah_convert_cast(isa, (struct ah_convert_out){back, AH_BF16}, (struct ah_convert_in){wide, AH_FP32}, 0,
                        1 << 16);
        for (uint32_t i = 0; i < 1 << 16; i++)
            assert_int_equal(back[i], (i & 0x7fff) > 0x7f80 ? i | 0x40 : i);
    }
}

TEST(convert, add_rounds_once)
{
    uint64_t random = check_seed(62), begin, end;
    const enum ah_isa best = ah_isa_detect();
    for (int round = 0; round < 4000; round++) {
        enum ah_dtype to = (enum ah_dtype)(round & 1), of_a = (enum ah_dtype)(round >> 1 & 1);
        enum ah_dtype of_b = (enum ah_dtype)(round >> 2 & 1);
        float a[N], b[N], got[N], expected[N];
        enum ah_isa isa = (enum ah_isa)(check_random(&random) % ((uint64_t)best + 1));
        bool in_place = to == of_a && (round & 8);
        any_range(&random, &begin, &end);
        fill_any(a, of_a, N, &random);
        fill_any(b, of_b, N, &random);
        memcpy(got, a, sizeof got);
        memcpy(expected, a, sizeof got);
        for (uint64_t i = begin; i < end; i++) {
            volatile float sum = get(a, of_a, i) + get(b, of_b, i);
            put(expected, to, i, sum);
        }
        ah_convert_add(isa, (struct ah_convert_out){got, to},
                       (struct ah_convert_in){in_place ? got : a, of_a}, (struct ah_convert_in){b, of_b},
                       begin, end);
        same("add", got, expected, to, N);
    }
}

TEST(convert, fill_and_scale)
{
    uint64_t random = check_seed(63), begin, end;
    const enum ah_isa best = ah_isa_detect();
    for (int round = 0; round < 400; round++) {
        enum ah_dtype dtype = (enum ah_dtype)(round & 1);
        float got[N], expected[N], x = any_float(&random);
        any_range(&random, &begin, &end);
        fill_any(got, dtype, N, &random);
        memcpy(expected, got, sizeof got);
        for (uint64_t i = begin; i < end; i++)
            put(expected, dtype, i, x);
        ah_convert_fill((struct ah_convert_out){got, dtype}, x, begin, end);
        same("fill", got, expected, dtype, N);
        for (enum ah_isa isa = AH_ISA_PORTABLE; isa <= best; isa++) {
            fill_any(got, AH_FP32, N, &random);
            memcpy(expected, got, sizeof got);
            for (uint64_t i = begin; i < end; i++)
                expected[i] *= x;
            ah_convert_scale(isa, got, x, begin, end);
            same("scale", got, expected, AH_FP32, N);
        }
    }
}

static float column(const struct ah_convert_matrix *matrix, uint64_t c)
{
    volatile float total = 0.0f;
    for (uint64_t r = 0; r < matrix->rows; r += AH_CONVERT_COLUMN_GROUP) {
        volatile float group = 0.0f;
        for (uint64_t i = r; i < r + AH_CONVERT_COLUMN_GROUP && i < matrix->rows; i++)
            group += get(matrix->src.data, matrix->src.dtype, i * matrix->stride + c);
        total += group;
    }
    return total;
}

TEST(convert, column_sums_in_any_split)
{
    static float src[ROWS * WIDTH], got[WIDTH], expected[WIDTH];
    static const uint64_t rows[] = {0, 1, 63, 64, 65, 128, ROWS};
    uint64_t random = check_seed(64);
    const enum ah_isa best = ah_isa_detect();
    for (int round = 0; round < 28; round++) {
        const uint64_t width = round < 14 ? WIDTH - 5 : 37;
        enum ah_dtype from = (enum ah_dtype)(round & 1), to = (enum ah_dtype)(round >> 1 & 1);
        struct ah_convert_matrix matrix = {{src, from}, rows[round % 7], width + (uint64_t)(round % 3)};
        for (uint64_t i = 0; i < matrix.rows * matrix.stride; i++)
            put(src, from, i, (float)ldexp(check_uniform(&random) - 0.5, (int)(check_random(&random) % 20)));
        for (uint64_t c = 0; c < width; c++)
            put(expected, to, c, column(&matrix, c));
        for (enum ah_isa isa = AH_ISA_PORTABLE; isa <= best; isa++) {
            memset(got, 0, sizeof got);
            for (uint64_t c = 0, stop; c < width; c = stop) {
                stop = c + 1 + check_random(&random) % 700;
                stop = stop < width ? stop : width;
                ah_convert_column_sum(isa, (struct ah_convert_out){got, to}, &matrix, c, stop);
            }
            same("column sum", got, expected, to, width);
        }
    }
}

/* Copies, small and streamed, with every alignment of both ends. No byte outside the copy is written. */
TEST(convert, copy_at_any_alignment)
{
    const size_t room = AH_CONVERT_STREAM_BYTES + 4096;
    unsigned char *src = malloc(room), *dst = malloc(room);
    uint64_t random = check_seed(65);
    const enum ah_isa best = ah_isa_detect();
    assert_non_null(src);
    assert_non_null(dst);
    for (size_t i = 0; i < room; i++)
        src[i] = (unsigned char)check_random(&random);
    for (int round = 0; round < 300; round++) {
        size_t to = check_random(&random) % 130, from = check_random(&random) % 130;
        size_t bytes = check_random(&random) % 700 + (round % 2 ? AH_CONVERT_STREAM_BYTES : 0);
        enum ah_isa isa = (enum ah_isa)(check_random(&random) % ((uint64_t)best + 1));
        memset(dst, 0xee, room);
        ah_convert_copy(isa, dst + to, src + from, bytes);
        assert_memory_equal(dst + to, src + from, bytes);
        for (size_t i = 0; i < to; i++)
            assert_int_equal(dst[i], 0xee);
        for (size_t i = to + bytes; i < to + bytes + 256; i++)
            assert_int_equal(dst[i], 0xee);
    }
    free(dst);
    free(src);
}
