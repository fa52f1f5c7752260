/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the trainer on the CUDA plugin. Losses and weights are close to the CPU device's, and all plans give equal
 * bits. The cases are the golden cases with which the CPU device is compared with PyTorch.
 *
 * Tolerances are needed because sums in products, attention, norms and loss have another order. In bf16, a sum between
 * two numbers may round the other way. AdamW divides by a root of squares, so the sign of a step is noise if the
 * gradient is only rounding noise. A weight may be off by some steps of the rate, so weights are compared as vectors.
 */
#define CHECK_CUDA 1
#include "tests/golden/train/case.h"
#include "tests/support/driver.h"

#include <math.h>

enum { STEPS = 5 };
/* The largest number of plans of each case. Sanitizers make a training slow. */
#if defined(__SANITIZE_ADDRESS__)
enum { PLANS_MAX = 1, PLANS_MIN = 6 };
#else
enum { PLANS_MAX = 4, PLANS_MIN = 20 };
#endif

static const struct {
    const char *name;
    enum ah_dtype dtype;
    int plans;
} runs[] = {
    {"gpt2", AH_FP32, 4},
    {"llama-masked", AH_BF16, 4},
    {"qwen3", AH_BF16, 4},
    {"llama-padding", AH_FP32, 3},
    {"llama-biases", AH_FP32, 3},
    {"mistral-documents", AH_BF16, 3},
    {"gpt2-untied-odd", AH_FP32, 4},
};

static struct golden golden;
static struct golden_result cpu, first, other;

static void run_golden(const struct ah_device_driver *driver, struct golden_result *result)
{
    golden.options.driver = driver;
    ah_trainer_close(golden_start(&golden, result));
}

static void expect_equal(const struct golden_result *a, const struct golden_result *b, const char *name)
{
    for (size_t i = 0; i < a->n_records; i++)
        if (memcmp(&a->records[i].loss, &b->records[i].loss, sizeof(double)) != 0)
            fail_msg("%s, step %zu: %.17g, %.17g", name, i + 1, a->records[i].loss, b->records[i].loss);
    assert_memory_equal(a->weights, b->weights, a->n_values * sizeof *a->weights);
}

/* Returns |a - b| / |b| for two vectors. */
static double distance(const float *a, const float *b, size_t n)
{
    double apart = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        apart += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(apart / size);
}

static void expect_near(const struct golden_result *a, const struct golden_result *b, enum ah_dtype dtype,
                        const char *name)
{
    const double of_loss = dtype == AH_BF16 ? 4e-3 : 2e-5, of_weights = dtype == AH_BF16 ? 2e-2 : 2e-4;
    const double of_gradient = dtype == AH_BF16 ? 2e-2 : 1e-5;
    for (size_t i = 0; i < b->n_records; i++)
        if (!(fabs(a->records[i].loss - b->records[i].loss) <= of_loss * b->records[i].loss))
            fail_msg("%s, step %zu: a loss of %.9g, the CPU device's is %.9g", name, i + 1,
                     a->records[i].loss, b->records[i].loss);
    const double gradient = distance(a->gradients, b->gradients, b->n_values);
    const double weights = distance(a->weights, b->weights, b->n_values);
    if (!(gradient <= of_gradient && weights <= of_weights))
        fail_msg("%s: the first gradient is %.3g off, the weights are %.3g off", name, gradient, weights);
    assert_true(weights > 0 || gradient > 0 || dtype == AH_FP32); /* shows that another device computed it */
}

TEST(trainer, gives_the_same_bits_by_every_plan)
{
    const struct ah_device_driver *cuda = check_driver();
    uint64_t seed = check_seed(41);
    int plans = 0;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        golden_open(&golden, runs[i].name, runs[i].dtype);
        golden.steps = STEPS;
        golden_plan_resident(&golden);
        run_golden(ah_device_cpu(), &cpu);
        run_golden(cuda, &first);
        expect_near(&first, &cpu, runs[i].dtype, runs[i].name);
        for (int plan = 0; plan < runs[i].plans && plan < PLANS_MAX; plan++, plans++) {
            golden_plan_random(&golden, &seed);
            run_golden(cuda, &other);
            expect_equal(&first, &other, runs[i].name);
        }
        golden_close(&golden);
    }
    assert_true(plans >= PLANS_MIN);
}
