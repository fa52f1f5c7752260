/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests what the trainer on the CPU device guarantees besides its numbers.
 */
#include "base/threads.h"
#include "runtime/schedule/graph.h"
#include "tests/golden/train/case.h"
#include "tests/support/hooked.h"

#include <stdatomic.h>

static struct golden golden;
static struct golden_result first, other;

static void expect_equal(const struct golden_result *a, const struct golden_result *b)
{
    for (size_t i = 0; i < a->n_records; i++)
        if (memcmp(&a->records[i].loss, &b->records[i].loss, sizeof(double)) != 0)
            fail_msg("step %zu: %.17g, %.17g", i + 1, a->records[i].loss, b->records[i].loss);
    assert_memory_equal(a->weights, b->weights, a->n_values * sizeof *a->weights);
}

/* Arenas are as large as planned, and no memory beyond them is touched. The device arena is touched up to its end. */
TEST(trainer, touches_what_the_plan_gives)
{
    uint64_t seed = check_seed(3);
    for (int i = 0; i < 12; i++) {
        struct ah_trainer *trainer;
        struct ah_error err = {0};
        golden_open(&golden, i % 2 ? "gpt2-untied-odd" : "qwen3", i % 3 ? AH_BF16 : AH_FP32);
        golden_plan_random(&golden, &seed);
        CHECK_OK(ah_trainer_open(&trainer, &golden.options, &err), err);
        struct ah_trainer_facts facts = ah_trainer_facts(trainer);
        const struct ah_plan_memory *memory = &golden.options.plan->memory;
        assert_int_equal(facts.arena_bytes[AH_ARENA_DEVICE], memory->device_bytes);
        assert_int_equal(facts.arena_bytes[AH_ARENA_PAGEABLE], memory->pageable_bytes);
        assert_true(facts.arena_bytes[AH_ARENA_PINNED] >= memory->pinned_bytes);
        for (int arena = AH_ARENA_DEVICE; arena < AH_ARENA_KINDS; arena++)
            assert_true(facts.touched_bytes[arena] <= facts.arena_bytes[arena]);
        assert_true(memory->device_bytes - facts.touched_bytes[AH_ARENA_DEVICE] < AH_LAYOUT_ALIGN);
        ah_trainer_close(trainer);
        golden_close(&golden);
    }
}

/* The loss is equal under every plan, and evaluation changes no weights. */
TEST(trainer, evaluates_between_steps)
{
    static const char *const names[] = {"gpt2", "llama-masked", "mistral-documents", "qwen3"};
    uint64_t seed = check_seed(11);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct ah_error err = {0};
        struct ah_trainer *trainer;
        double expected = 0;
        golden_open(&golden, names[i], AH_FP32);
        golden_plan_resident(&golden);
        ah_trainer_close(golden_start(&golden, &first));
        for (int plan = 0; plan < 4; plan++) {
            const struct ah_observer observer = {.step = golden_keep_record, .context = &other};
            other.n_records = 0;
            if (plan)
                golden_plan_random(&golden, &seed);
            CHECK_OK(ah_trainer_open(&trainer, &golden.options, &err), err);
            CHECK_OK(ah_trainer_run(trainer, 7, &observer, &err), err);
            double loss = golden_held_out_loss(&golden, trainer);
            expected = plan ? expected : loss;
            assert_memory_equal(&loss, &expected, sizeof loss);
            CHECK_OK(ah_trainer_run(trainer, golden.steps - 7, &observer, &err), err);
            golden_read(&golden, trainer, AH_TRAINER_WEIGHTS, other.weights, &other.n_values);
            expect_equal(&first, &other);
            assert_true(golden_held_out_loss(&golden, trainer) < expected);
            ah_trainer_close(trainer);
        }
        golden_close(&golden);
    }
}

static bool stop_at_third(void *context, const struct ah_step_record *record)
{
    golden_keep_record(context, record);
    return record->step < 3;
}

TEST(trainer, stops_when_told_and_goes_on)
{
    struct ah_error err = {0};
    struct ah_trainer *trainer;
    const struct ah_observer stopping = {.step = stop_at_third, .context = &other},
                             going = {.step = golden_keep_record, .context = &other};
    golden_open(&golden, "llama", AH_FP32);
    golden_plan_resident(&golden);
    ah_trainer_close(golden_start(&golden, &first));
    other.n_records = 0;
    CHECK_OK(ah_trainer_open(&trainer, &golden.options, &err), err);
    CHECK_OK(ah_trainer_run(trainer, golden.steps, &stopping, &err), err);
    assert_true(other.n_records >= 3 && other.n_records <= 5);
    assert_int_equal(ah_trainer_facts(trainer).steps, other.n_records);
    CHECK_OK(ah_trainer_run(trainer, golden.steps - other.n_records, &going, &err), err);
    golden_read(&golden, trainer, AH_TRAINER_WEIGHTS, other.weights, &other.n_values);
    assert_int_equal(other.n_records, golden.steps);
    expect_equal(&first, &other);
    ah_trainer_close(trainer);
    golden_close(&golden);
}

/* Copies weights and moments to another trainer, which has another plan and continues the run. */
static void copy_vectors(struct golden *g, struct ah_trainer *from, struct ah_trainer *to)
{
    static float values[GOLDEN_VALUES_MAX];
    struct ah_error err = {0};
    for (uint64_t block = 0; block < g->c.job.n_blocks; block++) {
        const struct ah_job_group *group = ah_job_block(&g->c.job, block);
        struct ah_flat flat = ah_flat_of(&g->c.model, group->kind, group->trained);
        for (size_t i = 0; i < flat.n; i++)
            for (int vector = AH_TRAINER_WEIGHTS; vector <= AH_TRAINER_V; vector++) {
                const struct ah_weights_piece piece = {.block = block,
                                                       .tensor = i,
                                                       .element = flat.tensors[i].first,
                                                       .n = flat.tensors[i].elements};
                if (vector != AH_TRAINER_WEIGHTS && !flat.tensors[i].trained)
                    continue;
                CHECK_OK(ah_trainer_read(from, (enum ah_trainer_vector)vector, &piece, values, &err), err);
                CHECK_OK(ah_trainer_write(to, (enum ah_trainer_vector)vector, &piece, values, &err), err);
            }
    }
}

TEST(trainer, goes_on_under_another_plan)
{
    uint64_t seed = check_seed(5);
    for (int i = 0; i < 8; i++) {
        struct ah_error err = {0};
        struct ah_trainer *before, *after;
        struct ah_document plan;
        const struct ah_observer observer = {.step = golden_keep_record, .context = &other};
        golden_open(&golden, i % 2 ? "qwen2-frozen-tensors" : "gpt2-frozen-table",
                    i % 4 < 2 ? AH_FP32 : AH_BF16);
        golden_plan_resident(&golden);
        ah_trainer_close(golden_start(&golden, &first));
        golden_plan_random(&golden, &seed);
        plan = golden.plan;
        golden.is_planned = false;
        other.n_records = 0;
        CHECK_OK(ah_trainer_open(&before, &golden.options, &err), err);
        CHECK_OK(ah_trainer_run(before, 9, &observer, &err), err);
        golden_plan_random(&golden, &seed);
        golden.options.steps_before = 9;
        CHECK_OK(ah_trainer_open(&after, &golden.options, &err), err);
        copy_vectors(&golden, before, after);
        ah_trainer_close(before);
        CHECK_OK(ah_trainer_run(after, golden.steps - 9, &observer, &err), err);
        golden_read(&golden, after, AH_TRAINER_WEIGHTS, other.weights, &other.n_values);
        expect_equal(&first, &other);
        ah_trainer_close(after);
        ah_document_release(&plan);
        golden_close(&golden);
    }
}

/* Slow lanes and more threads change which op waits, but not the bits. */
TEST(trainer, is_exact_with_slow_lanes)
{
    uint64_t seed = check_seed(17);
    golden_open(&golden, "gpt2-untied-odd", AH_FP32);
    golden.steps = 8;
    golden_plan_resident(&golden);
    ah_trainer_close(golden_start(&golden, &first));
    for (int i = 0; i < 12; i++) {
        golden_plan_random(&golden, &seed);
        golden.options.device.compute_threads = 1 + (uint32_t)(i & 1);
        golden.options.device.host_threads = 1 + (uint32_t)(i >> 1 & 1);
        golden.options.device.throttle =
            (struct ah_device_throttle){.h2d_bytes_per_s = 3e7 + 3e8 * check_uniform(&seed),
                                        .d2h_bytes_per_s = 3e7 + 3e8 * check_uniform(&seed),
                                        .copy_latency_us = 50 * check_uniform(&seed),
                                        .host_adam_params_per_s = 1e7 + 1e8 * check_uniform(&seed)};
        ah_trainer_close(golden_start(&golden, &other));
        expect_equal(&first, &other);
    }
    golden_close(&golden);
}

/* Every lane has worked. The links moved the plan's bytes and the trainer's own numbers. */
TEST(trainer, records_lanes)
{
    uint64_t planned[2] = {0};
    golden_open(&golden, "llama", AH_FP32);
    golden_plan_resident(&golden);
    for (size_t block = 0; block < golden.c.job.n_blocks; block++)
        golden.c.configs[block].optimizer = AH_OPTIMIZER_HOST;
    golden.c.choice.knobs.send_behind = 2;
    assert_true(golden_plan(&golden));
    ah_trainer_close(golden_start(&golden, &first));
    const struct ah_plan *plan = golden.options.plan;
    for (size_t i = 0; i < plan->n_ops; i++)
        planned[plan->ops[i].lane == AH_PLAN_LANE_H2D] += plan->ops[i].bytes;
    for (size_t i = 1; i < first.n_records; i++) {
        const struct ah_step_record *record = &first.records[i];
        assert_true(record->d2h_bytes >= planned[0] && record->d2h_bytes < planned[0] + 4096);
        assert_true(record->h2d_bytes >= planned[1] && record->h2d_bytes < planned[1] + 16384);
        for (int lane = 0; lane < AH_DEVICE_LANES; lane++)
            assert_true(record->busy_ns[lane] > 0);
        assert_true(record->end_ns >= first.records[i - 1].end_ns);
        assert_true(record->grad_norm > 0);
    }
    golden_close(&golden);
}

/* Delays the last gradients of each round of the plan until the norm of the round has begun. */
struct overtaking {
    const struct ah_graph *graph;
    const struct ah_plan *plan;
    uint64_t sends, sent; /* gradient items in a round, and how many of them were sent */
    atomic_uint_fast64_t norms;
    bool late;
};

static enum ah_plan_op_kind kind_of(const struct overtaking *overtaking, const struct hooked_op *op)
{
    bool of_plan = op->tag < overtaking->graph->n_items;
    return of_plan ? overtaking->plan->ops[overtaking->graph->items[op->tag].op].op : AH_PLAN_OP_KINDS;
}

static void hold_gradients(void *context, const struct hooked_op *op)
{
    enum { NAPS_MOST = 30000, NAP_NS = 500000 };
    struct overtaking *overtaking = context;
    enum ah_plan_op_kind kind = kind_of(overtaking, op);
    if (kind == AH_PLAN_NORM)
        atomic_fetch_add(&overtaking->norms, 1);
    if (kind != AH_PLAN_SEND_GRADIENTS || ++overtaking->sent % overtaking->sends || overtaking->late)
        return;
    int naps = 0;
    for (; naps < NAPS_MOST && atomic_load(&overtaking->norms) < overtaking->sent / overtaking->sends; naps++)
        ah_threads_sleep_until_ns(ah_threads_now_ns() + NAP_NS);
    overtaking->late = naps == NAPS_MOST;
}

/* Squares are copied down before the last gradients, so the norm does not wait for these gradients. */
TEST(trainer, sums_overtake_gradients)
{
    struct ah_arena arena = {0};
    struct ah_graph graph;
    struct ah_error err = {0};
    struct ah_trainer *trainer;
    golden_open(&golden, "llama", AH_FP32);
    golden.c.job.training.clip = 1;
    golden_plan_resident(&golden);
    for (size_t block = 0; block < golden.c.job.n_blocks; block++)
        golden.c.configs[block].optimizer = AH_OPTIMIZER_HOST;
    golden.c.choice.knobs.send_behind = 2;
    assert_true(golden_plan(&golden));
    CHECK_OK(ah_graph_read(golden.options.plan, &arena, &graph, &err), err);
    struct overtaking overtaking = {.graph = &graph, .plan = golden.options.plan};
    for (size_t i = 0; i < graph.n_items; i++)
        overtaking.sends += golden.options.plan->ops[graph.items[i].op].op == AH_PLAN_SEND_GRADIENTS;
    hooked_set(&(struct hooked_hooks){.before = hold_gradients, .context = &overtaking});
    golden.options.driver = hooked_driver();
    CHECK_OK(ah_trainer_open(&trainer, &golden.options, &err), err);
    const struct ah_observer observer = {.step = golden_keep_record, .context = &other};
    other.n_records = 0;
    CHECK_OK(ah_trainer_run(trainer, 6, &observer, &err), err);
    ah_trainer_close(trainer);
    assert_int_equal(overtaking.sent, 6 * overtaking.sends);
    assert_int_equal(atomic_load(&overtaking.norms), 6);
    assert_false(overtaking.late);
    ah_arena_release(&arena);
    golden_close(&golden);
}

TEST(trainer, refuses_other_models_and_data)
{
    struct ah_error err = {0};
    struct ah_trainer *trainer;
    golden_open(&golden, "llama", AH_FP32);
    golden_plan_resident(&golden);
    golden.model.body.model->mlp_width += 8;
    CHECK_FAILS(ah_trainer_open(&trainer, &golden.options, &err), err, AH_E_MISMATCH, "plan");
    golden.model.body.model->mlp_width -= 8;
    golden.batches.options.seq++;
    CHECK_FAILS(ah_trainer_open(&trainer, &golden.options, &err), err, AH_E_MISMATCH, "sequences");
    golden.batches.options.seq--;
    golden.options.device.memory_bytes = golden.options.plan->memory.device_bytes - 1;
    CHECK_FAILS(ah_trainer_open(&trainer, &golden.options, &err), err, AH_E_CAPACITY, "device memory");
    golden_close(&golden);
}
