/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses the processors on which compute, host and copy threads run (placement.h).
 */
#include "runtime/device/cpu/placement.h"

#include <sched.h>
#include <string.h>

enum { BITS_PER_WORD = 8 * sizeof(unsigned long) };

static unsigned clamp(unsigned value, unsigned low, unsigned high)
{
    return value < low ? low : value > high ? high : value;
}

/* The processors for everything but compute, by index. Those that disturb compute least come first. */
struct rest {
    unsigned n;
    unsigned n_own_cores; /* number of leading entries on cores that compute does not use */
    unsigned n_free;      /* number of leading entries that compute does not use */
    unsigned index[AH_PLACEMENT_MAX];
};

static bool shares_core(const struct ah_topology *topology, unsigned index, unsigned compute)
{
    for (unsigned i = 0; i < compute; i++)
        if (topology->core_of[i] == topology->core_of[index])
            return true;
    return false;
}

/* Lists all but compute's processors, then compute's own. Compute uses the first `compute` of `n_cpus` processors. */
static void list_rest(struct rest *rest, const struct ah_topology *topology, unsigned n_cpus,
                      unsigned compute)
{
    rest->n = 0;
    for (unsigned i = compute; i < n_cpus; i++)
        if (!shares_core(topology, i, compute))
            rest->index[rest->n++] = i;
    rest->n_own_cores = rest->n;
    for (unsigned i = compute; i < n_cpus; i++)
        if (shares_core(topology, i, compute))
            rest->index[rest->n++] = i;
    rest->n_free = rest->n;
    for (unsigned i = 0; i < compute; i++)
        rest->index[rest->n++] = i;
}

void ah_placement_choose(struct ah_placement *ret_placement, const struct ah_topology *topology,
                         unsigned compute_threads, unsigned host_threads)
{
    struct rest rest;
    unsigned n_cpus = clamp(topology->threads, 1, AH_PLACEMENT_MAX);
    unsigned busy = clamp(topology->busy_threads, 1, clamp(topology->cores, 1, n_cpus));
    unsigned quarter = busy / 4 ? busy / 4 : 1;
    unsigned compute = compute_threads ? compute_threads : busy > quarter ? busy - quarter : 1;
    compute = clamp(compute, 1, AH_PLACEMENT_MAX);
    unsigned left = compute < busy ? busy - compute : 1;
    unsigned host = clamp(host_threads ? host_threads : left, 1, AH_PLACEMENT_MAX);
    list_rest(&rest, topology, n_cpus, compute <= n_cpus ? compute : n_cpus);

    ret_placement->n_compute = compute;
    ret_placement->n_host = host;
    for (unsigned i = 0; i < compute; i++)
        ret_placement->compute[i] = compute <= n_cpus ? topology->cpus[i] : -1;
    for (unsigned i = 0; i < host; i++)
        ret_placement->host[i] = host <= n_cpus ? topology->cpus[rest.index[i]] : -1;
    ret_placement->n_copy = rest.n_own_cores ? rest.n_own_cores : rest.n_free ? rest.n_free : rest.n;
    for (unsigned i = 0; i < ret_placement->n_copy; i++)
        ret_placement->copy[i] = topology->cpus[rest.index[i]];
}

void ah_placement_untie(struct ah_placement *placement)
{
    for (unsigned i = 0; i < placement->n_compute; i++)
        placement->compute[i] = -1;
    for (unsigned i = 0; i < placement->n_host; i++)
        placement->host[i] = -1;
    placement->n_copy = 0;
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
