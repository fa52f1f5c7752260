/* SPDX-License-Identifier: Apache-2.0
 *
 * Breaks a plan with blocks of every kind, one thing at a time. It must be refused with the right message.
 */
#include "runtime/schedule/check.h"
#include "runtime/schedule/names.h"
#include "tests/support/documents.h"

#include <string.h>

static const char path[] = "tests/cli/documents/plan-tiny.json";

static struct ah_plan *load(struct ah_document *document)
{
    load_document(document, path, AH_DOCUMENT_PLAN);
    return document->body.plan;
}

/* Checks that the plan is refused after `change`, with a message that contains `part`. */
static void refused(void (*change)(struct ah_plan *plan), const char *part)
{
    struct ah_document document = {0};
    struct ah_plan *plan = load(&document);
    struct ah_error err = {0};
    CHECK_OK(ah_schedule_check(plan, &err), err);
    change(plan);
    CHECK_FAILS(ah_schedule_check(plan, &err), err, AH_E_DOCUMENT, part);
    ah_document_release(&document);
}

static void remove_fetches(struct ah_plan *plan)
{
    plan->blocks[7].weights = AH_WEIGHTS_DEVICE;
}

static void add_backward(struct ah_plan *plan)
{
    ah_plan_compute_op(plan, 0)->op = AH_PLAN_BACKWARD;
}

static void stop_clipping(struct ah_plan *plan)
{
    plan->training.clip = 0;
}

static void stop_streaming(struct ah_plan *plan)
{
    plan->blocks[4].optimizer = AH_OPTIMIZER_DEVICE;
}

static void sum_on_device(struct ah_plan *plan)
{
    plan->blocks[5].accumulator = AH_ACCUMULATOR_DEVICE;
}

TEST(check, ops_are_those_of_the_configs)
{
    refused(remove_fetches, "].op: is fetch; send_gradients follows from the rest of the plan");
    refused(add_backward, "ops[28].us: is ");
    refused(stop_clipping, "ops[4].position: is 5; 4 follows from the rest of the plan");
    refused(stop_streaming, "ops[8].position: is 16; 12 follows from the rest of the plan");
    refused(sum_on_device, "ops[20].us: is ");
}

static bool lives_at(const struct ah_plan_tensor *tensor, uint64_t position)
{
    if (tensor->from <= tensor->to)
        return tensor->from <= position && position <= tensor->to;
    return tensor->from <= position || position <= tensor->to;
}

static bool live_together(const struct ah_plan *plan, const struct ah_plan_tensor *a,
                          const struct ah_plan_tensor *b)
{
    for (uint64_t position = 0; position < plan->arena.positions; position++)
        if (lives_at(a, position) && lives_at(b, position))
            return true;
    return false;
}

static bool share_bytes(const struct ah_plan_tensor *a, const struct ah_plan_tensor *b)
{
    return a->offset_bytes < b->offset_bytes + b->bytes && b->offset_bytes < a->offset_bytes + a->bytes;
}

/* True if two tensors overlap, that is, share bytes and are alive at the same time. */
static bool overlap_somewhere(const struct ah_plan *plan)
{
    const struct ah_plan_arena *arena = &plan->arena;
    for (size_t i = 0; i < arena->n_tensors; i++)
        for (size_t j = 0; j < i; j++)
            if (share_bytes(&arena->tensors[i], &arena->tensors[j]) &&
                live_together(plan, &arena->tensors[i], &arena->tensors[j]))
                return true;
    return false;
}

static void random_tensor(const struct ah_plan *plan, struct ah_plan_tensor *tensor, uint64_t *random)
{
    tensor->bytes = 1 + check_random(random) % 16;
    tensor->offset_bytes = check_random(random) % 64;
    tensor->from = check_random(random) % plan->arena.positions;
    tensor->to = check_random(random) % plan->arena.positions;
}

/* A few tensors get random offsets. The plan is refused exactly if two tensors overlap. */
TEST(check, finds_every_overlap_and_no_other)
{
    enum { ROUNDS = 2000, TENSORS = 5 };
    uint64_t random = check_seed(11);
    size_t overlaps = 0;
    struct ah_document document = {0};
    struct ah_plan *plan = load(&document);
    plan->arena.n_tensors = TENSORS;
    for (size_t round = 0; round < ROUNDS; round++) {
        struct ah_error err = {0};
        for (size_t i = 0; i < TENSORS; i++)
            random_tensor(plan, &plan->arena.tensors[i], &random);
        bool overlap = overlap_somewhere(plan);
        assert_int_equal(ah_schedule_check(plan, &err), AH_E_DOCUMENT);
        assert_int_equal(strstr(err.text, "overlaps") != NULL, overlap);
        overlaps += overlap;
    }
    assert_in_range(overlaps, ROUNDS / 10, ROUNDS * 9 / 10);
    ah_document_release(&document);
}

static void raise_peak(struct ah_plan *plan)
{
    plan->memory.device_bytes += 256;
}

TEST(check, the_peak_is_the_highest_end)
{
    refused(raise_peak, "memory.device_bytes: is ");
}

static void turn_host_lane(struct ah_plan *plan)
{
    uint64_t *host = plan->lanes.order[AH_PLAN_LANE_HOST];
    for (size_t i = 0, j = plan->lanes.n_order[AH_PLAN_LANE_HOST] - 1; i < j; i++, j--) {
        uint64_t op = host[i];
        host[i] = host[j];
        host[j] = op;
    }
}

static void state_another_time(struct ah_plan *plan)
{
    plan->time.step_us *= 1 + 3e-9;
}

static void state_less_work(struct ah_plan *plan)
{
    plan->time.busy_us[AH_PLAN_LANE_HOST] *= 0.999;
}

static void wait_less(struct ah_plan *plan)
{
    plan->time.exposed_us.of[AH_PLAN_LANE_H2D] = 0;
}

static void call_it_fifo(struct ah_plan *plan)
{
    plan->scheduling = AH_SCHEDULING_FIFO;
}

TEST(check, orders_run_in_the_time_that_is_stated)
{
    refused(turn_host_lane, "lanes.host[0]: is ");
    refused(call_it_fifo, " is next by fifo");
    refused(state_another_time, "time.step_us: is ");
    refused(state_less_work, "time.host_us: is ");
    refused(wait_less, "time.exposed_us.h2d: is 0; these orders make it ");
}

static struct ah_plan_op *find_op(struct ah_plan *plan, enum ah_plan_op_kind kind)
{
    size_t op = 0;
    while (op < plan->n_ops && plan->ops[op].op != kind)
        op++;
    assert_true(op < plan->n_ops);
    return &plan->ops[op];
}

static void slow_a_layer(struct ah_plan *plan)
{
    ah_plan_compute_op(plan, 2)->us *= 2;
}

static void hurry_the_embeddings_update(struct ah_plan *plan)
{
    struct ah_plan_op *op = find_op(plan, AH_PLAN_DEVICE_ADAM);
    assert_int_equal(op->block, 0);
    op->us /= 1.001;
}

/* Lengthens the first update, which is the smallest and may be as short as its launch. */
static void launch_the_embeddings_update(struct ah_plan *plan)
{
    find_op(plan, AH_PLAN_DEVICE_ADAM)->us *= 1.001;
}

/* Lengthens the layers' updates. Each of them has several launches, and much more work than these. */
static void slow_the_layers_updates(struct ah_plan *plan)
{
    for (size_t i = 0; i < plan->n_ops; i++)
        if (plan->ops[i].op == AH_PLAN_DEVICE_ADAM && plan->ops[i].block)
            plan->ops[i].us *= 1.001;
}

static void slow_the_heads_fetches(struct ah_plan *plan)
{
    for (size_t i = 0; i < plan->n_ops; i++)
        if (plan->ops[i].op == AH_PLAN_FETCH)
            plan->ops[i].us *= 1.001;
}

TEST(check, equal_work_takes_equal_time)
{
    refused(slow_a_layer, " does the same in ");
    refused(hurry_the_embeddings_update, "; at the rate of others, ");
    refused(slow_the_layers_updates, "; at the rate of others, ");
    refused(launch_the_embeddings_update, "time.step_us: is ");
    refused(slow_the_heads_fetches, "; at the rate of other copies, ");
}

static struct ah_plan_tensor *find_tensor(struct ah_plan *plan, const char *name)
{
    char text[AH_NAME_MAX];
    size_t i = 0;
    for (ah_name_tensor(plan, i, text); strcmp(text, name) != 0; ah_name_tensor(plan, i, text))
        assert_true(++i < plan->arena.n_tensors);
    return &plan->arena.tensors[i];
}

static void send_less(struct ah_plan *plan)
{
    find_op(plan, AH_PLAN_SEND_GRADIENTS)->bytes -= 2;
}

static void wait_longer(struct ah_plan *plan)
{
    struct ah_plan_op *norm = find_op(plan, AH_PLAN_NORM);
    norm->due_before = (norm->due_before + 1) % plan->arena.positions;
}

static void drop_last_tensor(struct ah_plan *plan)
{
    plan->arena.n_tensors--;
}

static void rename_tensor(struct ah_plan *plan)
{
    find_tensor(plan, "layer.1.weights")->label = AH_TENSOR_STATES;
}

static void shorten_tensor(struct ah_plan *plan)
{
    find_tensor(plan, "layer.1.weights")->bytes -= 256;
}

static void end_earlier(struct ah_plan *plan)
{
    find_tensor(plan, "layer.1.input.0")->to--;
}

static void shift_tensor(struct ah_plan *plan)
{
    find_tensor(plan, "tokens")->offset_bytes++;
}

static void recompute_less(struct ah_plan *plan)
{
    plan->blocks[3].activations = AH_ACTIVATIONS_KEEP;
}

static void double_a_ring(struct ah_plan *plan)
{
    plan->staging.device_state_tiles *= 2;
}

static void add_a_ring(struct ah_plan *plan)
{
    plan->staging.host_weight_tiles = 65536;
}

static void take_less_of_the_host(struct ah_plan *plan)
{
    plan->memory.pageable_bytes -= 4096;
    plan->memory.host_bytes -= 4096;
}

static void move_between_classes(struct ah_plan *plan)
{
    plan->memory.by_class.staging += 256;
    plan->memory.by_class.workspace -= 256;
}

TEST(check, configs_are_compiled_again)
{
    refused(send_less, "].bytes: is ");
    refused(wait_longer, "].due_before: is ");
    refused(drop_last_tensor, "arena.tensors: the number of items: is ");
    refused(rename_tensor, ".label: is states; weights follows from the rest of the plan");
    refused(shorten_tensor, "].bytes: is ");
    refused(end_earlier, "].to: is ");
    refused(shift_tensor, "].offset_bytes: is ");
    refused(recompute_less, "].label: is ");
    refused(double_a_ring, "arena.tensors[");
    refused(add_a_ring, "staging.host_weight_tiles: is ");
    refused(take_less_of_the_host, "memory.pageable_bytes: is ");
    refused(move_between_classes, "memory.by_class.staging: is ");
}

static void add_a_parameter(struct ah_plan *plan)
{
    plan->blocks[2].parameters++;
}

static void add_to_embedding(struct ah_plan *plan)
{
    plan->blocks[0].parameters++;
}

static void add_micro_batches(struct ah_plan *plan)
{
    plan->training.batch = plan->training.micro_batches = UINT64_C(1) << 20;
}

static void stream_many_tiles(struct ah_plan *plan)
{
    plan->staging.tile_elements = AH_PLAN_TILE_UNIT;
}

static void add_a_layer(struct ah_plan *plan)
{
    plan->model.layers++;
}

static void train_nothing(struct ah_plan *plan)
{
    plan->training.n_trainable = 0;
}

static void add_to_every_layer(struct ah_plan *plan)
{
    for (size_t i = 1; i + 1 < plan->n_blocks; i++)
        plan->blocks[i].parameters += 4096;
}

static void regroup(struct ah_plan *plan)
{
    plan->blocks[2].group = "layer.frozen";
}

static void lengthen_tokens(struct ah_plan *plan)
{
    find_tensor(plan, "tokens")->bytes++;
}

TEST(check, sizes_are_those_of_the_model)
{
    refused(add_a_layer, "blocks: there are 8; the model has 9");
    refused(train_nothing, "training: ");
    refused(add_a_parameter, "blocks[2].parameters: is ");
    refused(add_to_embedding, "blocks[0].parameters: is ");
    refused(add_to_every_layer, "blocks[1].parameters: is 397696; for this model it is 393600");
    refused(regroup, "blocks[2].group: is 'layer.frozen'; for this model it is 'layer'");
    refused(lengthen_tokens, "arena.tensors[11].bytes: is 151873; 151872 follows from the rest of the plan");
}

/* A small document must not cause a large compilation. */
TEST(check, what_is_compiled_is_no_larger_than_the_plan)
{
    refused(add_micro_batches, "lanes.compute: has ");
    refused(stream_many_tiles, "lanes.h2d: has ");
}

static void rename_block(struct ah_plan *plan)
{
    plan->blocks[2].name = "layer.2";
}

static void claim_speed(struct ah_plan *plan)
{
    plan->tokens_per_s *= 1.01;
}

static void claim_another_objective(struct ah_plan *plan)
{
    plan->solver.objective_us *= 1.01;
}

static void claim_optimality(struct ah_plan *plan)
{
    plan->solver.status = AH_PLAN_OPTIMAL;
}

static void claim_a_gap(struct ah_plan *plan)
{
    plan->solver.gap /= 2;
}

static void raise_the_bound(struct ah_plan *plan)
{
    plan->solver.bound_us += 1;
}

static void claim_a_policy(struct ah_plan *plan)
{
    plan->policy = AH_POLICY_STREAM;
}

static void forget_a_policy(struct ah_plan *plan)
{
    plan->n_alternatives--;
}

static void list_itself(struct ah_plan *plan)
{
    plan->alternatives[plan->n_alternatives - 1].policy = AH_POLICY_OPTIMAL;
}

static void slow_the_paper(struct ah_plan *plan)
{
    struct ah_plan_alternative *paper = &plan->alternatives[plan->n_alternatives - 1];
    *paper = (struct ah_plan_alternative){AH_POLICY_AUTOHETE_PAPER, true, plan->time.step_us * 0.99};
}

static void count_twice(struct ah_plan *plan)
{
    plan->sharing.resources[1].name = plan->sharing.resources[0].name;
}

TEST(check, claims_fit_together)
{
    refused(rename_block, "blocks[2].name: is 'layer.2'; 'layer.1'");
    refused(claim_speed, "tokens_per_s: is ");
    refused(claim_another_objective, "solver.objective_us: is ");
    refused(claim_optimality, "solver.status: is 'optimal'; 'within_gap'");
    refused(claim_a_gap, "solver.gap: is ");
    refused(raise_the_bound, "solver.gap: is ");
    refused(claim_a_policy, "alternatives[4]: 'autohete-paper' is missing");
    refused(forget_a_policy, "is missing; a plan of policy 'optimal' lists all others");
    refused(list_itself, "alternatives[5]: 'autohete-paper' is missing");
    refused(slow_the_paper, "alternatives[5].step_us: is ");
    refused(count_twice, "sharing.resources[1].name: ");
}
