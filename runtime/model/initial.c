/* SPDX-License-Identifier: Apache-2.0
 *
 * Initial: elements 4k to 4k + 3 of a block's flat vector come from one call of Philox, keyed by element 4k. Tensors
 * begin at multiples of 128 elements, so no call serves two tensors.
 *
 * Adapters are those of LoraLayer.reset_lora_parameters() in huggingface/peft.
 *
 * Source of the other distributions: _init_weights() of modeling_gpt2.py, modeling_llama.py and so on of
 * huggingface/transformers. After the GPT-2 paper, gpt2 scales the two projections into the residual stream; other
 * families do not. Embeddings, positions and an untied head are normally distributed, like matrices.
 */
#include "runtime/model/initial.h"

#include "base/philox.h"
#include "runtime/model/normal_internal.h"
#include "runtime/model/walk_internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DRAW_ELEMENTS = 4, CHUNK_ELEMENTS = 32768 };

/* The projections into the residual stream. */
static const char *const residual[] = {"attention.output.weight", "mlp.down.weight"};

static double deviation(const struct ah_model *model, const struct ah_model_tensor *tensor)
{
    bool scaled = false;
    for (size_t i = 0; i < sizeof residual / sizeof residual[0]; i++)
        scaled |= model->family == AH_FAMILY_GPT2 && strcmp(tensor->name, residual[i]) == 0;
    if (!tensor->matrix)
        return 0;
    return scaled ? model->initializer_range / sqrt(2 * (double)model->layers) : model->initializer_range;
}

double ah_initial_deviation(const struct ah_model *model, enum ah_block_kind kind, size_t tensor)
{
    struct ah_model_tensor tensors[AH_MODEL_TENSORS_MAX];
    size_t n = ah_model_tensors(model, kind, tensors);
    assert(tensor < n);
    (void)n;
    return deviation(model, &tensors[tensor]);
}

static void fill_normal(uint64_t seed, const struct ah_weights_piece *piece, double scale, float *values)
{
    struct ah_philox_name name = {.seed = seed, .purpose = AH_PHILOX_INIT, .block = (uint32_t)piece->block};
    double normal[DRAW_ELEMENTS] = {0};
    uint32_t bits[4];
    for (uint64_t i = 0; i < piece->n; i++) {
        uint64_t element = piece->element + i;
        if (i == 0 || element % DRAW_ELEMENTS == 0) {
            name.element = element - element % DRAW_ELEMENTS;
            ah_philox_draw(&name, bits);
            ah_normal_four(bits, normal);
        }
        values[i] = (float)(scale * normal[element % DRAW_ELEMENTS]);
    }
}

/* A is uniform within 1 / sqrt(inputs), as peft's kaiming_uniform_(a = sqrt(5)) makes it; B is zero. */
static void fill_adapter(uint64_t seed, const struct ah_model_tensor *tensor,
                         const struct ah_weights_piece *piece, float *values)
{
    struct ah_philox_name name = {.seed = seed, .purpose = AH_PHILOX_INIT, .block = (uint32_t)piece->block};
    const double bound = strstr(tensor->name, ".lora_b") ? 0 : 1 / sqrt((double)tensor->cols);
    uint32_t bits[DRAW_ELEMENTS] = {0};
    for (uint64_t i = 0; i < piece->n; i++) {
        uint64_t element = piece->element + i;
        if (bound > 0 && (i == 0 || element % DRAW_ELEMENTS == 0)) {
            name.element = element - element % DRAW_ELEMENTS;
            ah_philox_draw(&name, bits);
        }
        values[i] = bound > 0 ? (float)(bound * ((double)bits[element % DRAW_ELEMENTS] * 0x1p-31 - 1)) : 0;
    }
}

/* Sets the row of the padding token to zero. */
static void clear_padding(const struct ah_model *model, const struct ah_weights_piece *piece, float *values)
{
    uint64_t begin = model->padding_token * model->width, end = begin + model->width;
    if (model->padding_token == AH_MODEL_NO_PADDING || piece->block != 0 || piece->tensor != 0)
        return;
    for (uint64_t i = begin < piece->first ? piece->first : begin; i < end && i < piece->first + piece->n;
         i++)
        values[i - piece->first] = 0;
}

/* True if the tensor of a norm is its gain, false if it is a bias. */
static bool is_gain(const struct ah_model_tensor *tensor)
{
    const char *point = strrchr(tensor->name, '.');
    return point && strcmp(point, ".weight") == 0;
}

void ah_initial_fill(const struct ah_model *model, uint64_t seed, const struct ah_weights_piece *piece,
                     float *ret_values)
{
    struct ah_model_tensor tensors[AH_MODEL_TENSORS_MAX];
    size_t n = ah_model_tensors(model, ah_model_block_kind(model, piece->block), tensors);
    assert(piece->tensor < n);
    (void)n;
    const struct ah_model_tensor *tensor = &tensors[piece->tensor];
    if (tensor->adapter) {
        fill_adapter(seed, tensor, piece, ret_values);
        return;
    }
    if (tensor->matrix) {
        fill_normal(seed, piece, deviation(model, tensor), ret_values);
        clear_padding(model, piece, ret_values);
        return;
    }
    float constant = is_gain(tensor) && !model->norm_offset ? 1.0f : 0.0f;
    for (uint64_t i = 0; i < piece->n; i++)
        ret_values[i] = constant;
}

struct initial {
    const struct ah_model *model;
    uint64_t seed;
    struct ah_pool *pool;
    const struct ah_weights_sink *sink;
    const struct ah_weights_piece *piece; /* the piece to compute */
    float *values;                        /* its values, at most AH_WEIGHTS_PIECE_MAX */
    struct ah_error *err;
};

static void fill_chunk(void *context, size_t chunk, unsigned worker)
{
    const struct initial *initial = context;
    struct ah_weights_piece piece = *initial->piece;
    uint64_t from = chunk * CHUNK_ELEMENTS, left = piece.n - from;
    (void)worker;
    piece.first += from;
    piece.element += from;
    piece.n = left < CHUNK_ELEMENTS ? left : CHUNK_ELEMENTS;
    ah_initial_fill(initial->model, initial->seed, &piece, initial->values + from);
}

static int load_band(void *context, const struct ah_walk_step *step)
{
    struct initial *initial = context;
    int rc = AH_OK;
    if (!ah_weights_wanted(initial->sink, step->band.block))
        return AH_OK;
    for (uint64_t at = 0; at < step->band.n && !rc; at += AH_WEIGHTS_PIECE_MAX) {
        const struct ah_weights_piece piece = ah_walk_piece(step, at);
        initial->piece = &piece;
        ah_pool_run(initial->pool, fill_chunk, initial, (piece.n + CHUNK_ELEMENTS - 1) / CHUNK_ELEMENTS);
        rc = initial->sink->take(initial->sink->context, &piece, initial->values, initial->err);
    }
    return rc;
}

static int load(const struct ah_walk *walk, uint64_t seed, struct ah_pool *pool,
                const struct ah_weights_sink *sink, struct ah_error *err)
{
    struct initial initial = {.model = walk->model, .seed = seed, .pool = pool, .sink = sink, .err = err};
    initial.values = malloc(AH_WEIGHTS_PIECE_MAX * sizeof *initial.values);
    int rc = initial.values ? ah_walk_bands(walk, load_band, &initial) : ah_error_memory(err);
    free(initial.values);
    return rc;
}

int ah_initial_load(const struct ah_model *model, uint64_t seed, struct ah_pool *pool,
                    const struct ah_weights_sink *sink, struct ah_error *err)
{
    return load(&(struct ah_walk){.model = model, .base = true, .adapters = true}, seed, pool, sink, err);
}

int ah_initial_load_adapters(const struct ah_model *model, uint64_t seed, struct ah_pool *pool,
                             const struct ah_weights_sink *sink, struct ah_error *err)
{
    return load(&(struct ah_walk){.model = model, .adapters = true}, seed, pool, sink, err);
}
