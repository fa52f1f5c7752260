/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that a run learns. A small llama is trained on text from this project (tests/golden/text), byte by byte, for
 * 200 steps. In fp32 the losses and held-out losses match PyTorch's in double. In bf16 they stay close to those in
 * fp32.
 */
#include "tests/golden/train/case.h"

#include <math.h>

enum { STEPS = 200 };

/* Tolerances of fp32 against double. */
#define FP32_LOSS     2e-4
#define FP32_HELD_OUT 2e-4
/* Tolerances of bf16 against fp32: for a step's loss, the mean absolute difference and the held-out loss. */
#define BF16_LOSS     0.06
#define BF16_MEAN     0.01
#define BF16_HELD_OUT 0.03

static struct golden golden;
static struct golden_result fp32, bf16;

struct learned {
    double held_out[STEPS + 1]; /* before the first step, then at each evaluation */
    size_t n;
};

/* Makes a plan in which weights come from the host and states stay on the host. */
static void plan_offloaded(struct golden *g)
{
    for (size_t block = 0; block < g->c.job.n_blocks; block++)
        g->c.configs[block] = (struct ah_config){.activations = AH_ACTIVATIONS_KEEP,
                                                 .weights = AH_WEIGHTS_HOST,
                                                 .optimizer = AH_OPTIMIZER_HOST,
                                                 .accumulator = AH_ACCUMULATOR_DEVICE};
    g->c.choice.knobs =
        (struct ah_knobs){.tile_elements = AH_PLAN_TILE_UNIT, .fetch_ahead = 1, .send_behind = 1};
    assert_true(golden_plan(g));
}

static void learn(enum ah_dtype dtype, struct golden_result *result, struct learned *learned)
{
    const struct ah_observer observer = {.step = golden_keep_record, .context = result};
    struct ah_dataset *held_out;
    struct ah_trainer *trainer;
    struct ah_error err = {0};
    golden_open_folder(&golden, "tests/golden/text", dtype, AH_FP32);
    golden_open_dataset(&golden, "valid", &held_out);
    assert_int_equal(golden.steps, STEPS);
    uint64_t every = (uint64_t)golden_number(&golden, "every");
    plan_offloaded(&golden);
    CHECK_OK(ah_trainer_open(&trainer, &golden.options, &err), err);
    result->n_records = learned->n = 0;
    learned->held_out[learned->n++] = golden_loss_of(&golden, trainer, held_out);
    while (result->n_records < STEPS) {
        CHECK_OK(ah_trainer_run(trainer, every, &observer, &err), err);
        learned->held_out[learned->n++] = golden_loss_of(&golden, trainer, held_out);
    }
    ah_trainer_close(trainer);
    ah_dataset_close(held_out);
    golden_close(&golden);
}

static size_t read_expected(const char *text, const char *key, double ret_values[STEPS + 1])
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\": [", key);
    const char *at = strstr(text, quoted);
    assert_non_null(at);
    at += strlen(quoted);
    for (size_t n = 0;;) {
        char *end;
        assert_true(n <= STEPS);
        ret_values[n++] = strtod(at, &end);
        assert_true(end > at && (*end == ',' || *end == ']'));
        if (*end == ']')
            return n;
        at = end + 1;
    }
}

/* Checks that the arrays agree within `tolerance`. Returns the mean absolute difference. */
static double expect_near(const char *what, const double *values, const double *expected, size_t n,
                          double tolerance)
{
    double sum = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        double apart = fabs(values[i] - expected[i]);
        if (!(apart <= tolerance))
            fail_msg("%s %zu: %.9g, expected %.9g within %g", what, i, values[i], expected[i], tolerance);
        sum += apart;
        most = fmax(most, apart);
    }
    print_message("%s: at most %.2e apart, %.2e in the mean\n", what, most, sum / (double)n);
    return sum / (double)n;
}

static void losses_of(const struct golden_result *result, double ret_losses[STEPS])
{
    for (size_t i = 0; i < STEPS; i++)
        ret_losses[i] = result->records[i].loss;
}

TEST(learning, is_that_of_pytorch_and_bf16_follows)
{
    static struct learned learned, narrow;
    static double expected[STEPS + 1], losses[STEPS], narrow_losses[STEPS];
    struct ah_buffer text = {0};
    struct ah_error err = {0};
    CHECK_OK(ah_file_read("tests/golden/text/expected.json", 1 << 20, &text, &err), err);
    ah_buffer_append(&text, "", 1);
    learn(AH_FP32, &fp32, &learned);
    losses_of(&fp32, losses);
    assert_int_equal(read_expected(text.data, "losses", expected), STEPS);
    expect_near("loss in fp32", losses, expected, STEPS, FP32_LOSS);
    assert_int_equal(read_expected(text.data, "held_out", expected), learned.n);
    expect_near("held-out loss in fp32", learned.held_out, expected, learned.n, FP32_HELD_OUT);
    for (size_t i = 1; i < learned.n; i++)
        assert_true(learned.held_out[i] < learned.held_out[i - 1]);

    learn(AH_BF16, &bf16, &narrow);
    losses_of(&bf16, narrow_losses);
    assert_true(expect_near("loss in bf16", narrow_losses, losses, STEPS, BF16_LOSS) < BF16_MEAN);
    expect_near("held-out loss in bf16", narrow.held_out, learned.held_out, learned.n, BF16_HELD_OUT);
    ah_buffer_release(&text);
}
