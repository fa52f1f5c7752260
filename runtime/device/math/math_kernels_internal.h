/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of each instruction set, as tables, and their arguments.
 *
 * math_kernels_portable.c, math_kernels_avx2.c and math_kernels_avx512.c each include one x16_*.h of the host's room
 * and then kernels.inc, whose bodies and table they compile. norm.c, rope.c, activation.c and cross_entropy.c split an
 * op into pieces and call a kernel for each.
 */
#ifndef AH_RUNTIME_DEVICE_MATH_MATH_KERNELS_INTERNAL_H
#define AH_RUNTIME_DEVICE_MATH_MATH_KERNELS_INTERNAL_H

#include "base/isa.h"
#include "runtime/device/math/math_internal.h"
#include "runtime/device/math/math_log.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The operands of a norm. Vector v is head v % heads of row v / heads. */
struct ah_norm_args {
    struct ah_math_matrix y, x;       /* forward */
    struct ah_math_matrix dx, dy;     /* backward, which also reads x; dx may be absent */
    struct ah_math_matrix gain, bias; /* one row of `width`; bias may be absent */
    float *mean;                      /* of each vector; NULL: rms */
    float *scale;                     /* 1 / deviation of each vector */
    float *dgain, *dbias;             /* partial sums of gradients (groups, width); NULL: not wanted */
    uint64_t vectors, heads, width;
    float epsilon;
    float offset; /* added to each gain; -0 adds nothing, not even to a gain of -0 */
};

struct ah_rope_args {
    struct ah_math_matrix x;
    const float *table;        /* (positions, head_dim / 2) pairs of cosine and sine; rotated / 2 are used */
    const uint32_t *positions; /* NULL: row % seq */
    uint64_t heads, head_dim, rotated, seq;
    bool inverse;
};

struct ah_activation_args {
    struct ah_math_matrix y, x, up; /* forward; `up` only if gated */
    struct ah_math_matrix dx, dup, dy;
    uint64_t width;
};

struct ah_cross_entropy_args {
    float *loss;
    struct ah_math_matrix logits,
        gradient; /* gradient: the same matrix as logits, or a separate bf16 matrix if logits are fp32 */
    const uint32_t *targets;
    const uint8_t *mask; /* NULL: every row counts */
    const float *scale;
    uint64_t vocabulary;
    float soft_cap; /* 0: none */
};

/* Kernels compute vectors or rows [begin, end), or in norm_backward the group with index `group` in the scratch. */
typedef void ah_kernels_norm(const struct ah_norm_args *args, uint64_t begin, uint64_t end);
typedef void ah_kernels_norm_backward(const struct ah_norm_args *args, uint64_t group);
typedef void ah_kernels_rope(const struct ah_rope_args *args, uint64_t begin, uint64_t end);
typedef void ah_kernels_activation(const struct ah_activation_args *args, uint64_t begin, uint64_t end);
typedef void ah_kernels_cross_entropy(const struct ah_cross_entropy_args *args, uint64_t begin, uint64_t end);

enum { AH_KERNELS_ACTIVATIONS = AH_ACTIVATION_GELU_TANH_GATED + 1 };

struct ah_math_kernels {
    ah_kernels_norm *norm;
    ah_kernels_norm_backward *norm_backward;
    ah_kernels_rope *rope;
    ah_kernels_activation *activation[AH_KERNELS_ACTIVATIONS];
    ah_kernels_activation *activation_backward[AH_KERNELS_ACTIVATIONS];
    ah_kernels_cross_entropy *cross_entropy;
};

extern const struct ah_math_kernels ah_math_kernels_portable;
extern const struct ah_math_kernels ah_math_kernels_avx2;
extern const struct ah_math_kernels ah_math_kernels_avx512;

/* Returns the table of an instruction set; the portable table if the build lacks that of `isa`. */
const struct ah_math_kernels *ah_math_kernels_of(enum ah_isa isa);

#endif
