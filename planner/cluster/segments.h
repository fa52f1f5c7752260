/* SPDX-License-Identifier: Apache-2.0
 *
 * Segments: which stages add which gradients up.
 *
 * Pipelines cut the blocks at different places. Cut at all of these places, the blocks form segments. Each has one
 * owner in every pipeline. A table that embedding and head share is a segment of its own, owned by the first and the
 * last stage of every pipeline. A segment is summed by a ring over its owners, ordered by node, so that its bytes leave
 * each node once: 2(n-1)/n of the bytes pass each owner, as t slices in parallel.
 */
#ifndef AH_PLANNER_CLUSTER_SEGMENTS_H
#define AH_PLANNER_CLUSTER_SEGMENTS_H

#include "base/error.h"
#include "planner/cluster/cluster_problem.h"

struct ah_segment {
    size_t first, end; /* blocks */
    bool tied;         /* this is the shared table of block 0 */
    uint64_t bytes;
    double ring_us;      /* time of the ring alone on the network */
    double volume_bytes; /* bytes through each owner's NIC, each way; 0: owners are in one node */
    uint32_t *owners;    /* stages, counted through all pipelines, ordered by class */
    size_t n_owners;
};

struct ah_segments {
    struct ah_segment
        *items; /* only if at least two owners train blocks in it; highest block first, tied table last */
    size_t n;
    uint32_t *owners; /* owned: memory of the items' lists */
};

/* Returns the bytes that pass each of `n` owners, each way. */
static inline double ah_segment_volume(size_t n, uint64_t bytes)
{
    return 2 * (double)(n - 1) / (double)n * (double)bytes;
}

int ah_segments_init(struct ah_segments *ret_segments, const struct ah_cluster_problem *problem,
                     const struct ah_arrangement *arrangement, struct ah_error *err);
void ah_segments_release(struct ah_segments *segments);

#endif
