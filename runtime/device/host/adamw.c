/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs AdamW on the host: picks the kernel and prepares its constants.
 */
#include "runtime/device/host/adamw.h"

#include "base/philox.h"
#include "runtime/device/host/kernels_internal.h"

static struct ah_adamw_constants constants_of(const struct ah_adamw_arrays *arrays,
                                              const struct ah_adamw_scalars *s)
{
    const struct ah_philox_name draw = {
        .seed = s->seed, .step = s->step, .purpose = AH_PHILOX_ROUNDING, .block = arrays->block};
    struct ah_adamw_constants c = {
        .grad_scale = s->grad_scale,
        .decay = arrays->decay ? s->decay : 1.0f,
        .neg_rate = s->neg_rate,
        .root_scale = s->root_scale,
        .epsilon = s->epsilon,
        .beta1 = s->beta1,
        .rest1 = s->rest1,
        .beta2 = s->beta2,
        .rest2 = s->rest2,
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
