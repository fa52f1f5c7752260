/* SPDX-License-Identifier: Apache-2.0
 *
 * Implements poison.h: overwrites memory that the plan says is unused, and checks that operands lie in live tensors.
 */
#include "tests/property/train/poison.h"

#include "tests/support/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool lives_at(const struct ah_plan_tensor *tensor, uint64_t position)
{
    if (tensor->from <= tensor->to)
        return tensor->from <= position && position <= tensor->to;
    return position <= tensor->to || tensor->from <= position;
}

static bool stays(const struct poison *poison, const struct ah_plan_tensor *tensor)
{
    return tensor->from == 0 && tensor->to + 1 == poison->plan->arena.positions;
}

/* True if compute sees the tensor begin at `position`. */
static bool is_born_at(const struct poison *poison, size_t tensor, uint64_t position)
{
    const struct ah_plan_tensor *it = &poison->plan->arena.tensors[tensor];
    return it->from == position && !stays(poison, it) && it->label != AH_TENSOR_FETCHED;
}

static void find_kept(struct poison *poison)
{
    const struct ah_plan_arena *arena = &poison->plan->arena;
    for (uint64_t p = 0; p < arena->positions; p++)
        for (size_t i = 0; i < arena->n_tensors; i++) {
            const struct ah_plan_tensor *tensor = &arena->tensors[i];
            uint64_t first = p * poison->units + tensor->offset_bytes / POISON_UNIT;
            uint64_t n = (tensor->bytes + POISON_UNIT - 1) / POISON_UNIT;
            assert_int_equal(tensor->offset_bytes % POISON_UNIT, 0);
            if (lives_at(tensor, p))
                memset(poison->lives + first, 1, n);
            if (lives_at(tensor, p) && !is_born_at(poison, i, p))
                memset(poison->kept + first, 1, n);
        }
}

void poison_open(struct poison *poison, const struct ah_model *model, const struct ah_plan *plan)
{
    struct ah_error err = {0};
    memset(poison, 0, sizeof *poison);
    poison->plan = plan;
    poison->latest = UINT64_MAX;
    CHECK_OK(ah_job_init(&poison->job, model, &plan->training, &poison->arena, &err), err);
    CHECK_OK(ah_graph_read(plan, &poison->arena, &poison->graph, &err), err);
    CHECK_OK(ah_addresses_init(&poison->addresses, plan, &poison->job, 0, &poison->arena, &err), err);
    poison->units = plan->memory.device_bytes / POISON_UNIT;
    assert_int_equal(plan->memory.device_bytes % POISON_UNIT, 0);
    poison->lives = ah_arena_array(&poison->arena, plan->arena.positions * poison->units, 1);
    poison->kept = ah_arena_array(&poison->arena, plan->arena.positions * poison->units, 1);
    poison->held = ah_arena_array(&poison->arena, poison->units, 1);
    assert_true(poison->lives && poison->kept && poison->held);
    find_kept(poison);
}

void poison_close(struct poison *poison)
{
    ah_arena_release(&poison->arena);
}

static const struct ah_plan_op *op_of(const struct poison *poison, uint64_t tag)
{
    return tag == UINT64_MAX ? NULL : &poison->plan->ops[poison->graph.items[tag].op];
}

/* Writes the two positions at which a tensor used by the op must be alive. Returns false if it must always be alive. */
static bool span_of_use(const struct poison *poison, const struct hooked_op *op, uint64_t ret_at[2])
{
    const struct ah_plan_op *it = op_of(poison, op->tag);
    uint64_t positions = poison->plan->arena.positions;
    if (op->lane == AH_LANE_COMPUTE && it) {
        ret_at[0] = ret_at[1] = op->tag;
        return true;
    }
    if (!it || (it->op != AH_PLAN_FETCH && it->op != AH_PLAN_SEND_GRADIENTS))
        return false;
    bool fetch = it->op == AH_PLAN_FETCH;
    ret_at[0] = fetch ? (it->issue_after + 1) % positions : it->issue_after;
    ret_at[1] = fetch ? it->due_before : (it->due_before + positions - 1) % positions;
    return true;
}

static bool is_inside(const struct poison *poison, const struct hooked_op *op, uint64_t first, uint64_t end)
{
    const struct ah_plan_arena *arena = &poison->plan->arena;
    uint64_t at[2];
    bool passing = span_of_use(poison, op, at);
    for (size_t i = 0; i < arena->n_tensors; i++) {
        const struct ah_plan_tensor *tensor = &arena->tensors[i];
        if (first < tensor->offset_bytes || end > tensor->offset_bytes + tensor->bytes)
            continue;
        if (passing ? lives_at(tensor, at[0]) && lives_at(tensor, at[1]) : stays(poison, tensor))
            return true;
    }
    return false;
}

void poison_submit(void *context, const struct hooked_op *op)
{
    struct poison *poison = context;
    struct ah_operand operands[AH_OP_ARGS];
    if (ah_op_operands(op->op, operands, NULL))
        return;
    for (size_t arg = 0; arg < AH_OP_ARGS; arg++) {
        const struct ah_ref *ref = &op->op->arg[arg];
        uint64_t end = ref->offset_bytes + operands[arg].bytes;
        if (operands[arg].role == AH_ROLE_NONE || ref->arena != AH_ARENA_DEVICE)
            continue;
        poison->checked++;
        poison->touched_bytes = end > poison->touched_bytes ? end : poison->touched_bytes;
        if (!is_inside(poison, op, ref->offset_bytes, end) && !poison->wrong[0])
            snprintf(poison->wrong, sizeof poison->wrong,
                     "item %" PRIu64 ", '%s' of lane %u: '%s' at %" PRIu64 " to %" PRIu64
                     " is in no tensor of its time",
                     op->tag, ah_op_name(op->op->kind), op->lane, operands[arg].name, ref->offset_bytes, end);
    }
}

/* Marks what was alive at the latest position and at those left out as held. */
static void hold(struct poison *poison, uint64_t position)
{
    uint64_t positions = poison->plan->arena.positions;
    if (poison->latest == UINT64_MAX)
        return;
    if (poison->followed == positions)
        memset(poison->held, 0, poison->units);
    if ((poison->latest + 1) % positions == position) {
        poison->followed++;
        return;
    }
    poison->followed = 0;
    for (uint64_t p = poison->latest; p != position; p = (p + 1) % positions)
        for (uint64_t unit = 0; unit < poison->units; unit++)
            poison->held[unit] |= poison->lives[p * poison->units + unit];
}

static void begin_position(struct poison *poison, uint64_t position, unsigned char *arena)
{
    const uint8_t *kept = poison->kept + position * poison->units;
    const uint8_t *lives = poison->lives + position * poison->units;
    hold(poison, position);
    poison->latest = position;
    for (uint64_t unit = 0; unit < poison->units; unit++)
        if (!kept[unit] && (lives[unit] || !poison->held[unit]))
            memset(arena + unit * POISON_UNIT, POISON_BYTE, POISON_UNIT);
    for (size_t i = 0; i < poison->plan->arena.n_tensors; i++)
        if (is_born_at(poison, i, position))
            atomic_fetch_add(&poison->born[poison->plan->arena.tensors[i].label], 1);
}

static void begin_fetch(struct poison *poison, uint64_t issue_after, const struct hooked_op *op)
{
    uint64_t from = (issue_after + 1) % poison->plan->arena.positions;
    for (size_t i = 0; i < poison->plan->arena.n_tensors; i++) {
        const struct ah_plan_tensor *tensor = &poison->plan->arena.tensors[i];
        if (tensor->label != AH_TENSOR_FETCHED || tensor->from != from ||
            tensor->offset_bytes != op->op->arg[0].offset_bytes)
            continue;
        memset(op->arenas[AH_ARENA_DEVICE] + tensor->offset_bytes, POISON_BYTE, tensor->bytes);
        atomic_fetch_add(&poison->born[AH_TENSOR_FETCHED], 1);
    }
}

void poison_before(void *context, const struct hooked_op *op)
{
    struct poison *poison = context;
    const struct ah_plan_op *it = op_of(poison, op->tag);
    if (!it)
        return;
    if (op->lane == AH_LANE_COMPUTE && op->tag != poison->latest)
        begin_position(poison, op->tag, op->arenas[AH_ARENA_DEVICE]);
    if (it->op == AH_PLAN_FETCH)
        begin_fetch(poison, it->issue_after, op);
}

/* The part of an arena that the item gives back after reading it. It has 0 bytes if there is none. */
struct part {
    uint32_t arena;
    uint64_t first, end;
};

static struct part vector_part(const struct poison *poison, const struct ah_vector *vector, uint64_t block,
                               enum ah_graph_ring ring)
{
    const struct ah_job_group *group = ah_job_block(&poison->job, block);
    uint64_t bytes = vector->move == AH_OFFSET_NONE
                         ? group->trained_elements * ah_dtype_bytes((enum ah_dtype)vector->ref.dtype)
                         : poison->graph.slots[ring] * poison->addresses.stride[vector->move];
    return (struct part){vector->ref.arena, vector->ref.offset_bytes, vector->ref.offset_bytes + bytes};
}

static struct part part_given(const struct poison *poison, const struct ah_plan_op *op,
                              enum ah_graph_ring *ret_ring)
{
    const struct ah_addresses_block *block = &poison->addresses.blocks[op->block];
    if (op->op == AH_PLAN_HOST_ADAM || op->op == AH_PLAN_ACCUMULATE) {
        *ret_ring = AH_GRAPH_HOST_GRADIENTS;
        return vector_part(poison, &block->host_gradient, op->block, *ret_ring);
    }
    if (op->op == AH_PLAN_UPLOAD) {
        *ret_ring = AH_GRAPH_HOST_WEIGHTS;
        return vector_part(poison, &block->host_weight, op->block, *ret_ring);
    }
    if (op->op != AH_PLAN_STATES_OUT)
        return (struct part){0};
    *ret_ring = AH_GRAPH_DEVICE_STATES;
    uint64_t first = poison->addresses.state_ring.offset_bytes;
    return (struct part){AH_ARENA_DEVICE, first,
                         first +
                             poison->graph.slots[*ret_ring] * poison->addresses.stride[AH_OFFSET_STATE_RING]};
}

void poison_after(void *context, const struct hooked_op *op)
{
    struct poison *poison = context;
    const struct ah_plan_op *it = op_of(poison, op->tag);
    struct ah_operand operands[AH_OP_ARGS];
    enum ah_graph_ring ring = AH_GRAPH_RINGS;
    if (!it || ah_op_operands(op->op, operands, NULL))
        return;
    const struct part part = part_given(poison, it, &ring);
    for (size_t arg = 0; arg < AH_OP_ARGS; arg++) {
        const struct ah_ref *ref = &op->op->arg[arg];
        if (operands[arg].role != AH_ROLE_IN || ref->arena != part.arena || ref->offset_bytes < part.first ||
            ref->offset_bytes >= part.end)
            continue;
        memset(op->arenas[part.arena] + ref->offset_bytes, POISON_BYTE, operands[arg].bytes);
        atomic_fetch_add(&poison->given[ring], 1);
    }
}
