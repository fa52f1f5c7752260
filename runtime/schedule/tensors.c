/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors: makes the tensors that compute needs on the device, with their lifetimes, the persistent tensors there, and
 * the memory of the host.
 *
 * 1. The lifetime of a block's input lasts from the op that makes it to the block's backward or, without one, its
 *    forward. Saved tensors live from forward to backward. So the lifetimes nest and form a stack. In block-major
 *    order, the micro-batches of a block are one tensor. A message may arrive at a stage from the moment at which its
 *    sender can send it. Let the stage have w forwards ahead of its backwards (turns.h). The input of micro-batch j
 *    arrives after the gradient of j - w - 2 was sent. The gradient of j arrives after the output of j + w - 1 was sent
 *    and the gradient of j - 2 was used. A stage's output lives until it is sent.
 * 2. Scratch lives at one position.
 * 3. Host memory that the link touches is pinned (weights, streamed states, tiles or vectors in flight). Other memory
 *    is pageable (states of host Adam, sums of gradients).
 */
#include "runtime/schedule/compile_internal.h"
#include "runtime/schedule/turns.h"

/* ---- activations ---- */

struct part {
    size_t first, last; /* first and last micro-batch of one tensor */
};

/* How many gradients may have arrived at a stage that has not used them yet; the sender of another one waits. */
enum { WAITING = 2 };

/* Returns the first position at which the input sent by the previous stage may arrive (rule 1). */
static uint32_t input_arrives(const struct compile *c, size_t micro_batch)
{
    size_t behind = ah_turn_ahead(c->job->part.stage, c->job->part.stages, c->micro_batches) + 2;
    return micro_batch >= behind ? ah_compile_send(c, AH_PLAN_SEND_INPUT_GRADIENT, micro_batch - behind) : 0;
}

/* Returns the position of the last reader of a micro-batch's residual gradient: its send, or the lowest backward. */
static uint32_t residual_ends(const struct compile *c, size_t micro_batch)
{
    if (ah_compile_sends_gradient(c) && ah_job_block(c->job, 0)->input_gradient)
        return ah_compile_send(c, AH_PLAN_SEND_INPUT_GRADIENT, micro_batch);
    return ah_job_is_head(c->job, c->job->lowest) ? ah_compile_forward(c, c->job->lowest, micro_batch)
                                                  : ah_compile_backward(c, c->job->lowest, micro_batch);
}

static uint32_t gradient_arrives(const struct compile *c, size_t micro_batch)
{
    size_t ahead = ah_turn_ahead(c->job->part.stage, c->job->part.stages, c->micro_batches);
    size_t last = micro_batch + ahead - 1;
    uint32_t sent =
        ah_compile_send(c, AH_PLAN_SEND_OUTPUT, last < c->micro_batches ? last : c->micro_batches - 1);
    uint32_t taken = micro_batch >= WAITING ? residual_ends(c, micro_batch - WAITING) : 0;
    return sent > taken ? sent : taken;
}

static uint32_t made_by(const struct compile *c, size_t block, size_t micro_batch)
{
    return block ? ah_compile_forward(c, block - 1, micro_batch) : input_arrives(c, micro_batch);
}

static uint32_t last_reader(const struct compile *c, size_t block, size_t micro_batch)
{
    uint32_t backward = ah_compile_backward(c, block, micro_batch);
    return backward == COMPILE_NONE ? ah_compile_forward(c, block, micro_batch) : backward;
}

/* True if tensors are freed in the reverse order of being made, which forwards ahead of backwards prevent. */
static bool nests(const struct compile *c)
{
    return !c->job->is_part;
}

static void stack_block(struct compile *c, size_t block, struct part part)
{
    const struct ah_job_group *group = ah_job_block(c->job, block);
    uint64_t times = part.last - part.first + 1;
    bool backward = ah_compile_backward(c, block, part.first) != COMPILE_NONE;
    if (group->input_bytes) {
        ah_compile_tensor(c, AH_TENSOR_INPUT, AH_CLASS_ACTIVATIONS, block, part.first,
                          group->input_bytes * times, made_by(c, block, part.first),
                          last_reader(c, block, part.last));
        c->tensors[c->n_tensors - 1].stacked = backward && nests(c);
    }
    uint64_t saved = group->saved_bytes[c->configs[block].activations] * times;
    if (!saved || !backward)
        return;
    ah_compile_tensor(c, AH_TENSOR_SAVED, AH_CLASS_ACTIVATIONS, block, part.first, saved,
                      ah_compile_forward(c, block, part.first), ah_compile_backward(c, block, part.last));
    c->tensors[c->n_tensors - 1].stacked = nests(c);
}

static void activations(struct compile *c)
{
    bool by_block = c->knobs->micro_order == AH_BLOCK_MAJOR;
    size_t parts = by_block ? 1 : c->micro_batches;
    for (size_t p = 0; p < parts; p++)
        for (size_t block = 0; block < c->n_blocks; block++)
            stack_block(c, block, by_block ? (struct part){0, c->micro_batches - 1} : (struct part){p, p});
}

/* Adds the residual gradient. Its lifetime begins at the head, or at its arrival, and ends at its last reader. */
static void residual_gradient(struct compile *c)
{
    size_t top = c->n_blocks - 1, n = c->micro_batches;
    bool by_block = c->knobs->micro_order == AH_BLOCK_MAJOR;
    for (size_t m = 0; m < (by_block ? 1 : n) && c->job->lowest < c->n_blocks; m++)
        ah_compile_tensor(c, AH_TENSOR_RESIDUAL_GRADIENT, AH_CLASS_ACTIVATIONS, top, m,
                          c->job->residual_bytes * (by_block ? n : 1),
                          c->job->has_head ? ah_compile_forward(c, top, m) : gradient_arrives(c, m),
                          residual_ends(c, by_block ? n - 1 : m));
}

static void outputs(struct compile *c)
{
    for (size_t m = 0; m < c->micro_batches && ah_compile_sends_output(c); m++)
        ah_compile_tensor(c, AH_TENSOR_OUTPUT, AH_CLASS_ACTIVATIONS, c->n_blocks - 1, m,
                          c->job->residual_bytes, ah_compile_forward(c, c->n_blocks - 1, m),
                          ah_compile_send(c, AH_PLAN_SEND_OUTPUT, m));
}

static void scratch(struct compile *c)
{
    for (uint32_t p = 0; p < c->n_compute; p++) {
        const struct ah_plan_op *op = &c->ops[c->compute[p]];
        const struct ah_job_group *group = ah_job_block(c->job, op->block);
        enum ah_activations activations = c->configs[op->block].activations;
        uint64_t bytes = op->op == AH_PLAN_FORWARD    ? group->forward_work_bytes[activations]
                         : op->op == AH_PLAN_BACKWARD ? group->backward_work_bytes[activations]
                                                      : 0;
        ah_compile_tensor(c, AH_TENSOR_SCRATCH, AH_CLASS_WORKSPACE, op->block, op->micro_batch, bytes, p, p);
    }
}

/* ---- persistent tensors ---- */

static void persistent(struct compile *c, enum ah_tensor_label label, enum ah_layout_class layout_class,
                       size_t block, uint64_t bytes)
{
    if (!bytes)
        return;
    ah_compile_tensor(c, label, layout_class, block, 0, bytes, 0, (uint32_t)c->n_compute - 1);
    c->tensors[c->n_tensors - 1].persistent = true;
}

static void state_ring(struct compile *c)
{
    uint64_t tiles = 0, element_bytes = 0;
    for (size_t block = c->job->lowest; block < c->n_blocks; block++) {
        if (c->configs[block].optimizer != AH_OPTIMIZER_STREAMED)
            continue;
        uint64_t in = ah_compile_states_in_bytes(c, block), out = ah_compile_states_out_bytes(c, block);
        uint64_t bytes = in > out ? in : out;
        tiles += c->ops[c->update_op[block]].tiles;
        element_bytes = bytes > element_bytes ? bytes : element_bytes;
    }
    uint64_t slots = c->knobs->device_state_tiles < tiles ? c->knobs->device_state_tiles : tiles;
    c->out->staging.device_state_tiles = slots;
    persistent(c, AH_TENSOR_STATE_RING, AH_CLASS_STAGING, 0, slots * c->knobs->tile_elements * element_bytes);
}

static void stays(struct compile *c)
{
    for (size_t block = 0; block < c->n_blocks; block++) {
        const struct ah_job_group *group = ah_job_block(c->job, block);
        const struct ah_config *config = &c->configs[block];
        if (config->weights == AH_WEIGHTS_DEVICE)
            persistent(c, AH_TENSOR_WEIGHTS, AH_CLASS_WEIGHTS, block,
                       group->flat_elements * c->job->weight_bytes);
        if (config->weights == AH_WEIGHTS_GATHERED)
            persistent(c, AH_TENSOR_WEIGHTS, AH_CLASS_WEIGHTS, block,
                       group->own_flat_elements * c->job->weight_bytes);
        if (config->optimizer == AH_OPTIMIZER_DEVICE)
            persistent(c, AH_TENSOR_STATES, AH_CLASS_OPTIMIZER, block,
                       group->own_trained_elements * c->job->state_bytes);
    }
    state_ring(c);
    persistent(c, AH_TENSOR_TOKENS, AH_CLASS_STAGING, 0, 2 * c->job->input_bytes + c->job->constant_bytes);
}

void ah_compile_tensors(struct compile *c)
{
    stays(c);
    activations(c);
    residual_gradient(c);
    outputs(c);
    scratch(c);
}

/* ---- host ---- */

/* Adds a ring's pinned bytes. Returns `slots`, or 0 if there is no ring or whole vectors need no more memory. */
static uint64_t ring(struct compile *c, uint64_t slots, uint64_t tiles, uint64_t element_bytes,
                     uint64_t whole_bytes)
{
    if (!slots || slots >= tiles) {
        c->out->pinned_bytes += whole_bytes;
        return 0;
    }
    c->out->pinned_bytes += slots * c->knobs->tile_elements * element_bytes;
    return slots;
}

/* The tiles that use a ring in an iteration, and the bytes of all vectors if they were whole. */
struct flow {
    uint64_t tiles, element_bytes, whole_bytes;
};

static void flow_add(const struct compile *c, struct flow *flow, uint64_t elements, uint64_t element_bytes)
{
    flow->tiles += ah_compile_tiles(c, elements);
    flow->whole_bytes += elements * element_bytes;
    flow->element_bytes = element_bytes > flow->element_bytes ? element_bytes : flow->element_bytes;
}

static void host_block(struct compile *c, size_t block, struct flow *gradients, struct flow *weights)
{
    const struct ah_job *job = c->job;
    const struct ah_job_group *group = ah_job_block(job, block);
    const struct ah_config *config = &c->configs[block];
    bool on_host = config->weights == AH_WEIGHTS_HOST;
    if (on_host)
        c->out->pinned_bytes += group->own_flat_elements * job->weight_bytes +
                                (ah_job_shards(job) > 1 ? 0 : group->gathered_bytes);
    if (config->optimizer == AH_OPTIMIZER_STREAMED)
        c->out->pinned_bytes += group->own_trained_elements * job->state_bytes;
    if (config->optimizer != AH_OPTIMIZER_HOST)
        return;
    uint64_t master = job->training.dtype == AH_FP32 && !on_host ? sizeof(float) : 0;
    bool sums = ah_compile_sums_on(c, block, AH_ACCUMULATOR_HOST);
    bool device_sums = ah_compile_sums_on(c, block, AH_ACCUMULATOR_DEVICE);
    c->out->pageable_bytes += group->own_trained_elements *
                              (job->state_bytes + master + (sums ? ah_fold_bytes(&job->training) : 0));
    flow_add(c, gradients, group->own_trained_elements, device_sums ? sizeof(float) : job->gradient_bytes);
    if (!on_host)
        flow_add(c, weights, group->own_trained_elements, job->weight_bytes);
}

/* False if a ring of gradients would deadlock: only updates free its slots, and updates wait for all gradients. */
static bool gradients_flow(const struct compile *c)
{
    if (!c->late_updates)
        return true;
    for (size_t block = c->job->lowest; block < c->n_blocks; block++)
        if (c->configs[block].optimizer == AH_OPTIMIZER_HOST && !ah_compile_added_up_first(c, block) &&
            !ah_compile_sums_on(c, block, AH_ACCUMULATOR_HOST))
            return false;
    return true;
}

void ah_compile_host(struct compile *c)
{
    struct flow gradients = {0}, weights = {0};
    for (size_t block = 0; block < c->n_blocks; block++)
        host_block(c, block, &gradients, &weights);
    uint64_t slots = gradients_flow(c) ? c->knobs->host_gradient_tiles : 0;
    c->out->staging.host_gradient_tiles =
        ring(c, slots, gradients.tiles, gradients.element_bytes, gradients.whole_bytes);
    c->out->staging.host_weight_tiles =
        ring(c, c->knobs->host_weight_tiles, weights.tiles, weights.element_bytes, weights.whole_bytes);
    c->out->staging.tile_elements = c->knobs->tile_elements;
}
