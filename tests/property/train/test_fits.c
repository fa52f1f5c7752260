/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise 2: a run touches only what its plan gives it. Plans run while poison.h overwrites all memory that they do not
 * declare as used. Losses, weights and held-out loss must not change. Every operand is in a tensor alive at that time,
 * and the highest end of an operand is the planned peak.
 */
#include "tests/golden/train/case.h"
#include "tests/property/train/poison.h"

static struct golden golden;
static struct golden_result first, other;

enum { STEPS = 4 };

static uint64_t how_many(void)
{
    return check_scaled(30);
}

static struct {
    uint64_t born[AH_TENSOR_LABELS], given[AH_GRAPH_RINGS];
} seen;

static void see(const struct poison *poison)
{
    for (int i = 0; i < AH_TENSOR_LABELS; i++)
        seen.born[i] += atomic_load(&poison->born[i]);
    for (int i = 0; i < AH_GRAPH_RINGS; i++)
        seen.given[i] += atomic_load(&poison->given[i]);
}

/* Checks that every kind of tensor with a limited lifetime has appeared. */
static void expect_all_seen(void)
{
    static const enum ah_tensor_label passing[] = {
        AH_TENSOR_FETCHED,          AH_TENSOR_INPUT, AH_TENSOR_SAVED,
        AH_TENSOR_GRADIENT,         AH_TENSOR_SUM,   AH_TENSOR_SCRATCH,
        AH_TENSOR_RESIDUAL_GRADIENT};
    for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
        if (!seen.born[passing[i]])
            fail_msg("no tensor of label %d was born", (int)passing[i]);
    for (size_t i = 0; i < AH_GRAPH_RINGS; i++)
        if (!seen.given[i])
            fail_msg("nothing was given back to ring %zu", i);
}

static void expect_same(const struct golden *g, double held_out, double expected)
{
    for (size_t i = 0; i < first.n_records; i++)
        if (memcmp(&first.records[i].loss, &other.records[i].loss, sizeof(double)) != 0)
            fail_msg("%s: loss of step %zu is %.17g, not %.17g", g->folder, i + 1, other.records[i].loss,
                     first.records[i].loss);
    assert_memory_equal(first.weights, other.weights, first.n_values * sizeof *first.weights);
    assert_memory_equal(&held_out, &expected, sizeof expected);
}

static void run_poisoned(struct golden *g, double expected)
{
    struct poison poison;
    const struct ah_plan *plan = g->options.plan;
    poison_open(&poison, g->options.model, plan);
    hooked_set(&(struct hooked_hooks){
        .submit = poison_submit, .before = poison_before, .after = poison_after, .context = &poison});
    struct ah_trainer *trainer = golden_start(g, &other);
    expect_same(g, golden_held_out_loss(g, trainer), expected);
    assert_string_equal(poison.wrong, "");
    assert_true(poison.checked > 0 && poison.touched_bytes <= plan->memory.device_bytes);
    assert_true(plan->memory.device_bytes - poison.touched_bytes < AH_LAYOUT_ALIGN);
    ah_trainer_close(trainer);
    see(&poison);
    poison_close(&poison);
}

TEST(fits, what_nobody_needs_may_be_anything)
{
    static const struct {
        const char *name;
        enum ah_dtype dtype;
    } cases[] = {{"gpt2-untied-odd", AH_BF16},      {"gpt2-frozen-table", AH_FP32},
                 {"llama-linear", AH_FP32},         {"llama-frozen-below", AH_BF16},
                 {"mistral-documents", AH_BF16},    {"qwen2", AH_FP32},
                 {"qwen2-frozen-tensors", AH_BF16}, {"qwen3", AH_FP32}};
    uint64_t seed = check_seed(3);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        golden_open(&golden, cases[i].name, cases[i].dtype);
        golden.steps = STEPS;
        golden_plan_resident(&golden);
        struct ah_trainer *trainer = golden_start(&golden, &first);
        double expected = golden_held_out_loss(&golden, trainer);
        ah_trainer_close(trainer);
        golden.options.driver = hooked_driver();
        run_poisoned(&golden, expected);
        for (uint64_t plan = 0; plan < how_many(); plan++) {
            golden_plan_random(&golden, &seed);
            run_poisoned(&golden, expected);
        }
        golden_close(&golden);
    }
    expect_all_seen();
}
