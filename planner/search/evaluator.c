/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluator: measures, bounds, evaluates and compares choices.
 *
 * The bound before an evaluation follows from two facts: no lane works longer than the period, and no resource is used
 * beyond its capacity. Choices seen before are remembered by a hash of 64 bits. A collision, one in 10^13 for a million
 * choices, would only lose a candidate.
 */
#include "planner/search/evaluator.h"

#include "planner/search/knobs.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct seen_choice {
    uint64_t hash;   /* 0: free */
    double known_to; /* a period up to this is exact; above it, a lower bound */
    double period_us;
    uint64_t live_bytes;
    uint64_t over_bytes;
};

struct ah_evaluator_seen {
    struct seen_choice *choices;
    size_t room; /* a power of two */
    size_t n;
};

/* ---- seen choices ---- */

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

static uint64_t hash_choice(const struct ah_evaluator *evaluator, const struct ah_config *configs,
                            const struct ah_knobs *knobs)
{
    const struct ah_knobs that_count = ah_knobs_that_count(evaluator->limits.job, configs, knobs),
                          *k = &that_count;
    const uint64_t words[] = {
        k->tile_elements,       k->micro_order,       k->fetch_ahead,        k->send_behind,
        k->host_gradient_tiles, k->host_weight_tiles, k->device_state_tiles, k->updates_after_backward,
        k->step_ends,           k->scheduling};
    uint64_t hash = 1;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        hash = mix(hash, words[i]);
    for (size_t i = 0; i < evaluator->limits.job->n_blocks; i++) {
        uint32_t word;
        memcpy(&word, &configs[i], sizeof word);
        hash = mix(hash, word);
    }
    return hash ? hash : 1;
}

static size_t find_seen(const struct ah_evaluator_seen *seen, uint64_t hash)
{
    size_t i = hash & (seen->room - 1);
    while (seen->choices[i].hash && seen->choices[i].hash != hash)
        i = (i + 1) & (seen->room - 1);
    return i;
}

static int grow_seen(struct ah_evaluator_seen *seen, struct ah_error *err)
{
    struct ah_evaluator_seen bigger = {.room = seen->room ? seen->room * 2 : 1024, .n = seen->n};
    bigger.choices = calloc(bigger.room, sizeof *bigger.choices);
    if (!bigger.choices)
        return ah_error_memory(err);
    for (size_t i = 0; i < seen->room; i++)
        if (seen->choices[i].hash)
            bigger.choices[find_seen(&bigger, seen->choices[i].hash)] = seen->choices[i];
    free(seen->choices);
    *seen = bigger;
    return AH_OK;
}

/* Finds the entry of a choice, or makes one. */
static int note_seen(struct ah_evaluator_seen *seen, uint64_t hash, struct seen_choice **ret_choice,
                     bool *ret_new, struct ah_error *err)
{
    int rc = 2 * seen->n >= seen->room ? grow_seen(seen, err) : AH_OK;
    if (rc)
        return rc;
    struct seen_choice *choice = &seen->choices[find_seen(seen, hash)];
    *ret_new = !choice->hash;
    seen->n += *ret_new;
    choice->hash = hash;
    *ret_choice = choice;
    return AH_OK;
}

/* ---- bounds and comparison ---- */

static double work_bound_us(const struct ah_evaluator *evaluator, const struct ah_score *score)
{
    const struct ah_plan_sharing *sharing = &evaluator->limits.costs->sharing;
    const double *work = score->work_us;
    double bound = 0;
    for (size_t lane = 0; lane < AH_PLAN_LANES; lane++)
        bound = work[lane] > bound ? work[lane] : bound;
    for (size_t i = 0; i < sharing->n_resources; i++) {
        double us = ah_plan_resource_us(&sharing->resources[i], work);
        bound = us > bound ? us : bound;
    }
    return bound * (1 - 1e-9);
}

static int compare_bytes(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* True if the choice is better than the best. Periods within a billionth are equal: their last bits may differ. */
static bool better(const struct ah_evaluator *evaluator, const struct ah_config *configs,
                   const struct ah_score *score)
{
    const struct ah_score *best = &evaluator->best.score;
    if (!evaluator->found)
        return true;
    double margin_us = 1e-9 * best->period_us;
    if (score->period_us < best->period_us - margin_us)
        return true;
    if (score->period_us > best->period_us + margin_us)
        return false;
    int order =
        compare_bytes(score->pinned_bytes + score->pageable_bytes, best->pinned_bytes + best->pageable_bytes);
    if (!order)
        order = compare_bytes(score->link_bytes, best->link_bytes);
    if (!order)
        order = memcmp(configs, evaluator->best.configs, evaluator->limits.job->n_blocks * sizeof *configs);
    return order < 0;
}

static bool fits(struct ah_evaluator *evaluator, const struct ah_score *score)
{
    uint64_t host = score->pinned_bytes + score->pageable_bytes;
    bool fits_device = score->device.peak_bytes <= evaluator->limits.device_bytes;
    bool fits_host = host <= evaluator->limits.host_bytes;
    evaluator->last_over_bytes =
        (fits_device ? 0 : score->device.peak_bytes - evaluator->limits.device_bytes) +
        (fits_host ? 0 : host - evaluator->limits.host_bytes);
    if (fits_host && score->device.peak_bytes < evaluator->least_device_bytes)
        evaluator->least_device_bytes = score->device.peak_bytes;
    if (fits_device && host < evaluator->least_host_bytes)
        evaluator->least_host_bytes = host;
    return fits_device && fits_host;
}

/* ---- trials ---- */

int ah_evaluator_init(struct ah_evaluator *evaluator, const struct ah_evaluator_limits *limits,
                      struct ah_error *err)
{
    *evaluator = (struct ah_evaluator){
        .limits = *limits, .least_device_bytes = UINT64_MAX, .least_host_bytes = UINT64_MAX};
    int rc = ah_schedule_init(&evaluator->schedule, limits->job, err);
    if (rc)
        return rc;
    evaluator->seen = calloc(1, sizeof *evaluator->seen);
    evaluator->best.configs = calloc(limits->job->n_blocks, sizeof *evaluator->best.configs);
    if (evaluator->seen && evaluator->best.configs)
        return AH_OK;
    ah_evaluator_release(evaluator);
    return ah_error_memory(err);
}

static int evaluate_choice(struct ah_evaluator *evaluator, const struct ah_choice *choice,
                           enum ah_verdict *verdict, struct ah_error *err)
{
    evaluator->evaluations++;
    if (evaluator->limits.stop && evaluator->limits.stop(evaluator->limits.context, evaluator->evaluations))
        return ah_error_set(err, AH_E_INTERRUPTED, "planning was interrupted; nothing was written");
    int rc = ah_schedule_evaluate(&evaluator->schedule, choice, &evaluator->last, err);
    *verdict = AH_EVALUATOR_TOO_BIG;
    evaluator->last_over_bytes = UINT64_MAX;
    if (rc == AH_E_FAILED)
        return AH_OK; /* the rings are too small for this order, so there is no plan */
    if (rc || !fits(evaluator, &evaluator->last))
        return rc;
    *verdict = AH_EVALUATOR_WORSE;
    if (!better(evaluator, choice->configs, &evaluator->last))
        return AH_OK;
    *verdict = AH_EVALUATOR_BETTER;
    evaluator->found = true;
    evaluator->best.knobs = choice->knobs;
    evaluator->best.score = evaluator->last;
    memcpy(evaluator->best.numbers, evaluator->numbers, sizeof evaluator->numbers);
    memcpy(evaluator->best.configs, choice->configs,
           evaluator->limits.job->n_blocks * sizeof *choice->configs);
    return AH_OK;
}

/* An evaluation costs this many times as much as a measurement. */
enum { EVALUATION = 8 };

/* Returns the period above which a choice with `live_bytes` need not be timed exactly; 0: it always must. */
static double period_enough_us(const struct ah_evaluator *evaluator, double enough_us, uint64_t live_bytes)
{
    double worth_us = evaluator->us_per_byte * (double)live_bytes;
    return enough_us > 0 ? fmax(enough_us - worth_us, DBL_MIN) : 0;
}

static int try_new(struct ah_evaluator *evaluator, struct ah_choice *choice, enum ah_verdict *verdict,
                   struct ah_error *err)
{
    int rc = ah_schedule_measure(&evaluator->schedule, choice, &evaluator->last, err);
    if (rc)
        return rc;
    uint64_t tiles = evaluator->last.tiles;
    evaluator->spent += tiles / EVALUATION;
    evaluator->last_live_bytes = evaluator->last.device.peak_bytes;
    choice->enough_us = period_enough_us(evaluator, choice->enough_us, evaluator->last_live_bytes);
    *verdict = AH_EVALUATOR_TOO_BIG;
    if (!fits(evaluator, &evaluator->last))
        return AH_OK;
    *verdict = AH_EVALUATOR_WORSE;
    evaluator->last.period_us = work_bound_us(evaluator, &evaluator->last);
    if (choice->enough_us > 0 && evaluator->last.period_us > choice->enough_us)
        return AH_OK;
    evaluator->spent += tiles;
    return evaluate_choice(evaluator, choice, verdict, err);
}

static double enough_us(const struct ah_evaluator *evaluator)
{
    if (evaluator->enough_us > 0)
        return evaluator->enough_us;
    return evaluator->found ? evaluator->best.score.period_us : 0;
}

/* True if the remembered period is exact, or is a bound that is already above `enough_us`. */
static bool is_known(const struct seen_choice *seen, double enough_us)
{
    return seen->period_us <= seen->known_to || (enough_us > 0 && seen->period_us > enough_us);
}

int ah_evaluator_try(struct ah_evaluator *evaluator, const struct ah_config *configs,
                     const struct ah_knobs *knobs, enum ah_verdict *ret_verdict, struct ah_error *err)
{
    struct ah_choice choice = {.configs = configs,
                               .knobs = *knobs,
                               .costs = evaluator->limits.costs,
                               .enough_us = enough_us(evaluator),
                               .enough_bytes = evaluator->limits.device_bytes};
    const struct ah_restriction *restriction = evaluator->limits.restriction;
    struct seen_choice *seen;
    bool is_new;
    if (restriction && !ah_restriction_allows(restriction, evaluator->limits.job, configs)) {
        evaluator->last = (struct ah_score){0};
        evaluator->last_over_bytes = 0;
        *ret_verdict = AH_EVALUATOR_WORSE;
        return AH_OK;
    }
    if (restriction)
        choice.knobs = ah_restriction_knobs(restriction, evaluator->limits.job, knobs);
    int rc = note_seen(evaluator->seen, hash_choice(evaluator, configs, &choice.knobs), &seen, &is_new, err);
    *ret_verdict = AH_EVALUATOR_SEEN;
    if (rc)
        return rc;
    if (!is_new && is_known(seen, period_enough_us(evaluator, choice.enough_us, seen->live_bytes))) {
        evaluator->last = (struct ah_score){.period_us = seen->period_us};
        evaluator->last_live_bytes = seen->live_bytes;
        evaluator->last_over_bytes = seen->over_bytes;
        return AH_OK;
    }
    *ret_verdict = AH_EVALUATOR_EXHAUSTED;
    if (ah_evaluator_is_spent(evaluator))
        return AH_OK;
    rc = try_new(evaluator, &choice, ret_verdict, err);
    seen->known_to = choice.enough_us > 0 ? choice.enough_us : HUGE_VAL;
    seen->period_us = evaluator->last.period_us;
    seen->live_bytes = evaluator->last_live_bytes;
    seen->over_bytes = evaluator->last_over_bytes;
    return rc;
}

bool ah_evaluator_is_faster(const struct ah_evaluator *evaluator, enum ah_verdict verdict, double period_us)
{
    bool fits =
        verdict != AH_EVALUATOR_EXHAUSTED && verdict != AH_EVALUATOR_TOO_BIG && !evaluator->last_over_bytes;
    return fits && evaluator->last.period_us > 0 && evaluator->last.period_us < period_us * (1 - 1e-6);
}

bool ah_evaluator_is_spent(const struct ah_evaluator *evaluator)
{
    return evaluator->limits.work && evaluator->spent >= evaluator->limits.work;
}

void ah_evaluator_limit(struct ah_evaluator *evaluator, uint64_t device_bytes, uint64_t work)
{
    evaluator->limits.device_bytes = device_bytes;
    evaluator->limits.work = work;
    evaluator->least_device_bytes = evaluator->least_host_bytes = UINT64_MAX;
    if (evaluator->seen->choices)
        memset(evaluator->seen->choices, 0, evaluator->seen->room * sizeof *evaluator->seen->choices);
    evaluator->seen->n = 0;
    if (evaluator->found && evaluator->best.score.device.peak_bytes > device_bytes)
        evaluator->found = false;
}

void ah_evaluator_release(struct ah_evaluator *evaluator)
{
    ah_schedule_release(&evaluator->schedule);
    if (evaluator->seen)
        free(evaluator->seen->choices);
    free(evaluator->seen);
    free(evaluator->best.configs);
    *evaluator = (struct ah_evaluator){0};
}
