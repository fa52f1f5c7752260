/* SPDX-License-Identifier: Apache-2.0
 *
 * Positions: the compute order of an iteration.
 *
 * 1. Forward visits blocks upwards and backward downwards, micro-batch by micro-batch or block by block; the head's op
 *    is both. The forwards of a pipeline's stage are ahead of its backwards by the number of stages after it (turns.h).
 *    Sends come between them.
 * 2. Updates on the device come between passes. A `device` update follows the block's last gradient. If updates wait
 *    for the norm, all of them follow the last gradient of all blocks, the lowest block first.
 * 3. Streamed updates are spread to match the arrival of their states. States are copied over the link tile by tile. A
 *    block's copies begin once its last gradient is made; the block needed first comes first. A tile is updated after
 *    the op that runs when it arrives, but before the block's weights are used (or fetched).
 */
#include "runtime/schedule/compile_internal.h"
#include "runtime/schedule/turns.h"

#include <string.h>

/* ---- forward and backward ---- */

/* Appends an op to `base`. Its time is `us`, unless the choice's base_us gives another. */
static struct ah_plan_op *base_append(struct compile *c, enum ah_plan_op_kind kind, size_t block,
                                      size_t micro_batch, double us)
{
    uint32_t op = ah_compile_op(c, kind, AH_PLAN_LANE_COMPUTE, block, micro_batch);
    c->ops[op].us = c->base_us ? c->base_us[c->n_base] : us;
    c->base[c->n_base++] = op;
    return &c->ops[op];
}

static void base_push(struct compile *c, enum ah_plan_op_kind kind, size_t block, size_t micro_batch)
{
    const struct ah_cost_group *costs = &c->costs->groups[c->job->group_of[block]];
    enum ah_activations activations = c->configs[block].activations;
    double us = kind == AH_PLAN_FORWARD ? costs->forward_us : costs->backward_us[activations];
    if (ah_compile_gradient_here(c, kind, block))
        us += ah_compile_gradient_us(c, block, micro_batch);
    c->base_of[kind == AH_PLAN_BACKWARD][micro_batch * c->n_blocks + block] = (uint32_t)c->n_base;
    (void)base_append(c, kind, block, micro_batch, us);
}

/* Returns the number of blocks with backward ops. The head has none, because its forward op includes backward. */
static size_t below_head(const struct compile *c)
{
    return c->n_blocks - c->job->has_head;
}

static void base_send(struct compile *c, enum ah_plan_op_kind kind, size_t block, size_t micro_batch,
                      double us)
{
    bool empty = kind == AH_PLAN_SEND_INPUT_GRADIENT && !ah_job_block(c->job, 0)->input_gradient;
    c->send_of[kind == AH_PLAN_SEND_INPUT_GRADIENT][micro_batch] = (uint32_t)c->n_base;
    base_append(c, kind, block, micro_batch, us)->bytes = empty ? 0 : c->job->residual_bytes;
}

static void forward_pass(struct compile *c, size_t micro_batch)
{
    for (size_t block = 0; block < c->n_blocks; block++)
        base_push(c, AH_PLAN_FORWARD, block, micro_batch);
    if (ah_compile_sends_output(c))
        base_send(c, AH_PLAN_SEND_OUTPUT, c->n_blocks - 1, micro_batch, c->costs->send_output_us);
}

static void backward_pass(struct compile *c, size_t micro_batch)
{
    for (size_t block = below_head(c); block-- > c->job->lowest;)
        base_push(c, AH_PLAN_BACKWARD, block, micro_batch);
    if (ah_compile_sends_gradient(c))
        base_send(c, AH_PLAN_SEND_INPUT_GRADIENT, 0, micro_batch, c->costs->send_gradient_us);
}

static void base_order(struct compile *c)
{
    const struct ah_plan_part *part = &c->job->part;
    size_t micro_batches = c->micro_batches;
    if (c->knobs->micro_order == AH_MICRO_BATCH_MAJOR) {
        for (size_t k = 0; k < 2 * micro_batches; k++) {
            struct ah_turn turn = ah_turn_of(part->stage, part->stages, micro_batches, k);
            (turn.backward ? backward_pass : forward_pass)(c, turn.micro_batch);
        }
        return;
    }
    for (size_t block = 0; block < c->n_blocks; block++)
        for (size_t m = 0; m < micro_batches; m++)
            base_push(c, AH_PLAN_FORWARD, block, m);
    for (size_t block = below_head(c); block-- > c->job->lowest;)
        for (size_t m = 0; m < micro_batches; m++)
            base_push(c, AH_PLAN_BACKWARD, block, m);
}

/* Returns the index in `base` of the op that makes a block's gradient in the last micro-batch. */
static uint32_t base_gradient(const struct compile *c, size_t block)
{
    return c->base_of[!ah_job_is_head(c->job, block)][(c->micro_batches - 1) * c->n_blocks + block];
}

/* ---- updates on the device ---- */

static void attach(struct compile *c, size_t after, uint32_t op)
{
    c->attached[c->n_attached++] = (struct compile_attached){(uint32_t)(after % c->n_base), op};
}

/* Returns the index in `base` of the last op that makes a gradient; in a part, of the last op, which sums follow. */
static uint32_t last_gradient(const struct compile *c)
{
    uint32_t last = 0;
    if (c->job->is_part)
        return (uint32_t)c->n_base - 1;
    for (size_t block = c->job->lowest; block < c->n_blocks; block++)
        if (ah_compile_trained(c, block) && base_gradient(c, block) > last)
            last = base_gradient(c, block);
    return last;
}

static void attach_device_updates(struct compile *c)
{
    for (size_t block = c->job->lowest; block < c->n_blocks; block++) {
        if (c->configs[block].optimizer != AH_OPTIMIZER_DEVICE)
            continue;
        uint32_t op = ah_compile_op(c, AH_PLAN_DEVICE_ADAM, AH_PLAN_LANE_COMPUTE, block, 0);
        c->ops[op].us = ah_costs_update_us(c->costs, c->job, c->job->group_of[block]);
        c->update_op[block] = op;
        attach(c, c->late_updates ? c->last_gradient : base_gradient(c, block), op);
    }
}

/* A simulation of the link, which serves one tile at a time, over two iterations of compute. */
struct arrivals {
    double now_us;
    size_t running; /* the op of `base`, counted over two iterations, that runs at `now_us` */
    /* number of blocks in c->waiting, whose gradients are done; the last of them is served first */
    size_t n_waiting;
};

/* Returns the last op of `base`, counted over two iterations, after which the block's update may run. */
static size_t deadline(const struct compile *c, size_t block, size_t ready)
{
    if (c->knobs->step_ends)
        return c->n_base - 1;
    size_t use = c->n_base + c->base_of[0][block];
    size_t ahead = 1 + (c->configs[block].weights == AH_WEIGHTS_HOST ? c->knobs->fetch_ahead : 0);
    return use - ready > ahead ? use - ahead : ready;
}

static size_t update_ready(const struct compile *c, size_t block)
{
    return c->late_updates ? c->last_gradient : base_gradient(c, block);
}

static void serve(struct compile *c, struct arrivals *a)
{
    size_t block = c->waiting[--a->n_waiting];
    const struct ah_plan_op *op = &c->ops[c->update_op[block]];
    size_t last = deadline(c, block, update_ready(c, block));
    double tile_us = ah_compile_states_in_us(c, block) / (double)op->tiles;
    for (uint64_t tile = 0; tile < op->tiles; tile++) {
        a->now_us += tile_us;
        while (a->running + 1 < 2 * c->n_base && c->base_end_us[a->running] < a->now_us)
            a->running++;
        attach(c, a->running < last ? a->running : last, c->update_op[block]);
    }
}

static void make_streamed_op(struct compile *c, size_t block)
{
    uint32_t op = ah_compile_op(c, AH_PLAN_DEVICE_ADAM, AH_PLAN_LANE_COMPUTE, block, 0);
    c->ops[op].us = ah_costs_update_us(c->costs, c->job, c->job->group_of[block]);
    c->ops[op].tiles = ah_compile_tiles(c, ah_job_block(c->job, block)->own_trained_elements);
    c->update_op[block] = op;
}

/* Places streamed updates by rule 3. Gradients are made from the highest block down; the lowest one is needed first. */
static void attach_streamed_updates(struct compile *c)
{
    struct arrivals a = {0};
    for (size_t i = 0; i < 2 * c->n_base; i++)
        c->base_end_us[i] = (i ? c->base_end_us[i - 1] : 0) + c->ops[c->base[i % c->n_base]].us;
    for (size_t block = c->n_blocks; block-- > c->job->lowest;) {
        if (c->configs[block].optimizer != AH_OPTIMIZER_STREAMED)
            continue;
        make_streamed_op(c, block);
        double ready_us = c->base_end_us[update_ready(c, block)];
        while (a.n_waiting && a.now_us < ready_us)
            serve(c, &a);
        if (a.now_us < ready_us)
            a.now_us = ready_us;
        c->waiting[a.n_waiting++] = (uint32_t)block;
    }
    while (a.n_waiting)
        serve(c, &a);
}

/* ---- the order ---- */

/* Sorts attached updates by `after`, stably. */
static void sort_attached(struct compile *c)
{
    uint32_t *count = c->count;
    memset(count, 0, (c->n_base + 1) * sizeof *count);
    for (size_t i = 0; i < c->n_attached; i++)
        count[c->attached[i].after + 1]++;
    for (size_t i = 0; i < c->n_base; i++)
        count[i + 1] += count[i];
    for (size_t i = 0; i < c->n_attached; i++)
        c->sorted[count[c->attached[i].after]++] = c->attached[i];
}

/* Sets each op's first and last position. Tiles count from the first head on, so the search begins there. */
static void number_positions(struct compile *c)
{
    size_t head = 0;
    while (c->compute[head] != c->base[c->base_of[0][c->n_blocks - 1]])
        head++;
    for (size_t i = 0; i < c->n_compute; i++) {
        size_t p = (head + i) % c->n_compute;
        struct ah_plan_op *op = &c->ops[c->compute[p]];
        if (op->position == AH_PLAN_NOWHERE)
            op->position = p;
        c->last_position[c->compute[p]] = (uint32_t)p;
    }
}

void ah_compile_positions(struct compile *c)
{
    base_order(c);
    c->last_gradient = last_gradient(c);
    attach_device_updates(c);
    attach_streamed_updates(c);
    sort_attached(c);
    size_t next = 0;
    for (size_t i = 0; i < c->n_base; i++) {
        c->compute[c->n_compute++] = c->base[i];
        while (next < c->n_attached && c->sorted[next].after == i)
            c->compute[c->n_compute++] = c->sorted[next++].op;
    }
    number_positions(c);
}
