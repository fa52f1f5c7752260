/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks plans against their model and machine. Valid plans pass. Differences that only these show are noticed.
 */
#include "planner/policies/policies.h"
#include "planner/verify.h"
#include "runtime/schedule/check.h"
#include "tests/property/planner/requests.h"

#include <math.h>

static const char other_sha256[] = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";

static int verify(struct test_request *t)
{
    const struct ah_verify_inputs inputs = {.model = t->request.model,
                                            .model_sha256 = test_sha256,
                                            .machine = t->request.machine,
                                            .machine_sha256 = test_sha256};
    int rc = ah_schedule_check(&t->plan, &t->err);
    return rc ? rc : ah_verify_inputs(&t->plan, &inputs, &t->err);
}

static void open_tiny(struct test_request *t, enum ah_policy policy)
{
    test_request_open(t, "tiny", "rtx4090-64g");
    t->request.device_bytes = 545 * TEST_MIB;
    t->request.training.micro_batches = 2;
    t->request.policy = policy;
    t->request.alternatives = policy == AH_POLICY_OPTIMAL;
}

TEST(verify, each_policy_is_known_by_its_plans)
{
    for (int policy = 0; policy < AH_POLICIES; policy++) {
        struct test_request t;
        open_tiny(&t, (enum ah_policy)policy);
        t.request.device_bytes = 0;
        CHECK_OK(test_request_plan(&t), t.err);
        CHECK_OK(ah_verify_policy(&t.plan, &t.err), t.err);
        CHECK_OK(verify(&t), t.err);
        test_request_close(&t);
    }
}

/* Checks that no numbers of the plan's policy give its blocks, and that numbers out of range are named. */
static void try_all_numbers(struct test_request *t)
{
    const struct ah_job job = {.n_blocks = t->plan.n_blocks};
    uint64_t numbers[AH_PLAN_POLICY_NUMBERS] = {0};
    uint32_t sizes[AH_PLAN_POLICY_NUMBERS];
    t->plan.policy_numbers = numbers;
    t->plan.n_policy_numbers = ah_policies_sizes(&job, t->plan.policy, sizes);
    for (numbers[0] = 0; numbers[0] < sizes[0]; numbers[0]++)
        for (numbers[1] = 0; numbers[1] < sizes[1]; numbers[1]++)
            for (numbers[2] = 0; numbers[2] < sizes[2]; numbers[2]++)
                CHECK_FAILS(ah_verify_policy(&t->plan, &t->err), t->err, AH_E_DOCUMENT,
                            "does not produce such block configs");
    memset(numbers, 0, sizeof numbers);
    numbers[0] = sizes[0];
    CHECK_FAILS(ah_verify_policy(&t->plan, &t->err), t->err, AH_E_DOCUMENT, "policy_numbers[0]: is ");
    t->plan.n_policy_numbers--;
    CHECK_FAILS(ah_verify_policy(&t->plan, &t->err), t->err, AH_E_DOCUMENT, "policy_numbers: there are ");
}

/* The block configs of this `optimal` plan are possible under no other policy. */
TEST(verify, no_policy_places_others_blocks)
{
    struct test_request t;
    open_tiny(&t, AH_POLICY_OPTIMAL);
    CHECK_OK(test_request_plan(&t), t.err);
    for (int policy = 0; policy < AH_POLICY_OPTIMAL; policy++) {
        t.plan.policy = (enum ah_policy)policy;
        t.plan.scheduling = AH_SCHEDULING_FIFO;
        t.plan.micro_batch_order = AH_MICRO_BATCH_MAJOR;
        try_all_numbers(&t);
    }
    t.plan.policy = AH_POLICY_STREAM;
    t.plan.scheduling = AH_SCHEDULING_PRIORITY;
    CHECK_FAILS(ah_verify_policy(&t.plan, &t.err), t.err, AH_E_DOCUMENT,
                "policy: 'stream' does not order lanes by 'priority'");
    test_request_close(&t);
}

static void another_model(struct ah_plan *plan)
{
    plan->inputs.model.sha256 = other_sha256;
}

static void another_machine(struct ah_plan *plan)
{
    plan->inputs.machine.sha256 = other_sha256;
}

static void another_device(struct ah_plan *plan)
{
    plan->numeric_signature.device = AH_DEVICE_CPU;
}

static void less_reserve(struct ah_plan *plan)
{
    plan->memory.reserved_bytes -= 256;
}

static void more_process(struct ah_plan *plan)
{
    plan->memory.process_bytes += 256;
}

static void more_than_there_is(struct ah_plan *plan)
{
    plan->memory.device_capacity_bytes *= 1000;
}

static void as_if_measured(struct ah_plan *plan)
{
    plan->time.estimated = false;
}

static void other_threads(struct ah_plan *plan)
{
    static struct ah_plan_threads threads = {0, 5};
    plan->threads = &threads;
}

static void other_sharing(struct ah_plan *plan)
{
    plan->sharing.resources[0].name = "dram";
}

/* Halves all times of the plan, as if the machine were twice as fast. */
static void twice_as_fast(struct ah_plan *plan)
{
    double *times[] = {&plan->time.step_us,
                       &plan->time.busy_us[AH_PLAN_LANE_COMPUTE],
                       &plan->time.busy_us[AH_PLAN_LANE_H2D],
                       &plan->time.busy_us[AH_PLAN_LANE_D2H],
                       &plan->time.busy_us[AH_PLAN_LANE_HOST],
                       &plan->time.exposed_us.of[AH_PLAN_LANE_H2D],
                       &plan->time.exposed_us.of[AH_PLAN_LANE_D2H],
                       &plan->time.exposed_us.of[AH_PLAN_LANE_HOST],
                       &plan->solver.objective_us,
                       &plan->solver.bound_us};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        *times[i] /= 2;
    for (size_t i = 0; i < plan->n_ops; i++)
        plan->ops[i].us /= 2;
    for (size_t i = 0; i < plan->n_alternatives; i++)
        plan->alternatives[i].step_us /= 2;
    plan->tokens_per_s *= 2;
}

static void proven(struct ah_plan *plan)
{
    struct ah_plan_solver *solver = &plan->solver;
    solver->bound_us = fmin(solver->bound_us * 1.001, solver->objective_us);
    solver->gap = (solver->objective_us - solver->bound_us) / solver->objective_us;
}

TEST(verify, inputs_know_what_plans_cannot)
{
    static const struct {
        void (*forge)(struct ah_plan *plan);
        int rc;
        const char *part;
    } cases[] = {
        {another_model, AH_E_MISMATCH, "inputs.model.sha256: is fedc"},
        {another_machine, AH_E_MISMATCH, "inputs.machine.sha256: is fedc"},
        {another_device, AH_E_DOCUMENT, "numeric_signature.device: is 'cpu'; the machine's is 'cuda'"},
        {less_reserve, AH_E_DOCUMENT, "memory.reserved_bytes: is "},
        {more_process, AH_E_DOCUMENT, "memory.process_bytes: is 256; a run on this machine takes 0"},
        {more_than_there_is, AH_E_DOCUMENT, "what_if: does not match"},
        {as_if_measured, AH_E_DOCUMENT, "time.estimated: is false"},
        {other_threads, AH_E_DOCUMENT, "threads: "},
        {other_sharing, AH_E_DOCUMENT, "sharing: "},
        {twice_as_fast, AH_E_DOCUMENT, "].us: is "},
        {proven, AH_E_DOCUMENT, "solver.bound_us: is "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct test_request t;
        open_tiny(&t, AH_POLICY_OPTIMAL);
        CHECK_OK(test_request_plan(&t), t.err);
        CHECK_OK(verify(&t), t.err);
        cases[i].forge(&t.plan);
        CHECK_OK(ah_schedule_check(&t.plan, &t.err), t.err);
        CHECK_FAILS(verify(&t), t.err, cases[i].rc, cases[i].part);
        test_request_close(&t);
    }
}

static void no_what_if(struct ah_plan *plan)
{
    plan->n_what_if = 0;
}

static void another_host(struct ah_plan *plan)
{
    plan->what_if[0].machine_bytes += 1;
}

static void more_of_the_host(struct ah_plan *plan)
{
    plan->memory.host_capacity_bytes += 1;
}

TEST(verify, what_ifs_are_of_the_machine)
{
    static const struct {
        void (*forge)(struct ah_plan *plan);
        const char *part;
    } cases[] = {
        {no_what_if, "what_if: does not match"},
        {another_host, "what_if: does not match"},
        {more_of_the_host, "memory.host_capacity_bytes: is "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct test_request t;
        open_tiny(&t, AH_POLICY_OPTIMAL);
        t.request.host_bytes = 128 * TEST_GIB;
        CHECK_OK(test_request_plan(&t), t.err);
        assert_int_equal(t.plan.n_what_if, 1);
        CHECK_OK(verify(&t), t.err);
        cases[i].forge(&t.plan);
        CHECK_FAILS(verify(&t), t.err, AH_E_DOCUMENT, cases[i].part);
        test_request_close(&t);
    }
}

/* Launches take most of a tiny model's step. The plan passes when checked alone and with its machine. */
TEST(verify, launches_are_in_the_plan)
{
    struct ah_metric launch_us = {.n = 10, .median = 50, .min = 50, .max = 50};
    for (int policy = AH_POLICY_RESIDENT; policy <= AH_POLICY_OPTIMAL; policy += AH_POLICY_OPTIMAL) {
        struct test_request t;
        open_tiny(&t, (enum ah_policy)policy);
        t.machine.body.machine->launch_us = &launch_us;
        t.request.device_bytes = policy == AH_POLICY_OPTIMAL ? 545 * TEST_MIB : 0;
        CHECK_OK(test_request_plan(&t), t.err);
        CHECK_OK(verify(&t), t.err);
        /* There are two micro-batches and 6 layers, each with ten or more forward and twenty or more backward ops. */
        assert_true(t.plan.time.busy_us[AH_PLAN_LANE_COMPUTE] > 2 * 6 * 30 * launch_us.median);
        for (size_t i = 0; i < t.plan.n_ops; i++)
            if (t.plan.ops[i].op == AH_PLAN_DEVICE_ADAM && t.plan.ops[i].block == 1)
                assert_true(t.plan.ops[i].us == 4 * launch_us.median);
        test_request_close(&t);
    }
}

/* If every op takes longer than its launches, launches do not change a byte of the plan. */
TEST(verify, launches_are_nothing_to_large_models)
{
    struct ah_metric launch_us = {.n = 10, .median = 4, .min = 4, .max = 4};
    struct ah_buffer text[2];
    for (int priced = 0; priced < 2; priced++) {
        struct test_request t;
        test_request_open(&t, "llama-2-7b", "h200-16c-128g");
        t.machine.body.machine->launch_us = priced ? &launch_us : NULL;
        CHECK_OK(test_request_plan(&t), t.err);
        text[priced] = test_request_text(&t);
        test_request_close(&t);
    }
    assert_int_equal(text[0].size, text[1].size);
    assert_memory_equal(text[0].data, text[1].data, text[0].size);
    ah_buffer_release(&text[0]);
    ah_buffer_release(&text[1]);
}

/* If some techniques are excluded from a plan, its bound is also computed without them. */
TEST(verify, restrictions_are_in_the_bound)
{
    struct test_request t;
    open_tiny(&t, AH_POLICY_OPTIMAL);
    t.request.without = UINT32_C(1) << AH_TECHNIQUE_STREAMED | UINT32_C(1) << AH_TECHNIQUE_HOST_OPTIMIZER;
    t.request.device_bytes = 0;
    CHECK_OK(test_request_plan(&t), t.err);
    CHECK_OK(verify(&t), t.err);
    test_request_close(&t);
}
