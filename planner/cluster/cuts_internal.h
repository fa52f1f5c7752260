/* SPDX-License-Identifier: Apache-2.0
 *
 * What partitioners share: a partition with its sums, how vertices move, first partitions, and the levels of a graph.
 */
#ifndef AH_PLANNER_CLUSTER_CUTS_INTERNAL_H
#define AH_PLANNER_CLUSTER_CUTS_INTERNAL_H

#include "planner/cluster/multilevel.h"

#include <stdbool.h>

struct ah_cut_move {
    size_t vertex, from;
};

/* Arrays have room for the finest graph. All owned. */
struct ah_cutting {
    struct ah_cut_graph graph; /* arrays borrowed */
    const double *memories;    /* (optional) (n), borrowed */
    size_t k;
    double limit; /* weight of a part */
    size_t *part; /* (n) */
    size_t *best; /* (n): of starts */
    /* Sums that follow from `part`: ah_refine_count(). */
    size_t *count;  /* (k) */
    double *weight; /* (k) */
    double *memory; /* (k) */
    double *conn;   /* (n, k): edges of a vertex to a part */
    double *excess; /* (k) */
    /* Of one pass. */
    bool *locked;              /* (n) */
    struct ah_cut_move *moves; /* (n) */
    double *pull;              /* (n): of starts */
};

/* A graph and what it was made of. */
struct ah_cut_level {
    struct ah_cut_graph graph;
    const double *memory;  /* (n), or NULL */
    const double *members; /* (n): vertices of the finest graph */
    double *numbers;       /* owned: the arrays of `graph`, `memory` and `members` */
    size_t
        *coarser; /* owned: (n): which vertex of the next level; not above its own number. NULL: coarsest */
};

/* Room for a partition of `graph`. AH_E_MEMORY. */
int ah_cuts_reserve(struct ah_cutting *ret_cutting, const struct ah_cut_graph *graph, size_t k,
                    struct ah_error *err);
void ah_cuts_release(struct ah_cutting *cutting);

/* First partitions. Vertices one after another; a part ends where its share of the weight does, and leaves one vertex for
 * each other. Each vertex, the heaviest first, to the lightest part; sets `weight`, too. */
void ah_cuts_deal_rows(struct ah_cutting *cutting);
void ah_cuts_deal_by_weight(struct ah_cutting *cutting);

double ah_cuts_mean(const struct ah_cutting *cutting);
double ah_cuts_heaviest(const struct ah_cutting *cutting);

/* Matches the vertices of `fine` by the mean weight of edges between their members, heaviest first for each in turn, pairs
 * up to `cap`, and makes a graph of the pairs. AH_E_MEMORY. */
int ah_coarsen_level(struct ah_cut_level *fine, double cap, struct ah_cut_level *ret_coarse,
                     struct ah_error *err);

/* Sums of a partition. */
void ah_refine_count(struct ah_cutting *cutting);
double ah_refine_cut(const struct ah_cutting *cutting);
double ah_refine_excess(const struct ah_cutting *cutting);

/* What a move of `vertex` to part `to` takes from the cut. */
double ah_refine_gain(const struct ah_cutting *cutting, size_t vertex, size_t to);
void ah_refine_move(struct ah_cutting *cutting, size_t vertex, size_t to);

/* Is the first of two partitions, by excess and cut, the better one? Less excess, then the smaller cut. */
bool ah_refine_is_better(double excess, double cut, double other_excess, double other_cut);

/* Passes until none makes the partition better: it never ends worse than it was. */
void ah_refine_run(struct ah_cutting *cutting);

#endif
