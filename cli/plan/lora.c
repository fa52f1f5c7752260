/* SPDX-License-Identifier: Apache-2.0
 *
 * Adapters are bits of a mask per layer. All layers with adapters have them on the same matrices, as in peft.
 */
#include "cli/plan/lora.h"

#include "runtime/model/adapter.h"
#include "runtime/model/weight_names.h"
#include "runtime/schedule/trainable.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- '--lora' ---- */

static int read_number(const char *key, const char *text, double *ret_value, struct ah_error *err)
{
    char *end;
    const double value = strtod(text, &end);
    if (!*text || *end || !(value >= AH_LORA_ALPHA_MIN && value <= AH_LORA_ALPHA_MAX))
        return ah_error_set(err, AH_E_USAGE, "'--lora': %s '%s' is not a number above 0 and up to a million",
                            key, text);
    *ret_value = value;
    return AH_OK;
}

static int read_scaling(const char *text, struct ah_model_lora *lora, struct ah_error *err)
{
    unsigned i = 0;
    while (ah_words_lora_scaling[i] && strcmp(ah_words_lora_scaling[i], text) != 0)
        i++;
    if (!ah_words_lora_scaling[i])
        return ah_error_set(err, AH_E_USAGE,
                            "'--lora': scaling '%s' is not 'standard' (alpha / rank) or 'rank_stabilized' "
                            "(alpha / sqrt(rank))",
                            text);
    lora->scaling = (enum ah_lora_scaling)i;
    return AH_OK;
}

static int read_key(const char *key, const char *value, struct ah_model_lora *lora, struct ah_error *err)
{
    double rank = 0;
    if (!strcmp(key, "alpha"))
        return read_number(key, value, &lora->alpha, err);
    if (!strcmp(key, "scaling"))
        return read_scaling(value, lora, err);
    if (strcmp(key, "rank") != 0)
        return ah_error_set(
            err, AH_E_USAGE,
            "'--lora': '%s' is unknown; give 'rank=16,alpha=32', and 'scaling=rank_stabilized' "
            "for alpha / sqrt(rank)",
            key);
    int rc = read_number(key, value, &rank, err);
    if (!rc && (rank > AH_LORA_RANK_MAX || rank != floor(rank)))
        rc = ah_error_set(err, AH_E_USAGE, "'--lora': rank '%s' is not a whole number from 1 to %d", value,
                          (int)AH_LORA_RANK_MAX);
    lora->rank = rc ? 0 : (uint64_t)rank;
    return rc;
}

static int read_keys(struct ah_arena *arena, const char *text, struct ah_model_lora *lora,
                     struct ah_error *err)
{
    const struct ah_model_lora before = *lora;
    unsigned scalings = 0;
    int rc = AH_OK;
    for (const char *at = text; at && !rc;) {
        const size_t length = strcspn(at, ",");
        char *key = ah_arena_strndup(arena, at, length), *value = key ? strchr(key, '=') : NULL;
        if (!key)
            return ah_error_memory(err);
        if (!value)
            return ah_error_set(err, AH_E_USAGE, "'--lora': '%s' has no value; write 'rank=16,alpha=32'",
                                key);
        *value = '\0';
        scalings += !strcmp(key, "scaling");
        if (scalings > 1 || (!strcmp(key, "rank") && lora->rank != before.rank) ||
            (!strcmp(key, "alpha") && lora->alpha != before.alpha))
            return ah_error_set(err, AH_E_USAGE, "'--lora': '%s' is given twice", key);
        rc = read_key(key, value + 1, lora, err);
        at = at[length] ? at + length + 1 : NULL;
    }
    if (!rc && !lora->rank)
        rc = ah_error_set(err, AH_E_USAGE, "'--lora': the rank is missing; write 'rank=16'");
    if (!rc && lora->alpha == 0)
        lora->alpha = 2 * (double)lora->rank;
    return rc;
}

/* ---- '--lora-on' ---- */

static bool names_it(const char *pattern, const char *name)
{
    char inside[2 * AH_NAMES_NAME_MAX];
    snprintf(inside, sizeof inside, "%s.*", pattern);
    return ah_trainable_glob(pattern, name) || ah_trainable_glob(inside, name);
}

/* True if the pattern names a matrix, in our names or in those of its family: with or without its layer. */
static bool names_matrix(const struct ah_model *model, const char *pattern, uint64_t layer,
                         enum ah_lora matrix)
{
    char name[AH_NAMES_NAME_MAX], module[AH_NAMES_MODULE_MAX];
    const char *prefix = ah_names_prefix(model->family);
    const char *layers = model->family == AH_FAMILY_GPT2 ? "h." : "layers.";
    if (!ah_names_module(model, matrix, module))
        return false;
    snprintf(name, sizeof name, "layer.%" PRIu64 ".%s", layer, ah_words_lora[matrix]);
    if (names_it(pattern, name) || names_it(pattern, ah_words_lora[matrix]))
        return true;
    snprintf(name, sizeof name, "%s%s%" PRIu64 ".%s", prefix, layers, layer, module);
    return names_it(pattern, name) || names_it(pattern, name + strlen(prefix)) || names_it(pattern, module) ||
           names_it(pattern, strrchr(module, '.') + 1);
}

static int apply_pattern(const struct ah_model *model, const char *pattern, uint32_t *on,
                         struct ah_error *err)
{
    const bool excludes = *pattern == '!';
    bool matched = false;
    for (uint64_t layer = 0; layer < model->layers; layer++)
        for (unsigned i = 0; i < AH_LORA_MATRICES; i++) {
            if (!ah_adapter_possible(model, (enum ah_lora)i) ||
                !names_matrix(model, pattern + excludes, layer, (enum ah_lora)i))
                continue;
            matched = true;
            on[layer] = excludes ? on[layer] & ~(UINT32_C(1) << i) : on[layer] | UINT32_C(1) << i;
        }
    if (matched)
        return AH_OK;
    return ah_error_set(
        err, AH_E_USAGE,
        "'--lora-on': '%s' matches no matrix of '%s' that can have an adapter; names are like 'attention.*', "
        "'mlp.up', 'layer.0.*', or as Hugging Face has them; other tensors are trained whole with '--train'",
        pattern + excludes, model->name);
}

static int apply_patterns(struct ah_arena *arena, const struct ah_model *model, const char *text,
                          uint32_t *on, struct ah_error *err)
{
    int rc = AH_OK;
    for (const char *at = text; at && !rc;) {
        const size_t length = strcspn(at, ",");
        if (length == (*at == '!'))
            return ah_error_set(err, AH_E_USAGE,
                                "'--lora-on' has an empty pattern; put one between its commas");
        const char *pattern = ah_arena_strndup(arena, at, length);
        rc = pattern ? apply_pattern(model, pattern, on, err) : ah_error_memory(err);
        at = at[length] ? at + length + 1 : NULL;
    }
    return rc;
}

/* ---- the result ---- */

/* Sets `ret_all` to the matrices with adapters. Every layer has adapters on all of them, or none. */
static int check_layers(const struct ah_model *model, const uint32_t *on, uint32_t *ret_all,
                        struct ah_error *err)
{
    uint64_t first = UINT64_MAX;
    for (uint64_t layer = 0; layer < model->layers; layer++) {
        if (!on[layer])
            continue;
        first = first == UINT64_MAX ? layer : first;
        if (on[layer] != on[first])
            return ah_error_set(err, AH_E_USAGE,
                                "'--lora-on': layers %" PRIu64 " and %" PRIu64
                                " would have adapters on different matrices; name the same ones in every "
                                "layer that has adapters",
                                first, layer);
    }
    if (first == UINT64_MAX)
        return ah_error_set(err, AH_E_USAGE, "'--lora-on' leaves no adapter; name a matrix");
    *ret_all = on[first];
    return AH_OK;
}

static bool add_trained(struct ah_arena *arena, const struct ah_model *model, const uint32_t *on,
                        struct ah_freeze_names *patterns)
{
    char pattern[64];
    bool all = true, added = true;
    for (uint64_t layer = 0; layer < model->layers; layer++)
        all &= on[layer] != 0;
    if (all)
        return ah_freeze_add(patterns, arena, "*.lora_*");
    for (uint64_t layer = 0; layer < model->layers && added; layer++) {
        snprintf(pattern, sizeof pattern, "layer.%" PRIu64 ".*.lora_*", layer);
        added = !on[layer] || ah_freeze_add(patterns, arena, pattern);
    }
    return added;
}

static int set_matrices(struct ah_arena *arena, uint32_t all, struct ah_model_lora *lora,
                        struct ah_error *err)
{
    lora->on = ah_arena_array(arena, AH_LORA_MATRICES, sizeof *lora->on);
    if (!lora->on)
        return ah_error_memory(err);
    for (unsigned i = 0; i < AH_LORA_MATRICES; i++)
        if (all >> i & 1)
            lora->on[lora->n_on++] = i;
    return AH_OK;
}

int ah_lora_read(struct ah_arena *arena, const char *text, const struct ah_option_list *patterns,
                 struct ah_model *model, struct ah_freeze_names *trained, struct ah_error *err)
{
    struct ah_model_lora *lora = ah_arena_alloc(arena, sizeof *lora);
    uint32_t *on = ah_arena_array(arena, model->layers, sizeof *on), all = 0;
    if (!lora || !on)
        return ah_error_memory(err);
    *lora = (struct ah_model_lora){0};
    int rc = read_keys(arena, text, lora, err);
    for (size_t i = 0; i < patterns->n && !rc; i++)
        rc = apply_patterns(arena, model, patterns->items[i], on, err);
    if (!rc && !patterns->n)
        rc = apply_pattern(model, "*", on, err);
    rc = rc ? rc : check_layers(model, on, &all, err);
    rc = rc ? rc : set_matrices(arena, all, lora, err);
    if (!rc && !add_trained(arena, model, on, trained))
        rc = ah_error_memory(err);
    if (!rc)
        model->lora = lora;
    return rc;
}
