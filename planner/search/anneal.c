/* SPDX-License-Identifier: Apache-2.0
 *
 * Annealing by thresholds: the limit on a change's loss is drawn at random before the change is tried. Costs above the
 * limit need not be known exactly, so most changes for the worse need only a part of an evaluation.
 *
 * The limit has a nearly exponential distribution: coin tosses until heads, plus a uniform rest. It needs no logarithm,
 * whose last bit differs between machines.
 */
#include "planner/search/anneal.h"

#include "planner/search/knobs.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

int ah_anneal_init(struct ah_anneal *chain, const struct ah_evaluator_limits *limits, const uint32_t *allowed,
                   uint64_t seed, struct ah_error *err)
{
    size_t n = limits->job->n_blocks;
    *chain = (struct ah_anneal){.vary = {limits->job, allowed}, .random = seed};
    int rc = ah_evaluator_init(&chain->evaluator, limits, err);
    if (rc)
        return rc;
    chain->configs = calloc(n, sizeof *chain->configs);
    chain->changed = calloc(n, sizeof *chain->changed);
    if (chain->configs && chain->changed)
        return AH_OK;
    ah_anneal_release(chain);
    return ah_error_memory(err);
}

static size_t configs_bytes(const struct ah_anneal *chain)
{
    return chain->vary.job->n_blocks * sizeof *chain->configs;
}

/* A choice forbidden by restriction.h has neither bytes nor a period, and counts as one that does not fit. */
struct ah_height ah_height_of_last(const struct ah_evaluator *evaluator)
{
    bool fits = !evaluator->last_over_bytes && evaluator->last.period_us > 0;
    uint64_t over_bytes = evaluator->last_over_bytes ? evaluator->last_over_bytes : UINT64_MAX;
    double worth_us = evaluator->us_per_byte * (double)evaluator->last_live_bytes;
    return (struct ah_height){fits ? 0 : over_bytes, evaluator->last.period_us + worth_us};
}

int ah_anneal_start(struct ah_anneal *chain, const struct ah_config *configs, const struct ah_knobs *knobs,
                    struct ah_error *err)
{
    enum ah_verdict verdict;
    memcpy(chain->configs, configs, configs_bytes(chain));
    chain->knobs = ah_knobs_with_states(knobs);
    chain->evaluator.enough_us = DBL_MAX;
    int rc = ah_evaluator_try(&chain->evaluator, configs, &chain->knobs, &verdict, err);
    if (!rc && verdict == AH_EVALUATOR_EXHAUSTED)
        rc = ah_error_set(err, AH_E_USAGE, "no evaluations are left for a start");
    chain->height = ah_height_of_last(&chain->evaluator);
    return rc;
}

static double draw_exponential(uint64_t *random)
{
    uint64_t bits = ah_vary_next(random);
    int tosses = 0;
    while (tosses < 16 && bits >> tosses & 1)
        tosses++;
    return tosses + (double)(bits >> 16) * 0x1p-37;
}

/* Returns the height up to which a change is accepted. */
static struct ah_height threshold(struct ah_anneal *chain, double temperature)
{
    double loss = temperature * draw_exponential(&chain->random);
    struct ah_height height = chain->height;
    if (!height.over_bytes)
        height.cost_us *= 1 + loss;
    return height;
}

static bool is_below(const struct ah_height *height, const struct ah_height *threshold)
{
    if (height->over_bytes || threshold->over_bytes)
        return height->over_bytes <= threshold->over_bytes;
    return height->cost_us <= threshold->cost_us;
}

static int try_change(struct ah_anneal *chain, double temperature, bool *ret_spent, struct ah_error *err)
{
    struct ah_evaluator *evaluator = &chain->evaluator;
    struct ah_knobs knobs = chain->knobs;
    enum ah_verdict verdict;
    memcpy(chain->changed, chain->configs, configs_bytes(chain));
    if (!ah_vary_choice(&chain->vary, &chain->random, chain->changed, &knobs))
        return AH_OK;
    struct ah_height most = threshold(chain, temperature);
    evaluator->enough_us = most.over_bytes ? DBL_MAX : most.cost_us;
    int rc = ah_evaluator_try(evaluator, chain->changed, &knobs, &verdict, err);
    *ret_spent = verdict == AH_EVALUATOR_EXHAUSTED;
    if (rc || *ret_spent)
        return rc;
    struct ah_height height = ah_height_of_last(evaluator);
    if (!is_below(&height, &most))
        return AH_OK;
    struct ah_config *configs = chain->configs;
    chain->configs = chain->changed;
    chain->changed = configs;
    chain->knobs = knobs;
    chain->height = height;
    return AH_OK;
}

int ah_anneal_run(struct ah_anneal *chain, double hot, double cold, struct ah_error *err)
{
    enum { IDLE = 1000 }; /* choices seen before cost no work, so a chain of only these must end */
    struct ah_evaluator *evaluator = &chain->evaluator;
    uint64_t first = evaluator->spent, before = first;
    bool spent = false;
    int rc = AH_OK;
    for (int idle = 0; idle < IDLE && !spent && !rc; idle = evaluator->spent == before ? idle + 1 : 0) {
        double done = (double)(evaluator->spent - first) / (double)(evaluator->limits.work - first);
        before = evaluator->spent;
        rc = try_change(chain, hot + (cold - hot) * (done < 1 ? done : 1), &spent, err);
    }
    return rc;
}

void ah_anneal_release(struct ah_anneal *chain)
{
    ah_evaluator_release(&chain->evaluator);
    free(chain->configs);
    free(chain->changed);
    *chain = (struct ah_anneal){0};
}
