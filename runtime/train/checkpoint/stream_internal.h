/* SPDX-License-Identifier: Apache-2.0
 *
 * Stream: a file written or read once from beginning to end, hashed as it passes.
 *
 *     rc = ah_stream_create(&stream, folder, "states.bin", bytes, err);      // or ah_stream_open()
 *     rc = ah_stream_write(&stream, values, size, err);                      // or ah_stream_read()
 *     rc = ah_stream_finish(&stream, digest, err);
 *     ah_stream_abandon(&stream);                                            // in every case
 *
 * Several streams may write one existing file, unhashed, each its own ranges:
 *
 *     rc = ah_stream_join(&stream, folder, "states.bin", err);
 *     stream.bytes = offset;                                                 // offset of the next write or read
 *
 * The module also has other operations on folders and files of checkpoints. Error messages begin with the path.
 */
#ifndef AH_RUNTIME_TRAIN_CHECKPOINT_STREAM_INTERNAL_H
#define AH_RUNTIME_TRAIN_CHECKPOINT_STREAM_INTERNAL_H

#include "base/error.h"
#include "base/sha256.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ah_stream {
    char path[PATH_MAX];
    int descriptor; /* -1: closed */
    bool writing;
    bool unhashed;  /* no digest, because the file is not written from beginning to end */
    uint64_t bytes; /* number of bytes passed, and so the offset of the next byte */
    struct ah_sha256 hash;
};

/* Makes a new file. If the file system can, reserves `reserve_bytes`, so that a full disk shows before anything is
 * written. AH_E_IO. The stream is closed after a failure. */
int ah_stream_create(struct ah_stream *ret_stream, const char *folder, const char *name,
                     uint64_t reserve_bytes, struct ah_error *err);

/* Opens an existing file for writing. AH_E_IO. */
int ah_stream_join(struct ah_stream *ret_stream, const char *folder, const char *name, struct ah_error *err);

/* Opens an existing regular file for reading. AH_E_IO; AH_E_DOCUMENT: it is not a regular file. */
int ah_stream_open(struct ah_stream *ret_stream, const char *folder, const char *name, struct ah_error *err);

int ah_stream_write(struct ah_stream *stream, const void *bytes, size_t size, struct ah_error *err);

/* Reads exactly `size` bytes. AH_E_DOCUMENT: the file ends earlier. */
int ah_stream_read(struct ah_stream *stream, void *ret_bytes, size_t size, struct ah_error *err);

/* Closes the file; if it was written, syncs it first. The digest covers all bytes passed; NULL if unhashed. */
int ah_stream_finish(struct ah_stream *stream, char ret_sha256[AH_SHA256_HEX_MAX], struct ah_error *err);

/* Closes the file if it is open. The file stays. */
void ah_stream_abandon(struct ah_stream *stream);

/* Finds the size of a regular file. AH_E_DOCUMENT: it is missing or not a regular file; AH_E_IO. */
int ah_stream_size(const char *folder, const char *name, uint64_t *ret_bytes, struct ah_error *err);

/* Finds size and sha256 of a file, reading it through `scratch`. */
int ah_stream_digest(const char *folder, const char *name, void *scratch, size_t scratch_bytes,
                     uint64_t *ret_bytes, char ret_sha256[AH_SHA256_HEX_MAX], struct ah_error *err);

/* Writes "FOLDER/NAME". AH_E_IO: the path is too long. */
int ah_stream_path(const char *folder, const char *name, char ret_path[PATH_MAX], struct ah_error *err);

/* Syncs the list of names in the folder. AH_E_IO. */
int ah_stream_sync_folder(const char *folder, struct ah_error *err);

/* Writes the folder that contains `path`; "." if `path` has no folder. */
void ah_stream_parent(const char *path, char ret_folder[PATH_MAX]);

/* Set the error "PATH: cannot be <done>: <errno>" (AH_E_IO), or any message after a path. A long path is cut. */
int ah_stream_fail(struct ah_error *err, const char *path, const char *done);
int ah_stream_say(struct ah_error *err, int code, const char *path, const char *format, ...) AH_PRINTF(4, 5);

#endif
