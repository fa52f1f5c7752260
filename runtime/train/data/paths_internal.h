/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths: lists the files named by the user's path, folder or pattern. Names from a folder or pattern are in the order
 * of their bytes, in every locale. Only folders are read, no files.
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
    char **items; /* owned, and so is each path */
    size_t count;
    size_t capacity;
};

/* Appends the files that `path` names. AH_E_IO: there are none; AH_E_USAGE: a folder has no data, or both held-out and
 * other data; AH_E_MEMORY. After a failure, some files may have been appended. */
int ah_paths_find(struct ah_paths *paths, const char *path, struct ah_error *err);

void ah_paths_release(struct ah_paths *paths);

#endif
