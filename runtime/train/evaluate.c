/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluate: runs only forwards, at a drained point, in the plan's own tensors. It visits positions in order and, at
 * each, fetches the weights needed there; ops run one after another. No weight changes. Nothing that training needs is
 * overwritten, since no activation or gradient is alive at a drained point.
 */
#include "runtime/train/trainer_internal.h"

#include <string.h>

/* Returns waits for all ops submitted before. */
static struct waits after_all(const struct ah_trainer *t)
{
    struct waits waits;
    memcpy(waits.ticket, t->queue.last, sizeof waits.ticket);
    return waits;
}

static int submit_now(struct ah_trainer *t, uint32_t item, uint32_t lane, const struct move_indices *moves,
                      struct ah_error *err)
{
    const struct waits waits = after_all(t);
    const struct ops_of_item ops = {t->bound.first[item], t->bound.first[item + 1], lane, false, item};
    return ah_queue_ops(t, &ops, &waits, moves, NULL, err);
}

static int submit_extra(struct ah_trainer *t, enum ah_bind_extra extra, uint32_t lane,
                        const struct move_indices *moves, struct ah_error *err)
{
    const struct waits waits = after_all(t);
    const struct ops_of_item ops = ah_queue_extra(t, extra, lane);
    return ah_queue_ops(t, &ops, &waits, moves, NULL, err);
}

/* Submits the gathers of rows, then the fetches, then the gathers from other ranks that are due at this position. */
static int submit_due(struct ah_trainer *t, uint32_t position, const struct move_indices *moves,
                      struct ah_error *err)
{
    static const struct {
        enum ah_plan_op_kind kind;
        uint32_t lane;
    } kinds[] = {
        {AH_PLAN_GATHER, AH_LANE_HOST}, {AH_PLAN_FETCH, AH_LANE_H2D}, {AH_PLAN_ALL_GATHER, AH_LANE_SUMS}};
    int rc = AH_OK;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (uint32_t item = t->graph.positions; item < t->graph.n_items && !rc; item++) {
            const struct ah_plan_op *op = &t->options.plan->ops[t->graph.items[item].op];
            const bool stays = t->options.plan->blocks[op->block].weights == AH_WEIGHTS_DEVICE;
            if (op->op == kinds[k].kind && op->due_before == position && !stays)
                rc = submit_now(t, item, kinds[k].lane, moves, err);
        }
    return rc;
}

/* Receives the input of block 0 if this is not the first stage. Otherwise does nothing. */
static int receive_input(struct ah_trainer *t, const struct ah_plan_op *op, struct ah_error *err)
{
    const struct waits waits = after_all(t);
    return op->block == 0 && t->ranks.messages.of[AH_CHANNEL_OUTPUT_IN]
               ? ah_round_receive(t, AH_CHANNEL_OUTPUT_IN, op->micro_batch, &waits, err)
               : AH_OK;
}

static int evaluate_position(struct ah_trainer *t, int64_t step, uint32_t position, struct ah_error *err)
{
    const struct ah_plan_op *op = &t->options.plan->ops[t->graph.items[position].op];
    uint64_t staged = (uint64_t)step % AH_STEPS_STAGED * t->job.training.micro_batches + op->micro_batch;
    struct move_indices moves = {{0}};
    moves.of[AH_OFFSET_STAGING] = staged;
    moves.of[AH_OFFSET_STAGING_HEADER] = (uint64_t)step % AH_STEPS_STAGED;
    int rc = submit_due(t, position, &moves, err);
    if (!rc && op->op == AH_PLAN_SEND_OUTPUT)
        return submit_now(t, position, AH_LANE_SEND, &moves, err);
    if (rc || op->op != AH_PLAN_FORWARD)
        return rc;
    rc = receive_input(t, op, err);
    if (rc)
        return rc;
    rc = submit_extra(t, AH_EXTRA_LOAD, AH_LANE_H2D, &moves, err);
    return rc ? rc : submit_now(t, position, AH_LANE_COMPUTE, &moves, err);
}

static int evaluate_batch(struct ah_trainer *t, struct ah_batches *held_out, uint64_t batch, double *sum,
                          uint64_t *tokens, struct ah_error *err)
{
    int64_t step = (int64_t)batch;
    struct move_indices moves = {{0}};
    uint64_t bearing;
    moves.of[AH_OFFSET_STAGING_HEADER] = batch % AH_STEPS_STAGED;
    int rc = ah_run_stage(t, held_out, batch * ah_ranks_step_batch(t), step, &bearing, err);
    if (!rc)
        rc = submit_extra(t, AH_EXTRA_HEADER, AH_LANE_H2D, &moves, err);
    for (uint32_t p = 0; p < t->graph.positions && !rc; p++)
        rc = evaluate_position(t, step, p, err);
    if (!rc)
        rc = submit_extra(t, AH_EXTRA_LOSS, AH_LANE_D2H, &moves, err);
    if (!rc)
        rc = ah_queue_flush(t, err);
    if (!rc)
        rc = ah_device_drain(t->device, err);
    if (rc)
        return rc;
    double no_norm = 0;
    rc = ah_ranks_several(&t->ranks) ? ah_ranks_gather(t, step, &no_norm, err) : AH_OK;
    if (rc)
        return rc;
    *sum = ah_run_loss(t, step, batch ? sum : NULL);
    *tokens += bearing;
    return AH_OK;
}

/* Tells all ranks whether rank 0 was interrupted. If it was, returns AH_E_INTERRUPTED. */
static int ask_to_continue(struct ah_trainer *t, const atomic_int *cancel, struct ah_error *err)
{
    struct ranks_verdict verdict = {.stop = cancel && atomic_load(cancel)};
    int rc = ah_ranks_several(&t->ranks) ? ah_ranks_agree(t, &verdict, err) : AH_OK;
    if (!rc && verdict.stop)
        rc = ah_error_set(err, AH_E_INTERRUPTED, "the evaluation was interrupted");
    return rc;
}

int ah_trainer_evaluate(struct ah_trainer *t, struct ah_batches *held_out, const atomic_int *cancel,
                        struct ah_trainer_evaluation *ret_evaluation, struct ah_error *err)
{
    double sum = 0;
    uint64_t tokens = 0;
    int rc = AH_OK;
    if (held_out->options.seq != t->job.training.seq || held_out->options.batch != ah_ranks_step_batch(t))
        return ah_error_set(err, AH_E_USAGE, "held-out batches do not have the plan's 'batch' and 'seq'");
    if (ah_dataset_facts(held_out->options.data)->has_docs && !t->documents)
        return ah_error_set(err, AH_E_USAGE, "held-out data have documents; say so when the trainer opens");
    rc = ah_ranks_order(t, &(struct ranks_order){.kind = RANKS_EVALUATE}, err);
    ah_round_reset(t);
    for (uint64_t batch = 0; batch < ah_batches_steps(held_out) && !rc; batch++) {
        rc = ask_to_continue(t, cancel, err);
        rc = rc ? rc : evaluate_batch(t, held_out, batch, &sum, &tokens, err);
    }
    if (rc != AH_E_INTERRUPTED)
        rc = ah_ranks_fail(t, rc, err);
    if (!rc)
        *ret_evaluation = (struct ah_trainer_evaluation){tokens ? sum / (double)tokens : 0, tokens};
    return rc;
}
