/* SPDX-License-Identifier: Apache-2.0
 *
 * AdamW scalars: the numbers that AdamW reads of one step (struct ah_adamw_scalars in op.h), from its settings.
 *
 * The one place where they are computed: in double, each rounded to fp32 once, so that every device multiplies by
 * the same bits and computes nothing in double itself.
 *
 *     rest = 1 - beta     neg_rate = -lr / (1 - beta1^t)     root_scale = 1 / sqrt(1 - beta2^t)
 *     decay = 1 - lr * weight_decay
 *
 * with t the step, from 1, and beta the *fp32* beta. A moving average that weighs with beta and rest has, after t
 * steps, the weights 1 - beta^t of these very numbers. With corrections from 0.999 in double, v would be corrected
 * as if by another average: 0.999 rounds to fp32 with an error of 1.3e-8, which is 1.3e-5 of 1 - 0.999, and a
 * constant gradient would not give back itself.
 */
#ifndef AH_RUNTIME_DEVICE_ADAMW_SCALARS_H
#define AH_RUNTIME_DEVICE_ADAMW_SCALARS_H

#include "runtime/device/op.h"

#include <stdint.h>

struct ah_adamw_settings {
    double lr; /* of this step */
    double beta1, beta2;
    double epsilon;
    double weight_decay;
    uint32_t step; /* >= 1 */
    uint64_t seed; /* of stochastic rounding */
};

/* The scalars of a step without clipping: grad_scale is 1, grad_norm 0. */
void ah_adamw_scalars_init(struct ah_adamw_scalars *ret_scalars, const struct ah_adamw_settings *settings);

#endif
