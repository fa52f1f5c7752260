/* SPDX-License-Identifier: Apache-2.0
 *
 * Offload costs: the cost of a block with optimizer states, and perhaps weights, on the host.
 *
 * Each working GPU of a node has its own link to the host, and an equal share of the host's memory and of the bandwidth
 * e of that memory, used by all that passes through it. A GPU's part of a block has n parameters of w bytes, u of them
 * trained. A trained parameter has gradients of g bytes a micro-batch, sums of G bytes and states of z bytes (two
 * moments, and a master unless the weight is the master). The link carries l bytes a second each way.
 *
 *   states   host       update   max(G u / l, w u / l, (adam + G + w) u / e)     on the device: w n + G u
 *            streamed   update   max(z u / l, 2 z u / e)                         the same
 *   weights             forward  max(w n / l, w n / e)                           on the device: nothing but staging
 *                       backward max(w n / l, g u / l, (w n + (2 g + 2 G) u) / e)
 *                       update   adam u / e
 *
 * adam = 2 z + G + w bytes are read and written for a parameter (in fp32, where the weight is the master, 2 w more
 * instead of w). States take the faster of the two ways. Tiles are sent, updated and sent back at the same time, as in
 * plans for one machine, so the slowest counts. Weights that are away are fetched for each pass while the previous
 * block computes, and gradients are sent while the next one does: two buffers of each, `staging_bytes`. The host adds
 * gradients up over micro-batches: it reads g and G, and writes G. No update counts as faster than on the device.
 *
 * Weights of embedding and head stay on the device; untrained parameters have no states.
 */
#ifndef AH_PLANNER_CLUSTER_OFFLOAD_COSTS_H
#define AH_PLANNER_CLUSTER_OFFLOAD_COSTS_H

#include "planner/cluster/cluster_problem.h"
#include "planner/policies/restriction.h"
#include "runtime/schedule/job.h"
#include "schemas/cluster.h"

/* Techniques that a request can forbid. */
enum ah_offload_without {
    AH_WITHOUT_HOST_OPTIMIZER = 1, /* also forbids weights on the host */
    AH_WITHOUT_STREAMED = 2,
    AH_WITHOUT_HOST_WEIGHTS = 4
};
enum { AH_OFFLOAD_TECHNIQUES = 3 };

/* The technique behind each bit, in the order in which a plan names techniques. */
extern const struct ah_offload_technique {
    enum ah_technique technique;
    enum ah_offload_without without;
} ah_offload_techniques[AH_OFFLOAD_TECHNIQUES];

/* Returns the enum ah_offload_without bits for `techniques` (bits as in planner/policies/restriction.h). */
unsigned ah_offload_without(uint32_t techniques);

/* Returns a bit for each enum ah_technique that `without` forbids. */
uint32_t ah_offload_techniques_of(unsigned without);

/* One GPU's share of the host. */
struct ah_offload_host {
    double link_bytes_per_s;
    double memory_bytes_per_s;
    uint64_t memory_bytes; /* 0 if unknown, as are the rates; nothing can be away then */
};

/* Returns the share of one of `gpus` GPUs of `node`. A sixteenth of the host's memory, at most 8 GiB, is left out. */
struct ah_offload_host ah_offload_share(const struct ah_cluster_node *node, uint64_t gpus);

/* Vectors move in tiles through rings: on the device for streamed states; on the host for received gradients and for
 * weights waiting to be sent. */
enum { AH_OFFLOAD_TILE_ELEMENTS_MAX = 1 << 20, AH_OFFLOAD_STATE_TILES = 2, AH_OFFLOAD_HOST_TILES = 4 };

/* Returns the elements of a tile: a rank's part of the largest vector, at most AH_OFFLOAD_TILE_ELEMENTS_MAX. */
uint64_t ah_offload_tile_elements(const struct ah_job *job, uint64_t tp);

struct ah_offload_terms {
    const struct ah_job *job; /* of one micro-batch */
    struct ah_offload_host host;
    uint64_t tp;
    uint64_t sum_bytes;  /* G */
    uint64_t held_bytes; /* as sum_bytes, plus the second vector if groups are summed separately */
    bool sums;           /* there are several micro-batches */
    unsigned without;    /* enum ah_offload_without */
};

/* Prices a block of `group` that is away; `block`: its costs if not. `table_elements`: trained beyond the group's. */
void ah_offload_price(const struct ah_offload_terms *terms, const struct ah_job_group *group,
                      uint64_t table_elements, const struct ah_problem_block *block,
                      struct ah_problem_away ret_away[AH_PROBLEM_AWAYS]);

#endif
