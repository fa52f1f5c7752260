/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the blocks, memory places and ops of a cycle (cycle_internal.h).
 */
#include "profiler/cycle_internal.h"

#include "profiler/lanes_internal.h"
#include "runtime/schedule/layout.h"

#include <stdlib.h>
#include <string.h>

/* ---- data ---- */

static const char *const data_names[AH_CYCLE_DATA] = {[AH_CYCLE_TOKENS] = "tokens",
                                                      [AH_CYCLE_TARGETS] = "targets",
                                                      [AH_CYCLE_MASK] = "mask",
                                                      [AH_CYCLE_ROPE_TABLE] = "rope_table",
                                                      [AH_CYCLE_WINDOW_ROPE_TABLE] = "window_rope_table",
                                                      [AH_CYCLE_LOSS_SCALE] = "loss_scale",
                                                      [AH_CYCLE_LOSS_SUM] = "loss_sum"};

static uint64_t data_bytes(const struct ah_job *job, size_t data)
{
    const uint64_t table = job->training.seq * job->model->head_dim * sizeof(float);
    const uint64_t bytes[AH_CYCLE_DATA] = {
        [AH_CYCLE_TOKENS] = job->tokens * sizeof(uint32_t),
        [AH_CYCLE_TARGETS] = job->tokens * sizeof(uint32_t),
        [AH_CYCLE_MASK] = job->tokens,
        [AH_CYCLE_ROPE_TABLE] = table,
        [AH_CYCLE_WINDOW_ROPE_TABLE] = job->model->window_rope ? table : sizeof(float),
        [AH_CYCLE_LOSS_SCALE] = sizeof(float),
        [AH_CYCLE_LOSS_SUM] = sizeof(double),
    };
    return bytes[data];
}

/* Returns the datum with this name. AH_CYCLE_DATA stands for names that only data sets with documents have. */
static size_t data_named(const char *name)
{
    size_t data = 0;
    while (data < AH_CYCLE_DATA && strcmp(data_names[data], name) != 0)
        data++;
    return data;
}

/* ---- blocks and places ---- */

static struct ah_ref alloc_place(struct ah_cycle *cycle, enum ah_arena_kind arena, uint64_t bytes)
{
    struct ah_ref ref = {.arena = (uint32_t)arena, .offset_bytes = cycle->arena_bytes[arena]};
    cycle->arena_bytes[arena] += (bytes + AH_LAYOUT_ALIGN - 1) / AH_LAYOUT_ALIGN * AH_LAYOUT_ALIGN;
    return ref;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t blocks_of(const struct ah_job_group *group, uint64_t layers)
{
    return group->blocks < layers ? group->blocks : layers;
}

static void place_block(struct ah_cycle *cycle, const struct ah_job_group *group, uint64_t number)
{
    const struct ah_job *job = cycle->job;
    cycle->blocks[cycle->n_blocks++] = (struct ah_cycle_block){
        .group = group,
        .number = number,
        .weights = alloc_place(cycle, AH_ARENA_DEVICE, group->flat_elements * job->weight_bytes),
        .gradients = alloc_place(cycle, AH_ARENA_DEVICE, group->trained_elements * job->gradient_bytes),
        .saved = alloc_place(cycle, AH_ARENA_DEVICE, group->saved_bytes[AH_ACTIVATIONS_KEEP]),
        .input = alloc_place(cycle, AH_ARENA_DEVICE, group->input_bytes),
    };
}

static uint64_t scratch_bytes(const struct ah_job *job)
{
    uint64_t most = 0;
    for (size_t g = 0; g < job->n_groups; g++)
        for (int way = 0; way < AH_ACTIVATIONS_WAYS; way++)
            most = larger(most, larger(job->groups[g].forward_work_bytes[way],
                                       job->groups[g].backward_work_bytes[way]));
    return most;
}

static void lay_out_layers(struct ah_cycle *cycle, uint64_t layers)
{
    const struct ah_job *job = cycle->job;
    cycle->n_blocks = 0;
    memset(cycle->arena_bytes, 0, sizeof cycle->arena_bytes);
    cycle->stage = alloc_place(cycle, AH_ARENA_PINNED, AH_LANES_STAGE_BYTES);
    for (size_t data = 0; data < AH_CYCLE_DATA; data++)
        cycle->data[data] = alloc_place(cycle, AH_ARENA_DEVICE, data_bytes(job, data));
    for (size_t g = 0; g < job->n_groups; g++)
        for (uint64_t i = 0; i < blocks_of(&job->groups[g], layers); i++)
            place_block(cycle, &job->groups[g], i);
    cycle->residual_gradient = alloc_place(cycle, AH_ARENA_DEVICE, job->residual_bytes);
    cycle->scratch = alloc_place(cycle, AH_ARENA_DEVICE, scratch_bytes(job));
}

/* ---- ops ---- */

/* Finds the memory of each home of a block. */
static void find_homes(const struct ah_cycle *cycle, size_t block, struct ah_ref ret_homes[AH_HOMES])
{
    const struct ah_cycle_block *it = &cycle->blocks[block];
    ret_homes[AH_HOME_SCRATCH] = cycle->scratch;
    ret_homes[AH_HOME_SAVED] = it->saved;
    ret_homes[AH_HOME_INPUT] = it->input;
    ret_homes[AH_HOME_OUTPUT] = block + 1 < cycle->n_blocks ? it[1].input : it->input;
    ret_homes[AH_HOME_RESIDUAL_GRADIENT] = cycle->residual_gradient;
    ret_homes[AH_HOME_WEIGHTS] = it->weights;
    ret_homes[AH_HOME_GRADIENTS] = it->gradients;
    ret_homes[AH_HOME_TABLE] = cycle->blocks[0].weights;
    ret_homes[AH_HOME_TABLE_GRADIENTS] = cycle->blocks[0].gradients;
}

static struct ah_op bind_op(const struct ah_cycle *cycle, const struct ah_program *program,
                            const struct ah_ref homes[AH_HOMES], const struct ah_program_op *step,
                            uint64_t time)
{
    struct ah_op op = step->op;
    ah_program_drop_documents(&op, cycle->job->training.seq);
    for (size_t arg = 0; arg < AH_OP_ARGS; arg++) {
        if (op.arg[arg].arena == AH_ARENA_NONE)
            continue;
        const struct ah_program_place *place = &program->places[step->place[arg]];
        const struct ah_ref *home =
            place->home == AH_HOME_DATA ? &cycle->data[data_named(place->name)] : &homes[place->home];
        op.arg[arg].offset_bytes += home->offset_bytes + place->offset_bytes + time * step->chunk_bytes[arg];
    }
    if (step->first_writes && !time)
        op.u.matmul.accumulate = false;
    return op;
}

/* Makes room for one more item; if there is none, doubles `room`. */
static int grow_items(void **items, size_t n, size_t *room, size_t bytes, struct ah_error *err)
{
    size_t wanted = *room ? 2 * *room : 64;
    if (n < *room)
        return AH_OK;
    void *grown = realloc(*items, wanted * bytes);
    if (!grown)
        return ah_error_memory(err);
    *items = grown;
    *room = wanted;
    return AH_OK;
}

static int push_op(struct ah_cycle *cycle, const struct ah_op *op, struct ah_error *err)
{
    void *ops = cycle->ops;
    int rc = grow_items(&ops, cycle->n_ops, &cycle->ops_room, sizeof *cycle->ops, err);
    cycle->ops = ops;
    if (!rc)
        cycle->ops[cycle->n_ops++] = *op;
    return rc;
}

/* Appends a program's ops. Consecutive ops with the same `times` > 1 are the body of a loop. */
static int bind_program(struct ah_cycle *cycle, size_t block, const struct ah_program *program,
                        struct ah_error *err)
{
    struct ah_ref homes[AH_HOMES] = {{0}};
    int rc = AH_OK;
    find_homes(cycle, block, homes);
    for (size_t i = 0, end; i < program->n_ops && !rc; i = end) {
        uint64_t times = program->ops[i].times;
        for (end = i + 1; end < program->n_ops && times > 1 && program->ops[end].times == times;)
            end++;
        for (uint64_t time = 0; time < times; time++)
            for (size_t at = i; at < end && !rc; at++) {
                const struct ah_op op = bind_op(cycle, program, homes, &program->ops[at], time);
                rc = push_op(cycle, &op, err);
            }
    }
    return rc;
}

static unsigned ways_of(const struct ah_job_group *group)
{
    return group->kind == AH_BLOCK_LAYER && group->backward ? AH_ACTIVATIONS_WAYS : 1;
}

static int bind_pass(struct ah_cycle *cycle, size_t block, enum ah_pass pass, unsigned turn,
                     struct ah_error *err)
{
    const struct ah_cycle_block *it = &cycle->blocks[block];
    struct ah_program program;
    enum ah_activations way = (enum ah_activations)((it->number + turn) % ways_of(it->group));
    void *passes = cycle->passes;
    int rc = grow_items(&passes, cycle->n_passes, &cycle->passes_room, sizeof *cycle->passes, err);
    cycle->passes = passes;
    rc = rc ? rc : ah_program_build(cycle->job, it->group, pass, way, &program, err);
    rc = rc ? rc : bind_program(cycle, block, &program, err);
    if (!rc)
        cycle->passes[cycle->n_passes++] =
            (struct ah_cycle_pass){.group = it->group, .pass = pass, .activations = way, .end = cycle->n_ops};
    return rc;
}

static int bind_turn(struct ah_cycle *cycle, unsigned turn, struct ah_error *err)
{
    int rc = AH_OK;
    for (size_t block = 0; block < cycle->n_blocks && !rc; block++)
        rc = bind_pass(cycle, block, AH_PASS_FORWARD, turn, err);
    for (size_t block = cycle->n_blocks; block-- > 0 && !rc;)
        if (cycle->blocks[block].group->backward && cycle->blocks[block].group->kind != AH_BLOCK_HEAD)
            rc = bind_pass(cycle, block, AH_PASS_BACKWARD, turn, err);
    return rc;
}

/* Returns the number of turns in which every group has each of its configs of activations. */
static unsigned turns_of(const struct ah_job *job, uint64_t layers)
{
    for (size_t g = 0; g < job->n_groups; g++)
        if (blocks_of(&job->groups[g], layers) < ways_of(&job->groups[g]))
            return AH_ACTIVATIONS_WAYS;
    return 1;
}

double ah_cycle_flops(const struct ah_job *job, uint64_t layers)
{
    struct ah_program_step steps[AH_PROGRAM_STEPS_MAX];
    double flops = 0;
    for (size_t g = 0; g < job->n_groups; g++)
        for (int pass = AH_PASS_FORWARD; pass <= AH_PASS_BACKWARD; pass++) {
            size_t n = ah_program_steps(job, &job->groups[g], (enum ah_pass)pass, AH_ACTIVATIONS_KEEP, steps);
            for (size_t i = 0; i < n; i++)
                flops += steps[i].flops * (double)blocks_of(&job->groups[g], layers);
        }
    return flops * turns_of(job, layers);
}

int ah_cycle_init(struct ah_cycle *ret_cycle, const struct ah_job *job, const struct ah_cycle_limits *limits,
                  struct ah_error *err)
{
    struct ah_cycle cycle = {.job = job};
    uint64_t layers = AH_CYCLE_BLOCKS_MAX / job->n_groups;
    layers = limits->layers < layers ? limits->layers : layers;
    layers += !layers;
    lay_out_layers(&cycle, layers);
    while (layers > 1 && cycle.arena_bytes[AH_ARENA_DEVICE] > limits->bytes)
        lay_out_layers(&cycle, --layers);
    if (cycle.arena_bytes[AH_ARENA_DEVICE] > limits->bytes)
        return ah_error_set(err, AH_E_CAPACITY,
                            "blocks of '%s': one of each kind needs %llu bytes on the device, but only %llu "
                            "are free; measure smaller micro-batches or sequences",
                            job->model->name, (unsigned long long)cycle.arena_bytes[AH_ARENA_DEVICE],
                            (unsigned long long)limits->bytes);
    int rc = AH_OK;
    for (unsigned turn = 0; turn < turns_of(job, layers) && !rc; turn++)
        rc = bind_turn(&cycle, turn, err);
    if (rc)
        ah_cycle_release(&cycle);
    else
        *ret_cycle = cycle;
    return rc;
}

void ah_cycle_release(struct ah_cycle *cycle)
{
    free(cycle->ops);
    free(cycle->passes);
    cycle->ops = NULL;
    cycle->passes = NULL;
}
