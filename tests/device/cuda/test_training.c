/* SPDX-License-Identifier: Apache-2.0
 *
 * Trains through the plugin while one call of the CUDA runtime fails: for each name, the first call or a middle one.
 * The trainer must report the fault, or else give the bits of a run without the fault.
 */
#include "tests/device/cuda/open.h"
#include "tests/golden/train/case.h"

enum { STEPS = 2, CALLS_MAX = 128 };
/* Sanitizers make a training slow. Under them, only every EVERY-th name fails. */
#if defined(__SANITIZE_THREAD__)
enum { EVERY = 12 };
#elif defined(__SANITIZE_ADDRESS__)
enum { EVERY = 4 };
#else
enum { EVERY = 1 };
#endif

static struct golden golden;
static struct golden_result expected, got;

static void be_plain(void)
{
    const struct cuda_double settings = cuda_double_default();
    cuda_double_set(&settings);
}

static int train(struct golden_result *result, struct ah_error *err)
{
    const struct ah_observer observer = {.step = golden_keep_record, .context = result};
    struct ah_trainer *trainer;
    result->n_records = 0;
    int rc = ah_trainer_open(&trainer, &golden.options, err);
    if (rc)
        return rc;
    rc = ah_trainer_run(trainer, STEPS, &observer, err);
    ah_trainer_close(trainer);
    return rc;
}

/* True if the call frees something. If such a call fails, what it should have freed stays allocated. */
static bool gives_back(const char *call)
{
    return strstr(call, "Free") || strstr(call, "Destroy") || strstr(call, "destroy");
}

static void expect_same_losses(const char *call, uint64_t nth)
{
    assert_int_equal(got.n_records, STEPS);
    for (size_t i = 0; i < STEPS; i++)
        if (memcmp(&got.records[i].loss, &expected.records[i].loss, sizeof(double)) != 0)
            fail_msg("call %d of %s: step %zu has a loss of %.17g, not %.17g", (int)nth, call, i + 1,
                     got.records[i].loss, expected.records[i].loss);
}

/* Makes one call fail. Returns true if the trainer reported the fault. */
static bool fail_one(const char *call, uint64_t nth, cudaError_t code)
{
    const struct cuda_double_alive before = cuda_double_alive();
    struct ah_error err = {0};
    char report[CUDA_DOUBLE_REPORT_MAX];
    be_plain();
    cuda_double_fail(call, nth, code);
    const int rc = train(&got, &err);
    const struct cuda_double_alive after = cuda_double_alive();
    cuda_double_report(report);
    if (!rc)
        expect_same_losses(call, nth);
    if (rc && (err.code != rc || strlen(err.text) <= 20))
        fail_msg("call %d of %s: code %d, '%s'", (int)nth, call, err.code, err.text);
    if (cuda_double_misuses())
        fail_msg("call %d of %s: %s", (int)nth, call, report);
    if (!gives_back(call) && memcmp(&before, &after, sizeof before) != 0)
        fail_msg("call %d of %s: something is left behind", (int)nth, call);
    return rc != AH_OK;
}

/* Makes a call of each name fail in turn: a middle call if `middle`, otherwise the first. */
static void fail_some(cudaError_t code, bool middle)
{
    static struct {
        const char *name;
        uint64_t n;
    } calls[CALLS_MAX];
    struct ah_error err = {0};
    unsigned n = 0, all = 0, told = 0;
    be_plain();
    CHECK_OK(train(&expected, &err), err);
    for (const char *name; (name = cuda_double_called(n)); n++) {
        assert_true(n < CALLS_MAX);
        calls[n].name = name;
        calls[n].n = cuda_double_calls(name);
    }
    for (unsigned i = 0; i < n; i += EVERY)
        if (strcmp(calls[i].name, "cudaHostUnregister") != 0) { /* its failure keeps memory locked */
            all++;
            told += fail_one(calls[i].name, middle ? (calls[i].n + 1) / 2 : 1, code);
        }
    assert_true(n > 30 && told > all / 3);
}

static int open_golden(void **state)
{
    uint64_t seed = 7;
    (void)state;
    golden_open(&golden, "gpt2", AH_FP32);
    golden.options.driver = ah_plugin_driver();
    golden.options.device.queue = 8;
    golden.c.job.training.clip = 1;
    golden_plan_random(&golden, &seed);
    return 0;
}

static int close_golden(void **state)
{
    (void)state;
    golden_close(&golden);
    return 0;
}

TEST_IN(training, survives_calls_that_fail, open_golden, close_golden)
{
    fail_some(cudaErrorInvalidValue, false);
    fail_some(cudaErrorInvalidValue, true);
}

TEST_IN(training, survives_the_loss_of_the_gpu, open_golden, close_golden)
{
    fail_some(cudaErrorLaunchFailure, true);
}

/* The error names the step, the op and the block. */
TEST_IN(training, names_step_op_and_block, open_golden, close_golden)
{
    struct ah_error err = {0};
    be_plain();
    CHECK_OK(train(&expected, &err), err);
    const uint64_t launches = cuda_double_calls("cudaLaunchKernel");
    be_plain();
    cuda_double_fail("cudaLaunchKernel", launches, cudaErrorLaunchOutOfResources);
    assert_int_equal(train(&got, &err), AH_E_FAILED);
    check_text_has(err.text, "after step ");
    check_text_has(err.text, "' of block '");
    check_text_has(err.text, "' on lane 'compute': ");
}
