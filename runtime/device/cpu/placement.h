/* SPDX-License-Identifier: Apache-2.0
 *
 * Placement: which processors the lanes of the CPU device use.
 *
 * The compute lane plays the accelerator, so it has its own cores; the host lane and the copy lanes get the rest.
 * Copy lanes mostly wait for memory or sleep. So they share the host lane's cores and any unused ones, and are not tied
 * to one core. Processors are numbered here in the order of struct ah_topology: first one of every physical core.
 *
 *     cores  processors  compute (default)  host lane (default)  copy lanes
 *     1      1           0                  0                    0
 *     1      2           0                  1                    1
 *     2      2           0                  1                    1
 *     4      4           0-2                3                    3
 *     8      16          0-5                6-7                  6-7, 14-15
 *     16     16          0-11               12-15                12-15
 *
 * Compute takes three quarters of the cores. If a control group limits processor time, the defaults count only as many
 * cores as that time can keep busy. Other lanes use a second processor of a compute core only if no other core remains,
 * and compute's own processors only if no second processor exists either. So with 2 cores and compute_threads = 2, all
 * lanes share both cores. If there are more threads than processors, no thread is pinned.
 */
#ifndef AH_RUNTIME_DEVICE_CPU_PLACEMENT_H
#define AH_RUNTIME_DEVICE_CPU_PLACEMENT_H

#include "base/topology.h"

#include <stdbool.h>

enum { AH_PLACEMENT_MAX = 1024 };

struct ah_placement {
    unsigned n_compute;
    unsigned n_host;
    unsigned n_copy;
    int compute[AH_PLACEMENT_MAX]; /* processor of each participant; -1: not pinned */
    int host[AH_PLACEMENT_MAX];
    int copy[AH_PLACEMENT_MAX]; /* processors that copy lanes may use */
};

/* Chooses processors for `compute_threads` and `host_threads`. 0: the default; at most AH_PLACEMENT_MAX are used. */
void ah_placement_choose(struct ah_placement *ret_placement, const struct ah_topology *topology,
                         unsigned compute_threads, unsigned host_threads);

/* Unpins all threads, because the other ranks on this machine would be pinned to the same processors. */
void ah_placement_untie(struct ah_placement *placement);

/* The processors of a thread before ah_placement_enter_copy() restricted it, and threads that it starts, to those of
 * copy lanes. ah_placement_leave_copy() undoes that. If the system refuses, nothing changes: slower, but not wrong. */
struct ah_placement_mask {
    unsigned long bits[128]; /* a bit for each of 8192 processors; all zero: nothing to undo */
};
void ah_placement_enter_copy(const struct ah_placement *placement, struct ah_placement_mask *ret_before);
void ah_placement_leave_copy(const struct ah_placement_mask *before);

#endif
