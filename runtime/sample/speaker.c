/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening a speaker: programs, memory, weights. Then feeding it.
 */
#include "runtime/sample/speaker_internal.h"

#include "base/bf16.h"
#include "base/units.h"
#include "runtime/model/adapter.h"
#include "runtime/model/weights.h"
#include "runtime/train/angles.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 256 };

/* ---- programs ---- */

/* Adapters are in programs only if they are trained. Layers without adapters have zeros. */
static int make_job(struct ah_speaker *s, enum ah_speaker_size size)
{
    const struct ah_plan_training training = {
        .batch = 1,
        .micro_batches = 1,
        .seq = s->rows[size],
        .dtype = s->options.dtype,
        .state_dtype = AH_FP32,
        .trainable = &s->trained,
        .n_trainable = 1,
    };
    struct ah_job *job = &s->job[size];
    int rc = ah_job_init(job, &s->untied, &training, &s->arena, s->err);
    if (rc)
        return rc;
    s->program[size] = ah_arena_array(&s->arena, job->n_groups, sizeof *s->program[size]);
    if (!s->program[size])
        return ah_error_memory(s->err);
    for (size_t i = 0; i < job->n_groups && !rc; i++)
        rc = ah_program_build(job, &job->groups[i], AH_PASS_FORWARD, AH_ACTIVATIONS_RECOMPUTE,
                              &s->program[size][i], s->err);
    return rc;
}

static int make_programs(struct ah_speaker *s)
{
    const struct ah_model *model = s->options.model;
    if (model->position == AH_POSITION_LEARNED && s->options.positions > model->max_positions)
        return ah_error_set(s->err, AH_E_USAGE, "%u tokens are more than the %llu positions of model '%s'",
                            s->options.positions, (unsigned long long)model->max_positions, model->name);
    s->untied = *model;
    s->untied.tied = false;
    s->trained = model->lora && model->lora->n_on ? "*.lora_*" : "*";
    s->n_blocks = ah_model_blocks(model);
    s->rows[AH_SPEAKER_ONE] = 1;
    s->rows[AH_SPEAKER_PIECE] = AH_SPEAKER_ROWS;
    if (model->position == AH_POSITION_LEARNED && model->max_positions < AH_SPEAKER_ROWS)
        s->rows[AH_SPEAKER_PIECE] = (uint32_t)model->max_positions;
    const int rc = make_job(s, AH_SPEAKER_ONE);
    return rc ? rc : make_job(s, AH_SPEAKER_PIECE);
}

/* ---- memory ---- */

static struct ah_ref take(uint64_t used[AH_ARENA_KINDS], enum ah_arena_kind arena, uint64_t bytes)
{
    const struct ah_ref ref = {.arena = arena, .offset_bytes = used[arena]};
    used[arena] += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return ref;
}

static struct ah_ref take_rows(const struct ah_speaker *s, uint64_t used[AH_ARENA_KINDS],
                               enum ah_arena_kind arena, uint64_t elements)
{
    struct ah_ref ref = take(used, arena, ah_speaker_bytes(s, elements));
    ref.dtype = s->options.dtype;
    return ref;
}

static uint64_t scratch_bytes(const struct ah_speaker *s)
{
    uint64_t most = 0;
    for (int size = 0; size < AH_SPEAKER_SIZES; size++)
        for (size_t i = 0; i < s->job[size].n_groups; i++) {
            const bool head = s->job[size].groups[i].kind == AH_BLOCK_HEAD;
            const struct ah_program *program = &s->program[size][i];
            if ((size == AH_SPEAKER_ONE || !head) && program->scratch_bytes > most)
                most = program->scratch_bytes;
        }
    return most;
}

/* Takes everything but weights and slots. */
static void take_fixed(struct ah_speaker *s, uint64_t used[AH_ARENA_KINDS])
{
    const uint64_t width = s->untied.width, positions = s->options.positions, rows = AH_SPEAKER_ROWS;
    const uint64_t texts = (positions + rows) * sizeof(uint32_t);
    const uint64_t caches = s->untied.layers * (positions + rows) * ah_speaker_kv_width(s);
    for (int i = 0; i < 2; i++)
        s->stream[i] = take_rows(s, used, AH_ARENA_DEVICE, rows * width);
    s->scratch = take(used, AH_ARENA_DEVICE, scratch_bytes(s));
    s->angles = take(used, AH_ARENA_DEVICE,
                     ah_angles_rows(&s->untied, positions) * s->untied.head_dim * sizeof(float));
    s->iota = take(used, AH_ARENA_DEVICE, rows * sizeof(uint32_t));
    s->positions = take(used, AH_ARENA_DEVICE, texts);
    s->gathered_rows = take_rows(s, used, AH_ARENA_DEVICE, rows * width);
    s->position_rows = take_rows(s, used, AH_ARENA_DEVICE, rows * width);
    s->keys = take_rows(s, used, AH_ARENA_DEVICE, caches);
    s->values = take_rows(s, used, AH_ARENA_DEVICE, caches);
    s->words = take(used, AH_ARENA_PINNED, texts);
    s->position_words = take(used, AH_ARENA_PINNED, texts);
    s->host_rows = take_rows(s, used, AH_ARENA_PINNED, rows * width);
    s->host_position_rows = take_rows(s, used, AH_ARENA_PINNED, rows * width);
    s->logits = take(used, AH_ARENA_PINNED, s->untied.vocabulary * sizeof(float));
    s->staging = take(used, AH_ARENA_PINNED, AH_WEIGHTS_PIECE_MAX * sizeof(float));
}

/* Sets the sizes of weights. Returns the bytes that all but the embedding's take; the largest of them in `ret_most`. */
static uint64_t measure_vectors(const struct ah_speaker *s, uint64_t *ret_most)
{
    const struct ah_job *job = &s->job[0];
    uint64_t all = 0;
    *ret_most = 0;
    for (size_t b = 0; b < s->n_blocks; b++) {
        struct ah_speaker_vector *vector = &s->vectors[b];
        vector->elements = job->groups[job->group_of[b]].flat_elements;
        vector->bytes = ah_speaker_bytes(s, vector->elements);
        all += b ? (vector->bytes + ALIGN - 1) / ALIGN * ALIGN : 0;
        if (b && vector->bytes > *ret_most)
            *ret_most = vector->bytes;
    }
    return all;
}

/* Decides where weights stay: the head's and the first layers' on the device, as far as they fit. */
static int take_weights(struct ah_speaker *s, uint64_t used[AH_ARENA_KINDS], uint64_t memory)
{
    const uint64_t reserved = s->device->reserve_bytes, budget = memory > reserved ? memory - reserved : 0;
    uint64_t most;
    const uint64_t all = measure_vectors(s, &most), slot = (most + ALIGN - 1) / ALIGN * ALIGN;
    const bool fits = used[AH_ARENA_DEVICE] + all <= budget;
    s->facts.least_bytes = used[AH_ARENA_DEVICE] + AH_SPEAKER_SLOTS * slot + reserved;
    for (size_t i = 0; i < AH_SPEAKER_SLOTS && !fits; i++)
        s->slots[i].ref = take(used, AH_ARENA_DEVICE, slot);
    if (used[AH_ARENA_DEVICE] > budget) {
        char needed[AH_UNITS_TEXT_MAX], has[AH_UNITS_TEXT_MAX];
        return ah_error_set(
            s->err, AH_E_CAPACITY,
            "sampling needs at least %s of device memory, and %s are there; give more, or fewer tokens",
            ah_units_print_bytes(needed, used[AH_ARENA_DEVICE] + reserved),
            ah_units_print_bytes(has, memory));
    }
    s->vectors[0].ref = take_rows(s, used, AH_ARENA_PAGEABLE, s->vectors[0].elements);
    for (size_t i = 1; i < s->n_blocks; i++) {
        struct ah_speaker_vector *vector = &s->vectors[i == 1 ? s->n_blocks - 1 : i - 1];
        const bool stays = used[AH_ARENA_DEVICE] + vector->bytes + ALIGN <= budget || fits;
        vector->ref = take_rows(s, used, stays ? AH_ARENA_DEVICE : AH_ARENA_PINNED, vector->elements);
        s->facts.streamed += !stays;
    }
    return AH_OK;
}

/* Prepares an op; with attention, the ops before it that keep its keys and values. */
static int prepare_op(const struct ah_speaker *s, const struct ah_speaker_place *at, size_t op)
{
    struct ah_op bound = ah_speaker_bind(s, at, op), keep[AH_SPEAKER_KEPT];
    int rc = AH_OK;
    if (bound.kind == AH_OP_ATTENTION) {
        ah_speaker_attend(s, at, &bound, keep);
        rc = ah_device_prepare(s->device, keep, AH_SPEAKER_KEPT, s->err);
    }
    return rc ? rc : ah_device_prepare(s->device, &bound, 1, s->err);
}

/* Prepares the ops of all programs, as they are before weights have their places. */
static int prepare(struct ah_speaker *s)
{
    int rc = AH_OK;
    for (int size = 0; size < AH_SPEAKER_SIZES; size++)
        for (size_t i = 0; i < s->job[size].n_groups && !rc; i++) {
            const struct ah_speaker_place at = {.size = (enum ah_speaker_size)size,
                                                .block = s->job[size].groups[i].first};
            const bool head = s->job[size].groups[i].kind == AH_BLOCK_HEAD;
            const size_t n = head ? (size == AH_SPEAKER_ONE ? 2 : 0) : s->program[size][i].n_ops;
            for (size_t op = 0; op < n && !rc; op++)
                rc = prepare_op(s, &at, op);
        }
    return rc;
}

static int open_device(struct ah_speaker *s)
{
    const struct ah_device_options options = {.index = s->options.device};
    uint64_t used[AH_ARENA_KINDS] = {0};
    take_fixed(s, used);
    int rc = ah_device_open(&s->device, s->options.driver, &options, s->err);
    rc = rc ? rc : prepare(s);
    if (rc)
        return rc;
    const uint64_t memory = s->options.memory_bytes ? s->options.memory_bytes : s->device->info.free_bytes;
    s->vectors = ah_arena_array(&s->arena, s->n_blocks, sizeof *s->vectors);
    if (!s->vectors)
        return ah_error_memory(s->err);
    rc = take_weights(s, used, memory);
    s->facts.device_bytes = used[AH_ARENA_DEVICE] + s->device->reserve_bytes;
    s->facts.host_bytes = used[AH_ARENA_PINNED] + used[AH_ARENA_PAGEABLE];
    return rc ? rc : ah_device_reserve(s->device, used, s->err);
}

/* ---- contents ---- */

/* Writes to any arena, by way of `staging` if the host cannot reach it. */
static int write_bytes(struct ah_speaker *s, struct ah_ref to, const void *from, uint64_t bytes)
{
    void *direct = ah_device_pointer(s->device, to);
    void *at = direct ? direct : ah_device_pointer(s->device, s->staging);
    uint64_t ticket;
    memcpy(at, from, bytes);
    if (direct)
        return AH_OK;
    struct ah_op op = {.kind = AH_OP_COPY, .arg = {to, s->staging}};
    op.u.copy.bytes = bytes;
    const struct ah_submission submission = {.lane = AH_LANE_H2D, .op = &op};
    const int rc = ah_device_submit(s->device, &submission, 1, &ticket, s->err);
    return rc ? rc : ah_device_wait(s->device, AH_LANE_H2D, ticket, s->err);
}

static int put(struct ah_speaker *s, size_t block, uint64_t element, const float *values, uint64_t n)
{
    struct ah_ref to = s->vectors[block].ref;
    to.offset_bytes += ah_speaker_bytes(s, element);
    if (s->options.dtype == AH_FP32)
        return write_bytes(s, to, values, n * sizeof *values);
    uint16_t *rounded = malloc(n * sizeof *rounded);
    if (!rounded)
        return ah_error_memory(s->err);
    for (uint64_t i = 0; i < n; i++)
        rounded[i] = ah_bf16_from_fp32(values[i]);
    const int rc = write_bytes(s, to, rounded, n * sizeof *rounded);
    free(rounded);
    return rc;
}

static int take_piece(void *context, const struct ah_weights_piece *piece, const float *values,
                      struct ah_error *err)
{
    struct ah_speaker *s = context;
    (void)err; /* the speaker's own */
    int rc = put(s, piece->block, piece->element, values, piece->n);
    if (rc || piece->block || piece->tensor || !s->options.model->tied)
        return rc;
    const struct ah_flat head = ah_flat_of(&s->untied, AH_BLOCK_HEAD, 0);
    return put(s, s->n_blocks - 1, head.tensors[ah_flat_find(&head, "head.weight")].first + piece->first,
               values, piece->n);
}

static int load_adapter(struct ah_speaker *s, struct ah_weights_sink sink)
{
    char path[PATH_MAX];
    const int rc = ah_adapter_path(s->options.adapter, path, s->err);
    sink.adapter_of = s->options.adapter_of;
    return rc ? rc : ah_weights_load(s->options.model, path, &sink, s->err);
}

static int load_weights(struct ah_speaker *s)
{
    const struct ah_weights_sink sink = {.take = take_piece, .context = s};
    const int rc = ah_weights_load(s->options.model, s->options.weights, &sink, s->err);
    return rc || !s->options.adapter ? rc : load_adapter(s, sink);
}

static int fill_angles(struct ah_speaker *s)
{
    const uint64_t row_bytes = s->untied.head_dim * sizeof(float);
    const uint64_t most = AH_WEIGHTS_PIECE_MAX * sizeof(float) / row_bytes;
    const uint64_t all = ah_angles_rows(&s->untied, s->options.positions);
    float *table = malloc(most * row_bytes);
    int rc = table ? AH_OK : ah_error_memory(s->err);
    for (uint64_t first = 0; first < all && !rc; first += most) {
        const uint64_t rows = all - first < most ? all - first : most;
        struct ah_ref to = s->angles;
        to.offset_bytes += first * row_bytes;
        ah_angles_fill(&s->untied, s->options.positions, first, rows, table);
        rc = write_bytes(s, to, table, rows * row_bytes);
    }
    free(table);
    return rc;
}

/* Rows beyond the text have its last position. */
static int fill_constants(struct ah_speaker *s)
{
    uint32_t iota[AH_SPEAKER_ROWS], last = s->options.positions - 1;
    uint32_t *positions = ah_device_pointer(s->device, s->position_words);
    for (uint32_t i = 0; i < AH_SPEAKER_ROWS; i++)
        iota[i] = i;
    for (uint32_t i = 0; i <= last + AH_SPEAKER_ROWS; i++)
        positions[i] = i < last ? i : last;
    int rc = write_bytes(s, s->iota, iota, sizeof iota);
    for (uint32_t i = 0; i <= last + AH_SPEAKER_ROWS && !rc; i += AH_WEIGHTS_PIECE_MAX) {
        const uint32_t left = last + AH_SPEAKER_ROWS + 1 - i;
        struct ah_ref to = s->positions;
        to.offset_bytes += i * sizeof *positions;
        rc = write_bytes(s, to, positions + i,
                         sizeof *positions * (left < AH_WEIGHTS_PIECE_MAX ? left : AH_WEIGHTS_PIECE_MAX));
    }
    return rc ? rc : fill_angles(s);
}

/* ---- the public functions ---- */

int ah_speaker_open(struct ah_speaker **ret_speaker, const struct ah_speaker_options *options,
                    struct ah_error *err)
{
    static int (*const parts[])(struct ah_speaker *) = {make_programs, open_device, fill_constants,
                                                        load_weights};
    struct ah_speaker *s = calloc(1, sizeof *s);
    if (!s)
        return ah_error_memory(err);
    s->options = *options;
    s->err = err;
    int rc = AH_OK;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !rc; i++)
        rc = parts[i](s);
    if (rc)
        ah_speaker_close(s);
    else
        *ret_speaker = s;
    return rc;
}

void ah_speaker_close(struct ah_speaker *speaker)
{
    if (!speaker)
        return;
    ah_device_close(speaker->device);
    ah_arena_release(&speaker->arena);
    free(speaker);
}

static int check_tokens(const struct ah_speaker *s, const uint32_t *tokens, size_t n, struct ah_error *err)
{
    if (!n)
        return ah_error_set(err, AH_E_USAGE, "there is no token to begin with");
    if (n > s->options.positions - s->past)
        return ah_error_set(err, AH_E_USAGE, "a text may have at most %u tokens", s->options.positions);
    for (size_t i = 0; i < n; i++)
        if (tokens[i] >= s->untied.vocabulary)
            return ah_error_set(err, AH_E_USAGE, "token %u is not below %llu, the vocabulary of model '%s'",
                                tokens[i], (unsigned long long)s->untied.vocabulary, s->options.model->name);
    return AH_OK;
}

int ah_speaker_feed(struct ah_speaker *s, const uint32_t *tokens, size_t n, const float **ret_logits,
                    struct ah_error *err)
{
    int rc = check_tokens(s, tokens, n, err);
    if (rc)
        return rc;
    s->err = err;
    memcpy((uint32_t *)ah_device_pointer(s->device, s->words) + s->past, tokens, n * sizeof *tokens);
    for (size_t done = 0, rows; done < n && !rc; done += rows) {
        rows = n - done < s->rows[AH_SPEAKER_PIECE] ? n - done : s->rows[AH_SPEAKER_PIECE];
        rc = ah_speaker_pass(s, rows == 1 ? AH_SPEAKER_ONE : AH_SPEAKER_PIECE, (uint32_t)rows,
                             done + rows == n);
        s->past += (uint32_t)rows;
    }
    if (!rc)
        *ret_logits = ah_device_pointer(s->device, s->logits);
    return rc;
}

void ah_speaker_restart(struct ah_speaker *speaker)
{
    speaker->past = 0;
}

struct ah_speaker_facts ah_speaker_facts(const struct ah_speaker *speaker)
{
    return speaker->facts;
}
