/* SPDX-License-Identifier: Apache-2.0
 *
 * States: where the optimizer's states of each block lie in files.
 *
 * A file has vectors one behind another, with nothing before, between or after them. Each block with something trained,
 * in order, has its masters (fp32), then first and second moments (state dtype). Each vector is the flat vector of the
 * block's trained tensors, little-endian. A block is never split between files. So a file is written and read in one
 * go, and its blocks give its size.
 */
#ifndef AH_RUNTIME_TRAIN_CHECKPOINT_CHECKPOINT_STATES_INTERNAL_H
#define AH_RUNTIME_TRAIN_CHECKPOINT_CHECKPOINT_STATES_INTERNAL_H

#include "base/arena.h"
#include "runtime/train/checkpoint/checkpoint_folder.h"
#include "schemas/checkpoint.h"

#include <stdbool.h>

struct ah_states_file {
    const char *name; /* "states.bin", or "states-00001-of-00003.bin" */
    uint64_t bytes;
};

struct ah_checkpoint_states {
    size_t n;
    struct ah_checkpoint_state *items; /* by block */
    size_t n_files;
    struct ah_states_file *files;
};

/* The states of a job and their files, in `arena`. AH_E_USAGE: the signature's patterns fit no tensor; AH_E_MEMORY. */
int ah_states_plan(const struct ah_checkpoint_job *job, struct ah_arena *arena,
                   struct ah_checkpoint_states *ret_states, struct ah_error *err);

/* Does the manifest have these vectors, laid out as above, with any names of files? AH_E_DOCUMENT names the field of
 * the manifest at `path` that differs. */
int ah_states_check(const struct ah_checkpoint_states *states, const struct ah_checkpoint *manifest,
                    const char *path, struct ah_error *err);

/* Advances to the next piece of a block, in the order of its file; begins from a zeroed one. False: there is none. */
bool ah_states_next(const struct ah_checkpoint_state *state, struct ah_checkpoint_piece *piece);

/* Bytes of a piece. */
size_t ah_states_piece_bytes(const struct ah_checkpoint_piece *piece);

#endif
