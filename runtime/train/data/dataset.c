/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/train/data/dataset.h"

#include "runtime/train/data/dataset_internal.h"
#include "runtime/train/data/format_internal.h"
#include "runtime/train/data/paths_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const endings[AH_DATASET_PARTS] = {
    [AH_DATASET_TOKENS] = "", [AH_DATASET_MASK] = ".mask", [AH_DATASET_DOCS] = ".docs"};

/* Finds the companion FILE.mask or FILE.docs, if it exists. */
static int find_companion(struct ah_dataset *data, struct ah_dataset_entry *entry, enum ah_dataset_part part,
                          struct ah_error *err)
{
    struct stat about;
    size_t length = strlen(entry->file.path) + strlen(endings[part]) + 1;
    char *path = ah_arena_alloc(&data->arena, length);
    if (!path)
        return ah_error_memory(err);
    snprintf(path, length, "%s%s", entry->file.path, endings[part]);
    if (lstat(path, &about) && errno == ENOENT)
        return AH_OK;
    return ah_source_find(&entry->parts[part], path, err);
}

static int check_sizes(struct ah_dataset_entry *entry, struct ah_error *err)
{
    const struct ah_source *mask = &entry->parts[AH_DATASET_MASK], *docs = &entry->parts[AH_DATASET_DOCS];
    if (mask->path && mask->bytes != entry->file.tokens)
        return ah_error_set(err, AH_E_DOCUMENT,
                            "%s: has %" PRIu64 " bytes, but '%s' has %" PRIu64
                            " tokens; there must be one byte for each",
                            mask->path, mask->bytes, entry->file.path, entry->file.tokens);
    if (docs->path && docs->bytes % sizeof(uint64_t))
        return ah_error_set(err, AH_E_DOCUMENT,
                            "%s: has %" PRIu64
                            " bytes, which is not a whole number of 8-byte offsets; it is cut off",
                            docs->path, docs->bytes);
    entry->n_docs = docs->path ? docs->bytes / sizeof(uint64_t) : 0;
    return AH_OK;
}

static int add_file(struct ah_dataset *data, const char *path, const struct ah_dataset_options *options,
                    struct ah_error *err)
{
    struct ah_dataset_entry *entry = &data->entries[data->facts.files];
    struct ah_source *tokens = &entry->parts[AH_DATASET_TOKENS];
    struct ah_format format = {0};
    entry->file.path = ah_arena_strdup(&data->arena, path);
    if (!entry->file.path)
        return ah_error_memory(err);
    int rc = ah_source_find(tokens, entry->file.path, err);
    if (!rc)
        rc = ah_format_find(&format, &data->sources, tokens, options, err);
    if (!rc)
        rc = find_companion(data, entry, AH_DATASET_MASK, err);
    if (!rc)
        rc = find_companion(data, entry, AH_DATASET_DOCS, err);
    entry->file.format = format.format;
    entry->file.token_bytes = format.token_bytes;
    entry->file.by_values = format.by_values;
    entry->file.align = format.align;
    entry->file.tokens = format.tokens;
    entry->file.first_token = data->facts.tokens;
    entry->offset_bytes = format.offset_bytes;
    entry->only_text = format.only_text;
    entry->begins = data->facts.files == 0 || format.format == AH_DATASET_BYTES;
    if (!rc)
        rc = check_sizes(entry, err);
    if (rc)
        return rc;
    data->facts.tokens += format.tokens;
    data->facts.files++;
    return AH_OK;
}

/* Checks that either all files or none have this companion, because a lost one would silently change the training. */
static int check_alike(const struct ah_dataset *data, enum ah_dataset_part part, struct ah_error *err)
{
    const struct ah_dataset_entry *with = NULL, *without = NULL;
    for (size_t i = 0; i < data->facts.files; i++)
        *(data->entries[i].parts[part].path ? &with : &without) = &data->entries[i];
    if (!with || !without)
        return AH_OK;
    return ah_error_set(
        err, AH_E_DOCUMENT,
        "%s: '%s%s' is missing, but '%s' exists; give every file of the data set one, or none",
        without->file.path, without->file.path, endings[part], with->parts[part].path);
}

/* Checks that all files have the same align, and are all text or all tokens: a mixture means a mistaken name. */
static int check_one_kind(struct ah_dataset *data, struct ah_error *err)
{
    const struct ah_dataset_file *first = &data->entries[0].file;
    for (size_t i = 1; i < data->facts.files; i++) {
        const struct ah_dataset_file *file = &data->entries[i].file;
        bool text = file->format == AH_DATASET_BYTES;
        if (text != (first->format == AH_DATASET_BYTES))
            return ah_error_set(err, AH_E_DOCUMENT,
                                "'%s' holds tokens, but '%s' is text; train on one kind, or convert the text "
                                "to token files with 'autohete tokenize'",
                                text ? first->path : file->path, text ? file->path : first->path);
        if (file->align != first->align)
            return ah_error_set(err, AH_E_DOCUMENT,
                                "the examples of '%s' are aligned to sequences of %" PRIu64 " tokens, those "
                                "of '%s' to %" PRIu64 " (0: not aligned); remake them with the same "
                                "'--align'",
                                first->path, first->align, file->path, file->align);
    }
    data->facts.align = first->align;
    return AH_OK;
}

static int add_files(struct ah_dataset *data, const struct ah_paths *paths,
                     const struct ah_dataset_options *options, struct ah_error *err)
{
    data->entries = ah_arena_array(&data->arena, paths->count, sizeof *data->entries);
    if (!data->entries)
        return ah_error_memory(err);
    for (size_t i = 0; i < paths->count; i++) {
        int rc = add_file(data, paths->items[i], options, err);
        if (rc)
            return rc;
    }
    int rc = check_one_kind(data, err);
    rc = rc ? rc : check_alike(data, AH_DATASET_MASK, err);
    return rc ? rc : check_alike(data, AH_DATASET_DOCS, err);
}

int ah_dataset_open(struct ah_dataset **ret_data, const struct ah_dataset_options *options,
                    struct ah_error *err)
{
    struct ah_paths paths = {0};
    struct ah_dataset *data = calloc(1, sizeof *data);
    if (!data)
        return ah_error_memory(err);
    int rc = AH_OK;
    data->vocabulary = options->vocabulary;
    if (!options->vocabulary || options->vocabulary > UINT64_C(1) << 32)
        rc = ah_error_set(err, AH_E_USAGE, "'vocabulary' is %" PRIu64 "; it must be 1 to 2^32",
                          options->vocabulary);
    else if (!options->n_paths)
        rc = ah_error_set(err, AH_E_USAGE, "no data are given; name a file, a folder or a pattern");
    for (size_t i = 0; i < options->n_paths && !rc; i++)
        rc = ah_paths_find(&paths, options->paths[i], err);
    if (!rc)
        rc = add_files(data, &paths, options, err);
    if (!rc)
        rc = ah_dataset_check(data, options, err);
    ah_paths_release(&paths);
    if (rc)
        ah_dataset_close(data);
    else
        *ret_data = data;
    return rc;
}

const struct ah_dataset_facts *ah_dataset_facts(const struct ah_dataset *data)
{
    return &data->facts;
}

const struct ah_dataset_file *ah_dataset_file(const struct ah_dataset *data, size_t index)
{
    return &data->entries[index].file;
}

void ah_dataset_close(struct ah_dataset *data)
{
    if (!data)
        return;
    ah_source_close_all(&data->sources);
    ah_arena_release(&data->arena);
    free(data);
}
