/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests matrix products of random shapes, forms, types, strides and instruction sets. Every element of c equals
 * sequential fused multiply-adds, within the rounding of its sum. If the kernel uses that order, it is equal bit for
 * bit. Bits are equal for 1 to 4 threads. Gaps between rows stay as they are. They contain NaN, so that using a gap
 * spoils the result. Operands end where their memory ends.
 */
#include "runtime/device/cpu/matmul.h"

#include "base/bf16.h"
#include "tests/support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_THREAD__)
enum { CASES = 10 };
#else
enum { CASES = 150 };
#endif
enum { THREADS = 4 };

/* Rows of `width` elements, `stride` apart. */
struct matrix {
    unsigned char *data;
    size_t bytes;
    enum ah_dtype dtype;
    uint64_t rows, width, stride;
};

struct product {
    struct ah_matmul_shape shape;
    enum ah_tile_level level;
    struct matrix a, b, bias;
    struct matrix before; /* c before the product */
};

static float get(const struct matrix *matrix, uint64_t row, uint64_t column)
{
    const void *data = matrix->data;
    uint64_t i = row * matrix->stride + column;
    return matrix->dtype == AH_FP32 ? ((const float *)data)[i] : ah_bf16_to_fp32(((const uint16_t *)data)[i]);
}

static void put(struct matrix *matrix, uint64_t row, uint64_t column, float value)
{
    void *data = matrix->data;
    uint64_t i = row * matrix->stride + column;
    if (matrix->dtype == AH_FP32)
        ((float *)data)[i] = value;
    else
        ((uint16_t *)data)[i] = ah_bf16_from_fp32(value);
}

/* Returns a matrix of random numbers, with all bits of its gaps set, a NaN in both types. A third of the matrices are
 * dense. In another third, rows are aligned to cache lines, as required by kernels that read them in place. */
static struct matrix random_matrix(uint64_t *random, enum ah_dtype dtype, uint64_t rows, uint64_t width)
{
    struct matrix matrix = {.dtype = dtype, .rows = rows, .width = width};
    const uint64_t strides[] = {width, width + check_random(random) % 70, (width + 63) / 32 * 32};
    matrix.stride = strides[check_random(random) % 3];
    matrix.bytes = ((rows - 1) * matrix.stride + width) * ah_dtype_bytes(dtype);
    void *data = NULL;
    assert_int_equal(posix_memalign(&data, 64, matrix.bytes), 0);
    matrix.data = data;
    memset(matrix.data, 0xff, matrix.bytes);
    for (uint64_t i = 0; i < rows * width; i++)
        put(&matrix, i / width, i % width, (float)(2 * check_uniform(random) - 1));
    return matrix;
}

static struct product random_product(uint64_t *random)
{
    static const uint64_t sizes[] = {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 95, 129, 260};
    enum { SIZES = sizeof sizes / sizeof sizes[0] };
    struct product p = {.level = (enum ah_tile_level)(check_random(random) % (ah_tile_detect() + 1u))};
    struct ah_matmul_shape *shape = &p.shape;
    shape->form = (enum ah_matmul_form)(check_random(random) % 3);
    shape->in = (enum ah_dtype)(check_random(random) % 2);
    shape->accumulate = check_random(random) % 3 == 0;
    shape->out =
        shape->in == AH_FP32 || shape->accumulate ? AH_FP32 : (enum ah_dtype)(check_random(random) % 2);
    shape->has_bias = check_random(random) % 2;
    shape->bias = shape->in == AH_FP32 ? AH_FP32 : (enum ah_dtype)(check_random(random) % 2);
    shape->m = sizes[check_random(random) % SIZES];
    shape->n = sizes[check_random(random) % SIZES];
    shape->k =
        check_random(random) % 4 ? sizes[check_random(random) % SIZES] : 500 + check_random(random) % 1700;
    bool a_turned = shape->form == AH_MATMUL_TN, b_turned = shape->form == AH_MATMUL_NT;
    p.a = random_matrix(random, shape->in, a_turned ? shape->k : shape->m, a_turned ? shape->m : shape->k);
    p.b = random_matrix(random, shape->in, b_turned ? shape->n : shape->k, b_turned ? shape->k : shape->n);
    p.bias = random_matrix(random, shape->bias, 1, shape->n);
    p.before = random_matrix(random, shape->out, shape->m, shape->n);
    return p;
}

static struct matrix run(const struct product *p, unsigned threads)
{
    struct ah_error err = {0};
    struct ah_matmul *matmul = NULL;
    struct ah_pool *pool = NULL;
    struct matrix c = p->before;
    c.data = malloc(c.bytes);
    memcpy(c.data, p->before.data, c.bytes);
    const struct ah_matmul_args args = {.c = c.data,
                                        .a = p->a.data,
                                        .b = p->b.data,
                                        .bias = p->shape.has_bias ? p->bias.data : NULL,
                                        .c_stride = c.stride,
                                        .a_stride = p->a.stride,
                                        .b_stride = p->b.stride};
    CHECK_OK(ah_pool_new(&pool, &(struct ah_pool_options){.threads = threads}, &err), err);
    CHECK_OK(ah_matmul_new_at(&matmul, threads, p->level, &err), err);
    CHECK_OK(ah_matmul_prepare(matmul, &p->shape, &err), err);
    CHECK_OK(ah_matmul_run(ah_matmul_find(matmul, &p->shape), &args, pool, &err), err);
    ah_matmul_free(matmul);
    ah_pool_free(pool);
    return c;
}

/* Returns one element of c. `ret_float` gets it in the order of fma kernels, and `ret_size` the sum of the magnitudes
 * of its terms. */
static double exact(const struct product *p, uint64_t row, uint64_t column, float *ret_float,
                    double *ret_size)
{
    const struct ah_matmul_shape *shape = &p->shape;
    double sum = 0;
    *ret_float = 0;
    *ret_size = 0;
    for (uint64_t k = 0; k < shape->k; k++) {
        float a = shape->form == AH_MATMUL_TN ? get(&p->a, k, row) : get(&p->a, row, k);
        float b = shape->form == AH_MATMUL_NT ? get(&p->b, column, k) : get(&p->b, k, column);
        *ret_float = fmaf(a, b, *ret_float);
        sum += (double)a * (double)b;
        *ret_size += fabs((double)a * (double)b);
    }
    float bias = shape->has_bias ? get(&p->bias, 0, column) : 0;
    float before = shape->accumulate ? get(&p->before, row, column) : 0;
    *ret_float = shape->has_bias ? *ret_float + bias : *ret_float;
    *ret_float = shape->accumulate ? *ret_float + before : *ret_float;
    *ret_size += fabs((double)bias) + fabs((double)before);
    return sum + (double)bias + (double)before;
}

static void check_element(const struct product *p, const struct matrix *c, uint64_t row, uint64_t column)
{
    const char *kernel = ah_tile_kernel(p->level, p->shape.in)->name;
    float ordered;
    double size;
    double expected = exact(p, row, column, &ordered, &size), got = (double)get(c, row, column);
    double tolerance = size * 1e-6 + (c->dtype == AH_BF16 ? fabs(expected) / 256 : 0);
    if (!(fabs(got - expected) <= tolerance))
        fail_msg("%s, form %u, %llu x %llu x %llu: (%llu, %llu) is %g, expected %g", kernel, p->shape.form,
                 (unsigned long long)p->shape.m, (unsigned long long)p->shape.n,
                 (unsigned long long)p->shape.k, (unsigned long long)row, (unsigned long long)column, got,
                 expected);
    if (strncmp(kernel, "fma", 3) == 0 && c->dtype == AH_FP32 && got != (double)ordered)
        fail_msg("%s: %a is not in the order of k, %a", kernel, got, (double)ordered);
}

static void check_gaps(const struct matrix *c)
{
    const size_t element = ah_dtype_bytes(c->dtype);
    for (uint64_t row = 0; row + 1 < c->rows; row++)
        for (size_t i = (row * c->stride + c->width) * element; i < (row + 1) * c->stride * element; i++)
            assert_int_equal(c->data[i], 0xff);
}

TEST(matmul, equals_the_sum_whatever_strides_and_threads)
{
    uint64_t random = check_seed(2024);
    unsigned seen[AH_TILE_LEVELS][2][3] = {0};
    for (int i = 0; i < CASES; i++) {
        struct product p = random_product(&random);
        struct matrix c = run(&p, 1);
        for (unsigned threads = 2; threads <= THREADS; threads++) {
            struct matrix other = run(&p, threads);
            if (memcmp(c.data, other.data, c.bytes) != 0)
                fail_msg("1 and %u threads give different bits", threads);
            free(other.data);
        }
        check_gaps(&c);
        uint64_t n = p.shape.m * p.shape.n, step = 1 + n * p.shape.k / 300000;
        for (uint64_t j = 0; j < n; j += 1 + check_random(&random) % (2 * step))
            check_element(&p, &c, j / p.shape.n, j % p.shape.n);
        seen[p.level][p.shape.in][p.shape.form]++;
        free(c.data);
        free(p.a.data);
        free(p.b.data);
        free(p.bias.data);
        free(p.before.data);
    }
    for (int i = 0; i < 6 && CASES > 100; i++)
        assert_true(seen[ah_tile_detect()][i / 3][i % 3]);
}

/* Tests GPT-2's sizes scaled down, which still have several units, chunks and steps in every direction. */
TEST(matmul, of_many_units)
{
    uint64_t random = check_seed(11);
    for (int i = 0; i < 6 && CASES > 100; i++) {
        struct product p = {.level = ah_tile_detect(),
                            .shape = {.form = (enum ah_matmul_form)(i % 3),
                                      .in = (enum ah_dtype)(i / 3),
                                      .out = (enum ah_dtype)(i / 3),
                                      .m = 700,
                                      .n = 801,
                                      .k = 1301}};
        bool a_turned = i % 3 == AH_MATMUL_TN, b_turned = i % 3 == AH_MATMUL_NT;
        p.a = random_matrix(&random, p.shape.in, a_turned ? 1301 : 700, a_turned ? 700 : 1301);
        p.b = random_matrix(&random, p.shape.in, b_turned ? 801 : 1301, b_turned ? 1301 : 801);
        p.before = random_matrix(&random, p.shape.out, 700, 801);
        struct matrix c = run(&p, 1), other = run(&p, 3);
        assert_memory_equal(c.data, other.data, c.bytes);
        for (uint64_t j = 0; j < UINT64_C(700) * 801; j += 1 + check_random(&random) % 4000)
            check_element(&p, &c, j / 801, j % 801);
        free(c.data);
        free(other.data);
        free(p.a.data);
        free(p.b.data);
        free(p.before.data);
    }
}
