/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts.
 *
 * MONOTONE RULE of placement: recompute and host weights toward the first blocks, host and streamed optimizers toward
 * the last. Counts of joint configs can follow it in one field at a time: all six orders of fields are tried.
 */
#include "planner/search_internal.h"

#include <stdlib.h>
#include <string.h>

static int start(struct mover *m, const struct ah_config *configs)
{
    enum ah_verdict verdict;
    if (m->spent)
        return AH_OK;
    return ah_mover_try(m, configs, &verdict);
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

int ah_mover_start(struct mover *m)
{
    int rc = AH_OK;
    for (size_t k = 0; k < m->search->n_counts; k++)
        for (size_t i = 0; i < 1 && i < m->search->counts[k].n_candidates && !rc; i++)
            rc = place_candidate(m, &m->search->counts[k], &m->search->counts[k].candidates[i]);
    return rc ? rc : uniform_starts(m);
}
