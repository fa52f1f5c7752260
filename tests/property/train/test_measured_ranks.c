/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests what ranks report about their own steps, collected at rank 0:
 *
 * 1. Work and waits of compute do not overlap: together they are no more than the step.
 * 2. Nobody waits for a neighbour, a pipeline or a gate that does not exist, and bytes are those of the documents.
 * 3. Recorded steps have each position of each program once, in order, and no lane does two things at a time.
 * 4. A slow rank works longest. The other ranks wait longer than it does, each for the side where the slow rank is.
 */
#include "base/threads.h"
#include "runtime/train/measured.h"
#include "runtime/train/recorded.h"
#include "tests/property/train/pipeline.h"
#include "tests/support/hooked.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

enum { STEPS = 7, FIRST = 3, RECORDED = 3, PLANS_EACH = 20, SLOW_US = 700, SLOW_MOST_US = 12000 };

static struct golden golden;
static struct pipeline pipeline;
static struct ah_measured measured[PIPELINE_STAGES];
static struct ah_recorded recorded[PIPELINE_STAGES];
static struct ah_arena arena; /* contains what is recorded */

static bool on_step(void *context, const struct ah_step_record *record)
{
    ah_tally_step(context, record);
    return true;
}

static void on_op(void *context, const struct ah_op_record *record)
{
    ah_tally_op(context, record);
}

static void keep_own_spans(void)
{
    struct ah_recorded_span *own = ah_arena_array(&arena, recorded[0].n + 1, sizeof *own);
    assert_non_null(own);
    memcpy(own, recorded[0].spans, recorded[0].n * sizeof *own);
    recorded[0].spans = own;
}

/* Trains two stretches of steps, each followed by an evaluation. */
static int lead(void *context, struct ah_trainer *trainer, struct ah_batches *held_out, struct ah_error *err)
{
    struct ah_trainer_evaluation evaluation;
    struct ah_tally *tally = NULL;
    (void)context;
    int rc = ah_tally_new(&tally, pipeline.stages[0].options.plan, err);
    const struct ah_observer observer = {.step = on_step, .op = on_op, .context = tally};
    for (int i = 0; i < 2 && !rc; i++) {
        ah_tally_begin(tally, ah_threads_now_ns());
        rc = ah_trainer_run(trainer, STEPS, &observer, err);
        rc = rc ? rc : ah_trainer_evaluate(trainer, held_out, NULL, &evaluation, err);
    }
    rc = rc ? rc : ah_measured_collect(trainer, tally, measured, err);
    rc = rc ? rc : ah_recorded_collect(trainer, &arena, recorded, err);
    if (!rc) /* if successful, the trainer owns the spans */
        keep_own_spans();
    ah_tally_free(tally);
    return rc;
}

static void run(uint64_t *seed)
{
    memset(measured, 0, sizeof measured);
    for (size_t rank = 0; rank < pipeline.n; rank++)
        pipeline.stages[rank].options.recorded = (struct ah_recorded_steps){FIRST, RECORDED};
    pipeline_run(&pipeline, &(struct ah_comm_hub_options){.most_delay_us = 40, .seed = check_random(seed)},
                 lead, NULL);
    pipeline_expect_ok(&pipeline);
}

static double sum_of_waits(const struct ah_tally_rank *times)
{
    double us = 0;
    for (size_t lane = 0; lane < AH_TALLY_WAITS; lane++) {
        assert_true(times->waits_us[lane] >= 0);
        us += times->waits_us[lane];
    }
    return us;
}

static uint64_t bytes_sent(const struct ah_plan *plan)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < plan->n_ops; i++)
        if (plan->ops[i].op == AH_PLAN_SEND_OUTPUT || plan->ops[i].op == AH_PLAN_SEND_INPUT_GRADIENT)
            bytes += plan->ops[i].bytes;
    return bytes;
}

static void check_rank(size_t rank)
{
    const struct ah_tally_rank *times = &measured[rank].times;
    const struct ah_plan *plan = pipeline.stages[rank].options.plan;
    const struct ah_plan_part *part = plan->part;
    assert_int_equal(times->steps, 2 * (STEPS - 1));
    assert_true(times->step_us > 0 && times->compute_us > 0);
    if (times->compute_us + sum_of_waits(times) > times->step_us * (1 + 1e-9))
        fail_msg("rank %zu works %g us and waits %g of %g", rank, times->compute_us, sum_of_waits(times),
                 times->step_us);
    assert_true(part->stage || times->waits_us[AH_LANE_RECEIVE_BEFORE] == 0);
    assert_true(part->stage + 1 < part->stages || times->waits_us[AH_LANE_RECEIVE_BEHIND] == 0);
    assert_true(part->stages > 1 || times->waits_us[AH_LANE_SEND] == 0);
    assert_true(pipeline.pipelines > 1 || times->waits_us[AH_LANE_SUMS] == 0);
    assert_true(plan->training.clip > 0 || times->waits_us[AH_TALLY_GATE] == 0);
    assert_int_equal(measured[rank].sent_bytes, bytes_sent(plan));
    assert_true((measured[rank].summed_bytes > 0) == (pipeline.pipelines > 1));
    assert_int_equal(measured[rank].device_bytes, pipeline.stages[rank].facts.touched_bytes[AH_ARENA_DEVICE]);
}

static uint64_t count_spans(const struct ah_recorded *of, uint64_t step, uint64_t op)
{
    uint64_t n = 0;
    for (size_t i = 0; i < of->n; i++)
        n += of->spans[i].step == step && of->spans[i].op == op;
    return n;
}

/* Returns the time at which the op at a position begins in a step or, with `ends`, ends. */
static int64_t time_of(const struct ah_recorded *of, uint64_t step, uint64_t op, bool ends)
{
    int64_t ns = ends ? INT64_MIN : INT64_MAX;
    for (size_t i = 0; i < of->n; i++) {
        const struct ah_recorded_span *span = &of->spans[i];
        if (span->step == step && span->op == op && (ends ? span->end_ns > ns : span->start_ns < ns))
            ns = ends ? span->end_ns : span->start_ns;
    }
    return ns;
}

static void check_recorded(size_t rank)
{
    const struct ah_recorded *of = &recorded[rank];
    const struct ah_plan *plan = pipeline.stages[rank].options.plan;
    int64_t end_ns[AH_DEVICE_LANES_ALL] = {0};
    assert_int_equal(of->lost, 0);
    assert_true(llabs(of->clock_ns) < 1000000000); /* all ranks are on one machine */
    for (size_t i = 0; i < of->n; i++) {
        const struct ah_recorded_span *span = &of->spans[i];
        assert_true(span->start_ns <= span->end_ns);
        if (span->start_ns < end_ns[span->lane])
            fail_msg("rank %zu: lane %u begins %" PRId64 " ns before it ends", rank, span->lane,
                     end_ns[span->lane] - span->start_ns);
        end_ns[span->lane] = span->end_ns;
    }
    for (uint64_t step = FIRST; step < FIRST + RECORDED; step++)
        for (size_t p = 0; p < plan->lanes.n_order[AH_PLAN_LANE_COMPUTE]; p++) {
            const uint64_t op = plan->lanes.order[AH_PLAN_LANE_COMPUTE][p];
            if (count_spans(of, step, op) != plan->ops[op].tiles)
                fail_msg("rank %zu: position %zu of step %" PRIu64 " was recorded %" PRIu64 " times", rank, p,
                         step, count_spans(of, step, op));
            if (p && op != plan->lanes.order[AH_PLAN_LANE_COMPUTE][p - 1])
                assert_true(time_of(of, step, op, true) >=
                            time_of(of, step, plan->lanes.order[AH_PLAN_LANE_COMPUTE][p - 1], false));
        }
}

static struct {
    size_t before, behind, sums, gate, sends;
} seen;

static void check_plan(uint64_t *seed)
{
    run(seed);
    for (size_t rank = 0; rank < pipeline.n; rank++) {
        const double *waits_us = measured[rank].times.waits_us;
        check_rank(rank);
        check_recorded(rank);
        seen.before += waits_us[AH_LANE_RECEIVE_BEFORE] > 0;
        seen.behind += waits_us[AH_LANE_RECEIVE_BEHIND] > 0;
        seen.sends += waits_us[AH_LANE_SEND] > 0;
        seen.sums += waits_us[AH_LANE_SUMS] > 0;
        seen.gate += waits_us[AH_TALLY_GATE] > 0;
    }
    ah_arena_release(&arena);
}

TEST(measured_ranks, split_their_steps)
{
    static const struct {
        const char *name;
        uint64_t sums[3];
        size_t n;
    } cases[] = {{"gpt2-untied-odd", {1, 3, 2}, 3},
                 {"llama", {2, 2}, 2},
                 {"llama-frozen-below", {4}, 1},
                 {"gpt2-untied-odd", {6}, 1},
                 {"llama", {4}, 1}};
    uint64_t seed = check_seed(113);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t turn[AH_BLOCK_HEAD + 1] = {0}, micro_batches = 0;
        for (size_t k = 0; k < cases[i].n; k++)
            micro_batches += cases[i].sums[k];
        golden_open_as(&golden, cases[i].name, AH_FP32, AH_FP32);
        golden_regroup(&golden, micro_batches, NULL, 0);
        for (uint64_t k = 0; k < check_scaled(PLANS_EACH); k++) {
            if (cases[i].n > 1)
                pipeline_open_groups(&pipeline, &golden, cases[i].sums, cases[i].n, 6, turn, &seed);
            else
                pipeline_open(&pipeline, &golden, 0, turn, &seed);
            check_plan(&seed);
            pipeline_close(&pipeline);
        }
        golden_close(&golden);
    }
    print_message("ranks that waited: %zu before, %zu behind, %zu to send, %zu for sums, %zu at the gate\n",
                  seen.before, seen.behind, seen.sends, seen.sums, seen.gate);
    assert_true(seen.before && seen.behind && seen.sends && seen.sums && seen.gate);
}

/* `context`: how long to sleep, in us. */
static void sleep_in_compute(void *context, const struct hooked_op *op)
{
    if (op->lane == AH_LANE_COMPUTE && op->op->kind == AH_OP_MATMUL)
        nanosleep(&(struct timespec){.tv_nsec = 1000L * *(const long *)context}, NULL);
}

/* Returns the fraction of the step that a rank waits for its neighbours and at the gate. */
static double share_of_others(const struct ah_tally_rank *times)
{
    return (times->waits_us[AH_LANE_SEND] + times->waits_us[AH_LANE_RECEIVE_BEFORE] +
            times->waits_us[AH_LANE_RECEIVE_BEHIND] + times->waits_us[AH_TALLY_GATE]) /
           times->step_us;
}

/* True if the measurements of all ranks show that `slow` is the slow one. */
static bool is_shown(size_t slow)
{
    bool shown = true;
    for (size_t rank = 0; rank < 3; rank++) {
        const struct ah_tally_rank *times = &measured[rank].times;
        const double before_us = times->waits_us[AH_LANE_RECEIVE_BEFORE],
                     behind_us = times->waits_us[AH_LANE_RECEIVE_BEHIND];
        if (rank == slow)
            continue;
        shown &= times->compute_us < measured[slow].times.compute_us;
        shown &= share_of_others(times) > share_of_others(&measured[slow].times);
        shown &= rank > slow
                     ? before_us > behind_us
                     : times->waits_us[AH_LANE_SEND] + behind_us + times->waits_us[AH_TALLY_GATE] > before_us;
    }
    return shown;
}

/* On a busy machine other ranks may be slower than a short sleep, so the sleep doubles until it decides. */
TEST(measured_ranks, know_which_one_is_slow)
{
    uint64_t seed = check_seed(127), turn[AH_BLOCK_HEAD + 1] = {0};
    golden_open_as(&golden, "gpt2-untied-odd", AH_FP32, AH_FP32);
    for (size_t slow = 0; slow < 3; slow++) {
        bool shown = false;
        for (long sleep_us = SLOW_US; !shown && sleep_us <= SLOW_MOST_US; sleep_us *= 2) {
            pipeline_open(&pipeline, &golden, 3, turn, &seed);
            hooked_set(&(struct hooked_hooks){.before = sleep_in_compute, .context = &sleep_us});
            pipeline.stages[slow].options.driver = hooked_driver();
            run(&seed);
            shown = is_shown(slow);
            ah_arena_release(&arena);
            pipeline_close(&pipeline);
        }
        if (!shown)
            fail_msg("rank %zu is slow, and the times do not show it", slow);
    }
    golden_close(&golden);
}
