/* SPDX-License-Identifier: Apache-2.0
 *
 * Places: names of the plan's tensors, and the layouts of places.h.
 */
#include "runtime/train/places.h"

#include "runtime/schedule/fold.h"
#include "runtime/schedule/rounds.h"

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

static uint32_t *first_tensor(const struct ah_places *places, unsigned label, uint64_t block)
{
    return &places->first_tensor[label * places->plan->n_blocks + block];
}

static int read_tensors(struct ah_places *places, struct ah_arena *arena, struct ah_error *err)
{
    const struct ah_plan_arena *from = &places->plan->arena;
    size_t cells = AH_TENSOR_LABELS * places->plan->n_blocks;
    places->tensors = ah_arena_array(arena, from->n_tensors + 1, sizeof *places->tensors);
    places->first_tensor = ah_arena_array(arena, cells, sizeof *places->first_tensor);
    if (!places->tensors || !places->first_tensor)
        return ah_error_memory(err);
    memset(places->first_tensor, 0xff, cells * sizeof *places->first_tensor);
    for (size_t i = from->n_tensors; i-- > 0;) {
        struct ah_places_tensor *tensor = &places->tensors[i];
        if (!ah_name_read(ah_names_of_plan(places->plan), from->tensors[i].name, &tensor->name,
                          &tensor->number))
            return ah_error_set(err, AH_E_DOCUMENT, "arena.tensors[%zu].name: '%.80s' is no name of a tensor",
                                i, from->tensors[i].name);
        uint32_t *first = first_tensor(places, tensor->name.label, tensor->name.block);
        tensor->next = *first;
        *first = (uint32_t)i;
    }
    return AH_OK;
}

static bool lives_at(const struct ah_plan_tensor *tensor, uint64_t position)
{
    if (tensor->from <= tensor->to)
        return tensor->from <= position && position <= tensor->to;
    return position <= tensor->to || tensor->from <= position;
}

int ah_places_find(const struct ah_places *places, const struct ah_places_query *query,
                   struct ah_ref *ret_ref, struct ah_error *err)
{
    const struct ah_plan_arena *arena = &places->plan->arena;
    for (uint32_t i = *first_tensor(places, query->label, query->block); i != UINT32_MAX;
         i = places->tensors[i].next) {
        const struct ah_plan_tensor *tensor = &arena->tensors[i];
        bool same = query->micro_batch == AH_PLACES_ANY || places->tensors[i].number == query->micro_batch;
        if (!same || !lives_at(tensor, query->position) || query->bytes > tensor->bytes ||
            query->offset_bytes > tensor->bytes - query->bytes)
            continue;
        *ret_ref = ref_at(AH_ARENA_DEVICE, AH_FP32, tensor->offset_bytes + query->offset_bytes);
        return AH_OK;
    }
    char name[AH_NAME_MAX];
    ah_name_block(ah_names_of_plan(places->plan), query->block, name);
    return ah_error_set(err, AH_E_MISMATCH,
                        "the plan's arena has no tensor of %" PRIu64 " bytes for '%s' at position %" PRIu64
                        "; plan for this model and training",
                        query->offset_bytes + query->bytes, name, query->position);
}

/* Finds a tensor that lives through the whole step. */
static int find_staying(const struct ah_places *places, enum ah_tensor_label label, uint64_t block,
                        uint64_t bytes, struct ah_ref *ret_ref, struct ah_error *err)
{
    const struct ah_places_query query = {
        .label = label, .block = block, .micro_batch = AH_PLACES_ANY, .bytes = bytes};
    return ah_places_find(places, &query, ret_ref, err);
}

/* ---- blocks ---- */

/* Hands out the bytes of an arena one after another. */
struct cutter {
    enum ah_arena_kind arena;
    uint64_t end_bytes;
};

static struct ah_ref cut(struct cutter *cutter, enum ah_dtype dtype, uint64_t bytes)
{
    struct ah_ref ref = ref_at(cutter->arena, dtype, cutter->end_bytes);
    cutter->end_bytes += bytes;
    return ref;
}

static struct ah_vector vector_of(struct cutter *cutter, enum ah_dtype dtype, uint64_t elements)
{
    return (struct ah_vector){.ref = cut(cutter, dtype, elements * ah_dtype_bytes(dtype))};
}

/* Master (bf16 only), m and v side by side. */
static void cut_states(const struct ah_places *places, struct ah_places_block *block, struct cutter *cutter)
{
    enum ah_dtype state = places->plan->training.state_dtype;
    uint64_t elements = block->group->trained_elements;
    if (places->plan->training.dtype == AH_BF16)
        block->master = vector_of(cutter, AH_FP32, elements);
    block->m = vector_of(cutter, state, elements);
    block->v = vector_of(cutter, state, elements);
}

static int place_device_block(struct ah_places *places, struct ah_places_block *block, struct ah_error *err)
{
    const struct ah_job *job = places->job;
    const struct ah_plan_block *plan = block->plan;
    struct ah_ref ref = {0};
    int rc = AH_OK;
    if (plan->weights == AH_WEIGHTS_DEVICE) {
        rc = find_staying(places, AH_TENSOR_WEIGHTS, plan->index,
                          block->group->flat_elements * job->weight_bytes, &ref, err);
        ref.dtype = job->training.dtype;
        block->weights = (struct ah_vector){.ref = ref, .full = true};
    }
    if (!rc && plan->optimizer == AH_OPTIMIZER_DEVICE) {
        rc = find_staying(places, AH_TENSOR_STATES, plan->index,
                          block->group->trained_elements * job->state_bytes, &ref, err);
        struct cutter cutter = {AH_ARENA_DEVICE, ref.offset_bytes};
        cut_states(places, block, &cutter);
    }
    return rc;
}

static void place_pinned_block(struct ah_places *places, struct ah_places_block *block, struct cutter *cutter)
{
    if (block->plan->weights == AH_WEIGHTS_HOST) {
        block->weights = vector_of(cutter, places->job->training.dtype, block->group->flat_elements);
        block->weights.full = true;
    }
    if (block->plan->optimizer == AH_OPTIMIZER_STREAMED)
        cut_states(places, block, cutter);
}

static bool sums_on(const struct ah_places *places, const struct ah_places_block *block,
                    enum ah_accumulator where)
{
    return places->job->adds_up && block->plan->accumulator == where;
}

static bool uploads(const struct ah_places_block *block)
{
    return block->plan->optimizer == AH_OPTIMIZER_HOST && block->plan->weights == AH_WEIGHTS_DEVICE;
}

static enum ah_dtype sent_dtype(const struct ah_places *places, const struct ah_places_block *block)
{
    return sums_on(places, block, AH_ACCUMULATOR_DEVICE) ? AH_FP32 : places->plan->training.dtype;
}

/* Places gradients, or new weights, in flight: a vector for each block, or one ring. */
static void place_flow(struct ah_places *places, struct cutter *cutter, bool gradients)
{
    const struct ah_plan_staging *staging = &places->plan->staging;
    uint64_t ring_places = gradients ? staging->host_gradient_tiles : staging->host_weight_tiles;
    enum ah_move move = gradients ? AH_MOVE_GRADIENT_RING : AH_MOVE_WEIGHT_RING;
    uint64_t ring = cutter->end_bytes, widest = 0;
    for (size_t i = 0; i < places->plan->n_blocks; i++) {
        struct ah_places_block *block = &places->blocks[i];
        if (gradients ? block->plan->optimizer != AH_OPTIMIZER_HOST : !uploads(block))
            continue;
        enum ah_dtype dtype = gradients ? sent_dtype(places, block) : places->plan->training.dtype;
        struct ah_vector *vector = gradients ? &block->host_gradient : &block->host_weight;
        widest = ah_dtype_bytes(dtype) > widest ? ah_dtype_bytes(dtype) : widest;
        if (ring_places)
            *vector = (struct ah_vector){.ref = ref_at(AH_ARENA_PINNED, dtype, ring), .move = (uint8_t)move};
        else
            *vector = vector_of(cutter, dtype, block->group->trained_elements);
    }
    places->stride[move] = staging->tile_elements * widest;
    cutter->end_bytes += ring_places * places->stride[move];
}

static void place_pageable_block(struct ah_places *places, struct ah_places_block *block,
                                 struct cutter *cutter)
{
    uint64_t elements = block->group->trained_elements;
    if (block->plan->optimizer != AH_OPTIMIZER_HOST)
        return;
    cut_states(places, block, cutter);
    if (places->plan->training.dtype == AH_FP32 && uploads(block))
        block->master = vector_of(cutter, AH_FP32, elements);
    if (sums_on(places, block, AH_ACCUMULATOR_HOST))
        block->host_sum = vector_of(cutter, AH_FP32, elements);
    if (block->host_sum.ref.arena != AH_ARENA_NONE && ah_folds_apart(&places->plan->training))
        block->host_group_sum = vector_of(cutter, AH_FP32, elements);
}

static int check_bytes(const char *what, uint64_t stated, uint64_t needed, struct ah_error *err)
{
    if (stated == needed)
        return AH_OK;
    return ah_error_set(err, AH_E_MISMATCH,
                        "the plan's '%s' is %" PRIu64 ", this model and training take %" PRIu64
                        "; plan for them",
                        what, stated, needed);
}

static int place_blocks(struct ah_places *places, struct ah_error *err)
{
    const struct ah_plan_memory *memory = &places->plan->memory;
    struct cutter pinned = {AH_ARENA_PINNED, 0}, pageable = {AH_ARENA_PAGEABLE, 0};
    int rc = AH_OK;
    for (size_t i = 0; i < places->plan->n_blocks && !rc; i++) {
        struct ah_places_block *block = &places->blocks[i];
        rc = place_device_block(places, block, err);
        place_pinned_block(places, block, &pinned);
        place_pageable_block(places, block, &pageable);
    }
    if (rc)
        return rc;
    place_flow(places, &pinned, true);
    place_flow(places, &pinned, false);
    struct ah_places_block *embedding = &places->blocks[0];
    if (embedding->group->kind == AH_BLOCK_EMBEDDING && embedding->plan->weights == AH_WEIGHTS_HOST)
        embedding->gathered.ref =
            cut(&pinned, places->plan->training.dtype, embedding->group->gathered_bytes);
    rc = check_bytes("memory.pinned_bytes", memory->pinned_bytes, pinned.end_bytes, err);
    if (!rc)
        rc = check_bytes("memory.pageable_bytes", memory->pageable_bytes, pageable.end_bytes, err);
    places->arena_bytes[AH_ARENA_DEVICE] = memory->device_bytes;
    places->arena_bytes[AH_ARENA_PINNED] = pinned.end_bytes;
    places->arena_bytes[AH_ARENA_PAGEABLE] = pageable.end_bytes;
    return rc;
}

static int describe_blocks(struct ah_places *places, struct ah_arena *arena, struct ah_error *err)
{
    const struct ah_plan *plan = places->plan;
    int rc = check_bytes("blocks", plan->n_blocks, places->job->n_blocks, err);
    if (rc)
        return rc;
    places->blocks = ah_arena_array(arena, plan->n_blocks, sizeof *places->blocks);
    if (!places->blocks)
        return ah_error_memory(err);
    for (size_t i = 0; i < plan->n_blocks && !rc; i++) {
        const struct ah_job_group *group = ah_job_block(places->job, i);
        places->blocks[i] =
            (struct ah_places_block){.plan = &plan->blocks[i],
                                     .group = group,
                                     .flat = ah_flat_of(places->job->model, group->kind, group->trained)};
        places->blocks[i].n_runs = ah_flat_runs(&places->blocks[i].flat, places->blocks[i].runs);
        rc = check_bytes("blocks[].parameters", plan->blocks[i].parameters, group->parameters, err);
        if (!rc && !group->trained_elements != (plan->blocks[i].optimizer == AH_OPTIMIZER_NONE))
            rc = ah_error_set(err, AH_E_MISMATCH,
                              "blocks[%zu].optimizer: '%s' does not fit what is trained; plan again", i,
                              ah_words_optimizer[plan->blocks[i].optimizer]);
    }
    return rc;
}

/* ---- what does not belong to a block ---- */

static int place_data(struct ah_places *places, struct ah_error *err)
{
    const struct ah_job *job = places->job;
    struct ah_ref ref;
    int rc = find_staying(places, AH_TENSOR_TOKENS, 0, 2 * job->input_bytes + job->constant_bytes, &ref, err);
    if (rc)
        return rc;
    struct cutter cutter = {AH_ARENA_DEVICE, ref.offset_bytes};
    uint64_t angle_bytes =
        job->constant_bytes - 2 * job->header_bytes - (uint64_t)job->n_blocks * sizeof(double);
    places->stride[AH_MOVE_WORDS] = job->input_bytes;
    places->stride[AH_MOVE_HEADER] = places->stride[AH_MOVE_STAGING_HEADER] = job->header_bytes;
    places->device_headers = cut(&cutter, AH_FP32, 2 * job->header_bytes);
    places->device_sums = cut(&cutter, AH_FP32, job->n_blocks * sizeof(double));
    places->angles = cut(&cutter, AH_FP32, angle_bytes);
    places->words = cut(&cutter, AH_FP32, 2 * places->stride[AH_MOVE_WORDS]);
    return AH_OK;
}

static void place_desk(struct ah_places *places)
{
    const struct ah_job *job = places->job;
    struct cutter desk = {AH_ARENA_PINNED, round_up(places->arena_bytes[AH_ARENA_PINNED], AH_LAYOUT_ALIGN)};
    places->staged_micro_bytes = round_up(job->input_bytes, 64);
    places->stride[AH_MOVE_STAGING] = places->staged_micro_bytes;
    places->headers = cut(&desk, AH_FP32, AH_STEPS_STAGED * job->header_bytes);
    places->sums = cut(&desk, AH_FP32, round_up(ah_model_blocks(job->model) * sizeof(double), 64));
    places->staging =
        cut(&desk, AH_FP32, AH_STEPS_STAGED * job->training.micro_batches * places->staged_micro_bytes);
    places->shelf = cut(&desk, AH_FP32, AH_SHELF_BYTES);
    places->arena_bytes[AH_ARENA_PINNED] = desk.end_bytes;
}

/* A slot of the ring has room for a tile of the block with the widest elements. */
static int place_state_ring(struct ah_places *places, struct ah_error *err)
{
    const struct ah_plan *plan = places->plan;
    uint64_t widest = 0;
    for (size_t i = 0; i < plan->n_blocks; i++) {
        if (plan->blocks[i].optimizer != AH_OPTIMIZER_STREAMED)
            continue;
        bool weight = plan->blocks[i].weights == AH_WEIGHTS_HOST;
        uint64_t bytes = places->job->state_bytes + (weight ? places->job->weight_bytes : 0);
        widest = bytes > widest ? bytes : widest;
    }
    places->stride[AH_MOVE_STATE_RING] = plan->staging.tile_elements * widest;
    if (!widest)
        return AH_OK;
    return find_staying(places, AH_TENSOR_STATE_RING, 0,
                        plan->staging.device_state_tiles * places->stride[AH_MOVE_STATE_RING],
                        &places->state_ring, err);
}

int ah_places_init(struct ah_places *ret_places, const struct ah_plan *plan, const struct ah_job *job,
                   struct ah_arena *arena, struct ah_error *err)
{
    struct ah_places places = {.plan = plan, .job = job};
    int rc = read_tensors(&places, arena, err);
    if (!rc)
        rc = describe_blocks(&places, arena, err);
    if (!rc)
        rc = place_blocks(&places, err);
    if (!rc)
        rc = place_state_ring(&places, err);
    if (!rc)
        rc = place_data(&places, err);
    if (rc)
        return rc;
    place_desk(&places);
    *ret_places = places;
    return AH_OK;
}

void ah_places_add_partials(struct ah_places *places, uint32_t others, uint64_t piece)
{
    struct cutter desk = {AH_ARENA_PINNED, round_up(places->arena_bytes[AH_ARENA_PINNED], AH_LAYOUT_ALIGN)};
    places->partials = cut(&desk, AH_FP32, others * piece * sizeof(float));
    places->share_piece = piece;
    places->arena_bytes[AH_ARENA_PINNED] = desk.end_bytes;
}
