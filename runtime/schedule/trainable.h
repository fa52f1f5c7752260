/* SPDX-License-Identifier: Apache-2.0
 *
 * Trainable: which tensors are trained, chosen by patterns.
 *
 * Patterns match names such as "embedding.embedding.weight", "layer.3.attention.qkv.weight" (layers count from 0, as in
 * files of weights) and "head.norm.weight". In a pattern, `*` matches any text, dots included, and `?` one character. A
 * leading `!` excludes. The last pattern that matches a name decides; without a match, it is not trained.
 *
 *     {"*"}                      everything
 *     {"*", "!embedding.*"}      all but the embedding
 *     {"layer.*_norm.*"}        the norms of the layers
 */
#ifndef AH_RUNTIME_SCHEDULE_TRAINABLE_H
#define AH_RUNTIME_SCHEDULE_TRAINABLE_H

#include "base/error.h"
#include "schemas/model.h"

enum { AH_TRAINABLE_NAME_MAX = 96 };

/* Writes the name of a block's tensor as patterns see it, cut at `max` - 1 characters. Returns its full length. */
size_t ah_trainable_name(const struct ah_model *model, uint64_t block, const char *tensor, char *ret_name,
                         size_t max);

/* True if `pattern` (without `!`) matches all of `name`. */
bool ah_trainable_glob(const char *pattern, const char *name);

/* For each block, sets bit i if tensor i of ah_model_tensors() is trained. AH_E_USAGE: a pattern matches no name, or
 * nothing is trained. A pattern that begins with "layer.<number>." is tried on that layer only. */
int ah_trainable_match(const struct ah_model *model, const char *const *patterns, size_t n_patterns,
                       uint32_t *ret_trained, struct ah_error *err);

#endif
