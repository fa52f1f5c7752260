/* SPDX-License-Identifier: Apache-2.0
 *
 * Tally: keeps sums of the steps in progress, and a window of finished steps.
 *
 * 1. An op counts for the step in whose round it was submitted. Ops of the next round may be reported before this step
 *    ends, so sums are kept for a few steps, by number.
 * 2. A row of the window is a value, and a column is a step; the oldest column is overwritten. Steps that follow a
 *    drain are dropped once there are other steps.
 */
#include "runtime/train/tally_internal.h"

#include "base/stats.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)AH_LANE_COMPUTE == (int)AH_PLAN_LANE_COMPUTE &&
                   (int)AH_LANE_H2D == (int)AH_PLAN_LANE_H2D && (int)AH_LANE_D2H == (int)AH_PLAN_LANE_D2H &&
                   (int)AH_LANE_HOST == (int)AH_PLAN_LANE_HOST,
               "lanes of plans are those of devices");

/* The rows of the window: step, exposed times, parts; then, for a rank, the iteration as its compute sees it, its
 * waits, and the time for which each device lane works. */
enum { ROW_STEP, ROW_EXPOSED, ROW_PARTS = ROW_EXPOSED + TALLY_EXPOSED };
enum { ROW_ITERATION = ROW_PARTS + AH_RUNLOG_OPS * AH_PLAN_LANES, ROW_COMPUTE, ROW_WAITS };
enum { ROW_BUSY = ROW_WAITS + TALLY_WAITS, ROWS = ROW_BUSY + AH_DEVICE_LANES_ALL };

/* The window, in the arena; `column` is the next column to write. */
struct window {
    size_t rows, room;
    double *values;
    size_t n, column;
};

struct ah_tally {
    const struct ah_plan *plan;
    struct ah_arena arena;
    struct tally_waits waits;
    double *sums[TALLY_KEPT]; /* by step: a value for each row, in the arena */
    struct window steps;
    double *sorted;     /* AH_RUNLOG_MEDIAN_STEPS; in the arena */
    uint64_t before_ns; /* end of the previous step */
    bool cold;          /* the next step follows a drain */
    bool only_cold;     /* all steps in the window follow a drain */
};

/* ---- life ---- */

static bool take_window(struct window *window, size_t rows, size_t room, struct ah_arena *arena)
{
    *window = (struct window){.rows = rows, .room = room};
    window->values = ah_arena_array(arena, rows * room + 1, sizeof *window->values);
    return window->values;
}

static int take_memory(struct ah_tally *tally, struct ah_error *err)
{
    bool taken = take_window(&tally->steps, ROWS, AH_RUNLOG_MEDIAN_STEPS, &tally->arena);
    tally->sorted = ah_arena_array(&tally->arena, AH_RUNLOG_MEDIAN_STEPS, sizeof *tally->sorted);
    for (size_t k = 0; k < TALLY_KEPT && taken; k++) {
        tally->sums[k] = ah_arena_array(&tally->arena, ROWS, sizeof **tally->sums);
        taken = tally->sums[k];
    }
    return taken && tally->sorted ? AH_OK : ah_error_memory(err);
}

int ah_tally_new(struct ah_tally **ret_tally, const struct ah_plan *plan, struct ah_error *err)
{
    struct ah_tally *tally = calloc(1, sizeof *tally);
    if (!tally)
        return ah_error_memory(err);
    tally->plan = plan;
    int rc = take_memory(tally, err);
    if (!rc)
        rc = ah_tally_waits_init(&tally->waits, plan, &tally->arena, err);
    if (rc)
        ah_tally_free(tally);
    else
        *ret_tally = tally;
    return rc;
}

void ah_tally_free(struct ah_tally *tally)
{
    if (!tally)
        return;
    ah_arena_release(&tally->arena);
    free(tally);
}

/* ---- records ---- */

static void clear_sums(double *sums)
{
    memset(sums, 0, ROWS * sizeof *sums);
}

void ah_tally_begin(struct ah_tally *tally, uint64_t now_ns)
{
    ah_tally_waits_begin(&tally->waits);
    for (size_t k = 0; k < TALLY_KEPT; k++)
        clear_sums(tally->sums[k]);
    tally->before_ns = now_ns;
    tally->cold = true;
}

void ah_tally_op(struct ah_tally *tally, const struct ah_op_record *record)
{
    const bool sends = record->lane == AH_LANE_SEND; /* in the plan, sends are on compute */
    const size_t lane = sends ? AH_PLAN_LANE_COMPUTE : record->lane;
    double *sums = tally->sums[record->step % TALLY_KEPT];
    double us = (double)(record->end_ns - record->start_ns) / 1e3;
    size_t op = record->op < tally->plan->n_ops ? tally->plan->ops[record->op].op : AH_RUNLOG_OP_DATA;
    sums[ROW_BUSY + record->lane] += us;
    if (lane < AH_DEVICE_LANES)
        sums[ROW_PARTS + op * AH_PLAN_LANES + lane] += us;
    ah_tally_waits_op(&tally->waits, record);
}

static void put_column(struct window *window, const double *values)
{
    for (size_t row = 0; row < window->rows; row++)
        window->values[row * window->room + window->column] = values[row];
    window->column = (window->column + 1) % window->room;
    window->n += window->n < window->room;
}

/* True if the step is to be kept. Steps after a drain are kept only until there is another step. */
static bool make_room(struct ah_tally *tally)
{
    bool first = !tally->steps.n;
    if (tally->cold && !first)
        return tally->only_cold;
    if (!tally->cold && tally->only_cold)
        tally->steps.n = tally->steps.column = 0;
    tally->only_cold = tally->cold;
    return true;
}

static void put_iteration(struct ah_tally *tally, uint64_t step, double *sums)
{
    struct tally_iteration iteration;
    if (!tally->waits.others.first_step)
        tally->waits.others.first_step = step;
    ah_tally_waits_iteration(&tally->waits, step, &iteration);
    sums[ROW_ITERATION] = iteration.us;
    sums[ROW_COMPUTE] = iteration.compute_us;
    memcpy(sums + ROW_WAITS, iteration.waits_us, sizeof iteration.waits_us);
}

double ah_tally_step(struct ah_tally *tally, const struct ah_step_record *record)
{
    double *sums = tally->sums[record->step % TALLY_KEPT];
    double step_us = (double)(record->end_ns - tally->before_ns) / 1e3;
    sums[ROW_STEP] = step_us;
    ah_tally_waits_exposed(&tally->waits, record->step, sums + ROW_EXPOSED);
    if (tally->waits.others.any)
        put_iteration(tally, record->step, sums);
    if (make_room(tally))
        put_column(&tally->steps, sums);
    clear_sums(sums);
    tally->before_ns = record->end_ns;
    tally->cold = false;
    return step_us;
}

/* ---- medians ---- */

static double median(const struct ah_tally *tally, const struct window *window, size_t row)
{
    memcpy(tally->sorted, window->values + row * window->room, window->n * sizeof *tally->sorted);
    return ah_stats_of(tally->sorted, window->n).median;
}

static int compare_parts(const void *left, const void *right)
{
    const struct ah_runlog_part *a = left, *b = right;
    if (a->lane != b->lane)
        return a->lane < b->lane ? -1 : 1;
    if (a->us != b->us)
        return a->us > b->us ? -1 : 1;
    return a->op < b->op ? -1 : a->op > b->op;
}

int ah_tally_parts(double us[AH_RUNLOG_OPS][AH_PLAN_LANES], struct ah_arena *arena,
                   struct ah_runlog_part **ret_parts, size_t *ret_n, struct ah_error *err)
{
    struct ah_runlog_part *parts = ah_arena_array(arena, AH_RUNLOG_OPS * AH_PLAN_LANES, sizeof *parts);
    size_t n = 0;
    if (!parts)
        return ah_error_memory(err);
    for (unsigned op = 0; op < AH_RUNLOG_OPS; op++)
        for (size_t lane = 0; lane < AH_PLAN_LANES; lane++)
            if (us[op][lane] > 0)
                parts[n++] = (struct ah_runlog_part){op, (enum ah_plan_lane)lane, us[op][lane]};
    qsort(parts, n, sizeof *parts, compare_parts);
    *ret_parts = parts;
    *ret_n = n;
    return AH_OK;
}

int ah_tally_end(struct ah_tally *tally, struct ah_arena *arena, struct ah_runlog_end *end,
                 struct ah_error *err)
{
    double us[AH_RUNLOG_OPS][AH_PLAN_LANES];
    if (!tally->steps.n)
        return AH_OK;
    struct ah_plan_by_lane *exposed = ah_arena_alloc(arena, sizeof *exposed);
    if (!exposed)
        return ah_error_memory(err);
    for (size_t i = 0; i < AH_RUNLOG_OPS * AH_PLAN_LANES; i++)
        us[i / AH_PLAN_LANES][i % AH_PLAN_LANES] = median(tally, &tally->steps, ROW_PARTS + i);
    int rc = ah_tally_parts(us, arena, &end->parts, &end->n_parts, err);
    if (rc)
        return rc;
    for (size_t lane = AH_PLAN_LANE_H2D; lane < AH_DEVICE_LANES; lane++)
        exposed->of[lane] = median(tally, &tally->steps, ROW_EXPOSED + lane - AH_PLAN_LANE_H2D);
    end->exposed_us = exposed;
    end->median_step_us = median(tally, &tally->steps, ROW_STEP);
    end->predicted_step_us = tally->plan->time.step_us;
    if (end->predicted_step_us > 0)
        end->step_error = end->median_step_us / end->predicted_step_us - 1;
    return AH_OK;
}

/* ---- means ---- */

/* Returns a mean over the steps whose iterations are in neither the shortest nor the longest quarter. So a few
 * disturbed steps do not count, but parts still add up as in a single step. */
static double mean_of_middle(const struct ah_tally *tally, size_t row, double least_us, double most_us)
{
    const struct window *steps = &tally->steps;
    const double *us = steps->values + ROW_ITERATION * steps->room,
                 *values = steps->values + row * steps->room;
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < steps->n; i++)
        if (us[i] >= least_us && us[i] <= most_us) {
            sum += values[i];
            n++;
        }
    return sum / (double)n;
}

void ah_tally_rank(struct ah_tally *tally, struct ah_tally_rank *ret_rank)
{
    const struct window *steps = &tally->steps;
    *ret_rank = (struct ah_tally_rank){.steps = tally->waits.others.any ? steps->n : 0};
    if (!ret_rank->steps)
        return;
    (void)median(tally, steps, ROW_ITERATION); /* sorts them */
    const size_t quarter = (steps->n - 1) / 4;
    const double least_us = tally->sorted[quarter], most_us = tally->sorted[steps->n - 1 - quarter];
    ret_rank->step_us = mean_of_middle(tally, ROW_ITERATION, least_us, most_us);
    ret_rank->compute_us = mean_of_middle(tally, ROW_COMPUTE, least_us, most_us);
    for (size_t lane = AH_LANE_H2D; lane <= TALLY_GATE; lane++)
        ret_rank->waits_us[lane] = mean_of_middle(tally, ROW_WAITS + lane - AH_LANE_H2D, least_us, most_us);
    for (size_t lane = 0; lane < AH_DEVICE_LANES_ALL; lane++)
        ret_rank->busy_us[lane] = mean_of_middle(tally, ROW_BUSY + lane, least_us, most_us);
}
