/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts system calls that change files. The n-th one fails, or kills the process before, during or after the call. The
 * test's extra.cmake wraps the calls at link time.
 *
 *     calls_reset();
 *     calls.at = 3, calls.then = CALLS_FAIL, calls.reason = ENOSPC;     // or CALLS_KILL
 *     ... calls.made ...
 */
#ifndef AH_TESTS_SUPPORT_CALLS_H
#define AH_TESTS_SUPPORT_CALLS_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum calls_then {
    CALLS_FAIL,
    CALLS_KILL,
    CALLS_HALF /* kills the process after the call; of a write, only half is done */
};

static struct {
    unsigned made;
    unsigned at; /* which call fails or kills, counted from 1; 0: none */
    enum calls_then then;
    int reason;
    const char *only;     /* (optional) counts only calls with this name */
    char last[16];        /* the call that failed */
    size_t n_synced;      /* bytes used in `synced` */
    char synced[1 << 14]; /* in order: "PATH\n" for each fsync, "> TO\n" for each rename */
} calls;

static void calls_note(const char *mark, const char *path)
{
    int n =
        snprintf(calls.synced + calls.n_synced, sizeof calls.synced - calls.n_synced, "%s%s\n", mark, path);
    calls.n_synced += (size_t)n < sizeof calls.synced - calls.n_synced ? (size_t)n : 0;
}

static void calls_reset(void)
{
    memset(&calls, 0, sizeof calls);
}

static void calls_die(void)
{
    kill(getpid(), SIGKILL);
}

/* Counts a call and returns whether the call must fail. Kills the process instead if the test says so. */
static int calls_fails(const char *name)
{
    if (calls.only && strcmp(calls.only, name) != 0)
        return 0;
    if (++calls.made != calls.at)
        return 0;
    if (calls.then == CALLS_KILL)
        calls_die();
    snprintf(calls.last, sizeof calls.last, "%s", name);
    errno = calls.reason;
    return calls.then == CALLS_FAIL;
}

/* Kills the process after a call if the test says so. */
static void calls_after(const char *name)
{
    if (calls.then == CALLS_HALF && calls.made == calls.at && (!calls.only || strcmp(calls.only, name) == 0))
        calls_die();
}

#define CALLS_WRAP(name, failure, parameters, arguments)                                                     \
    int __real_##name parameters;                                                                            \
    int __wrap_##name parameters;                                                                            \
    int __wrap_##name parameters                                                                             \
    {                                                                                                        \
        if (calls_fails(#name))                                                                              \
            return failure;                                                                                  \
        int rc = __real_##name arguments;                                                                    \
        calls_after(#name);                                                                                  \
        return rc;                                                                                           \
    }

CALLS_WRAP(mkdir, -1, (const char *path, mode_t mode), (path, mode))
CALLS_WRAP(unlink, -1, (const char *path), (path))
CALLS_WRAP(rmdir, -1, (const char *path), (path))
CALLS_WRAP(fallocate, -1, (int fd, int mode, off_t offset, off_t size), (fd, mode, offset, size))

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
    if (calls_fails("rename"))
        return -1;
    int rc = __real_rename(from, to);
    calls_note("> ", to);
    calls_after("rename");
    return rc;
}

/* Replaces fsync() and does not sync: simulated failures and kills could not show a difference, and syncing would take
 * longer than the rest of the test. */
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    char link[64], path[PATH_MAX] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, path, sizeof path - 1) > 0)
        calls_note("", path);
    if (calls_fails("fsync"))
        return -1;
    calls_after("fsync");
    return 0;
}

/* Replaces close(). Always closes the file, even if the call must fail. */
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    int rc = __real_close(fd);
    if (calls_fails("close"))
        return -1;
    calls_after("close");
    return rc;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    if (calls_fails("open"))
        return -1;
    int fd = __real_open(path, flags, mode);
    calls_after("open");
    return fd;
}

DIR *__real_opendir(const char *path);
DIR *__wrap_opendir(const char *path);
DIR *__wrap_opendir(const char *path)
{
    if (calls_fails("opendir"))
        return NULL;
    calls_after("opendir");
    return __real_opendir(path);
}

/* Replaces pwrite(). For CALLS_HALF, writes half of the bytes before the kill. */
ssize_t __real_pwrite(int fd, const void *bytes, size_t size, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t size, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
    if (calls_fails("pwrite"))
        return -1;
    int half = calls.then == CALLS_HALF && calls.made == calls.at;
    ssize_t done = __real_pwrite(fd, bytes, half ? size / 2 : size, offset);
    calls_after("pwrite");
    return done;
}

ssize_t __real_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t size)
{
    if (calls_fails("write"))
        return -1;
    int half = calls.then == CALLS_HALF && calls.made == calls.at;
    ssize_t done = __real_write(fd, bytes, half ? size / 2 : size);
    calls_after("write");
    return done;
}

ssize_t __real_pread(int fd, void *bytes, size_t size, off_t offset);
ssize_t __wrap_pread(int fd, void *bytes, size_t size, off_t offset);
ssize_t __wrap_pread(int fd, void *bytes, size_t size, off_t offset)
{
    if (calls_fails("pread"))
        return -1;
    calls_after("pread");
    return __real_pread(fd, bytes, size, offset);
}

#endif
