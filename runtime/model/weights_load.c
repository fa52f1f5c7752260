/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading: names, shapes and dtypes are all checked before the first value is read.
 */
#include "runtime/model/safetensors_internal.h"
#include "runtime/model/walk_internal.h"
#include "schemas/nearest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CANDIDATES_MAX = 4096 };

struct load {
    const struct ah_model *model;
    struct ah_walk walk;
    const char *path;
    const struct ah_weights_sink *sink;
    struct ah_safetensors files;
    const struct ah_names_spelling *spelling; /* of names in the files */
    bool *used;                               /* by tensor of the files: true if a part has used it */
    float *values;                            /* AH_WALK_BAND_MAX; only the memory that bands reach is used */
    float *lines; /* AH_WEIGHTS_PIECE_MAX; lines of the file, or values to be compared */
    struct ah_error *err;
};

static const struct ah_safetensors_tensor *find_tensor(const struct load *load,
                                                       const struct ah_names_part *part)
{
    char name[AH_NAMES_NAME_MAX];
    ah_names_spell(load->model, load->spelling, part->name, name);
    return ah_safetensors_find(&load->files, name);
}

static const char *path_of(const struct load *load, const struct ah_safetensors_tensor *tensor)
{
    return load->files.files[tensor->file].path;
}

/* ---- checks ---- */

/* Returns an unused tensor of the files with a name near that of a missing tensor; NULL: none is near. */
static const char *nearest(const struct load *load, const char *name)
{
    const char **candidates = malloc(CANDIDATES_MAX * sizeof *candidates);
    size_t n = 0;
    for (size_t i = 0; candidates && i < load->files.n_tensors && n < CANDIDATES_MAX; i++)
        if (!load->used[i])
            candidates[n++] = load->files.tensors[i].name;
    const char *found = candidates ? ah_nearest(name, candidates, n) : NULL;
    free(candidates);
    return found;
}

static int fail_missing(const struct load *load, const char *name)
{
    char shown[AH_SAFETENSORS_NAME_TEXT];
    const char *family = ah_words_family[load->model->family];
    const char *near = nearest(load, name);
    if (strcmp(name, ah_names_head()) == 0)
        return ah_safetensors_fail(
            load->err, AH_E_MISMATCH, load->path, name,
            "is missing; if the head uses the embedding's table, the model must say that it is tied");
    if (near)
        return ah_safetensors_fail(load->err, AH_E_MISMATCH, load->path, name,
                                   "is missing, a tensor of this %s model; is it '%s'?", family,
                                   ah_safetensors_plain(near, shown));
    return ah_safetensors_fail(load->err, AH_E_MISMATCH, load->path, name,
                               "is missing, a tensor of this %s model; are these its weights?", family);
}

static int check_shape(const struct load *load, const struct ah_names_part *part,
                       const struct ah_safetensors_tensor *tensor)
{
    char has[AH_SAFETENSORS_SHAPE_TEXT], needs[AH_SAFETENSORS_SHAPE_TEXT];
    if (tensor->n_shape == part->n_shape &&
        memcmp(tensor->shape, part->shape, part->n_shape * sizeof *part->shape) == 0)
        return AH_OK;
    return ah_safetensors_fail(load->err, AH_E_MISMATCH, path_of(load, tensor), tensor->name,
                               "has the shape %s, but the model has %s; are these its weights?",
                               ah_safetensors_shape_text(tensor->shape, tensor->n_shape, has),
                               ah_safetensors_shape_text(part->shape, part->n_shape, needs));
}

/* Marks a part's tensor as used, if it exists. For a missing tensor, an unused one may then be suggested. */
static int mark_part(void *context, const struct ah_walk_step *step)
{
    struct load *load = context;
    const struct ah_safetensors_tensor *tensor = find_tensor(load, step->part);
    if (tensor)
        load->used[tensor - load->files.tensors] = true;
    return AH_OK;
}

static int report_missing(void *context, const struct ah_walk_step *step)
{
    const struct load *load = context;
    char name[AH_NAMES_NAME_MAX];
    ah_names_spell(load->model, load->spelling, step->part->name, name);
    return find_tensor(load, step->part) ? AH_OK : fail_missing(load, name);
}

/* Checks shape and dtype of a part that exists. */
static int check_part(void *context, const struct ah_walk_step *step)
{
    const struct load *load = context;
    const struct ah_safetensors_tensor *tensor = find_tensor(load, step->part);
    int rc = check_shape(load, step->part, tensor);
    /* reads nothing, but checks the dtype */
    return rc ? rc : ah_safetensors_read(&load->files, tensor, 0, 0, load->values, load->err);
}

/* Checks that the second copy of a tied model's table, if any, has the same values. Otherwise it is another model. */
static int check_copy(const struct load *load, const struct ah_names_part *embedding)
{
    const bool adapter = load->walk.trained != NULL;
    struct ah_names_part of_head = {0}, of_table = *embedding;
    snprintf(of_head.name, sizeof of_head.name, "%s", ah_names_head());
    if (adapter) {
        ah_names_in_adapter(load->model, &of_head);
        ah_names_in_adapter(load->model, &of_table);
    }
    const struct ah_safetensors_tensor *table = find_tensor(load, &of_table);
    const struct ah_safetensors_tensor *head = find_tensor(load, &of_head);
    if (adapter && !head != !table)
        return ah_error_set(load->err, AH_E_MISMATCH, AH_WEIGHTS_APART, load->path);
    if (!head || !table)
        return AH_OK;
    load->used[head - load->files.tensors] = true;
    int rc = check_shape(load, embedding, head);
    for (uint64_t at = 0; at < table->elements && !rc; at += AH_WEIGHTS_PIECE_MAX) {
        uint64_t left = table->elements - at;
        uint64_t n = left < AH_WEIGHTS_PIECE_MAX ? left : AH_WEIGHTS_PIECE_MAX;
        rc = ah_safetensors_read(&load->files, table, at, n, load->values, load->err);
        if (!rc)
            rc = ah_safetensors_read(&load->files, head, at, n, load->lines, load->err);
        if (!rc && memcmp(load->values, load->lines, n * sizeof *load->values) != 0)
            rc = ah_safetensors_fail(load->err, AH_E_MISMATCH, path_of(load, head), head->name,
                                     "differs from '%s', though the model says that the head is tied to it",
                                     table->name);
    }
    return rc;
}

static int check_rest(const struct load *load)
{
    const struct ah_safetensors_tensor *first = NULL;
    char more[48] = "";
    size_t others = 0;
    for (size_t i = 0; i < load->files.n_tensors; i++) {
        const struct ah_safetensors_tensor *tensor = &load->files.tensors[i];
        if (load->used[i] || ah_names_ignorable(load->model->family, tensor->name) ||
            ah_names_is_outside(load->model, tensor->name))
            continue;
        others += first != NULL;
        first = first ? first : tensor;
    }
    if (!first)
        return AH_OK;
    if (others)
        snprintf(more, sizeof more, " (nor are %zu others)", others);
    return ah_safetensors_fail(load->err, AH_E_MISMATCH, path_of(load, first), first->name,
                               "is not a tensor of this %s model with %" PRIu64
                               " layers%s; are these its weights?",
                               ah_words_family[load->model->family], load->model->layers, more);
}

static int check_files(struct load *load)
{
    struct ah_names_part parts[AH_NAMES_PARTS_MAX];
    const struct ah_names_spelling *usual = ah_names_spellings(load->model);
    ah_names_parts(load->model, 0, parts);
    load->spelling = usual;
    while (load->spelling->prefix && !find_tensor(load, &parts[0]))
        load->spelling++;
    if (!load->spelling->prefix)
        load->spelling = usual;
    ah_walk_parts(&load->walk, mark_part, load);
    int rc = ah_walk_parts(&load->walk, report_missing, load);
    if (!rc)
        rc = ah_walk_parts(&load->walk, check_part, load);
    if (!rc && load->model->tied)
        rc = check_copy(load, &parts[0]);
    return rc ? rc : check_rest(load);
}

/* ---- values ---- */

/* Reads `n` lines of the file, as far as they are in the band, one after another into load->lines. */
static int read_lines(const struct load *load, const struct ah_walk_step *step,
                      const struct ah_safetensors_tensor *tensor, uint64_t col, uint64_t n)
{
    int rc = AH_OK;
    for (uint64_t i = 0; i < n && !rc; i++) {
        uint64_t first = (step->col + col + i) * step->part->rows + step->row;
        rc = ah_safetensors_read(&load->files, tensor, first, step->rows, load->lines + i * step->rows,
                                 load->err);
    }
    return rc;
}

/* Reads a band of a transposed part. Lines of the file are our columns. */
static int read_transposed(const struct load *load, const struct ah_walk_step *step,
                           const struct ah_safetensors_tensor *tensor)
{
    for (uint64_t col = 0; col < step->cols; col += AH_WALK_LINES) {
        uint64_t n = step->cols - col < AH_WALK_LINES ? step->cols - col : AH_WALK_LINES;
        int rc = read_lines(load, step, tensor, col, n);
        if (rc)
            return rc;
        for (uint64_t row = 0; row < step->rows; row++)
            for (uint64_t i = 0; i < n; i++)
                load->values[row * step->cols + col + i] = load->lines[i * step->rows + row];
    }
    return AH_OK;
}

static int check_finite(const struct load *load, const struct ah_walk_step *step,
                        const struct ah_safetensors_tensor *tensor)
{
    for (uint64_t i = 0; i < step->band.n; i++) {
        uint32_t bits;
        memcpy(&bits, &load->values[i], sizeof bits);
        if ((bits & 0x7F800000u) == 0x7F800000u)
            return ah_safetensors_fail(load->err, AH_E_NUMERIC, path_of(load, tensor), tensor->name,
                                       "holds a number that is not finite (row %" PRIu64 ", column %" PRIu64
                                       " of the weight); these weights cannot be trained",
                                       step->row + i / step->cols, step->col + i % step->cols);
    }
    return AH_OK;
}

static int load_band(void *context, const struct ah_walk_step *step)
{
    struct load *load = context;
    if (!ah_weights_wanted(load->sink, step->band.block))
        return AH_OK;
    const struct ah_safetensors_tensor *tensor = find_tensor(load, step->part);
    int rc = step->part->transposed
                 ? read_transposed(load, step, tensor)
                 : ah_safetensors_read(&load->files, tensor, step->row * step->part->cols + step->col,
                                       step->band.n, load->values, load->err);
    if (!rc)
        rc = check_finite(load, step, tensor);
    for (uint64_t at = 0; at < step->band.n && !rc; at += AH_WEIGHTS_PIECE_MAX) {
        const struct ah_weights_piece piece = ah_walk_piece(step, at);
        rc = load->sink->take(load->sink->context, &piece, load->values + at, load->err);
    }
    return rc;
}

int ah_weights_load(const struct ah_model *model, const char *path, const struct ah_weights_sink *sink,
                    struct ah_error *err)
{
    struct load load = {.model = model,
                        .walk = ah_walk_files(model, sink->adapter_of),
                        .path = path,
                        .sink = sink,
                        .err = err};
    int rc = ah_safetensors_open(&load.files, path, err);
    if (rc)
        return rc;
    load.used = calloc(load.files.n_tensors + 1, sizeof *load.used);
    load.values = malloc(AH_WALK_BAND_MAX * sizeof *load.values);
    load.lines = malloc(AH_WEIGHTS_PIECE_MAX * sizeof *load.lines);
    rc = load.used && load.values && load.lines ? check_files(&load) : ah_error_memory(err);
    if (!rc)
        rc = ah_walk_bands(&load.walk, load_band, &load);
    free(load.used);
    free(load.values);
    free(load.lines);
    ah_safetensors_release(&load.files);
    return rc;
}
