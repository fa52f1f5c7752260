/* SPDX-License-Identifier: Apache-2.0
 *
 * Hugging Face: converts a config.json as it is into a model.
 *
 * Families: gpt2, llama, mistral, qwen2, qwen3. Absent keys take the defaults of the transformers library for that
 * family, except for sizes, which are required. A setting that changes the mathematics and that we lack is refused by
 * name; a key that means nothing here gives a warning.
 */
#ifndef AH_SCHEMAS_HUGGINGFACE_H
#define AH_SCHEMAS_HUGGINGFACE_H

#include "base/arena.h"
#include "base/error.h"
#include "schemas/model.h"

#include <stdbool.h>
#include <stddef.h>

struct cJSON;

/* Does this tree look like a config.json: an object without `kind`, with `model_type`? */
bool ah_huggingface_recognises(const struct cJSON *tree);

/* Fills `ret_model` and the warnings (in `arena`). `name` stands for the file in messages. The model then has the right
 * shape; its meaning is for the model's own check. */
int ah_huggingface_read(struct ah_arena *arena, const char *name, const struct cJSON *tree,
                        struct ah_model *ret_model, const char ***ret_warnings, size_t *ret_n_warnings,
                        struct ah_error *err);

/* Rewrites an error about relations of the model's fields (ah_meaning_check()) in the words of its config. */
void ah_huggingface_rename(const struct ah_model *model, const struct cJSON *tree, struct ah_error *err);

#endif
