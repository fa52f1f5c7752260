/* SPDX-License-Identifier: Apache-2.0
 *
 * States: the place of each block's optimizer states in files.
 *
 * A file consists of vectors, with nothing before, between or after them. It has, for each block with trained tensors,
 * in order, masters (fp32), then first moments, then second moments (both state dtype). Each vector is the flat vector
 * of the block's trained tensors, little-endian. A block is never split between files. So a file is written and read in
 * one pass, and the size of a file follows from its blocks.
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
    uint32_t *trained; /* by block: bit i is set if tensor i is trained */
};

/* Returns the masks of the tensors that a job's files of weights have, if they are those of an adapter; else NULL. */
static inline const uint32_t *ah_states_adapter(const struct ah_checkpoint_job *job,
                                                const struct ah_checkpoint_states *states)
{
    return job->model->lora ? states->trained : NULL;
}

/* Plans a job's states and files, in `arena`. AH_E_USAGE: the signature's patterns match no tensor; AH_E_MEMORY. */
int ah_states_plan(const struct ah_checkpoint_job *job, struct ah_arena *arena,
                   struct ah_checkpoint_states *ret_states, struct ah_error *err);

/* Checks that the manifest has these states at these offsets; file names may differ. AH_E_DOCUMENT names the wrong
 * field of the manifest at `path`. */
int ah_states_check(const struct ah_checkpoint_states *states, const struct ah_checkpoint *manifest,
                    const char *path, struct ah_error *err);

/* Advances to the next piece of a block, in file order, starting with a zeroed piece. Returns false at the end. */
bool ah_states_next(const struct ah_checkpoint_state *state, struct ah_checkpoint_piece *piece);

/* Hands out the weights of a checkpoint's folder. An adapter's are all trained, so states have them, and the frozen
 * weights are those of the base model, which the caller has loaded. */
int ah_states_load_frozen(const struct ah_checkpoint_job *job, const struct ah_checkpoint_sink *sink,
                          const char *folder, struct ah_error *err);

size_t ah_states_piece_bytes(const struct ah_checkpoint_piece *piece);

#endif
