/* SPDX-License-Identifier: Apache-2.0
 *
 * Saving: writes mark, states, weights, companions and manifest; then syncs, renames and syncs again. A kill before the
 * rename leaves PATH.tmp, known by its mark; a later one leaves a checkpoint. States are hashed while they are written
 * or, if processes write together, by each writer afterwards. Weights are written out of order (weights.h), so hashing
 * reads them again.
 */
#include "runtime/model/safetensors.h"
#include "runtime/train/checkpoint/checkpoint_states_internal.h"
#include "runtime/train/checkpoint/leftover_internal.h"
#include "runtime/train/checkpoint/manifest_internal.h"
#include "runtime/train/checkpoint/stream_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SCRATCH_BYTES = AH_CHECKPOINT_PIECE_MAX * sizeof(float), FILES_BESIDE = 2 /* index, config */ };

struct save {
    const struct ah_checkpoint_job *job;
    const struct ah_checkpoint_source *source;
    bool weights_alone;
    char folder[PATH_MAX];       /* PATH.tmp */
    struct ah_document manifest; /* the manifest's fields known so far; also owns the names of states */
    struct ah_checkpoint *body;  /* of the manifest */
    struct ah_checkpoint_states states;
    struct ah_stream mark;
    void *scratch; /* owned; SCRATCH_BYTES */
    struct ah_error *err;
};

/* ---- the manifest as it grows ---- */

static int add_file(struct save *save, const char *name, uint64_t bytes, const char *sha256)
{
    struct ah_arena *arena = &save->manifest.arena;
    struct ah_checkpoint_file *file = &save->body->files[save->body->n_files];
    *file = (struct ah_checkpoint_file){
        .name = ah_arena_strdup(arena, name), .bytes = bytes, .sha256 = ah_arena_strdup(arena, sha256)};
    save->body->n_files++;
    return file->name && file->sha256 ? AH_OK : ah_error_memory(save->err);
}

static int begin_manifest(struct save *save, const struct ah_checkpoint_position *position)
{
    struct ah_checkpoint *body = ah_arena_alloc(&save->manifest.arena, sizeof *body);
    if (!body)
        return ah_error_memory(save->err);
    *body = (struct ah_checkpoint){.generator = "autohete " AUTOHETE_VERSION,
                                   .step = position->step,
                                   .cursor = position->cursor,
                                   .tokens = position->tokens,
                                   .numeric_signature = *save->job->signature};
    save->manifest.kind = AH_DOCUMENT_CHECKPOINT;
    save->manifest.body.checkpoint = save->body = body;
    int rc = ah_states_plan(save->job, &save->manifest.arena, &save->states, save->err);
    body->states = save->states.items;
    body->n_states = save->states.n;
    return rc;
}

/* ---- states ---- */

static int write_block(struct save *save, struct ah_stream *stream, const struct ah_checkpoint_state *state)
{
    struct ah_checkpoint_piece piece = {0};
    int rc = AH_OK;
    while (!rc && ah_states_next(state, &piece)) {
        rc = save->source->give(save->source->context, &piece, save->scratch, save->err);
        if (!rc)
            rc = ah_stream_write(stream, save->scratch, ah_states_piece_bytes(&piece), save->err);
    }
    return rc;
}

/* Writes a file of states. `*at` is the file's first item, and becomes the next file's first item. */
static int write_states_file(struct save *save, const struct ah_states_file *file, size_t *at)
{
    struct ah_stream stream;
    char sha256[AH_SHA256_HEX_MAX];
    int rc = ah_stream_create(&stream, save->folder, file->name, file->bytes, save->err);
    if (rc)
        return rc;
    for (; *at < save->states.n && save->states.items[*at].file == file->name && !rc; (*at)++)
        rc = write_block(save, &stream, &save->states.items[*at]);
    if (!rc)
        rc = ah_stream_finish(&stream, sha256, save->err);
    ah_stream_abandon(&stream);
    return rc ? rc : add_file(save, file->name, file->bytes, sha256);
}

/* Makes a file of states with room for its values, which it does not write. */
static int make_states_file(struct save *save, const struct ah_states_file *file)
{
    struct ah_stream stream;
    char sha256[AH_SHA256_HEX_MAX];
    int rc = ah_stream_create(&stream, save->folder, file->name, file->bytes, save->err);
    if (!rc)
        rc = ah_stream_finish(&stream, sha256, save->err);
    ah_stream_abandon(&stream);
    return rc;
}

/* Hashes one file written by several processes. Advances `*at` to the next file's first item. */
static int hash_states_file(struct save *save, const struct ah_states_file *file, size_t *at)
{
    unsigned char digest[AH_SHA256_BYTES];
    char sha256[AH_SHA256_HEX_MAX];
    struct ah_sha256 hash;
    int rc = AH_OK;
    ah_sha256_init(&hash);
    for (; *at < save->states.n && save->states.items[*at].file == file->name && !rc; (*at)++)
        rc = save->source->together->hash(save->source->context, save->job, save->states.items[*at].block,
                                          &hash, save->err);
    if (rc)
        return rc;
    ah_sha256_finish(&hash, digest);
    return add_file(save, file->name, file->bytes, ah_sha256_hex(digest, sha256));
}

static int write_states(struct save *save)
{
    size_t at = 0;
    int rc = AH_OK;
    for (size_t i = 0; i < save->states.n_files && !rc; i++)
        rc = write_states_file(save, &save->states.files[i], &at);
    return rc;
}

/* ---- weights ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int add_read_file(struct save *save, const char *name)
{
    char sha256[AH_SHA256_HEX_MAX];
    uint64_t bytes = 0;
    int rc = ah_stream_digest(save->folder, name, save->scratch, SCRATCH_BYTES, &bytes, sha256, save->err);
    return rc ? rc : add_file(save, name, bytes, sha256);
}

static int add_tensors(struct save *save, const struct ah_safetensors *weights)
{
    struct ah_arena *arena = &save->manifest.arena;
    struct ah_checkpoint *body = save->body;
    body->tensors = ah_arena_array(arena, weights->n_tensors, sizeof *body->tensors);
    if (!body->tensors)
        return ah_error_memory(save->err);
    for (size_t i = 0; i < weights->n_tensors; i++) {
        const struct ah_safetensors_tensor *tensor = &weights->tensors[i];
        struct ah_checkpoint_tensor *row = &body->tensors[i];
        *row = (struct ah_checkpoint_tensor){
            .name = ah_arena_strdup(arena, tensor->name),
            .file = ah_arena_strdup(arena, base_name(weights->files[tensor->file].path)),
            .dtype = save->job->signature->dtype,
            .shape = ah_arena_array(arena, tensor->n_shape, sizeof *row->shape),
            .n_shape = tensor->n_shape};
        if (!row->name || !row->file || !row->shape)
            return ah_error_memory(save->err);
        memcpy(row->shape, tensor->shape, tensor->n_shape * sizeof *row->shape);
    }
    body->n_tensors = weights->n_tensors;
    return AH_OK;
}

/* Adds the files of weights already on disk, index, config and companions to the manifest. */
static int add_weights(struct save *save, const struct ah_safetensors *weights)
{
    int rc = add_tensors(save, weights);
    size_t room = save->states.n_files + weights->n_files + FILES_BESIDE + AH_COMPANIONS_MAX;
    struct ah_checkpoint_file *files = ah_arena_array(&save->manifest.arena, room, sizeof *files);
    if (!files)
        return ah_error_memory(save->err);
    memcpy(files, save->body->files, save->body->n_files * sizeof *files);
    save->body->files = files;
    for (size_t i = 0; i < weights->n_files && !rc; i++)
        rc = add_read_file(save, base_name(weights->files[i].path));
    if (!rc && weights->n_files > 1)
        rc = add_read_file(save, AH_SAFETENSORS_INDEX);
    if (!rc && save->job->config)
        rc = add_read_file(save, save->job->model->lora ? AH_WEIGHTS_ADAPTER_CONFIG : "config.json");
    return rc;
}

static struct ah_weights_options options_of(const struct save *save)
{
    return (struct ah_weights_options){.dtype = save->job->signature->dtype,
                                       .shard_bytes = save->job->file_bytes,
                                       .config = save->job->config,
                                       .adapter_of = ah_states_adapter(save->job, &save->states)};
}

static int read_weights(struct save *save)
{
    struct ah_safetensors weights = {0};
    char path[PATH_MAX];
    int rc = ah_stream_path(save->folder, save->job->model->lora ? AH_WEIGHTS_ADAPTER : ".", path, save->err);
    rc = rc ? rc : ah_safetensors_open(&weights, path, save->err);
    if (!rc)
        rc = add_weights(save, &weights);
    ah_safetensors_release(&weights);
    return rc;
}

static int write_alone(struct save *save)
{
    const struct ah_weights_options options = options_of(save);
    int rc = save->weights_alone ? AH_OK : write_states(save);
    if (!rc)
        rc = ah_weights_save(save->job->model, &save->source->weights, &options, save->folder, save->err);
    return rc ? rc : read_weights(save);
}

/* Makes all files, with room for their values, then lets processes write into them. */
static int write_together(struct save *save)
{
    const struct ah_checkpoint_together *together = save->source->together;
    const struct ah_weights_options options = options_of(save);
    size_t at = 0;
    int rc = AH_OK;
    for (size_t i = 0; i < save->states.n_files && !rc; i++)
        rc = make_states_file(save, &save->states.files[i]);
    if (!rc)
        rc = ah_weights_make(save->job->model, &options, save->folder, save->err);
    if (!rc)
        rc = together->fill(save->source->context, save->job, save->folder, save->err);
    for (size_t i = 0; i < save->states.n_files && !rc; i++)
        rc = hash_states_file(save, &save->states.files[i], &at);
    return rc ? rc : read_weights(save);
}

static int write_companion(struct save *save, const struct ah_companion *companion)
{
    struct ah_stream stream;
    char sha256[AH_SHA256_HEX_MAX];
    const size_t bytes = companion->bytes.size;
    int rc = ah_stream_create(&stream, save->folder, companion->name, bytes, save->err);
    if (rc)
        return rc;
    if (bytes)
        rc = ah_stream_write(&stream, companion->bytes.data, bytes, save->err);
    if (!rc)
        rc = ah_stream_finish(&stream, sha256, save->err);
    ah_stream_abandon(&stream);
    return rc ? rc : add_file(save, companion->name, bytes, sha256);
}

static int write_companions(struct save *save)
{
    const struct ah_companions *companions = save->job->companions;
    int rc = AH_OK;
    for (size_t i = 0; companions && i < companions->n && !rc; i++)
        rc = write_companion(save, &companions->items[i]);
    return rc;
}

/* ---- the end ---- */

/* Prints the manifest and parses the text. So a bad manifest fails the save instead of a later load. */
static int print_manifest(struct save *save, struct ah_buffer *text)
{
    struct ah_document again = {0};
    char sha256[AH_DOCUMENT_DIGEST_MAX];
    int rc = ah_document_digest(&save->manifest, sha256, save->err);
    if (!rc) {
        save->body->sha256 = sha256;
        rc = ah_document_print(&save->manifest, text, save->err);
        save->body->sha256 = NULL;
    }
    if (!rc)
        rc = ah_document_parse(&again, AH_CHECKPOINT_MANIFEST, text->data, text->size, AH_DOCUMENT_CHECKPOINT,
                               save->err);
    ah_document_release(&again);
    return rc;
}

/* Writes the manifest into the mark, and renames the mark to the manifest. */
static int write_manifest(struct save *save)
{
    struct ah_buffer text = {0};
    char path[PATH_MAX], sha256[AH_SHA256_HEX_MAX];
    int rc = print_manifest(save, &text);
    if (!rc)
        rc = ah_stream_write(&save->mark, text.data, text.size, save->err);
    if (!rc)
        rc = ah_stream_finish(&save->mark, sha256, save->err);
    if (!rc)
        rc = ah_stream_path(save->folder, AH_CHECKPOINT_MANIFEST, path, save->err);
    if (!rc && rename(save->mark.path, path))
        rc = ah_stream_fail(save->err, path, "written");
    ah_buffer_release(&text);
    return rc;
}

/* Removes the mark of a folder with weights only, which never becomes a checkpoint. */
static int remove_mark(struct save *save)
{
    ah_stream_abandon(&save->mark);
    return unlink(save->mark.path) ? ah_stream_fail(save->err, save->mark.path, "removed") : AH_OK;
}

static int write_all(struct save *save)
{
    const struct ah_checkpoint_together *together = save->weights_alone ? NULL : save->source->together;
    bool shared = false;
    int rc = ah_stream_create(&save->mark, save->folder, AH_LEFTOVER_MARK, 0, save->err);
    if (!rc && together)
        rc = together->meet(save->source->context, save->folder, &shared, save->err);
    if (!rc)
        rc = shared ? write_together(save) : write_alone(save);
    if (!rc)
        rc = write_companions(save);
    if (!rc)
        rc = save->weights_alone ? remove_mark(save) : write_manifest(save);
    if (!rc)
        rc = ah_stream_sync_folder(save->folder, save->err);
    return rc;
}

/* ---- the folder ---- */

static int check_absent(const char *path, struct ah_error *err)
{
    if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return ah_stream_say(err, AH_E_IO, path, "exists already; move it elsewhere");
    return AH_OK;
}

/* Makes PATH.tmp. First removes the one that a killed save may have left. */
static int make_folder(struct save *save)
{
    bool removed = true;
    int rc = AH_OK;
    if (faccessat(AT_FDCWD, save->folder, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        rc = ah_leftover_remove(save->folder, &removed, save->err);
    if (!rc && !removed)
        rc = ah_stream_say(save->err, AH_E_IO, save->folder,
                           "exists already and was not left by a save; move it elsewhere");
    if (!rc && mkdir(save->folder, 0777))
        rc = ah_stream_fail(save->err, save->folder, "made");
    return rc;
}

/* Renames the folder, then syncs its parent. Sets `ret_there` once the checkpoint exists, even if the sync fails. */
static int publish(const struct save *save, const char *path, bool *ret_there)
{
    char parent[PATH_MAX], reason[AH_ERROR_TEXT_MAX];
    struct ah_error failure = {0};
    if (rename(save->folder, path))
        return ah_stream_fail(save->err, path, "written");
    *ret_there = true;
    ah_stream_parent(path, parent);
    int rc = ah_stream_sync_folder(parent, &failure);
    snprintf(reason, sizeof reason, "%s", failure.text);
    return rc ? ah_stream_say(save->err, rc, path, "was saved, but a crash now may lose it: %s", reason)
              : AH_OK;
}

static void clear_folder(const struct save *save)
{
    bool removed;
    ah_leftover_remove(save->folder, &removed, NULL);
}

static int save_in_folder(struct save *save, const char *path)
{
    bool there = false;
    int rc = make_folder(save);
    if (rc)
        return rc;
    rc = write_all(save);
    ah_stream_abandon(&save->mark);
    if (!rc)
        rc = publish(save, path, &there);
    if (rc && !there)
        clear_folder(save);
    return rc;
}

static int run_save(struct save *save, const struct ah_checkpoint_position *position, const char *path)
{
    struct ah_error *err = save->err;
    assert(save->job->signature->run);
    int length = snprintf(save->folder, sizeof save->folder, "%s" AH_LEFTOVER_ENDING, path);
    if (length >= PATH_MAX)
        return ah_stream_say(err, AH_E_IO, path, "the name is too long; choose a shorter one");
    int rc = check_absent(path, err);
    if (!rc)
        rc = begin_manifest(save, position);
    if (!rc) {
        save->scratch = malloc(SCRATCH_BYTES);
        save->body->files =
            ah_arena_array(&save->manifest.arena, save->states.n_files + 1, sizeof *save->body->files);
        rc = save->scratch && save->body->files ? save_in_folder(save, path) : ah_error_memory(err);
    }
    free(save->scratch);
    ah_arena_release(&save->manifest.arena);
    return rc;
}

int ah_checkpoint_save(const struct ah_checkpoint_job *job, const struct ah_checkpoint_position *position,
                       const struct ah_checkpoint_source *source, const char *path, struct ah_error *err)
{
    struct save save = {.job = job, .source = source, .mark.descriptor = -1, .err = err};
    return run_save(&save, position, path);
}

int ah_checkpoint_save_weights(const struct ah_checkpoint_job *job, const struct ah_checkpoint_source *source,
                               const char *path, struct ah_error *err)
{
    struct save save = {
        .job = job, .source = source, .weights_alone = true, .mark.descriptor = -1, .err = err};
    return run_save(&save, &(struct ah_checkpoint_position){0}, path);
}

int ah_checkpoint_bytes(const struct ah_checkpoint_job *job, struct ah_checkpoint_bytes *ret_bytes,
                        struct ah_error *err)
{
    enum {
        MANIFEST_BYTES = 64 << 10,
        /* of each block: lines in the manifest, and rounding to blocks of the disk */
        BLOCK_BYTES = 8 << 10
    };
    struct ah_arena arena = {0};
    struct ah_checkpoint_states states = {0};
    int rc = ah_states_plan(job, &arena, &states, err);
    uint64_t bytes = ah_weights_bytes(job->model, job->signature->dtype, ah_states_adapter(job, &states)) +
                     MANIFEST_BYTES + ah_model_blocks(job->model) * BLOCK_BYTES +
                     (job->config ? strlen(job->config) : 0);
    for (size_t i = 0; job->companions && i < job->companions->n; i++)
        bytes += job->companions->items[i].bytes.size;
    *ret_bytes = (struct ah_checkpoint_bytes){.whole = bytes, .weights = bytes};
    for (size_t i = 0; i < states.n_files; i++)
        ret_bytes->whole += states.files[i].bytes;
    ah_arena_release(&arena);
    return rc;
}
