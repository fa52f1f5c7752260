/* SPDX-License-Identifier: Apache-2.0
 *
 * The scalars of adamw.h in double, rounded once, and the choice of a kernel.
 */
#include "runtime/device/host/adamw.h"

#include "base/philox.h"
#include "runtime/device/host/kernels_internal.h"

static struct ah_adamw_constants constants_of(const struct ah_adamw_arrays *arrays,
                                              const struct ah_adamw_scalars *s)
{
    double weight_decay = arrays->decay ? (double)s->weight_decay : 0.0;
    const struct ah_philox_name draw = {
        .seed = s->seed, .step = s->step, .purpose = AH_PHILOX_ROUNDING, .block = arrays->block};
    struct ah_adamw_constants c = {
        .grad_scale = s->grad_scale,
        .decay = (float)(1.0 - (double)s->lr * weight_decay),
        .neg_rate = (float)-((double)s->lr / (double)s->bias1),
        .root_scale = (float)(1.0 / (double)s->bias2_sqrt),
        .epsilon = s->epsilon,
        .beta1 = s->beta1,
        .rest1 = (float)(1.0 - (double)s->beta1),
        .beta2 = s->beta2,
        .rest2 = (float)(1.0 - (double)s->beta2),
    };
    ah_philox_pack(&draw, c.counter, c.key);
    return c;
}

void ah_adamw_run(enum ah_isa isa, const struct ah_adamw_arrays *arrays,
                  const struct ah_adamw_scalars *scalars, uint64_t begin, uint64_t end)
{
    const struct ah_adamw_constants constants = constants_of(arrays, scalars);
    const unsigned weight = arrays->weight ? (unsigned)arrays->weight_dtype : AH_KERNELS_NO_WEIGHT;
    if (begin < end)
        ah_kernels_of(isa)->adamw[arrays->state_dtype][arrays->gradient_dtype][weight](arrays, &constants,
                                                                                       begin, end);
}
