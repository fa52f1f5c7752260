/* SPDX-License-Identifier: Apache-2.0
 *
 * AutoHet in its two stages (docs/policies/autohet.md), for numbers d of groups (with many units, d grows in steps):
 *
 * 1. Grouping deals units to d groups so that the slowest group is as fast as possible. The slowest group gets the
 *    fastest unit left; at the end units are swapped. If a group cannot hold the model, the grouping is dropped. Among
 *    equally fast units it takes the first one, or one from the node that this group took from last: both are tried.
 * 2. Mapping tries the types in every order (if there are many, only by memory and by speed). Balancing splits blocks
 *    exactly for the formula of a pipeline, and gives micro-batches to the group that ends first. The best few orders
 *    by that formula are simulated.
 */
#include "planner/cluster/policies/cluster_policies_internal.h"
#include "planner/cluster/policies/grids.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PERMUTED = 4, ORDERS_MOST = 24, MANY_UNITS = 64, SIMULATED = 8, SIMULATED_OF_MANY = 2 };

struct autohet {
    struct ah_policy_search *search;
    const struct ah_grid *row;                 /* the units of the chosen nodes */
    size_t n;                                  /* units */
    size_t *group, *order;                     /* (units); order: the units in the trial's order */
    size_t *members;                           /* (units): classes of a group */
    size_t *last_node;                         /* (groups) */
    double *power;                             /* (groups) */
    double *speed;                             /* (kinds): profiled speed of a unit */
    size_t *type, n_types;                     /* (kinds): type of GPU */
    size_t orders[ORDERS_MOST][MOST_PERMUTED]; /* ranks of types */
    size_t n_orders;
};

static double unit_speed(const struct autohet *a, size_t u)
{
    return a->speed[a->search->problem->classes[a->row->classes[u]].kind];
}

static void profile(struct autohet *a)
{
    const struct ah_cluster_problem *problem = a->search->problem;
    for (size_t k = 0; k < problem->n_kinds; k++) {
        double us = 0;
        for (size_t b = 0; b < problem->n_blocks; b++)
            us += problem->kinds[k].blocks[b].forward_us +
                  problem->kinds[k].blocks[b].backward_us[AH_ACTIVATIONS_KEEP];
        a->speed[k] = 1 / fmax(us, 1e-9);
        size_t same = 0;
        while (strcmp(problem->kinds[same].gpu, problem->kinds[k].gpu) != 0)
            same++;
        a->type[k] = same < k ? a->type[same] : a->n_types++;
    }
}

/* ---- 1: grouping ---- */

/* Returns the fastest unit left. Among equally fast units, prefers one of `node`, otherwise the first. */
static size_t next_unit(const struct autohet *a, size_t node)
{
    const struct ah_cluster_problem *problem = a->search->problem;
    size_t best = SIZE_MAX;
    for (size_t u = 0; u < a->n; u++) {
        if (a->group[u] != SIZE_MAX)
            continue;
        bool near = problem->classes[a->row->classes[u]].node == node;
        if (best == SIZE_MAX || unit_speed(a, u) > unit_speed(a, best) ||
            (near && unit_speed(a, u) >= unit_speed(a, best) &&
             problem->classes[a->row->classes[best]].node != node))
            best = u;
    }
    return best;
}

static void deal_units(struct autohet *a, size_t d, bool near)
{
    memset(a->power, 0, d * sizeof *a->power);
    for (size_t u = 0; u < a->n; u++)
        a->group[u] = SIZE_MAX;
    for (size_t g = 0; g < d; g++)
        a->last_node[g] = SIZE_MAX;
    for (size_t dealt = 0; dealt < a->n; dealt++) {
        size_t to = 0;
        for (size_t g = 1; g < d; g++)
            if (a->power[g] < a->power[to])
                to = g;
        size_t u = next_unit(a, near ? a->last_node[to] : SIZE_MAX);
        a->group[u] = to;
        a->power[to] += unit_speed(a, u);
        a->last_node[to] = a->search->problem->classes[a->row->classes[u]].node;
    }
}

/* Swaps u and v if this makes the slower of their groups faster. */
static bool swap_if_better(struct autohet *a, size_t u, size_t v)
{
    size_t p = a->group[u], q = a->group[v];
    double change = unit_speed(a, u) - unit_speed(a, v);
    if (p == q || change <= 0 || a->power[p] <= a->power[q] ||
        a->power[p] - change <= a->power[q] * (1 + 1e-12))
        return false;
    a->group[u] = q;
    a->group[v] = p;
    a->power[p] -= change;
    a->power[q] += change;
    return true;
}

static void balance_groups(struct autohet *a)
{
    for (bool better = true; better;) {
        better = false;
        for (size_t u = 0; u < a->n; u++)
            for (size_t v = 0; v < a->n; v++)
                better |= swap_if_better(a, u, v);
    }
}

/* True if every group has memory for the model's states. */
static bool can_hold(const struct autohet *a, size_t d)
{
    for (size_t g = 0; g < d; g++) {
        size_t n = 0;
        for (size_t u = 0; u < a->n; u++)
            if (a->group[u] == g)
                a->members[n++] = a->row->classes[u];
        if (!ah_cluster_policies_can_hold(a->search->problem, a->members, n, 1))
            return false;
    }
    return true;
}

/* ---- 2: mapping and balancing ---- */

/* Makes all orders of the types. An order is a rank for each type; a group's units are sorted by it. */
static void make_orders(struct autohet *a)
{
    size_t types = a->n_types, of[MOST_PERMUTED] = {0};
    a->n_orders = 0;
    for (size_t code = 0; code < 256 && types <= MOST_PERMUTED; code++) {
        unsigned seen = 0;
        for (size_t k = 0; k < types; k++)
            seen |= 1U << (of[k] = code >> (2 * k) & 3);
        if (seen == (1U << types) - 1 && !(code >> (2 * types)))
            memcpy(a->orders[a->n_orders++], of, sizeof of);
    }
}

/* True if unit u goes before v in a pipeline. `order`: n_orders puts more memory first, n_orders + 1 faster units. */
static bool before(const struct autohet *a, size_t order, size_t u, size_t v)
{
    const struct ah_cluster_problem *problem = a->search->problem;
    size_t x = a->row->classes[u], y = a->row->classes[v];
    const struct ah_problem_kind *p = ah_problem_kind_of(problem, x), *q = ah_problem_kind_of(problem, y);
    if (order < a->n_orders)
        return a->orders[order][a->type[problem->classes[x].kind]] <
               a->orders[order][a->type[problem->classes[y].kind]];
    if (order == a->n_orders)
        return p->capacity_bytes * p->tp > q->capacity_bytes * q->tp;
    return unit_speed(a, u) > unit_speed(a, v);
}

static void map(struct autohet *a, size_t d, size_t order)
{
    struct ah_draft *trial = &a->search->trial;
    ah_draft_begin(trial);
    for (size_t g = 0; g < d; g++) {
        size_t first = trial->n_stages;
        ah_draft_open(trial);
        for (size_t u = 0; u < a->n; u++) {
            if (a->group[u] != g)
                continue;
            size_t at = trial->n_stages;
            ah_draft_add(trial, a->row->classes[u]);
            a->order[at] = u;
            for (; at > first && before(a, order, u, a->order[at - 1]); at--) {
                a->order[at] = a->order[at - 1];
                a->order[at - 1] = u;
            }
        }
        for (size_t at = first; at < trial->n_stages; at++)
            trial->stages[at].class = a->row->classes[a->order[at]];
    }
}

static bool same_links(const struct ah_cluster_problem *problem, const struct ah_pipeline *p,
                       const struct ah_pipeline *q)
{
    if (p->n_stages != q->n_stages)
        return false;
    for (size_t i = 0; i < p->n_stages; i++) {
        size_t a = p->stages[i].class, b = q->stages[i].class;
        if (problem->classes[a].kind != problem->classes[b].kind ||
            (i && ah_problem_send_us(problem, p->stages[i - 1].class, a) !=
                      ah_problem_send_us(problem, q->stages[i - 1].class, b)))
            return false;
    }
    return true;
}

/* Splits each pipeline exactly, or copies the split of an earlier pipeline with equal kinds and links. */
static bool split_pipelines(struct autohet *a)
{
    struct ah_arrangement *arrangement = &a->search->trial.arrangement;
    uint64_t total = a->search->problem->micro_batches, n = arrangement->n_pipelines;
    for (size_t p = 0; p < n; p++) {
        struct ah_pipeline *pipeline = &arrangement->pipelines[p];
        size_t q = 0;
        pipeline->micro_batches = (total + n - 1) / n;
        while (q < p && !same_links(a->search->problem, &arrangement->pipelines[q], pipeline))
            q++;
        if (q == p && !ah_split_best(&a->search->fits, pipeline))
            return false;
        for (size_t i = 0; q < p && i < pipeline->n_stages; i++) {
            pipeline->stages[i].first = arrangement->pipelines[q].stages[i].first;
            pipeline->stages[i].end = arrangement->pipelines[q].stages[i].end;
        }
    }
    return ah_draft_share(&a->search->trial, &a->search->fits);
}

/* Returns the time expected by AutoHet's planner: the slowest group's, by the formula. */
static double estimate_us(const struct autohet *a)
{
    const struct ah_arrangement *arrangement = &a->search->trial.arrangement;
    double us = 0;
    for (size_t p = 0; p < arrangement->n_pipelines; p++)
        us = fmax(us, ah_split_formula_us(a->search->problem, &arrangement->pipelines[p]));
    return us;
}

/* Simulates the orders with the best estimates, a few of them. */
static int try_orders(struct autohet *a, size_t d, struct ah_error *err)
{
    double expected_us[ORDERS_MOST + 2];
    int rc = AH_OK;
    for (size_t order = 0; order < a->n_orders + 2; order++) {
        expected_us[order] = INFINITY;
        if (order < a->n_orders && a->n > MANY_UNITS)
            continue;
        map(a, d, order);
        expected_us[order] = split_pipelines(a) ? estimate_us(a) : (double)INFINITY;
    }
    for (size_t i = 0; i < (a->n > MANY_UNITS ? SIMULATED_OF_MANY : SIMULATED) && !rc; i++) {
        size_t best = 0;
        for (size_t order = 1; order < a->n_orders + 2; order++)
            if (expected_us[order] < expected_us[best])
                best = order;
        if (isinf(expected_us[best]))
            break;
        expected_us[best] = INFINITY;
        map(a, d, best);
        if (split_pipelines(a))
            rc = ah_cluster_policies_try(a->search, err);
    }
    return rc;
}

/* True if d groups could be the fastest. Assumes equal stages, and all units busy with micro-batches and bubble. */
static bool worth(const struct autohet *a, size_t d)
{
    double power = 0, m = (double)a->search->problem->micro_batches;
    for (size_t u = 0; u < a->n; u++)
        power += unit_speed(a, u);
    return (m + (double)a->n - (double)d) / power < a->search->best_us;
}

static int visit_grid(void *context, const struct ah_grid *grid, struct ah_error *err)
{
    struct autohet *a = context;
    int rc = AH_OK;
    a->row = grid;
    a->n = grid->stages;
    for (size_t d = 1; d <= a->n && d <= a->search->problem->micro_batches && !rc;
         d += a->n > MANY_UNITS ? 1 + d / 8 : 1)
        for (int near = 0; near < 2 && !rc && worth(a, d); near++) {
            deal_units(a, d, near);
            balance_groups(a);
            if (can_hold(a, d))
                rc = try_orders(a, d, err);
        }
    return rc;
}

int ah_policy_autohet(struct ah_policy_search *search, struct ah_error *err)
{
    size_t n = search->trial.room, kinds = search->problem->n_kinds;
    size_t *numbers = calloc(4 * n + kinds, sizeof *numbers);
    double *speeds = calloc(n + kinds, sizeof *speeds);
    struct autohet a = {.search = search};
    const struct ah_grids_visitor visitor = {
        .context = &a, .together = true, .uncut = true, .visit = visit_grid};
    int rc = numbers && speeds ? AH_OK : ah_error_memory(err);
    if (!rc) {
        a.group = numbers;
        a.order = numbers + n;
        a.last_node = numbers + 2 * n;
        a.members = numbers + 3 * n;
        a.type = numbers + 4 * n;
        a.power = speeds;
        a.speed = speeds + n;
        profile(&a);
        make_orders(&a);
        rc = ah_grids_visit(search->problem, 1, &visitor, err);
    }
    free(numbers);
    free(speeds);
    return rc;
}
