/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory-bound kernels of each instruction set, as tables.
 *
 * kernels_portable.c, kernels_avx2.c and kernels_avx512.c each include one x16_*.h and then kernels.inc, whose bodies
 * and table they compile. adamw.c, convert.c and reduce.c are the public side: they compute what does not depend on the
 * instruction set and call through the table.
 */
#ifndef AH_RUNTIME_DEVICE_HOST_KERNELS_INTERNAL_H
#define AH_RUNTIME_DEVICE_HOST_KERNELS_INTERNAL_H

#include "base/isa.h"
#include "base/philox.h"
#include "runtime/device/host/adamw.h"
#include "runtime/device/host/convert.h"
#include "runtime/device/host/reduce.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The scalars of adamw.h, and the input of Philox that all elements of a call share. */
struct ah_adamw_constants {
    float grad_scale, decay, neg_rate, root_scale, epsilon;
    float beta1, rest1, beta2, rest2;
    uint32_t key[2];
    uint32_t counter[4]; /* counter of random draw 0; draw d adds d to the 64 bits of [0] and [1] */
};

enum { AH_KERNELS_STRIP = 512, AH_KERNELS_NO_WEIGHT = 2 };

typedef void ah_kernels_adamw(const struct ah_adamw_arrays *arrays,
                              const struct ah_adamw_constants *constants, uint64_t begin, uint64_t end);
typedef void ah_kernels_cast(void *dst, const void *src, uint64_t n);
typedef void ah_kernels_stream_bf16(uint16_t *dst, const float *src, uint64_t n);
typedef void ah_kernels_add(void *dst, const void *a, const void *b, uint64_t n);
typedef void ah_kernels_scale(float *data, float factor, uint64_t n);
typedef void ah_kernels_columns(float *ret_sums, const struct ah_convert_matrix *matrix, uint64_t begin,
                                uint64_t end);
typedef float ah_kernels_leaf(const void *data, uint64_t n);
typedef void ah_kernels_copy(void *dst, const void *src, size_t lines);

struct ah_kernels {
    ah_kernels_adamw
        *adamw[2][2][AH_KERNELS_NO_WEIGHT + 1]; /* state, gradient, weight (AH_KERNELS_NO_WEIGHT) */
    ah_kernels_cast *cast[2][2];                /* dst, src */
    ah_kernels_stream_bf16 *stream_bf16;
    ah_kernels_add *add[2][2][2]; /* dst, a, b */
    ah_kernels_scale *scale;
    ah_kernels_columns *columns[2]; /* src */
    ah_kernels_leaf *leaf[2][2];    /* kind, dtype */
    ah_kernels_copy *copy; /* copies whole lines past the caches; the destination is 64-byte aligned */
};

extern const struct ah_kernels ah_kernels_portable;
extern const struct ah_kernels ah_kernels_avx2;
extern const struct ah_kernels ah_kernels_avx512;

/* Returns the table of an instruction set; the portable table if the build lacks that of `isa`. */
const struct ah_kernels *ah_kernels_of(enum ah_isa isa);

#endif
