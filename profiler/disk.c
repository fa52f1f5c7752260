/* SPDX-License-Identifier: Apache-2.0
 *
 * Disk: measures sequential writes until the data are on the device, and sequential reads from the device.
 *
 * The file has no name (O_TMPFILE, or a name that is removed at once), so it never remains. A sample is one chunk,
 * written with O_DIRECT and fdatasync()ed, and later read with O_DIRECT. On a file system without O_DIRECT, the chunk
 * is dropped from the page cache before the read. All chunks are written before the first is read. A cache inside the
 * device may still make reads faster.
 */
#include "profiler/measure_internal.h"

#include "base/threads.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>

enum { UNIT = 1 << 20, CHUNK_MAX = 64 << 20, ALIGN = 4096 };

struct disk {
    int file;
    bool direct;
    unsigned char *bytes; /* owned; the bytes of one chunk */
    uint64_t chunk;
    uint64_t chunks; /* number of chunks in the file */
    uint64_t next;   /* index of the next chunk */
};

static const char *folder_of(const struct ah_measure *measure)
{
    const char *folder = measure->options->disk_folder;
    if (!folder)
        folder = getenv("TMPDIR");
    return folder && *folder ? folder : "/tmp";
}

static int open_nameless(const char *folder, int flags)
{
    char path[PATH_MAX];
    int file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
    if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
        return file;
    if (snprintf(path, sizeof path, "%s/autohete-disk-XXXXXX", folder) >= (int)sizeof path)
        return -1;
    file = mkostemp(path, O_CLOEXEC | flags);
    if (file >= 0)
        unlink(path);
    return file;
}

static int open_file(const char *folder, struct disk *disk, struct ah_error *err)
{
    disk->direct = true;
    disk->file = open_nameless(folder, O_DIRECT);
    if (disk->file < 0 && errno == EINVAL) {
        disk->direct = false;
        disk->file = open_nameless(folder, 0);
    }
    if (disk->file < 0)
        return ah_error_set(err, AH_E_IO, "folder '%s': %s", folder, strerror(errno));
    return AH_OK;
}

static int transfer(struct disk *disk, bool reading, uint64_t offset, uint64_t bytes, struct ah_error *err)
{
    for (uint64_t done = 0; done < bytes;) {
        void *at = disk->bytes + done;
        size_t left = (size_t)(bytes - done);
        ssize_t n = reading ? pread(disk->file, at, left, (off_t)(offset + done))
                            : pwrite(disk->file, at, left, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return ah_error_set(err, AH_E_IO, "%s the disk: %s", reading ? "reading from" : "writing to",
                                n < 0 ? strerror(errno) : "end of file");
        done += (uint64_t)n;
    }
    return AH_OK;
}

static int write_chunk(struct disk *disk, uint64_t offset, uint64_t bytes, double *ret_seconds,
                       struct ah_error *err)
{
    uint64_t begin_ns = ah_threads_now_ns();
    int rc = transfer(disk, false, offset, bytes, err);
    if (rc == AH_OK && fdatasync(disk->file))
        rc = ah_error_set(err, AH_E_IO, "writing to the disk: %s", strerror(errno));
    *ret_seconds = (double)(ah_threads_now_ns() - begin_ns) * 1e-9;
    return rc;
}

static uint64_t next_offset(struct disk *disk)
{
    return disk->next++ % disk->chunks * disk->chunk;
}

static int write_round(void *context, double *ret_seconds, struct ah_error *err)
{
    struct disk *disk = context;
    return write_chunk(disk, next_offset(disk), disk->chunk, ret_seconds, err);
}

static int read_round(void *context, double *ret_seconds, struct ah_error *err)
{
    struct disk *disk = context;
    uint64_t offset = next_offset(disk);
    if (!disk->direct)
        posix_fadvise(disk->file, (off_t)offset, (off_t)disk->chunk, POSIX_FADV_DONTNEED);
    uint64_t begin_ns = ah_threads_now_ns();
    int rc = transfer(disk, true, offset, disk->chunk, err);
    *ret_seconds = (double)(ah_threads_now_ns() - begin_ns) * 1e-9;
    return rc;
}

/* Returns the largest size of the file: the limit, or a tenth of the free space if that is less. */
static uint64_t file_bytes(const struct ah_measure *measure, const char *folder)
{
    struct statvfs fs;
    uint64_t most = measure->limits->disk_bytes;
    if (statvfs(folder, &fs) == 0 && fs.f_bavail * fs.f_frsize / 10 < most)
        most = fs.f_bavail * fs.f_frsize / 10;
    return most;
}

/* Chooses the size of chunks: samples_min chunks must fit the file, and be written in a third of the disk's time. */
static int size_chunks(struct ah_measure *measure, const char *folder, struct disk *disk,
                       struct ah_error *err)
{
    unsigned samples = measure->limits->samples_min;
    uint64_t most = file_bytes(measure, folder) / samples;
    double seconds;
    most = most < CHUNK_MAX ? most : CHUNK_MAX;
    if (most < UNIT)
        return ah_error_set(err, AH_E_IO, "folder '%s': too little space is free", folder);
    disk->bytes = aligned_alloc(ALIGN, most / UNIT * UNIT);
    if (!disk->bytes)
        return ah_error_memory(err);
    memset(disk->bytes, 0x5a, most / UNIT * UNIT);
    int rc = write_chunk(disk, 0, UNIT, &seconds, err);
    if (rc)
        return rc;
    double fitting = measure->limits->part_s[AH_PROFILER_DISK] / 3 / samples / seconds * UNIT;
    uint64_t chunk = fitting < (double)most ? (uint64_t)fitting : most;
    disk->chunk = chunk < UNIT ? UNIT : chunk / UNIT * UNIT;
    disk->chunks = samples;
    return AH_OK;
}

static int measure_file(struct ah_measure *measure, struct disk *disk, struct ah_error *err)
{
    struct ah_sampler_series written = {.n = 0};
    struct ah_sampler_series read = {.n = 0};
    struct ah_sampler sampler = ah_measure_sampler(measure, "disk: writing");
    int rc = ah_sampler_rounds(&sampler, write_round, disk, 1, &written, err);
    if (rc)
        return rc;
    disk->next = 0;
    sampler = ah_measure_sampler(measure, "disk: reading");
    rc = ah_sampler_rounds(&sampler, read_round, disk, 1, &read, err);
    if (rc)
        return rc;
    struct ah_machine_disk *kept = ah_arena_alloc(&measure->document->arena, sizeof *kept);
    if (!kept)
        return ah_error_memory(err);
    kept->write_bytes_per_s = ah_sampler_rate(&written, (double)disk->chunk);
    kept->read_bytes_per_s = ah_sampler_rate(&read, (double)disk->chunk);
    ah_measure_judge(measure, &written, "writes of %llu MiB", (unsigned long long)(disk->chunk >> 20));
    ah_measure_judge(measure, &read, "reads of %llu MiB", (unsigned long long)(disk->chunk >> 20));
    measure->machine->disk = kept;
    return AH_OK;
}

int ah_disk_measure(struct ah_measure *measure, struct ah_error *err)
{
    const char *folder = folder_of(measure);
    struct statfs fs;
    struct disk disk = {.file = -1};
    ah_measure_sets(measure, 2);
    if (statfs(folder, &fs) == 0 && fs.f_type == TMPFS_MAGIC)
        return ah_error_set(err, AH_E_IO, "folder '%s' is in memory, not on a disk", folder);
    int rc = open_file(folder, &disk, err);
    if (rc == AH_OK)
        rc = size_chunks(measure, folder, &disk, err);
    if (rc == AH_OK)
        rc = measure_file(measure, &disk, err);
    free(disk.bytes);
    if (disk.file >= 0)
        close(disk.file);
    return rc;
}
