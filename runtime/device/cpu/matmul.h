/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products of the CPU device, with the same bits for any number of threads.
 *
 *     c = alpha (a op b) (+ bias) (+ c)      nn: a (m,k) b (k,n)   nt: a (m,k) b (n,k)   tn: a (k,m) b (k,n)   c (m,n)
 *
 * One thread sums each element of c over all of k in a fixed order, for any number of threads and any way to cut the
 * product (blocking.h). So bits depend only on the shape and the processor (tile.h). The thread that multiplies
 * operands also packs them, in workspace that ah_matmul_prepare() makes; a run takes nothing from the heap.
 *
 *     ah_matmul_new(&matmul, threads, err);
 *     ah_matmul_prepare(matmul, &shape, err);
 *     ah_matmul_run(ah_matmul_find(matmul, &shape), &(struct ah_matmul_args){.c = c, .a = a, .b = b}, pool);
 *
 * Prepare when nothing runs; one product runs at a time.
 */
#ifndef AH_RUNTIME_DEVICE_CPU_MATMUL_H
#define AH_RUNTIME_DEVICE_CPU_MATMUL_H

#include "base/error.h"
#include "base/pool.h"
#include "runtime/device/tile/blocking.h"
#include "schemas/vocabulary.h"

#include <stdbool.h>
#include <stdint.h>

struct ah_matmul;
struct ah_matmul_product;

static inline bool ah_matmul_shapes_equal(const struct ah_matmul_shape *a, const struct ah_matmul_shape *b)
{
    return a->form == b->form && a->in == b->in && a->out == b->out && a->has_bias == b->has_bias &&
           (!a->has_bias || a->bias == b->bias) && a->accumulate == b->accumulate && a->m == b->m &&
           a->n == b->n && a->k == b->k;
}

/* The operands of a run. Strides are in elements, from row to row; 0: dense. */
struct ah_matmul_args {
    void *c;
    const void *a;
    const void *b;
    const void *bias; /* NULL: no bias */
    uint64_t c_stride, a_stride, b_stride;
    float alpha; /* 0 means 1 */
};

/* Makes products for pools of at most `threads` participants. *Owned* by the caller. */
int ah_matmul_new(struct ah_matmul **ret_matmul, unsigned threads, struct ah_error *err);

/* Like ah_matmul_new(), with the instructions of `level`, which this processor must have. */
int ah_matmul_new_at(struct ah_matmul **ret_matmul, unsigned threads, enum ah_tile_level level,
                     struct ah_error *err);

/* Prepares a product of this shape, if it is not prepared already. AH_E_MEMORY. */
int ah_matmul_prepare(struct ah_matmul *matmul, const struct ah_matmul_shape *shape, struct ah_error *err);

/* Returns the prepared product of a shape, *borrowed*; NULL if there is none. */
struct ah_matmul_product *ah_matmul_find(const struct ah_matmul *matmul, const struct ah_matmul_shape *shape);

/* Returns the bytes of workspace of all threads together. */
uint64_t ah_matmul_workspace_bytes(const struct ah_matmul *matmul);

/* Computes the product on `pool` (NULL: only the calling thread), which has at most `threads` participants. */
int ah_matmul_run(struct ah_matmul_product *product, const struct ah_matmul_args *args, struct ah_pool *pool,
                  struct ah_error *err);

void ah_matmul_free(struct ah_matmul *matmul);

#endif
