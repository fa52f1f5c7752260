/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the flops of blocks' programs with published formulas, and tests steps and saved tensors by hand.
 */
#include "runtime/schedule/program.h"
#include "tests/property/schedule/jobs.h"

#include <math.h>

static struct ah_plan_training training(uint64_t batch, uint64_t seq, enum ah_dtype dtype)
{
    return (struct ah_plan_training){.batch = batch, .micro_batches = 1, .seq = seq, .dtype = dtype};
}

/* Returns the total flops of a pass's steps of one kind. */
static double flops_of(const struct ah_job *job, const struct ah_job_group *group, enum ah_pass pass,
                       enum ah_activations way, enum ah_step_kind kind)
{
    struct ah_program_step steps[AH_PROGRAM_STEPS_MAX];
    size_t n = ah_program_steps(job, group, pass, way, steps);
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += steps[i].kind == kind ? steps[i].flops : 0;
    return sum;
}

/* By the general formula, all products except attention take 12 b s L h^2 (1 + g f/h + k/a + V/(2 L h)) flops. */
TEST(program, products_follow_the_general_formula)
{
    static const char *const names[] = {"llama-2-7b", "llama-3-8b", "mistral-7b", "qwen2.5-7b"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct test_job j;
        test_job_open(&j, names[i], training(2, 1000, AH_BF16));
        const struct ah_model *model = j.document.body.model;
        double h = (double)model->width, layers = (double)model->layers, sum = 0;
        double expected =
            12 * 2000 * layers * h * h *
            (1 + 1.5 * (double)model->mlp_width / h + (double)model->kv_heads / (double)model->heads +
             (double)model->vocabulary / (2 * layers * h));
        for (size_t g = 0; g < j.job.n_groups; g++)
            for (int pass = 0; pass < 2; pass++)
                sum += flops_of(&j.job, &j.job.groups[g], (enum ah_pass)pass, AH_ACTIVATIONS_KEEP,
                                AH_STEP_MATMUL) *
                       (double)j.job.groups[g].blocks;
        check_near(sum / expected, 1, 1e-12);
        test_job_close(&j);
    }
}

/* With f = 4h: 24 b s h^2 flops forward, double that backward. Recomputing repeats all but the last product. */
TEST(program, recompute_costs_a_forward)
{
    struct test_job j;
    test_job_open(&j, "gpt2-124m", training(2, 512, AH_BF16));
    const struct ah_job_group *layer = test_job_group(&j.job, AH_BLOCK_LAYER);
    const double bsh2 = 1024.0 * 768 * 768;
    const enum ah_step_kind m = AH_STEP_MATMUL, a = AH_STEP_ATTENTION;
    check_near(flops_of(&j.job, layer, AH_PASS_FORWARD, AH_ACTIVATIONS_KEEP, m) / bsh2, 24, 1e-12);
    check_near(flops_of(&j.job, layer, AH_PASS_BACKWARD, AH_ACTIVATIONS_KEEP, m) / bsh2, 48, 1e-12);
    check_near(flops_of(&j.job, layer, AH_PASS_BACKWARD, AH_ACTIVATIONS_SELECTIVE, m) / bsh2, 48, 1e-12);
    check_near(flops_of(&j.job, layer, AH_PASS_BACKWARD, AH_ACTIVATIONS_RECOMPUTE, m) / bsh2, 48 + 16, 1e-12);
    /* Causal attention takes half of 4 b s^2 h, plus the diagonal. */
    double forward = flops_of(&j.job, layer, AH_PASS_FORWARD, AH_ACTIVATIONS_KEEP, a);
    check_near(forward / (2.0 * 2 * 512 * 513 * 768), 1, 1e-12);
    check_near(flops_of(&j.job, layer, AH_PASS_BACKWARD, AH_ACTIVATIONS_KEEP, a) / forward, 2.5, 1e-12);
    check_near(flops_of(&j.job, layer, AH_PASS_BACKWARD, AH_ACTIVATIONS_RECOMPUTE, a) / forward, 3.5, 1e-12);
    test_job_close(&j);
}

TEST(program, windows_count_what_is_seen)
{
    static const uint64_t windows[] = {1, 2, 7, 32, 33, 1000};
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        struct test_job j;
        test_job_model(&j, "mistral-7b");
        j.document.body.model->window = windows[i];
        j.document.body.model->n_window_layers = 0;
        test_job_start(&j, training(3, 33, AH_BF16));
        uint64_t pairs = 0;
        for (uint64_t query = 0; query < 33; query++)
            for (uint64_t key = 0; key <= query; key++)
                pairs += query - key < windows[i];
        double flops = flops_of(&j.job, test_job_group(&j.job, AH_BLOCK_LAYER), AH_PASS_FORWARD,
                                AH_ACTIVATIONS_KEEP, AH_STEP_ATTENTION);
        check_near(flops, (double)pairs * 3 * 4 * 4096, 1e-12);
        test_job_close(&j);
    }
}

/* The model needs 6 flops per token and weight of a product (PaLM, appendix B), and of attention three times what
 * forward takes, however often the plan computes something again, and whatever the micro-batches are. */
TEST(program, a_model_needs_six_flops_per_token_and_weight)
{
    static const struct ah_plan_training whole = {
        .batch = 4, .micro_batches = 1, .seq = 512, .dtype = AH_BF16};
    static const struct ah_plan_training parts = {
        .batch = 4, .micro_batches = 2, .seq = 512, .dtype = AH_BF16};
    const double h = 768, tokens = 4 * 512, weights = 12 * 12 * h * h + 50257 * h;
    const double attention = 3 * 12 * (2.0 * 4 * 512 * 513 * h);
    struct test_job j;
    test_job_open(&j, "gpt2-124m", whole);
    check_near(ah_program_model_flops(&j.job) / (6 * tokens * weights + attention), 1, 1e-12);
    test_job_close(&j);
    test_job_open(&j, "gpt2-124m", parts);
    check_near(ah_program_model_flops(&j.job) / (6 * tokens * weights + attention), 1, 1e-12);
    test_job_close(&j);
}

struct expected_step {
    const char *name;
    enum ah_step_kind kind;
    enum ah_matmul_form form;
    uint64_t m, n, k, times;
};

static void check_steps(const struct ah_job *job, enum ah_block_kind kind, enum ah_pass pass,
                        const struct expected_step *expected, size_t n)
{
    struct ah_program_step steps[AH_PROGRAM_STEPS_MAX];
    assert_int_equal(ah_program_steps(job, test_job_group(job, kind), pass, AH_ACTIVATIONS_KEEP, steps), n);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(steps[i].name, expected[i].name);
        assert_int_equal(steps[i].kind, expected[i].kind);
        assert_int_equal(steps[i].times, expected[i].times);
        if (steps[i].kind != AH_STEP_MATMUL)
            continue;
        assert_int_equal(steps[i].form, expected[i].form);
        assert_int_equal(steps[i].m, expected[i].m);
        assert_int_equal(steps[i].n, expected[i].n);
        assert_int_equal(steps[i].k, expected[i].k);
    }
}

/* 2500 tokens in chunks of 1024 are two whole chunks and one of 452. */
TEST(program, the_head_goes_by_chunks)
{
    enum { V = 50257, H = 768 };
    static const struct expected_step expected[] = {
        {"norm", AH_STEP_POINTWISE, 0, 0, 0, 0, 1},
        {"head", AH_STEP_MATMUL, AH_MATMUL_NT, 1024, V, H, 2},
        {"cross_entropy", AH_STEP_POINTWISE, 0, 0, 0, 0, 2},
        {"head.weight", AH_STEP_MATMUL, AH_MATMUL_TN, V, H, 1024, 2},
        {"head.input", AH_STEP_MATMUL, AH_MATMUL_NN, 1024, H, V, 2},
        {"head", AH_STEP_MATMUL, AH_MATMUL_NT, 452, V, H, 1},
        {"cross_entropy", AH_STEP_POINTWISE, 0, 0, 0, 0, 1},
        {"head.weight", AH_STEP_MATMUL, AH_MATMUL_TN, V, H, 452, 1},
        {"head.input", AH_STEP_MATMUL, AH_MATMUL_NN, 452, H, V, 1},
        {"head.weight.cast", AH_STEP_POINTWISE, 0, 0, 0, 0, 1},
        {"norm.input", AH_STEP_POINTWISE, 0, 0, 0, 0, 1},
        {"loss", AH_STEP_POINTWISE, 0, 0, 0, 0, 1},
    };
    struct test_job j;
    test_job_open(&j, "gpt2-124m", training(5, 500, AH_BF16));
    check_steps(&j.job, AH_BLOCK_HEAD, AH_PASS_FORWARD, expected, sizeof expected / sizeof expected[0]);
    check_steps(&j.job, AH_BLOCK_HEAD, AH_PASS_BACKWARD, NULL, 0);
    test_job_close(&j);
}

/* If the vocabulary is odd, rows of logits and of their gradient are padded to whole lines; the vocabulary is not. */
TEST(program, rows_of_logits_are_aligned)
{
    enum { V = 50257, PITCH = 50304, CHUNK = 1024 };
    struct test_job j;
    struct ah_error err;
    struct ah_program program;
    int strided = 0, found = 0;
    test_job_open(&j, "gpt2-124m", training(5, 500, AH_BF16));
    CHECK_OK(ah_program_build(&j.job, test_job_group(&j.job, AH_BLOCK_HEAD), AH_PASS_FORWARD,
                              AH_ACTIVATIONS_KEEP, &program, &err),
             err);
    for (size_t i = 0; i < program.n_ops; i++)
        for (size_t arg = 0; arg < AH_OP_ARGS; arg++) {
            strided += program.ops[i].op.arg[arg].row_stride == PITCH;
            assert_true(program.ops[i].op.arg[arg].row_stride % PITCH == 0);
        }
    for (size_t i = 0; i < program.n_places; i++) {
        const char *name = program.places[i].name ? program.places[i].name : "";
        bool logits = strcmp(name, "logits") == 0;
        if (logits || strcmp(name, "d_logits") == 0) {
            assert_int_equal(program.places[i].bytes, (uint64_t)CHUNK * PITCH * (logits ? 4 : 2));
            found++;
        }
    }
    assert_int_equal(found, 2);
    assert_int_equal(strided, 2 * 5); /* head, loss (2), weight, input; in whole chunks and the rest */
    test_job_close(&j);
}

TEST(program, steps_of_llama)
{
    enum { H = 4096, F = 14336, T = 128 };
    static const struct expected_step forward[] = {
        {"attention_norm", AH_STEP_POINTWISE, 0, 0, 0, 0, 1},
        {"attention.qkv", AH_STEP_MATMUL, AH_MATMUL_NT, T, 6144, H, 1},
        {"attention.rope", AH_STEP_POINTWISE, 0, 0, 0, 0, 1},
        {"attention", AH_STEP_ATTENTION, 0, 0, 0, 0, 1},
        {"attention.output", AH_STEP_MATMUL, AH_MATMUL_NT, T, H, H, 1},
        {"attention.residual", AH_STEP_POINTWISE, 0, 0, 0, 0, 1},
        {"mlp_norm", AH_STEP_POINTWISE, 0, 0, 0, 0, 1},
        {"mlp.gate_up", AH_STEP_MATMUL, AH_MATMUL_NT, T, 2 * F, H, 1},
        {"mlp.activation", AH_STEP_POINTWISE, 0, 0, 0, 0, 1},
        {"mlp.down", AH_STEP_MATMUL, AH_MATMUL_NT, T, H, F, 1},
        {"mlp.residual", AH_STEP_POINTWISE, 0, 0, 0, 0, 1},
    };
    static const struct expected_step backward[] = {
        {"mlp.down.weight", AH_STEP_MATMUL, AH_MATMUL_TN, H, F, T, 1},
        {"mlp.down.input", AH_STEP_MATMUL, AH_MATMUL_NN, T, F, H, 1},
        {"mlp.activation.input", AH_STEP_POINTWISE, 0, 0, 0, 0, 1},
        {"mlp.gate_up.weight", AH_STEP_MATMUL, AH_MATMUL_TN, 2 * F, H, T, 1},
        {"mlp.gate_up.input", AH_STEP_MATMUL, AH_MATMUL_NN, T, H, 2 * F, 1},
        {"mlp_norm.input", AH_STEP_POINTWISE, 0, 0, 0, 0, 1},
        {"mlp.residual.input", AH_STEP_POINTWISE, 0, 0, 0, 0, 1},
        {"attention.output.weight", AH_STEP_MATMUL, AH_MATMUL_TN, H, H, T, 1},
        {"attention.output.input", AH_STEP_MATMUL, AH_MATMUL_NN, T, H, H, 1},
        {"attention.input", AH_STEP_ATTENTION, 0, 0, 0, 0, 1},
        {"attention.rope.input", AH_STEP_POINTWISE, 0, 0, 0, 0, 1},
        {"attention.qkv.weight", AH_STEP_MATMUL, AH_MATMUL_TN, 6144, H, T, 1},
        {"attention.qkv.input", AH_STEP_MATMUL, AH_MATMUL_NN, T, H, 6144, 1},
        {"attention_norm.input", AH_STEP_POINTWISE, 0, 0, 0, 0, 1},
        {"attention.residual.input", AH_STEP_POINTWISE, 0, 0, 0, 0, 1},
    };
    struct test_job j;
    test_job_open(&j, "llama-3-8b", training(2, 64, AH_BF16));
    check_steps(&j.job, AH_BLOCK_LAYER, AH_PASS_FORWARD, forward, sizeof forward / sizeof forward[0]);
    check_steps(&j.job, AH_BLOCK_LAYER, AH_PASS_BACKWARD, backward, sizeof backward / sizeof backward[0]);
    /* A product moves each operand once. */
    struct ah_program_step steps[AH_PROGRAM_STEPS_MAX];
    ah_program_steps(&j.job, test_job_group(&j.job, AH_BLOCK_LAYER), AH_PASS_BACKWARD, AH_ACTIVATIONS_KEEP,
                     steps);
    assert_int_equal(steps[4].moved_bytes, 2 * (T * 2 * F + 2 * F * H + T * H));
    test_job_close(&j);
}

/* The bias is between the weights of gate and up, so each has its own products. Input gradients are added in fp32. */
TEST(program, gate_and_up_with_biases_are_two_products)
{
    enum { H = 4096, F = 14336, T = 64 };
    static const struct expected_step expected[] = {
        {"mlp.gate.bias", AH_STEP_POINTWISE, 0, 0, 0, 0, 1},
        {"mlp.gate.weight", AH_STEP_MATMUL, AH_MATMUL_TN, F, H, T, 1},
        {"mlp.up.bias", AH_STEP_POINTWISE, 0, 0, 0, 0, 1},
        {"mlp.up.weight", AH_STEP_MATMUL, AH_MATMUL_TN, F, H, T, 1},
        {"mlp.gate.input", AH_STEP_MATMUL, AH_MATMUL_NN, T, H, F, 1},
        {"mlp.up.input", AH_STEP_MATMUL, AH_MATMUL_NN, T, H, F, 1},
    };
    struct ah_program_step steps[AH_PROGRAM_STEPS_MAX];
    struct test_job j;
    test_job_model(&j, "llama-3-8b");
    j.document.body.model->mlp_bias = true;
    test_job_start(&j, training(1, T, AH_BF16));
    ah_program_steps(&j.job, test_job_group(&j.job, AH_BLOCK_LAYER), AH_PASS_FORWARD, AH_ACTIVATIONS_KEEP,
                     steps);
    assert_string_equal(steps[7].name, "mlp.gate");
    assert_string_equal(steps[8].name, "mlp.up");
    ah_program_steps(&j.job, test_job_group(&j.job, AH_BLOCK_LAYER), AH_PASS_BACKWARD, AH_ACTIVATIONS_KEEP,
                     steps);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_string_equal(steps[4 + i].name, expected[i].name);
        assert_int_equal(steps[4 + i].m, expected[i].m);
        assert_int_equal(steps[4 + i].n, expected[i].n);
        assert_int_equal(steps[4 + i].k, expected[i].k);
    }
    assert_int_equal(steps[8].moved_bytes, 2 * T * F + 2 * F * H + 4 * T * H);
    assert_int_equal(steps[9].moved_bytes, 2 * T * F + 2 * F * H + 2 * 4 * T * H);
    test_job_close(&j);
}

/* The backward pass of the lowest trained block ends at the block's lowest trained tensor. */
TEST(program, stops_at_the_lowest_trained_tensor)
{
    static const char *patterns[] = {"layer.0.mlp.up.weight"};
    static const struct expected_step expected[] = {
        {"mlp.down.input", AH_STEP_MATMUL, AH_MATMUL_NN, 64, 14336, 4096, 1},
        {"mlp.activation.input", AH_STEP_POINTWISE, 0, 0, 0, 0, 1},
        {"mlp.up.weight", AH_STEP_MATMUL, AH_MATMUL_TN, 14336, 4096, 64, 1},
    };
    struct ah_plan_training how = training(1, 64, AH_BF16);
    struct test_job j;
    how.trainable = patterns;
    how.n_trainable = 1;
    test_job_open(&j, "llama-3-8b", how);
    check_steps(&j.job, AH_BLOCK_LAYER, AH_PASS_BACKWARD, expected, 3);
    const struct ah_job_group *layer = test_job_group(&j.job, AH_BLOCK_LAYER);
    assert_int_equal(layer->saved_bytes[AH_ACTIVATIONS_KEEP],
                     64 * 2 * (4096 + 2 * 14336)); /* norm's output, gate, up */
    test_job_close(&j);
}

TEST(program, lists_what_is_saved)
{
    struct ah_program_tensor tensors[AH_PROGRAM_TENSORS_MAX];
    struct test_job j;
    test_job_open(&j, "qwen3-0.6b", training(1, 64, AH_BF16));
    const struct ah_job_group *layer = test_job_group(&j.job, AH_BLOCK_LAYER);
    size_t n = ah_program_saved(&j.job, layer, tensors);
    uint64_t end[AH_ACTIVATIONS_WAYS] = {0};
    assert_int_equal(n, 13);
    for (size_t i = 0; i < n; i++)
        for (int way = 0; way < AH_ACTIVATIONS_WAYS; way++) {
            if (!tensors[i].saved[way])
                continue;
            assert_true(tensors[i].offset[way] >= end[way]);
            end[way] = tensors[i].offset[way] + tensors[i].bytes;
        }
    for (int way = 0; way < AH_ACTIVATIONS_WAYS; way++)
        assert_true(end[way] <= layer->saved_bytes[way] && layer->saved_bytes[way] < end[way] + 256);
    assert_int_equal(ah_program_saved(&j.job, test_job_group(&j.job, AH_BLOCK_HEAD), tensors), 0);
    test_job_close(&j);
}

static const struct ah_op *op_of(const struct ah_program *program, const char *name)
{
    size_t i = 0;
    while (i < program->n_ops && strcmp(program->ops[i].name, name) != 0)
        i++;
    assert_true(i < program->n_ops);
    return &program->ops[i].op;
}

/* Gemma 2 2B: sqrt(2304) is 48; a width of 2307 gives 48.03, which bf16 rounds to 48. */
TEST(program, ops_have_the_settings_of_gemma)
{
    struct test_job j;
    struct ah_program program;
    struct ah_error err = {0};
    for (enum ah_dtype dtype = AH_FP32; dtype <= AH_BF16; dtype++) {
        test_job_model(&j, "gemma-2-2b");
        struct ah_model *model = j.document.body.model;
        model->width = 2307;
        test_job_start(&j, training(1, 64, dtype));
        CHECK_OK(ah_program_build(&j.job, test_job_group(&j.job, AH_BLOCK_EMBEDDING), AH_PASS_FORWARD,
                                  AH_ACTIVATIONS_KEEP, &program, &err),
                 err);
        const double scale = (double)op_of(&program, "embedding")->u.embed.scale;
        check_near(scale, dtype == AH_BF16 ? 48 : sqrt(2307), 1e-6);
        CHECK_OK(ah_program_build(&j.job, test_job_group(&j.job, AH_BLOCK_LAYER), AH_PASS_FORWARD,
                                  AH_ACTIVATIONS_KEEP, &program, &err),
                 err);
        const struct ah_op_attention *attention = &op_of(&program, "attention")->u.attention;
        check_near((double)attention->scale, 1.0 / 16, 1e-9);
        check_near((double)attention->soft_cap, 50, 1e-9);
        assert_int_equal(attention->window, 4096);
        check_near((double)op_of(&program, "mlp_post_norm")->u.norm.gain_offset, 1, 1e-9);
        assert_int_equal(op_of(&program, "mlp.activation")->u.rows.kind, AH_ACTIVATION_GELU_TANH_GATED);
        CHECK_OK(ah_program_build(&j.job, test_job_group(&j.job, AH_BLOCK_HEAD), AH_PASS_FORWARD,
                                  AH_ACTIVATIONS_KEEP, &program, &err),
                 err);
        check_near((double)op_of(&program, "cross_entropy")->u.cross_entropy.soft_cap, 30, 1e-9);
        test_job_close(&j);
    }
}
