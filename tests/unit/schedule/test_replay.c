/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests replaying invalid plans. Each must give a document error that says what is wrong, and none may crash.
 */
#include "runtime/schedule/replay.h"
#include "tests/property/schedule/choices.h"

enum { LAYERS = 4 };

struct valid {
    struct test_case c;
    struct ah_schedule schedule;
    struct ah_document document;
    struct ah_plan *plan;
};

/* Makes a plan with every kind of op: blocks on the host, streamed blocks, sums on the host, clipping, all rings. */
static void make_valid(struct valid *v, enum ah_optimizer optimizer)
{
    struct ah_score score;
    struct ah_error err = {0};
    test_case_model(&v->c, LAYERS, 64, false);
    v->c.patterns[0] = "*";
    test_case_job(&v->c,
                  (struct ah_plan_training){
                      .batch = 4, .micro_batches = 2, .seq = 32, .clip = 1, .state_dtype = AH_FP32},
                  1);
    test_case_costs(&v->c, 100, 70, 150);
    for (size_t block = 0; block < v->c.job.n_blocks; block++)
        v->c.configs[block] = (struct ah_config){
            .weights = AH_WEIGHTS_HOST,
            .optimizer = (uint8_t)optimizer,
            .accumulator = optimizer == AH_OPTIMIZER_HOST ? AH_ACCUMULATOR_HOST : AH_ACCUMULATOR_DEVICE};
    v->c.configs[2].weights = AH_WEIGHTS_DEVICE;
    v->c.choice.knobs = (struct ah_knobs){.tile_elements = 2 * AH_PLAN_TILE_UNIT,
                                          .fetch_ahead = 1,
                                          .send_behind = 1,
                                          .host_gradient_tiles = 6,
                                          .host_weight_tiles = 3,
                                          .device_state_tiles = 3};
    v->schedule = (struct ah_schedule){0};
    CHECK_OK(ah_schedule_init(&v->schedule, &v->c.job, &err), err);
    CHECK_OK(ah_schedule_evaluate(&v->schedule, &v->c.choice, &score, &err), err);
    test_case_emit(&v->c, &v->schedule, &v->document);
    v->plan = v->document.body.plan;
}

static void drop_valid(struct valid *v)
{
    ah_document_release(&v->document);
    ah_schedule_release(&v->schedule);
    test_case_close(&v->c);
}

static struct ah_plan_op *op_of(const struct valid *v, enum ah_plan_op_kind kind, uint64_t block)
{
    size_t op = 0;
    while (op < v->plan->n_ops && (v->plan->ops[op].op != kind || v->plan->ops[op].block != block))
        op++;
    assert_true(op < v->plan->n_ops);
    return &v->plan->ops[op];
}

static void check_refused(const struct valid *v, const char *part)
{
    struct ah_arena arena = {0};
    struct ah_replay replay;
    struct ah_error err = {0};
    CHECK_FAILS(ah_replay_run(v->plan, 4, &arena, &replay, &err), err, AH_E_DOCUMENT, part);
    ah_arena_release(&arena);
}

TEST(replay, needs_three_iterations)
{
    static struct valid v;
    struct ah_arena arena = {0};
    struct ah_replay replay;
    struct ah_error err = {0};
    make_valid(&v, AH_OPTIMIZER_HOST);
    CHECK_FAILS(ah_replay_run(v.plan, 2, &arena, &replay, &err), err, AH_E_USAGE, "3 or more");
    CHECK_OK(ah_replay_run(v.plan, 3, &arena, &replay, &err), err);
    ah_arena_release(&arena);
    drop_valid(&v);
}

static void no_positions(struct valid *v)
{
    op_of(v, AH_PLAN_UPLOAD, 2)->issue_after = AH_PLAN_NOWHERE;
}

static void position_beyond(struct valid *v)
{
    op_of(v, AH_PLAN_SEND_GRADIENTS, 2)->due_before = v->plan->lanes.n_order[AH_PLAN_LANE_COMPUTE];
}

static void wrong_lane(struct valid *v)
{
    op_of(v, AH_PLAN_UPLOAD, 2)->op = AH_PLAN_SEND_GRADIENTS;
}

static void twice(struct valid *v)
{
    op_of(v, AH_PLAN_HOST_ADAM, 2)->block = 1;
}

static void tiled_norm(struct valid *v)
{
    op_of(v, AH_PLAN_NORM, 0)->tiles = 2;
}

static void no_update(struct valid *v)
{
    op_of(v, AH_PLAN_HOST_ADAM, 3)->op = AH_PLAN_GATHER;
}

static void no_head(struct valid *v)
{
    for (size_t p = 0; p < v->plan->lanes.n_order[AH_PLAN_LANE_COMPUTE]; p++) {
        struct ah_plan_op *op = ah_plan_compute_op(v->plan, p);
        if (op->block + 1 == v->plan->n_blocks)
            op->op = AH_PLAN_BACKWARD;
    }
}

static void no_norm(struct valid *v)
{
    op_of(v, AH_PLAN_NORM, 0)->op = AH_PLAN_ACCUMULATE;
}

static void backwards(struct valid *v)
{
    uint64_t *order = v->plan->lanes.order[AH_PLAN_LANE_HOST];
    size_t n = v->plan->lanes.n_order[AH_PLAN_LANE_HOST];
    for (size_t i = 0; i < n / 2; i++) {
        uint64_t op = order[i];
        order[i] = order[n - 1 - i];
        order[n - 1 - i] = op;
    }
}

static void too_slow(struct valid *v)
{
    v->plan->sharing.weights.of[AH_PLAN_LANE_HOST] = 1e-9;
}

TEST(replay, says_what_no_plan_has)
{
    static const struct {
        void (*spoil)(struct valid *v);
        const char *part;
    } cases[] = {{no_positions, "'upload' needs 'issue_after'"},
                 {position_beyond, "'send_gradients' needs 'issue_after'"},
                 {wrong_lane, "'send_gradients' is not done by 'h2d'"},
                 {twice, "a block has only one 'host_adam', but block 1 has another"},
                 {tiled_norm, "a 'norm' is one"},
                 {no_update, "blocks[3]: host_adam needs send_gradients"},
                 {no_head, "the head's forward is missing"},
                 {no_norm, "there is no norm"},
                 {backwards, "lanes: these orders cannot run"},
                 {too_slow, "weight 1e-09"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static struct valid v;
        make_valid(&v, AH_OPTIMIZER_HOST);
        cases[i].spoil(&v);
        check_refused(&v, cases[i].part);
        drop_valid(&v);
    }
}

static void uneven_tiles(struct valid *v)
{
    op_of(v, AH_PLAN_STATES_IN, 2)->tiles--;
}

static void states_stay(struct valid *v)
{
    op_of(v, AH_PLAN_STATES_OUT, 3)->op = AH_PLAN_SEND_GRADIENTS;
}

TEST(replay, wants_states_in_and_out)
{
    static void (*const cases[])(struct valid *) = {uneven_tiles, states_stay};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static struct valid v;
        make_valid(&v, AH_OPTIMIZER_STREAMED);
        cases[i](&v);
        check_refused(&v, "states");
        drop_valid(&v);
    }
}

static uint64_t draw_number(uint64_t most, uint64_t *seed)
{
    static const uint64_t odd[] = {0, 1, AH_PLAN_NOWHERE, AH_PLAN_NOWHERE - 1, UINT32_MAX, 65536};
    return test_below(seed, 4) ? test_below(seed, most) : odd[test_below(seed, sizeof odd / sizeof odd[0])];
}

static void swap_mentions(uint64_t *order, size_t n, uint64_t *seed)
{
    if (!n)
        return;
    size_t a = test_below(seed, n), b = test_below(seed, n);
    uint64_t op = order[a];
    order[a] = order[b];
    order[b] = op;
}

static void spoil(struct ah_plan *plan, uint64_t *seed)
{
    struct ah_plan_op *op = &plan->ops[test_below(seed, plan->n_ops)];
    uint64_t positions = plan->lanes.n_order[AH_PLAN_LANE_COMPUTE] + 2;
    switch (test_below(seed, 12)) {
    case 0:
        op->op = (enum ah_plan_op_kind)test_below(seed, AH_PLAN_OP_KINDS);
        break;
    case 1:
        op->lane = (enum ah_plan_lane)test_below(seed, 4);
        break;
    case 2:
        op->block = draw_number(plan->n_blocks + 1, seed);
        break;
    case 3:
        op->micro_batch = draw_number(3, seed);
        break;
    case 4:
        op->issue_after = draw_number(positions, seed);
        break;
    case 5:
        op->due_before = draw_number(positions, seed);
        break;
    case 6:
        op->tiles = draw_number(8, seed);
        break;
    case 7:
        op->bytes = draw_number(1 << 20, seed);
        break;
    case 8:
        swap_mentions(plan->lanes.order[AH_PLAN_LANE_H2D], plan->lanes.n_order[AH_PLAN_LANE_H2D], seed);
        break;
    case 9:
        swap_mentions(plan->lanes.order[AH_PLAN_LANE_HOST], plan->lanes.n_order[AH_PLAN_LANE_HOST], seed);
        break;
    case 10:
        swap_mentions(plan->lanes.order[AH_PLAN_LANE_COMPUTE], plan->lanes.n_order[AH_PLAN_LANE_COMPUTE],
                      seed);
        break;
    default:
        plan->staging.host_gradient_tiles = draw_number(4, seed);
        plan->staging.device_state_tiles = draw_number(4, seed);
    }
}

static void parse(struct ah_document *document, const struct ah_buffer *text)
{
    struct ah_error err = {0};
    CHECK_OK(ah_document_parse(document, "plan.json", text->data, text->size, AH_DOCUMENT_PLAN, &err), err);
}

/* Spoils a plan in memory, and prints it if possible. If the text can be read, replays the plan and returns true. */
static bool try_spoiled(const struct ah_buffer *valid, uint64_t *seed)
{
    struct ah_document document = {0}, again = {0};
    struct ah_buffer text = {0};
    struct ah_error err = {0};
    struct ah_arena arena = {0};
    struct ah_replay replay;
    parse(&document, valid);
    for (uint64_t k = test_below(seed, 3); k < 3; k++)
        spoil(document.body.plan, seed);
    bool read = !ah_document_print(&document, &text, &err) &&
                !ah_document_parse(&again, "plan.json", text.data, text.size, AH_DOCUMENT_PLAN, &err);
    if (read) {
        int rc = ah_replay_run(again.body.plan, 4, &arena, &replay, &err);
        if (rc != AH_OK && rc != AH_E_DOCUMENT)
            fail_msg("%d: %s", rc, err.text);
        ah_document_release(&again);
    }
    ah_arena_release(&arena);
    ah_buffer_release(&text);
    ah_document_release(&document);
    return read;
}

TEST(replay, survives_any_numbers)
{
    static struct valid v;
    uint64_t seed = check_seed(51);
    const size_t each = check_scaled(2000);
    size_t read = 0, kinds = 0;
    for (int kind = AH_OPTIMIZER_HOST; kind <= AH_OPTIMIZER_STREAMED; kind++, kinds++) {
        struct ah_buffer text = {0};
        struct ah_error err = {0};
        make_valid(&v, (enum ah_optimizer)kind);
        CHECK_OK(ah_document_print(&v.document, &text, &err), err);
        for (size_t i = 0; i < each; i++)
            read += try_spoiled(&text, &seed);
        ah_buffer_release(&text);
        drop_valid(&v);
    }
    print_message("%zu of %zu were read\n", read, kinds * each);
    assert_true(read > kinds * each / 10);
}
