/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves and converts numbers: casts, sums of two arrays, fill, column sums, and the copy that copy lanes use.
 *
 * fp32 to bf16 rounds to nearest even, keeps denormals and makes NaN quiet. All sums are fp32. Every function but
 * ah_convert_copy() works element by element, or column by column, on a range [begin, end) of its arrays. Any split
 * into ranges gives the same bits on every instruction set (NaN payloads aside). Arrays need the alignment of their
 * type. Unless said otherwise, a destination may equal a source but must not otherwise overlap it.
 *
 * Threads: no shared state; ranges that do not overlap may run at the same time.
 */
#ifndef AH_RUNTIME_DEVICE_HOST_CONVERT_H
#define AH_RUNTIME_DEVICE_HOST_CONVERT_H

#include "base/isa.h"
#include "schemas/vocabulary.h"

#include <stddef.h>
#include <stdint.h>

struct ah_convert_out {
    void *data;
    enum ah_dtype dtype;
};

struct ah_convert_in {
    const void *data;
    enum ah_dtype dtype;
};

enum { AH_CONVERT_COLUMN_GROUP = 64, AH_CONVERT_STREAM_BYTES = 1 << 20 };

/* Casts src to dst's type. In place only if both types are equal. */
void ah_convert_cast(enum ah_isa isa, struct ah_convert_out dst, struct ah_convert_in src, uint64_t begin,
                     uint64_t end);

/* Casts fp32 to bf16 and writes past the caches: for whole blocks that nobody reads soon. The arrays must not overlap.
 * When it returns, every thread sees the result. */
void ah_convert_stream_bf16(enum ah_isa isa, uint16_t *dst, const float *src, uint64_t begin, uint64_t end);

/* Computes dst = a + b, added in fp32 and rounded to dst's type once. To accumulate, pass a == dst in fp32. */
void ah_convert_add(enum ah_isa isa, struct ah_convert_out dst, struct ah_convert_in a,
                    struct ah_convert_in b, uint64_t begin, uint64_t end);

/* Multiplies elements by `factor`. Memory bandwidth is measured with it: it reads 4 bytes and writes 4 per element. */
void ah_convert_scale(enum ah_isa isa, float *data, float factor, uint64_t begin, uint64_t end);

/* Sets elements to `value`, converted to dst's type. */
void ah_convert_fill(struct ah_convert_out dst, float value, uint64_t begin, uint64_t end);

/* The source of ah_convert_column_sum(): dst[c] is the fp32 sum over rows of src[r * stride + c], for c in [begin,
 * end). Rows are added in order in groups of AH_CONVERT_COLUMN_GROUP, from +0; then the group sums. dst must not
 * overlap src. */
struct ah_convert_matrix {
    struct ah_convert_in src;
    uint64_t rows;
    uint64_t stride; /* elements from row to row */
};
void ah_convert_column_sum(enum ah_isa isa, struct ah_convert_out dst, const struct ah_convert_matrix *matrix,
                           uint64_t begin, uint64_t end);

/* Copies bytes that do not overlap, at any alignment. Copies of AH_CONVERT_STREAM_BYTES or more are written past the
 * caches, so that a copy lane does not evict the compute lane's data. When it returns, every thread sees the result. */
void ah_convert_copy(enum ah_isa isa, void *dst, const void *src, size_t bytes);

#endif
