/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes the norm of all gradients and the clipping factor (clip.h).
 */
#include "runtime/device/host/clip.h"

#include <math.h>

int ah_clip_run(struct ah_adamw_scalars *scalars, const double *sums, const struct ah_op_clip *clip,
                struct ah_error *err)
{
    double total = 0;
    for (uint64_t i = 0; i < clip->sums; i++)
        total += sums[i];
    double norm = sqrt(total);
    if (!isfinite(norm))
        return ah_error_set(err, AH_E_NUMERIC, "the gradient norm of step %u is not finite", scalars->step);
    double factor = clip->limit / (norm + 1e-6);
    scalars->grad_norm = (float)norm;
    if (clip->limit > 0)
        scalars->grad_scale = factor < 1 ? (float)factor : 1.0f;
    return AH_OK;
}
