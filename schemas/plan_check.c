/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks what must hold between the fields of a plan:
 * 1. Blocks are numbered from 0 without gaps; every op names one of them.
 * 2. Each op occurs once per tile in the order of its own lane. Entries of the compute lane's order have the compute
 *    positions, 0 to positions - 1, and an op's position is one where it occurs.
 * 3. No tensor ends beyond device_bytes, and arena and reserve together fit the capacity.
 * 4. The signature agrees with training and inputs.
 * 5. Blocks are those of the model or of the part; only the last stage's part ends at the model's head.
 * 6. A what-if names each field once and assumes more than the machine has; the plan's capacities follow from it.
 * The rest is checked when a plan is compiled: no two live tensors overlap, and orders cannot deadlock.
 */
#include "schemas/plan_internal.h"

#include "schemas/document.h"
#include "schemas/field.h"
#include "schemas/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ah_plan_check_memory(const void *group, struct ah_error *err)
{
    const struct ah_plan_memory *memory = group;
    if (memory->reserved_bytes > memory->device_capacity_bytes ||
        memory->device_bytes > memory->device_capacity_bytes - memory->reserved_bytes)
        return ah_meaning_fail(err, "device_bytes",
                               "%" PRIu64 " and reserved_bytes %" PRIu64
                               " exceed device_capacity_bytes %" PRIu64,
                               memory->device_bytes, memory->reserved_bytes, memory->device_capacity_bytes);
    if (memory->pinned_bytes > memory->host_bytes ||
        memory->pageable_bytes != memory->host_bytes - memory->pinned_bytes)
        return ah_meaning_fail(err, "host_bytes",
                               "%" PRIu64 " is not the sum of pinned_bytes and pageable_bytes",
                               memory->host_bytes);
    if (memory->process_bytes > memory->host_capacity_bytes ||
        memory->host_bytes > memory->host_capacity_bytes - memory->process_bytes)
        return ah_meaning_fail(err, "host_bytes",
                               "%" PRIu64 " and process_bytes %" PRIu64
                               " exceed host_capacity_bytes %" PRIu64,
                               memory->host_bytes, memory->process_bytes, memory->host_capacity_bytes);
    return AH_OK;
}

int ah_plan_check_solver(const void *group, struct ah_error *err)
{
    const struct ah_plan_solver *solver = group;
    if (solver->bound_us > solver->objective_us)
        return ah_meaning_fail_numbers(err, "bound_us", solver->bound_us, "is above objective_us",
                                       solver->objective_us);
    return AH_OK;
}

/* Checks that the plan has both a table of algorithms and its digest in the signature, or neither. */
static int check_algorithms(const struct ah_plan *plan, struct ah_error *err)
{
    const char *signed_digest = plan->numeric_signature.matmul_sha256;
    char digest[AH_SHA256_HEX_MAX];
    if (!plan->algorithms)
        return signed_digest ? ah_meaning_fail(err, "numeric_signature.matmul_sha256",
                                               "is the digest of algorithms, but that field is missing")
                             : AH_OK;
    ah_algorithms_digest(plan->algorithms, digest);
    if (!signed_digest || strcmp(signed_digest, digest) != 0)
        return ah_meaning_fail(err, "numeric_signature.matmul_sha256", "is not the digest of algorithms, %s",
                               digest);
    return AH_OK;
}

/* Counts the leading groups that form one sum: the first, and groups of one directly after it. */
static size_t count_joined(const uint64_t *sums, size_t n, uint64_t *ret_micro_batches)
{
    size_t joined = 0;
    *ret_micro_batches = 0;
    while (joined < n && (!joined || sums[joined] == 1))
        *ret_micro_batches += sums[joined++];
    return joined;
}

int ah_plan_check_sums(const uint64_t *sums, size_t n, struct ah_error *err)
{
    uint64_t first;
    const size_t joined = count_joined(sums, n, &first);
    if (n && joined == n)
        return ah_meaning_fail(err, "training.sums", "add up like a single group; leave them out");
    if (joined > 1)
        return ah_meaning_fail(err, "training.sums",
                               "have single micro-batches directly after the first group, which add up as "
                               "part of it; begin with %" PRIu64 ", %" PRIu64,
                               first, sums[joined]);
    return AH_OK;
}

static int check_sums(const struct ah_plan_training *training, struct ah_error *err)
{
    uint64_t micro_batches = 0;
    for (size_t i = 0; i < training->n_sums; i++)
        micro_batches += training->sums[i];
    const int rc = ah_plan_check_sums(training->sums, training->n_sums, err);
    if (rc)
        return rc;
    if (training->n_sums && micro_batches != training->micro_batches)
        return ah_meaning_fail(err, "training.sums",
                               "are %zu groups of %" PRIu64 " micro-batches; give two or more groups of all "
                               "%" PRIu64 ", or none",
                               training->n_sums, micro_batches, training->micro_batches);
    return AH_OK;
}

static int check_signature(const struct ah_plan *plan, struct ah_error *err)
{
    const struct ah_plan_training *training = &plan->training;
    const struct ah_signature told = ah_plan_signature(plan, plan->numeric_signature.device);
    char path[AH_SIGNATURE_PATH_MAX];
    if (training->batch % training->micro_batches)
        return ah_meaning_fail(err, "training.micro_batches", "%" PRIu64 " does not divide batch %" PRIu64,
                               training->micro_batches, training->batch);
    int rc = check_sums(training, err);
    if (rc)
        return rc;
    if (!ah_signature_differs(&told, &plan->numeric_signature, path))
        return AH_OK;
    char field[AH_SIGNATURE_PATH_MAX + 32];
    snprintf(field, sizeof field, "numeric_signature.%s", path);
    return ah_meaning_fail(err, field, "differs from training and inputs");
}

static int check_position(const struct ah_plan *plan, size_t op, const char *field, uint64_t position,
                          struct ah_error *err)
{
    if (position == AH_PLAN_NOWHERE || position < plan->arena.positions)
        return AH_OK;
    return ah_meaning_fail_item(err, "ops", op, field, "%" PRIu64 " is not below arena.positions %" PRIu64,
                                position, plan->arena.positions);
}

static int check_op(const struct ah_plan *plan, size_t i, struct ah_error *err)
{
    const struct ah_plan_op *op = &plan->ops[i];
    if (op->block >= plan->n_blocks)
        return ah_meaning_fail_item(err, "ops", i, "block", "there is no block %" PRIu64, op->block);
    if (op->micro_batch >= plan->training.micro_batches)
        return ah_meaning_fail_item(err, "ops", i, "micro_batch", "there is no micro-batch %" PRIu64,
                                    op->micro_batch);
    int rc = check_position(plan, i, "position", op->position, err);
    if (!rc)
        rc = check_position(plan, i, "issue_after", op->issue_after, err);
    return rc ? rc : check_position(plan, i, "due_before", op->due_before, err);
}

uint64_t ah_plan_model_blocks(const struct ah_plan *plan)
{
    return plan->part ? ah_model_blocks(&plan->model) : plan->n_blocks;
}

uint64_t ah_plan_first_block(const struct ah_plan *plan)
{
    return plan->part ? plan->part->first_block : 0;
}

bool ah_plan_adds_up(const struct ah_plan *plan)
{
    return (plan->part && plan->part->step_micro_batches ? plan->part->step_micro_batches
                                                         : plan->training.micro_batches) > 1 ||
           plan->training.tied == AH_TIED_SPLIT || ah_plan_shards(plan) > 1;
}

size_t ah_plan_join_sums(uint64_t *sums, size_t n)
{
    uint64_t first;
    const size_t joined = count_joined(sums, n, &first);
    if (joined == n)
        return 0;
    sums[joined - 1] = first;
    memmove(sums, sums + joined - 1, (n - joined + 1) * sizeof *sums);
    return n - joined + 1;
}

bool ah_plan_is_head(const struct ah_plan *plan, uint64_t block)
{
    return ah_plan_first_block(plan) + block + 1 == ah_plan_model_blocks(plan);
}

struct ah_signature ah_plan_signature(const struct ah_plan *plan, enum ah_device_kind device)
{
    const struct ah_plan_training *training = &plan->training;
    return (struct ah_signature){.model_sha256 = plan->inputs.model.sha256,
                                 .trainable = training->trainable,
                                 .n_trainable = training->n_trainable,
                                 .dtype = training->dtype,
                                 .state_dtype = training->state_dtype,
                                 .batch = training->batch,
                                 .micro_batches = training->micro_batches,
                                 .seq = training->seq,
                                 .clip = training->clip,
                                 .sums = training->sums,
                                 .n_sums = training->n_sums,
                                 .tied = training->tied,
                                 .device = device};
}

static int check_part(const struct ah_plan *plan, struct ah_error *err)
{
    const struct ah_plan_part *part = plan->part;
    if (!part)
        return plan->n_blocks >= 3
                   ? AH_OK
                   : ah_meaning_fail(err, "blocks", "are %zu; a model has embedding, layers, head",
                                     plan->n_blocks);
    const uint64_t blocks = ah_model_blocks(&plan->model), end = part->first_block + part->blocks;
    if (part->blocks != plan->n_blocks)
        return ah_meaning_fail(err, "part.blocks", "is %" PRIu64 "; blocks has %zu", part->blocks,
                               plan->n_blocks);
    if (part->step_micro_batches && part->step_micro_batches < plan->training.micro_batches)
        return ah_meaning_fail(err, "part.step_micro_batches",
                               "%" PRIu64 " is less than the %" PRIu64 " of its own pipeline",
                               part->step_micro_batches, plan->training.micro_batches);
    if (part->stage >= part->stages)
        return ah_meaning_fail(err, "part.stage", "is %" PRIu64 " of %" PRIu64 " stages", part->stage,
                               part->stages);
    if (end > blocks || (part->stage == 0) != (part->first_block == 0) ||
        (part->stage + 1 == part->stages) != (end == blocks))
        return ah_meaning_fail(err, "part.first_block",
                               "stage %" PRIu64 " of %" PRIu64 " does not have blocks %" PRIu64 " to %" PRIu64
                               " of a model of %" PRIu64,
                               part->stage, part->stages, part->first_block, end - 1, blocks);
    if (part->shards && (part->shards == 1 || part->stages > 1 || part->tp > 1 || part->step_micro_batches))
        return ah_meaning_fail(err, "part.shards",
                               "is %" PRIu64 "; at least two ranks share states, each with the whole model",
                               part->shards);
    if (part->shards && plan->training.tied == AH_TIED_SPLIT)
        return ah_meaning_fail(err, "training.tied",
                               "is 'split', but every rank has the whole model (part.shards)");
    if (plan->micro_batch_order != AH_MICRO_BATCH_MAJOR && !part->shards)
        return ah_meaning_fail(err, "micro_batch_order", "must be micro_batch_major for a part");
    return AH_OK;
}

static int check_blocks(const struct ah_plan *plan, struct ah_error *err)
{
    int rc = check_part(plan, err);
    for (size_t i = 0; i < plan->n_blocks && !rc; i++)
        if (plan->blocks[i].index != i)
            rc = ah_meaning_fail_item(err, "blocks", i, "index", "%" PRIu64 " is not %zu",
                                      plan->blocks[i].index, i);
    for (size_t i = 0; i < plan->n_blocks && !rc; i++)
        if (plan->blocks[i].weights == AH_WEIGHTS_GATHERED && ah_plan_shards(plan) == 1)
            rc = ah_meaning_fail_item(err, "blocks", i, "weights",
                                      "gathered needs part.shards, the number of ranks to gather from");
    for (size_t i = 0; i < plan->n_ops && !rc; i++)
        rc = check_op(plan, i, err);
    return rc;
}

/* Checks that a lane's order names only its own ops, and counts how often it names each. */
static int check_lane(const struct ah_plan *plan, enum ah_plan_lane lane, uint64_t *mentions,
                      struct ah_error *err)
{
    const uint64_t *order = plan->lanes.order[lane];
    size_t n = plan->lanes.n_order[lane];
    char list[40];
    snprintf(list, sizeof list, "lanes.%s", ah_words_plan_lane[lane]);
    for (size_t i = 0; i < n; i++) {
        if (order[i] >= plan->n_ops || plan->ops[order[i]].lane != lane)
            return ah_meaning_fail_item(err, list, i, NULL, "op %" PRIu64 " is not an op of this lane",
                                        order[i]);
        uint64_t position = plan->ops[order[i]].position;
        if (lane == AH_PLAN_LANE_COMPUTE && (position >= n || order[position] != order[i]))
            return ah_meaning_fail_item(err, list, i, NULL, "op %" PRIu64 " has position %" PRIu64, order[i],
                                        position);
        mentions[order[i]]++;
    }
    return AH_OK;
}

static int check_mentions(const struct ah_plan *plan, uint64_t *mentions, struct ah_error *err)
{
    int rc = AH_OK;
    for (unsigned lane = 0; lane < AH_PLAN_LANES && !rc; lane++)
        rc = check_lane(plan, lane, mentions, err);
    for (size_t i = 0; i < plan->n_ops && !rc; i++)
        if (mentions[i] != plan->ops[i].tiles)
            rc = ah_meaning_fail_item(err, "ops", i, "tiles",
                                      "is %" PRIu64 "; lanes list the op %" PRIu64 " times",
                                      plan->ops[i].tiles, mentions[i]);
    return rc;
}

static int check_lanes(const struct ah_plan *plan, struct ah_error *err)
{
    uint64_t *mentions = calloc(plan->n_ops, sizeof *mentions);
    if (!mentions)
        return ah_error_memory(err);
    int rc = check_mentions(plan, mentions, err);
    free(mentions);
    if (!rc && plan->lanes.n_order[AH_PLAN_LANE_COMPUTE] != plan->arena.positions)
        rc = ah_meaning_fail(err, "arena.positions", "is %" PRIu64 ", the compute lane has %zu",
                             plan->arena.positions, plan->lanes.n_order[AH_PLAN_LANE_COMPUTE]);
    return rc;
}

static int check_arena(const struct ah_plan *plan, struct ah_error *err)
{
    for (size_t i = 0; i < plan->arena.n_tensors; i++) {
        const struct ah_plan_tensor *tensor = &plan->arena.tensors[i];
        if (tensor->offset_bytes > plan->memory.device_bytes ||
            tensor->bytes > plan->memory.device_bytes - tensor->offset_bytes)
            return ah_meaning_fail_item(err, "arena.tensors", i, NULL, "ends beyond memory.device_bytes");
        if (tensor->from >= plan->arena.positions || tensor->to >= plan->arena.positions)
            return ah_meaning_fail_item(err, "arena.tensors", i, NULL,
                                        "is live at a position that does not exist");
        if (tensor->block != AH_PLAN_NOWHERE && tensor->block >= plan->n_blocks)
            return ah_meaning_fail_item(err, "arena.tensors", i, "block", "there is no block %" PRIu64,
                                        tensor->block);
    }
    return AH_OK;
}

static int check_what_if(const struct ah_plan *plan, struct ah_error *err)
{
    const struct ah_plan_memory *memory = &plan->memory;
    for (size_t i = 0; i < plan->n_what_if; i++) {
        const struct ah_plan_what_if *row = &plan->what_if[i];
        const bool device = row->field == AH_WHAT_IF_DEVICE_MEMORY;
        char path[48];
        snprintf(path, sizeof path, "what_if[%zu].planned_bytes", i);
        if (i && row->field <= plan->what_if[i - 1].field)
            return ah_meaning_fail(err, "what_if", "must name each field once, in their order");
        if (row->planned_bytes <= row->machine_bytes)
            return ah_meaning_fail(err, path, "%" PRIu64 " is not more than machine_bytes %" PRIu64,
                                   row->planned_bytes, row->machine_bytes);
        if (device ? row->planned_bytes != memory->device_capacity_bytes
                   : row->planned_bytes < memory->host_capacity_bytes)
            return ah_meaning_fail(err, path, "%" PRIu64 " does not match memory.%s_capacity_bytes",
                                   row->planned_bytes, device ? "device" : "host");
    }
    return AH_OK;
}

int ah_plan_check(const void *group, struct ah_error *err)
{
    const struct ah_plan *plan = group;
    if (plan->staging.tile_elements % AH_PLAN_TILE_UNIT)
        return ah_meaning_fail(err, "staging.tile_elements", "%" PRIu64 " is not a multiple of %d",
                               plan->staging.tile_elements, AH_PLAN_TILE_UNIT);
    int rc = check_signature(plan, err);
    if (!rc)
        rc = check_algorithms(plan, err);
    if (!rc)
        rc = check_what_if(plan, err);
    if (!rc)
        rc = check_blocks(plan, err);
    if (!rc)
        rc = check_lanes(plan, err);
    return rc ? rc : check_arena(plan, err);
}
