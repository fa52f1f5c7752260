/* SPDX-License-Identifier: Apache-2.0
 *
 * The canonical reduction: computes every sum that spans tensors (global gradient norm, loss) with the same bits on
 * every device and for every number of threads.
 *
 * DEFINITION. A flat vector x of n elements is cut into leaves of 4096 elements; a short last leaf is filled with +0.
 * Terms are x, or x * x rounded to fp32. A leaf is 256 rows of 16 lanes, with term 16 r + l in row r, lane l. Leaves
 * are summed as trees in fp32, every addition rounded to nearest even:
 *
 *     rows:   256 -> 128 -> ... -> 1:  row'[i] = row[2 i] + row[2 i + 1], lane by lane
 *     lanes:  16 -> 8 -> 4 -> 2 -> 1:  lane'[i] = lane[i] + lane[i + half]
 *
 * The total starts at 0.0 and adds the leaf sums in double, leaf 0 first. bf16 elements are widened exactly.
 * Sums of several blocks are added in block order by the caller.
 *
 * A GPU warp of 32 threads reads two rows at once, so its first addition is lane i plus lane i + 16.
 *
 * Leaves are independent, so a pool may compute any range of them; only ah_reduce_add() needs an order. ah_reduce_run()
 * works window by window, so that the leaf sums of a window fit on its stack. It allocates nothing.
 */
#ifndef AH_RUNTIME_DEVICE_HOST_REDUCE_H
#define AH_RUNTIME_DEVICE_HOST_REDUCE_H

#include "base/isa.h"
#include "schemas/vocabulary.h"

#include <stdint.h>

enum { AH_REDUCE_LEAF = 4096 };

enum ah_reduce_kind { AH_REDUCE_SUM, AH_REDUCE_SUM_SQUARES };

struct ah_pool;

struct ah_reduce_input {
    const void *data; /* borrowed; alignment of its type */
    enum ah_dtype dtype;
    enum ah_reduce_kind kind;
    uint64_t count;
};

/* Returns the number of leaves of a vector of `count` elements. */
uint64_t ah_reduce_leaf_count(uint64_t count);

/* Writes the sums of leaves [begin, end) to ret_sums[0 .. end - begin). */
void ah_reduce_leaves(enum ah_isa isa, const struct ah_reduce_input *input, uint64_t begin, uint64_t end,
                      float *ret_sums);

/* Adds `n` leaf sums to `total` in order; returns the new total. */
double ah_reduce_add(double total, const float *sums, uint64_t n);

/* Adds all leaf sums of the input, in order, to `total` (at first 0.0), using a pool (NULL: the caller's thread). A
 * vector cut between leaves may be summed piece by piece, each from the previous total, with the same bits. */
double ah_reduce_run(enum ah_isa isa, struct ah_pool *pool, const struct ah_reduce_input *input,
                     double total);

#endif
