/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan with blocks of every kind, and what makes it one that cannot be run.
 */
#include "runtime/schedule/check.h"
#include "schemas/document.h"
#include "tests/support/check.h"

#include <string.h>

static const char path[] = "tests/cli/documents/plan-tiny.json";

static struct ah_plan *load(struct ah_document *document)
{
    struct ah_error err = {0};
    CHECK_OK(ah_document_load(document, path, AH_DOCUMENT_PLAN, &err), err);
    return document->body.plan;
}

/* The sentence about a plan that `change` broke has `part`. */
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
    plan->ops[plan->lanes.compute[0]].op = AH_PLAN_BACKWARD;
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

static void test_check__ops_are_those_of_the_configs(void **state)
{
    (void)state;
    refused(remove_fetches, "blocks[7]: activations keep, weights device, optimizer host need 0 fetch");
    refused(add_backward, "blocks[");
    refused(stop_clipping, "ops: training.clip is 0 and needs no norm; ops have 1 norm");
    refused(stop_streaming,
            "blocks[4]: activations recompute, weights device, optimizer device need 0 states_in");
    refused(sum_on_device,
            "blocks[5]: activations recompute, weights device, optimizer host need 1 send_gradients");
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

/* Any two that overlap, by the definition. */
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

/* A few tensors at random places: refused as overlapping exactly where two of them do. */
static void test_check__finds_every_overlap_and_no_other(void **state)
{
    (void)state;
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

static void test_check__the_peak_is_the_highest_end(void **state)
{
    (void)state;
    refused(raise_peak, "memory.device_bytes: is ");
}

static void turn_host_lane(struct ah_plan *plan)
{
    uint64_t *host = plan->lanes.host;
    for (size_t i = 0, j = plan->lanes.n_host - 1; i < j; i++, j--) {
        uint64_t op = host[i];
        host[i] = host[j];
        host[j] = op;
    }
}

static void state_another_time(struct ah_plan *plan)
{
    plan->time.step_us *= 1 + 3e-6;
}

static void double_a_forward(struct ah_plan *plan)
{
    plan->ops[plan->lanes.compute[0]].us *= 2;
}

static void test_check__orders_run_in_the_time_that_is_stated(void **state)
{
    (void)state;
    refused(turn_host_lane, "");
    refused(state_another_time, "time.step_us: is ");
    refused(double_a_forward, "; these orders take ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check__ops_are_those_of_the_configs),
        cmocka_unit_test(test_check__finds_every_overlap_and_no_other),
        cmocka_unit_test(test_check__the_peak_is_the_highest_end),
        cmocka_unit_test(test_check__orders_run_in_the_time_that_is_stated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
