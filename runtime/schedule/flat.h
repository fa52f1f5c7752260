/* SPDX-License-Identifier: Apache-2.0
 *
 * Flat: the position of each tensor in its block's flat vectors (docs/layout.md).
 *
 * A block has two vectors: one of all its parameters, for weights, and one of the trained parameters, for gradients and
 * optimizer states. Tiles are pieces of the second. Both have their tensors in the order of ah_model_tensors(). Tensors
 * begin at multiples of AH_FLAT_ALIGN elements, and the vector ends at one. Padding between them is zero.
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
    uint64_t first;    /* index of its first element in the vector of all parameters */
    bool trained;
    uint64_t trained_first; /* index of its first element in the vector of trained parameters; 0 if frozen */
};

struct ah_flat {
    size_t n;
    struct ah_flat_tensor tensors[AH_MODEL_TENSORS_MAX];
    uint64_t elements; /* length of the vector, with padding */
    uint64_t trained_elements;
    uint64_t parameters; /* without padding */
    uint64_t trained_parameters;
};

/* Returns the vectors of a block of this kind. Bit i of `trained` is set if tensor i is trained; others are ignored. */
struct ah_flat ah_flat_of(const struct ah_model *model, enum ah_block_kind kind, uint32_t trained);

/* A run of trained elements that are contiguous in both vectors, with the padding after each tensor. Either all of them
 * decay or none does. An update has one op for each run. */
struct ah_run_of_elements {
    uint64_t first, end; /* in the trained vector */
    uint64_t full_first; /* index of `first` in the full vector */
    bool decay;
};

/* Lists all runs in ascending order. Returns their number. */
size_t ah_flat_runs(const struct ah_flat *flat, struct ah_run_of_elements ret_runs[AH_MODEL_TENSORS_MAX]);

/* The elements [first, end) of the vector of trained parameters. */
struct ah_stretch {
    uint64_t first, end;
};

/* Returns the elements of a tensor, with the padding after it. The stretch is empty if the tensor is frozen. */
struct ah_stretch ah_flat_stretch(const struct ah_flat *flat, size_t tensor);

/* Returns the elements that one of `shards` ranks owns of a vector: equal parts, cut at multiples of AH_PLAN_TILE_UNIT.
 * The last parts may be smaller, or empty. */
struct ah_stretch ah_flat_shard(uint64_t elements, uint64_t shards, uint64_t rank);

/* Returns the index of the tensor with that name; flat->n if there is none. */
size_t ah_flat_find(const struct ah_flat *flat, const char *name);

#endif
