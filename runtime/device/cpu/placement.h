/* SPDX-License-Identifier: Apache-2.0
 *
 * Placement: which processors the lanes of the CPU device work on.
 *
 * The compute lane stands for an accelerator, so its cores are its own; the host lane and the copy lanes get
 * what is left. Copy lanes mostly wait for memory or sleep, so they share the host lane's cores and those
 * that nobody has, and are not tied to one of them. Processors are taken in the order given: first one of
 * every physical core (struct ah_topology).
 *
 *     processors  compute (default)  host lane (default)  copy lanes
 *     1           0                  0                    0
 *     2           0                  1                    1
 *     4           0-2                3                    3
 *     16          0-11               12-15                12-15
 *
 * With 2 cores and compute_threads = 2 all share both; more compute threads than processors are not pinned.
 */
#ifndef AH_RUNTIME_DEVICE_CPU_PLACEMENT_H
#define AH_RUNTIME_DEVICE_CPU_PLACEMENT_H

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

/* Places `compute_threads` and `host_threads` (0: the default; cut to AH_PLACEMENT_MAX) on the first
 * `n_cores` of `n_cpus` >= 1 processors; those after them are second threads of the same cores and go to copy
 * lanes. */
void ah_placement_choose(struct ah_placement *ret_placement, const int *cpus, unsigned n_cpus,
                         unsigned n_cores, unsigned compute_threads, unsigned host_threads);

/* Lets the calling thread use the copy lanes' processors only; threads it starts inherit that. `ret_before` is
 * for ah_placement_leave_copy(), which undoes it. Where the system refuses, nothing changes: slower, not wrong. */
struct ah_placement_mask {
    unsigned long bits[128]; /* of 8192 processors; all zero: nothing to undo */
};
void ah_placement_enter_copy(const struct ah_placement *placement, struct ah_placement_mask *ret_before);
void ah_placement_leave_copy(const struct ah_placement_mask *before);

#endif
