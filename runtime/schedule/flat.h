/* SPDX-License-Identifier: Apache-2.0
 *
 * Flat: the position of each tensor in its block's flat vectors (docs/layout.md).
 *
 * A block has two vectors: one of all its parameters (weights), and one of the trained ones (gradients and optimizer
 * states; tiles are cut from it). Both hold their tensors in the order of ah_model_tensors(). Each tensor begins at a
 * multiple of AH_FLAT_ALIGN elements, and the vector ends at one. The padding between tensors is always zero.
 *
 *     struct ah_flat flat = ah_flat_of(model, AH_BLOCK_LAYER, trained);
 *     weights + flat.tensors[i].first, gradients + flat.tensors[i].trained_first
 */
#ifndef AH_RUNTIME_SCHEDULE_FLAT_H
#define AH_RUNTIME_SCHEDULE_FLAT_H

#include "schemas/model.h"

enum { AH_FLAT_ALIGN = 128 };

struct ah_flat_tensor {
    struct ah_model_tensor tensor;
    uint64_t elements; /* rows x cols */
    uint64_t first;    /* its first element in the vector of all parameters */
    bool trained;
    uint64_t trained_first; /* its first element in the vector of trained ones; 0 if frozen */
};

struct ah_flat {
    size_t n;
    struct ah_flat_tensor tensors[AH_MODEL_TENSORS_MAX];
    uint64_t elements; /* vector lengths, with padding */
    uint64_t trained_elements;
    uint64_t parameters; /* without padding */
    uint64_t trained_parameters;
};

/* The vectors of a block of this kind. Bit i of `trained`: tensor i is trained; bits without a tensor are ignored. */
struct ah_flat ah_flat_of(const struct ah_model *model, enum ah_block_kind kind, uint32_t trained);

/* Trained elements that are contiguous in both vectors, with the padding after each tensor; either all decay or none
 * does. An update has one op for each run. */
struct ah_run_of_elements {
    uint64_t first, end; /* in the trained vector */
    uint64_t full_first; /* index of `first` in the full vector */
    bool decay;
};

/* Lists all runs in ascending order; returns how many. */
size_t ah_flat_runs(const struct ah_flat *flat, struct ah_run_of_elements ret_runs[AH_MODEL_TENSORS_MAX]);

/* Elements [first, end) of the trained vector. */
struct ah_stretch {
    uint64_t first, end;
};

/* The elements of a tensor, with the padding after it; empty if it is frozen. */
struct ah_stretch ah_flat_stretch(const struct ah_flat *flat, size_t tensor);

/* Returns the index of the tensor with that name; flat->n if there is none. */
size_t ah_flat_find(const struct ah_flat *flat, const char *name);

#endif
