/* SPDX-License-Identifier: Apache-2.0
 *
 * AdamW over flat arrays, as PyTorch defines it: decoupled decay, bias correction, epsilon outside the root.
 *
 * ONE SEQUENCE OF OPERATIONS. Every version (portable, AVX2, AVX-512, CUDA) does for each element exactly
 * this in fp32; each line's operations are rounded to nearest even once per operation, fma() once as a whole,
 * division and root are the IEEE ones, denormals are kept:
 *
 *     g  = gradient * grad_scale
 *     m  = fma(beta1, m, rest1 * g)
 *     v  = fma(beta2, v, (rest2 * g) * g)
 *     d  = fma(sqrt(v), root_scale, epsilon)
 *     p  = fma(neg_rate, m / d, p * decay)
 *
 * with the scalars of the step (runtime/device/adamw_scalars.h); decay is 1 for tensors that do not decay.
 * Results are the same bits on every version for all inputs, infinities and denormals included; where a
 * result is a NaN it is a NaN everywhere, but its sign and payload are not specified.
 *
 * STATES are fp32, or bf16: then m and v are widened, the update uses the new m and v before they are
 * rounded, and they are stored with stochastic rounding: the upper half of (bits + r), r of 16 random bits.
 * Element e of the block's flat vector takes word e % 4 of draw e / 4 (base/philox.h; purpose ROUNDING, named
 * by seed, step and block); its low 16 bits round m, its high 16 bits v. A value that bf16 holds stays;
 * infinity stays; a NaN becomes quiet. GRADIENTS are fp32 or bf16. The new WEIGHT, fp32 or bf16 (nearest
 * even), may be written in the same pass; a bf16 weight is written past the caches.
 *
 * Elements are independent: any split of [0, count) into ranges gives the same bits. Splits at multiples of
 * 64 elements are fastest. Arrays need the alignment of their type only, but are faster when they start on a
 * cache line and NOT all at the same offset modulo 2 MiB: skew p, m, v and g by a few KiB against each other.
 *
 *     struct ah_adamw_arrays a = {.master = p, .m = m, .v = v, .gradient = g, .weight = w,
 *                                 .gradient_dtype = AH_BF16, .weight_dtype = AH_BF16, .decay = true};
 *     ah_adamw_run(isa, &a, scalars, begin, end);
 *
 * Threads: pure functions of their arguments; ranges that do not overlap may run at the same time.
 */
#ifndef AH_RUNTIME_DEVICE_HOST_ADAMW_H
#define AH_RUNTIME_DEVICE_HOST_ADAMW_H

#include "base/isa.h"
#include "runtime/device/op.h"
#include "schemas/vocabulary.h"

#include <stdbool.h>
#include <stdint.h>

/* The arrays of one piece of a block, all borrowed and indexed from 0; none may overlap another. */
struct ah_adamw_arrays {
    float *master;
    void *m; /* state_dtype */
    void *v; /* state_dtype */
    const void *gradient;
    void *weight; /* (optional) NULL: the master is the weight */
    enum ah_dtype state_dtype;
    enum ah_dtype gradient_dtype;
    enum ah_dtype weight_dtype;
    bool decay;
    uint32_t block;         /* with first_element keys stochastic rounding */
    uint64_t first_element; /* place of index 0 in the block's flat vector */
};

/* Updates elements [begin, end). `isa` must be one this processor has (base/isa.h). */
void ah_adamw_run(enum ah_isa isa, const struct ah_adamw_arrays *arrays,
                  const struct ah_adamw_scalars *scalars, uint64_t begin, uint64_t end);

#endif
