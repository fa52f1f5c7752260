/* SPDX-License-Identifier: Apache-2.0
 *
 * Places host threads near a GPU. Source: the kernel's ABI/testing/sysfs-bus-pci (local_cpulist) and
 * ABI/stable/sysfs-devices-system-cpu (thread_siblings_list): lists such as "0-3,8,10-11".
 */
#include "runtime/device/cuda/near.h"

#include "base/cgroup.h"
#include "base/threads.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

struct mask {
    bool has[AH_CUDA_NEAR_MAX];
    unsigned n;
};

static void mask_add(struct mask *mask, unsigned long cpu)
{
    if (cpu >= AH_CUDA_NEAR_MAX || mask->has[cpu])
        return;
    mask->has[cpu] = true;
    mask->n++;
}

/* Reads a list of processors. A file or part that cannot be read adds no processor. */
static void read_list(struct mask *ret_mask, const char *path)
{
    char text[4096];
    *ret_mask = (struct mask){.n = 0};
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    const char *at = fgets(text, sizeof text, file) ? text : "";
    fclose(file);
    for (char *end; *at >= '0' && *at <= '9'; at = end + (*end == ',')) {
        unsigned long first = strtoul(at, &end, 10), last = first;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (; first <= last && first < AH_CUDA_NEAR_MAX; first++)
            mask_add(ret_mask, first);
    }
}

/* A usable processor: whether it is far from the GPU, and its index among the processors of its core. */
struct candidate {
    int cpu;
    bool is_far;
    unsigned rank;
};

static unsigned rank_in_core(const struct candidate *candidates, unsigned n, const char *root)
{
    char path[PATH_MAX];
    struct mask siblings;
    unsigned rank = 0;
    snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", root,
             candidates[n].cpu);
    read_list(&siblings, path);
    for (unsigned i = 0; i < n; i++)
        rank += candidates[i].cpu < AH_CUDA_NEAR_MAX && siblings.has[candidates[i].cpu];
    return rank;
}

/* Orders near processors before far ones, and the first processor of a core before the second. */
static int by_nearness(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;
    if (a->is_far != b->is_far)
        return a->is_far ? 1 : -1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return a->cpu < b->cpu ? -1 : 1;
}

/* Fills `candidates`, best first, and returns their number. */
static unsigned find_candidates(struct candidate *candidates, const struct ah_cuda_near_options *options,
                                const char *root)
{
    unsigned mine[AH_CUDA_NEAR_MAX];
    char path[PATH_MAX];
    struct mask local;
    const unsigned *cpus = options->cpus ? options->cpus : mine;
    unsigned n = options->cpus ? options->n_cpus : ah_threads_cpus(mine, AH_CUDA_NEAR_MAX);
    n = n < AH_CUDA_NEAR_MAX ? n : AH_CUDA_NEAR_MAX;
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/local_cpulist", root, options->address);
    read_list(&local, path);
    for (unsigned i = 0; i < n; i++) {
        candidates[i].cpu = (int)cpus[i];
        candidates[i].is_far = cpus[i] >= AH_CUDA_NEAR_MAX || !local.has[cpus[i]];
        candidates[i].rank = rank_in_core(candidates, i, root);
    }
    qsort(candidates, n, sizeof *candidates, by_nearness);
    return n;
}

/* Counts the cores that are as near as the nearest core. */
static unsigned count_cores(const struct candidate *candidates, unsigned n)
{
    unsigned cores = 0;
    for (unsigned i = 0; i < n; i++)
        cores += candidates[i].rank == 0 && candidates[i].is_far == candidates[0].is_far;
    return cores;
}

static unsigned default_threads(unsigned cores, const char *root)
{
    struct ah_cgroup group;
    ah_cgroup_read(&group, root);
    if (group.processors > 0 && group.processors < cores)
        cores = group.processors < 1 ? 1 : (unsigned)group.processors;
    return cores > 1 ? cores - 1 : 1;
}

/* Counts all cores, near or far. */
static unsigned count_all_cores(const struct candidate *candidates, unsigned n)
{
    unsigned cores = 0;
    for (unsigned i = 0; i < n; i++)
        cores += candidates[i].rank == 0;
    return cores;
}

/* Returns the nearest processor behind the first `threads` candidates, on an unused core if possible; -1: none. */
static int find_submitter(const struct candidate *candidates, unsigned n, unsigned threads)
{
    for (unsigned i = threads; i < n; i++)
        if (candidates[i].rank == 0)
            return candidates[i].cpu;
    return threads < n ? candidates[threads].cpu : -1;
}

void ah_cuda_near_find(struct ah_cuda_near *ret_near, const struct ah_cuda_near_options *options)
{
    struct candidate candidates[AH_CUDA_NEAR_MAX];
    unsigned n = find_candidates(candidates, options, options->root ? options->root : "");
    unsigned threads =
        options->threads ? options->threads : default_threads(count_cores(candidates, n), options->root);
    const unsigned cores = count_all_cores(candidates, n);
    if (options->submitter && threads >= cores)
        threads = cores > 1 ? cores - 1 : 1;
    ret_near->threads = threads < AH_CUDA_NEAR_MAX ? threads : AH_CUDA_NEAR_MAX;
    for (unsigned i = 0; i < ret_near->threads; i++)
        ret_near->cpus[i] = ret_near->threads <= n ? candidates[i].cpu : -1;
    ret_near->submitter = options->submitter ? find_submitter(candidates, n, ret_near->threads) : -1;
}

void ah_cuda_near_enter(const struct ah_cuda_near *near, struct ah_cuda_near_mask *ret_before)
{
    struct ah_cuda_near_mask before = {0};
    *ret_before = before;
    if (near->submitter >= 0 && sched_getaffinity(0, sizeof before.bits, (cpu_set_t *)before.bits) == 0 &&
        ah_threads_pin(near->submitter) == AH_OK)
        *ret_before = before;
}

void ah_cuda_near_leave(struct ah_cuda_near_mask *before)
{
    bool any = false;
    for (size_t i = 0; i < sizeof before->bits / sizeof before->bits[0]; i++)
        any = any || before->bits[i];
    if (any)
        (void)sched_setaffinity(0, sizeof before->bits, (const cpu_set_t *)before->bits);
    *before = (struct ah_cuda_near_mask){0};
}
