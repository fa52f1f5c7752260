/* SPDX-License-Identifier: Apache-2.0
 *
 * Tile: the innermost product, 32 x 32 elements of c from packed operands (pack.h), for each instruction set.
 *
 * Operands are WORDS of 32 bits along k: one fp32, or two bf16 next to each other. A packed a is AH_TILE_ROWS rows of
 * AH_TILE_WORDS words; a packed b is one panel of AH_TILE_COLUMNS columns. Words beyond the matrix are zeros in both.
 *
 *     kernel->begin();
 *     for each step of AH_TILE_WORDS words    kernel->multiply(sums, &operands, is_first);
 *     kernel->store(sums, &out);
 *     kernel->end();
 *
 * ARITHMETIC. A sum is fp32, is not rounded between steps, and depends only on its row of a and its column of b. A word
 * is added as follows:
 *
 *   fma   Words are fp32. One fused multiply-add per word, in ascending k: the same bits on all processors. Also used
 *         for bf16 on processors without bf16 instructions: packing widens the elements to fp32.
 *   dot   Words are pairs of bf16 (AVX-512-BF16, VDPBF16PS). The odd element is added first, then the even one, each
 *         by a fused multiply-add.
 *   amx   Words are pairs of bf16 (AMX, TDPBF16PS). Fused multiply-adds sum the even elements of 16 words from zero,
 *         and also the odd ones from zero; both results together are added.
 *
 * dot and amx round to nearest even, read denormal elements as zeros and flush denormal sums to zero, whatever MXCSR
 * says. Storing adds bias and c in fp32 and rounds once, keeping denormals.
 *
 * Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, TDPBF16PS and VDPBF16PS.
 */
#ifndef AH_RUNTIME_DEVICE_TILE_TILE_H
#define AH_RUNTIME_DEVICE_TILE_TILE_H

#include "base/isa.h"
#include "schemas/vocabulary.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    AH_TILE_ROWS = 32,
    AH_TILE_COLUMNS = 32,
    AH_TILE_WORDS = 128, /* words per step, at most */
    AH_TILE_SUMS = AH_TILE_ROWS * AH_TILE_COLUMNS,
    AH_TILE_ROW_BYTES = AH_TILE_WORDS * 4
};

struct ah_tile_operands {
    const void
        *a; /* (AH_TILE_ROWS, words) words: packed, or in the matrix itself if the kernel has reads_rows */
    size_t a_bytes; /* bytes from row to row; AH_TILE_ROW_BYTES if packed */
    const void *b;  /* (words, AH_TILE_COLUMNS) words */
    uint64_t rows;  /* rows of a in use; sums of other rows are undefined */
    uint64_t words; /* a multiple of 16 */
};

/* Where to store a tile, and what to add: c = alpha sums (+ bias) (+ c). */
struct ah_tile_out {
    void *c; /* (rows, columns) */
    enum ah_dtype dtype;
    uint64_t stride;  /* elements from row to row */
    const void *bias; /* an element per column; NULL: no bias */
    enum ah_dtype bias_dtype;
    bool accumulate;
    float alpha;
    uint64_t rows, columns;
};

struct ah_tile_kernel {
    const char *name;
    enum ah_isa isa;     /* instruction set for packing */
    enum ah_dtype words; /* what words hold; AH_BF16: pairs of bf16 */
    bool reads_rows;     /* accepts any a_bytes, not only that of packed rows */
    double tile_cycles;  /* rough number of cycles for 16 words of k, to compare with packing */
    void (*begin)(void); /* (optional) before a thread's first product */
    void (*end)(void);   /* (optional) after a thread's last product */
    void (*multiply)(float *sums, const struct ah_tile_operands *operands, bool is_first);
    void (*store)(const float *sums, const struct ah_tile_out *out);
};

/* The newest instructions that products may use. Tests choose lower levels, to test what older processors do. */
enum ah_tile_level {
    AH_TILE_PORTABLE,
    AH_TILE_AVX2,
    AH_TILE_AVX512,
    AH_TILE_AVX512_BF16,
    AH_TILE_AMX,
    AH_TILE_LEVELS
};

/* Returns the highest level of this processor and system. Asks the system to let this process use AMX. */
enum ah_tile_level ah_tile_detect(void);

/* Returns the fastest level, which products use here. If AVX-512-BF16 is the highest level but no faster than fp32,
 * returns AH_TILE_AVX512, so that bf16 gives the same bits as on processors without AVX-512-BF16. */
enum ah_tile_level ah_tile_choose(void);

/* Returns the kernel for operands of type `in` at a level. */
const struct ah_tile_kernel *ah_tile_kernel(enum ah_tile_level level, enum ah_dtype in);

#endif
