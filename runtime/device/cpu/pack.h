/* SPDX-License-Identifier: Apache-2.0
 *
 * Pack: brings operands of matrix products into the order in which oneDNN's AVX-512 and AMX kernels read them.
 * oneDNN's own reorders do the same at a third of the speed, which a product of 512 rows in bf16 feels, and
 * cannot pad: with an odd k, oneDNN 2.6.3 was seen to execute an AMX product of tiles that do not fit each other
 * (an illegal instruction), so bf16 operands are padded to whole blocks of k with zeros.
 *
 * A packed b is panels of 16 to 64 columns; a panel is blocks, each 16 rows of one word of 32 bits for each of its
 * columns. A word is one fp32, or two bf16 that follow each other along k. A packed a is dense rows of k.
 *
 * For processors with AVX-512. Pure functions; nothing need be aligned. Elements that the matrix does not have
 * (columns of the last panel, k of the last block) become zeros.
 */
#ifndef AH_RUNTIME_DEVICE_CPU_PACK_H
#define AH_RUNTIME_DEVICE_CPU_PACK_H

#include "schemas/vocabulary.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AH_PACK_WORDS = 16 };

/* An operand of `k` by `other` elements: `other` is n of b, m of a. */
struct ah_pack_matrix {
    const void *data;
    enum ah_dtype dtype;
    uint64_t k;
    uint64_t other;
    uint64_t stride; /* elements from row to row, as it lies */
    bool k_in_rows;  /* each row is a k, with `other` elements; else each row has k elements */
};

struct ah_pack_panels {
    uint64_t columns; /* of a panel: 16, 32, 48 or 64 */
    size_t bytes;     /* from one panel to the next */
};

/* `k` rounded up to whole blocks. */
uint64_t ah_pack_padded(enum ah_dtype dtype, uint64_t k);

/* Packs b from the start of a panel on. */
void ah_pack_b(void *dst, const struct ah_pack_panels *panels, const struct ah_pack_matrix *b);

/* Packs a into (other, row_k), row_k >= k. */
void ah_pack_a(void *dst, uint64_t row_k, const struct ah_pack_matrix *a);

#endif
