/* SPDX-License-Identifier: Apache-2.0
 *
 * Flat: where each tensor of a block lies in its flat vectors (docs/layout.md).
 *
 * A block has two vectors: of all its parameters (weights), and of those that are trained (gradients, optimizer
 * states; tiles are cut from it). Both hold their tensors in the order of ah_model_tensors(), each from a multiple
 * of AH_FLAT_ALIGN elements on, and end at such a multiple. What lies between tensors is padding: zero, always.
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
    uint64_t first;    /* element of the vector of all parameters */
    bool trained;
    uint64_t trained_first; /* element of the vector of trained ones; 0 where it is not */
};

struct ah_flat {
    size_t n;
    struct ah_flat_tensor tensors[AH_MODEL_TENSORS_MAX];
    uint64_t elements; /* of each vector, with padding */
    uint64_t trained_elements;
    uint64_t parameters; /* without */
    uint64_t trained_parameters;
};

/* The vectors of a block of this kind; bit i of `trained`: tensor i is trained, bits without a tensor do not count. */
struct ah_flat ah_flat_of(const struct ah_model *model, enum ah_block_kind kind, uint32_t trained);

/* Trained elements that follow each other in both vectors, padding behind each tensor included, and decay, or do not: an
 * update is an op for each. */
struct ah_run_of_elements {
    uint64_t first, end; /* of the trained vector */
    uint64_t full_first; /* where `first` is in the full one */
    bool decay;
};

/* In their order; returns how many. */
size_t ah_flat_runs(const struct ah_flat *flat, struct ah_run_of_elements ret_runs[AH_MODEL_TENSORS_MAX]);

/* Part of a vector: trained elements [first, end). */
struct ah_stretch {
    uint64_t first, end;
};

/* A tensor with the padding behind it; empty where it is frozen. */
struct ah_stretch ah_flat_stretch(const struct ah_flat *flat, size_t tensor);

/* The index of the tensor with that name; flat->n where there is none. */
size_t ah_flat_find(const struct ah_flat *flat, const char *name);

#endif
