/* SPDX-License-Identifier: Apache-2.0
 *
 * Segments: which stages add up which gradients.
 *
 * Pipelines cut the blocks at different places. All these places together cut the blocks into segments. Each segment
 * has one owner in every pipeline. A table shared by embedding and head is a separate segment, owned by the first and
 * the last stage of every pipeline. A segment is summed by a ring over its owners. They are ordered by node, so that
 * its bytes leave each node once: 2(n-1)/n of the bytes pass each owner, as t slices in parallel.
 */
#ifndef AH_PLANNER_CLUSTER_SEGMENTS_H
#define AH_PLANNER_CLUSTER_SEGMENTS_H

#include "base/error.h"
#include "planner/cluster/cluster_problem.h"

struct ah_segment {
    size_t first, end; /* blocks */
    bool tied;         /* true: the shared table of block 0 */
    uint64_t bytes;
    double ring_us;      /* time of the ring alone on the network */
    double volume_bytes; /* bytes through each owner's NIC, each way; 0: all owners are in one node */
    uint32_t *owners;    /* stage numbers over all pipelines, ordered by class */
    size_t n_owners;
};

struct ah_segments {
    struct ah_segment *
        items; /* segments with at least two owners and trained blocks; highest block first, tied table last */
    size_t n;
    uint32_t *owners; /* owned: memory of the items' lists */
};

/* Returns the bytes that each of `n` owners sends, and receives. */
static inline double ah_segment_volume(size_t n, uint64_t bytes)
{
    return 2 * (double)(n - 1) / (double)n * (double)bytes;
}

int ah_segments_init(struct ah_segments *ret_segments, const struct ah_cluster_problem *problem,
                     const struct ah_arrangement *arrangement, struct ah_error *err);
void ah_segments_release(struct ah_segments *segments);

#endif
