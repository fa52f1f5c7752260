/* SPDX-License-Identifier: Apache-2.0
 *
 * Topology: what this machine consists of, limited to what this process may use. The only user of hwloc.
 *
 * Processors are those of the calling thread's affinity mask (threads.h), so call this from an unpinned thread.
 *
 * Memory is the kernel's number, reduced by control groups (host_memory.h). hwloc's number is only compared: it has
 * reported 7.1 GiB on a machine of 23.5 GiB. `note` mentions a difference, and a quota of processor time.
 *
 *     struct ah_topology topology = {0};
 *     rc = ah_topology_init(&topology, NULL, err);
 *     pin(topology.cpus[0]);
 *     ah_topology_release(&topology);
 */
#ifndef AH_BASE_TOPOLOGY_H
#define AH_BASE_TOPOLOGY_H

#include "base/error.h"
#include "base/isa.h"

#include <stdbool.h>
#include <stdint.h>

enum { AH_TOPOLOGY_TEXT_MAX = 128, AH_TOPOLOGY_NOTE_MAX = 256 };

struct ah_topology {
    char cpu_model[AH_TOPOLOGY_TEXT_MAX]; /* "unknown" where the system does not say */
    unsigned sockets; /* sockets, nodes and cores count if we may use one of their processors */
    unsigned numa_nodes;
    unsigned cores;        /* physical cores */
    unsigned threads;      /* processors in the affinity mask */
    unsigned busy_threads; /* quota of control groups, in processors, rounded up */
    /* owned; `threads` numbers: the first processor of every core, then the second of every core that has one, and
     * so on. To pin n threads, take the first n. */
    int *cpus;
    unsigned *core_of;           /* owned; for each of `cpus` the number of its core, 0 to cores - 1 */
    uint64_t memory_bytes;       /* the kernel's total, or what a control group allows */
    uint64_t hwloc_memory_bytes; /* what hwloc reports */
    uint64_t memlock_bytes;      /* RLIMIT_MEMLOCK; memory_bytes where it is unlimited */
    enum ah_isa isa;             /* widest set that may be used here */
    bool avx512_bf16;
    bool amx_bf16;
    char note[AH_TOPOLOGY_NOTE_MAX]; /* sentences on doubtful numbers; "" if there are none */
};

struct ah_topology_options {
    /* (optional) hwloc's description of a topology ("pack:2 core:4 pu:2"), used instead of this machine. All its
     * processors may be used, and its memory is hwloc's. */
    const char *synthetic;
    const char *root; /* (optional) `root` of ah_host_memory_read() and ah_cgroup_read() */
};

/* Describes this machine; `options` may be NULL. AH_E_MEMORY; AH_E_USAGE for a description that hwloc does not
 * understand; AH_E_FAILED where hwloc cannot read this machine; AH_E_IO from ah_host_memory_read(). */
int ah_topology_init(struct ah_topology *ret_topology, const struct ah_topology_options *options,
                     struct ah_error *err);

/* Frees what init made; a zeroed or released topology is fine. */
void ah_topology_release(struct ah_topology *topology);

#endif
