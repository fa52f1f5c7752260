/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes: makes the ops of the lanes other than compute, with the positions between which each runs, and its memory.
 *
 * 1. The lifetime of an op's destination on the device begins at the position after `issue_after`. That of a gradient
 *    to send ends at the position before `due_before`.
 * 2. New weights of a block are due at its first forward. Ops that use new weights are not issued before their update.
 * 3. In a part, gradients are added up on the device after all passes and only then sent. If the weights are on the
 *    host, each gradient is sent when it is made, and gradients are added up on the host.
 * 4. Weights on the host are fetched for each use. They stay on the device if the fetch would be issued at the previous
 *    use or earlier.
 * 5. If ranks share states, each micro-batch's gradient is scattered: each rank receives its part of all ranks'
 *    gradients and adds them to its part of the sum. Weights on the device are gathered after each update. Those that
 *    are `gathered` or on the host are gathered for each use, the latter from each rank's own fetch. What is received
 *    or summed lives from the op that makes the gradient, because a scatter may run wholly before the next position.
 */
#include "runtime/schedule/compile_internal.h"

static struct ah_plan_op *lane_op(struct compile *c, enum ah_plan_op_kind kind, enum ah_plan_lane lane,
                                  size_t block, uint32_t issue_after, uint32_t due_before)
{
    struct ah_plan_op *op = &c->ops[ah_compile_op(c, kind, lane, block, 0)];
    op->issue_after = issue_after;
    op->due_before = due_before;
    return op;
}

/* Sets the bytes, tiles and time of an op that sends the rank's own elements to all other ranks. */
static void all_gathers(const struct compile *c, struct ah_plan_op *op, uint64_t elements)
{
    op->bytes = (ah_job_shards(c->job) - 1) * elements * c->job->weight_bytes;
    op->tiles = ah_compile_tiles(c, elements);
    op->us = (double)op->tiles * c->costs->net_latency_us + (double)op->bytes * c->costs->net_us_per_byte;
}

/* Sets the bytes, tiles and time of an op of a copy lane. */
static void copies(const struct compile *c, struct ah_plan_op *op, uint64_t bytes, uint64_t elements)
{
    bool up = op->lane == AH_PLAN_LANE_H2D;
    op->bytes = bytes;
    op->tiles = ah_compile_tiles(c, elements);
    op->us = (double)op->tiles * (up ? c->costs->h2d_latency_us : c->costs->d2h_latency_us) +
             (double)bytes * (up ? c->costs->h2d_us_per_byte : c->costs->d2h_us_per_byte);
}

/* Returns the position of the compute op that the block's update waits for. */
static uint32_t update_position(const struct compile *c, size_t block)
{
    if (c->update_op[block] != COMPILE_NONE)
        return c->last_position[c->update_op[block]];
    return c->late_updates ? c->last_gradient_position : ah_compile_gradient(c, block, c->micro_batches - 1);
}

/* Returns the position at which the block's new weights must be ready. */
static uint32_t update_due(const struct compile *c, size_t block)
{
    return c->knobs->step_ends ? 0 : ah_compile_forward(c, block, 0);
}

/* ---- weights on the host ---- */

/* Returns the position after which a fetch for position `use` is issued, which is never before `after`. */
static uint32_t fetch_issue(const struct compile *c, uint32_t use, uint32_t after)
{
    uint32_t most = ah_compile_distance(c, after, use);
    uint32_t ahead = c->knobs->fetch_ahead < most ? c->knobs->fetch_ahead + 1 : most;
    return ah_compile_before(c, use, ahead);
}

struct uses {
    uint32_t first, last; /* first and last use of weights from the current fetch */
    size_t micro_batch;   /* of `first` */
    bool open;
};

static void fetch_close(struct compile *c, struct uses *uses, size_t block, uint32_t after)
{
    if (!uses->open)
        return;
    const struct ah_job_group *group = ah_job_block(c->job, block);
    uint64_t bytes = group->flat_elements * c->job->weight_bytes;
    uint32_t issue = fetch_issue(c, uses->first, after);
    if (c->configs[block].weights == AH_WEIGHTS_HOST) {
        struct ah_plan_op *op = lane_op(c, AH_PLAN_FETCH, AH_PLAN_LANE_H2D, block, issue, uses->first);
        op->micro_batch = uses->micro_batch;
        copies(c, op, group->own_flat_elements * c->job->weight_bytes, group->own_flat_elements);
    }
    if (ah_job_shards(c->job) > 1) {
        struct ah_plan_op *op = lane_op(c, AH_PLAN_ALL_GATHER, AH_PLAN_LANE_NET, block, issue, uses->first);
        op->micro_batch = uses->micro_batch;
        all_gathers(c, op, group->own_flat_elements);
    }
    ah_compile_tensor(c, AH_TENSOR_FETCHED, AH_CLASS_STAGING, block, uses->micro_batch, bytes,
                      ah_compile_after(c, issue, 1), uses->last);
    uses->open = false;
}

/* Adds a use at `position`. Uses must be added in ascending order. */
static void fetch_use(struct compile *c, struct uses *uses, size_t block, size_t micro_batch,
                      uint32_t position, uint32_t *after)
{
    if (uses->open && position - uses->last <= c->knobs->fetch_ahead + 1) {
        uses->last = position;
        return;
    }
    uint32_t last = uses->last;
    bool was_open = uses->open;
    fetch_close(c, uses, block, *after);
    if (was_open)
        *after = last;
    *uses = (struct uses){position, position, micro_batch, true};
}

static uint32_t last_use(const struct compile *c, size_t block)
{
    uint32_t backward = ah_compile_backward(c, block, c->micro_batches - 1);
    return backward == COMPILE_NONE ? ah_compile_forward(c, block, c->micro_batches - 1) : backward;
}

/* Returns the position that an iteration's first fetch must follow: the update's or, if frozen, the last use's. */
static uint32_t first_after(const struct compile *c, size_t block)
{
    return ah_compile_trained(c, block) ? update_position(c, block) : last_use(c, block);
}

static void fetch_layer(struct compile *c, size_t block)
{
    struct uses uses = {0};
    uint32_t after = first_after(c, block);
    size_t f = 0, b = 0, n = c->micro_batches;
    bool table = ah_job_block(c->job, block)->kind == AH_BLOCK_EMBEDDING; /* its backward does not read it */
    bool backward = ah_compile_backward(c, block, 0) != COMPILE_NONE && !table;
    while (f < n || (backward && b < n)) {
        uint32_t forward_at = f < n ? ah_compile_forward(c, block, f) : COMPILE_NONE;
        uint32_t backward_at = backward && b < n ? ah_compile_backward(c, block, b) : COMPILE_NONE;
        bool is_forward = forward_at < backward_at;
        fetch_use(c, &uses, block, is_forward ? f : b, is_forward ? forward_at : backward_at, &after);
        if (is_forward)
            f++;
        else
            b++;
    }
    fetch_close(c, &uses, block, after);
}

/* Adds the ops of each micro-batch that gather table rows on the host, and those that fetch the rows. */
static void gather_rows(struct compile *c, size_t block)
{
    const struct ah_job_group *group = ah_job_block(c->job, block);
    for (size_t m = 0; m < c->micro_batches; m++) {
        uint32_t use = ah_compile_forward(c, block, m);
        uint32_t after = m ? ah_compile_forward(c, block, m - 1) : first_after(c, block);
        uint32_t issue = fetch_issue(c, use, after);
        struct ah_plan_op *gather = lane_op(c, AH_PLAN_GATHER, AH_PLAN_LANE_HOST, block, issue, use);
        gather->micro_batch = m;
        gather->us = (double)group->gathered_bytes * c->costs->host_us_per_byte;
        struct ah_plan_op *fetch = lane_op(c, AH_PLAN_FETCH, AH_PLAN_LANE_H2D, block, issue, use);
        fetch->micro_batch = m;
        copies(c, fetch, group->gathered_bytes, 1);
        ah_compile_tensor(c, AH_TENSOR_FETCHED, AH_CLASS_STAGING, block, m, group->gathered_bytes,
                          ah_compile_after(c, issue, 1), use);
    }
}

/* Adds the ops that fetch a tied table from the host for the head. */
static void fetch_table(struct compile *c)
{
    struct uses uses = {0};
    size_t head = c->n_blocks - 1;
    uint32_t after = ah_compile_trained(c, 0) ? update_position(c, 0) : last_use(c, head);
    for (size_t m = 0; m < c->micro_batches; m++)
        fetch_use(c, &uses, 0, m, ah_compile_forward(c, head, m), &after);
    fetch_close(c, &uses, 0, after);
}

static void fetches(struct compile *c, size_t block)
{
    if (c->configs[block].weights == AH_WEIGHTS_DEVICE)
        return;
    if (ah_job_block(c->job, block)->kind != AH_BLOCK_EMBEDDING) {
        fetch_layer(c, block);
        return;
    }
    if (ah_job_shards(c->job) > 1)
        fetch_layer(c, block);
    else
        gather_rows(c, block);
    if (ah_job_shares_table(c->job))
        fetch_table(c);
}

/* ---- gradients ---- */

/* Returns the position before which a gradient made at position `made` must be copied to the host. */
static uint32_t send_due(const struct compile *c, size_t block, uint32_t made)
{
    uint32_t most = ah_compile_distance(c, made, ah_compile_forward(c, block, 0));
    uint32_t to_end = (uint32_t)c->n_compute - made;
    if (c->knobs->step_ends && to_end < most)
        most = to_end;
    uint32_t behind = c->knobs->send_behind < most ? c->knobs->send_behind + 1 : most;
    return ah_compile_after(c, made, behind);
}

/* Returns the first position that writes the gradient. For a tied table, that is the head's. */
static uint32_t gradient_begins(const struct compile *c, size_t block, size_t micro_batch)
{
    bool tied = !block && ah_job_shares_table(c->job);
    return tied ? ah_compile_forward(c, c->n_blocks - 1, micro_batch)
                : ah_compile_gradient(c, block, micro_batch);
}

static void send_gradients(struct compile *c, size_t block, size_t micro_batch, uint64_t element_bytes,
                           enum ah_tensor_label label, uint32_t from)
{
    const struct ah_job_group *group = ah_job_block(c->job, block);
    uint64_t bytes = group->own_trained_elements * element_bytes;
    uint32_t made = ah_compile_added_up_first(c, block) ? c->last_gradient_position
                                                        : ah_compile_gradient(c, block, micro_batch);
    uint32_t due = send_due(c, block, made);
    struct ah_plan_op *op = lane_op(c, AH_PLAN_SEND_GRADIENTS, AH_PLAN_LANE_D2H, block, made, due);
    op->micro_batch = micro_batch;
    copies(c, op, bytes, group->own_trained_elements);
    size_t first = label == AH_TENSOR_SUM ? 0 : micro_batch;
    ah_compile_tensor(c, label, AH_CLASS_GRADIENTS, block, first, bytes, from, ah_compile_before(c, due, 1));
}

static void accumulate(struct compile *c, size_t block, size_t micro_batch)
{
    const struct ah_job_group *group = ah_job_block(c->job, block);
    bool last = micro_batch + 1 == c->micro_batches;
    uint32_t made = ah_compile_gradient(c, block, micro_batch);
    struct ah_plan_op *op =
        lane_op(c, AH_PLAN_ACCUMULATE, AH_PLAN_LANE_HOST, block, made, update_due(c, block));
    op->micro_batch = micro_batch;
    op->tiles = ah_compile_tiles(c, group->trained_elements);
    bool closes = ah_fold_of(&c->job->training, micro_batch).closes;
    double adds = closes ? 1 + ah_fold_cost(c->job->gradient_bytes) : 1;
    op->us = (double)group->trained_parameters *
             (adds * c->costs->host_accumulate_us + (last && c->clip ? c->costs->host_squares_us : 0));
}

/* Adds tensors for each micro-batch's gradient, if it is added up on the device, and for separate sums of groups. */
static void gradient_parts(struct compile *c, size_t block)
{
    const uint64_t elements = ah_job_block(c->job, block)->trained_elements;
    for (size_t m = 0; m < c->micro_batches; m++) {
        const struct ah_fold fold = ah_fold_of(&c->job->training, m);
        ah_compile_tensor(c, AH_TENSOR_GRADIENT, AH_CLASS_GRADIENTS, block, m,
                          elements * c->job->gradient_bytes, gradient_begins(c, block, m),
                          ah_compile_gradient(c, block, m));
        if (fold.closes)
            ah_compile_tensor(c, AH_TENSOR_GROUP_SUM, AH_CLASS_GRADIENTS, block, fold.first,
                              elements * sizeof(float), ah_compile_gradient(c, block, fold.first),
                              ah_compile_gradient(c, block, m));
    }
}

/* Returns the position before which a gradient made at position `made` must be scattered: at the latest, its update. */
static uint32_t scatter_due(const struct compile *c, size_t block, uint32_t made)
{
    const uint32_t due = send_due(c, block, made);
    if (c->update_op[block] == COMPILE_NONE)
        return due;
    const uint32_t update = (uint32_t)c->ops[c->update_op[block]].position;
    return ah_compile_distance(c, made, update) < ah_compile_distance(c, made, due) ? update : due;
}

/* Adds the ops that scatter a block's gradients, with what they send, receive and sum. `ends`: last position at which
 * the sum is used. */
static void scatter(struct compile *c, size_t block, uint32_t ends)
{
    const struct ah_job_group *group = ah_job_block(c->job, block);
    const uint64_t others = ah_job_shards(c->job) - 1, own = group->own_trained_elements;
    const double parameters = (double)group->own_trained_parameters;
    for (size_t m = 0; m < c->micro_batches; m++) {
        const uint32_t made = ah_compile_gradient(c, block, m), due = scatter_due(c, block, made);
        const bool squares = c->clip && m + 1 == c->micro_batches;
        struct ah_plan_op *op = lane_op(c, AH_PLAN_SCATTER, AH_PLAN_LANE_NET, block, made, due);
        op->micro_batch = m;
        op->bytes = others * own * c->job->gradient_bytes;
        op->us = c->costs->net_latency_us + (double)op->bytes * c->costs->net_us_per_byte +
                 parameters * ((double)(others + 1) * c->costs->device_accumulate_us +
                               (squares ? c->costs->device_squares_us : 0));
        ah_compile_tensor(c, AH_TENSOR_GRADIENT, AH_CLASS_GRADIENTS, block, m,
                          group->trained_elements * c->job->gradient_bytes, gradient_begins(c, block, m),
                          ah_compile_before(c, due, 1));
        ah_compile_tensor(c, AH_TENSOR_RECEIVED, AH_CLASS_GRADIENTS, block, m, op->bytes, made,
                          ah_compile_before(c, due, 1));
    }
    ah_compile_tensor(c, AH_TENSOR_SUM, AH_CLASS_GRADIENTS, block, 0, own * sizeof(float),
                      ah_compile_gradient(c, block, 0), ends);
}

/* Adds the op that sends a rank's part of the sum to the host once all of it is there. */
static void send_own_sum(struct compile *c, size_t block)
{
    const struct ah_job_group *group = ah_job_block(c->job, block);
    const uint32_t made = ah_compile_gradient(c, block, c->micro_batches - 1), due = send_due(c, block, made);
    struct ah_plan_op *op = lane_op(c, AH_PLAN_SEND_GRADIENTS, AH_PLAN_LANE_D2H, block, made, due);
    op->micro_batch = c->micro_batches - 1;
    copies(c, op, group->own_trained_elements * sizeof(float), group->own_trained_elements);
    scatter(c, block, ah_compile_before(c, due, 1));
}

static void gradients(struct compile *c, size_t block)
{
    const struct ah_job_group *group = ah_job_block(c->job, block);
    bool device_sum = ah_compile_sums_on(c, block, AH_ACCUMULATOR_DEVICE);
    uint64_t element_bytes = device_sum ? sizeof(float) : c->job->gradient_bytes;
    enum ah_tensor_label label = device_sum ? AH_TENSOR_SUM : AH_TENSOR_GRADIENT;
    size_t last = c->micro_batches - 1;
    if (ah_job_shards(c->job) > 1) {
        if (c->configs[block].optimizer == AH_OPTIMIZER_HOST)
            send_own_sum(c, block);
        else
            scatter(c, block, c->last_position[c->update_op[block]]);
        return;
    }
    if (device_sum)
        gradient_parts(c, block);
    if (c->configs[block].optimizer != AH_OPTIMIZER_HOST) {
        ah_compile_tensor(c, label, AH_CLASS_GRADIENTS, block, 0, group->trained_elements * element_bytes,
                          gradient_begins(c, block, 0), c->last_position[c->update_op[block]]);
        return;
    }
    if (!ah_compile_sums_on(c, block, AH_ACCUMULATOR_HOST)) {
        send_gradients(c, block, last, element_bytes, label, gradient_begins(c, block, 0));
        return;
    }
    for (size_t m = 0; m <= last; m++) {
        send_gradients(c, block, m, element_bytes, label, gradient_begins(c, block, m));
        accumulate(c, block, m);
    }
}

/* ---- updates ---- */

static void host_update(struct compile *c, size_t block)
{
    const struct ah_job_group *group = ah_job_block(c->job, block);
    uint32_t issue = update_position(c, block);
    uint32_t due = update_due(c, block);
    struct ah_plan_op *adam = lane_op(c, AH_PLAN_HOST_ADAM, AH_PLAN_LANE_HOST, block, issue, due);
    adam->tiles = ah_compile_tiles(c, group->own_trained_elements);
    adam->us = (double)group->own_trained_parameters * c->costs->host_adam_us;
    if (c->configs[block].weights == AH_WEIGHTS_HOST)
        return;
    struct ah_plan_op *upload = lane_op(c, AH_PLAN_UPLOAD, AH_PLAN_LANE_H2D, block, issue, due);
    copies(c, upload, group->own_trained_elements * c->job->weight_bytes, group->own_trained_elements);
}

static void streamed_update(struct compile *c, size_t block)
{
    const struct ah_job_group *group = ah_job_block(c->job, block);
    uint32_t update = (uint32_t)c->ops[c->update_op[block]].position;
    struct ah_plan_op *in = lane_op(c, AH_PLAN_STATES_IN, AH_PLAN_LANE_H2D, block, c->head, update);
    copies(c, in, group->own_trained_elements * ah_compile_states_in_bytes(c, block),
           group->own_trained_elements);
    uint32_t due = c->knobs->step_ends ? 0 : update;
    struct ah_plan_op *out = lane_op(c, AH_PLAN_STATES_OUT, AH_PLAN_LANE_D2H, block, update, due);
    copies(c, out, group->own_trained_elements * ah_compile_states_out_bytes(c, block),
           group->own_trained_elements);
}

/* Adds the op that gathers a block's new weights on the device from all ranks. */
static void gather_updated(struct compile *c, size_t block)
{
    const struct ah_job_group *group = ah_job_block(c->job, block);
    struct ah_plan_op *op = lane_op(c, AH_PLAN_ALL_GATHER, AH_PLAN_LANE_NET, block, update_position(c, block),
                                    update_due(c, block));
    all_gathers(c, op, group->own_trained_elements);
}

static bool uses_new_weights(const struct compile *c, uint32_t position)
{
    const struct ah_plan_op *op = &c->ops[c->compute[position]];
    return op->op == AH_PLAN_DEVICE_ADAM || (op->op == AH_PLAN_FORWARD && ah_compile_trained(c, op->block));
}

static void norm(struct compile *c)
{
    uint32_t due = ah_compile_after(c, c->last_gradient_position, 1);
    while (!uses_new_weights(c, due))
        due = ah_compile_after(c, due, 1);
    lane_op(c, AH_PLAN_NORM, AH_PLAN_LANE_HOST, 0, c->last_gradient_position, due)->us = c->costs->norm_us;
}

void ah_compile_lanes(struct compile *c)
{
    for (size_t block = 0; block < c->n_blocks; block++) {
        fetches(c, block);
        if (!ah_compile_trained(c, block))
            continue;
        gradients(c, block);
        if (c->configs[block].optimizer == AH_OPTIMIZER_HOST)
            host_update(c, block);
        else if (c->configs[block].optimizer == AH_OPTIMIZER_STREAMED)
            streamed_update(c, block);
        if (ah_job_shards(c->job) > 1 && c->configs[block].weights == AH_WEIGHTS_DEVICE)
            gather_updated(c, block);
    }
    if (c->clip)
        norm(c);
}
