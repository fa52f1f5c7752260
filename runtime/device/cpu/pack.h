/* SPDX-License-Identifier: Apache-2.0
 *
 * Pack: brings operands of matrix products into the order in which oneDNN's AVX-512 and AMX kernels read them.
 * oneDNN's own reorders do the same at a third of the speed, which a product of 512 rows in bf16 feels.
 *
 * A packed b is panels of 64 columns; a panel is blocks of 4 KiB, each 16 rows of 64 words of 32 bits. A word is
 * one fp32, or two bf16 that follow each other along k.
 *
 * AVX-512 only: ah_pack_takes() says whether. Pure functions, no alignment needed.
 */
#ifndef AH_RUNTIME_DEVICE_CPU_PACK_H
#define AH_RUNTIME_DEVICE_CPU_PACK_H

#include "base/isa.h"
#include "schemas/vocabulary.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AH_PACK_COLUMNS = 64, AH_PACK_WORDS = 16, AH_PACK_BLOCK_BYTES = 4096 };

/* `rows` by `columns` elements, `stride` elements from row to row. */
struct ah_pack_matrix {
    const void *data;
    enum ah_dtype dtype;
    uint64_t rows;
    uint64_t columns;
    uint64_t stride;
};

/* b (k, n), n a multiple of 64 and k of a block, into panels that are `panel_bytes` apart. */
void ah_pack_rows(void *dst, size_t panel_bytes, const struct ah_pack_matrix *b);

/* b given as (n, k), the same sizes, into the same panels. */
void ah_pack_columns(void *dst, size_t panel_bytes, const struct ah_pack_matrix *b);

/* a (k, m) into a dense (m, k): m a multiple of 16, k of a block. */
void ah_pack_turn(void *dst, const struct ah_pack_matrix *a);

/* Whether sizes fit: `k` whole blocks, `other` a multiple of `step` columns; and this machine can. */
bool ah_pack_takes(enum ah_isa isa, enum ah_dtype dtype, uint64_t k, uint64_t other, uint64_t step);

#endif
