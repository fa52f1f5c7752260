/* SPDX-License-Identifier: Apache-2.0
 *
 * Retime: the plan's lists run on the clock with times of ops alone, which are corrected by what that shows; then all is
 * dispatched again with them.
 */
#include "runtime/schedule/retime.h"

#include "runtime/schedule/replay.h"
#include "runtime/schedule/schedule_internal.h"

#include <math.h>
#include <string.h>

enum { CORRECTIONS = 3 };

static int check_times(const struct ah_plan *plan, const double *measured_us, struct ah_error *err)
{
    for (size_t op = 0; op < plan->n_ops; op++)
        if (!isfinite(measured_us[op]) || measured_us[op] < 0)
            return ah_error_set(err, AH_E_USAGE,
                                "op %zu, '%s': a duration of %g us; give those of a measured step", op,
                                ah_words_plan_op[plan->ops[op].op], measured_us[op]);
    return AH_OK;
}

/* Runs lists with these times until an iteration is steady. */
static int run(const struct ah_plan *plan, const double *op_us, struct ah_arena *arena,
               struct ah_replay *ret_replay, size_t *ret_iterations, struct ah_error *err)
{
    static const size_t tries[] = {AH_SCHEDULE_ITERATIONS, AH_SCHEDULE_ITERATIONS_UNSTEADY};
    int rc = AH_OK;
    ret_replay->steady = false;
    for (size_t i = 0; i < sizeof tries / sizeof *tries && !ret_replay->steady && !rc; i++) {
        *ret_iterations = tries[i];
        rc = ah_replay_run(plan, op_us, tries[i], arena, ret_replay, err);
    }
    return rc;
}

static int period(const struct ah_plan *plan, const double *op_us, double *ret_us, struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_replay replay;
    size_t iterations;
    int rc = run(plan, op_us, &arena, &replay, &iterations, err);
    ah_arena_release(&arena);
    if (!rc)
        *ret_us = replay.period_us;
    return rc;
}

/* Brings each time to where the clock, sharing included, would show what was measured. `busy_us` has room for all ops. */
static int correct(const struct ah_plan *plan, const double *measured_us, double *op_us, double *busy_us,
                   struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_replay replay;
    size_t iterations;
    int rc = run(plan, op_us, &arena, &replay, &iterations, err);
    memset(busy_us, 0, plan->n_ops * sizeof *busy_us);
    for (size_t i = 0; !rc && i < replay.n_items; i++)
        if (replay.items[i].iteration + 2 == iterations)
            busy_us[replay.items[i].op] += replay.items[i].finish_us - replay.items[i].start_us;
    for (size_t op = 0; op < plan->n_ops && !rc; op++)
        op_us[op] = busy_us[op] > 0 ? op_us[op] / busy_us[op] * measured_us[op] : measured_us[op];
    ah_arena_release(&arena);
    return rc;
}

/* Where rings are too small for the order that a dispatch takes, the one that is there stays. */
static int dispatch(const struct ah_plan *plan, const double *op_us, struct ah_arena *arena,
                    struct ah_plan_lanes *ret_lanes, struct ah_error *err)
{
    struct ah_arena scratch = {0};
    struct ah_plan timed = *plan;
    timed.ops = ah_arena_array(&scratch, plan->n_ops, sizeof *timed.ops);
    int rc = timed.ops ? AH_OK : ah_error_memory(err);
    for (size_t op = 0; op < plan->n_ops && !rc; op++) {
        timed.ops[op] = plan->ops[op];
        timed.ops[op].us = op_us[op];
    }
    if (!rc)
        rc = ah_replay_dispatch(&timed, arena, ret_lanes, err);
    ah_arena_release(&scratch);
    if (rc != AH_E_DOCUMENT)
        return rc;
    *ret_lanes = plan->lanes;
    return AH_OK;
}

int ah_retime(const struct ah_plan *plan, const double *measured_us, struct ah_arena *arena,
              struct ah_retimed *ret_retimed, struct ah_error *err)
{
    struct ah_retimed retimed = {.op_us = ah_arena_array(arena, plan->n_ops, sizeof *retimed.op_us)};
    double *busy_us = ah_arena_array(arena, plan->n_ops, sizeof *busy_us);
    int rc = check_times(plan, measured_us, err);
    if (!rc && (!retimed.op_us || !busy_us))
        rc = ah_error_memory(err);
    if (rc)
        return rc;
    for (size_t op = 0; op < plan->n_ops; op++)
        retimed.op_us[op] = plan->ops[op].us;
    for (int i = 0; i < CORRECTIONS && !rc; i++)
        rc = correct(plan, measured_us, retimed.op_us, busy_us, err);
    if (!rc)
        rc = dispatch(plan, retimed.op_us, arena, &retimed.lanes, err);
    struct ah_plan anew = *plan;
    anew.lanes = retimed.lanes;
    if (!rc)
        rc = period(plan, retimed.op_us, &retimed.before_us, err);
    if (!rc)
        rc = period(&anew, retimed.op_us, &retimed.after_us, err);
    if (!rc)
        *ret_retimed = retimed;
    return rc;
}
