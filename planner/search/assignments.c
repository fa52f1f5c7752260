/* SPDX-License-Identifier: Apache-2.0
 *
 * Assignments: a walk block by block. A branch ends when its prices exceed the limit; no price is negative.
 */
#include "planner/search/assignments.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double price_of(const struct ah_vary *vary, const struct ah_milp_result *bound, size_t block,
                       const struct ah_config *config)
{
    struct ah_config all[AH_CONFIGS_MAX];
    size_t n = ah_configs(vary->job, ah_job_block(vary->job, block), all), i = 0;
    while (i < n && memcmp(&all[i], config, sizeof *config) != 0)
        i++;
    return bound ? bound->prices_us[bound->class_of[block] * (size_t)AH_CONFIGS_MAX + i] : 0;
}

static void fill_menu(struct ah_assignments_menu *menu, const struct ah_vary *vary,
                      const struct ah_milp_result *bound, size_t block)
{
    struct ah_config options[AH_CONFIGS_MAX];
    menu->n = ah_vary_options(vary, block, options);
    for (size_t i = 0; i < menu->n; i++) {
        double price_us = price_of(vary, bound, block, &options[i]);
        size_t at = i;
        for (; at > 0 && menu->prices_us[at - 1] > price_us; at--) {
            menu->prices_us[at] = menu->prices_us[at - 1];
            menu->configs[at] = menu->configs[at - 1];
        }
        menu->prices_us[at] = price_us;
        menu->configs[at] = options[i];
    }
}

int ah_assignments_init(struct ah_assignments *set, const struct ah_vary *vary,
                        const struct ah_milp_result *bound, struct ah_error *err)
{
    size_t n = vary->job->n_blocks;
    *set = (struct ah_assignments){.n_blocks = n, .most_us = INFINITY};
    set->menus = calloc(n, sizeof *set->menus);
    set->configs = calloc(n, sizeof *set->configs);
    if (!set->menus || !set->configs) {
        ah_assignments_release(set);
        return ah_error_memory(err);
    }
    for (size_t block = 0; block < n; block++)
        fill_menu(&set->menus[block], vary, bound, block);
    return AH_OK;
}

/* Counts the assignments of `block` and all later blocks whose prices add up to at most `most_us`; stops at `most`. */
static uint64_t count_from(const struct ah_assignments *set, size_t block, double most_us, uint64_t most)
{
    const struct ah_assignments_menu *menu = &set->menus[block];
    uint64_t count = 0;
    if (block == set->n_blocks)
        return 1;
    for (size_t i = 0; i < menu->n && count < most && menu->prices_us[i] <= most_us; i++)
        count += count_from(set, block + 1, most_us - menu->prices_us[i], most - count);
    return count;
}

uint64_t ah_assignments_count(const struct ah_assignments *set, uint64_t most)
{
    return count_from(set, 0, set->most_us, most);
}

struct walk {
    const struct ah_assignments *set;
    struct ah_evaluator *evaluator;
    const struct ah_knobs *knobs;
    struct ah_shortlist *list;
    struct ah_error *err;
};

/* True if the choice was evaluated. A verdict may also follow from a bound. */
static bool is_evaluated(const struct ah_evaluator *evaluator, enum ah_verdict verdict,
                         uint64_t evaluations_before)
{
    bool fits = verdict == AH_EVALUATOR_BETTER || verdict == AH_EVALUATOR_WORSE;
    return fits && evaluator->evaluations != evaluations_before;
}

static int try_one(const struct walk *w)
{
    enum ah_verdict verdict;
    uint64_t before = w->evaluator->evaluations;
    int rc = ah_evaluator_try(w->evaluator, w->set->configs, w->knobs, &verdict, w->err);
    if (!rc && w->list && is_evaluated(w->evaluator, verdict, before))
        ah_shortlist_take(w->list, w->set->configs, w->knobs, w->evaluator->last.period_us);
    return rc;
}

static int walk_from(const struct walk *w, size_t block, double most_us)
{
    const struct ah_assignments_menu *menu = &w->set->menus[block];
    int rc = AH_OK;
    if (block == w->set->n_blocks)
        return try_one(w);
    for (size_t i = 0; i < menu->n && !rc && menu->prices_us[i] <= most_us; i++) {
        w->set->configs[block] = menu->configs[i];
        rc = walk_from(w, block + 1, most_us - menu->prices_us[i]);
    }
    return rc;
}

int ah_assignments_try(const struct ah_assignments *set, struct ah_evaluator *evaluator,
                       const struct ah_knobs *knobs, struct ah_shortlist *list, struct ah_error *err)
{
    const struct walk walk = {set, evaluator, knobs, list, err};
    uint64_t work = evaluator->limits.work;
    evaluator->limits.work = 0;
    int rc = walk_from(&walk, 0, set->most_us);
    evaluator->limits.work = work;
    return rc;
}

void ah_assignments_release(struct ah_assignments *set)
{
    free(set->menus);
    free(set->configs);
    *set = (struct ah_assignments){0};
}
