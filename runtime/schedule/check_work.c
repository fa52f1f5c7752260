/* SPDX-License-Identifier: Apache-2.0
 *
 * Work: checks that the times of ops agree with each other.
 *
 *   1. Ops of one kind that do the same work for blocks of one group take the same time.
 *   2. Updates and sums take the same time per parameter in all groups that are trained whole. However, an update on
 *      the device takes at least the time to launch its ops (costs.h).
 *   3. All copies in one direction have the same time per tile and the same time per byte.
 */
#include "runtime/schedule/check_internal.h"

#include "runtime/schedule/flat.h"
#include "runtime/schedule/fold.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- rules 1 and 2 ---- */

enum { OP_KINDS = AH_PLAN_OP_KINDS, WAYS = 6, NO_OP = UINT32_MAX };

static bool makes_gradient(const struct ah_plan *plan, const struct ah_plan_op *op)
{
    bool head = ah_plan_is_head(plan, op->block);
    return plan->blocks[op->block].optimizer != AH_OPTIMIZER_NONE &&
           (op->op == AH_PLAN_BACKWARD || (head && op->op == AH_PLAN_FORWARD));
}

/* Returns a number below WAYS. Two ops of one kind and group do equal work exactly if their numbers are equal. */
static unsigned way_of(const struct ah_plan *plan, const struct ah_plan_op *op)
{
    const struct ah_plan_block *block = &plan->blocks[op->block];
    const bool last = op->micro_batch + 1 == plan->training.micro_batches; /* this op also squares the sum */
    const bool closes = ah_fold_of(&plan->training, op->micro_batch).closes;
    if (makes_gradient(plan, op))
        return block->accumulator == AH_ACCUMULATOR_HOST ? 1 : (last ? 2U : 0U) + (closes ? 3U : 0U);
    if (op->op == AH_PLAN_ACCUMULATE)
        return (last ? 1U : 0U) + (closes ? 2U : 0U);
    if (op->op == AH_PLAN_FETCH)
        return !op->block && op->due_before < plan->lanes.n_order[AH_PLAN_LANE_COMPUTE] &&
               !ah_plan_compute_op(plan, op->due_before)->block;
    if (op->op == AH_PLAN_SEND_GRADIENTS)
        return block->accumulator == AH_ACCUMULATOR_DEVICE;
    if (op->op == AH_PLAN_SCATTER)
        return last ? 1U : 0U;
    if (op->op == AH_PLAN_ALL_GATHER)
        return block->weights == AH_WEIGHTS_DEVICE; /* only what was updated, not the whole vector */
    if (op->op == AH_PLAN_STATES_IN || op->op == AH_PLAN_STATES_OUT)
        return block->weights == AH_WEIGHTS_HOST;
    return 0;
}

static size_t work_of(const struct ah_plan *plan, const struct ah_job *job, const struct ah_plan_op *op)
{
    enum ah_activations activations =
        op->op == AH_PLAN_BACKWARD ? plan->blocks[op->block].activations : AH_ACTIVATIONS_KEEP;
    size_t work = job->group_of[op->block];
    work = work * OP_KINDS + (size_t)op->op;
    work = work * AH_ACTIVATIONS_WAYS + (size_t)activations;
    return work * WAYS + way_of(plan, op);
}

static int check_equal(const struct ah_plan *plan, const struct ah_job *job, struct ah_error *err)
{
    size_t works = job->n_groups * OP_KINDS * AH_ACTIVATIONS_WAYS * WAYS;
    uint32_t *first = malloc(works * sizeof *first);
    int rc = first ? AH_OK : ah_error_memory(err);
    if (first)
        memset(first, 0xff, works * sizeof *first);
    for (size_t i = 0; i < plan->n_ops && !rc; i++) {
        uint32_t *like = &first[work_of(plan, job, &plan->ops[i])];
        if (*like == NO_OP)
            *like = (uint32_t)i;
        if (plan->ops[i].us != plan->ops[*like].us)
            rc = ah_error_set(err, AH_E_DOCUMENT,
                              "ops[%zu].us: is %.17g; ops[%" PRIu32 "] does the same in %.17g", i,
                              plan->ops[i].us, *like, plan->ops[*like].us);
    }
    free(first);
    return rc;
}

/* True if rule 2 applies to this op. */
static bool is_rated(const struct ah_plan_op *op, const struct ah_job_group *group)
{
    return (op->op == AH_PLAN_HOST_ADAM || op->op == AH_PLAN_DEVICE_ADAM || op->op == AH_PLAN_ACCUMULATE) &&
           group->trained_elements >= group->flat_elements && group->trained_parameters;
}

/* Returns the number of launches for which the cost model charges an op; 0 unless it is an update on the device. */
static double launches_of(const struct ah_job *job, const struct ah_plan_op *op)
{
    const struct ah_job_group *group = ah_job_block(job, op->block);
    const struct ah_flat flat = ah_flat_of(job->model, group->kind, group->trained);
    struct ah_run_of_elements runs[AH_MODEL_TENSORS_MAX];
    return op->op == AH_PLAN_DEVICE_ADAM ? (double)ah_flat_runs(&flat, runs) : 0;
}

/* Finds the least times per parameter and per launch. Each op must take the longer of the two resulting times. */
static int check_rates(const struct ah_plan *plan, const struct ah_job *job, struct ah_error *err)
{
    double us_each[OP_KINDS][WAYS], launch_us = INFINITY;
    for (size_t i = 0; i < OP_KINDS * WAYS; i++)
        us_each[i / WAYS][i % WAYS] = INFINITY;
    for (size_t i = 0; i < plan->n_ops; i++) {
        const struct ah_plan_op *op = &plan->ops[i];
        const struct ah_job_group *group = ah_job_block(job, op->block);
        if (!is_rated(op, group))
            continue;
        double *each = &us_each[op->op][way_of(plan, op)], launches = launches_of(job, op);
        *each = fmin(*each, op->us / (double)group->own_trained_parameters);
        launch_us = launches > 0 ? fmin(launch_us, op->us / launches) : launch_us;
    }
    for (size_t i = 0; i < plan->n_ops; i++) {
        const struct ah_plan_op *op = &plan->ops[i];
        const struct ah_job_group *group = ah_job_block(job, op->block);
        if (!is_rated(op, group))
            continue;
        double launches = launches_of(job, op);
        double us = us_each[op->op][way_of(plan, op)] * (double)group->own_trained_parameters;
        us = launches > 0 ? fmax(us, launches * launch_us) : us;
        if (!ah_check_near(op->us, us))
            return ah_error_set(err, AH_E_DOCUMENT,
                                "ops[%zu].us: is %.17g for %" PRIu64
                                " parameters; at the rate of others, %.17g",
                                i, op->us, group->own_trained_parameters, us);
    }
    return AH_OK;
}

/* ---- rule 3 ---- */

/* Solves for the times per tile and per byte from the first copy and the one that differs most in tiles per byte. */
struct ah_check_copies ah_check_copies(const struct ah_plan *plan, enum ah_plan_lane lane)
{
    struct ah_check_copies copies = {.relative = 1e-9};
    const struct ah_plan_op *first = NULL;
    double best = 0;
    for (size_t i = 0; i < plan->n_ops; i++) {
        const struct ah_plan_op *op = &plan->ops[i];
        if (op->lane != lane || !op->bytes)
            continue;
        double us_a_byte = op->us / (double)op->bytes;
        if (!first) {
            first = op;
            copies.us_a_byte = us_a_byte;
            continue;
        }
        double tiles = (double)first->tiles / (double)first->bytes;
        double deviation = tiles - (double)op->tiles / (double)op->bytes;
        if (fabs(deviation) <= best)
            continue;
        best = fabs(deviation);
        copies.us_a_tile = (first->us / (double)first->bytes - us_a_byte) / deviation;
        copies.us_a_byte = us_a_byte - (double)op->tiles / (double)op->bytes * copies.us_a_tile;
        copies.relative = fmax(1e-9, 1e-13 * tiles / best);
    }
    return copies;
}

static int check_copies(const struct ah_plan *plan, enum ah_plan_lane lane, struct ah_error *err)
{
    struct ah_check_copies copies = ah_check_copies(plan, lane);
    for (size_t i = 0; i < plan->n_ops; i++) {
        const struct ah_plan_op *op = &plan->ops[i];
        double us = (double)op->tiles * copies.us_a_tile + (double)op->bytes * copies.us_a_byte;
        if (op->lane == lane && op->bytes && fabs(op->us - us) > copies.relative * fmax(op->us, us))
            return ah_error_set(err, AH_E_DOCUMENT,
                                "ops[%zu].us: is %.17g; at the rate of other copies, %.17g", i, op->us, us);
    }
    return AH_OK;
}

int ah_check_links(const struct ah_plan *plan, struct ah_error *err)
{
    int rc = check_copies(plan, AH_PLAN_LANE_H2D, err);
    return rc ? rc : check_copies(plan, AH_PLAN_LANE_D2H, err);
}

int ah_check_work(const struct ah_plan *plan, const struct ah_job *job, struct ah_error *err)
{
    int rc = check_equal(plan, job, err);
    return rc ? rc : check_rates(plan, job, err);
}
