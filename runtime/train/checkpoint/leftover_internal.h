/* SPDX-License-Identifier: Apache-2.0
 *
 * Leftover: folders that a save was killed in, and how a checkpoint's folder is removed.
 *
 * A save makes its mark first, AH_LEFTOVER_MARK, which becomes the manifest. A folder is ours if it has the mark or
 * the manifest and, beside them, only regular files of the names that a save gives; or if it is empty. Removing takes
 * mark and manifest last, so that a removal that was killed can go on.
 */
#ifndef AH_RUNTIME_TRAIN_CHECKPOINT_LEFTOVER_INTERNAL_H
#define AH_RUNTIME_TRAIN_CHECKPOINT_LEFTOVER_INTERNAL_H

#include "base/arena.h"
#include "base/error.h"
#include "runtime/train/checkpoint/checkpoint.h"

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

/* Is the folder ours, as said above? A link to a folder is not. */
int ah_leftover_ours(const char *folder, bool *ret_ours, struct ah_error *err);

/* Removes the folder if it is ours; else leaves it as it is and says so by `ret_removed`. AH_E_IO: a part of it cannot
 * be removed. */
int ah_leftover_remove(const char *folder, bool *ret_removed, struct ah_error *err);

#endif
