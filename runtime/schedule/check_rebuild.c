/* SPDX-License-Identifier: Apache-2.0
 *
 * Rebuild: compiles the configs of a plan once more and compares the result with the plan. It compares every field of
 * every op, the name, size and lifetime of every tensor, rings, host memory, and what fills the device. Offsets are not
 * compared: any layout without overlap is right (check_arena.c).
 */
#include "runtime/schedule/check_internal.h"

#include "runtime/schedule/layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rebuild {
    const struct ah_plan *plan;
    const struct ah_check_inputs *inputs;
    const char *source; /* for messages: where derived values come from */
    struct ah_choice choice;
    struct ah_config *configs;
    struct ah_compile_memory memory;
    struct ah_compiled compiled;
    struct ah_error *err;
};

/* ---- ops ---- */

static const struct op_field {
    const char *name;
    size_t offset;
    const char *const *words; /* words of the enum; NULL if the field is a number */
} op_fields[] = {
    {"op", offsetof(struct ah_plan_op, op), ah_words_plan_op},
    {"lane", offsetof(struct ah_plan_op, lane), ah_words_plan_lane},
    {"block", offsetof(struct ah_plan_op, block), NULL},
    {"micro_batch", offsetof(struct ah_plan_op, micro_batch), NULL},
    {"position", offsetof(struct ah_plan_op, position), NULL},
    {"issue_after", offsetof(struct ah_plan_op, issue_after), NULL},
    {"due_before", offsetof(struct ah_plan_op, due_before), NULL},
    {"tiles", offsetof(struct ah_plan_op, tiles), NULL},
    {"bytes", offsetof(struct ah_plan_op, bytes), NULL},
};
enum { OP_FIELDS = sizeof op_fields / sizeof *op_fields };

static uint64_t op_value(const struct op_field *field, const struct ah_plan_op *op)
{
    uint64_t count;
    unsigned word;
    const char *at = (const char *)op + field->offset;
    if (field->words)
        memcpy(&word, at, sizeof word);
    else
        memcpy(&count, at, sizeof count);
    return field->words ? word : count;
}

/* Returns the first field in which the ops differ; NULL if they are equal. */
static const struct op_field *op_difference(const struct ah_plan_op *a, const struct ah_plan_op *b)
{
    for (size_t i = 0; i < OP_FIELDS; i++)
        if (op_value(&op_fields[i], a) != op_value(&op_fields[i], b))
            return &op_fields[i];
    return NULL;
}

static void print_value(const struct op_field *field, const struct ah_plan_op *op, char ret_text[32])
{
    uint64_t value = op_value(field, op);
    if (field->words)
        snprintf(ret_text, 32, "%s", field->words[value]);
    else if (value == AH_PLAN_NOWHERE)
        snprintf(ret_text, 32, "absent");
    else
        snprintf(ret_text, 32, "%" PRIu64, value);
}

static int compare_op(const struct rebuild *r, size_t i)
{
    const struct ah_plan_op *stated = &r->plan->ops[i], *derived = &r->compiled.iteration.ops[i];
    const struct op_field *field = op_difference(stated, derived);
    char is[32], follows[32], place[48];
    if (field) {
        print_value(field, stated, is);
        print_value(field, derived, follows);
        return ah_error_set(r->err, AH_E_DOCUMENT, "ops[%zu].%s: is %s; %s %s", i, field->name, is, follows,
                            r->source);
    }
    if (!r->inputs->from_documents || stated->us == derived->us)
        return AH_OK;
    snprintf(place, sizeof place, "ops[%zu].us", i);
    return ah_check_number(place, stated->us, derived->us, r->source, r->err);
}

static int compare_ops(const struct rebuild *r)
{
    const struct ah_iteration *it = &r->compiled.iteration;
    int rc = AH_OK;
    for (size_t i = 0; i < it->n_ops && i < r->plan->n_ops && !rc; i++)
        rc = compare_op(r, i);
    return rc ? rc : ah_check_count("ops: the number of items", r->plan->n_ops, it->n_ops, r->source, r->err);
}

/* ---- knobs ---- */

static void read_knobs(struct rebuild *r)
{
    const struct ah_plan *plan = r->plan;
    r->choice.knobs = (struct ah_knobs){.tile_elements = plan->staging.tile_elements,
                                        .micro_order = plan->micro_batch_order,
                                        .fetch_ahead = (uint32_t)plan->knobs.fetch_ahead,
                                        .send_behind = (uint32_t)plan->knobs.send_behind,
                                        .host_gradient_tiles = (uint32_t)plan->staging.host_gradient_tiles,
                                        .host_weight_tiles = (uint32_t)plan->staging.host_weight_tiles,
                                        .device_state_tiles = (uint32_t)plan->staging.device_state_tiles,
                                        .updates_after_backward = plan->knobs.updates_after_backward,
                                        .step_ends = plan->knobs.step_ends,
                                        .scheduling = plan->scheduling};
}

static int compile(struct rebuild *r)
{
    struct ah_error cause = {0};
    int rc = ah_compile(&r->memory, r->inputs->job, &r->choice, &r->compiled, &cause);
    if (rc && rc != AH_E_MEMORY)
        return ah_error_set(r->err, AH_E_DOCUMENT, "blocks: %s", cause.text);
    return rc ? ah_error_memory(r->err) : AH_OK;
}

/* ---- tensors ---- */

static int compare_tensor(const struct rebuild *r, size_t i)
{
    const struct ah_plan_tensor *stated = &r->plan->arena.tensors[i];
    const struct ah_layout_tensor *derived = &r->compiled.tensors[i];
    const struct ah_tensor_name *name = &r->compiled.names[i];
    if (stated->label != name->label)
        return ah_error_set(r->err, AH_E_DOCUMENT, "arena.tensors[%zu].label: is %s; %s %s", i,
                            ah_words_tensor[stated->label], ah_words_tensor[name->label], r->source);
    const struct {
        const char *field;
        uint64_t stated, derived;
    } fields[] = {{"block", stated->block, ah_name_owner(name)},
                  {"micro_batch", stated->micro_batch, name->micro_batch},
                  {"bytes", stated->bytes, derived->bytes},
                  {"from", stated->from, derived->from},
                  {"to", stated->to, derived->to}};
    int rc = AH_OK;
    for (size_t f = 0; f < sizeof fields / sizeof *fields && !rc; f++) {
        char place[64];
        snprintf(place, sizeof place, "arena.tensors[%zu].%s", i, fields[f].field);
        rc = ah_check_count(place, fields[f].stated, fields[f].derived, r->source, r->err);
    }
    return rc;
}

static int compare_tensors(const struct rebuild *r)
{
    size_t stated = r->plan->arena.n_tensors, derived = r->compiled.n_tensors;
    int rc = AH_OK;
    for (size_t i = 0; i < stated && i < derived && !rc; i++)
        rc = compare_tensor(r, i);
    return rc ? rc : ah_check_count("arena.tensors: the number of items", stated, derived, r->source, r->err);
}

/* ---- memory ---- */

static int compare_memory(const struct rebuild *r)
{
    const struct ah_plan_staging *stated = &r->plan->staging, *derived = &r->compiled.staging;
    const struct {
        const char *place;
        uint64_t stated, derived;
    } counts[] = {
        {"staging.host_gradient_tiles", stated->host_gradient_tiles, derived->host_gradient_tiles},
        {"staging.host_weight_tiles", stated->host_weight_tiles, derived->host_weight_tiles},
        {"staging.device_state_tiles", stated->device_state_tiles, derived->device_state_tiles},
        {"memory.pinned_bytes", r->plan->memory.pinned_bytes, r->compiled.pinned_bytes},
        {"memory.pageable_bytes", r->plan->memory.pageable_bytes, r->compiled.pageable_bytes},
    };
    int rc = AH_OK;
    for (size_t i = 0; i < sizeof counts / sizeof *counts && !rc; i++)
        rc = ah_check_count(counts[i].place, counts[i].stated, counts[i].derived, r->source, r->err);
    return rc;
}

static int compare_classes(const struct rebuild *r)
{
    const struct ah_plan_by_class *stated = &r->plan->memory.by_class;
    struct ah_layout layout = {0};
    struct ah_layout_result result;
    int rc = ah_layout_reserve(&layout, r->compiled.n_tensors, r->compiled.iteration.positions, r->err);
    if (rc)
        return rc == AH_E_MEMORY ? rc
                                 : ah_error_set(r->err, AH_E_DOCUMENT,
                                                "arena.tensors: too many; plan with fewer micro-batches");
    ah_layout_live(&layout, r->compiled.tensors, r->compiled.n_tensors, r->compiled.iteration.positions,
                   &result);
    ah_layout_release(&layout);
    const struct {
        const char *place;
        uint64_t stated, derived;
    } classes[] = {
        {"memory.by_class.weights", stated->weights, result.by_class[AH_CLASS_WEIGHTS]},
        {"memory.by_class.gradients", stated->gradients, result.by_class[AH_CLASS_GRADIENTS]},
        {"memory.by_class.optimizer", stated->optimizer, result.by_class[AH_CLASS_OPTIMIZER]},
        {"memory.by_class.activations", stated->activations, result.by_class[AH_CLASS_ACTIVATIONS]},
        {"memory.by_class.staging", stated->staging, result.by_class[AH_CLASS_STAGING]},
        {"memory.by_class.workspace", stated->workspace, result.by_class[AH_CLASS_WORKSPACE]},
    };
    for (size_t i = 0; i < sizeof classes / sizeof *classes && !rc; i++)
        rc = ah_check_count(classes[i].place, classes[i].stated, classes[i].derived, r->source, r->err);
    return rc;
}

/* ---- the whole rebuild ---- */

static int read_configs(struct rebuild *r)
{
    r->configs = calloc(r->plan->n_blocks, sizeof *r->configs);
    if (!r->configs)
        return ah_error_memory(r->err);
    for (size_t i = 0; i < r->plan->n_blocks; i++) {
        const struct ah_plan_block *block = &r->plan->blocks[i];
        r->configs[i] = (struct ah_config){.activations = (uint8_t)block->activations,
                                           .weights = (uint8_t)block->weights,
                                           .optimizer = (uint8_t)block->optimizer,
                                           .accumulator = (uint8_t)block->accumulator};
    }
    r->choice.configs = r->configs;
    return AH_OK;
}

int ah_check_rebuild(const struct ah_plan *plan, const struct ah_check_inputs *inputs, struct ah_error *err)
{
    static int (*const parts[])(const struct rebuild *) = {compare_ops, compare_tensors, compare_memory,
                                                           compare_classes};
    struct rebuild r = {.plan = plan,
                        .inputs = inputs,
                        .source = inputs->from_documents ? "follows from model and machine"
                                                         : "follows from the rest of the plan",
                        .choice = {.costs = inputs->costs, .base_us = inputs->base_us},
                        .err = err};
    int rc = read_configs(&r);
    read_knobs(&r);
    rc = rc ? rc : compile(&r);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !rc; i++)
        rc = parts[i](&r);
    ah_compile_release(&r.memory);
    free(r.configs);
    return rc;
}
