/* SPDX-License-Identifier: Apache-2.0
 *
 * The `checkpoint` document: the manifest of a checkpoint's folder, written after all its other files.
 *
 * A folder without a valid manifest is no checkpoint. The manifest lists the name (without folder), size and sha256 of
 * every file; a file that does not match is not used. The manifest also has a sha256 of itself. Its tensors say where
 * the weights are. Optimizer states are stored flat, one range per block, so nothing depends on a plan or a device.
 */
#ifndef AH_SCHEMAS_CHECKPOINT_H
#define AH_SCHEMAS_CHECKPOINT_H

#include "schemas/signature.h"
#include "schemas/vocabulary.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ah_checkpoint_file {
    const char *name;
    uint64_t bytes;
    const char *sha256;
};

/* A weight in a safetensors file. */
struct ah_checkpoint_tensor {
    const char *name; /* as the file spells it */
    const char *file;
    enum ah_dtype dtype;
    uint64_t *shape;
    size_t n_shape;
};

/* The optimizer's states of one block: master weights and moments, each a flat vector of `count` elements. */
struct ah_checkpoint_state {
    uint64_t block;
    const char *file;
    uint64_t count;
    enum ah_dtype state_dtype;
    uint64_t master_offset_bytes;
    uint64_t m_offset_bytes;
    uint64_t v_offset_bytes;
};

struct ah_checkpoint {
    const char *generator;
    const char *sha256; /* (optional) ah_document_digest() of this document, to detect changed bits */
    uint64_t step;      /* steps done */
    uint64_t cursor;    /* sequences of the data set consumed, in the keyed permutation */
    uint64_t tokens;    /* loss-bearing tokens so far */
    struct ah_signature numeric_signature;
    struct ah_checkpoint_file *files;
    size_t n_files;
    struct ah_checkpoint_tensor *tensors;
    size_t n_tensors;
    struct ah_checkpoint_state *states;
    size_t n_states;
    struct ah_text_pair *annotations;
    size_t n_annotations;
};

#endif
