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

/* Set-up and tear-down for cmocka: root_make() makes an empty folder, root_remove() removes it and all in it. */
int root_make(void **state);
int root_remove(void **state);

/* Write text, or bytes, to `path` below `root`, and make missing folders. */
void root_put(const char *root, const char *path, const char *text);
void root_put_bytes(const char *root, const char *path, const void *bytes, size_t size);

#endif
