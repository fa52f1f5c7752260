/* SPDX-License-Identifier: Apache-2.0
 *
 * Emulate: how far lanes must be slowed for a device to show another machine's trade-offs.
 *
 * The one place where `profile --emulate` and `run --emulate` compute a throttle. Compute runs as fast as it
 * can; copy lanes and the host lane are slowed until
 *
 *     link bytes/s : compute flops/s   and   host Adam params/s : compute flops/s
 *
 * equal those of the target. The host lane's other ops move bytes at the rate at which the target's host Adam
 * does, 28 a parameter: what a host can do beside the rest of the machine, measured on every one. A whole machine
 * slower by one factor behaves alike, so the target's copy latency is stretched by that factor; the share that
 * copies keep while both directions work is taken as it is.
 *
 *     enum ah_dtype dtype;
 *     rc = ah_emulate_dtype(target, device->info.bf16, &dtype, err);
 *     ... measure compute_flops_per_s of that dtype, with the threads that will run ...
 *     rc = ah_emulate_throttle(target, dtype, compute_flops_per_s, &options.throttle, err);
 */
#ifndef AH_RUNTIME_DEVICE_EMULATE_H
#define AH_RUNTIME_DEVICE_EMULATE_H

#include "base/error.h"
#include "runtime/device/device.h"
#include "schemas/machine.h"

#include <stdbool.h>

/* The dtype whose matrix products the ratios refer to: bf16 where the target and this device (`bf16`) have
 * it, else fp32. AH_E_USAGE where the target has no rate of a dtype that both know. */
int ah_emulate_dtype(const struct ah_machine *target, bool bf16, enum ah_dtype *ret_dtype,
                     struct ah_error *err);

/* The throttle under which a device whose products of `dtype` run at `compute_flops_per_s` shows the target's
 * ratios. Pure. AH_E_USAGE names the number that the target lacks (a link each way, host Adam, products). */
int ah_emulate_throttle(const struct ah_machine *target, enum ah_dtype dtype, double compute_flops_per_s,
                        struct ah_device_throttle *ret_throttle, struct ah_error *err);

#endif
