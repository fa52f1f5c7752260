/* SPDX-License-Identifier: Apache-2.0
 *
 * The changes, and how often each is chosen at random:
 *
 *   border    moves a border between two unlike layers by some blocks
 *   stretch   gives some adjacent layers another value of one field, or of all
 *   swap      exchanges the configs of two layers
 *   turn      rotates adjacent layers: a piece of them moves from one end to the other
 *   ends      gives the embedding or the head another config
 *   knob      sets a knob to another value of its ladder
 *
 * Swaps and turns keep the total memory of blocks; few other changes are possible in a plan that fills the memory.
 */
#include "planner/search/vary.h"

#include "planner/search/knobs.h"

#include <string.h>

/* A generator of the xorshift family: `*random` takes every value but 0 once before it repeats. */
uint64_t ah_vary_next(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random * UINT64_C(0x9E3779B97F4A7C15) >> 11;
}

static size_t below(uint64_t *random, size_t n)
{
    return (size_t)(ah_vary_next(random) % n);
}

size_t ah_vary_options(const struct ah_vary *vary, size_t block, struct ah_config ret_options[AH_CONFIGS_MAX])
{
    struct ah_config all[AH_CONFIGS_MAX];
    size_t n = ah_configs(vary->job, ah_job_block(vary->job, block), all), kept = 0;
    uint32_t allowed = vary->allowed ? vary->allowed[block] : UINT32_MAX;
    for (size_t i = 0; i < n; i++)
        if (allowed >> i & 1)
            ret_options[kept++] = all[i];
    return kept;
}

static bool same(const struct ah_config *a, const struct ah_config *b)
{
    return !memcmp(a, b, sizeof *a);
}

bool ah_vary_allows(const struct ah_vary *vary, size_t block, const struct ah_config *config)
{
    struct ah_config all[AH_CONFIGS_MAX];
    size_t n = ah_vary_options(vary, block, all);
    for (size_t i = 0; i < n; i++)
        if (same(&all[i], config))
            return true;
    return false;
}

/* ---- changes of `configs`, whose layers are blocks 1 to `layers` ---- */

struct change {
    const struct ah_vary *vary;
    uint64_t *random;
    struct ah_config *configs;
    struct ah_knobs *knobs;
    size_t layers;
};

static size_t any_layer(struct change *c)
{
    return 1 + below(c->random, c->layers);
}

/* Returns a random length: mostly few blocks, now and then up to a quarter of all. */
static size_t any_length(struct change *c)
{
    size_t length = 1;
    while (4 * length < c->layers && below(c->random, 2))
        length *= 2;
    return length;
}

static bool set_config(struct change *c, size_t block, const struct ah_config *config)
{
    if (same(&c->configs[block], config) || !ah_vary_allows(c->vary, block, config))
        return false;
    c->configs[block] = *config;
    return true;
}

/* Returns the first block, from a random layer on, whose next layer has another config; 0: there is none. */
static size_t find_border(struct change *c)
{
    size_t start = any_layer(c);
    for (size_t i = 0; i < c->layers; i++) {
        size_t block = 1 + (start - 1 + i) % c->layers;
        if (block < c->layers && !same(&c->configs[block], &c->configs[block + 1]))
            return block;
    }
    return 0;
}

static bool change_border(struct change *c)
{
    size_t border = find_border(c), length = any_length(c);
    bool up = below(c->random, 2), changed = false;
    if (!border)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (up && border + 1 + i <= c->layers)
            changed |= set_config(c, border + 1 + i, &c->configs[border]);
        else if (!up && border > i)
            changed |= set_config(c, border - i, &c->configs[border + 1]);
    }
    return changed;
}

enum { FIELD_ACTIVATIONS, FIELD_OPTIMIZER, FIELD_HOME, FIELD_ALL, FIELDS };

/* Returns `config` with one field of `other`. An optimizer on the device moves the weights there, too. */
static struct ah_config mixed(struct ah_config config, const struct ah_config *other, size_t field)
{
    if (field == FIELD_ALL)
        return *other;
    if (field == FIELD_ACTIVATIONS) {
        config.activations = other->activations;
        return config;
    }
    config.optimizer = other->optimizer;
    config.accumulator = other->accumulator;
    if (field == FIELD_HOME)
        config.weights = other->weights;
    else if (config.optimizer == AH_OPTIMIZER_DEVICE)
        config.weights = AH_WEIGHTS_DEVICE;
    return config;
}

static bool change_stretch(struct change *c)
{
    struct ah_config all[AH_CONFIGS_MAX];
    size_t first = any_layer(c), length = any_length(c), field = below(c->random, FIELDS);
    size_t n = ah_vary_options(c->vary, first, all);
    struct ah_config other = all[below(c->random, n)];
    bool changed = false;
    for (size_t block = first; block < first + length && block <= c->layers; block++) {
        struct ah_config config = mixed(c->configs[block], &other, field);
        changed |= set_config(c, block, &config);
    }
    return changed;
}

static bool change_swap(struct change *c)
{
    size_t a = any_layer(c), b = any_layer(c);
    struct ah_config config = c->configs[a], other = c->configs[b];
    if (same(&config, &other) || !ah_vary_allows(c->vary, a, &other) || !ah_vary_allows(c->vary, b, &config))
        return false;
    c->configs[a] = other;
    c->configs[b] = config;
    return true;
}

static void reverse(struct ah_config *configs, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        struct ah_config config = configs[i];
        configs[i] = configs[n - 1 - i];
        configs[n - 1 - i] = config;
    }
}

static void rotate_configs(struct ah_config *configs, size_t n, size_t by)
{
    reverse(configs, by);
    reverse(configs + by, n - by);
    reverse(configs, n);
}

static bool change_turn(struct change *c)
{
    size_t a = any_layer(c), b = any_layer(c), by = any_length(c);
    size_t first = a < b ? a : b, length = (a < b ? b - a : a - b) + 1;
    if (by >= length)
        return false;
    if (below(c->random, 2))
        by = length - by;
    rotate_configs(c->configs + first, length, by);
    bool valid = true;
    for (size_t block = first; block < first + length && valid; block++)
        valid = ah_vary_allows(c->vary, block, &c->configs[block]);
    if (!valid)
        rotate_configs(c->configs + first, length, length - by);
    return valid;
}

static bool change_ends(struct change *c)
{
    struct ah_config all[AH_CONFIGS_MAX];
    size_t block = below(c->random, 2) ? c->layers + 1 : 0;
    size_t n = ah_vary_options(c->vary, block, all);
    return set_config(c, block, &all[below(c->random, n)]);
}

static bool change_knob(struct change *c)
{
    struct ah_knobs before = *c->knobs;
    ah_knobs_shake(c->vary->job, ah_vary_next(c->random), c->knobs);
    return !ah_knobs_equal(&before, c->knobs);
}

static const struct {
    bool (*change)(struct change *c);
    size_t share; /* probability in percent */
} changes[] = {{change_border, 30}, {change_stretch, 30}, {change_swap, 15},
               {change_turn, 13},   {change_ends, 4},     {change_knob, 8}};

static bool change_once(struct change *c)
{
    size_t draw = below(c->random, 100), i = 0;
    for (; draw >= changes[i].share; i++)
        draw -= changes[i].share;
    return changes[i].change(c);
}

bool ah_vary_choice(const struct ah_vary *vary, uint64_t *random, struct ah_config *configs,
                    struct ah_knobs *knobs)
{
    enum { TWICE = 30 }; /* percent; two changes together may fit where one alone does not */
    struct change c = {vary, random, configs, knobs, vary->job->n_blocks - 2};
    bool changed = change_once(&c);
    if (changed && below(random, 100) < TWICE)
        change_once(&c);
    return changed;
}
