/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses: finds the plan's tensors, and lays out memory as addresses.h describes.
 */
#include "runtime/train/addresses.h"

#include "runtime/schedule/fold.h"
#include "runtime/schedule/graph.h"
#include "runtime/schedule/layout.h"

#include <inttypes.h>
#include <string.h>

_Static_assert(sizeof(struct ah_adamw_scalars) <= AH_HEADER_SCALE, "scalars fit into a header");
_Static_assert((int)AH_HEADER_SENT <= (int)AH_HEADER_LOSS, "what goes to the device ends before the losses");

static uint64_t round_up(uint64_t bytes, uint64_t to)
{
    return (bytes + to - 1) / to * to;
}

static struct ah_ref ref_at(enum ah_arena_kind arena, enum ah_dtype dtype, uint64_t offset_bytes)
{
    return (struct ah_ref){.arena = arena, .dtype = dtype, .offset_bytes = offset_bytes};
}

/* ---- tensors of the device arena ---- */

static uint32_t *first_tensor(const struct ah_addresses *addresses, unsigned label, uint64_t block)
{
    return &addresses->first_tensor[label * addresses->plan->n_blocks + block];
}

/* Lists the tensors of each label and block. Tensors of no block are listed at block 0. */
static int list_tensors(struct ah_addresses *addresses, struct ah_arena *arena, struct ah_error *err)
{
    const struct ah_plan_arena *from = &addresses->plan->arena;
    size_t cells = AH_TENSOR_LABELS * addresses->plan->n_blocks;
    addresses->next_tensor = ah_arena_array(arena, from->n_tensors + 1, sizeof *addresses->next_tensor);
    addresses->first_tensor = ah_arena_array(arena, cells, sizeof *addresses->first_tensor);
    if (!addresses->next_tensor || !addresses->first_tensor)
        return ah_error_memory(err);
    memset(addresses->first_tensor, 0xff, cells * sizeof *addresses->first_tensor);
    for (size_t i = from->n_tensors; i-- > 0;) {
        const uint64_t block = from->tensors[i].block == AH_PLAN_NOWHERE ? 0 : from->tensors[i].block;
        uint32_t *first = first_tensor(addresses, from->tensors[i].label, block);
        addresses->next_tensor[i] = *first;
        *first = (uint32_t)i;
    }
    return AH_OK;
}

bool ah_addresses_lives_at(const struct ah_plan_tensor *tensor, uint64_t position)
{
    if (tensor->from <= tensor->to)
        return tensor->from <= position && position <= tensor->to;
    return position <= tensor->to || tensor->from <= position;
}

int ah_addresses_find(const struct ah_addresses *addresses, const struct ah_addresses_query *query,
                      struct ah_ref *ret_ref, struct ah_error *err)
{
    const struct ah_plan_arena *arena = &addresses->plan->arena;
    for (uint32_t i = *first_tensor(addresses, query->label, query->block); i != UINT32_MAX;
         i = addresses->next_tensor[i]) {
        const struct ah_plan_tensor *tensor = &arena->tensors[i];
        bool same = query->micro_batch == AH_ADDRESSES_ANY || tensor->micro_batch == query->micro_batch;
        if (!same || !ah_addresses_lives_at(tensor, query->position) || query->bytes > tensor->bytes ||
            query->offset_bytes > tensor->bytes - query->bytes)
            continue;
        *ret_ref = ref_at(AH_ARENA_DEVICE, AH_FP32, tensor->offset_bytes + query->offset_bytes);
        return AH_OK;
    }
    char name[AH_NAME_MAX];
    ah_name_block(ah_names_of_plan(addresses->plan), query->block, name);
    return ah_error_set(err, AH_E_MISMATCH,
                        "the plan's arena has no tensor of %" PRIu64 " bytes for '%s' at position %" PRIu64
                        "; plan for this model and training",
                        query->offset_bytes + query->bytes, name, query->position);
}

/* Finds a tensor whose lifetime is the whole step. */
static int find_staying(const struct ah_addresses *addresses, enum ah_tensor_label label, uint64_t block,
                        uint64_t bytes, struct ah_ref *ret_ref, struct ah_error *err)
{
    const struct ah_addresses_query query = {
        .label = label, .block = block, .micro_batch = AH_ADDRESSES_ANY, .bytes = bytes};
    return ah_addresses_find(addresses, &query, ret_ref, err);
}

/* ---- blocks ---- */

/* The next free byte of an arena whose memory is assigned front to back. */
struct cutter {
    enum ah_arena_kind arena;
    uint64_t end_bytes;
};

static struct ah_ref cut_ref(struct cutter *cutter, enum ah_dtype dtype, uint64_t bytes)
{
    struct ah_ref ref = ref_at(cutter->arena, dtype, cutter->end_bytes);
    cutter->end_bytes += bytes;
    return ref;
}

/* Returns a vector of the trained elements that the rank updates. */
static struct ah_vector own_vector(struct cutter *cutter, const struct ah_addresses_block *block,
                                   enum ah_dtype dtype)
{
    const uint64_t bytes = block->group->own_trained_elements * ah_dtype_bytes(dtype);
    return (struct ah_vector){.ref = cut_ref(cutter, dtype, bytes), .base = block->own.first};
}

/* Assigns memory to master (bf16 only), m and v, one after another. */
static void cut_states(const struct ah_addresses *addresses, struct ah_addresses_block *block,
                       struct cutter *cutter)
{
    enum ah_dtype state = addresses->plan->training.state_dtype;
    if (addresses->plan->training.dtype == AH_BF16)
        block->master = own_vector(cutter, block, AH_FP32);
    block->m = own_vector(cutter, block, state);
    block->v = own_vector(cutter, block, state);
}

static int place_device_block(struct ah_addresses *addresses, struct ah_addresses_block *block,
                              struct ah_error *err)
{
    const struct ah_job *job = addresses->job;
    const struct ah_plan_block *plan = block->plan;
    struct ah_ref ref = {0};
    int rc = AH_OK;
    if (plan->weights != AH_WEIGHTS_HOST) {
        const bool whole = plan->weights == AH_WEIGHTS_DEVICE;
        const uint64_t elements = whole ? block->group->flat_elements : block->group->own_flat_elements;
        rc = find_staying(addresses, AH_TENSOR_WEIGHTS, plan->index, elements * job->weight_bytes, &ref, err);
        ref.dtype = job->training.dtype;
        block->weights = (struct ah_vector){.ref = ref, .full = whole, .base = whole ? 0 : block->own.first};
    }
    if (!rc && plan->optimizer == AH_OPTIMIZER_DEVICE) {
        rc = find_staying(addresses, AH_TENSOR_STATES, plan->index,
                          block->group->own_trained_elements * job->state_bytes, &ref, err);
        struct cutter cutter = {AH_ARENA_DEVICE, ref.offset_bytes};
        cut_states(addresses, block, &cutter);
    }
    return rc;
}

static void place_pinned_block(struct ah_addresses *addresses, struct ah_addresses_block *block,
                               struct cutter *cutter)
{
    const enum ah_dtype dtype = addresses->job->training.dtype;
    const bool shares = ah_job_shards(addresses->job) > 1;
    if (block->plan->weights == AH_WEIGHTS_HOST)
        block->weights = (struct ah_vector){
            .ref = cut_ref(cutter, dtype, block->group->own_flat_elements * ah_dtype_bytes(dtype)),
            .full = !shares,
            .base = shares ? block->own.first : 0};
    if (block->plan->optimizer == AH_OPTIMIZER_STREAMED)
        cut_states(addresses, block, cutter);
}

static bool sums_on(const struct ah_addresses *addresses, const struct ah_addresses_block *block,
                    enum ah_accumulator where)
{
    return addresses->job->adds_up && block->plan->accumulator == where;
}

static bool uploads(const struct ah_addresses_block *block)
{
    return block->plan->optimizer == AH_OPTIMIZER_HOST && block->plan->weights != AH_WEIGHTS_HOST;
}

static enum ah_dtype sent_dtype(const struct ah_addresses *addresses, const struct ah_addresses_block *block)
{
    return sums_on(addresses, block, AH_ACCUMULATOR_DEVICE) ? AH_FP32 : addresses->plan->training.dtype;
}

/* Assigns host memory to gradients, or to new weights, in flight: a vector for each block, or one ring for all. */
static void place_flow(struct ah_addresses *addresses, struct cutter *cutter, bool gradients)
{
    const struct ah_plan_staging *staging = &addresses->plan->staging;
    uint64_t ring_slots = gradients ? staging->host_gradient_tiles : staging->host_weight_tiles;
    enum ah_offset_term move = gradients ? AH_OFFSET_GRADIENT_RING : AH_OFFSET_WEIGHT_RING;
    uint64_t ring = cutter->end_bytes, widest = 0;
    for (size_t i = 0; i < addresses->plan->n_blocks; i++) {
        struct ah_addresses_block *block = &addresses->blocks[i];
        if (gradients ? block->plan->optimizer != AH_OPTIMIZER_HOST : !uploads(block))
            continue;
        enum ah_dtype dtype = gradients ? sent_dtype(addresses, block) : addresses->plan->training.dtype;
        struct ah_vector *vector = gradients ? &block->host_gradient : &block->host_weight;
        widest = ah_dtype_bytes(dtype) > widest ? ah_dtype_bytes(dtype) : widest;
        if (ring_slots)
            *vector = (struct ah_vector){.ref = ref_at(AH_ARENA_PINNED, dtype, ring), .move = (uint8_t)move};
        else
            *vector = own_vector(cutter, block, dtype);
    }
    addresses->stride[move] = staging->tile_elements * widest;
    cutter->end_bytes += ring_slots * addresses->stride[move];
}

static void place_pageable_block(struct ah_addresses *addresses, struct ah_addresses_block *block,
                                 struct cutter *cutter)
{
    if (block->plan->optimizer != AH_OPTIMIZER_HOST)
        return;
    cut_states(addresses, block, cutter);
    if (addresses->plan->training.dtype == AH_FP32 && uploads(block))
        block->master = own_vector(cutter, block, AH_FP32);
    if (sums_on(addresses, block, AH_ACCUMULATOR_HOST))
        block->host_sum = own_vector(cutter, block, AH_FP32);
    if (block->host_sum.ref.arena != AH_ARENA_NONE && ah_folds_separate(&addresses->plan->training))
        block->host_group_sum = own_vector(cutter, block, AH_FP32);
}

static int check_bytes(const char *what, uint64_t stated, uint64_t needed, struct ah_error *err)
{
    if (stated == needed)
        return AH_OK;
    return ah_error_set(err, AH_E_MISMATCH,
                        "the plan's '%s' is %" PRIu64 ", but this model and training need %" PRIu64 "; plan "
                        "for them",
                        what, stated, needed);
}

static int place_blocks(struct ah_addresses *addresses, struct ah_error *err)
{
    const struct ah_plan_memory *memory = &addresses->plan->memory;
    struct cutter pinned = {AH_ARENA_PINNED, 0}, pageable = {AH_ARENA_PAGEABLE, 0};
    int rc = AH_OK;
    for (size_t i = 0; i < addresses->plan->n_blocks && !rc; i++) {
        struct ah_addresses_block *block = &addresses->blocks[i];
        rc = place_device_block(addresses, block, err);
        place_pinned_block(addresses, block, &pinned);
        place_pageable_block(addresses, block, &pageable);
    }
    if (rc)
        return rc;
    place_flow(addresses, &pinned, true);
    place_flow(addresses, &pinned, false);
    struct ah_addresses_block *embedding = &addresses->blocks[0];
    if (embedding->group->kind == AH_BLOCK_EMBEDDING && embedding->plan->weights == AH_WEIGHTS_HOST &&
        ah_job_shards(addresses->job) == 1)
        embedding->gathered.ref =
            cut_ref(&pinned, addresses->plan->training.dtype, embedding->group->gathered_bytes);
    rc = check_bytes("memory.pinned_bytes", memory->pinned_bytes, pinned.end_bytes, err);
    if (!rc)
        rc = check_bytes("memory.pageable_bytes", memory->pageable_bytes, pageable.end_bytes, err);
    addresses->arena_bytes[AH_ARENA_DEVICE] = memory->device_bytes;
    addresses->arena_bytes[AH_ARENA_PINNED] = pinned.end_bytes;
    addresses->arena_bytes[AH_ARENA_PAGEABLE] = pageable.end_bytes;
    return rc;
}

static int describe_blocks(struct ah_addresses *addresses, struct ah_arena *arena, struct ah_error *err)
{
    const struct ah_plan *plan = addresses->plan;
    int rc = check_bytes("blocks", plan->n_blocks, addresses->job->n_blocks, err);
    if (rc)
        return rc;
    addresses->blocks = ah_arena_array(arena, plan->n_blocks, sizeof *addresses->blocks);
    if (!addresses->blocks)
        return ah_error_memory(err);
    for (size_t i = 0; i < plan->n_blocks && !rc; i++) {
        const struct ah_job_group *group = ah_job_block(addresses->job, i);
        addresses->blocks[i] = (struct ah_addresses_block){
            .plan = &plan->blocks[i],
            .group = group,
            .flat = ah_flat_of(addresses->job->model, group->kind, group->trained)};
        addresses->blocks[i].own =
            ah_flat_shard(group->trained_elements, ah_job_shards(addresses->job), addresses->shard);
        addresses->blocks[i].n_runs = ah_flat_runs(&addresses->blocks[i].flat, addresses->blocks[i].runs);
        rc = check_bytes("blocks[].parameters", plan->blocks[i].parameters, group->parameters, err);
        if (!rc && !group->trained_elements != (plan->blocks[i].optimizer == AH_OPTIMIZER_NONE))
            rc = ah_error_set(err, AH_E_MISMATCH,
                              "blocks[%zu].optimizer: '%s' does not fit what is trained; plan again", i,
                              ah_words_optimizer[plan->blocks[i].optimizer]);
    }
    return rc;
}

/* ---- memory outside blocks ---- */

static int place_data(struct ah_addresses *addresses, struct ah_error *err)
{
    const struct ah_job *job = addresses->job;
    struct ah_ref ref;
    int rc =
        find_staying(addresses, AH_TENSOR_TOKENS, 0, 2 * job->input_bytes + job->constant_bytes, &ref, err);
    if (rc)
        return rc;
    struct cutter cutter = {AH_ARENA_DEVICE, ref.offset_bytes};
    uint64_t angle_bytes =
        job->constant_bytes - 2 * job->header_bytes - (uint64_t)job->n_blocks * sizeof(double);
    addresses->stride[AH_OFFSET_WORDS] = job->input_bytes;
    addresses->stride[AH_OFFSET_HEADER] = addresses->stride[AH_OFFSET_STAGING_HEADER] = job->header_bytes;
    addresses->device_headers = cut_ref(&cutter, AH_FP32, 2 * job->header_bytes);
    addresses->device_sums = cut_ref(&cutter, AH_FP32, job->n_blocks * sizeof(double));
    addresses->angles = cut_ref(&cutter, AH_FP32, angle_bytes);
    addresses->words = cut_ref(&cutter, AH_FP32, 2 * addresses->stride[AH_OFFSET_WORDS]);
    return AH_OK;
}

static void place_step_staging(struct ah_addresses *addresses)
{
    const struct ah_job *job = addresses->job;
    struct cutter step_staging = {AH_ARENA_PINNED,
                                  round_up(addresses->arena_bytes[AH_ARENA_PINNED], AH_LAYOUT_ALIGN)};
    addresses->staged_micro_bytes = round_up(job->input_bytes, 64);
    addresses->stride[AH_OFFSET_STAGING] = addresses->staged_micro_bytes;
    addresses->headers = cut_ref(&step_staging, AH_FP32, AH_STEPS_STAGED * job->header_bytes);
    addresses->sums =
        cut_ref(&step_staging, AH_FP32, round_up(ah_model_blocks(job->model) * sizeof(double), 64));
    addresses->staging =
        cut_ref(&step_staging, AH_FP32,
                AH_STEPS_STAGED * job->training.micro_batches * addresses->staged_micro_bytes);
    addresses->bounce_buffer = cut_ref(&step_staging, AH_FP32, AH_BOUNCE_BYTES);
    addresses->arena_bytes[AH_ARENA_PINNED] = step_staging.end_bytes;
}

/* Finds the state ring. A slot has room for a tile of the block with the most bytes per element. */
static int place_state_ring(struct ah_addresses *addresses, struct ah_error *err)
{
    const struct ah_plan *plan = addresses->plan;
    uint64_t widest = 0;
    for (size_t i = 0; i < plan->n_blocks; i++) {
        if (plan->blocks[i].optimizer != AH_OPTIMIZER_STREAMED)
            continue;
        bool weight = plan->blocks[i].weights == AH_WEIGHTS_HOST;
        uint64_t bytes = addresses->job->state_bytes + (weight ? addresses->job->weight_bytes : 0);
        widest = bytes > widest ? bytes : widest;
    }
    addresses->stride[AH_OFFSET_STATE_RING] = plan->staging.tile_elements * widest;
    if (!widest)
        return AH_OK;
    return find_staying(addresses, AH_TENSOR_STATE_RING, 0,
                        plan->staging.device_state_tiles * addresses->stride[AH_OFFSET_STATE_RING],
                        &addresses->state_ring, err);
}

int ah_addresses_init(struct ah_addresses *ret_addresses, const struct ah_plan *plan,
                      const struct ah_job *job, uint64_t shard, struct ah_arena *arena, struct ah_error *err)
{
    struct ah_addresses addresses = {.plan = plan, .job = job, .shard = shard};
    int rc = list_tensors(&addresses, arena, err);
    if (!rc)
        rc = describe_blocks(&addresses, arena, err);
    if (!rc)
        rc = place_blocks(&addresses, err);
    if (!rc)
        rc = place_state_ring(&addresses, err);
    if (!rc)
        rc = place_data(&addresses, err);
    if (rc)
        return rc;
    place_step_staging(&addresses);
    *ret_addresses = addresses;
    return AH_OK;
}

void ah_addresses_add_partials(struct ah_addresses *addresses, uint32_t others, uint64_t piece)
{
    struct cutter step_staging = {AH_ARENA_PINNED,
                                  round_up(addresses->arena_bytes[AH_ARENA_PINNED], AH_LAYOUT_ALIGN)};
    addresses->partials = cut_ref(&step_staging, AH_FP32, others * piece * sizeof(float));
    addresses->share_piece = piece;
    addresses->arena_bytes[AH_ARENA_PINNED] = step_staging.end_bytes;
}
