/* SPDX-License-Identifier: Apache-2.0
 *
 * Cluster problem: a cluster and a training as the numbers needed to time and search plans. docs/clusters.md has the
 * mathematics, with the symbols named here.
 *
 * A UNIT is the GPUs that share blocks by tensor parallelism: `tp` GPUs of one node. Units of one KIND (type of GPU,
 * degree) cost the same; units of one CLASS (node) cannot be told apart. An ARRANGEMENT says which units form which
 * pipelines, which blocks each stage holds, how many of these are recomputed or on the host, and how many micro-batches
 * each pipeline computes.
 *
 * HOMES. Optimizer states of a block may be AWAY, on the host, and then its weights and the sums of its gradients, too.
 * States that are away cost time only in the update. With weights away, a pass takes as long as the slowest of its
 * compute, its link and its share of the host (docs/clusters.md). Each GPU has its own link. The GPUs of a node that
 * WORK share the host's memory and bandwidth equally. So a node is never overfull, and an idle GPU takes nothing from
 * the others. ah_arrangement_share() counts sharers over all pipelines.
 *
 * Times are in microseconds; times of passes are for one micro-batch. Sizes are for one GPU of a unit unless noted.
 */
#ifndef AH_PLANNER_CLUSTER_CLUSTER_PROBLEM_H
#define AH_PLANNER_CLUSTER_CLUSTER_PROBLEM_H

#include "schemas/vocabulary.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AH_PROBLEM_WAYS = AH_ACTIVATIONS_RECOMPUTE + 1 };

enum ah_problem_away_part { AH_OFFLOAD_STATES, AH_OFFLOAD_WEIGHTS, AH_PROBLEM_AWAYS };

/* A block with its states on the host, or its weights, too. A part that cannot be away is priced as on the device. With
 * fewer sharers, only `host_bytes` may grow, and at most as much as a share grows when two sharers become one. */
struct ah_problem_away {
    enum ah_weights weights;
    enum ah_optimizer optimizer;
    double forward_us, backward_us; /* least time of a micro-batch that traffic with the host allows */
    double update_us;               /* not less than on the device */
    uint64_t state_bytes;           /* device bytes; at most those of a block with nothing away */
    uint64_t host_bytes;            /* host bytes for each GPU of the unit */
    uint64_t staging_bytes; /* a stage needs the most of any of its blocks; 0 if only states are away */
};

/* One block on a unit of one kind, for each treatment of its activations (enum ah_activations). */
struct ah_problem_block {
    double forward_us;
    double backward_us[AH_PROBLEM_WAYS]; /* includes recomputation; does not fall from way to way */
    double update_us;
    uint64_t state_bytes;                  /* weights, gradients, optimizer */
    uint64_t saved_bytes[AH_PROBLEM_WAYS]; /* of each micro-batch in flight; does not rise from way to way */
    uint64_t work_bytes[AH_PROBLEM_WAYS];  /* while it computes */
};

/* The share of the host for one unit when n units use the host. */
struct ah_problem_host {
    uint64_t bytes;                     /* for each GPU; 0: nothing can be away */
    const struct ah_problem_away *away; /* (blocks, AH_PROBLEM_AWAYS) */
};

struct ah_problem_kind {
    const char *gpu; /* name of the type */
    uint64_t tp;
    uint64_t reserved_bytes; /* used by the device itself and by scratch of its ops */
    uint64_t capacity_bytes; /* without the reserve */
    const struct ah_problem_block *blocks;
    const struct ah_problem_host *hosts; /* hosts[n - 1]: the share with n sharers */
    size_t n_hosts;                      /* largest number of sharers; 0: nothing can be away */
};

struct ah_problem_class {
    size_t kind;
    size_t node;
    size_t units;
    double nic_bytes_per_s; /* of the node, in each direction */
};

struct ah_problem_link {
    double bytes_per_s;
    double latency_us;
};

/* The groups of micro-batches that an arrangement must keep (groups.h). */
struct ah_problem_groups {
    const uint64_t *micro_batches; /* by group; borrowed. NULL: pipelines may have any number */
    size_t n;
    size_t fewest, most; /* allowed numbers of pipelines */
    bool one_stage;      /* every pipeline must have one stage, so that a tied table is not split */
};

struct ah_cluster_problem {
    size_t n_blocks;
    size_t n_kinds, n_classes;
    const struct ah_problem_kind *kinds;
    const struct ah_problem_class *classes;
    const struct ah_problem_link *links; /* (classes, classes) */
    uint64_t micro_batches;
    uint64_t boundary_bytes;        /* bytes between two blocks for a micro-batch, all slices */
    const uint64_t *gradient_bytes; /* by block: bytes that pipelines add up, all slices */
    uint64_t tied_bytes;            /* size of the table shared by first and last block; 0: none */
    double update_limit_us; /* limit for the update of a stage with anything away; 0: nothing may be away */
    struct ah_problem_groups groups;
};

/* Returns the number of all units. */
size_t ah_problem_units(const struct ah_cluster_problem *problem);

static inline const struct ah_problem_kind *ah_problem_kind_of(const struct ah_cluster_problem *problem,
                                                               size_t class)
{
    return &problem->kinds[problem->classes[class].kind];
}

/* True if blocks may be away, and a unit of `kind` that does not share its host has room for some. */
bool ah_problem_has_host(const struct ah_cluster_problem *problem, size_t kind);

/* Returns the time to send a micro-batch's output, or its gradient, between units of two classes. */
double ah_problem_send_us(const struct ah_cluster_problem *problem, size_t from, size_t to);

/* ---- arrangements ---- */

struct ah_stage {
    size_t class;
    size_t sharers;      /* number of units on its host, including its own: ah_arrangement_share() */
    size_t first, end;   /* blocks */
    size_t recompute;    /* how many blocks, from its first on, are recomputed */
    size_t selective;    /* how many blocks after the recomputed ones are selective */
    size_t states_away;  /* how many blocks, from its first on, have their states away */
    size_t weights_away; /* how many of these have their weights away, too */
    /* Set by ah_stage_fit(); all but `in_flight` also by ah_stage_price(). */
    double forward_us, backward_us, update_us;
    uint64_t in_flight;
    uint64_t memory_bytes, host_bytes;
};

struct ah_pipeline {
    struct ah_stage *stages;
    size_t n_stages;
    uint64_t micro_batches;
};

struct ah_arrangement {
    struct ah_pipeline *pipelines;
    size_t n_pipelines;
};

/* Returns the number of stages of all pipelines. */
size_t ah_arrangement_stages(const struct ah_arrangement *arrangement);

/* Sets the sharers of all stages: ceil(g / t) for a unit of t GPUs in a node with g working GPUs. If blocks may be
 * away, call this before fitting. */
void ah_arrangement_share(const struct ah_cluster_problem *problem, struct ah_arrangement *arrangement);

/* Returns the treatment of activations of one block in its stage. */
enum ah_activations ah_stage_way(const struct ah_stage *stage, size_t block);

/* Returns the costs of a block that has states or weights away; NULL: nothing is. Borrowed from the problem. */
const struct ah_problem_away *ah_stage_away(const struct ah_cluster_problem *problem,
                                            const struct ah_stage *stage, size_t block);

/* Returns the time of the block's backward in that stage. */
double ah_stage_backward_us(const struct ah_cluster_problem *problem, const struct ah_stage *stage,
                            size_t block);

/* Computes the times and memory of a stage from its class, sharers, blocks, their treatment and `in_flight`. */
void ah_stage_price(const struct ah_cluster_problem *problem, struct ah_stage *stage);

/* Chooses which blocks of `stage` are recomputed or away; class, sharers and blocks must be set. GPU and host must have
 * memory for `in_flight` micro-batches and, if anything is away, the update must keep the problem's limit. Within that,
 * forward and backward are as short as possible. Between equals, the fewest blocks have weights away, then are
 * recomputed, then have states away. Returns false if nothing fits; `stage` is then unchanged. */
bool ah_stage_fit(const struct ah_cluster_problem *problem, uint64_t in_flight, struct ah_stage *stage);

/* Fits every stage of a pipeline; stage i of P has min(micro_batches, P - i) in flight. False: one does not fit. */
bool ah_pipeline_fit(const struct ah_cluster_problem *problem, struct ah_pipeline *pipeline);

#endif
