/* SPDX-License-Identifier: Apache-2.0
 *
 * Net: binds the ops of ranks that share states. Each sends to all others and receives from them (shards.h).
 *
 *     scatter      each part of a micro-batch's gradient to the rank that owns it. The owner adds up the parts of all
 *                  ranks, in their order. After the last micro-batch, the squares of the sum are added to those of the
 *                  ranks before: rank 0 begins, and the last rank has the sum of all.
 *     all_gather   a tile of each rank's part of the weights, to the place of its elements in the whole vector
 *
 * Rank r computes micro-batch j x ranks + r in round j. If the last round has fewer micro-batches than ranks, the
 * others compute one whose gradient nobody receives.
 *
 * All ranks move the same messages in the same order, so they cannot deadlock. Messages that move together have
 * different channels; a channel has at most one run of elements at a time.
 */
#include "runtime/train/bind_internal.h"
#include "runtime/train/shards.h"

struct net {
    struct ah_binder *binder;
    const struct ah_plan_op *op;
    const struct ah_addresses_block *block;
    uint32_t rank, ranks;
    size_t last_message; /* index of the last op of the messages that move together; SIZE_MAX: none yet */
};

static struct ah_ref moved(struct ah_ref ref, uint64_t elements, uint64_t element_bytes)
{
    ref.offset_bytes += elements * element_bytes;
    return ref;
}

/* ---- messages ---- */

static int message(struct net *net, uint32_t rank, enum ah_bind_sum sum, struct ah_ref ref, uint64_t bytes)
{
    const bool arrives = sum == AH_SUM_PARTIAL_IN || sum == AH_SUM_TOTAL_IN;
    struct ah_bound *all = net->binder->bound;
    struct ah_bound_op *bound = ah_bind_push(net->binder, arrives ? AH_OP_RECEIVE : AH_OP_SEND);
    if (!bound)
        return AH_E_MEMORY;
    if (net->last_message != SIZE_MAX)
        all->ops[net->last_message].op.u.message.more = true;
    net->last_message = all->n_ops - 1;
    bound->op.arg[0] = ref;
    bound->op.u.message = net->binder->options->message;
    bound->op.u.message.channel = ah_bind_sum_channel(rank, sum);
    bound->op.u.message.bytes = bytes;
    return AH_OK;
}

/* Ends the messages that move together. */
static void end_messages(struct net *net)
{
    net->last_message = SIZE_MAX;
}

/* ---- scatter ---- */

/* True if the rank computes a micro-batch in the op's round. */
static bool computes(const struct net *net, uint32_t rank)
{
    const struct ah_plan_training *training = &net->binder->plan->training;
    const uint64_t rows = training->batch / training->micro_batches;
    return net->op->micro_batch * net->ranks + rank < net->binder->options->rank->step_batch / rows;
}

static struct ah_stretch part_of(const struct net *net, uint32_t rank)
{
    return ah_flat_shard(net->block->group->trained_elements, net->ranks, rank);
}

struct scattered {
    struct ah_ref gradient, received, sum;
    uint64_t each; /* bytes of an element of the gradient */
    struct ah_stretch own;
};

static int find_scattered(const struct net *net, struct scattered *ret)
{
    const struct ah_binder *b = net->binder;
    const uint64_t own = net->block->group->own_trained_elements, m = net->op->micro_batch;
    const struct ah_addresses_query received = {.label = AH_TENSOR_RECEIVED,
                                                .block = net->op->block,
                                                .micro_batch = m,
                                                .position = net->op->issue_after,
                                                .bytes = (net->ranks - 1) * own * b->job->gradient_bytes};
    *ret = (struct scattered){.each = b->job->gradient_bytes, .own = part_of(net, net->rank)};
    int rc = ah_bind_gradient(b, net->op->block, m, net->op->issue_after, &ret->gradient);
    rc = rc ? rc : ah_bind_own_sum(b, net->op->block, net->op->issue_after, &ret->sum);
    rc = rc ? rc : ah_addresses_find(b->addresses, &received, &ret->received, b->err);
    ret->received.dtype = b->plan->training.dtype;
    return rc;
}

/* Returns where a rank's gradient of this rank's part is. */
static struct ah_ref gradient_of(const struct net *net, const struct scattered *s, uint32_t rank)
{
    const uint64_t own = net->block->group->own_trained_elements;
    return rank == net->rank ? moved(s->gradient, s->own.first, s->each)
                             : moved(s->received, (rank - (rank > net->rank)) * own, s->each);
}

static int exchange_parts(struct net *net, const struct scattered *s)
{
    const uint64_t own = s->own.end - s->own.first;
    int rc = AH_OK;
    for (uint32_t rank = 0; rank < net->ranks && !rc; rank++) {
        const struct ah_stretch theirs = part_of(net, rank);
        if (rank == net->rank)
            continue;
        if (computes(net, net->rank) && theirs.end > theirs.first)
            rc = message(net, rank, AH_SUM_PARTIAL_OUT, moved(s->gradient, theirs.first, s->each),
                         (theirs.end - theirs.first) * s->each);
        if (!rc && computes(net, rank) && own)
            rc = message(net, rank, AH_SUM_PARTIAL_IN, gradient_of(net, s, rank), own * s->each);
    }
    end_messages(net);
    return rc;
}

static int add_parts(struct net *net, const struct scattered *s)
{
    const uint64_t own = s->own.end - s->own.first;
    int rc = AH_OK;
    for (uint32_t rank = 0; rank < net->ranks && own && !rc; rank++) {
        const bool opens = !net->op->micro_batch && !rank;
        if (computes(net, rank))
            rc = ah_bind_elements(net->binder, opens ? AH_OP_CAST : AH_OP_ACCUMULATE, s->sum,
                                  gradient_of(net, s, rank), AH_OFFSET_NONE, own);
    }
    return rc;
}

/* Binds the sum of squares: from the rank before, with this rank's part, to the rank behind. */
static int sum_squares(struct net *net, const struct scattered *s)
{
    struct ah_binder *b = net->binder;
    const struct ah_ref sum = moved(b->addresses->device_sums, net->op->block, sizeof(double));
    int rc = AH_OK;
    if (net->rank)
        rc = message(net, net->rank - 1, AH_SUM_PARTIAL_IN, sum, sizeof(double));
    end_messages(net);
    if (!rc && s->own.end > s->own.first)
        rc = ah_bind_squares(b, b->addresses->device_sums, net->op->block, s->sum, s->own);
    if (!rc && net->rank + 1 < net->ranks)
        rc = message(net, net->rank + 1, AH_SUM_PARTIAL_OUT, sum, sizeof(double));
    end_messages(net);
    return rc;
}

static int bind_scatter(struct net *net)
{
    const struct ah_plan_training *training = &net->binder->plan->training;
    const bool last = net->op->micro_batch + 1 == training->micro_batches;
    struct scattered s;
    int rc = find_scattered(net, &s);
    rc = rc ? rc : exchange_parts(net, &s);
    rc = rc ? rc : add_parts(net, &s);
    return rc || !last || !(training->clip > 0) ? rc : sum_squares(net, &s);
}

/* ---- all_gather ---- */

/* Copies the rank's own elements from its part to the whole vector, unless a fetch has put them there. */
static int copy_own(struct net *net, struct ah_ref whole, const struct ah_shards_run *runs, size_t n)
{
    const struct ah_vector *from = &net->block->weights;
    const uint64_t each = net->binder->job->weight_bytes;
    int rc = AH_OK;
    for (size_t i = 0; i < n && net->block->plan->weights == AH_WEIGHTS_GATHERED && !rc; i++)
        rc = ah_bind_copy(net->binder, moved(whole, runs[i].full, each), AH_OFFSET_NONE,
                          moved(from->ref, runs[i].at, each), AH_OFFSET_NONE, runs[i].n * each);
    return rc;
}

struct gathered {
    struct ah_shards_run runs[AH_MODEL_TENSORS_MAX];
    size_t n;
};

/* Moves the k-th runs of all ranks. */
static int exchange_runs(struct net *net, struct ah_ref whole, const struct gathered *of_rank, size_t k)
{
    const struct gathered *own = &of_rank[net->rank];
    const uint64_t each = net->binder->job->weight_bytes;
    int rc = AH_OK;
    for (uint32_t rank = 0; rank < net->ranks && !rc; rank++) {
        const struct gathered *theirs = &of_rank[rank];
        if (rank == net->rank)
            continue;
        if (k < own->n)
            rc = message(net, rank, AH_SUM_TOTAL_OUT, moved(whole, own->runs[k].full, each),
                         own->runs[k].n * each);
        if (!rc && k < theirs->n)
            rc = message(net, rank, AH_SUM_TOTAL_IN, moved(whole, theirs->runs[k].full, each),
                         theirs->runs[k].n * each);
    }
    end_messages(net);
    return rc;
}

static int find_whole(const struct net *net, struct ah_ref *ret_whole)
{
    const uint64_t bytes = net->block->group->flat_elements * net->binder->job->weight_bytes;
    *ret_whole = net->block->weights.ref;
    if (net->block->plan->weights == AH_WEIGHTS_DEVICE)
        return AH_OK;
    return ah_bind_fetched(net->binder, net->op->block, net->op->due_before, bytes, ret_whole);
}

static int bind_all_gather(struct net *net, uint64_t tile)
{
    const struct ah_job_group *group = net->block->group;
    const uint64_t all = net->block->plan->weights == AH_WEIGHTS_DEVICE ? group->own_trained_elements
                                                                        : group->own_flat_elements;
    const uint64_t size = net->binder->plan->staging.tile_elements;
    const struct ah_stretch part = net->op->tiles > 1 ? (struct ah_stretch){tile * size, (tile + 1) * size}
                                                      : (struct ah_stretch){0, all};
    struct ah_arena arena = {0};
    struct gathered *of_rank = ah_arena_array(&arena, net->ranks, sizeof *of_rank);
    struct ah_ref whole;
    size_t most = 0;
    int rc = of_rank ? find_whole(net, &whole) : ah_error_memory(net->binder->err);
    for (uint32_t rank = 0; rank < net->ranks && !rc; rank++) {
        const struct ah_stretch some = {part.first, part.end < all ? part.end : all};
        of_rank[rank].n = ah_shards_runs(net->block, net->ranks, rank, some, of_rank[rank].runs);
        most = of_rank[rank].n > most ? of_rank[rank].n : most;
    }
    rc = rc ? rc : copy_own(net, whole, of_rank[net->rank].runs, of_rank[net->rank].n);
    for (size_t k = 0; k < most && !rc; k++)
        rc = exchange_runs(net, whole, of_rank, k);
    ah_arena_release(&arena);
    return rc;
}

int ah_bind_net(struct ah_binder *binder, const struct ah_graph_item *item)
{
    const struct ah_trainer_rank *place = binder->options->rank;
    struct net net = {.binder = binder,
                      .op = &binder->plan->ops[item->op],
                      .rank = place->rank,
                      .ranks = place->ranks,
                      .last_message = SIZE_MAX};
    net.block = &binder->addresses->blocks[net.op->block];
    return net.op->op == AH_PLAN_SCATTER ? bind_scatter(&net) : bind_all_gather(&net, item->tile);
}
