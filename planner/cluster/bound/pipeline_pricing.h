/* SPDX-License-Identifier: Apache-2.0
 *
 * Pipeline pricing: given a price for a unit of each kind, finds the cheapest pipeline that could do m micro-batches in
 * a given time. The bound by grouping uses it (grouping.h).
 *
 * It counts only the time that every simulation of a pipeline takes, whatever else happens. So it misses no pipeline
 * that can end in time, but some that it finds cannot.
 */
#ifndef AH_PLANNER_CLUSTER_BOUND_PIPELINE_PRICING_H
#define AH_PLANNER_CLUSTER_BOUND_PIPELINE_PRICING_H

#include "base/error.h"
#include "planner/cluster/search/split.h"

enum { AH_PIPELINE_PRICING_KINDS = 8 };

/* What holds for a kind in any arrangement; `units` is 0 if the problem has no unit of it. */
struct ah_pipeline_pricing_kind {
    size_t units;
    size_t class;         /* one of its classes that has units */
    size_t units_of_node; /* of the node that has the most */
    bool may_be_away;
    double send_us;    /* least time of a send, to or from any other unit */
    double inside_us;  /* least time to add up a byte of gradients inside a node; INFINITY: impossible */
    double between_us; /* the same with another node */
    double nics_us;    /* for a byte through the NICs of all its nodes, one after another */
};

struct ah_pipeline_pricing {
    const struct ah_cluster_problem *problem; /* borrowed */
    struct ah_fits fits;
    struct ah_pipeline_pricing_kind kinds[AH_PIPELINE_PRICING_KINDS];
    size_t n_kinds; /* of the problem */
    size_t most_stages;
    size_t alike;            /* most labels of one place that are kept apart; more are merged */
    double *numbers;         /* owned: where the arrays below live */
    double *forward_us;      /* (kinds, blocks + 1): of the first blocks */
    double *path_us;         /* (blocks + 1): forward and backward, each on the kind that is fastest */
    double *path_forward_us; /* (blocks + 1) */
    double *gradient_bytes;  /* (blocks + 1) */
    double *least;           /* (blocks + 1): least price of units for the first blocks; of the last query */
    struct ah_pipeline_pricing_label *labels; /* owned: two layers, in each a few for every block */
    size_t *n_labels;                         /* owned: (2, blocks + 1) */
    bool overflow;  /* the last query found more pipelines than there was room for */
    uint64_t steps; /* done so far: a measure of work */
};

/* How the arrangements to bound add gradients up. Each bit stands for a kind. */
struct ah_pipeline_pricing_sums {
    double volume;     /* least bytes that pass an owner for each byte; 0: there is one pipeline */
    uint32_t together; /* kinds whose blocks may have all their owners inside one node */
    uint32_t needed;   /* kinds that every pipeline has units of */
};

struct ah_pipeline_pricing_query {
    double within_us; /* until all gradients are added up */
    uint64_t micro_batches;
    const double *prices; /* by kind, >= 0 */
    double base;          /* price of the pipeline itself */
    double below;         /* pipelines of this price or more are ignored */
    struct ah_pipeline_pricing_sums sums;
    const size_t *radix; /* (optional) by kind: asks for every composition, not only the cheapest ... */
    uint64_t *found;     /* ... each sets this to micro_batches, at the sum of its units' radices */
};

struct ah_pipeline_price {
    double price; /* INFINITY: none */
    uint8_t units[AH_PIPELINE_PRICING_KINDS];
};

/* The problem has at most AH_PIPELINE_PRICING_KINDS kinds and UINT8_MAX blocks. AH_E_MEMORY. */
int ah_pipeline_pricing_init(struct ah_pipeline_pricing *ret_pricing,
                             const struct ah_cluster_problem *problem, struct ah_error *err);
void ah_pipeline_pricing_release(struct ah_pipeline_pricing *pricing);

/* The price found is at most that of any pipeline whose simulation ends within the time. */
void ah_pipeline_pricing_cheapest(struct ah_pipeline_pricing *pricing,
                                  const struct ah_pipeline_pricing_query *query,
                                  struct ah_pipeline_price *ret_price);

#endif
