/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of the double of cuBLASLt: products on the processor, in the order prescribed by the algorithm.
 */
#include "internal.h"

#include "base/bf16.h"
#include "launch.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static float load(const void *from, cudaDataType_t type, uint64_t i)
{
    return type == CUDA_R_32F ? ((const float *)from)[i] : ah_bf16_to_fp32(((const uint16_t *)from)[i]);
}

static void store(void *to, cudaDataType_t type, uint64_t i, float value)
{
    if (type == CUDA_R_32F)
        ((float *)to)[i] = value;
    else
        ((uint16_t *)to)[i] = ah_bf16_from_fp32(value);
}

static float as_tf32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits &= ~UINT32_C(0x1fff);
    memcpy(&value, &bits, sizeof bits);
    return value;
}

/* Returns an operand as fp32. The K elements of each row (of A) or column (of B) are stored together. */
static float *gather(const void *from, const struct layout *layout, bool k_goes_down, bool narrow,
                     uint64_t outer, uint64_t k)
{
    float *to = malloc(outer * k * sizeof *to);
    for (uint64_t i = 0; to && i < outer; i++)
        for (uint64_t j = 0; j < k; j++) {
            uint64_t row = k_goes_down ? j : i;
            uint64_t column = k_goes_down ? i : j;
            float value = load(from, layout->type, row + column * (uint64_t)layout->ld);
            to[i * k + j] = narrow ? as_tf32(value) : value;
        }
    return to;
}

/* Sums over what gather() has copied, where tests spend their time: not checked by sanitizers. All that reads or writes
 * memory from outside is: gather(), finish(), dot_in_parts(). */
#define SUM_OF_COPIES __attribute__((no_sanitize("address", "undefined", "thread"))) static

SUM_OF_COPIES float dot(const float *a, const float *b, uint64_t k)
{
    float sum = 0;
    for (uint64_t i = 0; i < k; i++)
        sum += a[i] * b[i];
    return sum;
}

SUM_OF_COPIES float dot_in_sums(const float *a, const float *b, uint64_t k)
{
    float sums[SUMS] = {0};
    uint64_t i = 0;
    for (; i + SUMS <= k; i += SUMS)
        for (uint64_t j = 0; j < SUMS; j++)
            sums[j] += a[i + j] * b[i + j];
    for (uint64_t j = 0; i + j < k; j++)
        sums[j] += a[i + j] * b[i + j];
    for (uint64_t half = SUMS / 2; half > 0; half /= 2)
        for (uint64_t j = 0; j < half; j++)
            sums[j] += sums[j + half];
    return sums[0];
}

static float dot_in_parts(const float *a, const float *b, uint64_t k, float *partial)
{
    uint64_t part = (k + SPLITS - 1) / SPLITS;
    float sum = 0;
    for (uint64_t i = 0; i < SPLITS; i++) {
        uint64_t begin = i * part < k ? i * part : k;
        partial[i] = dot(a + begin, b + begin, k - begin < part ? k - begin : part);
    }
    for (uint64_t i = 0; i < SPLITS; i++)
        sum += partial[i];
    return sum;
}

static float gelu_tanh(float x)
{
    return 0.5f * x * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

static void finish(const struct product *product, uint64_t row, uint64_t column, float sum)
{
    const struct problem *problem = &product->problem;
    const uint64_t place = row + column * (uint64_t)problem->d.ld;
    float x = product->alpha * sum;
    if (product->beta != 0)
        x += product->beta * load(product->c, problem->d.type, place);
    if (has_bias(problem))
        x += load(problem->desc.bias, problem->d.type, row);
    if (has_aux(problem))
        store(problem->desc.aux, problem->d.type, row + column * (uint64_t)problem->desc.aux_ld, x);
    if (problem->desc.epilogue & CUBLASLT_EPILOGUE_GELU)
        x = gelu_tanh(x);
    store(product->d, problem->d.type, place, x);
}

static float sum_of(const struct product *product, const float *a, const float *b, uint64_t element)
{
    const uint64_t k = product->problem.k;
    switch (product->number) {
    case 0:
        return dot_in_sums(a, b, k);
    case 1:
        return dot(a, b, k);
    default:
        return dot_in_parts(a, b, k, product->workspace + SPLITS * element);
    }
}

static void multiply(const struct product *product)
{
    const struct problem *problem = &product->problem;
    const bool narrow = problem->a.type == CUDA_R_32F && problem->desc.compute != CUBLAS_COMPUTE_32F_PEDANTIC;
    const uint64_t k = problem->k;
    float *a = gather(product->a, &problem->a, problem->desc.op_a == CUBLAS_OP_T, narrow, problem->m, k);
    float *b = gather(product->b, &problem->b, problem->desc.op_b == CUBLAS_OP_N, narrow, problem->n, k);
    for (uint64_t column = 0; a && b && column < problem->n; column++)
        for (uint64_t row = 0; row < problem->m; row++)
            finish(product, row, column,
                   sum_of(product, a + row * k, b + column * k, row + column * problem->m));
    free(a);
    free(b);
}

enum { KERNELS_MAX = 128 };

/* The kernels used so far, one for each algorithm and kind of problem. */
static struct {
    uint64_t number, kind;
    bool taken;
} kernels[KERNELS_MAX];
static pthread_mutex_t kernels_lock = PTHREAD_MUTEX_INITIALIZER;

/* Returns an address that stands for the code of the product. */
static const void *kernel_of(const struct product *product)
{
    size_t i = 0;
    pthread_mutex_lock(&kernels_lock);
    while (i + 1 < KERNELS_MAX && kernels[i].taken &&
           (kernels[i].number != product->number || kernels[i].kind != product->kind))
        i++;
    kernels[i].number = product->number;
    kernels[i].kind = product->kind;
    kernels[i].taken = true;
    pthread_mutex_unlock(&kernels_lock);
    return &kernels[i];
}

/* Computes the product as one thread of a kernel, so the runtime's double orders, records and times it as usual. */
static void run(const void *product)
{
    multiply(product);
}

cudaError_t product_enqueue(const struct product *product, cudaStream_t stream)
{
    const struct launch launch = {
        .name = "cublasLtMatmul",
        .kernel = kernel_of(product),
        .run = run,
        .arguments = product,
        .arguments_bytes = sizeof *product,
        .grid = {1, 1, 1},
        .block = {1, 1, 1},
    };
    return launch_enqueue(&launch, stream);
}
