/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders do not change results: plans run by priorities at run time give the losses, weights and traffic of frozen orders, bit for bit, on lanes that hold up ops for random times.
 * Lest that be equality of equal things, dynamic runs must take items in orders that the plan does not have.
 * $AH_DYNAMIC_PLANS: plans of each signature.
 */
#include "runtime/schedule/rounds.h"
#include "tests/golden/train/case.h"
#include "tests/property/train/traffic.h"
#include "tests/support/hooked.h"

#include "base/threads.h"

#include <inttypes.h>
#include <stdatomic.h>

enum { STEPS = 5, HOLD_UP_NS = 150000, OPS_MAX = 4096, ITEMS_MAX = 4096 };

static struct golden golden;
static struct golden_result first, frozen, other;
static struct traffic traffic;

static struct {
    uint64_t plans, other_orders;
    uint64_t ops[AH_PLAN_GATHER + 1], rings[AH_ROUNDS_RINGS], clipped[2], micro_batches[2], dtypes[2];
    uint64_t sums_in_ring;
} seen;

static uint64_t how_many(void)
{
    const char *text = getenv("AH_DYNAMIC_PLANS");
    return text ? strtoull(text, NULL, 10) : 6;
}

/* ---- lanes that hold up ops ---- */

static void hold_up(void *context, const struct hooked_op *op)
{
    const uint64_t *seed = context;
    uint64_t state = *seed + op->ticket * 8 + op->lane + 1;
    check_random(&state);
    if (check_random(&state) % 6 == 0)
        ah_threads_sleep_until_ns(ah_threads_now_ns() + check_random(&state) % HOLD_UP_NS);
}

/* ---- plans ---- */

/* The next config for each block, so that plans go through all of them; knobs by chance. Rings are small. */
static void choose(struct golden *g, uint64_t *turn, uint64_t *seed)
{
    golden_choose_next(g, turn);
    do {
        test_case_knobs(&g->c, seed);
        g->c.choice.knobs.tile_elements = AH_PLAN_TILE_UNIT;
        g->c.choice.knobs.scheduling = AH_SCHEDULING_PRIORITY;
    } while (!golden_plan(g));
}

static void see_plan(const struct golden *g)
{
    const struct ah_plan *plan = g->options.plan;
    seen.plans++;
    seen.clipped[plan->training.clip > 0]++;
    seen.micro_batches[plan->training.micro_batches > 1]++;
    seen.dtypes[plan->training.dtype == AH_BF16]++;
    seen.rings[AH_ROUNDS_HOST_GRADIENTS] += plan->staging.host_gradient_tiles > 0;
    seen.rings[AH_ROUNDS_HOST_WEIGHTS] += plan->staging.host_weight_tiles > 0;
    seen.rings[AH_ROUNDS_DEVICE_STATES] += plan->staging.device_state_tiles > 0;
    for (size_t op = 0; op < plan->n_ops; op++) {
        seen.ops[plan->ops[op].op]++;
        seen.sums_in_ring += plan->ops[op].op == AH_PLAN_ACCUMULATE && plan->staging.host_gradient_tiles > 0;
    }
}

/* ---- what was done ---- */

static void expect_same(const struct golden_result *a, const struct golden_result *b, const char *what)
{
    for (size_t i = 0; i < a->n_records; i++) {
        const struct ah_step_record *x = &a->records[i], *y = &b->records[i];
        if (memcmp(&x->loss, &y->loss, sizeof(double)) != 0 ||
            memcmp(&x->grad_norm, &y->grad_norm, sizeof(double)) != 0)
            fail_msg("%s, %s, plan %" PRIu64 ": loss of step %zu is %.17g, not %.17g", golden.folder, what,
                     seen.plans, i + 1, y->loss, x->loss);
    }
    assert_int_equal(a->n_records, b->n_records);
    assert_memory_equal(a->weights, b->weights, a->n_values * sizeof *a->weights);
}

/* Each step moves what it moves in frozen orders; a batch that is loaded ahead may be the next one's. */
static void expect_same_traffic(const struct golden *g, const struct golden_result *a,
                                const struct golden_result *b)
{
    uint64_t total[2] = {0}, load_bytes = g->c.job.training.micro_batches * g->c.job.input_bytes;
    for (size_t i = 0; i < a->n_records; i++) {
        assert_int_equal(a->records[i].d2h_bytes, b->records[i].d2h_bytes);
        assert_true(a->records[i].h2d_bytes <= b->records[i].h2d_bytes + load_bytes);
        assert_true(b->records[i].h2d_bytes <= a->records[i].h2d_bytes + load_bytes);
        total[0] += a->records[i].h2d_bytes;
        total[1] += b->records[i].h2d_bytes;
    }
    assert_int_equal(total[0], total[1]);
}

/* Frozen orders go back to the beginning of a list once a round; a run has two rounds before its first step. */
static size_t times_back(const struct ah_rounds *rounds, size_t lane, size_t from)
{
    uint32_t place[ITEMS_MAX], last = 0;
    size_t back = 0;
    assert_true(rounds->n_items <= ITEMS_MAX);
    for (uint32_t i = 0; i < rounds->n_order[lane]; i++)
        place[rounds->order[lane][i]] = i;
    for (size_t i = from; i < traffic.n[lane]; i++) {
        back += place[traffic.spans[lane][i].tag] < last;
        last = place[traffic.spans[lane][i].tag];
    }
    return back;
}

static const size_t none[AH_DEVICE_LANES];

/* In the last run, of so many steps; `from`: spans before it. */
static bool is_other_order(const struct golden *g, struct ah_trainer *trainer,
                           const size_t from[AH_DEVICE_LANES], size_t steps)
{
    struct ah_arena arena = {0};
    struct ah_rounds rounds;
    struct ah_error err = {0};
    CHECK_OK(ah_rounds_read(g->options.plan, &arena, &rounds, &err), err);
    traffic_read(&traffic, trainer);
    bool other_order = false;
    for (size_t lane = AH_PLAN_LANE_H2D; lane < AH_ROUNDS_LANES; lane++)
        other_order |= times_back(&rounds, lane, from[lane]) > steps + 2;
    ah_arena_release(&arena);
    return other_order;
}

/* ---- runs ---- */

/* How often ops of the plan were done in each step. */
static uint32_t done_frozen[STEPS][OPS_MAX], done_dynamic[STEPS][OPS_MAX];

static void count_op(void *context, const struct ah_op_record *record)
{
    uint32_t(*done)[OPS_MAX] = context;
    assert_true(record->step >= 1 && record->step <= STEPS);
    if (record->op != SIZE_MAX)
        done[record->step - 1][record->op]++;
}

struct hearing {
    struct golden_result *result;
    uint32_t (*done)[OPS_MAX];
};

static bool hear_step(void *context, const struct ah_step_record *record)
{
    return golden_keep_record(((struct hearing *)context)->result, record);
}

static void hear_op(void *context, const struct ah_op_record *record)
{
    count_op(((struct hearing *)context)->done, record);
}

static struct ah_trainer *train(struct golden *g, struct golden_result *result, uint32_t (*done)[OPS_MAX])
{
    struct hearing hearing = {result, done};
    const struct ah_observer observer = {.step = hear_step, .op = hear_op, .context = &hearing};
    struct ah_trainer *trainer;
    struct ah_error err = {0};
    assert_true(g->options.plan->n_ops <= OPS_MAX);
    memset(done, 0, STEPS * sizeof *done);
    result->n_records = 0;
    CHECK_OK(ah_trainer_open(&trainer, &g->options, &err), err);
    CHECK_OK(ah_trainer_run(trainer, STEPS, &observer, &err), err);
    golden_read(g, trainer, AH_TRAINER_WEIGHTS, result->weights, &result->n_values);
    return trainer;
}

static void run_dynamic(struct golden *g)
{
    g->plan.body.plan->scheduling = AH_SCHEDULING_DYNAMIC;
    struct ah_trainer *trainer = train(g, &other, done_dynamic);
    expect_same(&first, &other, "dynamic");
    expect_same_traffic(g, &frozen, &other);
    assert_memory_equal(done_frozen, done_dynamic, sizeof done_frozen);
    seen.other_orders += is_other_order(g, trainer, none, STEPS);
    ah_trainer_close(trainer);
    g->plan.body.plan->scheduling = AH_SCHEDULING_PRIORITY;
}

struct signature {
    const char *name;
    enum ah_dtype dtype, state_dtype;
};

static void run_signature(const struct signature *signature, uint64_t *seed)
{
    uint64_t turn[AH_BLOCK_HEAD + 1] = {0};
    golden_open_as(&golden, signature->name, signature->dtype, signature->state_dtype);
    golden.steps = STEPS;
    golden_plan_resident(&golden);
    ah_trainer_close(golden_start(&golden, &first));
    hooked_set(&(struct hooked_hooks){.before = hold_up, .context = seed});
    golden.options.device.spans = TRAFFIC_SPANS;
    for (uint64_t i = 0; i < how_many(); i++) {
        choose(&golden, turn, seed);
        golden.options.driver = ah_device_cpu();
        struct ah_trainer *trainer = train(&golden, &frozen, done_frozen);
        expect_same(&first, &frozen, "frozen");
        assert_false(is_other_order(&golden, trainer, none, STEPS));
        ah_trainer_close(trainer);
        golden.options.driver = hooked_driver();
        see_plan(&golden);
        run_dynamic(&golden);
    }
    golden_close(&golden);
}

static void expect_all_seen(void)
{
    for (size_t i = 0; i < sizeof seen.ops / sizeof *seen.ops; i++)
        if (!seen.ops[i])
            fail_msg("no plan had '%s'", ah_words_plan_op[i]);
    for (size_t i = 0; i < AH_ROUNDS_RINGS; i++)
        assert_true(seen.rings[i] > 0);
    for (size_t i = 0; i < 2; i++)
        assert_true(seen.clipped[i] && seen.micro_batches[i] && seen.dtypes[i]);
    assert_true(seen.sums_in_ring > 0 && seen.other_orders > 0);
}

static void test_dynamic__orders_do_not_change_results(void **state)
{
    static const struct signature signatures[] = {
        {"gpt2-untied-odd", AH_FP32, AH_FP32},   {"gpt2-frozen-table", AH_BF16, AH_FP32},
        {"llama-linear", AH_FP32, AH_FP32},      {"llama-frozen-below", AH_BF16, AH_FP32},
        {"mistral-documents", AH_BF16, AH_BF16}, {"qwen2-frozen-tensors", AH_FP32, AH_FP32}};
    uint64_t seed = check_seed(61);
    (void)state;
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++)
        run_signature(&signatures[i], &seed);
    print_message("%" PRIu64 " plans, %" PRIu64 " of them in other orders\n", seen.plans, seen.other_orders);
    expect_all_seen();
}

/* ---- which goes first ---- */

/* Holds up the norm until all gradients of its step are there, so that all updates are ready when it is done. */
struct gathering {
    const struct ah_rounds *rounds;
    const struct ah_plan *plan;
    uint64_t sends; /* items of a step */
    uint64_t norms;
    atomic_uint_fast64_t sent;
};

static enum ah_plan_op_kind kind_of(const struct gathering *gathering, const struct hooked_op *op)
{
    bool of_plan = op->tag < gathering->rounds->n_items;
    return of_plan ? gathering->plan->ops[gathering->rounds->items[op->tag].op].op : AH_PLAN_COLLECTIVE;
}

static void count_sends(void *context, const struct hooked_op *op)
{
    struct gathering *gathering = context;
    if (kind_of(gathering, op) == AH_PLAN_SEND_GRADIENTS)
        atomic_fetch_add(&gathering->sent, 1);
}

static void hold_norm(void *context, const struct hooked_op *op)
{
    struct gathering *gathering = context;
    if (kind_of(gathering, op) != AH_PLAN_NORM)
        return;
    gathering->norms++;
    while (atomic_load(&gathering->sent) < gathering->norms * gathering->sends)
        ah_threads_sleep_until_ns(ah_threads_now_ns() + 100000);
}

/* Updates of a step, one op each, in the order of their lane. */
static size_t check_updates(const struct gathering *gathering)
{
    const struct ah_rounds *rounds = gathering->rounds;
    uint64_t before = 0;
    size_t n = 0;
    for (size_t i = 0; i < traffic.n[AH_LANE_HOST]; i++) {
        const struct ah_rounds_item *item = &rounds->items[traffic.spans[AH_LANE_HOST][i].tag];
        enum ah_plan_op_kind kind = gathering->plan->ops[item->op].op;
        if (kind == AH_PLAN_HOST_ADAM && item->priority < before)
            fail_msg("update %zu, of block %" PRIu64 ", tile %u, is late", n,
                     gathering->plan->ops[item->op].block, item->tile);
        before = kind == AH_PLAN_HOST_ADAM ? item->priority : 0;
        n += kind == AH_PLAN_HOST_ADAM;
    }
    return n;
}

static void test_dynamic__takes_what_is_needed_first(void **state)
{
    struct ah_arena arena = {0};
    struct ah_rounds rounds;
    struct ah_error err = {0};
    (void)state;
    golden_open(&golden, "llama", AH_FP32); /* clipped, one micro-batch */
    golden.steps = STEPS;
    golden_plan_resident(&golden);
    for (size_t block = 0; block < golden.c.job.n_blocks; block++)
        golden.c.configs[block].optimizer = AH_OPTIMIZER_HOST;
    golden.c.choice.knobs.send_behind = 8;
    golden.c.choice.knobs.scheduling = AH_SCHEDULING_FIFO; /* lists of another order */
    assert_true(golden_plan(&golden));
    golden.plan.body.plan->scheduling = AH_SCHEDULING_DYNAMIC;
    CHECK_OK(ah_rounds_read(golden.options.plan, &arena, &rounds, &err), err);
    struct gathering gathering = {.rounds = &rounds, .plan = golden.options.plan};
    for (size_t i = 0; i < rounds.n_items; i++)
        gathering.sends += golden.options.plan->ops[rounds.items[i].op].op == AH_PLAN_SEND_GRADIENTS;
    hooked_set(&(struct hooked_hooks){.before = hold_norm, .after = count_sends, .context = &gathering});
    golden.options.driver = hooked_driver();
    golden.options.device.spans = TRAFFIC_SPANS;
    struct ah_trainer *trainer = train(&golden, &other, done_dynamic);
    traffic_read(&traffic, trainer);
    assert_true(check_updates(&gathering) >= (size_t)STEPS * gathering.sends);
    ah_trainer_close(trainer);
    ah_arena_release(&arena);
    golden_close(&golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dynamic__takes_what_is_needed_first),
        cmocka_unit_test(test_dynamic__orders_do_not_change_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
