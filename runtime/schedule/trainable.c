/* SPDX-License-Identifier: Apache-2.0
 *
 * Matches patterns with names of tensors. Patterns are applied in order, so later ones override earlier ones. Each is
 * tried only on blocks that its beginning allows, so even a thousand patterns, each for one layer, are fast.
 */
#include "runtime/schedule/trainable.h"

#include <stdio.h>
#include <string.h>

size_t ah_trainable_name(const struct ah_model *model, uint64_t block, const char *tensor, char *ret_name,
                         size_t max)
{
    int n;
    if (ah_model_block_kind(model, block) == AH_BLOCK_LAYER)
        n = snprintf(ret_name, max, "layer.%llu.%s", (unsigned long long)block - 1, tensor);
    else
        n = snprintf(ret_name, max, "%s.%s", block ? "head" : "embedding", tensor);
    return n < 0 ? 0 : (size_t)n;
}

/* True if `pattern` matches all of `name`. After a mismatch, extends the last `*` by one character: not exponential. */
bool ah_trainable_glob(const char *pattern, const char *name)
{
    const char *star = NULL, *resume = NULL;
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            resume = name;
        } else if (*pattern == '?' || *pattern == *name) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star + 1;
            name = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}

struct block_range {
    uint64_t first, end;
};

/* Returns the blocks whose names can match: one block if the pattern begins with "layer.<number>.", else all. */
static struct block_range possible_blocks(const struct ah_model *model, const char *pattern)
{
    static const char prefix[] = "layer.";
    uint64_t layer = 0;
    const char *at = pattern + sizeof prefix - 1;
    if (strncmp(pattern, prefix, sizeof prefix - 1) != 0 || *at < '0' || *at > '9')
        return (struct block_range){0, ah_model_blocks(model)};
    for (; *at >= '0' && *at <= '9' && layer < model->layers; at++)
        layer = layer * 10 + (uint64_t)(*at - '0');
    if (*at != '.' && layer < model->layers) /* the number has a wildcard */
        return (struct block_range){0, ah_model_blocks(model)};
    return layer < model->layers ? (struct block_range){layer + 1, layer + 2} : (struct block_range){0, 0};
}

/* Sets (or clears) the bits of the block's tensors whose names match `pattern`. Returns true if any tensor matched. */
static bool apply_to_block(const struct ah_model *model, uint64_t block, const char *pattern, bool includes,
                           uint32_t *trained)
{
    struct ah_model_tensor tensors[AH_MODEL_TENSORS_MAX];
    char name[AH_TRAINABLE_NAME_MAX];
    uint32_t matched = 0;
    size_t n = ah_model_tensors(model, ah_model_block_kind(model, block), tensors);
    for (size_t i = 0; i < n; i++) {
        ah_trainable_name(model, block, tensors[i].name, name, sizeof name);
        matched |= (uint32_t)ah_trainable_glob(pattern, name) << i;
    }
    *trained = includes ? *trained | matched : *trained & ~matched;
    return matched != 0;
}

static int apply_pattern(const struct ah_model *model, const char *pattern, uint32_t *trained,
                         struct ah_error *err)
{
    bool includes = *pattern != '!';
    const char *names = includes ? pattern : pattern + 1;
    struct block_range range = possible_blocks(model, names);
    bool matched = false;
    for (uint64_t block = range.first; block < range.end; block++)
        matched |= apply_to_block(model, block, names, includes, &trained[block]);
    if (matched)
        return AH_OK;
    return ah_error_set(err, AH_E_USAGE,
                        "trainable: pattern '%s' matches no tensor of the model; names are like "
                        "'embedding.embedding.weight', 'layer.0.attention.qkv.weight', 'head.norm.weight'",
                        pattern);
}

int ah_trainable_match(const struct ah_model *model, const char *const *patterns, size_t n_patterns,
                       uint32_t *ret_trained, struct ah_error *err)
{
    uint64_t n = ah_model_blocks(model);
    memset(ret_trained, 0, n * sizeof *ret_trained);
    for (size_t i = 0; i < n_patterns; i++) {
        int rc = apply_pattern(model, patterns[i], ret_trained, err);
        if (rc)
            return rc;
    }
    for (uint64_t block = 0; block < n; block++)
        if (ret_trained[block])
            return AH_OK;
    return ah_error_set(err, AH_E_USAGE,
                        "trainable: no tensor is trained; begin the list with '*' or name some tensors");
}
