/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes: the job behind a plan. A plan has no sizes of groups, but every tensor and copy shows one: the first that shows
 * it is believed, the others are compared when all is built again (check_rebuild.c). What must hold between sizes
 * whatever the model is compared here.
 *
 *   1. Blocks of a group have as many parameters, all layers have; groups are named after what their blocks are.
 *   2. A vector has its parameters and less padding than each tensor could have; without a pattern that excludes, all of it
 *      is trained.
 *   3. The residual stream has a row of `width` a token. Embedding and head have whole rows of parameters.
 *   4. The tokens' tensor has two micro-batches of input, sums of squares, scalars, and perhaps rope's table.
 *   5. What is not recomputed is saved, less where some is, and whatever computes needs room.
 */
#include "runtime/schedule/check_internal.h"

#include "runtime/schedule/flat.h"
#include "runtime/schedule/layout.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct sizes {
    const struct ah_plan *plan;
    struct ah_check_job *out;
    struct ah_job *job;
    struct ah_job_group *groups;
    uint64_t times; /* micro-batches that are one tensor of activations */
    struct ah_error *err;
};

static const struct ah_plan_op *op_at(const struct sizes *s, uint64_t position)
{
    return &s->plan->ops[s->plan->lanes.compute[position]];
}

static struct ah_job_group *group_of(const struct sizes *s, uint64_t block)
{
    return &s->groups[s->job->group_of[block]];
}

/* ---- groups ---- */

/* Index of the group named so; a new one where there is none. Blocks of a group often stand together. */
static uint32_t find_group(struct sizes *s, size_t block)
{
    const char *name = s->plan->blocks[block].group;
    struct ah_job *job = s->job;
    if (block && !strcmp(s->plan->blocks[block - 1].group, name))
        return job->group_of[block - 1];
    uint32_t group = 0;
    while (group < job->n_groups && strcmp(s->groups[group].name, name) != 0)
        group++;
    return group;
}

static void add_block(struct sizes *s, size_t block)
{
    const struct ah_plan_block *it = &s->plan->blocks[block];
    struct ah_job *job = s->job;
    uint32_t group = find_group(s, block);
    job->group_of[block] = group;
    if (group == job->n_groups)
        s->groups[job->n_groups++] =
            (struct ah_job_group){.name = it->group,
                                  .kind = !block                       ? AH_BLOCK_EMBEDDING
                                          : block + 1 == job->n_blocks ? AH_BLOCK_HEAD
                                                                       : AH_BLOCK_LAYER,
                                  .backward = block >= job->lowest,
                                  .input_gradient = block > job->lowest,
                                  .first = block,
                                  .parameters = it->parameters,
                                  .trained_parameters = it->parameters};
    s->groups[group].blocks++;
}

static int make_groups(struct sizes *s, struct ah_arena *arena)
{
    struct ah_job *job = s->job;
    job->group_of = ah_arena_array(arena, job->n_blocks, sizeof *job->group_of);
    job->groups = s->groups = ah_arena_array(arena, job->n_blocks, sizeof *s->groups);
    if (!job->group_of || !s->groups)
        return ah_error_memory(s->err);
    while (job->lowest < job->n_blocks && s->plan->blocks[job->lowest].optimizer == AH_OPTIMIZER_NONE)
        job->lowest++;
    if (job->lowest == job->n_blocks)
        return ah_error_set(s->err, AH_E_DOCUMENT, "blocks: all optimizers are none; nothing is trained");
    for (size_t block = 0; block < job->n_blocks; block++)
        add_block(s, block);
    return AH_OK;
}

/* Moves behind `word` where the name begins with it. */
static bool skip(const char **name, const char *word)
{
    size_t length = strlen(word);
    if (strncmp(*name, word, length) != 0)
        return false;
    *name += length;
    return true;
}

static bool is_named_rightly(const struct sizes *s, const struct ah_job_group *group, size_t block)
{
    static const char *const kinds[] = {"embedding", "layer", "head"};
    const char *name = group->name;
    bool trained = s->plan->blocks[block].optimizer != AH_OPTIMIZER_NONE;
    bool backward = block >= s->job->lowest;
    bool lowest = block == s->job->lowest;
    bool layer = block && block + 1 < s->job->n_blocks;
    if (!skip(&name, kinds[!block ? 0 : layer ? 1 : 2]))
        return false;
    if (layer)
        skip(&name, "_windowed");
    if (!backward || !trained) {
        if (!skip(&name, backward ? ".frozen" : ".forward"))
            return false;
    } else if (skip(&name, ".partial")) {
        while (layer && *name >= '0' && *name <= '9')
            name++;
    }
    return (!layer || skip(&name, ".lowest") == lowest) && !*name;
}

/* Rule 1. */
static int check_groups(const struct sizes *s)
{
    const struct ah_plan_block *blocks = s->plan->blocks;
    for (size_t i = 0; i < s->job->n_blocks; i++) {
        const struct ah_job_group *group = group_of(s, i);
        uint64_t parameters =
            group->kind == AH_BLOCK_LAYER ? blocks[1].parameters : blocks[group->first].parameters;
        if (!is_named_rightly(s, group, i))
            return ah_error_set(s->err, AH_E_DOCUMENT,
                                "blocks[%zu].group: '%.80s' is not the group of this block", i, group->name);
        if (blocks[i].parameters != parameters)
            return ah_error_set(s->err, AH_E_DOCUMENT,
                                "blocks[%zu].parameters: is %" PRIu64 "; its like have %" PRIu64, i,
                                blocks[i].parameters, parameters);
    }
    return AH_OK;
}

/* ---- what is shown ---- */

static void learn(uint64_t *value, uint64_t shown)
{
    if (!*value)
        *value = shown;
}

static void learn_scratch(const struct sizes *s, struct ah_job_group *group, uint64_t position,
                          uint64_t bytes)
{
    if (position >= s->plan->lanes.n_compute)
        return;
    const struct ah_plan_op *op = op_at(s, position);
    enum ah_activations activations = s->plan->blocks[op->block].activations;
    if (group_of(s, op->block) == group && op->op == AH_PLAN_FORWARD)
        learn(&group->forward_work_bytes[activations], bytes);
    if (group_of(s, op->block) == group && op->op == AH_PLAN_BACKWARD)
        learn(&group->backward_work_bytes[activations], bytes);
}

static void learn_tensor(struct sizes *s, const struct ah_plan_tensor *tensor)
{
    struct ah_tensor_name name;
    uint64_t number;
    if (!ah_name_read(ah_names_of_plan(s->plan), tensor->name, &name, &number))
        return;
    struct ah_job *job = s->job;
    struct ah_job_group *group = group_of(s, name.block);
    bool trained = s->plan->blocks[name.block].optimizer != AH_OPTIMIZER_NONE;
    if (name.label == AH_TENSOR_WEIGHTS)
        learn(&group->flat_elements, tensor->bytes / job->weight_bytes);
    else if (name.label == AH_TENSOR_GRADIENT && trained)
        learn(&group->trained_elements, tensor->bytes / job->gradient_bytes);
    else if (name.label == AH_TENSOR_INPUT)
        learn(&job->residual_bytes, tensor->bytes / s->times);
    else if (name.label == AH_TENSOR_SAVED)
        learn(&group->saved_bytes[s->plan->blocks[name.block].activations], tensor->bytes / s->times);
    else if (name.label == AH_TENSOR_SCRATCH)
        learn_scratch(s, group, number, tensor->bytes);
    else if (name.label == AH_TENSOR_TOKENS && tensor->bytes > 2 * job->input_bytes)
        learn(&job->constant_bytes, tensor->bytes - 2 * job->input_bytes);
}

/* Fetches show the vectors of weights on the host; those of the embedding's rows are gathered. */
static void learn_fetch(struct sizes *s, const struct ah_plan_op *op)
{
    struct ah_job_group *group = group_of(s, op->block);
    if (op->due_before >= s->plan->lanes.n_compute)
        return;
    if (!op->block && !op_at(s, op->due_before)->block)
        learn(&group->gathered_bytes, op->bytes);
    else
        learn(&group->flat_elements, op->bytes / s->job->weight_bytes);
}

static void learn_all(struct sizes *s)
{
    for (size_t i = 0; i < s->plan->arena.n_tensors; i++)
        learn_tensor(s, &s->plan->arena.tensors[i]);
    for (size_t i = 0; i < s->plan->n_ops; i++)
        if (s->plan->ops[i].op == AH_PLAN_FETCH)
            learn_fetch(s, &s->plan->ops[i]);
    for (size_t g = 0; g < s->job->n_groups; g++)
        if (s->groups[g].kind != AH_BLOCK_EMBEDDING)
            s->groups[g].input_bytes = s->job->residual_bytes;
}

/* ---- what must hold ---- */

static bool trains_everything(const struct ah_plan_training *training)
{
    return training->n_trainable == 1 && !strcmp(training->trainable[0], "*");
}

static int check_vector(const struct sizes *s, const struct ah_job_group *group)
{
    uint64_t padding = AH_MODEL_TENSORS_MAX * (AH_FLAT_ALIGN - 1);
    bool aligned = group->flat_elements % AH_FLAT_ALIGN == 0 && group->trained_elements % AH_FLAT_ALIGN == 0;
    if (!aligned || group->flat_elements < group->parameters ||
        group->flat_elements - group->parameters > padding)
        return ah_error_set(s->err, AH_E_DOCUMENT,
                            "blocks[%" PRIu64 "].parameters: is %" PRIu64 "; its weights are %" PRIu64
                            " elements with padding",
                            group->first, group->parameters, group->flat_elements);
    bool trained = s->plan->blocks[group->first].optimizer != AH_OPTIMIZER_NONE;
    bool partial = strstr(group->name, ".partial") != NULL;
    if (!trained ||
        (partial ? group->trained_elements < group->flat_elements && !trains_everything(&s->plan->training)
                 : group->trained_elements == group->flat_elements))
        return AH_OK;
    return ah_error_set(s->err, AH_E_DOCUMENT,
                        "blocks[%" PRIu64 "]: of the %" PRIu64
                        " elements of group '%.80s', gradients have %" PRIu64,
                        group->first, group->flat_elements, group->name, group->trained_elements);
}

/* Rule 2. Of an embedding whose rows alone are fetched nothing shows the vector, unless it is trained whole. It has one or
 * two tensors. */
static int check_vectors(struct sizes *s)
{
    struct ah_job_group *table = group_of(s, 0);
    if (!table->flat_elements && !strstr(table->name, "."))
        table->flat_elements = table->trained_elements;
    if (!table->flat_elements) {
        uint64_t least = (table->parameters + AH_FLAT_ALIGN - 1) / AH_FLAT_ALIGN;
        table->flat_elements = least * AH_FLAT_ALIGN;
        s->out->padding_bytes = AH_FLAT_ALIGN * s->job->weight_bytes;
    }
    int rc = AH_OK;
    for (size_t g = 0; g < s->job->n_groups && !rc; g++)
        rc = check_vector(s, &s->groups[g]);
    return rc;
}

/* Rule 3. */
static int check_rows(struct sizes *s)
{
    struct ah_job *job = s->job;
    const struct ah_plan_block *blocks = s->plan->blocks;
    uint64_t row_bytes = job->tokens * job->weight_bytes;
    uint64_t width = job->residual_bytes / row_bytes;
    if (!width || job->residual_bytes % row_bytes)
        return ah_error_set(s->err, AH_E_DOCUMENT,
                            "arena.tensors: inputs of blocks are %" PRIu64
                            " bytes a micro-batch, which its %" PRIu64 " tokens do not divide",
                            job->residual_bytes, job->tokens);
    for (size_t i = 0; i < job->n_blocks; i += job->n_blocks - 1)
        if (!blocks[i].parameters || blocks[i].parameters % width)
            return ah_error_set(s->err, AH_E_DOCUMENT,
                                "blocks[%zu].parameters: is %" PRIu64 "; the model's width is %" PRIu64, i,
                                blocks[i].parameters, width);
    uint64_t positions_bytes = job->training.seq * width * job->weight_bytes;
    uint64_t gathered = group_of(s, 0)->gathered_bytes;
    if (gathered && gathered != job->residual_bytes && gathered != job->residual_bytes + positions_bytes)
        return ah_error_set(s->err, AH_E_DOCUMENT,
                            "ops: rows of %" PRIu64 " bytes are fetched; those of a micro-batch have %" PRIu64
                            ", %" PRIu64 " with positions",
                            gathered, job->residual_bytes, job->residual_bytes + positions_bytes);
    return AH_OK;
}

/* Rule 4. */
static int check_constants(const struct sizes *s)
{
    const struct ah_job *job = s->job;
    uint64_t least = (uint64_t)job->n_blocks * sizeof(double) + AH_JOB_SCALARS_BYTES;
    uint64_t row_bytes = job->training.seq * sizeof(float);
    if (job->constant_bytes >= least && (job->constant_bytes - least) % row_bytes == 0)
        return AH_OK;
    return ah_error_set(s->err, AH_E_DOCUMENT,
                        "arena.tensors: 'tokens' has %" PRIu64
                        " bytes; two micro-batches and what stays have %" PRIu64
                        " and a multiple of %" PRIu64,
                        2 * job->input_bytes + job->constant_bytes, 2 * job->input_bytes + least, row_bytes);
}

/* Rule 5. What is wrong here; NULL: nothing. */
static const char *wrong_room(const struct sizes *s, size_t block)
{
    const struct ah_job_group *group = group_of(s, block);
    enum ah_activations way = s->plan->blocks[block].activations;
    bool layer = group->kind == AH_BLOCK_LAYER;
    bool saves = layer && group->backward && way != AH_ACTIVATIONS_RECOMPUTE;
    bool sorts =
        group->kind == AH_BLOCK_EMBEDDING && !strstr(group->name, ".partial"); /* tokens, for its table */
    bool backward = group->backward && (layer || sorts);
    bool forward =
        group->kind == AH_BLOCK_HEAD || (layer && (!group->backward || way != AH_ACTIVATIONS_KEEP));
    if (saves != (group->saved_bytes[way] > 0))
        return saves ? "its 'saved' tensor is missing" : "it has a 'saved' tensor, and nothing to save";
    if (group->saved_bytes[way] % AH_LAYOUT_ALIGN || group->forward_work_bytes[way] % AH_LAYOUT_ALIGN ||
        group->backward_work_bytes[way] % AH_LAYOUT_ALIGN)
        return "its 'saved' and 'scratch' tensors are made of parts of whole multiples of 256 bytes";
    uint64_t keep = group->saved_bytes[AH_ACTIVATIONS_KEEP];
    bool whole = !strstr(group->name, ".partial") && !strstr(group->name, ".frozen");
    if (keep && whole && group->saved_bytes[AH_ACTIVATIONS_SELECTIVE] >= keep)
        return "'selective' blocks of its group save as much as those that 'keep'";
    if (backward && !group->backward_work_bytes[way])
        return "the 'scratch' of its backward is missing";
    return forward && !group->forward_work_bytes[way] ? "the 'scratch' of its forward is missing" : NULL;
}

static int check_room(const struct sizes *s)
{
    for (size_t block = 0; block < s->job->n_blocks; block++) {
        const char *wrong = wrong_room(s, block);
        char name[AH_NAME_MAX];
        if (!wrong)
            continue;
        ah_name_block(ah_names_of_job(s->job), block, name);
        return ah_error_set(s->err, AH_E_DOCUMENT, "arena.tensors: '%s': %s", name, wrong);
    }
    return AH_OK;
}

/* ---- the job ---- */

static int size_job(struct sizes *s)
{
    const struct ah_plan_training *training = &s->plan->training;
    struct ah_job *job = s->job;
    uint64_t tokens = training->batch / training->micro_batches * training->seq;
    if (tokens > UINT32_MAX)
        return ah_error_set(s->err, AH_E_DOCUMENT,
                            "training.batch: a micro-batch has 2^32 tokens or more, %" PRIu64, tokens);
    bool bf16 = training->dtype == AH_BF16;
    s->out->model.tied = s->plan->model.tied;
    *job = (struct ah_job){.model = &s->out->model,
                           .training = *training,
                           .n_blocks = s->plan->n_blocks,
                           .part = {.blocks = s->plan->n_blocks, .tp = 1, .stages = 1},
                           .has_head = true,
                           .tokens = tokens,
                           .input_bytes = ah_job_input_bytes(tokens),
                           .weight_bytes = ah_dtype_bytes(training->dtype),
                           .gradient_bytes = ah_dtype_bytes(training->dtype),
                           .state_bytes =
                               2 * ah_dtype_bytes(training->state_dtype) + (bf16 ? sizeof(float) : 0)};
    s->times = s->plan->micro_batch_order == AH_BLOCK_MAJOR ? training->micro_batches : 1;
    return AH_OK;
}

static int learn_times(struct sizes *s, struct ah_arena *arena)
{
    struct ah_check_job *out = s->out;
    size_t cells = s->job->n_blocks * s->plan->training.micro_batches;
    out->base_us = ah_arena_array(arena, 2 * cells + s->plan->lanes.n_compute, sizeof *out->base_us);
    out->costs.groups = ah_arena_array(arena, s->job->n_groups, sizeof *out->costs.groups);
    if (!out->base_us || !out->costs.groups)
        return ah_error_memory(s->err);
    size_t n = 0;
    for (size_t p = 0; p < s->plan->lanes.n_compute; p++) {
        const struct ah_plan_op *op = op_at(s, p);
        if (op->op != AH_PLAN_DEVICE_ADAM)
            out->base_us[n++] = op->us;
    }
    struct ah_check_copies copies = ah_check_copies(s->plan, AH_PLAN_LANE_H2D);
    out->costs.h2d_latency_us = copies.us_a_tile;
    out->costs.h2d_us_per_byte = copies.us_a_byte;
    return AH_OK;
}

int ah_check_part(const struct ah_plan *plan, struct ah_arena *arena, struct ah_check_job *ret_job,
                  struct ah_error *err)
{
    *ret_job = (struct ah_check_job){0};
    struct sizes s = {.plan = plan, .out = ret_job, .job = &ret_job->job, .err = err};
    struct ah_error cause = {0};
    int rc = ah_job_init_part(s.job, &plan->model, &plan->training, plan->part, arena, &cause);
    if (rc && rc != AH_E_MEMORY)
        return ah_error_set(err, AH_E_DOCUMENT, "part: %s", cause.text);
    return rc ? ah_error_memory(err) : learn_times(&s, arena);
}

int ah_check_sizes(const struct ah_plan *plan, struct ah_arena *arena, struct ah_check_job *ret_job,
                   struct ah_error *err)
{
    static int (*const parts[])(struct sizes *) = {check_rows, check_vectors};
    static int (*const rules[])(const struct sizes *) = {check_groups, check_constants, check_room};
    *ret_job = (struct ah_check_job){0};
    struct sizes s = {.plan = plan, .out = ret_job, .job = &ret_job->job, .err = err};
    int rc = size_job(&s);
    if (!rc)
        rc = make_groups(&s, arena);
    if (!rc)
        learn_all(&s);
    for (size_t i = 0; i < sizeof rules / sizeof *rules && !rc; i++)
        rc = rules[i](&s);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !rc; i++)
        rc = parts[i](&s);
    return rc ? rc : learn_times(&s, arena);
}
