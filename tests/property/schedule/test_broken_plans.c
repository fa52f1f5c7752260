/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests plans changed at random places. Checking and replaying a plan that the document reader accepts does not crash.
 * A plan that passes the check replays in the time that it states.
 */
#include "runtime/schedule/check.h"
#include "runtime/schedule/replay.h"
#include "tests/support/documents.h"

#include <math.h>
#include <string.h>

static uint64_t below(uint64_t *random, uint64_t n)
{
    return n ? check_random(random) % n : 0;
}

static struct ah_plan_op *any_op(struct ah_plan *plan, uint64_t *random)
{
    return &plan->ops[below(random, plan->n_ops)];
}

static uint64_t *any_order(struct ah_plan *plan, uint64_t *random, size_t *ret_n)
{
    struct ah_plan_lanes *lanes = &plan->lanes;
    uint64_t *orders[] = {lanes->order[AH_PLAN_LANE_COMPUTE], lanes->order[AH_PLAN_LANE_H2D],
                          lanes->order[AH_PLAN_LANE_D2H], lanes->order[AH_PLAN_LANE_HOST]};
    size_t n[] = {lanes->n_order[AH_PLAN_LANE_COMPUTE], lanes->n_order[AH_PLAN_LANE_H2D],
                  lanes->n_order[AH_PLAN_LANE_D2H], lanes->n_order[AH_PLAN_LANE_HOST]};
    uint64_t lane = below(random, 4);
    *ret_n = n[lane];
    return orders[lane];
}

static void change_kind(struct ah_plan *plan, uint64_t *random)
{
    any_op(plan, random)->op = (enum ah_plan_op_kind)below(random, AH_PLAN_OP_KINDS);
}

static void change_block(struct ah_plan *plan, uint64_t *random)
{
    any_op(plan, random)->block = below(random, plan->n_blocks);
}

static void change_micro_batch(struct ah_plan *plan, uint64_t *random)
{
    any_op(plan, random)->micro_batch = below(random, plan->training.micro_batches);
}

static void change_positions(struct ah_plan *plan, uint64_t *random)
{
    struct ah_plan_op *op = any_op(plan, random);
    if (op->lane == AH_PLAN_LANE_COMPUTE)
        return;
    op->issue_after = below(random, plan->arena.positions);
    op->due_before = below(random, plan->arena.positions);
}

static void change_time(struct ah_plan *plan, uint64_t *random)
{
    static const double times_us[] = {0, 1e-9, 1, 1e15};
    any_op(plan, random)->us = times_us[below(random, 4)];
}

static void swap_in_order(struct ah_plan *plan, uint64_t *random)
{
    size_t n = 0;
    uint64_t *order = any_order(plan, random, &n);
    uint64_t i = below(random, n), j = below(random, n);
    if (!n)
        return;
    uint64_t op = order[i];
    order[i] = order[j];
    order[j] = op;
}

/* Swaps two ops of one lane, so that every list keeps its length. */
static void swap_ops(struct ah_plan *plan, uint64_t *random)
{
    struct ah_plan_op *a = any_op(plan, random), *b = any_op(plan, random);
    if (a->lane != b->lane || a->tiles != b->tiles)
        return;
    struct ah_plan_op kept = *a;
    *a = *b;
    *b = kept;
    if (a->lane == AH_PLAN_LANE_COMPUTE) {
        b->position = a->position;
        a->position = kept.position;
    }
}

static void change_ring(struct ah_plan *plan, uint64_t *random)
{
    uint64_t *rings[] = {&plan->staging.host_gradient_tiles, &plan->staging.host_weight_tiles,
                         &plan->staging.device_state_tiles};
    *rings[below(random, 3)] = below(random, 3) ? below(random, 4) : UINT64_C(1) << below(random, 17);
}

static void change_config(struct ah_plan *plan, uint64_t *random)
{
    struct ah_plan_block *block = &plan->blocks[below(random, plan->n_blocks)];
    block->weights = (enum ah_weights)below(random, 2);
    block->optimizer = (enum ah_optimizer)below(random, 4);
    block->accumulator = (enum ah_accumulator)below(random, 3);
}

static void change_tensor(struct ah_plan *plan, uint64_t *random)
{
    struct ah_plan_tensor *tensor = &plan->arena.tensors[below(random, plan->arena.n_tensors)];
    tensor->from = below(random, plan->arena.positions);
    tensor->to = below(random, plan->arena.positions);
}

static void change_sharing(struct ah_plan *plan, uint64_t *random)
{
    struct ah_plan_sharing *sharing = &plan->sharing;
    static const double values[] = {0, 1e-6, 0.5, 1, 1e6};
    if (sharing->n_resources && below(random, 2))
        sharing->resources[below(random, sharing->n_resources)].demand[AH_PLAN_LANE_H2D] =
            values[below(random, 5)];
    else
        sharing->weights.of[AH_PLAN_LANE_HOST] = values[below(random, 5)];
}

static void (*const changes[])(struct ah_plan *, uint64_t *) = {
    change_kind, change_block, change_micro_batch, change_positions, change_time,   swap_in_order,
    swap_ops,    change_ring,  change_config,      change_tensor,    change_sharing};

/* Checks and replays the plan. Returns true if the check accepted it. */
static bool survives(const struct ah_plan *plan)
{
    struct ah_error err = {0};
    struct ah_arena arena = {0};
    struct ah_replay replay;
    int checked = ah_schedule_check(plan, &err);
    assert_true(checked == AH_OK || (checked == AH_E_DOCUMENT && *err.text));
    int rc = ah_replay_run(plan, 10, &arena, &replay, &err);
    assert_true(rc == AH_OK || rc == AH_E_DOCUMENT);
    if (!checked)
        assert_int_equal(rc, AH_OK);
    ah_arena_release(&arena);
    return !checked;
}

struct counts {
    size_t read, accepted;
};

static void try_plan(const char *text, size_t size, uint64_t *random, struct counts *counts)
{
    struct ah_document document = {0}, again = {0};
    struct ah_buffer changed = {0};
    struct ah_error err = {0};
    CHECK_OK(ah_document_parse(&document, "plan", text, size, AH_DOCUMENT_PLAN, &err), err);
    for (uint64_t n = 1 + below(random, 3); n > 0; n--)
        changes[below(random, sizeof changes / sizeof changes[0])](document.body.plan, random);
    if (!ah_document_print(&document, &changed, &err) &&
        !ah_document_parse(&again, "plan", changed.data, changed.size, AH_DOCUMENT_PLAN, &err)) {
        counts->read++;
        counts->accepted += survives(again.body.plan);
    }
    ah_buffer_release(&changed);
    ah_document_release(&again);
    ah_document_release(&document);
}

TEST(broken_plans, are_refused_or_run)
{
    uint64_t random = check_seed(1);
    struct ah_document document = {0};
    struct ah_buffer text = {0};
    struct ah_error err = {0};
    const size_t plans = check_scaled(3000);
    struct counts counts = {0};
    load_document(&document, "tests/cli/documents/plan-tiny.json", AH_DOCUMENT_PLAN);
    CHECK_OK(ah_document_print(&document, &text, &err), err);
    for (size_t i = 0; i < plans; i++)
        try_plan(text.data, text.size, &random, &counts);
    print_message("%zu plans, %zu could be read, %zu could be run\n", plans, counts.read, counts.accepted);
    assert_true(counts.read > plans / 4);
    assert_true(counts.accepted > plans / 100);
    assert_true(counts.accepted < counts.read);
    ah_buffer_release(&text);
    ah_document_release(&document);
}
