/* SPDX-License-Identifier: Apache-2.0
 *
 * State: reads and writes ranges of a tensor's weights and moments at drained points. Vectors on the device pass
 * through the bounce buffer. Vectors of other ranks pass through the channels of rank 0.
 */
#include "runtime/train/trainer_internal.h"

#include "base/bf16.h"
#include "runtime/train/shards.h"

#include <string.h>

/* ---- numbers ---- */

static void load_numbers(enum ah_dtype dtype, const void *from, uint64_t n, float *ret_values)
{
    const uint16_t *narrow = from;
    if (dtype == AH_FP32)
        memcpy(ret_values, from, n * sizeof *ret_values);
    else
        for (uint64_t i = 0; i < n; i++)
            ret_values[i] = ah_bf16_to_fp32(narrow[i]);
}

static void store_numbers(enum ah_dtype dtype, void *to, uint64_t n, const float *values)
{
    uint16_t *narrow = to;
    if (dtype == AH_FP32)
        memcpy(to, values, n * sizeof *values);
    else
        for (uint64_t i = 0; i < n; i++)
            narrow[i] = ah_bf16_from_fp32(values[i]);
}

/* ---- one stretch of one arena ---- */

static int pass_bounce_buffer(struct ah_trainer *t, struct ah_ref ref, uint64_t bytes, bool to_device,
                              struct ah_error *err)
{
    const uint32_t lane = to_device ? AH_LANE_H2D : AH_LANE_D2H;
    const struct ah_op op = {
        .kind = AH_OP_COPY,
        .arg = {to_device ? ref : t->addresses.bounce_buffer, to_device ? t->addresses.bounce_buffer : ref},
        .u.copy.bytes = bytes};
    const struct ah_submission submission = {.lane = lane, .op = &op, .tag = UINT64_MAX};
    uint64_t ticket;
    int rc = ah_device_submit(t->device, &submission, 1, &ticket, err);
    return rc ? rc : ah_device_wait(t->device, lane, ticket, err);
}

int ah_state_send(struct ah_trainer *t, struct ah_ref to, uint64_t bytes, struct ah_error *err)
{
    return pass_bounce_buffer(t, to, bytes, true, err);
}

/* Returns the operand `at` elements after `ref`, and where the host sees it: in host memory or the bounce buffer. */
static struct ah_ref part_of(const struct ah_trainer *t, struct ah_ref ref, uint64_t at, void **ret_here)
{
    ref.offset_bytes += at * ah_dtype_bytes((enum ah_dtype)ref.dtype);
    *ret_here = ah_device_pointer(t->device, ref.arena == AH_ARENA_DEVICE ? t->addresses.bounce_buffer : ref);
    return ref;
}

/* Returns how many of the `left` elements fit into the bounce buffer. */
static uint64_t some_of(uint64_t left)
{
    const uint64_t most = AH_BOUNCE_BYTES / sizeof(float);
    return left < most ? left : most;
}

static int read_numbers(struct ah_trainer *t, struct ah_ref ref, uint64_t n, float *ret_values,
                        struct ah_error *err)
{
    enum ah_dtype dtype = (enum ah_dtype)ref.dtype;
    int rc = AH_OK;
    for (uint64_t at = 0, some; at < n && !rc; at += some) {
        void *here;
        struct ah_ref part = part_of(t, ref, at, &here);
        some = some_of(n - at);
        if (ref.arena == AH_ARENA_DEVICE)
            rc = pass_bounce_buffer(t, part, some * ah_dtype_bytes(dtype), false, err);
        if (!rc)
            load_numbers(dtype, here, some, ret_values + at);
    }
    return rc;
}

static int write_numbers(struct ah_trainer *t, struct ah_ref ref, uint64_t n, const float *values,
                         struct ah_error *err)
{
    enum ah_dtype dtype = (enum ah_dtype)ref.dtype;
    int rc = AH_OK;
    for (uint64_t at = 0, some; at < n && !rc; at += some) {
        void *here;
        struct ah_ref part = part_of(t, ref, at, &here);
        some = some_of(n - at);
        store_numbers(dtype, here, some, values + at);
        if (ref.arena == AH_ARENA_DEVICE)
            rc = pass_bounce_buffer(t, part, some * ah_dtype_bytes(dtype), true, err);
    }
    return rc;
}

/* ---- vectors ---- */

static struct ah_ref ref_in(const struct ah_vector *vector, const struct ah_flat_tensor *tensor,
                            uint64_t first)
{
    struct ah_ref ref = vector->ref;
    const uint64_t element = (vector->full ? tensor->first : tensor->trained_first) + first;
    ref.offset_bytes += (element - vector->base) * ah_dtype_bytes(ref.dtype);
    return ref;
}

/* Returns where this rank's part of a block's weights has an element of a frozen tensor. */
static struct ah_ref frozen_in_part(const struct ah_trainer *t, const struct ah_addresses_block *block,
                                    size_t tensor, uint64_t first)
{
    const uint64_t frozen = block->flat.elements - block->flat.trained_elements;
    const struct ah_stretch own = ah_flat_shard(frozen, ah_job_shards(&t->job), t->addresses.shard);
    const uint64_t at = ah_shards_frozen_first(&block->flat, tensor) + first - own.first;
    struct ah_ref ref = block->weights.ref;
    ref.offset_bytes += (block->group->own_trained_elements + at) * ah_dtype_bytes(ref.dtype);
    return ref;
}

const struct ah_addresses_block *ah_state_block(const struct ah_trainer *t, uint64_t block)
{
    const uint64_t first = t->job.part.first_block;
    return block >= first && block - first < t->job.n_blocks ? &t->addresses.blocks[block - first] : NULL;
}

const struct ah_flat *ah_state_flat(const struct ah_trainer *t, uint64_t block)
{
    return t->flats ? &t->flats[block] : &ah_state_block(t, block)->flat;
}

static const struct ah_vector *moments(const struct ah_addresses_block *block, enum ah_trainer_vector vector)
{
    return vector == AH_TRAINER_M ? &block->m : &block->v;
}

static bool has_master(const struct ah_addresses_block *block, const struct ah_flat_tensor *tensor)
{
    return tensor->trained && block->master.ref.arena != AH_ARENA_NONE;
}

/* True if only one of several ranks has each element of the tensor: of a trained tensor, or of weights in parts. */
static bool is_in_parts(const struct ah_trainer *t, const struct ah_addresses_block *block,
                        const struct ah_flat_tensor *tensor)
{
    return ah_job_shards(&t->job) > 1 && (tensor->trained || block->plan->weights != AH_WEIGHTS_DEVICE);
}

/* Reads a piece that this rank has. */
static int read_here(struct ah_trainer *t, const struct ah_addresses_block *block,
                     enum ah_trainer_vector vector, const struct ah_weights_piece *piece, float *ret_values,
                     struct ah_error *err)
{
    const struct ah_flat_tensor *tensor = &block->flat.tensors[piece->tensor];
    if (!tensor->trained && is_in_parts(t, block, tensor))
        return read_numbers(t, frozen_in_part(t, block, piece->tensor, piece->first), piece->n, ret_values,
                            err);
    const struct ah_vector *from = has_master(block, tensor) ? &block->master : &block->weights;
    if (vector != AH_TRAINER_WEIGHTS)
        from = moments(block, vector);
    return read_numbers(t, ref_in(from, tensor, piece->first), piece->n, ret_values, err);
}

/* Reads at rank 0, from each rank that shares states, the elements of a piece that it keeps. */
static int read_parts(struct ah_trainer *t, const struct ah_addresses_block *block,
                      enum ah_trainer_vector vector, const struct ah_weights_piece *piece, float *ret_values,
                      struct ah_error *err)
{
    int rc = AH_OK;
    for (uint32_t rank = 0; rank < t->options.rank->ranks && !rc; rank++) {
        const struct ah_stretch some = ah_shards_of_tensor(
            &block->flat, piece->tensor, ah_job_shards(&t->job), rank, piece->first, piece->n);
        struct ah_weights_piece part = *piece;
        if (some.end <= some.first)
            continue;
        part.first = some.first;
        part.element += some.first - piece->first;
        part.n = some.end - some.first;
        float *values = ret_values + (some.first - piece->first);
        rc = rank ? ah_ranks_read_piece(t, rank, vector, &part, values, err)
                  : read_here(t, block, vector, &part, values, err);
    }
    return rc;
}

int ah_trainer_read(struct ah_trainer *t, enum ah_trainer_vector vector, const struct ah_weights_piece *piece,
                    float *ret_values, struct ah_error *err)
{
    const struct ah_addresses_block *block = ah_state_block(t, piece->block);
    const struct ah_flat_tensor *tensor = &ah_state_flat(t, piece->block)->tensors[piece->tensor];
    if (vector != AH_TRAINER_WEIGHTS && !tensor->trained) {
        memset(ret_values, 0, piece->n * sizeof *ret_values);
        return AH_OK;
    }
    if (!block)
        return ah_ranks_read_piece(t, t->options.rank->owner[piece->block], vector, piece, ret_values, err);
    return is_in_parts(t, block, tensor) && ah_ranks_leads(&t->ranks)
               ? read_parts(t, block, vector, piece, ret_values, err)
               : read_here(t, block, vector, piece, ret_values, err);
}

static int store_piece(struct ah_trainer *t, const struct ah_vector *vector,
                       const struct ah_flat_tensor *tensor, const struct ah_weights_piece *piece,
                       const float *values, struct ah_error *err)
{
    return write_numbers(t, ref_in(vector, tensor, piece->first), piece->n, values, err);
}

/* Returns the head's block if the head has a copy of the table and the piece is part of the table; else NULL. */
static const struct ah_addresses_block *copy_of(const struct ah_trainer *t,
                                                const struct ah_weights_piece *piece)
{
    const bool table = !piece->block && !piece->tensor && t->job.copies_table;
    return table ? &t->addresses.blocks[t->job.n_blocks - 1] : NULL;
}

static int write_block(struct ah_trainer *t, enum ah_trainer_vector vector,
                       const struct ah_addresses_block *block, const struct ah_flat_tensor *tensor,
                       const struct ah_weights_piece *piece, const float *values, struct ah_error *err)
{
    const size_t index = (size_t)(tensor - block->flat.tensors);
    const bool in_parts = is_in_parts(t, block, tensor);
    struct ah_weights_piece own = *piece;
    if (in_parts) {
        const struct ah_stretch some = ah_shards_of_tensor(&block->flat, index, ah_job_shards(&t->job),
                                                           t->addresses.shard, piece->first, piece->n);
        own.first = some.first;
        own.n = some.end - some.first;
    }
    const float *own_values = own.n ? values + (own.first - piece->first) : values;
    if (vector != AH_TRAINER_WEIGHTS)
        return own.n ? store_piece(t, moments(block, vector), tensor, &own, own_values, err) : AH_OK;
    int rc = has_master(block, tensor) && own.n
                 ? store_piece(t, &block->master, tensor, &own, own_values, err)
                 : AH_OK;
    if (rc || !in_parts || block->plan->weights == AH_WEIGHTS_DEVICE)
        return rc ? rc : store_piece(t, &block->weights, tensor, piece, values, err);
    if (!own.n)
        return AH_OK;
    return tensor->trained
               ? store_piece(t, &block->weights, tensor, &own, own_values, err)
               : write_numbers(t, frozen_in_part(t, block, index, own.first), own.n, own_values, err);
}

bool ah_state_wants(const struct ah_trainer *t, uint64_t block)
{
    return ah_state_block(t, block) || (!block && t->job.copies_table);
}

int ah_state_write(struct ah_trainer *t, enum ah_trainer_vector vector, const struct ah_weights_piece *piece,
                   const float *values, struct ah_error *err)
{
    const struct ah_addresses_block *block = ah_state_block(t, piece->block), *head = copy_of(t, piece);
    int rc = AH_OK;
    if (block || t->flats) {
        const struct ah_flat_tensor *tensor = &ah_state_flat(t, piece->block)->tensors[piece->tensor];
        if (vector != AH_TRAINER_WEIGHTS && !tensor->trained)
            return ah_error_set(err, AH_E_USAGE, "tensor '%s' of block %llu is frozen and has no moments",
                                tensor->tensor.name, (unsigned long long)piece->block);
        rc = block ? write_block(t, vector, block, &block->flat.tensors[piece->tensor], piece, values, err)
                   : AH_OK;
    }
    if (!rc && head)
        rc = write_block(t, vector, head, &head->flat.tensors[head->flat.n - 1], piece, values, err);
    return rc;
}

int ah_trainer_write(struct ah_trainer *t, enum ah_trainer_vector vector,
                     const struct ah_weights_piece *piece, const float *values, struct ah_error *err)
{
    int rc = ah_state_write(t, vector, piece, values, err);
    return rc || !ah_ranks_leads(&t->ranks) ? rc : ah_ranks_write_piece(t, vector, piece, values, err);
}

int ah_trainer_give(void *context, const struct ah_weights_piece *piece, float *ret_values,
                    struct ah_error *err)
{
    return ah_trainer_read(context, AH_TRAINER_WEIGHTS, piece, ret_values, err);
}
