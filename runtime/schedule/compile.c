/* SPDX-License-Identifier: Apache-2.0
 *
 * Compile: turns a choice into the ops of an iteration and the tensors of the device arena.
 *
 * positions.c orders the ops of the compute lane. tensors.c adds the tensors that they need. lanes.c adds the other
 * lanes' ops, and tensors copied between host and device. Durations affect only where streamed updates are.
 */
#include "runtime/schedule/compile_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- shared by all parts ---- */

uint32_t ah_compile_op(struct compile *c, enum ah_plan_op_kind kind, enum ah_plan_lane lane, size_t block,
                       size_t micro_batch)
{
    c->ops[c->n_ops] = (struct ah_plan_op){.op = kind,
                                           .lane = lane,
                                           .block = block,
                                           .micro_batch = micro_batch,
                                           .position = AH_PLAN_NOWHERE,
                                           .issue_after = AH_PLAN_NOWHERE,
                                           .due_before = AH_PLAN_NOWHERE,
                                           .tiles = 1};
    return (uint32_t)c->n_ops++;
}

bool ah_compile_trained(const struct compile *c, size_t block)
{
    return ah_job_block(c->job, block)->trained_elements != 0;
}

bool ah_compile_gradient_here(const struct compile *c, enum ah_plan_op_kind kind, size_t block)
{
    bool head = ah_job_is_head(c->job, block);
    return ah_compile_trained(c, block) && (kind == AH_PLAN_BACKWARD || (head && kind == AH_PLAN_FORWARD));
}

bool ah_compile_sends_output(const struct compile *c)
{
    return c->job->part.stage + 1 < c->job->part.stages;
}

bool ah_compile_sends_gradient(const struct compile *c)
{
    return c->job->part.stage;
}

bool ah_compile_added_up_first(const struct compile *c, size_t block)
{
    if (ah_job_joins_table(c->job))
        return ah_job_block(c->job, block)->kind != AH_BLOCK_LAYER;
    return c->job->is_part && c->configs[block].weights == AH_WEIGHTS_DEVICE &&
           !ah_compile_sums_on(c, block, AH_ACCUMULATOR_HOST);
}

bool ah_compile_sums_on(const struct compile *c, size_t block, enum ah_accumulator where)
{
    return c->job->adds_up && c->configs[block].accumulator == where;
}

double ah_compile_gradient_us(const struct compile *c, size_t block, size_t micro_batch)
{
    bool adds = c->job->adds_up, squares = c->clip && micro_batch + 1 == c->micro_batches;
    bool closes = ah_fold_of(&c->job->training, micro_batch).closes;
    double us = 0;
    uint64_t joins = 0;
    if (ah_compile_sums_on(c, block, AH_ACCUMULATOR_HOST) || ah_job_shards(c->job) > 1)
        return us;
    if (adds)
        us += c->costs->device_accumulate_us;
    if (closes)
        us += c->costs->device_accumulate_us * ah_fold_cost(c->job->gradient_bytes);
    if (squares)
        us += c->costs->device_squares_us;
    us *= (double)ah_job_block(c->job, block)->trained_parameters;
    if (ah_job_joins_table(c->job) && !block &&
        micro_batch + 1 == c->micro_batches) { /* sums both, and copies the total */
        const double sum = ah_fold_cost(c->job->gradient_bytes) * c->costs->device_accumulate_us;
        us += 5. / 3 * sum * (double)(c->job->model->vocabulary * c->job->model->width);
        joins = 2;
    }
    return ah_costs_launched(us, (uint64_t)adds + closes + squares + joins, c->costs->launch_us);
}

uint64_t ah_compile_tiles(const struct compile *c, uint64_t elements)
{
    uint64_t tile = c->knobs->tile_elements;
    return elements ? (elements + tile - 1) / tile : 1;
}

/* In fp32, a weight is its own master, so a weight on the host is copied to the device together with the states. */
uint64_t ah_compile_states_in_bytes(const struct compile *c, size_t block)
{
    bool weight = c->configs[block].weights == AH_WEIGHTS_HOST && c->job->training.dtype == AH_FP32;
    return c->job->state_bytes + (weight ? c->job->weight_bytes : 0);
}

uint64_t ah_compile_states_out_bytes(const struct compile *c, size_t block)
{
    return c->job->state_bytes + (c->configs[block].weights == AH_WEIGHTS_HOST ? c->job->weight_bytes : 0);
}

double ah_compile_states_in_us(const struct compile *c, size_t block)
{
    uint64_t elements = ah_job_block(c->job, block)->own_trained_elements;
    return (double)ah_compile_tiles(c, elements) * c->costs->h2d_latency_us +
           (double)(elements * ah_compile_states_in_bytes(c, block)) * c->costs->h2d_us_per_byte;
}

static uint32_t base_position(const struct compile *c, bool backward, size_t block, size_t micro_batch)
{
    uint32_t place = c->base_of[backward][micro_batch * c->n_blocks + block];
    return place == COMPILE_NONE ? COMPILE_NONE : (uint32_t)c->ops[c->base[place]].position;
}

uint32_t ah_compile_forward(const struct compile *c, size_t block, size_t micro_batch)
{
    return base_position(c, false, block, micro_batch);
}

uint32_t ah_compile_backward(const struct compile *c, size_t block, size_t micro_batch)
{
    return base_position(c, true, block, micro_batch);
}

uint32_t ah_compile_gradient(const struct compile *c, size_t block, size_t micro_batch)
{
    return base_position(c, !ah_job_is_head(c->job, block), block, micro_batch);
}

uint32_t ah_compile_send(const struct compile *c, enum ah_plan_op_kind kind, size_t micro_batch)
{
    uint32_t place = c->send_of[kind == AH_PLAN_SEND_INPUT_GRADIENT][micro_batch];
    return (uint32_t)c->ops[c->base[place]].position;
}

uint32_t ah_compile_distance(const struct compile *c, uint32_t from, uint32_t to)
{
    return to > from ? to - from : to + (uint32_t)c->n_compute - from;
}

uint32_t ah_compile_before(const struct compile *c, uint32_t position, uint32_t distance)
{
    uint32_t n = (uint32_t)c->n_compute;
    return (position + n - distance % n) % n;
}

uint32_t ah_compile_after(const struct compile *c, uint32_t position, uint32_t distance)
{
    return (uint32_t)(((uint64_t)position + distance) % c->n_compute);
}

void ah_compile_tensor(struct compile *c, enum ah_tensor_label label, enum ah_layout_class layout_class,
                       size_t block, size_t micro_batch, uint64_t bytes, uint32_t from, uint32_t to)
{
    if (!bytes)
        return;
    c->names[c->n_tensors] = (struct ah_tensor_name){(uint8_t)label, (uint32_t)block, (uint32_t)micro_batch};
    c->tensors[c->n_tensors++] = (struct ah_layout_tensor){
        .bytes = bytes, .from = from, .to = to, .layout_class = (uint8_t)layout_class};
}

/* ---- memory ---- */

int ah_grow(struct ah_grow *grow, size_t n, size_t size, struct ah_error *err)
{
    if (n <= grow->room)
        return AH_OK;
    size_t room = n + n / 2 + 16;
    void *items = realloc(grow->items, room * size);
    if (!items)
        return ah_error_memory(err);
    *grow = (struct ah_grow){items, room};
    return AH_OK;
}

/* Returns the number of updates on the device: one per `device` block, one per tile of a streamed block. */
static size_t device_updates(const struct compile *c)
{
    size_t n = 0;
    for (size_t block = 0; block < c->n_blocks; block++) {
        enum ah_optimizer optimizer = c->configs[block].optimizer;
        if (optimizer == AH_OPTIMIZER_DEVICE)
            n++;
        else if (optimizer == AH_OPTIMIZER_STREAMED)
            n += ah_compile_tiles(c, ah_job_block(c->job, block)->own_trained_elements);
    }
    return n;
}

enum {
    OPS_A_MICRO_BATCH = 8,
    OPS_A_BLOCK = 8,
    TENSORS_A_MICRO_BATCH = 10,
    TENSORS_A_BLOCK = 8,
    TENSORS_MORE = 8
};

static int compile_grow(struct compile *c, struct ah_compile_memory *m, struct ah_error *err)
{
    size_t cells = c->n_blocks * c->micro_batches, sends = 2 * c->micro_batches;
    size_t ops = cells * OPS_A_MICRO_BATCH + c->n_blocks * OPS_A_BLOCK + sends + 1;
    size_t updates = device_updates(c);
    size_t tensors = (cells + c->micro_batches) * TENSORS_A_MICRO_BATCH + c->n_blocks * TENSORS_A_BLOCK +
                     updates + TENSORS_MORE;
    int rc = ah_grow(&m->ops, ops, sizeof *c->ops, err);
    rc = rc ? rc : ah_grow(&m->last_position, ops, sizeof *c->last_position, err);
    rc = rc ? rc : ah_grow(&m->compute, 2 * cells + sends + updates, sizeof *c->compute, err);
    rc = rc ? rc : ah_grow(&m->tensors, tensors, sizeof *c->tensors, err);
    rc = rc ? rc : ah_grow(&m->names, tensors, sizeof *c->names, err);
    rc = rc ? rc : ah_grow(&m->base, 2 * cells + sends, sizeof *c->base, err);
    rc = rc ? rc : ah_grow(&m->base_end_us, 4 * cells + 2 * sends, sizeof *c->base_end_us, err);
    rc = rc ? rc : ah_grow(&m->base_of, 2 * cells + sends, sizeof **c->base_of, err);
    rc = rc ? rc : ah_grow(&m->attached, 2 * updates, sizeof *c->attached, err);
    rc = rc ? rc : ah_grow(&m->count, 2 * cells + sends + 1, sizeof *c->count, err);
    return rc ? rc : ah_grow(&m->blocks, 2 * c->n_blocks, sizeof *c->waiting, err);
}

static void compile_begin(struct compile *c, struct ah_compile_memory *m)
{
    size_t cells = c->n_blocks * c->micro_batches;
    c->ops = m->ops.items;
    c->last_position = m->last_position.items;
    c->compute = m->compute.items;
    c->tensors = m->tensors.items;
    c->names = m->names.items;
    c->base = m->base.items;
    c->base_end_us = m->base_end_us.items;
    c->base_of[0] = m->base_of.items;
    c->base_of[1] = c->base_of[0] + cells;
    c->send_of[0] = c->base_of[1] + cells;
    c->send_of[1] = c->send_of[0] + c->micro_batches;
    c->attached = m->attached.items;
    c->sorted = c->attached + device_updates(c);
    c->count = m->count.items;
    c->waiting = m->blocks.items;
    c->update_op = c->waiting + c->n_blocks;
    memset(c->base_of[0], 0xff, 2 * cells * sizeof *c->base_of[0]);
    memset(c->update_op, 0xff, c->n_blocks * sizeof *c->update_op);
}

static int compile_check(const struct compile *c, struct ah_error *err)
{
    if (!c->knobs->tile_elements || c->knobs->tile_elements % AH_PLAN_TILE_UNIT)
        return ah_error_set(err, AH_E_USAGE, "tiles of %" PRIu64 " elements: give a multiple of %d",
                            c->knobs->tile_elements, AH_PLAN_TILE_UNIT);
    if (c->knobs->micro_order == AH_BLOCK_MAJOR && c->job->part.stages > 1)
        return ah_error_set(err, AH_E_USAGE, "a stage of a pipeline must run micro-batch by micro-batch");
    for (size_t block = 0; block < c->n_blocks; block++) {
        struct ah_config allowed[AH_CONFIGS_MAX];
        bool as_before = block && c->job->group_of[block] == c->job->group_of[block - 1] &&
                         !memcmp(&c->configs[block], &c->configs[block - 1], sizeof *c->configs);
        if (as_before)
            continue;
        size_t n = ah_configs(c->job, ah_job_block(c->job, block), allowed), i = 0;
        while (i < n && memcmp(&allowed[i], &c->configs[block], sizeof allowed[i]))
            i++;
        if (i == n)
            return ah_error_set(err, AH_E_USAGE, "block %zu cannot have this config", block);
        if (c->configs[block].optimizer == AH_OPTIMIZER_STREAMED && !c->knobs->device_state_tiles)
            return ah_error_set(err, AH_E_USAGE, "block %zu is streamed: give device_state_tiles", block);
    }
    return AH_OK;
}

int ah_compile(struct ah_compile_memory *memory, const struct ah_job *job, const struct ah_choice *choice,
               struct ah_compiled *ret_compiled, struct ah_error *err)
{
    struct compile c = {.job = job,
                        .costs = choice->costs,
                        .knobs = &choice->knobs,
                        .configs = choice->configs,
                        .base_us = choice->base_us,
                        .out = ret_compiled,
                        .n_blocks = job->n_blocks,
                        .micro_batches = job->training.micro_batches,
                        .clip = job->training.clip > 0 && ah_job_trains(job)};
    c.late_updates = c.clip || c.knobs->updates_after_backward || job->is_part || ah_job_joins_table(job) ||
                     ah_job_shards(job) > 1;
    int rc = compile_check(&c, err);
    if (!rc)
        rc = compile_grow(&c, memory, err);
    if (rc)
        return rc;
    *ret_compiled = (struct ah_compiled){0};
    compile_begin(&c, memory);
    ah_compile_positions(&c);
    c.head = ah_compile_forward(&c, c.n_blocks - 1, 0);
    c.last_gradient_position = (uint32_t)c.ops[c.base[c.last_gradient]].position;
    ah_compile_tensors(&c);
    ah_compile_lanes(&c);
    ah_compile_host(&c);
    ret_compiled->iteration = (struct ah_iteration){.ops = c.ops,
                                                    .n_ops = c.n_ops,
                                                    .compute = c.compute,
                                                    .positions = c.n_compute,
                                                    .n_blocks = c.n_blocks,
                                                    .micro_batches = c.micro_batches,
                                                    .weight_bytes = job->weight_bytes,
                                                    .state_bytes = job->state_bytes,
                                                    .clip = c.clip,
                                                    .is_part = job->is_part,
                                                    .adds_up = job->adds_up,
                                                    .head = c.head};
    uint64_t *slots = ret_compiled->iteration.slots;
    slots[AH_RING_HOST_GRADIENTS] = ret_compiled->staging.host_gradient_tiles;
    slots[AH_RING_HOST_WEIGHTS] = ret_compiled->staging.host_weight_tiles;
    slots[AH_RING_DEVICE_STATES] = ret_compiled->staging.device_state_tiles;
    ret_compiled->tensors = c.tensors;
    ret_compiled->names = c.names;
    ret_compiled->n_tensors = c.n_tensors;
    return AH_OK;
}

void ah_compile_release(struct ah_compile_memory *memory)
{
    struct ah_grow *all[] = {&memory->ops,     &memory->last_position, &memory->compute,
                             &memory->tensors, &memory->names,         &memory->base,
                             &memory->base_of, &memory->attached,      &memory->base_end_us,
                             &memory->count,   &memory->blocks};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->items);
    *memory = (struct ah_compile_memory){0};
}
