/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading: ops give the positions at which messages are sent or first needed. Names of tensors give their memory.
 *
 * Checking: a stage runs its positions in order. Each stage runs as far as the others allow, until no stage can
 * advance. If a stage has then not reached its end, the stages wait for each other in a circle.
 */
#include "runtime/schedule/messages.h"

#include "runtime/schedule/names.h"
#include "runtime/schedule/turns.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

enum { STEPS = 3 };

static const struct {
    const char *word; /* name in error messages */
    enum ah_tensor_label label;
    bool of_top; /* its tensor is the last block's; if false, the first's */
    bool sends;
} channels[AH_CHANNELS] = {
    [AH_CHANNEL_OUTPUT_IN] = {"the output that arrives", AH_TENSOR_INPUT, false, false},
    [AH_CHANNEL_OUTPUT_OUT] = {"the output that is sent", AH_TENSOR_OUTPUT, true, true},
    [AH_CHANNEL_GRADIENT_IN] = {"the gradient that arrives", AH_TENSOR_RESIDUAL_GRADIENT, true, false},
    [AH_CHANNEL_GRADIENT_OUT] = {"the gradient that is sent", AH_TENSOR_RESIDUAL_GRADIENT, true, true},
};

struct reading {
    struct ah_messages *messages;
    const struct ah_plan *program;
    const struct ah_plan_part *part;
    uint64_t ahead;
    bool trains; /* the stage has a backward op, or the head's op, which includes backward */
};

static const struct ah_plan_op *op_at(const struct ah_plan *program, uint32_t position)
{
    return ah_plan_compute_op(program, position);
}

/* ---- positions ---- */

static int fail_message(const struct reading *r, enum ah_channel channel, uint64_t micro_batch,
                        const char *why, struct ah_error *err)
{
    return ah_error_set(err, AH_E_DOCUMENT, "stage %" PRIu64 ": %s of micro-batch %" PRIu64 " %s",
                        r->part->stage, channels[channel].word, micro_batch, why);
}

static int note_message(const struct reading *r, enum ah_channel channel, uint64_t micro_batch,
                        uint32_t position, struct ah_error *err)
{
    struct ah_messages *m = r->messages;
    if (!m->of[channel])
        return fail_message(r, channel, micro_batch, "has no stage to go to", err);
    if (micro_batch >= m->micro_batches)
        return fail_message(r, channel, micro_batch, "belongs to none of the step's micro-batches", err);
    struct ah_message *message = &m->of[channel][micro_batch];
    if (message->at != AH_MESSAGES_NEVER)
        return channels[channel].sends ? fail_message(r, channel, micro_batch, "is sent twice", err) : AH_OK;
    message->at = position;
    m->number[channel][position] = (uint32_t)micro_batch;
    return AH_OK;
}

/* Records the message sent or first needed at this position. A gradient from the next stage is first needed by the last
 * block's backward; without one, by this stage's gradient send; without that, by a forward that must not run ahead. */
static int note_position(const struct reading *r, uint32_t position, struct ah_error *err)
{
    const struct ah_plan_op *op = op_at(r->program, position);
    const bool before = r->part->stage > 0, behind = r->part->stage + 1 < r->part->stages;
    const bool forward = op->op == AH_PLAN_FORWARD && op->block == 0;
    const bool top = op->op == AH_PLAN_BACKWARD && op->block + 1 == r->program->n_blocks;
    int rc = AH_OK;
    if (forward && before)
        rc = note_message(r, AH_CHANNEL_OUTPUT_IN, op->micro_batch, position, err);
    if (!rc && forward && behind && !r->trains && op->micro_batch > r->ahead)
        rc = note_message(r, AH_CHANNEL_GRADIENT_IN, op->micro_batch - r->ahead - 1, position, err);
    if (!rc && behind && (top || op->op == AH_PLAN_SEND_INPUT_GRADIENT))
        rc = note_message(r, AH_CHANNEL_GRADIENT_IN, op->micro_batch, position, err);
    if (!rc && op->op == AH_PLAN_SEND_OUTPUT)
        rc = note_message(r, AH_CHANNEL_OUTPUT_OUT, op->micro_batch, position, err);
    if (!rc && op->op == AH_PLAN_SEND_INPUT_GRADIENT)
        rc = note_message(r, AH_CHANNEL_GRADIENT_OUT, op->micro_batch, position, err);
    return rc;
}

/* ---- tensors ---- */

/* True if the message is a word, which has no bytes. It has no tensor, even if a tensor looks like its own. */
static bool is_word(const struct reading *r, enum ah_channel channel, const struct ah_message *message)
{
    return channel == AH_CHANNEL_GRADIENT_OUT && message->at != AH_MESSAGES_NEVER &&
           !op_at(r->program, message->at)->bytes;
}

static void take_tensor(const struct reading *r, enum ah_channel channel, size_t tensor)
{
    const uint64_t block = channels[channel].of_top ? r->program->n_blocks - 1 : 0;
    const struct ah_plan_tensor *from = &r->program->arena.tensors[tensor];
    if (!r->messages->of[channel] || from->label != channels[channel].label || from->block != block ||
        from->micro_batch >= r->messages->micro_batches)
        return;
    struct ah_message *message = &r->messages->of[channel][from->micro_batch];
    if (is_word(r, channel, message))
        return;
    *message = (struct ah_message){.bytes = from->bytes,
                                   .at = message->at,
                                   .from = (uint32_t)from->from,
                                   .to = (uint32_t)from->to,
                                   .tensor = tensor};
}

static void take_tensors(const struct reading *r)
{
    for (size_t i = 0; i < r->program->arena.n_tensors; i++)
        for (enum ah_channel channel = 0; channel < AH_CHANNELS; channel++)
            take_tensor(r, channel, i);
}

/* ---- invariants ---- */

static int check_message(const struct reading *r, enum ah_channel channel, uint64_t micro_batch,
                         struct ah_error *err)
{
    const struct ah_message *message = &r->messages->of[channel][micro_batch], *last = message - 1;
    const bool word = message->tensor == SIZE_MAX, never = message->at == AH_MESSAGES_NEVER;
    if (never && (channels[channel].sends || !word || r->trains))
        return fail_message(r, channel, micro_batch,
                            channels[channel].sends ? "is never sent" : "is never used", err);
    if (word && (channel == AH_CHANNEL_OUTPUT_IN || channel == AH_CHANNEL_OUTPUT_OUT))
        return fail_message(r, channel, micro_batch, "has no tensor", err);
    if (channels[channel].sends && message->bytes != op_at(r->program, message->at)->bytes)
        return fail_message(r, channel, micro_batch, "differs in size from its tensor", err);
    if (!never && (message->at < message->from || message->at > message->to))
        return fail_message(r, channel, micro_batch, "is outside the life of its tensor", err);
    if (micro_batch && !never && last->at >= message->at)
        return fail_message(r, channel, micro_batch, "comes before the previous one", err);
    if (micro_batch && !channels[channel].sends && !word && last->from > message->from)
        return fail_message(r, channel, micro_batch, "has its tensor before that of the previous one", err);
    return AH_OK;
}

static int check_channels(const struct reading *r, struct ah_error *err)
{
    int rc = AH_OK;
    for (enum ah_channel channel = 0; channel < AH_CHANNELS; channel++)
        for (uint64_t m = 0; m < r->messages->micro_batches && r->messages->of[channel] && !rc; m++)
            rc = check_message(r, channel, m, err);
    return rc;
}

/* ---- the whole reading ---- */

static int open_channel(struct ah_messages *m, enum ah_channel channel, struct ah_arena *arena,
                        struct ah_error *err)
{
    m->of[channel] = ah_arena_array(arena, m->micro_batches, sizeof *m->of[channel]);
    m->number[channel] = ah_arena_array(arena, m->positions, sizeof *m->number[channel]);
    if (!m->of[channel] || !m->number[channel])
        return ah_error_memory(err);
    for (uint64_t i = 0; i < m->micro_batches; i++)
        m->of[channel][i] =
            (struct ah_message){.at = AH_MESSAGES_NEVER, .to = m->positions - 1, .tensor = SIZE_MAX};
    memset(m->number[channel], 0xff, m->positions * sizeof *m->number[channel]);
    return AH_OK;
}

static bool trains(const struct ah_plan *program)
{
    for (size_t i = 0; i < program->n_ops; i++)
        if (program->ops[i].op == AH_PLAN_BACKWARD)
            return true;
    return ah_plan_is_head(program, program->n_blocks - 1);
}

int ah_messages_read(const struct ah_plan *program, struct ah_arena *arena, struct ah_messages *ret_messages,
                     struct ah_error *err)
{
    const struct ah_plan_part *part = program->part;
    if (!part)
        return ah_error_set(err, AH_E_DOCUMENT, "part: is missing");
    *ret_messages = (struct ah_messages){.program = program,
                                         .micro_batches = program->training.micro_batches,
                                         .positions = (uint32_t)program->lanes.n_order[AH_PLAN_LANE_COMPUTE]};
    const struct reading r = {.messages = ret_messages,
                              .program = program,
                              .part = part,
                              .ahead = ah_turn_ahead(part->stage, part->stages, ret_messages->micro_batches),
                              .trains = trains(program)};
    const bool has[AH_CHANNELS] = {part->stage > 0, part->stage + 1 < part->stages,
                                   part->stage + 1 < part->stages, part->stage > 0};
    int rc = AH_OK;
    for (enum ah_channel channel = 0; channel < AH_CHANNELS && !rc; channel++)
        rc = has[channel] ? open_channel(ret_messages, channel, arena, err) : AH_OK;
    for (uint32_t p = 0; p < ret_messages->positions && !rc; p++)
        rc = note_position(&r, p, err);
    if (rc)
        return rc;
    take_tensors(&r);
    return check_channels(&r, err);
}

/* ---- stages together ---- */

/* The stages of a pipeline while they run. */
struct pipeline {
    const struct ah_messages *const *stages;
    size_t n;
    uint64_t *done; /* by stage: positions done, over all steps */
};

/* Returns the bytes of a message for all `tp` ranks of a stage together; each of them sends and expects a slice. */
static uint64_t whole_bytes(const struct ah_messages *messages, enum ah_channel channel, uint64_t micro_batch)
{
    return messages->of[channel][micro_batch].bytes * messages->program->part->tp;
}

static int check_size(size_t from, const struct ah_messages *sender, enum ah_channel sent, size_t to,
                      const struct ah_messages *receiver, enum ah_channel expected, uint64_t micro_batch,
                      struct ah_error *err)
{
    const uint64_t sent_bytes = whole_bytes(sender, sent, micro_batch),
                   expected_bytes = whole_bytes(receiver, expected, micro_batch);
    return sent_bytes == expected_bytes
               ? AH_OK
               : ah_error_set(err, AH_E_DOCUMENT,
                              "stage %zu sends %" PRIu64 " bytes of micro-batch %" PRIu64 " but stage %zu "
                              "expects %" PRIu64,
                              from, sent_bytes, micro_batch, to, expected_bytes);
}

static int check_sizes(const struct pipeline *p, size_t stage, struct ah_error *err)
{
    const struct ah_messages *here = p->stages[stage], *there = p->stages[stage + 1];
    if (here->micro_batches != there->micro_batches)
        return ah_error_set(err, AH_E_DOCUMENT, "stage %zu has %" PRIu64 " micro-batches, stage %zu %" PRIu64,
                            stage, here->micro_batches, stage + 1, there->micro_batches);
    if (!here->of[AH_CHANNEL_OUTPUT_OUT] || !there->of[AH_CHANNEL_OUTPUT_IN])
        return ah_error_set(err, AH_E_DOCUMENT,
                            "stages %zu and %zu are not neighbours according to their "
                            "programs",
                            stage, stage + 1);
    for (uint64_t m = 0; m < here->micro_batches; m++) {
        int rc =
            check_size(stage, here, AH_CHANNEL_OUTPUT_OUT, stage + 1, there, AH_CHANNEL_OUTPUT_IN, m, err);
        rc = rc ? rc
                : check_size(stage + 1, there, AH_CHANNEL_GRADIENT_OUT, stage, here, AH_CHANNEL_GRADIENT_IN,
                             m, err);
        if (rc)
            return rc;
    }
    return AH_OK;
}

/* True if the neighbour is far enough: it has sent the message to receive, or freed the memory for the one to send. */
static bool is_let(const struct pipeline *p, size_t stage, enum ah_channel channel, uint64_t step,
                   uint32_t position)
{
    static const struct {
        int neighbour;
        enum ah_channel other; /* the neighbour's name for the channel */
    } ends[AH_CHANNELS] = {[AH_CHANNEL_OUTPUT_IN] = {-1, AH_CHANNEL_OUTPUT_OUT},
                           [AH_CHANNEL_OUTPUT_OUT] = {1, AH_CHANNEL_OUTPUT_IN},
                           [AH_CHANNEL_GRADIENT_IN] = {1, AH_CHANNEL_GRADIENT_OUT},
                           [AH_CHANNEL_GRADIENT_OUT] = {-1, AH_CHANNEL_GRADIENT_IN}};
    const struct ah_messages *m = p->stages[stage];
    const uint32_t number = m->number[channel] ? m->number[channel][position] : AH_MESSAGES_NONE;
    if (number == AH_MESSAGES_NONE)
        return true;
    const size_t other = ends[channel].neighbour < 0 ? stage - 1 : stage + 1;
    const struct ah_message *there = &p->stages[other]->of[ends[channel].other][number];
    const uint64_t before = step * p->stages[other]->positions;
    return p->done[other] >= before + (channels[channel].sends ? there->from : there->at + UINT64_C(1));
}

/* Runs a stage as far as the others allow. Returns false if it ran no position. */
static bool advance_stage(struct pipeline *p, size_t stage)
{
    const uint64_t positions = p->stages[stage]->positions, begin = p->done[stage];
    for (; p->done[stage] < STEPS * positions; p->done[stage]++) {
        const uint64_t step = p->done[stage] / positions;
        const uint32_t position = (uint32_t)(p->done[stage] % positions);
        bool let = true;
        for (enum ah_channel channel = 0; channel < AH_CHANNELS && let; channel++)
            let = is_let(p, stage, channel, step, position);
        if (!let)
            break;
    }
    return p->done[stage] > begin;
}

static int check_order(struct pipeline *p, struct ah_error *err)
{
    bool moved = true;
    while (moved) {
        moved = false;
        for (size_t i = 0; i < p->n; i++)
            moved = advance_stage(p, i) || moved;
    }
    for (size_t i = 0; i < p->n; i++) {
        const uint64_t positions = p->stages[i]->positions, done = p->done[i];
        if (done == STEPS * positions)
            continue;
        const struct ah_plan_op *op = op_at(p->stages[i]->program, (uint32_t)(done % positions));
        return ah_error_set(
            err, AH_E_DOCUMENT,
            "the stages wait for each other forever: stage %zu stops at '%s' of block %" PRIu64 " and "
            "micro-batch %" PRIu64 ", position %" PRIu64 " of step %" PRIu64 "; plan again",
            i, ah_words_plan_op[op->op], op->block, op->micro_batch, done % positions, done / positions + 1);
    }
    return AH_OK;
}

int ah_messages_check(const struct ah_messages *const *stages, size_t n, struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct pipeline p = {.stages = stages, .n = n, .done = ah_arena_array(&arena, n, sizeof *p.done)};
    int rc = p.done ? AH_OK : ah_error_memory(err);
    for (size_t i = 0; i + 1 < n && !rc; i++)
        rc = check_sizes(&p, i, err);
    rc = rc ? rc : check_order(&p, err);
    ah_arena_release(&arena);
    return rc;
}
