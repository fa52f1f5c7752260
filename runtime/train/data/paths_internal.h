/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths: lists the files that the user's path, folder or pattern names. Names in a folder or pattern are in the order
 * of their bytes, in every locale. It reads only the folder, not the files.
 *
 *     struct ah_paths files = {0};
 *     rc = ah_paths_find(&files, "data/train_*.bin", err);
 *     ah_paths_release(&files);
 */
#ifndef AH_RUNTIME_TRAIN_DATA_PATHS_INTERNAL_H
#define AH_RUNTIME_TRAIN_DATA_PATHS_INTERNAL_H

#include "base/error.h"

#include <stddef.h>

struct ah_paths {
    char **items; /* owned, as is each path */
    size_t count;
    size_t capacity;
};

/* Appends the files that `path` names. AH_E_IO: there are none; AH_E_USAGE: a folder without data, or one that mixes
 * held-out and other data; AH_E_MEMORY. After a failure some files may have been appended. */
int ah_paths_find(struct ah_paths *paths, const char *path, struct ah_error *err);

void ah_paths_release(struct ah_paths *paths);

#endif
