/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that programs train. They run in double precision, on memory laid out as they say. For every parameter tried,
 * the loss changes as gradients predict (central differences), whatever is kept, recomputed, frozen, tied or chunked.
 */
#include "runtime/schedule/flat.h"
#include "runtime/schedule/program.h"
#include "tests/property/schedule/jobs.h"
#include "tests/property/schedule/reference.h"

#include <math.h>
#include <stdlib.h>

enum {
    LAYERS = 2,
    BLOCKS = LAYERS + 2,
    BATCH = 2,
    SEQ = 5,
    ROWS = BATCH * SEQ,
    VOCABULARY = 11,
    WORK_BYTES = 1 << 16
};

static const struct ah_model_rope rope = {.theta = 100};

static struct ah_model llama(void)
{
    return (struct ah_model){.family = AH_FAMILY_LLAMA,
                             .layers = LAYERS,
                             .width = 8,
                             .heads = 4,
                             .kv_heads = 2,
                             .head_dim = 4,
                             .mlp_width = 6,
                             .vocabulary = VOCABULARY,
                             .max_positions = 7,
                             .padding_token = AH_MODEL_NO_PADDING,
                             .position = AH_POSITION_ROPE,
                             .norm_epsilon = 1e-5,
                             .activation = AH_MODEL_SILU_GATED};
}

static struct ah_model qwen3(void)
{
    struct ah_model model = llama();
    model.family = AH_FAMILY_QWEN3;
    model.qk_norm = model.tied = true;
    model.window = 3;
    return model;
}

static struct ah_model biased(void)
{
    struct ah_model model = llama();
    model.qkv_bias = model.mlp_bias = model.attention_output_bias = true;
    model.kv_heads = 1;
    return model;
}

static struct ah_model gpt2(void)
{
    struct ah_model model = biased();
    model.family = AH_FAMILY_GPT2;
    model.kv_heads = model.heads = 2;
    model.position = AH_POSITION_LEARNED;
    model.norm = AH_MODEL_NORM_LAYER;
    model.activation = AH_MODEL_GELU_TANH;
    model.tied = true;
    return model;
}

static struct ah_model gelu(void)
{
    struct ah_model model = gpt2();
    model.activation = AH_MODEL_GELU;
    model.tied = false;
    return model;
}

static struct ah_model olmo2(void)
{
    struct ah_model model = llama();
    model.family = AH_FAMILY_OLMO2;
    model.norm_place = AH_NORM_AFTER;
    model.qk_norm = model.qk_norm_whole = true;
    return model;
}

static struct ah_model smollm3(void)
{
    static uint64_t unrotated[] = {1};
    struct ah_model model = biased();
    model.family = AH_FAMILY_SMOLLM3;
    model.tied = true;
    model.unrotated_layers = unrotated;
    model.n_unrotated_layers = 1;
    return model;
}

static struct ah_model phi3(void)
{
    struct ah_model model = llama();
    model.family = AH_FAMILY_PHI3;
    model.window = 2;
    return model;
}

static struct ah_model gemma2(void)
{
    static uint64_t windowed[] = {0};
    struct ah_model model = llama();
    model.family = AH_FAMILY_GEMMA2;
    model.activation = AH_MODEL_GELU_TANH_GATED;
    model.norm_place = AH_NORM_AROUND;
    model.norm_offset = model.embedding_scaled = model.tied = true;
    model.query_scalar = 3;
    model.score_cap = 1.5;
    model.logit_cap = 2;
    model.window = 3;
    model.window_layers = windowed;
    model.n_window_layers = 1;
    return model;
}

/* One training run. Weights and gradients of blocks, the streams between blocks, saved tensors and scratch are in one
 * memory, which has two bytes per element. */
struct net {
    struct ah_job job;
    struct ah_arena arena;
    struct reference_data data;
    uint32_t tokens[ROWS], targets[ROWS], positions[ROWS];
    double *memory;
    uint64_t bytes;
    uint64_t weights[BLOCKS], gradients[BLOCKS], stream[BLOCKS], saved[BLOCKS], gradient, scratch, loss;
    enum ah_activations way;
};

static uint64_t take(struct net *net, uint64_t bytes)
{
    uint64_t at = net->bytes;
    net->bytes += bytes;
    return at;
}

static void lay_net(struct net *net)
{
    for (size_t block = 0; block < BLOCKS; block++) {
        const struct ah_job_group *group = ah_job_block(&net->job, block);
        net->weights[block] = take(net, group->flat_elements * net->job.weight_bytes);
        net->gradients[block] = take(net, group->trained_elements * net->job.gradient_bytes);
        net->stream[block] = take(net, net->job.residual_bytes);
        net->saved[block] = take(net, group->saved_bytes[AH_ACTIVATIONS_KEEP]);
    }
    net->gradient = take(net, net->job.residual_bytes);
    net->scratch = take(net, WORK_BYTES);
    net->loss = take(net, 8);
    net->memory = calloc(net->bytes / 2, sizeof *net->memory);
    assert_non_null(net->memory);
}

static void start_net(struct net *net, const struct ah_model *model, struct ah_plan_training training,
                      uint64_t chunk, uint64_t *random)
{
    struct ah_error err = {0};
    *net = (struct net){.way = AH_ACTIVATIONS_KEEP};
    training.batch = BATCH;
    training.micro_batches = 1;
    training.seq = SEQ;
    CHECK_OK(ah_job_init(&net->job, model, &training, &net->arena, &err), err);
    net->job.chunk_tokens = chunk;
    lay_net(net);
    for (size_t i = 0; i < ROWS; i++) {
        net->tokens[i] = (uint32_t)(check_random(random) % VOCABULARY);
        net->targets[i] = (uint32_t)(check_random(random) % VOCABULARY);
        net->positions[i] = (uint32_t)(i % SEQ);
    }
    net->data = (struct reference_data){net->tokens, net->targets, net->positions, 1.0 / ROWS, rope.theta};
    for (size_t block = 0; block < BLOCKS; block++) {
        uint64_t n = ah_job_block(&net->job, block)->flat_elements, step = net->job.weight_bytes / 2;
        for (uint64_t i = 0; i < n; i++)
            net->memory[net->weights[block] / 2 + i * step] = check_uniform(random) - 0.4;
    }
}

static void stop_net(struct net *net)
{
    free(net->memory);
    ah_arena_release(&net->arena);
}

static uint64_t place_at(const struct net *net, size_t block, const struct ah_program_place *place)
{
    const uint64_t homes[AH_HOMES] = {[AH_HOME_SCRATCH] = net->scratch,
                                      [AH_HOME_SAVED] = net->saved[block],
                                      [AH_HOME_INPUT] = block ? net->stream[block - 1] : 0,
                                      [AH_HOME_OUTPUT] = net->stream[block],
                                      [AH_HOME_RESIDUAL_GRADIENT] = net->gradient,
                                      [AH_HOME_WEIGHTS] = net->weights[block],
                                      [AH_HOME_GRADIENTS] = net->gradients[block],
                                      [AH_HOME_TABLE] = net->weights[0],
                                      [AH_HOME_TABLE_GRADIENTS] = net->gradients[0],
                                      [AH_HOME_DATA] = net->loss};
    return homes[place->home] + place->offset_bytes;
}

static void run_op(struct net *net, size_t block, const struct ah_program *program,
                   const struct ah_program_op *op, uint64_t time, uint64_t first_row)
{
    uint64_t at[AH_OP_ARGS] = {0};
    struct ah_op now = op->op;
    for (size_t i = 0; i < AH_OP_ARGS; i++)
        if (op->place[i] != AH_PROGRAM_NO_PLACE)
            at[i] = place_at(net, block, &program->places[op->place[i]]) + op->op.arg[i].offset_bytes +
                    time * op->chunk_bytes[i];
    if (op->first_writes && time == 0)
        now.u.matmul.accumulate = false;
    struct reference reference = {net->memory, &now, at, &net->data, first_row};
    assert_true(reference_do(&reference));
}

static void run_pass(struct net *net, size_t block, enum ah_pass pass)
{
    struct ah_program *program = malloc(sizeof *program);
    struct ah_error err = {0};
    assert_non_null(program);
    CHECK_OK(ah_program_build(&net->job, ah_job_block(&net->job, block), pass, net->way, program, &err), err);
    assert_true(program->scratch_bytes <= WORK_BYTES);
    /* The previous contents of scratch must not matter. */
    for (size_t i = 0; i < WORK_BYTES / 2; i++)
        net->memory[net->scratch / 2 + i] = NAN;
    uint64_t row = 0;
    for (size_t i = 0; i < program->n_ops;) {
        const struct ah_program_op *op = &program->ops[i];
        size_t end = i;
        uint64_t rows = net->job.chunk_tokens;
        while (end < program->n_ops && program->ops[end].in_loop && program->ops[end].times == op->times)
            end++;
        end = end > i ? end : i + 1;
        for (uint64_t time = 0; time < op->times; time++, row += op->in_loop ? rows : 0)
            for (size_t at = i; at < end; at++)
                run_op(net, block, program, &program->ops[at], time, row);
        i = end;
    }
    free(program);
}

static double run_forward(struct net *net)
{
    for (size_t block = 0; block < BLOCKS; block++)
        run_pass(net, block, AH_PASS_FORWARD);
    return net->memory[net->loss / 2] * net->data.loss_scale;
}

static void run_step(struct net *net)
{
    run_forward(net);
    for (size_t block = BLOCKS - 1; block-- > net->job.lowest;)
        run_pass(net, block, AH_PASS_BACKWARD);
}

/* Compares a tensor's gradient with differences of the loss. `kept` is the memory after the step, because every forward
 * of the head writes gradients. */
static void check_tensor(struct net *net, size_t block, const struct ah_flat_tensor *tensor,
                         const double *kept, uint64_t *random)
{
    uint64_t step = net->job.weight_bytes / 2;
    for (int i = 0; i < 4; i++) {
        uint64_t element = check_random(random) % tensor->elements;
        /* Picks a row that the batch uses, because the rest of the table has no effect. */
        if (!strcmp(tensor->tensor.name, "embedding.weight"))
            element = net->tokens[i] * 8 + element % 8;
        if (!strcmp(tensor->tensor.name, "position.weight"))
            element %= SEQ * 8;
        double *weight = &net->memory[net->weights[block] / 2 + (tensor->first + element) * step];
        double gradient = kept[net->gradients[block] / 2 + (tensor->trained_first + element) * step];
        double was = *weight, h = 1e-5;
        *weight = was + h;
        double above = run_forward(net);
        *weight = was - h;
        double below = run_forward(net);
        *weight = was;
        double expected = (above - below) / (2 * h);
        if (!(fabs(gradient - expected) <= 1e-9 + 1e-6 * fabs(expected)))
            fail_msg("block %zu '%s' element %llu: gradient %.9g, difference %.9g", block,
                     tensor->tensor.name, (unsigned long long)element, gradient, expected);
    }
}

static size_t check_net(struct net *net, uint64_t *random)
{
    size_t tensors = 0;
    double *kept = malloc(net->bytes / 2 * sizeof *kept);
    assert_non_null(kept);
    run_step(net);
    memcpy(kept, net->memory, net->bytes / 2 * sizeof *kept);
    for (size_t block = 0; block < BLOCKS; block++) {
        struct ah_flat flat = ah_flat_of(net->job.model, ah_model_block_kind(net->job.model, block),
                                         ah_job_block(&net->job, block)->trained);
        for (size_t t = 0; t < flat.n; t++) {
            if (!flat.tensors[t].trained)
                continue;
            check_tensor(net, block, &flat.tensors[t], kept, random);
            tensors++;
        }
    }
    memcpy(net->memory, kept, net->bytes / 2 * sizeof *kept);
    free(kept);
    return tensors;
}

static void check_ways(struct net *net)
{
    double *keep = malloc(net->bytes / 2 * sizeof *keep);
    assert_non_null(keep);
    memcpy(keep, net->memory, net->bytes / 2 * sizeof *keep);
    for (int way = 1; way < AH_ACTIVATIONS_WAYS; way++) {
        net->way = (enum ah_activations)way;
        run_step(net);
        for (size_t block = 0; block < BLOCKS; block++)
            assert_memory_equal(&net->memory[net->gradients[block] / 2], &keep[net->gradients[block] / 2],
                                ah_job_block(&net->job, block)->trained_elements * net->job.gradient_bytes /
                                    2 * sizeof *keep);
    }
    free(keep);
}

static const char *everything[] = {"*"};
static const char *matrices[] = {"*", "!*norm*", "!embedding*"};
static const char *vectors[] = {"*", "!*weight", "*norm*"};
static const char *scattered[] = {"layer.1.attention.output.weight", "layer.0.mlp.down.weight"};
static const char *tables[] = {"embedding*", "!*embedding.weight", "head*", "embedding.*embedding*"};
static const char *lowest[] = {"layer.0.mlp.*up.weight", "head*"};

static const struct {
    const char **patterns;
    size_t n;
} sets[] = {{everything, 1}, {matrices, 3}, {vectors, 3}, {scattered, 2}, {tables, 4}, {lowest, 2}};

static void check_model(const struct ah_model *model, uint64_t *random)
{
    static const uint64_t chunks[] = {4, 64, 5};
    size_t tensors = 0;
    for (size_t set = 0; set < sizeof sets / sizeof sets[0]; set++)
        for (int dtype = 0; dtype < 2; dtype++) {
            struct net net;
            struct ah_plan_training training = {.dtype = dtype ? AH_BF16 : AH_FP32,
                                                .trainable = sets[set].patterns,
                                                .n_trainable = sets[set].n};
            start_net(&net, model, training, chunks[(set + (size_t)dtype) % 3], random);
            tensors += check_net(&net, random);
            check_ways(&net);
            stop_net(&net);
        }
    assert_true(tensors > 40);
}

TEST(gradients, are_those_of_the_loss)
{
    struct ah_model models[] = {llama(), qwen3(),   biased(), gpt2(),  gelu(),
                                olmo2(), smollm3(), phi3(),   gemma2()};
    uint64_t random = check_seed(20240521);
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        check_model(&models[i], &random);
}
