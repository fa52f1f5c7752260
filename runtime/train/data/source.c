/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/train/data/source_internal.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { CUT_SHORT = -1 };

int ah_source_find(struct ah_source *ret_source, const char *path, struct ah_error *err)
{
    struct stat about;
    char why[AH_FILE_REASON_MAX];
    if (stat(path, &about))
        return ah_error_set(err, AH_E_IO, "%s: cannot be read: %s", path, ah_file_reason(path, errno, why));
    if (!S_ISREG(about.st_mode))
        return ah_error_set(err, AH_E_IO, "%s: is not a regular file, but data are read in random order; %s",
                            path, S_ISDIR(about.st_mode) ? "name the files in it" : "copy it to a file");
    *ret_source = (struct ah_source){.path = path,
                                     .bytes = (uint64_t)about.st_size,
                                     .device = about.st_dev,
                                     .inode = about.st_ino,
                                     .changed = about.st_mtim};
    return AH_OK;
}

int ah_source_changed(const struct ah_source *source, struct ah_error *err)
{
    return ah_error_set(
        err, AH_E_MISMATCH,
        "%s: changed after it was checked; resume with its earlier content (a file that was only touched "
        "still has it)",
        source->path);
}

static int check_same(int fd, const struct ah_source *source, struct ah_error *err)
{
    struct stat now;
    if (fstat(fd, &now))
        return ah_source_fail(source, errno, err);
    if (now.st_dev != source->device || now.st_ino != source->inode ||
        (uint64_t)now.st_size != source->bytes || now.st_mtim.tv_sec != source->changed.tv_sec ||
        now.st_mtim.tv_nsec != source->changed.tv_nsec)
        return ah_source_changed(source, err);
    return AH_OK;
}

static void close_slot(struct ah_source_slot *slot)
{
    if (slot->source)
        close(slot->fd);
    slot->source = NULL;
}

/* Opens the source in the least recently used slot. The open does not block, even if the file has become a pipe. */
static int open_slot(struct ah_file_sources *sources, struct ah_source *source, struct ah_error *err)
{
    size_t oldest = 0;
    for (size_t i = 0; i < AH_DATASET_OPEN_FILES && sources->slots[oldest].source; i++)
        if (!sources->slots[i].source || sources->slots[i].used < sources->slots[oldest].used)
            oldest = i;
    struct ah_source_slot *slot = &sources->slots[oldest];
    close_slot(slot);
    int fd = open(source->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return ah_source_fail(source, errno, err);
    *slot = (struct ah_source_slot){.source = source, .fd = fd};
    source->slot = oldest;
    return AH_OK;
}

int ah_source_use(struct ah_file_sources *sources, struct ah_source *source, int *ret_fd,
                  struct ah_error *err)
{
    int rc = AH_OK;
    if (sources->slots[source->slot].source != source)
        rc = open_slot(sources, source, err);
    struct ah_source_slot *slot = &sources->slots[source->slot];
    if (!rc)
        rc = check_same(slot->fd, source, err);
    if (rc)
        return rc;
    slot->used = ++sources->uses;
    *ret_fd = slot->fd;
    return AH_OK;
}

int ah_source_pread(int fd, uint64_t offset, void *ret_bytes, size_t size)
{
    char *at = ret_bytes;
    while (size > 0) {
        ssize_t got = pread(fd, at, size, (off_t)offset);
        if (got < 0 && errno != EINTR)
            return errno;
        if (got == 0)
            return CUT_SHORT;
        if (got > 0) {
            at += got;
            offset += (uint64_t)got;
            size -= (size_t)got;
        }
    }
    return 0;
}

int ah_source_fail(const struct ah_source *source, int reason, struct ah_error *err)
{
    if (reason == CUT_SHORT)
        return ah_source_changed(source, err);
    return ah_error_set(err, AH_E_IO, "%s: cannot be read: %s", source->path, strerror(reason));
}

int ah_source_read(struct ah_file_sources *sources, struct ah_source *source, uint64_t offset,
                   void *ret_bytes, size_t size, struct ah_error *err)
{
    int fd = -1;
    int rc = ah_source_use(sources, source, &fd, err);
    int reason = rc ? 0 : ah_source_pread(fd, offset, ret_bytes, size);
    return reason ? ah_source_fail(source, reason, err) : rc;
}

void ah_source_close_all(struct ah_file_sources *sources)
{
    for (size_t i = 0; i < AH_DATASET_OPEN_FILES; i++)
        close_slot(&sources->slots[i]);
}
