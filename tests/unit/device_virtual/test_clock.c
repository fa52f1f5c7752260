/* SPDX-License-Identifier: Apache-2.0
 *
 * Simulates small graphs and compares the results with times worked out by hand.
 */
#include "runtime/device/virtual/clock.h"
#include "tests/support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void run(struct ah_clock *clock, const struct ah_clock_graph *graph,
                struct ah_clock_result *ret_result)
{
    struct ah_error err = {0};
    CHECK_OK(ah_clock_reserve(clock, graph, 1, &err), err);
    CHECK_OK(ah_clock_run(clock, graph, ret_result, &err), err);
}

static void check_span(const struct ah_clock_result *result, uint32_t op, double ready, double start,
                       double finish)
{
    const struct ah_clock_span *span = &result->spans[op];
    if (span->ready_us != ready || span->start_us != start || span->finish_us != finish)
        fail_msg("op %u: ready %g, start %g, finish %g; expected %g, %g, %g", op, span->ready_us,
                 span->start_us, span->finish_us, ready, start, finish);
}

/* The graph is a fetch, a product that needs the fetched data, and a second fetch that runs beside the product. */
TEST(clock, lanes_overlap)
{
    const double duration[] = {10, 30, 20, 5};
    const uint32_t lane[] = {1, 0, 1, 0};
    const size_t first[] = {0, 0, 1, 1, 3};
    const uint32_t dependency[] = {0, 1, 2};
    const struct ah_clock_graph graph = {.n_ops = 4,
                                         .n_lanes = 2,
                                         .duration_us = duration,
                                         .lane = lane,
                                         .dependency_first = first,
                                         .dependency = dependency};
    struct ah_clock clock = {0};
    struct ah_clock_result result;
    run(&clock, &graph, &result);
    check_span(&result, 0, 0, 0, 10);
    check_span(&result, 1, 10, 10, 40);
    check_span(&result, 2, 0, 10, 30);
    check_span(&result, 3, 40, 40, 45);
    assert_true(result.end_us == 45);
    assert_int_equal(result.spans[0].waited_for, AH_CLOCK_NO_OP);
    assert_int_equal(result.spans[1].waited_for, 0);
    assert_int_equal(result.spans[3].waited_for, 1);
    assert_true(result.lanes[0].busy_us == 35 && result.lanes[0].idle_us == 10);
    assert_true(result.lanes[1].busy_us == 30 && result.lanes[1].idle_us == 15);
    ah_clock_release(&clock);
}

/* Op 0 runs at full speed until 50. From then on, ops 0 and 2 run at 100 / 125 = 0.8. Op 0 has 50 us of work left and
 * ends at 112.5. At that time op 2 has done 50 of its 100, so op 2 ends at 162.5. */
TEST(clock, contention_stretches_ops)
{
    const struct ah_share_demand demands[] = {{.amount = {75}}, {.amount = {50}}, {.amount = {0}}};
    const double capacity[] = {100};
    const double duration[] = {100, 50, 100};
    const uint32_t lane[] = {0, 1, 1};
    const uint32_t demand[] = {0, 2, 1};
    const struct ah_clock_graph graph = {.n_ops = 3,
                                         .n_lanes = 2,
                                         .n_demands = 3,
                                         .n_resources = 1,
                                         .duration_us = duration,
                                         .lane = lane,
                                         .demand = demand,
                                         .demands = demands,
                                         .capacity = capacity};
    struct ah_clock clock = {0};
    struct ah_clock_result result;
    run(&clock, &graph, &result);
    check_span(&result, 0, 0, 0, 112.5);
    check_span(&result, 1, 0, 0, 50);
    check_span(&result, 2, 0, 50, 162.5);
    assert_int_equal(result.spans[0].slowed_by, 0);
    assert_int_equal(result.spans[1].slowed_by, AH_SHARE_NONE);
    assert_int_equal(result.spans[2].slowed_by, 0);
    assert_true(result.lanes[0].slowed_us == 12.5 && result.lanes[1].slowed_us == 12.5);
    ah_clock_release(&clock);
}

/* Beside op 1, op 0 runs at 1/4 until 40 and loses 30 us to resource 0. Beside op 2 it runs at 4/5 until 120 and loses
 * 16 us to resource 1. From 120 on, op 0 runs alone. So the shorter contention costs more. */
TEST(clock, names_the_resource_that_cost_most)
{
    const struct ah_share_demand demands[] = {{.amount = {1, 1}}, {.amount = {3, 0}}, {.amount = {0, 0.25}}};
    const double capacity[] = {1, 1};
    const double duration[] = {100, 10, 64};
    const uint32_t lane[] = {0, 1, 1};
    const uint32_t demand[] = {0, 1, 2};
    const struct ah_clock_graph graph = {.n_ops = 3,
                                         .n_lanes = 2,
                                         .n_demands = 3,
                                         .n_resources = 2,
                                         .duration_us = duration,
                                         .lane = lane,
                                         .demand = demand,
                                         .demands = demands,
                                         .capacity = capacity};
    struct ah_clock clock = {0};
    struct ah_clock_result result;
    run(&clock, &graph, &result);
    check_span(&result, 0, 0, 0, 146);
    check_span(&result, 1, 0, 0, 40);
    check_span(&result, 2, 0, 40, 120);
    assert_int_equal(result.spans[0].slowed_by, 0);
    assert_int_equal(result.spans[1].slowed_by, 0);
    assert_int_equal(result.spans[2].slowed_by, 1);
    ah_clock_release(&clock);
}

/* Returns lane 0's order under a rule. It is busy until 10. Ops of lane 1 make op 1 ready at 2, ops 2 and 3 at 1. */
static void order_under(enum ah_clock_rule rule, uint32_t ret_order[4])
{
    static const double duration[] = {10, 1, 1, 1, 1, 1};
    static const uint32_t lane[] = {0, 0, 0, 0, 1, 1};
    static const uint64_t priority[] = {0, 7, 8, 7, 0, 0};
    static const size_t first[] = {0, 0, 1, 2, 3, 3, 3};
    static const uint32_t dependency[] = {5, 4, 4};
    const enum ah_clock_rule rules[] = {rule, AH_CLOCK_FROZEN};
    const struct ah_clock_graph graph = {.n_ops = 6,
                                         .n_lanes = 2,
                                         .duration_us = duration,
                                         .lane = lane,
                                         .priority = priority,
                                         .dependency_first = first,
                                         .dependency = dependency,
                                         .rule = rules};
    struct ah_clock clock = {0};
    struct ah_clock_result result;
    run(&clock, &graph, &result);
    assert_int_equal(result.lanes[0].n, 4);
    assert_true(result.end_us == 13);
    memcpy(ret_order, result.order + result.lanes[0].first, 4 * sizeof *ret_order);
    ah_clock_release(&clock);
}

TEST(clock, rules_choose_the_order)
{
    const uint32_t by_priority[] = {0, 1, 3, 2};
    const uint32_t by_time[] = {0, 2, 3, 1};
    const uint32_t by_index[] = {0, 1, 2, 3};
    uint32_t order[4];
    order_under(AH_CLOCK_PRIORITY, order);
    assert_memory_equal(order, by_priority, sizeof order);
    order_under(AH_CLOCK_FIFO, order);
    assert_memory_equal(order, by_time, sizeof order);
    order_under(AH_CLOCK_FROZEN, order);
    assert_memory_equal(order, by_index, sizeof order);
}

/* The order found by a clock can be frozen, for that clock or for another. */
TEST(clock, takes_its_own_order)
{
    const double duration[] = {1, 2, 3, 4};
    const uint32_t lane[] = {1, 1, 0, 1};
    const uint64_t priority[] = {3, 1, 0, 2};
    const enum ah_clock_rule rules[] = {AH_CLOCK_FROZEN, AH_CLOCK_PRIORITY};
    struct ah_clock_graph graph = {
        .n_ops = 4, .n_lanes = 2, .duration_us = duration, .lane = lane, .priority = priority, .rule = rules};
    struct ah_clock clock = {0}, other = {0};
    struct ah_clock_result result, again;
    run(&clock, &graph, &result);
    const uint32_t expected[] = {2, 1, 3, 0};
    assert_memory_equal(result.order, expected, sizeof expected);
    graph.rule = NULL;
    graph.order = result.order;
    run(&other, &graph, &again);
    assert_memory_equal(again.order, expected, sizeof expected);
    run(&clock, &graph, &again);
    assert_memory_equal(again.order, expected, sizeof expected);
    check_span(&again, 1, 0, 0, 2);
    check_span(&again, 0, 0, 6, 7);
    ah_clock_release(&other);
    ah_clock_release(&clock);
}

/* In the frozen order of lane 0, op 1 is first and waits for lane 1. Op 0 is ready, but must wait for op 1. */
TEST(clock, a_frozen_lane_waits_for_its_next_op)
{
    const double duration[] = {1, 2, 10};
    const uint32_t lane[] = {0, 0, 1};
    const uint32_t order[] = {1, 0, 2};
    const size_t first[] = {0, 0, 1, 1};
    const uint32_t dependency[] = {2};
    const struct ah_clock_graph graph = {.n_ops = 3,
                                         .n_lanes = 2,
                                         .duration_us = duration,
                                         .lane = lane,
                                         .dependency_first = first,
                                         .dependency = dependency,
                                         .order = order};
    struct ah_clock clock = {0};
    struct ah_clock_result result;
    run(&clock, &graph, &result);
    check_span(&result, 1, 10, 10, 12);
    check_span(&result, 0, 0, 12, 13);
    ah_clock_release(&clock);
}

/* A chain of ops without duration, through both lanes, takes no time. */
TEST(clock, ops_without_duration_take_no_time)
{
    const double duration[] = {4, 0, 0, 0, 3};
    const uint32_t lane[] = {0, 1, 0, 1, 0};
    const size_t first[] = {0, 0, 1, 2, 3, 4};
    const uint32_t dependency[] = {0, 1, 2, 3};
    const struct ah_clock_graph graph = {.n_ops = 5,
                                         .n_lanes = 2,
                                         .duration_us = duration,
                                         .lane = lane,
                                         .dependency_first = first,
                                         .dependency = dependency};
    struct ah_clock clock = {0};
    struct ah_clock_result result;
    run(&clock, &graph, &result);
    for (uint32_t op = 1; op <= 3; op++)
        check_span(&result, op, 4, 4, 4);
    check_span(&result, 4, 4, 4, 7);
    ah_clock_release(&clock);
}

TEST(clock, an_empty_graph_ends_at_once)
{
    const struct ah_clock_graph graph = {0};
    struct ah_clock clock = {0};
    struct ah_clock_result result;
    run(&clock, &graph, &result);
    assert_true(result.end_us == 0);
    ah_clock_release(&clock);
    ah_clock_release(&clock);
}

/* Ops on eight lanes have ten different demands, so there are more combinations of running ops than the clock
 * remembers. The only resource is always short, so the time taken equals the work done on that resource. */
TEST(clock, many_running_sets_lose_no_work)
{
    enum { OPS = 4000, LANES = 8, ROWS = 10 };
    static double duration[OPS];
    static uint32_t lane[OPS];
    static uint32_t demand[OPS];
    static enum ah_clock_rule rule[LANES];
    static struct ah_share_demand demands[ROWS];
    const double capacity[] = {1};
    uint64_t seed = check_seed(5);
    double work = 0;
    for (size_t row = 0; row < ROWS; row++)
        demands[row].amount[0] = 1 + 0.1 * (double)row;
    for (size_t op = 0; op < OPS; op++) {
        duration[op] = 1 + check_uniform(&seed);
        lane[op] = (uint32_t)(op % LANES);
        demand[op] = (uint32_t)(check_random(&seed) % ROWS);
        work += duration[op] * demands[demand[op]].amount[0];
    }
    const struct ah_clock_graph graph = {.n_ops = OPS,
                                         .n_lanes = LANES,
                                         .n_demands = ROWS,
                                         .n_resources = 1,
                                         .duration_us = duration,
                                         .lane = lane,
                                         .demand = demand,
                                         .rule = rule,
                                         .demands = demands,
                                         .capacity = capacity};
    struct ah_clock clock = {0};
    struct ah_clock_result result;
    run(&clock, &graph, &result);
    check_near(result.end_us / work, 1, 1e-10);
    ah_clock_release(&clock);
}

TEST(clock, needs_room)
{
    const double duration[] = {1, 1};
    const uint32_t lane[] = {0, 0};
    const struct ah_clock_graph graph = {.n_ops = 2, .n_lanes = 1, .duration_us = duration, .lane = lane};
    struct ah_clock clock = {0};
    struct ah_clock_result result;
    struct ah_error err = {0};
    CHECK_FAILS(ah_clock_run(&clock, &graph, &result, &err), err, AH_E_CAPACITY, "room for 0 ops");
    CHECK_OK(ah_clock_reserve(&clock, &(struct ah_clock_graph){.n_ops = 1}, 1, &err), err);
    CHECK_FAILS(ah_clock_run(&clock, &graph, &result, &err), err, AH_E_CAPACITY, "room for 1 ops");
    CHECK_FAILS(ah_clock_reserve(&clock, &(struct ah_clock_graph){.n_ops = (size_t)1 << 32}, 1, &err), err,
                AH_E_USAGE, "4294967296 ops");
    CHECK_OK(ah_clock_reserve(&clock, &graph, 1, &err), err);
    CHECK_OK(ah_clock_run(&clock, &graph, &result, &err), err);
    ah_clock_release(&clock);
}

TEST(clock, refuses_courses)
{
    const double duration[] = {1, 1};
    const uint32_t lane[] = {0, 0}, dependency[] = {0};
    const size_t first[] = {0, 0, 1};
    uint8_t back[] = {2};
    struct ah_clock_graph graph = {.n_ops = 2,
                                   .n_lanes = 1,
                                   .duration_us = duration,
                                   .lane = lane,
                                   .dependency_first = first,
                                   .dependency = dependency};
    struct ah_clock_course course = {.iterations = 3};
    struct ah_clock clock = {0};
    struct ah_clock_result result;
    struct ah_error err = {0};
    CHECK_FAILS(ah_clock_repeat(&clock, &course, &result, &err), err, AH_E_USAGE, "no graph");
    CHECK_OK(ah_clock_reserve(&clock, &(struct ah_clock_graph){.n_ops = 2}, 3, &err), err);
    CHECK_FAILS(ah_clock_load(&clock, &graph, &err), err, AH_E_CAPACITY,
                "0 dependencies, but the graph has 1");
    CHECK_OK(ah_clock_reserve(&clock, &graph, 3, &err), err);
    CHECK_OK(ah_clock_load(&clock, &graph, &err), err);
    CHECK_OK(ah_clock_repeat(&clock, &course, &result, &err), err);
    assert_true(result.end_us == 6);
    course.iterations = 4;
    CHECK_FAILS(ah_clock_repeat(&clock, &course, &result, &err), err, AH_E_CAPACITY, "4 iterations of 2");
    course.iterations = 0;
    CHECK_FAILS(ah_clock_repeat(&clock, &course, &result, &err), err, AH_E_USAGE, "0 iterations");
    graph.dependency_back = back;
    CHECK_FAILS(ah_clock_load(&clock, &graph, &err), err, AH_E_USAGE, "2 iterations before");
    course.iterations = 3;
    CHECK_FAILS(ah_clock_repeat(&clock, &course, &result, &err), err, AH_E_USAGE, "no graph");
    ah_clock_release(&clock);
}

TEST(clock, names_an_op_on_a_cycle)
{
    const double duration[] = {1, 1, 1, 1};
    const uint32_t lane[] = {0, 0, 1, 1};
    const uint32_t order[] = {0, 1, 2, 3};
    const size_t first[] = {0, 0, 1, 2, 2};
    const uint32_t dependency[] = {3, 1};
    const struct ah_clock_graph graph = {.n_ops = 4,
                                         .n_lanes = 2,
                                         .duration_us = duration,
                                         .lane = lane,
                                         .dependency_first = first,
                                         .dependency = dependency,
                                         .order = order};
    struct ah_clock clock = {0};
    struct ah_clock_result result;
    struct ah_error err = {0};
    CHECK_OK(ah_clock_reserve(&clock, &graph, 1, &err), err);
    CHECK_FAILS(ah_clock_run(&clock, &graph, &result, &err), err, AH_E_FAILED,
                "op 1 on lane 0 can never start: it waits for op 3 on lane 1");
    ah_clock_release(&clock);
}

/* Lane 0 sends tiles into a ring of one slot. Lane 1 uses the tiles and frees the slot. Op 4 needs no slot. */
struct ringed {
    double duration[5];
    uint32_t lane[5];
    uint64_t priority[5];
    size_t first[6];
    uint32_t dependency[2];
    uint8_t takes[5], gives[5];
    uint32_t places[1];
    enum ah_clock_rule rule[2];
    struct ah_clock_graph graph;
};

static void init_ringed(struct ringed *r)
{
    *r = (struct ringed){.duration = {1, 10, 1, 10, 3},
                         .lane = {0, 1, 0, 1, 0},
                         .priority = {0, 0, 1, 1, 2},
                         .first = {0, 0, 1, 1, 2, 2},
                         .dependency = {0, 2},
                         .takes = {0, AH_CLOCK_NO_RING, 0, AH_CLOCK_NO_RING, AH_CLOCK_NO_RING},
                         .gives = {AH_CLOCK_NO_RING, 0, AH_CLOCK_NO_RING, 0, AH_CLOCK_NO_RING},
                         .places = {1},
                         .rule = {AH_CLOCK_PRIORITY, AH_CLOCK_PRIORITY}};
    r->graph = (struct ah_clock_graph){.n_ops = 5,
                                       .n_lanes = 2,
                                       .n_rings = 1,
                                       .duration_us = r->duration,
                                       .lane = r->lane,
                                       .priority = r->priority,
                                       .dependency_first = r->first,
                                       .dependency = r->dependency,
                                       .takes = r->takes,
                                       .gives = r->gives,
                                       .ring_slots = r->places,
                                       .rule = r->rule};
}

TEST(clock, an_op_waits_for_its_place)
{
    struct ringed r;
    struct ah_clock clock = {0};
    struct ah_clock_result result;
    init_ringed(&r);
    run(&clock, &r.graph, &result);
    check_span(&result, 0, 0, 0, 1);
    check_span(&result, 4, 0, 1, 4); /* overtakes op 2, because op 2 waits for a slot */
    check_span(&result, 2, 0, 11, 12);
    check_span(&result, 3, 12, 12, 22);
    assert_true(result.spans[0].slot_us == 0 && result.spans[2].slot_us == 11);
    assert_int_equal(result.spans[0].gave_slot, AH_CLOCK_NO_OP);
    assert_int_equal(result.spans[2].gave_slot, 1);
    assert_int_equal(result.spans[2].waited_for, AH_CLOCK_NO_OP);
    r.graph.rule = NULL;
    run(&clock, &r.graph, &result);
    check_span(&result, 2, 0, 11, 12);
    check_span(&result, 4, 0, 12, 15); /* runs after op 2, in the frozen order */
    ah_clock_release(&clock);
}

TEST(clock, says_that_a_ring_is_too_small)
{
    struct ringed r;
    struct ah_clock clock = {0};
    struct ah_clock_result result;
    struct ah_error err = {0};
    init_ringed(&r);
    CHECK_OK(ah_clock_reserve(&clock, &r.graph, 1, &err), err);
    r.dependency[0] = 2; /* the first use waits for both tiles, so both tiles need slots at once */
    CHECK_FAILS(
        ah_clock_run(&clock, &r.graph, &result, &err), err, AH_E_FAILED,
        "op 2 on lane 0 can never start: it waits for one of the 1 slots of ring 0, which op 1 on lane 1");
    r.places[0] = 2;
    CHECK_OK(ah_clock_run(&clock, &r.graph, &result, &err), err);
    r.places[0] = 1;
    r.gives[1] = r.gives[3] = AH_CLOCK_NO_RING;
    CHECK_FAILS(ah_clock_run(&clock, &r.graph, &result, &err), err, AH_E_FAILED,
                "no remaining op gives one back");
    ah_clock_release(&clock);
}

TEST(clock, refuses_rings_of_several_lanes)
{
    static const struct {
        int taker, giver; /* another op that takes or gives a slot; -1: none */
        uint8_t ring;
        size_t n_rings;
        const char *text;
    } cases[] = {
        {3, -1, 0, 1, "op 3 on lane 1 takes of ring 0, and so does an op of lane 0"},
        {-1, 4, 0, 1, "op 4 on lane 0 gives to ring 0, and so does an op of lane 1"},
        {4, -1, 1, 2, "op 4 takes slots from ring 1, but another op of lane 0 takes slots from ring 0"},
        {4, -1, 1, 1, "op 4 takes of ring 1 of 1"},
        {-1, 4, 9, 1, "op 4 gives to ring 9 of 1"},
        {-1, -1, 0, 9, "9 rings"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ringed r;
        struct ah_clock clock = {0};
        struct ah_clock_result result;
        struct ah_error err = {0};
        init_ringed(&r);
        if (cases[i].taker >= 0)
            r.takes[cases[i].taker] = cases[i].ring;
        if (cases[i].giver >= 0)
            r.gives[cases[i].giver] = cases[i].ring;
        r.graph.n_rings = cases[i].n_rings;
        CHECK_OK(ah_clock_reserve(&clock, &r.graph, 1, &err), err);
        CHECK_FAILS(ah_clock_run(&clock, &r.graph, &result, &err), err, AH_E_USAGE, cases[i].text);
        ah_clock_release(&clock);
    }
}

/* A valid graph in which one number was spoiled. */
struct spoiled {
    double duration[2];
    uint32_t lane[2];
    uint32_t demand[2];
    size_t first[3];
    uint32_t dependency[1];
    uint32_t order[2];
    struct ah_share_demand demands[2];
    double capacity[1];
    struct ah_clock_graph graph;
};

static void spoil_duration(struct spoiled *s)
{
    s->duration[1] = (double)NAN;
}
static void spoil_duration_sign(struct spoiled *s)
{
    s->duration[1] = -1;
}
static void spoil_lane(struct spoiled *s)
{
    s->lane[1] = 1;
}
static void spoil_demand(struct spoiled *s)
{
    s->demand[1] = 2;
}
static void spoil_dependency(struct spoiled *s)
{
    s->dependency[0] = 2;
}
static void spoil_first(struct spoiled *s)
{
    s->first[2] = 0;
    s->first[1] = 1;
}
static void spoil_order(struct spoiled *s)
{
    s->order[1] = 0;
}
static void spoil_order_range(struct spoiled *s)
{
    s->order[0] = 9;
}
static void spoil_amount(struct spoiled *s)
{
    s->demands[1].amount[0] = 1e9;
}
static void spoil_weight(struct spoiled *s)
{
    s->demands[1].weight = -1;
}
static void spoil_capacity(struct spoiled *s)
{
    s->capacity[0] = 0;
}
static void spoil_lanes(struct spoiled *s)
{
    s->graph.n_lanes = AH_CLOCK_LANES + 1;
}

TEST(clock, refuses_numbers_out_of_range)
{
    static const struct {
        void (*spoil)(struct spoiled *s);
        const char *text;
    } cases[] = {
        {spoil_duration, "op 1 takes nan us"},
        {spoil_duration_sign, "op 1 takes -1 us"},
        {spoil_lane, "op 1 is on lane 1 of 1"},
        {spoil_demand, "op 1 has demand row 2 of 2"},
        {spoil_dependency, "op 1 depends on op 2 of 2"},
        {spoil_first, "dependencies of op 1 end before they begin"},
        {spoil_order, "order of lane 0 has op 0 at position 1"},
        {spoil_order_range, "order of lane 0 has op 9 at position 0"},
        {spoil_amount, "demand row 1 asks for 1e+09 of resource 0"},
        {spoil_weight, "weight -1 of demand row 1"},
        {spoil_capacity, "capacity 0 of resource 0"},
        {spoil_lanes, "17 lanes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct spoiled s = {.duration = {1, 1}, .first = {0, 0, 1}, .order = {0, 1}, .capacity = {1}};
        s.graph = (struct ah_clock_graph){.n_ops = 2,
                                          .n_lanes = 1,
                                          .n_demands = 2,
                                          .n_resources = 1,
                                          .duration_us = s.duration,
                                          .lane = s.lane,
                                          .demand = s.demand,
                                          .dependency_first = s.first,
                                          .dependency = s.dependency,
                                          .order = s.order,
                                          .demands = s.demands,
                                          .capacity = s.capacity};
        struct ah_clock clock = {0};
        struct ah_clock_result result;
        struct ah_error err = {0};
        run(&clock, &s.graph, &result);
        cases[i].spoil(&s);
        CHECK_FAILS(ah_clock_run(&clock, &s.graph, &result, &err), err, AH_E_USAGE, cases[i].text);
        ah_clock_release(&clock);
    }
}
