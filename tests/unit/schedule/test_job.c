/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares sizes with hand calculations for the published shapes of the models. The formulas are those of Korthikanti
 * et al. without scores and dropout, and their extensions to gated MLPs and grouped heads.
 */
#include "tests/property/schedule/jobs.h"

static struct ah_plan_training training(uint64_t batch, uint64_t micro_batches, uint64_t seq,
                                        enum ah_dtype dtype)
{
    return (struct ah_plan_training){
        .batch = batch, .micro_batches = micro_batches, .seq = seq, .dtype = dtype, .state_dtype = AH_FP32};
}

/* Saved bytes per token in bf16, without the 2h of the block's input. */
static const struct {
    const char *model;
    uint64_t chunk_tokens, keep, selective;
} published[] = {
    /* `keep` has 32h + 4a with h 768, a 12, plus 16 for two layer norms. `selective` has 20h + 4a. */
    {"gpt2-124m", 1024, 32 * 768 + 4 * 12 + 16 - 2 * 768, 20 * 768 + 4 * 12 - 2 * 768},
    /* `keep` has 8h + 4ad + 4kd + 6f + 4a + 8. `selective` has two norms (4h) and the product (2f) less. */
    {"llama-2-7b", 2048, 16 * 4096 + 6 * 11008 + 4 * 32 + 8 - 2 * 4096,
     12 * 4096 + 4 * 11008 + 4 * 32 - 2 * 4096},
    {"llama-3-8b", 512, 12 * 4096 + 4 * 1024 + 6 * 14336 + 4 * 32 + 8 - 2 * 4096,
     8 * 4096 + 4 * 1024 + 4 * 14336 + 4 * 32 - 2 * 4096},
    /* `keep` has q (2048) and k (1024) twice, with statistics of 16 + 8 heads. */
    {"qwen3-0.6b", 256,
     8 * 1024 + 4 * 2048 + 4 * 1024 + 6 * 3072 + 4 * 16 + 8 + 2 * (2048 + 1024) + 4 * 24 - 2 * 1024,
     4 * 1024 + 4 * 2048 + 4 * 1024 + 4 * 3072 + 4 * 16 - 2 * 1024},
};

TEST(job, saves_what_is_published)
{
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        struct test_job j;
        test_job_open(&j, published[i].model, training(8, 2, 512, AH_BF16));
        const struct ah_job_group *layer = test_job_group(&j.job, AH_BLOCK_LAYER);
        assert_int_equal(j.job.tokens, 2048);
        assert_int_equal(layer->saved_bytes[AH_ACTIVATIONS_KEEP], 2048 * published[i].keep);
        assert_int_equal(layer->saved_bytes[AH_ACTIVATIONS_SELECTIVE], 2048 * published[i].selective);
        assert_int_equal(layer->saved_bytes[AH_ACTIVATIONS_RECOMPUTE], 0);
        assert_int_equal(j.job.chunk_tokens, published[i].chunk_tokens);
        test_job_close(&j);
    }
}

/* By hand for llama-2-7b in bf16: 2048 tokens, h 4096, f 11008. */
TEST(job, scratch_of_llama)
{
    struct test_job j;
    test_job_open(&j, "llama-2-7b", training(1, 1, 2048, AH_BF16));
    const struct ah_job_group *layer = test_job_group(&j.job, AH_BLOCK_LAYER);
    const uint64_t t = 2048, h = 4096, f = 11008;
    assert_int_equal(layer->forward_work_bytes[AH_ACTIVATIONS_KEEP], 0);
    /* The MLP needs the most where the middle, gate, up and their product are in memory. */
    assert_int_equal(layer->forward_work_bytes[AH_ACTIVATIONS_RECOMPUTE], t * (2 * h + 6 * f));
    /* The gradients of gate and up, and the gradient of their input. */
    assert_int_equal(layer->backward_work_bytes[AH_ACTIVATIONS_KEEP], t * (4 * f + 2 * h));
    assert_int_equal(layer->input_bytes, t * 2 * h);
    /* The head has one chunk: the norm's output and statistics, logits and their gradient, and the loss. */
    const struct ah_job_group *head = test_job_group(&j.job, AH_BLOCK_HEAD);
    assert_int_equal(head->forward_work_bytes[AH_ACTIVATIONS_KEEP], t * (2 * h + 4 + 6 * 32000 + 4));
    assert_int_equal(test_job_group(&j.job, AH_BLOCK_EMBEDDING)->backward_work_bytes[0], t * 8);
    test_job_close(&j);
    /* With several chunks, the head also needs the table's gradient in fp32. */
    test_job_open(&j, "llama-2-7b", training(3, 1, 2048, AH_BF16));
    head = test_job_group(&j.job, AH_BLOCK_HEAD);
    assert_int_equal(head->forward_work_bytes[AH_ACTIVATIONS_KEEP],
                     3 * t * (2 * h + 4 + 4) + t * 6 * 32000 + UINT64_C(4) * 32000 * h);
    test_job_close(&j);
}

TEST(job, bytes_of_elements)
{
    static const struct {
        enum ah_dtype dtype, state_dtype;
        uint64_t weight, gradient, state;
    } cases[] = {{AH_BF16, AH_FP32, 2, 2, 12}, {AH_BF16, AH_BF16, 2, 2, 8}, {AH_FP32, AH_FP32, 4, 4, 8}};
    for (size_t i = 0; i < 3; i++) {
        struct ah_plan_training how = training(4, 2, 128, cases[i].dtype);
        struct test_job j;
        how.state_dtype = cases[i].state_dtype;
        test_job_open(&j, "gpt2-124m", how);
        assert_int_equal(j.job.weight_bytes, cases[i].weight);
        assert_int_equal(j.job.gradient_bytes, cases[i].gradient);
        assert_int_equal(j.job.state_bytes, cases[i].state);
        assert_int_equal(j.job.residual_bytes, 256 * 768 * cases[i].weight);
        assert_int_equal(j.job.input_bytes, 256 * 21);
        const struct ah_job_group *embedding = test_job_group(&j.job, AH_BLOCK_EMBEDDING);
        assert_int_equal(embedding->gathered_bytes, (256 + 128) * 768 * cases[i].weight);
        test_job_close(&j);
    }
}

/* A step's header has room for seven losses after the scalars. */
TEST(job, bytes_of_headers)
{
    static const struct {
        uint64_t micro_batches, header;
    } cases[] = {{1, 128}, {7, 128}, {8, 192}, {15, 192}, {16, 256}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct test_job j;
        test_job_open(&j, "gpt2-124m",
                      training(cases[i].micro_batches, cases[i].micro_batches, 128, AH_BF16));
        assert_int_equal(j.job.header_bytes, cases[i].header);
        assert_int_equal(j.job.constant_bytes, j.job.n_blocks * sizeof(double) + 2 * cases[i].header);
        test_job_close(&j);
    }
}

static void check_group(const struct ah_job_group *group, const char *name, uint64_t first, uint64_t blocks,
                        bool backward, bool input_gradient)
{
    assert_string_equal(group->name, name);
    assert_int_equal(group->first, first);
    assert_int_equal(group->blocks, blocks);
    assert_int_equal(group->backward, backward);
    assert_int_equal(group->input_gradient, input_gradient);
}

TEST(job, groups_of_full_training)
{
    struct test_job j;
    test_job_open(&j, "llama-3-8b", training(1, 1, 64, AH_BF16));
    assert_int_equal(j.job.n_groups, 3);
    assert_int_equal(j.job.n_blocks, 34);
    assert_int_equal(j.job.lowest, 0);
    check_group(&j.job.groups[0], "embedding", 0, 1, true, false);
    check_group(&j.job.groups[1], "layer", 1, 32, true, true);
    check_group(&j.job.groups[2], "head", 33, 1, true, true);
    test_job_close(&j);
}

TEST(job, groups_by_trained_tensors)
{
    static const char *patterns[] = {
        "*", "!embedding*", "!layer.0.*", "!layer.4.mlp.*", "!layer.7.*norm*", "!layer.9.*"};
    struct ah_plan_training how = training(1, 1, 64, AH_BF16);
    struct test_job j;
    how.trainable = patterns;
    how.n_trainable = 6;
    test_job_open(&j, "llama-3-8b", how);
    assert_int_equal(j.job.lowest, 2);
    assert_int_equal(j.job.n_groups, 8);
    check_group(&j.job.groups[0], "embedding.forward", 0, 1, false, false);
    check_group(&j.job.groups[1], "layer.forward", 1, 1, false, false);
    check_group(&j.job.groups[2], "layer.lowest", 2, 1, true, false);
    check_group(&j.job.groups[3], "layer", 3, 27, true, true);
    check_group(&j.job.groups[4], "layer.partial", 5, 1, true, true);
    check_group(&j.job.groups[5], "layer.partial2", 8, 1, true, true);
    check_group(&j.job.groups[6], "layer.frozen", 10, 1, true, true);
    check_group(&j.job.groups[7], "head", 33, 1, true, true);
    assert_int_equal(j.job.group_of[31], 3);
    assert_int_equal(j.job.groups[6].trained_elements, 0);
    /* A frozen block saves only what passing the gradient on needs: neither the norms' outputs nor the product. */
    assert_int_equal(j.job.groups[3].saved_bytes[0] - j.job.groups[6].saved_bytes[0],
                     64 * (4 * 4096 + 2 * 14336));
    test_job_close(&j);
}

TEST(job, only_the_head)
{
    static const char *patterns[] = {"head.norm.weight"};
    struct ah_plan_training how = training(1, 1, 64, AH_BF16);
    struct test_job j;
    how.trainable = patterns;
    how.n_trainable = 1;
    test_job_open(&j, "llama-3-8b", how);
    assert_int_equal(j.job.lowest, 33);
    check_group(&j.job.groups[2], "head.partial", 33, 1, true, false);
    check_group(&j.job.groups[1], "layer.forward", 1, 32, false, false);
    assert_int_equal(j.job.groups[1].saved_bytes[0], 0);
    assert_int_equal(j.job.groups[1].forward_work_bytes[0], j.job.groups[1].forward_work_bytes[2]);
    test_job_close(&j);
}

TEST(job, windows_are_groups)
{
    uint64_t layers[] = {1, 3};
    struct test_job j;
    test_job_model(&j, "llama-3-8b");
    j.document.body.model->window = 16;
    j.document.body.model->window_layers = layers;
    j.document.body.model->n_window_layers = 2;
    test_job_start(&j, training(1, 1, 64, AH_BF16));
    assert_int_equal(j.job.n_groups, 4);
    check_group(&j.job.groups[2], "layer_windowed", 2, 2, true, true);
    for (size_t block = 1; block < 33; block++)
        assert_int_equal(j.job.group_of[block] == 2,
                         ah_model_layer_ways(j.document.body.model, block - 1).windowed);
    test_job_close(&j);
}

TEST(job, names_tensors)
{
    struct test_job j;
    char name[64], cut[8];
    test_job_open(&j, "tiny", training(1, 1, 64, AH_FP32));
    assert_int_equal(ah_job_tensor_name(&j.job, 4, "mlp.up.weight", name, sizeof name), 21);
    assert_string_equal(name, "layer.3.mlp.up.weight");
    ah_job_tensor_name(&j.job, 0, "embedding.weight", name, sizeof name);
    assert_string_equal(name, "embedding.embedding.weight");
    assert_int_equal(ah_job_tensor_name(&j.job, 7, "norm.weight", cut, sizeof cut), 16);
    assert_string_equal(cut, "head.no");
    test_job_close(&j);
}

TEST(job, refuses)
{
    static const char *everything[] = {"*"}, *nothing[] = {"layer.99.*"};
    static const struct {
        const char *model;
        struct ah_plan_training training;
        int code;
        const char *part;
    } cases[] = {
        {"tiny", {.batch = 0, .micro_batches = 1, .seq = 8}, AH_E_USAGE, "batch is 0"},
        {"tiny",
         {.batch = 8, .micro_batches = 0, .seq = 8},
         AH_E_USAGE,
         "micro_batches '0' does not divide batch '8'"},
        {"tiny",
         {.batch = 8, .micro_batches = 3, .seq = 8},
         AH_E_USAGE,
         "micro_batches '3' does not divide batch '8'"},
        {"tiny", {.batch = 8, .micro_batches = 1, .seq = 0}, AH_E_USAGE, "seq is 0"},
        {"gpt2-124m",
         {.batch = 8, .micro_batches = 1, .seq = 1025},
         AH_E_USAGE,
         "seq '1025' is longer than the 1024"},
        {"tiny", {.batch = 1 << 20, .micro_batches = 1, .seq = 1 << 20}, AH_E_DOCUMENT, "2^32 tokens"},
        {"tiny", {.batch = 1 << 24, .micro_batches = 1, .seq = UINT64_MAX}, AH_E_DOCUMENT, "2^32 tokens"},
        {"llama-2-7b", {.batch = 1 << 20, .micro_batches = 1, .seq = 1 << 11}, AH_E_DOCUMENT, "2^53 bytes"},
        {"gpt-22b",
         {.batch = UINT64_C(1) << 40, .micro_batches = UINT64_C(1) << 39, .seq = 1024},
         AH_E_DOCUMENT,
         "2^53 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct test_job j;
        struct ah_error err = {0};
        struct ah_plan_training how = cases[i].training;
        how.trainable = everything;
        how.n_trainable = 1;
        test_job_model(&j, cases[i].model);
        CHECK_FAILS(ah_job_init(&j.job, j.document.body.model, &how, &j.arena, &err), err, cases[i].code,
                    cases[i].part);
        assert_null(j.job.groups);
        test_job_close(&j);
    }
    struct ah_plan_training how = {
        .batch = 1, .micro_batches = 1, .seq = 8, .trainable = nothing, .n_trainable = 1};
    struct ah_error err = {0};
    struct test_job j;
    test_job_model(&j, "tiny");
    CHECK_FAILS(ah_job_init(&j.job, j.document.body.model, &how, &j.arena, &err), err, AH_E_USAGE,
                "'layer.99.*'");
    test_job_close(&j);
}

/* llama-2-7b: width 4096, MLP 11008, 32 heads. Adapters are the trained vector; the base is what it was, and keeps what
 * A's gradients need: norm outputs, the MLP's product, and the ranks of x A^T. */
TEST(job, with_adapters)
{
    enum { RANK = 16, TOKENS = 64 };
    static unsigned on[] = {AH_LORA_Q, AH_LORA_V, AH_LORA_DOWN};
    static const char *adapters[] = {"*.lora_*"}, *alone[] = {"layer.2.mlp.down.lora_b"},
                      *some[] = {"layer.1.*.lora_*"};
    struct ah_model_lora lora = {.rank = RANK, .alpha = 32, .on = on, .n_on = 3};
    struct ah_plan_training how = {.batch = 1, .micro_batches = 1, .seq = TOKENS, .dtype = AH_BF16};
    struct ah_error err = {0};
    struct test_job j;
    how.trainable = adapters;
    how.n_trainable = 1;
    test_job_model(&j, "llama-2-7b");
    j.document.body.model->lora = &lora;
    CHECK_OK(ah_job_init(&j.job, j.document.body.model, &how, &j.arena, &err), err);
    const struct ah_job_group *layer = ah_job_block(&j.job, 5);
    const uint64_t a = 2 * RANK * 4096 + RANK * 11008, b = 3 * 4096 * RANK;
    assert_int_equal(layer->trained_parameters, a + b);
    assert_int_equal(layer->trained_elements, a + b);
    assert_int_equal(layer->parameters, 202383360 + a + b);
    assert_int_equal(ah_job_block(&j.job, 0)->trained_elements, 0);
    /* kept a token: q, k, v and attended (4 widths), their logsumexp, middle, gate and up; for A's gradients the
     * first norm's output, the product, x A^T of q and v, and of down; statistics of both norms. `selective` repeats
     * the first norm and the product. */
    const uint64_t kept =
        2 * (4 * 4096 + 4096 + 2 * 11008) + 4 * 32 + 2 * 4096 + 2 * 11008 + 2 * 3 * RANK + 4 + 4;
    assert_int_equal(layer->saved_bytes[AH_ACTIVATIONS_KEEP], kept * TOKENS);
    assert_int_equal(layer->saved_bytes[AH_ACTIVATIONS_SELECTIVE],
                     (kept - 2 * 4096 - 4 - 2 * 11008) * TOKENS);
    how.trainable = alone;
    CHECK_FAILS(ah_job_init(&j.job, j.document.body.model, &how, &j.arena, &err), err, AH_E_USAGE,
                "'layer.2.mlp.down.lora_b' is trained alone");
    how.trainable = some;
    CHECK_OK(ah_job_init(&j.job, j.document.body.model, &how, &j.arena, &err), err);
    assert_int_equal(ah_job_block(&j.job, 2)->trained_elements, a + b);
    assert_int_equal(ah_job_block(&j.job, 3)->trained_elements, 0);
    test_job_close(&j);
}
