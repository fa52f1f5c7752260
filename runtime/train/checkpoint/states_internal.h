/* SPDX-License-Identifier: Apache-2.0
 *
 * States: where the optimizer's states of each block lie in files.
 *
 * A file is vectors one behind another, nothing before, between or after them: of each block with something trained,
 * in the order of blocks, its masters (fp32), first and second moments (state dtype), each the flat vector of its
 * trained tensors, little-endian. A block is never cut between files. So a file can be written and read in one go, and
 * its size follows from its blocks.
 */
#ifndef AH_RUNTIME_TRAIN_CHECKPOINT_STATES_INTERNAL_H
#define AH_RUNTIME_TRAIN_CHECKPOINT_STATES_INTERNAL_H

#include "base/arena.h"
#include "runtime/train/checkpoint/checkpoint.h"
#include "schemas/checkpoint.h"

#include <stdbool.h>

struct ah_states_file {
    const char *name; /* "states.bin", or "states-00001-of-00003.bin" */
    uint64_t bytes;
};

struct ah_states {
    size_t n;
    struct ah_checkpoint_state *items; /* by block */
    size_t n_files;
    struct ah_states_file *files;
};

/* The states of a job and their files, in `arena`. AH_E_USAGE: the signature's patterns fit no tensor; AH_E_MEMORY. */
int ah_states_plan(const struct ah_checkpoint_job *job, struct ah_arena *arena, struct ah_states *ret_states,
                   struct ah_error *err);

/* Are these the same vectors, and do they lie as said above, whatever the files' names? AH_E_DOCUMENT names the field
 * of the manifest at `path` that says otherwise. */
int ah_states_check(const struct ah_states *states, const struct ah_checkpoint *manifest, const char *path,
                    struct ah_error *err);

/* The next piece of a block in the order of its file; begins from a zeroed one. false: there is none. */
bool ah_states_next(const struct ah_checkpoint_state *state, struct ah_checkpoint_piece *piece);

/* Bytes of a piece. */
size_t ah_states_piece_bytes(const struct ah_checkpoint_piece *piece);

#endif
