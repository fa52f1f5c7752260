/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts: writes and reads one process's part of a checkpoint. Offsets of blocks follow from the layout, before anything
 * is written. Nothing is hashed meanwhile, since a digest needs a file from beginning to end. Afterwards the hash is
 * passed from owner to owner (ah_checkpoint_hash()), and each adds its values from memory.
 */
#include "runtime/train/checkpoint/checkpoint_states_internal.h"
#include "runtime/train/checkpoint/manifest_internal.h"
#include "runtime/train/checkpoint/stream_internal.h"

#include <stdlib.h>
#include <string.h>

enum { SCRATCH_BYTES = AH_CHECKPOINT_PIECE_MAX * sizeof(float) };

struct part {
    const struct ah_checkpoint_job *job;
    const char *folder;
    const struct ah_checkpoint_source *source; /* for writing or hashing; else NULL */
    const struct ah_checkpoint_sink *sink;     /* for reading; else NULL */
    struct ah_arena arena;                     /* for the states */
    struct ah_checkpoint_states states;
    void *scratch;           /* owned; SCRATCH_BYTES */
    struct ah_stream stream; /* of the file `open` */
    const char *open;        /* NULL: no file is open */
    struct ah_error *err;
};

static int begin_part(struct part *part)
{
    part->stream.descriptor = -1;
    part->scratch = malloc(SCRATCH_BYTES);
    return part->scratch ? ah_states_plan(part->job, &part->arena, &part->states, part->err)
                         : ah_error_memory(part->err);
}

static void release_part(struct part *part)
{
    ah_stream_abandon(&part->stream);
    free(part->scratch);
    ah_arena_release(&part->arena);
}

static int finish_file(struct part *part)
{
    return part->open ? ah_stream_finish(&part->stream, NULL, part->err) : AH_OK;
}

/* Opens the file `name`, unless it is open. Blocks of a file are adjacent, so one file is open at a time. */
static int reach_file(struct part *part, const char *name)
{
    if (part->open && strcmp(part->open, name) == 0)
        return AH_OK;
    int rc = finish_file(part);
    part->open = NULL;
    if (!rc)
        rc = part->source ? ah_stream_join(&part->stream, part->folder, name, part->err)
                          : ah_stream_open(&part->stream, part->folder, name, part->err);
    part->stream.unhashed = true;
    part->open = rc ? NULL : name;
    return rc;
}

static int pass_piece(struct part *part, const struct ah_checkpoint_piece *piece)
{
    const size_t bytes = ah_states_piece_bytes(piece);
    int rc = part->source ? part->source->give(part->source->context, piece, part->scratch, part->err)
                          : ah_stream_read(&part->stream, part->scratch, bytes, part->err);
    if (rc)
        return rc;
    return part->source ? ah_stream_write(&part->stream, part->scratch, bytes, part->err)
                        : part->sink->take(part->sink->context, piece, part->scratch, part->err);
}

/* Writes or reads the vectors of a block, which are adjacent. */
static int pass_block(struct part *part, const struct ah_checkpoint_state *state, const char *file)
{
    struct ah_checkpoint_piece piece = {0};
    int rc = reach_file(part, file);
    part->stream.bytes = state->master_offset_bytes;
    while (!rc && ah_states_next(state, &piece))
        rc = pass_piece(part, &piece);
    return rc;
}

int ah_checkpoint_fill(const struct ah_checkpoint_job *job, const struct ah_checkpoint_source *source,
                       const struct ah_weights_part *kept, const char *folder, struct ah_error *err)
{
    struct ah_weights_options options = {.dtype = job->signature->dtype, .shard_bytes = job->file_bytes};
    struct part part = {.job = job, .folder = folder, .source = source, .err = err};
    int rc = begin_part(&part);
    for (size_t i = 0; i < part.states.n && !rc; i++)
        if (kept->keeps(kept->context, part.states.items[i].block))
            rc = pass_block(&part, &part.states.items[i], part.states.items[i].file);
    rc = rc ? rc : finish_file(&part);
    options.adapter_of = ah_states_adapter(job, &part.states);
    rc = rc ? rc : ah_weights_fill(job->model, &source->weights, &options, kept, folder, err);
    release_part(&part);
    return rc;
}

int ah_checkpoint_hash(const struct ah_checkpoint_job *job, const struct ah_checkpoint_source *source,
                       uint64_t block, struct ah_sha256 *hash, struct ah_error *err)
{
    struct part part = {.job = job, .source = source, .err = err};
    int rc = begin_part(&part);
    for (size_t i = 0; i < part.states.n && !rc; i++) {
        struct ah_checkpoint_piece piece = {0};
        while (!rc && part.states.items[i].block == block && ah_states_next(&part.states.items[i], &piece)) {
            rc = source->give(source->context, &piece, part.scratch, err);
            if (!rc)
                ah_sha256_update(hash, part.scratch, ah_states_piece_bytes(&piece));
        }
    }
    release_part(&part);
    return rc;
}

bool ah_checkpoint_is(const char *folder, const char *sha256)
{
    struct ah_document manifest = {0};
    int rc = ah_manifest_load(&manifest, folder, NULL);
    const char *has = rc ? NULL : manifest.body.checkpoint->sha256;
    const bool is = has && strcmp(has, sha256) == 0;
    ah_document_release(&manifest);
    return is;
}

static int read_states(struct part *part, const struct ah_checkpoint *manifest)
{
    char path[PATH_MAX];
    int rc = ah_stream_path(part->folder, AH_CHECKPOINT_MANIFEST, path, part->err);
    rc = rc ? rc : ah_states_check(&part->states, manifest, path, part->err);
    for (size_t i = 0; i < manifest->n_states && !rc; i++)
        if (ah_weights_wanted(&part->sink->weights, manifest->states[i].block))
            rc = pass_block(part, &manifest->states[i], manifest->states[i].file);
    return rc ? rc : finish_file(part);
}

int ah_checkpoint_read(const struct ah_checkpoint_job *job, const struct ah_checkpoint_sink *sink,
                       const char *folder, struct ah_error *err)
{
    struct ah_document manifest = {0};
    struct part part = {.job = job, .folder = folder, .sink = sink, .err = err};
    int rc = ah_manifest_load(&manifest, folder, err);
    if (rc)
        return rc;
    rc = begin_part(&part);
    rc = rc ? rc : read_states(&part, manifest.body.checkpoint);
    release_part(&part);
    ah_document_release(&manifest);
    return rc ? rc : ah_states_load_frozen(job, sink, folder, err);
}
