/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns rows of the table into a line of one block. First, all rows that apply to the block become nodes with sizes.
 * Then steps are visited from the last to the first, and those that nothing needs are dropped.
 */
#include "runtime/schedule/program_internal.h"

#include <assert.h>
#include <string.h>

static uint32_t features_of(const struct ah_job *job, struct ah_model_ways ways, bool summed)
{
    const struct ah_model *model = job->model;
    const bool rotated = model->position == AH_POSITION_ROPE && !ways.unrotated;
    return (ah_model_gated(model) ? GATED : 0u) | (rotated ? ROPE : 0u) | (model->qk_norm ? QK_NORM : 0u) |
           (model->tied ? TIED : 0u) | (job->training.dtype == AH_BF16 ? BF16 : 0u) | (summed ? SUMMED : 0u) |
           (model->norm_place != AH_NORM_AFTER ? NORM_FIRST : 0u) |
           (model->norm_place != AH_NORM_BEFORE ? NORM_LAST : 0u) |
           (ways.windowed && model->window_rope ? WINDOW_ROPE : 0u);
}

/* Returns PACKED if gate and up can be one matrix, with PACKED_GRADIENT if their gradients can be one, too. */
static uint32_t packing_of(const struct ah_flat *flat)
{
    const size_t gate = ah_flat_find(flat, "mlp.gate.weight"), up = ah_flat_find(flat, "mlp.up.weight");
    if (ah_flat_find(flat, "mlp.gate_up.weight") != flat->n)
        return PACKED | PACKED_GRADIENT;
    if (gate == flat->n || up == flat->n)
        return 0;
    const struct ah_flat_tensor *first = &flat->tensors[gate], *second = &flat->tensors[up];
    if (first->first + first->elements != second->first)
        return 0;
    return PACKED | (first->trained && second->trained ? PACKED_GRADIENT : 0u);
}

/* ---- adapters ---- */

static bool has_adapter(const struct ah_program_context *context, enum ah_lora matrix)
{
    return context->features & (uint32_t)LORA << matrix;
}

/* The matrices whose adapters are stored one above the other, in this order. */
static const enum ah_lora qkv[] = {AH_LORA_Q, AH_LORA_K, AH_LORA_V, AH_LORA_QKV},
                          gate_up[] = {AH_LORA_GATE, AH_LORA_UP, AH_LORA_GATE_UP};
enum { QKV_MATRICES = sizeof qkv / sizeof *qkv, GATE_UP_MATRICES = sizeof gate_up / sizeof *gate_up };

static uint64_t count_adapters(const struct ah_program_context *context, const enum ah_lora *matrices,
                               size_t n)
{
    uint64_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += has_adapter(context, matrices[i]);
    return count;
}

static void init_adapters(struct ah_program_context *context)
{
    const struct ah_model *model = context->job->model;
    const uint64_t rank = model->lora ? model->lora->rank : 0;
    context->features |= ah_model_adapted(model) * LORA;
    context->of[RANK] = rank;
    context->of[QKV_RANKS] = rank * count_adapters(context, qkv, QKV_MATRICES);
    context->of[GATE_UP_RANKS] = rank * count_adapters(context, gate_up, GATE_UP_MATRICES);
}

/* The adapter of a part among those stored one above the other: how many adapters and outputs are before it. */
struct adapter {
    enum ah_lora matrix;
    uint64_t before, outputs_before;
};

static struct adapter adapter_of(const struct ah_program_context *context, enum part part)
{
    static const enum ah_lora of[PARTS] = {[PART_Q] = AH_LORA_Q,
                                           [PART_K] = AH_LORA_K,
                                           [PART_V] = AH_LORA_V,
                                           [PART_GATE] = AH_LORA_GATE,
                                           [PART_UP] = AH_LORA_UP};
    const bool of_mlp = part == PART_GATE || part == PART_UP;
    const enum ah_lora *matrices = of_mlp ? gate_up : qkv;
    struct adapter adapter = {.matrix = of[part]};
    for (size_t i = 0; matrices[i] != adapter.matrix; i++) {
        const bool has = has_adapter(context, matrices[i]);
        adapter.before += has;
        adapter.outputs_before += has ? ah_model_lora_outputs(context->job->model, matrices[i]) : 0;
    }
    return adapter;
}

void ah_program_context_init(struct ah_program_context *ret_context, const struct ah_job *job,
                             const struct ah_job_group *group)
{
    const struct ah_model *model = job->model;
    uint64_t chunk = job->chunk_tokens < job->tokens ? job->chunk_tokens : job->tokens;
    uint64_t query = model->heads * model->head_dim, key = model->kv_heads * model->head_dim;
    bool summed = job->training.dtype == AH_BF16 && chunk < job->tokens;
    *ret_context = (struct ah_program_context){
        .job = job,
        .group = group,
        .features = features_of(job, group->ways, summed),
        .chunks = job->tokens / chunk,
        .rest = job->tokens % chunk,
        .flat = ah_flat_of(model, group->kind, group->trained),
        .of = {[ONE] = 1,
               [TOKENS] = job->tokens,
               [CHUNK] = chunk,
               [SEQ] = job->training.seq,
               [WIDTH] = model->width,
               [QKV_WIDTH] = query + 2 * key,
               [QK_WIDTH] = query + key,
               [Q_WIDTH] = query,
               [KV_WIDTH] = key,
               [HEADS] = model->heads,
               [Q_NORMS] = model->qk_norm_whole ? 1 : model->heads,
               [K_NORMS] = model->qk_norm_whole ? 1 : model->kv_heads,
               [HEAD_DIM] = model->head_dim,
               [MLP_WIDTH] = model->mlp_width,
               [GATE_UP_WIDTH] = 2 * model->mlp_width,
               [VOCABULARY] = model->vocabulary,
               [NORM_STATS] = model->norm == AH_MODEL_NORM_LAYER ? 2 : 1},
    };
    init_adapters(ret_context);
    ret_context->features |= packing_of(&ret_context->flat);
    if (group->kind == AH_BLOCK_HEAD && model->tied)
        ret_context->table = ah_flat_of(model, AH_BLOCK_EMBEDDING, ah_job_block(job, 0)->trained);
}

static uint64_t element_bytes(const struct ah_program_context *context, enum element element)
{
    static const uint64_t fixed[] = {[F32] = 4, [U32] = 4, [U8] = 1, [F64] = 8};
    const bool adds = (context->features & GATED) && !(context->features & PACKED);
    if (element == ACT || (element == PARTIAL && !adds))
        return ah_dtype_bytes(context->job->training.dtype);
    return element == PARTIAL ? 4 : fixed[element];
}

/* Returns the distance between the starts of two rows, in elements. A vocabulary may have any size, so rows of logits
 * are padded to whole lines of memory. Otherwise products on GPUs would access them element by element. */
static uint64_t pitch(const struct ah_program_context *context, const struct tensor_rule *rule)
{
    enum { LINE = 64 };
    uint64_t cols = context->of[rule->cols];
    return rule->cols == VOCABULARY ? (cols + LINE - 1) / LINE * LINE : cols;
}

uint64_t ah_program_tensor_bytes(const struct ah_program_context *context, enum tensor tensor)
{
    const struct tensor_rule *rule = &ah_program_tensor_rules[tensor];
    return context->of[rule->rows] * pitch(context, rule) * element_bytes(context, rule->element);
}

static bool is_of_adapters(enum tensor tensor)
{
    return tensor == T_LORA_QKV || tensor == T_LORA_GATE_UP || tensor == T_D_LORA_QKV ||
           tensor == T_D_LORA_GATE_UP;
}

/* Finds first column and number of columns of a part of q, k, v, or of gate, up. Without a gate, up has all columns. */
static void part_columns(const struct ah_program_context *context, enum tensor tensor, enum part part,
                         uint64_t *first, uint64_t *cols)
{
    const uint64_t query = context->of[Q_WIDTH], key = context->of[KV_WIDTH], mlp = context->of[MLP_WIDTH];
    const uint64_t columns[PARTS][2] = {
        [PART_Q] = {0, query},        [PART_K] = {query, key},
        [PART_QK] = {0, query + key}, [PART_V] = {query + key, key},
        [PART_GATE] = {0, mlp},       [PART_UP] = {context->features & GATED ? mlp : 0, mlp}};
    if (part == WHOLE)
        return;
    if (is_of_adapters(tensor)) {
        *cols = context->of[RANK];
        *first = adapter_of(context, part).before * *cols;
        return;
    }
    *first = columns[part][0];
    *cols = columns[part][1];
}

/* The tokens of a chunked row's work; `rows` 0 means all tokens. */
struct span {
    uint64_t first, rows;
};

static void take_tensor(const struct ah_program_context *context, const struct operand_rule *operand,
                        struct span span, struct node *node, size_t i)
{
    enum tensor tensor = operand->tensor;
    const struct tensor_rule *rule = &ah_program_tensor_rules[tensor];
    if (rule->only_with && !(context->features & rule->only_with))
        tensor = rule->else_in;
    rule = &ah_program_tensor_rules[tensor];
    uint64_t bytes = element_bytes(context, rule->element);
    uint64_t width = pitch(context, rule), first = 0, cols = context->of[rule->cols];
    bool moves = span.rows && rule->rows == TOKENS, local = span.rows && rule->rows == CHUNK;
    part_columns(context, tensor, operand->part, &first, &cols);
    node->step.place[i] = (uint8_t)tensor;
    node->step.chunk_bytes[i] = moves ? span.rows * width * bytes : 0;
    node->shape[i] = (struct shape){moves || local ? span.rows : context->of[rule->rows], cols};
    bool narrow = bytes == 2 && rule->element != U8;
    node->step.op.arg[i] = (struct ah_ref){.arena = AH_ARENA_DEVICE,
                                           .dtype = narrow ? AH_BF16 : AH_FP32,
                                           .offset_bytes = (first + (moves ? span.first * width : 0)) * bytes,
                                           .row_stride = cols == width ? 0 : width};
}

/* Narrows an operand to the rows of B, or of its gradient, that belong to a part. */
static void take_rows(const struct ah_program_context *context, enum part part, struct node *node, size_t i)
{
    const struct adapter adapter = adapter_of(context, part);
    const uint64_t element = ah_dtype_bytes(context->job->training.dtype);
    node->shape[i].rows = ah_model_lora_outputs(context->job->model, adapter.matrix);
    node->step.op.arg[i].offset_bytes = adapter.outputs_before * node->shape[i].cols * element;
}

/* Sets an operand to a parameter's weight or gradient. Returns false if the block does not have it. */
static bool take_parameter(const struct ah_program_context *context, const struct operand_rule *operand,
                           struct node *node, size_t i)
{
    bool gradient = operand->kind == WEIGHT_GRADIENT;
    size_t at = ah_flat_find(&context->flat, operand->parameter);
    bool table = at == context->flat.n && strcmp(operand->parameter, "head.weight") == 0;
    const struct ah_flat_tensor *tensor = table ? &context->table.tensors[0] : &context->flat.tensors[at];
    if ((at == context->flat.n && !table) || (gradient && !tensor->trained) ||
        (tensor->tensor.adapter && !tensor->trained))
        return false;
    size_t place = table      ? (gradient ? PLACE_TABLE_GRADIENT : PLACE_TABLE)
                   : gradient ? PLACE_GRADIENTS + at
                              : PLACE_WEIGHTS + at;
    if (operand->and_up)
        place = gradient ? PLACE_GATE_UP_GRADIENT : PLACE_GATE_UP;
    node->step.place[i] = (uint8_t)place;
    node->shape[i] = (struct shape){tensor->tensor.rows * (operand->and_up ? 2 : 1), tensor->tensor.cols};
    node->step.op.arg[i] = (struct ah_ref){.arena = AH_ARENA_DEVICE, .dtype = context->job->training.dtype};
    if (operand->part != WHOLE)
        take_rows(context, operand->part, node, i);
    return true;
}

/* Sets the operands of a node. Returns false if a required one is missing. */
static bool take_operands(const struct ah_program_context *context, struct span span, struct node *node)
{
    for (size_t i = 0; i < AH_OP_ARGS; i++) {
        const struct operand_rule *operand = &node->rule->arg[i];
        bool there = true;
        node->step.place[i] = AH_PROGRAM_NO_PLACE;
        if (operand->kind == TENSOR)
            take_tensor(context, operand, span, node, i);
        else if (operand->kind == WEIGHT || operand->kind == WEIGHT_GRADIENT)
            there = take_parameter(context, operand, node, i);
        else if (operand->kind == OP_SCRATCH)
            node->step.op.arg[i] = (struct ah_ref){.arena = AH_ARENA_DEVICE, .dtype = AH_FP32};
        if (!there && !operand->optional)
            return false;
    }
    return true;
}

/* Sets sizes and roles of a node from the operands that are present. */
static int size_node(const struct ah_program_context *context, struct node *node, struct ah_error *err)
{
    struct ah_operand operands[AH_OP_ARGS];
    ah_program_ops_size(context, node);
    int rc = ah_op_operands(&node->step.op, operands, err);
    if (rc) {
        ah_error_prefix(err, AH_E_DOCUMENT, "step '%s' of group '%s'", node->rule->name,
                        context->group->name);
        return AH_E_DOCUMENT;
    }
    for (size_t i = 0; i < AH_OP_ARGS; i++) {
        node->role[i] = operands[i].role;
        if (operands[i].role == AH_ROLE_NONE)
            node->step.place[i] = AH_PROGRAM_NO_PLACE;
        if (node->rule->arg[i].kind == OP_SCRATCH)
            node->scratch_bytes = operands[i].bytes;
    }
    return AH_OK;
}

/* True if a node of the line writes `place`. */
static bool written_before(const struct line *line, uint8_t place)
{
    for (size_t i = 0; i < line->n; i++)
        if (line->nodes[i].step.place[0] == place)
            return true;
    return false;
}

static int add_node(struct line *line, const struct ah_program_context *context, const struct step_rule *rule,
                    struct span span, uint64_t times, struct ah_error *err)
{
    assert(line->n < NODES_MAX);
    struct node *node = &line->nodes[line->n];
    *node = (struct node){.rule = rule,
                          .step = {.name = rule->name,
                                   .op.kind = rule->op,
                                   .times = times,
                                   .in_loop = span.rows != 0,
                                   .backward = rule->backward}};
    if (!take_operands(context, span, node))
        return AH_OK;
    bool before = written_before(line, node->step.place[0]);
    bool adds = rule->adds && (before || times > 1);
    if (adds)
        node->step.op.u.matmul.accumulate = true;
    node->step.first_writes = adds && !before;
    int rc = size_node(context, node, err);
    line->n += !rc;
    return rc;
}

static bool belongs(const struct ah_program_context *context, const struct step_rule *rule)
{
    return (context->features & rule->when) == rule->when && !(context->features & rule->unless);
}

/* Adds the rows of one loop twice: for whole chunks, then for the remaining tokens. */
static int add_loop(struct line *line, const struct ah_program_context *context,
                    const struct step_rule **rules, struct ah_error *err)
{
    const struct step_rule *first = *rules;
    const uint64_t chunk = context->of[CHUNK], whole = context->chunks * chunk;
    const struct span spans[] = {{0, chunk}, {whole, context->rest}};
    const uint64_t times[] = {context->chunks, 1};
    for (size_t part = 0; part < (context->rest ? 2 : 1); part++)
        for (*rules = first; (*rules)->name && (*rules)->chunked; ++*rules) {
            if (!belongs(context, *rules))
                continue;
            int rc = add_node(line, context, *rules, spans[part], times[part], err);
            if (rc)
                return rc;
        }
    return AH_OK;
}

static int add_rows(struct line *line, const struct ah_program_context *context,
                    const struct step_rule *rules, struct ah_error *err)
{
    int rc = AH_OK;
    while (rules->name && !rc) {
        if (rules->chunked) {
            rc = add_loop(line, context, &rules, err);
            continue;
        }
        if (belongs(context, rules))
            rc = add_node(line, context, rules, (struct span){0, 0}, 1, err);
        rules++;
    }
    return rc;
}

/* True if something needs a result of the node. Removes optional outputs that nothing needs. */
static bool is_needed(struct node *node, const bool *needed)
{
    bool any = false;
    for (size_t i = 0; i < AH_OP_ARGS; i++) {
        if (node->role[i] != AH_ROLE_OUT && node->role[i] != AH_ROLE_INOUT)
            continue;
        if (node->rule->arg[i].kind == OP_SCRATCH)
            continue;
        if (needed[node->step.place[i]])
            any = true;
        else if (node->rule->arg[i].optional)
            node->step.op.arg[i].arena = AH_ARENA_NONE;
    }
    return any;
}

static void need_inputs(const struct node *node, bool *needed)
{
    for (size_t i = 0; i < AH_OP_ARGS; i++)
        if (node->role[i] == AH_ROLE_IN || node->role[i] == AH_ROLE_INOUT)
            needed[node->step.place[i]] = true;
}

/* Marks what a block must produce: tensors for its neighbours, the loss, and gradients of trained tensors. */
static void need_results(const struct ah_program_context *context, bool *needed)
{
    needed[T_OUTPUT] = needed[T_LOSS_SUM] = true;
    needed[PLACE_TABLE_GRADIENT] = needed[PLACE_GATE_UP_GRADIENT] = true;
    needed[T_GRADIENT] = context->group->input_gradient;
    for (size_t i = 0; i < AH_MODEL_TENSORS_MAX; i++)
        needed[PLACE_GRADIENTS + i] = true;
}

static int drop_unneeded(struct line *line, const struct ah_program_context *context, struct ah_error *err)
{
    bool needed[AH_PROGRAM_PLACES_MAX] = {false};
    bool keep[NODES_MAX];
    size_t kept = 0;
    need_results(context, needed);
    for (size_t i = line->n; i-- > 0;) {
        keep[i] = is_needed(&line->nodes[i], needed);
        if (!keep[i])
            continue;
        int rc = size_node(context, &line->nodes[i], err);
        if (rc)
            return rc;
        need_inputs(&line->nodes[i], needed);
    }
    for (size_t i = 0; i < line->n; i++)
        if (keep[i])
            line->nodes[kept++] = line->nodes[i];
    line->n = kept;
    return AH_OK;
}

int ah_program_line_init(struct line *ret_line, const struct ah_program_context *context,
                         const struct step_rule *rules, struct ah_error *err)
{
    ret_line->n = 0;
    int rc = add_rows(ret_line, context, rules, err);
    return rc ? rc : drop_unneeded(ret_line, context, err);
}
