/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/train/checkpoint/checkpoint_states_internal.h"

#include "runtime/schedule/flat.h"
#include "runtime/schedule/trainable.h"
#include "runtime/train/checkpoint/stream_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_BYTES = 64 };

static const uint64_t file_bytes_default = UINT64_C(5000000000);

static uint64_t block_bytes(const struct ah_checkpoint_state *state)
{
    return state->count * (sizeof(float) + 2 * ah_dtype_bytes(state->state_dtype));
}

/* Sets the offsets of a block's vectors, which follow each other from `at` on. */
static void place_vectors(struct ah_checkpoint_state *state, uint64_t at)
{
    state->master_offset_bytes = at;
    state->m_offset_bytes = at + state->count * sizeof(float);
    state->v_offset_bytes = state->m_offset_bytes + state->count * ah_dtype_bytes(state->state_dtype);
}

/* Lists the blocks with trained tensors. Their offsets are set later. */
static int list_blocks(const struct ah_checkpoint_job *job, struct ah_arena *arena,
                       struct ah_checkpoint_states *states, struct ah_error *err)
{
    uint64_t blocks = ah_model_blocks(job->model);
    uint32_t *trained = states->trained = ah_arena_array(arena, blocks, sizeof *trained);
    states->items = ah_arena_array(arena, blocks, sizeof *states->items);
    if (!trained || !states->items)
        return ah_error_memory(err);
    int rc =
        ah_trainable_match(job->model, job->signature->trainable, job->signature->n_trainable, trained, err);
    for (uint64_t block = 0; block < blocks && !rc; block++) {
        struct ah_flat flat = ah_flat_of(job->model, ah_model_block_kind(job->model, block), trained[block]);
        if (flat.trained_elements)
            states->items[states->n++] = (struct ah_checkpoint_state){
                .block = block, .count = flat.trained_elements, .state_dtype = job->signature->state_dtype};
    }
    return rc;
}

static int name_file(struct ah_checkpoint_states *states, size_t i, struct ah_arena *arena,
                     struct ah_error *err)
{
    char name[NAME_MAX_BYTES];
    if (states->n_files == 1)
        snprintf(name, sizeof name, "states.bin");
    else
        snprintf(name, sizeof name, "states-%05zu-of-%05zu.bin", i + 1, states->n_files);
    states->files[i].name = ah_arena_strdup(arena, name);
    return states->files[i].name ? AH_OK : ah_error_memory(err);
}

int ah_states_plan(const struct ah_checkpoint_job *job, struct ah_arena *arena,
                   struct ah_checkpoint_states *ret_states, struct ah_error *err)
{
    struct ah_checkpoint_states states = {0};
    uint64_t limit = job->file_bytes ? job->file_bytes : file_bytes_default;
    int rc = list_blocks(job, arena, &states, err);
    if (rc)
        return rc;
    states.files = ah_arena_array(arena, states.n, sizeof *states.files);
    size_t *file_of = ah_arena_array(arena, states.n, sizeof *file_of);
    if (!states.files || !file_of)
        return ah_error_memory(err);
    for (size_t i = 0; i < states.n; i++) {
        uint64_t bytes = block_bytes(&states.items[i]);
        if (states.n_files == 0 || states.files[states.n_files - 1].bytes + bytes > limit)
            states.n_files++;
        file_of[i] = states.n_files - 1;
        place_vectors(&states.items[i], states.files[file_of[i]].bytes);
        states.files[file_of[i]].bytes += bytes;
    }
    for (size_t i = 0; i < states.n_files && !rc; i++)
        rc = name_file(&states, i, arena, err);
    for (size_t i = 0; i < states.n && !rc; i++)
        states.items[i].file = states.files[file_of[i]].name;
    if (!rc)
        *ret_states = states;
    return rc;
}

static int fail_field(const char *path, size_t i, const char *field, uint64_t has, uint64_t needs,
                      struct ah_error *err)
{
    return ah_stream_say(err, AH_E_DOCUMENT, path,
                         "states[%zu].%s: is %" PRIu64 " but this model's states need %" PRIu64, i, field,
                         has, needs);
}

static int check_state(const struct ah_checkpoint_state *has, const struct ah_checkpoint_state *needs,
                       size_t i, const char *path, struct ah_error *err)
{
    const struct {
        const char *field;
        uint64_t has, needs;
    } rows[] = {{"block", has->block, needs->block},
                {"count", has->count, needs->count},
                {"master_offset_bytes", has->master_offset_bytes, needs->master_offset_bytes},
                {"m_offset_bytes", has->m_offset_bytes, needs->m_offset_bytes},
                {"v_offset_bytes", has->v_offset_bytes, needs->v_offset_bytes}};
    if (has->state_dtype != needs->state_dtype)
        return ah_stream_say(err, AH_E_DOCUMENT, path,
                             "states[%zu].state_dtype: is %s, but the signature has %s", i,
                             ah_words_dtype[has->state_dtype], ah_words_dtype[needs->state_dtype]);
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
        if (rows[k].has != rows[k].needs)
            return fail_field(path, i, rows[k].field, rows[k].has, rows[k].needs, err);
    return AH_OK;
}

/* Checks that the file ends at `end`, where its last vector ends. */
static int check_end(const struct ah_checkpoint *manifest, const char *file, uint64_t end, const char *path,
                     struct ah_error *err)
{
    for (size_t i = 0; i < manifest->n_files; i++)
        if (strcmp(manifest->files[i].name, file) == 0 && manifest->files[i].bytes != end)
            return ah_stream_say(err, AH_E_DOCUMENT, path,
                                 "files[%zu].bytes: is %" PRIu64 " but the states in '%s' have %" PRIu64, i,
                                 manifest->files[i].bytes, file, end);
    return AH_OK;
}

int ah_states_check(const struct ah_checkpoint_states *states, const struct ah_checkpoint *manifest,
                    const char *path, struct ah_error *err)
{
    uint64_t at = 0;
    int rc = AH_OK;
    if (manifest->n_states != states->n)
        return ah_stream_say(err, AH_E_DOCUMENT, path, "states: has %zu, but %zu blocks are trained",
                             manifest->n_states, states->n);
    for (size_t i = 0; i < states->n && !rc; i++) {
        const struct ah_checkpoint_state *has = &manifest->states[i];
        struct ah_checkpoint_state needs = states->items[i];
        bool last = i + 1 == states->n || strcmp(has->file, manifest->states[i + 1].file) != 0;
        place_vectors(&needs, at);
        at += block_bytes(&needs);
        rc = check_state(has, &needs, i, path, err);
        if (!rc && last)
            rc = check_end(manifest, has->file, at, path, err);
        at = last ? 0 : at;
    }
    return rc;
}

bool ah_states_next(const struct ah_checkpoint_state *state, struct ah_checkpoint_piece *piece)
{
    piece->block = state->block;
    piece->first += piece->n;
    if (piece->first == state->count) {
        piece->first = 0;
        piece->vector++;
    }
    uint64_t left = state->count - piece->first;
    piece->n = left < AH_CHECKPOINT_PIECE_MAX ? left : AH_CHECKPOINT_PIECE_MAX;
    piece->dtype = piece->vector == AH_CHECKPOINT_MASTER ? AH_FP32 : state->state_dtype;
    return piece->vector < AH_CHECKPOINT_VECTORS;
}

size_t ah_states_piece_bytes(const struct ah_checkpoint_piece *piece)
{
    return (size_t)piece->n * ah_dtype_bytes(piece->dtype);
}

int ah_states_load_frozen(const struct ah_checkpoint_job *job, const struct ah_checkpoint_sink *sink,
                          const char *folder, struct ah_error *err)
{
    return job->model->lora ? AH_OK : ah_weights_load(job->model, folder, &sink->weights, err);
}
