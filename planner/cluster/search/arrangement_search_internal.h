/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the search share: the best draft so far, and the budget.
 */
#ifndef AH_PLANNER_CLUSTER_SEARCH_ARRANGEMENT_SEARCH_INTERNAL_H
#define AH_PLANNER_CLUSTER_SEARCH_ARRANGEMENT_SEARCH_INTERNAL_H

#include "planner/cluster/search/arrangement_search.h"

enum { AH_ARRANGEMENT_SEARCH_STARTS = 8 };

/* An arrangement to improve. */
struct ah_arrangement_search_start {
    struct ah_draft draft;
    double us;
};

struct ah_arrangement_search {
    const struct ah_cluster_problem *problem;
    struct ah_fits fits;
    struct ah_draft *best;
    double best_us; /* of `best`; the time to beat while there is none */
    bool found;     /* `best` is an arrangement */
    struct ah_arrangement_search_start
        starts[AH_ARRANGEMENT_SEARCH_STARTS]; /* with different numbers of pipelines, the fastest first */
    size_t n_starts;
    bool rough; /* arrangements are estimated, not simulated */
    bool exhausting;
    bool limits;             /* each arrangement gets its best update limit (update_limit.h) */
    struct ah_draft limited; /* scratch: an arrangement with that limit */
    uint64_t evaluations;    /* evaluations done */
    uint64_t budget;         /* evaluations at which the search stops */
};

/* Sorts the pipelines of a draft and simulates or estimates it. INFINITY: some pipeline takes `limit_us` or longer, or
 * groups do not allow the draft. With `limits`, the time is for the best update limit; the draft itself stays fitted
 * for the problem's limit. */
int ah_arrangement_search_time(struct ah_arrangement_search *search, struct ah_draft *draft, double limit_us,
                               double *ret_us, struct ah_error *err);

/* Makes `draft` the best one. */
void ah_arrangement_search_keep(struct ah_arrangement_search *search, const struct ah_draft *draft,
                                double us);

/* Puts an arrangement among `starts` if it is the fastest with its number of pipelines, and `starts` is not full of
 * faster ones. */
void ah_arrangement_search_add_start(struct ah_arrangement_search *search, const struct ah_draft *draft,
                                     double us);
/* Fills `starts`, whose drafts the caller made. */
int ah_arrangement_search_starts(struct ah_arrangement_search *search, struct ah_error *err);
/* Makes one change at a time while that saves time, until the search's evaluations reach `budget`. */
int ah_arrangement_search_improve(struct ah_arrangement_search *search,
                                  struct ah_arrangement_search_start *start, uint64_t budget,
                                  struct ah_error *err);
/* Anneals from `starts`, which were improved; there must be at least one. */
int ah_arrangement_search_anneal(struct ah_arrangement_search *search, struct ah_error *err);

/* Searches all arrangements. `ret_done`: each was timed or ruled out. */
int ah_arrangement_search_exhaust(struct ah_arrangement_search *search, bool *ret_done, struct ah_error *err);

#endif
