/* SPDX-License-Identifier: Apache-2.0
 *
 * Share: how fast parts run that work at the same time on the same resources.
 *
 * A part (a copy, a matrix product, host Adam) asks each resource (DRAM bandwidth, a direction of a link,
 * cores) for an amount at full speed. Speeds are in (0, 1]; 1 is full. They are max-min fair: no part can be
 * made faster without making slower one that, by weight, is no faster already. Plain fairness slows all parts
 * at a contended resource by the same factor; weights express that one of them gives way more than the other,
 * as measured machines do.
 *
 *     const struct ah_share_demand *parts[] = {&copy, &adam};
 *     ah_share_fill(parts, 2, &dram_bytes_per_s, 1, speeds, limits);
 *
 * A pure function; nothing allocates.
 */
#ifndef AH_RUNTIME_DEVICE_VIRTUAL_SHARE_H
#define AH_RUNTIME_DEVICE_VIRTUAL_SHARE_H

#include <stddef.h>
#include <stdint.h>

enum { AH_SHARE_RESOURCES = 16, AH_SHARE_PARTS = 16, AH_SHARE_NONE = 255 };

struct ah_share_demand {
    double amount[AH_SHARE_RESOURCES]; /* of each resource, at full speed, in the unit of its capacity */
    double weight;                     /* at a contended resource, speeds are as weights; 0: 1 */
};

/* Speeds of `n` (<= AH_SHARE_PARTS) parts, and for each the resource that limits it (AH_SHARE_NONE: it runs
 * at full speed). Amounts are finite and not negative, `capacity` finite and positive, by resource. */
void ah_share_fill(const struct ah_share_demand *const *parts, size_t n, const double *capacity,
                   size_t n_resources, double *ret_speeds, uint8_t *ret_limits);

#endif
