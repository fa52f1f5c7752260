/* SPDX-License-Identifier: Apache-2.0
 *
 * Freeze: translates patterns of Hugging Face's parameter names into patterns of our names (trainable.h), for plans.
 *
 * A pattern names parameters, or a module with everything in it: "model.layers.3", "model.layers.*.self_attn",
 * "transformer.h.3.mlp.*", "lm_head". The common prefix ("model.") may be left out. Some of our tensors contain several
 * of their parameters, such as q, k and v. A pattern must name all parameters of a tensor or none.
 */
#ifndef AH_RUNTIME_MODEL_FREEZE_H
#define AH_RUNTIME_MODEL_FREEZE_H

#include "base/arena.h"
#include "base/error.h"
#include "schemas/model.h"

#include <stddef.h>

struct ah_freeze_names {
    const char **items; /* in arena */
    size_t n;
};

/* Appends the fewest of our patterns that name the same parameters, or none if `pattern` names no parameter of the
 * model. AH_E_USAGE, with the name of the option ("freeze"): it names part of a tensor, or the head of a tied model,
 * which is the embedding. AH_E_MEMORY. */
int ah_freeze_translate(const struct ah_model *model, const char *option, const char *pattern,
                        struct ah_arena *arena, struct ah_freeze_names *names, struct ah_error *err);

/* Appends one pattern. Returns false if there is no memory. */
bool ah_freeze_add(struct ah_freeze_names *names, struct ah_arena *arena, const char *pattern);

#endif
