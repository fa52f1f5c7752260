/* SPDX-License-Identifier: Apache-2.0
 *
 * Config: makes the config.json that the ecosystem needs to load weights.
 *
 * Weights that came with a config.json keep it, with an updated dtype. For other weights, one is made from the model.
 * Callers make it before training, because a config cannot express every model.
 *
 *     rc = path ? ah_config_adopt(model, path, AH_FP32, &text, err) : ah_config_print(model, AH_FP32, &text, err);
 *     options.config = text.data;
 */
#ifndef AH_RUNTIME_MODEL_CONFIG_H
#define AH_RUNTIME_MODEL_CONFIG_H

#include "base/buffer.h"
#include "base/error.h"
#include "schemas/model.h"

/* Appends the config.json of a model. AH_E_UNSUPPORTED names the field that the family's config cannot express. */
int ah_config_print(const struct ah_model *model, enum ah_dtype dtype, struct ah_buffer *out,
                    struct ah_error *err);

/* Appends the text of the config.json at `path`, with its "dtype" or "torch_dtype" (if it has one) set to `dtype`.
 * AH_E_MISMATCH: it describes another model. AH_E_IO, AH_E_DOCUMENT: it cannot be read. */
int ah_config_adopt(const struct ah_model *model, const char *path, enum ah_dtype dtype,
                    struct ah_buffer *out, struct ah_error *err);

#endif
