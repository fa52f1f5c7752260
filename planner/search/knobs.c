/* SPDX-License-Identifier: Apache-2.0
 *
 * Knobs and their ladders.
 */
#include "planner/search/knobs.h"

enum { RUNGS = 9, STATE_TILES = 4 };

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

_Static_assert(KNOBS *RUNGS <= AH_KNOBS_NEIGHBOURS_MAX, "a place for every rung");

/* The values of each knob. The first value is rarely good with many blocks. */
static const uint32_t ladders[KNOBS][RUNGS] = {
    [KNOB_SEND] = {0, 1, 2, 3, 4, 8, 16, 32, 256},       [KNOB_FETCH] = {0, 1, 2, 3, 4, 6, 8, 12, 16},
    [KNOB_STATES] = {64, 1, 2, 3, 4, 6, 8, 16, 32},      [KNOB_WEIGHTS] = {1, 2, 4, 8, 16, 32, 64, 128, 0},
    [KNOB_GRADIENTS] = {1, 2, 4, 8, 16, 32, 64, 128, 0}, [KNOB_TILE] = {1, 2, 4, 8, 16, 32},
};

/* Sets a knob to a value of its ladder. Returns false if this changes nothing, also for a tile of 0 (no such rung). */
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

/* Random changes draw only coarse tiles, because fine ones take long to simulate. */
void ah_knobs_shake(const struct ah_job *job, uint64_t random, struct ah_knobs *knobs)
{
    enum { COARSE_TILES = 4 };
    enum knob knob = (enum knob)(random % KNOBS);
    size_t first = job->n_blocks <= AH_FEW_BLOCKS || knob == KNOB_TILE ? 0 : 1;
    size_t rungs = knob == KNOB_TILE ? COARSE_TILES : RUNGS - first;
    set_knob(job, knobs, knob, ladders[knob][first + random / KNOBS % rungs]);
}

/* True if the knob has an effect with these configs. Ranks that share states send gradients and gather weights in any
 * case, in tiles. */
static bool is_used(const struct ah_job *job, const struct ah_config *configs, enum knob knob)
{
    const bool shares = ah_job_shards(job) > 1;
    bool streamed = false, fetched = false, hosted = false;
    for (size_t i = 0; i < job->n_blocks; i++) {
        streamed |= configs[i].optimizer == AH_OPTIMIZER_STREAMED;
        hosted |= configs[i].optimizer == AH_OPTIMIZER_HOST;
        fetched |= configs[i].weights != AH_WEIGHTS_DEVICE;
    }
    const bool used[KNOBS] = {
        [KNOB_SEND] = hosted || shares, [KNOB_FETCH] = fetched,
        [KNOB_STATES] = streamed,       [KNOB_WEIGHTS] = hosted,
        [KNOB_GRADIENTS] = hosted,      [KNOB_TILE] = hosted || streamed || fetched || shares};
    return used[knob];
}

struct ah_knobs ah_knobs_that_count(const struct ah_job *job, const struct ah_config *configs,
                                    const struct ah_knobs *knobs)
{
    struct ah_knobs that_count = *knobs;
    for (enum knob knob = 0; knob < KNOBS; knob++)
        if (!is_used(job, configs, knob))
            set_knob(job, &that_count, knob, ladders[knob][0]);
    return that_count;
}

size_t ah_knobs_neighbours(const struct ah_job *job, const struct ah_knobs *knobs,
                           struct ah_knobs ret_neighbours[AH_KNOBS_NEIGHBOURS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < (size_t)KNOBS * RUNGS; i++) {
        ret_neighbours[n] = *knobs;
        n += set_knob(job, &ret_neighbours[n], (enum knob)(i / RUNGS), ladders[i / RUNGS][i % RUNGS]);
    }
    return n;
}

int ah_knobs_climb(struct ah_evaluator *evaluator, const struct ah_config *configs, struct ah_knobs *knobs,
                   double *period_us, struct ah_error *err)
{
    const struct ah_job *job = evaluator->limits.job;
    bool improved = true;
    int rc = AH_OK;
    while (improved && !rc) {
        improved = false;
        for (size_t i = 0; i < (size_t)KNOBS * RUNGS && !rc; i++) {
            enum knob knob = (enum knob)(i / RUNGS);
            struct ah_knobs other = *knobs;
            enum ah_verdict verdict;
            if (!is_used(job, configs, knob) || !set_knob(job, &other, knob, ladders[knob][i % RUNGS]))
                continue;
            evaluator->enough_us = *period_us;
            rc = ah_evaluator_try(evaluator, configs, &other, &verdict, err);
            if (rc || !ah_evaluator_is_faster(evaluator, verdict, *period_us))
                continue;
            *period_us = evaluator->last.period_us;
            *knobs = other;
            improved = true;
        }
    }
    evaluator->enough_us = 0;
    return rc;
}
