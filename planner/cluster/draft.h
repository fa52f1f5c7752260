/* SPDX-License-Identifier: Apache-2.0
 *
 * Draft: an arrangement that a search changes. Its stages lie one after another, pipeline after pipeline.
 *
 *     struct ah_draft draft;
 *     rc = ah_draft_init(&draft, instance, err);        // room for every unit
 *     ah_draft_begin(&draft);                           // no pipelines
 *     ah_draft_add(&draft, class);                      // a stage to the last pipeline; ah_draft_open(): a new one
 *     bool fits = ah_draft_finish(&draft, &fits_cache); // splits blocks, shares micro-batches, fits stages
 */
#ifndef AH_PLANNER_CLUSTER_DRAFT_H
#define AH_PLANNER_CLUSTER_DRAFT_H

#include "base/error.h"
#include "planner/cluster/split.h"

/* By the formula: a pipeline's end with its next micro-batch, and what one after that adds. */
struct ah_draft_share {
    double next_us, more_us;
};

struct ah_draft {
    const struct ah_instance *instance; /* borrowed */
    struct ah_arrangement arrangement;  /* owned */
    struct ah_stage *stages;            /* owned */
    struct ah_stage *scratch;           /* owned: of ah_draft_sort() */
    struct ah_draft_share *shares;      /* owned: of ah_draft_share(), by pipeline */
    size_t n_stages;
    size_t room; /* of stages, and of pipelines */
};

int ah_draft_init(struct ah_draft *ret_draft, const struct ah_instance *instance, struct ah_error *err);
void ah_draft_release(struct ah_draft *draft);

/* Both are of one instance. */
void ah_draft_copy(struct ah_draft *to, const struct ah_draft *from);
void ah_draft_take(struct ah_draft *draft, const struct ah_arrangement *arrangement);

void ah_draft_begin(struct ah_draft *draft);
void ah_draft_open(struct ah_draft *draft);
void ah_draft_add(struct ah_draft *draft, size_t class);

/* Puts a stage of `class` into pipeline `p` as its stage `i`; takes that stage out. A pipeline that loses its last stage
 * goes. Blocks are to be split again. */
void ah_draft_insert(struct ah_draft *draft, size_t p, size_t i, size_t class);
void ah_draft_remove(struct ah_draft *draft, size_t p, size_t i);

/* Units of `class` that do nothing. Where stage `at` of all is. */
size_t ah_draft_idle(const struct ah_draft *draft, size_t class);
void ah_draft_find(const struct ah_draft *draft, size_t at, size_t *ret_pipeline, size_t *ret_stage);

/* Orders the pipelines by their stages (class, then end; a beginning before what it begins), then micro-batches: where
 * several transfers could start at once the lower pipeline's does, so that time depends on the order. */
void ah_draft_sort(struct ah_draft *draft);

/* Splits the blocks of pipeline `p` for so many micro-batches; for one, where more do not fit. */
bool ah_draft_split(struct ah_draft *draft, size_t p, uint64_t micro_batches, struct ah_fits *fits);

/* Splits the blocks of every pipeline anew, shares the micro-batches out and fits the stages. False: it does not fit, or
 * there are more pipelines than micro-batches or more stages than blocks. */
bool ah_draft_finish(struct ah_draft *draft, struct ah_fits *fits);

/* Do the stages of pipeline `p` hold all blocks, one after another? */
bool ah_draft_covers(const struct ah_draft *draft, size_t p);

/* The same, but blocks of pipelines whose stages cover them one after another stay, if as many units share their hosts as
 * before. A changed stage has `end` 0. */
bool ah_draft_mend(struct ah_draft *draft, struct ah_fits *fits);

/* Counts who shares hosts, where blocks may be away. Blocks stay; or a stage is changed that shares its host with another
 * number of units than before. */
void ah_draft_count_sharers(struct ah_draft *draft);
void ah_draft_change_shared(struct ah_draft *draft);

/* The smallest change of two pipelines' shares: one micro-batch of `from` goes to `to`; where groups are to be kept, they change
 * shares, once of each pair. False: there is none. They are to be fitted again. */
bool ah_draft_pass_on(const struct ah_draft *draft, struct ah_pipeline *from, struct ah_pipeline *to);

/* Shares micro-batches out and fits, once sharers are counted; the blocks stay. */
bool ah_draft_share(struct ah_draft *draft, struct ah_fits *fits);

#endif
