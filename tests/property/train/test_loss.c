/* SPDX-License-Identifier: Apache-2.0
 *
 * The loss of a step is a sum of doubles, one per micro-batch, added from the left in micro-batch order; a held-out
 * loss sums all micro-batches of all batches. One process and pipelines are compared with sums made here.
 *
 * Few losses show the order of additions: leaves are fp32, and doubles add a few of them exactly. So the test replaces
 * the device's sums, op by op, with sums of numbers for which any other order gives another double. It searches for
 * these numbers first.
 */
#include "tests/property/train/pipeline.h"
#include "tests/support/hooked.h"

#include <inttypes.h>

enum { STEPS = 3, LEAVES = 3, EVALUATED_LEAST = 2, SEARCHES = 10000 };

static struct golden golden;
static struct pipeline pipeline;

/* Replaces the device's sums. The n-th sum has these leaves. Only the head's lane uses this. */
static struct {
    uint64_t seed, n;
    double last;
} sums;

static double leaf(uint64_t seed, uint64_t n, uint64_t i)
{
    uint64_t state = seed + n * LEAVES + i;
    return (double)(check_random(&state) >> 11) * 0x1p-50;
}

static double leaves_onto(double sum, uint64_t seed, uint64_t n)
{
    for (uint64_t i = 0; i < LEAVES; i++)
        sum += leaf(seed, n, i);
    return sum;
}

static void replace_sum(void *context, const struct hooked_op *op)
{
    (void)context;
    if (op->op->kind != AH_OP_SUM)
        return;
    const struct ah_ref *dst = &op->op->arg[0];
    sums.last = leaves_onto(op->op->u.sum.accumulate ? sums.last : 0, sums.seed, sums.n++);
    memcpy(op->arenas[dst->arena] + dst->offset_bytes, &sums.last, sizeof sums.last);
}

static double fold(uint64_t seed, uint64_t first, uint64_t n)
{
    double sum = leaves_onto(0, seed, first);
    for (uint64_t i = 1; i < n; i++)
        sum += leaves_onto(0, seed, first + i);
    return sum;
}

/* Sums `n` values in other orders: leaf by leaf, from the right, and batch by batch. */
static double run_on(uint64_t seed, uint64_t first, uint64_t n)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum = leaves_onto(sum, seed, first + i);
    return sum;
}

static double fold_back(uint64_t seed, uint64_t first, uint64_t n)
{
    double sum = leaves_onto(0, seed, first + n - 1);
    for (uint64_t i = n - 1; i-- > 0;)
        sum += leaves_onto(0, seed, first + i);
    return sum;
}

static double fold_batches(uint64_t seed, uint64_t first, uint64_t n, uint64_t micro_batches)
{
    double sum = 0;
    for (uint64_t at = 0; at < n; at += micro_batches)
        sum += fold(seed, first + at, micro_batches);
    return sum;
}

static bool differ(double a, double b)
{
    return memcmp(&a, &b, sizeof a) != 0;
}

/* True if every other order gives a different sum, both in the first step and held out. */
static bool tells(uint64_t seed, uint64_t micro_batches, uint64_t evaluated)
{
    const uint64_t before = STEPS * micro_batches;
    const double step = fold(seed, 0, micro_batches), held_out = fold(seed, before, evaluated);
    return differ(step, run_on(seed, 0, micro_batches)) &&
           (micro_batches == 2 || differ(step, fold_back(seed, 0, micro_batches))) &&
           differ(held_out, fold_batches(seed, before, evaluated, micro_batches));
}

static uint64_t search(uint64_t *seed, uint64_t micro_batches, uint64_t evaluated)
{
    for (int i = 0; i < SEARCHES; i++) {
        const uint64_t found = check_random(seed);
        if (tells(found, micro_batches, evaluated))
            return found;
    }
    fail_msg("no numbers show the order of %" PRIu64 " micro-batches", micro_batches);
    return 0;
}

static bool check_step(void *context, const struct ah_step_record *record)
{
    const uint64_t *micro_batches = context;
    const double expected =
        fold(sums.seed, (record->step - 1) * *micro_batches, *micro_batches) / (double)record->tokens;
    if (differ(record->loss, expected))
        fail_msg("%" PRIu64 " micro-batches, step %" PRIu64 ": loss %.17g, not %.17g", *micro_batches,
                 record->step, record->loss, expected);
    return true;
}

static int train(void *context, struct ah_trainer *trainer, struct ah_batches *held_out, struct ah_error *err)
{
    uint64_t micro_batches = golden.c.job.training.micro_batches;
    const struct ah_observer observer = {.step = check_step, .context = &micro_batches};
    struct ah_trainer_evaluation *evaluation = context;
    int rc = ah_trainer_run(trainer, STEPS, &observer, err);
    return rc ? rc : ah_trainer_evaluate(trainer, held_out, NULL, evaluation, err);
}

static void expect_held_out(const struct ah_trainer_evaluation *evaluation, uint64_t evaluated)
{
    const uint64_t before = STEPS * golden.c.job.training.micro_batches;
    const double expected = fold(sums.seed, before, evaluated) / (double)evaluation->tokens;
    assert_int_equal(sums.n, before + evaluated);
    if (differ(evaluation->loss, expected))
        fail_msg("%" PRIu64 " micro-batches: held-out loss %.17g, not %.17g",
                 golden.c.job.training.micro_batches, evaluation->loss, expected);
}

static void run_alone(struct ah_batches *held_out, uint64_t evaluated)
{
    struct ah_trainer_evaluation evaluation = {0};
    struct ah_error err = {0};
    struct ah_trainer *trainer;
    sums.n = 0;
    golden_plan_resident(&golden);
    CHECK_OK(ah_trainer_open(&trainer, &golden.options, &err), err);
    CHECK_OK(train(&evaluation, trainer, held_out, &err), err);
    expect_held_out(&evaluation, evaluated);
    ah_trainer_close(trainer);
}

static void run_pipeline(uint64_t evaluated, uint64_t *turn, uint64_t *seed)
{
    struct ah_trainer_evaluation evaluation = {0};
    sums.n = 0;
    pipeline_open(&pipeline, &golden, 0, turn, seed);
    pipeline_run(&pipeline, &(struct ah_comm_hub_options){.poisons = true}, train, &evaluation);
    pipeline_expect_ok(&pipeline);
    expect_held_out(&evaluation, evaluated);
    pipeline_close(&pipeline);
}

static void run_case(struct golden_batch batch, uint64_t *seed)
{
    uint64_t turn[AH_BLOCK_HEAD + 1] = {0};
    struct ah_batches held_out;
    struct ah_error err = {0};
    golden_open_batch(&golden, "tests/golden/train/llama-linear", AH_FP32, AH_FP32, batch);
    golden.options.driver = hooked_driver();
    CHECK_OK(ah_batches_init(&held_out,
                             &(struct ah_batches_options){.data = golden.data,
                                                          .seq = golden.c.job.training.seq,
                                                          .batch = batch.batch,
                                                          .held_out = true},
                             &err),
             err);
    const uint64_t batches = ah_batches_steps(&held_out), evaluated = batches * batch.micro_batches;
    assert_true(batches >= EVALUATED_LEAST);
    sums.seed = search(seed, batch.micro_batches, evaluated);
    run_alone(&held_out, evaluated);
    run_pipeline(evaluated, turn, seed);
    ah_batches_release(&held_out);
    golden_close(&golden);
}

/* A header of 128 bytes holds seven losses. */
TEST(loss, is_that_of_each_micro_batch_in_their_order)
{
    static const struct golden_batch batches[] = {{2, 2}, {7, 7}, {8, 8}, {10, 5}, {16, 16}};
    uint64_t seed = check_seed(112);
    hooked_set(&(struct hooked_hooks){.after = replace_sum});
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
        run_case(batches[i], &seed);
    hooked_set(&(struct hooked_hooks){0});
}
