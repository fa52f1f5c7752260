/* SPDX-License-Identifier: Apache-2.0
 *
 * The virtual clock: a discrete event simulation whose only events are ops that finish. Below, "op" is an instance: an
 * op of one iteration.
 *
 * INVARIANTS
 *   1. A lane runs at most one op, and a frozen lane runs its ops in order.
 *   2. An op starts no earlier than its last dependency finishes and its slot is given back. If its lane is free for
 *      the op at that time, it starts exactly then.
 *   3. No priority or fifo lane is idle while one of its ops is ready and either takes no slot or can have one.
 *   4. Between two events the speeds are ah_share_fill() of the running ops; the integral of an op's speed from
 *      start to finish is its duration.
 *   5. An op that always runs at full speed finishes at exactly start + duration, because `since` and `remaining`
 *      change only with the speed. So without sharing, times are made of max and + only, and in frozen lanes a
 *      shorter duration never makes any op later.
 *   6. An op is ready when its count of unfinished dependencies is 0. Each op that finishes decrements its followers'
 *      counts. The graph is the same in every iteration, so only the counts are kept per iteration.
 *   7. `sets` has the speeds of running sets. These depend on nothing but the set and the graph, so a hit and a miss
 *      in the table give the same bits.
 *   8. A frozen lane's order is read from and written to the same places of `order`. Nothing is written there before
 *      the orders are copied. So `order` itself, from the last run, may be passed in as the course's order.
 *   9. In a ring with R slots, the n-th op to take a slot gets the slot given back by the (n-R)-th op to give one back,
 *      each counted in its lane's order. So the orders of lanes decide which op waits for which, and a run repeated
 *      with frozen orders has the same waits.
 */
#include "runtime/device/virtual/clock_internal.h"

#include <float.h>
#include <string.h>

/* Inlines a function of the event loop, so that its loops over a constant number of lanes are unrolled. */
#define CLOCK_INLINE static inline __attribute__((always_inline))

/* ---- ready ops of a priority or fifo lane: a binary heap ---- */

static bool clock_before(struct clock_heap_item a, struct clock_heap_item b)
{
    return a.key < b.key || (a.key == b.key && a.at < b.at);
}

static void clock_push(struct clock_heap *heap, struct clock_heap_item item)
{
    size_t hole = heap->n++;
    while (hole > 0 && clock_before(item, heap->items[(hole - 1) / 2])) {
        heap->items[hole] = heap->items[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    heap->items[hole] = item;
}

/* Removes and returns the first item; the heap is not empty. */
static struct clock_heap_item clock_pop(struct clock_heap *heap)
{
    struct clock_heap_item *items = heap->items;
    struct clock_heap_item top = items[0];
    size_t n = --heap->n;
    size_t hole = 0;
    for (size_t child = 1; child < n; child = 2 * hole + 1) {
        if (child + 1 < n && clock_before(items[child + 1], items[child]))
            child++;
        if (!clock_before(items[child], items[n]))
            break;
        items[hole] = items[child];
        hole = child;
    }
    items[hole] = items[n];
    return top;
}

/* ---- rings ---- */

static bool clock_has_slot(const struct clock_run *run, uint8_t ring)
{
    return ring == AH_CLOCK_NO_RING ||
           run->rings[ring].taken < run->rings[ring].given + run->rings[ring].slots;
}

/* Gives the starting op its slot, if it takes one (9). */
static void clock_take_slot(struct clock_run *run, uint8_t taken, struct ah_clock_span *span)
{
    span->slot_us = 0;
    span->gave_slot = AH_CLOCK_NO_OP;
    if (taken == AH_CLOCK_NO_RING)
        return;
    struct clock_ring *ring = &run->rings[taken];
    if (ring->taken >= ring->slots) {
        span->gave_slot = run->memory->given[ring->first + ring->taken - ring->slots];
        span->slot_us = run->memory->spans[span->gave_slot].finish_us;
    }
    ring->taken++;
}

static void clock_give_slot(struct clock_run *run, uint32_t at, uint8_t ring_index)
{
    if (ring_index == AH_CLOCK_NO_RING || clock_is_absent(run->memory, at))
        return;
    struct clock_ring *ring = &run->rings[ring_index];
    run->memory->given[ring->first + ring->given++] = at;
}

/* ---- dependencies ---- */

static uint64_t clock_ready_key(const struct clock_run *run, enum ah_clock_rule rule, uint32_t at,
                                uint32_t op)
{
    uint64_t key;
    if (rule == AH_CLOCK_PRIORITY)
        return run->ops[op].priority + at / run->n_ops * run->course->priority_step;
    memcpy(&key, &run->now, sizeof key); /* the bits of doubles >= 0 have the order of the doubles */
    return key;
}

static void clock_set_ready(struct clock_run *run, uint32_t at, uint32_t op, uint32_t waited_for)
{
    struct clock_lane *lane = &run->lanes[run->ops[op].lane];
    run->memory->spans[at].ready_us = run->now;
    run->memory->spans[at].waited_for = waited_for;
    if (lane->rule != AH_CLOCK_FROZEN)
        clock_push(clock_takes(run->memory, at, op) == AH_CLOCK_NO_RING ? &lane->free : &lane->takers,
                   (struct clock_heap_item){clock_ready_key(run, lane->rule, at, op), at, op});
}

CLOCK_INLINE void clock_finish(struct clock_run *run, uint32_t at, uint32_t op)
{
    struct ah_clock_memory *memory = run->memory;
    const struct clock_op *it = &run->ops[op];
    uint32_t iteration = at - op;
    memory->spans[at].finish_us = run->now;
    run->left -= at < it->needed;
    clock_give_slot(run, at, it->gives);
    for (uint32_t i = it[0].first_follower; i < it[1].first_follower; i++) {
        uint32_t ahead = memory->followers[i];
        uint32_t follower = iteration + ahead;
        if (follower < run->n_instances && --memory->waiting[follower] == 0)
            clock_set_ready(run, follower, ahead < run->n_ops ? ahead : ahead - run->n_ops, at);
    }
}

/* ---- lanes ---- */

/* Returns the heap from which a free priority or fifo lane takes an op now. If that is `free`, it may be empty. */
static struct clock_heap *clock_best_heap(const struct clock_run *run, struct clock_lane *lane)
{
    if (!lane->takers.n || !clock_has_slot(run, lane->ring))
        return &lane->free;
    if (lane->free.n && clock_before(lane->free.items[0], lane->takers.items[0]))
        return &lane->free;
    return &lane->takers;
}

/* Returns the first instance of the iteration to which instance `at` belongs; `guess` is often right. */
static uint32_t clock_iteration(const struct clock_run *run, uint32_t at, uint32_t guess)
{
    return at - guess < run->n_ops ? guess : at - at % run->n_ops;
}

static void clock_next(const struct clock_run *run, struct clock_lane *lane)
{
    lane->next = AH_CLOCK_NO_OP;
    if (lane->taken == lane->n)
        return;
    lane->next = run->memory->order[lane->first + lane->taken];
    lane->iteration = clock_iteration(run, lane->next, lane->iteration);
    lane->next_op = lane->next - lane->iteration;
}

/* Sets lane->at and lane->op to the op that a free lane takes now. Returns false if there is none. */
static bool clock_choose(struct clock_run *run, struct clock_lane *lane)
{
    if (lane->rule != AH_CLOCK_FROZEN) {
        struct clock_heap *heap = clock_best_heap(run, lane);
        if (!heap->n)
            return false;
        struct clock_heap_item item = clock_pop(heap);
        lane->at = item.at;
        lane->op = item.op;
        run->memory->order[lane->first + lane->taken++] = item.at;
        return true;
    }
    if (lane->next == AH_CLOCK_NO_OP || !clock_is_ready(run->memory, lane->next) ||
        !clock_has_slot(run, clock_takes(run->memory, lane->next, lane->next_op)))
        return false;
    lane->at = lane->next;
    lane->op = lane->next_op;
    lane->taken++;
    clock_next(run, lane);
    return true;
}

/* Sets the lane's byte of the key to the row of its running op; 0: the op uses no resource. */
static void clock_ask(struct clock_run *run, size_t lane, uint8_t row)
{
    run->key.word[lane / CLOCK_KEY_LANES] += (uint64_t)row << CLOCK_KEY_BITS * (lane % CLOCK_KEY_LANES);
}

static void clock_stop_asking(struct clock_run *run, size_t lane, uint8_t row)
{
    run->key.word[lane / CLOCK_KEY_LANES] -= (uint64_t)row << CLOCK_KEY_BITS * (lane % CLOCK_KEY_LANES);
}

/* Starts the op chosen by the lane. True if the op has no duration and has therefore finished. */
static bool clock_start(struct clock_run *run, size_t l)
{
    struct clock_lane *lane = &run->lanes[l];
    const struct clock_op *it = &run->ops[lane->op];
    struct ah_clock_span *span = &run->memory->spans[lane->at];
    double duration = clock_is_absent(run->memory, lane->at) ? 0 : it->duration;
    span->start_us = run->now;
    span->slowed_by = AH_SHARE_NONE;
    clock_take_slot(run, clock_takes(run->memory, lane->at, lane->op), span);
    if (duration <= 0) {
        clock_finish(run, lane->at, lane->op);
        return true;
    }
    lane->since = run->now;
    lane->remaining = duration;
    lane->speed = 1;
    lane->limit = AH_SHARE_NONE;
    lane->was_slowed = false;
    run->finish[l] = run->now + duration;
    lane->row = it->row;
    run->fresh |= it->row != 0;
    clock_ask(run, l, it->row);
    return false;
}

/* Lets lanes take ops until none can. */
CLOCK_INLINE void clock_dispatch(struct clock_run *run, size_t n_lanes)
{
    bool again = true;
    while (again) {
        again = false;
        for (size_t l = 0; l < n_lanes; l++)
            if (run->finish[l] >= DBL_MAX && clock_choose(run, &run->lanes[l]))
                again |= clock_start(run, l);
    }
}

/* ---- speeds ---- */

static void clock_fill_set(const struct clock_run *run, struct clock_speeds *set)
{
    const struct ah_clock_graph *graph = &run->memory->graph;
    const struct ah_share_demand *parts[AH_CLOCK_LANES] = {NULL};
    size_t lane_of[AH_CLOCK_LANES];
    double speeds[AH_CLOCK_LANES];
    uint8_t limits[AH_CLOCK_LANES];
    size_t n = 0;
    for (size_t l = 0; l < run->n_lanes; l++) {
        set->speed[l] = 1;
        set->limit[l] = AH_SHARE_NONE;
        if (!run->lanes[l].row)
            continue;
        parts[n] = &graph->demands[run->lanes[l].row - 1];
        lane_of[n++] = l;
    }
    ah_share_fill(parts, n, graph->capacity, graph->n_resources, speeds, limits);
    for (size_t i = 0; i < n; i++) {
        set->speed[lane_of[i]] = speeds[i];
        set->limit[lane_of[i]] = limits[i];
    }
}

static bool clock_same(struct clock_key a, struct clock_key b)
{
    return a.word[0] == b.word[0] && a.word[1] == b.word[1];
}

/* Returns the running set's speeds from `sets`, an open hash table. Missing speeds are computed and stored there; if
 * all probed entries are full, one of them is replaced. */
static const struct clock_speeds *clock_set_of(const struct clock_run *run)
{
    const struct clock_key none = {.word = {0, 0}};
    uint64_t hash = run->key.word[0] * 0x9E3779B97F4A7C15U ^ run->key.word[1] * 0xC2B2AE3D27D4EB4FU;
    struct ah_clock_memory *memory = run->memory;
    size_t first = (hash >> 32) % CLOCK_SETS, at = first;
    for (size_t probe = 0; probe < CLOCK_PROBES; probe++) {
        at = (first + probe) % CLOCK_SETS;
        if (clock_same(memory->keys[at], run->key))
            return &memory->sets[at];
        if (clock_same(memory->keys[at], none))
            break;
        at = first;
    }
    clock_fill_set(run, &memory->sets[at]);
    memory->keys[at] = run->key;
    return &memory->sets[at];
}

static double clock_positive(double x)
{
    return x > 0 ? x : 0;
}

/* Adds the time lost by the running op after `since` to `lost` of its limiting resource. */
static void clock_account(struct clock_lane *lane, double now)
{
    if (lane->limit == AH_SHARE_NONE)
        return;
    lane->was_slowed = true;
    lane->lost[lane->limit] += (now - lane->since) * (1 - lane->speed);
}

static void clock_set_speed(struct clock_run *run, size_t l, double speed, uint8_t limit)
{
    struct clock_lane *lane = &run->lanes[l];
    clock_account(lane, run->now);
    lane->remaining = clock_positive(lane->remaining - (run->now - lane->since) * lane->speed);
    lane->since = run->now;
    lane->speed = speed;
    lane->limit = limit;
    run->finish[l] = run->now + lane->remaining / speed;
}

CLOCK_INLINE void clock_share(struct clock_run *run, size_t n_lanes)
{
    bool same = run->set && clock_same(run->key, run->set_key);
    if ((same && !run->fresh) || !(run->key.word[0] | run->key.word[1]))
        return;
    if (!same) {
        run->set = clock_set_of(run);
        run->set_key = run->key;
    }
    run->fresh = false;
    for (size_t l = 0; l < n_lanes; l++) {
        const struct clock_lane *lane = &run->lanes[l];
        double speed = run->set->speed[l];
        uint8_t limit = run->set->limit[l];
        bool changed = lane->speed < speed || lane->speed > speed || lane->limit != limit;
        if (lane->row && changed)
            clock_set_speed(run, l, speed, limit);
    }
}

/* ---- events ---- */

/* Returns the resource that cost the op the most time (the first of equals), and clears `lost` for the next op. */
static uint32_t clock_take_loss(struct clock_lane *lane, size_t n_resources)
{
    uint32_t most = 0;
    double loss = 0;
    for (uint32_t r = 0; r < n_resources; r++) {
        most = lane->lost[r] > loss ? r : most;
        loss = lane->lost[r] > loss ? lane->lost[r] : loss;
        lane->lost[r] = 0;
    }
    return most;
}

CLOCK_INLINE void clock_complete(struct clock_run *run, size_t l)
{
    struct clock_lane *lane = &run->lanes[l];
    struct ah_clock_span *span = &run->memory->spans[lane->at];
    double ran = run->now - span->start_us;
    clock_account(lane, run->now);
    lane->busy += ran;
    if (lane->was_slowed) {
        span->slowed_by = clock_take_loss(lane, run->memory->graph.n_resources);
        lane->slowed += clock_positive(ran - run->ops[lane->op].duration);
    }
    run->finish[l] = DBL_MAX;
    clock_stop_asking(run, l, lane->row);
    lane->row = 0;
    clock_finish(run, lane->at, lane->op);
}

/* Advances to the next time at which an op finishes. Returns false if no op runs. */
CLOCK_INLINE bool clock_advance(struct clock_run *run, size_t n_lanes)
{
    double next = DBL_MAX;
    for (size_t l = 0; l < n_lanes; l++)
        next = run->finish[l] < next ? run->finish[l] : next;
    if (next >= DBL_MAX)
        return false;
    run->now = next;
    for (size_t l = 0; l < n_lanes; l++)
        if (run->finish[l] <= next)
            clock_complete(run, l);
    return true;
}

CLOCK_INLINE void clock_loop(struct clock_run *run, size_t n_lanes)
{
    do {
        clock_dispatch(run, n_lanes);
        clock_share(run, n_lanes);
    } while (run->left > 0 && clock_advance(run, n_lanes));
}

/* Runs the event loop. Schedules have four lanes; the constant makes a specialised copy of the loop for them. */
static void run_clock(struct clock_run *run)
{
    if (run->n_lanes == 4)
        clock_loop(run, 4);
    else
        clock_loop(run, run->n_lanes);
}

/* ---- preparing a run ---- */

/* Returns the number of an op's instances that are not absent. */
static size_t clock_present(const struct clock_op *op, size_t iterations)
{
    size_t absent = (op->absent & AH_CLOCK_NOT_FIRST ? 1 : 0) + (op->absent & AH_CLOCK_NOT_LAST ? 1 : 0);
    return absent > iterations ? 0 : iterations - absent;
}

/* Counts each lane's ops and, in ret_takers, those that take a slot. Finds where each ring's ops begin in `given`. */
static void clock_count(struct clock_run *run, size_t *ret_takers)
{
    const struct ah_clock_graph *graph = &run->memory->graph;
    size_t givers[AH_CLOCK_RINGS] = {0};
    size_t first = 0;
    for (size_t i = 0; i < run->n_ops; i++) {
        const struct clock_op *op = &run->ops[i];
        run->lanes[op->lane].n += run->course->iterations;
        if (op->gives != AH_CLOCK_NO_RING)
            givers[op->gives] += run->course->iterations;
        if (op->takes == AH_CLOCK_NO_RING)
            continue;
        run->lanes[op->lane].ring = op->takes;
        ret_takers[op->lane] += clock_present(op, run->course->iterations);
    }
    for (size_t r = 0; r < graph->n_rings; r++) {
        run->rings[r] = (struct clock_ring){.slots = graph->ring_slots[r], .first = first};
        first += givers[r];
    }
}

/* Finds the place of each lane's ops in `order`. In frozen lanes they ascend, unless the course gives orders (8). */
static void clock_place_lanes(struct clock_run *run)
{
    size_t takers[AH_CLOCK_LANES] = {0};
    size_t at[AH_CLOCK_LANES];
    size_t first = 0;
    clock_count(run, takers);
    for (size_t l = 0; l < run->n_lanes; l++) {
        struct clock_lane *lane = &run->lanes[l];
        lane->rule = run->course->rule ? run->course->rule[l] : AH_CLOCK_FROZEN;
        lane->first = at[l] = first;
        lane->free.items = run->memory->ready + first;
        lane->takers.items = run->memory->ready + first + (lane->n - takers[l]);
        first += lane->n;
        run->finish[l] = DBL_MAX;
    }
    for (uint32_t i = 0, op = 0; i < run->n_instances && !run->course->order; i++) {
        size_t l = run->ops[op].lane;
        if (run->lanes[l].rule == AH_CLOCK_FROZEN)
            run->memory->order[at[l]++] = i;
        op = op + 1 < run->n_ops ? op + 1 : 0;
    }
}

/* Copies the orders of frozen lanes. `waiting` marks the ops already seen. */
static int clock_take_orders(struct clock_run *run, struct ah_error *err)
{
    uint32_t *seen = run->memory->waiting;
    const uint32_t *order = run->course->order;
    uint32_t iteration = 0; /* first instance of the iteration */
    if (!order)
        return AH_OK;
    memset(seen, 0, run->n_instances * sizeof *seen);
    for (uint32_t l = 0; l < run->n_lanes; l++) {
        const struct clock_lane *lane = &run->lanes[l];
        for (size_t i = 0; i < lane->n && lane->rule == AH_CLOCK_FROZEN; i++) {
            uint32_t at = order[lane->first + i];
            iteration = clock_iteration(run, at, iteration);
            if (at >= run->n_instances || run->ops[at - iteration].lane != l || seen[at])
                return ah_error_set(
                    err, AH_E_USAGE,
                    "the frozen order of lane %u has op %u at position %zu; it must hold each op of the lane "
                    "once",
                    l, at, i);
            seen[at] = 1;
            run->memory->order[lane->first + i] = at;
        }
    }
    return AH_OK;
}

/* Sets for each op which of its instances are needed. Returns the number of all needed instances. */
static size_t clock_need(struct clock_run *run)
{
    const uint32_t *needed = run->course->needed;
    uint32_t iterations = (uint32_t)run->course->iterations;
    size_t instances = 0;
    for (uint32_t op = 0; op < run->n_ops; op++) {
        uint32_t first = needed && needed[op] < iterations ? needed[op] : iterations;
        run->memory->ops[op].needed = first * run->n_ops;
        instances += first;
    }
    return instances;
}

/* Sets what each op waits for, and makes ops ready that wait for nothing. */
static void clock_begin(struct clock_run *run)
{
    struct ah_clock_memory *memory = run->memory;
    size_t iterations = run->course->iterations;
    for (size_t l = 0; l < run->n_lanes; l++)
        clock_next(run, &run->lanes[l]);
    for (size_t r = 0; r < iterations; r++) {
        uint8_t absent =
            (uint8_t)((r ? 0 : AH_CLOCK_NOT_FIRST) | (r + 1 < iterations ? 0 : AH_CLOCK_NOT_LAST));
        uint32_t first = (uint32_t)r * run->n_ops;
        memcpy(memory->waiting + first, r ? memory->needs : memory->needs_first,
               run->n_ops * sizeof *memory->waiting);
        for (size_t i = 0; i < memory->n_early; i++) {
            uint32_t op = memory->early[i];
            if (run->ops[op].absent & absent)
                memory->waiting[first + op] = CLOCK_AWAY;
            if (clock_is_ready(memory, first + op))
                clock_set_ready(run, first + op, op, AH_CLOCK_NO_OP);
        }
    }
}

static int clock_check_course(const struct ah_clock *clock, const struct ah_clock_course *course,
                              struct ah_error *err)
{
    const struct ah_clock_memory *memory = clock->memory;
    if (!memory || !memory->loaded)
        return ah_error_set(err, AH_E_USAGE, "no graph is loaded into the clock");
    if (!course->iterations)
        return ah_error_set(err, AH_E_USAGE, "a run of 0 iterations; give 1 or more");
    if (memory->graph.n_ops && course->iterations > memory->max_instances / memory->graph.n_ops)
        return ah_error_set(
            err, AH_E_CAPACITY,
            "the clock has room for %zu ops, but %zu iterations of %zu were requested; reserve more",
            memory->max_instances, course->iterations, memory->graph.n_ops);
    return AH_OK;
}

static struct ah_clock_result clock_result(const struct clock_run *run)
{
    struct ah_clock_result result = {
        .end_us = run->now, .spans = run->memory->spans, .order = run->memory->order};
    for (size_t l = 0; l < run->n_lanes; l++) {
        const struct clock_lane *lane = &run->lanes[l];
        result.lanes[l] = (struct ah_clock_lane){.first = lane->first,
                                                 .n = lane->taken,
                                                 .busy_us = lane->busy,
                                                 .idle_us = clock_positive(run->now - lane->busy),
                                                 .slowed_us = lane->slowed};
    }
    return result;
}

int ah_clock_repeat(struct ah_clock *clock, const struct ah_clock_course *course,
                    struct ah_clock_result *ret_result, struct ah_error *err)
{
    int rc = clock_check_course(clock, course, err);
    if (rc)
        return rc;
    struct ah_clock_memory *memory = clock->memory;
    struct clock_run run = {.course = course,
                            .memory = memory,
                            .ops = memory->ops,
                            .n_ops = (uint32_t)memory->graph.n_ops,
                            .n_instances = (uint32_t)(memory->graph.n_ops * course->iterations),
                            .n_lanes = memory->graph.n_lanes};
    clock_place_lanes(&run);
    rc = clock_take_orders(&run, err);
    if (rc)
        return rc;
    clock_begin(&run);
    run.left = clock_need(&run);
    run_clock(&run);
    if (run.left > 0)
        return ah_clock_explain_deadlock(&run, err);
    *ret_result = clock_result(&run);
    return AH_OK;
}

int ah_clock_run(struct ah_clock *clock, const struct ah_clock_graph *graph,
                 struct ah_clock_result *ret_result, struct ah_error *err)
{
    const struct ah_clock_course once = {.iterations = 1, .rule = graph->rule, .order = graph->order};
    int rc = ah_clock_load(clock, graph, err);
    return rc ? rc : ah_clock_repeat(clock, &once, ret_result, err);
}
