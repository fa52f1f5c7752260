/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans for equal GPUs of one machine: what each gets of the step and of the host, and what their document states.
 */
#include "planner/gpus.h"
#include "runtime/schedule/check.h"
#include "tests/property/planner/requests.h"

#include <math.h>

struct gpus {
    struct test_request t;
    struct ah_cluster_plan plan;
};

static void open_gpus(struct gpus *g, const char *model, uint64_t gpus, uint64_t micro_batches)
{
    test_request_open(&g->t, model, "rtx4090-64g");
    g->t.request.gpus = gpus;
    g->t.request.fabric_bytes_per_s = 20e9;
    g->t.request.training.micro_batches = micro_batches;
}

static int plan_gpus(struct gpus *g)
{
    g->plan = (struct ah_cluster_plan){0};
    g->t.err = (struct ah_error){0};
    return ah_planner_plan_gpus(&g->t.request, &g->t.arena, &g->plan, &g->t.diagnosis, &g->t.err);
}

static int verify(struct gpus *g)
{
    const struct ah_verify_inputs inputs = {.model = g->t.request.model,
                                            .model_sha256 = test_sha256,
                                            .machine = g->t.request.machine,
                                            .machine_sha256 = test_sha256};
    int rc = ah_schedule_check(&g->plan.programs[0], &g->t.err);
    rc = rc ? rc : ah_gpus_check(&g->plan, &g->t.err);
    return rc ? rc : ah_gpus_verify(&g->plan, &inputs, &g->t.err);
}

TEST(gpus, document_follows_from_the_program)
{
    struct gpus g;
    open_gpus(&g, "tiny", 4, 8);
    CHECK_OK(plan_gpus(&g), g.t.err);
    const struct ah_plan *program = &g.plan.programs[0];
    assert_int_equal(g.plan.n_pipelines, 4);
    assert_int_equal(program->part->shards, 4);
    assert_int_equal(program->training.micro_batches, 2);
    assert_int_equal(program->training.batch, 2);
    assert_int_equal(g.plan.training.batch, 8);
    check_near(g.plan.predicted.step_us, program->time.step_us, 0);
    check_near(g.plan.predicted.tokens_per_s, 8.0 * (double)g.plan.training.seq / program->time.step_us * 1e6,
               1e-12);
    assert_true(g.plan.solver.bound_us > 0 && g.plan.solver.bound_us <= g.plan.solver.objective_us);
    uint64_t blocks = 0;
    for (size_t i = 0; i < g.plan.pipelines[3].stages[0].n_configs; i++)
        blocks += g.plan.pipelines[3].stages[0].configs[i].blocks;
    assert_int_equal(blocks, g.plan.blocks);
    assert_int_equal(g.plan.pipelines[3].stages[0].ranks[0], 3);
    CHECK_OK(verify(&g), g.t.err);
    test_request_close(&g.t);
}

/* A plan that goes into a document comes back from it. */
TEST(gpus, document_is_read_again)
{
    struct gpus g;
    struct ah_document document;
    struct ah_buffer text = {0};
    open_gpus(&g, "tiny", 3, 7);
    g.t.request.training.batch = 7;
    CHECK_OK(plan_gpus(&g), g.t.err);
    const struct ah_document made = {.kind = AH_DOCUMENT_CLUSTER_PLAN, .body.cluster_plan = &g.plan};
    CHECK_OK(ah_document_print(&made, &text, &g.t.err), g.t.err);
    CHECK_OK(ah_document_parse(&document, "gpus", text.data, text.size, AH_DOCUMENT_CLUSTER_PLAN, &g.t.err),
             g.t.err);
    const struct ah_cluster_plan *plan = document.body.cluster_plan;
    check_near(plan->sharding->fabric_bytes_per_s, 20e9, 0);
    assert_int_equal(plan->pipelines[0].micro_batches, 3);
    assert_int_equal(plan->pipelines[1].micro_batches, 2);
    assert_int_equal(plan->pipelines[2].micro_batches, 2);
    g.plan = *plan;
    CHECK_OK(verify(&g), g.t.err);
    ah_buffer_release(&text);
    ah_document_release(&document);
    test_request_close(&g.t);
}

static void faster_fabric(struct ah_cluster_plan *plan)
{
    plan->sharding->fabric_bytes_per_s *= 2;
}

static void more_tokens(struct ah_cluster_plan *plan)
{
    plan->predicted.tokens_per_s *= 2;
}

static void shorter_update(struct ah_cluster_plan *plan)
{
    plan->pipelines[1].stages[0].update_us /= 2;
}

static void less_memory(struct ah_cluster_plan *plan)
{
    plan->pipelines[1].stages[0].memory_bytes += 256;
}

static void another_certificate(struct ah_cluster_plan *plan)
{
    plan->solver.bound_us *= 1.5;
}

static void more_micro_batches(struct ah_cluster_plan *plan)
{
    plan->training.micro_batches *= 2;
}

static void another_machine(struct ah_cluster_plan *plan)
{
    plan->inputs.cluster.sha256 = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";
}

TEST(gpus, edits_are_noticed)
{
    static const struct {
        void (*edit)(struct ah_cluster_plan *);
        int rc;
        const char *text;
    } edits[] = {{faster_fabric, AH_E_DOCUMENT, "programs[0]"},
                 {more_tokens, AH_E_DOCUMENT, "predicted.tokens_per_s"},
                 {shorter_update, AH_E_DOCUMENT, "pipelines[1].stages[0].update_us"},
                 {less_memory, AH_E_DOCUMENT, "pipelines[1].stages[0].memory_bytes"},
                 {another_certificate, AH_E_DOCUMENT, "solver.bound_us"},
                 {more_micro_batches, AH_E_DOCUMENT, "pipelines[0].micro_batches"},
                 {another_machine, AH_E_MISMATCH, "inputs.machine.sha256"}};
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        struct gpus g;
        open_gpus(&g, "tiny", 2, 2);
        CHECK_OK(plan_gpus(&g), g.t.err);
        edits[i].edit(&g.plan);
        CHECK_FAILS(verify(&g), g.t.err, edits[i].rc, edits[i].text);
        test_request_close(&g.t);
    }
}

TEST(gpus, take_the_least_micro_batches_that_fit)
{
    struct gpus g;
    open_gpus(&g, "qwen2.5-0.5b", 2, 1);
    g.t.request.no_remedies = true;
    g.t.request.any_micro_batches = g.t.request.least_micro_batches = true;
    CHECK_OK(plan_gpus(&g), g.t.err);
    assert_int_equal(g.plan.training.micro_batches, 2);
    g.t.request.training.batch = 96;
    g.t.request.device_bytes = 3000 * TEST_MIB;
    CHECK_OK(plan_gpus(&g), g.t.err);
    const uint64_t least = g.plan.training.micro_batches;
    assert_true(least > 4 && 96 % least == 0);
    g.t.request.any_micro_batches = false;
    for (uint64_t n = 2; n < least; n += 2) {
        g.t.request.training.micro_batches = n;
        if (96 % n == 0)
            assert_int_not_equal(plan_gpus(&g), AH_OK);
    }
    test_request_close(&g.t);
}

TEST(gpus, refuse_steps_that_cannot_be_dealt)
{
    struct gpus g;
    open_gpus(&g, "tiny", 4, 2);
    CHECK_FAILS(plan_gpus(&g), g.t.err, AH_E_USAGE, "2 micro-batches leave some of the 4 GPUs without work");
    g.t.request.training.micro_batches = 5;
    CHECK_FAILS(plan_gpus(&g), g.t.err, AH_E_USAGE, "'5' does not divide batch '8'");
    g.t.request.training.batch = 10;
    g.t.request.any_micro_batches = true;
    CHECK_FAILS(plan_gpus(&g), g.t.err, AH_E_USAGE, "'--batch' 10 cannot be dealt evenly to 4 GPUs");
    test_request_close(&g.t);
}

/* Each process gets an equal part of the host; what is short of it is said of the machine. */
TEST(gpus, share_host_memory)
{
    struct gpus one, g;
    open_gpus(&one, "tiny", 1, 1);
    CHECK_OK(test_request_plan(&one.t), one.t.err);
    open_gpus(&g, "tiny", 2, 2);
    CHECK_OK(plan_gpus(&g), g.t.err);
    assert_int_equal(g.plan.programs[0].memory.host_capacity_bytes,
                     one.t.plan.memory.host_capacity_bytes / 2);
    test_request_close(&one.t);
    test_request_close(&g.t);
    open_gpus(&g, "gpt-22b", 2, 2);
    const int rc = plan_gpus(&g);
    assert_true(rc == AH_E_INFEASIBLE || rc == AH_E_NO_PLAN);
    assert_string_equal(g.t.diagnosis.resource, "host memory");
    assert_true(g.t.diagnosis.available_bytes > 48 * TEST_GIB);
    bool more_memory = false;
    for (size_t i = 0; i < g.t.diagnosis.n_remedies; i++) {
        const struct ah_remedy *remedy = &g.t.diagnosis.remedies[i];
        more_memory |= remedy->kind == AH_REMEDY_HOST_MEMORY;
        if (remedy->kind == AH_REMEDY_HOST_MEMORY) {
            g.t.request.host_bytes = remedy->value;
            CHECK_OK(plan_gpus(&g), g.t.err);
        }
    }
    assert_true(more_memory);
    test_request_close(&g.t);
}

/* Every policy plans for several GPUs, and its plans are known as its own. */
TEST(gpus, have_every_policy)
{
    for (int policy = 0; policy < AH_POLICIES; policy++) {
        struct gpus g;
        open_gpus(&g, "tiny", 3, 4);
        g.t.request.policy = (enum ah_policy)policy;
        CHECK_OK(plan_gpus(&g), g.t.err);
        CHECK_OK(ah_verify_policy(&g.plan.programs[0], &g.t.err), g.t.err);
        CHECK_OK(verify(&g), g.t.err);
        test_request_close(&g.t);
    }
}

/* ZeRO's stages: 2 keeps all weights on every GPU, 3 gathers them. */
TEST(gpus, have_both_stages_of_zero)
{
    static const struct {
        enum ah_policy policy;
        enum ah_technique without;
        enum ah_weights has;
        uint64_t stage;
    } cases[] = {{AH_POLICY_RESIDENT, AH_TECHNIQUE_GATHERED_WEIGHTS, AH_WEIGHTS_DEVICE, 0},
                 {AH_POLICY_RESIDENT, AH_TECHNIQUE_DEVICE_WEIGHTS, AH_WEIGHTS_GATHERED, 1},
                 {AH_POLICY_ZERO_OFFLOAD, AH_TECHNIQUE_GATHERED_WEIGHTS, AH_WEIGHTS_DEVICE, 0},
                 {AH_POLICY_ZERO_OFFLOAD, AH_TECHNIQUE_DEVICE_WEIGHTS, AH_WEIGHTS_GATHERED, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gpus g;
        open_gpus(&g, "tiny", 2, 2);
        g.t.request.policy = cases[i].policy;
        g.t.request.without = UINT32_C(1) << cases[i].without;
        CHECK_OK(plan_gpus(&g), g.t.err);
        const struct ah_plan *program = &g.plan.programs[0];
        assert_int_equal(program->policy_numbers[program->n_policy_numbers - 1], cases[i].stage);
        for (size_t block = 0; block < program->n_blocks; block++)
            assert_int_equal(program->blocks[block].weights, cases[i].has);
        test_request_close(&g.t);
    }
}
