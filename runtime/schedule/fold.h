/* SPDX-License-Identifier: Apache-2.0
 *
 * Fold: tells to which sum the gradient of a micro-batch is added (docs/distributed.md, "Sums").
 *
 * `training.sums` divides a step's micro-batches into groups (none: one group). Each group's gradients are added up in
 * order, starting with a copy; then the groups' sums are added up in order. The first group is summed in the total
 * itself, and a group of one micro-batch is added to the total directly, because neither changes a bit. Any other group
 * first gets a separate sum, which is then added to the total.
 */
#ifndef AH_RUNTIME_SCHEDULE_FOLD_H
#define AH_RUNTIME_SCHEDULE_FOLD_H

#include "schemas/plan.h"

struct ah_fold {
    uint64_t first, last; /* first and last micro-batch of its group */
    bool opens;           /* its gradient is copied to the sum, not added */
    bool separate;        /* its gradient is added to its group's own sum, not to the total */
    bool closes;          /* after this micro-batch, the group's sum is added to the total */
};

static inline struct ah_fold ah_fold_of(const struct ah_plan_training *training, uint64_t micro_batch)
{
    struct ah_fold fold = {.last = training->micro_batches - 1};
    for (size_t group = 0; group < training->n_sums; group++) {
        fold.last = fold.first + training->sums[group] - 1;
        if (micro_batch <= fold.last)
            break;
        fold.first = fold.last + 1;
    }
    fold.separate = fold.first > 0 && fold.last > fold.first;
    fold.opens = micro_batch == fold.first && (fold.separate || !fold.first);
    fold.closes = fold.separate && micro_batch == fold.last;
    return fold;
}

/* Returns the number of groups with a separate sum. */
static inline uint64_t ah_folds_separate(const struct ah_plan_training *training)
{
    uint64_t n = 0;
    for (size_t group = 1; group < training->n_sums; group++)
        n += training->sums[group] > 1;
    return n;
}

/* Returns the bytes of sums per element: 4 for the total, and 4 for memory that all separate sums use in turn. */
static inline uint64_t ah_fold_bytes(const struct ah_plan_training *training)
{
    return ah_folds_separate(training) ? 2 * sizeof(float) : sizeof(float);
}

/* Returns the cost of adding a group's sum to the total, relative to that of adding a gradient. Either addition reads
 * two vectors and writes one. */
static inline double ah_fold_cost(uint64_t gradient_bytes)
{
    return 3 * sizeof(float) / ((double)gradient_bytes + 2 * sizeof(float));
}

#endif
