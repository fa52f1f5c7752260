/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading: cheap checks come first, so most faults are found before any value is handed out.
 */
#include "runtime/train/checkpoint/checkpoint_states_internal.h"
#include "runtime/train/checkpoint/manifest_internal.h"
#include "runtime/train/checkpoint/stream_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { SCRATCH_BYTES = AH_CHECKPOINT_PIECE_MAX * sizeof(float) };

struct load {
    const struct ah_checkpoint_job *job;
    const struct ah_checkpoint_sink *sink;
    const char *folder;
    const struct ah_document *manifest;
    struct ah_arena arena; /* for the states */
    struct ah_checkpoint_states states;
    void *scratch; /* owned; SCRATCH_BYTES */
    struct ah_error *err;
};

static int check_digest(const struct load *load, const char *name, const char *sha256)
{
    const struct ah_checkpoint_file *file = ah_manifest_file(load->manifest->body.checkpoint, name);
    char path[PATH_MAX];
    int rc = ah_stream_path(load->folder, name, path, load->err);
    if (!rc && strcmp(file->sha256, sha256) != 0)
        rc = ah_stream_say(load->err, AH_E_DOCUMENT, path,
                           "its sha256 differs from the manifest's; the checkpoint is damaged");
    return rc;
}

static int check_plan(struct load *load)
{
    char path[PATH_MAX];
    int rc = ah_stream_path(load->folder, AH_CHECKPOINT_MANIFEST, path, load->err);
    if (!rc)
        rc = ah_states_plan(load->job, &load->arena, &load->states, load->err);
    return rc ? rc : ah_states_check(&load->states, load->manifest->body.checkpoint, path, load->err);
}

static int check_file(const struct load *load, const char *name)
{
    char sha256[AH_SHA256_HEX_MAX];
    uint64_t bytes;
    int rc = ah_stream_digest(load->folder, name, load->scratch, SCRATCH_BYTES, &bytes, sha256, load->err);
    return rc ? rc : check_digest(load, name, sha256);
}

static bool holds_states(const struct ah_checkpoint *manifest, const char *name)
{
    for (size_t i = 0; i < manifest->n_states; i++)
        if (strcmp(manifest->states[i].file, name) == 0)
            return true;
    return false;
}

/* Checks the digests of all files other than states, which are hashed while they are read. */
static int check_others(const struct load *load)
{
    const struct ah_checkpoint *manifest = load->manifest->body.checkpoint;
    int rc = AH_OK;
    for (size_t i = 0; i < manifest->n_files && !rc; i++)
        if (!holds_states(manifest, manifest->files[i].name))
            rc = check_file(load, manifest->files[i].name);
    return rc;
}

static int read_block(const struct load *load, struct ah_stream *stream,
                      const struct ah_checkpoint_state *state)
{
    struct ah_checkpoint_piece piece = {0};
    int rc = AH_OK;
    while (!rc && ah_states_next(state, &piece)) {
        rc = ah_stream_read(stream, load->scratch, ah_states_piece_bytes(&piece), load->err);
        if (!rc)
            rc = load->sink->take(load->sink->context, &piece, load->scratch, load->err);
    }
    return rc;
}

/* Reads a file of states. `*at` is the file's first item, and becomes the next file's first item. */
static int read_states_file(const struct load *load, size_t *at)
{
    const struct ah_checkpoint *manifest = load->manifest->body.checkpoint;
    const char *name = manifest->states[*at].file;
    struct ah_stream stream;
    char sha256[AH_SHA256_HEX_MAX];
    int rc = ah_stream_open(&stream, load->folder, name, load->err);
    if (rc)
        return rc;
    for (; *at < manifest->n_states && strcmp(manifest->states[*at].file, name) == 0 && !rc; (*at)++)
        rc = read_block(load, &stream, &manifest->states[*at]);
    if (!rc)
        rc = ah_stream_finish(&stream, sha256, load->err);
    ah_stream_abandon(&stream);
    return rc ? rc : check_digest(load, name, sha256);
}

static int read_alone(struct load *load)
{
    size_t at = 0;
    int rc = AH_OK;
    while (!rc && at < load->manifest->body.checkpoint->n_states)
        rc = read_states_file(load, &at);
    return rc ? rc : ah_states_load_frozen(load->job, load->sink, load->folder, load->err);
}

/* Checks the digest of a file's values in the memory of all processes. `*at` becomes the next file's first item. */
static int hash_states_file(const struct load *load, size_t *at)
{
    const struct ah_checkpoint *manifest = load->manifest->body.checkpoint;
    const char *name = manifest->states[*at].file;
    unsigned char digest[AH_SHA256_BYTES];
    char sha256[AH_SHA256_HEX_MAX];
    struct ah_sha256 hash;
    int rc = AH_OK;
    ah_sha256_init(&hash);
    for (; *at < manifest->n_states && strcmp(manifest->states[*at].file, name) == 0 && !rc; (*at)++)
        rc = load->sink->together->hash(load->sink->context, load->job, manifest->states[*at].block, &hash,
                                        load->err);
    if (rc)
        return rc;
    ah_sha256_finish(&hash, digest);
    return check_digest(load, name, ah_sha256_hex(digest, sha256));
}

static int read_together(struct load *load)
{
    const struct ah_checkpoint_together *together = load->sink->together;
    size_t at = 0;
    int rc = together->read(load->sink->context, load->job, load->folder, load->err);
    while (!rc && at < load->manifest->body.checkpoint->n_states)
        rc = hash_states_file(load, &at);
    return rc ? rc : together->spread(load->sink->context, load->err);
}

static int read_all(struct load *load)
{
    const struct ah_checkpoint_together *together = load->sink->together;
    bool shared = false;
    int rc = check_plan(load);
    if (!rc)
        rc = check_others(load);
    const char *sha256 = load->manifest->body.checkpoint->sha256;
    if (!rc && together && sha256)
        rc = together->same(load->sink->context, load->folder, sha256, &shared, load->err);
    return rc ? rc : shared ? read_together(load) : read_alone(load);
}

int ah_checkpoint_check_signature(const struct ah_document *manifest, const char *path,
                                  const struct ah_signature *signature, struct ah_error *err)
{
    return ah_manifest_check_signature(manifest, path, signature, err);
}

int ah_checkpoint_verify(const char *path, struct ah_error *err)
{
    struct ah_document manifest = {0};
    struct load load = {.folder = path, .manifest = &manifest, .err = err};
    int rc = ah_manifest_load(&manifest, path, err);
    if (rc)
        return rc;
    rc = ah_manifest_check_files(&manifest, path, err);
    if (!rc) {
        load.scratch = malloc(SCRATCH_BYTES);
        rc = load.scratch ? AH_OK : ah_error_memory(err);
    }
    for (size_t i = 0; i < manifest.body.checkpoint->n_files && !rc; i++)
        rc = check_file(&load, manifest.body.checkpoint->files[i].name);
    free(load.scratch);
    ah_document_release(&manifest);
    return rc;
}

int ah_checkpoint_load(const struct ah_checkpoint_job *job, const struct ah_checkpoint_sink *sink,
                       const char *path, struct ah_checkpoint_position *ret_position, struct ah_error *err)
{
    struct ah_document manifest = {0};
    struct load load = {.job = job, .sink = sink, .folder = path, .manifest = &manifest, .err = err};
    assert(job->signature->run);
    int rc = ah_manifest_load(&manifest, path, err);
    if (rc)
        return rc;
    rc = ah_manifest_check_signature(&manifest, path, job->signature, err);
    if (!rc)
        rc = ah_manifest_check_files(&manifest, path, err);
    if (!rc) {
        load.scratch = malloc(SCRATCH_BYTES);
        rc = load.scratch ? read_all(&load) : ah_error_memory(err);
    }
    if (!rc)
        *ret_position = (struct ah_checkpoint_position){.step = manifest.body.checkpoint->step,
                                                        .cursor = manifest.body.checkpoint->cursor,
                                                        .tokens = manifest.body.checkpoint->tokens};
    free(load.scratch);
    ah_arena_release(&load.arena);
    ah_document_release(&manifest);
    return rc;
}
