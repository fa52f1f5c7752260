/* SPDX-License-Identifier: Apache-2.0
 *
 * States: a model's training states, cut into shards, with the size of each.
 *
 * A shard is (block, slice, kind). A tied table is a separate row after the last block, and not part of block 0,
 * because every stage with the embedding or the head has all of it. The index of a shard is
 *
 *     (row * slices + slice) * AH_SHARD_KINDS + kind
 *
 * Slice s of n of a vector is [floor(s bytes / n), floor((s + 1) bytes / n)), so the slices add up to the vector. No
 * GPU needs a shard of no bytes (the master in fp32, the moments of a frozen block). Values that follow from the step's
 * number (the position in the data, random numbers) are not states.
 */
#ifndef AH_PLANNER_RECOVERY_STATES_H
#define AH_PLANNER_RECOVERY_STATES_H

#include "base/arena.h"
#include "base/error.h"
#include "schemas/inventory.h"
#include "schemas/model.h"
#include "schemas/plan.h"

struct ah_states {
    size_t n_blocks;
    size_t slices;
    bool tied;
    uint64_t (*bytes)[AH_SHARD_KINDS]; /* (n_blocks + 1): bytes of all slices */
};

struct ah_shard {
    size_t row; /* block; n_blocks: the tied table */
    size_t slice;
    enum ah_shard_kind kind;
};

/* Makes the states, in `arena`. AH_E_USAGE, AH_E_DOCUMENT: as ah_job_init(). */
int ah_states_init(struct ah_states *ret_states, const struct ah_model *model,
                   const struct ah_plan_training *training, size_t slices, struct ah_arena *arena,
                   struct ah_error *err);

size_t ah_states_shards(const struct ah_states *states);
size_t ah_states_index(const struct ah_states *states, struct ah_shard shard);
struct ah_shard ah_states_shard(const struct ah_states *states, size_t index);
uint64_t ah_states_bytes(const struct ah_states *states, size_t index);

/* True if the blocks include this row. The tied table belongs to the first and to the last block. */
bool ah_states_covers(const struct ah_states *states, uint64_t first_block, uint64_t blocks, size_t row);

#endif
