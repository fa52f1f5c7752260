/* SPDX-License-Identifier: Apache-2.0
 *
 * Names: the names of a block's tensors in files of the ecosystem (docs/weights.md lists them).
 *
 * Our tensors are packed (q over k over v) and always outputs by inputs. In files of Hugging Face, each family names,
 * splits and stores tensors differently. A PART is one tensor of such a file; it is some rows of one of our tensors.
 * Adapters have the names that peft gives them.
 *
 *     struct ah_names_part parts[AH_NAMES_PARTS_MAX];
 *     size_t n = ah_names_parts(model, block, parts);   // "model.layers.3.self_attn.k_proj.weight", ...
 */
#ifndef AH_RUNTIME_MODEL_WEIGHT_NAMES_H
#define AH_RUNTIME_MODEL_WEIGHT_NAMES_H

#include "schemas/model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AH_NAMES_PARTS_MAX = 2 * AH_MODEL_TENSORS_MAX, AH_NAMES_NAME_MAX = 96, AH_NAMES_MODULE_MAX = 32 };

struct ah_names_part {
    char name[AH_NAMES_NAME_MAX]; /* name in files of the family's own library, prefix included */
    size_t tensor;                /* index in ah_model_tensors() */
    uint64_t row, rows;           /* the rows of the tensor that form the part */
    uint64_t cols;                /* number of columns, all those of the tensor */
    bool transposed;              /* true if the file stores inputs by outputs */
    size_t n_shape;               /* number of dimensions in the file; 1 for vectors */
    uint64_t shape[2];
};

/* Lists the parts of a block, tensor by tensor in flat order. A tensor's parts cover its rows in order. Returns the
 * number of parts. Blocks are numbered as for ah_model_block_kind(). */
size_t ah_names_parts(const struct ah_model *model, uint64_t block,
                      struct ah_names_part ret_parts[AH_NAMES_PARTS_MAX]);

/* Turns the name of a part that is trained as a whole into its name in a file of an adapter. Names of parts of adapters
 * are those in such files already: "base_model.model.model.layers.3.self_attn.k_proj.lora_A.weight", or for the text
 * part of a model that reads images, "base_model.model.model.language_model.layers.3. ...". */
void ah_names_in_adapter(const struct ah_model *model, struct ah_names_part *part);

/* Returns the module of a matrix, as files name it inside a layer ("self_attn.q_proj"), in `ret_name`. */
const char *ah_names_module(const struct ah_model *model, enum ah_lora matrix,
                            char ret_name[AH_NAMES_MODULE_MAX]);

/* Returns the prefix of all names except the head's: "model." or "transformer.". */
const char *ah_names_prefix(enum ah_family family);

/* A way to spell names. Files of a bare model leave out the prefix; those of a model that reads images say where in it
 * the text part is. */
struct ah_names_spelling {
    const char *prefix; /* what names begin with instead of ah_names_prefix() */
    const char *head;   /* what is before the head's name */
};

/* Returns the spellings that files may have, then one whose prefix is NULL. The first is that of the model's library,
 * and of files of adapters. */
const struct ah_names_spelling *ah_names_spellings(const struct ah_model *model);

/* Writes the name of a part in a spelling. Names in files of adapters stay as they are. */
void ah_names_spell(const struct ah_model *model, const struct ah_names_spelling *spelling, const char *name,
                    char ret_name[AH_NAMES_NAME_MAX]);

/* Writes a name in any spelling as ah_names_parts() has it. Returns false if it is too long for a name of a part. */
bool ah_names_unspell(const struct ah_model *model, const char *name, char ret_name[AH_NAMES_NAME_MAX]);

/* True for the name of the embedding's table, in any spelling. */
bool ah_names_is_table(const struct ah_model *model, const char *name);

/* True for a tensor of what a model that reads images has beside its text part. */
bool ah_names_is_outside(const struct ah_model *model, const char *name);

/* Returns the name of the head's projection, which files of a tied model may leave out. */
const char *ah_names_head(void);

/* True if a tensor of that name, in any spelling, has no learned values, as in older files (masks, angles). */
bool ah_names_ignorable(enum ah_family family, const char *name);

#endif
