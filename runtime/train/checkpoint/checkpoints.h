/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints: saves a run's checkpoints as DIR/step-00000100, finds the newest whole one, and removes old ones.
 *
 *     rc = ah_checkpoints_find(dir, &found, err);                            // --resume
 *     rc = ah_checkpoints_open(&checkpoints, &job, dir, &found, err);        // --save; `found` zeroed: a new run
 *     rc = ah_checkpoints_resume(&job, &sink, &found, &position, err);       // --resume; `found.again`: start over
 *     rc = ah_checkpoints_save(checkpoints, &position, &source, &keep, &saved, err);
 *     ah_checkpoints_close(checkpoints);
 *
 * INVARIANTS
 * 1. At every moment, even after a kill, the checkpoints in DIR are whole. While one is saved or removed, others stay.
 * 2. One run at a time saves into DIR: it is locked until it is closed, or the process ends.
 * 3. Only what this module made is removed: folders step-N.tmp with its mark and no other files, and checkpoints of the
 *    same signature with only the files of their manifest.
 * 4. Nothing is overwritten: DIR has no step later than the one from which the run resumes. Later ones that are damaged
 *    are renamed to step-N.damaged and never removed.
 *
 * One thread at a time uses an object.
 */
#ifndef AH_RUNTIME_TRAIN_CHECKPOINT_CHECKPOINTS_H
#define AH_RUNTIME_TRAIN_CHECKPOINT_CHECKPOINTS_H

#include "runtime/train/checkpoint/checkpoint_folder.h"

#include <limits.h>
#include <stdbool.h>

struct ah_checkpoints;

/* The checkpoint from which a run resumes. If zeroed, the run starts from step 0. */
struct ah_checkpoints_found {
    char path[PATH_MAX];   /* the checkpoint; empty: the folder has none yet */
    char folder[PATH_MAX]; /* the folder of checkpoints; empty if the user named the checkpoint itself */
    uint64_t step; /* steps done, as in the checkpoint's name; 0 if the user named the checkpoint itself */
    uint64_t newest_step; /* step of the newest checkpoint in `folder`, damaged or not */
    /* what is wrong with the newest checkpoint; code AH_OK: nothing, and `path` is the newest */
    struct ah_error damaged;
    bool again; /* the caller must start over: ah_checkpoints_resume() chose an older one */
};

/* Finds the checkpoint that `path` means: `path` itself, or the newest one in that folder. If manifest or sizes show
 * that the newest is damaged, takes the newest older one whose files all have their sha256. `ret_found->damaged` then
 * says what is wrong with the newest. AH_E_IO: `path` does not exist or cannot be read. AH_E_DOCUMENT: the newest is
 * damaged and no older one is whole. */
int ah_checkpoints_find(const char *path, struct ah_checkpoints_found *ret_found, struct ah_error *err);

/* Loads what was found. If only loading shows damage (AH_E_DOCUMENT), looks for an older whole checkpoint. If one
 * exists, sets `found` to it and `found->again` to true. Its step differs, so the caller must start over with it. A
 * checkpoint that the user named itself has no substitute. Other errors are those of ah_checkpoint_load(). */
int ah_checkpoints_resume(const struct ah_checkpoint_job *job, const struct ah_checkpoint_sink *sink,
                          struct ah_checkpoints_found *found, struct ah_checkpoint_position *ret_position,
                          struct ah_error *err);

/* Opens a folder for saving, or makes it if its parent exists. Locks the folder, removes leftovers of killed saves, and
 * renames damaged checkpoints newer than `found`. `job` stays borrowed. AH_E_MISMATCH: the folder has checkpoints of
 * another signature, or of later steps. AH_E_IO: the folder cannot be made or written, or another run saves into it.
 * The object is *owned*. */
int ah_checkpoints_open(struct ah_checkpoints **ret_checkpoints, const struct ah_checkpoint_job *job,
                        const char *folder, const struct ah_checkpoints_found *found, struct ah_error *err);

/* Which checkpoints are kept. */
struct ah_checkpoints_keep {
    uint64_t newest;  /* how many of the newest are kept; 0: all */
    uint64_t also[2]; /* steps that are kept in addition */
    size_t n_also;
};

struct ah_checkpoints_saved {
    char path[PATH_MAX];
    char warning[AH_ERROR_TEXT_MAX]; /* empty, or why older checkpoints could not be removed */
};

/* Saves a checkpoint, then removes all that need not be kept. Saving a step that already exists does nothing. Fails
 * with the errors of ah_checkpoint_save(); older checkpoints are then unchanged. */
int ah_checkpoints_save(struct ah_checkpoints *checkpoints, const struct ah_checkpoint_position *position,
                        const struct ah_checkpoint_source *source, const struct ah_checkpoints_keep *keep,
                        struct ah_checkpoints_saved *ret_saved, struct ah_error *err);

/* Saves only the weights of step `position->step`, as FOLDER/weights-only-STEP, if there is no room for a checkpoint. A
 * new run can begin with them, but no run can resume from them. Errors are those of ah_checkpoint_save(). */
int ah_checkpoints_save_weights(struct ah_checkpoints *checkpoints,
                                const struct ah_checkpoint_position *position,
                                const struct ah_checkpoint_source *source, char ret_path[PATH_MAX],
                                struct ah_error *err);

/* Returns the step of the newest weights-only folder in FOLDER; 0: there is none. */
uint64_t ah_checkpoints_weights_alone(const char *folder, char ret_path[PATH_MAX]);

/* The disk space that future saves need, and the free space. */
struct ah_checkpoints_room {
    uint64_t checkpoints; /* how many more checkpoints than now will exist at the same time */
    uint64_t one_bytes;   /* bytes of each */
    uint64_t needed_bytes;
    uint64_t free_bytes; /* UINT64_MAX: unknown */
};

/* Computes the room for `saves` more saves if the newest `keep` stay (0: all). During a save, the checkpoint to be
 * replaced still exists. AH_E_IO: the folder cannot be listed; AH_E_MEMORY. */
int ah_checkpoints_find_room(const struct ah_checkpoints *checkpoints, uint64_t keep, uint64_t saves,
                             struct ah_checkpoints_room *ret_room, struct ah_error *err);

/* Unlocks the folder, and removes it if ah_checkpoints_open() made it and it is empty. NULL is fine. */
void ah_checkpoints_close(struct ah_checkpoints *checkpoints);

#endif
