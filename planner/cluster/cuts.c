/* SPDX-License-Identifier: Apache-2.0
 *
 * Of a vertex v in part p with edges conn(v, q) to each part q, a move to q changes the cut by conn(v, p) - conn(v, q);
 * an exchange with u in q by that, the same of u, and 2 e(u, v). First partitions: rows of neighbours, and each vertex,
 * the heaviest first, to the lightest part.
 */
#include "planner/cluster/cuts_internal.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BALANCE 1.03
enum { PASSES = 20 };

int ah_cuts_reserve(struct ah_cutting *ret_cutting, const struct ah_cut_graph *graph, size_t k,
                    struct ah_error *err)
{
    const size_t n = graph->n;
    struct ah_cutting c = {.graph = *graph, .k = k};
    c.part = calloc(n, sizeof *c.part);
    c.best = calloc(n, sizeof *c.best);
    c.count = calloc(k, sizeof *c.count);
    c.weight = calloc(k, sizeof *c.weight);
    c.memory = calloc(k, sizeof *c.memory);
    c.excess = calloc(k, sizeof *c.excess);
    c.conn = calloc(n * k, sizeof *c.conn);
    c.pull = calloc(n, sizeof *c.pull);
    c.locked = calloc(n, sizeof *c.locked);
    c.moves = calloc(n, sizeof *c.moves);
    *ret_cutting = c;
    return c.part && c.best && c.count && c.weight && c.memory && c.excess && c.conn && c.pull && c.locked &&
                   c.moves
               ? AH_OK
               : ah_error_memory(err);
}

void ah_cuts_release(struct ah_cutting *c)
{
    free(c->part);
    free(c->best);
    free(c->count);
    free(c->weight);
    free(c->memory);
    free(c->excess);
    free(c->conn);
    free(c->pull);
    free(c->locked);
    free(c->moves);
}

double ah_cuts_mean(const struct ah_cutting *c)
{
    double mean = 0;
    for (size_t v = 0; v < c->graph.n; v++)
        mean += c->graph.weights[v] / (double)c->k;
    return mean;
}

double ah_cuts_heaviest(const struct ah_cutting *c)
{
    double most = 0;
    for (size_t q = 0; q < c->k; q++)
        most = fmax(most, c->weight[q]);
    return most;
}

/* Are two parts of these weights within the limit, or at least nearer to each other than they were? */
static bool balanced(const struct ah_cutting *c, size_t p, size_t q, double more_in_q)
{
    double before = fmax(c->weight[p], c->weight[q]);
    double after = fmax(c->weight[p] - more_in_q, c->weight[q] + more_in_q);
    return after <= c->limit || after <= before;
}

static bool move_vertices(struct ah_cutting *c)
{
    bool moved = false;
    for (size_t v = 0; v < c->graph.n; v++)
        for (size_t q = 0; q < c->k; q++) {
            size_t p = c->part[v];
            if (p == q || c->count[p] == 1 || ah_refine_gain(c, v, q) <= 1e-9 * fabs(c->conn[v * c->k + p]) ||
                !balanced(c, p, q, c->graph.weights[v]))
                continue;
            ah_refine_move(c, v, q);
            moved = true;
        }
    return moved;
}

static bool exchange_vertices(struct ah_cutting *c)
{
    bool moved = false;
    for (size_t v = 0; v < c->graph.n; v++)
        for (size_t u = v + 1; u < c->graph.n; u++) {
            size_t p = c->part[v], q = c->part[u];
            if (p == q)
                continue;
            double better =
                ah_refine_gain(c, v, q) + ah_refine_gain(c, u, p) - 2 * c->graph.edges[u * c->graph.n + v];
            if (better <= 1e-9 * (c->conn[v * c->k + p] + c->conn[u * c->k + q]) ||
                !balanced(c, p, q, c->graph.weights[v] - c->graph.weights[u]))
                continue;
            ah_refine_move(c, v, q);
            ah_refine_move(c, u, p);
            moved = true;
        }
    return moved;
}

void ah_cuts_deal_rows(struct ah_cutting *c)
{
    size_t n = c->graph.n, q = 0, in_part = 0;
    double all = 0, before = 0;
    for (size_t v = 0; v < n; v++)
        all += c->graph.weights[v];
    for (size_t v = 0; v < n; v++) {
        double middle = before + c->graph.weights[v] / 2;
        bool full = in_part && middle > all * (double)(q + 1) / (double)c->k;
        if (q + 1 < c->k && (full || n - v < c->k - q)) {
            q++;
            in_part = 0;
        }
        while (q + 1 < c->k && !in_part && n - v < c->k - q)
            q++;
        c->part[v] = q;
        in_part++;
        before += c->graph.weights[v];
    }
}

void ah_cuts_deal_by_weight(struct ah_cutting *c)
{
    size_t n = c->graph.n;
    memset(c->weight, 0, c->k * sizeof *c->weight);
    for (size_t v = 0; v < n; v++)
        c->part[v] = SIZE_MAX;
    for (size_t done = 0; done < n; done++) {
        size_t v = SIZE_MAX, to = 0;
        for (size_t u = 0; u < n; u++)
            if (c->part[u] == SIZE_MAX && (v == SIZE_MAX || c->graph.weights[u] > c->graph.weights[v]))
                v = u;
        for (size_t q = 1; q < c->k; q++)
            if (c->weight[q] < c->weight[to])
                to = q;
        c->part[v] = to;
        c->weight[to] += c->graph.weights[v];
    }
}

static void refine(struct ah_cutting *c)
{
    ah_refine_count(c);
    for (int pass = 0; pass < PASSES; pass++) {
        bool moved = move_vertices(c);
        if (!exchange_vertices(c) && !moved)
            break;
    }
}

/* Balance first, then the smaller cut. */
static bool better(const struct ah_cutting *c, double cut, double best_heaviest, double best_cut)
{
    bool within = ah_cuts_heaviest(c) <= c->limit, best_within = best_heaviest <= c->limit;
    if (within != best_within)
        return within;
    return within ? cut < best_cut : ah_cuts_heaviest(c) < best_heaviest;
}

static void find(struct ah_cutting *c, size_t *ret_part)
{
    void (*const starts[])(struct ah_cutting *) = {ah_cuts_deal_by_weight, ah_cuts_deal_rows};
    double best_cut = INFINITY, best_heaviest = INFINITY;
    ah_cuts_deal_by_weight(c);
    ah_refine_count(c);
    c->limit = fmax(c->limit, ah_cuts_heaviest(c));
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        starts[i](c);
        refine(c);
        double cut = ah_refine_cut(c);
        if (i && !better(c, cut, best_heaviest, best_cut))
            continue;
        best_cut = cut;
        best_heaviest = ah_cuts_heaviest(c);
        memcpy(ret_part, c->part, c->graph.n * sizeof *ret_part);
    }
}

int ah_cuts_find(const struct ah_cut_graph *graph, size_t k, size_t *ret_part, struct ah_error *err)
{
    struct ah_cutting c;
    int rc = ah_cuts_reserve(&c, graph, k, err);
    if (!rc) {
        c.limit = BALANCE * ah_cuts_mean(&c);
        find(&c, ret_part);
    }
    ah_cuts_release(&c);
    return rc;
}
