/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens and reads data while each allocation and each system call fails once. support/fault.h makes allocations fail.
 * System calls are wrapped at link time (extra.cmake). Expects an error, nothing left open, and no leak.
 */
#include "runtime/train/data/batches.h"
#include "tests/support/check.h"
#include "tests/support/fault.h"
#include "tests/support/root.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __real_stat(const char *path, struct stat *about);
int __wrap_stat(const char *path, struct stat *about);
int __real_fstat(int fd, struct stat *about);
int __wrap_fstat(int fd, struct stat *about);
ssize_t __real_pread(int fd, void *bytes, size_t size, off_t offset);
ssize_t __wrap_pread(int fd, void *bytes, size_t size, off_t offset);
DIR *__real_opendir(const char *path);
DIR *__wrap_opendir(const char *path);

enum failure { FAILS, ENDS, INTERRUPTED, SHORT };

static unsigned calls, failing;
static enum failure failure;

static int fails(void)
{
    if (++calls != failing)
        return 0;
    errno = EIO;
    return 1;
}

int __wrap_open(const char *path, int flags, ...)
{
    return fails() ? -1 : __real_open(path, flags);
}

int __wrap_stat(const char *path, struct stat *about)
{
    return fails() ? -1 : __real_stat(path, about);
}

int __wrap_fstat(int fd, struct stat *about)
{
    return fails() ? -1 : __real_fstat(fd, about);
}

DIR *__wrap_opendir(const char *path)
{
    return fails() ? NULL : __real_opendir(path);
}

ssize_t __wrap_pread(int fd, void *bytes, size_t size, off_t offset)
{
    if (!fails())
        return __real_pread(fd, bytes, size, offset);
    if (failure == SHORT)
        return __real_pread(fd, bytes, size > 1 ? size / 2 : size, offset);
    errno = failure == INTERRUPTED ? EINTR : EIO;
    return failure == ENDS ? 0 : -1;
}

static int fill(struct ah_batches *batches, struct ah_error *err)
{
    uint32_t numbers[4][64];
    uint8_t mask[64];
    uint64_t bearing = 0;
    const struct ah_batches_rows rows = {numbers[0], numbers[1], mask, numbers[2], numbers[3]};
    int rc = AH_OK;
    for (uint64_t cursor = 0; cursor < 12 && !rc; cursor += 2)
        rc = ah_batches_fill(batches, cursor, 2, &rows, &bearing, err);
    return rc;
}

/* Opens a data set, draws batches from it and closes it. `context` is the folder. */
static int use_data(void *context, struct ah_error *err)
{
    char folder[PATH_MAX], pattern[PATH_MAX];
    const char *paths[] = {folder, pattern};
    struct ah_dataset *data = NULL;
    struct ah_batches batches = {0};
    snprintf(folder, sizeof folder, "%s", (char *)context);
    snprintf(pattern, sizeof pattern, "%s/a*.txt", (char *)context);
    const struct ah_dataset_options options = {.paths = paths, .n_paths = 2, .vocabulary = 256};
    int rc = ah_dataset_open(&data, &options, err);
    if (!rc)
        rc = ah_batches_init(
            &batches, &(struct ah_batches_options){.data = data, .seq = 3, .batch = 2, .seed = 1}, err);
    if (!rc)
        rc = fill(&batches, err);
    ah_batches_release(&batches);
    ah_dataset_close(data);
    return rc;
}

static int put_data(void **state)
{
    static const uint64_t docs[] = {1, 4};
    int rc = root_make(state);
    static const char *const names[] = {"a.txt", "b.txt"};
    for (size_t i = 0; i < 2; i++) {
        char path[32];
        root_put(*state, names[i], "abcdefghijklmnop");
        snprintf(path, sizeof path, "%s.mask", names[i]);
        root_put_bytes(*state, path, "\1\1\0\1\1\1\1\0\1\1\1\1\1\1\1\1", 16);
        snprintf(path, sizeof path, "%s.docs", names[i]);
        root_put_bytes(*state, path, docs, sizeof docs);
    }
    return rc;
}

TEST_IN(data, each_allocation_fails_once, put_data, root_remove)
{
    assert_true(fault_sweep(use_data, *state, 0) >= 10);
}

static unsigned descriptors(void)
{
    unsigned n = 0;
    DIR *folder = __real_opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

TEST_IN(data, each_system_call_fails_once, put_data, root_remove)
{
    for (failure = FAILS; failure <= SHORT; failure++) {
        const unsigned before = descriptors();
        unsigned refused = 0;
        for (failing = 1;; failing++) {
            struct ah_error err = {0};
            calls = 0;
            int rc = use_data(*state, &err);
            if (calls < failing)
                break;
            refused += rc != 0;
            if (rc && (rc != err.code || !err.text[0] || (rc != AH_E_IO && rc != AH_E_MISMATCH)))
                fail_msg("call %u: returned %d, error holds %d '%s'", failing, rc, err.code, err.text);
            assert_int_equal(descriptors(), before);
        }
        failing = 0;
        /* Interrupted and short reads are continued. If any other call fails, so does use_data(). */
        assert_true(refused > 20 && refused <= calls);
        if (failure == FAILS || failure == ENDS)
            assert_int_equal(refused, calls);
        else
            assert_true(refused < calls);
    }
}

TEST_IN(data, filling_allocates_nothing, put_data, root_remove)
{
    char path[PATH_MAX];
    const char *paths[] = {path};
    struct ah_dataset *data = NULL;
    struct ah_batches batches;
    struct ah_error err = {0};
    snprintf(path, sizeof path, "%s", (char *)*state);
    CHECK_OK(ah_dataset_open(
                 &data, &(struct ah_dataset_options){.paths = paths, .n_paths = 1, .vocabulary = 256}, &err),
             err);
    CHECK_OK(
        ah_batches_init(&batches, &(struct ah_batches_options){.data = data, .seq = 3, .batch = 2}, &err),
        err);
    (void)fault_count();
    CHECK_OK(fill(&batches, &err), err);
    assert_int_equal(fault_count(), 0);
    ah_batches_release(&batches);
    ah_dataset_close(data);
}
