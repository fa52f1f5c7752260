/* SPDX-License-Identifier: Apache-2.0
 *
 * Trial: measured, bounded, evaluated, compared.
 *
 * The bound before an evaluation: no lane works longer than the period, and no resource is asked for more than it has.
 * Seen choices are remembered by a hash of 64 bits: a collision, one in 10^13 for a million choices, would only lose a
 * candidate.
 */
#include "planner/trial.h"

#include "planner/knobs.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct seen_choice {
    uint64_t hash;   /* 0: free */
    double known_to; /* a period above this is only a bound */
    double period_us;
    uint64_t live_bytes;
    uint64_t over_bytes;
};

struct ah_trial_seen {
    struct seen_choice *choices;
    size_t room; /* a power of two */
    size_t n;
};

/* ---- what was seen ---- */

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

static uint64_t hash_choice(const struct ah_trial *trial, const struct ah_config *configs,
                            const struct ah_knobs *knobs)
{
    const struct ah_knobs that_count = ah_knobs_that_count(trial->limits.job, configs, knobs),
                          *k = &that_count;
    const uint64_t words[] = {
        k->tile_elements,       k->micro_order,       k->fetch_ahead,        k->send_behind,
        k->host_gradient_tiles, k->host_weight_tiles, k->device_state_tiles, k->updates_after_backward,
        k->step_ends,           k->scheduling};
    uint64_t hash = 1;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        hash = mix(hash, words[i]);
    for (size_t i = 0; i < trial->limits.job->n_blocks; i++) {
        uint32_t word;
        memcpy(&word, &configs[i], sizeof word);
        hash = mix(hash, word);
    }
    return hash ? hash : 1;
}

static size_t find_seen(const struct ah_trial_seen *seen, uint64_t hash)
{
    size_t i = hash & (seen->room - 1);
    while (seen->choices[i].hash && seen->choices[i].hash != hash)
        i = (i + 1) & (seen->room - 1);
    return i;
}

static int grow_seen(struct ah_trial_seen *seen, struct ah_error *err)
{
    struct ah_trial_seen bigger = {.room = seen->room ? seen->room * 2 : 1024, .n = seen->n};
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

/* The place of a choice; if its hash is 0, the choice is new. */
static int note_seen(struct ah_trial_seen *seen, uint64_t hash, struct seen_choice **ret_choice,
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

static double work_bound_us(const struct ah_trial *trial, const struct ah_score *score)
{
    const struct ah_plan_sharing *sharing = &trial->limits.costs->sharing;
    const double *work = score->work_us;
    double bound = 0;
    for (size_t lane = 0; lane < 4; lane++)
        bound = work[lane] > bound ? work[lane] : bound;
    for (size_t i = 0; i < sharing->n_resources; i++) {
        const struct ah_plan_resource *r = &sharing->resources[i];
        double us = r->compute * work[AH_PLAN_LANE_COMPUTE] + r->h2d * work[AH_PLAN_LANE_H2D] +
                    r->d2h * work[AH_PLAN_LANE_D2H] + r->host * work[AH_PLAN_LANE_HOST];
        bound = us > bound ? us : bound;
    }
    return bound * (1 - 1e-9);
}

static int compare_bytes(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* Periods are compared to a billionth: equal ones in theory may differ in their last bits. */
static bool better(const struct ah_trial *trial, const struct ah_config *configs,
                   const struct ah_score *score)
{
    const struct ah_score *best = &trial->best.score;
    if (!trial->found)
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
        order = memcmp(configs, trial->best.configs, trial->limits.job->n_blocks * sizeof *configs);
    return order < 0;
}

static bool fits(struct ah_trial *trial, const struct ah_score *score)
{
    uint64_t host = score->pinned_bytes + score->pageable_bytes;
    bool fits_device = score->device.peak_bytes <= trial->limits.device_bytes;
    bool fits_host = host <= trial->limits.host_bytes;
    trial->last_over_bytes = (fits_device ? 0 : score->device.peak_bytes - trial->limits.device_bytes) +
                             (fits_host ? 0 : host - trial->limits.host_bytes);
    if (fits_host && score->device.peak_bytes < trial->least_device_bytes)
        trial->least_device_bytes = score->device.peak_bytes;
    if (fits_device && host < trial->least_host_bytes)
        trial->least_host_bytes = host;
    return fits_device && fits_host;
}

/* ---- trials ---- */

int ah_trial_init(struct ah_trial *trial, const struct ah_trial_limits *limits, struct ah_error *err)
{
    *trial = (struct ah_trial){
        .limits = *limits, .least_device_bytes = UINT64_MAX, .least_host_bytes = UINT64_MAX};
    int rc = ah_schedule_init(&trial->schedule, limits->job, err);
    if (rc)
        return rc;
    trial->seen = calloc(1, sizeof *trial->seen);
    trial->best.configs = calloc(limits->job->n_blocks, sizeof *trial->best.configs);
    if (trial->seen && trial->best.configs)
        return AH_OK;
    ah_trial_release(trial);
    return ah_error_memory(err);
}

static int evaluate(struct ah_trial *trial, const struct ah_choice *choice, enum ah_verdict *verdict,
                    struct ah_error *err)
{
    trial->evaluations++;
    if (trial->limits.stop && trial->limits.stop(trial->limits.context, trial->evaluations))
        return ah_error_set(err, AH_E_INTERRUPTED, "planning was interrupted; nothing was written");
    int rc = ah_schedule_evaluate(&trial->schedule, choice, &trial->last, err);
    *verdict = AH_TRIAL_TOO_BIG;
    trial->last_over_bytes = UINT64_MAX;
    if (rc == AH_E_FAILED)
        return AH_OK; /* rings too small for its order */
    if (rc || !fits(trial, &trial->last))
        return rc;
    *verdict = AH_TRIAL_WORSE;
    if (!better(trial, choice->configs, &trial->last))
        return AH_OK;
    *verdict = AH_TRIAL_BETTER;
    trial->found = true;
    trial->best.knobs = choice->knobs;
    trial->best.score = trial->last;
    memcpy(trial->best.configs, choice->configs, trial->limits.job->n_blocks * sizeof *choice->configs);
    return AH_OK;
}

/* How much more an evaluation costs than a measurement. */
enum { EVALUATION = 8 };

/* The period that is enough for a choice with `live_bytes`. */
static double period_enough_us(const struct ah_trial *trial, double enough_us, uint64_t live_bytes)
{
    double worth_us = trial->us_per_byte * (double)live_bytes;
    return enough_us > 0 ? fmax(enough_us - worth_us, DBL_MIN) : 0;
}

static int try_new(struct ah_trial *trial, struct ah_choice *choice, enum ah_verdict *verdict,
                   struct ah_error *err)
{
    int rc = ah_schedule_measure(&trial->schedule, choice, &trial->last, err);
    if (rc)
        return rc;
    uint64_t tiles = trial->last.tiles;
    trial->spent += tiles / EVALUATION;
    trial->last_live_bytes = trial->last.device.peak_bytes;
    choice->enough_us = period_enough_us(trial, choice->enough_us, trial->last_live_bytes);
    *verdict = AH_TRIAL_TOO_BIG;
    if (!fits(trial, &trial->last))
        return AH_OK;
    *verdict = AH_TRIAL_WORSE;
    trial->last.period_us = work_bound_us(trial, &trial->last);
    if (choice->enough_us > 0 && trial->last.period_us > choice->enough_us)
        return AH_OK;
    trial->spent += tiles;
    return evaluate(trial, choice, verdict, err);
}

static double enough_us(const struct ah_trial *trial)
{
    if (trial->enough_us > 0)
        return trial->enough_us;
    return trial->found ? trial->best.score.period_us : 0;
}

/* Does the remembered result answer this request? */
static bool is_known(const struct seen_choice *seen, double enough_us)
{
    return seen->period_us <= seen->known_to || (enough_us > 0 && seen->period_us > enough_us);
}

int ah_trial_run(struct ah_trial *trial, const struct ah_config *configs, const struct ah_knobs *knobs,
                 enum ah_verdict *ret_verdict, struct ah_error *err)
{
    struct ah_choice choice = {.configs = configs,
                               .knobs = *knobs,
                               .costs = trial->limits.costs,
                               .enough_us = enough_us(trial),
                               .enough_bytes = trial->limits.device_bytes};
    const struct ah_restriction *restriction = trial->limits.restriction;
    struct seen_choice *seen;
    bool is_new;
    if (restriction && !ah_restriction_allows(restriction, trial->limits.job, configs)) {
        trial->last = (struct ah_score){0};
        trial->last_over_bytes = 0;
        *ret_verdict = AH_TRIAL_WORSE;
        return AH_OK;
    }
    if (restriction)
        choice.knobs = ah_restriction_knobs(restriction, trial->limits.job, knobs);
    int rc = note_seen(trial->seen, hash_choice(trial, configs, &choice.knobs), &seen, &is_new, err);
    *ret_verdict = AH_TRIAL_SEEN;
    if (rc)
        return rc;
    if (!is_new && is_known(seen, period_enough_us(trial, choice.enough_us, seen->live_bytes))) {
        trial->last = (struct ah_score){.period_us = seen->period_us};
        trial->last_live_bytes = seen->live_bytes;
        trial->last_over_bytes = seen->over_bytes;
        return AH_OK;
    }
    *ret_verdict = AH_TRIAL_EXHAUSTED;
    if (ah_trial_is_spent(trial))
        return AH_OK;
    rc = try_new(trial, &choice, ret_verdict, err);
    seen->known_to = choice.enough_us > 0 ? choice.enough_us : HUGE_VAL;
    seen->period_us = trial->last.period_us;
    seen->live_bytes = trial->last_live_bytes;
    seen->over_bytes = trial->last_over_bytes;
    return rc;
}

bool ah_trial_is_faster(const struct ah_trial *trial, enum ah_verdict verdict, double period_us)
{
    bool fits = verdict != AH_TRIAL_EXHAUSTED && verdict != AH_TRIAL_TOO_BIG && !trial->last_over_bytes;
    return fits && trial->last.period_us > 0 && trial->last.period_us < period_us * (1 - 1e-6);
}

bool ah_trial_is_spent(const struct ah_trial *trial)
{
    return trial->limits.work && trial->spent >= trial->limits.work;
}

void ah_trial_limit(struct ah_trial *trial, uint64_t device_bytes, uint64_t work)
{
    trial->limits.device_bytes = device_bytes;
    trial->limits.work = work;
    trial->least_device_bytes = trial->least_host_bytes = UINT64_MAX;
    if (trial->seen->choices)
        memset(trial->seen->choices, 0, trial->seen->room * sizeof *trial->seen->choices);
    trial->seen->n = 0;
    if (trial->found && trial->best.score.device.peak_bytes > device_bytes)
        trial->found = false;
}

void ah_trial_release(struct ah_trial *trial)
{
    ah_schedule_release(&trial->schedule);
    if (trial->seen)
        free(trial->seen->choices);
    free(trial->seen);
    free(trial->best.configs);
    *trial = (struct ah_trial){0};
}
