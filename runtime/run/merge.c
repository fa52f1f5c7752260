/* SPDX-License-Identifier: Apache-2.0
 *
 * Goes through the base's files, and writes each file anew. Names decide: the adapter of a base's tensor "X.weight" is
 * "base_model.model.X.lora_A.weight" and "...lora_B.weight", and "base_model.model.X.weight" replaces it. A base in the
 * files of a bare model leaves out the family's prefix, which the adapter's names have.
 *
 * In the file's layout, a matrix gets s L R: without transposition L is B and R is A, else L is A and R is B, both
 * transposed. So a row of the file gets the sum over k, in ascending order, of s L[row][k] times R's row k.
 */
#include "runtime/run/merge.h"

#include "base/buffer.h"
#include "base/file.h"
#include "runtime/model/adapter.h"
#include "runtime/model/config.h"
#include "runtime/model/safetensors.h"
#include "runtime/model/weight_names.h"
#include "runtime/model/weights.h"
#include "runtime/train/checkpoint/companions.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_MAX_BYTES = 512 };

/* An adapter of one tensor, in the layout of the base's file. */
struct factors {
    float *left;  /* owned; (rows, rank) */
    float *right; /* owned; (rank, cols) */
    uint64_t rank, cols;
};

struct merge {
    const struct ah_merge_options *options;
    struct ah_adapter_facts facts;
    struct ah_safetensors base, adapter;
    bool *used;            /* owned; by tensor of the adapter */
    char folder[PATH_MAX]; /* FOLDER.tmp */
    float *values, *sums;  /* owned; AH_WEIGHTS_PIECE_MAX, or the longest row */
    uint64_t room;         /* elements of `values` and of `sums` */
    uint64_t done, all;    /* elements of the base */
    struct ah_buffer map;  /* lines of the index */
    struct ah_merged merged;
    struct ah_error *err;
};

/* ---- names ---- */

/* Returns the adapter's tensor "base_model.model." + the base's name, its ".weight" replaced by `ending`; or the same
 * with the base's name as files of adapters spell it. */
static const struct ah_safetensors_tensor *find_in_adapter(const struct merge *merge, const char *name,
                                                           const char *ending)
{
    const char *end = strrchr(name, '.');
    const size_t stem = end && !strcmp(end, ".weight") ? (size_t)(end - name) : strlen(name);
    const struct ah_model *model = merge->options->model;
    char wanted[NAME_MAX_BYTES];
    struct ah_names_part part;
    snprintf(wanted, sizeof wanted, "base_model.model.%.*s%s", (int)stem, name,
             ending ? ending : name + stem);
    const struct ah_safetensors_tensor *found = ah_safetensors_find(&merge->adapter, wanted);
    if (!found && !ah_names_is_outside(model, name) &&
        ah_names_unspell(model, wanted + strlen("base_model.model."), part.name)) {
        ah_names_in_adapter(model, &part);
        found = ah_safetensors_find(&merge->adapter, part.name);
    }
    if (found)
        merge->used[found - merge->adapter.tensors] = true;
    return found;
}

static int misfit(const struct merge *merge, const struct ah_safetensors_tensor *tensor, const char *name)
{
    char shape[AH_SAFETENSORS_SHAPE_TEXT];
    return ah_error_set(merge->err, AH_E_MISMATCH,
                        "%s: '%.200s' has the shape %s, which does not fit '%.200s' of the base; is it an "
                        "adapter of this model?",
                        merge->adapter.files[tensor->file].path, tensor->name,
                        ah_safetensors_shape_text(tensor->shape, tensor->n_shape, shape), name);
}

/* ---- factors ---- */

static float *read_whole(const struct merge *merge, const struct ah_safetensors_tensor *tensor)
{
    float *values = malloc((tensor->elements + 1) * sizeof *values);
    if (!values)
        ah_error_memory(merge->err);
    else if (ah_safetensors_read(&merge->adapter, tensor, 0, tensor->elements, values, merge->err)) {
        free(values);
        values = NULL;
    }
    return values;
}

static float *transpose(const struct merge *merge, float *from, uint64_t rows, uint64_t cols)
{
    float *to = from ? malloc(rows * cols * sizeof *to) : NULL;
    for (uint64_t i = 0; to && i < rows; i++)
        for (uint64_t k = 0; k < cols; k++)
            to[k * rows + i] = from[i * cols + k];
    if (from && !to)
        ah_error_memory(merge->err);
    free(from);
    return to;
}

static void release_factors(struct factors *factors)
{
    free(factors->left);
    free(factors->right);
    *factors = (struct factors){0};
}

/* Reads A and B of a tensor of the base; leaves `ret_factors` empty if it has none. */
static int read_factors(struct merge *merge, const struct ah_safetensors_tensor *tensor,
                        struct factors *ret_factors)
{
    const struct ah_safetensors_tensor *a = find_in_adapter(merge, tensor->name, ".lora_A.weight");
    const struct ah_safetensors_tensor *b = find_in_adapter(merge, tensor->name, ".lora_B.weight");
    const bool transposed = merge->options->model->family == AH_FAMILY_GPT2;
    *ret_factors = (struct factors){0};
    if (!a && !b)
        return AH_OK;
    if (!a || !b)
        return ah_error_set(merge->err, AH_E_MISMATCH, "%s: has only one of lora_A and lora_B for '%.200s'",
                            merge->adapter.files[0].path, tensor->name);
    const uint64_t inputs = tensor->shape[transposed ? 0 : 1], outputs = tensor->shape[transposed ? 1 : 0];
    if (tensor->n_shape != 2 || a->n_shape != 2 || (double)a->shape[0] != merge->facts.rank ||
        a->shape[1] != inputs)
        return misfit(merge, a, tensor->name);
    if (b->n_shape != 2 || b->shape[0] != outputs || b->shape[1] != a->shape[0])
        return misfit(merge, b, tensor->name);
    float *first = read_whole(merge, transposed ? a : b), *second = read_whole(merge, transposed ? b : a);
    if (transposed) {
        first = transpose(merge, first, a->shape[0], a->shape[1]);
        second = transpose(merge, second, b->shape[0], b->shape[1]);
    }
    *ret_factors = (struct factors){first, second, a->shape[0], tensor->shape[1]};
    if (first && second)
        return AH_OK;
    release_factors(ret_factors);
    return merge->err ? merge->err->code : AH_E_MEMORY;
}

/* ---- tensors ---- */

/* Adds s L R to `n` rows from `row` on. */
static void add_product(struct merge *merge, const struct factors *factors, uint64_t row, uint64_t n)
{
    const float scale = (float)merge->facts.scale;
    for (uint64_t i = 0; i < n; i++) {
        float *values = merge->values + i * factors->cols, *sums = merge->sums;
        const float *left = factors->left + (row + i) * factors->rank;
        memset(sums, 0, factors->cols * sizeof *sums);
        for (uint64_t k = 0; k < factors->rank; k++) {
            const float *right = factors->right + k * factors->cols, of = left[k];
            for (uint64_t j = 0; j < factors->cols; j++)
                sums[j] += of * right[j];
        }
        for (uint64_t j = 0; j < factors->cols; j++)
            values[j] += scale * sums[j];
    }
}

static int show(const struct merge *merge)
{
    const double share = (double)merge->done / (double)(merge->all ? merge->all : 1);
    return !merge->options->progress || merge->options->progress(merge->options->context, share)
               ? AH_OK
               : ah_error_set(merge->err, AH_E_INTERRUPTED, "interrupted; nothing was written");
}

/* Writes one tensor: pieces of the base's, or of the adapter's that replaces it, as whole rows where they fit. */
static int write_tensor(struct merge *merge, struct ah_safetensors_writer *writer, size_t index,
                        const struct ah_safetensors_tensor *tensor)
{
    struct factors factors;
    const struct ah_safetensors_tensor *whole = find_in_adapter(merge, tensor->name, NULL);
    int rc = read_factors(merge, tensor, &factors);
    if (!rc && whole &&
        (whole->n_shape != tensor->n_shape ||
         memcmp(whole->shape, tensor->shape, tensor->n_shape * sizeof *tensor->shape) != 0))
        rc = misfit(merge, whole, tensor->name);
    const uint64_t cols = factors.cols ? factors.cols : 1, most = merge->room / cols * cols;
    for (uint64_t at = 0; at < tensor->elements && !rc; at += most) {
        const uint64_t n = tensor->elements - at < most ? tensor->elements - at : most;
        rc = whole ? ah_safetensors_read(&merge->adapter, whole, at, n, merge->values, merge->err)
                   : ah_safetensors_read(&merge->base, tensor, at, n, merge->values, merge->err);
        if (!rc && factors.cols)
            add_product(merge, &factors, at / cols, n / cols);
        rc = rc ? rc : ah_safetensors_write(writer, index, at, merge->values, n, merge->err);
        merge->done += n;
        rc = rc ? rc : show(merge);
    }
    merge->merged.adapters += factors.cols != 0;
    merge->merged.replaced += whole != NULL;
    release_factors(&factors);
    return rc;
}

/* ---- files ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int path_in(const struct merge *merge, const char *name, char ret_path[PATH_MAX])
{
    if (snprintf(ret_path, PATH_MAX, "%s/%s", merge->folder, name) >= PATH_MAX)
        return ah_error_set(merge->err, AH_E_IO, "%.200s: the name is too long", merge->folder);
    return AH_OK;
}

/* True if the tensor is written: leftovers of older versions, which hold nothing learned, are not. */
static bool is_kept(const struct merge *merge, const struct ah_safetensors_tensor *tensor)
{
    return !ah_names_ignorable(merge->options->model->family, tensor->name);
}

/* Makes the table of a file: its tensors, by index of the base's. Returns their number. */
static size_t list_tensors(const struct merge *merge, size_t file, struct ah_safetensors_spec *specs,
                           size_t *of, enum ah_dtype *ret_dtype)
{
    size_t n = 0;
    *ret_dtype = AH_BF16;
    for (size_t i = 0; i < merge->base.n_tensors; i++) {
        const struct ah_safetensors_tensor *tensor = &merge->base.tensors[i];
        if (tensor->file != file || !is_kept(merge, tensor))
            continue;
        specs[n] = (struct ah_safetensors_spec){.name = tensor->name, .n_shape = tensor->n_shape};
        memcpy(specs[n].shape, tensor->shape, sizeof specs[n].shape);
        if (tensor->dtype != AH_SAFETENSORS_BF16)
            *ret_dtype = AH_FP32;
        of[n++] = i;
    }
    return n;
}

static int write_tensors(struct merge *merge, struct ah_safetensors_writer *writer, const size_t *of,
                         size_t n, const char *file)
{
    int rc = AH_OK;
    for (size_t i = 0; i < n && !rc; i++) {
        const struct ah_safetensors_tensor *tensor = &merge->base.tensors[of[i]];
        rc = write_tensor(merge, writer, i, tensor);
        merge->merged.bytes += tensor->elements * ah_dtype_bytes(writer->dtype);
        ah_buffer_printf(&merge->map, "%s    \"%s\": \"%s\"", merge->map.size ? ",\n" : "", tensor->name,
                         file);
    }
    return rc ? rc : ah_safetensors_finish(writer, merge->err);
}

static int write_file(struct merge *merge, size_t file, enum ah_dtype *ret_dtype)
{
    struct ah_safetensors_spec *specs = calloc(merge->base.n_tensors + 1, sizeof *specs);
    size_t *of = calloc(merge->base.n_tensors + 1, sizeof *of);
    struct ah_safetensors_writer writer = {.descriptor = -1};
    const char *name = base_name(merge->base.files[file].path);
    char path[PATH_MAX];
    int rc = specs && of ? path_in(merge, name, path) : ah_error_memory(merge->err);
    if (!rc) {
        const size_t n = list_tensors(merge, file, specs, of, ret_dtype);
        rc = ah_safetensors_create(&writer, path, *ret_dtype, specs, n, merge->err);
        rc = rc ? rc : write_tensors(merge, &writer, of, n, name);
        ah_safetensors_abandon(&writer);
    }
    free(specs);
    free(of);
    return rc;
}

static int write_text(const struct merge *merge, const char *name, const struct ah_buffer *text)
{
    char path[PATH_MAX];
    if (text->failed)
        return ah_error_memory(merge->err);
    int rc = path_in(merge, name, path);
    return rc ? rc : ah_file_write(path, text->data, text->size, merge->err);
}

static int write_index(const struct merge *merge)
{
    struct ah_buffer text = {0};
    ah_buffer_printf(&text,
                     "{\n  \"metadata\": {\n    \"total_size\": %" PRIu64
                     "\n  },\n  \"weight_map\": {\n%s\n  }\n}\n",
                     merge->merged.bytes, merge->map.failed ? "" : merge->map.data);
    text.failed |= merge->map.failed;
    const int rc = write_text(merge, AH_SAFETENSORS_INDEX, &text);
    ah_buffer_release(&text);
    return rc;
}

/* Writes the base's config.json with the dtype of the files, and the files beside it. */
static int write_rest(const struct merge *merge, enum ah_dtype dtype)
{
    struct ah_companions companions = {0};
    struct ah_buffer config = {0};
    char path[PATH_MAX];
    int rc = AH_OK;
    if (snprintf(path, sizeof path, "%s/config.json", merge->options->base) >= PATH_MAX)
        rc = ah_error_set(merge->err, AH_E_IO, "%.200s: the name is too long", merge->options->base);
    rc = rc ? rc : ah_config_adopt(merge->options->model, path, dtype, &config, merge->err);
    rc = rc ? rc : write_text(merge, "config.json", &config);
    rc = rc ? rc : ah_companions_read(&companions, merge->options->base, merge->err);
    for (size_t i = 0; i < companions.n && !rc; i++)
        rc = write_text(merge, companions.items[i].name, &companions.items[i].bytes);
    ah_companions_release(&companions);
    ah_buffer_release(&config);
    return rc;
}

/* ---- the whole ---- */

static int check_used(const struct merge *merge)
{
    char copy[NAME_MAX_BYTES];
    snprintf(copy, sizeof copy, "base_model.model.%s", ah_names_head());
    for (size_t i = 0; i < merge->adapter.n_tensors; i++) {
        const char *name = merge->adapter.tensors[i].name;
        const bool is_copy = merge->options->model->tied && !strcmp(name, copy);
        if (!merge->used[i] && !is_copy)
            return ah_error_set(
                merge->err, AH_E_MISMATCH,
                "%s: '%.300s' belongs to no tensor of the base '%s'; is it an adapter of this "
                "model?",
                merge->adapter.files[0].path, name, merge->options->base);
    }
    return AH_OK;
}

/* Checks that an adapter of a tied model has both copies of a trained table, and that they are equal. */
static int check_tied(struct merge *merge)
{
    char head[NAME_MAX_BYTES];
    const struct ah_safetensors_tensor *table = NULL;
    snprintf(head, sizeof head, "base_model.model.%s", ah_names_head());
    const struct ah_safetensors_tensor *copy = ah_safetensors_find(&merge->adapter, head);
    for (size_t i = 0; i < merge->base.n_tensors && !table; i++)
        if (ah_names_is_table(merge->options->model, merge->base.tensors[i].name))
            table = find_in_adapter(merge, merge->base.tensors[i].name, NULL);
    bool same = !copy == !table && (!copy || copy->elements == table->elements);
    for (uint64_t at = 0; same && copy && at < copy->elements; at += AH_WEIGHTS_PIECE_MAX) {
        const uint64_t left = copy->elements - at,
                       n = left < AH_WEIGHTS_PIECE_MAX ? left : AH_WEIGHTS_PIECE_MAX;
        int rc = ah_safetensors_read(&merge->adapter, table, at, n, merge->values, merge->err);
        rc = rc ? rc : ah_safetensors_read(&merge->adapter, copy, at, n, merge->sums, merge->err);
        if (rc)
            return rc;
        same = !memcmp(merge->values, merge->sums, n * sizeof *merge->values);
    }
    return same ? AH_OK
                : ah_error_set(merge->err, AH_E_MISMATCH, AH_WEIGHTS_APART, merge->adapter.files[0].path);
}

/* Looks for all tensors of the adapter by the base's names, before anything is written. */
static int check_names(struct merge *merge)
{
    if (!merge->adapter.n_tensors)
        return ah_error_set(merge->err, AH_E_MISMATCH, "%s: has no tensors", merge->adapter.files[0].path);
    for (size_t i = 0; i < merge->base.n_tensors; i++) {
        const char *name = merge->base.tensors[i].name;
        (void)find_in_adapter(merge, name, NULL);
        (void)find_in_adapter(merge, name, ".lora_A.weight");
        (void)find_in_adapter(merge, name, ".lora_B.weight");
    }
    const int rc = merge->options->model->tied ? check_tied(merge) : AH_OK;
    return rc ? rc : check_used(merge);
}

static int open_all(struct merge *merge)
{
    char path[PATH_MAX];
    int rc = ah_adapter_read(merge->options->adapter, &merge->facts, merge->err);
    rc = rc ? rc : ah_adapter_path(merge->options->adapter, path, merge->err);
    rc = rc ? rc : ah_safetensors_open(&merge->adapter, path, merge->err);
    rc = rc ? rc : ah_safetensors_open(&merge->base, merge->options->base, merge->err);
    merge->room = AH_WEIGHTS_PIECE_MAX;
    for (size_t i = 0; i < merge->base.n_tensors && !rc; i++) {
        const struct ah_safetensors_tensor *tensor = &merge->base.tensors[i];
        merge->all += is_kept(merge, tensor) ? tensor->elements : 0;
        if (tensor->n_shape > 1 && tensor->shape[1] > merge->room)
            merge->room = tensor->shape[1];
        if (tensor->n_shape > 2 && is_kept(merge, tensor) &&
            !ah_names_is_outside(merge->options->model, tensor->name))
            rc = ah_error_set(merge->err, AH_E_MISMATCH, "%s: '%.300s' is not a tensor of this %s model",
                              merge->base.files[tensor->file].path, tensor->name,
                              ah_words_family[merge->options->model->family]);
    }
    if (rc)
        return rc;
    merge->values = malloc(merge->room * sizeof *merge->values);
    merge->sums = malloc(merge->room * sizeof *merge->sums);
    merge->used = calloc(merge->adapter.n_tensors + 1, sizeof *merge->used);
    return merge->values && merge->sums && merge->used ? check_names(merge) : ah_error_memory(merge->err);
}

static int write_all(struct merge *merge)
{
    enum ah_dtype dtype = AH_BF16;
    int rc = AH_OK;
    for (size_t file = 0; file < merge->base.n_files && !rc; file++)
        rc = write_file(merge, file, &dtype);
    if (!rc && merge->base.n_files > 1)
        rc = write_index(merge);
    return rc ? rc : write_rest(merge, dtype);
}

/* Removes what was written after a failure. */
static void remove_files(const struct merge *merge)
{
    struct ah_companions companions = {0};
    char path[PATH_MAX];
    for (size_t i = 0; i < merge->base.n_files; i++)
        if (!path_in(merge, base_name(merge->base.files[i].path), path))
            unlink(path);
    if (!path_in(merge, AH_SAFETENSORS_INDEX, path))
        unlink(path);
    if (!path_in(merge, "config.json", path))
        unlink(path);
    if (!ah_companions_read(&companions, merge->options->base, NULL))
        for (size_t i = 0; i < companions.n; i++)
            if (!path_in(merge, companions.items[i].name, path))
                unlink(path);
    ah_companions_release(&companions);
    rmdir(merge->folder);
}

static int fail_folder(const struct merge *merge, const char *path, const char *what)
{
    return ah_error_set(merge->err, AH_E_IO, "%.300s: cannot be %s: %s", path, what, strerror(errno));
}

static int write_folder(struct merge *merge, const char *folder)
{
    if (faccessat(AT_FDCWD, folder, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return ah_error_set(merge->err, AH_E_IO, "%.300s: exists already; name a new folder", folder);
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/')
        length--;
    if (snprintf(merge->folder, sizeof merge->folder, "%.*s.tmp", (int)length, folder) >= PATH_MAX)
        return ah_error_set(merge->err, AH_E_IO, "%.200s: the name is too long", folder);
    if (mkdir(merge->folder, 0777))
        return errno == EEXIST
                   ? ah_error_set(merge->err, AH_E_IO,
                                  "%.300s: exists already, perhaps from a merge that was killed; remove it",
                                  merge->folder)
                   : fail_folder(merge, merge->folder, "made");
    int rc = write_all(merge);
    if (!rc && rename(merge->folder, folder))
        rc = fail_folder(merge, folder, "written");
    if (rc)
        remove_files(merge);
    return rc;
}

int ah_merge(const struct ah_merge_options *options, const char *folder, struct ah_merged *ret_merged,
             struct ah_error *err)
{
    struct merge merge = {.options = options, .err = err};
    int rc = open_all(&merge);
    rc = rc ? rc : write_folder(&merge, folder);
    if (!rc)
        *ret_merged = merge.merged;
    ah_safetensors_release(&merge.base);
    ah_safetensors_release(&merge.adapter);
    ah_buffer_release(&merge.map);
    free(merge.used);
    free(merge.values);
    free(merge.sums);
    return rc;
}
