/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights: moves weights between files in the ecosystem's layout and the caller's flat vectors, piece by piece.
 *
 * The caller decides where the vectors are stored (host, device, several arenas). Loading hands out pieces in fp32, and
 * saving asks for pieces, block by block and tensor by tensor in flat order. So a model is never in memory twice. A
 * piece is part of one tensor and has no padding.
 *
 *     static int keep(void *context, const struct ah_weights_piece *piece, const float *values,
 *                     struct ah_error *err)
 *     {
 *         memcpy(vector_of(context, piece->block) + piece->element, values, piece->n * sizeof *values);
 *         return AH_OK;
 *     }
 *     rc = ah_weights_load(model, "llama-2-7b", &(struct ah_weights_sink){.take = keep, .context = context}, err);
 */
#ifndef AH_RUNTIME_MODEL_WEIGHTS_H
#define AH_RUNTIME_MODEL_WEIGHTS_H

#include "base/error.h"
#include "schemas/model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AH_WEIGHTS_PIECE_MAX = 1 << 18 }; /* elements */

/* Elements of one tensor of one block that are adjacent in the flat vector. */
struct ah_weights_piece {
    uint64_t block;
    size_t tensor;    /* index in ah_model_tensors() and struct ah_flat */
    uint64_t first;   /* index of the first element in the tensor, row-major */
    uint64_t element; /* index of the first element in the block's full flat vector */
    uint64_t n;       /* 1 to AH_WEIGHTS_PIECE_MAX */
};

/* Takes a piece; `values` are borrowed until the function returns. A failure ends the load, which returns the code. */
typedef int ah_weights_take(void *context, const struct ah_weights_piece *piece, const float *values,
                            struct ah_error *err);
/* Writes a piece to `ret_values`. */
typedef int ah_weights_give(void *context, const struct ah_weights_piece *piece, float *ret_values,
                            struct ah_error *err);

struct ah_weights_sink {
    ah_weights_take *take;
    void *context;
    /* (optional) True if the sink takes this block. Other blocks are neither read nor initialised. NULL: all. */
    bool (*wants)(const void *context, uint64_t block);
    /* (optional) A mask of trained tensors for each block: the files are those of an adapter, which has only these
     * tensors. NULL: the files have all tensors of the model except its adapters. */
    const uint32_t *adapter_of;
};

static inline bool ah_weights_wanted(const struct ah_weights_sink *sink, uint64_t block)
{
    return !sink->wants || sink->wants(sink->context, block);
}

struct ah_weights_source {
    ah_weights_give *give;
    void *context;
};

/* Hands every parameter of the model in `path`, a folder or a file (safetensors.h), to the sink once. Checks every
 * name, shape and dtype before the first piece. AH_E_MISMATCH names the tensor that is missing, has another shape or
 * belongs to no block. A tied head's own copy may be present if it equals the embedding. AH_E_NUMERIC: a value is not
 * finite. AH_E_DOCUMENT, AH_E_IO: as ah_safetensors_open(). */
int ah_weights_load(const struct ah_model *model, const char *path, const struct ah_weights_sink *sink,
                    struct ah_error *err);

struct ah_weights_options {
    enum ah_dtype dtype;  /* dtype of the files; AH_FP32 keeps masters exactly */
    uint64_t shard_bytes; /* most bytes of data in one file, unless a single tensor is larger; 0: 5e9 */
    const char *config;   /* (optional) text of a config.json to be saved as well (config.h); borrowed */
    const uint32_t
        *adapter_of; /* (optional) as in a sink; the files are then AH_WEIGHTS_ADAPTER and its config */
};

/* The text of an error, with the file's path: an adapter that a tied model cannot have. */
#define AH_WEIGHTS_APART                                                                                     \
    "%s: trains the embedding and lm_head apart, which the base ties; untie the base first "                 \
    "(tie_word_embeddings false, and a copy of the table as lm_head.weight)"

/* The files of an adapter, as peft names them. An adapter is always one file. */
#define AH_WEIGHTS_ADAPTER        "adapter_model.safetensors"
#define AH_WEIGHTS_ADAPTER_CONFIG "adapter_config.json"

/* The blocks of one of several writers. */
struct ah_weights_part {
    bool (*keeps)(const void *context, uint64_t block);
    const void *context;
};

/* Returns the bytes that ah_weights_save() needs on disk: exact for the data, rounded up for headers and the index. */
uint64_t ah_weights_bytes(const struct ah_model *model, enum ah_dtype dtype, const uint32_t *adapter_of);

/* Writes the model into `folder`, which must exist without these files: "model.safetensors", or
 * "model-00001-of-00003.safetensors" and so on with their index; and "config.json". Syncs each file, but not the
 * folder. After a failure, an unfinished file is removed and finished ones stay; so save into a temporary folder and
 * rename it. */
int ah_weights_save(const struct ah_model *model, const struct ah_weights_source *source,
                    const struct ah_weights_options *options, const char *folder, struct ah_error *err);

/* Save by several writers that all see `folder`. One writer makes every file, without values of weights. Then all
 * writers fill in their blocks, at the same time and in any order. Filling syncs. Files stay after a failure. */
int ah_weights_make(const struct ah_model *model, const struct ah_weights_options *options,
                    const char *folder, struct ah_error *err);
int ah_weights_fill(const struct ah_model *model, const struct ah_weights_source *source,
                    const struct ah_weights_options *options, const struct ah_weights_part *part,
                    const char *folder, struct ah_error *err);

#endif
