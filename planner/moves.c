/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves.
 *
 * A MOVE gives one field of some blocks another value. Blocks of it are a part of a run (blocks with equal value of that
 * field, side by side): its first or last 1, 2, 4, ... blocks, all, or every second one. What a block cannot have is
 * repaired (weights on the host do without optimizer on the device) or left. A move that does not fit is tried together
 * with each move that takes less memory.
 *
 * OTHER PLACES for the same configs cost about the same memory: a run of layers with one config, or one block of it, goes
 * between two other runs. What waits for the norm had better not be first.
 */
#include "planner/search_internal.h"

#include <string.h>

enum { FIELD_VALUES = 3, STATE_TILES = 4 };

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

int ah_mover_try(struct mover *m, const struct ah_config *configs, enum ah_verdict *verdict)
{
    int rc = ah_trial_run(m->trial, configs, &m->knobs, verdict, m->err);
    m->spent = m->spent || *verdict == AH_TRIAL_EXHAUSTED;
    return rc;
}

void ah_mover_copy(const struct mover *m, struct ah_config *to, const struct ah_config *from)
{
    memcpy(to, from, m->n * sizeof *to);
}

/* The best choice's knobs, with a ring of states though it may have none streamed. */
void ah_mover_take_knobs(struct mover *m)
{
    m->knobs = m->trial->best.knobs;
    if (!m->knobs.device_state_tiles)
        m->knobs.device_state_tiles = STATE_TILES;
}

size_t ah_mover_options(const struct mover *m, size_t block, struct ah_config ret_options[AH_CONFIGS_MAX])
{
    struct ah_config all[AH_CONFIGS_MAX];
    size_t n = ah_configs(m->job, ah_job_block(m->job, block), all), kept = 0;
    uint32_t allowed = m->search->allowed ? m->search->allowed[block] : UINT32_MAX;
    for (size_t i = 0; i < n; i++)
        if (allowed >> i & 1)
            ret_options[kept++] = all[i];
    return kept;
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
    ah_mover_copy(m, m->both, m->moved);
    if (!apply(m, m->both, move))
        return 0;
    int rc = ah_mover_try(m, m->both, &verdict);
    if (rc || m->spent)
        return rc ? rc : STOP;
    return verdict == AH_TRIAL_BETTER ? STOP : 0;
}

static int visit_move(struct mover *m, const struct move *move)
{
    enum ah_verdict verdict;
    ah_mover_copy(m, m->moved, m->base);
    if (!apply(m, m->moved, move))
        return 0;
    double before = m->trial->found ? m->trial->best.score.period_us : 0;
    int rc = ah_mover_try(m, m->moved, &verdict);
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

/* ---- other places for the same configs ---- */

/* Takes blocks [first, end) out of the base and puts them back before block `to`, which lies outside. */
static bool relocate(struct mover *m, size_t first, size_t end, size_t to)
{
    size_t length = end - first, low = to < first ? to : first, high = to < first ? end : to;
    ah_mover_copy(m, m->moved, m->base);
    for (size_t block = low; block < high; block++) {
        size_t from = to < first ? (block < to + length ? block - to + first : block - length)
                                 : (block < to - length ? block + length : block - (to - length) + first);
        m->moved[block] = m->base[from];
        if (!may_have(m, block, &m->moved[block]))
            return false;
    }
    return true;
}

static size_t same_end(const struct mover *m, size_t first)
{
    size_t end = first + 1;
    while (end + 1 < m->n && !memcmp(&m->base[end], &m->base[first], sizeof m->base[end]))
        end++;
    return end;
}

/* A run of layers with one config, or a block of it, between two other runs. */
static int try_places(struct mover *m, size_t first, size_t end)
{
    for (size_t to = 1; to < m->n; to = to + 1 < m->n ? same_end(m, to) : m->n) {
        enum ah_verdict verdict;
        if ((to >= first && to <= end) || !relocate(m, first, end, to))
            continue;
        int rc = ah_mover_try(m, m->moved, &verdict);
        if (rc || m->spent || verdict == AH_TRIAL_BETTER)
            return rc ? rc : STOP;
    }
    return 0;
}

static int other_places(struct mover *m)
{
    int rc = 0;
    for (size_t first = 1, end; first + 1 < m->n && !rc; first = end) {
        end = same_end(m, first);
        rc = try_places(m, first, end);
        if (!rc && end - first > 1)
            rc = try_places(m, end - 1, end);
        if (!rc && end - first > 1)
            rc = try_places(m, first, first + 1);
    }
    return rc;
}

/* One improvement by a move, if there is one. */
static int step(struct mover *m, bool *improved)
{
    double before = m->trial->best.score.period_us;
    ah_mover_copy(m, m->base, m->trial->best.configs);
    ah_mover_take_knobs(m);
    int rc = m->pairs ? 0 : other_places(m);
    for (int field = 0; field < FIELDS && !rc; field++)
        rc = each_move(m, field, 1, visit_move);
    *improved = m->trial->best.score.period_us < before * (1 - 1e-6);
    return rc == STOP ? 0 : rc;
}

/* Single moves until none helps; then, with pairs, one that helps, and single moves again. */
int ah_mover_climb(struct mover *m)
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
