/* SPDX-License-Identifier: Apache-2.0
 *
 * Search, in this order:
 *   1. starts: candidates of the MILP, placed in several orders; every block the same config
 *   2. walks over shapes (shapes.h) from the candidates' marginal counts; knobs; a walk with these knobs
 *   3. knobs, then moves, then knobs, until a round brings nothing
 *   4. where assignments are few: all of them, with the knobs found; again if knobs change then; where they are
 *      many: shakes, some blocks of the best at random and down again
 *
 * A MOVE gives one field of some blocks another value. Blocks of it are a part of a run (blocks with equal value of that
 * field, side by side): its first or last 1, 2, 4, ... blocks, all, or every second one. What a block cannot have is
 * repaired (weights on the host do without optimizer on the device) or left. A move that does not fit is tried together
 * with each move that takes less memory.
 *
 * MONOTONE RULE of placement: recompute and host weights toward the first blocks, host and streamed optimizers toward
 * the last. Counts of joint configs can follow it in one field at a time: all six orders of fields are tried.
 */
#include "planner/search.h"

#include "planner/shapes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIELD_ACTIVATIONS, FIELD_WEIGHTS, FIELD_OPTIMIZER, FIELD_ACCUMULATOR, FIELDS };
enum { FIELD_VALUES = 3, ROUNDS_MAX = 64, STATE_TILES = 4 };

struct mover {
    const struct ah_search *search;
    struct ah_trial *trial;
    const struct ah_job *job;
    size_t n;
    struct ah_config *base;  /* what moves start from */
    struct ah_config *moved; /* scratch */
    struct ah_config *both;  /* scratch of a second move */
    struct ah_knobs knobs;
    bool spent;
    bool pairs; /* moves that do not fit are tried with a second one */
    struct ah_error *err;
};

/* ---- configs by field ---- */

static uint8_t get_field(const struct ah_config *config, int field)
{
    const uint8_t values[FIELDS] = {config->activations, config->weights, config->optimizer,
                                    config->accumulator};
    return values[field];
}

static void set_field(struct ah_config *config, int field, uint8_t value)
{
    uint8_t *const values[FIELDS] = {&config->activations, &config->weights, &config->optimizer,
                                     &config->accumulator};
    *values[field] = value;
    if (field == FIELD_WEIGHTS && value == AH_WEIGHTS_HOST && config->optimizer == AH_OPTIMIZER_DEVICE)
        config->optimizer = AH_OPTIMIZER_HOST;
    if (field == FIELD_OPTIMIZER && value == AH_OPTIMIZER_DEVICE)
        config->weights = AH_WEIGHTS_DEVICE;
    if (config->optimizer != AH_OPTIMIZER_HOST && config->accumulator == AH_ACCUMULATOR_HOST)
        config->accumulator = AH_ACCUMULATOR_DEVICE;
}

static bool may_have(const struct mover *m, size_t block, const struct ah_config *config)
{
    struct ah_config all[AH_CONFIGS_MAX];
    size_t n = ah_configs(m->job, ah_job_block(m->job, block), all);
    uint32_t allowed = m->search->allowed ? m->search->allowed[block] : UINT32_MAX;
    for (size_t i = 0; i < n; i++)
        if (!memcmp(&all[i], config, sizeof *config))
            return allowed >> i & 1;
    return false;
}

/* ---- trying ---- */

static int try_configs(struct mover *m, const struct ah_config *configs, enum ah_verdict *verdict)
{
    int rc = ah_trial_run(m->trial, configs, &m->knobs, verdict, m->err);
    m->spent = m->spent || *verdict == AH_TRIAL_EXHAUSTED;
    return rc;
}

static void copy(const struct mover *m, struct ah_config *to, const struct ah_config *from)
{
    memcpy(to, from, m->n * sizeof *to);
}

/* The best choice's knobs, with a ring of states though it may have none streamed. */
static void take_knobs(struct mover *m)
{
    m->knobs = m->trial->best.knobs;
    if (!m->knobs.device_state_tiles)
        m->knobs.device_state_tiles = STATE_TILES;
}

/* ---- moves ---- */

struct move {
    size_t first, end, stride; /* blocks */
    int field;
    uint8_t value;
};

/* Applies what each block can have. Did anything change? */
static bool apply(const struct mover *m, struct ah_config *configs, const struct move *move)
{
    bool changed = false;
    for (size_t block = move->first; block < move->end; block += move->stride) {
        struct ah_config config = configs[block];
        set_field(&config, move->field, move->value);
        if (!memcmp(&config, &configs[block], sizeof config) || !may_have(m, block, &config))
            continue;
        configs[block] = config;
        changed = true;
    }
    return changed;
}

static size_t run_end(const struct mover *m, const struct ah_config *configs, size_t first, int field)
{
    size_t end = first + 1;
    while (end < m->n && m->job->group_of[end] == m->job->group_of[first] &&
           get_field(&configs[end], field) == get_field(&configs[first], field))
        end++;
    return end;
}

/* Calls `visit` with every move from `base`, whole runs before parts; stops when it returns other than 0. */
static int each_move(struct mover *m, int field, size_t least,
                     int (*visit)(struct mover *, const struct move *))
{
    int rc = 0;
    for (size_t first = 0, end; first < m->n && !rc; first = end) {
        end = run_end(m, m->base, first, field);
        for (uint8_t value = 0; value < FIELD_VALUES && !rc; value++) {
            if (value == get_field(&m->base[first], field))
                continue;
            size_t length = end - first;
            rc = visit(m, &(struct move){first, end, 1, field, value});
            if (!rc && length > 2 && least <= 2)
                rc = visit(m, &(struct move){first, end, 2, field, value});
            for (size_t part = length / 2; part >= least && part > 0 && !rc; part /= 2) {
                rc = visit(m, &(struct move){end - part, end, 1, field, value});
                if (!rc)
                    rc = visit(m, &(struct move){first, first + part, 1, field, value});
            }
        }
    }
    return rc;
}

enum { STOP = 1 };

/* A second move after one that does not fit. */
struct relief {
    struct mover *m;
    bool better;
};

static bool relieves(const struct move *move)
{
    return (move->field == FIELD_ACTIVATIONS && move->value != AH_ACTIVATIONS_KEEP) ||
           (move->field == FIELD_WEIGHTS && move->value == AH_WEIGHTS_HOST) ||
           (move->field == FIELD_OPTIMIZER && move->value != AH_OPTIMIZER_DEVICE) ||
           (move->field == FIELD_ACCUMULATOR && move->value == AH_ACCUMULATOR_HOST);
}

static int visit_relief(struct mover *m, const struct move *move)
{
    enum ah_verdict verdict;
    size_t blocks = (move->end - move->first + move->stride - 1) / move->stride;
    if (!relieves(move) || blocks > 4)
        return 0;
    copy(m, m->both, m->moved);
    if (!apply(m, m->both, move))
        return 0;
    int rc = try_configs(m, m->both, &verdict);
    if (rc || m->spent)
        return rc ? rc : STOP;
    return verdict == AH_TRIAL_BETTER ? STOP : 0;
}

static int visit_move(struct mover *m, const struct move *move)
{
    enum ah_verdict verdict;
    copy(m, m->moved, m->base);
    if (!apply(m, m->moved, move))
        return 0;
    double before = m->trial->found ? m->trial->best.score.period_us : 0;
    int rc = try_configs(m, m->moved, &verdict);
    bool small = (move->end - move->first) / move->stride <= 4;
    for (int field = 0; !rc && verdict == AH_TRIAL_TOO_BIG && small && m->pairs && field < FIELDS; field++)
        rc = each_move(m, field, 1, visit_relief);
    if (rc == STOP)
        rc = 0;
    if (rc || m->spent)
        return rc ? rc : STOP;
    return verdict == AH_TRIAL_BETTER || (m->trial->found && m->trial->best.score.period_us < before) ? STOP
                                                                                                      : 0;
}

/* One improvement by a move, if there is one. */
static int step(struct mover *m, bool *improved)
{
    double before = m->trial->best.score.period_us;
    copy(m, m->base, m->trial->best.configs);
    take_knobs(m);
    int rc = 0;
    for (int field = 0; field < FIELDS && !rc; field++)
        rc = each_move(m, field, 1, visit_move);
    *improved = m->trial->best.score.period_us < before * (1 - 1e-6);
    return rc == STOP ? 0 : rc;
}

/* Single moves until none helps; then, with pairs, one that helps, and single moves again. */
static int climb(struct mover *m)
{
    bool improved = m->trial->found;
    int rc = 0;
    while (improved && !rc && !m->spent) {
        m->pairs = false;
        rc = step(m, &improved);
        m->pairs = true;
        if (!improved && !rc && !m->spent)
            rc = step(m, &improved);
    }
    return rc;
}

/* ---- knobs ---- */

struct ah_knobs ah_search_knobs(const struct ah_job *job, enum ah_scheduling scheduling,
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

enum knob { KNOB_SEND, KNOB_FETCH, KNOB_STATES, KNOB_WEIGHTS, KNOB_GRADIENTS, KNOB_TILE, KNOBS };

static const uint32_t ladders[KNOBS][8] = {
    [KNOB_SEND] = {1, 2, 3, 4, 8, 16, 32, 256},       [KNOB_FETCH] = {1, 2, 3, 4, 6, 8, 12, 16},
    [KNOB_STATES] = {2, 3, 4, 6, 8, 12, 16, 32},      [KNOB_WEIGHTS] = {2, 4, 8, 16, 32, 64, 128, 0},
    [KNOB_GRADIENTS] = {2, 4, 8, 16, 32, 64, 128, 0}, [KNOB_TILE] = {1, 2, 4, 8, 0, 0, 0, 0},
};

/* Sets a knob to a rung of its ladder; false: it is there, or there is no such rung. */
static bool set_knob(const struct ah_job *job, struct ah_knobs *knobs, enum knob knob, uint32_t value)
{
    struct ah_knobs before = *knobs;
    uint64_t quarter = ah_search_knobs(job, knobs->scheduling, knobs->micro_order).tile_elements;
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
    return memcmp(&before, knobs, sizeof before) != 0;
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

int ah_search_sweep(struct ah_trial *trial, bool fixed_rules, struct ah_error *err)
{
    bool improved = trial->found;
    int rc = AH_OK;
    while (improved && !rc) {
        improved = false;
        for (enum knob knob = 0; knob < KNOBS && !rc; knob++) {
            for (size_t i = 0; i < 8 && !rc && swept(trial, knob, fixed_rules); i++) {
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

/* ---- starts ---- */

static int start(struct mover *m, const struct ah_config *configs)
{
    enum ah_verdict verdict;
    if (m->spent)
        return AH_OK;
    return try_configs(m, configs, &verdict);
}

/* Where a config stands by the monotone rule in one field: small first. */
static int rank(const struct ah_config *config, int field)
{
    const int ranks[FIELDS] = {
        AH_ACTIVATIONS_RECOMPUTE - config->activations, AH_WEIGHTS_HOST - config->weights,
        config->optimizer == AH_OPTIMIZER_DEVICE ? 0 : 1 + config->optimizer, config->accumulator};
    return ranks[field];
}

static bool stands_before(const struct ah_config *a, const struct ah_config *b, const int order[3])
{
    for (int i = 0; i < 3; i++)
        if (rank(a, order[i]) != rank(b, order[i]))
            return rank(a, order[i]) < rank(b, order[i]);
    return rank(a, FIELD_ACCUMULATOR) < rank(b, FIELD_ACCUMULATOR);
}

/* The config of this class that comes first by `order` and is not used up. */
static size_t next_config(const struct ah_config *all, size_t n, const uint32_t *left, const int order[3])
{
    size_t best = n;
    for (size_t i = 0; i < n; i++)
        if (left[i] && (best == n || stands_before(&all[i], &all[best], order)))
            best = i;
    return best;
}

static int place_candidate(struct mover *m, const struct ah_milp_result *counts,
                           const struct ah_milp_candidate *candidate)
{
    static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    size_t cells = counts->n_classes * AH_CONFIGS_MAX;
    uint32_t *left = malloc(cells * sizeof *left);
    if (!left)
        return ah_error_memory(m->err);
    int rc = AH_OK;
    for (size_t o = 0; o < sizeof orders / sizeof *orders && !rc && !m->spent; o++) {
        memcpy(left, candidate->counts, cells * sizeof *left);
        for (size_t block = 0; block < m->n; block++) {
            struct ah_config all[AH_CONFIGS_MAX];
            size_t n = ah_configs(m->job, ah_job_block(m->job, block), all);
            uint32_t *mine = left + counts->class_of[block] * (size_t)AH_CONFIGS_MAX;
            size_t config = next_config(all, n, mine, orders[o]);
            mine[config]--;
            m->moved[block] = all[config];
        }
        rc = start(m, m->moved);
    }
    free(left);
    return rc;
}

/* Layers as config `way` of theirs, embedding and head each on the device or as far away as they can be. */
static int uniform_starts(struct mover *m)
{
    int rc = AH_OK;
    for (size_t way = 0; way < AH_CONFIGS_MAX && !rc; way++) {
        for (int ends = 0; ends < 2 && !rc; ends++) {
            bool valid = true;
            for (size_t block = 0; block < m->n && valid; block++) {
                struct ah_config all[AH_CONFIGS_MAX];
                const struct ah_job_group *group = ah_job_block(m->job, block);
                size_t n = ah_configs(m->job, group, all);
                size_t pick = group->kind == AH_BLOCK_LAYER ? way : ends ? n / 2 : 0;
                uint32_t allowed = m->search->allowed ? m->search->allowed[block] : UINT32_MAX;
                if (group->kind == AH_BLOCK_LAYER && !group->backward)
                    pick = way < n ? way : n - 1;
                while (pick < n && group->kind != AH_BLOCK_LAYER && !(allowed >> pick & 1))
                    pick++;
                valid = pick < n && allowed >> pick & 1;
                if (valid)
                    m->moved[block] = all[pick];
            }
            if (valid)
                rc = start(m, m->moved);
        }
    }
    return rc;
}

static int starts(struct mover *m)
{
    int rc = AH_OK;
    for (size_t k = 0; k < m->search->n_counts; k++)
        for (size_t i = 0; i < 1 && i < m->search->counts[k].n_candidates && !rc; i++)
            rc = place_candidate(m, &m->search->counts[k], &m->search->counts[k].candidates[i]);
    return rc ? rc : uniform_starts(m);
}

/* ---- walks ---- */

enum { WALKS_OF_A_BUDGET = 8 };

/* A walk with a share of the budget. */
static int walk(struct mover *m, struct ah_shape *shape)
{
    uint64_t limit = m->trial->limits.evaluations;
    uint64_t spent = ah_trial_spent(m->trial);
    uint64_t share = spent + (limit > spent ? limit - spent : 0) / WALKS_OF_A_BUDGET;
    m->trial->limits.evaluations = limit ? share : 0;
    int rc = ah_shapes_walk(m->trial, m->search->allowed, &m->knobs, shape, m->err);
    m->trial->limits.evaluations = limit;
    return rc;
}

/* From the best's counts, with its knobs. */
static int walk_on(struct mover *m)
{
    take_knobs(m);
    struct ah_shape shape = ah_shapes_of_configs(m->job, m->trial->best.configs);
    return walk(m, &shape);
}

static int walks(struct mover *m)
{
    int rc = m->trial->found && !m->search->knobs ? walk_on(m) : AH_OK;
    if (!m->search->knobs)
        m->knobs = ah_search_knobs(m->job, m->search->scheduling, m->search->micro_order);
    for (size_t i = 0; i < 2 && !rc; i++) {
        for (size_t k = 0; k < m->search->n_counts && !rc; k++) {
            const struct ah_milp_result *counts = &m->search->counts[k];
            if (i >= counts->n_candidates)
                continue;
            struct ah_shape shape = ah_shapes_of_counts(m->job, counts, counts->candidates[i].counts);
            rc = walk(m, &shape);
        }
    }
    for (int round = 0; round < 2 && !rc && m->trial->found && !m->search->knobs; round++) {
        rc = ah_search_sweep(m->trial, false, m->err);
        rc = rc ? rc : walk_on(m);
    }
    return rc;
}

/* ---- shaken ---- */

static size_t options(const struct mover *m, size_t block, struct ah_config ret_options[AH_CONFIGS_MAX])
{
    struct ah_config all[AH_CONFIGS_MAX];
    size_t n = ah_configs(m->job, ah_job_block(m->job, block), all), kept = 0;
    uint32_t allowed = m->search->allowed ? m->search->allowed[block] : UINT32_MAX;
    for (size_t i = 0; i < n; i++)
        if (allowed >> i & 1)
            ret_options[kept++] = all[i];
    return kept;
}

/* How good what was tried last is: less is better; what does not fit is worse than what does. */
static double height(const struct mover *m, enum ah_verdict verdict)
{
    if (verdict == AH_TRIAL_TOO_BIG || m->trial->last_over_bytes)
        return 1e15 + (double)m->trial->last_over_bytes;
    return m->trial->last.period_us > 0 ? m->trial->last.period_us : HUGE_VAL;
}

/* Goes down from m->base, one block's config at a time, whatever the best of the trial is. */
static int descend(struct mover *m)
{
    double at = HUGE_VAL;
    bool improved = true;
    int rc = AH_OK;
    while (improved && !rc && !m->spent) {
        improved = false;
        for (size_t block = 0; block < m->n; block++) {
            struct ah_config all[AH_CONFIGS_MAX], kept = m->base[block];
            size_t n = options(m, block, all);
            for (size_t i = 0; i < n && !rc && !m->spent; i++) {
                enum ah_verdict verdict;
                m->base[block] = all[i];
                rc = try_configs(m, m->base, &verdict);
                if (height(m, verdict) >= at * (1 - 1e-7))
                    continue;
                improved = improved || at < HUGE_VAL;
                at = height(m, verdict);
                kept = all[i];
            }
            m->base[block] = kept;
        }
    }
    return rc;
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* From the best: some blocks get other configs, side by side, and it goes down again; until the budget is spent or
 * SHAKES in a row brought nothing. Random, but always the same. */
static int shake(struct mover *m)
{
    enum { SHAKES = 400 };
    uint64_t random = 88172645463325252;
    int rc = AH_OK;
    for (int idle = 0; idle < SHAKES && !rc && m->trial->found && !m->spent; idle++) {
        double before = m->trial->best.score.period_us;
        copy(m, m->base, m->trial->best.configs);
        take_knobs(m);
        for (uint64_t k = 2 + next_random(&random) % 3; k > 0; k--) {
            struct ah_config all[AH_CONFIGS_MAX];
            size_t block = next_random(&random) % m->n;
            size_t n = options(m, block, all);
            m->base[block] = all[next_random(&random) % n];
        }
        rc = descend(m);
        if (m->trial->best.score.period_us < before * (1 - 1e-7))
            idle = -1;
    }
    return rc;
}

/* ---- all assignments ---- */

/* Assignments, or more than the limit. */
static uint64_t assignments(const struct mover *m)
{
    struct ah_config all[AH_CONFIGS_MAX];
    uint64_t product = 1;
    for (size_t block = 0; block < m->n && product <= m->search->all_below; block++)
        product *= options(m, block, all);
    return product;
}

/* Blocks from `block` on, for what stands before it. */
static int all_from(struct mover *m, size_t block)
{
    struct ah_config all[AH_CONFIGS_MAX];
    enum ah_verdict verdict;
    if (block == m->n)
        return try_configs(m, m->moved, &verdict);
    size_t n = options(m, block, all);
    int rc = AH_OK;
    for (size_t i = 0; i < n && !rc; i++) {
        m->moved[block] = all[i];
        rc = all_from(m, block + 1);
    }
    return rc;
}

static int all_assignments(struct mover *m)
{
    uint64_t limit = m->trial->limits.evaluations;
    m->trial->limits.evaluations = 0;
    bool improved = true;
    int rc = AH_OK;
    for (int round = 0; improved && round < 3 && !rc; round++) {
        double before = m->trial->found ? m->trial->best.score.period_us : 0;
        if (m->trial->found)
            take_knobs(m);
        rc = all_from(m, 0);
        if (!rc && !m->search->knobs)
            rc = ah_search_sweep(m->trial, false, m->err);
        improved = m->trial->found && memcmp(&m->knobs, &m->trial->best.knobs, sizeof m->knobs) &&
                   m->trial->best.score.period_us < before;
    }
    m->trial->limits.evaluations = limit;
    return rc;
}

int ah_search_run(const struct ah_search *search, struct ah_error *err)
{
    const struct ah_job *job = search->trial->limits.job;
    struct mover m = {.search = search, .trial = search->trial, .job = job, .n = job->n_blocks, .err = err};
    struct ah_config *configs = malloc(3 * m.n * sizeof *configs);
    if (!configs)
        return ah_error_memory(err);
    m.base = configs;
    m.moved = configs + m.n;
    m.both = configs + 2 * m.n;
    m.knobs = search->knobs ? *search->knobs : ah_search_knobs(job, search->scheduling, search->micro_order);
    int rc = starts(&m);
    rc = rc ? rc : walks(&m);
    double before = 0;
    for (int round = 0; round < ROUNDS_MAX && !rc && m.trial->found && !m.spent; round++) {
        if (m.trial->best.score.period_us == before)
            break;
        before = m.trial->best.score.period_us;
        if (!search->knobs)
            rc = ah_search_sweep(m.trial, false, err);
        if (!rc)
            rc = climb(&m);
    }
    if (!rc && assignments(&m) <= search->all_below)
        rc = all_assignments(&m);
    else if (!rc)
        rc = shake(&m);
    free(configs);
    return rc;
}
