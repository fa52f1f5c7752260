/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the parts of the search: the best draft so far, and the budget.
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
    double best_us; /* time of `best` or, before there is one, the time to beat */
    bool found;     /* `best` contains an arrangement */
    struct ah_arrangement_search_start
        starts[AH_ARRANGEMENT_SEARCH_STARTS]; /* the fastest first; all numbers of pipelines differ */
    size_t n_starts;
    bool rough; /* arrangements are estimated, not simulated */
    bool exhausting;
    bool limits;             /* each arrangement is timed with its best update limit (update_limit.h) */
    struct ah_draft limited; /* scratch: an arrangement fitted for that limit */
    uint64_t evaluations;    /* evaluations done */
    uint64_t budget;         /* the search stops at this number of evaluations */
};

/* Sorts the pipelines of a draft and simulates or estimates its time. INFINITY: some pipeline takes `limit_us` or
 * longer, or groups do not allow the draft. With `limits`, the time is for the best update limit, but the draft stays
 * fitted for the problem's limit. */
int ah_arrangement_search_time(struct ah_arrangement_search *search, struct ah_draft *draft, double limit_us,
                               double *ret_us, struct ah_error *err);

/* Copies `draft` to `best`. */
void ah_arrangement_search_keep(struct ah_arrangement_search *search, const struct ah_draft *draft,
                                double us);

/* Adds an arrangement to `starts` if it is the fastest with its number of pipelines and there is room, or a slower
 * start to replace. */
void ah_arrangement_search_add_start(struct ah_arrangement_search *search, const struct ah_draft *draft,
                                     double us);
/* Fills `starts`; the caller has initialised their drafts. */
int ah_arrangement_search_starts(struct ah_arrangement_search *search, struct ah_error *err);
/* Makes one change at a time while that saves time, until the search has done `budget` evaluations. */
int ah_arrangement_search_improve(struct ah_arrangement_search *search,
                                  struct ah_arrangement_search_start *start, uint64_t budget,
                                  struct ah_error *err);
/* Anneals from the improved `starts`, of which there is at least one. */
int ah_arrangement_search_anneal(struct ah_arrangement_search *search, struct ah_error *err);

/* Searches all arrangements. `ret_done`: every one was timed or ruled out. */
int ah_arrangement_search_exhaust(struct ah_arrangement_search *search, bool *ret_done, struct ah_error *err);

#endif
