/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests failures of fsync(). It is wrapped at link time (extra.cmake), and its n-th call fails. Before the rename, the
 * old file stays. After the rename, the new file is in place, and the message says that a crash may lose it.
 */
#include "base/file.h"
#include "tests/support/check.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int __real_fsync(int fd);
int __wrap_fsync(int fd);

static unsigned calls, failing;

int __wrap_fsync(int fd)
{
    if (++calls != failing)
        return __real_fsync(fd);
    errno = EIO;
    return -1;
}

static void check_holds(const char *path, const char *text)
{
    struct ah_buffer bytes = {0};
    struct ah_error err = {0};
    CHECK_OK(ah_file_read(path, 1000, &bytes, &err), err);
    assert_string_equal(bytes.data, text);
    ah_buffer_release(&bytes);
}

static unsigned entries(const char *path)
{
    unsigned n = 0;
    DIR *folder = opendir(path);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n - 2; /* without . and .. */
}

TEST(file, syncs_that_fail)
{
    char folder[] = "/tmp/autohete-sync-XXXXXX", path[64];
    struct ah_error err = {0};
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/document", folder);
    CHECK_OK(ah_file_write(path, "old", 3, &err), err);
    assert_int_equal(calls, 2);
    calls = 0;
    failing = 1;
    CHECK_FAILS(ah_file_write(path, "new", 3, &err), err, AH_E_IO,
                "document: cannot be written: Input/output error");
    check_holds(path, "old");
    assert_int_equal(entries(folder), 1);
    calls = 0;
    failing = 2;
    CHECK_FAILS(ah_file_write(path, "new", 3, &err), err, AH_E_IO,
                "was written, but a crash now may lose it");
    check_holds(path, "new");
    assert_int_equal(entries(folder), 1);
    unlink(path);
    rmdir(folder);
}
