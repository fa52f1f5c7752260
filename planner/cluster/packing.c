/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/cluster/packing.h"

#include "planner/cluster/grouping.h"
#include "planner/solver.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PIPELINES_MOST = 16, NODES = 200 };

#define STEPS UINT64_C(300000)

static const double shorter[] = {0.94, 0.97, 1}; /* T, of the step asked for */
static const double enough = 0.9;                /* micro-batches of a pack, of all */
static const double gap = 0.001;

struct packing {
    const struct ah_grouping *grouping;
    size_t n, n_rows; /* pipelines that were found; of (1) */
    double *numbers;  /* owned: where the arrays below live */
    double *objective, *upper, *values;
    double *rows; /* (n_rows, n) */
    bool *integer;
    uint8_t units[PIPELINES_MOST][AH_COMPOSITIONS_KINDS]; /* the pack */
    size_t n_pipelines;
};

static void release(struct packing *p)
{
    free(p->numbers);
    free(p->integer);
}

/* (1), but for D. */
static int fill(struct packing *p, const struct ah_grouping *grouping, struct ah_error *err)
{
    const size_t n = grouping->n_found, kinds = grouping->instance->n_kinds;
    *p = (struct packing){.grouping = grouping, .n = n, .n_rows = kinds + 1};
    p->numbers = calloc(n * (p->n_rows + 3), sizeof *p->numbers);
    p->integer = calloc(n, sizeof *p->integer);
    if (!p->numbers || !p->integer) {
        release(p);
        return ah_error_memory(err);
    }
    p->objective = p->numbers;
    p->upper = p->objective + n;
    p->values = p->upper + n;
    p->rows = p->values + n;
    for (size_t j = 0; j < n; j++) {
        p->integer[j] = true;
        p->upper[j] = PIPELINES_MOST;
        p->objective[j] = -grouping->found[j].micro_batches;
        for (size_t k = 0; k < kinds; k++)
            p->rows[k * n + j] = grouping->found[j].units[k];
        p->rows[kinds * n + j] = 1;
    }
    return AH_OK;
}

/* Are there as many units as the pack has? */
static bool is_there(const struct packing *p)
{
    for (size_t k = 0; k < p->grouping->instance->n_kinds; k++) {
        double units = 0;
        for (size_t i = 0; i < p->n_pipelines; i++)
            units += p->units[i][k];
        if (units > p->grouping->units[k])
            return false;
    }
    return true;
}

/* (1). False: GLPK has none, or it is too little. */
static bool pack(struct packing *p, size_t n_pipelines)
{
    const struct ah_instance *instance = p->grouping->instance;
    double lower[AH_COMPOSITIONS_KINDS + 1], limits[AH_COMPOSITIONS_KINDS + 1];
    for (size_t k = 0; k < instance->n_kinds; k++) {
        lower[k] = -INFINITY;
        limits[k] = p->grouping->units[k];
    }
    lower[instance->n_kinds] = limits[instance->n_kinds] = (double)n_pipelines;
    const struct ah_solver_problem problem = {p->n,       p->n_rows, p->objective, p->upper,
                                              p->integer, lower,     limits,       p->rows};
    struct ah_solver_result result = {.values = p->values};
    struct ah_error ignored = {0};
    if (ah_solver_round(&problem, &(struct ah_solver_limits){gap, NODES}, &result, &ignored) ||
        (result.status != AH_SOLVER_OPTIMAL && result.status != AH_SOLVER_FEASIBLE) ||
        -result.objective < enough * (double)instance->micro_batches)
        return false;
    p->n_pipelines = 0;
    for (size_t j = 0; j < p->n; j++)
        for (double x = round(p->values[j]); x > 0 && p->n_pipelines < n_pipelines; x--)
            memcpy(p->units[p->n_pipelines++], p->grouping->found[j].units, sizeof p->units[0]);
    return p->n_pipelines == n_pipelines && is_there(p);
}

/* Every D, of what was found so far. */
static int pack_all(const struct ah_grouping *grouping, ah_packing_visit visit, void *context,
                    struct ah_error *err)
{
    const size_t units = ah_instance_units(grouping->instance);
    struct packing p;
    if (!grouping->n_found)
        return AH_OK;
    int rc = fill(&p, grouping, err);
    if (rc)
        return rc;
    for (size_t d = 1; d <= units && d <= grouping->instance->micro_batches && d <= PIPELINES_MOST && !rc;
         d++)
        if (pack(&p, d))
            rc = visit(context, (const uint8_t(*)[AH_COMPOSITIONS_KINDS])p.units, d, err);
    release(&p);
    return rc;
}

int ah_packing_each(const struct ah_instance *instance, double step_us, ah_packing_visit visit, void *context,
                    struct ah_error *err)
{
    struct ah_grouping grouping;
    bool can;
    int rc = ah_grouping_init(&grouping, instance, &can, err);
    if (rc || !can)
        return rc;
    for (size_t t = 0; t < sizeof shorter / sizeof *shorter && !rc; t++) {
        uint64_t steps = STEPS;
        bool does;
        rc = ah_grouping_proves(&grouping, shorter[t] * step_us, &steps, &does, err);
        if (!rc && !does)
            rc = pack_all(&grouping, visit, context, err);
    }
    ah_grouping_release(&grouping);
    return rc;
}
