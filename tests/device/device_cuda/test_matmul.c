/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares matrix products through the device, on a GPU, with sums in double: forms, types, strides, tails,
 * accumulation, epilogues. (tests/device/cuda/test_products.c tests keys, memory and failures, on the double.)
 *
 * TOLERANCE. An element may be off by (16 + k / 64) 2^-24 of the sum of its terms' sizes, since tensor cores cut terms
 * off within 16 products and add those in fp32. If k is short, a product of fp32 computed in fewer bits is off by more
 * than that. A bf16 result is rounded once more. The library may take the processor's tanh for gelu(x), exact to 2^-11.
 *
 * BITS are equal in every run. If operands begin at another alignment, bits may differ (cuda_products.h).
 */
#include "tests/device/device_math/op_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
enum { MANY = 70 };
#else
enum { MANY = 300 };
#endif
enum {
    ROUNDS = 200,
    SIZE = 200,
    PLACES = 2,
    FORMS = 3,
    CHECKED = 20000,
    C = 0,
    A = 1,
    B = 2,
    BIAS = 3,
    AUX = 4
};

static struct ah_ref matrix(enum ah_dtype dtype)
{
    return (struct ah_ref){.arena = AH_ARENA_DEVICE, .dtype = dtype};
}

static double gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

/* Returns an element before gelu. `ret_error` gets its allowed error. */
static double exact(const struct op_case *c, uint64_t row, uint64_t column, double *ret_error)
{
    const struct ah_op_matmul *matmul = &c->op.u.matmul;
    const bool tn = matmul->form == AH_MATMUL_TN, nt = matmul->form == AH_MATMUL_NT;
    const double alpha = matmul->alpha == 0 ? 1 : (double)matmul->alpha;
    double sum = 0, size = 0;
    for (uint64_t k = 0; k < matmul->k; k++) {
        const double term = op_case_input(c, A, tn ? k : row, tn ? row : k) *
                            op_case_input(c, B, nt ? column : k, nt ? k : column);
        sum += term;
        size += fabs(term);
    }
    double x = alpha * sum;
    size *= fabs(alpha);
    if (matmul->epilogue != AH_EPILOGUE_NONE) {
        x += op_case_input(c, BIAS, 0, column);
        size += fabs(op_case_input(c, BIAS, 0, column));
    }
    if (matmul->accumulate) {
        x += op_case_input(c, C, row, column);
        size += fabs(op_case_input(c, C, row, column));
    }
    *ret_error = (16 + (double)matmul->k / 64) * 0x1p-24 * size;
    return x;
}

static void check_element(const struct op_case *c, uint64_t row, uint64_t column)
{
    double error;
    const double x = exact(c, row, column, &error);
    const bool gelu = c->op.u.matmul.epilogue == AH_EPILOGUE_BIAS_GELU;
    if (c->op.arg[AUX].arena)
        op_case_check(c, AUX, row, column, x, error);
    op_case_check(c, C, row, column, gelu ? gelu_tanh(x) : x, gelu ? 1.2 * error + fabs(x) * 0x1p-11 : error);
}

/* Checks all elements of small results and some elements of large ones, always including the last. */
static void check_elements(const struct op_case *c)
{
    const struct ah_op_matmul *matmul = &c->op.u.matmul;
    const uint64_t n = matmul->m * matmul->n;
    const uint64_t checked = 1 + CHECKED * UINT64_C(100) / matmul->k, step = 1 + n / checked;
    for (uint64_t i = op_case_below(c->random, step); i < n; i += 1 + op_case_below(c->random, 2 * step - 1))
        check_element(c, i / matmul->n, i % matmul->n);
    check_element(c, matmul->m - 1, matmul->n - 1);
}

static void run_case(const struct ah_op *op, uint64_t *random)
{
    struct op_case c;
    const struct ah_op_matmul *matmul = &op->u.matmul;
    op_case_init(&c, op, random);
    const uint64_t widths[] = {matmul->n, matmul->form == AH_MATMUL_TN ? matmul->m : matmul->k,
                               matmul->form == AH_MATMUL_NT ? matmul->k : matmul->n, matmul->n, matmul->n};
    for (size_t i = 0; i <= AUX; i++) {
        c.width[i] = widths[i];
        if (op->arg[i].arena)
            op_case_fill(&c, i, -1, 1);
    }
    unsigned char *const first = malloc(c.bytes);
    for (unsigned place = 0; place < PLACES; place++) {
        op_case_run_one(&c, place);
        check_elements(&c);
        memcpy(first, c.results, c.bytes);
        op_case_run_one(&c, place);
        assert_memory_equal(c.results, first, c.bytes);
    }
    free(first);
    op_case_release(&c);
}

static struct ah_ref random_matrix(uint64_t *random, enum ah_dtype dtype, uint64_t width)
{
    struct ah_ref ref = op_case_ref(random, width);
    ref.dtype = dtype;
    return ref;
}

static struct ah_op random_product(uint64_t *random, int round)
{
    struct ah_op op = {.kind = AH_OP_MATMUL};
    struct ah_op_matmul *matmul = &op.u.matmul;
    static const float alphas[] = {0, 1, 0.5f, -3};
    const enum ah_dtype in = round / FORMS % 2 ? AH_BF16 : AH_FP32;
    matmul->form = (uint32_t)(round % FORMS);
    matmul->m = op_case_size(random, SIZE);
    matmul->n = op_case_size(random, SIZE);
    matmul->k = op_case_size(random, SIZE);
    matmul->epilogue = (uint32_t)op_case_below(random, 3);
    matmul->accumulate = matmul->epilogue != AH_EPILOGUE_BIAS_GELU && op_case_below(random, 3) == 0;
    matmul->alpha = alphas[op_case_below(random, 4)];
    const bool tn = matmul->form == AH_MATMUL_TN, nt = matmul->form == AH_MATMUL_NT;
    op.arg[C] =
        random_matrix(random, in == AH_FP32 ? AH_FP32 : (enum ah_dtype)op_case_below(random, 2), matmul->n);
    op.arg[A] = random_matrix(random, in, tn ? matmul->m : matmul->k);
    op.arg[B] = random_matrix(random, in, nt ? matmul->k : matmul->n);
    if (matmul->epilogue != AH_EPILOGUE_NONE)
        op.arg[BIAS] = matrix(in == AH_FP32 ? AH_FP32 : (enum ah_dtype)op_case_below(random, 2));
    if (matmul->epilogue == AH_EPILOGUE_BIAS_GELU && op_case_below(random, 2))
        op.arg[AUX] = random_matrix(random, in == AH_FP32 ? AH_FP32 : (enum ah_dtype)op_case_below(random, 2),
                                    matmul->n);
    return op;
}

TEST(matmul, equals_double_precision)
{
    uint64_t random = check_seed(4243);
    for (int round = 0; round < (int)check_scaled(ROUNDS); round++) {
        const struct ah_op op = random_product(&random, round);
        run_case(&op, &random);
    }
}

/* Returns a product of this form and these types. Its matrices are dense or parts of wider matrices. */
static struct ah_op product(enum ah_matmul_form form, enum ah_dtype in, enum ah_dtype out,
                            const uint64_t sizes[3], uint64_t gap)
{
    struct ah_op op = {.kind = AH_OP_MATMUL, .arg = {matrix(out), matrix(in), matrix(in)}};
    op.u.matmul = (struct ah_op_matmul){.form = form, .m = sizes[0], .n = sizes[1], .k = sizes[2]};
    const uint64_t widths[] = {sizes[1], form == AH_MATMUL_TN ? sizes[0] : sizes[2],
                               form == AH_MATMUL_NT ? sizes[2] : sizes[1]};
    for (size_t i = 0; i < 3 && gap; i++)
        op.arg[i].row_stride = widths[i] + gap;
    return op;
}

/* Tests every form and type, adding to c or not, in whole tiles and with each kind of tail, in even and odd rows. */
TEST(matmul, of_every_form_and_type)
{
    static const enum ah_dtype types[][2] = {{AH_FP32, AH_FP32}, {AH_BF16, AH_BF16}, {AH_BF16, AH_FP32}};
    static const uint64_t sizes[][3] = {{64, 128, 96}, {65, 43, 77}, {1, 50, 257}, {129, 1, 8}};
    static const uint64_t gaps[] = {0, 8, 3};
    uint64_t random = check_seed(4244);
    for (enum ah_matmul_form form = AH_MATMUL_NN; form <= AH_MATMUL_TN; form++)
        for (size_t type = 0; type < 3; type++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                struct ah_op op =
                    product(form, types[type][0], types[type][1], sizes[i], gaps[(i + type) % 3]);
                run_case(&op, &random);
                op.u.matmul.accumulate = true;
                run_case(&op, &random);
            }
}

/* The sums are so long, and the results so small, that a library splits the sums. */
TEST(matmul, of_long_sums)
{
    static const uint64_t sizes[] = {34, 24, 16385};
    uint64_t random = check_seed(4245);
    for (enum ah_matmul_form form = AH_MATMUL_NN; form <= AH_MATMUL_TN; form++)
        for (enum ah_dtype dtype = AH_FP32; dtype <= AH_BF16; dtype++) {
            struct ah_op op = product(form, dtype, AH_FP32, sizes, 0);
            op.u.matmul.accumulate = form == AH_MATMUL_TN;
            run_case(&op, &random);
        }
}

/* There are several tiles in each direction, and rows have an odd number of elements, as with a vocabulary. */
TEST(matmul, of_many_tiles)
{
    static const uint64_t sizes[] = {MANY, 1601, 97};
    uint64_t random = check_seed(4246);
    for (enum ah_matmul_form form = AH_MATMUL_NN; form <= AH_MATMUL_TN; form++)
        for (enum ah_dtype dtype = AH_FP32; dtype <= AH_BF16; dtype++) {
            const struct ah_op op = product(form, dtype, dtype, sizes, 0);
            run_case(&op, &random);
        }
}
