/* SPDX-License-Identifier: Apache-2.0
 *
 * Vertex v of part p has edges of weight conn(v, q) to part q. Moving v to q changes the cut by conn(v, p) - conn(v,
 * q). Swapping v with a vertex u of q changes it by the sum of both moves plus 2 e(u, v). There are two initial
 * partitions: rows of neighbours, and the heaviest vertices first, each to the lightest part.
 */
#include "planner/cluster/policies/cuts.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BALANCE 1.03
enum { PASSES = 20 };

/* A partition. */
struct cutting {
    const struct ah_cut_graph *graph;
    size_t k;
    double limit; /* largest allowed weight of a part */
    size_t *part; /* owned: (n) */
    /* Owned; count_parts() computes these from `part`. */
    size_t *count;  /* (k) */
    double *weight; /* (k) */
    double *conn;   /* (n, k): total weight of the edges from a vertex to a part */
};

static int reserve(struct cutting *ret_cutting, const struct ah_cut_graph *graph, size_t k,
                   struct ah_error *err)
{
    struct cutting c = {.graph = graph, .k = k};
    c.part = calloc(graph->n, sizeof *c.part);
    c.count = calloc(k, sizeof *c.count);
    c.weight = calloc(k, sizeof *c.weight);
    c.conn = calloc(graph->n * k, sizeof *c.conn);
    *ret_cutting = c;
    return c.part && c.count && c.weight && c.conn ? AH_OK : ah_error_memory(err);
}

static void release_cutting(struct cutting *c)
{
    free(c->part);
    free(c->count);
    free(c->weight);
    free(c->conn);
}

/* ---- sums ---- */

static double mean_weight(const struct cutting *c)
{
    double mean = 0;
    for (size_t v = 0; v < c->graph->n; v++)
        mean += c->graph->weights[v] / (double)c->k;
    return mean;
}

static double heaviest_part(const struct cutting *c)
{
    double most = 0;
    for (size_t q = 0; q < c->k; q++)
        most = fmax(most, c->weight[q]);
    return most;
}

static double edge(const struct cutting *c, size_t u, size_t v)
{
    return c->graph->edges[u * c->graph->n + v];
}

static void count_parts(struct cutting *c)
{
    const size_t n = c->graph->n;
    memset(c->count, 0, c->k * sizeof *c->count);
    memset(c->weight, 0, c->k * sizeof *c->weight);
    memset(c->conn, 0, n * c->k * sizeof *c->conn);
    for (size_t v = 0; v < n; v++) {
        c->count[c->part[v]]++;
        c->weight[c->part[v]] += c->graph->weights[v];
        for (size_t u = 0; u < n; u++)
            if (u != v)
                c->conn[u * c->k + c->part[v]] += edge(c, u, v);
    }
}

static double cut_of(const struct cutting *c)
{
    double cut = 0;
    for (size_t v = 0; v < c->graph->n; v++)
        for (size_t q = 0; q < c->k; q++)
            cut += q == c->part[v] ? 0 : c->conn[v * c->k + q];
    return cut / 2;
}

/* ---- moves ---- */

/* Returns by how much the weight of the cut falls if `v` moves to part `to`. */
static double gain(const struct cutting *c, size_t v, size_t to)
{
    return c->conn[v * c->k + to] - c->conn[v * c->k + c->part[v]];
}

static void move_vertex(struct cutting *c, size_t v, size_t to)
{
    size_t from = c->part[v];
    for (size_t u = 0; u < c->graph->n; u++) {
        if (u == v)
            continue;
        c->conn[u * c->k + from] -= edge(c, u, v);
        c->conn[u * c->k + to] += edge(c, u, v);
    }
    c->weight[from] -= c->graph->weights[v];
    c->weight[to] += c->graph->weights[v];
    c->count[from]--;
    c->count[to]++;
    c->part[v] = to;
}

/* True if weight `more_in_q` may move from p to q: the heavier part stays within the limit or gets no heavier. */
static bool balanced(const struct cutting *c, size_t p, size_t q, double more_in_q)
{
    double before = fmax(c->weight[p], c->weight[q]);
    double after = fmax(c->weight[p] - more_in_q, c->weight[q] + more_in_q);
    return after <= c->limit || after <= before;
}

static bool move_vertices(struct cutting *c)
{
    bool moved = false;
    for (size_t v = 0; v < c->graph->n; v++)
        for (size_t q = 0; q < c->k; q++) {
            size_t p = c->part[v];
            if (p == q || c->count[p] == 1 || gain(c, v, q) <= 1e-9 * fabs(c->conn[v * c->k + p]) ||
                !balanced(c, p, q, c->graph->weights[v]))
                continue;
            move_vertex(c, v, q);
            moved = true;
        }
    return moved;
}

static bool exchange_vertices(struct cutting *c)
{
    bool moved = false;
    for (size_t v = 0; v < c->graph->n; v++)
        for (size_t u = v + 1; u < c->graph->n; u++) {
            size_t p = c->part[v], q = c->part[u];
            if (p == q)
                continue;
            double better = gain(c, v, q) + gain(c, u, p) - 2 * edge(c, u, v);
            if (better <= 1e-9 * (c->conn[v * c->k + p] + c->conn[u * c->k + q]) ||
                !balanced(c, p, q, c->graph->weights[v] - c->graph->weights[u]))
                continue;
            move_vertex(c, v, q);
            move_vertex(c, u, p);
            moved = true;
        }
    return moved;
}

/* ---- first partitions ---- */

/* Assigns vertices in order. A part ends at its share of the weight, or earlier to leave each later part a vertex. */
static void deal_rows(struct cutting *c)
{
    size_t n = c->graph->n, q = 0, in_part = 0;
    double all = 0, before = 0;
    for (size_t v = 0; v < n; v++)
        all += c->graph->weights[v];
    for (size_t v = 0; v < n; v++) {
        double middle = before + c->graph->weights[v] / 2;
        bool full = in_part && middle > all * (double)(q + 1) / (double)c->k;
        if (q + 1 < c->k && (full || n - v < c->k - q)) {
            q++;
            in_part = 0;
        }
        while (q + 1 < c->k && !in_part && n - v < c->k - q)
            q++;
        c->part[v] = q;
        in_part++;
        before += c->graph->weights[v];
    }
}

/* Assigns each vertex, the heaviest first, to the lightest part. Also sets `weight`. */
static void deal_by_weight(struct cutting *c)
{
    size_t n = c->graph->n;
    memset(c->weight, 0, c->k * sizeof *c->weight);
    for (size_t v = 0; v < n; v++)
        c->part[v] = SIZE_MAX;
    for (size_t done = 0; done < n; done++) {
        size_t v = SIZE_MAX, to = 0;
        for (size_t u = 0; u < n; u++)
            if (c->part[u] == SIZE_MAX && (v == SIZE_MAX || c->graph->weights[u] > c->graph->weights[v]))
                v = u;
        for (size_t q = 1; q < c->k; q++)
            if (c->weight[q] < c->weight[to])
                to = q;
        c->part[v] = to;
        c->weight[to] += c->graph->weights[v];
    }
}

static void refine_parts(struct cutting *c)
{
    count_parts(c);
    for (int pass = 0; pass < PASSES; pass++) {
        bool moved = move_vertices(c);
        if (!exchange_vertices(c) && !moved)
            break;
    }
}

/* True if the partition is better than the best: first by balance, then by its cut. */
static bool better(const struct cutting *c, double cut, double best_heaviest, double best_cut)
{
    bool within = heaviest_part(c) <= c->limit, best_within = best_heaviest <= c->limit;
    if (within != best_within)
        return within;
    return within ? cut < best_cut : heaviest_part(c) < best_heaviest;
}

static void find_best_cut(struct cutting *c, size_t *ret_part)
{
    void (*const starts[])(struct cutting *) = {deal_by_weight, deal_rows};
    double best_cut = INFINITY, best_heaviest = INFINITY;
    deal_by_weight(c);
    count_parts(c);
    c->limit = fmax(c->limit, heaviest_part(c));
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        starts[i](c);
        refine_parts(c);
        double cut = cut_of(c);
        if (i && !better(c, cut, best_heaviest, best_cut))
            continue;
        best_cut = cut;
        best_heaviest = heaviest_part(c);
        memcpy(ret_part, c->part, c->graph->n * sizeof *ret_part);
    }
}

int ah_cuts_find(const struct ah_cut_graph *graph, size_t k, size_t *ret_part, struct ah_error *err)
{
    struct cutting c;
    int rc = reserve(&c, graph, k, err);
    if (!rc) {
        c.limit = BALANCE * mean_weight(&c);
        find_best_cut(&c, ret_part);
    }
    release_cutting(&c);
    return rc;
}
