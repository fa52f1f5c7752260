/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes the throttle of an emulated machine. Every rate of the target is multiplied by
 *
 *     slowdown = compute rate here / compute rate of the target
 *
 * and every latency is divided by this slowdown. emulate.h says why.
 */
#include "runtime/device/emulate.h"

static const char *name_of(const struct ah_machine *machine)
{
    return machine->name ? machine->name : "?";
}

int ah_emulate_dtype(const struct ah_machine *target, bool bf16, enum ah_dtype *ret_dtype,
                     struct ah_error *err)
{
    if (bf16 && ah_machine_matmul_flops_per_s(target, AH_BF16) > 0)
        *ret_dtype = AH_BF16;
    else if (ah_machine_matmul_flops_per_s(target, AH_FP32) > 0)
        *ret_dtype = AH_FP32;
    else
        return ah_error_set(err, AH_E_USAGE,
                            "machine '%s' cannot be emulated: it has no matrix product rate in %s",
                            name_of(target), bf16 ? "bf16 or fp32" : "fp32, and this device has no bf16");
    return AH_OK;
}

/* Bytes moved per parameter: 24 to read and write master and moments in fp32, 4 for gradient and weight. */
enum { ADAM_BYTES = 28 };

/* Returns the target's host Adam rate for `dtype`, else for the other dtype, because both move the same bytes. */
static double host_adam(const struct ah_machine *target, enum ah_dtype dtype)
{
    double rate = ah_machine_adam_params_per_s(target, AH_HOST, dtype);
    if (rate > 0)
        return rate;
    return ah_machine_adam_params_per_s(target, AH_HOST, dtype == AH_BF16 ? AH_FP32 : AH_BF16);
}

/* Returns the longest latency of the target's links, because a throttle has only one latency. */
static double link_latency_us(const struct ah_machine *target)
{
    double latency_us = 0;
    for (size_t i = 0; i < target->n_links; i++)
        if (target->links[i].latency_us > latency_us)
            latency_us = target->links[i].latency_us;
    return latency_us;
}

static double both_kept(const struct ah_machine *target)
{
    double h2d = ah_machine_kept(target, AH_PART_H2D, AH_PART_D2H);
    double d2h = ah_machine_kept(target, AH_PART_D2H, AH_PART_H2D);
    double kept = (h2d + d2h) / 2;
    return kept < 1 ? kept : 1;
}

int ah_emulate_throttle(const struct ah_machine *target, enum ah_dtype dtype, double compute_flops_per_s,
                        struct ah_device_throttle *ret_throttle, struct ah_error *err)
{
    const struct {
        const char *what;
        double rate;
    } needed[] = {
        {"matrix products", ah_machine_matmul_flops_per_s(target, dtype)},
        {"copies to the device", ah_machine_link_bytes_per_s(target, AH_H2D)},
        {"copies to the host", ah_machine_link_bytes_per_s(target, AH_D2H)},
        {"host Adam", host_adam(target, dtype)},
    };
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (!(needed[i].rate > 0))
            return ah_error_set(err, AH_E_USAGE, "machine '%s' cannot be emulated: it has no rate for %s",
                                name_of(target), needed[i].what);
    if (!(compute_flops_per_s > 0))
        return ah_error_set(err, AH_E_USAGE, "machine '%s' cannot be emulated: compute was not measured here",
                            name_of(target));

    double slowdown = compute_flops_per_s / needed[0].rate;
    *ret_throttle = (struct ah_device_throttle){
        .h2d_bytes_per_s = needed[1].rate * slowdown,
        .d2h_bytes_per_s = needed[2].rate * slowdown,
        .copy_latency_us = link_latency_us(target) / slowdown,
        .both_kept = both_kept(target),
        .host_adam_params_per_s = needed[3].rate * slowdown,
        .host_bytes_per_s = needed[3].rate * ADAM_BYTES * slowdown,
    };
    return AH_OK;
}
