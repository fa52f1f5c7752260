/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages: what a stage of a pipeline sends to its neighbours and receives from them, as read from its program. The
 * simulator and all executors read messages with this module, so there is one protocol.
 *
 *     struct ah_messages messages;
 *     rc = ah_messages_read(program, &arena, &messages, err);
 *     if (messages.of[AH_CHANNEL_OUTPUT_IN])
 *         ... messages.of[AH_CHANNEL_OUTPUT_IN][micro_batch].from ...
 *
 * A CHANNEL carries messages in one direction between two neighbours, for one purpose: one message per micro-batch, in
 * order. A message without bytes is a *word*: the next stage has no gradient to send and only says that it is done.
 *
 * A PROGRAM HAS NO RECEIVES. Each arriving message has a tensor in the receiver's arena. From the first position of the
 * tensor's lifetime on, its memory is free and the message may arrive; the send cannot end earlier. So messages take no
 * memory beyond what the document shows.
 *
 * INVARIANTS of a program that was read:
 * 1. Each message has one position, which sends it or is the first to need it. A word that no position needs has the
 *    position AH_MESSAGES_NEVER.
 * 2. from <= at <= to: a message is sent, or first needed, during its tensor's lifetime.
 * 3. Within a channel, `at` ascends from message to message, and so does `from` if the messages arrive here.
 *
 * ah_messages_check() ensures that each message has the size that the other side expects, and that three steps of all
 * stages run to their end with no buffers but these tensors (docs/clusters.md).
 */
#ifndef AH_RUNTIME_SCHEDULE_MESSAGES_H
#define AH_RUNTIME_SCHEDULE_MESSAGES_H

#include "base/arena.h"
#include "base/error.h"
#include "schemas/plan.h"

#include <stddef.h>
#include <stdint.h>

enum ah_channel {
    AH_CHANNEL_OUTPUT_IN,    /* the output of the previous stage: the input of block 0 */
    AH_CHANNEL_OUTPUT_OUT,   /* the output of the last block, to the next stage */
    AH_CHANNEL_GRADIENT_IN,  /* the gradient of that output, from the next stage */
    AH_CHANNEL_GRADIENT_OUT, /* the gradient of block 0's input, to the previous stage */
    AH_CHANNELS
};

enum { AH_MESSAGES_NONE = UINT32_MAX, AH_MESSAGES_NEVER = UINT32_MAX };

struct ah_message {
    uint64_t bytes;    /* 0: a word */
    uint32_t at;       /* the position that sends the message or is the first to need it */
    uint32_t from, to; /* the lifetime of its tensor; for a word, all positions */
    size_t tensor;     /* index into arena.tensors; SIZE_MAX: a word */
};

struct ah_messages {
    const struct ah_plan *program; /* borrowed */
    uint64_t micro_batches;
    uint32_t positions;
    struct ah_message *of[AH_CHANNELS]; /* by micro-batch; NULL: the stage has no such channel */
    uint32_t
        *number[AH_CHANNELS]; /* by position: the message sent or first needed there, or AH_MESSAGES_NONE */
};

/* Reads the messages of a program into `arena`. The program was read from a document or emitted, and its graph can be
 * read (graph.h). AH_E_DOCUMENT: a message is missing, is sent twice, or breaks an invariant. AH_E_MEMORY. */
int ah_messages_read(const struct ah_plan *program, struct ah_arena *arena, struct ah_messages *ret_messages,
                     struct ah_error *err);

/* Checks that a pipeline's stages, in order, can run steps together. AH_E_DOCUMENT says why not. AH_E_MEMORY. */
int ah_messages_check(const struct ah_messages *const *stages, size_t n, struct ah_error *err);

#endif
