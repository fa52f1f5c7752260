/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/train/data/paths_internal.h"

#include "base/file.h"
#include "runtime/train/data/format_internal.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* Words in names of held-out data. They reveal training on such files, which would otherwise go unnoticed. */
static const char *const held_out_words[] = {"val", "valid", "validation", "test", "eval", "heldout"};

static const char *const token_endings[] = {".bin", ".u16", ".u32", NULL};
static const char *const text_endings[] = {".txt", NULL};

/* Appends `folder`/`name`, or only `name`. */
static int append_path(struct ah_paths *paths, const char *folder, const char *name, struct ah_error *err)
{
    if (paths->count == paths->capacity) {
        size_t capacity = paths->capacity ? 2 * paths->capacity : 16;
        char **items = realloc(paths->items, capacity * sizeof *items);
        if (!items)
            return ah_error_memory(err);
        paths->items = items;
        paths->capacity = capacity;
    }
    size_t length = folder ? strlen(folder) : 0;
    const char *slash = length && folder[length - 1] != '/' ? "/" : "";
    char *item = malloc(length + strlen(slash) + strlen(name) + 1);
    if (!item)
        return ah_error_memory(err);
    sprintf(item, "%s%s%s", folder ? folder : "", slash, name);
    paths->items[paths->count++] = item;
    return AH_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_from(struct ah_paths *paths, size_t first)
{
    if (paths->count > first)
        qsort(paths->items + first, paths->count - first, sizeof *paths->items, compare_names);
}

/* True if one of the words is in the name, delimited by characters that are neither letters nor digits. */
static bool is_held_out(const char *path)
{
    const char *at = strrchr(path, '/');
    for (at = at ? at + 1 : path; *at;) {
        size_t length = 0;
        while (isalnum((unsigned char)at[length]))
            length++;
        for (size_t i = 0; length && i < sizeof held_out_words / sizeof *held_out_words; i++)
            if (strlen(held_out_words[i]) == length && !strncasecmp(at, held_out_words[i], length))
                return true;
        at += length + (at[length] != '\0');
    }
    return false;
}

static int check_unmixed(const struct ah_paths *paths, size_t first, const char *folder, struct ah_error *err)
{
    size_t held_out = 0;
    const char *example = "";
    for (size_t i = first; i < paths->count; i++)
        if (is_held_out(paths->items[i])) {
            held_out++;
            example = paths->items[i];
        }
    if (!held_out || held_out == paths->count - first)
        return AH_OK;
    return ah_error_set(
        err, AH_E_USAGE,
        "%s: holds '%s', by its name held-out data, beside other data; name the files, or a pattern such as "
        "'%s/train*'",
        folder, example, folder);
}

static bool ends_in(const char *name, const char *const *endings)
{
    for (; *endings; endings++)
        if (ah_format_ends(name, *endings))
            return true;
    return false;
}

static int append_endings(struct ah_paths *paths, DIR *open, const char *folder, const char *const *endings,
                          struct ah_error *err)
{
    int rc = AH_OK;
    rewinddir(open);
    for (struct dirent *entry = readdir(open); entry && !rc; entry = readdir(open))
        if (entry->d_name[0] != '.' && ends_in(entry->d_name, endings))
            rc = append_path(paths, folder, entry->d_name, err);
    return rc;
}

static int find_in_folder(struct ah_paths *paths, const char *folder, struct ah_error *err)
{
    size_t first = paths->count;
    DIR *open = opendir(folder);
    if (!open)
        return ah_error_set(err, AH_E_IO, "%s: the folder cannot be read: %s", folder, strerror(errno));
    int rc = append_endings(paths, open, folder, token_endings, err);
    size_t text = paths->count;
    if (!rc)
        rc = append_endings(paths, open, folder, text_endings, err);
    closedir(open);
    if (!rc && paths->count == first)
        rc = ah_error_set(err, AH_E_USAGE,
                          "%s: the folder holds no .bin, .u16, .u32 or .txt file; name the data files",
                          folder);
    if (!rc && text > first && paths->count > text)
        rc =
            ah_error_set(err, AH_E_USAGE,
                         "%s: holds '%s', a token file, and '%s', text; name the files, or a pattern such as "
                         "'%s/*.bin'",
                         folder, paths->items[first], paths->items[text], folder);
    sort_from(paths, first);
    return rc ? rc : check_unmixed(paths, first, folder, err);
}

static int find_matches(struct ah_paths *paths, const char *pattern, struct ah_error *err)
{
    glob_t found;
    size_t first = paths->count;
    int status = glob(pattern, GLOB_NOSORT | GLOB_ERR, NULL, &found);
    if (status == GLOB_NOSPACE)
        return ah_error_memory(err);
    if (status == GLOB_ABORTED)
        return ah_error_set(err, AH_E_IO, "%s: a folder of this pattern cannot be read: %s", pattern,
                            strerror(errno));
    int rc = AH_OK;
    for (size_t i = 0; !status && !rc && i < found.gl_pathc; i++)
        if (!ah_format_ends(found.gl_pathv[i], ".mask") && !ah_format_ends(found.gl_pathv[i], ".docs"))
            rc = append_path(paths, NULL, found.gl_pathv[i], err);
    if (!status)
        globfree(&found);
    if (!rc && paths->count == first)
        rc = ah_error_set(err, AH_E_IO, "%s: no file matches this pattern", pattern);
    sort_from(paths, first);
    return rc;
}

int ah_paths_find(struct ah_paths *paths, const char *path, struct ah_error *err)
{
    struct stat about;
    if (!strcmp(path, "-"))
        return ah_error_set(err, AH_E_USAGE,
                            "'-' is a stream, but data are read in random order; name a "
                            "file");
    if (!stat(path, &about))
        return S_ISDIR(about.st_mode) ? find_in_folder(paths, path, err)
                                      : append_path(paths, NULL, path, err);
    if (errno == ENOENT && strpbrk(path, "*?["))
        return find_matches(paths, path, err);
    char why[AH_FILE_REASON_MAX];
    return ah_error_set(err, AH_E_IO, "%s: cannot be read: %s", *path ? path : "''",
                        ah_file_reason(path, errno, why));
}

void ah_paths_release(struct ah_paths *paths)
{
    for (size_t i = 0; i < paths->count; i++)
        free(paths->items[i]);
    free(paths->items);
    *paths = (struct ah_paths){0};
}
