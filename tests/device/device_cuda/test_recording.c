/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests recording the kernels and copies of a training. Losses are unchanged, and every op of a stream has activities,
 * each within its op's span. With a GPU's plugin in AUTOHETE_PLUGIN_DIR, this also tests CUPTI itself.
 */
#define CHECK_CUDA 1
#include "tests/golden/train/case.h"
#include "tests/support/driver.h"

enum { STEPS = 3, OPS_MAX = 1 << 16 };

/* The clocks of events and of CUPTI agree within this time. */
static const uint64_t CLOCK_NS = 2000 * 1000;

static struct golden golden;
static struct golden_result expected, got;

/* Ops as the training's observer saw them. */
static struct {
    struct ah_op_record ops[OPS_MAX];
    size_t n;
} heard;

static void keep_op(void *context, const struct ah_op_record *record)
{
    (void)context;
    assert_true(heard.n < OPS_MAX);
    heard.ops[heard.n++] = *record;
}

static void train(struct ah_trainer *trainer, struct golden_result *result)
{
    const struct ah_observer observer = {.step = golden_keep_record, .context = result, .op = keep_op};
    struct ah_error err = {0};
    result->n_records = heard.n = 0;
    CHECK_OK(ah_trainer_run(trainer, STEPS, &observer, &err), err);
    assert_int_equal(result->n_records, STEPS);
}

static struct ah_trainer *open_trainer(void)
{
    struct ah_trainer *trainer;
    struct ah_error err = {0};
    CHECK_OK(ah_trainer_open(&trainer, &golden.options, &err), err);
    return trainer;
}

/* Returns the index of the op with this ticket, or `n` if there is none. */
static size_t find_op(uint32_t lane, uint64_t ticket)
{
    size_t i = 0;
    while (i < heard.n && (heard.ops[i].lane != lane || heard.ops[i].ticket != ticket))
        i++;
    return i;
}

/* Checks that each activity is within its op's span. Returns the number of ops with activities. */
static size_t expect_in_spans(const struct ah_device_recording *recording)
{
    size_t ops = 0;
    for (size_t i = 0; i < recording->n; i++) {
        const struct ah_device_activity *activity = &recording->activities[i];
        size_t at = find_op(activity->lane, activity->ticket);
        if (at == heard.n)
            fail_msg("%s on %s: op %d is not known", activity->name, ah_device_lane_name(activity->lane),
                     (int)activity->ticket);
        const struct ah_op_record *op = &heard.ops[at];
        if (activity->start_ns + CLOCK_NS < op->start_ns || activity->end_ns > op->end_ns + CLOCK_NS)
            fail_msg("%s on %s: %.1f us before its op, ends %.1f us before it", activity->name,
                     ah_device_lane_name(activity->lane),
                     ((double)op->start_ns - (double)activity->start_ns) / 1e3,
                     ((double)op->end_ns - (double)activity->end_ns) / 1e3);
        assert_true((activity->lane == AH_LANE_COMPUTE) || activity->kind == AH_ACTIVITY_COPY);
        ops += i == 0 || activity->lane != activity[-1].lane || activity->ticket != activity[-1].ticket;
    }
    return ops;
}

static int open_golden(void **state)
{
    uint64_t seed = 7;
    (void)state;
    golden_open(&golden, "gpt2", AH_FP32);
    golden.options.driver = check_driver();
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

TEST_IN(recording, tells_each_op_and_changes_nothing, open_golden, close_golden)
{
    struct ah_device_recording recording;
    struct ah_error err = {0};
    size_t on_device = 0;
    struct ah_trainer *trainer = open_trainer();
    train(trainer, &expected);
    ah_trainer_close(trainer);
    trainer = open_trainer();
    CHECK_OK(ah_device_record(ah_trainer_device(trainer), &err), err);
    train(trainer, &got);
    CHECK_OK(ah_device_recorded(ah_trainer_device(trainer), &recording, &err), err);
    for (size_t i = 0; i < STEPS; i++)
        assert_memory_equal(&got.records[i].loss, &expected.records[i].loss, sizeof(double));
    for (size_t i = 0; i < heard.n; i++)
        on_device += heard.ops[i].lane != AH_LANE_HOST;
    print_message("%s: %zu activities of %zu ops, %.1f us for itself\n", recording.recorder, recording.n,
                  on_device, (double)recording.overhead_ns / 1e3);
    assert_true(on_device > 50);
    assert_int_equal(recording.lost, 0);
    assert_int_equal(expect_in_spans(&recording), on_device);
    ah_trainer_close(trainer);
}
