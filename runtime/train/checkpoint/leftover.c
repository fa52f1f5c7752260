/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/train/checkpoint/leftover_internal.h"

#include "runtime/train/checkpoint/stream_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Patterns of all names that a save gives to files, even temporary, but not companions'. The first MARKS are marks. */
static const char *const names_of_saves[] = {AH_LEFTOVER_MARK,
                                             AH_CHECKPOINT_MANIFEST,
                                             "states.bin",
                                             "states-*-of-*.bin",
                                             "model.safetensors",
                                             "model-*-of-*.safetensors",
                                             "model.safetensors.index.json",
                                             "config.json",
                                             AH_WEIGHTS_ADAPTER,
                                             AH_WEIGHTS_ADAPTER_CONFIG,
                                             ".autohete-*.tmp"};
enum { MARKS = 2, NAMES = sizeof names_of_saves / sizeof names_of_saves[0] };

/* Reads the names into a growing table. */
static int read_names(DIR *listing, const char *folder, struct ah_arena *arena,
                      struct ah_leftover_names *names, struct ah_error *err)
{
    size_t capacity = 0;
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(listing);
        if (!entry)
            return errno ? ah_stream_fail(err, folder, "listed") : AH_OK;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (names->n == capacity) {
            size_t more = capacity ? 2 * capacity : 16;
            const char **items = ah_arena_array(arena, more, sizeof *items);
            if (!items)
                return ah_error_memory(err);
            if (names->n)
                memcpy(items, names->items, names->n * sizeof *items);
            names->items = items;
            capacity = more;
        }
        names->items[names->n] = ah_arena_strdup(arena, entry->d_name);
        if (!names->items[names->n++])
            return ah_error_memory(err);
    }
}

int ah_leftover_list(const char *folder, struct ah_arena *arena, struct ah_leftover_names *ret_names,
                     struct ah_error *err)
{
    struct ah_leftover_names names = {0};
    DIR *listing = opendir(folder);
    if (!listing)
        return errno == ENOMEM ? ah_error_memory(err) : ah_stream_fail(err, folder, "listed");
    int rc = read_names(listing, folder, arena, &names, err);
    closedir(listing);
    if (!rc)
        *ret_names = names;
    return rc;
}

/* Returns the index of the pattern that matches the name; NAMES if none does. */
static size_t kind_of(const char *name)
{
    size_t i = 0;
    if (ah_companions_has_name(name))
        return MARKS; /* stands for any index that is not a mark's */
    while (i < NAMES && fnmatch(names_of_saves[i], name, 0) != 0)
        i++;
    return i;
}

static int check_names(const char *folder, const struct ah_leftover_names *names, bool *ret_ours,
                       struct ah_error *err)
{
    bool ours = true, marked = names->n == 0;
    for (size_t i = 0; i < names->n && ours; i++) {
        char path[PATH_MAX];
        struct stat about;
        size_t kind = kind_of(names->items[i]);
        int rc = ah_stream_path(folder, names->items[i], path, err);
        if (rc)
            return rc;
        if (lstat(path, &about))
            return ah_stream_fail(err, path, "read");
        ours = kind < NAMES && S_ISREG(about.st_mode);
        marked |= kind < MARKS;
    }
    *ret_ours = ours && marked;
    return AH_OK;
}

/* Lists the folder, and sets `ret_ours` to whether it is ours. */
static int examine(const char *folder, struct ah_arena *arena, struct ah_leftover_names *ret_names,
                   bool *ret_ours, struct ah_error *err)
{
    struct stat about;
    *ret_ours = false;
    if (lstat(folder, &about))
        return ah_stream_fail(err, folder, "read");
    if (!S_ISDIR(about.st_mode))
        return AH_OK;
    int rc = ah_leftover_list(folder, arena, ret_names, err);
    return rc ? rc : check_names(folder, ret_names, ret_ours, err);
}

int ah_leftover_ours(const char *folder, bool *ret_ours, struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_leftover_names names = {0};
    int rc = examine(folder, &arena, &names, ret_ours, err);
    ah_arena_release(&arena);
    return rc;
}

/* Removes the marks if `marks`, otherwise all other files. */
static int unlink_names(const char *folder, const struct ah_leftover_names *names, bool marks,
                        struct ah_error *err)
{
    for (size_t i = 0; i < names->n; i++) {
        char path[PATH_MAX];
        if ((kind_of(names->items[i]) < MARKS) != marks)
            continue;
        int rc = ah_stream_path(folder, names->items[i], path, err);
        if (rc)
            return rc;
        if (unlink(path))
            return ah_stream_fail(err, path, "removed");
    }
    return AH_OK;
}

int ah_leftover_remove(const char *folder, bool *ret_removed, struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_leftover_names names = {0};
    bool ours = false;
    int rc = examine(folder, &arena, &names, &ours, err);
    if (!rc && ours)
        rc = unlink_names(folder, &names, false, err);
    if (!rc && ours)
        rc = unlink_names(folder, &names, true, err);
    if (!rc && ours && rmdir(folder))
        rc = ah_stream_fail(err, folder, "removed");
    ah_arena_release(&arena);
    if (!rc)
        *ret_removed = ours;
    return rc;
}
