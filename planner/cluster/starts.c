/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts: D pipelines for every D, from units in order of speed.
 *
 *   rows    the units one after another, node by node, in runs of equal speed: pipelines of like units
 *   snake   forth and back over the pipelines, so that each has a like share of every type
 *
 * and in each pipeline the stages by memory, or by speed, the largest first: early stages hold more micro-batches. All
 * units work, or the slowest types do not (of few units: the slowest ones do not, whatever their type).
 */
#include "planner/cluster/hunt_internal.h"

#include <math.h>
#include <stdlib.h>

struct unit {
    size_t class;
    double speed;
    uint64_t capacity_bytes; /* of all its GPUs */
};

static double speed(const struct ah_instance *instance, size_t kind)
{
    double us = 0;
    for (size_t b = 0; b < instance->n_blocks; b++)
        us += instance->kinds[kind].blocks[b].forward_us +
              instance->kinds[kind].blocks[b].backward_us[AH_ACTIVATIONS_KEEP];
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

enum way { ROWS, SNAKE, WAYS };

enum { FEW_UNITS = 8, MANY_UNITS = 32 };

/* Which pipeline of `n` the i-th unit goes to; `before` is the speed of those before it, of all. */
static size_t pipeline_of(enum way way, size_t i, size_t n, double before)
{
    if (way == ROWS) {
        size_t p = (size_t)(before * (double)n + 1e-9);
        return p < n ? p : n - 1;
    }
    return i / n % 2 ? n - 1 - i % n : i % n;
}

struct dealing {
    struct unit *units; /* by speed */
    struct unit *row;   /* of one pipeline */
    size_t n_units;     /* that work */
    double speed;       /* of these together */
};

static void deal(const struct dealing *d, enum way way, size_t n, int (*order)(const void *, const void *),
                 struct ah_draft *draft)
{
    ah_draft_begin(draft);
    for (size_t p = 0; p < n; p++) {
        size_t in_row = 0;
        double before = 0;
        for (size_t i = 0; i < d->n_units; before += d->units[i++].speed / d->speed)
            if (pipeline_of(way, i, n, before) == p)
                d->row[in_row++] = d->units[i];
        if (!in_row)
            continue;
        qsort(d->row, in_row, sizeof *d->row, order);
        ah_draft_open(draft);
        for (size_t i = 0; i < in_row; i++)
            ah_draft_add(draft, d->row[i].class);
    }
}

void ah_hunt_add_start(struct ah_hunt *hunt, const struct ah_draft *draft, double us)
{
    size_t n = hunt->n_starts, from = 0, to = 0;
    while (from < n && hunt->starts[from].draft.arrangement.n_pipelines != draft->arrangement.n_pipelines)
        from++;
    bool replaces = from < n;
    from = replaces ? from : n < AH_HUNT_STARTS ? n : AH_HUNT_STARTS - 1;
    if ((replaces || n == AH_HUNT_STARTS) && hunt->starts[from].us <= us)
        return;
    while (to < from && hunt->starts[to].us <= us)
        to++;
    struct ah_hunt_start start = hunt->starts[from];
    for (size_t i = from; i > to; i--)
        hunt->starts[i] = hunt->starts[i - 1];
    ah_draft_copy(&start.draft, draft);
    start.us = us;
    hunt->starts[to] = start;
    hunt->n_starts += !replaces && n < AH_HUNT_STARTS;
}

static int try_ways(struct ah_hunt *hunt, const struct dealing *d, size_t n, struct ah_draft *draft,
                    struct ah_error *err)
{
    int (*const orders[])(const void *, const void *) = {by_memory, by_speed};
    int rc = AH_OK;
    for (int i = 0; i < 2 * WAYS && !rc; i++) {
        double us;
        deal(d, (enum way)(i / 2), n, orders[i % 2], draft);
        hunt->evaluations++;
        if (!ah_draft_finish(draft, &hunt->fits))
            continue;
        rc = ah_hunt_time(hunt, draft, INFINITY, &us, err);
        if (!rc && !isinf(us))
            ah_hunt_add_start(hunt, draft, us);
    }
    return rc;
}

static int fill(const struct ah_instance *instance, struct dealing *ret_dealing, struct ah_error *err)
{
    struct dealing d = {0};
    size_t n = ah_instance_units(instance);
    d.units = calloc(2 * n, sizeof *d.units);
    if (!d.units)
        return ah_error_memory(err);
    d.row = d.units + n;
    for (size_t c = 0; c < instance->n_classes; c++)
        for (size_t u = 0; u < instance->classes[c].units; u++) {
            const struct ah_instance_kind *kind = ah_instance_kind_of(instance, c);
            d.units[d.n_units++] =
                (struct unit){c, speed(instance, instance->classes[c].kind), kind->capacity_bytes * kind->tp};
        }
    qsort(d.units, d.n_units, sizeof *d.units, by_speed);
    *ret_dealing = d;
    return AH_OK;
}

/* May the units from `n` on do nothing? */
static bool may_end(const struct ah_instance *instance, const struct dealing *d, size_t n, size_t all)
{
    if (n == all || all <= FEW_UNITS)
        return true;
    return instance->classes[d->units[n - 1].class].kind != instance->classes[d->units[n].class].kind;
}

/* May `units` be `n` pipelines? Of many units only numbers of pipelines for some even number of stages are tried. */
static bool interests(size_t units, size_t n, size_t n_blocks)
{
    size_t stages = (units + n - 1) / n;
    if (stages > n_blocks)
        return false;
    return units <= MANY_UNITS || n == (units + stages - 1) / stages || n == units / stages;
}

int ah_hunt_starts(struct ah_hunt *hunt, struct ah_error *err)
{
    const struct ah_instance *instance = hunt->instance;
    struct dealing d = {0};
    struct ah_draft draft = {0};
    int rc = fill(instance, &d, err);
    if (rc)
        return rc;
    rc = ah_draft_init(&draft, instance, err);
    for (size_t all = d.n_units, used = all; used > 0 && !rc; used--) {
        if (!may_end(instance, &d, used, all))
            continue;
        d.n_units = used;
        d.speed = 0;
        for (size_t i = 0; i < used; i++)
            d.speed += d.units[i].speed;
        for (size_t n = 1; n <= used && n <= instance->micro_batches && !rc; n++)
            if (interests(used, n, instance->n_blocks))
                rc = try_ways(hunt, &d, n, &draft, err);
    }
    free(d.units);
    ah_draft_release(&draft);
    return rc;
}
