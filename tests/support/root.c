/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes, fills and removes the folder that replaces / (root.h).
 */
#include "tests/support/root.h"

#include "tests/support/check.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int root_make(void **state)
{
    char *root = strdup("/tmp/autohete-root-XXXXXX");
    *state = root;
    return !root || !mkdtemp(root);
}

int root_remove(void **state)
{
    char command[PATH_MAX];
    snprintf(command, sizeof command, "rm -rf '%s'", (char *)*state);
    free(*state);
    return system(command);
}

void root_put_bytes(const char *root, const char *path, const void *bytes, size_t size)
{
    char full[PATH_MAX];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0777);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

void root_put(const char *root, const char *path, const char *text)
{
    root_put_bytes(root, path, text, strlen(text));
}
