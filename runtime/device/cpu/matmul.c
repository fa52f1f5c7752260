/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products (matmul.h). The pool distributes units (blocking.h); a thread computes each unit in its own memory:
 *
 *     for each chunk of k
 *         pack the unit's columns of b
 *         for each strip of the unit, and each step of the chunk
 *             pack the strip of a
 *             multiply: sums of the strip's tiles += a b
 *             after the last step of the last chunk: store the tiles
 *
 * 1. An element of c depends only on its row of a, its column of b and the shape: not on unit, thread or neighbours.
 * 2. Sums stay fp32 in the thread's memory until they are complete; c is written once, whatever its type.
 * 3. No thread reads what another thread packed, because sharing it cost a quarter of the speed on two cores.
 */
#include "runtime/device/cpu/matmul.h"

#include "runtime/device/host/region.h"
#include "runtime/device/tile/blocking.h"
#include "runtime/device/tile/pack.h"
#include "runtime/device/tile/tile.h"

#include <stdlib.h>

enum { LINE_BYTES = 64, SET_LINES = 16 };

struct ah_matmul_product {
    struct ah_matmul_product *next; /* owned */
    struct ah_matmul *matmul;       /* borrowed */
    struct ah_matmul_shape shape;
    const struct ah_tile_kernel *kernel;
    struct ah_blocking blocking;
    struct ah_blocking_memory memory; /* offsets in the workspace of one thread */
};

struct ah_matmul {
    enum ah_tile_level level;
    unsigned threads;
    struct ah_matmul_product *products; /* owned */
    struct ah_region workspace;         /* for the running product; a part of equal size for each thread */
};

int ah_matmul_new_at(struct ah_matmul **ret_matmul, unsigned threads, enum ah_tile_level level,
                     struct ah_error *err)
{
    struct ah_matmul *matmul = calloc(1, sizeof *matmul);
    if (!matmul)
        return ah_error_memory(err);
    matmul->threads = threads;
    matmul->level = level;
    *ret_matmul = matmul;
    return AH_OK;
}

int ah_matmul_new(struct ah_matmul **ret_matmul, unsigned threads, struct ah_error *err)
{
    return ah_matmul_new_at(ret_matmul, threads, ah_tile_choose(), err);
}

struct ah_matmul_product *ah_matmul_find(const struct ah_matmul *matmul, const struct ah_matmul_shape *shape)
{
    struct ah_matmul_product *product = matmul->products;
    while (product && !ah_matmul_shapes_equal(&product->shape, shape))
        product = product->next;
    return product;
}

uint64_t ah_matmul_workspace_bytes(const struct ah_matmul *matmul)
{
    return matmul->workspace.bytes;
}

static int grow_workspace(struct ah_matmul *matmul, size_t bytes, struct ah_error *err)
{
    struct ah_region larger;
    if (bytes <= matmul->workspace.bytes)
        return AH_OK;
    int rc = ah_region_init(&larger, bytes, err);
    if (rc)
        return rc;
    ah_region_release(&matmul->workspace);
    matmul->workspace = larger;
    return AH_OK;
}

int ah_matmul_prepare(struct ah_matmul *matmul, const struct ah_matmul_shape *shape, struct ah_error *err)
{
    if (ah_matmul_find(matmul, shape))
        return AH_OK;
    struct ah_matmul_product *product = calloc(1, sizeof *product);
    if (!product)
        return ah_error_memory(err);
    product->matmul = matmul;
    product->shape = *shape;
    product->kernel = ah_tile_kernel(matmul->level, shape->in);
    product->blocking = ah_blocking_of(shape, product->kernel, matmul->threads);
    product->memory = ah_blocking_memory_of(shape, product->kernel, &product->blocking);
    int rc = grow_workspace(matmul, product->memory.end * matmul->threads, err);
    if (rc) {
        free(product);
        return rc;
    }
    product->next = matmul->products;
    matmul->products = product;
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
    ah_region_release(&matmul->workspace);
    free(matmul);
}

/* A matrix of the caller, with a stride that is never 0. */
struct matrix {
    unsigned char *data;
    enum ah_dtype dtype;
    uint64_t stride;
};

struct run {
    const struct ah_matmul_product *product;
    const struct ah_matmul_args *args;
    uint64_t units_m;
};

/* A unit and the memory of the thread that computes it. */
struct unit {
    const struct run *run;
    uint64_t m, n; /* row and column of the unit's first element */
    uint64_t rows, columns;
    void *a;
    uint32_t *b;
    float *sums;
};

/* A range of k. */
struct part {
    uint64_t k;
    uint64_t count;
};

static uint64_t stride_or(uint64_t stride, uint64_t dense)
{
    return stride ? stride : dense;
}

/* Returns the part of `whole` that starts at index `k` along k, and at row or column `other` in the other direction. */
static struct ah_pack_matrix part_of(const void *data, const struct ah_pack_matrix *whole, uint64_t k,
                                     uint64_t other)
{
    struct ah_pack_matrix part = *whole;
    uint64_t index = whole->k_in_rows ? k * whole->stride + other : other * whole->stride + k;
    part.data = (const unsigned char *)data + index * ah_dtype_bytes(whole->dtype);
    return part;
}

static void pack_columns(const struct unit *unit, const struct part *chunk)
{
    const struct ah_matmul_product *product = unit->run->product;
    const struct ah_matmul_shape *shape = &product->shape;
    const struct ah_matmul_args *args = unit->run->args;
    const bool transposed = shape->form == AH_MATMUL_NT;
    const struct ah_pack_matrix wanted = {
        .dtype = shape->in,
        .k = chunk->count,
        .other = unit->columns,
        .stride = stride_or(args->b_stride, transposed ? shape->k : shape->n),
        .k_in_rows = !transposed,
    };
    const struct ah_pack_matrix b = part_of(args->b, &wanted, chunk->k, unit->n);
    ah_pack_b(unit->b, product->kernel, &b);
}

/* Returns the rows of matrix `a` for the strip at `row`, limited to one step's range of k. */
static struct ah_pack_matrix strip_of(const struct unit *unit, const struct part *step, uint64_t row)
{
    const struct ah_matmul_shape *shape = &unit->run->product->shape;
    const struct ah_matmul_args *args = unit->run->args;
    const bool transposed = shape->form == AH_MATMUL_TN;
    const struct ah_pack_matrix wanted = {
        .dtype = shape->in,
        .k = step->count,
        .other = ah_blocking_part(unit->rows, AH_TILE_ROWS, row / AH_TILE_ROWS),
        .stride = stride_or(args->a_stride, transposed ? shape->m : shape->k),
        .k_in_rows = transposed,
    };
    return part_of(args->a, &wanted, step->k, unit->m + row);
}

static struct part step_of(const struct ah_blocking *blocking, const struct part *chunk, uint64_t k)
{
    return (struct part){chunk->k + k,
                         ah_blocking_part(chunk->count, blocking->step_k, k / blocking->step_k)};
}

/* Returns what comes after this step of the strip at `row` in matrix `a`. It is empty after the unit's last step. */
static struct ah_pack_matrix next_strip(const struct unit *unit, const struct part *chunk,
                                        const struct part *step, uint64_t row)
{
    const struct ah_blocking *blocking = &unit->run->product->blocking;
    const uint64_t after = step->k + step->count - chunk->k;
    const bool same_row = after < chunk->count;
    const struct part next = step_of(blocking, chunk, same_row ? after : 0);
    if (!same_row && row + AH_TILE_ROWS >= unit->rows)
        return (struct ah_pack_matrix){0};
    return strip_of(unit, &next, same_row ? row : row + AH_TILE_ROWS);
}

static void store_tile(const struct unit *unit, const float *sums, uint64_t row, uint64_t column)
{
    const struct ah_matmul_product *product = unit->run->product;
    const struct ah_matmul_shape *shape = &product->shape;
    const struct ah_matmul_args *args = unit->run->args;
    const uint64_t stride = stride_or(args->c_stride, shape->n);
    const uint64_t m = unit->m + row, n = unit->n + column;
    const struct ah_tile_out out = {
        .c = (unsigned char *)args->c + (m * stride + n) * ah_dtype_bytes(shape->out),
        .dtype = shape->out,
        .stride = stride,
        .bias = shape->has_bias ? (const unsigned char *)args->bias + n * ah_dtype_bytes(shape->bias) : NULL,
        .bias_dtype = shape->bias,
        .accumulate = shape->accumulate,
        .alpha = args->alpha == 0 ? 1 : args->alpha,
        .rows = ah_blocking_part(unit->rows, AH_TILE_ROWS, row / AH_TILE_ROWS),
        .columns = ah_blocking_part(unit->columns, AH_TILE_COLUMNS, column / AH_TILE_COLUMNS),
    };
    product->kernel->store(sums, &out);
}

/* True if the kernel should read a strip in place: whole tiles, with rows at cache lines that spread over many sets. */
static bool lies_well(const struct ah_tile_kernel *kernel, const struct ah_pack_matrix *a)
{
    const uint64_t row_bytes = a->stride * ah_dtype_bytes(a->dtype);
    return kernel->reads_rows && !a->k_in_rows && a->other == AH_TILE_ROWS &&
           a->k % (AH_PACK_WORDS * sizeof(uint32_t) / ah_dtype_bytes(a->dtype)) == 0 &&
           (uintptr_t)a->data % LINE_BYTES == 0 && row_bytes % LINE_BYTES == 0 &&
           row_bytes % (SET_LINES * LINE_BYTES) != 0;
}

/* Sets the address of a in `operands`: in place if the kernel should read a there, else that of a packed copy. */
static void place_strip(const struct unit *unit, const struct ah_pack_matrix *a,
                        struct ah_tile_operands *operands)
{
    const struct ah_tile_kernel *kernel = unit->run->product->kernel;
    operands->a = unit->a;
    operands->a_bytes = AH_TILE_ROW_BYTES;
    if (lies_well(kernel, a)) {
        operands->a = a->data;
        operands->a_bytes = a->stride * ah_dtype_bytes(a->dtype);
    } else {
        ah_pack_a(unit->a, kernel, a);
    }
}

/* Multiplies the strip at `row` in one step of a chunk, whose columns of b are already packed. */
static void multiply_strip(const struct unit *unit, const struct part *chunk, const struct part *step,
                           uint64_t row)
{
    const struct ah_matmul_product *product = unit->run->product;
    const struct ah_tile_kernel *kernel = product->kernel;
    const uint64_t panel_words = ah_pack_words(kernel, chunk->count) * AH_TILE_COLUMNS;
    const uint64_t words_before = ah_pack_words(kernel, step->k - chunk->k);
    struct ah_tile_operands operands = {
        .rows = ah_blocking_part(unit->rows, AH_TILE_ROWS, row / AH_TILE_ROWS),
        .words = ah_pack_words(kernel, step->count),
    };
    float *sums =
        unit->sums +
        (ah_blocking_keeps_sums(&product->shape, &product->blocking) ? row * product->blocking.unit_n : 0);
    const struct ah_pack_matrix a = strip_of(unit, step, row);
    const struct ah_pack_matrix next = next_strip(unit, chunk, step, row);
    place_strip(unit, &a, &operands);
    for (uint64_t column = 0; column < unit->columns; column += AH_TILE_COLUMNS) {
        operands.b = unit->b + column / AH_TILE_COLUMNS * panel_words + words_before * AH_TILE_COLUMNS;
        ah_pack_prefetch(&next, column / AH_TILE_COLUMNS, ah_blocking_parts(unit->columns, AH_TILE_COLUMNS));
        kernel->multiply(sums, &operands, step->k == 0);
        if (step->k + step->count == product->shape.k)
            store_tile(unit, sums, row, column);
        sums += AH_TILE_SUMS;
    }
}

static void compute_chunk(const struct unit *unit, const struct part *chunk)
{
    const struct ah_blocking *blocking = &unit->run->product->blocking;
    pack_columns(unit, chunk);
    for (uint64_t row = 0; row < unit->rows; row += AH_TILE_ROWS)
        for (uint64_t k = 0; k < chunk->count; k += blocking->step_k) {
            const struct part step = step_of(blocking, chunk, k);
            multiply_strip(unit, chunk, &step, row);
        }
}

static void compute_unit(void *context, size_t number, unsigned worker)
{
    const struct run *run = context;
    const struct ah_matmul_product *product = run->product;
    const struct ah_blocking *blocking = &product->blocking;
    const struct ah_matmul_shape *shape = &product->shape;
    unsigned char *memory = product->matmul->workspace.data + worker * product->memory.end;
    const struct unit unit = {
        .run = run,
        .m = number % run->units_m * blocking->unit_m,
        .n = number / run->units_m * blocking->unit_n,
        .rows = ah_blocking_part(shape->m, blocking->unit_m, number % run->units_m),
        .columns = ah_blocking_part(shape->n, blocking->unit_n, number / run->units_m),
        .a = memory + product->memory.a,
        .b = (uint32_t *)(void *)(memory + product->memory.b),
        .sums = (float *)(void *)(memory + product->memory.sums),
    };
    if (product->kernel->begin)
        product->kernel->begin();
    for (uint64_t k = 0; k < shape->k; k += blocking->chunk_k) {
        const struct part chunk = {k, ah_blocking_part(shape->k, blocking->chunk_k, k / blocking->chunk_k)};
        compute_chunk(&unit, &chunk);
    }
    if (product->kernel->end)
        product->kernel->end();
}

int ah_matmul_run(struct ah_matmul_product *product, const struct ah_matmul_args *args, struct ah_pool *pool,
                  struct ah_error *err)
{
    const struct ah_matmul_shape *shape = &product->shape;
    struct run run = {product, args, ah_blocking_parts(shape->m, product->blocking.unit_m)};
    (void)err;
    ah_pool_run(pool, compute_unit, &run,
                run.units_m * ah_blocking_parts(shape->n, product->blocking.unit_n));
    return AH_OK;
}
