/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes the AdamW scalars of a step; adamw_scalars.h has the formulas.
 */
#include "runtime/device/adamw_scalars.h"

#include <assert.h>
#include <math.h>

void ah_adamw_scalars_init(struct ah_adamw_scalars *ret_scalars, const struct ah_adamw_settings *settings)
{
    const float beta1 = (float)settings->beta1, beta2 = (float)settings->beta2;
    assert(settings->step >= 1);
    *ret_scalars = (struct ah_adamw_scalars){
        .beta1 = beta1,
        .rest1 = (float)(1 - (double)beta1),
        .beta2 = beta2,
        .rest2 = (float)(1 - (double)beta2),
        .epsilon = (float)settings->epsilon,
        .neg_rate = (float)(-settings->lr / (1 - pow((double)beta1, settings->step))),
        .root_scale = (float)(1 / sqrt(1 - pow((double)beta2, settings->step))),
        .decay = (float)(1 - settings->lr * settings->weight_decay),
        .grad_scale = 1,
        .step = settings->step,
        .seed = settings->seed,
    };
}
