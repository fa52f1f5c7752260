/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests plans of small requests: they contain what was asked, and their numbers agree. Bad requests are refused.
 */
#include "runtime/schedule/check.h"
#include "tests/property/planner/requests.h"

static void check_plan(struct test_request *t)
{
    const struct ah_plan *plan = &t->plan;
    const double lanes[] = {plan->time.busy_us[AH_PLAN_LANE_COMPUTE], plan->time.busy_us[AH_PLAN_LANE_H2D],
                            plan->time.busy_us[AH_PLAN_LANE_D2H], plan->time.busy_us[AH_PLAN_LANE_HOST]};
    CHECK_OK(ah_schedule_check(plan, &t->err), t->err);
    for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++)
        assert_true(lanes[i] <= plan->time.step_us * (1 + 1e-6));
    assert_true(plan->solver.bound_us > 0 && plan->solver.bound_us <= plan->solver.objective_us);
    check_near(plan->solver.gap, 1 - plan->solver.bound_us / plan->solver.objective_us, 1e-12);
    check_near(plan->tokens_per_s,
               (double)(plan->training.batch * plan->training.seq) / plan->time.step_us * 1e6, 1e-9);
    assert_true(plan->memory.device_bytes + plan->memory.reserved_bytes <=
                plan->memory.device_capacity_bytes);
    assert_true(plan->memory.host_bytes <= plan->memory.host_capacity_bytes);
}

static void open_small(struct test_request *t)
{
    test_request_open(t, "tiny", "rtx4090-64g");
    t->request.device_bytes = 560 * TEST_MIB;
    t->request.training.batch = 4;
    t->request.training.seq = 256;
}

TEST(planner, says_what_was_asked)
{
    for (int scheduling = 0; scheduling <= AH_SCHEDULING_FIFO; scheduling++) {
        struct test_request t;
        open_small(&t);
        t.request.scheduling = (enum ah_scheduling)scheduling;
        t.request.training.clip = 0;
        CHECK_OK(test_request_plan(&t), t.err);
        check_plan(&t);
        assert_int_equal(t.plan.scheduling, scheduling);
        assert_int_equal(t.plan.training.batch, 4);
        assert_string_equal(t.plan.training.trainable[0], "*");
        assert_int_equal(t.plan.memory.device_capacity_bytes, 560 * TEST_MIB);
        assert_string_equal(t.plan.generator, "autohete test");
        assert_string_equal(t.plan.inputs.model.sha256, test_sha256);
        test_request_close(&t);
    }
}

/* Groups of sums may end at any micro-batch. One that ends a group does extra work, even if it is not the last. */
TEST(planner, adds_up_in_the_groups_that_were_asked)
{
    static const uint64_t device_mib[] = {560, 4096};
    bool on_device = false, on_host = false;
    for (size_t i = 0; i < sizeof device_mib / sizeof *device_mib; i++) {
        struct test_request t;
        uint64_t sums[] = {1, 3, 2, 2};
        open_small(&t);
        t.request.device_bytes = device_mib[i] * TEST_MIB;
        t.request.training.batch = t.request.training.micro_batches = 8;
        t.request.training.sums = sums;
        t.request.training.n_sums = 4;
        CHECK_OK(test_request_plan(&t), t.err);
        check_plan(&t);
        assert_int_equal(t.plan.training.n_sums, 4);
        for (size_t block = 0; block < t.plan.n_blocks; block++) {
            on_device = on_device || t.plan.blocks[block].accumulator == AH_ACCUMULATOR_DEVICE;
            on_host = on_host || t.plan.blocks[block].accumulator == AH_ACCUMULATOR_HOST;
        }
        test_request_close(&t);
    }
    assert_true(on_device && on_host);
}

TEST(planner, lists_the_other_policies)
{
    struct test_request t, other;
    open_small(&t);
    t.request.alternatives = true;
    CHECK_OK(test_request_plan(&t), t.err);
    assert_int_equal(t.plan.n_alternatives, AH_POLICIES - 1);
    for (size_t i = 0; i < t.plan.n_alternatives; i++) {
        const struct ah_plan_alternative *alternative = &t.plan.alternatives[i];
        open_small(&other);
        other.request.policy = alternative->policy;
        int rc = test_request_plan(&other);
        assert_int_equal(alternative->feasible, !rc);
        if (!rc) {
            check_plan(&other);
            assert_int_equal(other.plan.policy, alternative->policy);
            assert_true(alternative->step_us == other.plan.time.step_us);
            assert_true(t.plan.time.step_us <= other.plan.time.step_us * (1 + 1e-9));
        }
        test_request_close(&other);
    }
    test_request_close(&t);
}

TEST(planner, chooses_micro_batches)
{
    struct test_request any;
    double best_us = 0;
    uint64_t best = 0;
    open_small(&any);
    any.request.any_micro_batches = true;
    CHECK_OK(test_request_plan(&any), any.err);
    for (uint64_t n = 1; n <= 4; n *= 2) {
        struct test_request t;
        open_small(&t);
        t.request.training.micro_batches = n;
        if (!test_request_plan(&t) && (!best || t.plan.time.step_us < best_us)) {
            best_us = t.plan.time.step_us;
            best = n;
        }
        test_request_close(&t);
    }
    assert_int_equal(any.plan.training.micro_batches, best);
    assert_true(any.plan.time.step_us == best_us);
    check_plan(&any);
    test_request_close(&any);
}

/* Only one of six sequences fits at a time. So the planner must try six micro-batches, which is no power of two. */
TEST(planner, takes_single_sequences_where_nothing_else_fits)
{
    struct test_request t;
    test_request_open(&t, "gpt2-124m", "rtx4090-64g");
    t.request.training.batch = 6;
    t.request.any_micro_batches = true;
    t.request.device_bytes = 1000 * TEST_MIB;
    CHECK_OK(test_request_plan(&t), t.err);
    assert_int_equal(t.plan.training.micro_batches, 6);
    test_request_close(&t);
}

TEST(planner, freezes)
{
    static const char *patterns[] = {"*", "!embedding.*", "!layer.0.*", "!layer.3.mlp.*"};
    struct test_request t;
    open_small(&t);
    t.request.training.trainable = patterns;
    t.request.training.n_trainable = 4;
    CHECK_OK(test_request_plan(&t), t.err);
    check_plan(&t);
    assert_int_equal(t.plan.blocks[0].optimizer, AH_OPTIMIZER_NONE);
    assert_int_equal(t.plan.blocks[1].optimizer, AH_OPTIMIZER_NONE);
    assert_int_not_equal(t.plan.blocks[2].optimizer, AH_OPTIMIZER_NONE);
    assert_string_equal(t.plan.blocks[1].name, "layer.0");
    assert_int_equal(t.plan.training.n_trainable, 4);
    test_request_close(&t);
}

TEST(planner, does_without_techniques)
{
    struct test_request t;
    open_small(&t);
    t.request.device_bytes = 0;
    t.request.without = 1u << AH_TECHNIQUE_KEEP | 1u << AH_TECHNIQUE_DEVICE_OPTIMIZER;
    CHECK_OK(test_request_plan(&t), t.err);
    check_plan(&t);
    for (size_t i = 0; i < t.plan.n_blocks; i++) {
        bool layer = i > 0 && i + 1 < t.plan.n_blocks;
        assert_true(!layer || t.plan.blocks[i].activations != AH_ACTIVATIONS_KEEP);
        assert_int_not_equal(t.plan.blocks[i].optimizer, AH_OPTIMIZER_DEVICE);
    }
    test_request_close(&t);
}

TEST(planner, refuses)
{
    static const char *nothing[] = {"*", "!layer.77.*"}, *none[] = {"!*"};
    static const struct {
        uint64_t device_bytes, batch, micro_batches, seq;
        const char **patterns;
        size_t n_patterns;
        const char *part;
    } cases[] = {
        {.device_bytes = 400 * TEST_MIB, .part = "reserves for itself"},
        {.batch = 6, .micro_batches = 4, .part = "does not divide"},
        {.seq = 4096, .part = "positions"},
        {.patterns = nothing, .n_patterns = 2, .part = "'!layer.77.*'"},
        {.patterns = none, .n_patterns = 1, .part = "no tensor is trained"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct test_request t;
        test_request_open(&t, "gpt2-124m", "rtx4090-64g");
        t.request.device_bytes = cases[i].device_bytes;
        if (cases[i].batch)
            t.request.training.batch = cases[i].batch;
        if (cases[i].micro_batches)
            t.request.training.micro_batches = cases[i].micro_batches;
        if (cases[i].seq)
            t.request.training.seq = cases[i].seq;
        t.request.training.trainable = cases[i].patterns;
        t.request.training.n_trainable = cases[i].n_patterns;
        CHECK_FAILS(test_request_plan(&t), t.err, AH_E_USAGE, cases[i].part);
        assert_int_equal(t.plan.n_blocks, 0);
        assert_int_equal(t.diagnosis.n_remedies, 0);
        test_request_close(&t);
    }
}

TEST(planner, refuses_machines_that_lack_a_number)
{
    struct test_request t;
    open_small(&t);
    t.machine.body.machine->n_links = 0;
    CHECK_FAILS(test_request_plan(&t), t.err, AH_E_DOCUMENT, "link");
    test_request_close(&t);
    open_small(&t);
    t.machine.body.machine->device.bf16 = false;
    CHECK_FAILS(test_request_plan(&t), t.err, AH_E_USAGE, "--dtype fp32");
    test_request_close(&t);
}

static bool stop_now(void *context, uint64_t done, uint64_t planned)
{
    (void)done;
    (void)planned;
    return ++*(int *)context > 2;
}

TEST(planner, stops_when_told)
{
    struct test_request t;
    int calls = 0;
    open_small(&t);
    t.request.progress = stop_now;
    t.request.context = &calls;
    CHECK_FAILS(test_request_plan(&t), t.err, AH_E_INTERRUPTED, "interrupted");
    assert_int_equal(calls, 3);
    test_request_close(&t);
}

TEST(planner, compares_policies)
{
    struct test_request t;
    struct ah_comparison rows[AH_POLICIES];
    test_request_open(&t, "gpt-4b", "rtx4090-64g");
    CHECK_OK(ah_planner_compare(&t.request, &t.arena, rows, &t.err), t.err);
    for (int policy = 0; policy < AH_POLICIES; policy++) {
        assert_int_equal(rows[policy].policy, policy);
        if (!rows[policy].feasible) {
            assert_non_null(rows[policy].resource);
            assert_true(rows[policy].short_bytes > 0);
            continue;
        }
        assert_non_null(rows[policy].setting);
        assert_true(rows[AH_POLICY_OPTIMAL].step_us <= rows[policy].step_us * (1 + 1e-9));
    }
    assert_false(rows[AH_POLICY_RESIDENT].feasible);
    assert_true(rows[AH_POLICY_OPTIMAL].feasible);
    test_request_close(&t);
}
