/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded (LD_PRELOAD) into a run by full_disk.py: simulates a disk with as many bytes free as the file AUTOHETE_DISK
 * says. Reserving more fails as on a full disk. If the file has a second number N, the N-th reservation also fails. A
 * third number is the bytes free from then on. Nothing else about a save changes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <sys/types.h>

#define PRELOADED __attribute__((visibility("default")))

static unsigned long long reserved;

static unsigned long long free_bytes(unsigned long long *ret_refused)
{
    unsigned long long bytes = 0, left = 0;
    FILE *file = fopen(getenv("AUTOHETE_DISK"), "r");
    int n = file ? fscanf(file, "%llu %llu %llu", &bytes, ret_refused, &left) : 0;
    if (n < 1)
        abort();
    fclose(file);
    return n == 3 && reserved >= *ret_refused ? left : bytes;
}

PRELOADED int fstatvfs(int fd, struct statvfs *ret_about)
{
    unsigned long long refused = 0;
    (void)fd;
    *ret_about =
        (struct statvfs){.f_bsize = 1, .f_frsize = 1, .f_blocks = 1, .f_bavail = free_bytes(&refused)};
    return 0;
}

PRELOADED int fallocate(int fd, int mode, off_t offset, off_t size)
{
    unsigned long long refused = 0;
    (void)fd, (void)mode, (void)offset;
    errno = ENOSPC;
    const unsigned long long bytes = free_bytes(&refused);
    return ++reserved == refused || (unsigned long long)size > bytes ? -1 : 0;
}
