/* SPDX-License-Identifier: Apache-2.0
 *
 * Saving: one walk in flat order. A new file begins when the next tensor would exceed the limit, so one file is open at
 * a time. The ecosystem uses the same rule, in its own order; readers use the index. If several processes write, one
 * makes all files first, and each process walks over its own blocks.
 */
#include "base/buffer.h"
#include "base/file.h"
#include "runtime/model/safetensors_internal.h"
#include "runtime/model/walk_internal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHARD_NAME_MAX = 64 };

static const uint64_t shard_bytes_default = UINT64_C(5000000000);

struct save {
    struct ah_walk walk;
    const struct ah_weights_source *source;
    const struct ah_weights_options *options;
    /* (optional) if set, the files exist, and only these blocks are written */
    const struct ah_weights_part *part;
    const char *folder;
    struct ah_names_part *parts; /* owned; of all blocks, by ordinal */
    size_t *shards;              /* owned; number of the file, by ordinal */
    size_t n_parts, n_shards;
    uint64_t total_bytes, shard_bytes;   /* bytes of data: of all shards, of the last shard */
    struct ah_safetensors_writer writer; /* of shard `open` - 1 */
    size_t open, first;                  /* 1 + index of the open shard, 0: none; its first part */
    float *values; /* owned; AH_WALK_BAND_MAX; only the memory that bands reach is used */
    float *lines;  /* owned; AH_WEIGHTS_PIECE_MAX; lines of the file */
    struct ah_error *err;
};

/* peft reads the table of a tied model under both its names. */
static struct ah_walk walk_of(const struct ah_model *model, const uint32_t *adapter_of)
{
    struct ah_walk walk = ah_walk_files(model, adapter_of);
    walk.copies_table = true;
    return walk;
}

/* ---- placement in files ---- */

static int count_part(void *context, const struct ah_walk_step *step)
{
    struct save *save = context;
    save->n_parts = step->ordinal + 1;
    return AH_OK;
}

static int assign_part(void *context, const struct ah_walk_step *step)
{
    struct save *save = context;
    uint64_t limit = save->options->adapter_of    ? UINT64_MAX
                     : save->options->shard_bytes ? save->options->shard_bytes
                                                  : shard_bytes_default;
    uint64_t bytes = step->part->rows * step->part->cols * ah_dtype_bytes(save->options->dtype);
    if (save->n_shards == 0 || save->shard_bytes + bytes > limit) {
        save->n_shards++;
        save->shard_bytes = 0;
    }
    save->shard_bytes += bytes;
    save->total_bytes += bytes;
    save->parts[step->ordinal] = *step->part;
    save->shards[step->ordinal] = save->n_shards - 1;
    return AH_OK;
}

static void name_shard(const struct save *save, size_t shard, char ret_name[SHARD_NAME_MAX])
{
    if (save->n_shards == 1)
        snprintf(ret_name, SHARD_NAME_MAX, "%s",
                 save->options->adapter_of ? AH_WEIGHTS_ADAPTER : AH_SAFETENSORS_FILE);
    else
        snprintf(ret_name, SHARD_NAME_MAX, "model-%05zu-of-%05zu.safetensors", shard + 1, save->n_shards);
}

static int path_in(const struct save *save, const char *name, char ret_path[PATH_MAX])
{
    size_t length = strlen(save->folder);
    const char *slash = length && save->folder[length - 1] == '/' ? "" : "/";
    if (snprintf(ret_path, PATH_MAX, "%s%s%s", save->folder, slash, name) >= PATH_MAX)
        return ah_safetensors_fail(save->err, AH_E_IO, save->folder, NULL, "the name is too long");
    return AH_OK;
}

/* ---- files of tensors ---- */

static int close_shard(struct save *save)
{
    int rc = save->open ? ah_safetensors_finish(&save->writer, save->err) : AH_OK;
    if (!rc)
        ah_safetensors_abandon(&save->writer);
    return rc;
}

/* Opens the file of part `of`. */
static int open_shard(struct save *save, size_t of)
{
    char name[SHARD_NAME_MAX], path[PATH_MAX];
    size_t shard = save->shards[of], ordinal = of, end = of;
    while (ordinal && save->shards[ordinal - 1] == shard)
        ordinal--;
    while (end < save->n_parts && save->shards[end] == shard)
        end++;
    struct ah_safetensors_spec *specs = calloc(end - ordinal, sizeof *specs);
    if (!specs)
        return ah_error_memory(save->err);
    for (size_t i = ordinal; i < end; i++) {
        const struct ah_names_part *part = &save->parts[i];
        specs[i - ordinal] =
            (struct ah_safetensors_spec){part->name, part->n_shape, {part->shape[0], part->shape[1]}};
    }
    name_shard(save, shard, name);
    int rc = path_in(save, name, path);
    if (!rc)
        rc = (save->part ? ah_safetensors_join : ah_safetensors_create)(
            &save->writer, path, save->options->dtype, specs, end - ordinal, save->err);
    free(specs);
    save->open = shard + 1;
    save->first = ordinal;
    return rc;
}

/* Writes a band of a transposed part. Our columns are lines of the file. */
static int write_transposed(struct save *save, const struct ah_walk_step *step, size_t index)
{
    int rc = AH_OK;
    for (uint64_t col = 0; col < step->cols && !rc; col += AH_WALK_LINES) {
        uint64_t n = step->cols - col < AH_WALK_LINES ? step->cols - col : AH_WALK_LINES;
        for (uint64_t row = 0; row < step->rows; row++)
            for (uint64_t i = 0; i < n; i++)
                save->lines[i * step->rows + row] = save->values[row * step->cols + col + i];
        for (uint64_t i = 0; i < n && !rc; i++)
            rc = ah_safetensors_write(&save->writer, index,
                                      (step->col + col + i) * step->part->rows + step->row,
                                      save->lines + i * step->rows, step->rows, save->err);
    }
    return rc;
}

static int reach_shard(struct save *save, size_t ordinal)
{
    if (save->shards[ordinal] + 1 == save->open)
        return AH_OK;
    int rc = close_shard(save);
    return rc ? rc : open_shard(save, ordinal);
}

/* Makes the file of a part, without values. Later all processes, this one included, fill them in. */
static int make_part(void *context, const struct ah_walk_step *step)
{
    struct save *save = context;
    int rc = reach_shard(save, step->ordinal);
    save->writer.partial |= !rc;
    return rc;
}

static int save_band(void *context, const struct ah_walk_step *step)
{
    struct save *save = context;
    if (save->part && !save->part->keeps(save->part->context, step->band.block))
        return AH_OK;
    int rc = reach_shard(save, step->ordinal);
    for (uint64_t at = 0; at < step->band.n && !rc; at += AH_WEIGHTS_PIECE_MAX) {
        const struct ah_weights_piece piece = ah_walk_piece(step, at);
        rc = save->source->give(save->source->context, &piece, save->values + at, save->err);
    }
    if (rc)
        return rc;
    size_t index = step->ordinal - save->first;
    if (step->part->transposed)
        return write_transposed(save, step, index);
    return ah_safetensors_write(&save->writer, index, step->row * step->part->cols + step->col, save->values,
                                step->band.n, save->err);
}

/* ---- config and index ---- */

static int write_text(const struct save *save, const char *name, const char *text, size_t size)
{
    char path[PATH_MAX];
    int rc = path_in(save, name, path);
    return rc ? rc : ah_file_write(path, text, size, save->err);
}

struct entry {
    const char *name;
    size_t shard;
};

static int compare_entries(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

/* Prints the index in the format of json.dumps(index, indent=2, sort_keys=True). */
static void print_index(const struct save *save, struct entry *entries, struct ah_buffer *out)
{
    char file[SHARD_NAME_MAX];
    for (size_t i = 0; i < save->n_parts; i++)
        entries[i] = (struct entry){save->parts[i].name, save->shards[i]};
    qsort(entries, save->n_parts, sizeof *entries, compare_entries);
    ah_buffer_printf(out,
                     "{\n  \"metadata\": {\n    \"total_size\": %" PRIu64 "\n  },\n  \"weight_map\": {\n",
                     save->total_bytes);
    for (size_t i = 0; i < save->n_parts; i++) {
        name_shard(save, entries[i].shard, file);
        ah_buffer_printf(out, "    \"%s\": \"%s\"%s\n", entries[i].name, file,
                         i + 1 < save->n_parts ? "," : "");
    }
    ah_buffer_puts(out, "  }\n}\n");
}

static int write_index(const struct save *save)
{
    struct ah_buffer out = {0};
    struct entry *entries = malloc(save->n_parts * sizeof *entries);
    if (!entries)
        return ah_error_memory(save->err);
    print_index(save, entries, &out);
    int rc =
        out.failed ? ah_error_memory(save->err) : write_text(save, AH_SAFETENSORS_INDEX, out.data, out.size);
    ah_buffer_release(&out);
    free(entries);
    return rc;
}

/* Checks that files to be written do not exist. Config and index are written last, so it is checked before. */
static int check_absent(const struct save *save)
{
    static const char *const names[] = {AH_SAFETENSORS_FILE, AH_SAFETENSORS_INDEX, "config.json",
                                        AH_WEIGHTS_ADAPTER, AH_WEIGHTS_ADAPTER_CONFIG};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int rc = path_in(save, names[i], path);
        if (rc)
            return rc;
        if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            return ah_safetensors_fail(save->err, AH_E_IO, path, NULL,
                                       "exists already; name a folder without weights");
    }
    return AH_OK;
}

/* Writes the files of tensors. Without a source it only makes them. */
static int save_tensors(struct save *save)
{
    int rc = save->source ? ah_walk_bands(&save->walk, save_band, save)
                          : ah_walk_parts(&save->walk, make_part, save);
    return rc ? rc : close_shard(save);
}

static int save_all(struct save *save)
{
    int rc = check_absent(save);
    if (!rc)
        rc = save_tensors(save);
    if (!rc && save->n_shards > 1)
        rc = write_index(save);
    if (!rc && save->options->config)
        rc = write_text(save, save->options->adapter_of ? AH_WEIGHTS_ADAPTER_CONFIG : "config.json",
                        save->options->config, strlen(save->options->config));
    return rc;
}

struct total {
    enum ah_dtype dtype;
    uint64_t bytes;
};

static int add_part(void *context, const struct ah_walk_step *step)
{
    enum { LINES_BYTES = 128 }; /* bytes that a part takes in a header and in the index, without its name */
    struct total *total = context;
    total->bytes += step->part->rows * step->part->cols * ah_dtype_bytes(total->dtype) + LINES_BYTES +
                    2 * strlen(step->part->name);
    return AH_OK;
}

uint64_t ah_weights_bytes(const struct ah_model *model, enum ah_dtype dtype, const uint32_t *adapter_of)
{
    const struct ah_walk walk = walk_of(model, adapter_of);
    enum { FILES_BYTES = 4096 }; /* bytes for each file: the end of its header, rounded up */
    struct total total = {dtype, FILES_BYTES};
    ah_walk_parts(&walk, add_part, &total);
    return total.bytes;
}

static int run_save(struct save *save)
{
    save->writer.descriptor = -1;
    ah_walk_parts(&save->walk, count_part, save);
    save->parts = malloc(save->n_parts * sizeof *save->parts);
    save->shards = malloc(save->n_parts * sizeof *save->shards);
    save->values = malloc(AH_WALK_BAND_MAX * sizeof *save->values);
    save->lines = malloc(AH_WEIGHTS_PIECE_MAX * sizeof *save->lines);
    const bool memory = save->parts && save->shards && save->values && save->lines;
    if (memory)
        ah_walk_parts(&save->walk, assign_part, save);
    int rc = !memory ? ah_error_memory(save->err) : save->part ? save_tensors(save) : save_all(save);
    ah_safetensors_abandon(&save->writer);
    free(save->parts);
    free(save->shards);
    free(save->values);
    free(save->lines);
    return rc;
}

int ah_weights_save(const struct ah_model *model, const struct ah_weights_source *source,
                    const struct ah_weights_options *options, const char *folder, struct ah_error *err)
{
    struct save save = {.walk = walk_of(model, options->adapter_of),
                        .source = source,
                        .options = options,
                        .folder = folder,
                        .err = err};
    return run_save(&save);
}

int ah_weights_make(const struct ah_model *model, const struct ah_weights_options *options,
                    const char *folder, struct ah_error *err)
{
    struct save save = {
        .walk = walk_of(model, options->adapter_of), .options = options, .folder = folder, .err = err};
    return run_save(&save);
}

int ah_weights_fill(const struct ah_model *model, const struct ah_weights_source *source,
                    const struct ah_weights_options *options, const struct ah_weights_part *part,
                    const char *folder, struct ah_error *err)
{
    struct save save = {.walk = walk_of(model, options->adapter_of),
                        .source = source,
                        .options = options,
                        .part = part,
                        .folder = folder,
                        .err = err};
    return run_save(&save);
}
