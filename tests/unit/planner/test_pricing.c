/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares costs on the example machines with hand calculations, and tests the messages for missing numbers.
 */
#include "planner/cost/pricing.h"

#include "runtime/schedule/flat.h"
#include "runtime/schedule/program.h"
#include "tests/property/schedule/jobs.h"
#include "tests/support/documents.h"

#include <math.h>

struct pricing_case {
    struct test_job job;
    struct ah_document machine;
    struct ah_costs costs;
    struct ah_error err;
};

static void open_case(struct pricing_case *c, const char *machine, const char *model, enum ah_dtype dtype,
                      uint64_t micro_batches)
{
    memset(c, 0, sizeof *c);
    load_example(&c->machine, AH_DOCUMENT_MACHINE, machine);
    test_job_open(
        &c->job, model,
        (struct ah_plan_training){
            .batch = 8, .micro_batches = micro_batches, .seq = 1024, .dtype = dtype, .state_dtype = AH_FP32});
}

static int fill(struct pricing_case *c)
{
    return ah_pricing_fill(c->machine.body.machine, &c->job.job, NULL, &c->job.arena, &c->costs, &c->err);
}

static void close_case(struct pricing_case *c)
{
    test_job_close(&c->job);
    ah_document_release(&c->machine);
}

TEST(pricing, links_and_updates)
{
    struct pricing_case c;
    open_case(&c, "rtx4090-64g", "llama-2-7b", AH_BF16, 1);
    CHECK_OK(fill(&c), c.err);
    check_near(c.costs.h2d_latency_us, 8, 0);
    check_near(c.costs.h2d_us_per_byte * 25e9, 1e6, 1e-12);
    check_near(c.costs.d2h_us_per_byte * 26.2e9, 1e6, 1e-12);
    check_near(c.costs.host_adam_us * 2.15e9, 1e6, 1e-12);
    check_near(c.costs.device_adam_us * 29e9, 1e6, 1e-12);
    /* Accumulating reads a bf16 gradient and reads and writes an fp32 sum, at 67 GB/s and at 29 G x 28 B. */
    check_near(c.costs.host_accumulate_us * 67e9, 10e6, 1e-9);
    check_near(c.costs.device_accumulate_us * 29e9 * 28, 10e6, 1e-9);
    check_near(c.costs.device_squares_us * 29e9 * 28, 2e6, 1e-9);
    check_near(c.costs.host_us_per_byte * 67e9, 2e6, 1e-9);
    check_near(c.costs.norm_us, 16, 1e-12);
    assert_int_equal(c.costs.threads.compute, 0);
    assert_int_equal(c.costs.threads.host, 16);
    assert_false(c.costs.has_threads);
    assert_true(c.costs.estimated);
    close_case(&c);
}

/* Sums of micro-batches are fp32, so updates move 30 bytes a parameter, not the measured 28. With fp32 weights: 28. */
TEST(pricing, updates_by_the_bytes_they_move)
{
    struct pricing_case c;
    open_case(&c, "rtx4090-64g", "llama-2-7b", AH_BF16, 4);
    CHECK_OK(fill(&c), c.err);
    check_near(c.costs.host_adam_us * 2.15e9 * 28, 30e6, 1e-9);
    check_near(c.costs.device_adam_us * 29e9 * 28, 30e6, 1e-9);
    check_near(c.costs.host_squares_us * 67e9, 4e6, 1e-9);
    close_case(&c);
    open_case(&c, "rtx4090-64g", "llama-2-7b", AH_FP32, 1);
    CHECK_OK(fill(&c), c.err);
    check_near(c.costs.host_adam_us * 2.15e9, 1e6, 1e-9);
    close_case(&c);
}

/* If only one product was measured, all products have its rate. Attention has 1/2 and 2/5 of that rate. */
TEST(pricing, block_times_by_hand)
{
    struct pricing_case c;
    open_case(&c, "h200-16c-128g", "llama-2-7b", AH_BF16, 1);
    CHECK_OK(fill(&c), c.err);
    const struct ah_job_group *layer = test_job_group(&c.job.job, AH_BLOCK_LAYER);
    struct ah_program_step steps[AH_PROGRAM_STEPS_MAX];
    for (int pass = AH_PASS_FORWARD; pass <= AH_PASS_BACKWARD; pass++) {
        double expected_us = 0;
        size_t n = ah_program_steps(&c.job.job, layer, (enum ah_pass)pass, AH_ACTIVATIONS_SELECTIVE, steps);
        for (size_t i = 0; i < n; i++) {
            double share = steps[i].kind == AH_STEP_MATMUL ? 1 : steps[i].backward ? 0.4 : 0.5;
            double flops_us =
                steps[i].kind == AH_STEP_POINTWISE ? 0 : steps[i].flops / (780e12 * share) * 1e6;
            expected_us += fmax(flops_us, (double)steps[i].moved_bytes / (138e9 * 28) * 1e6);
        }
        const struct ah_cost_group *cost = &c.costs.groups[layer - c.job.job.groups];
        double us = pass == AH_PASS_FORWARD ? cost->forward_us : cost->backward_us[AH_ACTIVATIONS_SELECTIVE];
        check_near(us / expected_us, 1, 1e-9);
    }
    /* At 780 TFLOP/s, 8192 tokens through matrices of 202 M parameters take 4.24 ms. Attention comes on top. */
    check_near(c.costs.groups[layer - c.job.job.groups].forward_us / 4700, 1, 0.08);
    close_case(&c);
}

TEST(pricing, more_recomputation_takes_longer)
{
    struct pricing_case c;
    for (size_t i = 0; i < TEST_MODELS; i++) {
        open_case(&c, "a100-40g-epyc7713", test_models[i], AH_BF16, 1);
        CHECK_OK(fill(&c), c.err);
        for (size_t g = 0; g < c.job.job.n_groups; g++) {
            const struct ah_cost_group *cost = &c.costs.groups[g];
            assert_true(cost->forward_us > 0);
            if (c.job.job.groups[g].kind != AH_BLOCK_LAYER)
                continue;
            assert_true(cost->backward_us[0] > 1.7 * cost->forward_us &&
                        cost->backward_us[0] < 2.5 * cost->forward_us);
            assert_true(cost->backward_us[1] > cost->backward_us[0]);
            assert_true(cost->backward_us[1] < 1.2 * cost->backward_us[0]);
            assert_true(cost->backward_us[2] > cost->backward_us[0] + 0.5 * cost->forward_us);
            assert_true(cost->backward_us[2] <= cost->backward_us[0] + 1.001 * cost->forward_us);
        }
        close_case(&c);
    }
}

/* A measured shape has its own rate. A shape between two of them has a rate between, closer to that of the nearer. */
TEST(pricing, rates_of_near_shapes)
{
    struct pricing_case c;
    open_case(&c, "a100-40g-epyc7713", "llama-2-7b", AH_BF16, 1);
    struct ah_machine *machine = c.machine.body.machine;
    const struct ah_job_group *layer = test_job_group(&c.job.job, AH_BLOCK_LAYER);
    size_t g = (size_t)(layer - c.job.job.groups);
    machine->n_matmul = 2;
    machine->matmul[0].m = 8192, machine->matmul[0].n = 12288, machine->matmul[0].k = 4096; /* llama's qkv */
    machine->matmul[1].m = 16, machine->matmul[1].n = 16, machine->matmul[1].k = 16;
    machine->matmul[1].flops_per_s.median = 1e9;
    CHECK_OK(fill(&c), c.err);
    double with_small = c.costs.groups[g].forward_us;
    machine->n_matmul = 1;
    CHECK_OK(fill(&c), c.err);
    double without = c.costs.groups[g].forward_us;
    assert_true(with_small > without);
    assert_true(with_small < 30 * without); /* at 1 GFLOP/s it would be 265000 times */
    close_case(&c);
}

TEST(pricing, faster_parts_never_cost_more)
{
    static const char *const machines[] = {"a100-40g-epyc7713", "rtx4090-64g", "h200-16c-128g"};
    uint64_t random = check_seed(9);
    for (int i = 0; i < 60; i++) {
        struct pricing_case c;
        open_case(&c, machines[i % 3], i % 2 ? "gpt-2b" : "qwen3-0.6b", AH_BF16, 1 + (uint64_t)(i % 2));
        struct ah_machine *machine = c.machine.body.machine;
        CHECK_OK(fill(&c), c.err);
        struct ah_costs before = c.costs;
        double *rates[] = {&machine->matmul[check_random(&random) % machine->n_matmul].flops_per_s.median,
                           &machine->links[check_random(&random) % 2].bytes_per_s.median,
                           &machine->adam[check_random(&random) % machine->n_adam].params_per_s.median,
                           &machine->memory[0].bytes_per_s.median};
        double *rate = rates[check_random(&random) % 4];
        *rate = i % 4 ? *rate * (1 + check_uniform(&random)) : nextafter(*rate, INFINITY);
        CHECK_OK(fill(&c), c.err);
        const double *old = &before.h2d_latency_us, *new = &c.costs.h2d_latency_us;
        for (size_t k = 0; k <= (size_t)(&before.norm_us - old); k++)
            assert_true(new[k] <= old[k]);
        for (size_t g = 0; g < c.job.job.n_groups; g++) {
            assert_true(c.costs.groups[g].forward_us <= before.groups[g].forward_us);
            for (int way = 0; way < AH_ACTIVATIONS_WAYS; way++)
                assert_true(c.costs.groups[g].backward_us[way] <= before.groups[g].backward_us[way]);
        }
        assert_int_equal(c.costs.sharing.n_resources,
                         before.sharing.n_resources); /* the sharing does not depend on rates */
        for (size_t r = 0; r < before.sharing.n_resources; r++)
            assert_true(c.costs.sharing.resources[r].demand[AH_PLAN_LANE_H2D] ==
                        before.sharing.resources[r].demand[AH_PLAN_LANE_H2D]);
        close_case(&c);
    }
}

TEST(pricing, names_what_is_missing)
{
    static const struct {
        const char *part;
        size_t matmul, links, adam;
        bool bf16;
    } cases[] = {{"'matmul' has no bf16 product", 0, 2, 2, true},
                 {"'links' has no h2d", 3, 0, 2, true},
                 {"'links' has no d2h", 3, 1, 2, true},
                 {"'adam' has no entry for the host", 3, 2, 0, true},
                 {"'adam' has no entry for the device", 3, 2, 1, true},
                 {"'device.bf16' is false", 3, 2, 2, false}};
    const struct ah_plan_threads threads = {0, 64};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pricing_case c;
        open_case(&c, "a100-40g-epyc7713", "gpt2-124m", AH_BF16, 1);
        struct ah_machine *machine = c.machine.body.machine;
        machine->n_matmul = cases[i].matmul;
        machine->n_links = cases[i].links;
        machine->n_adam = cases[i].adam;
        machine->device.bf16 = cases[i].bf16;
        CHECK_FAILS(ah_pricing_fill(machine, &c.job.job, &threads, &c.job.arena, &c.costs, &c.err), c.err,
                    AH_E_DOCUMENT, cases[i].part);
        check_text_has(c.err.text, "'a100-40g-epyc7713'");
        check_text_has(c.err.text, cases[i].bf16 ? "autohete profile" : "--dtype fp32");
        close_case(&c);
    }
}

/* Makes a CPU with products and host Adam measured on 1, 2, 4, ... threads. */
TEST(pricing, splits_cores)
{
    struct ah_machine_matmul matmul[4] = {0};
    struct ah_machine_adam adam[4] = {0};
    struct ah_machine machine = {.name = "cpu",
                                 .matmul = matmul,
                                 .n_matmul = 4,
                                 .adam = adam,
                                 .n_adam = 4,
                                 .device.kind = AH_DEVICE_CPU};
    struct ah_plan_threads splits[AH_PRICING_SPLITS_MAX];
    for (uint64_t i = 0; i < 4; i++) {
        matmul[i] = (struct ah_machine_matmul){.threads = UINT64_C(1) << i, .flops_per_s.median = 1e9};
        adam[i] = (struct ah_machine_adam){
            .side = AH_HOST, .threads = UINT64_C(1) << i, .params_per_s.median = 1e9};
    }
    machine.host.cores = 8;
    assert_int_equal(ah_pricing_thread_splits(&machine, splits, AH_PRICING_SPLITS_MAX), 3);
    static const uint64_t expected[][2] = {{4, 4}, {2, 4}, {1, 4}};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(splits[i].compute, expected[i][0]);
        assert_int_equal(splits[i].host, expected[i][1]);
    }
    assert_int_equal(ah_pricing_thread_splits(&machine, splits, 1), 1);
    machine.host.cores = 1;
    assert_int_equal(ah_pricing_thread_splits(&machine, splits, AH_PRICING_SPLITS_MAX), 1);
    assert_int_equal(splits[0].compute + splits[0].host, 2);
    machine.n_adam = 0;
    assert_int_equal(ah_pricing_thread_splits(&machine, splits, AH_PRICING_SPLITS_MAX), 0);
    machine.n_adam = 4;
    machine.device.kind = AH_DEVICE_CUDA;
    machine.host.cores = 8;
    adam[2].params_per_s.median = 2e9;
    assert_int_equal(ah_pricing_thread_splits(&machine, splits, AH_PRICING_SPLITS_MAX), 1);
    assert_int_equal(splits[0].compute, 0);
    assert_int_equal(splits[0].host, 4);
    adam[3].params_per_s.median = 4e9; /* updates are fastest on all cores, but one core must enqueue */
    assert_int_equal(ah_pricing_thread_splits(&machine, splits, AH_PRICING_SPLITS_MAX), 1);
    assert_int_equal(splits[0].host, 4);
    adam[0] = adam[3]; /* nothing else was measured */
    machine.n_adam = 1;
    assert_int_equal(ah_pricing_thread_splits(&machine, splits, AH_PRICING_SPLITS_MAX), 1);
    assert_int_equal(splits[0].host, 8);
}

/* On a CPU, the rates of a lane are those measured with as many threads as the lane has. */
TEST(pricing, rates_of_a_split)
{
    struct pricing_case c;
    open_case(&c, "rtx4090-64g", "tiny", AH_FP32, 1);
    struct ah_machine machine = *c.machine.body.machine;
    struct ah_machine_matmul matmul[2] = {0};
    struct ah_machine_adam adam[3] = {0};
    struct ah_machine_memory memory[2] = {0};
    for (uint64_t i = 0; i < 2; i++) {
        matmul[i] = (struct ah_machine_matmul){.dtype = AH_FP32,
                                               .form = AH_MATMUL_NT,
                                               .m = 512,
                                               .n = 512,
                                               .k = 512,
                                               .threads = i + 1,
                                               .flops_per_s.median = 50e9 * (double)(i + 1)};
        adam[i] = (struct ah_machine_adam){
            .side = AH_HOST, .threads = i + 1, .params_per_s.median = 0.3e9 * (double)(i + 1)};
        memory[i] = (struct ah_machine_memory){AH_MEMORY_SCALE, i + 1, {.median = 10e9 * (double)(i + 1)}};
    }
    adam[2] = (struct ah_machine_adam){.side = AH_DEVICE, .threads = 2, .params_per_s.median = 0.5e9};
    machine.device.kind = AH_DEVICE_CPU;
    machine.matmul = matmul, machine.n_matmul = 2;
    machine.adam = adam, machine.n_adam = 3;
    machine.memory = memory, machine.n_memory = 2;
    double forward_us[2];
    for (uint64_t compute = 1; compute <= 2; compute++) {
        const struct ah_plan_threads threads = {compute, 3 - compute};
        CHECK_OK(ah_pricing_fill(&machine, &c.job.job, &threads, &c.job.arena, &c.costs, &c.err), c.err);
        assert_true(c.costs.has_threads);
        check_near(c.costs.host_adam_us * 0.3e9 * (double)threads.host, 1e6, 1e-9);
        check_near(c.costs.host_accumulate_us * 10e9 * (double)threads.host, 12e6, 1e-9);
        check_near(c.costs.device_accumulate_us * 10e9 * (double)compute, 12e6, 1e-9);
        forward_us[compute - 1] = c.costs.groups[1].forward_us;
    }
    check_near(forward_us[0] / forward_us[1], 2, 1e-9);
    close_case(&c);
}

/* Measured times of groups on `threads` threads: forward is 10 us plus its number, backward 100, 200 or 300 us more. */
struct measured {
    struct ah_machine_block blocks[8];
    struct ah_machine_backward backward[8][AH_ACTIVATIONS_WAYS];
    char digests[8][AH_SHA256_HEX_MAX];
};

static void measure_groups(struct measured *measured, struct pricing_case *c, uint64_t threads)
{
    struct ah_machine *machine = c->machine.body.machine;
    for (size_t g = 0; g < c->job.job.n_groups; g++) {
        const struct ah_job_group *group = &c->job.job.groups[g];
        CHECK_OK(ah_program_digest(&c->job.job, group, measured->digests[g], &c->err), c->err);
        for (int way = 0; way < AH_ACTIVATIONS_WAYS; way++)
            measured->backward[g][way] = (struct ah_machine_backward){
                (enum ah_activations)way, {.n = 3, .median = 110.0 + (double)g + 100.0 * way}};
        measured->blocks[g] = (struct ah_machine_block){.program_sha256 = measured->digests[g],
                                                        .threads = threads,
                                                        .forward_us = {.n = 3, .median = 10.0 + (double)g},
                                                        .backward = measured->backward[g],
                                                        .n_backward = group->kind == AH_BLOCK_LAYER  ? 3
                                                                      : group->kind == AH_BLOCK_HEAD ? 0
                                                                                                     : 1};
    }
    machine->blocks = measured->blocks;
    machine->n_blocks = c->job.job.n_groups;
}

TEST(pricing, takes_measured_blocks)
{
    struct pricing_case c;
    struct measured measured;
    open_case(&c, "rtx4090-64g", "mistral-7b", AH_BF16, 2);
    measure_groups(&measured, &c, 0);
    CHECK_OK(fill(&c), c.err);
    assert_false(c.costs.estimated);
    for (size_t g = 0; g < c.job.job.n_groups; g++) {
        const struct ah_cost_group *cost = &c.costs.groups[g];
        enum ah_block_kind kind = c.job.job.groups[g].kind;
        assert_true(cost->forward_us == 10.0 + (double)g);
        for (int way = 0; way < AH_ACTIVATIONS_WAYS; way++) {
            bool has = kind == AH_BLOCK_LAYER || (kind == AH_BLOCK_EMBEDDING && !way);
            assert_true(cost->backward_us[way] == (has ? 110.0 + (double)g + 100.0 * way : 0));
        }
    }
    close_case(&c);
}

/* A measured block is ignored, and its times estimated, in three cases: another number of threads, another program, or
 * a missing config that plans may choose. Other blocks keep their measured times. */
TEST(pricing, estimates_what_was_not_measured)
{
    struct pricing_case c;
    struct measured measured;
    open_case(&c, "rtx4090-64g", "tiny", AH_BF16, 1);
    CHECK_OK(fill(&c), c.err);
    size_t layer = (size_t)(test_job_group(&c.job.job, AH_BLOCK_LAYER) - c.job.job.groups);
    struct ah_cost_group estimated = c.costs.groups[layer];
    for (int change = 0; change < 4; change++) {
        measure_groups(&measured, &c, 0);
        struct ah_machine_block *block = &measured.blocks[layer];
        block->threads = change == 0 ? 4 : 0;
        measured.digests[layer][7] = change == 1 ? 'x' : measured.digests[layer][7];
        block->n_backward = change == 2 ? 2 : 3;
        block->forward_us.median = change == 3 ? 0 : block->forward_us.median;
        CHECK_OK(fill(&c), c.err);
        assert_true(c.costs.estimated);
        assert_memory_equal(&c.costs.groups[layer], &estimated, sizeof estimated);
        assert_true(c.costs.groups[0].forward_us == 10);
    }
    close_case(&c);
}

/* Returns the number of ops in a layer's pass. Backward includes padding the layer's gradient. */
static uint64_t ops_of(const struct pricing_case *c, const struct ah_job_group *layer, enum ah_pass pass)
{
    struct ah_program_step steps[AH_PROGRAM_STEPS_MAX];
    const struct ah_flat flat = ah_flat_of(c->job.job.model, layer->kind, layer->trained);
    uint64_t ops = 0;
    for (size_t i = 0, n = ah_program_steps(&c->job.job, layer, pass, AH_ACTIVATIONS_KEEP, steps); i < n; i++)
        ops += steps[i].times;
    for (size_t i = 0; i < flat.n; i++)
        ops += pass == AH_PASS_BACKWARD && flat.tensors[i].elements % 128;
    return ops;
}

/* Launches set the time of a pass only if they are slow. Measured blocks keep their times. */
TEST(pricing, passes_are_launched)
{
    struct pricing_case c;
    struct measured measured;
    struct ah_metric launch_us = {.n = 10, .median = 1e5, .min = 1e5, .max = 1e5};
    open_case(&c, "rtx4090-64g", "tiny", AH_BF16, 1);
    struct ah_machine *machine = c.machine.body.machine;
    const struct ah_job_group *layer = test_job_group(&c.job.job, AH_BLOCK_LAYER);
    size_t g = (size_t)(layer - c.job.job.groups);
    assert_int_equal(layer->parameters % 128, 0);
    CHECK_OK(fill(&c), c.err);
    struct ah_cost_group before = c.costs.groups[g];
    assert_true(c.costs.launch_us == 0);
    assert_int_equal(before.update_ops, 4);
    machine->launch_us = &launch_us;
    CHECK_OK(fill(&c), c.err);
    assert_true(c.costs.launch_us == 1e5);
    assert_true(c.costs.groups[g].forward_us == 1e5 * (double)ops_of(&c, layer, AH_PASS_FORWARD));
    assert_true(c.costs.groups[g].backward_us[AH_ACTIVATIONS_KEEP] ==
                1e5 * (double)ops_of(&c, layer, AH_PASS_BACKWARD));
    assert_true(c.costs.groups[g].backward_us[AH_ACTIVATIONS_RECOMPUTE] >
                c.costs.groups[g].backward_us[AH_ACTIVATIONS_KEEP]);
    launch_us.median = 1e-3;
    CHECK_OK(fill(&c), c.err);
    assert_memory_equal(&c.costs.groups[g], &before, sizeof before);
    launch_us.median = 1e5;
    measure_groups(&measured, &c, 0);
    CHECK_OK(fill(&c), c.err);
    assert_true(c.costs.groups[g].forward_us == 10.0 + (double)g);
    assert_int_equal(c.costs.groups[g].update_ops, 4);
    close_case(&c);
}

static const struct ah_plan_resource *find_resource(const struct ah_costs *costs, const char *name)
{
    for (size_t i = 0; i < costs->sharing.n_resources; i++)
        if (!strcmp(costs->sharing.resources[i].name, name))
            return &costs->sharing.resources[i];
    return NULL;
}

/* Compute may use all cores if blocks were measured on all cores. Other lanes take a share of the same cores. */
TEST(pricing, all_cores_for_compute)
{
    struct pricing_case c;
    struct ah_plan_threads splits[AH_PRICING_SPLITS_MAX];
    struct measured measured;
    open_case(&c, "rtx4090-64g", "tiny", AH_BF16, 1);
    struct ah_machine *machine = c.machine.body.machine;
    machine->device.kind = AH_DEVICE_CPU;
    machine->host.cores = 4;
    for (size_t i = 0; i < machine->n_matmul; i++)
        machine->matmul[i].threads = i % 2 ? 4 : 2;
    for (size_t i = 0; i < machine->n_adam; i++)
        machine->adam[i].threads = 1;
    assert_int_equal(ah_pricing_thread_splits(machine, splits, AH_PRICING_SPLITS_MAX), 1);
    CHECK_OK(fill(&c), c.err);
    assert_null(find_resource(&c.costs, "all_cores"));
    measure_groups(&measured, &c, 4);
    assert_int_equal(ah_pricing_thread_splits(machine, splits, AH_PRICING_SPLITS_MAX), 2);
    assert_true(splits[0].compute == 4 && splits[0].host == 1);
    assert_true(splits[1].compute == 2 && splits[1].host == 1);
    CHECK_OK(fill(&c), c.err);
    assert_false(c.costs.estimated);
    const struct ah_plan_resource *cores = find_resource(&c.costs, "all_cores");
    assert_true(cores && cores->demand[AH_PLAN_LANE_COMPUTE] == 1 &&
                cores->demand[AH_PLAN_LANE_HOST] == 0.25 && cores->demand[AH_PLAN_LANE_H2D] == 0.25);
    close_case(&c);
}

/* If a machine emulates another, its lanes sleep. So its lanes never compete for memory, whatever `beside` says. */
TEST(pricing, emulated_lanes_do_not_meet_in_memory)
{
    for (int emulates = 0; emulates < 2; emulates++) {
        struct pricing_case c;
        bool in_memory = false, in_link = false;
        open_case(&c, "rtx4090-64g", "tiny", AH_BF16, 1);
        c.machine.body.machine->emulates = emulates ? "another" : NULL;
        CHECK_OK(fill(&c), c.err);
        for (size_t i = 0; i < c.costs.sharing.n_resources; i++) {
            const struct ah_plan_resource *resource = &c.costs.sharing.resources[i];
            in_memory = in_memory || !strcmp(resource->name, "host_dram");
            in_link = in_link || (!strcmp(resource->name, "link") && resource->demand[AH_PLAN_LANE_H2D] > 0 &&
                                  resource->demand[AH_PLAN_LANE_D2H] > 0);
        }
        assert_int_equal(in_memory, !emulates);
        assert_true(in_link || in_memory);
        close_case(&c);
    }
}

static double demand_of(const struct ah_costs *costs, const char *name, enum ah_plan_lane lane)
{
    for (size_t i = 0; i < costs->sharing.n_resources; i++)
        if (!strcmp(costs->sharing.resources[i].name, name))
            return costs->sharing.resources[i].demand[lane];
    return -1;
}

/* Prices the job of one of `gpus` equal GPUs. */
static void fill_shared(struct pricing_case *c, uint64_t gpus)
{
    const struct ah_plan_part part = {
        .blocks = ah_model_blocks(c->job.document.body.model), .tp = 1, .stages = 1, .shards = gpus};
    const struct ah_plan_training training = c->job.job.training;
    CHECK_OK(
        ah_job_init_part(&c->job.job, c->job.document.body.model, &training, &part, &c->job.arena, &c->err),
        c->err);
    CHECK_OK(fill(c), c->err);
}

/* By hand: host Adam is G times as slow and keeps its part of the memory; copies take G times as much of it, and are
 * slower if that is more than all. */
TEST(pricing, equal_gpus_share_the_host)
{
    static const uint64_t numbers[] = {2, 4, 16};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct pricing_case one, shared;
        const double gpus = (double)numbers[i];
        open_case(&one, "rtx4090-64g", "llama-2-7b", AH_BF16, 2);
        open_case(&shared, "rtx4090-64g", "llama-2-7b", AH_BF16, 2);
        CHECK_OK(fill(&one), one.err);
        fill_shared(&shared, numbers[i]);
        const double copy = demand_of(&one.costs, "host_dram", AH_PLAN_LANE_H2D);
        assert_true(copy > 0);
        check_near(shared.costs.host_adam_us, gpus * one.costs.host_adam_us, 1e-12);
        check_near(shared.costs.host_accumulate_us, gpus * one.costs.host_accumulate_us, 1e-12);
        check_near(shared.costs.device_adam_us, one.costs.device_adam_us, 0);
        check_near(demand_of(&shared.costs, "host_dram", AH_PLAN_LANE_HOST),
                   demand_of(&one.costs, "host_dram", AH_PLAN_LANE_HOST), 1e-12);
        check_near(demand_of(&shared.costs, "host_dram", AH_PLAN_LANE_H2D), fmin(1, gpus * copy), 1e-12);
        check_near(shared.costs.h2d_us_per_byte, one.costs.h2d_us_per_byte * fmax(1, gpus * copy), 1e-12);
        check_near(shared.costs.groups[1].forward_us, one.costs.groups[1].forward_us, 0);
        ah_pricing_fabric(shared.machine.body.machine, 50e9, &shared.costs);
        check_near(shared.costs.net_us_per_byte * 50e9, 1e6, 1e-12);
        check_near(shared.costs.net_latency_us, 8, 0);
        check_near(shared.costs.norm_us, one.costs.norm_us + 16, 1e-12);
        close_case(&one);
        close_case(&shared);
    }
}

static void make_cpu(struct ah_machine *machine)
{
    machine->device.kind = AH_DEVICE_CPU;
    machine->host.cores = 4;
    for (size_t i = 0; i < machine->n_matmul; i++)
        machine->matmul[i].threads = 2;
    for (size_t i = 0; i < machine->n_adam; i++)
        machine->adam[i].threads = 1;
}

/* Ranks on one CPU have its cores divided by their number. */
TEST(pricing, equal_ranks_share_the_cores)
{
    struct pricing_case one, shared;
    open_case(&one, "rtx4090-64g", "tiny", AH_FP32, 2);
    open_case(&shared, "rtx4090-64g", "tiny", AH_FP32, 2);
    make_cpu(one.machine.body.machine);
    make_cpu(shared.machine.body.machine);
    CHECK_OK(fill(&one), one.err);
    assert_int_equal(one.costs.threads.compute, 2);
    fill_shared(&shared, 4); /* 4 x 2 threads of compute on 4 cores; 4 x 1 threads of the host fit */
    check_near(shared.costs.groups[1].forward_us, 2 * one.costs.groups[1].forward_us, 1e-12);
    check_near(shared.costs.device_adam_us, 2 * one.costs.device_adam_us, 1e-12);
    check_near(demand_of(&shared.costs, "all_cores", AH_PLAN_LANE_COMPUTE), 1, 0);
    check_near(demand_of(&shared.costs, "all_cores", AH_PLAN_LANE_HOST), 1, 0);
    close_case(&one);
    close_case(&shared);
}
