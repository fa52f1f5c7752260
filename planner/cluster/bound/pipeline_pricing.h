/* SPDX-License-Identifier: Apache-2.0
 *
 * Pipeline pricing: given a price for a unit of each kind, finds the cheapest pipeline that could do m micro-batches in
 * a given time. The bound by grouping uses it (grouping.h).
 *
 * It counts only time that every simulation of a pipeline takes. So it misses no pipeline that can end in time, but
 * some pipelines that it finds cannot.
 */
#ifndef AH_PLANNER_CLUSTER_BOUND_PIPELINE_PRICING_H
#define AH_PLANNER_CLUSTER_BOUND_PIPELINE_PRICING_H

#include "base/error.h"
#include "planner/cluster/search/split.h"

enum { AH_PIPELINE_PRICING_KINDS = 8 };

/* What holds for a kind in any arrangement; `units` is 0 if the problem has no unit of it. */
struct ah_pipeline_pricing_kind {
    size_t units;
    size_t class;         /* one of the kind's classes that have units */
    size_t units_of_node; /* the most units of the kind in one node */
    bool may_be_away;
    double send_us;    /* least time of a send, to or from any other unit */
    double inside_us;  /* least time to add up a byte of gradients inside a node; INFINITY: impossible */
    double between_us; /* the same between two nodes */
    double nics_us;    /* time of a byte through the NICs of all the kind's nodes, in turn */
};

struct ah_pipeline_pricing {
    const struct ah_cluster_problem *problem; /* borrowed */
    struct ah_fits fits;
    struct ah_pipeline_pricing_kind kinds[AH_PIPELINE_PRICING_KINDS];
    size_t n_kinds; /* of the problem */
    size_t most_stages;
    size_t alike;            /* most labels of one place; further labels are merged */
    double *numbers;         /* owned: memory of the arrays below */
    double *forward_us;      /* (kinds, blocks + 1): sum over the first blocks */
    double *path_us;         /* (blocks + 1): forward and backward, each block on its fastest kind */
    double *path_forward_us; /* (blocks + 1) */
    double *gradient_bytes;  /* (blocks + 1) */
    double *least;           /* (blocks + 1): least price of units for the first blocks in the last query */
    struct ah_pipeline_pricing_label *labels; /* owned: two layers, each with a few labels for every block */
    size_t *n_labels;                         /* owned: (2, blocks + 1) */
    bool overflow;  /* the last query found more pipelines than there was room for */
    uint64_t steps; /* done so far: a measure of work */
};

/* How the arrangements to bound add gradients up. Bit i means kind i. */
struct ah_pipeline_pricing_sums {
    double volume;     /* least bytes that pass an owner for each byte; 0: there is one pipeline */
    uint32_t together; /* kinds whose blocks may have all their owners inside one node */
    uint32_t needed;   /* kinds that every pipeline has units of */
};

struct ah_pipeline_pricing_query {
    double within_us; /* the time within which all gradients must be added up */
    uint64_t micro_batches;
    const double *prices; /* by kind, >= 0 */
    double base;          /* price of the pipeline itself */
    double below;         /* pipelines of this price or more are ignored */
    struct ah_pipeline_pricing_sums sums;
    const size_t *radix; /* (optional) by kind: asks for every set of units, not only the cheapest ... */
    uint64_t *found;     /* ... each sets found[sum of its units' radices] to micro_batches */
};

struct ah_pipeline_price {
    double price; /* INFINITY: no pipeline */
    uint8_t units[AH_PIPELINE_PRICING_KINDS];
};

/* The problem has at most AH_PIPELINE_PRICING_KINDS kinds and UINT8_MAX blocks. AH_E_MEMORY. */
int ah_pipeline_pricing_init(struct ah_pipeline_pricing *ret_pricing,
                             const struct ah_cluster_problem *problem, struct ah_error *err);
void ah_pipeline_pricing_release(struct ah_pipeline_pricing *pricing);

/* Finds a price that no pipeline whose simulation ends within the time undercuts. */
void ah_pipeline_pricing_cheapest(struct ah_pipeline_pricing *pricing,
                                  const struct ah_pipeline_pricing_query *query,
                                  struct ah_pipeline_price *ret_price);

#endif
