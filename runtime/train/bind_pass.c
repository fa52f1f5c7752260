/* SPDX-License-Identifier: Apache-2.0
 *
 * Forward and backward: binds the program of a pass, each operand at its offset in its home tensor. Then it binds the
 * ops that add the gradient of the pass to the sum, and those that sum its squares.
 *
 * Loops over chunks are unrolled. Each micro-batch has its own sum of the loss.
 */
#include "runtime/train/bind_internal.h"

#include "runtime/schedule/program.h"

#include <stddef.h>
#include <string.h>

struct pass {
    struct ah_binder *binder;
    const struct ah_plan_op *op;
    const struct ah_addresses_block *block;
    uint64_t position;
    struct ah_program program;
    struct ah_ref home[AH_HOMES]; /* arena none: not found yet */
};

/* ---- data by name ---- */

enum data_kind { WORDS, HEADER, ANGLES };

static const struct data_rule {
    const char *name;
    enum data_kind kind;
    uint64_t at; /* the number of the array or table; for the header, the offset in bytes */
} data_rules[] = {
    {"tokens", WORDS, 0},
    {"targets", WORDS, 1},
    {"positions", WORDS, 2},
    {"docs", WORDS, 3},
    {"mask", WORDS, 5},
    {"loss_scale", HEADER, AH_HEADER_SCALE},
    {"rope_table", ANGLES, 0},
    {"window_rope_table", ANGLES, 1},
    {"loss_sum", HEADER, AH_HEADER_LOSS},
};
enum { WORDS_ROWS = 4 };

static void place_data(const struct pass *pass, const char *name, struct ah_bound_op *bound, size_t arg)
{
    const struct ah_addresses *addresses = pass->binder->addresses;
    const struct data_rule *rule = data_rules;
    while (strcmp(rule->name, name) != 0)
        rule++;
    const struct ah_ref refs[] = {
        [WORDS] = addresses->words, [HEADER] = addresses->device_headers, [ANGLES] = addresses->angles};
    const uint8_t moves[] = {
        [WORDS] = AH_OFFSET_WORDS, [HEADER] = AH_OFFSET_HEADER, [ANGLES] = AH_OFFSET_NONE};
    const struct ah_job *job = pass->binder->job;
    const uint64_t units[] = {[WORDS] = job->tokens * sizeof(uint32_t),
                              [HEADER] = 1,
                              [ANGLES] = job->training.seq * job->model->head_dim * sizeof(float)};
    bound->op.arg[arg].offset_bytes += refs[rule->kind].offset_bytes + rule->at * units[rule->kind];
    bound->move[arg] = moves[rule->kind];
}

/* ---- homes ---- */

static int find_tensor(const struct pass *pass, enum ah_tensor_label label, uint64_t block, uint64_t bytes,
                       struct ah_ref *ret_ref)
{
    const struct ah_binder *binder = pass->binder;
    bool by_block = binder->plan->micro_batch_order == AH_BLOCK_MAJOR;
    uint64_t m = pass->op->micro_batch;
    const struct ah_addresses_query query = {.label = label,
                                             .block = block,
                                             .micro_batch = by_block ? 0 : m,
                                             .position = pass->position,
                                             .offset_bytes = by_block ? m * bytes : 0,
                                             .bytes = bytes};
    return ah_addresses_find(binder->addresses, &query, ret_ref, binder->err);
}

static int find_scratch(const struct pass *pass, struct ah_ref *ret_ref)
{
    const struct ah_addresses_query query = {.label = AH_TENSOR_SCRATCH,
                                             .block = pass->op->block,
                                             .micro_batch = pass->op->micro_batch,
                                             .position = pass->position,
                                             .bytes = pass->program.scratch_bytes};
    return ah_addresses_find(pass->binder->addresses, &query, ret_ref, pass->binder->err);
}

/* Finds a block's weights for this op: where they are stored, or as fetched. */
static int find_weights(const struct pass *pass, uint64_t block, struct ah_ref *ret_ref)
{
    const struct ah_addresses_block *it = &pass->binder->addresses->blocks[block];
    *ret_ref = it->weights.ref;
    if (it->plan->weights == AH_WEIGHTS_DEVICE)
        return AH_OK;
    /* The forward of the embedding reads gathered rows instead of its tables, unless ranks share these. */
    bool rows = it->group->kind == AH_BLOCK_EMBEDDING && block == pass->op->block &&
                ah_job_shards(pass->binder->job) == 1;
    uint64_t bytes =
        rows ? it->group->gathered_bytes : it->group->flat_elements * pass->binder->job->weight_bytes;
    return ah_bind_fetched(pass->binder, block, pass->position, bytes, ret_ref);
}

static int find_home(const struct pass *pass, enum ah_program_home home, struct ah_ref *ret_ref)
{
    const struct ah_job *job = pass->binder->job;
    uint64_t block = pass->op->block, m = pass->op->micro_batch;
    switch (home) {
    case AH_HOME_SCRATCH:
        return find_scratch(pass, ret_ref);
    case AH_HOME_SAVED:
        return find_tensor(pass, AH_TENSOR_SAVED, block, pass->program.saved_bytes, ret_ref);
    case AH_HOME_INPUT:
        return find_tensor(pass, AH_TENSOR_INPUT, block, job->residual_bytes, ret_ref);
    case AH_HOME_OUTPUT: /* a stage sends the output of its last block */
        return block + 1 < job->n_blocks
                   ? find_tensor(pass, AH_TENSOR_INPUT, block + 1, job->residual_bytes, ret_ref)
                   : find_tensor(pass, AH_TENSOR_OUTPUT, block, job->residual_bytes, ret_ref);
    case AH_HOME_RESIDUAL_GRADIENT:
        return find_tensor(pass, AH_TENSOR_RESIDUAL_GRADIENT, job->n_blocks - 1, job->residual_bytes,
                           ret_ref);
    case AH_HOME_WEIGHTS:
        return find_weights(pass, block, ret_ref);
    case AH_HOME_TABLE:
        return find_weights(pass, 0, ret_ref);
    case AH_HOME_GRADIENTS:
        return ah_bind_gradient(pass->binder, block, m, pass->position, ret_ref);
    case AH_HOME_TABLE_GRADIENTS:
        return ah_bind_gradient(pass->binder, 0, m, pass->position, ret_ref);
    case AH_HOME_NONE:
    case AH_HOME_DATA:
    case AH_HOMES:
        break;
    }
    return AH_OK;
}

/* ---- ops ---- */

static int place_operand(struct pass *pass, const struct ah_program_op *step, uint64_t time,
                         struct ah_bound_op *bound, size_t arg)
{
    const struct ah_program_place *place = &pass->program.places[step->place[arg]];
    struct ah_ref *ref = &bound->op.arg[arg];
    ref->offset_bytes += place->offset_bytes + time * step->chunk_bytes[arg];
    if (place->home == AH_HOME_DATA) {
        place_data(pass, place->name, bound, arg);
        return AH_OK;
    }
    struct ah_ref *home = &pass->home[place->home];
    int rc = home->arena == AH_ARENA_NONE ? find_home(pass, place->home, home) : AH_OK;
    ref->offset_bytes += home->offset_bytes;
    return rc;
}

/* Makes an op read gathered rows, not the tables: a row per token, then the first rows of the position table. */
static void read_gathered(const struct pass *pass, struct ah_bound_op *bound)
{
    const struct ah_job *job = pass->binder->job;
    struct ah_op *op = &bound->op;
    uint64_t table = pass->home[AH_HOME_WEIGHTS].offset_bytes;
    uint64_t rows_bytes = job->tokens * job->model->width * job->weight_bytes;
    op->arg[1].offset_bytes = table;
    op->u.embed.vocabulary = job->tokens;
    op->arg[3].offset_bytes =
        pass->binder->addresses->words.offset_bytes + WORDS_ROWS * job->tokens * sizeof(uint32_t);
    if (!op->u.embed.positions)
        return;
    op->arg[2].offset_bytes = table + rows_bytes;
    op->u.embed.positions = job->training.seq;
}

static int bind_step(struct pass *pass, const struct ah_program_op *step, uint64_t time)
{
    struct ah_bound_op *bound = ah_bind_push(pass->binder, step->op.kind);
    int rc = bound ? AH_OK : AH_E_MEMORY;
    if (rc)
        return rc;
    bound->op = step->op;
    bound->learns = step->backward;
    for (size_t arg = 0; arg < AH_OP_ARGS && !rc; arg++)
        if (step->op.arg[arg].arena != AH_ARENA_NONE)
            rc = place_operand(pass, step, time, bound, arg);
    if (step->first_writes && !time)
        bound->op.u.matmul.accumulate = false;
    if (step->op.kind == AH_OP_SUM)
        bound->op.arg[0].offset_bytes += pass->op->micro_batch * sizeof(double);
    if (step->op.kind == AH_OP_EMBED && pass->block->plan->weights == AH_WEIGHTS_HOST &&
        ah_job_shards(pass->binder->job) == 1)
        read_gathered(pass, bound);
    if (!pass->binder->documents)
        ah_program_drop_documents(&bound->op, pass->binder->job->training.seq);
    return rc;
}

/* Binds the ops of a program. Consecutive ops with the same `times` > 1 are the body of a loop. */
static int bind_program(struct pass *pass)
{
    const struct ah_program *program = &pass->program;
    int rc = AH_OK;
    for (size_t i = 0, end; i < program->n_ops && !rc; i = end) {
        uint64_t times = program->ops[i].times;
        for (end = i + 1; end < program->n_ops && times > 1 && program->ops[end].times == times;)
            end++;
        for (uint64_t time = 0; time < times; time++)
            for (size_t at = i; at < end && !rc; at++)
                rc = bind_step(pass, &program->ops[at], time);
    }
    return rc;
}

/* ---- the gradient ---- */

static int fill_padding(const struct pass *pass, struct ah_ref gradient)
{
    const struct ah_flat *flat = &pass->block->flat;
    uint64_t element_bytes = pass->binder->job->gradient_bytes;
    gradient.dtype = pass->binder->job->training.dtype;
    for (size_t i = 0; i < flat->n; i++) {
        const struct ah_flat_tensor *tensor = &flat->tensors[i];
        uint64_t rest = tensor->elements % AH_FLAT_ALIGN;
        if (!tensor->trained || !rest)
            continue;
        struct ah_bound_op *bound = ah_bind_push(pass->binder, AH_OP_FILL);
        if (!bound)
            return AH_E_MEMORY;
        bound->learns = true;
        bound->op.arg[0] = gradient;
        bound->op.arg[0].offset_bytes += (tensor->trained_first + tensor->elements) * element_bytes;
        bound->op.u.elements.count = AH_FLAT_ALIGN - rest;
    }
    return AH_OK;
}

/* Adds a micro-batch's gradient to the sum. The first gradient is copied to the sum, and is rounded like the others. */
static int add_up(const struct pass *pass, struct ah_ref *gradient)
{
    struct ah_binder *binder = pass->binder;
    const struct ah_fold fold = ah_fold_of(&binder->plan->training, pass->op->micro_batch);
    struct ah_bind_sums sums = {.elements = pass->block->group->trained_elements, .gradient = *gradient};
    int rc = ah_bind_gradient_sum(binder, pass->op->block, pass->position, &sums.total);
    if (!rc && fold.separate)
        rc = ah_bind_group_sum(binder, pass->op->block, pass->position, &sums.separate);
    *gradient = sums.total;
    return rc ? rc : ah_bind_add(binder, &sums, fold);
}

static int bind_gradient(const struct pass *pass)
{
    struct ah_binder *binder = pass->binder;
    uint64_t block = pass->op->block, m = pass->op->micro_batch;
    struct ah_ref gradient;
    int rc = ah_bind_gradient(binder, block, m, pass->position, &gradient);
    if (!rc)
        rc = fill_padding(pass, gradient);
    if (!rc && ah_bind_sums_on(binder, block, AH_ACCUMULATOR_DEVICE) && ah_job_shards(binder->job) == 1)
        rc = add_up(pass, &gradient);
    const bool last = m + 1 == binder->plan->training.micro_batches;
    if (!rc && last && !block && ah_job_joins_table(binder->job))
        rc = ah_bind_join(binder, pass->position);
    if (rc || !(binder->plan->training.clip > 0) || !last ||
        ah_bind_sums_on(binder, block, AH_ACCUMULATOR_HOST) || ah_bind_shares(binder, block) ||
        !ah_bind_counted(binder, block).end)
        return rc;
    return ah_bind_squares(binder, binder->addresses->device_sums, block, gradient,
                           ah_bind_counted(binder, block));
}

int ah_bind_pass(struct ah_binder *binder, const struct ah_graph_item *item, uint64_t position)
{
    struct pass pass = {.binder = binder, .op = &binder->plan->ops[item->op], .position = position};
    pass.block = &binder->addresses->blocks[pass.op->block];
    bool backward = pass.op->op == AH_PLAN_BACKWARD;
    bool head = ah_job_is_head(binder->job, pass.op->block);
    int rc = ah_program_build(binder->job, pass.block->group, backward ? AH_PASS_BACKWARD : AH_PASS_FORWARD,
                              pass.block->plan->activations, &pass.program, binder->err);
    size_t before = binder->bound->n_ops;
    if (!rc)
        rc = bind_program(&pass);
    if (!rc && pass.block->group->trained_elements && (backward || head))
        rc = bind_gradient(&pass);
    for (size_t i = before; i < binder->bound->n_ops && backward; i++)
        binder->bound->ops[i].learns = true;
    return rc;
}
