/* SPDX-License-Identifier: Apache-2.0
 *
 * Heavy-edge matching (Karypis and Kumar, SIAM J. Sci. Comput. 20(1), 1998), by the mean edge between two vertices' members,
 * since in complete graphs the sum says who is large, not who is near. Vertices in their order; ties: the lower one.
 */
#include "planner/cluster/cuts_internal.h"

#include <stdint.h>
#include <stdlib.h>

/* The partner of `v` among those without one; v: none. */
static size_t partner(const struct ah_cut_level *fine, size_t v, double cap)
{
    const struct ah_cut_graph *graph = &fine->graph;
    size_t best = v;
    double heaviest = -1;
    for (size_t u = v + 1; u < graph->n; u++) {
        if (fine->coarser[u] != SIZE_MAX || graph->weights[v] + graph->weights[u] > cap)
            continue;
        double edge = graph->edges[v * graph->n + u] / fine->members[u];
        if (edge > heaviest) {
            heaviest = edge;
            best = u;
        }
    }
    return best;
}

static size_t match(struct ah_cut_level *fine, double cap)
{
    size_t n = 0;
    for (size_t v = 0; v < fine->graph.n; v++)
        fine->coarser[v] = SIZE_MAX;
    for (size_t v = 0; v < fine->graph.n; v++)
        if (fine->coarser[v] == SIZE_MAX) {
            size_t u = partner(fine, v, cap);
            fine->coarser[v] = fine->coarser[u] = n++;
        }
    return n;
}

int ah_coarsen_level(struct ah_cut_level *fine, double cap, struct ah_cut_level *ret_coarse,
                     struct ah_error *err)
{
    struct ah_cut_level coarse = {0};
    fine->coarser = calloc(fine->graph.n, sizeof *fine->coarser);
    if (!fine->coarser)
        return ah_error_memory(err);
    size_t n = match(fine, cap);
    coarse.numbers = calloc(n * (n + 3), sizeof *coarse.numbers);
    if (!coarse.numbers)
        return ah_error_memory(err);
    double *edges = coarse.numbers, *weights = edges + n * n, *members = weights + n, *memory = members + n;
    for (size_t v = 0; v < fine->graph.n; v++) {
        size_t to = fine->coarser[v];
        weights[to] += fine->graph.weights[v];
        members[to] += fine->members[v];
        memory[to] += fine->memory ? fine->memory[v] : 0;
        for (size_t u = 0; u < fine->graph.n; u++)
            edges[to * n + fine->coarser[u]] += fine->graph.edges[v * fine->graph.n + u];
    }
    coarse.graph = (struct ah_cut_graph){n, weights, edges};
    coarse.memory = fine->memory ? memory : NULL;
    coarse.members = members;
    *ret_coarse = coarse;
    return AH_OK;
}
