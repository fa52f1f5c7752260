/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares random graphs, whose ops take and give back slots of rings, with a simulator written only to be obvious. At
 * every instant, the simulator looks at all ops. Durations are exact, with many ties and zeros. Some rings are too
 * small, so that deadlocks are also compared.
 */
#include "runtime/device/virtual/clock.h"
#include "tests/support/check.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { GRAPHS = 2000, MAX_OPS = 72, MAX_DEPENDENCIES = MAX_OPS * 6, MAX_LANES = 6 };

struct graph {
    struct ah_clock_graph of;
    double duration[MAX_OPS];
    uint32_t lane[MAX_OPS];
    uint32_t demand[MAX_OPS];
    uint64_t priority[MAX_OPS];
    size_t first[MAX_OPS + 1];
    uint32_t dependency[MAX_DEPENDENCIES];
    uint8_t takes[MAX_OPS];
    uint8_t gives[MAX_OPS];
    uint32_t places[AH_CLOCK_RINGS];
    uint32_t taking_lane[AH_CLOCK_RINGS];
    uint32_t giving_lane[AH_CLOCK_RINGS];
    enum ah_clock_rule rule[MAX_LANES];
    struct ah_share_demand demands[2];
    double capacity[1];
};

static uint32_t add_op(struct graph *g, uint64_t *seed, uint32_t lane)
{
    uint32_t op = (uint32_t)g->of.n_ops++;
    size_t n = g->first[op];
    g->lane[op] = lane;
    g->duration[op] = (double)(check_random(seed) % 6);
    g->priority[op] = check_random(seed) % 8;
    g->demand[op] = (uint32_t)(check_random(seed) % 2);
    g->takes[op] = g->gives[op] = AH_CLOCK_NO_RING;
    for (size_t k = check_random(seed) % 3; k > 0 && op > 0; k--)
        g->dependency[n++] = (uint32_t)(check_random(seed) % op);
    g->first[op + 1] = n;
    return op;
}

static void depend(struct graph *g, uint32_t op, uint32_t dependency)
{
    g->dependency[g->first[op + 1]++] = dependency;
}

/* Adds an op that takes a slot and a later op that gives it back, and that may take a slot of another ring. */
static void add_pair(struct graph *g, uint64_t *seed)
{
    uint8_t ring = (uint8_t)(check_random(seed) % g->of.n_rings);
    uint32_t taker = add_op(g, seed, g->taking_lane[ring]);
    g->takes[taker] = ring;
    if (check_random(seed) % 3 == 0)
        (void)add_op(g, seed, (uint32_t)(check_random(seed) % g->of.n_lanes));
    uint32_t giver = add_op(g, seed, g->giving_lane[ring]);
    g->gives[giver] = ring;
    depend(g, giver, taker);
    for (uint8_t other = 0; other < g->of.n_rings; other++)
        if (other != ring && g->taking_lane[other] == g->giving_lane[ring] && check_random(seed) % 2) {
            g->takes[giver] = other;
            uint32_t after = add_op(g, seed, g->giving_lane[other]);
            g->gives[after] = other;
            depend(g, after, giver);
        }
}

static struct graph *draw(uint64_t *seed)
{
    static struct graph g;
    memset(&g, 0, sizeof g);
    g.of = (struct ah_clock_graph){.n_lanes = 2 + check_random(seed) % (MAX_LANES - 1),
                                   .duration_us = g.duration,
                                   .lane = g.lane,
                                   .priority = g.priority,
                                   .dependency_first = g.first,
                                   .dependency = g.dependency,
                                   .rule = g.rule,
                                   .takes = g.takes,
                                   .gives = g.gives,
                                   .ring_slots = g.places};
    g.of.n_rings = 1 + check_random(seed) % (g.of.n_lanes < 4 ? g.of.n_lanes : 4);
    uint32_t turn = (uint32_t)(check_random(seed) % g.of.n_lanes);
    for (size_t r = 0; r < g.of.n_rings; r++) {
        g.places[r] = 1 + (uint32_t)(check_random(seed) % 4);
        g.taking_lane[r] = (uint32_t)((turn + r) % g.of.n_lanes);
        g.giving_lane[r] = (uint32_t)(check_random(seed) % g.of.n_lanes);
    }
    for (size_t l = 0; l < g.of.n_lanes; l++)
        g.rule[l] = (enum ah_clock_rule)(check_random(seed) % 8 ? 1 + check_random(seed) % 2 : 0);
    size_t n_ops = 1 + check_random(seed) % (MAX_OPS - 10);
    while (g.of.n_ops < n_ops)
        if (check_random(seed) % 3)
            add_pair(&g, seed);
        else
            (void)add_op(&g, seed, (uint32_t)(check_random(seed) % g.of.n_lanes));
    return &g;
}

static void share(struct graph *g, uint64_t *seed)
{
    g->of.n_demands = 2;
    g->of.n_resources = 1;
    g->of.demand = g->demand;
    g->of.demands = g->demands;
    g->of.capacity = g->capacity;
    g->capacity[0] = 1;
    g->demands[1].amount[0] = 0.4 + check_uniform(seed);
    for (size_t op = 0; op < g->of.n_ops; op++)
        g->duration[op] *= 0.5 + check_uniform(seed);
}

struct simulation {
    const struct graph *g;
    double now;
    bool started[MAX_OPS], finished[MAX_OPS], ready[MAX_OPS];
    double ready_us[MAX_OPS], start[MAX_OPS], finish[MAX_OPS];
    int free_places[AH_CLOCK_RINGS];
};

static void see_ready(struct simulation *s)
{
    const struct graph *g = s->g;
    for (size_t op = 0; op < g->of.n_ops; op++) {
        bool ready = true;
        for (size_t at = g->first[op]; at < g->first[op + 1]; at++)
            ready &= s->finished[g->dependency[at]];
        if (ready && !s->ready[op])
            s->ready_us[op] = s->now;
        s->ready[op] |= ready;
    }
}

static bool can_start(const struct simulation *s, size_t op)
{
    const struct graph *g = s->g;
    bool place = g->takes[op] == AH_CLOCK_NO_RING || s->free_places[g->takes[op]] > 0;
    return s->ready[op] && !s->started[op] && place;
}

/* Returns the op that an idle lane starts now, or MAX_OPS if there is none. */
static size_t choose(const struct simulation *s, size_t lane)
{
    const struct graph *g = s->g;
    size_t best = MAX_OPS;
    for (size_t op = 0; op < g->of.n_ops; op++) {
        if (g->lane[op] != lane || s->started[op])
            continue;
        if (g->rule[lane] == AH_CLOCK_FROZEN)
            return can_start(s, op) ? op : MAX_OPS;
        if (!can_start(s, op))
            continue;
        bool better =
            best == MAX_OPS || (g->rule[lane] == AH_CLOCK_PRIORITY ? g->priority[op] < g->priority[best]
                                                                   : s->ready_us[op] < s->ready_us[best]);
        if (better)
            best = op;
    }
    return best;
}

static void finish(struct simulation *s, size_t op)
{
    s->finished[op] = true;
    if (s->g->gives[op] != AH_CLOCK_NO_RING)
        s->free_places[s->g->gives[op]]++;
    see_ready(s);
}

/* Visits each lane once and starts ops. Returns true if an op without duration ran. */
static bool start_some(struct simulation *s)
{
    const struct graph *g = s->g;
    bool passed = false;
    for (size_t lane = 0; lane < g->of.n_lanes; lane++) {
        bool busy = false;
        for (size_t op = 0; op < g->of.n_ops; op++)
            busy |= g->lane[op] == lane && s->started[op] && !s->finished[op];
        size_t op = busy ? MAX_OPS : choose(s, lane);
        if (op == MAX_OPS)
            continue;
        s->started[op] = true;
        s->start[op] = s->now;
        s->finish[op] = s->now + g->duration[op];
        if (g->takes[op] != AH_CLOCK_NO_RING)
            s->free_places[g->takes[op]]--;
        if (g->duration[op] <= 0) {
            finish(s, op);
            passed = true;
        }
    }
    return passed;
}

/* Simulates the graph. Returns true if every op ran. */
static bool simulate(struct simulation *s, const struct graph *g)
{
    *s = (struct simulation){.g = g};
    for (size_t r = 0; r < g->of.n_rings; r++)
        s->free_places[r] = (int)g->places[r];
    see_ready(s);
    for (;;) {
        while (start_some(s)) {
        }
        double next = -1;
        for (size_t op = 0; op < g->of.n_ops; op++)
            if (s->started[op] && !s->finished[op] && (next < 0 || s->finish[op] < next))
                next = s->finish[op];
        if (next < 0)
            break;
        s->now = next;
        for (size_t lane = 0; lane < g->of.n_lanes; lane++)
            for (size_t op = 0; op < g->of.n_ops; op++)
                if (g->lane[op] == lane && s->started[op] && !s->finished[op] && s->finish[op] <= next)
                    finish(s, op);
    }
    for (size_t op = 0; op < g->of.n_ops; op++)
        if (!s->finished[op])
            return false;
    return true;
}

/* Checks that the n-th taker of a ring of R slots, in lane order, has the slot of giver n - R. Returns the number of
 * takers whose slot became free only after their data was ready. */
static size_t check_places(const struct graph *g, const struct ah_clock_result *result, size_t ring)
{
    const uint32_t *order = result->order;
    uint32_t givers[MAX_OPS];
    size_t given = 0, taken = 0, waited = 0;
    for (size_t i = 0; i < g->of.n_ops; i++)
        if (g->gives[order[i]] == ring)
            givers[given++] = order[i];
    for (size_t i = 0; i < g->of.n_ops; i++) {
        const struct ah_clock_span *span = &result->spans[order[i]];
        if (g->takes[order[i]] != ring)
            continue;
        bool first = taken < g->places[ring];
        uint32_t giver = first ? AH_CLOCK_NO_OP : givers[taken - g->places[ring]];
        assert_int_equal(span->gave_slot, giver);
        assert_true(span->slot_us == (first ? 0 : result->spans[giver].finish_us));
        assert_true(span->start_us >= span->slot_us && span->start_us >= span->ready_us);
        waited += span->slot_us > span->ready_us;
        taken++;
    }
    return waited;
}

/* Checks that the number of slots in use never exceeds the ring's. */
static void check_never_more_than_places(const struct graph *g, const struct ah_clock_span *spans,
                                         size_t ring)
{
    for (size_t at = 0; at < g->of.n_ops; at++) {
        double now = spans[at].start_us;
        int held = 0;
        for (size_t op = 0; op < g->of.n_ops; op++) {
            held += g->takes[op] == ring && spans[op].start_us <= now;
            held -= g->gives[op] == ring && spans[op].finish_us <= now;
        }
        assert_true(held <= (int)g->places[ring]);
    }
}

static size_t check_rings(const struct graph *g, const struct ah_clock_result *result)
{
    size_t waited = 0;
    for (size_t ring = 0; ring < g->of.n_rings; ring++) {
        waited += check_places(g, result, ring);
        check_never_more_than_places(g, result->spans, ring);
    }
    for (size_t op = 0; op < g->of.n_ops; op++)
        if (g->takes[op] == AH_CLOCK_NO_RING)
            assert_true(result->spans[op].slot_us == 0 && result->spans[op].gave_slot == AH_CLOCK_NO_OP);
    return waited;
}

TEST(clock_rings, run_as_the_obvious_simulator_does)
{
    uint64_t seed = check_seed(21);
    struct ah_clock clock = {0};
    size_t stuck = 0, waited = 0;
    for (int i = 0; i < GRAPHS; i++) {
        static struct simulation s;
        struct ah_clock_result result;
        struct ah_error err = {0};
        struct graph *g = draw(&seed);
        CHECK_OK(ah_clock_reserve(&clock, &g->of, 1, &err), err);
        int rc = ah_clock_run(&clock, &g->of, &result, &err);
        assert_int_equal(rc, simulate(&s, g) ? AH_OK : AH_E_FAILED);
        if (rc) {
            unsigned named = MAX_OPS;
            assert_int_equal(sscanf(err.text, "op %u", &named), 1);
            assert_true(named < g->of.n_ops && !s.finished[named]);
            stuck++;
            continue;
        }
        for (size_t op = 0; op < g->of.n_ops; op++) {
            assert_true(result.spans[op].ready_us == s.ready_us[op]);
            assert_true(result.spans[op].start_us == s.start[op]);
            assert_true(result.spans[op].finish_us == s.finish[op]);
        }
        waited += check_rings(g, &result);
    }
    assert_true(stuck > GRAPHS / 100 && stuck < GRAPHS / 2 && waited > GRAPHS);
    ah_clock_release(&clock);
}

TEST(clock_rings, replay_frozen_to_the_bit)
{
    uint64_t seed = check_seed(22);
    struct ah_clock clock = {0}, fresh = {0};
    size_t waited = 0;
    for (int i = 0; i < GRAPHS; i++) {
        struct ah_clock_result result, again;
        struct ah_error err = {0};
        struct graph *g = draw(&seed);
        share(g, &seed);
        CHECK_OK(ah_clock_reserve(&clock, &g->of, 1, &err), err);
        CHECK_OK(ah_clock_reserve(&fresh, &g->of, 1, &err), err);
        if (ah_clock_run(&clock, &g->of, &result, &err))
            continue; /* the ring is too small, as was checked above */
        struct ah_clock_graph frozen = g->of;
        frozen.rule = NULL;
        frozen.order = result.order;
        CHECK_OK(ah_clock_run(&fresh, &frozen, &again, &err), err);
        assert_memory_equal(&result.lanes, &again.lanes, sizeof result.lanes);
        for (size_t op = 0; op < g->of.n_ops; op++) {
            const struct ah_clock_span *a = &result.spans[op], *b = &again.spans[op];
            assert_memory_equal(&a->ready_us, &b->ready_us, sizeof(double));
            assert_memory_equal(&a->slot_us, &b->slot_us, sizeof(double));
            assert_memory_equal(&a->start_us, &b->start_us, sizeof(double));
            assert_memory_equal(&a->finish_us, &b->finish_us, sizeof(double));
            assert_int_equal(a->gave_slot, b->gave_slot);
        }
        waited += check_rings(g, &again);
    }
    assert_true(waited > GRAPHS);
    ah_clock_release(&fresh);
    ah_clock_release(&clock);
}
