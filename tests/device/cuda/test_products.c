/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares matrix products of the CUDA plugin with sums in double precision, over forms, types, strides, epilogues and
 * places. Also tests their memory and the table of algorithms. The double of cuBLASLt has three algorithms with
 * different bits, and rounds fp32 operands unless asked not to.
 */
#include "base/bf16.h"
#include "runtime/device/cuda/cuda_products.h"
#include "tests/double/cuda/cublaslt/double.h"
#include "tests/double/cuda/double.h"
#include "tests/support/check.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* EVEN is a gap after which rows begin at multiples of 8 elements. */
enum { OPERANDS = 5, NO = 0, YES = 1, EVEN = 1 << 20 };

/* A product: sizes, gaps between rows, and how far operands begin after an aligned place. Gaps are in elements. */
struct product_case {
    enum ah_matmul_form form;
    uint64_t m, n, k;
    enum ah_dtype in, out;
    enum ah_epilogue epilogue;
    enum ah_dtype bias;
    bool has_aux;
    enum ah_dtype aux;
    bool accumulate;
    float alpha;
    uint64_t gap;
    uint64_t off;
};

static const struct product_case plain_cases[] = {
    {AH_MATMUL_NN, 33, 48, 40, AH_BF16, AH_BF16, AH_EPILOGUE_NONE, 0, NO, 0, NO, 0, 0, 0},
    {AH_MATMUL_NT, 33, 48, 40, AH_BF16, AH_BF16, AH_EPILOGUE_NONE, 0, NO, 0, NO, 0, 0, 0},
    {AH_MATMUL_TN, 32, 48, 40, AH_BF16, AH_FP32, AH_EPILOGUE_NONE, 0, NO, 0, YES, 0, 0, 0},
    {AH_MATMUL_NN, 17, 31, 23, AH_BF16, AH_FP32, AH_EPILOGUE_NONE, 0, NO, 0, NO, 0.5f, 0, 0},
    {AH_MATMUL_NN, 33, 48, 40, AH_FP32, AH_FP32, AH_EPILOGUE_NONE, 0, NO, 0, NO, 0, 0, 0},
    {AH_MATMUL_NT, 5, 7, 3, AH_FP32, AH_FP32, AH_EPILOGUE_NONE, 0, NO, 0, YES, -2, 0, 0},
    {AH_MATMUL_TN, 1, 1, 1, AH_FP32, AH_FP32, AH_EPILOGUE_NONE, 0, NO, 0, NO, 0, 0, 0},
    {AH_MATMUL_TN, 64, 8, 300, AH_FP32, AH_FP32, AH_EPILOGUE_NONE, 0, NO, 0, NO, 0, 0, 0},
};

static const struct product_case epilogue_cases[] = {
    {AH_MATMUL_NT, 33, 48, 40, AH_BF16, AH_BF16, AH_EPILOGUE_BIAS, AH_BF16, NO, 0, NO, 0, 0, 0},
    {AH_MATMUL_NT, 33, 48, 40, AH_FP32, AH_FP32, AH_EPILOGUE_BIAS, AH_FP32, NO, 0, YES, 3, 0, 0},
    {AH_MATMUL_NT, 33, 48, 40, AH_BF16, AH_BF16, AH_EPILOGUE_BIAS_GELU, AH_BF16, YES, AH_BF16, NO, 0, 0, 0},
    {AH_MATMUL_NN, 33, 48, 40, AH_BF16, AH_BF16, AH_EPILOGUE_BIAS_GELU, AH_BF16, NO, 0, NO, 0.25f, 0, 0},
    /* Staged, because the library says that it has no such epilogue. */
    {AH_MATMUL_NN, 33, 48, 40, AH_FP32, AH_FP32, AH_EPILOGUE_BIAS_GELU, AH_FP32, YES, AH_FP32, NO, 0, 0, 0},
    /* Staged, because bias or aux has another type than c, or rows of aux are at no multiple of 8. */
    {AH_MATMUL_NT, 33, 48, 40, AH_BF16, AH_BF16, AH_EPILOGUE_BIAS, AH_FP32, NO, 0, NO, 2, 0, 0},
    {AH_MATMUL_TN, 33, 48, 40, AH_BF16, AH_FP32, AH_EPILOGUE_BIAS, AH_BF16, NO, 0, YES, 0, 0, 0},
    {AH_MATMUL_NN, 33, 48, 40, AH_BF16, AH_FP32, AH_EPILOGUE_BIAS_GELU, AH_BF16, YES, AH_BF16, NO, 0, 0, 0},
    {AH_MATMUL_NN, 33, 43, 40, AH_BF16, AH_BF16, AH_EPILOGUE_BIAS_GELU, AH_BF16, YES, AH_BF16, NO, 0, 0, 0},
    /* Staged in steps of 64 rows, of which the last is shorter. */
    {AH_MATMUL_TN, 66, 131073, 2, AH_BF16, AH_BF16, AH_EPILOGUE_BIAS, AH_FP32, NO, 0, NO, 0, 0, 0},
};

static const struct product_case place_cases[] = {
    {AH_MATMUL_NN, 33, 48, 40, AH_BF16, AH_BF16, AH_EPILOGUE_NONE, 0, NO, 0, NO, 0, 16, 0},
    {AH_MATMUL_NT, 33, 48, 40, AH_BF16, AH_BF16, AH_EPILOGUE_BIAS, AH_BF16, NO, 0, NO, 0, 7, 0},
    {AH_MATMUL_TN, 33, 48, 40, AH_FP32, AH_FP32, AH_EPILOGUE_NONE, 0, NO, 0, YES, 0, 5, 0},
    {AH_MATMUL_NT, 33, 48, 40, AH_BF16, AH_BF16, AH_EPILOGUE_BIAS, AH_BF16, NO, 0, NO, 0, 0, 1},
    {AH_MATMUL_TN, 33, 48, 40, AH_FP32, AH_FP32, AH_EPILOGUE_BIAS, AH_FP32, NO, 0, YES, 0, 3, 3},
    {AH_MATMUL_NN, 33, 48, 40, AH_BF16, AH_BF16, AH_EPILOGUE_BIAS_GELU, AH_BF16, YES, AH_BF16, NO, 0, 8, 1},
    {AH_MATMUL_NT, 33, 48, 40, AH_BF16, AH_BF16, AH_EPILOGUE_BIAS, AH_FP32, NO, 0, NO, 0, 0, 1},
};

/* An odd size, as in a head. The distance between rows makes each row begin aligned. */
static const struct product_case cut_cases[] = {
    {AH_MATMUL_NT, 24, 43, 40, AH_BF16, AH_FP32, AH_EPILOGUE_NONE, 0, NO, 0, NO, 0, EVEN, 0},
    {AH_MATMUL_NT, 24, 8 * 9 + 1, 40, AH_BF16, AH_BF16, AH_EPILOGUE_NONE, 0, NO, 0, NO, -2, EVEN, 0},
    {AH_MATMUL_NT, 33, 43, 40, AH_BF16, AH_FP32, AH_EPILOGUE_NONE, 0, NO, 0, YES, 0.5f, EVEN, 0},
    {AH_MATMUL_TN, 43, 40, 24, AH_BF16, AH_FP32, AH_EPILOGUE_NONE, 0, NO, 0, NO, 0, EVEN, 0},
    {AH_MATMUL_TN, 47, 40, 24, AH_BF16, AH_FP32, AH_EPILOGUE_NONE, 0, NO, 0, YES, 3, EVEN, 0},
    {AH_MATMUL_TN, 48, 40, 23, AH_BF16, AH_FP32, AH_EPILOGUE_NONE, 0, NO, 0, YES, 0, EVEN, 0},
    {AH_MATMUL_NN, 24, 40, 43, AH_BF16, AH_FP32, AH_EPILOGUE_NONE, 0, NO, 0, NO, 0, EVEN, 0},
    {AH_MATMUL_NN, 24, 40, 43, AH_BF16, AH_FP32, AH_EPILOGUE_NONE, 0, NO, 0, YES, -1, EVEN, 0},
    {AH_MATMUL_NN, 9, 16, 4099, AH_BF16, AH_BF16, AH_EPILOGUE_NONE, 0, NO, 0, NO, 0, EVEN, 0},
};

struct matrix {
    void *base;  /* on the device */
    void *place; /* its first element */
    uint64_t rows, width, pitch;
    enum ah_dtype dtype;
};

struct stand {
    struct ah_op op;
    struct matrix of[OPERANDS]; /* c, a, b, bias, aux */
    float *before;              /* c before the product, dense */
};

static uint64_t seed_of_tests = 2463534242;

static float get(const struct matrix *matrix, uint64_t row, uint64_t column)
{
    uint64_t at = row * matrix->pitch + column;
    return matrix->dtype == AH_FP32 ? ((const float *)matrix->place)[at]
                                    : ah_bf16_to_fp32(((const uint16_t *)matrix->place)[at]);
}

static void put(const struct matrix *matrix, uint64_t row, uint64_t column, float value)
{
    uint64_t at = row * matrix->pitch + column;
    if (matrix->dtype == AH_FP32)
        ((float *)matrix->place)[at] = value;
    else
        ((uint16_t *)matrix->place)[at] = ah_bf16_from_fp32(value);
}

static struct matrix new_matrix(const struct product_case *it, uint64_t rows, uint64_t width,
                                enum ah_dtype dtype)
{
    struct matrix matrix = {.rows = rows, .width = width, .pitch = width, .dtype = dtype};
    if (rows > 1)
        matrix.pitch = it->gap == EVEN ? (width + 7) / 8 * 8 : width + it->gap;
    const uint64_t bytes = ah_dtype_bytes(dtype);
    assert_int_equal(cudaMalloc(&matrix.base, (matrix.rows * matrix.pitch + it->off) * bytes), cudaSuccess);
    matrix.place = (unsigned char *)matrix.base + it->off * bytes;
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t j = 0; j < width; j++)
            put(&matrix, i, j, (float)(2 * check_uniform(&seed_of_tests) - 1));
    return matrix;
}

static struct ah_ref ref_of(const struct matrix *matrix)
{
    uint64_t off = (uint64_t)((unsigned char *)matrix->place - (unsigned char *)matrix->base);
    return (struct ah_ref){AH_ARENA_DEVICE, matrix->dtype, off, matrix->rows > 1 ? matrix->pitch : 0};
}

static void set_up(struct stand *stand, const struct product_case *it)
{
    const bool tn = it->form == AH_MATMUL_TN;
    const bool nt = it->form == AH_MATMUL_NT;
    *stand = (struct stand){.op = {.kind = AH_OP_MATMUL}};
    stand->of[0] = new_matrix(it, it->m, it->n, it->out);
    stand->of[1] = new_matrix(it, tn ? it->k : it->m, tn ? it->m : it->k, it->in);
    stand->of[2] = new_matrix(it, nt ? it->n : it->k, nt ? it->k : it->n, it->in);
    if (it->epilogue != AH_EPILOGUE_NONE)
        stand->of[3] = new_matrix(it, 1, it->n, it->bias);
    if (it->has_aux)
        stand->of[4] = new_matrix(it, it->m, it->n, it->aux);
    for (size_t i = 0; i < OPERANDS; i++)
        if (stand->of[i].base)
            stand->op.arg[i] = ref_of(&stand->of[i]);
    stand->op.u.matmul = (struct ah_op_matmul){.form = it->form,
                                               .epilogue = it->epilogue,
                                               .m = it->m,
                                               .n = it->n,
                                               .k = it->k,
                                               .accumulate = it->accumulate,
                                               .alpha = it->alpha};
    stand->before = malloc(it->m * it->n * sizeof *stand->before);
    assert_non_null(stand->before);
    for (uint64_t i = 0; i < it->m * it->n; i++)
        stand->before[i] = get(&stand->of[0], i / it->n, i % it->n);
}

static void tear_down(struct stand *stand)
{
    for (size_t i = 0; i < OPERANDS; i++)
        (void)cudaFree(stand->of[i].base);
    free(stand->before);
}

static int run(struct ah_cuda_products *products, const struct stand *stand, struct ah_error *err)
{
    struct ah_cuda_launch launch = {.op = &stand->op, .processors = 4};
    for (size_t i = 0; i < OPERANDS; i++)
        launch.arg[i] = stand->of[i].place;
    int rc = ah_cuda_products_run(products, &launch, err);
    (void)cudaDeviceSynchronize();
    return rc;
}

static double gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

/* Returns one element before its activation. `ret_error` gets the allowed error of the element's sum. */
static double expected(const struct stand *stand, uint64_t i, uint64_t j, double *ret_error)
{
    const struct ah_op_matmul *matmul = &stand->op.u.matmul;
    const bool tn = matmul->form == AH_MATMUL_TN;
    const bool nt = matmul->form == AH_MATMUL_NT;
    const double alpha = matmul->alpha == 0 ? 1 : (double)matmul->alpha;
    double sum = 0, size = 0;
    for (uint64_t l = 0; l < matmul->k; l++) {
        double a = (double)(tn ? get(&stand->of[1], l, i) : get(&stand->of[1], i, l));
        double b = (double)(nt ? get(&stand->of[2], j, l) : get(&stand->of[2], l, j));
        sum += a * b;
        size += fabs(a * b);
    }
    double x = alpha * sum;
    if (stand->of[3].base)
        x += (double)get(&stand->of[3], 0, j);
    if (matmul->accumulate)
        x += (double)stand->before[i * matmul->n + j];
    *ret_error = ((double)matmul->k + 4) * 0x1p-24 * (fabs(alpha) * size + fabs(x) + 1);
    return x;
}

static void check_value(const struct matrix *matrix, uint64_t i, uint64_t j, double wanted, double error)
{
    double found = (double)get(matrix, i, j);
    double rounding = fabs(wanted) * (matrix->dtype == AH_FP32 ? 0x1p-24 : 0x1p-8);
    if (!(fabs(found - wanted) <= error + rounding))
        fail_msg("at (%llu, %llu): %.9g, expected %.9g within %.3g", (unsigned long long)i,
                 (unsigned long long)j, found, wanted, error + rounding);
}

static void check_result(const struct stand *stand)
{
    const struct ah_op_matmul *matmul = &stand->op.u.matmul;
    for (uint64_t i = 0; i < matmul->m; i++)
        for (uint64_t j = 0; j < matmul->n; j++) {
            double error;
            double x = expected(stand, i, j, &error);
            bool gelu = matmul->epilogue == AH_EPILOGUE_BIAS_GELU;
            if (stand->of[4].base)
                check_value(&stand->of[4], i, j, x, error);
            check_value(&stand->of[0], i, j, gelu ? gelu_tanh(x) : x, gelu ? 1.2 * error + 0x1p-22 : error);
        }
}

static int alive(void)
{
    void *library = dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_NOLOAD);
    union {
        void *symbol;
        int (*function)(void);
    } found = {.symbol = library ? dlsym(library, "cublaslt_double_alive") : NULL};
    assert_non_null(found.symbol);
    dlclose(library);
    return found.function();
}

static struct ah_cuda_products *open_products(const struct ah_device_options *options)
{
    struct ah_cuda_products *products = NULL;
    struct ah_error err;
    CHECK_OK(ah_cuda_products_new(&products, options, &err), err);
    return products;
}

static int start(void **state)
{
    struct cuda_double settings = cuda_double_default();
    (void)state;
    settings.devices[0].memory_bytes = (size_t)2 << 30;
    cuda_double_set(&settings);
    return 0;
}

static int finish(void **state)
{
    (void)state;
    assert_int_equal(cuda_double_misuses(), 0);
    assert_int_equal(cuda_double_alive().device_bytes, 0);
    return alive();
}

static void check_cases(const struct product_case *cases, size_t n)
{
    struct ah_cuda_products *products = open_products(&(struct ah_device_options){0});
    for (size_t i = 0; i < n; i++) {
        struct stand stand;
        struct ah_error err;
        set_up(&stand, &cases[i]);
        CHECK_OK(ah_cuda_products_prepare(products, &stand.op, 1, &err), err);
        assert_true(ah_cuda_products_has(products, &stand.op));
        CHECK_OK(run(products, &stand, &err), err);
        check_result(&stand);
        tear_down(&stand);
    }
    ah_cuda_products_free(products);
}

TEST_IN(products, multiply, start, finish)
{
    check_cases(plain_cases, sizeof plain_cases / sizeof plain_cases[0]);
}

TEST_IN(products, finish, start, finish)
{
    check_cases(epilogue_cases, sizeof epilogue_cases / sizeof epilogue_cases[0]);
}

TEST_IN(products, lie_anywhere, start, finish)
{
    check_cases(place_cases, sizeof place_cases / sizeof place_cases[0]);
}

/* The library offers its fast algorithm first, but that algorithm exists for even sizes only. */
TEST_IN(products, are_cut_where_they_are_odd, start, finish)
{
    const size_t n_cases = sizeof cut_cases / sizeof cut_cases[0];
    check_cases(cut_cases, n_cases);
    struct ah_cuda_products *products = open_products(&(struct ah_device_options){0});
    for (size_t i = 0; i < n_cases; i++) {
        struct ah_device_algorithm offer;
        struct stand stand;
        struct ah_error err;
        size_t n = 0;
        set_up(&stand, &cut_cases[i]);
        CHECK_OK(ah_cuda_products_candidates(products, &stand.op, &offer, 1, &n, &err), err);
        assert_int_equal(n, 1);
        assert_int_equal(offer.words[1], 0);
        tear_down(&stand);
    }
    ah_cuda_products_free(products);
}

/* Bytes between rows do not change. */
TEST_IN(products, leave_gaps_alone, start, finish)
{
    struct ah_cuda_products *products = open_products(&(struct ah_device_options){0});
    struct stand stand;
    struct ah_error err;
    set_up(&stand, &place_cases[0]);
    struct matrix *c = &stand.of[0];
    for (uint64_t i = 0; i + 1 < c->rows; i++)
        for (uint64_t j = c->width; j < c->pitch; j++)
            put(c, i, j, 7);
    CHECK_OK(ah_cuda_products_prepare(products, &stand.op, 1, &err), err);
    CHECK_OK(run(products, &stand, &err), err);
    for (uint64_t i = 0; i + 1 < c->rows; i++)
        for (uint64_t j = c->width; j < c->pitch; j++)
            assert_true(get(c, i, j) == 7);
    tear_down(&stand);
    ah_cuda_products_free(products);
}

TEST_IN(products, are_prepared_once, start, finish)
{
    struct ah_cuda_products *products = open_products(&(struct ah_device_options){0});
    struct stand stand;
    struct ah_error err;
    set_up(&stand, &epilogue_cases[0]);
    assert_false(ah_cuda_products_has(products, &stand.op));
    CHECK_FAILS(run(products, &stand, &err), err, AH_E_USAGE, "without being prepared");
    CHECK_OK(ah_cuda_products_prepare(products, &stand.op, 1, &err), err);
    uint64_t prepared = cuda_double_calls("any");
    CHECK_OK(ah_cuda_products_prepare(products, &stand.op, 1, &err), err);
    assert_int_equal(cuda_double_calls("any"), prepared);
    tear_down(&stand);
    ah_cuda_products_free(products);
}

/* Running a product creates no objects and allocates no memory. */
TEST_IN(products, run_without_making_anything, start, finish)
{
    static const char *const makers[] = {"cudaMalloc", "cublasLtMatrixLayoutCreate",
                                         "cublasLtMatmulDescCreate", "cublasLtMatmulPreferenceCreate",
                                         "cublasLtMatmulAlgoGetHeuristic"};
    struct ah_cuda_products *products = open_products(&(struct ah_device_options){0});
    for (size_t i = 0; i < 5; i++) {
        struct stand stand;
        struct ah_error err;
        uint64_t before[5];
        set_up(&stand, &epilogue_cases[i]);
        CHECK_OK(ah_cuda_products_prepare(products, &stand.op, 1, &err), err);
        for (size_t j = 0; j < 5; j++)
            before[j] = cuda_double_calls(makers[j]);
        CHECK_OK(run(products, &stand, &err), err);
        for (size_t j = 0; j < 5; j++)
            assert_int_equal(cuda_double_calls(makers[j]), before[j]);
        tear_down(&stand);
    }
    uint64_t told = ah_cuda_products_bytes(products); /* the device rounds up each of its two allocations */
    assert_in_range(cuda_double_alive().device_bytes, told, told + 512);
    assert_true(told > 0);
    ah_cuda_products_free(products);
}

/* Gets the bits of c after one run with these options. */
static void bits_with(const struct ah_device_options *options, const struct product_case *it, float *ret_c)
{
    struct ah_cuda_products *products = open_products(options);
    struct stand stand;
    struct ah_error err;
    seed_of_tests = 88172645463325252;
    set_up(&stand, it);
    CHECK_OK(ah_cuda_products_prepare(products, &stand.op, 1, &err), err);
    CHECK_OK(run(products, &stand, &err), err);
    for (uint64_t i = 0; i < it->m * it->n; i++)
        ret_c[i] = get(&stand.of[0], i / it->n, i % it->n);
    check_result(&stand);
    tear_down(&stand);
    ah_cuda_products_free(products);
}

/* Each algorithm gives its own bits, and gives them every time. Without a table, the first algorithm is used. */
TEST_IN(products, take_the_algorithm_of_the_table, start, finish)
{
    enum { M = 24, N = 40, K = 200, OFFERS = 8 };
    const struct product_case it = {AH_MATMUL_NT, M, N,  K, AH_BF16, AH_FP32, AH_EPILOGUE_NONE, 0,
                                    NO,           0, NO, 0, 0,       0};
    static float bits[OFFERS + 1][M * N], again[M * N];
    struct ah_device_algorithm offers[OFFERS];
    struct stand stand;
    struct ah_error err;
    size_t n = 0;
    struct ah_cuda_products *products = open_products(&(struct ah_device_options){0});
    set_up(&stand, &it);
    CHECK_OK(ah_cuda_products_candidates(products, &stand.op, offers, OFFERS, &n, &err), err);
    tear_down(&stand);
    ah_cuda_products_free(products);
    assert_int_equal(n, 3);

    bits_with(&(struct ah_device_options){0}, &it, bits[OFFERS]);
    for (size_t i = 0; i < n; i++) {
        const struct ah_device_options options = {.algorithms = &offers[i], .n_algorithms = 1};
        bits_with(&options, &it, bits[i]);
        bits_with(&options, &it, again);
        assert_memory_equal(bits[i], again, sizeof again);
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(bits[i], bits[j], sizeof again);
    }
    assert_memory_equal(bits[OFFERS], bits[0], sizeof again);
}

TEST_IN(products, refuse_a_table_of_another_library, start, finish)
{
    struct ah_cuda_products *products = NULL;
    struct ah_device_algorithm entry = {.words = {1, 2, 3}};
    struct stand stand;
    struct ah_error err;
    CHECK_FAILS(
        ah_cuda_products_new(&products, &(struct ah_device_options){.library = "cuBLASLt 12.0.1"}, &err), err,
        AH_E_MISMATCH, "cuBLASLt 12.0.1");
    set_up(&stand, &plain_cases[0]);
    entry.product = stand.op;
    products = open_products(&(struct ah_device_options){.algorithms = &entry, .n_algorithms = 1});
    assert_string_equal(ah_cuda_products_library(products), "cuBLASLt 13.1.0");
    CHECK_FAILS(ah_cuda_products_prepare(products, &stand.op, 1, &err), err, AH_E_MISMATCH,
                "nn (33, 48, 40)");
    tear_down(&stand);
    ah_cuda_products_free(products);
}

TEST_IN(products, say_that_memory_is_short, start, finish)
{
    struct cuda_double settings = cuda_double_default();
    struct ah_cuda_products *products = open_products(&(struct ah_device_options){0});
    struct stand stand;
    struct ah_error err;
    settings.devices[0].memory_bytes = 16 << 20;
    cuda_double_set(&settings);
    set_up(&stand, &plain_cases[0]);
    CHECK_FAILS(ah_cuda_products_prepare(products, &stand.op, 1, &err), err, AH_E_CAPACITY, "workspace");
    tear_down(&stand);
    ah_cuda_products_free(products);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
}

/* Opens, prepares, runs and closes. Any call may fail. */
static int whole_life(const struct ah_op *op, const struct stand *stand, struct ah_error *err)
{
    struct ah_cuda_products *products = NULL;
    struct ah_device_algorithm offers[2];
    size_t n = 0;
    int rc = ah_cuda_products_new(&products, &(struct ah_device_options){0}, err);
    rc = rc ? rc : ah_cuda_products_prepare(products, op, 1, err);
    rc = rc ? rc : ah_cuda_products_candidates(products, op, offers, 2, &n, err);
    rc = rc ? rc : run(products, stand, err);
    ah_cuda_products_free(products);
    return rc;
}

/* The nth call of each function fails, until no nth call is made. If a call that frees fails, nothing is reported. */
TEST_IN(products, survive_each_call_failing, start, finish)
{
    static const struct {
        const char *call;
        bool matters;
    } calls[] = {
        {"cublasLtCreate", true},
        {"cublasLtMatrixLayoutCreate", true},
        {"cublasLtMatmulDescCreate", true},
        {"cublasLtMatmulDescSetAttribute", true},
        {"cublasLtMatmulPreferenceCreate", true},
        {"cublasLtMatmulPreferenceSetAttribute", true},
        {"cublasLtMatmulAlgoGetHeuristic", true},
        {"cublasLtMatmul", true},
        {"cudaStreamSynchronize", true},
        {"cudaMalloc", false}, /* the warm-up works without it */
    };
    static const size_t picked[] = {2, 4, 5}; /* run whole; refused whole by the library; staged */
    for (size_t c = 0; c < sizeof calls / sizeof calls[0]; c++)
        for (size_t p = 0; p < sizeof picked / sizeof picked[0]; p++) {
            uint64_t n = 1;
            for (bool failed = true; failed; n++) {
                struct stand stand;
                struct ah_error err = {0};
                (void)start(NULL);
                set_up(&stand, &epilogue_cases[picked[p]]);
                uint64_t before = cuda_double_calls(calls[c].call);
                cuda_double_fail(calls[c].call, before + n, cudaErrorMemoryAllocation);
                int rc = whole_life(&stand.op, &stand, &err);
                failed = cuda_double_calls(calls[c].call) >= before + n;
                assert_true(rc == AH_OK ? !failed || !calls[c].matters : err.text[0] != '\0');
                tear_down(&stand);
                assert_int_equal(cuda_double_alive().device_bytes, 0);
                assert_int_equal(alive(), 0);
            }
            assert_true(n > 2);
        }
    (void)start(NULL);
}
