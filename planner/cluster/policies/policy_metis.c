/* SPDX-License-Identifier: Apache-2.0
 *
 * A k-way cut (docs/policies/metis.md). Vertices are units, weighted by their rated speed; edges are weighted by
 * bandwidth. Each part is a pipeline with its stages in the order of the nodes. Layers and micro-batches are dealt as
 * evenly as possible.
 */
#include "planner/cluster/policies/cluster_policies_internal.h"
#include "planner/cluster/policies/cuts.h"
#include "planner/cluster/policies/grids.h"

#include <stdlib.h>

enum { MANY_UNITS = 64 }; /* with more units, the number of parts grows in steps */

struct metis {
    struct ah_policy_search *search;
    double *weights, *edges; /* (units), (units, units) */
    size_t *part;            /* (units) */
    double *shares;          /* (pipelines): all 1 */
};

static void fill_graph(const struct metis *m, const struct ah_grid *grid, size_t n)
{
    const struct ah_cluster_problem *problem = m->search->problem;
    for (size_t u = 0; u < n; u++) {
        m->weights[u] = ah_cluster_policies_flops(m->search, grid->classes[u]);
        m->shares[u] = 1;
        for (size_t v = 0; v < n; v++)
            m->edges[u * n + v] =
                problem->links[grid->classes[u] * problem->n_classes + grid->classes[v]].bytes_per_s +
                problem->links[grid->classes[v] * problem->n_classes + grid->classes[u]].bytes_per_s;
    }
}

/* Splits layers evenly; if needed, the first stages get one more. Embedding and head join the outer stages. */
static bool split_evenly(const struct ah_cluster_problem *problem, struct ah_pipeline *pipeline)
{
    size_t layers = problem->n_blocks - 2, n = pipeline->n_stages, next = 0;
    for (size_t i = 0; i < n; i++) {
        struct ah_stage *stage = &pipeline->stages[i];
        stage->first = next;
        next += layers / n + (i < layers % n) + (i == 0) + (i + 1 == n);
        stage->end = next;
        if (stage->first == stage->end)
            return false;
    }
    return true;
}

static int visit_grid(void *context, const struct ah_grid *grid, struct ah_error *err)
{
    const struct metis *m = context;
    struct ah_draft *trial = &m->search->trial;
    size_t n = grid->pipelines * grid->stages;
    fill_graph(m, grid, n);
    for (size_t d = 1; d <= n && d <= m->search->problem->micro_batches;
         d += n > MANY_UNITS ? 1 + d / 8 : 1) {
        if (!ah_cluster_policies_can_hold(m->search->problem, grid->classes, n, d))
            break;
        const struct ah_cut_graph graph = {n, m->weights, m->edges};
        bool fits = true;
        int rc = ah_cuts_find(&graph, d, m->part, err);
        if (rc)
            return rc;
        ah_draft_begin(trial);
        for (size_t p = 0; p < d; p++) {
            ah_draft_open(trial);
            for (size_t u = 0; u < n; u++)
                if (m->part[u] == p)
                    ah_draft_add(trial, grid->classes[u]);
            fits = fits && split_evenly(m->search->problem, &trial->arrangement.pipelines[p]);
        }
        if (fits && ah_cluster_policies_share(m->search, m->shares))
            rc = ah_cluster_policies_try(m->search, err);
        if (rc)
            return rc;
    }
    return AH_OK;
}

int ah_policy_metis(struct ah_policy_search *search, struct ah_error *err)
{
    size_t n = search->trial.room;
    double *numbers = calloc(n * (n + 2), sizeof *numbers);
    struct metis m = {.search = search, .part = calloc(n, sizeof *m.part)};
    const struct ah_grids_visitor visitor = {
        .context = &m, .together = true, .uncut = true, .visit = visit_grid};
    int rc = numbers && m.part ? AH_OK : ah_error_memory(err);
    if (!rc) {
        m.weights = numbers;
        m.shares = numbers + n;
        m.edges = numbers + 2 * n;
        rc = ah_grids_visit(search->problem, 1, &visitor, err);
    }
    free(numbers);
    free(m.part);
    return rc;
}
