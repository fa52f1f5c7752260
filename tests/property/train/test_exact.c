/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise 1: plans of one numeric signature give the same losses and weights, bit for bit. Each signature is trained
 * once undisturbed with everything on the device, then under plans of every policy and plans whose blocks go through
 * every config. These run with one thread and with two. Lanes delay ops for random times, or until another lane begins
 * an op. To prove that the runs differ, traces must show every item of every plan, work on every lane, and lanes
 * working at the same time. All plans together must cover every config, policy, kind of op, ring and order. Below full
 * scale, some may be missing.
 */
#include "runtime/schedule/graph.h"
#include "tests/golden/train/policies.h"
#include "tests/property/train/traffic.h"
#include "tests/support/hooked.h"

#include "base/threads.h"
#include "tests/support/documents.h"

#include <inttypes.h>
#include <stdatomic.h>

enum { STEPS = 5, PLANS_EACH = 30, PLANS_LEAST = 40, BESIDE_LEAST = 10, HOLD_UP_NS = 200000, MEET_NAPS = 8 };

static struct golden golden;
static struct golden_result first, other;
static struct traffic traffic;

static uint64_t how_many(void)
{
    return check_scaled(PLANS_EACH);
}

static const uint32_t beside[][2] = {{AH_LANE_COMPUTE, AH_LANE_H2D},
                                     {AH_LANE_COMPUTE, AH_LANE_D2H},
                                     {AH_LANE_COMPUTE, AH_LANE_HOST},
                                     {AH_LANE_H2D, AH_LANE_D2H}};
enum { PAIRS = sizeof beside / sizeof *beside };

struct configs {
    bool of[AH_ACTIVATIONS_WAYS][AH_WEIGHTS_HOST + 1][AH_OPTIMIZER_NONE + 1][AH_ACCUMULATOR_HOST + 1];
};

static struct {
    struct configs possible, had;
    uint64_t policies[AH_POLICIES], ops[AH_PLAN_GATHER + 1], rings[AH_GRAPH_RINGS];
    uint64_t orders[AH_BLOCK_MAJOR + 1], clipped[2], threads[2], dtypes[2], plans, beside[PAIRS];
} seen;

static void see_config(struct configs *configs, uint8_t activations, uint8_t weights, uint8_t optimizer,
                       uint8_t accumulator)
{
    configs->of[activations][weights][optimizer][accumulator] = true;
}

static void see_possible(const struct golden *g)
{
    struct ah_config options[AH_CONFIGS_MAX];
    for (size_t group = 0; group < g->c.job.n_groups; group++) {
        size_t n = ah_configs(&g->c.job, &g->c.job.groups[group], options);
        for (size_t i = 0; i < n; i++)
            see_config(&seen.possible, options[i].activations, options[i].weights, options[i].optimizer,
                       options[i].accumulator);
    }
}

static void see_plan(const struct golden *g)
{
    const struct ah_plan *plan = g->options.plan;
    for (size_t i = 0; i < plan->n_blocks; i++)
        see_config(&seen.had, (uint8_t)plan->blocks[i].activations, (uint8_t)plan->blocks[i].weights,
                   (uint8_t)plan->blocks[i].optimizer, (uint8_t)plan->blocks[i].accumulator);
    seen.policies[plan->policy]++;
    seen.orders[plan->micro_batch_order] += plan->training.micro_batches > 1;
    seen.clipped[plan->training.clip > 0]++;
    seen.threads[g->options.device.compute_threads - 1]++;
    seen.dtypes[plan->training.dtype == AH_BF16]++;
    seen.rings[AH_GRAPH_HOST_GRADIENTS] += plan->staging.host_gradient_tiles > 0;
    seen.rings[AH_GRAPH_HOST_WEIGHTS] += plan->staging.host_weight_tiles > 0;
    seen.rings[AH_GRAPH_DEVICE_STATES] += plan->staging.device_state_tiles > 0;
    seen.plans++;
}

/* Checks that every item of the plan ran in every step, and counts what was covered. */
static void see_traffic(const struct golden *g, struct ah_trainer *trainer)
{
    struct ah_arena arena = {0};
    struct ah_graph graph;
    struct ah_error err = {0};
    CHECK_OK(ah_graph_read(g->options.plan, &arena, &graph, &err), err);
    uint64_t *ran = ah_arena_array(&arena, graph.n_items, sizeof *ran);
    assert_non_null(ran);
    traffic_read(&traffic, trainer);
    for (uint32_t lane = 0; lane < AH_DEVICE_LANES; lane++)
        for (size_t i = 0; i < traffic.n[lane]; i++)
            ran[traffic.spans[lane][i].tag]++;
    for (size_t i = 0; i < graph.n_items; i++) {
        const struct ah_plan_op *op = &g->options.plan->ops[graph.items[i].op];
        if (ran[i] < STEPS)
            fail_msg("'%s' of block %" PRIu64 " ran %" PRIu64 " times in %d steps", ah_words_plan_op[op->op],
                     op->block, ran[i], STEPS);
        seen.ops[op->op] += ran[i];
    }
    for (size_t i = 0; i < PAIRS; i++)
        seen.beside[i] += traffic_beside_ns(&traffic, beside[i][0], beside[i][1]) > 0;
    ah_arena_release(&arena);
}

static void expect_none_zero(const char *what, const uint64_t *counts, size_t n, uint64_t least)
{
    for (size_t i = 0; i < n; i++)
        if (counts[i] < least)
            fail_msg("%s %zu: had %" PRIu64 " times, at least %" PRIu64 " are needed", what, i, counts[i],
                     least);
}

#define EXPECT_ALL(counts, least) expect_none_zero(#counts, counts, sizeof(counts) / sizeof *(counts), least)

static void expect_all_seen(void)
{
    EXPECT_ALL(seen.policies, 1);
    EXPECT_ALL(seen.clipped, 1);
    EXPECT_ALL(seen.threads, 1);
    EXPECT_ALL(seen.dtypes, 1);
    EXPECT_ALL(seen.beside, how_many() < PLANS_EACH ? 1 : BESIDE_LEAST);
    if (how_many() < PLANS_EACH)
        return;
    EXPECT_ALL(seen.ops, 1);
    EXPECT_ALL(seen.rings, 1);
    EXPECT_ALL(seen.orders, 1);
    assert_true(seen.plans >= PLANS_LEAST);
    assert_memory_equal(&seen.had, &seen.possible, sizeof seen.had);
}

static atomic_uint_fast64_t held_up, begun[AH_DEVICE_LANES];

/* Delays one op in eight, chosen by its place in its lane. A few of these ops wait instead until another lane, which
 * must be seen working at the same time, has begun an op. Not every op can wait for that. */
static void hold_up(void *context, const struct hooked_op *op)
{
    const uint64_t *seed = context;
    uint64_t state = *seed + op->ticket * 8 + op->lane + 1;
    check_random(&state);
    const uint64_t kind = check_random(&state) % 64;
    atomic_fetch_add(&begun[op->lane], 1);
    if (kind > 7)
        return;
    atomic_fetch_add(&held_up, 1);
    ah_threads_sleep_until_ns(ah_threads_now_ns() + check_random(&state) % HOLD_UP_NS);
    if (kind >= PAIRS || (op->lane != beside[kind][0] && op->lane != beside[kind][1]))
        return;
    const uint32_t awaited = beside[kind][op->lane == beside[kind][0]];
    const uint64_t before = atomic_load(&begun[awaited]);
    for (int i = 0; i < MEET_NAPS && atomic_load(&begun[awaited]) == before; i++)
        ah_threads_sleep_until_ns(ah_threads_now_ns() + HOLD_UP_NS / 4);
}

/* Plans with the next config for each block and random knobs, so that plans go through all configs. */
static void plan_next(struct golden *g, uint64_t *turn, uint64_t *seed)
{
    golden_choose_next(g, turn);
    do {
        test_case_knobs(&g->c, seed);
        g->c.choice.knobs.tile_elements = AH_PLAN_TILE_UNIT;
    } while (!golden_plan(g));
}

static void expect_same(const struct golden *g)
{
    const char *policy = ah_words_policy[g->options.plan->policy];
    for (size_t i = 0; i < first.n_records; i++)
        if (memcmp(&first.records[i].loss, &other.records[i].loss, sizeof(double)) != 0)
            fail_msg("%s, '%s', plan %" PRIu64 ": loss of step %zu is %.17g, not %.17g", g->folder, policy,
                     seen.plans, i + 1, other.records[i].loss, first.records[i].loss);
    for (size_t i = 0; i < first.n_values; i++)
        if (memcmp(&first.weights[i], &other.weights[i], sizeof(float)) != 0)
            fail_msg("%s, '%s', plan %" PRIu64 ": weight %zu is %.9g, not %.9g", g->folder, policy,
                     seen.plans, i, (double)other.weights[i], (double)first.weights[i]);
}

static void run_plan(struct golden *g)
{
    g->options.device.compute_threads = 1 + (uint32_t)(seen.plans & 1);
    g->options.device.host_threads = 1 + (uint32_t)(seen.plans >> 1 & 1);
    struct ah_trainer *trainer = golden_start(g, &other);
    expect_same(g);
    see_plan(g);
    see_traffic(g, trainer);
    ah_trainer_close(trainer);
}

enum { GROUPS_MAX = 3 };

struct signature {
    const char *name;
    enum ah_dtype dtype, state_dtype;
    uint64_t sums[GROUPS_MAX]; /* none: the case's own micro-batches, in one group */
    bool splits;               /* the table is split */
};

static size_t count_groups(const struct signature *signature, uint64_t *ret_micro_batches)
{
    size_t n = 0;
    *ret_micro_batches = 0;
    while (n < GROUPS_MAX && signature->sums[n])
        *ret_micro_batches += signature->sums[n++];
    return n;
}

/* Checks that a single group gives different bits, except in bf16, where sums of a few gradients are exact. */
static void regroup(struct golden *g, uint64_t *sums, size_t n, uint64_t micro_batches)
{
    golden_regroup(g, micro_batches, NULL, 0);
    golden_plan_resident(g);
    ah_trainer_close(golden_start(g, &other));
    golden_regroup(g, micro_batches, sums, n);
    golden_plan_resident(g);
    ah_trainer_close(golden_start(g, &first));
    if (g->c.job.training.dtype == AH_FP32)
        assert_memory_not_equal(other.weights, first.weights, first.n_values * sizeof *first.weights);
}

static void run_signature(const struct signature *signature, const struct ah_machine *machine, uint64_t *seed)
{
    uint64_t turn[AH_BLOCK_HEAD + 1] = {0}, sums[GROUPS_MAX], micro_batches;
    const size_t n_sums = count_groups(signature, &micro_batches);
    memcpy(sums, signature->sums, sizeof sums);
    golden_open_as(&golden, signature->name, signature->dtype, signature->state_dtype);
    golden.steps = STEPS;
    if (n_sums)
        regroup(&golden, sums, n_sums, micro_batches);
    if (signature->splits)
        golden_split(&golden);
    golden_plan_resident(&golden);
    uint64_t resident_bytes = golden.options.plan->memory.device_bytes;
    see_possible(&golden);
    ah_trainer_close(golden_start(&golden, &first));

    hooked_set(&(struct hooked_hooks){.before = hold_up, .context = seed});
    golden.options.driver = hooked_driver();
    golden.options.device.spans = TRAFFIC_SPANS;
    for (int policy = 0; policy < AH_POLICIES; policy++) {
        const struct golden_asked tight = {(enum ah_policy)policy, resident_bytes * 2 / 3};
        const struct golden_asked wide = {(enum ah_policy)policy, 0};
        if (golden_plan_policy(&golden, machine, tight) || golden_plan_policy(&golden, machine, wide))
            run_plan(&golden);
    }
    for (uint64_t i = 0; i < how_many(); i++) {
        plan_next(&golden, turn, seed);
        run_plan(&golden);
    }
    golden_close(&golden);
}

TEST(exact, plans_give_the_same_bits_on_lanes_held_up)
{
    static const struct signature signatures[] = {{"gpt2-untied-odd", AH_FP32, AH_FP32, {0}, false},
                                                  {"gpt2-frozen-table", AH_BF16, AH_FP32, {0}, false},
                                                  {"llama-linear", AH_FP32, AH_FP32, {0}, false},
                                                  {"llama-frozen-below", AH_BF16, AH_FP32, {0}, false},
                                                  {"mistral-documents", AH_BF16, AH_BF16, {0}, false},
                                                  {"qwen2-frozen-tensors", AH_FP32, AH_FP32, {0}, false},
                                                  {"gpt2-untied-odd", AH_FP32, AH_FP32, {1, 3, 2}, false},
                                                  {"llama-linear", AH_BF16, AH_FP32, {2, 2}, false},
                                                  {"gpt2", AH_FP32, AH_FP32, {1, 3}, true},
                                                  {"qwen2", AH_BF16, AH_BF16, {0}, true},
                                                  {"qwen3-lora", AH_FP32, AH_FP32, {0}, false},
                                                  {"gpt2-lora", AH_BF16, AH_FP32, {0}, false},
                                                  {"llama-lora", AH_BF16, AH_FP32, {0}, false}};
    uint64_t seed = check_seed(40);
    struct ah_document machine;
    load_document(&machine, "examples/machines/rtx4090-64g.json", AH_DOCUMENT_MACHINE);
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++)
        run_signature(&signatures[i], machine.body.machine, &seed);
    ah_document_release(&machine);
    print_message("%" PRIu64 " plans; beside each other in %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64
                  " of them; %" PRIu64 " ops held up\n",
                  seen.plans, seen.beside[0], seen.beside[1], seen.beside[2], seen.beside[3],
                  (uint64_t)atomic_load(&held_up));
    expect_all_seen();
}
