/* SPDX-License-Identifier: Apache-2.0
 *
 * Knobs and their ladders.
 */
#include "planner/knobs.h"

enum { RUNGS = 8, STATE_TILES = 4 };

struct ah_knobs ah_knobs_first(const struct ah_job *job, enum ah_scheduling scheduling,
                               enum ah_micro_order micro_order)
{
    uint64_t most = 0;
    for (size_t i = 0; i < job->n_groups; i++)
        if (job->groups[i].kind == AH_BLOCK_LAYER && job->groups[i].flat_elements > most)
            most = job->groups[i].flat_elements;
    uint64_t tile = (most / 4 + AH_PLAN_TILE_UNIT - 1) / AH_PLAN_TILE_UNIT * AH_PLAN_TILE_UNIT;
    return (struct ah_knobs){.tile_elements = tile ? tile : AH_PLAN_TILE_UNIT,
                             .micro_order = micro_order,
                             .fetch_ahead = 2,
                             .send_behind = 2,
                             .host_gradient_tiles = 16,
                             .host_weight_tiles = 16,
                             .device_state_tiles = STATE_TILES,
                             .scheduling = scheduling};
}

struct ah_knobs ah_knobs_with_states(const struct ah_knobs *knobs)
{
    struct ah_knobs with = *knobs;
    if (!with.device_state_tiles)
        with.device_state_tiles = STATE_TILES;
    return with;
}

bool ah_knobs_equal(const struct ah_knobs *a, const struct ah_knobs *b)
{
    return a->tile_elements == b->tile_elements && a->micro_order == b->micro_order &&
           a->fetch_ahead == b->fetch_ahead && a->send_behind == b->send_behind &&
           a->host_gradient_tiles == b->host_gradient_tiles && a->host_weight_tiles == b->host_weight_tiles &&
           a->device_state_tiles == b->device_state_tiles &&
           a->updates_after_backward == b->updates_after_backward && a->step_ends == b->step_ends &&
           a->scheduling == b->scheduling;
}

struct ah_knobs ah_knobs_coarse(const struct ah_job *job, enum ah_scheduling scheduling,
                                enum ah_micro_order micro_order)
{
    struct ah_knobs knobs = ah_knobs_first(job, scheduling, micro_order);
    knobs.tile_elements *= 4;
    return knobs;
}

struct ah_knobs ah_knobs_leanest(const struct ah_job *job, enum ah_scheduling scheduling,
                                 enum ah_micro_order micro_order)
{
    struct ah_knobs knobs = ah_knobs_first(job, scheduling, micro_order);
    knobs.tile_elements =
        (knobs.tile_elements / 8 + AH_PLAN_TILE_UNIT - 1) / AH_PLAN_TILE_UNIT * AH_PLAN_TILE_UNIT;
    knobs.fetch_ahead = knobs.send_behind = 0;
    knobs.host_gradient_tiles = knobs.host_weight_tiles = knobs.device_state_tiles = 1;
    return knobs;
}

enum knob { KNOB_SEND, KNOB_FETCH, KNOB_STATES, KNOB_WEIGHTS, KNOB_GRADIENTS, KNOB_TILE, KNOBS };

static const uint32_t ladders[KNOBS][RUNGS] = {
    [KNOB_SEND] = {1, 2, 3, 4, 8, 16, 32, 256},       [KNOB_FETCH] = {1, 2, 3, 4, 6, 8, 12, 16},
    [KNOB_STATES] = {2, 3, 4, 6, 8, 12, 16, 32},      [KNOB_WEIGHTS] = {2, 4, 8, 16, 32, 64, 128, 0},
    [KNOB_GRADIENTS] = {2, 4, 8, 16, 32, 64, 128, 0}, [KNOB_TILE] = {1, 2, 4, 8, 0, 0, 0, 0},
};

/* Sets a knob to a rung of its ladder; false: it is there, or there is no such rung. */
static bool set_knob(const struct ah_job *job, struct ah_knobs *knobs, enum knob knob, uint32_t value)
{
    struct ah_knobs before = *knobs;
    uint64_t quarter = ah_knobs_first(job, knobs->scheduling, knobs->micro_order).tile_elements;
    uint64_t tile = value ? (4 * quarter / value + AH_PLAN_TILE_UNIT - 1) / AH_PLAN_TILE_UNIT : 0;
    switch (knob) {
    case KNOB_SEND:
        knobs->send_behind = value;
        break;
    case KNOB_FETCH:
        knobs->fetch_ahead = value;
        break;
    case KNOB_STATES:
        knobs->device_state_tiles = value;
        break;
    case KNOB_WEIGHTS:
        knobs->host_weight_tiles = value;
        break;
    case KNOB_GRADIENTS:
        knobs->host_gradient_tiles = value;
        break;
    case KNOB_TILE:
        knobs->tile_elements = tile ? tile * AH_PLAN_TILE_UNIT : knobs->tile_elements;
        break;
    case KNOBS:
        break;
    }
    return !ah_knobs_equal(&before, knobs);
}

void ah_knobs_shake(const struct ah_job *job, uint64_t random, struct ah_knobs *knobs)
{
    enum knob knob = (enum knob)(random % KNOBS);
    set_knob(job, knobs, knob, ladders[knob][random / KNOBS % RUNGS]);
}

size_t ah_knobs_kinds(const struct ah_job *job, const struct ah_knobs *knobs, int orders,
                      struct ah_knobs ret_kinds[AH_KNOBS_KINDS_MAX])
{
    size_t n = 0;
    for (int order = 0; order < orders; order++) {
        for (size_t i = 0; i < RUNGS && ladders[KNOB_TILE][i] && n < AH_KNOBS_KINDS_MAX; i++) {
            ret_kinds[n] = *knobs;
            ret_kinds[n].micro_order = (enum ah_micro_order)order;
            set_knob(job, &ret_kinds[n++], KNOB_TILE, ladders[KNOB_TILE][i]);
        }
    }
    return n;
}

/* Knobs that say what a system may overlap are not swept where they are its rules. */
static bool swept(const struct ah_trial *trial, enum knob knob, bool fixed_rules)
{
    bool streamed = false, fetched = false, hosted = false;
    for (size_t i = 0; i < trial->limits.job->n_blocks; i++) {
        streamed |= trial->best.configs[i].optimizer == AH_OPTIMIZER_STREAMED;
        hosted |= trial->best.configs[i].optimizer == AH_OPTIMIZER_HOST;
        fetched |= trial->best.configs[i].weights == AH_WEIGHTS_HOST;
    }
    const bool used[KNOBS] = {[KNOB_SEND] = hosted && !fixed_rules,
                              [KNOB_FETCH] = fetched && !fixed_rules,
                              [KNOB_STATES] = streamed,
                              [KNOB_WEIGHTS] = hosted && !fixed_rules,
                              [KNOB_GRADIENTS] = hosted && !fixed_rules,
                              [KNOB_TILE] = hosted || streamed || fetched};
    return used[knob];
}

int ah_knobs_sweep(struct ah_trial *trial, bool fixed_rules, struct ah_error *err)
{
    bool improved = trial->found;
    int rc = AH_OK;
    while (improved && !rc) {
        improved = false;
        for (enum knob knob = 0; knob < KNOBS && !rc; knob++) {
            for (size_t i = 0; i < RUNGS && !rc && swept(trial, knob, fixed_rules); i++) {
                struct ah_knobs knobs = trial->best.knobs;
                enum ah_verdict verdict;
                if (!set_knob(trial->limits.job, &knobs, knob, ladders[knob][i]))
                    continue;
                double before = trial->best.score.period_us;
                rc = ah_trial_run(trial, trial->best.configs, &knobs, &verdict, err);
                improved |= !rc && trial->best.score.period_us < before * (1 - 1e-6);
            }
        }
    }
    return rc;
}
