/* SPDX-License-Identifier: Apache-2.0
 *
 * Equal nodes form a set. A choice is a number of nodes for each set; an order is a sequence of sets.
 */
#include "planner/cluster/policies/grids.h"

#include <stdlib.h>
#include <string.h>

struct visiting {
    const struct ah_cluster_problem *problem;
    const struct ah_grids_visitor *visitor;
    uint64_t most_pipelines;
    bool coarse;
    size_t n_sets;
    size_t *set_of;  /* (classes) */
    size_t *size;    /* (sets): nodes in the set */
    size_t *chosen;  /* (sets): number of its nodes that work */
    size_t *left;    /* (sets): number of its chosen nodes not yet in the row */
    size_t *classes; /* (units): the row */
    size_t orders;   /* orders visited so far for one choice */
    struct ah_error *err;
};

static bool same_link(const struct ah_problem_link *a, const struct ah_problem_link *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* True if swapping the two nodes changes no plan's time. */
static bool alike(const struct ah_cluster_problem *problem, size_t a, size_t b)
{
    const struct ah_problem_class *p = &problem->classes[a], *q = &problem->classes[b];
    const struct ah_problem_link *links = problem->links;
    size_t n = problem->n_classes;
    if (p->kind != q->kind || p->units != q->units ||
        memcmp(&p->nic_bytes_per_s, &q->nic_bytes_per_s, sizeof(double)) != 0 ||
        !same_link(&links[a * n + a], &links[b * n + b]) || !same_link(&links[a * n + b], &links[b * n + a]))
        return false;
    for (size_t c = 0; c < n; c++)
        if (c != a && c != b &&
            (!same_link(&links[a * n + c], &links[b * n + c]) ||
             !same_link(&links[c * n + a], &links[c * n + b])))
            return false;
    return true;
}

static void make_sets(struct visiting *v)
{
    const struct ah_cluster_problem *problem = v->problem;
    v->n_sets = 0;
    for (size_t c = 0; c < problem->n_classes; c++) {
        size_t other = 0;
        while (other < c && !(v->coarse ? problem->classes[other].kind == problem->classes[c].kind
                                        : alike(problem, other, c)))
            other++;
        v->set_of[c] = other < c ? v->set_of[other] : v->n_sets++;
        if (other == c)
            v->size[v->set_of[c]] = 0;
        v->size[v->set_of[c]]++;
    }
}

/* Returns the number of orders of all choices, or a number above `most`. A choice of k(s) nodes of each set s has (sum
 * k)! / product k! orders; this is built up set by set, after `placed` nodes of earlier sets. */
static double count_orders(const struct visiting *v, size_t set, size_t placed, double most)
{
    double sum = 0, ways = 1;
    if (set == v->n_sets)
        return 1;
    for (size_t k = 0; k <= v->size[set] && sum <= most; k++) {
        if (k)
            ways *= (double)(placed + k) / (double)k;
        sum += ways * count_orders(v, set + 1, placed + k, most / ways);
    }
    return sum;
}

/* Returns the n-th class of a set. */
static size_t class_of(const struct visiting *v, size_t set, size_t n)
{
    size_t class = 0;
    while (v->set_of[class] != set || n-- > 0)
        class ++;
    return class;
}

/* Appends the units of nodes [from, to) of a set to a row of `units`. Returns the new length of the row. */
static size_t put_nodes(struct visiting *v, size_t set, size_t from, size_t to, size_t units)
{
    for (size_t n = from; n < to; n++) {
        size_t class = class_of(v, set, n);
        for (size_t u = 0; u < v->problem->classes[class].units; u++)
            v->classes[units++] = class;
    }
    return units;
}

static int visit_both(struct visiting *v, struct ah_grid grid)
{
    bool same = grid.pipelines == 1 || grid.stages == 1;
    int rc = AH_OK;
    for (int rows = same; rows < 2 && !rc; rows++) {
        grid.rows = rows;
        rc = v->visitor->visit(v->visitor->context, &grid, v->err);
    }
    v->orders++;
    return rc;
}

/* Visits every order of the chosen nodes that are not yet in the row. */
static int visit_orders(struct visiting *v, size_t units, const struct ah_grid *grid)
{
    bool any = false;
    size_t most = v->coarse ? AH_GRIDS_ORDERS_TOGETHER : AH_GRIDS_ORDERS;
    int rc = AH_OK;
    for (size_t s = 0; s < v->n_sets && !rc && v->orders < most; s++) {
        if (!v->left[s])
            continue;
        any = true;
        size_t more = v->coarse ? v->left[s] : 1, from = v->chosen[s] - v->left[s];
        size_t behind = put_nodes(v, s, from, from + more, units);
        v->left[s] -= more;
        rc = visit_orders(v, behind, grid);
        v->left[s] += more;
    }
    return any ? rc : visit_both(v, *grid);
}

static int visit_choice(struct visiting *v)
{
    size_t units = 0;
    int rc = AH_OK;
    for (size_t s = 0; s < v->n_sets; s++)
        units = put_nodes(v, s, 0, v->chosen[s], units);
    if (v->visitor->uncut)
        return units ? v->visitor->visit(v->visitor->context, &(struct ah_grid){v->classes, 1, units, true},
                                         v->err)
                     : AH_OK;
    for (size_t d = 1; d <= units && d <= v->most_pipelines && !rc; d++) {
        struct ah_grid grid = {v->classes, d, units / d, true};
        if (units % d || grid.stages > v->problem->n_blocks)
            continue;
        if (v->visitor->worth && !v->visitor->worth(v->visitor->context, &grid))
            continue;
        v->orders = 0;
        memcpy(v->left, v->chosen, v->n_sets * sizeof *v->left);
        rc = visit_orders(v, 0, &grid);
    }
    return rc;
}

/* Visits all choices from this set on, larger numbers first: good results found early make later visits unnecessary. */
static int choose_nodes(struct visiting *v, size_t set)
{
    int rc = AH_OK;
    if (set == v->n_sets)
        return visit_choice(v);
    for (size_t k = v->size[set] + 1; k-- > 0 && !rc;) {
        if (v->coarse && k && k < v->size[set])
            continue;
        v->chosen[set] = k;
        rc = choose_nodes(v, set + 1);
    }
    return rc;
}

int ah_grids_visit(const struct ah_cluster_problem *problem, uint64_t most_pipelines,
                   const struct ah_grids_visitor *visitor, struct ah_error *err)
{
    size_t n = problem->n_classes;
    struct visiting v = {
        .problem = problem, .visitor = visitor, .most_pipelines = most_pipelines, .err = err};
    size_t *numbers = calloc(4 * n + ah_problem_units(problem) + 1, sizeof *numbers);
    if (!numbers)
        return ah_error_memory(err);
    v.set_of = numbers;
    v.size = v.set_of + n;
    v.chosen = v.size + n;
    v.left = v.chosen + n;
    v.classes = v.left + n;
    make_sets(&v);
    v.coarse = visitor->together || count_orders(&v, 0, 0, AH_GRIDS_ORDERS) > AH_GRIDS_ORDERS;
    if (v.coarse)
        make_sets(&v);
    int rc = choose_nodes(&v, 0);
    free(numbers);
    return rc;
}

void ah_grid_draft(const struct ah_grid *grid, struct ah_draft *draft)
{
    ah_draft_begin(draft);
    for (size_t p = 0; p < grid->pipelines; p++) {
        ah_draft_open(draft);
        for (size_t i = 0; i < grid->stages; i++)
            ah_draft_add(draft, ah_grid_class(grid, p, i));
    }
}
