/* SPDX-License-Identifier: Apache-2.0
 *
 * Restriction: for each technique, the values of a config's fields and the knobs that use it.
 */
#include "planner/policies/restriction.h"

#include "runtime/schedule/names.h"

#include <string.h>

enum ah_technique ah_restriction_technique(const char *name, size_t length)
{
    unsigned t = 0;
    while (t < AH_TECHNIQUES &&
           (strlen(ah_words_technique[t]) != length || strncmp(name, ah_words_technique[t], length) != 0))
        t++;
    return t;
}

uint32_t ah_restriction_bits(const unsigned *techniques, size_t n)
{
    uint32_t bits = 0;
    for (size_t i = 0; i < n; i++)
        bits |= UINT32_C(1) << techniques[i];
    return bits;
}

int ah_restriction_list(uint32_t bits, struct ah_arena *arena, unsigned **ret_techniques, size_t *ret_n,
                        struct ah_error *err)
{
    unsigned *techniques = bits ? ah_arena_array(arena, AH_TECHNIQUES, sizeof *techniques) : NULL;
    if (bits && !techniques)
        return ah_error_memory(err);
    *ret_n = 0;
    for (unsigned i = 0; i < AH_TECHNIQUES; i++)
        if (bits >> i & 1)
            techniques[(*ret_n)++] = i;
    *ret_techniques = techniques;
    return AH_OK;
}

enum {
    FIELD_ACTIVATIONS,
    FIELD_WEIGHTS,
    FIELD_OPTIMIZER,
    FIELDS,
    CONFIG_TECHNIQUES = AH_TECHNIQUE_STREAMED + 1
};

static const struct value {
    uint8_t field;
    uint8_t value;
} values[CONFIG_TECHNIQUES] = {
    [AH_TECHNIQUE_KEEP] = {FIELD_ACTIVATIONS, AH_ACTIVATIONS_KEEP},
    [AH_TECHNIQUE_SELECTIVE] = {FIELD_ACTIVATIONS, AH_ACTIVATIONS_SELECTIVE},
    [AH_TECHNIQUE_RECOMPUTE] = {FIELD_ACTIVATIONS, AH_ACTIVATIONS_RECOMPUTE},
    [AH_TECHNIQUE_DEVICE_WEIGHTS] = {FIELD_WEIGHTS, AH_WEIGHTS_DEVICE},
    [AH_TECHNIQUE_HOST_WEIGHTS] = {FIELD_WEIGHTS, AH_WEIGHTS_HOST},
    [AH_TECHNIQUE_GATHERED_WEIGHTS] = {FIELD_WEIGHTS, AH_WEIGHTS_GATHERED},
    [AH_TECHNIQUE_DEVICE_OPTIMIZER] = {FIELD_OPTIMIZER, AH_OPTIMIZER_DEVICE},
    [AH_TECHNIQUE_HOST_OPTIMIZER] = {FIELD_OPTIMIZER, AH_OPTIMIZER_HOST},
    [AH_TECHNIQUE_STREAMED] = {FIELD_OPTIMIZER, AH_OPTIMIZER_STREAMED},
};

static uint8_t field_of(const struct ah_config *config, int field)
{
    const uint8_t fields[FIELDS] = {config->activations, config->weights, config->optimizer};
    return fields[field];
}

static bool has_choice(const struct ah_config *all, size_t n, int field)
{
    for (size_t i = 1; i < n; i++)
        if (field_of(&all[i], field) != field_of(&all[0], field))
            return true;
    return false;
}

static uint32_t allowed_of_group(const struct ah_job *job, const struct ah_job_group *group, uint32_t without)
{
    struct ah_config all[AH_CONFIGS_MAX];
    size_t n = ah_configs(job, group, all);
    uint32_t allowed = 0;
    for (size_t i = 0; i < n; i++) {
        bool forbidden = false;
        for (size_t t = 0; t < CONFIG_TECHNIQUES; t++)
            forbidden =
                forbidden || ((without >> t & 1) && field_of(&all[i], values[t].field) == values[t].value &&
                              has_choice(all, n, values[t].field));
        allowed |= (uint32_t)!forbidden << i;
    }
    return allowed;
}

int ah_restriction_init(struct ah_restriction *ret_restriction, const struct ah_job *job, uint32_t without,
                        struct ah_arena *arena, struct ah_error *err)
{
    struct ah_restriction restriction = {.updates_after_backward =
                                             without >> AH_TECHNIQUE_BACKWARD_OVERLAP & 1,
                                         .step_ends = without >> AH_TECHNIQUE_ITERATION_OVERLAP & 1,
                                         .whole_vectors = without >> AH_TECHNIQUE_TILES & 1};
    if (without & ((UINT32_C(1) << CONFIG_TECHNIQUES) - 1)) {
        uint32_t *allowed = ah_arena_array(arena, job->n_blocks, sizeof *allowed);
        if (!allowed)
            return ah_error_memory(err);
        for (size_t block = 0; block < job->n_blocks; block++) {
            char name[AH_NAME_MAX];
            allowed[block] = allowed_of_group(job, ah_job_block(job, block), without);
            if (allowed[block])
                continue;
            ah_name_block(ah_names_of_job(job), block, name);
            return ah_error_set(err, AH_E_USAGE,
                                "without these techniques, '%s' has no config left; exclude fewer", name);
        }
        restriction.allowed = allowed;
    }
    *ret_restriction = restriction;
    return AH_OK;
}

bool ah_restriction_allows(const struct ah_restriction *restriction, const struct ah_job *job,
                           const struct ah_config *configs)
{
    for (size_t block = 0; restriction->allowed && block < job->n_blocks; block++) {
        struct ah_config all[AH_CONFIGS_MAX];
        size_t n = ah_configs(job, ah_job_block(job, block), all), i = 0;
        while (i < n && memcmp(&all[i], &configs[block], sizeof all[i]) != 0)
            i++;
        if (i < n && !(restriction->allowed[block] >> i & 1))
            return false;
    }
    return true;
}

/* Makes tiles as large as the largest vector. Two slots for states: one vector arrives while another is used. */
static void take_whole_vectors(const struct ah_job *job, struct ah_knobs *knobs)
{
    uint64_t most = 1;
    for (size_t i = 0; i < job->n_groups; i++)
        most = job->groups[i].flat_elements > most ? job->groups[i].flat_elements : most;
    knobs->tile_elements = (most + AH_PLAN_TILE_UNIT - 1) / AH_PLAN_TILE_UNIT * AH_PLAN_TILE_UNIT;
    knobs->host_gradient_tiles = knobs->host_weight_tiles = 0;
    knobs->device_state_tiles = knobs->device_state_tiles ? 2 : 0;
}

struct ah_knobs ah_restriction_knobs(const struct ah_restriction *restriction, const struct ah_job *job,
                                     const struct ah_knobs *knobs)
{
    struct ah_knobs restricted = *knobs;
    restricted.updates_after_backward |= restriction->updates_after_backward;
    restricted.step_ends |= restriction->step_ends;
    if (restriction->whole_vectors)
        take_whole_vectors(job, &restricted);
    return restricted;
}
