/* SPDX-License-Identifier: Apache-2.0
 *
 * Clip: computes the factor that limits the global gradient norm, as PyTorch's clip_grad_norm_ defines it:
 *
 *     norm = sqrt(sum of all blocks' sums of squares)      factor = min(1, limit / (norm + 1e-6))
 *
 * Computed in double, with blocks added in order, and rounded to fp32 once.
 */
#ifndef AH_RUNTIME_DEVICE_HOST_CLIP_H
#define AH_RUNTIME_DEVICE_HOST_CLIP_H

#include "base/error.h"
#include "runtime/device/op.h"

/* Sets grad_norm and, with a limit, grad_scale. AH_E_NUMERIC: the norm is not finite, and `scalars` stays unchanged. */
int ah_clip_run(struct ah_adamw_scalars *scalars, const double *sums, const struct ah_op_clip *clip,
                struct ah_error *err);

#endif
