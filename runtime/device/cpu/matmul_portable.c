/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul.h in plain C: a row of c is one piece of work, each element one fp32 sum over k in ascending order
 * with fma. For builds that watch every memory access; speed does not matter.
 */
#include "base/bf16.h"
#include "runtime/device/cpu/matmul.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct ah_matmul_product {
    struct ah_matmul_product *next; /* owned */
    struct ah_matmul_shape shape;
};

struct ah_matmul {
    struct ah_matmul_product *products; /* owned */
};

struct run {
    const struct ah_matmul_shape *shape;
    const struct ah_matmul_args *args;
};

bool ah_matmul_has_bf16(void)
{
    return true;
}

int ah_matmul_new(struct ah_matmul **ret_matmul, unsigned threads, struct ah_error *err)
{
    (void)threads;
    *ret_matmul = calloc(1, sizeof **ret_matmul);
    return *ret_matmul ? AH_OK : ah_error_memory(err);
}

struct ah_matmul_product *ah_matmul_find(const struct ah_matmul *matmul, const struct ah_matmul_shape *shape)
{
    struct ah_matmul_product *product = matmul->products;
    while (product && !ah_matmul_shapes_equal(&product->shape, shape))
        product = product->next;
    return product;
}

int ah_matmul_prepare(struct ah_matmul *matmul, const struct ah_matmul_shape *shape, struct ah_error *err)
{
    if (ah_matmul_find(matmul, shape))
        return AH_OK;
    struct ah_matmul_product *product = calloc(1, sizeof *product);
    if (!product)
        return ah_error_memory(err);
    product->shape = *shape;
    product->next = matmul->products;
    matmul->products = product;
    return AH_OK;
}

uint64_t ah_matmul_workspace_bytes(const struct ah_matmul *matmul)
{
    (void)matmul;
    return 0;
}

static float element(const void *data, enum ah_dtype dtype, uint64_t index)
{
    if (dtype == AH_FP32)
        return ((const float *)data)[index];
    return ah_bf16_to_fp32(((const uint16_t *)data)[index]);
}

static float dot(const struct run *run, uint64_t row, uint64_t column)
{
    const struct ah_matmul_shape *shape = run->shape;
    bool a_turned = shape->form == AH_MATMUL_TN;
    bool b_turned = shape->form == AH_MATMUL_NT;
    float sum = 0;
    for (uint64_t k = 0; k < shape->k; k++) {
        uint64_t at_a = a_turned ? k * shape->m + row : row * shape->k + k;
        uint64_t at_b = b_turned ? column * shape->k + k : k * shape->n + column;
        sum = fmaf(element(run->args->a, shape->in, at_a), element(run->args->b, shape->in, at_b), sum);
    }
    return sum;
}

static void run_row(void *context, size_t row, unsigned worker)
{
    const struct run *run = context;
    const struct ah_matmul_shape *shape = run->shape;
    (void)worker;
    for (uint64_t column = 0; column < shape->n; column++) {
        uint64_t at = row * shape->n + column;
        float value = dot(run, row, column);
        if (shape->has_bias)
            value += element(run->args->bias, shape->bias, column);
        if (shape->accumulate)
            value += ((float *)run->args->c)[at];
        if (shape->out == AH_FP32)
            ((float *)run->args->c)[at] = value;
        else
            ((uint16_t *)run->args->c)[at] = ah_bf16_from_fp32(value);
    }
}

int ah_matmul_run(struct ah_matmul_product *product, const struct ah_matmul_args *args, struct ah_pool *pool,
                  struct ah_error *err)
{
    (void)err;
    struct run run = {&product->shape, args};
    ah_pool_run(pool, run_row, &run, product->shape.m);
    return AH_OK;
}

void ah_matmul_free(struct ah_matmul *matmul)
{
    if (!matmul)
        return;
    struct ah_matmul_product *product = matmul->products;
    while (product) {
        struct ah_matmul_product *next = product->next;
        free(product);
        product = next;
    }
    free(matmul);
}
