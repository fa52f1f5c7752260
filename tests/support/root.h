/* SPDX-License-Identifier: Apache-2.0
 *
 * A synthetic machine: a folder that replaces /, with files of /proc and /sys that the test writes.
 *
 *     TEST_IN(module, behaviour, root_make, root_remove)     // *state is the folder's path
 *     root_put(*state, "proc/self/cgroup", "0::/\n");
 */
#ifndef AH_TESTS_SUPPORT_ROOT_H
#define AH_TESTS_SUPPORT_ROOT_H

#include <stddef.h>

/* Makes an empty folder. root_remove() removes it with everything in it. For cmocka's set-up and tear-down. */
int root_make(void **state);
int root_remove(void **state);

/* Writes text to `path` below `root`, and makes missing folders. */
void root_put(const char *root, const char *path, const char *text);
void root_put_bytes(const char *root, const char *path, const void *bytes, size_t size);

#endif
