/* SPDX-License-Identifier: Apache-2.0
 *
 * AdamW over flat arrays, as PyTorch defines it: decoupled decay, bias correction, epsilon outside the root.
 *
 * ONE SEQUENCE OF OPERATIONS. Every version (portable, AVX2, AVX-512, CUDA) computes exactly this for each element, in
 * fp32. Each operation, fma() included, rounds to nearest even once; division and root are IEEE; denormals are kept:
 *
 *     g  = gradient * grad_scale
 *     m  = fma(beta1, m, rest1 * g)
 *     v  = fma(beta2, v, (rest2 * g) * g)
 *     d  = fma(sqrt(v), root_scale, epsilon)
 *     p  = fma(neg_rate, m / d, p * decay)
 *
 * with the scalars of the step (runtime/device/adamw_scalars.h); decay is 1 for tensors that do not decay. All versions
 * give the same bits for all inputs, infinities and denormals included. A NaN result is a NaN in every version, but its
 * sign and payload are not specified.
 *
 * STATES are fp32 or bf16. bf16 states are widened, the update uses the new m and v before they are rounded, and both
 * are stored with stochastic rounding: the upper half of (bits + r), where r has 16 random bits. Element e of the
 * block's flat vector uses word e % 4 of random draw e / 4 (base/philox.h; purpose ROUNDING, named by seed, step and
 * block). The word's low 16 bits round m, its high 16 bits v. Values that bf16 can hold and infinities do not change; a
 * NaN becomes quiet. GRADIENTS are fp32 or bf16. The same pass may write the new WEIGHT, fp32 or bf16 (nearest even); a
 * bf16 weight is written past the caches.
 *
 * Elements are independent: any split of [0, count) into ranges gives the same bits. Splits at multiples of
 * 64 elements are fastest. Arrays need only the alignment of their type. They are faster if they start on a cache line
 * and NOT all at the same offset modulo 2 MiB: shift p, m, v and g relative to each other by a few KiB.
 *
 *     struct ah_adamw_arrays a = {.master = p, .m = m, .v = v, .gradient = g, .weight = w,
 *                                 .gradient_dtype = AH_BF16, .weight_dtype = AH_BF16, .decay = true};
 *     ah_adamw_run(isa, &a, scalars, begin, end);
 *
 * Threads: no shared state; ranges that do not overlap may run at the same time.
 */
#ifndef AH_RUNTIME_DEVICE_HOST_ADAMW_H
#define AH_RUNTIME_DEVICE_HOST_ADAMW_H

#include "base/isa.h"
#include "runtime/device/op.h"
#include "schemas/vocabulary.h"

#include <stdbool.h>
#include <stdint.h>

/* The arrays of one piece of a block: borrowed, indexed from 0, not overlapping. */
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
    uint32_t block;         /* with first_element, selects the random bits of stochastic rounding */
    uint64_t first_element; /* position of index 0 in the block's flat vector */
};

/* Updates elements [begin, end). This processor must have `isa` (base/isa.h). */
void ah_adamw_run(enum ah_isa isa, const struct ah_adamw_arrays *arrays,
                  const struct ah_adamw_scalars *scalars, uint64_t begin, uint64_t end);

#endif
