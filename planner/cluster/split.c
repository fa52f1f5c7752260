/* SPDX-License-Identifier: Apache-2.0
 *
 * For a limit Z on every stage, least(i, x) = the least sum of the first i stages if they hold the first x blocks:
 *
 *     least(i, x) = min over y < x of least(i - 1, y) + c(i, y, x)   where c(i, y, x) = t + q <= Z            (1)
 *
 * The formula's optimum has its longest stage as Z. Z goes up from the least possible one through the values that
 * matter, and stops when (m - 1) Z and the least sum of all exceed the best so far (2). A stage that holds more blocks
 * takes no less, or has no room for them: what fits all fits some (3).
 */
#include "planner/cluster/split.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool are_alike(const struct ah_instance *instance, size_t a, size_t b)
{
    for (size_t k = 0; k < instance->n_kinds; k++) /* the struct has no padding */
        if (memcmp(&instance->kinds[k].blocks[a], &instance->kinds[k].blocks[b],
                   sizeof(struct ah_instance_block)) != 0)
            return false;
    return true;
}

int ah_fits_init(struct ah_fits *ret_fits, const struct ah_instance *instance, struct ah_error *err)
{
    size_t n = instance->n_blocks, units = ah_instance_units(instance);
    struct ah_fits fits = {.instance = instance, .most_in_flight = units < n ? units : n};
    size_t cells = instance->n_kinds * fits.most_in_flight * n * n;
    fits.us = malloc(cells * sizeof *fits.us);
    fits.stages = malloc(cells * sizeof *fits.stages); /* where it is not used it costs nothing */
    fits.scratch = malloc((n + 1) * (n + 1) * sizeof *fits.scratch);
    fits.from = malloc((n + 1) * (n + 1) * sizeof *fits.from);
    fits.alike = calloc(n, sizeof *fits.alike);
    if (!fits.us || !fits.stages || !fits.scratch || !fits.from || !fits.alike) {
        ah_fits_release(&fits);
        return ah_error_memory(err);
    }
    for (size_t i = 0; i < cells; i++)
        fits.us[i] = -1;
    for (size_t b = 1; b < n; b++)
        fits.alike[b] = are_alike(instance, b - 1, b) ? fits.alike[b - 1] : b;
    *ret_fits = fits;
    return AH_OK;
}

void ah_fits_release(struct ah_fits *fits)
{
    if (!fits)
        return;
    free(fits->us);
    free(fits->stages);
    free(fits->scratch);
    free(fits->from);
    free(fits->alike);
    *fits = (struct ah_fits){0};
}

/* ---- what is remembered ---- */

/* Where that is of a run, beginning at `of_kind`. */
static inline size_t run_at(const struct ah_fits *fits, size_t of_kind, size_t first, size_t end)
{
    size_t n = fits->instance->n_blocks, alike = fits->alike[end - 1];
    size_t back = alike <= first ? first - alike : 0;
    return of_kind + (first - back) * n + end - back - 1;
}

static size_t kind_at(const struct ah_fits *fits, size_t class, uint64_t in_flight)
{
    size_t n = fits->instance->n_blocks, kind = fits->instance->classes[class].kind;
    return (kind * fits->most_in_flight + in_flight - 1) * n * n;
}

static double learn_us(struct ah_fits *fits, size_t at, size_t class, size_t first, size_t end,
                       uint64_t in_flight)
{
    struct ah_stage *stage = &fits->stages[at];
    *stage = (struct ah_stage){.class = class, .first = first, .end = end};
    bool fit = ah_stage_fit(fits->instance, in_flight, stage);
    return fits->us[at] = fit ? stage->forward_us + stage->backward_us : (double)INFINITY;
}

double ah_fits_us(struct ah_fits *fits, size_t class, size_t first, size_t end, uint64_t in_flight)
{
    size_t at = run_at(fits, kind_at(fits, class, in_flight), first, end);
    return fits->us[at] < 0 ? learn_us(fits, at, class, first, end, in_flight) : fits->us[at];
}

bool ah_fits_stage(struct ah_fits *fits, uint64_t in_flight, struct ah_stage *stage)
{
    const struct ah_stage asked = *stage;
    if (isinf(ah_fits_us(fits, asked.class, asked.first, asked.end, in_flight)))
        return false;
    *stage = fits->stages[run_at(fits, kind_at(fits, asked.class, in_flight), asked.first, asked.end)];
    stage->class = asked.class;
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

static double stage_send_us(const struct ah_instance *instance, const struct ah_pipeline *pipeline, size_t i)
{
    const struct ah_stage *stage = &pipeline->stages[i];
    double us = 0;
    if (i + 1 < pipeline->n_stages)
        us += ah_instance_send_us(instance, stage->class, stage[1].class);
    if (i > 0)
        us += ah_instance_send_us(instance, stage->class, stage[-1].class);
    return us;
}

double ah_split_formula_us(const struct ah_instance *instance, const struct ah_pipeline *pipeline)
{
    double most = 0, sum = 0;
    for (size_t i = 0; i < pipeline->n_stages; i++) {
        const struct ah_stage *stage = &pipeline->stages[i];
        double us = stage->forward_us + stage->backward_us + stage_send_us(instance, pipeline, i);
        most = us > most ? us : most;
        sum += us;
    }
    return (double)(pipeline->micro_batches - 1) * most + sum;
}

/* The pipeline being split, and what (1) finds. */
struct splitting {
    struct ah_fits *fits;
    const struct ah_pipeline *pipeline;
    double limit_us; /* Z */
    double next_us;  /* the least c above Z that was met */
    double sum_us;
};

/* A stage of it. */
struct splitting_stage {
    size_t class, of_kind;
    uint64_t in_flight;
    double send_us;
};

static struct splitting_stage stage_of(const struct splitting *s, size_t i)
{
    uint64_t behind = s->pipeline->n_stages - i, m = s->pipeline->micro_batches;
    struct splitting_stage stage = {.class = s->pipeline->stages[i].class,
                                    .in_flight = m < behind ? m : behind};
    stage.of_kind = kind_at(s->fits, stage.class, stage.in_flight);
    stage.send_us = stage_send_us(s->fits->instance, s->pipeline, i);
    return stage;
}

/* c of (1). */
static inline double cell_us(const struct splitting *s, const struct splitting_stage *stage, size_t first,
                             size_t end)
{
    size_t at = run_at(s->fits, stage->of_kind, first, end);
    double us = s->fits->us[at];
    if (us < 0)
        us = learn_us(s->fits, at, stage->class, first, end, stage->in_flight);
    return us + stage->send_us;
}

/* (1). False: nothing within the limit. */
static bool least_sum(struct splitting *s)
{
    size_t n = s->fits->instance->n_blocks, n_stages = s->pipeline->n_stages;
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

static void take(const struct splitting *s, struct ah_pipeline *pipeline)
{
    size_t n = s->fits->instance->n_blocks, end = n;
    for (size_t i = pipeline->n_stages; i-- > 0;) {
        pipeline->stages[i].end = end;
        end = s->fits->from[(i + 1) * (n + 1) + end];
        pipeline->stages[i].first = end;
    }
}

/* The least Z for which (1) finds something: longest(i, x) = min over y of max(longest(i - 1, y), c(i, y, x)), where
 * the former falls with y and the latter grows. INFINITY: nothing fits. */
static double least_limit(struct splitting *s)
{
    size_t n = s->fits->instance->n_blocks, n_stages = s->pipeline->n_stages;
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
    if (pipeline->n_stages > fits->instance->n_blocks || !least_sum(&s))
        return false;
    double least_us = s.sum_us;
    take(&s, pipeline);
    s.limit_us = least_limit(&s);
    while (!isinf(s.limit_us) && more * s.limit_us + least_us < best_us && least_sum(&s)) {
        if (more * s.limit_us + s.sum_us < best_us) {
            best_us = more * s.limit_us + s.sum_us;
            take(&s, pipeline);
        }
        s.limit_us = s.next_us;
    }
    return true;
}
