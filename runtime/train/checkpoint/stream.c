/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/train/checkpoint/stream_internal.h"

#include "base/file.h"
#include "schemas/document.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- sentences and names ---- */

int ah_stream_say(struct ah_error *err, int code, const char *path, const char *format, ...)
{
    char what[AH_ERROR_TEXT_MAX], shown[AH_DOCUMENT_NAME_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return ah_error_set(err, code, "%s: %s", ah_document_short_name(path, shown), what);
}

int ah_stream_fail(struct ah_error *err, const char *path, const char *done)
{
    char why[AH_FILE_REASON_MAX];
    return ah_stream_say(err, AH_E_IO, path, "cannot be %s: %s", done, ah_file_reason(path, errno, why));
}

int ah_stream_path(const char *folder, const char *name, char ret_path[PATH_MAX], struct ah_error *err)
{
    size_t length = strlen(folder);
    const char *slash = length && folder[length - 1] == '/' ? "" : "/";
    if (snprintf(ret_path, PATH_MAX, "%s%s%s", folder, slash, name) >= PATH_MAX)
        return ah_stream_say(err, AH_E_IO, folder, "the name is too long; choose a shorter one");
    return AH_OK;
}

void ah_stream_parent(const char *path, char ret_folder[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 1;
    if (slash == path)
        length = 1;
    snprintf(ret_folder, PATH_MAX, "%.*s", (int)length, slash ? path : ".");
}

/* ---- writing ---- */

static int reserve(const struct ah_stream *stream, uint64_t bytes, struct ah_error *err)
{
    int rc;
    if (bytes == 0)
        return AH_OK;
    do
        rc = fallocate(stream->descriptor, 0, 0, (off_t)bytes);
    while (rc && errno == EINTR);
    bool full = rc && (errno == ENOSPC || errno == EFBIG || errno == EDQUOT);
    return full ? ah_stream_fail(err, stream->path, "written") : AH_OK;
}

static int open_to_write(struct ah_stream *stream, const char *folder, const char *name, int flags,
                         struct ah_error *err)
{
    *stream = (struct ah_stream){.descriptor = -1, .writing = true};
    int rc = ah_stream_path(folder, name, stream->path, err);
    if (rc)
        return rc;
    stream->descriptor = open(stream->path, O_WRONLY | O_CLOEXEC | flags, 0666);
    return stream->descriptor < 0 ? ah_stream_fail(err, stream->path, "written") : AH_OK;
}

int ah_stream_join(struct ah_stream *ret_stream, const char *folder, const char *name, struct ah_error *err)
{
    int rc = open_to_write(ret_stream, folder, name, 0, err);
    ret_stream->unhashed = true;
    return rc;
}

int ah_stream_create(struct ah_stream *ret_stream, const char *folder, const char *name,
                     uint64_t reserve_bytes, struct ah_error *err)
{
    struct ah_stream *stream = ret_stream;
    int rc = open_to_write(stream, folder, name, O_CREAT | O_EXCL, err);
    if (rc)
        return rc;
    ah_sha256_init(&stream->hash);
    rc = reserve(stream, reserve_bytes, err);
    if (rc)
        ah_stream_abandon(stream);
    return rc;
}

int ah_stream_write(struct ah_stream *stream, const void *bytes, size_t size, struct ah_error *err)
{
    const char *at = bytes;
    size_t left = size;
    while (left) {
        ssize_t done = pwrite(stream->descriptor, at, left, (off_t)(stream->bytes + (size - left)));
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return ah_stream_fail(err, stream->path, "written");
        at += done;
        left -= (size_t)done;
    }
    if (!stream->unhashed)
        ah_sha256_update(&stream->hash, bytes, size);
    stream->bytes += size;
    return AH_OK;
}

/* Syncs a file. A kind of file that cannot be synced is no failure. */
static int sync_retrying(int descriptor)
{
    int rc;
    do
        rc = fsync(descriptor);
    while (rc && errno == EINTR);
    return rc && errno != EINVAL && errno != EROFS ? rc : 0;
}

int ah_stream_finish(struct ah_stream *stream, char ret_sha256[AH_SHA256_HEX_MAX], struct ah_error *err)
{
    unsigned char digest[AH_SHA256_BYTES];
    if (stream->writing && sync_retrying(stream->descriptor))
        return ah_stream_fail(err, stream->path, "written");
    int rc = close(stream->descriptor);
    stream->descriptor = -1;
    if (rc && errno != EINTR && stream->writing)
        return ah_stream_fail(err, stream->path, "written");
    if (stream->unhashed)
        return AH_OK;
    ah_sha256_finish(&stream->hash, digest);
    ah_sha256_hex(digest, ret_sha256);
    return AH_OK;
}

void ah_stream_abandon(struct ah_stream *stream)
{
    if (stream->descriptor >= 0)
        close(stream->descriptor);
    stream->descriptor = -1;
}

int ah_stream_sync_folder(const char *folder, struct ah_error *err)
{
    int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* a folder may be writable although it cannot be listed */
    if (descriptor < 0)
        return errno == EACCES ? AH_OK : ah_stream_fail(err, folder, "synced");
    int rc = sync_retrying(descriptor) ? ah_stream_fail(err, folder, "synced") : AH_OK;
    close(descriptor);
    return rc;
}

/* ---- reading ---- */

static int check_regular(const char *path, mode_t mode, struct ah_error *err)
{
    return S_ISREG(mode) ? AH_OK : ah_stream_say(err, AH_E_DOCUMENT, path, "is not a regular file");
}

int ah_stream_size(const char *folder, const char *name, uint64_t *ret_bytes, struct ah_error *err)
{
    char path[PATH_MAX];
    struct stat about;
    int rc = ah_stream_path(folder, name, path, err);
    if (rc)
        return rc;
    if (stat(path, &about))
        return errno == ENOENT
                   ? ah_stream_say(err, AH_E_DOCUMENT, path, "is missing, so the checkpoint is incomplete")
                   : ah_stream_fail(err, path, "read");
    rc = check_regular(path, about.st_mode, err);
    if (!rc)
        *ret_bytes = (uint64_t)about.st_size;
    return rc;
}

/* Opens the file for reading. Does not block if the name is that of a pipe. */
int ah_stream_open(struct ah_stream *ret_stream, const char *folder, const char *name, struct ah_error *err)
{
    struct ah_stream *stream = ret_stream;
    struct stat about;
    *stream = (struct ah_stream){.descriptor = -1};
    int rc = ah_stream_path(folder, name, stream->path, err);
    if (rc)
        return rc;
    stream->descriptor = open(stream->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (stream->descriptor < 0)
        return ah_stream_fail(err, stream->path, "read");
    rc = fstat(stream->descriptor, &about) ? ah_stream_fail(err, stream->path, "read")
                                           : check_regular(stream->path, about.st_mode, err);
    ah_sha256_init(&stream->hash);
    if (rc)
        ah_stream_abandon(stream);
    return rc;
}

/* Reads `size` bytes, or fewer if the file ends before. */
static int read_some(struct ah_stream *stream, void *bytes, size_t size, size_t *ret_got,
                     struct ah_error *err)
{
    size_t filled = 0;
    while (filled < size) {
        ssize_t got =
            pread(stream->descriptor, (char *)bytes + filled, size - filled, (off_t)(stream->bytes + filled));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return ah_stream_fail(err, stream->path, "read");
        if (got == 0)
            break;
        filled += (size_t)got;
    }
    if (!stream->unhashed)
        ah_sha256_update(&stream->hash, bytes, filled);
    stream->bytes += filled;
    *ret_got = filled;
    return AH_OK;
}

int ah_stream_read(struct ah_stream *stream, void *ret_bytes, size_t size, struct ah_error *err)
{
    size_t got = 0;
    int rc = read_some(stream, ret_bytes, size, &got, err);
    if (!rc && got < size)
        rc = ah_stream_say(err, AH_E_DOCUMENT, stream->path,
                           "ends at byte %" PRIu64 "; it became shorter while it was read", stream->bytes);
    return rc;
}

int ah_stream_digest(const char *folder, const char *name, void *scratch, size_t scratch_bytes,
                     uint64_t *ret_bytes, char ret_sha256[AH_SHA256_HEX_MAX], struct ah_error *err)
{
    struct ah_stream stream;
    size_t got = scratch_bytes;
    int rc = ah_stream_open(&stream, folder, name, err);
    if (rc)
        return rc;
    while (!rc && got == scratch_bytes)
        rc = read_some(&stream, scratch, scratch_bytes, &got, err);
    if (!rc)
        rc = ah_stream_finish(&stream, ret_sha256, err);
    if (!rc)
        *ret_bytes = stream.bytes;
    ah_stream_abandon(&stream);
    return rc;
}
