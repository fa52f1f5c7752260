/* SPDX-License-Identifier: Apache-2.0
 *
 * Share: computes how fast parts run if they use the same resources at the same time.
 *
 * At full speed, a part (a copy, a matrix product, host Adam) uses an amount of each resource (DRAM bandwidth, a
 * direction of a link, cores). Speeds are in (0, 1]; 1 is full. They are max-min fair: no part can become faster unless
 * another, whose speed / weight is no higher, becomes slower. With equal weights, all parts at a contended resource
 * slow down by the same factor. With other weights one part yields more than another, as measured on real machines.
 *
 *     const struct ah_share_demand *parts[] = {&copy, &adam};
 *     ah_share_fill(parts, 2, &dram_bytes_per_s, 1, speeds, limits);
 *
 * ah_share_fill() depends only on its arguments and allocates nothing.
 */
#ifndef AH_RUNTIME_DEVICE_VIRTUAL_SHARE_H
#define AH_RUNTIME_DEVICE_VIRTUAL_SHARE_H

#include <stddef.h>
#include <stdint.h>

enum { AH_SHARE_RESOURCES = 16, AH_SHARE_PARTS = 16, AH_SHARE_NONE = 255 };

struct ah_share_demand {
    double amount
        [AH_SHARE_RESOURCES]; /* amount of each resource used at full speed, in the unit of its capacity */
    double weight;            /* at a contended resource, speeds are proportional to weights; 0 means 1 */
};

/* Computes the speeds of `n` (<= AH_SHARE_PARTS) parts and the resource that limits each (AH_SHARE_NONE: it runs at
 * full speed). Amounts must be finite and not negative; `capacity`, by resource, finite and positive. */
void ah_share_fill(const struct ah_share_demand *const *parts, size_t n, const double *capacity,
                   size_t n_resources, double *ret_speeds, uint8_t *ret_limits);

#endif
