/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints: those of a run in one folder, DIR/step-00000100 and so on: the newest whole one is found, the oldest go.
 *
 *     rc = ah_checkpoints_find(dir, &found, err);                            // --resume
 *     rc = ah_checkpoints_open(&checkpoints, &job, dir, &found, err);        // --save; zeroed for a run from the start
 *     rc = ah_checkpoints_resume(&job, &sink, &found, &position, err);       // --resume; `found.again`: start over
 *     rc = ah_checkpoints_save(checkpoints, &position, &source, &keep, &saved, err);
 *     ah_checkpoints_close(checkpoints);
 *
 * INVARIANTS
 * 1. At every moment, a kill included, the checkpoints in DIR are whole; while one is saved or removed, the one before
 *    it stays.
 * 2. One run at a time saves into DIR: it is locked until it is closed, or the process ends.
 * 3. Only what this module made is removed: folders named step-N.tmp that have its mark and nothing but files of its
 *    names, and checkpoints of the same signature that hold the files of their manifest and nothing else.
 * 4. Nothing is overwritten: DIR has no step beyond the one that the run goes on from. Later ones that were found damaged
 *    are renamed to step-N.damaged; they are never removed.
 *
 * One thread at a time uses an object.
 */
#ifndef AH_RUNTIME_TRAIN_CHECKPOINT_CHECKPOINTS_H
#define AH_RUNTIME_TRAIN_CHECKPOINT_CHECKPOINTS_H

#include "runtime/train/checkpoint/checkpoint.h"

#include <limits.h>
#include <stdbool.h>

struct ah_checkpoints;

/* What a run goes on from. Zeroed: it starts from step 0. */
struct ah_checkpoints_found {
    char path[PATH_MAX];     /* of the checkpoint; empty: the folder has none yet */
    char folder[PATH_MAX];   /* of checkpoints; empty where `path` was named itself */
    uint64_t step;           /* steps done, by the checkpoint's name; 0 where `path` was named itself */
    uint64_t newest_step;    /* of the newest in `folder`, damaged or not */
    struct ah_error damaged; /* what is wrong with the newest; code AH_OK: it is the one found */
    bool again;              /* see ah_checkpoints_resume() */
};

/* Finds what `path` means: a checkpoint itself, or the newest in a folder of them. If the newest is damaged as far as its
 * manifest and sizes tell, takes the newest older one whose files all have their sha256, and `ret_found->damaged` says
 * what is wrong with the newest. AH_E_IO: nothing is there, or it cannot be read. AH_E_DOCUMENT: the newest is damaged and
 * no older one is whole. */
int ah_checkpoints_find(const char *path, struct ah_checkpoints_found *ret_found, struct ah_error *err);

/* Loads what was found. A damage that only loading shows (AH_E_DOCUMENT) makes it look for an older whole one: if there is
 * one, `found` names it, `found->again` is true, and the caller starts over with it, as its step is another. A checkpoint
 * that was named itself has no substitute. Else as ah_checkpoint_load(). */
int ah_checkpoints_resume(const struct ah_checkpoint_job *job, const struct ah_checkpoint_sink *sink,
                          struct ah_checkpoints_found *found, struct ah_checkpoint_position *ret_position,
                          struct ah_error *err);

/* Opens a folder for saving, made where it is missing (its parent exists): locks it, removes what killed saves
 * left, and renames the damaged ones that were passed over to find `found`. `job` stays borrowed. AH_E_MISMATCH: it has
 * checkpoints of another signature, or of later steps. AH_E_IO: it cannot be made or written, or another run saves into it.
 * A folder that this made is removed again by ah_checkpoints_close() if it is still empty. The object is *owned*. */
int ah_checkpoints_open(struct ah_checkpoints **ret_checkpoints, const struct ah_checkpoint_job *job,
                        const char *folder, const struct ah_checkpoints_found *found, struct ah_error *err);

/* Which checkpoints stay. */
struct ah_checkpoints_keep {
    uint64_t newest;  /* so many of them; 0: all */
    uint64_t also[2]; /* steps that stay in addition */
    size_t n_also;
};

struct ah_checkpoints_saved {
    char path[PATH_MAX];
    char warning[AH_ERROR_TEXT_MAX]; /* empty, or why older ones are still there */
};

/* Saves, then removes all but those to keep. The errors of ah_checkpoint_save(); older ones are
 * untouched then. Saving a step that is there already does nothing. */
int ah_checkpoints_save(struct ah_checkpoints *checkpoints, const struct ah_checkpoint_position *position,
                        const struct ah_checkpoint_source *source, const struct ah_checkpoints_keep *keep,
                        struct ah_checkpoints_saved *ret_saved, struct ah_error *err);

/* Saves the weights of step `position->step` alone, as FOLDER/weights-only-STEP, for where a checkpoint finds no
 * room: a new run can begin with them, and none goes on from them. The errors of ah_checkpoint_save(). */
int ah_checkpoints_save_weights(struct ah_checkpoints *checkpoints,
                                const struct ah_checkpoint_position *position,
                                const struct ah_checkpoint_source *source, char ret_path[PATH_MAX],
                                struct ah_error *err);

/* The newest of those in FOLDER; 0: there is none. */
uint64_t ah_checkpoints_weights_alone(const char *folder, char ret_path[PATH_MAX]);

/* What saves to come need on disk, and what is free there. */
struct ah_checkpoints_room {
    uint64_t checkpoints; /* that will stand there at once, beyond those that do */
    uint64_t one_bytes;   /* of each */
    uint64_t needed_bytes;
    uint64_t free_bytes; /* UINT64_MAX: the file system does not tell */
};

/* Of `saves` to come, of which the newest `keep` stay (0: all): while one is saved, the one that it replaces is still
 * there. AH_E_IO: the folder cannot be listed; AH_E_MEMORY. */
int ah_checkpoints_find_room(const struct ah_checkpoints *checkpoints, uint64_t keep, uint64_t saves,
                             struct ah_checkpoints_room *ret_room, struct ah_error *err);

/* Unlocks. A folder that was made for this and has stayed empty is removed. NULL is fine. */
void ah_checkpoints_close(struct ah_checkpoints *checkpoints);

#endif
