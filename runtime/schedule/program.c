/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the program of a pass from the forward or the backward line. A backward program repeats the forward steps whose
 * results are not saved, each before the first step that needs it.
 */
#include "runtime/schedule/program_internal.h"

#include <string.h>

int ah_program_block_init(struct ah_program_block *ret_block, const struct ah_job *job,
                          const struct ah_job_group *group, struct ah_error *err)
{
    ah_program_context_init(&ret_block->context, job, group);
    const struct ah_program_context *context = &ret_block->context;
    const struct step_rule *backward = ah_program_backward_rules(group->kind);
    int rc = ah_program_line_init(&ret_block->forward, context, ah_program_forward_rules(group->kind), err);
    ret_block->backward.n = 0;
    if (!rc && group->backward)
        rc = ah_program_line_init(&ret_block->backward, context, backward, err);
    if (!rc)
        ah_program_memory_choose(ret_block);
    return rc;
}

/* ---- places ---- */

static void put_gate_up(const struct ah_program_context *context, struct ah_program_place *places)
{
    static const char name[] = "mlp.gate_up.weight";
    if (!(context->features & PACKED))
        return;
    const size_t gate = ah_flat_find(&context->flat, "mlp.gate.weight");
    const uint64_t element = ah_dtype_bytes(context->job->training.dtype);
    const struct ah_flat_tensor *first = &context->flat.tensors[gate];
    const uint64_t bytes = 2 * first->elements * element;
    places[PLACE_GATE_UP] = (struct ah_program_place){name, AH_HOME_WEIGHTS, bytes, first->first * element};
    if (context->features & PACKED_GRADIENT)
        places[PLACE_GATE_UP_GRADIENT] =
            (struct ah_program_place){name, AH_HOME_GRADIENTS, bytes, first->trained_first * element};
}

static void put_parameters(const struct ah_program_context *context, struct ah_program_place *places)
{
    const uint64_t element = ah_dtype_bytes(context->job->training.dtype);
    for (size_t i = 0; i < context->flat.n; i++) {
        const struct ah_flat_tensor *tensor = &context->flat.tensors[i];
        places[PLACE_WEIGHTS + i] = (struct ah_program_place){
            tensor->tensor.name, AH_HOME_WEIGHTS, tensor->elements * element, tensor->first * element};
        if (tensor->trained)
            places[PLACE_GRADIENTS + i] =
                (struct ah_program_place){tensor->tensor.name, AH_HOME_GRADIENTS, tensor->elements * element,
                                          tensor->trained_first * element};
    }
    put_gate_up(context, places);
    if (!context->table.n)
        return;
    const struct ah_flat_tensor *table = &context->table.tensors[0];
    uint64_t bytes = table->elements * element;
    places[PLACE_TABLE] = (struct ah_program_place){table->tensor.name, AH_HOME_TABLE, bytes, 0};
    if (table->trained)
        places[PLACE_TABLE_GRADIENT] =
            (struct ah_program_place){table->tensor.name, AH_HOME_TABLE_GRADIENTS, bytes, 0};
}

static void put_tensors(const struct ah_program_block *block, enum ah_activations activations,
                        struct ah_program *program)
{
    uint64_t saved[TENSORS] = {0};
    program->saved_bytes = ah_program_memory_saved(block, activations, saved);
    for (size_t tensor = 1; tensor < TENSORS; tensor++) {
        const struct tensor_rule *rule = &ah_program_tensor_rules[tensor];
        program->places[tensor] = (struct ah_program_place){
            rule->name, block->saved[activations][tensor] ? AH_HOME_SAVED : rule->home,
            ah_program_tensor_bytes(&block->context, (enum tensor)tensor), saved[tensor]};
    }
}

/* Removes places that no op of the program uses. */
static void drop_untouched(struct ah_program *program)
{
    bool touched[AH_PROGRAM_PLACES_MAX + 1] = {false};
    for (size_t i = 0; i < program->n_ops; i++)
        for (size_t arg = 0; arg < AH_OP_ARGS; arg++)
            if (program->ops[i].place[arg] != AH_PROGRAM_NO_PLACE)
                touched[program->ops[i].place[arg]] = true;
    for (size_t place = 0; place < program->n_places; place++)
        if (!touched[place])
            program->places[place].home = AH_HOME_NONE;
}

/* ---- the line of a pass ---- */

struct emission {
    const struct ah_program_block *block;
    const bool *saved;
    struct ah_program *program;
    bool repeated[NODES_MAX]; /* forward steps that this backward program already repeats */
};

static void emit_op(struct emission *emission, const struct node *node, bool recomputed)
{
    struct ah_program *program = emission->program;
    struct ah_program_op *op = &program->ops[program->n_ops++];
    *op = node->step;
    op->recomputed = recomputed;
    for (size_t i = 0; i < AH_OP_ARGS; i++) {
        if (node->rule->arg[i].kind != OP_SCRATCH || node->role[i] == AH_ROLE_NONE)
            continue;
        op->place[i] = (uint8_t)program->n_places;
        program->places[program->n_places++] =
            (struct ah_program_place){node->rule->name, AH_HOME_SCRATCH, node->scratch_bytes, 0};
    }
}

static bool writes(const struct node *node, size_t place)
{
    for (size_t i = 0; i < AH_OP_ARGS; i++)
        if (node->step.place[i] == place && (node->role[i] == AH_ROLE_OUT || node->role[i] == AH_ROLE_INOUT))
            return true;
    return false;
}

static bool is_read(const struct node *node, size_t arg)
{
    return node->role[arg] == AH_ROLE_IN || node->role[arg] == AH_ROLE_INOUT;
}

/* Emits the forward steps before `end` that make what `node` reads, at most once each, after the steps that make what
 * they read. Tensors are written before they are read (program_table.c, 1). So the recursion is no deeper than the
 * line, and steps that write one tensor keep their order. */
static void provide(struct emission *emission, const struct node *node, size_t end)
{
    const struct line *forward = &emission->block->forward;
    for (size_t arg = 0; arg < AH_OP_ARGS; arg++) {
        size_t place = node->step.place[arg];
        if (!is_read(node, arg) || place >= TENSORS || emission->saved[place] ||
            ah_program_tensor_rules[place].home != AH_HOME_SCRATCH)
            continue;
        for (size_t i = 0; i < end; i++) {
            const struct node *maker = &forward->nodes[i];
            if (emission->repeated[i] || !writes(maker, place))
                continue;
            emission->repeated[i] = true;
            provide(emission, maker, i);
            emit_op(emission, maker, true);
        }
    }
}

void ah_program_block_pass(const struct ah_program_block *block, enum ah_pass pass,
                           enum ah_activations activations, struct ah_program *ret_program)
{
    struct emission emission = {.block = block, .saved = block->saved[activations], .program = ret_program};
    memset(ret_program, 0, sizeof *ret_program);
    ret_program->n_places = PLACE_SCRATCH;
    put_tensors(block, activations, ret_program);
    put_parameters(&block->context, ret_program->places);
    const struct line *line = pass == AH_PASS_FORWARD ? &block->forward : &block->backward;
    for (size_t i = 0; i < line->n; i++) {
        if (pass == AH_PASS_BACKWARD)
            provide(&emission, &line->nodes[i], block->forward.n);
        emit_op(&emission, &line->nodes[i], false);
    }
    drop_untouched(ret_program);
    ah_program_memory_place(ret_program);
}

/* ---- the public functions ---- */

int ah_program_build(const struct ah_job *job, const struct ah_job_group *group, enum ah_pass pass,
                     enum ah_activations activations, struct ah_program *ret_program, struct ah_error *err)
{
    struct ah_program_block block;
    int rc = ah_program_block_init(&block, job, group, err);
    if (!rc)
        ah_program_block_pass(&block, pass, activations, ret_program);
    return rc;
}

void ah_program_drop_documents(struct ah_op *op, uint64_t seq)
{
    if (op->kind == AH_OP_ROPE) {
        op->arg[2] = (struct ah_ref){0};
        op->u.rope.seq = (uint32_t)seq;
    } else if (op->kind == AH_OP_EMBED || op->kind == AH_OP_EMBED_BACKWARD) {
        op->arg[4] = (struct ah_ref){0};
        op->u.embed.seq = op->u.embed.positions ? seq : 0;
    } else if (op->kind == AH_OP_ATTENTION) {
        op->arg[5] = (struct ah_ref){0};
    } else if (op->kind == AH_OP_ATTENTION_BACKWARD) {
        op->arg[9] = (struct ah_ref){0};
    }
}

int ah_program_measure(const struct ah_job *job, const struct ah_job_group *group,
                       struct ah_program_sizes *ret_sizes, struct ah_error *err)
{
    struct ah_program_block block;
    struct ah_program program;
    int rc = ah_program_block_init(&block, job, group, err);
    for (int way = 0; way < AH_ACTIVATIONS_WAYS && !rc; way++) {
        ah_program_block_pass(&block, AH_PASS_FORWARD, (enum ah_activations)way, &program);
        ret_sizes->saved_bytes[way] = program.saved_bytes;
        ret_sizes->forward_work_bytes[way] = program.scratch_bytes;
        ah_program_block_pass(&block, AH_PASS_BACKWARD, (enum ah_activations)way, &program);
        ret_sizes->backward_work_bytes[way] = program.scratch_bytes;
    }
    return rc;
}

size_t ah_program_saved(const struct ah_job *job, const struct ah_job_group *group,
                        struct ah_program_tensor ret_tensors[AH_PROGRAM_TENSORS_MAX])
{
    struct ah_program_block block;
    uint64_t offsets[AH_ACTIVATIONS_WAYS][TENSORS] = {{0}};
    size_t n = 0;
    if (ah_program_block_init(&block, job, group, NULL))
        return 0;
    for (int way = 0; way < AH_ACTIVATIONS_WAYS; way++)
        ah_program_memory_saved(&block, (enum ah_activations)way, offsets[way]);
    for (size_t tensor = 0; tensor < TENSORS; tensor++) {
        if (!block.saved[AH_ACTIVATIONS_KEEP][tensor])
            continue;
        struct ah_program_tensor *saved = &ret_tensors[n++];
        *saved =
            (struct ah_program_tensor){.name = ah_program_tensor_rules[tensor].name,
                                       .bytes = ah_program_tensor_bytes(&block.context, (enum tensor)tensor)};
        for (int way = 0; way < AH_ACTIVATIONS_WAYS; way++) {
            saved->saved[way] = block.saved[way][tensor];
            saved->offset[way] = offsets[way][tensor];
        }
    }
    return n;
}

/* ---- steps as a cost model sees them ---- */

/* Returns the number of visible pairs of a query and a key, in one head and sequence. A query sees its own key and
 * earlier ones, at most `window` keys if `window` is not 0. Programs are of training, where no key is before the first
 * query (`past` of an op). */
static double attention_pairs(uint64_t seq, uint64_t window)
{
    double s = (double)seq, w = window && window < seq ? (double)window : s;
    return w * (w + 1) / 2 + (s - w) * w;
}

/* Returns the flops of attention: per pair and head, two products forward; five backward, with one for the scores. */
static double attention_flops(const struct ah_op_attention *attention, bool backward)
{
    return attention_pairs(attention->seq, attention->window) * attention->batch * attention->heads *
           attention->head_dim * 2 * (backward ? 5 : 2);
}

static struct ah_program_step step_of(const struct ah_program_op *op)
{
    struct ah_program_step step = {.name = op->name,
                                   .kind = AH_STEP_POINTWISE,
                                   .backward = op->backward,
                                   .times = op->times,
                                   .moved_bytes = ah_op_moved_bytes(&op->op) * op->times};
    const struct ah_op_matmul *matmul = &op->op.u.matmul;
    if (op->op.kind == AH_OP_MATMUL) {
        step.kind = AH_STEP_MATMUL;
        step.form = (enum ah_matmul_form)matmul->form;
        step.m = matmul->m;
        step.n = matmul->n;
        step.k = matmul->k;
        step.flops = 2.0 * (double)matmul->m * (double)matmul->n * (double)matmul->k * (double)op->times;
    }
    if (op->op.kind == AH_OP_ATTENTION || op->op.kind == AH_OP_ATTENTION_BACKWARD) {
        step.kind = AH_STEP_ATTENTION;
        step.flops = attention_flops(&op->op.u.attention, op->backward);
    }
    return step;
}

size_t ah_program_steps(const struct ah_job *job, const struct ah_job_group *group, enum ah_pass pass,
                        enum ah_activations activations,
                        struct ah_program_step ret_steps[AH_PROGRAM_STEPS_MAX])
{
    struct ah_program program;
    if (ah_program_build(job, group, pass, activations, &program, NULL))
        return 0;
    for (size_t i = 0; i < program.n_ops; i++)
        ret_steps[i] = step_of(&program.ops[i]);
    return program.n_ops;
}

double ah_program_model_flops(const struct ah_job *job)
{
    struct ah_program_step steps[AH_PROGRAM_STEPS_MAX];
    const double needed = 4.0 / 5; /* of the products of attention's backward */
    double flops = 0;
    for (size_t g = 0; g < job->n_groups; g++)
        for (int pass = AH_PASS_FORWARD; pass <= AH_PASS_BACKWARD; pass++) {
            const size_t n =
                ah_program_steps(job, &job->groups[g], (enum ah_pass)pass, AH_ACTIVATIONS_KEEP, steps);
            for (size_t i = 0; i < n; i++)
                flops += steps[i].flops * (double)job->groups[g].blocks *
                         (steps[i].kind == AH_STEP_ATTENTION && steps[i].backward ? needed : 1);
        }
    return flops * (double)job->training.micro_batches;
}
