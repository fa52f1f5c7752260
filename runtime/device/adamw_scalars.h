/* SPDX-License-Identifier: Apache-2.0
 *
 * AdamW scalars: the per-step numbers that AdamW reads (struct ah_adamw_scalars in op.h), computed from the settings.
 *
 * They are computed only here: in double, each rounded to fp32 once. So every device multiplies by the same bits and
 * needs no double arithmetic.
 *
 *     rest = 1 - beta     neg_rate = -lr / (1 - beta1^t)     root_scale = 1 / sqrt(1 - beta2^t)
 *     decay = 1 - lr * weight_decay
 *
 * where t is the step, from 1, and beta is the *fp32* beta of the moving averages. After t steps the weights of an
 * average sum to 1 - beta^t, so the correction must use the same beta. fp32 rounds 0.999 with an error of 1.3e-8, which
 * is 1.3e-5 of 1 - 0.999: correcting with 0.999 in double would change a constant gradient by up to that.
 */
#ifndef AH_RUNTIME_DEVICE_ADAMW_SCALARS_H
#define AH_RUNTIME_DEVICE_ADAMW_SCALARS_H

#include "runtime/device/op.h"

#include <stdint.h>

struct ah_adamw_settings {
    double lr; /* for this step */
    double beta1, beta2;
    double epsilon;
    double weight_decay;
    uint32_t step; /* >= 1 */
    uint64_t seed; /* for stochastic rounding */
};

/* Sets the scalars of a step without clipping: grad_scale is 1, grad_norm 0. */
void ah_adamw_scalars_init(struct ah_adamw_scalars *ret_scalars, const struct ah_adamw_settings *settings);

#endif
