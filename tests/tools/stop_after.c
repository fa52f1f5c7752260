/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded (LD_PRELOAD) into a run that killed_runs.py kills: the process stops, as by SIGSTOP, after the N-th call of
 * this kind in a save, however busy the machine is. AUTOHETE_STOP_AFTER is mkdir:N, fsync:N, rename:N (of a file in the
 * folder) or publish:N (of the folder, which makes the checkpoint visible).
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PRELOADED __attribute__((visibility("default")))

static unsigned long counted;

static void count(const char *call)
{
    const char *asked = getenv("AUTOHETE_STOP_AFTER");
    const size_t length = strlen(call);
    if (!asked || strncmp(asked, call, length) != 0 || asked[length] != ':')
        return;
    if (__atomic_add_fetch(&counted, 1, __ATOMIC_RELAXED) == strtoul(asked + length + 1, NULL, 10))
        (void)raise(SIGSTOP);
}

/* Finds a function. ISO C cannot convert the pointer returned by dlsym() to a function pointer. */
static void find(const char *call, void *ret_function)
{
    void *found = dlsym(RTLD_NEXT, call);
    memcpy(ret_function, &found, sizeof found);
}

PRELOADED int mkdir(const char *path, mode_t mode)
{
    int (*real)(const char *, mode_t);
    find("mkdir", &real);
    int rc = real(path, mode);
    if (strstr(path, ".tmp"))
        count("mkdir");
    return rc;
}

PRELOADED int fsync(int fd)
{
    int (*real)(int);
    find("fsync", &real);
    int rc = real(fd);
    count("fsync");
    return rc;
}

PRELOADED int rename(const char *from, const char *to)
{
    int (*real)(const char *, const char *);
    find("rename", &real);
    int rc = real(from, to);
    const size_t length = strlen(to);
    if (strncmp(from, to, length) == 0 && strcmp(from + length, ".tmp") == 0)
        count("publish");
    else if (strstr(from, ".tmp"))
        count("rename");
    return rc;
}
