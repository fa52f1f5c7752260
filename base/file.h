/* SPDX-License-Identifier: Apache-2.0
 *
 * Files: reading with a limit, and writing so that a reader sees the old or the new content, never half of it.
 *
 * `-` is standard input for reading; it is never opened for writing here (the command line prints).
 * Documents are read whole; data sets and checkpoints have separate readers.
 */
#ifndef AH_BASE_FILE_H
#define AH_BASE_FILE_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum { AH_FILE_REASON_MAX = 720 };

/* Writes to `out` why opening `path` failed with the errno `reason`, and returns `out`. If a symbolic link on the way
 * leads nowhere or back to itself, the text names the link and its target; otherwise it is strerror()'s. */
const char *ah_file_reason(const char *path, int reason, char out[AH_FILE_REASON_MAX]);

/* Refuses a pipe, socket or device with AH_E_IO, without waiting for it. Use it for files that a person did not name,
 * such as the config.json in a folder. Returns AH_OK if the path does not exist or is a folder; ah_file_read() reports
 * both. */
int ah_file_check_regular(const char *path, struct ah_error *err);

/* Appends the whole of `path` to `ret_bytes`. AH_E_IO for a missing file, a directory, a socket, or a pipe that gets no
 * writer within five seconds; AH_E_DOCUMENT for a file larger than `limit_bytes`. The sentence names the path. On
 * failure `ret_bytes` is unchanged. */
int ah_file_read(const char *path, size_t limit_bytes, struct ah_buffer *ret_bytes, struct ah_error *err);

/* Writes through a temporary file in the same folder, fsyncs it, renames it over `path` and fsyncs the folder. AH_E_IO
 * names the path. If anything up to the rename fails, the old file is kept. If only the last fsync fails, `path` has
 * all of the new content, and the sentence says that a crash of the machine may still bring the old content back. An
 * existing file keeps its mode; a new one gets 0666 less the umask. `path` may be a symbolic link (its target is
 * replaced), or a device or pipe (written in place, so half may be written on failure). If the process is killed, its
 * temporary file, ".autohete-PID-N.tmp", remains and may be deleted. */
int ah_file_write(const char *path, const void *bytes, size_t size, struct ah_error *err);

/* Writes everything to a descriptor, waiting if it would block. Returns 0 or an errno. */
int ah_file_write_all(int fd, const char *bytes, size_t size);

/* True if `a` and `b` name one file, so that writing to one may change the other. Follows hard and symbolic links, and
 * compares names of files that do not exist yet. Devices and pipes are never the same file. */
bool ah_file_same(const char *a, const char *b);

#endif
