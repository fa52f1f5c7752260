/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the tally of real runs. Its sums agree with the trainer's reports on lanes, and compute waits between its ops.
 */
#include "base/threads.h"
#include "runtime/train/tally.h"
#include "tests/golden/train/case.h"

enum { LANES = AH_DEVICE_LANES };

static struct golden golden;

struct heard {
    struct ah_tally *tally;
    struct ah_step_record record;
    double step_us;
};

static bool on_step(void *context, const struct ah_step_record *record)
{
    struct heard *heard = context;
    heard->record = *record;
    heard->step_us = ah_tally_step(heard->tally, record);
    return true;
}

static void on_op(void *context, const struct ah_op_record *record)
{
    ah_tally_op(((struct heard *)context)->tally, record);
}

static void run(struct heard *heard, struct ah_trainer *trainer, uint64_t steps)
{
    const struct ah_observer observer = {.step = on_step, .context = heard, .op = on_op};
    struct ah_error err = {0};
    ah_tally_begin(heard->tally, ah_threads_now_ns());
    CHECK_OK(ah_trainer_run(trainer, steps, &observer, &err), err);
}

static double lane_us(const struct ah_runlog_end *end, enum ah_plan_lane lane)
{
    double us = 0;
    for (size_t i = 0; i < end->n_parts; i++)
        us += end->parts[i].lane == lane ? end->parts[i].us : 0;
    return us;
}

/* Checks that the parts of a run of one step add up to the busy time of each lane. */
static void check_one_step(struct ah_trainer *trainer)
{
    struct heard heard = {0};
    struct ah_runlog_end end = {0};
    struct ah_arena arena = {0};
    struct ah_error err = {0};
    CHECK_OK(ah_tally_new(&heard.tally, golden.options.plan, &err), err);
    run(&heard, trainer, 1);
    CHECK_OK(ah_tally_end(heard.tally, &arena, &end, &err), err);
    for (int lane = 0; lane < LANES; lane++)
        check_near(lane_us(&end, (enum ah_plan_lane)lane), (double)heard.record.busy_ns[lane] / 1e3, 1e-9);
    check_near(end.median_step_us, heard.step_us, 0);
    const struct ah_plan_by_lane *exposed = end.exposed_us;
    double compute_us = (double)heard.record.busy_ns[AH_LANE_COMPUTE] / 1e3;
    double waited_us = 0;
    for (int lane = 0; lane < LANES; lane++) {
        assert_true(exposed->of[lane] >= 0);
        waited_us += exposed->of[lane];
    }
    assert_true(compute_us + waited_us <= heard.step_us * (1 + 1e-9));
    ah_arena_release(&arena);
    ah_tally_free(heard.tally);
}

/* Checks overlapping steps: every kind of op in the plan appears. Returns the time that compute waited. */
static double check_steps(struct ah_trainer *trainer)
{
    const struct ah_plan *plan = golden.options.plan;
    struct heard heard = {0};
    struct ah_runlog_end end = {0};
    struct ah_arena arena = {0};
    struct ah_error err = {0};
    bool kinds[AH_RUNLOG_OPS] = {false};
    CHECK_OK(ah_tally_new(&heard.tally, plan, &err), err);
    run(&heard, trainer, 9);
    CHECK_OK(ah_tally_end(heard.tally, &arena, &end, &err), err);
    for (size_t i = 0; i < end.n_parts; i++)
        kinds[end.parts[i].op] = true;
    for (size_t op = 0; op < plan->n_ops; op++)
        assert_true(kinds[plan->ops[op].op]);
    assert_true(kinds[AH_RUNLOG_OP_DATA]);
    double waited_us = end.exposed_us->of[AH_PLAN_LANE_H2D] + end.exposed_us->of[AH_PLAN_LANE_D2H] +
                       end.exposed_us->of[AH_PLAN_LANE_HOST];
    ah_arena_release(&arena);
    ah_tally_free(heard.tally);
    return waited_us;
}

TEST(tally, adds_up_what_lanes_did)
{
    static const char *const names[] = {"gpt2", "llama", "qwen3"};
    uint64_t seed = check_seed(4);
    unsigned waited = 0;
    for (int i = 0; i < 9; i++) {
        struct ah_trainer *trainer;
        struct ah_error err = {0};
        golden_open(&golden, names[i % 3], i % 2 ? AH_BF16 : AH_FP32);
        golden_plan_random(&golden, &seed);
        CHECK_OK(ah_trainer_open(&trainer, &golden.options, &err), err);
        check_one_step(trainer);
        waited += check_steps(trainer) > 0;
        ah_trainer_close(trainer);
        golden_close(&golden);
    }
    assert_true(waited > 4);
}
