/* SPDX-License-Identifier: Apache-2.0
 *
 * Bind: binds the items of the plan one by one, then the extras.
 */
#include "runtime/train/bind_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- shared by all parts ---- */

struct ah_bound_op *ah_bind_push(struct ah_binder *binder, enum ah_op_kind kind)
{
    struct ah_bound *bound = binder->bound;
    if (bound->n_ops == bound->room) {
        size_t room = bound->room * 2 + 256;
        struct ah_bound_op *ops = realloc(bound->ops, room * sizeof *ops);
        if (!ops) {
            ah_error_memory(binder->err);
            return NULL;
        }
        bound->ops = ops;
        bound->room = room;
    }
    struct ah_bound_op *op = &bound->ops[bound->n_ops++];
    *op = (struct ah_bound_op){.op.kind = kind};
    return op;
}

int ah_bind_copy(struct ah_binder *binder, struct ah_ref dst, uint8_t dst_move, struct ah_ref src,
                 uint8_t src_move, uint64_t bytes)
{
    struct ah_bound_op *bound = ah_bind_push(binder, AH_OP_COPY);
    if (!bound)
        return AH_E_MEMORY;
    bound->op.arg[0] = dst;
    bound->op.arg[1] = src;
    bound->move[0] = dst_move;
    bound->move[1] = src_move;
    bound->op.u.copy.bytes = bytes;
    return AH_OK;
}

int ah_bind_elements(struct ah_binder *binder, enum ah_op_kind kind, struct ah_ref dst, struct ah_ref src,
                     uint8_t src_move, uint64_t count)
{
    struct ah_bound_op *bound = ah_bind_push(binder, kind);
    if (!bound)
        return AH_E_MEMORY;
    bound->learns = true;
    bound->op.arg[0] = dst;
    bound->op.arg[1] = src;
    bound->move[1] = src_move;
    bound->op.u.elements.count = count;
    return AH_OK;
}

int ah_bind_squares(struct ah_binder *binder, struct ah_ref sums, uint64_t block, struct ah_ref src,
                    struct ah_stretch part)
{
    struct ah_bound_op *bound = ah_bind_push(binder, AH_OP_SUM_SQUARES);
    if (!bound)
        return AH_E_MEMORY;
    bound->learns = true;
    bound->op.arg[0] = sums;
    bound->op.arg[0].offset_bytes += block * sizeof(double);
    bound->op.arg[1] = src;
    bound->op.u.sum = (struct ah_op_sum){
        .count = part.end - part.first, .first_element = part.first, .accumulate = part.first > 0};
    return AH_OK;
}

bool ah_bind_sums_on(const struct ah_binder *binder, uint64_t block, enum ah_accumulator where)
{
    return binder->job->adds_up && binder->plan->blocks[block].accumulator == where;
}

/* Finds a tensor of `elements` numbers. */
static int find_numbers(const struct ah_binder *binder, const struct ah_addresses_query *of,
                        uint64_t elements, enum ah_dtype dtype, struct ah_ref *ret_ref)
{
    struct ah_addresses_query query = *of;
    query.bytes = elements * ah_dtype_bytes(dtype);
    int rc = ah_addresses_find(binder->addresses, &query, ret_ref, binder->err);
    ret_ref->dtype = dtype;
    return rc;
}

static int find_gradient(const struct ah_binder *binder, enum ah_tensor_label label, uint64_t block,
                         uint64_t micro_batch, uint64_t position, enum ah_dtype dtype, struct ah_ref *ret_ref)
{
    const struct ah_addresses_query query = {
        .label = label, .block = block, .micro_batch = micro_batch, .position = position};
    return find_numbers(binder, &query, binder->addresses->blocks[block].group->trained_elements, dtype,
                        ret_ref);
}

int ah_bind_gradient(const struct ah_binder *binder, uint64_t block, uint64_t micro_batch, uint64_t position,
                     struct ah_ref *ret_ref)
{
    return find_gradient(binder, AH_TENSOR_GRADIENT, block, micro_batch, position,
                         binder->plan->training.dtype, ret_ref);
}

int ah_bind_gradient_sum(const struct ah_binder *binder, uint64_t block, uint64_t position,
                         struct ah_ref *ret_ref)
{
    return find_gradient(binder, AH_TENSOR_SUM, block, AH_ADDRESSES_ANY, position, AH_FP32, ret_ref);
}

int ah_bind_group_sum(const struct ah_binder *binder, uint64_t block, uint64_t position,
                      struct ah_ref *ret_ref)
{
    return find_gradient(binder, AH_TENSOR_GROUP_SUM, block, AH_ADDRESSES_ANY, position, AH_FP32, ret_ref);
}

int ah_bind_own_sum(const struct ah_binder *binder, uint64_t block, uint64_t position, struct ah_ref *ret_ref)
{
    const struct ah_addresses_query query = {
        .label = AH_TENSOR_SUM, .block = block, .micro_batch = AH_ADDRESSES_ANY, .position = position};
    return find_numbers(binder, &query, binder->addresses->blocks[block].group->own_trained_elements, AH_FP32,
                        ret_ref);
}

int ah_bind_add(struct ah_binder *binder, const struct ah_bind_sums *sums, struct ah_fold fold)
{
    int rc = ah_bind_elements(binder, fold.opens ? AH_OP_CAST : AH_OP_ACCUMULATE,
                              fold.separate ? sums->separate : sums->total, sums->gradient,
                              sums->gradient_move, sums->elements);
    if (rc || !fold.closes)
        return rc;
    return ah_bind_elements(binder, AH_OP_ACCUMULATE, sums->total, sums->separate, AH_OFFSET_NONE,
                            sums->elements);
}

/* True if fetched weights are for the block of the compute op at `position`. If ranks share states, a table may be
 * there twice at a time, once for the embedding and once for the head. A tensor ends with its last use. */
static bool is_fetched_for(const struct ah_plan *plan, const struct ah_plan_tensor *tensor, uint64_t position)
{
    return ah_plan_compute_op(plan, tensor->to)->block == ah_plan_compute_op(plan, position)->block;
}

int ah_bind_fetched(const struct ah_binder *binder, uint64_t block, uint64_t position, uint64_t bytes,
                    struct ah_ref *ret_ref)
{
    const struct ah_plan_arena *arena = &binder->plan->arena;
    const size_t chain = AH_TENSOR_FETCHED * binder->plan->n_blocks + block;
    for (uint32_t i = binder->addresses->first_tensor[chain]; i != UINT32_MAX;
         i = binder->addresses->next_tensor[i]) {
        const struct ah_plan_tensor *tensor = &arena->tensors[i];
        if (tensor->bytes != bytes || !ah_addresses_lives_at(tensor, position) ||
            !is_fetched_for(binder->plan, tensor, position))
            continue;
        *ret_ref =
            (struct ah_ref){.arena = AH_ARENA_DEVICE, .dtype = AH_FP32, .offset_bytes = tensor->offset_bytes};
        return AH_OK;
    }
    const struct ah_addresses_query none = {.label = AH_TENSOR_FETCHED,
                                            .block = block,
                                            .micro_batch = AH_ADDRESSES_ANY,
                                            .position = position,
                                            .bytes = UINT64_MAX};
    return ah_addresses_find(binder->addresses, &none, ret_ref, binder->err);
}

/* ---- extras ---- */

static struct ah_ref moved(struct ah_ref ref, uint64_t bytes)
{
    ref.offset_bytes += bytes;
    return ref;
}

static int bind_header(struct ah_binder *b)
{
    return ah_bind_copy(b, b->addresses->device_headers, AH_OFFSET_HEADER, b->addresses->headers,
                        AH_OFFSET_STAGING_HEADER, AH_HEADER_SENT);
}

static int bind_load(struct ah_binder *b)
{
    return ah_bind_copy(b, b->addresses->words, AH_OFFSET_WORDS, b->addresses->staging, AH_OFFSET_STAGING,
                        b->addresses->stride[AH_OFFSET_WORDS]);
}

/* Binds copies of sums of squares to the host, one for each run of blocks whose squares the device sums. */
static int bind_sums(struct ah_binder *b)
{
    int rc = AH_OK;
    for (size_t i = 0, end; i < b->plan->n_blocks && !rc; i = end + 1) {
        for (end = i; end < b->plan->n_blocks && ah_bind_counted(b, end).end &&
                      !ah_bind_sums_on(b, end, AH_ACCUMULATOR_HOST);)
            end++;
        if (end > i)
            rc = ah_bind_copy(b, moved(b->addresses->sums, (b->job->part.first_block + i) * sizeof(double)),
                              AH_OFFSET_NONE, moved(b->addresses->device_sums, i * sizeof(double)),
                              AH_OFFSET_NONE, (end - i) * sizeof(double));
    }
    return rc;
}

static int bind_loss(struct ah_binder *b)
{
    return ah_bind_copy(b, moved(b->addresses->headers, AH_HEADER_LOSS), AH_OFFSET_STAGING_HEADER,
                        moved(b->addresses->device_headers, AH_HEADER_LOSS), AH_OFFSET_HEADER,
                        b->plan->training.micro_batches * sizeof(double));
}

/* ---- messages ---- */

int ah_bind_message(struct ah_binder *b, enum ah_channel channel, uint64_t micro_batch)
{
    const struct ah_message *message = &b->options->messages->of[channel][micro_batch];
    const bool arrives = channel == AH_CHANNEL_OUTPUT_IN || channel == AH_CHANNEL_GRADIENT_IN;
    struct ah_bound_op *bound = ah_bind_push(b, arrives ? AH_OP_RECEIVE : AH_OP_SEND);
    if (!bound)
        return AH_E_MEMORY;
    bound->op.u.message = b->options->message;
    bound->op.u.message.channel = channel;
    bound->op.u.message.bytes = message->bytes;
    if (message->bytes)
        bound->op.arg[0] = (struct ah_ref){
            .arena = AH_ARENA_DEVICE, .offset_bytes = b->plan->arena.tensors[message->tensor].offset_bytes};
    return AH_OK;
}

static int bind_received(struct ah_binder *b)
{
    static const enum ah_channel channels[] = {AH_CHANNEL_OUTPUT_IN, AH_CHANNEL_GRADIENT_IN};
    const struct ah_messages *messages = b->options->messages;
    int rc = AH_OK;
    for (size_t c = 0; messages && c < sizeof channels / sizeof *channels; c++)
        for (uint64_t m = 0; m < messages->micro_batches && !rc; m++) {
            b->bound->first[ah_bind_received(b->graph, messages, channels[c], m)] = (uint32_t)b->bound->n_ops;
            rc = messages->of[channels[c]] ? ah_bind_message(b, channels[c], m) : AH_OK;
        }
    return rc;
}

/* ---- the whole plan ---- */

static int bind_items(struct ah_binder *b)
{
    const struct ah_graph *graph = b->graph;
    int rc = AH_OK;
    for (uint32_t i = 0; i < graph->n_items && !rc; i++) {
        const struct ah_graph_item *item = &graph->items[i];
        enum ah_plan_op_kind kind = b->plan->ops[item->op].op;
        b->bound->first[i] = (uint32_t)b->bound->n_ops;
        const bool pass = kind == AH_PLAN_FORWARD || kind == AH_PLAN_BACKWARD;
        rc = pass                             ? ah_bind_pass(b, item, i)
             : item->lane == AH_PLAN_LANE_NET ? ah_bind_net(b, item)
                                              : ah_bind_tile(b, item);
        if (rc)
            rc = ah_error_prefix(b->err, rc, "ops[%u] '%s'", item->op, ah_words_plan_op[kind]);
    }
    return rc;
}

int ah_bind(struct ah_bound *ret_bound, const struct ah_bind_options *options, struct ah_error *err)
{
    static int (*const extras[AH_EXTRAS])(struct ah_binder *) = {[AH_EXTRA_HEADER] = bind_header,
                                                                 [AH_EXTRA_LOAD] = bind_load,
                                                                 [AH_EXTRA_SUMS] = bind_sums,
                                                                 [AH_EXTRA_LOSS] = bind_loss};
    struct ah_bound bound = {0};
    struct ah_binder b = {.plan = options->addresses->plan,
                          .job = options->addresses->job,
                          .addresses = options->addresses,
                          .graph = options->graph,
                          .options = options,
                          .documents = options->documents,
                          .bound = &bound,
                          .err = err};
    const size_t received = options->messages ? 2 * options->messages->micro_batches : 0;
    const size_t shares = options->rank ? options->rank->n_shares : 0;
    const size_t end = options->graph->n_items + AH_EXTRAS + received + shares;
    bound.first = calloc(end + 1, sizeof *bound.first);
    int rc = bound.first ? bind_items(&b) : ah_error_memory(err);
    for (size_t i = 0; i < AH_EXTRAS && !rc; i++) {
        bound.first[options->graph->n_items + i] = (uint32_t)bound.n_ops;
        rc = extras[i](&b);
    }
    rc = rc ? rc : bind_received(&b);
    for (size_t share = 0; share < shares && !rc; share++) {
        bound.first[end - shares + share] = (uint32_t)bound.n_ops;
        rc = ah_bind_share_ops(&b, share);
    }
    if (!rc)
        bound.first[end] = (uint32_t)bound.n_ops;
    if (rc)
        ah_bound_release(&bound);
    else
        *ret_bound = bound;
    return rc;
}

int ah_bind_check(const struct ah_bound *bound, const struct ah_addresses *addresses, struct ah_error *err)
{
    int rc = AH_OK;
    for (size_t i = 0; i < bound->n_ops && !rc; i++)
        rc = ah_op_check(&bound->ops[i].op, addresses->arena_bytes, err);
    return rc;
}

void ah_bound_release(struct ah_bound *bound)
{
    free(bound->ops);
    free(bound->first);
    *bound = (struct ah_bound){0};
}
