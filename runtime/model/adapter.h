/* SPDX-License-Identifier: Apache-2.0
 *
 * Adapter: the adapter_config.json with which peft, and everything that reads its adapters, understands the file of an
 * adapter beside it (weights.h).
 *
 *     rc = ah_adapter_print(model, trained, "/models/llama-2-7b", &text, err);    options.config = text.data;
 *     rc = ah_adapter_check(model, "out/step-00000100", err);                     // before ah_weights_load()
 */
#ifndef AH_RUNTIME_MODEL_ADAPTER_H
#define AH_RUNTIME_MODEL_ADAPTER_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "schemas/model.h"

#include <limits.h>
#include <stdbool.h>

/* Checks that an adapter's files can hold what is trained: whole modules, and none that has an adapter, too.
 * AH_E_UNSUPPORTED names the tensor. */
int ah_adapter_check_trained(const struct ah_model *model, const uint32_t *trained, struct ah_error *err);

/* Appends the adapter_config.json of a model with adapters. `trained` has a mask for each block: layers without trained
 * adapters are left out, and other trained tensors are named as modules that are trained whole. `base` (optional) is
 * the folder of the base model. Errors of ah_adapter_check_trained(); AH_E_MEMORY. */
int ah_adapter_print(const struct ah_model *model, const uint32_t *trained, const char *base,
                     struct ah_buffer *out, struct ah_error *err);

/* Writes the path of the file of the adapter in `folder`. AH_E_IO: it is too long. */
int ah_adapter_path(const char *folder, char ret_path[PATH_MAX], struct ah_error *err);

/* What an adapter_config.json says about the products. */
struct ah_adapter_facts {
    double rank, alpha;
    bool rank_stabilized;
    double scale;
};

/* Reads the config in `folder`. AH_E_UNSUPPORTED names a setting that we lack; AH_E_IO, AH_E_DOCUMENT, AH_E_MEMORY. */
int ah_adapter_read(const char *folder, struct ah_adapter_facts *ret_facts, struct ah_error *err);

/* True if a model of this shape has the matrix, under a name of its own in files. */
bool ah_adapter_possible(const struct ah_model *model, enum ah_lora matrix);

/* What an adapter's files have: adapters, and for each block a mask of its tensors that are in the file. */
struct ah_adapter_found {
    struct ah_model_lora lora; /* of the model with this adapter; `on` is that below */
    unsigned on[AH_LORA_MATRICES];
    uint32_t *trained; /* in the arena; of ah_model_tensors() of that model */
};

/* Finds what the adapter in `folder` has, for a model without adapters. AH_E_MISMATCH: the file has no tensor of such a
 * model. AH_E_UNSUPPORTED: layers have adapters of different matrices. Errors of ah_adapter_read(). */
int ah_adapter_find(const struct ah_model *model, const char *folder, struct ah_arena *arena,
                    struct ah_adapter_found *ret_found, struct ah_error *err);

/* Sets `ret_other` to true if a checkpoint beside the adapter says that it was trained beside other weights than those
 * in `base`. Errors of reading either. */
int ah_adapter_has_other_base(const char *folder, const char *base, bool *ret_other, struct ah_error *err);

/* Checks that the adapter in `folder` computes what the model's adapters do: rank, factor, and nothing that we lack.
 * AH_E_MISMATCH says what to plan with; AH_E_UNSUPPORTED names the setting; AH_E_IO, AH_E_DOCUMENT, AH_E_MEMORY. */
int ah_adapter_check(const struct ah_model *model, const char *folder, struct ah_error *err);

#endif
