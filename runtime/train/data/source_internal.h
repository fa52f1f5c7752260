/* SPDX-License-Identifier: Apache-2.0
 *
 * Source: a regular file that was found once and must stay what it was, read through a few shared descriptors.
 *
 * A data set may have thousands of files, more than a process may open. `struct ah_sources` keeps those used last; one
 * that is opened again must be the file that was found: device, inode, size and time of change are asked at every use.
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
    size_t slot; /* where its descriptor was put, if it is still there */
};

struct ah_source_slot {
    const struct ah_source *source; /* NULL: free */
    int fd;                         /* owned */
    uint64_t used;                  /* number of its last use */
};

struct ah_sources {
    struct ah_source_slot slots[AH_DATASET_OPEN_FILES];
    uint64_t uses;
};

/* Looks at the file; `path` stays borrowed. AH_E_IO: missing, or no regular file. */
int ah_source_find(struct ah_source *ret_source, const char *path, struct ah_error *err);

/* A descriptor of it, valid until another source is used. AH_E_IO; AH_E_MISMATCH: not the file that was found. */
int ah_source_use(struct ah_sources *sources, struct ah_source *source, int *ret_fd, struct ah_error *err);

/* Reads exactly these bytes. The errors of ah_source_use(); AH_E_MISMATCH also where the file is shorter. */
int ah_source_read(struct ah_sources *sources, struct ah_source *source, uint64_t offset, void *ret_bytes,
                   size_t size, struct ah_error *err);

/* The same of a descriptor, for threads beside each other: 0, or errno; -1: the file ends before. */
int ah_source_pread(int fd, uint64_t offset, void *ret_bytes, size_t size);

/* The sentence for what ah_source_pread() returned. */
int ah_source_fail(const struct ah_source *source, int reason, struct ah_error *err);

/* AH_E_MISMATCH, with a sentence. */
int ah_source_changed(const struct ah_source *source, struct ah_error *err);

void ah_source_close_all(struct ah_sources *sources);

#endif
