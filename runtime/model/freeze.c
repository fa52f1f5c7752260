/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensors named by a pattern are bits in one mask per block. A tensor named in all layers becomes one pattern
 * ("layer.*.mlp.up.weight"), and a block named as a whole becomes "layer.3.*".
 */
#include "runtime/model/freeze.h"

#include "runtime/model/weight_names.h"
#include "runtime/schedule/trainable.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

bool ah_freeze_add(struct ah_freeze_names *names, struct ah_arena *arena, const char *pattern)
{
    if ((names->n & (names->n + 1)) == 0) { /* n is 0, 1, 3, 7, ...: the array is full */
        const char **grown = ah_arena_array(arena, 2 * names->n + 1, sizeof *grown);
        if (!grown)
            return false;
        if (names->n)
            memcpy(grown, names->items, names->n * sizeof *grown);
        names->items = grown;
    }
    names->items[names->n] = ah_arena_strdup(arena, pattern);
    return names->items[names->n++] != NULL;
}

static bool names_it(const char *pattern, const char *name)
{
    char inside[AH_NAMES_NAME_MAX];
    return ah_trainable_glob(pattern, name) ||
           (snprintf(inside, sizeof inside, "%s.*", pattern) < (int)sizeof inside &&
            ah_trainable_glob(inside, name));
}

static bool matches(const struct ah_model *model, const char *pattern, const char *name)
{
    const char *prefix = ah_names_prefix(model->family);
    const size_t length = strlen(prefix);
    return names_it(pattern, name) ||
           (strncmp(name, prefix, length) == 0 && names_it(pattern, name + length));
}

/* Finds the tensors of a block with all parts named by the pattern. */
static int match_block(const struct ah_model *model, uint64_t block, const char *option, const char *pattern,
                       uint32_t *ret_named, struct ah_error *err)
{
    struct ah_names_part parts[AH_NAMES_PARTS_MAX];
    struct ah_model_tensor tensors[AH_MODEL_TENSORS_MAX];
    char ours[AH_TRAINABLE_NAME_MAX];
    uint32_t named = 0, left = 0;
    const size_t n = ah_names_parts(model, block, parts);
    ah_model_tensors(model, ah_model_block_kind(model, block), tensors);
    for (size_t i = 0; i < n; i++)
        *(matches(model, pattern, parts[i].name) ? &named : &left) |= UINT32_C(1) << parts[i].tensor;
    for (size_t i = 0; i < n; i++)
        if ((named & left) >> parts[i].tensor & 1) {
            ah_trainable_name(model, block, tensors[parts[i].tensor].name, ours, sizeof ours);
            return ah_error_set(
                err, AH_E_USAGE,
                "'--%s': '%s' is only part of '%s', which holds q, k and v and is trained or frozen as a "
                "whole; name all three, or the whole tensor",
                option, pattern, ours);
        }
    *ret_named = named;
    return AH_OK;
}

/* Adds "layer.3.*" or "layer.*" if all of `all` are named, else each tensor. `where`: "layer.3" or "layer.*". */
static bool add_named(const struct ah_model_tensor *tensors, size_t n, const char *where, uint32_t named,
                      uint32_t all, struct ah_arena *arena, struct ah_freeze_names *names)
{
    char pattern[AH_TRAINABLE_NAME_MAX];
    bool added = true;
    if (named && named == all) {
        snprintf(pattern, sizeof pattern, strchr(where, '*') ? "%s" : "%s.*", where);
        return ah_freeze_add(names, arena, pattern);
    }
    for (size_t i = 0; i < n && added; i++)
        if (named >> i & 1) {
            snprintf(pattern, sizeof pattern, "%s.%s", where, tensors[i].name);
            added = ah_freeze_add(names, arena, pattern);
        }
    return added;
}

static bool add_blocks(const struct ah_model *model, const uint32_t *named, struct ah_arena *arena,
                       struct ah_freeze_names *names)
{
    struct ah_model_tensor tensors[AH_MODEL_TENSORS_MAX];
    const uint64_t head = ah_model_blocks(model) - 1;
    uint32_t common = UINT32_MAX;
    char where[32];
    for (uint64_t block = 1; block < head; block++)
        common &= named[block];
    bool added = true;
    for (uint64_t block = 0; block <= head && added; block++) {
        const size_t n = ah_model_tensors(model, ah_model_block_kind(model, block), tensors);
        const uint32_t all = (uint32_t)((UINT64_C(1) << n) - 1);
        const bool layer = block > 0 && block < head;
        if (block == 1)
            added = add_named(tensors, n, "layer.*", common & all, all, arena, names);
        snprintf(where, sizeof where, layer ? "layer.%" PRIu64 : block ? "head" : "embedding", block - 1);
        if (added)
            added = add_named(tensors, n, where, named[block] & ~(layer ? common : 0), all, arena, names);
    }
    return added;
}

int ah_freeze_translate(const struct ah_model *model, const char *option, const char *pattern,
                        struct ah_arena *arena, struct ah_freeze_names *names, struct ah_error *err)
{
    const uint64_t blocks = ah_model_blocks(model);
    uint32_t *named = ah_arena_array(arena, blocks, sizeof *named);
    int rc = named ? AH_OK : ah_error_memory(err);
    if (!rc && model->tied && names_it(pattern, ah_names_head()))
        rc = ah_error_set(
            err, AH_E_USAGE,
            "'--%s': '%s' has no weights of its own in '%s', because it is tied to the embedding; name "
            "'embedding.*'",
            option, pattern, model->name);
    for (uint64_t block = 0; block < blocks && !rc; block++)
        rc = match_block(model, block, option, pattern, &named[block], err);
    return rc || add_blocks(model, named, arena, names) ? rc : ah_error_memory(err);
}
