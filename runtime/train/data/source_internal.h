/* SPDX-License-Identifier: Apache-2.0
 *
 * Source: a regular file that must not change after it was found. Sources are read through a few shared descriptors.
 *
 * A data set may have more files than a process may open, so `struct ah_file_sources` keeps only the most recently used
 * files open. Every use compares device, inode, size and time of change, to detect that a file was changed or replaced.
 *
 *     rc = ah_source_find(&source, path, err);
 *     rc = ah_source_read(&sources, &source, offset, bytes, size, err);
 *     ah_source_close_all(&sources);
 */
#ifndef AH_RUNTIME_TRAIN_DATA_SOURCE_INTERNAL_H
#define AH_RUNTIME_TRAIN_DATA_SOURCE_INTERNAL_H

#include "base/error.h"
#include "runtime/train/data/dataset.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct ah_source {
    const char *path; /* borrowed */
    uint64_t bytes;
    dev_t device;
    ino_t inode;
    struct timespec changed;
    size_t slot; /* slot in which its descriptor was stored; another source may be there now */
};

struct ah_source_slot {
    const struct ah_source *source; /* NULL: free */
    int fd;                         /* owned */
    uint64_t used;                  /* number of the latest use */
};

struct ah_file_sources {
    struct ah_source_slot slots[AH_DATASET_OPEN_FILES];
    uint64_t uses;
};

/* Finds the file and saves its properties; `path` stays borrowed. AH_E_IO: it is missing, or is no regular file. */
int ah_source_find(struct ah_source *ret_source, const char *path, struct ah_error *err);

/* Gives a descriptor, valid until another source is used. AH_E_IO; AH_E_MISMATCH: the file changed meanwhile. */
int ah_source_use(struct ah_file_sources *sources, struct ah_source *source, int *ret_fd,
                  struct ah_error *err);

/* Reads exactly `size` bytes. Errors are those of ah_source_use(); AH_E_MISMATCH also if the file is shorter. */
int ah_source_read(struct ah_file_sources *sources, struct ah_source *source, uint64_t offset,
                   void *ret_bytes, size_t size, struct ah_error *err);

/* Reads from a descriptor; several threads may call it at once. Returns 0, errno, or -1 if the file is too short. */
int ah_source_pread(int fd, uint64_t offset, void *ret_bytes, size_t size);

/* Sets the error for a result of ah_source_pread(). */
int ah_source_fail(const struct ah_source *source, int reason, struct ah_error *err);

/* Sets and returns AH_E_MISMATCH: the file changed. */
int ah_source_changed(const struct ah_source *source, struct ah_error *err);

void ah_source_close_all(struct ah_file_sources *sources);

#endif
