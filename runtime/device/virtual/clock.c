/* SPDX-License-Identifier: Apache-2.0
 *
 * The virtual clock: a discrete event simulation whose only events are ops that finish.
 *
 * INVARIANTS
 *   1. A lane runs at most one op, and a frozen lane runs its ops in their order.
 *   2. An op starts no earlier than its last dependency finishes and its place is given back; at that instant if
 *      its lane is free for it.
 *   3. No priority or fifo lane is idle while one of its ops is ready and has a place, or takes none.
 *   4. Between two events the speeds are ah_share_fill() of the running ops; the integral of an op's speed from
 *      start to finish is its duration.
 *   5. An op that always runs at full speed finishes at exactly start + duration: `since` and `remaining` move
 *      only when the speed changes. Without sharing, therefore, times are made of max and + only, and in frozen
 *      lanes a shorter duration never makes any op later.
 *   6. A waiting op is in one list: that of one dependency that has not finished (its first, then the next one
 *      still running when that one finishes). So every dependency is looked at once, and no list of successors
 *      is built.
 *   7. `sets` holds speeds by running set. They depend on nothing but the set and the graph, so a hit and a miss
 *      give the same bits.
 *   8. A frozen lane's order is read and written at the same places of `order`, so that graph->order may be
 *      `order` itself, as the last run left it: until the orders are taken over nothing else is written there.
 *   9. Of a ring with R places, the n-th op to take one (in the order of its lane) takes the one that the n-R-th to
 *      give one back (in the order of its lane) gave. Orders of lanes therefore decide who waits for whom, and a
 *      run repeated with frozen orders has the same waits.
 */
#include "runtime/device/virtual/clock_internal.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

static size_t clock_take(size_t *used_bytes, size_t count, size_t size)
{
    size_t offset = *used_bytes;
    *used_bytes += (count * size + 63) & ~(size_t)63;
    return offset;
}

int ah_clock_reserve(struct ah_clock *clock, size_t n_ops, struct ah_error *err)
{
    if (clock->memory && clock->memory->max_ops >= n_ops)
        return AH_OK;
    if (n_ops >= AH_CLOCK_NO_OP)
        return ah_error_set(err, AH_E_USAGE, "a graph of %zu ops is too large for the clock; at most %u",
                            n_ops, AH_CLOCK_NO_OP - 1);
    struct ah_clock_memory m = {.max_ops = n_ops};
    size_t bytes = 0;
    (void)clock_take(&bytes, 1, sizeof m);
    size_t spans = clock_take(&bytes, n_ops, sizeof *m.spans);
    size_t ready = clock_take(&bytes, n_ops, sizeof *m.ready);
    size_t looking_at = clock_take(&bytes, n_ops, sizeof *m.looking_at);
    size_t order = clock_take(&bytes, n_ops, sizeof *m.order);
    size_t waiter = clock_take(&bytes, n_ops, sizeof *m.waiter);
    size_t next = clock_take(&bytes, n_ops, sizeof *m.next);
    size_t given = clock_take(&bytes, n_ops, sizeof *m.given);
    size_t state = clock_take(&bytes, n_ops, sizeof *m.state);
    char *base = malloc(bytes);
    if (!base)
        return ah_error_memory(err);
    struct ah_clock_memory *memory = (void *)base;
    memory->max_ops = n_ops;
    memory->spans = (void *)(base + spans);
    memory->ready = (void *)(base + ready);
    memory->looking_at = (void *)(base + looking_at);
    memory->order = (void *)(base + order);
    memory->waiter = (void *)(base + waiter);
    memory->next = (void *)(base + next);
    memory->given = (void *)(base + given);
    memory->state = (void *)(base + state);
    free(clock->memory);
    clock->memory = memory;
    return AH_OK;
}

void ah_clock_release(struct ah_clock *clock)
{
    free(clock->memory);
    clock->memory = NULL;
}

/* ---- ready ops of a priority or fifo lane: a binary heap ---- */

static bool clock_before(struct clock_heap_item a, struct clock_heap_item b)
{
    return a.key < b.key || (a.key == b.key && a.op < b.op);
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

/* Takes the first item; there is one. */
static uint32_t clock_pop(struct clock_heap *heap)
{
    struct clock_heap_item *items = heap->items;
    uint32_t op = items[0].op;
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
    return op;
}

/* ---- rings ---- */

static uint8_t clock_takes(const struct ah_clock_graph *graph, uint32_t op)
{
    return graph->takes ? graph->takes[op] : AH_CLOCK_NO_RING;
}

static bool clock_has_place(const struct clock_run *run, uint8_t ring)
{
    return ring == AH_CLOCK_NO_RING ||
           run->rings[ring].taken < run->rings[ring].given + run->rings[ring].places;
}

/* The op that starts takes its place, if it takes one (9). */
static void clock_take_place(struct clock_run *run, uint32_t op, struct ah_clock_span *span)
{
    uint8_t taken = clock_takes(run->graph, op);
    span->place_us = 0;
    span->gave_place = AH_CLOCK_NO_OP;
    if (taken == AH_CLOCK_NO_RING)
        return;
    struct clock_ring *ring = &run->rings[taken];
    if (ring->taken >= ring->places) {
        span->gave_place = run->memory->given[ring->first + ring->taken - ring->places];
        span->place_us = run->memory->spans[span->gave_place].finish_us;
    }
    ring->taken++;
}

static void clock_give_place(struct clock_run *run, uint32_t op)
{
    if (!run->graph->gives || run->graph->gives[op] == AH_CLOCK_NO_RING)
        return;
    struct clock_ring *ring = &run->rings[run->graph->gives[op]];
    run->memory->given[ring->first + ring->given++] = op;
}

/* ---- dependencies ---- */

static size_t clock_dependencies_end(const struct ah_clock_graph *graph, uint32_t op)
{
    return graph->dependency_first ? graph->dependency_first[op + 1] : 0;
}

static uint64_t clock_ready_key(const struct clock_run *run, enum ah_clock_rule rule, uint32_t op)
{
    uint64_t key = 0;
    if (rule == AH_CLOCK_FIFO)
        memcpy(&key, &run->now, sizeof key); /* bits of doubles >= 0 are ordered as the doubles */
    else if (run->graph->priority)
        key = run->graph->priority[op];
    return key;
}

static void clock_set_ready(struct clock_run *run, uint32_t op, uint32_t waited_for)
{
    struct clock_lane *lane = &run->lanes[run->graph->lane[op]];
    run->memory->spans[op].ready_us = run->now;
    run->memory->spans[op].waited_for = waited_for;
    run->memory->state[op] = CLOCK_READY;
    if (lane->rule != AH_CLOCK_FROZEN)
        clock_push(clock_takes(run->graph, op) == AH_CLOCK_NO_RING ? &lane->free : &lane->takers,
                   (struct clock_heap_item){clock_ready_key(run, lane->rule, op), op});
}

/* The op looks at its dependencies from index `at` on: waits for one that is not done, else is ready. */
static void clock_look(struct clock_run *run, uint32_t op, size_t at, uint32_t waited_for)
{
    struct ah_clock_memory *memory = run->memory;
    size_t end = clock_dependencies_end(run->graph, op);
    while (at < end && memory->state[run->graph->dependency[at]] == CLOCK_DONE)
        at++;
    if (at >= end) {
        clock_set_ready(run, op, waited_for);
        return;
    }
    uint32_t dependency = run->graph->dependency[at];
    memory->looking_at[op] = at;
    memory->next[op] = memory->waiter[dependency];
    memory->waiter[dependency] = op;
}

static void clock_finish(struct clock_run *run, uint32_t op)
{
    struct ah_clock_memory *memory = run->memory;
    memory->spans[op].finish_us = run->now;
    memory->state[op] = CLOCK_DONE;
    run->done++;
    clock_give_place(run, op);
    for (uint32_t waiter = memory->waiter[op]; waiter != AH_CLOCK_NO_OP;) {
        uint32_t next = memory->next[waiter];
        clock_look(run, waiter, memory->looking_at[waiter] + 1, op);
        waiter = next;
    }
}

/* ---- lanes ---- */

/* The heap whose first op a free priority or fifo lane takes now; that of `free` ops may be empty. */
static struct clock_heap *clock_best_heap(const struct clock_run *run, struct clock_lane *lane)
{
    if (!lane->takers.n || !clock_has_place(run, lane->ring))
        return &lane->free;
    if (lane->free.n && clock_before(lane->free.items[0], lane->takers.items[0]))
        return &lane->free;
    return &lane->takers;
}

/* The op that a free lane takes now, or AH_CLOCK_NO_OP. */
static uint32_t clock_choose(struct clock_run *run, struct clock_lane *lane, size_t n_ops)
{
    if (lane->rule != AH_CLOCK_FROZEN) {
        struct clock_heap *heap = clock_best_heap(run, lane);
        return heap->n ? clock_pop(heap) : AH_CLOCK_NO_OP;
    }
    if (lane->taken == n_ops)
        return AH_CLOCK_NO_OP;
    uint32_t op = run->memory->order[lane->first + lane->taken];
    bool can_start =
        run->memory->state[op] == CLOCK_READY && clock_has_place(run, clock_takes(run->graph, op));
    return can_start ? op : AH_CLOCK_NO_OP;
}

static void clock_set_key(struct clock_run *run, size_t lane, uint8_t row)
{
    run->key_changed |= run->key.lane[lane] != row;
    run->key.lane[lane] = row;
}

/* True if the op is without duration, hence finished. */
static bool clock_start(struct clock_run *run, struct clock_lane *lane, uint32_t op)
{
    struct ah_clock_span *span = &run->memory->spans[op];
    double duration = run->graph->duration_us[op];
    run->memory->order[lane->first + lane->taken++] = op;
    span->start_us = run->now;
    span->slowed_by = AH_SHARE_NONE;
    clock_take_place(run, op, span);
    if (duration <= 0) {
        clock_finish(run, op);
        return true;
    }
    uint32_t row = run->graph->demand ? run->graph->demand[op] : 0;
    bool asks = run->graph->demand && run->asks[row];
    lane->op = op;
    lane->since = run->now;
    lane->remaining = duration;
    lane->finish = run->now + duration;
    lane->speed = 1;
    lane->limit = AH_SHARE_NONE;
    lane->was_slowed = false;
    clock_set_key(run, (size_t)(lane - run->lanes), asks ? (uint8_t)(row + 1) : 0);
    return false;
}

/* Lanes take ops until none can. */
static void clock_dispatch(struct clock_run *run, const struct ah_clock_result *result)
{
    bool again = true;
    while (again) {
        again = false;
        for (size_t l = 0; l < run->graph->n_lanes; l++) {
            struct clock_lane *lane = &run->lanes[l];
            if (lane->op != AH_CLOCK_NO_OP)
                continue;
            uint32_t op = clock_choose(run, lane, result->lanes[l].n);
            if (op != AH_CLOCK_NO_OP)
                again |= clock_start(run, lane, op);
        }
    }
}

/* ---- speeds ---- */

static void clock_fill_set(const struct clock_run *run, struct clock_set *set)
{
    const struct ah_share_demand *parts[AH_CLOCK_LANES] = {NULL};
    size_t lane_of[AH_CLOCK_LANES];
    double speeds[AH_CLOCK_LANES];
    uint8_t limits[AH_CLOCK_LANES];
    size_t n = 0;
    for (size_t l = 0; l < run->graph->n_lanes; l++) {
        set->speed[l] = 1;
        set->limit[l] = AH_SHARE_NONE;
        if (!run->key.lane[l])
            continue;
        parts[n] = &run->graph->demands[run->key.lane[l] - 1];
        lane_of[n++] = l;
    }
    ah_share_fill(parts, n, run->graph->capacity, run->graph->n_resources, speeds, limits);
    for (size_t i = 0; i < n; i++) {
        set->speed[lane_of[i]] = speeds[i];
        set->limit[lane_of[i]] = limits[i];
    }
    set->key = run->key;
}

/* The speeds of the running set: from `sets`, an open hash table; a full neighbourhood is overwritten. */
static const struct clock_set *clock_set_of(const struct clock_run *run)
{
    uint64_t hash = run->key.word[0] * 0x9E3779B97F4A7C15U ^ run->key.word[1] * 0xC2B2AE3D27D4EB4FU;
    struct clock_set *sets = run->memory->sets;
    size_t at = (hash >> 32) % CLOCK_SETS;
    for (size_t probe = 0; probe < CLOCK_PROBES; probe++) {
        struct clock_set *set = &sets[(at + probe) % CLOCK_SETS];
        if (set->key.word[0] == run->key.word[0] && set->key.word[1] == run->key.word[1])
            return set;
        if (!(set->key.word[0] | set->key.word[1])) {
            clock_fill_set(run, set);
            return set;
        }
    }
    clock_fill_set(run, &sets[at]);
    return &sets[at];
}

static double clock_positive(double x)
{
    return x > 0 ? x : 0;
}

/* What the running op lost to the resource that limits it, since `since`. */
static void clock_account(struct clock_lane *lane, double now)
{
    if (lane->limit == AH_SHARE_NONE)
        return;
    if (!lane->was_slowed)
        memset(lane->lost, 0, sizeof lane->lost);
    lane->was_slowed = true;
    lane->lost[lane->limit] += (now - lane->since) * (1 - lane->speed);
}

static void clock_set_speed(struct clock_lane *lane, double now, double speed, uint8_t limit)
{
    clock_account(lane, now);
    lane->remaining = clock_positive(lane->remaining - (now - lane->since) * lane->speed);
    lane->since = now;
    lane->speed = speed;
    lane->limit = limit;
    lane->finish = now + lane->remaining / speed;
}

static void clock_share(struct clock_run *run)
{
    if (!run->key_changed)
        return;
    run->key_changed = false;
    if (!(run->key.word[0] | run->key.word[1]))
        return;
    const struct clock_set *set = clock_set_of(run);
    for (size_t l = 0; l < run->graph->n_lanes; l++) {
        struct clock_lane *lane = &run->lanes[l];
        bool changed =
            lane->speed < set->speed[l] || lane->speed > set->speed[l] || lane->limit != set->limit[l];
        if (run->key.lane[l] && changed)
            clock_set_speed(lane, run->now, set->speed[l], set->limit[l]);
    }
}

/* ---- events ---- */

static void clock_complete(struct clock_run *run, struct clock_lane *lane)
{
    uint32_t op = lane->op;
    struct ah_clock_span *span = &run->memory->spans[op];
    double ran = run->now - span->start_us;
    clock_account(lane, run->now);
    lane->busy += ran;
    if (lane->was_slowed) {
        size_t most = 0;
        for (size_t r = 1; r < run->graph->n_resources; r++)
            if (lane->lost[r] > lane->lost[most])
                most = r;
        span->slowed_by = (uint32_t)most;
        lane->slowed += clock_positive(ran - run->graph->duration_us[op]);
    }
    lane->op = AH_CLOCK_NO_OP;
    clock_set_key(run, (size_t)(lane - run->lanes), 0);
    clock_finish(run, op);
}

/* Goes to the next instant at which an op finishes; false when none runs. */
static bool clock_advance(struct clock_run *run)
{
    double next = DBL_MAX;
    for (size_t l = 0; l < run->graph->n_lanes; l++)
        if (run->lanes[l].op != AH_CLOCK_NO_OP && run->lanes[l].finish < next)
            next = run->lanes[l].finish;
    if (next >= DBL_MAX)
        return false;
    run->now = next;
    for (size_t l = 0; l < run->graph->n_lanes; l++)
        if (run->lanes[l].op != AH_CLOCK_NO_OP && run->lanes[l].finish <= next)
            clock_complete(run, &run->lanes[l]);
    return true;
}

/* ---- the graph: checked and made ready to run ---- */

static int clock_check_room(const struct ah_clock *clock, const struct ah_clock_graph *graph,
                            struct ah_error *err)
{
    size_t max_ops = clock->memory ? clock->memory->max_ops : 0;
    if (clock->memory && graph->n_ops <= max_ops)
        return AH_OK;
    return ah_error_set(err, AH_E_CAPACITY,
                        "the clock has room for %zu ops and the graph has %zu; reserve more", max_ops,
                        graph->n_ops);
}

/* The demand rows that ask for something. */
static void clock_find_asking(struct clock_run *run)
{
    for (size_t row = 0; row < run->graph->n_demands; row++)
        for (size_t r = 0; r < run->graph->n_resources; r++)
            run->asks[row] |= run->graph->demands[row].amount[r] > 0;
}

/* Where each ring's ops lie in `given`, and, for lanes that take, how much of a lane's part of `ready` is for `free` ops:
 * all but one item for each op that takes. */
static void clock_place_rings(struct clock_run *run, size_t *ret_free)
{
    const struct ah_clock_graph *graph = run->graph;
    size_t givers[AH_CLOCK_RINGS] = {0};
    size_t first = 0;
    for (size_t op = 0; op < graph->n_ops && graph->gives; op++)
        if (graph->gives[op] != AH_CLOCK_NO_RING)
            givers[graph->gives[op]]++;
    for (size_t r = 0; r < graph->n_rings; r++) {
        run->rings[r] = (struct clock_ring){.places = graph->ring_places[r], .first = first};
        first += givers[r];
    }
    for (size_t op = 0; op < graph->n_ops && graph->takes; op++)
        if (graph->takes[op] != AH_CLOCK_NO_RING) {
            run->lanes[graph->lane[op]].ring = graph->takes[op];
            ret_free[graph->lane[op]]--;
        }
}

/* Where each lane's ops lie in `order`; ascending indices there, unless the graph gives orders (8). */
static void clock_place_lanes(struct clock_run *run, struct ah_clock_result *result)
{
    const struct ah_clock_graph *graph = run->graph;
    size_t at[AH_CLOCK_LANES];
    size_t n_free[AH_CLOCK_LANES] = {0};
    size_t first = 0;
    for (size_t l = 0; l < graph->n_lanes; l++)
        n_free[l] = result->lanes[l].n;
    clock_place_rings(run, n_free);
    for (size_t l = 0; l < graph->n_lanes; l++) {
        run->lanes[l].rule = graph->rule ? graph->rule[l] : AH_CLOCK_FROZEN;
        run->lanes[l].op = AH_CLOCK_NO_OP;
        run->lanes[l].first = result->lanes[l].first = at[l] = first;
        run->lanes[l].free.items = run->memory->ready + first;
        run->lanes[l].takers.items = run->memory->ready + first + n_free[l];
        first += result->lanes[l].n;
    }
    for (uint32_t op = 0; op < graph->n_ops && !graph->order; op++)
        run->memory->order[at[graph->lane[op]]++] = op;
}

/* Takes over the orders of frozen lanes. `state` serves as the mark "seen" and is clear again afterwards. */
static int clock_take_orders(struct clock_run *run, const struct ah_clock_result *result,
                             struct ah_error *err)
{
    const struct ah_clock_graph *graph = run->graph;
    uint8_t *seen = run->memory->state;
    if (!graph->order)
        return AH_OK;
    for (uint32_t l = 0; l < graph->n_lanes; l++) {
        if (run->lanes[l].rule != AH_CLOCK_FROZEN)
            continue;
        for (size_t i = 0; i < result->lanes[l].n; i++) {
            uint32_t op = graph->order[result->lanes[l].first + i];
            if (op >= graph->n_ops || graph->lane[op] != l || seen[op])
                return ah_error_set(
                    err, AH_E_USAGE,
                    "the frozen order of lane %u has op %u at place %zu; it must hold each op of the "
                    "lane once",
                    l, op, i);
            seen[op] = 1;
            run->memory->order[result->lanes[l].first + i] = op;
        }
    }
    memset(seen, 0, graph->n_ops);
    return AH_OK;
}

static int clock_prepare(struct clock_run *run, struct ah_clock_result *result, struct ah_error *err)
{
    const struct ah_clock_graph *graph = run->graph;
    int rc = ah_clock_check(graph, err);
    if (rc)
        return rc;
    clock_find_asking(run);
    for (size_t op = 0; op < graph->n_ops; op++)
        result->lanes[graph->lane[op]].n++;
    memset(run->memory->state, CLOCK_WAITING, graph->n_ops);
    memset(run->memory->waiter, 0xff, graph->n_ops * sizeof *run->memory->waiter);
    memset(run->memory->sets, 0, sizeof run->memory->sets);
    clock_place_lanes(run, result);
    return clock_take_orders(run, result, err);
}

int ah_clock_run(struct ah_clock *clock, const struct ah_clock_graph *graph,
                 struct ah_clock_result *ret_result, struct ah_error *err)
{
    int rc = clock_check_room(clock, graph, err);
    if (rc)
        return rc;
    struct ah_clock_result result = {.spans = clock->memory->spans, .order = clock->memory->order};
    struct clock_run run = {.graph = graph, .memory = clock->memory};
    rc = clock_prepare(&run, &result, err);
    if (rc)
        return rc;
    for (uint32_t op = 0; op < graph->n_ops; op++)
        clock_look(&run, op, graph->dependency_first ? graph->dependency_first[op] : 0, AH_CLOCK_NO_OP);
    do {
        clock_dispatch(&run, &result);
        clock_share(&run);
    } while (clock_advance(&run));
    if (run.done < graph->n_ops)
        return ah_clock_explain_deadlock(&run, err);
    result.end_us = run.now;
    for (size_t l = 0; l < graph->n_lanes; l++) {
        result.lanes[l].busy_us = run.lanes[l].busy;
        result.lanes[l].slowed_us = run.lanes[l].slowed;
        result.lanes[l].idle_us = clock_positive(run.now - run.lanes[l].busy);
    }
    *ret_result = result;
    return AH_OK;
}
