/* SPDX-License-Identifier: Apache-2.0
 *
 * Pipeline pricing: given a price for a unit of each kind, finds the cheapest pipeline that could do m micro-batches in
 * a given time. The bound by grouping uses it (grouping.h).
 *
 * It counts only time that every simulation of a pipeline takes. So it misses no pipeline that can end in time, but may
 * find some that cannot.
 */
#ifndef AH_PLANNER_CLUSTER_BOUND_PIPELINE_PRICING_H
#define AH_PLANNER_CLUSTER_BOUND_PIPELINE_PRICING_H

#include "base/error.h"
#include "planner/cluster/search/split.h"

enum { AH_PIPELINE_PRICING_KINDS = 8 };

/* Limits of a kind in every arrangement. `units` is 0 if the problem has no unit of the kind. */
struct ah_pipeline_pricing_kind {
    size_t units;
    size_t class;         /* a class of the kind, with units */
    size_t units_of_node; /* largest number of the kind's units in one node */
    bool may_be_away;
    double send_us;    /* least time of a send, to or from any other unit */
    double inside_us;  /* least time to add up a byte of gradients inside a node; INFINITY: impossible */
    double between_us; /* least time to add up a byte between nodes */
    double nics_us;    /* time of a byte through the NICs of all the kind's nodes, one after another */
};

struct ah_pipeline_pricing {
    const struct ah_cluster_problem *problem; /* borrowed */
    struct ah_fits fits;
    struct ah_pipeline_pricing_kind kinds[AH_PIPELINE_PRICING_KINDS];
    size_t n_kinds; /* of the problem */
    size_t most_stages;
    size_t alike;            /* largest number of labels of one place; further ones are merged */
    double *numbers;         /* owned: memory of the arrays below */
    double *forward_us;      /* (kinds, blocks + 1): sum over the first blocks */
    double *path_us;         /* (blocks + 1): forward and backward, each block on its fastest kind */
    double *path_forward_us; /* (blocks + 1) */
    double *gradient_bytes;  /* (blocks + 1) */
    double *least;           /* (blocks + 1): least price of units for the first blocks, by the last query */
    struct ah_pipeline_pricing_label *labels; /* owned: two layers of a few labels for every block */
    size_t *n_labels;                         /* owned: (2, blocks + 1) */
    bool overflow;                            /* the last query had no room for all pipelines */
    uint64_t steps;                           /* work done so far */
};

/* How the arrangements to bound add up gradients. Bit i stands for kind i. */
struct ah_pipeline_pricing_sums {
    double volume;     /* least bytes through an owner for each byte to add; 0: there is one pipeline */
    uint32_t together; /* kinds that may have all owners of a block in one node */
    uint32_t needed;   /* kinds with units in every pipeline */
};

struct ah_pipeline_pricing_query {
    double within_us; /* the time within which all gradients must be added up */
    uint64_t micro_batches;
    const double *prices; /* by kind, >= 0 */
    double base;          /* price of a pipeline without its units */
    double below;         /* pipelines with this price or a higher one are ignored */
    struct ah_pipeline_pricing_sums sums;
    const size_t *radix; /* (optional) by kind: asks for all sets of units instead of the cheapest */
    uint64_t *found;     /* each set writes micro_batches at the sum of its units' radices */
};

struct ah_pipeline_price {
    double price; /* INFINITY: there is no pipeline */
    uint8_t units[AH_PIPELINE_PRICING_KINDS];
};

/* Prepares queries about a problem of at most AH_PIPELINE_PRICING_KINDS kinds and UINT8_MAX blocks. AH_E_MEMORY. */
int ah_pipeline_pricing_init(struct ah_pipeline_pricing *ret_pricing,
                             const struct ah_cluster_problem *problem, struct ah_error *err);
void ah_pipeline_pricing_release(struct ah_pipeline_pricing *pricing);

/* Finds a lower bound on the price of all pipelines whose simulations end within the time. */
void ah_pipeline_pricing_cheapest(struct ah_pipeline_pricing *pricing,
                                  const struct ah_pipeline_pricing_query *query,
                                  struct ah_pipeline_price *ret_price);

#endif
