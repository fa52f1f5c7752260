/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages: what a stage of a pipeline sends to its neighbours and gets from them, as its program says it. Whoever plays
 * or executes programs reads messages here, so that there is one protocol.
 *
 *     struct ah_messages messages;
 *     rc = ah_messages_read(program, &arena, &messages, err);
 *     if (messages.of[AH_CHANNEL_OUTPUT_IN])
 *         ... messages.of[AH_CHANNEL_OUTPUT_IN][micro_batch].from ...
 *
 * A CHANNEL goes one way between two neighbours, for one purpose. It has one message for each micro-batch, in their order.
 * One without bytes is a *word*: the stage behind trains nothing below its top and says that it is done.
 *
 * A PROGRAM HAS NO RECEIVES. A message that arrives lies in a tensor of the arena from the first position of its life on:
 * there its place is free, and whoever sends may go on. So memory for messages is what the document says, there are no
 * other buffers, and a send is not over before the receiver has come so far.
 *
 * INVARIANTS of a program that was read:
 * 1. A message is sent by one position, and is first needed by one (AH_MESSAGES_NEVER: by none of its step; a word).
 * 2. from <= at <= to: it is needed, or sent, while its tensor lives.
 * 3. In a channel `at` ascends, and so does `from` of what arrives.
 *
 * And of programs that were checked together: what one sends the other expects, of the same size, and three steps of all of
 * them come to their end although nothing waits anywhere but in its place (docs/clusters.md).
 */
#ifndef AH_RUNTIME_SCHEDULE_MESSAGES_H
#define AH_RUNTIME_SCHEDULE_MESSAGES_H

#include "base/arena.h"
#include "base/error.h"
#include "schemas/plan.h"

#include <stddef.h>
#include <stdint.h>

enum ah_channel {
    AH_CHANNEL_OUTPUT_IN,    /* the output of the stage before: the input of block 0 */
    AH_CHANNEL_OUTPUT_OUT,   /* of the last block, to the stage behind */
    AH_CHANNEL_GRADIENT_IN,  /* of that output, from the stage behind */
    AH_CHANNEL_GRADIENT_OUT, /* of the input of block 0, to the stage before */
    AH_CHANNELS
};

enum { AH_MESSAGES_NONE = UINT32_MAX, AH_MESSAGES_NEVER = UINT32_MAX };

struct ah_message {
    uint64_t bytes;    /* 0: a word */
    uint32_t at;       /* the position that sends it, or is the first to need it */
    uint32_t from, to; /* the life of its tensor; of a word all positions */
    size_t tensor;     /* of arena.tensors; SIZE_MAX: a word */
};

struct ah_messages {
    const struct ah_plan *program; /* borrowed */
    uint64_t micro_batches;
    uint32_t positions;
    struct ah_message *of[AH_CHANNELS]; /* by micro-batch; NULL: the stage has no such channel */
    uint32_t
        *number[AH_CHANNELS]; /* by position: the message that is sent or needed there; AH_MESSAGES_NONE */
};

/* Everything in `arena`. The program was read from a document, or emitted, and its rounds can be read (rounds.h).
 * AH_E_DOCUMENT: a message that is missing or comes twice, or breaks an invariant; AH_E_MEMORY. */
int ah_messages_read(const struct ah_plan *program, struct ah_arena *arena, struct ah_messages *ret_messages,
                     struct ah_error *err);

/* Can these stages of a pipeline, in their order, do their steps together? AH_E_DOCUMENT: they cannot, and why. */
int ah_messages_check(const struct ah_messages *const *stages, size_t n, struct ah_error *err);

#endif
