/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths: the files that a file, a folder or a pattern of the user means, in their order. Names in a folder or pattern
 * are ordered by their bytes, whatever the locale. Only the folder is read, not the files.
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
    char **items; /* owned, and each */
    size_t count;
    size_t capacity;
};

/* Appends what `path` means. AH_E_IO: nothing is there; AH_E_USAGE: a folder without data, or with held-out data beside
 * other; AH_E_MEMORY. After a failure some may have been appended. */
int ah_paths_find(struct ah_paths *paths, const char *path, struct ah_error *err);

void ah_paths_release(struct ah_paths *paths);

#endif
