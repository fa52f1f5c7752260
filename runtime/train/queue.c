/* SPDX-License-Identifier: Apache-2.0
 *
 * Queue: makes submissions of bound ops. Moves are added to operands, waits become tickets, and the device gets an
 * array at a time.
 *
 * TIMES are measured per item. So ops of one item in an array are joined, unless the trainer must time every op.
 */
#include "runtime/train/trainer_internal.h"

int ah_queue_flush(struct ah_trainer *t, struct ah_error *err)
{
    size_t n = t->queue.n;
    t->queue.n = 0;
    return ah_device_submit(t->device, t->queue.submissions, n, NULL, err);
}

static void move_op(const struct ah_trainer *t, const struct ah_bound_op *bound,
                    const struct move_indices *moves, struct ah_op *ret_op)
{
    *ret_op = bound->op;
    for (size_t arg = 0; arg < AH_OP_ARGS; arg++)
        ret_op->arg[arg].offset_bytes += moves->of[bound->move[arg]] * t->addresses.stride[bound->move[arg]];
}

static uint32_t put_waits(const struct ops_of_item *ops, const struct waits *waits, struct ah_wait *ret_waits)
{
    uint32_t n = 0;
    for (uint32_t lane = 0; lane < AH_DEVICE_LANES_ALL; lane++)
        if (lane != ops->lane && waits->ticket[lane])
            ret_waits[n++] = (struct ah_wait){lane, waits->ticket[lane]};
    return n;
}

static void count_bytes(struct ah_trainer *t, uint32_t lane, const struct ah_op *op)
{
    if (lane == AH_LANE_H2D)
        t->counted->h2d_bytes += op->u.copy.bytes;
    else if (lane == AH_LANE_D2H)
        t->counted->d2h_bytes += op->u.copy.bytes;
}

/* True if these ops have a planned time. */
static bool is_paced(const struct ah_trainer *t, const struct ops_of_item *ops)
{
    return t->pace.nics && (ops->tag < t->graph.n_items || ops->lane == AH_LANE_SUMS);
}

int ah_queue_ops(struct ah_trainer *t, const struct ops_of_item *ops, const struct waits *waits,
                 const struct move_indices *moves, uint64_t *ret_ticket, struct ah_error *err)
{
    struct queue *queue = &t->queue;
    bool first = true;
    for (uint32_t i = ops->first; i < ops->end; i++) {
        if (t->bound.ops[i].learns && !ops->learn)
            continue;
        if (queue->n == QUEUE_OPS) {
            int rc = ah_queue_flush(t, err);
            if (rc)
                return rc;
        }
        size_t at = queue->n++;
        if (!first && at > 0 && !t->times_ops)
            queue->submissions[at - 1].joins = true;
        move_op(t, &t->bound.ops[i], moves, &queue->ops[at]);
        queue->submissions[at] =
            (struct ah_submission){.lane = ops->lane,
                                   .n_waits = first ? put_waits(ops, waits, queue->waits[at]) : 0,
                                   .waits = queue->waits[at],
                                   .op = &queue->ops[at],
                                   .tag = ops->tag,
                                   .pace = first && is_paced(t, ops) ? AH_PACE_BEGINS : 0};
        count_bytes(t, ops->lane, &queue->ops[at]);
        queue->last[ops->lane]++;
        first = false;
    }
    if (!first && is_paced(t, ops))
        queue->submissions[queue->n - 1].pace |= AH_PACE_ENDS;
    if (ret_ticket)
        *ret_ticket = queue->last[ops->lane];
    return AH_OK;
}

struct ops_of_item ah_queue_extra(const struct ah_trainer *t, enum ah_bind_extra extra, uint32_t lane)
{
    const uint32_t *first = &t->bound.first[t->graph.n_items + (size_t)extra];
    return (struct ops_of_item){first[0], first[1], lane, true, UINT64_MAX};
}
