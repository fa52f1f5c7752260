/* SPDX-License-Identifier: Apache-2.0
 *
 * Away: what a block costs whose optimizer states live on the host, or its weights, too.
 *
 * Each GPU of a node that works has a link to the host of its own, and an equal share of its memory and of its bandwidth e,
 * which everything that passes through that memory draws on. Of a GPU's part of a block, with n parameters of w bytes, of
 * which u are trained, with gradients of g bytes a micro-batch, sums of G bytes and states of z bytes (the master, where
 * the weight is not it, and two moments), over a link of l bytes a second each way:
 *
 *   states   host       update   max(G u / l, w u / l, (adam + G + w) u / e)     on the device: w n + G u
 *            streamed   update   max(z u / l, 2 z u / e)                         the same
 *   weights             forward  max(w n / l, w n / e)                           on the device: nothing but staging
 *                       backward max(w n / l, g u / l, (w n + (2 g + 2 G) u) / e)
 *                       update   adam u / e
 *
 * adam = 2 z + G + w (in fp32, where the weight is the master, 2 w more instead of w) bytes are read and written for a
 * parameter. Of states the faster way is taken; tiles of a block are sent, updated and sent back side by side, as in plans
 * for one machine, so that the slowest counts. Weights that are away are fetched for each pass while the block before
 * computes, gradients leave while the next one does: two buffers of each, `staging_bytes`. Their sums over micro-batches
 * are made on the host: g and G in, G out. No update is taken to be faster than on the device.
 *
 * Embedding and head keep their weights; what is not trained has no states.
 */
#ifndef AH_PLANNER_CLUSTER_AWAY_H
#define AH_PLANNER_CLUSTER_AWAY_H

#include "planner/cluster/instance.h"
#include "planner/restriction.h"
#include "runtime/schedule/job.h"
#include "schemas/cluster.h"

/* What a plan can do without. */
enum ah_away_without {
    AH_WITHOUT_HOST_OPTIMIZER = 1, /* weights on the host need it */
    AH_WITHOUT_STREAMED = 2,
    AH_WITHOUT_HOST_WEIGHTS = 4
};
enum { AH_AWAY_TECHNIQUES = 3 };

/* The techniques that these are, in the order in which a plan names them. */
extern const struct ah_away_technique {
    enum ah_technique technique;
    enum ah_away_without without;
} ah_away_techniques[AH_AWAY_TECHNIQUES];

/* Of techniques, a bit each (planner/restriction.h), those that a cluster's plan has. */
unsigned ah_away_without(uint32_t techniques);

/* Of one GPU. */
struct ah_away_host {
    double link_bytes_per_s;
    double memory_bytes_per_s;
    uint64_t memory_bytes; /* 0: nothing can be away */
};

/* The share of each of `gpus` GPUs of `node`; of the host's memory a sixteenth, at most 8 GiB, is not planned with. */
struct ah_away_host ah_away_share(const struct ah_cluster_node *node, uint64_t gpus);

/* Vectors move in tiles, through rings of them: of states that visit the device, and on the host of gradients that arrived
 * and of weights that are to leave. */
enum { AH_AWAY_TILE_ELEMENTS_MAX = 1 << 20, AH_AWAY_STATE_TILES = 2, AH_AWAY_HOST_TILES = 4 };

/* A rank's tile: the largest vector of the job, if that is not much. `tp`: ranks that share what the job has whole. */
uint64_t ah_away_tile_elements(const struct ah_job *job, uint64_t tp);

struct ah_away_terms {
    const struct ah_job *job; /* of one micro-batch */
    struct ah_away_host host;
    uint64_t tp;
    uint64_t sum_bytes;  /* G */
    uint64_t held_bytes; /* where G is held, with the place of groups that are added up apart */
    bool sums;           /* there are several micro-batches */
    unsigned without;    /* enum ah_away_without */
};

/* Of a block of `group` that takes what `block` says on the device. `table_elements`: trained beside the group's own. */
void ah_away_price(const struct ah_away_terms *terms, const struct ah_job_group *group,
                   uint64_t table_elements, const struct ah_instance_block *block,
                   struct ah_instance_away ret_away[AH_INSTANCE_AWAYS]);

#endif
