/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles: ops that move or update a vector, bound for the elements of a tile.
 *
 * Masters, moments and gradients have only trained elements; weights have all elements of a block. So a tile is several
 * runs if it has frozen tensors in between, or if only some tensors decay. Each run has an op or a copy.
 */
#include "runtime/train/bind_internal.h"
#include "runtime/train/shards.h"

#include <string.h>

struct tile {
    struct ah_binder *binder;
    const struct ah_plan_op *op;
    const struct ah_addresses_block *block;
    uint64_t index;
    struct ah_stretch part; /* the elements of the trained vector that form the tile */
};

struct ah_ref ah_bind_at(const struct ah_vector *vector, const struct ah_run_of_elements *run, uint64_t first)
{
    struct ah_ref ref = vector->ref;
    uint64_t element = vector->full ? run->full_first + (first - run->first) : first;
    ref.offset_bytes += (element - vector->base) * ah_dtype_bytes(ref.dtype);
    return ref;
}

static struct ah_stretch tile_part(const struct ah_binder *binder, uint64_t elements, uint64_t tile)
{
    uint64_t size = binder->plan->staging.tile_elements;
    uint64_t first = tile * size;
    return (struct ah_stretch){first, first + size < elements ? first + size : elements};
}

/* Finds the elements that are in both a run and a tile. Returns false if there are none. */
static bool common_part(const struct ah_run_of_elements *run, struct ah_stretch part,
                        struct ah_stretch *ret_part)
{
    *ret_part = (struct ah_stretch){run->first > part.first ? run->first : part.first,
                                    run->end < part.end ? run->end : part.end};
    return ret_part->first < ret_part->end;
}

/* Returns the vector as ops of a tile see it. In a ring, the vector's memory begins with the tile's first element. */
static struct ah_vector from_tile(struct ah_vector vector, const struct tile *tile)
{
    if (vector.move != AH_OFFSET_NONE)
        vector.base = tile->part.first;
    return vector;
}

static bool is_there(const struct ah_vector *vector)
{
    return vector->ref.arena != AH_ARENA_NONE;
}

/* Joins consecutive runs, from the i-th on, that are contiguous in both vectors, and advances `i` past them. Decay does
 * not matter to a copy, and each copy costs the link's latency. */
static struct ah_run_of_elements join_runs(const struct ah_addresses_block *block, size_t *i)
{
    struct ah_run_of_elements joined = block->runs[(*i)++];
    while (*i < block->n_runs && block->runs[*i].first == joined.end &&
           block->runs[*i].full_first - joined.full_first == block->runs[*i].first - joined.first)
        joined.end = block->runs[(*i)++].end;
    return joined;
}

static int copy_vectors(const struct tile *tile, const struct ah_vector *dst, const struct ah_vector *src)
{
    int rc = AH_OK;
    struct ah_stretch part;
    for (size_t i = 0; i < tile->block->n_runs && !rc;) {
        const struct ah_run_of_elements run = join_runs(tile->block, &i);
        if (common_part(&run, tile->part, &part))
            rc = ah_bind_copy(tile->binder, ah_bind_at(dst, &run, part.first), dst->move,
                              ah_bind_at(src, &run, part.first), src->move,
                              (part.end - part.first) * ah_dtype_bytes(src->ref.dtype));
    }
    return rc;
}

/* ---- states that visit the device ---- */

struct visit {
    struct ah_vector master, m, v, weight; /* in a slot of the ring; only the vectors that visit exist */
};

static struct ah_vector cut_visit(const struct tile *tile, enum ah_dtype dtype, uint64_t *offset_bytes)
{
    struct ah_ref ref = tile->binder->addresses->state_ring;
    ref.dtype = dtype;
    ref.offset_bytes += *offset_bytes;
    *offset_bytes += tile->binder->plan->staging.tile_elements * ah_dtype_bytes(dtype);
    return (struct ah_vector){.ref = ref, .move = AH_OFFSET_STATE_RING, .base = tile->part.first};
}

static struct visit visit_of(const struct tile *tile)
{
    const struct ah_plan_training *training = &tile->binder->plan->training;
    struct visit visit = {0};
    uint64_t offset = 0;
    if (training->dtype == AH_BF16)
        visit.master = cut_visit(tile, AH_FP32, &offset);
    visit.m = cut_visit(tile, training->state_dtype, &offset);
    visit.v = cut_visit(tile, training->state_dtype, &offset);
    if (tile->block->plan->weights == AH_WEIGHTS_HOST)
        visit.weight = cut_visit(tile, training->dtype, &offset);
    return visit;
}

static int bind_states(const struct tile *tile, bool in)
{
    const struct ah_addresses_block *block = tile->block;
    struct visit visit = visit_of(tile);
    bool weight = is_there(&visit.weight) && (!in || visit.weight.ref.dtype == AH_FP32);
    const struct {
        const struct ah_vector *there, *here;
        bool moves;
    } parts[] = {{&visit.master, &block->master, is_there(&visit.master)},
                 {&visit.m, &block->m, true},
                 {&visit.v, &block->v, true},
                 {&visit.weight, &block->weights, weight}};
    int rc = AH_OK;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !rc; i++)
        if (parts[i].moves)
            rc = copy_vectors(tile, in ? parts[i].there : parts[i].here, in ? parts[i].here : parts[i].there);
    return rc;
}

static int bind_states_in(const struct tile *tile)
{
    return bind_states(tile, true);
}

static int bind_states_out(const struct tile *tile)
{
    return bind_states(tile, false);
}

/* ---- updates ---- */

struct update {
    struct ah_vector master, m, v, gradient, weight;
    struct ah_ref scalars;
    uint8_t scalars_move;
};

static int bind_adamw(const struct tile *tile, const struct update *update,
                      const struct ah_run_of_elements *run, struct ah_stretch part)
{
    const struct ah_vector *vectors[] = {&update->master, &update->m, &update->v, &update->gradient,
                                         &update->weight};
    struct ah_bound_op *bound = ah_bind_push(tile->binder, AH_OP_ADAMW);
    if (!bound)
        return AH_E_MEMORY;
    for (size_t arg = 0; arg < sizeof vectors / sizeof *vectors; arg++) {
        if (!is_there(vectors[arg]))
            continue;
        bound->op.arg[arg] = ah_bind_at(vectors[arg], run, part.first);
        bound->move[arg] = vectors[arg]->move;
    }
    bound->op.arg[5] = update->scalars;
    bound->move[5] = update->scalars_move;
    bound->op.u.adamw =
        (struct ah_op_adamw){.count = part.end - part.first,
                             .first_element = part.first,
                             .block = (uint32_t)(tile->binder->job->part.first_block + tile->op->block),
                             .decay = run->decay};
    /* the copy must get the same random bits as the table */
    if (ah_bind_is_copy(tile->binder, tile->op->block, part)) {
        bound->op.u.adamw.first_element -= ah_bind_table(tile->binder, tile->op->block).first;
        bound->op.u.adamw.block = 0;
    }
    return AH_OK;
}

static int bind_update(const struct tile *tile, struct update *update)
{
    struct ah_stretch part;
    int rc = AH_OK;
    if (!is_there(&update->master)) { /* fp32: the weight is the master */
        update->master = is_there(&update->weight) ? update->weight : tile->block->weights;
        update->weight = (struct ah_vector){0};
    }
    for (size_t i = 0; i < tile->block->n_runs && !rc; i++)
        if (common_part(&tile->block->runs[i], tile->part, &part))
            rc = bind_adamw(tile, update, &tile->block->runs[i], part);
    return rc;
}

/* Finds the gradient on the device from which a block is updated: the sum, this rank's part of it, or the only one. */
static int find_update_gradient(const struct tile *tile, uint64_t position, uint64_t micro_batch,
                                struct ah_vector *ret_gradient)
{
    struct ah_binder *binder = tile->binder;
    const uint64_t block = tile->op->block;
    ret_gradient->base = tile->block->own.first;
    if (ah_job_shards(binder->job) > 1)
        return ah_bind_own_sum(binder, block, position, &ret_gradient->ref);
    return ah_bind_sums_on(binder, block, AH_ACCUMULATOR_DEVICE)
               ? ah_bind_gradient_sum(binder, block, position, &ret_gradient->ref)
               : ah_bind_gradient(binder, block, micro_batch, position, &ret_gradient->ref);
}

static int bind_device_adam(const struct tile *tile)
{
    struct ah_binder *binder = tile->binder;
    const struct ah_addresses_block *block = tile->block;
    bool bf16 = binder->plan->training.dtype == AH_BF16;
    struct update update = {.master = block->master,
                            .m = block->m,
                            .v = block->v,
                            .scalars = binder->addresses->device_headers,
                            .scalars_move = AH_OFFSET_HEADER};
    if (bf16 && block->plan->weights != AH_WEIGHTS_HOST)
        update.weight = block->weights;
    if (block->plan->optimizer == AH_OPTIMIZER_STREAMED) {
        struct visit visit = visit_of(tile);
        update.master = visit.master;
        update.m = visit.m;
        update.v = visit.v;
        if (is_there(&visit.weight))
            update.weight = visit.weight;
    }
    uint64_t position = tile->op->position;
    int rc = find_update_gradient(tile, position, binder->plan->training.micro_batches - 1, &update.gradient);
    return rc ? rc : bind_update(tile, &update);
}

static int bind_host_adam(const struct tile *tile)
{
    const struct ah_addresses *addresses = tile->binder->addresses;
    const struct ah_addresses_block *block = tile->block;
    bool bf16 = tile->binder->plan->training.dtype == AH_BF16;
    struct update update = {.master = block->master,
                            .m = block->m,
                            .v = block->v,
                            .gradient = is_there(&block->host_sum) ? block->host_sum
                                                                   : from_tile(block->host_gradient, tile),
                            .scalars = addresses->headers,
                            .scalars_move = AH_OFFSET_STAGING_HEADER};
    if (is_there(&block->host_weight))
        update.weight = from_tile(block->host_weight, tile);
    else if (bf16)
        update.weight = block->weights;
    return bind_update(tile, &update);
}

/* ---- copies ---- */

static int bind_upload(const struct tile *tile)
{
    const struct ah_vector from = from_tile(tile->block->host_weight, tile);
    return copy_vectors(tile, &tile->block->weights, &from);
}

static int bind_send(const struct tile *tile)
{
    struct ah_binder *binder = tile->binder;
    struct ah_vector to = from_tile(tile->block->host_gradient, tile), from = {0};
    int rc = find_update_gradient(tile, tile->op->issue_after, tile->op->micro_batch, &from);
    const struct ah_run_of_elements all = {.end = tile->part.end};
    if (rc || tile->part.end <= tile->part.first)
        return rc;
    uint64_t bytes = (tile->part.end - tile->part.first) * ah_dtype_bytes(from.ref.dtype);
    return ah_bind_copy(binder, ah_bind_at(&to, &all, tile->part.first), to.move,
                        ah_bind_at(&from, &all, tile->part.first), AH_OFFSET_NONE, bytes);
}

static bool fetches_rows(const struct tile *tile)
{
    const struct ah_plan *plan = tile->binder->plan;
    const struct ah_plan_op *user = ah_plan_compute_op(plan, tile->op->due_before);
    return tile->block->group->kind == AH_BLOCK_EMBEDDING && user->block == tile->op->block &&
           user->op == AH_PLAN_FORWARD && ah_job_shards(tile->binder->job) == 1;
}

/* Binds the copies of a tile of this rank's part to the places of its elements in the whole vector. */
static int fetch_part(const struct tile *tile, struct ah_ref to)
{
    struct ah_binder *binder = tile->binder;
    struct ah_shards_run runs[AH_MODEL_TENSORS_MAX];
    const uint64_t each = binder->job->weight_bytes;
    const struct ah_stretch part = tile_part(binder, tile->block->group->own_flat_elements, tile->index);
    const size_t n =
        ah_shards_runs(tile->block, ah_job_shards(binder->job), binder->addresses->shard, part, runs);
    int rc = AH_OK;
    for (size_t i = 0; i < n && !rc; i++) {
        struct ah_ref dst = to, src = tile->block->weights.ref;
        dst.offset_bytes += runs[i].full * each;
        src.offset_bytes += runs[i].at * each;
        rc = ah_bind_copy(binder, dst, AH_OFFSET_NONE, src, AH_OFFSET_NONE, runs[i].n * each);
    }
    return rc;
}

static int bind_fetch(const struct tile *tile)
{
    struct ah_binder *binder = tile->binder;
    const struct ah_addresses_block *block = tile->block;
    bool rows = fetches_rows(tile);
    uint64_t each = binder->job->weight_bytes;
    uint64_t bytes = rows ? block->group->gathered_bytes : block->group->flat_elements * each;
    struct ah_ref to, from = rows ? block->gathered.ref : block->weights.ref;
    int rc = ah_bind_fetched(binder, tile->op->block, tile->op->due_before, bytes, &to);
    if (!rc && ah_job_shards(binder->job) > 1)
        return fetch_part(tile, to);
    if (rc || rows)
        return rc ? rc : ah_bind_copy(binder, to, AH_OFFSET_NONE, from, AH_OFFSET_NONE, bytes);
    struct ah_stretch part = tile_part(binder, block->group->flat_elements, tile->index);
    to.offset_bytes += part.first * each;
    from.offset_bytes += part.first * each;
    return ah_bind_copy(binder, to, AH_OFFSET_NONE, from, AH_OFFSET_NONE, (part.end - part.first) * each);
}

/* Binds the gather of the rows for a micro-batch's tokens and, for learned positions, a copy of a sequence's rows. */
static int bind_gather(const struct tile *tile)
{
    struct ah_binder *binder = tile->binder;
    const struct ah_job *job = binder->job;
    const struct ah_addresses_block *block = tile->block;
    struct ah_bound_op *bound = ah_bind_push(binder, AH_OP_GATHER);
    if (!bound)
        return AH_E_MEMORY;
    bound->op.arg[0] = block->gathered.ref;
    bound->op.arg[1] = block->weights.ref;
    bound->op.arg[2] = binder->addresses->staging;
    bound->move[2] = AH_OFFSET_STAGING;
    bound->op.u.embed = (struct ah_op_embed){
        .rows = job->tokens, .width = job->model->width, .vocabulary = job->model->vocabulary};
    uint64_t gathered_bytes = job->tokens * job->model->width * job->weight_bytes;
    if (gathered_bytes == block->group->gathered_bytes)
        return AH_OK;
    struct ah_ref to = block->gathered.ref, from = block->weights.ref;
    to.offset_bytes += gathered_bytes;
    from.offset_bytes += block->flat.tensors[1].first * job->weight_bytes;
    return ah_bind_copy(binder, to, AH_OFFSET_NONE, from, AH_OFFSET_NONE,
                        block->group->gathered_bytes - gathered_bytes);
}

/* ---- sums ---- */

static int bind_accumulate(const struct tile *tile)
{
    struct ah_binder *binder = tile->binder;
    const struct ah_run_of_elements all = {.end = tile->part.end};
    const struct ah_vector from = from_tile(tile->block->host_gradient, tile);
    const struct ah_fold fold = ah_fold_of(&binder->plan->training, tile->op->micro_batch);
    const struct ah_ref sum = ah_bind_at(&tile->block->host_sum, &all, tile->part.first);
    const struct ah_bind_sums sums = {
        .total = sum,
        .separate = fold.separate ? ah_bind_at(&tile->block->host_group_sum, &all, tile->part.first) : sum,
        .gradient = ah_bind_at(&from, &all, tile->part.first),
        .gradient_move = from.move,
        .elements = tile->part.end - tile->part.first};
    bool last = tile->op->micro_batch + 1 == binder->plan->training.micro_batches;
    int rc = ah_bind_add(binder, &sums, fold);
    if (rc || !last || !(binder->plan->training.clip > 0) || ah_bind_shares(binder, tile->op->block))
        return rc;
    const uint64_t counted = ah_bind_counted(binder, tile->op->block).end;
    const uint64_t end = tile->part.end < counted ? tile->part.end : counted;
    return end > tile->part.first ? ah_bind_squares(binder, binder->addresses->sums,
                                                    binder->job->part.first_block + tile->op->block, sum,
                                                    (struct ah_stretch){tile->part.first, end})
                                  : AH_OK;
}

static int bind_gate(struct ah_binder *binder)
{
    struct ah_bound_op *bound = ah_bind_push(binder, AH_OP_CALL);
    if (!bound)
        return AH_E_MEMORY;
    bound->op.u.call = binder->options->gate;
    return AH_OK;
}

static int bind_norm(const struct tile *tile)
{
    const struct ah_addresses *addresses = tile->binder->addresses;
    int rc = tile->binder->options->gate.run ? bind_gate(tile->binder) : AH_OK;
    struct ah_bound_op *bound = rc ? NULL : ah_bind_push(tile->binder, AH_OP_CLIP);
    if (!bound)
        return AH_E_MEMORY;
    bound->op.arg[0] = addresses->headers;
    bound->move[0] = AH_OFFSET_STAGING_HEADER;
    bound->op.arg[1] = addresses->sums;
    bound->op.u.clip = (struct ah_op_clip){.sums = ah_model_blocks(tile->binder->job->model),
                                           .limit = tile->binder->plan->training.clip};
    return AH_OK;
}

/* ---- to neighbours ---- */

static int bind_send_output(const struct tile *tile)
{
    return ah_bind_message(tile->binder, AH_CHANNEL_OUTPUT_OUT, tile->op->micro_batch);
}

static int bind_send_input_gradient(const struct tile *tile)
{
    return ah_bind_message(tile->binder, AH_CHANNEL_GRADIENT_OUT, tile->op->micro_batch);
}

typedef int bind_fn(const struct tile *tile);

static bind_fn *const binds[] = {
    [AH_PLAN_FETCH] = bind_fetch,
    [AH_PLAN_SEND_GRADIENTS] = bind_send,
    [AH_PLAN_ACCUMULATE] = bind_accumulate,
    [AH_PLAN_NORM] = bind_norm,
    [AH_PLAN_HOST_ADAM] = bind_host_adam,
    [AH_PLAN_DEVICE_ADAM] = bind_device_adam,
    [AH_PLAN_UPLOAD] = bind_upload,
    [AH_PLAN_STATES_IN] = bind_states_in,
    [AH_PLAN_STATES_OUT] = bind_states_out,
    [AH_PLAN_GATHER] = bind_gather,
    [AH_PLAN_SEND_OUTPUT] = bind_send_output,
    [AH_PLAN_SEND_INPUT_GRADIENT] = bind_send_input_gradient,
};

int ah_bind_tile(struct ah_binder *binder, const struct ah_graph_item *item)
{
    struct tile tile = {.binder = binder, .op = &binder->plan->ops[item->op], .index = item->tile};
    tile.block = &binder->addresses->blocks[tile.op->block];
    const struct ah_stretch own = tile.block->own;
    tile.part = own;
    if (tile.op->tiles > 1) {
        tile.part = tile_part(binder, own.end - own.first, item->tile);
        tile.part.first += own.first;
        tile.part.end += own.first;
    }
    return binds[tile.op->op](&tile);
}
