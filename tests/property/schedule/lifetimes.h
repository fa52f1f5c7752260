/* SPDX-License-Identifier: Apache-2.0
 *
 * Lifetimes as in plans, for tests and benchmarks of the layout: blocks with activations on the stack, residual stream,
 * scratch, gradients, fetched weights, over the compute positions of an iteration.
 */
#ifndef AH_TESTS_PROPERTY_SCHEDULE_LIFETIMES_H
#define AH_TESTS_PROPERTY_SCHEDULE_LIFETIMES_H

#include "runtime/schedule/layout.h"

enum { LIFETIMES_TENSORS_MAX = 8192 };

/* The length of the gradients' lifetimes. */
enum lifetimes_gradients {
    LIFETIMES_USED_AT_ONCE, /* the device updates right after backward */
    LIFETIMES_TO_THE_END,   /* with clipping: until the last backward and all updates are done */
    LIFETIMES_SENT,         /* for `sent_for` positions, while they are copied */
    LIFETIMES_INTO_FORWARD, /* streamed updates, where lower blocks are updated sooner */
    LIFETIMES_GRADIENTS
};

struct lifetimes {
    uint32_t blocks, micro_batches;
    bool block_major;
    enum lifetimes_gradients gradients;
    uint32_t sent_for;   /* positions */
    uint32_t fetched;    /* number of lowest blocks with fetched weights */
    uint32_t ahead;      /* positions from a fetch to its use */
    uint32_t recomputed; /* number of lowest blocks that keep only their input */
    uint64_t activation, gradient, weight, residual, work; /* bytes */
};

struct lifetimes_set {
    struct ah_layout_tensor tensors[LIFETIMES_TENSORS_MAX];
    size_t n;
    uint32_t positions;
};

static inline void lifetimes_add(struct lifetimes_set *set, uint64_t bytes, uint32_t from, uint32_t to,
                                 enum ah_layout_class layout_class, bool stacked)
{
    if (bytes && set->n < LIFETIMES_TENSORS_MAX)
        set->tensors[set->n++] = (struct ah_layout_tensor){.bytes = bytes,
                                                           .from = from % set->positions,
                                                           .to = to % set->positions,
                                                           .layout_class = (uint8_t)layout_class,
                                                           .stacked = stacked};
}

static inline uint32_t lifetimes_forward(const struct lifetimes *it, uint32_t block, uint32_t micro_batch)
{
    if (it->block_major)
        return block * it->micro_batches + micro_batch;
    return micro_batch * 2 * it->blocks + block;
}

static inline uint32_t lifetimes_backward(const struct lifetimes *it, uint32_t block, uint32_t micro_batch)
{
    if (it->block_major)
        return (2 * it->blocks - 1 - block) * it->micro_batches + micro_batch;
    return micro_batch * 2 * it->blocks + 2 * it->blocks - 1 - block;
}

/* Returns the position at which a block's gradient is no longer needed. */
static inline uint32_t lifetimes_gradient_end(const struct lifetimes *it, uint32_t block, uint32_t backward,
                                              uint32_t compute)
{
    if (it->gradients == LIFETIMES_TO_THE_END)
        return compute + block;
    if (it->gradients == LIFETIMES_SENT)
        return backward + 1 + it->sent_for;
    if (it->gradients == LIFETIMES_INTO_FORWARD)
        return compute + block / 2;
    return backward + 1;
}

static inline void lifetimes_block(const struct lifetimes *it, struct lifetimes_set *set, uint32_t block,
                                   uint32_t m, uint32_t compute)
{
    uint32_t forward = lifetimes_forward(it, block, m), backward = lifetimes_backward(it, block, m);
    uint32_t before = block ? lifetimes_forward(it, block - 1, m) : forward;
    bool recomputed = block < it->recomputed;
    bool last = m + 1 == it->micro_batches;
    lifetimes_add(set, recomputed ? 0 : it->activation, forward, backward, AH_CLASS_ACTIVATIONS, true);
    lifetimes_add(set, it->residual, before, backward, AH_CLASS_ACTIVATIONS, true);
    lifetimes_add(set, it->work, forward, forward, AH_CLASS_WORKSPACE, false);
    lifetimes_add(set, 2 * it->work + (recomputed ? it->activation : 0), backward, backward,
                  AH_CLASS_WORKSPACE, false);
    if (block < it->fetched) {
        lifetimes_add(set, it->weight, forward + set->positions - it->ahead, forward, AH_CLASS_STAGING,
                      false);
        lifetimes_add(set, it->weight, backward - it->ahead, backward, AH_CLASS_STAGING, false);
    } else if (m == 0) {
        lifetimes_add(set, it->weight, 0, set->positions - 1, AH_CLASS_WEIGHTS, false);
        set->tensors[set->n - 1].persistent = true;
    }
    if (last)
        lifetimes_add(set, it->gradient, lifetimes_backward(it, block, 0),
                      lifetimes_gradient_end(it, block, backward, compute), AH_CLASS_GRADIENTS, false);
    if (it->micro_batches > 1)
        lifetimes_add(set, it->gradient / 2, backward, backward, AH_CLASS_GRADIENTS, false);
}

/* Fills in the tensors of an iteration. Updates that wait for the norm have extra positions at its end. */
static inline void lifetimes_fill(const struct lifetimes *it, struct lifetimes_set *set)
{
    uint32_t compute = 2 * it->blocks * it->micro_batches;
    set->n = 0;
    set->positions = compute + (it->gradients == LIFETIMES_TO_THE_END ? it->blocks : 0);
    for (uint32_t m = 0; m < it->micro_batches; m++)
        for (uint32_t block = 0; block < it->blocks; block++)
            lifetimes_block(it, set, block, m, compute);
    for (uint32_t m = 0; m < it->micro_batches; m++)
        lifetimes_add(set, it->residual, lifetimes_backward(it, it->blocks - 1, m),
                      lifetimes_backward(it, 0, m), AH_CLASS_ACTIVATIONS, false);
    lifetimes_add(set, 8 * it->work, it->blocks * (it->block_major ? it->micro_batches : 1) - 1,
                  it->blocks * (it->block_major ? it->micro_batches : 1) - 1, AH_CLASS_WORKSPACE, false);
}

#endif
