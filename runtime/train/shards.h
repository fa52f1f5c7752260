/* SPDX-License-Identifier: Apache-2.0
 *
 * Shards: which elements of a block each of several ranks keeps, if they train the whole model together
 * (docs/planning.md, "Shards").
 *
 * A vector of trained elements is cut by ah_flat_shard(). A rank's PART of the weights, kept if these are gathered or
 * on the host, has the rank's trained elements first, as many places as the largest rank needs. Its elements of the
 * vector of frozen tensors follow. So an update writes a stretch of the part, and tiles of the part are alike on all
 * ranks.
 */
#ifndef AH_RUNTIME_TRAIN_SHARDS_H
#define AH_RUNTIME_TRAIN_SHARDS_H

#include "runtime/train/addresses.h"

/* A run of elements that are contiguous in a rank's part and in the block's whole vector. */
struct ah_shards_run {
    uint64_t at;   /* index in the part */
    uint64_t full; /* index in the whole vector */
    uint64_t n;
};

/* Lists the runs in the stretch of a rank's part, ascending. Returns their number. */
size_t ah_shards_runs(const struct ah_addresses_block *block, uint64_t shards, uint64_t rank,
                      struct ah_stretch of_part, struct ah_shards_run ret_runs[AH_MODEL_TENSORS_MAX]);

/* Returns the index of a frozen tensor's first element in the vector of frozen tensors. */
uint64_t ah_shards_frozen_first(const struct ah_flat *flat, size_t tensor);

/* Returns the elements [first, first + n) of a tensor that a rank keeps in its part, counted in the tensor. Of a
 * trained tensor, these are the ones that it updates. */
struct ah_stretch ah_shards_of_tensor(const struct ah_flat *flat, size_t tensor, uint64_t shards,
                                      uint64_t rank, uint64_t first, uint64_t n);

#endif
