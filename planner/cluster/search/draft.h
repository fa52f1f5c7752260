/* SPDX-License-Identifier: Apache-2.0
 *
 * Draft: an arrangement being changed by a search. Its stages are stored one after another, pipeline after pipeline.
 *
 *     struct ah_draft draft;
 *     rc = ah_draft_init(&draft, problem, err);        // room for every unit
 *     ah_draft_begin(&draft);                           // no pipelines
 *     ah_draft_add(&draft, class);                      // a stage to the last pipeline; ah_draft_open(): a new one
 *     bool fits = ah_draft_finish(&draft, &fits_cache); // splits blocks, shares micro-batches, fits stages
 */
#ifndef AH_PLANNER_CLUSTER_SEARCH_DRAFT_H
#define AH_PLANNER_CLUSTER_SEARCH_DRAFT_H

#include "base/error.h"
#include "planner/cluster/search/split.h"

/* By the formula (split.h): a pipeline's time with one more micro-batch, and the time added by each further one. */
struct ah_draft_share {
    double next_us, more_us;
};

struct ah_draft {
    const struct ah_cluster_problem *problem; /* borrowed */
    struct ah_arrangement arrangement;        /* owned */
    struct ah_stage *stages;                  /* owned */
    struct ah_stage *scratch;                 /* owned: for ah_draft_sort() and ah_draft_change_shared() */
    struct ah_draft_share *shares;            /* owned: for ah_draft_share(), by pipeline */
    size_t n_stages;
    size_t room; /* largest number of stages, and of pipelines */
};

int ah_draft_init(struct ah_draft *ret_draft, const struct ah_cluster_problem *problem, struct ah_error *err);
void ah_draft_release(struct ah_draft *draft);

/* Replaces a draft by a copy of another draft or, ah_draft_take(), of an arrangement, of the same problem. */
void ah_draft_copy(struct ah_draft *to, const struct ah_draft *from);
void ah_draft_take(struct ah_draft *draft, const struct ah_arrangement *arrangement);

void ah_draft_begin(struct ah_draft *draft);
void ah_draft_open(struct ah_draft *draft);
void ah_draft_add(struct ah_draft *draft, size_t class);

/* Inserts a stage of `class` as stage `i` of pipeline `p`. Blocks must be split again. ah_draft_remove() removes a
 * stage, and with its last stage the pipeline. */
void ah_draft_insert(struct ah_draft *draft, size_t p, size_t i, size_t class);
void ah_draft_remove(struct ah_draft *draft, size_t p, size_t i);

/* Returns the number of idle units of `class`. ah_draft_find() finds stage `at`, counted over all pipelines. */
size_t ah_draft_idle(const struct ah_draft *draft, size_t class);
void ah_draft_find(const struct ah_draft *draft, size_t at, size_t *ret_pipeline, size_t *ret_stage);

/* Sorts the pipelines by their stages (class, then end; a prefix first), then by micro-batches, and finally by groups.
 * The order changes the time: if two transfers could start at once, the lower pipeline's does. */
void ah_draft_sort(struct ah_draft *draft);

/* Splits the blocks of pipeline `p` for `micro_batches` or, if that does not fit, for one. False: neither fits. */
bool ah_draft_split(struct ah_draft *draft, size_t p, uint64_t micro_batches, struct ah_fits *fits);

/* Splits the blocks of every pipeline anew, shares out the micro-batches and fits the stages. Returns false if a stage
 * does not fit, or there are more pipelines than micro-batches or more stages than blocks. */
bool ah_draft_finish(struct ah_draft *draft, struct ah_fits *fits);

/* True if the stages of pipeline `p` hold all blocks, one after another. */
bool ah_draft_covers(const struct ah_draft *draft, size_t p);

/* Does what ah_draft_finish() does, but keeps the split of a pipeline that still covers all blocks and whose numbers of
 * sharers are unchanged. The caller sets `end` to 0 in each stage that it changed. */
bool ah_draft_mend(struct ah_draft *draft, struct ah_fits *fits);

/* Counts the sharers of hosts if blocks may be away. ah_draft_change_shared() also sets `end` to 0 in stages whose
 * sharers changed. */
void ah_draft_count_sharers(struct ah_draft *draft);
void ah_draft_change_shared(struct ah_draft *draft);

/* Makes the smallest change of two pipelines' shares: one micro-batch of `from` moves to `to`. If groups must be kept,
 * the two swap shares, but only if `from` has more. False: nothing changed. Otherwise both must be fitted again. */
bool ah_draft_pass_on(const struct ah_draft *draft, struct ah_pipeline *from, struct ah_pipeline *to);

/* Shares out the micro-batches and fits the stages, without changing blocks. Sharers must be counted. False: no fit. */
bool ah_draft_share(struct ah_draft *draft, struct ah_fits *fits);

#endif
