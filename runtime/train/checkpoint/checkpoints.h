/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints: those of a run in one folder, DIR/step-00000100 and so on: the newest is found, the oldest go.
 *
 *     rc = ah_checkpoints_resume(&job, &sink, dir, &position, err);         // --resume
 *     rc = ah_checkpoints_open(&checkpoints, &job, dir, position.step, err); // --save; 0 for a run from the start
 *     rc = ah_checkpoints_save(checkpoints, &position, &source, keep, &saved, err);
 *     ah_checkpoints_close(checkpoints);
 *
 * INVARIANTS
 * 1. At every moment, a kill included, the checkpoints in DIR are whole; while one is saved or removed, the one before
 *    it stays.
 * 2. One run at a time saves into DIR: it is locked until it is closed, or the process ends.
 * 3. Only what this module made is removed: folders named step-N.tmp that have its mark and nothing but files of its
 *    names, and checkpoints of the same signature that hold the files of their manifest and nothing else.
 * 4. Nothing is overwritten: DIR has no step beyond the one that the run goes on from.
 *
 * One thread at a time uses an object.
 */
#ifndef AH_RUNTIME_TRAIN_CHECKPOINT_CHECKPOINTS_H
#define AH_RUNTIME_TRAIN_CHECKPOINT_CHECKPOINTS_H

#include "runtime/train/checkpoint/checkpoint.h"

#include <limits.h>

struct ah_checkpoints;

/* Finds what `path` means: a checkpoint itself, or the newest in a folder of them; `ret_path` (PATH_MAX) is empty
 * where the folder has none yet. AH_E_IO: nothing is there, or it cannot be read. AH_E_DOCUMENT: the newest is no
 * whole checkpoint (no manifest, or a broken one); older ones are never taken silently, the sentence names the newest
 * that is whole. */
int ah_checkpoints_find(const char *path, char *ret_path, struct ah_error *err);

/* Finds and loads. A damaged one is not replaced by an older one either: the sentence names that. AH_E_IO: also where the
 * folder has none yet. Else as ah_checkpoint_load(). */
int ah_checkpoints_resume(const struct ah_checkpoint_job *job, const struct ah_checkpoint_sink *sink,
                          const char *path, struct ah_checkpoint_position *ret_position,
                          struct ah_error *err);

/* Opens a folder for saving, made where it is missing (its parent exists): locks it and removes what killed saves
 * left. The run has done `step` steps; `job` stays borrowed. AH_E_MISMATCH: it has checkpoints of another signature, or of
 * later steps. AH_E_IO: it cannot be made or written, or another run saves into it. The object is *owned*. */
int ah_checkpoints_open(struct ah_checkpoints **ret_checkpoints, const struct ah_checkpoint_job *job,
                        const char *folder, uint64_t step, struct ah_error *err);

struct ah_checkpoints_saved {
    char path[PATH_MAX];
    char warning[AH_ERROR_TEXT_MAX]; /* empty, or why older ones are still there */
};

/* Saves, then removes all but the newest `keep` (0: keeps all). The errors of ah_checkpoint_save(); older ones are
 * untouched then. Saving a step that is there already does nothing. */
int ah_checkpoints_save(struct ah_checkpoints *checkpoints, const struct ah_checkpoint_position *position,
                        const struct ah_checkpoint_source *source, uint64_t keep,
                        struct ah_checkpoints_saved *ret_saved, struct ah_error *err);

/* Unlocks. NULL is fine. */
void ah_checkpoints_close(struct ah_checkpoints *checkpoints);

#endif
