/* SPDX-License-Identifier: Apache-2.0
 *
 * A pass: rows go through all blocks. The embedding's rows are gathered on the host. A layer's keys and values go to
 * its caches before its attention, which then sees all of them. Only the last row goes through the head.
 */
#include "runtime/sample/speaker_internal.h"

#include <math.h>
#include <string.h>

static int submit(struct ah_speaker *s, uint32_t lane, const struct ah_op *op, const struct ah_wait *waits,
                  size_t n, uint64_t *ret_ticket)
{
    const struct ah_submission submission = {
        .lane = lane, .op = op, .waits = waits, .n_waits = (uint32_t)n, .tag = op->kind};
    return ah_device_submit(s->device, &submission, 1, ret_ticket, s->err);
}

static struct ah_ref further(struct ah_ref ref, uint64_t bytes)
{
    ref.offset_bytes += bytes;
    return ref;
}

/* ---- binding ---- */

static struct ah_ref data_of(const struct ah_speaker *s, const char *name)
{
    if (!strcmp(name, "tokens"))
        return s->iota;
    if (!strcmp(name, "positions"))
        return further(s->positions, s->past * sizeof(uint32_t));
    if (!strcmp(name, "window_rope_table"))
        return further(s->angles, s->options.positions * s->untied.head_dim * sizeof(float));
    return !strcmp(name, "rope_table") ? s->angles : (struct ah_ref){0};
}

static struct ah_ref home_of(const struct ah_speaker *s, const struct ah_speaker_place *at,
                             const struct ah_program_place *place)
{
    switch (place->home) {
    case AH_HOME_INPUT:
        return at->input;
    case AH_HOME_OUTPUT:
        return at->output;
    case AH_HOME_WEIGHTS:
        return at->weights;
    case AH_HOME_DATA:
        return data_of(s, place->name);
    case AH_HOME_SCRATCH:
        return s->scratch;
    case AH_HOME_NONE:
    case AH_HOME_SAVED:
    case AH_HOME_RESIDUAL_GRADIENT:
    case AH_HOME_GRADIENTS:
    case AH_HOME_TABLE:
    case AH_HOME_TABLE_GRADIENTS:
    case AH_HOMES:
        break;
    }
    return (struct ah_ref){0};
}

/* The rows were gathered, so they are the tables. */
static void read_rows(const struct ah_speaker *s, struct ah_op *op)
{
    op->arg[1].offset_bytes = s->gathered_rows.offset_bytes;
    op->u.embed.vocabulary = op->u.embed.rows;
    if (!op->u.embed.positions)
        return;
    op->arg[2].offset_bytes = s->position_rows.offset_bytes;
    op->arg[4].offset_bytes = s->iota.offset_bytes;
    op->u.embed.positions = op->u.embed.rows;
}

struct ah_op ah_speaker_bind(const struct ah_speaker *s, const struct ah_speaker_place *at, size_t op)
{
    const struct ah_job *job = &s->job[at->size];
    const struct ah_program *program = &s->program[at->size][job->group_of[at->block]];
    const struct ah_program_op *step = &program->ops[op];
    struct ah_op bound = step->op;
    for (size_t arg = 0; arg < AH_OP_ARGS; arg++) {
        if (bound.arg[arg].arena == AH_ARENA_NONE)
            continue;
        const struct ah_program_place *place = &program->places[step->place[arg]];
        const struct ah_ref home = home_of(s, at, place);
        bound.arg[arg].offset_bytes += place->offset_bytes + home.offset_bytes;
        if (place->home == AH_HOME_DATA && !strcmp(place->name, "docs"))
            bound.arg[arg] = (struct ah_ref){0};
    }
    if (bound.kind == AH_OP_EMBED)
        read_rows(s, &bound);
    if (bound.kind == AH_OP_ROPE)
        bound.u.rope.table_rows = s->options.positions;
    return bound;
}

/* ---- attention ---- */

static struct ah_ref cache_of(const struct ah_speaker *s, struct ah_ref caches, size_t block)
{
    const uint64_t rows = (block - 1) * (uint64_t)(s->options.positions + AH_SPEAKER_ROWS);
    return further(caches, ah_speaker_bytes(s, rows * ah_speaker_kv_width(s)));
}

static struct ah_op keep(const struct ah_speaker *s, struct ah_ref cache, struct ah_ref made, uint64_t rows)
{
    const uint64_t width = ah_speaker_kv_width(s);
    struct ah_op op = {.kind = AH_OP_CAST,
                       .arg = {further(cache, ah_speaker_bytes(s, s->past * width)), made}};
    op.u.elements.rows = rows;
    op.u.elements.count = width;
    return op;
}

void ah_speaker_attend(const struct ah_speaker *s, const struct ah_speaker_place *at, struct ah_op *attention,
                       struct ah_op ret_keep[AH_SPEAKER_KEPT])
{
    const struct ah_ref caches[AH_SPEAKER_KEPT] = {cache_of(s, s->keys, at->block),
                                                   cache_of(s, s->values, at->block)};
    for (size_t i = 0; i < AH_SPEAKER_KEPT; i++) {
        ret_keep[i] = keep(s, caches[i], attention->arg[3 + i], s->rows[at->size]);
        attention->arg[3 + i] = caches[i];
    }
    attention->u.attention.past = s->past;
}

static int attend(struct ah_speaker *s, const struct ah_speaker_place *at, struct ah_op *attention)
{
    struct ah_op kept[AH_SPEAKER_KEPT];
    int rc = AH_OK;
    ah_speaker_attend(s, at, attention, kept);
    for (size_t i = 0; i < AH_SPEAKER_KEPT && !rc; i++)
        rc = submit(s, AH_LANE_COMPUTE, &kept[i], NULL, 0, &s->compute);
    return rc ? rc : submit(s, AH_LANE_COMPUTE, attention, NULL, 0, &s->compute);
}

/* ---- weights ---- */

/* Finds the block's weights. If they are on the host, begins to copy them to the next slot, and the first op that reads
 * them waits for that. */
static int find_weights(struct ah_speaker *s, size_t block, struct ah_ref *ret_ref,
                        struct ah_speaker_slot **ret_slot, struct ah_wait *ret_wait)
{
    const struct ah_speaker_vector *vector = &s->vectors[block];
    *ret_ref = vector->ref;
    *ret_slot = NULL;
    if (vector->ref.arena == AH_ARENA_DEVICE)
        return AH_OK;
    struct ah_speaker_slot *slot = &s->slots[s->next_slot++ % AH_SPEAKER_SLOTS];
    const struct ah_wait read = {AH_LANE_COMPUTE, slot->read};
    struct ah_op op = {.kind = AH_OP_COPY, .arg = {slot->ref, vector->ref}};
    op.u.copy.bytes = vector->bytes;
    ret_wait->lane = AH_LANE_H2D;
    *ret_slot = slot;
    *ret_ref = slot->ref;
    return submit(s, AH_LANE_H2D, &op, &read, 1, &ret_wait->ticket);
}

/* Submits the first `n` ops of the block's program. */
static int run_block(struct ah_speaker *s, struct ah_speaker_place *at, size_t n)
{
    struct ah_speaker_slot *slot = NULL;
    struct ah_wait wait = {0};
    int rc = find_weights(s, at->block, &at->weights, &slot, &wait);
    for (size_t i = 0; i < n && !rc; i++) {
        struct ah_op op = ah_speaker_bind(s, at, i);
        if (op.kind == AH_OP_ATTENTION)
            rc = attend(s, at, &op);
        else
            rc = submit(s, AH_LANE_COMPUTE, &op, &wait, slot && !i, &s->compute);
    }
    if (slot)
        slot->read = s->compute;
    return rc;
}

/* ---- the embedding ---- */

/* Gathers the rows of `words` from tensor `tensor` of the embedding, and copies them to the device. */
static int fetch_rows(struct ah_speaker *s, size_t tensor, struct ah_ref words, struct ah_ref host,
                      struct ah_ref to, uint64_t rows)
{
    const struct ah_flat flat = ah_flat_of(&s->untied, AH_BLOCK_EMBEDDING, 0);
    const struct ah_flat_tensor *table = &flat.tensors[tensor];
    const struct ah_wait copied = {AH_LANE_H2D, s->copied}, embedded = {AH_LANE_COMPUTE, s->embedded};
    struct ah_op gather = {.kind = AH_OP_GATHER, .arg = {host, s->vectors[0].ref, words}};
    gather.arg[1].offset_bytes += ah_speaker_bytes(s, table->first);
    gather.u.embed.rows = rows;
    gather.u.embed.width = table->tensor.cols;
    gather.u.embed.vocabulary = table->tensor.rows;
    int rc = submit(s, AH_LANE_HOST, &gather, &copied, 1, &s->gathered);
    const struct ah_wait waits[] = {{AH_LANE_HOST, s->gathered}, embedded};
    struct ah_op copy = {.kind = AH_OP_COPY, .arg = {to, host}};
    copy.u.copy.bytes = ah_speaker_bytes(s, rows * table->tensor.cols);
    return rc ? rc : submit(s, AH_LANE_H2D, &copy, waits, 2, &s->copied);
}

static int embed(struct ah_speaker *s, const struct ah_speaker_place *at)
{
    const uint64_t rows = s->rows[at->size], past = s->past * sizeof(uint32_t);
    int rc = fetch_rows(s, 0, further(s->words, past), s->host_rows, s->gathered_rows, rows);
    if (!rc && s->untied.position == AH_POSITION_LEARNED)
        rc =
            fetch_rows(s, 1, further(s->position_words, past), s->host_position_rows, s->position_rows, rows);
    const struct ah_wait copied = {AH_LANE_H2D, s->copied};
    const struct ah_op op = ah_speaker_bind(s, at, 0);
    rc = rc ? rc : submit(s, AH_LANE_COMPUTE, &op, &copied, 1, &s->compute);
    s->embedded = s->compute;
    return rc;
}

/* ---- the head ---- */

/* In training, the loss caps logits. */
static void cap_logits(const struct ah_speaker *s)
{
    const float cap = (float)s->untied.logit_cap;
    float *logits = ah_device_pointer(s->device, s->logits);
    for (uint64_t i = 0; i < s->untied.vocabulary; i++)
        logits[i] = cap * tanhf(logits[i] / cap);
}

/* Computes the logits after row `row` and waits for them. The head's program begins with its norm and its product. */
static int compute_logits(struct ah_speaker *s, struct ah_ref stream, uint32_t row)
{
    struct ah_speaker_place at = {.size = AH_SPEAKER_ONE, .block = s->n_blocks - 1};
    at.input = further(stream, ah_speaker_bytes(s, row * s->untied.width));
    int rc = run_block(s, &at, 2);
    const struct ah_wait computed = {AH_LANE_COMPUTE, s->compute};
    struct ah_op op = {.kind = AH_OP_COPY, .arg = {s->logits, ah_speaker_bind(s, &at, 1).arg[0]}};
    uint64_t ticket = 0;
    op.arg[1].row_stride = 0; /* one row */
    op.u.copy.bytes = s->untied.vocabulary * sizeof(float);
    rc = rc ? rc : submit(s, AH_LANE_D2H, &op, &computed, 1, &ticket);
    rc = rc ? rc : ah_device_wait(s->device, AH_LANE_D2H, ticket, s->err);
    if (!rc && s->untied.logit_cap > 0)
        cap_logits(s);
    return rc;
}

int ah_speaker_pass(struct ah_speaker *s, enum ah_speaker_size size, uint32_t rows, bool logits)
{
    struct ah_speaker_place at = {.size = size, .output = s->stream[0]};
    int rc = embed(s, &at);
    for (at.block = 1; at.block + 1 < s->n_blocks && !rc; at.block++) {
        at.input = s->stream[(at.block + 1) % 2];
        at.output = s->stream[at.block % 2];
        rc = run_block(s, &at, s->program[size][s->job[size].group_of[at.block]].n_ops);
    }
    if (!rc && logits)
        rc = compute_logits(s, at.output, rows - 1);
    return rc;
}
