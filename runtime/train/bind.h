/* SPDX-License-Identifier: Apache-2.0
 *
 * Bind: turns each item of a plan into primitive ops with addresses, to be submitted to a lane at the item's turn.
 *
 *     forward, backward    the program of the pass (runtime/schedule/program.h); for a gradient, also its sum over
 *                          micro-batches and, with clipping, its sum of squares
 *     fetch, send_gradients, upload, states_in, states_out
 *                          copies of a tile, one for each run of elements that are contiguous on both sides
 *     gather               gather of rows of the host's table, for the tokens of a micro-batch
 *     accumulate           cast (the first micro-batch) or accumulate, of a tile
 *     host_adam, device_adam
 *                          adamw, one for each run of elements that all decay or all do not
 *     norm                 clip; the copies before and after it are extras
 *
 *     send_output, send_input_gradient
 *                          the tensor, or a word, to the neighbour
 *
 * EXTRAS are ops that no plan mentions, since they take no time worth planning. They copy a micro-batch and a step's
 * header to the device, and sums of squares and the loss back. If several ranks train, further extras follow: receives
 * (messages.h), and sums of gradients with other pipelines (bind_shares.c).
 *
 * INVARIANTS
 *   1. Every operand is inside its tensor of the plan, or its piece of host memory. ah_addresses_find() checks tensors,
 *      and the binder checks the homes that a program uses.
 *   2. Padding of a gradient is zero: the op that makes the gradient writes it.
 *   3. Slots of rings, data and headers depend on the step. So an operand there has a move: an index times a stride,
 *      added to the offset when the op is submitted. Everything else is bound once.
 */
#ifndef AH_RUNTIME_TRAIN_BIND_H
#define AH_RUNTIME_TRAIN_BIND_H

#include "runtime/schedule/graph.h"
#include "runtime/schedule/messages.h"
#include "runtime/train/addresses.h"
#include "runtime/train/trainer.h"

struct ah_bound_op {
    struct ah_op op;
    uint8_t move[AH_OP_ARGS]; /* enum ah_offset_term */
    bool learns;              /* used by training only; evaluation leaves it out */
};

enum ah_bind_extra {
    AH_EXTRA_HEADER, /* h2d */
    AH_EXTRA_LOAD,   /* h2d: words and mask of a micro-batch */
    AH_EXTRA_SUMS,   /* d2h: sums of squares made on the device */
    AH_EXTRA_LOSS,   /* d2h */
    AH_EXTRAS
};

struct ah_bound {
    struct ah_bound_op *ops; /* owned */
    size_t n_ops, room;
    /* Owned; first op of each item, extra, receive (by channel and micro-batch) and share; at the end: n_ops. */
    uint32_t *first;
};

struct ah_bind_options {
    const struct ah_graph *graph;
    const struct ah_addresses *addresses;
    bool documents; /* the data have documents, so positions restart */

    /* The fields from here on are zeros unless this is one of several ranks. */
    const struct ah_messages *messages;
    struct ah_op_message message; /* the call that moves messages; a `channel` is one of enum ah_channel */
    struct ah_op_call gate;       /* the call that collects the sums of all ranks before the norm */
    const struct ah_trainer_rank *rank;
};

/* Channels for sums of gradients over pipelines. They are numbered after enum ah_channel, by the peer's rank. */
enum ah_bind_sum {
    AH_SUM_PARTIAL_OUT,
    AH_SUM_PARTIAL_IN,
    AH_SUM_TOTAL_OUT,
    AH_SUM_TOTAL_IN,
    AH_SUM_CHANNELS
};
static inline uint32_t ah_bind_sum_channel(uint32_t rank, enum ah_bind_sum sum)
{
    return AH_CHANNELS + rank * AH_SUM_CHANNELS + sum;
}

/* Returns the index into `first` for the ops of a share. */
static inline size_t ah_bind_share(const struct ah_graph *graph, const struct ah_messages *messages,
                                   size_t share)
{
    return graph->n_items + AH_EXTRAS + 2 * messages->micro_batches + share;
}

/* Returns the index into `first` for the ops that receive a micro-batch's message from a channel. */
static inline size_t ah_bind_received(const struct ah_graph *graph, const struct ah_messages *messages,
                                      enum ah_channel channel, uint64_t micro_batch)
{
    return graph->n_items + AH_EXTRAS + (channel == AH_CHANNEL_GRADIENT_IN ? messages->micro_batches : 0) +
           micro_batch;
}

/* Binds all items and extras of a plan. AH_E_MISMATCH as ah_addresses_find(); AH_E_MEMORY. */
int ah_bind(struct ah_bound *ret_bound, const struct ah_bind_options *options, struct ah_error *err);

/* Checks that every op stays inside the arenas if all indices are 0, and that its operands do not overlap. */
int ah_bind_check(const struct ah_bound *bound, const struct ah_addresses *addresses, struct ah_error *err);

void ah_bound_release(struct ah_bound *bound);

#endif
