/* SPDX-License-Identifier: Apache-2.0
 *
 * Leftover: finds folders in which a save was killed, and removes folders of checkpoints.
 *
 * A save first makes its mark, AH_LEFTOVER_MARK, which later becomes the manifest. A folder is ours if it is empty, or
 * if it has a mark or manifest, and all other entries are regular files with names that a save gives. Removal deletes
 * mark and manifest last, so that a killed removal can be finished.
 */
#ifndef AH_RUNTIME_TRAIN_CHECKPOINT_LEFTOVER_INTERNAL_H
#define AH_RUNTIME_TRAIN_CHECKPOINT_LEFTOVER_INTERNAL_H

#include "base/arena.h"
#include "base/error.h"
#include "runtime/train/checkpoint/checkpoint_folder.h"

#include <stdbool.h>

#define AH_LEFTOVER_ENDING ".tmp"
#define AH_LEFTOVER_MARK   AH_CHECKPOINT_MANIFEST ".part"

/* The names in a folder, in `arena`, without "." and "..". */
struct ah_leftover_names {
    size_t n;
    const char **items;
};

/* Lists a folder. AH_E_IO, AH_E_MEMORY. */
int ah_leftover_list(const char *folder, struct ah_arena *arena, struct ah_leftover_names *ret_names,
                     struct ah_error *err);

/* Sets `ret_ours` to whether the folder is ours, as defined above. A link to a folder is not. */
int ah_leftover_ours(const char *folder, bool *ret_ours, struct ah_error *err);

/* Removes the folder if it is ours. Otherwise leaves it and sets `ret_removed` to false. AH_E_IO: a part remains. */
int ah_leftover_remove(const char *folder, bool *ret_removed, struct ah_error *err);

#endif
