/* SPDX-License-Identifier: Apache-2.0
 *
 * Refinement after Fiduccia and Mattheyses (DAC 1982), of k parts. In a pass each vertex moves at most once, the one with the
 * largest gain first, even where that is a loss; then all moves behind the best partition are taken back (1).
 *
 *   gain     of moving v from part p to q: conn(v, q) - conn(v, p)                                               (2)
 *   excess   of a part: what it weighs above the limit, and what its memory is short of, as shares of these
 *   slack    a move may take a part above the limit by the heaviest vertex; the next moves are then those that lessen
 *            the excess most, of these the one with the largest gain: so vertices change places                    (3)
 */
#include "planner/cluster/cuts_internal.h"

#include <math.h>
#include <string.h>

enum { PASSES = 12, PATIENCE = 32 /* moves without a better partition */ };

static const double tiny = 1e-9; /* shares of excess that are roundings */

static double edge(const struct ah_cutting *c, size_t u, size_t v)
{
    return c->graph.edges[u * c->graph.n + v];
}

static double memory_of(const struct ah_cutting *c, size_t v)
{
    return c->memories ? c->memories[v] : 0;
}

/* Of a part with this weight and memory. */
static double excess_of(const struct ah_cutting *c, double weight, double memory)
{
    double over = weight / c->limit - 1, under = c->memories ? 1 - memory : 0;
    return (over > tiny ? over : 0) + (under > tiny ? under : 0);
}

static void weigh(struct ah_cutting *c, size_t q)
{
    c->excess[q] = excess_of(c, c->weight[q], c->memory[q]);
}

void ah_refine_count(struct ah_cutting *c)
{
    size_t n = c->graph.n;
    memset(c->count, 0, c->k * sizeof *c->count);
    memset(c->weight, 0, c->k * sizeof *c->weight);
    memset(c->memory, 0, c->k * sizeof *c->memory);
    memset(c->conn, 0, n * c->k * sizeof *c->conn);
    for (size_t v = 0; v < n; v++) {
        c->count[c->part[v]]++;
        c->weight[c->part[v]] += c->graph.weights[v];
        c->memory[c->part[v]] += memory_of(c, v);
        for (size_t u = 0; u < n; u++)
            if (u != v)
                c->conn[u * c->k + c->part[v]] += edge(c, u, v);
    }
    for (size_t q = 0; q < c->k; q++)
        weigh(c, q);
}

double ah_refine_cut(const struct ah_cutting *c)
{
    double cut = 0;
    for (size_t v = 0; v < c->graph.n; v++)
        for (size_t q = 0; q < c->k; q++)
            cut += q == c->part[v] ? 0 : c->conn[v * c->k + q];
    return cut / 2;
}

double ah_refine_excess(const struct ah_cutting *c)
{
    double excess = 0;
    for (size_t q = 0; q < c->k; q++)
        excess += c->excess[q];
    return excess;
}

double ah_refine_gain(const struct ah_cutting *c, size_t v, size_t to)
{
    return c->conn[v * c->k + to] - c->conn[v * c->k + c->part[v]]; /* (2) */
}

void ah_refine_move(struct ah_cutting *c, size_t v, size_t to)
{
    size_t from = c->part[v];
    for (size_t u = 0; u < c->graph.n; u++) {
        if (u == v)
            continue;
        c->conn[u * c->k + from] -= edge(c, u, v);
        c->conn[u * c->k + to] += edge(c, u, v);
    }
    c->weight[from] -= c->graph.weights[v];
    c->weight[to] += c->graph.weights[v];
    c->memory[from] -= memory_of(c, v);
    c->memory[to] += memory_of(c, v);
    c->count[from]--;
    c->count[to]++;
    c->part[v] = to;
    weigh(c, from);
    weigh(c, to);
}

bool ah_refine_is_better(double excess, double cut, double other_excess, double other_cut)
{
    if (fabs(excess - other_excess) > tiny)
        return excess < other_excess;
    return cut < other_cut * (1 - tiny);
}

/* By how much the excess grows with a move. */
static double change_of(const struct ah_cutting *c, size_t v, size_t to)
{
    size_t from = c->part[v];
    double weight = c->graph.weights[v], memory = memory_of(c, v);
    return excess_of(c, c->weight[from] - weight, c->memory[from] - memory) - c->excess[from] +
           excess_of(c, c->weight[to] + weight, c->memory[to] + memory) - c->excess[to];
}

/* The largest vertex: by how much parts may be out of their bounds (3). */
struct slack {
    double weight, memory;
};

static struct slack slack_of(const struct ah_cutting *c)
{
    struct slack slack = {0, 0};
    for (size_t v = 0; v < c->graph.n; v++) {
        slack.weight = fmax(slack.weight, c->graph.weights[v]);
        slack.memory = fmax(slack.memory, memory_of(c, v));
    }
    return slack;
}

static bool is_within(const struct ah_cutting *c, const struct slack *slack, size_t v, size_t to)
{
    size_t from = c->part[v];
    if (c->weight[to] + c->graph.weights[v] > c->limit * (1 + tiny) + slack->weight)
        return false;
    return !c->memories || c->memory[from] - memory_of(c, v) >= 1 - tiny - slack->memory;
}

/* The move to make next, if there is one: where parts are out of their bounds the one that lessens that most. */
static bool choose(const struct ah_cutting *c, const struct slack *slack, size_t *ret_vertex, size_t *ret_to)
{
    bool out = ah_refine_excess(c) > 0, found = false;
    double best_change = 0, best_gain = 0;
    for (size_t v = 0; v < c->graph.n; v++) {
        if (c->locked[v] || c->count[c->part[v]] == 1)
            continue;
        for (size_t q = 0; q < c->k; q++) {
            double gain = ah_refine_gain(c, v, q), change = 0;
            if (q == c->part[v] || (out && c->excess[q] <= 0 && c->excess[c->part[v]] <= 0))
                continue;
            if (!out && ((found && gain <= best_gain) || !is_within(c, slack, v, q)))
                continue;
            if (out && (change = change_of(c, v, q)) >= -tiny)
                continue;
            bool more = change < best_change - tiny, same = !more && change <= best_change + tiny;
            if (found && !more && !(same && gain > best_gain))
                continue;
            found = true;
            best_change = change;
            best_gain = gain;
            *ret_vertex = v;
            *ret_to = q;
        }
    }
    return found;
}

/* (1). Is the partition better than before? */
static bool pass(struct ah_cutting *c, const struct slack *slack)
{
    double excess = ah_refine_excess(c), cut = ah_refine_cut(c), now = cut;
    size_t n = 0, best = 0, v = 0, to = 0;
    memset(c->locked, 0, c->graph.n * sizeof *c->locked);
    while (n < c->graph.n && n < best + PATIENCE && choose(c, slack, &v, &to)) {
        now -= ah_refine_gain(c, v, to);
        c->locked[v] = true;
        c->moves[n++] = (struct ah_cut_move){v, c->part[v]};
        ah_refine_move(c, v, to);
        if (ah_refine_is_better(ah_refine_excess(c), now, excess, cut)) {
            excess = ah_refine_excess(c);
            cut = now;
            best = n;
        }
    }
    while (n-- > best)
        c->part[c->moves[n].vertex] = c->moves[n].from;
    ah_refine_count(c);
    return best > 0;
}

void ah_refine_run(struct ah_cutting *c)
{
    const struct slack slack = slack_of(c);
    ah_refine_count(c);
    for (int i = 0; i < PASSES && c->k > 1 && pass(c, &slack); i++)
        ;
}
