/* SPDX-License-Identifier: Apache-2.0
 *
 * Emulate: computes how much to slow a device's lanes so that it shows another machine's trade-offs.
 *
 * `profile --emulate` and `run --emulate` both compute their throttle here. Compute runs at full speed; copy lanes and
 * the host lane are slowed until
 *
 *     link bytes/s : compute flops/s   and   host Adam params/s : compute flops/s
 *
 * equal the target's ratios. The other ops of the host lane move bytes as fast as the target's host Adam, at 28 bytes
 * per parameter, because every profile has that rate. Slowing a whole machine by one factor changes no trade-off, so
 * the target's copy latency is stretched by that factor. While both directions copy, they keep the same fraction of
 * their rates as on the target.
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

/* Sets the dtype of the matrix products to which the ratios refer: bf16 if both the target and this device (`bf16`)
 * have it, else fp32. AH_E_USAGE if the target has no rate for a dtype that both support. */
int ah_emulate_dtype(const struct ah_machine *target, bool bf16, enum ah_dtype *ret_dtype,
                     struct ah_error *err);

/* Computes the throttle that gives a device the target's ratios, if the device computes products of `dtype` at
 * `compute_flops_per_s`. AH_E_USAGE names the rate that the target lacks (a link direction, host Adam, products). */
int ah_emulate_throttle(const struct ah_machine *target, enum ah_dtype dtype, double compute_flops_per_s,
                        struct ah_device_throttle *ret_throttle, struct ah_error *err);

#endif
