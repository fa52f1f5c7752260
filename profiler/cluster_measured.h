/* SPDX-License-Identifier: Apache-2.0
 *
 * Measured: makes a cluster document from profiles of hosts and of the links between them, as measured by 'profile
 * --hosts'. Equal numbers give equal documents.
 *
 *   1. A host with N slots is a node with N ranks, which divide the machine equally (profile_rank.h). If several hosts
 *      are one machine, all their ranks divide it equally, and each node has the parts of its ranks.
 *   2. Nodes with similar ranks have one type of GPU. Similar ranks have the same device and threads, memory within 5 %
 *      and each rate within 10 % of the type's first rank. The type has the least memory and the mean rates of its
 *      ranks.
 *   3. A node's network card has the rate and the latency of the node's best link. Links inside a machine count only if
 *      there are no others. The document lists a pair of nodes if the pair's rate is 10 % below that of the two cards,
 *      or if its latency is 25 % and 10 us above theirs.
 */
#ifndef AH_PROFILER_CLUSTER_MEASURED_H
#define AH_PROFILER_CLUSTER_MEASURED_H

#include "base/arena.h"
#include "profiler/profile_links.h"
#include "schemas/cluster.h"
#include "schemas/document.h"

struct ah_measured_host {
    const char *name;
    uint64_t slots;
    size_t first;                       /* the first host on the same machine; possibly this one */
    const struct ah_document *document; /* its machine document; borrowed while the cluster is used */
};

struct ah_measured_link {
    size_t a, b;
    struct ah_profile_link link;
};

struct ah_cluster_measured {
    const struct ah_measured_host *hosts;
    size_t n_hosts;                       /* at least 2 */
    const struct ah_measured_link *links; /* one per pair of hosts */
    size_t n_links;
};

/* Makes the cluster, in `arena`. AH_E_USAGE: more ranks than a machine can have; AH_E_DOCUMENT: different kinds of
 * devices, or a profile lacks a rate; AH_E_CAPACITY: more unequal pairs than a document can hold; AH_E_MEMORY. */
int ah_cluster_measured(const struct ah_cluster_measured *measured, struct ah_arena *arena,
                        struct ah_cluster *ret_cluster, struct ah_error *err);

#endif
