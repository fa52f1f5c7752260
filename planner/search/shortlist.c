/* SPDX-License-Identifier: Apache-2.0
 *
 * Shortlist: a few entries, fastest first. Each entry owns a fixed part of `configs`.
 */
#include "planner/search/shortlist.h"

#include "planner/search/knobs.h"

#include <stdlib.h>
#include <string.h>

int ah_shortlist_init(struct ah_shortlist *list, size_t n_blocks, size_t most, struct ah_error *err)
{
    *list = (struct ah_shortlist){.most = most, .n_blocks = n_blocks};
    list->entries = calloc(most, sizeof *list->entries);
    list->configs = calloc(most * n_blocks, sizeof *list->configs);
    if (!list->entries || !list->configs) {
        ah_shortlist_release(list);
        return ah_error_memory(err);
    }
    for (size_t i = 0; i < most; i++)
        list->entries[i].configs = &list->configs[i * n_blocks];
    return AH_OK;
}

/* Returns the entry to overwrite: the one with these configs, an unused one, or the last. NULL: none is slower. */
static struct ah_shortlisted *find_place(struct ah_shortlist *list, const struct ah_config *configs,
                                         double period_us)
{
    for (size_t i = 0; i < list->n; i++)
        if (!memcmp(list->entries[i].configs, configs, list->n_blocks * sizeof *configs))
            return period_us < list->entries[i].period_us ? &list->entries[i] : NULL;
    if (list->n < list->most)
        return &list->entries[list->n++];
    return period_us < list->entries[list->n - 1].period_us ? &list->entries[list->n - 1] : NULL;
}

void ah_shortlist_take(struct ah_shortlist *list, const struct ah_config *configs,
                       const struct ah_knobs *knobs, double period_us)
{
    if (list->n == list->most && period_us >= list->entries[list->n - 1].period_us)
        return;
    struct ah_shortlisted *place = find_place(list, configs, period_us);
    if (!place)
        return;
    struct ah_shortlisted entry = {place->configs, *knobs, period_us};
    memcpy(entry.configs, configs, list->n_blocks * sizeof *configs);
    for (; place > list->entries && place[-1].period_us > period_us; place--)
        place[0] = place[-1];
    *place = entry;
}

struct climb {
    struct ah_evaluator *evaluator;
    const struct ah_vary *vary;
    uint64_t spent; /* the climb ends when the evaluator has spent this much */
    struct ah_shortlisted *at;
    struct ah_error *err;
};

static bool is_over(const struct climb *climb)
{
    return climb->evaluator->spent >= climb->spent;
}

/* Gives two blocks of the entry other configs, and keeps them only if the entry becomes faster. */
static int try_pair(struct climb *climb, size_t a, size_t b, struct ah_config of_a, struct ah_config of_b)
{
    struct ah_shortlisted *at = climb->at;
    const struct ah_config was_a = at->configs[a], was_b = at->configs[b];
    enum ah_verdict verdict;
    at->configs[a] = of_a;
    at->configs[b] = of_b;
    climb->evaluator->enough_us = at->period_us;
    int rc = ah_evaluator_try(climb->evaluator, at->configs, &at->knobs, &verdict, climb->err);
    if (!rc && ah_evaluator_is_faster(climb->evaluator, verdict, at->period_us)) {
        at->period_us = climb->evaluator->last.period_us;
        return AH_OK;
    }
    at->configs[a] = was_a;
    at->configs[b] = was_b;
    return rc;
}

/* Tries all pairs of configs of two blocks. */
static int try_pairs_of(struct climb *climb, size_t a, size_t b)
{
    struct ah_config of_a[AH_CONFIGS_MAX], of_b[AH_CONFIGS_MAX];
    size_t n_a = ah_vary_options(climb->vary, a, of_a), n_b = ah_vary_options(climb->vary, b, of_b);
    int rc = AH_OK;
    for (size_t i = 0; i < n_a * n_b && !rc && !is_over(climb); i++)
        rc = try_pair(climb, a, b, of_a[i / n_b], of_b[i % n_b]);
    return rc;
}

static int try_pairs(struct climb *climb)
{
    size_t n = climb->vary->job->n_blocks;
    int rc = AH_OK;
    for (size_t a = 0; a < n && !rc; a++)
        for (size_t b = a + 1; b < n && !rc && !is_over(climb); b++)
            rc = try_pairs_of(climb, a, b);
    return rc;
}

/* Tries all configs of one block together with these knobs. Keeps what makes the entry faster. */
static int try_block_with(struct climb *climb, size_t block, const struct ah_knobs *knobs)
{
    struct ah_config all[AH_CONFIGS_MAX];
    size_t n = ah_vary_options(climb->vary, block, all);
    int rc = AH_OK;
    for (size_t i = 0; i < n && !rc && !is_over(climb); i++) {
        const struct ah_knobs was = climb->at->knobs;
        double before_us = climb->at->period_us;
        climb->at->knobs = *knobs;
        rc = try_pair(climb, block, block, all[i], all[i]);
        if (climb->at->period_us == before_us)
            climb->at->knobs = was;
    }
    return rc;
}

static int try_knobs_and_blocks(struct climb *climb)
{
    struct ah_knobs others[AH_KNOBS_NEIGHBOURS_MAX];
    size_t n = ah_knobs_neighbours(climb->vary->job, &climb->at->knobs, others);
    int rc = AH_OK;
    for (size_t i = 0; i < n && !rc; i++)
        for (size_t block = 0; block < climb->vary->job->n_blocks && !rc; block++)
            rc = try_block_with(climb, block, &others[i]);
    return rc;
}

static int climb_one(struct climb *climb)
{
    struct ah_shortlisted *at = climb->at;
    double before_us = 0;
    int rc = AH_OK;
    while (at->period_us != before_us && !rc && !is_over(climb)) {
        before_us = at->period_us;
        rc = ah_knobs_climb(climb->evaluator, at->configs, &at->knobs, &at->period_us, climb->err);
        rc = rc ? rc : try_pairs(climb);
        if (!rc && at->period_us == before_us)
            rc = try_knobs_and_blocks(climb);
    }
    climb->evaluator->enough_us = 0;
    return rc;
}

int ah_shortlist_climb(struct ah_shortlist *list, struct ah_evaluator *evaluator, const struct ah_vary *vary,
                       uint64_t work, struct ah_error *err)
{
    struct climb climb = {.evaluator = evaluator, .vary = vary, .spent = evaluator->spent + work, .err = err};
    int rc = AH_OK;
    for (size_t i = 0; i < list->n && !rc && !is_over(&climb); i++) {
        climb.at = &list->entries[i];
        rc = climb_one(&climb);
    }
    list->n = 0;
    return rc;
}

void ah_shortlist_release(struct ah_shortlist *list)
{
    free(list->entries);
    free(list->configs);
    *list = (struct ah_shortlist){0};
}
