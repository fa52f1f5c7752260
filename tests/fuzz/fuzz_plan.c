/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target for plans of unknown origin: they are read, checked and run on the virtual clock.
 *
 * Whatever a plan contains, reading, checking and running end with a result or with one sentence. If a plan passes the
 * check, no item of its timeline ends before it starts.
 */
#include "planner/verify.h"
#include "runtime/schedule/check.h"
#include "runtime/schedule/replay.h"
#include "schemas/document.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ITERATIONS = 3, ITEMS_MOST = 20000, DISTURBANCES = 4 };

static void require(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "fuzz_plan: %s\n", what);
        abort();
    }
}

/* True if the plan runs quickly. A small document may ask for very many tiles. That is slow, but not wrong. */
static int is_small(const struct ah_plan *plan)
{
    uint64_t items = 0;
    for (size_t i = 0; i < plan->n_ops && items <= ITEMS_MOST; i++)
        items += plan->ops[i].tiles < ITEMS_MOST ? plan->ops[i].tiles : ITEMS_MOST;
    return items <= ITEMS_MOST;
}

static void check_timeline(const struct ah_plan *plan, const struct ah_replay *replay)
{
    require(replay->n_items > 0 && isfinite(replay->period_us), "a timeline without items or period");
    for (size_t i = 0; i < replay->n_items; i++) {
        const struct ah_replay_item *item = &replay->items[i];
        require(item->op < plan->n_ops && item->iteration < ITERATIONS, "an item of no op");
        require(item->start_us >= 0 && item->finish_us >= item->start_us,
                "an item that ends before it starts");
    }
}

static void run(const struct ah_plan *plan)
{
    struct ah_arena arena = {0};
    struct ah_replay replay;
    struct ah_error checked = {0}, err = {0};
    int check = ah_schedule_check(plan, &checked);
    int rc = ah_replay_run(plan, ITERATIONS, &arena, &replay, &err);
    require(!check || checked.text[0], "a failed check without a sentence");
    require(!rc || err.text[0], "a failed replay without a sentence");
    require(check || !rc, "a plan that passes the check cannot be replayed");
    if (!rc)
        check_timeline(plan, &replay);
    require(check || !ah_verify_policy(plan, &err) || err.text[0], "a policy refused without a sentence");
    ah_arena_release(&arena);
}

/* ---- the same plan with other numbers ---- */

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void disturb_op(struct ah_plan *plan, uint64_t *random)
{
    struct ah_plan_op *op = &plan->ops[next_random(random) % plan->n_ops];
    uint64_t *fields[] = {&op->position,    &op->issue_after, &op->due_before, &op->tiles,
                          &op->micro_batch, &op->block,       &op->bytes};
    uint64_t *field = fields[next_random(random) % (sizeof fields / sizeof *fields)];
    if (*field != AH_PLAN_NOWHERE)
        *field = next_random(random) % 12;
    else
        op->us *= (double)(next_random(random) % 4);
}

static void disturb_lane(struct ah_plan *plan, uint64_t *random)
{
    const struct ah_plan_lanes *lanes = &plan->lanes;
    uint64_t *orders[] = {lanes->order[AH_PLAN_LANE_COMPUTE], lanes->order[AH_PLAN_LANE_H2D],
                          lanes->order[AH_PLAN_LANE_D2H], lanes->order[AH_PLAN_LANE_HOST]};
    const size_t sizes[] = {lanes->n_order[AH_PLAN_LANE_COMPUTE], lanes->n_order[AH_PLAN_LANE_H2D],
                            lanes->n_order[AH_PLAN_LANE_D2H], lanes->n_order[AH_PLAN_LANE_HOST]};
    size_t lane = next_random(random) % 4;
    if (!sizes[lane])
        return;
    size_t a = next_random(random) % sizes[lane], b = next_random(random) % sizes[lane];
    uint64_t kept = orders[lane][a];
    orders[lane][a] = orders[lane][b];
    orders[lane][b] = kept;
}

static void disturb_rest(struct ah_plan *plan, uint64_t *random)
{
    if (plan->arena.n_tensors && next_random(random) % 2) {
        struct ah_plan_tensor *tensor = &plan->arena.tensors[next_random(random) % plan->arena.n_tensors];
        uint64_t *fields[] = {&tensor->offset_bytes, &tensor->bytes, &tensor->from, &tensor->to};
        *fields[next_random(random) % 4] = next_random(random) % 2 ? next_random(random) % 12 : 256;
        return;
    }
    uint64_t *fields[] = {&plan->staging.host_gradient_tiles, &plan->staging.host_weight_tiles,
                          &plan->staging.device_state_tiles};
    *fields[next_random(random) % 3] = next_random(random) % 4;
}

static void disturb_block(struct ah_plan *plan, uint64_t *random)
{
    struct ah_plan_block *block = &plan->blocks[next_random(random) % plan->n_blocks];
    switch (next_random(random) % 5) {
    case 0:
        block->activations = (enum ah_activations)(next_random(random) % 3);
        return;
    case 1:
        block->weights = (enum ah_weights)(next_random(random) % 2);
        return;
    case 2:
        block->optimizer = (enum ah_optimizer)(next_random(random) % 4);
        return;
    case 3:
        block->group = plan->blocks[next_random(random) % plan->n_blocks].group;
        return;
    default:
        block->parameters = next_random(random) % 2 ? next_random(random) % 12 : UINT64_C(1) << 52;
    }
}

static void disturb_words(struct ah_plan *plan, uint64_t *random)
{
    static const uint64_t sizes[] = {1, 4096, UINT64_C(1) << 40, UINT64_C(1) << 52};
    plan->scheduling = (enum ah_scheduling)(next_random(random) % 3);
    switch (next_random(random) % 4) {
    case 0:
        plan->policy = (enum ah_policy)(next_random(random) % (AH_POLICY_OPTIMAL + 1));
        plan->n_alternatives = 0;
        return;
    case 1:
        plan->micro_batch_order = (enum ah_micro_order)(next_random(random) % 2);
        return;
    case 2:
        plan->training.state_dtype = plan->numeric_signature.state_dtype =
            (enum ah_dtype)(next_random(random) % 2);
        return;
    default:
        plan->training.seq = plan->numeric_signature.seq = sizes[next_random(random) % 4] >> 24;
        plan->staging.tile_elements = sizes[1 + next_random(random) % 3];
    }
}

/* Changes one to three numbers, and writes and reads the plan. Runs it unless the writer or the reader refuses it. */
static void run_disturbed(struct ah_plan *plan, uint64_t *random)
{
    static void (*const ways[])(struct ah_plan *, uint64_t *) = {disturb_op, disturb_lane, disturb_rest,
                                                                 disturb_block, disturb_words};
    const struct ah_document changed = {.kind = AH_DOCUMENT_PLAN, .body = {.plan = plan}};
    struct ah_document read = {0};
    struct ah_buffer text = {0};
    struct ah_error err = {0};
    for (uint64_t n = 1 + next_random(random) % 3; n; n--)
        ways[next_random(random) % 5](plan, random);
    if (!ah_document_print(&changed, &text, &err) &&
        !ah_document_parse(&read, "disturbed", text.data, text.size, AH_DOCUMENT_PLAN, &err) &&
        is_small(read.body.plan))
        run(read.body.plan);
    ah_document_release(&read);
    ah_buffer_release(&text);
}

static uint64_t hash(const uint8_t *data, size_t size)
{
    uint64_t value = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < size; i++)
        value = (value ^ data[i]) * UINT64_C(1099511628211);
    return value | 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ah_document document = {0};
    struct ah_error err = {0};
    uint64_t random = hash(data, size);
    int rc = ah_document_parse(&document, "fuzz", (const char *)data, size, AH_DOCUMENT_PLAN, &err);
    if (!rc && is_small(document.body.plan) && document.body.plan->n_ops) {
        run(document.body.plan);
        for (int i = 0; i < DISTURBANCES; i++)
            run_disturbed(document.body.plan, &random);
    }
    ah_document_release(&document);
    return 0;
}
