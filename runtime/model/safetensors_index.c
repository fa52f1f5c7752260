/* SPDX-License-Identifier: Apache-2.0
 *
 * The index of a model in several files: {"metadata": {...}, "weight_map": {"tensor": "file", ...}}.
 *
 * Only "weight_map" counts. Sizes in "metadata" may be out of date, and each file is checked separately anyway.
 */
#include "base/buffer.h"
#include "base/file.h"
#include "runtime/model/safetensors_internal.h"
#include "schemas/cursor.h"
#include "schemas/document.h"
#include "schemas/json.h"

#include <stdlib.h>
#include <string.h>

enum { INDEX_MAX = AH_SAFETENSORS_HEADER_MAX };

#define REFUSE(err, path, tensor, ...) ah_safetensors_fail(err, AH_E_DOCUMENT, path, tensor, __VA_ARGS__)

/* Counts the members of the object at the cursor, which stays there. */
static size_t count_members(struct ah_cursor cursor)
{
    size_t n = 0;
    ah_cursor_enter(&cursor, '{');
    while (ah_cursor_next(&cursor, '}')) {
        ah_cursor_skip(&cursor); /* the key */
        ah_cursor_peek(&cursor);
        cursor.at++; /* the colon */
        ah_cursor_skip(&cursor);
        n++;
    }
    return n;
}

static bool usable(const char *file)
{
    return *file && !strchr(file, '/') && strcmp(file, ".") != 0 && strcmp(file, "..") != 0;
}

static int read_places(struct ah_safetensors_index *index, struct ah_cursor *cursor, const char *path,
                       struct ah_error *err)
{
    char shown[AH_SAFETENSORS_NAME_TEXT];
    size_t n = count_members(*cursor);
    index->places = ah_arena_array(&index->arena, n, sizeof *index->places);
    if (!index->places)
        return ah_error_memory(err);
    ah_cursor_enter(cursor, '{');
    while (ah_cursor_next(cursor, '}')) {
        struct ah_safetensors_place *place = &index->places[index->n_places++];
        place->tensor = ah_cursor_key(cursor, &index->arena);
        if (!place->tensor)
            return ah_error_memory(err);
        if (ah_cursor_peek(cursor) != '"')
            return REFUSE(err, path, place->tensor, "its file is not text");
        place->file = ah_cursor_text(cursor, &index->arena);
        if (!place->file)
            return ah_error_memory(err);
        if (!usable(place->file))
            return REFUSE(err, path, place->tensor, "its file '%s' is not in the folder of the index",
                          ah_safetensors_plain(place->file, shown));
    }
    return AH_OK;
}

/* Reads the object of "weight_map". */
static int read_map(struct ah_safetensors_index *index, struct ah_cursor *cursor, const char *path,
                    struct ah_error *err)
{
    bool found = false;
    if (!ah_cursor_enter(cursor, '{'))
        return REFUSE(err, path, NULL, "is not an object with a 'weight_map'");
    while (ah_cursor_next(cursor, '}')) {
        const char *key = ah_cursor_key(cursor, &index->arena);
        if (!key)
            return ah_error_memory(err);
        if (strcmp(key, "weight_map") != 0) {
            ah_cursor_skip(cursor);
            continue;
        }
        if (found)
            return REFUSE(err, path, NULL, "has 'weight_map' twice");
        if (ah_cursor_peek(cursor) != '{')
            return REFUSE(err, path, NULL, "its 'weight_map' is not an object");
        found = true;
        int rc = read_places(index, cursor, path, err);
        if (rc)
            return rc;
    }
    if (!index->n_places)
        return REFUSE(err, path, NULL, "has no 'weight_map' with tensors in it");
    return AH_OK;
}

static int compare_places(const void *a, const void *b)
{
    return strcmp(((const struct ah_safetensors_place *)a)->tensor,
                  ((const struct ah_safetensors_place *)b)->tensor);
}

static int compare_files(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorts the places by tensor, and lists the files they name. */
static int list_files(struct ah_safetensors_index *index, const char *path, struct ah_error *err)
{
    size_t n = index->n_places;
    qsort(index->places, n, sizeof *index->places, compare_places);
    for (size_t i = 1; i < n; i++)
        if (strcmp(index->places[i - 1].tensor, index->places[i].tensor) == 0)
            return REFUSE(err, path, index->places[i].tensor, "appears twice");
    index->files = ah_arena_array(&index->arena, n, sizeof *index->files);
    if (!index->files)
        return ah_error_memory(err);
    for (size_t i = 0; i < n; i++)
        index->files[i] = index->places[i].file;
    qsort(index->files, n, sizeof *index->files, compare_files);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(index->files[index->n_files - 1], index->files[i]) != 0)
            index->files[index->n_files++] = index->files[i];
    if (index->n_files > AH_SAFETENSORS_FILES_MAX)
        return REFUSE(err, path, NULL, "names %zu files; at most %d are allowed", index->n_files,
                      AH_SAFETENSORS_FILES_MAX);
    return AH_OK;
}

int ah_safetensors_index_read(struct ah_safetensors_index *ret_index, const char *path, struct ah_error *err)
{
    struct ah_buffer text = {0};
    char shown[AH_DOCUMENT_NAME_MAX];
    int rc = ah_file_check_regular(path, err);
    rc = rc ? rc : ah_file_read(path, INDEX_MAX, &text, err);
    if (!rc)
        rc = ah_json_scan(
            &(struct ah_json_source){ah_document_short_name(path, shown), text.data, text.size, 1}, err);
    struct ah_cursor cursor = {text.data, rc ? text.data : text.data + text.size};
    if (!rc)
        rc = read_map(ret_index, &cursor, path, err);
    if (!rc)
        rc = list_files(ret_index, path, err);
    ah_buffer_release(&text);
    return rc;
}

static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int ah_safetensors_index_check(const struct ah_safetensors_index *index, const char *path,
                               const struct ah_safetensors *files, struct ah_error *err)
{
    char shown[AH_SAFETENSORS_NAME_TEXT];
    for (size_t i = 0; i < index->n_places; i++) {
        const struct ah_safetensors_place *place = &index->places[i];
        const struct ah_safetensors_tensor *tensor = ah_safetensors_find(files, place->tensor);
        const char *file = tensor ? last_name(files->files[tensor->file].path) : NULL;
        if (!file)
            return REFUSE(err, path, place->tensor, "is not in the file '%s'",
                          ah_safetensors_plain(place->file, shown));
        if (strcmp(place->file, file) != 0)
            return REFUSE(err, path, place->tensor, "is not in the file '%s' but in '%s'",
                          ah_safetensors_plain(place->file, shown), file);
    }
    for (size_t i = 0; i < files->n_tensors && files->n_tensors > index->n_places; i++) {
        const struct ah_safetensors_tensor *tensor = &files->tensors[i];
        const struct ah_safetensors_place key = {.tensor = tensor->name};
        if (!bsearch(&key, index->places, index->n_places, sizeof key, compare_places))
            return REFUSE(err, files->files[tensor->file].path, tensor->name, "is not in the index '%s'",
                          AH_SAFETENSORS_INDEX);
    }
    return AH_OK;
}
