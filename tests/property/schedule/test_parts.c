/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages of one pipeline run their plans together, with any durations. Each stage takes its compute positions in order.
 * A pass waits for the message of the previous or the next stage; a sender waits while two gradients are unread. A
 * stage that trains nothing also waits for the next stage's message. Then:
 *
 * 1. Every run ends: no stage waits for another forever.
 * 2. What is sent has its place from the start of sending until its last reader is done.
 * 3. A stage has at most min(m, P - i) micro-batches between their forward and the end of their backward.
 * 4. Before the last pass is done, nothing is updated. The gradient of a weight on the device stays on the device, too,
 *    unless the host adds up the gradients of all micro-batches.
 * 5. All stages together have the model's parameters; a program counts 1/tp of its stage's parameters. A table shared
 *    by embedding and head counts twice if they are in different stages.
 */
#include "runtime/schedule/schedule.h"
#include "tests/property/schedule/choices.h"
#include "tests/property/schedule/messages.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { PIPELINES = 60, RUNS = 10, STAGES_MOST = 8, WAITING = 2 };

struct stage {
    struct test_case c;
    struct ah_schedule schedule;
    struct ah_document document;
    const struct ah_plan *plan;
    size_t at; /* the next position */
    double free_us;
    double *sent_us; /* by position: when its send was done; negative: not yet */
    double *start_us, *end_us;
};

static struct stage stages[STAGES_MOST];

static void open_stage(struct stage *s, const struct ah_plan_part *part, uint64_t micro_batches,
                       uint64_t *seed)
{
    struct ah_error err = {0};
    struct ah_score score;
    s->c.part = *part;
    test_case_cut(&s->c, micro_batches, seed);
    s->schedule = (struct ah_schedule){0};
    CHECK_OK(ah_schedule_init(&s->schedule, &s->c.job, &err), err);
    int rc = AH_E_FAILED; /* if rings are too small for their order, draws once more */
    for (int tries = 0; rc == AH_E_FAILED && tries < 20; tries++) {
        test_case_choose(&s->c, seed);
        rc = ah_schedule_evaluate(&s->schedule, &s->c.choice, &score, &err);
    }
    CHECK_OK(rc, err);
    test_case_emit(&s->c, &s->schedule, &s->document);
    s->plan = s->document.body.plan;
    s->sent_us = calloc(s->plan->lanes.n_order[AH_PLAN_LANE_COMPUTE], sizeof *s->sent_us);
    s->start_us = calloc(s->plan->lanes.n_order[AH_PLAN_LANE_COMPUTE], sizeof *s->start_us);
    s->end_us = calloc(s->plan->lanes.n_order[AH_PLAN_LANE_COMPUTE], sizeof *s->end_us);
    assert_true(s->sent_us && s->start_us && s->end_us);
}

static size_t open_pipeline(uint64_t *seed)
{
    static const uint64_t micro_batches[] = {1, 2, 3, 6};
    uint64_t m = micro_batches[test_below(seed, 4)];
    static struct test_case whole;
    const uint64_t model_seed = *seed;
    uint64_t same = model_seed;
    test_case_open(&whole, &same);
    uint64_t blocks = ah_model_blocks(&whole.model), first = 0;
    uint64_t n = 1 + test_below(seed, blocks < STAGES_MOST ? blocks : STAGES_MOST);
    uint64_t tp = 1 + test_below(seed, 3), start = *seed;
    test_case_close(&whole);
    check_random(&start);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t end = i + 1 < n ? first + 1 + test_below(&start, blocks - first - (n - 1 - i)) : blocks;
        const struct ah_plan_part part = {first, end - first, tp, i, n, 0, 0};
        same = model_seed;
        test_case_open(&stages[i].c, &same);
        open_stage(&stages[i], &part, m, &start);
        first = end;
    }
    *seed = start;
    return n;
}

static void close_pipeline(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ah_document_release(&stages[i].document);
        ah_schedule_release(&stages[i].schedule);
        test_case_close(&stages[i].c);
        free(stages[i].sent_us);
        free(stages[i].start_us);
        free(stages[i].end_us);
    }
}

static const struct ah_plan_op *op_at(const struct stage *s, size_t position)
{
    return messages_op(s->plan, position);
}

static size_t find(const struct stage *s, enum ah_plan_op_kind kind, uint64_t block, uint64_t micro_batch)
{
    return messages_find(s->plan, kind, block, micro_batch);
}

static bool nothing_trained(const struct stage *s)
{
    return s->c.job.lowest == s->plan->n_blocks;
}

/* Returns the number of forwards before the first backward in the stage's order. */
static uint64_t ahead(const struct stage *s)
{
    uint64_t behind = s->c.part.stages - 1 - s->c.part.stage, m = s->plan->training.micro_batches;
    return behind < m ? behind : m;
}

/* Returns the time at which the op at the stage's next position may start. Negative: not known yet. */
static double ready_us(size_t n, size_t i)
{
    const struct stage *s = &stages[i];
    const struct ah_plan_op *op = op_at(s, s->at);
    bool first_pass = op->op == AH_PLAN_FORWARD && op->block == 0;
    bool top = op->block + 1 == s->plan->n_blocks;
    bool first_backward = op->op == AH_PLAN_BACKWARD && top && i + 1 < n;
    double us = s->free_us;
    if (first_pass && i > 0) {
        const struct stage *before = &stages[i - 1];
        us = before->sent_us[find(before, AH_PLAN_SEND_OUTPUT, before->plan->n_blocks - 1, op->micro_batch)];
    } else if (first_backward || (op->op == AH_PLAN_SEND_INPUT_GRADIENT && i + 1 < n)) {
        const struct stage *behind = &stages[i + 1];
        us = behind->sent_us[find(behind, AH_PLAN_SEND_INPUT_GRADIENT, 0, op->micro_batch)];
    }
    if (us >= 0 && first_pass && nothing_trained(s) && i + 1 < n && op->micro_batch > ahead(s)) {
        const struct stage *behind = &stages[i + 1];
        double told_us =
            behind->sent_us[find(behind, AH_PLAN_SEND_INPUT_GRADIENT, 0, op->micro_batch - ahead(s) - 1)];
        us = told_us < 0 ? -1 : fmax(us, told_us);
    }
    if (us >= 0 && op->op == AH_PLAN_SEND_INPUT_GRADIENT && op->micro_batch >= WAITING && op->bytes) {
        const struct stage *before = &stages[i - 1];
        size_t used = messages_gradient_used(before->plan, op->micro_batch - WAITING);
        if (used != SIZE_MAX)
            us = used < before->at ? fmax(us, before->end_us[used]) : -1;
    }
    return us < 0 ? us : fmax(us, s->free_us);
}

/* Rule 2. */
static void check_messages(size_t n)
{
    struct messages_stage sent[STAGES_MOST];
    for (size_t i = 0; i < n; i++)
        sent[i] = (struct messages_stage){stages[i].plan, 1, stages[i].start_us, stages[i].end_us};
    messages_check(sent, n);
}

/* Rule 3. */
static void check_in_flight(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t now = 0, most = 0, m = stages[i].plan->training.micro_batches;
        for (size_t p = 0; p < stages[i].plan->lanes.n_order[AH_PLAN_LANE_COMPUTE]; p++) {
            const struct ah_plan_op *op = op_at(&stages[i], p);
            now += op->op == AH_PLAN_FORWARD && op->block == 0;
            most = now > most ? now : most;
            bool last = op->op == AH_PLAN_SEND_INPUT_GRADIENT ||
                        (i == 0 &&
                         op->op == (n == 1 && stages[i].c.job.lowest + 1 == stages[i].plan->n_blocks
                                        ? AH_PLAN_FORWARD
                                        : AH_PLAN_BACKWARD) &&
                         op->block == stages[i].c.job.lowest);
            now -= last;
        }
        assert_true(most <= (m < n - i ? m : n - i) || nothing_trained(&stages[i]));
    }
}

/* Rule 4. */
static void check_updates(const struct stage *s)
{
    size_t passes = 0;
    for (size_t p = 0; p < s->plan->lanes.n_order[AH_PLAN_LANE_COMPUTE]; p++)
        if (op_at(s, p)->op != AH_PLAN_DEVICE_ADAM)
            passes = p + 1;
    for (size_t i = 0; i < s->plan->n_ops; i++) {
        const struct ah_plan_op *op = &s->plan->ops[i];
        bool on_device = s->plan->blocks[op->block].weights == AH_WEIGHTS_DEVICE &&
                         s->plan->blocks[op->block].accumulator != AH_ACCUMULATOR_HOST;
        bool next =
            s->plan->blocks[op->block].optimizer == AH_OPTIMIZER_STREAMED && !s->c.choice.knobs.step_ends;
        if (op->op == AH_PLAN_DEVICE_ADAM && !next) /* streamed updates may belong to the next step */
            assert_true(op->position >= passes);
        else if (op->op == AH_PLAN_HOST_ADAM || (op->op == AH_PLAN_SEND_GRADIENTS && on_device))
            assert_true(op->issue_after + 1 >= passes);
    }
}

static void run(size_t n, uint64_t *seed)
{
    double slow[STAGES_MOST];
    size_t left = 0;
    for (size_t i = 0; i < n; i++) {
        slow[i] = test_below(seed, 2) ? 0.01 : 30; /* makes some stages run far ahead of others */
        stages[i].at = 0;
        stages[i].free_us = 0;
        left += stages[i].plan->lanes.n_order[AH_PLAN_LANE_COMPUTE];
        for (size_t p = 0; p < stages[i].plan->lanes.n_order[AH_PLAN_LANE_COMPUTE]; p++)
            stages[i].sent_us[p] = -1;
    }
    while (left) {
        size_t before = left;
        for (size_t i = 0; i < n; i++)
            while (stages[i].at < stages[i].plan->lanes.n_order[AH_PLAN_LANE_COMPUTE]) {
                struct stage *s = &stages[i];
                double start = ready_us(n, i);
                if (start < 0)
                    break;
                s->start_us[s->at] = start;
                s->free_us = s->end_us[s->at] = start + slow[i] * (0.5 + check_uniform(seed));
                s->sent_us[s->at++] = s->free_us;
                left--;
            }
        assert_true(left < before); /* rule 1 */
    }
    check_messages(n);
    check_in_flight(n);
    for (size_t i = 0; i < n; i++)
        check_updates(&stages[i]);
}

TEST(parts, work_together)
{
    uint64_t seed = check_seed(51);
    size_t deepest = 0;
    for (int k = 0; k < PIPELINES; k++) {
        size_t n = open_pipeline(&seed);
        deepest = n > deepest ? n : deepest;
        for (int i = 0; i < RUNS; i++)
            run(n, &seed);
        close_pipeline(n);
    }
    assert_true(deepest >= 6);
}

/* Rule 5. */
TEST(parts, are_the_whole)
{
    uint64_t seed = check_seed(52);
    for (int k = 0; k < PIPELINES; k++) {
        size_t n = open_pipeline(&seed);
        uint64_t parameters = 0, model_parameters = 0, blocks = 0, tp = stages[0].c.part.tp;
        struct ah_error err = {0};
        for (size_t i = 0; i < n; i++)
            for (size_t b = 0; b < stages[i].plan->n_blocks; b++, blocks++)
                parameters += stages[i].plan->blocks[b].parameters;
        CHECK_OK(ah_model_count(&stages[0].c.model, &model_parameters, &err), err);
        if (n > 1 && stages[0].c.model.tied)
            model_parameters += stages[0].c.model.vocabulary * stages[0].c.model.width;
        assert_in_range(tp * parameters, model_parameters, model_parameters + tp * blocks);
        close_pipeline(n);
    }
}
