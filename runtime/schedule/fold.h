/* SPDX-License-Identifier: Apache-2.0
 *
 * Fold: to which sum the gradient of a micro-batch is added (docs/distributed.md, "Sums").
 *
 * The micro-batches of a step are groups (`training.sums`; none: one group). A group's gradients are added up in order, each
 * sum beginning with a copy; then the sums of the groups are, in their order. Of the first group that sum is the total's own
 * place, and a group of one micro-batch is added to the total as it is: the bits are the same. Any other group is added up
 * apart, in a place of its own, and then to the total.
 */
#ifndef AH_RUNTIME_SCHEDULE_FOLD_H
#define AH_RUNTIME_SCHEDULE_FOLD_H

#include "schemas/plan.h"

struct ah_fold {
    uint64_t first, last; /* micro-batches of its group */
    bool opens;           /* it is copied, not added */
    bool apart;           /* to the sum of its group, not to the total */
    bool closes;          /* behind it the group's sum is added to the total */
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
    fold.apart = fold.first > 0 && fold.last > fold.first;
    fold.opens = micro_batch == fold.first && (fold.apart || !fold.first);
    fold.closes = fold.apart && micro_batch == fold.last;
    return fold;
}

/* How many groups are added up apart. */
static inline uint64_t ah_folds_apart(const struct ah_plan_training *training)
{
    uint64_t n = 0;
    for (size_t group = 1; group < training->n_sums; group++)
        n += training->sums[group] > 1;
    return n;
}

/* Of an element, where sums are made: the total, and one place for groups that are added up apart, one after another. */
static inline uint64_t ah_fold_bytes(const struct ah_plan_training *training)
{
    return ah_folds_apart(training) ? 2 * sizeof(float) : sizeof(float);
}

/* Adding a group's sum to the total, in times of adding one micro-batch's gradient: both read two and write one. */
static inline double ah_fold_cost(uint64_t gradient_bytes)
{
    return 3 * sizeof(float) / ((double)gradient_bytes + 2 * sizeof(float));
}

#endif
