/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing first resolves what `path` is:
 *
 *     one of our open descriptors (/dev/stdout, /dev/fd/N)   written to a duplicate of it: its offset moves on
 *     a device, a pipe, a socket                             written in place
 *     a symbolic link                                        its target, followed link by link, is replaced
 *     a regular file, or nothing                             replaced by rename
 *
 * The temporary file has a name from the start. With O_TMPFILE no file would remain if we are killed, but linkat(2)
 * cannot replace an existing file by a file without a name.
 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_STEP_BYTES = 65536, LINKS_MAX = 40, TEMPORARIES_MAX = 1000, WRITER_WAIT_MS = 5000 };

/* Returns the path as error messages show it: at their beginning, as in messages about contents of files (schemas/). */
static const char *shown(const char *path)
{
    return *path ? path : "''";
}

const char *ah_file_reason(const char *path, int reason, char out[AH_FILE_REASON_MAX])
{
    char part[PATH_MAX], target[PATH_MAX];
    struct stat about;
    snprintf(out, AH_FILE_REASON_MAX, "%s", strerror(reason));
    if ((reason != ENOENT && reason != ELOOP) || strlen(path) >= sizeof part)
        return out;
    for (size_t end = 1; *path && end <= strlen(path); end++) {
        if (path[end] && path[end] != '/')
            continue;
        snprintf(part, sizeof part, "%.*s", (int)end, path);
        ssize_t length = readlink(part, target, sizeof target - 1);
        if (length < 0 || !stat(part, &about))
            continue;
        target[length] = '\0';
        snprintf(out, AH_FILE_REASON_MAX, "the link '%.300s' to '%.300s' leads %s", part, target,
                 errno == ELOOP ? "back to itself" : "nowhere");
        break;
    }
    return out;
}

static int fail_with_errno(struct ah_error *err, const char *done, const char *path)
{
    char why[AH_FILE_REASON_MAX];
    return ah_error_set(err, AH_E_IO, "%s: cannot be %s: %s", shown(path), done,
                        ah_file_reason(path, errno, why));
}

static int too_large(struct ah_error *err, const char *path, size_t limit_bytes)
{
    return ah_error_set(err, AH_E_DOCUMENT,
                        "%s: is larger than the limit of %zu bytes; is it the right file?", path,
                        limit_bytes);
}

/* Opens a file for reading. Refuses folders, and regular files that are too large, without reading them. */
static int open_read(const char *path, size_t limit_bytes, int *ret_fd, struct ah_error *err)
{
    struct stat about;
    if (!stat(path, &about) && S_ISSOCK(about.st_mode))
        return ah_error_set(err, AH_E_IO, "%s: is a socket; name a file", path);
    int fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
                               : fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        return fail_with_errno(err, "read", path);
    int rc = AH_OK;
    if (fstat(fd, &about))
        rc = fail_with_errno(err, "read", path);
    else if (S_ISDIR(about.st_mode))
        rc = ah_error_set(err, AH_E_IO, "%s: is a folder; name a file in it", path);
    else if (S_ISREG(about.st_mode) && about.st_size > 0 && (uintmax_t)about.st_size > limit_bytes)
        rc = too_large(err, path, limit_bytes);
    if (rc)
        close(fd);
    else
        *ret_fd = fd;
    return rc;
}

/* True if `fd` can be read or is at its end within this many milliseconds (-1: no limit). */
static bool await_input(int fd, int milliseconds)
{
    return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, milliseconds) != 0;
}

/* Reads everything. If nothing was read from a pipe, its end means either that the writer wrote nothing, or that there
 * was no writer yet. In the latter case, waits for a writer, with a time limit. */
static int read_all(int fd, const char *path, size_t limit_bytes, struct ah_buffer *bytes,
                    struct ah_error *err)
{
    size_t start = bytes->size;
    bool waited = false, in_vain = false;
    for (;;) {
        if (!ah_buffer_reserve(bytes, READ_STEP_BYTES))
            return ah_error_memory(err);
        ssize_t got = read(fd, bytes->data + bytes->size, READ_STEP_BYTES);
        if (got < 0 && errno == EAGAIN)
            await_input(fd, -1);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got < 0)
            return fail_with_errno(err, "read", path);
        if (got == 0 && in_vain)
            return ah_error_set(
                err, AH_E_IO, "%s: is a pipe that nothing writes to; start its writer, or name a file", path);
        if (got == 0 && bytes->size == start && !waited) {
            waited = true;
            in_vain = !await_input(fd, WRITER_WAIT_MS);
            continue;
        }
        if (got == 0)
            break;
        in_vain = false;
        bytes->size += (size_t)got;
        if (bytes->size - start > limit_bytes)
            return too_large(err, path, limit_bytes);
    }
    bytes->data[bytes->size] = '\0';
    return AH_OK;
}

int ah_file_check_regular(const char *path, struct ah_error *err)
{
    struct stat about;
    if (stat(path, &about) || S_ISREG(about.st_mode) || S_ISDIR(about.st_mode))
        return AH_OK;
    return ah_error_set(err, AH_E_IO, "%s: is not a regular file; put a file in its place", path);
}

int ah_file_read(const char *path, size_t limit_bytes, struct ah_buffer *ret_bytes, struct ah_error *err)
{
    if (ret_bytes->failed)
        return ah_error_memory(err);
    int fd = -1;
    int rc = open_read(path, limit_bytes, &fd, err);
    if (rc)
        return rc;
    size_t before = ret_bytes->size;
    rc = read_all(fd, path, limit_bytes, ret_bytes, err);
    close(fd);
    if (rc) {
        ret_bytes->failed = false;
        ret_bytes->size = before;
        if (ret_bytes->data)
            ret_bytes->data[before] = '\0';
    }
    return rc;
}

/* Writes everything, through interruptions, short writes and descriptors that would block. */
static int write_all(int fd, const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size > 0) {
        ssize_t put = write(fd, at, size);
        if (put < 0 && errno == EAGAIN) {
            struct pollfd ready = {.fd = fd, .events = POLLOUT};
            poll(&ready, 1, -1);
        } else if (put < 0 && errno != EINTR) {
            return -1;
        } else if (put > 0) {
            at += put;
            size -= (size_t)put;
        }
    }
    return 0;
}

/* Calls close() and reports errors, because some file systems report a full disk only then. On Linux, even an
 * interrupted close() closes the descriptor. */
static int close_reporting(int fd)
{
    return close(fd) && errno != EINTR ? -1 : 0;
}

static int write_in_place(int fd, const char *path, const void *bytes, size_t size, struct ah_error *err)
{
    if (fd < 0)
        return fail_with_errno(err, "written", path);
    int rc = write_all(fd, bytes, size) ? fail_with_errno(err, "written", path) : AH_OK;
    if (close_reporting(fd) && !rc)
        rc = fail_with_errno(err, "written", path);
    return rc;
}

/* Writes the folder of `path` to `folder` (PATH_MAX bytes). */
static void folder_of(const char *path, char *folder)
{
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", path);
    snprintf(folder, PATH_MAX, "%s", dirname(copy));
}

/* Returns N if `path`, with its folder resolved, is /proc/<us>/fd/N (/dev/fd/N, or a link in /dev); otherwise -1. */
static int descriptor_of(const char *path)
{
    char folder[PATH_MAX], real[PATH_MAX], own[64];
    folder_of(path, folder);
    snprintf(own, sizeof own, "/proc/%d/fd", (int)getpid());
    if (!realpath(folder, real) || strcmp(real, own))
        return -1;
    const char *name = strrchr(path, '/');
    char *end;
    long number = strtol(name + 1, &end, 10);
    return end == name + 1 || *end || number < 0 || number > INT_MAX ? -1 : (int)number;
}

/* Replaces `path`, in place, by the target of the link that it names. Returns 1 if it was a link, 0 if not, -1 with
 * errno. */
static int follow_link(char path[PATH_MAX])
{
    char target[PATH_MAX], folder[PATH_MAX];
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length < 0)
        return errno == EINVAL || errno == ENOENT ? 0 : -1;
    target[length] = '\0';
    folder_of(path, folder);
    int put = target[0] == '/' ? snprintf(path, PATH_MAX, "%s", target)
                               : snprintf(path, PATH_MAX, "%s/%s", folder, target);
    if (put >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return 1;
}

/* Resolves links. `ret_fd` is a duplicate if the path leads to one of our open descriptors, otherwise -1. */
static int resolve(char path[PATH_MAX], int *ret_fd)
{
    *ret_fd = -1;
    for (int links = 0; links < LINKS_MAX; links++) {
        int descriptor = descriptor_of(path);
        if (descriptor >= 0) {
            *ret_fd = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
            return *ret_fd < 0 ? -1 : 0;
        }
        int followed = follow_link(path);
        if (followed <= 0)
            return followed;
    }
    errno = ELOOP;
    return -1;
}

/* Creates a temporary file in `folder` and writes its name to `temporary`. The file is new, so the umask applies. */
static int open_temporary(const char *folder, char temporary[PATH_MAX])
{
    for (int i = 0; i < TEMPORARIES_MAX; i++) {
        if (snprintf(temporary, PATH_MAX, "%s/.autohete-%d-%d.tmp", folder, (int)getpid(), i) >= PATH_MAX) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

static int sync_retrying(int fd)
{
    int rc;
    do
        rc = fsync(fd);
    while (rc && errno == EINTR);
    return rc && errno != EINVAL && errno != EROFS ? rc : 0; /* EINVAL, EROFS: such files cannot be synced */
}

static int sync_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == EACCES ? 0 : -1; /* EACCES: we may write to the folder but not list it */
    int rc = sync_retrying(fd);
    close(fd);
    return rc;
}

/* Gives the new file the mode of the file it replaces and, if we may, its owner. */
static int keep_identity(int fd, const struct stat *old)
{
    struct stat now;
    if (fstat(fd, &now))
        return -1;
    if ((now.st_uid != old->st_uid || now.st_gid != old->st_gid) && fchown(fd, old->st_uid, old->st_gid))
        errno = 0; /* we may not give the file away, so it belongs to the writer, as with any editor */
    return fchmod(fd, old->st_mode & 0777);
}

/* Writes, syncs and closes an open temporary file. */
static int fill_temporary(int fd, const struct stat *old, const void *bytes, size_t size)
{
    int rc = (old && keep_identity(fd, old)) || write_all(fd, bytes, size) || sync_retrying(fd) ? -1 : 0;
    int reason = errno;
    if (close_reporting(fd) && !rc)
        return -1;
    errno = reason;
    return rc;
}

/* Replaces a file. `real` is `path` with its links followed; `old` (optional) describes the existing file. */
static int replace_file(const char *path, const char *real, const struct stat *old, const void *bytes,
                        size_t size, struct ah_error *err)
{
    char folder[PATH_MAX], temporary[PATH_MAX];
    folder_of(real, folder);
    if (old && faccessat(AT_FDCWD, real, W_OK, AT_EACCESS))
        return fail_with_errno(err, "written", path);
    int fd = open_temporary(folder, temporary);
    int reason = errno == ENOENT ? EPERM : errno; /* no files can be made in such a folder, like /proc */
    if (fd < 0 && errno == ENOENT && faccessat(AT_FDCWD, folder, F_OK, AT_EACCESS))
        return ah_error_set(err, AH_E_IO, "%s: the folder '%s' does not exist; create it first", path,
                            folder);
    if (fd < 0)
        return ah_error_set(err, AH_E_IO, "%s: cannot create a file in the folder '%s': %s; choose another",
                            path, folder, strerror(reason));
    if (fill_temporary(fd, old, bytes, size) || rename(temporary, real)) {
        int rc = fail_with_errno(err, "written", path);
        unlink(temporary);
        return rc;
    }
    if (sync_folder(folder))
        return ah_error_set(err, AH_E_IO,
                            "%s: was written, but a crash now may lose it: cannot sync its folder: %s", path,
                            strerror(errno));
    return AH_OK;
}

int ah_file_write(const char *path, const void *bytes, size_t size, struct ah_error *err)
{
    char real[PATH_MAX];
    struct stat about;
    int fd;
    size_t length = strlen(path);
    if (!strcmp(path, "-"))
        return ah_error_set(err, AH_E_USAGE, "'-' is standard output, not a file; name a file");
    if (length == 0 || path[length - 1] == '/')
        return ah_error_set(err, AH_E_IO, "%s: does not name a file", shown(path));
    if (length >= PATH_MAX)
        return ah_error_set(err, AH_E_IO, "%.64s...: the name is too long", path);
    memcpy(real, path, length + 1);
    if (resolve(real, &fd))
        return fail_with_errno(err, "written", path);
    if (fd >= 0)
        return write_in_place(fd, path, bytes, size, err);
    if (stat(real, &about))
        return errno == ENOENT ? replace_file(path, real, NULL, bytes, size, err)
                               : fail_with_errno(err, "written", path);
    if (S_ISDIR(about.st_mode))
        return ah_error_set(err, AH_E_IO, "%s: is a folder; name a file in it", path);
    if (!S_ISREG(about.st_mode))
        return write_in_place(open(real, O_WRONLY | O_CLOEXEC), path, bytes, size, err);
    return replace_file(path, real, &about, bytes, size, err);
}

/* Finds the file that writing to `path` replaces: `real`, in the folder `ret_folder`. Returns false if none. */
static bool replaced(const char *path, char real[PATH_MAX], struct stat *ret_folder)
{
    char folder[PATH_MAX];
    struct stat about;
    int fd;
    if (snprintf(real, PATH_MAX, "%s", path) >= PATH_MAX || resolve(real, &fd))
        return false;
    if (fd >= 0)
        close(fd);
    folder_of(real, folder);
    return fd < 0 && (stat(real, &about) || S_ISREG(about.st_mode)) && !stat(folder, ret_folder);
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* True if both paths lead to one regular file. */
static bool linked(const char *a, const char *b)
{
    struct stat about_a, about_b;
    return !stat(a, &about_a) && !stat(b, &about_b) && S_ISREG(about_a.st_mode) &&
           about_a.st_dev == about_b.st_dev && about_a.st_ino == about_b.st_ino;
}

bool ah_file_same(const char *a, const char *b)
{
    char real_a[PATH_MAX], real_b[PATH_MAX];
    struct stat folder_a, folder_b;
    if (linked(a, b))
        return true;
    return replaced(a, real_a, &folder_a) && replaced(b, real_b, &folder_b) &&
           folder_a.st_dev == folder_b.st_dev && folder_a.st_ino == folder_b.st_ino &&
           !strcmp(name_of(real_a), name_of(real_b));
}

int ah_file_write_all(int fd, const char *bytes, size_t size)
{
    while (size) {
        ssize_t n = write(fd, bytes, size);
        if (n < 0 && errno == EAGAIN) {
            struct pollfd ready = {.fd = fd, .events = POLLOUT};
            poll(&ready, 1, -1);
        } else if (n < 0 && errno != EINTR) {
            return errno;
        } else if (n > 0) {
            bytes += n;
            size -= (size_t)n;
        }
    }
    return 0;
}
