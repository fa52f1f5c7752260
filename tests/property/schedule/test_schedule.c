/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests random choices, evaluated and emitted. Documents are checked against docs/planning.md (timeline.h) and by sums.
 */
#include "runtime/schedule/check_internal.h"
#include "runtime/schedule/replay.h"
#include "runtime/schedule/schedule.h"
#include "tests/property/schedule/choices.h"
#include "tests/property/schedule/timeline.h"

#include <math.h>

enum { CASES = 120, CHOICES = 3, ITERATIONS = 7, SETS = 1000 };

struct drawn {
    struct test_case c;
    struct ah_schedule schedule;
    struct ah_score score;
};

static void open_case(struct drawn *d, uint64_t *seed)
{
    struct ah_error err = {0};
    test_case_open(&d->c, seed);
    const uint64_t what = test_below(seed, 3);
    if (what == 1)
        test_case_part(&d->c, seed);
    else if (what == 2)
        test_case_shards(&d->c, seed);
    d->schedule = (struct ah_schedule){0};
    CHECK_OK(ah_schedule_init(&d->schedule, &d->c.job, &err), err);
}

static void close_case(struct drawn *d)
{
    ah_schedule_release(&d->schedule);
    test_case_close(&d->c);
}

/* Draws a choice that can run. Only rings too small for their order keep a choice from running. */
static void choose(struct drawn *d, uint64_t *seed)
{
    struct ah_error err = {0};
    int rc = AH_E_FAILED;
    for (int tries = 0; rc && tries < 10; tries++) {
        test_case_choose(&d->c, seed);
        rc = ah_schedule_evaluate(&d->schedule, &d->c.choice, &d->score, &err);
        if (rc && rc != AH_E_FAILED)
            fail_msg("%s", err.text);
    }
    assert_int_equal(rc, AH_OK);
}

/* Returns the time of compute's work and waits. */
static double accounted_us(const struct ah_score *s)
{
    double us = s->busy_us[AH_PLAN_LANE_COMPUTE];
    for (int lane = 0; lane < AH_PLAN_LANES; lane++)
        us += s->exposed_us[lane];
    return us;
}

static void check_sums(const struct drawn *d, const struct ah_replay *replay)
{
    const struct ah_score *s = &d->score;
    const struct ah_plan_sharing *sharing = &d->c.costs.sharing;
    double least_us = 0;
    for (size_t lane = 0; lane < AH_PLAN_LANES; lane++) {
        least_us = fmax(least_us, s->work_us[lane]);
        assert_true(s->busy_us[lane] >= s->work_us[lane] * (1 - 1e-9));
        assert_true(s->busy_us[lane] <= s->period_us * (1 + 1e-9));
    }
    for (size_t i = 0; i < sharing->n_resources; i++) {
        double us = 0;
        for (int lane = 0; lane < AH_PLAN_LANES; lane++)
            us += sharing->resources[i].demand[lane] * s->work_us[lane];
        least_us = fmax(least_us, us);
    }
    assert_true(s->period_us >= least_us * (1 - 1e-9));
    double compute_us = accounted_us(s);
    assert_true(compute_us <= s->period_us * (1 + 1e-9));
    assert_true(s->device.peak_bytes >= s->device.live_bytes);
    (void)replay;
}

/* True if compute sets the pace, so that the period consists of compute's work and waits. */
static bool check_account(const struct drawn *d)
{
    const struct ah_score *s = &d->score;
    double compute_us = accounted_us(s);
    return fabs(compute_us - s->period_us) <= 1e-9 * s->period_us;
}

static void check_replay(const struct drawn *d, const struct ah_plan *plan)
{
    struct ah_arena arena = {0};
    struct ah_replay replay;
    struct ah_error err = {0};
    CHECK_OK(ah_replay_steady(plan, &arena, &replay, &err), err);
    if (fabs(replay.period_us - d->score.period_us) > 1e-9 * d->score.period_us)
        fail_msg("the score says %.9g, the plan %.9g", d->score.period_us, replay.period_us);
    check_sums(d, &replay);
    ah_arena_release(&arena);
}

static bool lives_at(const struct ah_plan_tensor *t, uint64_t p)
{
    return t->from <= t->to ? t->from <= p && p <= t->to : p >= t->from || p <= t->to;
}

static bool live_together(const struct ah_plan_tensor *a, const struct ah_plan_tensor *b)
{
    return lives_at(a, b->from) || lives_at(b, a->from);
}

static void check_memory(const struct ah_plan *plan)
{
    const struct ah_plan_tensor *t = plan->arena.tensors;
    uint64_t highest = 0;
    for (size_t i = 0; i < plan->arena.n_tensors; i++) {
        uint64_t end = t[i].offset_bytes + t[i].bytes;
        highest = end > highest ? end : highest;
        for (size_t k = 0; k < i; k++)
            if (t[k].offset_bytes < end && t[i].offset_bytes < t[k].offset_bytes + t[k].bytes &&
                live_together(&t[i], &t[k]))
                fail_msg("tensors %zu (%s) and %zu (%s) overlap", i, ah_words_tensor[t[i].label], k,
                         ah_words_tensor[t[k].label]);
    }
    assert_int_equal(plan->memory.device_bytes,
                     (highest + AH_LAYOUT_ALIGN - 1) / AH_LAYOUT_ALIGN * AH_LAYOUT_ALIGN);
}

/* True if a tensor of the block, with a label that begins so, is alive at this position. */
static bool holds(const struct ah_plan *plan, uint64_t block, const char *label, uint64_t p)
{
    for (size_t i = 0; i < plan->arena.n_tensors; i++) {
        const struct ah_plan_tensor *tensor = &plan->arena.tensors[i];
        if (tensor->block == block && !strncmp(ah_words_tensor[tensor->label], label, strlen(label)) &&
            lives_at(tensor, p))
            return true;
    }
    return false;
}

static void check_held(const struct ah_plan *plan, const struct ah_plan_op *op, const char *label, uint64_t p)
{
    if (!holds(plan, op->block, label, p % plan->arena.positions))
        fail_msg("%s of block %llu needs '%s' at position %llu", ah_words_plan_op[op->op],
                 (unsigned long long)op->block, label, (unsigned long long)(p % plan->arena.positions));
}

/* Checks that the tensor is alive at every position of the circle from `from` to `to`, including both. */
static void check_held_over(const struct ah_plan *plan, const struct ah_plan_op *op, const char *label,
                            uint64_t from, uint64_t to)
{
    uint64_t n = plan->arena.positions;
    for (uint64_t i = 0; i <= (to + n - from) % n; i++)
        check_held(plan, op, label, from + i);
}

static void check_pass(const struct ah_plan *plan, const struct ah_plan_op *op, uint64_t p)
{
    bool embedding = ah_plan_first_block(plan) + op->block == 0;
    if (op->op == AH_PLAN_FORWARD || !embedding) /* the embedding's backward does not read its tables */
        check_held(plan, op, plan->blocks[op->block].weights ? "fetched" : "weights", p);
    if (!embedding)
        check_held(plan, op, "input", p);
}

/* Checks that every tensor used by an op is alive when the op runs. */
static void check_lives(const struct ah_plan *plan)
{
    uint64_t n = plan->arena.positions;
    for (uint64_t p = 0; p < n; p++) {
        const struct ah_plan_op *op = ah_plan_compute_op(plan, p);
        if (op->op == AH_PLAN_DEVICE_ADAM)
            check_held(plan, op, "gradient", p);
        else if (op->op == AH_PLAN_SEND_OUTPUT)
            check_held(plan, op, "output", p);
        else if (op->op == AH_PLAN_SEND_INPUT_GRADIENT && op->bytes)
            check_held(plan, &(struct ah_plan_op){.op = op->op, .block = plan->n_blocks - 1},
                       "residual_gradient", p);
        else if (op->op != AH_PLAN_SEND_INPUT_GRADIENT)
            check_pass(plan, op, p);
    }
    for (size_t i = 0; i < plan->n_ops; i++) {
        const struct ah_plan_op *op = &plan->ops[i];
        if (op->op == AH_PLAN_SEND_GRADIENTS)
            check_held_over(plan, op, "gradient", op->issue_after, op->due_before + n - 1);
        if (op->op == AH_PLAN_SCATTER) {
            check_held_over(plan, op, "gradient", op->issue_after, op->due_before + n - 1);
            check_held_over(plan, op, "received", op->issue_after, op->due_before + n - 1);
            check_held_over(plan, op, "gradient_sum", op->issue_after, op->due_before + n - 1);
        }
        bool gathers = op->op == AH_PLAN_ALL_GATHER && plan->blocks[op->block].weights != AH_WEIGHTS_DEVICE;
        if (op->op == AH_PLAN_FETCH || gathers)
            check_held_over(plan, op, "fetched", (op->issue_after + 1) % n, op->due_before);
    }
}

static void print(const struct ah_document *document, struct ah_buffer *text)
{
    struct ah_error err = {0};
    CHECK_OK(ah_document_print(document, text, &err), err);
}

static void check_document(const struct ah_document *document, struct ah_buffer *text)
{
    struct ah_document again = {0};
    struct ah_buffer second = {0};
    struct ah_error err = {0};
    print(document, text);
    CHECK_OK(ah_document_parse(&again, "plan.json", text->data, text->size, AH_DOCUMENT_PLAN, &err), err);
    print(&again, &second);
    assert_int_equal(text->size, second.size);
    assert_memory_equal(text->data, second.data, second.size);
    ah_buffer_release(&second);
    ah_document_release(&again);
}

static void check_rules(const struct ah_plan *plan)
{
    struct ah_arena arena = {0};
    struct ah_replay replay;
    struct ah_error err = {0};
    struct timeline timeline;
    CHECK_OK(ah_replay_run(plan, ITERATIONS, &arena, &replay, &err), err);
    timeline_open(&timeline, plan, &replay, ITERATIONS);
    timeline_check(&timeline);
    timeline_close(&timeline);
    ah_arena_release(&arena);
}

/* Checks that the plan's own knobs and configs give its ops, tensors and memory, and that its times fit together. */
static void check_compiled(const struct drawn *d, const struct ah_plan *plan)
{
    const struct ah_check_inputs inputs = {.job = &d->c.job, .costs = &d->c.costs, .from_documents = true};
    struct ah_error err = {0};
    CHECK_OK(ah_check_rebuild(plan, &inputs, &err), err);
    CHECK_OK(ah_check_work(plan, &d->c.job, &err), err);
}

TEST(schedule, plans_hold_what_the_page_says)
{
    static struct drawn d;
    uint64_t seed = check_seed(41);
    size_t accounted = 0, kinds[AH_PLAN_OP_KINDS] = {0};
    for (int i = 0; i < CASES; i++) {
        open_case(&d, &seed);
        for (int k = 0; k < CHOICES; k++) {
            struct ah_document document;
            struct ah_buffer text = {0};
            choose(&d, &seed);
            test_case_emit(&d.c, &d.schedule, &document);
            check_replay(&d, document.body.plan);
            check_memory(document.body.plan);
            check_lives(document.body.plan);
            check_document(&document, &text);
            check_rules(document.body.plan);
            check_compiled(&d, document.body.plan);
            accounted += check_account(&d);
            for (size_t op = 0; op < document.body.plan->n_ops; op++)
                kinds[document.body.plan->ops[op].op]++;
            ah_buffer_release(&text);
            ah_document_release(&document);
        }
        close_case(&d);
    }
    for (size_t kind = 0; kind < AH_PLAN_OP_KINDS; kind++)
        assert_true(kinds[kind] > CASES / 4);
    print_message("compute and its waits are the period in %zu of %d\n", accounted, CASES * CHOICES);
    assert_true(100 * accounted >= 95 * CASES * CHOICES);
}

TEST(schedule, the_same_choice_gives_the_same_bytes)
{
    static struct drawn d;
    uint64_t seed = check_seed(42);
    for (int i = 0; i < CASES / 4; i++) {
        struct ah_document first, second, fresh;
        struct ah_buffer text[3] = {{0}};
        struct ah_schedule other = {0};
        struct ah_score score;
        struct ah_error err = {0};
        open_case(&d, &seed);
        choose(&d, &seed);
        test_case_emit(&d.c, &d.schedule, &first);
        struct test_case kept = d.c;
        choose(&d, &seed);
        choose(&d, &seed);
        memcpy(d.c.configs, kept.configs, sizeof kept.configs);
        d.c.choice.knobs = kept.choice.knobs;
        CHECK_OK(ah_schedule_evaluate(&d.schedule, &d.c.choice, &score, &err), err);
        test_case_emit(&d.c, &d.schedule, &second);
        CHECK_OK(ah_schedule_init(&other, &d.c.job, &err), err);
        CHECK_OK(ah_schedule_evaluate(&other, &d.c.choice, &score, &err), err);
        test_case_emit(&d.c, &other, &fresh);
        print(&first, &text[0]);
        print(&second, &text[1]);
        print(&fresh, &text[2]);
        for (size_t k = 1; k < 3; k++) {
            assert_int_equal(text[k].size, text[0].size);
            assert_memory_equal(text[k].data, text[0].data, text[0].size);
        }
        for (size_t k = 0; k < 3; k++)
            ah_buffer_release(&text[k]);
        ah_schedule_release(&other);
        ah_document_release(&first);
        ah_document_release(&second);
        ah_document_release(&fresh);
        close_case(&d);
    }
}

static double *durations_of(const struct ah_plan *plan)
{
    double *us = calloc(plan->n_ops, sizeof *us);
    assert_non_null(us);
    for (size_t op = 0; op < plan->n_ops; op++)
        us[op] = plan->ops[op].us;
    return us;
}

/* Gives each op a random fraction of its duration in `us`, for which the plan was made. */
static void draw_durations(struct ah_plan *plan, const double *us, double least, double most, uint64_t *seed)
{
    for (size_t op = 0; op < plan->n_ops; op++)
        plan->ops[op].us = us[op] * (least + (most - least) * check_uniform(seed));
}

/* With any durations, the orders run and the rules hold. */
TEST(schedule, orders_run_with_any_durations)
{
    static struct drawn d;
    uint64_t seed = check_seed(43);
    for (int i = 0; i < SETS / 10; i++) {
        struct ah_document document;
        open_case(&d, &seed);
        choose(&d, &seed);
        test_case_emit(&d.c, &d.schedule, &document);
        double *us = durations_of(document.body.plan);
        for (int k = 0; k < 10; k++) {
            draw_durations(document.body.plan, us, 0.01, k % 2 ? 2 : 30, &seed);
            check_rules(document.body.plan);
        }
        free(us);
        ah_document_release(&document);
        close_case(&d);
    }
}

/* Shorter ops make nothing later. This is exact in frozen orders without sharing. */
TEST(schedule, faster_is_never_later)
{
    static struct drawn d;
    uint64_t seed = check_seed(44);
    for (int i = 0; i < SETS / 10; i++) {
        struct ah_document document;
        struct ah_arena arena = {0};
        struct ah_replay slow, fast;
        struct ah_error err = {0};
        open_case(&d, &seed);
        choose(&d, &seed);
        test_case_emit(&d.c, &d.schedule, &document);
        struct ah_plan *plan = document.body.plan;
        plan->sharing.n_resources = 0;
        double *us = durations_of(plan);
        CHECK_OK(ah_replay_run(plan, ITERATIONS, &arena, &slow, &err), err);
        for (int k = 0; k < 10; k++) {
            draw_durations(plan, us, 0.2, 1, &seed);
            CHECK_OK(ah_replay_run(plan, ITERATIONS, &arena, &fast, &err), err);
            for (size_t item = 0; item < slow.n_items; item++)
                assert_true(fast.items[item].finish_us <= slow.items[item].finish_us);
        }
        free(us);
        ah_arena_release(&arena);
        ah_document_release(&document);
        close_case(&d);
    }
}
