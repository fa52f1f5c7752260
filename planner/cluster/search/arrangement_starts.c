/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts: D pipelines for every D, from several sets of units. The sets are all units; all without the slowest types
 * (with few units: without the slowest units of any type); the fastest islands, if links make islands; and, if blocks
 * may be away, a few units of each node, which get larger shares of its host. Units are dealt out in these ways:
 *
 *   rows     by speed, node by node, in runs of equal total speed: pipelines of similar units
 *   snake    back and forth over the pipelines, so that each gets a similar share of every type
 *
 * Stages of a pipeline are ordered by memory or by speed, the largest first, because early stages hold more
 * micro-batches. If nothing fits, the second unit moves to the end, because the first and last stage hold tables. If
 * links make islands, there are two more ways:
 *
 *   places   as snake, but along one route through all nodes: a similar share of every island
 *   route    as rows, but along that route: pipelines on few islands
 *
 * Stages then also follow fast links (route.c), or that one route, so that equal blocks are on one island.
 */
#include "planner/cluster/groups.h"
#include "planner/cluster/search/arrangement_search_internal.h"

#include "planner/cluster/search/host_shares.h"
#include "planner/cluster/search/islands.h"
#include "planner/cluster/search/route.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct unit {
    size_t class;
    double speed;
    uint64_t capacity_bytes; /* memory of all its GPUs */
    double host_bytes;       /* its share of the host, for all its GPUs */
    double copies;           /* how many copies of the model's states fit the memory of its GPUs and host */
    size_t place;            /* place of its class on the route through all classes */
    size_t turn;             /* its place on that route, among working units */
};

static double speed(const struct ah_cluster_problem *problem, size_t kind)
{
    double us = 0;
    for (size_t b = 0; b < problem->n_blocks; b++)
        us += problem->kinds[kind].blocks[b].forward_us +
              problem->kinds[kind].blocks[b].backward_us[AH_ACTIVATIONS_KEEP];
    return 1 / fmax(us, 1e-9);
}

static int by_speed(const void *a, const void *b)
{
    const struct unit *p = a, *q = b;
    if (p->speed < q->speed || p->speed > q->speed)
        return p->speed > q->speed ? -1 : 1;
    return (p->class > q->class) - (p->class < q->class);
}

static int by_memory(const void *a, const void *b)
{
    const struct unit *p = a, *q = b;
    if (p->capacity_bytes != q->capacity_bytes)
        return p->capacity_bytes > q->capacity_bytes ? -1 : 1;
    return by_speed(a, b);
}

static int by_copies(const void *a, const void *b)
{
    const struct unit *p = a, *q = b;
    if (p->copies < q->copies || p->copies > q->copies)
        return p->copies > q->copies ? -1 : 1;
    return by_speed(a, b);
}

static int by_host(const void *a, const void *b)
{
    const struct unit *p = a, *q = b;
    if (p->host_bytes < q->host_bytes || p->host_bytes > q->host_bytes)
        return p->host_bytes > q->host_bytes ? -1 : 1;
    return by_memory(a, b);
}

static int by_place(const void *a, const void *b)
{
    const struct unit *p = a, *q = b;
    return (p->place > q->place) - (p->place < q->place);
}

static int by_place_backwards(const void *a, const void *b)
{
    return by_place(b, a);
}

enum way { ROWS, SNAKE, PLACES, ROUTE, WAYS };

enum { FEW_UNITS = 8, MANY_UNITS = 32, MOST_ISLANDS = 4 };

/* The units to deal out. All arrays have room for all units of the problem. */
struct dealing {
    const struct ah_cluster_problem *problem;
    struct unit *all;   /* all units, by speed */
    struct unit *units; /* working units, by speed */
    struct unit *row;   /* units of one pipeline */
    size_t n_all, n_units;
    double speed;            /* total speed of the working units */
    size_t *part;            /* by unit: its pipeline */
    size_t *classes;         /* classes of one pipeline */
    size_t *islands;         /* by class */
    struct ah_islands links; /* with no levels, all links have similar speeds */
    bool at_last;            /* the last attempt, because nothing has fitted */
};

/* Returns the fraction of the total speed that belongs to the units before unit `i` on the route. */
static double speed_before(const struct dealing *d, size_t i)
{
    double before = 0;
    for (size_t j = 0; j < d->n_units; j++)
        before += d->units[j].turn < d->units[i].turn ? d->units[j].speed / d->speed : 0;
    return before;
}

/* Chooses one of `n` pipelines for each unit. */
static void choose_parts(struct dealing *d, enum way way, size_t n)
{
    double faster = 0; /* fraction of the total speed in units before `i` */
    for (size_t i = 0; i < d->n_units; faster += d->units[i++].speed / d->speed) {
        const double before = way == ROUTE ? speed_before(d, i) : faster;
        const size_t p = (size_t)(before * (double)n + 1e-9), turn = way == SNAKE ? i : d->units[i].turn;
        if (way == ROWS || way == ROUTE)
            d->part[i] = p < n ? p : n - 1;
        else
            d->part[i] = turn / n % 2 ? n - 1 - turn % n : turn % n;
    }
}

/* How to order the stages of a pipeline. */
struct order {
    int (*compare)(const void *, const void *);
    bool along; /* after that, improve the order along fast links */
    bool ends;  /* after that, move the second unit to the end */
};

enum { ORDERS = 4, LINKED_ORDERS = 6, AWAY_ORDERS = 2 };

/* The last AWAY_ORDERS of each list are used only if blocks may be away. */
static const struct order orders[ORDERS] = {
    {by_memory, false, false}, {by_speed, false, false}, {by_copies, false, false}, {by_host, false, true}};
static const struct order linked_orders[LINKED_ORDERS] = {
    {by_memory, true, false},           {by_speed, true, false},  {by_place, false, false},
    {by_place_backwards, false, false}, {by_copies, true, false}, {by_host, false, true}};

static void put_second_last(struct unit *row, size_t n)
{
    struct unit second = row[n > 1];
    for (size_t i = 1; i + 1 < n; i++)
        row[i] = row[i + 1];
    row[n - 1] = n > 1 ? second : row[n - 1];
}

static void draft_from_parts(const struct dealing *d, size_t n, const struct order *order,
                             struct ah_draft *draft)
{
    ah_draft_begin(draft);
    for (size_t p = 0; p < n; p++) {
        size_t in_row = 0;
        for (size_t i = 0; i < d->n_units && in_row < d->problem->n_blocks; i++)
            if (d->part[i] == p)
                d->row[in_row++] = d->units[i];
        if (!in_row)
            continue;
        qsort(d->row, in_row, sizeof *d->row, order->compare);
        if (d->at_last || order->ends)
            put_second_last(d->row, in_row);
        for (size_t i = 0; i < in_row; i++)
            d->classes[i] = d->row[i].class;
        if (order->along)
            ah_route_improve(d->problem, d->classes, in_row);
        ah_draft_open(draft);
        for (size_t i = 0; i < in_row; i++)
            ah_draft_add(draft, d->classes[i]);
    }
}

void ah_arrangement_search_add_start(struct ah_arrangement_search *search, const struct ah_draft *draft,
                                     double us)
{
    size_t n = search->n_starts, from = 0, to = 0;
    while (from < n && search->starts[from].draft.arrangement.n_pipelines != draft->arrangement.n_pipelines)
        from++;
    bool replaces = from < n;
    from = replaces ? from : n < AH_ARRANGEMENT_SEARCH_STARTS ? n : AH_ARRANGEMENT_SEARCH_STARTS - 1;
    if ((replaces || n == AH_ARRANGEMENT_SEARCH_STARTS) && search->starts[from].us <= us)
        return;
    while (to < from && search->starts[to].us <= us)
        to++;
    struct ah_arrangement_search_start start = search->starts[from];
    for (size_t i = from; i > to; i--)
        search->starts[i] = search->starts[i - 1];
    ah_draft_copy(&start.draft, draft);
    start.us = us;
    search->starts[to] = start;
    search->n_starts += !replaces && n < AH_ARRANGEMENT_SEARCH_STARTS;
}

static int try_start(struct ah_arrangement_search *search, struct ah_draft *draft, struct ah_error *err)
{
    double us;
    search->evaluations++;
    if (!ah_draft_finish(draft, &search->fits))
        return AH_OK;
    int rc = ah_arrangement_search_time(search, draft, INFINITY, &us, err);
    if (!rc && !isinf(us))
        ah_arrangement_search_add_start(search, draft, us);
    return rc;
}

static int try_orders(struct ah_arrangement_search *search, struct dealing *d, size_t n,
                      struct ah_draft *draft, struct ah_error *err)
{
    const bool linked = d->links.n_levels > 0 && !d->at_last;
    const struct order *tried = linked ? linked_orders : orders;
    const bool away = d->problem->update_limit_us > 0;
    const size_t all = linked ? LINKED_ORDERS : ORDERS, n_orders = away ? all : all - AWAY_ORDERS;
    int rc = AH_OK;
    for (size_t i = 0; i < n_orders && !rc; i++) {
        draft_from_parts(d, n, &tried[i], draft);
        rc = try_start(search, draft, err);
    }
    return rc;
}

static int try_ways(struct ah_arrangement_search *search, struct dealing *d, size_t n, struct ah_draft *draft,
                    struct ah_error *err)
{
    const enum way end = n == 1 ? SNAKE : d->links.n_levels ? WAYS : PLACES;
    int rc = AH_OK;
    for (enum way way = ROWS; way < end && !rc; way++) {
        choose_parts(d, way, n);
        rc = try_orders(search, d, n, draft, err);
    }
    return rc;
}

static void release_dealing(struct dealing *d)
{
    free(d->all);
    free(d->part);
    ah_islands_release(&d->links);
}

/* Finds one route through all classes, from the class with the most memory on. */
static void find_places(struct dealing *d)
{
    size_t n = 0;
    memcpy(d->row, d->all, d->n_all * sizeof *d->row);
    qsort(d->row, d->n_all, sizeof *d->row, by_memory);
    for (size_t i = 0; i < d->n_all; i++)
        if (!i || d->row[i].class != d->row[i - 1].class)
            d->classes[n++] = d->row[i].class;
    ah_route_improve(d->problem, d->classes, n);
    for (size_t i = 0; i < d->n_all; i++)
        for (size_t at = 0; at < n; at++)
            if (d->classes[at] == d->all[i].class)
                d->all[i].place = at;
}

/* Returns the number of working units of `class`. */
static size_t count_working(const struct dealing *d, size_t class)
{
    size_t n = 0;
    for (size_t i = 0; i < d->n_units; i++)
        n += d->units[i].class == class;
    return n;
}

/* Sets a working unit's share of the host, and how many copies of the states fit its GPUs and host. */
static void measure_memory(const struct dealing *d, struct unit *unit)
{
    const struct ah_cluster_problem *problem = d->problem;
    const struct ah_problem_kind *kind = ah_problem_kind_of(problem, unit->class);
    const double tp = (double)kind->tp;
    double states = 0;
    for (size_t b = 0; b < problem->n_blocks; b++)
        states += tp * (double)kind->blocks[b].state_bytes;
    unit->host_bytes = 0;
    if (ah_problem_has_host(problem, problem->classes[unit->class].kind))
        unit->host_bytes = tp * (double)kind->hosts[count_working(d, unit->class) - 1].bytes;
    unit->copies = (tp * (double)kind->capacity_bytes + unit->host_bytes) / fmax(states, 1);
}

/* Sets memory and turns of the working units, and their total speed. */
static void weigh_units(struct dealing *d)
{
    d->speed = 0;
    for (size_t i = 0; i < d->n_units; i++) {
        d->speed += d->units[i].speed;
        measure_memory(d, &d->units[i]);
        d->units[i].turn = 0;
        for (size_t j = 0; j < d->n_units; j++) /* equal units keep their order */
            d->units[i].turn += by_place(&d->units[j], &d->units[i]) < (j < i);
    }
}

static int init_dealing(const struct ah_cluster_problem *problem, struct dealing *ret_dealing,
                        struct ah_error *err)
{
    size_t n = ah_problem_units(problem);
    struct dealing d = {.problem = problem};
    d.all = calloc(3 * n, sizeof *d.all);
    d.part = calloc(2 * n + problem->n_classes, sizeof *d.part);
    if (!d.all || !d.part) {
        release_dealing(&d);
        return ah_error_memory(err);
    }
    d.units = d.all + n;
    d.row = d.units + n;
    d.classes = d.part + n;
    d.islands = d.classes + n;
    for (size_t c = 0; c < problem->n_classes; c++)
        for (size_t u = 0; u < problem->classes[c].units; u++) {
            const struct ah_problem_kind *kind = ah_problem_kind_of(problem, c);
            d.all[d.n_all++] = (struct unit){.class = c,
                                             .speed = speed(problem, problem->classes[c].kind),
                                             .capacity_bytes = kind->capacity_bytes * kind->tp};
        }
    qsort(d.all, d.n_all, sizeof *d.all, by_speed);
    int rc = ah_islands_init(&d.links, problem, err);
    if (rc)
        release_dealing(&d);
    else if (d.links.n_levels)
        find_places(&d);
    *ret_dealing = d;
    return rc;
}

/* True if a set may leave out unit `n` and all slower ones. */
static bool may_end(const struct dealing *d, size_t n)
{
    const struct ah_problem_class *classes = d->problem->classes;
    if (n == d->n_all || d->n_all <= FEW_UNITS)
        return true;
    return classes[d->all[n - 1].class].kind != classes[d->all[n].class].kind;
}

/* True if `n` pipelines are worth trying. With many units, `n` must be units / s, rounded, for some s stages. */
static bool interests(size_t units, size_t n, size_t n_blocks)
{
    size_t stages = (units + n - 1) / n;
    if (stages > n_blocks)
        return false;
    return units <= MANY_UNITS || n == (units + stages - 1) / stages || n == units / stages;
}

/* Tries all numbers of pipelines with the working units. */
static int try_set(struct ah_arrangement_search *search, struct dealing *d, struct ah_draft *draft,
                   struct ah_error *err)
{
    int rc = AH_OK;
    weigh_units(d);
    for (size_t n = 1; n <= d->n_units && n <= ah_groups_most_pipelines(d->problem) && !rc; n++)
        if (interests(d->n_units, n, d->problem->n_blocks))
            rc = try_ways(search, d, n, draft, err);
    return rc;
}

static int try_fastest_units(struct ah_arrangement_search *search, struct dealing *d, struct ah_draft *draft,
                             struct ah_error *err)
{
    int rc = AH_OK;
    for (size_t used = d->n_all; used > 0 && !rc; used--) {
        if (!may_end(d, used))
            continue;
        d->n_units = used;
        memcpy(d->units, d->all, used * sizeof *d->units);
        rc = try_set(search, d, draft, err);
    }
    return rc;
}

/* Adds the fastest of the islands not yet taken to the working units. */
static void take_island(struct dealing *d, size_t n, bool *taken)
{
    size_t best = n;
    double most = -1;
    for (size_t island = 0; island < n; island++) {
        double sum = 0;
        for (size_t i = 0; i < d->n_all; i++)
            sum += d->islands[d->all[i].class] == island ? d->all[i].speed : 0;
        if (!taken[island] && sum > most) {
            most = sum;
            best = island;
        }
    }
    taken[best] = true;
    d->n_units = 0;
    for (size_t i = 0; i < d->n_all; i++)
        if (taken[d->islands[d->all[i].class]])
            d->units[d->n_units++] = d->all[i];
}

static int try_islands(struct ah_arrangement_search *search, struct dealing *d, struct ah_draft *draft,
                       struct ah_error *err)
{
    bool *taken = calloc(d->problem->n_classes, sizeof *taken);
    int rc = taken ? AH_OK : ah_error_memory(err);
    for (size_t level = 0; level < d->links.n_levels && !rc; level++) {
        size_t n = ah_islands_at(&d->links, level, d->islands);
        memset(taken, 0, d->problem->n_classes * sizeof *taken);
        for (size_t i = 0; i + 1 < n && i < MOST_ISLANDS && !rc; i++) {
            take_island(d, n, taken);
            rc = try_set(search, d, draft, err);
        }
    }
    free(taken);
    return rc;
}

static int try_sharers(struct ah_arrangement_search *search, struct dealing *d, struct ah_draft *draft,
                       struct ah_error *err)
{
    const struct ah_cluster_problem *problem = d->problem;
    size_t *sharers = calloc(problem->n_classes, sizeof *sharers);
    int rc = sharers ? AH_OK : ah_error_memory(err);
    for (size_t c = 0; c < problem->n_classes && !rc; c++)
        sharers[c] = problem->classes[c].units;
    while (!rc && ah_host_shares_next(problem, sharers)) {
        d->n_units = 0;
        for (size_t i = 0; i < d->n_all; i++)
            if (count_working(d, d->all[i].class) < sharers[d->all[i].class])
                d->units[d->n_units++] = d->all[i];
        rc = try_set(search, d, draft, err);
    }
    free(sharers);
    return rc;
}

static int try_sets(struct ah_arrangement_search *search, struct dealing *d, struct ah_draft *draft,
                    struct ah_error *err)
{
    int rc = try_fastest_units(search, d, draft, err);
    rc = rc ? rc : try_islands(search, d, draft, err);
    return rc ? rc : try_sharers(search, d, draft, err);
}

int ah_arrangement_search_starts(struct ah_arrangement_search *search, struct ah_error *err)
{
    struct dealing d = {0};
    struct ah_draft draft = {0};
    int rc = init_dealing(search->problem, &d, err);
    if (rc)
        return rc;
    rc = ah_draft_init(&draft, search->problem, err);
    rc = rc ? rc : try_sets(search, &d, &draft, err);
    d.at_last = !search->n_starts;
    if (!rc && d.at_last)
        rc = try_sets(search, &d, &draft, err);
    release_dealing(&d);
    ah_draft_release(&draft);
    return rc;
}
