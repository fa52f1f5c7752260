/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens files and reads tensors. A file is opened once and read through its descriptor. So the file that was checked is
 * the one read, even if another file gets its name meanwhile.
 */
#include "runtime/model/safetensors.h"

#include "base/bf16.h"
#include "base/buffer.h"
#include "base/file.h"
#include "runtime/model/safetensors_internal.h"
#include "schemas/document.h"
#include "schemas/json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are read as the host has its numbers");

struct dtype {
    const char *word;
    unsigned bits;
};

static const struct dtype dtypes[] = {
#define DTYPE(name, width) [AH_SAFETENSORS_##name] = {#name, width},
    AH_SAFETENSORS_DTYPES(DTYPE)
#undef DTYPE
};

const char *ah_safetensors_word(enum ah_safetensors_dtype dtype)
{
    return dtypes[dtype].word;
}

unsigned ah_safetensors_bits(enum ah_safetensors_dtype dtype)
{
    return dtypes[dtype].bits;
}

const char *ah_safetensors_shape_text(const uint64_t *shape, size_t n_shape,
                                      char out[AH_SAFETENSORS_SHAPE_TEXT])
{
    int length = snprintf(out, AH_SAFETENSORS_SHAPE_TEXT, "[");
    for (size_t i = 0; i < n_shape && i < AH_SAFETENSORS_DIMENSIONS_MAX; i++)
        length += snprintf(out + length, (size_t)(AH_SAFETENSORS_SHAPE_TEXT - length), "%s%" PRIu64,
                           i ? ", " : "", shape[i]);
    snprintf(out + length, (size_t)(AH_SAFETENSORS_SHAPE_TEXT - length), "]");
    return out;
}

const char *ah_safetensors_plain(const char *name, char out[AH_SAFETENSORS_NAME_TEXT])
{
    const char *end = name + strlen(name);
    size_t n = 0;
    while (name < end) {
        size_t length = ah_json_utf8(name, end);
        if (n + (length ? length : 1) + sizeof "..." > AH_SAFETENSORS_NAME_TEXT) {
            memcpy(out + n, "...", 3);
            n += 3;
            break;
        }
        if (length > 1)
            memcpy(out + n, name, length);
        else
            out[n] = (char)(length && (unsigned char)*name >= 0x20 && *name != 0x7f ? *name : '?');
        n += length ? length : 1;
        name += length ? length : 1;
    }
    out[n] = '\0';
    return out;
}

int ah_safetensors_fail(struct ah_error *err, int code, const char *path, const char *tensor,
                        const char *format, ...)
{
    char what[AH_ERROR_TEXT_MAX], shown[AH_DOCUMENT_NAME_MAX], name[AH_SAFETENSORS_NAME_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    path = ah_document_short_name(path, shown);
    if (!tensor)
        return ah_error_set(err, code, "%s: %s", path, what);
    return ah_error_set(err, code, "%s: '%s': %s", path, ah_safetensors_plain(tensor, name), what);
}

int ah_safetensors_pread(const struct ah_safetensors_file *file, void *bytes, uint64_t size, uint64_t offset,
                         struct ah_error *err)
{
    char *at = bytes;
    while (size) {
        ssize_t got = pread(file->descriptor, at, size, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return ah_safetensors_fail(err, AH_E_IO, file->path, NULL, "cannot be read: %s", strerror(errno));
        if (got == 0)
            return ah_safetensors_fail(err, AH_E_IO, file->path, NULL,
                                       "ends at byte %" PRIu64 "; it became shorter while it was read",
                                       offset);
        at += got;
        offset += (uint64_t)got;
        size -= (uint64_t)got;
    }
    return AH_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct ah_safetensors_tensor *)a)->name,
                  ((const struct ah_safetensors_tensor *)b)->name);
}

const struct ah_safetensors_tensor *ah_safetensors_sort(struct ah_safetensors_tensor *tensors, size_t n)
{
    if (n)
        qsort(tensors, n, sizeof *tensors, compare_names);
    for (size_t i = 1; i < n; i++)
        if (strcmp(tensors[i - 1].name, tensors[i].name) == 0)
            return &tensors[i];
    return NULL;
}

/* ---- opening ---- */

/* Finds out whether an open descriptor is a folder and, if it is a file, the file's size. */
static int examine(int descriptor, const char *path, bool *ret_folder, uint64_t *ret_bytes,
                   struct ah_error *err)
{
    struct stat about;
    if (fstat(descriptor, &about))
        return ah_safetensors_fail(err, AH_E_IO, path, NULL, "cannot be read: %s", strerror(errno));
    *ret_folder = S_ISDIR(about.st_mode);
    if (!S_ISREG(about.st_mode) && !*ret_folder)
        return ah_safetensors_fail(err, AH_E_IO, path, NULL,
                                   "is not a regular file; name a file or a "
                                   "folder");
    *ret_bytes = (uint64_t)about.st_size;
    return AH_OK;
}

/* Opens `path` as the next of `files->files`, which has room, and reads its header. If `ret_folder` (optional) is
 * given, a folder is no error, but is not opened. */
static int open_file(struct ah_safetensors *files, struct ah_safetensors_table *table, const char *path,
                     bool *ret_folder, struct ah_error *err)
{
    struct ah_safetensors_file *file = &files->files[files->n_files];
    bool folder = false;
    file->path = ah_arena_strdup(&files->arena, path);
    if (!file->path)
        return ah_error_memory(err);
    /* does not wait if it is a pipe without a writer */
    file->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char why[AH_FILE_REASON_MAX];
    if (file->descriptor < 0)
        return ah_safetensors_fail(err, AH_E_IO, path, NULL, "cannot be read: %s",
                                   ah_file_reason(path, errno, why));
    int rc = examine(file->descriptor, path, &folder, &file->bytes, err);
    if (!rc && folder && !ret_folder)
        rc = ah_safetensors_fail(err, AH_E_IO, path, NULL, "is a folder where a file is expected");
    if (rc || folder) {
        close(file->descriptor);
        if (!rc)
            *ret_folder = true;
        return rc;
    }
    files->n_files++;
    return ah_safetensors_header(file, files->n_files - 1, &files->arena, table, err);
}

static int reserve_files(struct ah_safetensors *files, size_t n, struct ah_error *err)
{
    files->files = ah_arena_array(&files->arena, n, sizeof *files->files);
    return files->files ? AH_OK : ah_error_memory(err);
}

/* Returns "folder/name", in arena. */
static const char *join_path(struct ah_arena *arena, const char *folder, const char *name)
{
    size_t length = strlen(folder);
    char *path = ah_arena_alloc(arena, length + strlen(name) + 2);
    if (path)
        snprintf(path, length + strlen(name) + 2, "%s%s%s", folder,
                 length && folder[length - 1] == '/' ? "" : "/", name);
    return path;
}

static int open_shards(struct ah_safetensors *files, struct ah_safetensors_table *table, const char *folder,
                       const struct ah_safetensors_index *index, struct ah_error *err)
{
    int rc = reserve_files(files, index->n_files, err);
    for (size_t i = 0; i < index->n_files && !rc; i++) {
        const char *path = join_path(&files->arena, folder, index->files[i]);
        rc = path ? open_file(files, table, path, NULL, err) : ah_error_memory(err);
    }
    return rc;
}

/* Sorts the table's tensors and moves them to `files`. AH_E_DOCUMENT: two have the same name. */
static int keep_tensors(struct ah_safetensors *files, struct ah_safetensors_table *table,
                        struct ah_error *err)
{
    const struct ah_safetensors_tensor *again = ah_safetensors_sort(table->tensors, table->n);
    files->tensors = table->tensors;
    files->n_tensors = table->n;
    *table = (struct ah_safetensors_table){0};
    if (!again)
        return AH_OK;
    return ah_safetensors_fail(err, AH_E_DOCUMENT, files->files[again->file].path, again->name,
                               "is also in '%s'", files->files[again[-1].file].path);
}

static int open_sharded(struct ah_safetensors *files, struct ah_safetensors_table *table, const char *folder,
                        const char *index_path, struct ah_error *err)
{
    struct ah_safetensors_index index = {0};
    int rc = ah_safetensors_index_read(&index, index_path, err);
    if (!rc)
        rc = open_shards(files, table, folder, &index, err);
    if (!rc)
        rc = keep_tensors(files, table, err);
    if (!rc)
        rc = ah_safetensors_index_check(&index, index_path, files, err);
    ah_arena_release(&index.arena);
    return rc;
}

const char *ah_safetensors_other_folder(const char *folder)
{
    static const char adapter[] =
        "is the folder of an adapter; name its base model here, and this folder with '--adapter', or make a "
        "whole model of both with 'autohete merge'";
    static const char pickled[] =
        "has pickled weights, which autohete does not read; convert them to safetensors with "
        "save_pretrained() of transformers";
    static const struct {
        const char *file, *what;
    } others[] = {
        {"adapter_config.json", adapter},
        {"adapter_model.safetensors", adapter},
        {"pytorch_model.bin", pickled},
        {"pytorch_model.bin.index.json", pickled},
        {"params.json", "has the model's original files; name the folder with its config.json and "
                        "safetensors"},
    };
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (snprintf(path, sizeof path, "%s/%s", folder, others[i].file) < (int)sizeof path &&
            faccessat(AT_FDCWD, path, F_OK, 0) == 0)
            return others[i].what;
    return NULL;
}

static int open_folder(struct ah_safetensors *files, struct ah_safetensors_table *table, const char *folder,
                       struct ah_error *err)
{
    const char *single = join_path(&files->arena, folder, AH_SAFETENSORS_FILE);
    const char *index = join_path(&files->arena, folder, AH_SAFETENSORS_INDEX);
    if (!single || !index)
        return ah_error_memory(err);
    if (faccessat(AT_FDCWD, single, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return open_file(files, table, single, NULL, err);
    if (faccessat(AT_FDCWD, index, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return open_sharded(files, table, folder, index, err);
    const char *other = ah_safetensors_other_folder(folder);
    if (other)
        return ah_safetensors_fail(err, AH_E_IO, folder, NULL, "%s", other);
    return ah_safetensors_fail(err, AH_E_IO, folder, NULL,
                               "holds neither '%s' nor '%s'; autohete reads no other formats",
                               AH_SAFETENSORS_FILE, AH_SAFETENSORS_INDEX);
}

int ah_safetensors_open(struct ah_safetensors *ret_files, const char *path, struct ah_error *err)
{
    struct ah_safetensors files = {0};
    struct ah_safetensors_table table = {0};
    bool folder = false;
    int rc = reserve_files(&files, 1, err);
    if (!rc)
        rc = open_file(&files, &table, path, &folder, err);
    if (!rc && folder)
        rc = open_folder(&files, &table, path, err);
    if (!rc && !files.tensors)
        rc = keep_tensors(&files, &table, err);
    free(table.tensors);
    if (rc)
        ah_safetensors_release(&files);
    *ret_files = files;
    return rc;
}

void ah_safetensors_release(struct ah_safetensors *files)
{
    if (!files)
        return;
    for (size_t i = 0; i < files->n_files; i++)
        close(files->files[i].descriptor);
    free(files->tensors);
    ah_arena_release(&files->arena);
    *files = (struct ah_safetensors){0};
}

/* ---- tensors ---- */

const struct ah_safetensors_tensor *ah_safetensors_find(const struct ah_safetensors *files, const char *name)
{
    const struct ah_safetensors_tensor key = {.name = name};
    return files->n_tensors ? bsearch(&key, files->tensors, files->n_tensors, sizeof key, compare_names)
                            : NULL;
}

static float from_f16(uint16_t stored)
{
    uint32_t sign = (uint32_t)(stored & 0x8000u) << 16, exponent = stored >> 10 & 31,
             fraction = stored & 0x3FFu;
    uint32_t bits;
    float value;
    if (exponent == 0) { /* zero or denormal: a multiple of 2^-24 */
        value = (float)fraction * 0x1p-24f;
        return sign ? -value : value;
    }
    bits = sign | (exponent == 31 ? 0xFFu : exponent + 112) << 23 | fraction << 13;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Widens n 16-bit numbers in place. They are the second half of `values`. Value i ends at byte 4i + 4, and the unread
 * numbers begin at 2n + 2i + 2. So in ascending order no number is overwritten before it is read. */
static void widen(float *values, uint64_t n, enum ah_safetensors_dtype dtype)
{
    const char *raw = (const char *)values + 2 * n;
    for (uint64_t i = 0; i < n; i++) {
        uint16_t stored;
        memcpy(&stored, raw + 2 * i, sizeof stored);
        values[i] = dtype == AH_SAFETENSORS_BF16 ? ah_bf16_to_fp32(stored) : from_f16(stored);
    }
}

int ah_safetensors_read(const struct ah_safetensors *files, const struct ah_safetensors_tensor *tensor,
                        uint64_t first, uint64_t n, float *ret_values, struct ah_error *err)
{
    const struct ah_safetensors_file *file = &files->files[tensor->file];
    if (first > tensor->elements || n > tensor->elements - first)
        return ah_safetensors_fail(err, AH_E_FAILED, file->path, tensor->name,
                                   "has %" PRIu64 " elements; %" PRIu64 " from %" PRIu64 " on were asked for",
                                   tensor->elements, n, first);
    if (tensor->dtype == AH_SAFETENSORS_F32)
        return ah_safetensors_pread(file, ret_values, 4 * n, tensor->offset_bytes + 4 * first, err);
    if (tensor->dtype != AH_SAFETENSORS_BF16 && tensor->dtype != AH_SAFETENSORS_F16)
        return ah_safetensors_fail(err, AH_E_DOCUMENT, file->path, tensor->name,
                                   "is %s, but only F32, BF16 and F16 can be read; convert it first",
                                   ah_safetensors_word(tensor->dtype));
    int rc =
        ah_safetensors_pread(file, (char *)ret_values + 2 * n, 2 * n, tensor->offset_bytes + 2 * first, err);
    if (!rc)
        widen(ret_values, n, tensor->dtype);
    return rc;
}
