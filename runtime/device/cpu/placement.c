/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device/cpu/placement.h"

#include <sched.h>
#include <string.h>

enum { BITS_PER_WORD = 8 * sizeof(unsigned long) };

static unsigned clamp(unsigned value, unsigned low, unsigned high)
{
    return value < low ? low : value > high ? high : value;
}

void ah_placement_choose(struct ah_placement *ret_placement, const int *cpus, unsigned n_cpus,
                         unsigned n_cores, unsigned compute_threads, unsigned host_threads)
{
    n_cpus = clamp(n_cpus, 1, AH_PLACEMENT_MAX);
    n_cores = clamp(n_cores, 1, n_cpus);
    unsigned quarter = n_cores / 4 ? n_cores / 4 : 1;
    unsigned compute = compute_threads ? compute_threads : n_cores > quarter ? n_cores - quarter : 1;
    compute = clamp(compute, 1, AH_PLACEMENT_MAX);
    unsigned left = compute < n_cores ? n_cores - compute : 1;
    unsigned host = clamp(host_threads ? host_threads : left, 1, AH_PLACEMENT_MAX);

    ret_placement->n_compute = compute;
    ret_placement->n_host = host;
    for (unsigned i = 0; i < compute; i++)
        ret_placement->compute[i] = compute <= n_cpus ? cpus[i] : -1;
    for (unsigned i = 0; i < host; i++)
        ret_placement->host[i] = host <= n_cpus ? cpus[(compute + i) % n_cpus] : -1;
    ret_placement->n_copy = 0;
    for (unsigned i = compute < n_cpus ? compute : 0; i < n_cpus; i++)
        ret_placement->copy[ret_placement->n_copy++] = cpus[i];
}

void ah_placement_enter_copy(const struct ah_placement *placement, struct ah_placement_mask *ret_before)
{
    struct ah_placement_mask before = {0};
    struct ah_placement_mask copy = {0};
    for (unsigned i = 0; i < placement->n_copy; i++) {
        unsigned cpu = (unsigned)placement->copy[i];
        if (cpu / BITS_PER_WORD < sizeof copy.bits / sizeof copy.bits[0])
            copy.bits[cpu / BITS_PER_WORD] |= 1ul << cpu % BITS_PER_WORD;
    }
    *ret_before = (struct ah_placement_mask){0};
    if (sched_getaffinity(0, sizeof before.bits, (cpu_set_t *)before.bits) == 0 &&
        sched_setaffinity(0, sizeof copy.bits, (const cpu_set_t *)copy.bits) == 0)
        memcpy(ret_before, &before, sizeof before);
}

void ah_placement_leave_copy(const struct ah_placement_mask *before)
{
    (void)sched_setaffinity(0, sizeof before->bits, (const cpu_set_t *)before->bits);
}
