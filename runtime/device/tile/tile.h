/* SPDX-License-Identifier: Apache-2.0
 *
 * Tile: the innermost product, 32 x 32 elements of c from packed operands (pack.h), for each instruction set.
 *
 * Operands are WORDS of 32 bits along k: one fp32, or two bf16 that follow each other. A packed a is
 * AH_TILE_ROWS rows of AH_TILE_WORDS words; a packed b is one panel of AH_TILE_COLUMNS columns. Words beyond the
 * matrix are zeros in both.
 *
 *     kernel->begin();
 *     for each step of AH_TILE_WORDS words    kernel->multiply(sums, &operands, is_first);
 *     kernel->store(sums, &out);
 *     kernel->end();
 *
 * ARITHMETIC. A sum is fp32, kept from step to step as it is, and depends on its row of a and its column of b
 * only. How a word is added:
 *
 *   fma   words are fp32; one fused multiply-add a word, in ascending k: the same bits on all processors. Products
 *         of bf16 where there are no instructions for them: their elements become fp32 when they are packed.
 *   dot   words are pairs of bf16 (AVX-512-BF16, VDPBF16PS): the odd element is added first, then the even one,
 *         each by a fused multiply-add.
 *   amx   words are pairs of bf16 (AMX, TDPBF16PS): even and odd elements of 16 words are summed by fused
 *         multiply-adds, each from zero, then both added, then that to the sum.
 *
 * dot and amx round to nearest even, take denormal elements as zeros and make denormal sums zeros, whatever MXCSR
 * says. Storing adds bias and c in fp32 and rounds once, denormals kept.
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
    AH_TILE_WORDS = 128, /* of a step, at most */
    AH_TILE_SUMS = AH_TILE_ROWS * AH_TILE_COLUMNS,
    AH_TILE_ROW_BYTES = AH_TILE_WORDS * 4
};

struct ah_tile_operands {
    const void *a;  /* (AH_TILE_ROWS, words) words, as packed, or as they lie where the kernel reads rows */
    size_t a_bytes; /* from row to row; AH_TILE_ROW_BYTES as packed */
    const void *b;  /* (words, AH_TILE_COLUMNS) words */
    uint64_t rows;  /* that matter; the sums of others are anything */
    uint64_t words; /* a multiple of 16 */
};

/* Where the sums go: c = sums (+ bias) (+ c). */
struct ah_tile_out {
    void *c; /* (rows, columns) */
    enum ah_dtype dtype;
    uint64_t stride;  /* elements from row to row */
    const void *bias; /* of the columns; NULL without */
    enum ah_dtype bias_dtype;
    bool accumulate; /* c is fp32 */
    uint64_t rows, columns;
};

struct ah_tile_kernel {
    const char *name;
    enum ah_isa isa;     /* for packing */
    enum ah_dtype words; /* AH_BF16: pairs */
    bool reads_rows;     /* takes other a_bytes than packed rows have */
    double tile_cycles;  /* about, for 16 words: what packing is weighed against */
    void (*begin)(void); /* (optional) before the first product of a thread */
    void (*end)(void);   /* (optional) after the last one */
    void (*multiply)(float *sums, const struct ah_tile_operands *operands, bool is_first);
    void (*store)(const float *sums, const struct ah_tile_out *out);
};

/* How far a product may go: for tests, which also want what older processors do. */
enum ah_tile_level {
    AH_TILE_PORTABLE,
    AH_TILE_AVX2,
    AH_TILE_AVX512,
    AH_TILE_AVX512_BF16,
    AH_TILE_AMX,
    AH_TILE_LEVELS
};

/* The highest level of this processor and system. Asks the system for the use of AMX, once for the process. */
enum ah_tile_level ah_tile_detect(void);

/* The level that products take here: the fastest. Where AVX-512-BF16 is the highest but no faster than fp32, it is
 * AH_TILE_AVX512, so that bf16 has the bits of processors without it. */
enum ah_tile_level ah_tile_choose(void);

/* The kernel for operands of `in` at a level. */
const struct ah_tile_kernel *ah_tile_kernel(enum ah_tile_level level, enum ah_dtype in);

#endif
