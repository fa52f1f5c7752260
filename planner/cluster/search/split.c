/* SPDX-License-Identifier: Apache-2.0
 *
 * For a limit Z on every stage, let least(i, x) be the least sum of the first i stages if they hold the first x blocks:
 *
 *     least(i, x) = min over y < x of least(i - 1, y) + c(i, y, x)   where c(i, y, x) = t + q <= Z            (1)
 *
 * In the formula's optimum, Z is the longest stage. Z rises from the least possible value through the values that
 * matter, and stops when (m - 1) Z plus the least possible sum exceeds the best so far (2). A stage with more blocks
 * never takes less time, and if more blocks fit, fewer blocks fit, too (3).
 */
#include "planner/cluster/search/split.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool are_alike(const struct ah_cluster_problem *problem, size_t a, size_t b)
{
    for (size_t k = 0; k < problem->n_kinds; k++) { /* compares bytes: the structs have no padding */
        const struct ah_problem_kind *kind = &problem->kinds[k];
        if (memcmp(&kind->blocks[a], &kind->blocks[b], sizeof kind->blocks[a]) != 0)
            return false;
        for (size_t h = 0; h < kind->n_hosts; h++)
            if (memcmp(kind->hosts[h].away + a * AH_PROBLEM_AWAYS, kind->hosts[h].away + b * AH_PROBLEM_AWAYS,
                       AH_PROBLEM_AWAYS * sizeof *kind->hosts[h].away) != 0)
                return false;
    }
    return true;
}

static size_t tables_of(const struct ah_cluster_problem *problem, size_t kind)
{
    return ah_problem_has_host(problem, kind) ? problem->kinds[kind].n_hosts : 1;
}

int ah_fits_init(struct ah_fits *ret_fits, const struct ah_cluster_problem *problem, struct ah_error *err)
{
    size_t n = problem->n_blocks, units = ah_problem_units(problem), tables = 0;
    struct ah_fits fits = {.problem = problem, .most_in_flight = units < n ? units : n};
    for (size_t k = 0; k < problem->n_kinds; k++)
        tables += tables_of(problem, k);
    fits.tables = calloc(tables, sizeof *fits.tables);
    fits.first_table = calloc(problem->n_kinds + 1, sizeof *fits.first_table);
    fits.scratch = malloc((n + 1) * (n + 1) * sizeof *fits.scratch);
    fits.from = malloc((n + 1) * (n + 1) * sizeof *fits.from);
    fits.alike = calloc(n, sizeof *fits.alike);
    if (!fits.tables || !fits.first_table || !fits.scratch || !fits.from || !fits.alike) {
        ah_fits_release(&fits);
        return ah_error_memory(err);
    }
    for (size_t k = 0; k < problem->n_kinds; k++)
        fits.first_table[k + 1] = fits.first_table[k] + tables_of(problem, k);
    for (size_t b = 1; b < n; b++)
        fits.alike[b] = are_alike(problem, b - 1, b) ? fits.alike[b - 1] : b;
    *ret_fits = fits;
    return AH_OK;
}

void ah_fits_release(struct ah_fits *fits)
{
    if (!fits)
        return;
    size_t tables = fits->tables && fits->first_table ? fits->first_table[fits->problem->n_kinds] : 0;
    for (size_t i = 0; i < tables; i++) {
        free(fits->tables[i].us);
        free(fits->tables[i].stages);
    }
    free(fits->tables);
    free(fits->first_table);
    free(fits->scratch);
    free(fits->from);
    free(fits->alike);
    *fits = (struct ah_fits){0};
}

/* ---- remembered fits ---- */

/* Allocates a table. If memory is short, the table stays empty, and nothing is remembered. */
static void make_table(const struct ah_fits *fits, struct ah_fits_table *table)
{
    size_t n = fits->problem->n_blocks, cells = fits->most_in_flight * n * n;
    table->us = malloc(cells * sizeof *table->us);
    table->stages = malloc(cells * sizeof *table->stages); /* unused memory costs nothing */
    if (!table->us || !table->stages) {
        free(table->us);
        free(table->stages);
        *table = (struct ah_fits_table){0};
        return;
    }
    for (size_t i = 0; i < cells; i++)
        table->us[i] = -1;
}

static struct ah_fits_table *table_of(const struct ah_fits *fits, const struct ah_fits_unit *unit)
{
    size_t kind = fits->problem->classes[unit->class].kind, first = fits->first_table[kind];
    bool several = fits->first_table[kind + 1] - first > 1;
    struct ah_fits_table *table = &fits->tables[several ? first + unit->sharers - 1 : first];
    if (!table->us)
        make_table(fits, table);
    return table;
}

/* Returns a run's index in a table. Equal runs share the index of the first: a run moves back over equal blocks. */
static inline size_t run_at(const struct ah_fits *fits, uint64_t in_flight, size_t first, size_t end)
{
    size_t n = fits->problem->n_blocks, alike = fits->alike[end - 1];
    size_t back = alike <= first ? first - alike : 0;
    return (in_flight - 1) * n * n + (first - back) * n + end - back - 1;
}

static double fit_run(const struct ah_fits *fits, const struct ah_fits_unit *unit, size_t first, size_t end,
                      struct ah_stage *ret_stage)
{
    *ret_stage =
        (struct ah_stage){.class = unit->class, .sharers = unit->sharers, .first = first, .end = end};
    return ah_stage_fit(fits->problem, unit->in_flight, ret_stage)
               ? ret_stage->forward_us + ret_stage->backward_us
               : (double)INFINITY;
}

static inline double run_us(const struct ah_fits *fits, const struct ah_fits_table *table,
                            const struct ah_fits_unit *unit, size_t first, size_t end)
{
    struct ah_stage forgotten;
    if (!table->us)
        return fit_run(fits, unit, first, end, &forgotten);
    size_t at = run_at(fits, unit->in_flight, first, end);
    if (table->us[at] < 0)
        table->us[at] = fit_run(fits, unit, first, end, &table->stages[at]);
    return table->us[at];
}

double ah_fits_us(struct ah_fits *fits, const struct ah_fits_unit *unit, size_t first, size_t end)
{
    return run_us(fits, table_of(fits, unit), unit, first, end);
}

bool ah_fits_stage(struct ah_fits *fits, uint64_t in_flight, struct ah_stage *stage)
{
    const struct ah_stage asked = *stage;
    const struct ah_fits_unit unit = {asked.class, asked.sharers, in_flight};
    const struct ah_fits_table *table = table_of(fits, &unit);
    if (!table->us)
        return ah_stage_fit(fits->problem, in_flight, stage);
    if (isinf(run_us(fits, table, &unit, asked.first, asked.end)))
        return false;
    *stage = table->stages[run_at(fits, in_flight, asked.first, asked.end)];
    stage->class = asked.class;
    stage->sharers = asked.sharers;
    stage->first = asked.first;
    stage->end = asked.end;
    return true;
}

bool ah_fits_pipeline(struct ah_fits *fits, struct ah_pipeline *pipeline)
{
    for (size_t i = 0; i < pipeline->n_stages; i++) {
        uint64_t behind = pipeline->n_stages - i, m = pipeline->micro_batches;
        if (!ah_fits_stage(fits, m < behind ? m : behind, &pipeline->stages[i]))
            return false;
    }
    return true;
}

/* ---- splits ---- */

static double stage_send_us(const struct ah_cluster_problem *problem, const struct ah_pipeline *pipeline,
                            size_t i)
{
    const struct ah_stage *stage = &pipeline->stages[i];
    double us = 0;
    if (i + 1 < pipeline->n_stages)
        us += ah_problem_send_us(problem, stage->class, stage[1].class);
    if (i > 0)
        us += ah_problem_send_us(problem, stage->class, stage[-1].class);
    return us;
}

double ah_split_formula_us(const struct ah_cluster_problem *problem, const struct ah_pipeline *pipeline)
{
    double most = 0, sum = 0;
    for (size_t i = 0; i < pipeline->n_stages; i++) {
        const struct ah_stage *stage = &pipeline->stages[i];
        double us = stage->forward_us + stage->backward_us + stage_send_us(problem, pipeline, i);
        most = us > most ? us : most;
        sum += us;
    }
    return (double)(pipeline->micro_batches - 1) * most + sum;
}

/* The pipeline being split, with the results of (1). */
struct splitting {
    struct ah_fits *fits;
    const struct ah_pipeline *pipeline;
    double limit_us; /* Z */
    double next_us;  /* the least c above Z, found while using (1) */
    double sum_us;
};

/* A stage of the pipeline being split. */
struct splitting_stage {
    struct ah_fits_unit unit;
    const struct ah_fits_table *table;
    double send_us;
};

static struct splitting_stage stage_of(const struct splitting *s, size_t i)
{
    const struct ah_stage *from = &s->pipeline->stages[i];
    uint64_t behind = s->pipeline->n_stages - i, m = s->pipeline->micro_batches;
    struct splitting_stage stage = {.unit = {from->class, from->sharers, m < behind ? m : behind},
                                    .send_us = stage_send_us(s->fits->problem, s->pipeline, i)};
    stage.table = table_of(s->fits, &stage.unit);
    return stage;
}

/* Returns c(i, y, x) of (1) for the stage, with y = `first` and x = `end`. */
static inline double cell_us(const struct splitting *s, const struct splitting_stage *stage, size_t first,
                             size_t end)
{
    return run_us(s->fits, stage->table, &stage->unit, first, end) + stage->send_us;
}

/* Computes (1) for the limit. Returns false if no split keeps the limit. */
static bool least_sum(struct splitting *s)
{
    size_t n = s->fits->problem->n_blocks, n_stages = s->pipeline->n_stages;
    double *least = s->fits->scratch;
    s->next_us = INFINITY;
    for (size_t x = 0; x <= n; x++)
        least[x] = x ? (double)INFINITY : 0;
    for (size_t i = 1; i <= n_stages; i++) {
        double *row = least + i * (n + 1), *before = row - (n + 1);
        const struct splitting_stage stage = stage_of(s, i - 1);
        for (size_t x = 0; x <= n; x++) {
            row[x] = INFINITY;
            for (size_t y = x; y-- > i - 1 && x + n_stages <= n + i;) {
                double us = cell_us(s, &stage, y, x);
                if (us > s->limit_us) { /* (3) */
                    s->next_us = us < s->next_us ? us : s->next_us;
                    break;
                }
                if (before[y] + us <= row[x] && !isinf(before[y])) {
                    row[x] = before[y] + us;
                    s->fits->from[i * (n + 1) + x] = y;
                }
            }
        }
    }
    s->sum_us = least[n_stages * (n + 1) + n];
    return !isinf(s->sum_us);
}

static void set_stage_bounds(const struct splitting *s, struct ah_pipeline *pipeline)
{
    size_t n = s->fits->problem->n_blocks, end = n;
    for (size_t i = pipeline->n_stages; i-- > 0;) {
        pipeline->stages[i].end = end;
        end = s->fits->from[(i + 1) * (n + 1) + end];
        pipeline->stages[i].first = end;
    }
}

/* Returns the least Z for which (1) finds a split; INFINITY: nothing fits. longest(i, x) = min over y of max(longest(i
 * - 1, y), c(i, y, x)). As y falls, c only grows, so the loop stops at the first c that is too long. */
static double least_limit(struct splitting *s)
{
    size_t n = s->fits->problem->n_blocks, n_stages = s->pipeline->n_stages;
    double *longest = s->fits->scratch;
    for (size_t x = 0; x <= n; x++)
        longest[x] = x ? (double)INFINITY : 0;
    for (size_t i = 1; i <= n_stages; i++) {
        double *row = longest + i * (n + 1), *before = row - (n + 1);
        const struct splitting_stage stage = stage_of(s, i - 1);
        for (size_t x = 0; x <= n; x++) {
            row[x] = INFINITY;
            for (size_t y = x; y-- > i - 1 && x + n_stages <= n + i;) {
                double us = cell_us(s, &stage, y, x);
                if (us >= row[x])
                    break;
                row[x] = fmin(row[x], fmax(before[y], us));
            }
        }
    }
    return longest[n_stages * (n + 1) + n];
}

bool ah_split_best(struct ah_fits *fits, struct ah_pipeline *pipeline)
{
    struct splitting s = {.fits = fits, .pipeline = pipeline, .limit_us = 1e300};
    double more = (double)(pipeline->micro_batches - 1), best_us = INFINITY;
    if (pipeline->n_stages > fits->problem->n_blocks || !least_sum(&s))
        return false;
    double least_us = s.sum_us;
    set_stage_bounds(&s, pipeline);
    s.limit_us = least_limit(&s);
    while (!isinf(s.limit_us) && more * s.limit_us + least_us < best_us && least_sum(&s)) {
        if (more * s.limit_us + s.sum_us < best_us) {
            best_us = more * s.limit_us + s.sum_us;
            set_stage_bounds(&s, pipeline);
        }
        s.limit_us = s.next_us;
    }
    return true;
}
