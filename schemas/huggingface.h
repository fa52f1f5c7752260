/* SPDX-License-Identifier: Apache-2.0
 *
 * Hugging Face: reads a model from an unchanged config.json.
 *
 * Families: gpt2, llama, mistral, qwen2, qwen3. Absent keys take the transformers library's defaults for that family,
 * except the sizes, which are required. A setting is refused by name if it changes the mathematics and we do not
 * support it. An unknown key gives a warning.
 */
#ifndef AH_SCHEMAS_HUGGINGFACE_H
#define AH_SCHEMAS_HUGGINGFACE_H

#include "base/arena.h"
#include "base/error.h"
#include "schemas/model.h"

#include <stdbool.h>
#include <stddef.h>

struct cJSON;

/* True if the tree looks like a config.json: an object with `model_type` and without `kind`. */
bool ah_huggingface_recognises(const struct cJSON *tree);

/* Fills `ret_model` and the warnings (in `arena`). `name` is the file's name in messages. The caller must still
 * run ah_meaning_check() on the model. AH_E_DOCUMENT, AH_E_MEMORY. */
int ah_huggingface_read(struct ah_arena *arena, const char *name, const struct cJSON *tree,
                        struct ah_model *ret_model, const char ***ret_warnings, size_t *ret_n_warnings,
                        struct ah_error *err);

/* In an error of ah_meaning_check() about `model`, replaces the field's name by the config's key for it. */
void ah_huggingface_rename(const struct ah_model *model, const struct cJSON *tree, struct ah_error *err);

#endif
