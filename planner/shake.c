/* SPDX-License-Identifier: Apache-2.0
 *
 * Shakes: out of a valley by chance, the same chance every time; and all assignments, where these are few.
 */
#include "planner/knobs.h"
#include "planner/search_internal.h"
#include "planner/shapes.h"

#include <math.h>
#include <string.h>

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
            size_t n = ah_mover_options(m, block, all);
            for (size_t i = 0; i < n && !rc && !m->spent; i++) {
                enum ah_verdict verdict;
                m->base[block] = all[i];
                rc = ah_mover_try(m, m->base, &verdict);
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

static bool improves(const struct mover *m, double before_us)
{
    return m->trial->best.score.period_us < before_us * (1 - 1e-7);
}

/* Some blocks of the best get other configs, and it goes down again. */
static int shake_blocks(struct mover *m, uint64_t *random)
{
    ah_mover_copy(m, m->base, m->trial->best.configs);
    ah_mover_take_knobs(m);
    for (uint64_t k = 2 + next_random(random) % 3; k > 0; k--) {
        struct ah_config all[AH_CONFIGS_MAX];
        size_t block = next_random(random) % m->n;
        size_t n = ah_mover_options(m, block, all);
        m->base[block] = all[next_random(random) % n];
    }
    return descend(m);
}

/* Some numbers of the best's shape, or a knob, change, and it walks again. */
static int shake_shape(struct mover *m, uint64_t *random)
{
    struct ah_shape shape = ah_shapes_of_configs(m->job, m->trial->best.configs);
    ah_mover_take_knobs(m);
    shape.at[AH_SHAPE_MIX] = (int32_t)(next_random(random) % 3);
    for (uint64_t k = next_random(random) % 4; k > 0; k--)
        shape.at[next_random(random) % AH_SHAPE_COUNTS] += (int32_t)(next_random(random) % 9) - 4;
    if (!m->search->knobs && next_random(random) % 2)
        ah_knobs_shake(m->job, next_random(random), &m->knobs);
    return ah_shapes_walk(m->trial, m->search->allowed, &m->knobs, 1, &shape, m->err);
}

/* Until the budget is spent, or SHAKES in a row brought nothing. Random, but always the same. Blocks one by one are for
 * small models: a large one would spend its budget on one descent. */
int ah_mover_shake(struct mover *m)
{
    enum { SHAKES = 400, SMALL_BLOCKS = 10 };
    uint64_t random = 88172645463325252;
    int rc = AH_OK;
    for (int idle = 0; idle < SHAKES && !rc && m->trial->found; idle++) {
        double before_us = m->trial->best.score.period_us;
        rc = m->n <= SMALL_BLOCKS && idle % 2 == 0 ? shake_blocks(m, &random) : shake_shape(m, &random);
        if (m->spent || ah_trial_is_spent(m->trial))
            break;
        if (improves(m, before_us))
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
        product *= ah_mover_options(m, block, all);
    return product;
}

bool ah_mover_can_try_all(const struct mover *m)
{
    return assignments(m) <= m->search->all_below;
}

/* Blocks from `block` on, for what stands before it. */
static int all_from(struct mover *m, size_t block)
{
    struct ah_config all[AH_CONFIGS_MAX];
    enum ah_verdict verdict;
    if (block == m->n)
        return ah_mover_try(m, m->moved, &verdict);
    size_t n = ah_mover_options(m, block, all);
    int rc = AH_OK;
    for (size_t i = 0; i < n && !rc; i++) {
        m->moved[block] = all[i];
        rc = all_from(m, block + 1);
    }
    return rc;
}

int ah_mover_try_all(struct mover *m)
{
    uint64_t limit = m->trial->limits.evaluations;
    m->trial->limits.evaluations = 0;
    bool improved = true;
    int rc = AH_OK;
    for (int round = 0; improved && round < 3 && !rc; round++) {
        double before = m->trial->found ? m->trial->best.score.period_us : 0;
        if (m->trial->found)
            ah_mover_take_knobs(m);
        rc = all_from(m, 0);
        if (!rc && !m->search->knobs)
            rc = ah_knobs_sweep(m->trial, false, m->err);
        improved = m->trial->found && !ah_knobs_equal(&m->knobs, &m->trial->best.knobs) &&
                   m->trial->best.score.period_us < before;
    }
    m->trial->limits.evaluations = limit;
    return rc;
}
