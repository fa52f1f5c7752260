/* SPDX-License-Identifier: Apache-2.0
 *
 * Dynamic: the lanes beside compute have no order. Whenever one has room it takes, of the items that are ready, the one of
 * the highest priority: ready is what waits for nothing that is not done, and finds a free place in its ring.
 *
 * An instance is an item of a step.
 *
 *   1. At most FLIGHT items of a lane are submitted and not done: one runs, one stands behind it. What is submitted can
 *      start at once, but for compute's, which wait for each other and for items that are submitted. So no lane holds
 *      anything up.
 *   2. Compute keeps its order, the one that memory was planned for: every other item starts and ends between two
 *      compute positions (docs/planning.md), so tensors do not meet whatever the order of the others.
 *   3. Every ring has a free place again. Who holds a place of new weights or of states is waited for by nothing but
 *      uploads and copies, which need no places. Gradients are sent into a ring only where the host adds them up or
 *      updates by them without waiting for other gradients, but for those of the micro-batch before, behind which they
 *      take their places (runtime/schedule/rounds.h): where both are due together, priorities do not see to it.
 *   4. The instances of two rounds are under way at most, of three steps; what is known of them has room for SLOTS. The
 *      place of one that is taken, or left out, goes to the one SLOTS steps later.
 *   5. An instance goes when as many arrivals are counted as it waits for: its round, items of other lanes that are done,
 *      and items of its own lane that are submitted, behind which it stands. (Else the place behind a tile would never be
 *      the next tile's.)
 *   6. What follows from an item (records, headers, data ahead) is submitted when it is done, lest it holds up a lane. Of
 *      the norm, that is what updates on the device wait for; its own lane, too, goes on when it is done.
 */
#include "runtime/train/trainer_internal.h"

enum { FLIGHT = 2, SLOTS = STEPS_MARKED, FIRST_ROUND = -2 };

struct follower {
    uint32_t item;
    uint32_t ahead; /* steps */
};

struct pending {
    int64_t step[SLOTS];
    uint32_t waits[SLOTS]; /* arrivals to come */
};

struct instance {
    uint64_t key;
    int64_t step;
    uint32_t item;
};

/* A binary heap; the smallest key is first. */
struct heap {
    struct instance *items;
    size_t n;
};

struct flying {
    uint64_t ticket;
    int64_t step;
    uint32_t item;
};

/* Whose the ops up to a ticket are. */
struct owner {
    uint64_t last;
    int64_t round;
};

struct lane {
    struct heap free, takers; /* ready: without places, and with them */
    struct flying flying[FLIGHT];
    size_t n_flying;
    struct owner *owners; /* a circle of `room`: ops whose spans are not read yet */
    size_t room, put, read;
};

struct dynamic {
    uint32_t *first_follower;
    struct follower *followers; /* beside compute */
    uint32_t *degree;           /* by item: what it waits for, its round included */
    struct pending *pending;
    struct lane lanes[AH_ROUNDS_LANES];
    int64_t compute_round;
    int64_t added, closing; /* the last round that was added; the one that closes, or INT64_MAX */
    size_t
        left[2]; /* items of a round that are not done, by parity; those before the first are of the first */
};

/* ---- ready items ---- */

static bool before(const struct instance *a, const struct instance *b)
{
    return a->key < b->key || (a->key == b->key && a->item < b->item);
}

static void push(struct heap *heap, struct instance instance)
{
    size_t hole = heap->n++;
    for (; hole > 0 && before(&instance, &heap->items[(hole - 1) / 2]); hole = (hole - 1) / 2)
        heap->items[hole] = heap->items[(hole - 1) / 2];
    heap->items[hole] = instance;
}

static struct instance pop(struct heap *heap)
{
    struct instance *items = heap->items, top = items[0];
    size_t n = --heap->n, hole = 0;
    for (size_t child = 1; child < n; child = 2 * hole + 1) {
        if (child + 1 < n && before(&items[child + 1], &items[child]))
            child++;
        if (!before(&items[child], &items[n]))
            break;
        items[hole] = items[child];
        hole = child;
    }
    items[hole] = items[n];
    return top;
}

static bool takes_place(const struct ah_rounds_item *item)
{
    for (int ring = 0; ring < AH_ROUNDS_RINGS; ring++)
        if (item->takes[ring])
            return true;
    return false;
}

static void make_ready(struct ah_trainer *t, uint32_t item, int64_t step)
{
    const struct ah_rounds_item *it = &t->rounds.items[item];
    struct lane *lane = &t->dynamic->lanes[it->lane];
    uint64_t iteration = (uint64_t)(step - FIRST_ROUND);
    const struct instance instance = {it->priority + iteration * t->rounds.priority_step, step, item};
    push(takes_place(it) ? &lane->takers : &lane->free, instance);
}

/* ---- arrivals ---- */

static void arrive(struct ah_trainer *t, uint32_t item, int64_t step)
{
    struct pending *pending = &t->dynamic->pending[item];
    uint64_t slot = (uint64_t)step % SLOTS;
    if (pending->step[slot] == step && --pending->waits[slot] == 0)
        make_ready(t, item, step);
}

/* The slot of an instance is free for the next one. */
static void retire(struct ah_trainer *t, uint32_t item, int64_t step)
{
    struct pending *pending = &t->dynamic->pending[item];
    uint64_t slot = (uint64_t)step % SLOTS;
    if (pending->step[slot] != step)
        return;
    pending->step[slot] = step + SLOTS;
    pending->waits[slot] = t->dynamic->degree[item];
}

/* Is there such an instance before the first step? */
static bool exists(const struct ah_trainer *t, uint32_t item, int64_t step)
{
    return step >= 0 || (step == -1 && t->rounds.items[item].wraps);
}

enum told { TOLD_OWN_LANE = 1, TOLD_OTHERS = 2, TOLD_ALL = TOLD_OWN_LANE | TOLD_OTHERS };

static void tell_followers(struct ah_trainer *t, uint32_t item, int64_t step, enum told told)
{
    const struct dynamic *d = t->dynamic;
    if (!exists(t, item, step))
        return;
    for (uint32_t i = d->first_follower[item]; i < d->first_follower[item + 1]; i++) {
        const struct follower *follower = &d->followers[i];
        bool own = t->rounds.items[follower->item].lane == t->rounds.items[item].lane;
        if (told & (own ? TOLD_OWN_LANE : TOLD_OTHERS))
            arrive(t, follower->item, step + follower->ahead);
    }
}

static bool is_norm(const struct ah_trainer *t, uint32_t item)
{
    return t->options.plan->ops[t->rounds.items[item].op].op == AH_PLAN_NORM;
}

/* ---- rounds ---- */

static size_t *left_of(struct ah_trainer *t, int64_t round)
{
    return &t->dynamic->left[(round < 0 ? 0 : round) & 1];
}

static int64_t round_of(const struct ah_trainer *t, uint32_t item, int64_t step)
{
    return step - (t->rounds.items[item].early ? 1 : 0);
}

static void leave_out(struct ah_trainer *t, uint32_t item, int64_t step)
{
    retire(t, item, step);
    ah_round_mark(t, item, step, 0);
    tell_followers(t, item, step, TOLD_ALL);
}

void ah_dynamic_add(struct ah_trainer *t, int64_t round, enum round_part part)
{
    struct dynamic *d = t->dynamic;
    size_t *left = left_of(t, round);
    d->added = round;
    d->closing = part == ROUND_CLOSING ? round : INT64_MAX;
    *left += part == ROUND_BEFORE ? 0 : t->rounds.positions;
    for (uint32_t item = t->rounds.positions; item < t->rounds.n_items; item++) {
        int64_t step = ah_round_step(t, item, round);
        if (ah_round_leaves_out(t, item, part)) {
            leave_out(t, item, step);
            continue;
        }
        ++*left;
        arrive(t, item, step);
    }
}

/* ---- what is done ---- */

static bool is_done(const struct ah_trainer *t, uint32_t lane, uint64_t ticket)
{
    return ticket <= ah_device_done(t->device, lane);
}

/* Invariant 6. */
static int land(struct ah_trainer *t, const struct flying *flying, struct ah_error *err)
{
    int64_t round = round_of(t, flying->item, flying->step);
    ah_round_count(t, round);
    --*left_of(t, round);
    int rc = ah_round_after(t, flying->item, flying->step, flying->ticket, err);
    bool norm = is_norm(t, flying->item);
    if (norm)
        ah_round_mark(t, flying->item, flying->step, flying->ticket);
    tell_followers(t, flying->item, flying->step, norm ? TOLD_ALL : TOLD_OTHERS);
    return rc;
}

static int land_all(struct ah_trainer *t, bool *moved, struct ah_error *err)
{
    int rc = AH_OK;
    for (uint32_t lane = 0; lane < AH_ROUNDS_LANES; lane++) {
        struct lane *l = &t->dynamic->lanes[lane];
        while (l->n_flying && is_done(t, lane, l->flying[0].ticket) && !rc) {
            const struct flying done = l->flying[0];
            l->flying[0] = l->flying[1];
            l->n_flying--;
            *moved = true;
            rc = land(t, &done, err);
        }
    }
    return rc;
}

/* ---- what goes ---- */

static int launch(struct ah_trainer *t, uint32_t item, int64_t step, struct waits *waits,
                  struct ah_error *err)
{
    const struct ah_rounds_item *it = &t->rounds.items[item];
    struct lane *lane = &t->dynamic->lanes[it->lane];
    int64_t round = round_of(t, item, step);
    uint64_t ticket;
    ah_round_count(t, round);
    int rc = ah_round_submit_item(t, item, step, waits, &ticket, err);
    if (rc)
        return rc;
    lane->flying[lane->n_flying++] = (struct flying){ticket, step, item};
    lane->owners[lane->put++ % lane->room] = (struct owner){ticket, round};
    if (is_norm(t, item))
        return AH_OK;
    ah_round_mark(t, item, step, ticket);
    tell_followers(t, item, step, TOLD_OWN_LANE);
    return AH_OK;
}

/* Is there a place that nobody uses any more? */
static bool finds_place(const struct ah_trainer *t, uint32_t item)
{
    const struct ah_rounds_item *it = &t->rounds.items[item];
    for (int i = 0; i < AH_ROUNDS_RINGS; i++) {
        if (!it->takes[i])
            continue;
        const struct ring_place *place = ah_round_place(t, i);
        if (!place || !is_done(t, place->lane, place->ticket))
            return false;
    }
    return true;
}

/* The heap whose first item is next; it may be empty. */
static struct heap *next_heap(const struct ah_trainer *t, struct lane *lane)
{
    if (!lane->takers.n || !finds_place(t, lane->takers.items[0].item))
        return &lane->free;
    return lane->free.n && before(&lane->free.items[0], &lane->takers.items[0]) ? &lane->free : &lane->takers;
}

static int go_lane(struct ah_trainer *t, struct lane *lane, bool *moved, struct ah_error *err)
{
    int rc = AH_OK;
    while (lane->n_flying < FLIGHT && !rc) {
        struct heap *heap = next_heap(t, lane);
        struct waits waits = {{0}};
        if (!heap->n)
            break;
        const struct instance next = pop(heap);
        (void)ah_round_ready(t, next.item, next.step, &waits);
        retire(t, next.item, next.step);
        *moved = true;
        rc = launch(t, next.item, next.step, &waits, err);
    }
    return rc;
}

static enum round_part part_of(const struct dynamic *d, int64_t round)
{
    return round < 0 ? ROUND_OPENING : round == d->closing ? ROUND_CLOSING : ROUND_WHOLE;
}

/* The next item of compute, if it can go; one that is left out is done when those before it are. */
static int go_compute(struct ah_trainer *t, bool *ret_went, struct ah_error *err)
{
    struct dynamic *d = t->dynamic;
    struct lane *lane = &d->lanes[AH_PLAN_LANE_COMPUTE];
    size_t *cursor = &t->cursor[AH_PLAN_LANE_COMPUTE];
    struct waits waits = {{0}};
    *ret_went = false;
    if (d->compute_round > d->added)
        return AH_OK;
    uint32_t item = t->rounds.order[AH_PLAN_LANE_COMPUTE][*cursor];
    int64_t step = ah_round_step(t, item, d->compute_round);
    bool out = ah_round_leaves_out(t, item, part_of(d, d->compute_round));
    if (out ? lane->n_flying > 0 : !ah_round_ready(t, item, step, &waits))
        return AH_OK;
    *ret_went = true;
    if (out)
        --*left_of(t, d->compute_round);
    *cursor = (*cursor + 1) % t->rounds.positions;
    d->compute_round += !*cursor;
    if (!out)
        return launch(t, item, step, &waits, err);
    ah_round_mark(t, item, step, t->queue.last[AH_LANE_COMPUTE]);
    tell_followers(t, item, step, TOLD_ALL);
    return AH_OK;
}

static int go_all(struct ah_trainer *t, bool *moved, struct ah_error *err)
{
    const struct lane *compute = &t->dynamic->lanes[AH_PLAN_LANE_COMPUTE];
    size_t most = t->rounds.positions > FLIGHT ? FLIGHT : 1; /* what follows from a head precedes the next */
    bool went = true;
    int rc = AH_OK;
    while (went && compute->n_flying < most && !rc) {
        rc = go_compute(t, &went, err);
        *moved |= went;
    }
    for (size_t lane = AH_PLAN_LANE_H2D; lane < AH_ROUNDS_LANES && !rc; lane++)
        rc = go_lane(t, &t->dynamic->lanes[lane], moved, err);
    return rc ? rc : ah_queue_flush(t, err);
}

/* ---- going on ---- */

static int wait_any(const struct ah_trainer *t, uint64_t loss_copied, struct ah_error *err)
{
    struct ah_wait waits[AH_ROUNDS_LANES + 1];
    size_t n = 0, met;
    for (uint32_t lane = 0; lane < AH_ROUNDS_LANES; lane++) {
        const struct lane *l = &t->dynamic->lanes[lane];
        if (l->n_flying)
            waits[n++] = (struct ah_wait){lane, l->flying[0].ticket};
    }
    if (!is_done(t, AH_LANE_D2H, loss_copied))
        waits[n++] = (struct ah_wait){AH_LANE_D2H, loss_copied};
    if (!n)
        return ah_error_set(err, AH_E_DOCUMENT,
                            "lanes.compute: item %zu of %u cannot run, ops wait for each other; plan again",
                            t->cursor[AH_PLAN_LANE_COMPUTE], t->rounds.positions);
    return ah_device_wait_any(t->device, waits, n, &met, err);
}

int ah_dynamic_until(struct ah_trainer *t, int64_t round, struct ah_error *err)
{
    const uint64_t *loss_copied = &t->loss_copied[round & 1];
    int rc = AH_OK;
    while (!rc && (*left_of(t, round) || !is_done(t, AH_LANE_D2H, *loss_copied))) {
        bool moved = false;
        rc = land_all(t, &moved, err);
        if (!rc)
            rc = go_all(t, &moved, err);
        if (!rc && !moved)
            rc = wait_any(t, *loss_copied, err);
    }
    return rc ? rc : ah_device_wait(t->device, AH_LANE_D2H, *loss_copied, err); /* failures are told there */
}

int64_t ah_dynamic_round_of(struct ah_trainer *t, uint32_t lane, uint64_t ticket)
{
    struct lane *l = &t->dynamic->lanes[lane];
    while (l->read < l->put && l->owners[l->read % l->room].last < ticket)
        l->read++;
    return l->read < l->put ? l->owners[l->read % l->room].round : INT64_MIN;
}

/* ---- the first state ---- */

/* What an instance of a step waits for that exists, and its round. */
static uint32_t count_waits(const struct ah_trainer *t, uint32_t item, int64_t step)
{
    const struct ah_rounds_item *it = &t->rounds.items[item];
    uint32_t n = 1 + (it->behind != AH_ROUNDS_NONE);
    for (uint32_t w = it->first_wait; w < it[1].first_wait; w++)
        n += exists(t, t->rounds.waits[w].item, step - (int64_t)t->rounds.waits[w].back);
    return n;
}

void ah_dynamic_reset(struct ah_trainer *t)
{
    struct dynamic *d = t->dynamic;
    for (uint32_t item = t->rounds.positions; item < t->rounds.n_items; item++) {
        int64_t first = t->rounds.items[item].wraps ? -1 : 0;
        for (int64_t step = first; step < first + SLOTS; step++) {
            d->pending[item].step[(uint64_t)step % SLOTS] = step;
            d->pending[item].waits[(uint64_t)step % SLOTS] = count_waits(t, item, step);
        }
    }
    for (size_t lane = 0; lane < AH_ROUNDS_LANES; lane++) {
        struct lane *l = &d->lanes[lane];
        l->free.n = l->takers.n = l->n_flying = l->put = l->read = 0;
    }
    d->compute_round = FIRST_ROUND + 1;
    d->added = FIRST_ROUND;
    d->closing = INT64_MAX;
    d->left[0] = d->left[1] = 0;
    t->cursor[AH_PLAN_LANE_COMPUTE] = 0;
}

/* ---- memory ---- */

/* Calls for each wait of an item beside compute, the place that it takes behind another's included. */
static void list_followers(const struct ah_trainer *t, struct dynamic *d, bool fill)
{
    const struct ah_rounds *rounds = &t->rounds;
    for (uint32_t item = rounds->positions; item < rounds->n_items; item++) {
        const struct ah_rounds_item *it = &rounds->items[item];
        uint32_t n = it[1].first_wait - it->first_wait, behind = it->behind != AH_ROUNDS_NONE;
        for (uint32_t i = 0; i < n + behind; i++) {
            const struct ah_rounds_wait wait =
                i < n ? rounds->waits[it->first_wait + i] : (struct ah_rounds_wait){it->behind, 0};
            if (fill)
                d->followers[--d->first_follower[wait.item]] = (struct follower){item, wait.back};
            else
                d->first_follower[wait.item]++;
        }
    }
}

static int find_followers(struct ah_trainer *t, struct dynamic *d, struct ah_error *err)
{
    size_t n = t->rounds.n_items;
    uint32_t sum = 0;
    d->first_follower = ah_arena_array(&t->arena, n + 1, sizeof *d->first_follower);
    if (!d->first_follower)
        return ah_error_memory(err);
    list_followers(t, d, false);
    for (size_t i = 0; i <= n; i++) {
        sum += i < n ? d->first_follower[i] : 0;
        d->first_follower[i] = sum;
    }
    d->followers = ah_arena_array(&t->arena, (size_t)sum + 1, sizeof *d->followers);
    if (!d->followers)
        return ah_error_memory(err);
    list_followers(t, d, true);
    return AH_OK;
}

/* Of two rounds at most, and of what precedes the first, items of a lane are ready, or not read. */
static int take_lane(struct ah_trainer *t, struct lane *lane, size_t n_items, struct ah_error *err)
{
    lane->room = 4 * n_items + 1;
    lane->free.items = ah_arena_array(&t->arena, lane->room, sizeof *lane->free.items);
    lane->takers.items = ah_arena_array(&t->arena, lane->room, sizeof *lane->takers.items);
    lane->owners = ah_arena_array(&t->arena, lane->room, sizeof *lane->owners);
    return lane->free.items && lane->takers.items && lane->owners ? AH_OK : ah_error_memory(err);
}

int ah_dynamic_init(struct ah_trainer *t, struct ah_error *err)
{
    struct dynamic *d = ah_arena_alloc(&t->arena, sizeof *d);
    if (!d)
        return ah_error_memory(err);
    d->degree = ah_arena_array(&t->arena, t->rounds.n_items, sizeof *d->degree);
    d->pending = ah_arena_array(&t->arena, t->rounds.n_items, sizeof *d->pending);
    int rc = d->degree && d->pending ? find_followers(t, d, err) : ah_error_memory(err);
    for (size_t lane = 0; lane < AH_ROUNDS_LANES && !rc; lane++)
        rc = take_lane(t, &d->lanes[lane], t->rounds.n_order[lane], err);
    if (rc)
        return rc;
    for (uint32_t item = 0; item < t->rounds.n_items; item++)
        d->degree[item] = count_waits(t, item, SLOTS);
    t->dynamic = d;
    return AH_OK;
}
