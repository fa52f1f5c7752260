/* SPDX-License-Identifier: Apache-2.0
 *
 * The blocks of a model, their tensors, and the counts that follow from them.
 */
#include "schemas/model.h"

#include <math.h>
#include <string.h>

#define COUNT_LIMIT (UINT64_C(1) << 53)

struct tensors {
    struct ah_model_tensor *tensor;
    size_t n;
};

static void vector(struct tensors *tensors, const char *name, uint64_t rows)
{
    tensors->tensor[tensors->n++] = (struct ah_model_tensor){.name = name, .rows = rows, .cols = 1};
}

static void vector_if(struct tensors *tensors, bool present, const char *name, uint64_t rows)
{
    if (present)
        vector(tensors, name, rows);
}

static void matrix(struct tensors *tensors, const char *name, uint64_t rows, uint64_t cols)
{
    tensors->tensor[tensors->n++] =
        (struct ah_model_tensor){.name = name, .rows = rows, .cols = cols, .matrix = true};
}

/* ---- adapters ---- */

uint32_t ah_model_adapted(const struct ah_model *model)
{
    uint32_t adapted = 0;
    for (size_t i = 0; model->lora && i < model->lora->n_on; i++)
        adapted |= UINT32_C(1) << model->lora->on[i];
    return adapted;
}

uint32_t ah_model_adaptable(const struct ah_model *model)
{
    static const uint32_t apart = 1u << AH_LORA_Q | 1u << AH_LORA_K | 1u << AH_LORA_V;
    const uint32_t qkv = ah_model_joins_qkv(model) ? 1u << AH_LORA_QKV : apart;
    const uint32_t gate = ah_model_gated(model) ? 1u << AH_LORA_GATE : 0;
    const uint32_t mlp = ah_model_joins_mlp(model) ? 1u << AH_LORA_GATE_UP : gate | 1u << AH_LORA_UP;
    return qkv | mlp | 1u << AH_LORA_OUTPUT | 1u << AH_LORA_DOWN;
}

double ah_model_lora_scale(const struct ah_model *model)
{
    const struct ah_model_lora *lora = model->lora;
    if (!lora)
        return 0;
    return lora->alpha / (lora->scaling == AH_LORA_STANDARD ? (double)lora->rank : sqrt((double)lora->rank));
}

uint64_t ah_model_lora_outputs(const struct ah_model *model, enum ah_lora matrix)
{
    const uint64_t query = model->heads * model->head_dim, key = model->kv_heads * model->head_dim;
    const uint64_t outputs[AH_LORA_MATRICES] = {[AH_LORA_Q] = query,
                                                [AH_LORA_K] = key,
                                                [AH_LORA_V] = key,
                                                [AH_LORA_QKV] = query + 2 * key,
                                                [AH_LORA_OUTPUT] = model->width,
                                                [AH_LORA_GATE] = model->mlp_width,
                                                [AH_LORA_UP] = model->mlp_width,
                                                [AH_LORA_GATE_UP] = 2 * model->mlp_width,
                                                [AH_LORA_DOWN] = model->width};
    return outputs[matrix];
}

/* The adapters that are stored one above the other. They have the same input. */
struct adapters {
    const char *a, *b;
    uint32_t of; /* enum ah_lora: a bit for each */
    uint64_t inputs;
};

static void adapter_tensors(const struct ah_model *model, const struct adapters *adapters,
                            struct tensors *tensors)
{
    uint64_t n = 0, outputs = 0;
    for (unsigned i = 0; i < AH_LORA_MATRICES; i++)
        if (adapters->of & ah_model_adapted(model) & UINT32_C(1) << i) {
            n++;
            outputs += ah_model_lora_outputs(model, (enum ah_lora)i);
        }
    if (!n)
        return;
    matrix(tensors, adapters->a, n * model->lora->rank, adapters->inputs);
    matrix(tensors, adapters->b, outputs, model->lora->rank);
    tensors->tensor[tensors->n - 1].adapter = tensors->tensor[tensors->n - 2].adapter = true;
}

static void layer_adapters(const struct ah_model *model, struct tensors *tensors)
{
    const struct adapters adapters[] = {
        {"attention.qkv.lora_a", "attention.qkv.lora_b",
         1u << AH_LORA_Q | 1u << AH_LORA_K | 1u << AH_LORA_V | 1u << AH_LORA_QKV, model->width},
        {"attention.output.lora_a", "attention.output.lora_b", 1u << AH_LORA_OUTPUT,
         model->heads * model->head_dim},
        {"mlp.gate_up.lora_a", "mlp.gate_up.lora_b",
         1u << AH_LORA_GATE | 1u << AH_LORA_UP | 1u << AH_LORA_GATE_UP, model->width},
        {"mlp.down.lora_a", "mlp.down.lora_b", 1u << AH_LORA_DOWN, model->mlp_width}};
    for (size_t i = 0; model->lora && i < sizeof adapters / sizeof *adapters; i++)
        adapter_tensors(model, &adapters[i], tensors);
}

/* Adds the matrices of the MLP that make its activation. */
static void mlp_inputs(const struct ah_model *model, struct tensors *tensors)
{
    const bool gated = ah_model_gated(model);
    if (ah_model_joins_mlp(model)) {
        matrix(tensors, "mlp.gate_up.weight", 2 * model->mlp_width, model->width);
        return;
    }
    if (gated)
        matrix(tensors, "mlp.gate.weight", model->mlp_width, model->width);
    vector_if(tensors, gated && model->mlp_bias, "mlp.gate.bias", model->mlp_width);
    matrix(tensors, "mlp.up.weight", model->mlp_width, model->width);
    vector_if(tensors, model->mlp_bias, "mlp.up.bias", model->mlp_width);
}

static void layer_tensors(const struct ah_model *model, struct tensors *tensors)
{
    const bool before = model->norm_place != AH_NORM_AFTER, after = model->norm_place != AH_NORM_BEFORE;
    const bool norm_bias = model->norm == AH_MODEL_NORM_LAYER;
    const uint64_t query = model->heads * model->head_dim, key = model->kv_heads * model->head_dim;
    const uint64_t qkv = query + 2 * key;

    vector_if(tensors, before, "attention_norm.weight", model->width);
    vector_if(tensors, before && norm_bias, "attention_norm.bias", model->width);
    matrix(tensors, "attention.qkv.weight", qkv, model->width);
    vector_if(tensors, model->qkv_bias, "attention.qkv.bias", qkv);
    vector_if(tensors, model->qk_norm, "attention.q_norm.weight",
              model->qk_norm_whole ? query : model->head_dim);
    vector_if(tensors, model->qk_norm, "attention.k_norm.weight",
              model->qk_norm_whole ? key : model->head_dim);
    matrix(tensors, "attention.output.weight", model->width, query);
    vector_if(tensors, model->attention_output_bias, "attention.output.bias", model->width);
    vector_if(tensors, after, "attention_post_norm.weight", model->width);
    vector_if(tensors, after && norm_bias, "attention_post_norm.bias", model->width);
    vector_if(tensors, before, "mlp_norm.weight", model->width);
    vector_if(tensors, before && norm_bias, "mlp_norm.bias", model->width);
    mlp_inputs(model, tensors);
    matrix(tensors, "mlp.down.weight", model->width, model->mlp_width);
    vector_if(tensors, model->mlp_bias, "mlp.down.bias", model->width);
    vector_if(tensors, after, "mlp_post_norm.weight", model->width);
    vector_if(tensors, after && norm_bias, "mlp_post_norm.bias", model->width);
    layer_adapters(model, tensors);
}

size_t ah_model_tensors(const struct ah_model *model, enum ah_block_kind kind,
                        struct ah_model_tensor ret_tensors[AH_MODEL_TENSORS_MAX])
{
    struct tensors tensors = {ret_tensors, 0};
    switch (kind) {
    case AH_BLOCK_EMBEDDING:
        matrix(&tensors, "embedding.weight", model->vocabulary, model->width);
        if (model->position == AH_POSITION_LEARNED)
            matrix(&tensors, "position.weight", model->max_positions, model->width);
        break;
    case AH_BLOCK_LAYER:
        layer_tensors(model, &tensors);
        break;
    case AH_BLOCK_HEAD:
        vector(&tensors, "norm.weight", model->width);
        vector_if(&tensors, model->norm == AH_MODEL_NORM_LAYER, "norm.bias", model->width);
        if (!model->tied)
            matrix(&tensors, "head.weight", model->vocabulary, model->width);
        break;
    }
    return tensors.n;
}

uint64_t ah_model_block_parameters(const struct ah_model *model, enum ah_block_kind kind)
{
    struct ah_model_tensor tensors[AH_MODEL_TENSORS_MAX];
    uint64_t sum = 0;
    size_t n = ah_model_tensors(model, kind, tensors);
    for (size_t i = 0; i < n; i++)
        sum += tensors[i].rows * tensors[i].cols;
    return sum;
}

uint64_t ah_model_parameters(const struct ah_model *model)
{
    return ah_model_block_parameters(model, AH_BLOCK_EMBEDDING) +
           model->layers * ah_model_block_parameters(model, AH_BLOCK_LAYER) +
           ah_model_block_parameters(model, AH_BLOCK_HEAD);
}

/* Adds rows * cols * times to `total`; false if the sum reaches the limit. */
static bool add_checked(uint64_t *total, uint64_t rows, uint64_t cols, uint64_t times)
{
    uint64_t product;
    return !__builtin_mul_overflow(rows, cols, &product) &&
           !__builtin_mul_overflow(product, times, &product) &&
           !__builtin_add_overflow(*total, product, total) && *total < COUNT_LIMIT;
}

int ah_model_count(const struct ah_model *model, uint64_t *ret_parameters, struct ah_error *err)
{
    static const enum ah_block_kind kinds[] = {AH_BLOCK_EMBEDDING, AH_BLOCK_LAYER, AH_BLOCK_HEAD};
    struct ah_model_tensor tensors[AH_MODEL_TENSORS_MAX];
    uint64_t total = 0;
    bool fits = model->heads <= COUNT_LIMIT >> 32 && model->kv_heads <= COUNT_LIMIT >> 32 &&
                model->head_dim <= UINT32_MAX;
    for (size_t k = 0; k < 3 && fits; k++) {
        size_t n = ah_model_tensors(model, kinds[k], tensors);
        for (size_t i = 0; i < n && fits; i++)
            fits = add_checked(&total, tensors[i].rows, tensors[i].cols,
                               kinds[k] == AH_BLOCK_LAYER ? model->layers : 1);
    }
    if (!fits)
        return ah_error_set(err, AH_E_DOCUMENT, "layers: the model has 2^53 parameters or more");
    *ret_parameters = total;
    return AH_OK;
}

uint64_t ah_model_blocks(const struct ah_model *model)
{
    return model->layers + 2;
}

enum ah_block_kind ah_model_block_kind(const struct ah_model *model, uint64_t block)
{
    if (block == 0)
        return AH_BLOCK_EMBEDDING;
    return block <= model->layers ? AH_BLOCK_LAYER : AH_BLOCK_HEAD;
}

/* ---- ways of layers ---- */

bool ah_model_gated(const struct ah_model *model)
{
    return model->activation == AH_MODEL_SILU_GATED || model->activation == AH_MODEL_GELU_TANH_GATED;
}

bool ah_model_joins_mlp(const struct ah_model *model)
{
    return model->family == AH_FAMILY_PHI3;
}

uint64_t ah_model_rotated(const struct ah_model *model)
{
    return !model->rope ? 0 : model->rope->rotated ? model->rope->rotated : model->head_dim;
}

bool ah_model_joins_qkv(const struct ah_model *model)
{
    return model->family == AH_FAMILY_GPT2 || model->family == AH_FAMILY_PHI3;
}

void ah_model_list_ways(const struct ah_model *model, struct ah_model_ways *ret_ways)
{
    for (uint64_t layer = 0; layer < model->layers; layer++)
        ret_ways[layer].windowed = model->window && !model->n_window_layers;
    for (size_t i = 0; model->window && i < model->n_window_layers; i++)
        if (model->window_layers[i] < model->layers)
            ret_ways[model->window_layers[i]].windowed = true;
    for (size_t i = 0; i < model->n_unrotated_layers; i++)
        if (model->unrotated_layers[i] < model->layers)
            ret_ways[model->unrotated_layers[i]].unrotated = true;
}

static bool lists(const uint64_t *layers, size_t n, uint64_t layer)
{
    for (size_t i = 0; i < n; i++)
        if (layers[i] == layer)
            return true;
    return false;
}

struct ah_model_ways ah_model_layer_ways(const struct ah_model *model, uint64_t layer)
{
    return (struct ah_model_ways){
        .windowed = model->window &&
                    (!model->n_window_layers || lists(model->window_layers, model->n_window_layers, layer)),
        .unrotated = lists(model->unrotated_layers, model->n_unrotated_layers, layer)};
}

static bool same_group(const struct ah_model_group *group, enum ah_block_kind kind, struct ah_model_ways ways)
{
    return group->kind == kind && group->ways.windowed == ways.windowed &&
           group->ways.unrotated == ways.unrotated;
}

size_t ah_model_groups(const struct ah_model *model, struct ah_model_group ret_groups[AH_MODEL_GROUPS_MAX])
{
    static const char *const kinds[] = {"embedding", "layer", "head"};
    static const char *const layers[2][2] = {{"layer", "layer_unrotated"},
                                             {"layer_windowed", "layer_windowed_unrotated"}};
    size_t n = 0;
    for (uint64_t block = 0; block < ah_model_blocks(model); block++) {
        const enum ah_block_kind kind = ah_model_block_kind(model, block);
        const bool layer = kind == AH_BLOCK_LAYER;
        const struct ah_model_ways ways =
            layer ? ah_model_layer_ways(model, block - 1) : (struct ah_model_ways){0};
        size_t i = 0;
        while (i < n && !same_group(&ret_groups[i], kind, ways))
            i++;
        if (i == n)
            ret_groups[n++] =
                (struct ah_model_group){layer ? layers[ways.windowed][ways.unrotated] : kinds[kind],
                                        kind,
                                        ways,
                                        block,
                                        0,
                                        ah_model_block_parameters(model, kind)};
        ret_groups[i].blocks++;
    }
    return n;
}
