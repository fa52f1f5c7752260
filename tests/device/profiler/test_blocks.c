/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests measuring blocks on the CPU device. The document has every group, config and thread count, and the reader of
 * documents accepts it. The times themselves are not checked.
 */
#include "profiler/measure_internal.h"
#include "runtime/schedule/program.h"

#include "tests/property/schedule/jobs.h"

#define MIB (UINT64_C(1) << 20)

static const struct ah_measure_limits least = {
    .part_s = {[AH_PROFILER_MATMUL] = 0.1, [AH_PROFILER_BLOCKS] = 0.1},
    .samples_min = 3,
    .samples_max = 3,
    .block_s = 0.001,
    .warm_s = 0.01,
    .shapes = {{16, 32, 32}},
    .n_shapes = 1,
    .product_s = 0.01,
    .thread_counts = 2,
    .memory_bytes = MIB,
    .link_bytes = MIB,
    .link_factor = 4,
    .adam_params = MIB,
    .adam_kinds = 1,
    .block_layers = 3,
    .block_rounds = 2,
};

static void check_metric(const struct ah_metric *us)
{
    assert_true(us->n >= 2 && us->min > 0);
    assert_true(us->min <= us->median && us->median <= us->max);
}

static void check_group(const struct ah_machine *machine, const struct ah_job *job, size_t g,
                        uint64_t threads)
{
    struct ah_error err = {0};
    char digest[AH_SHA256_HEX_MAX];
    CHECK_OK(ah_program_digest(job, &job->groups[g], digest, &err), err);
    const struct ah_machine_block *block = ah_machine_find_block(machine, digest, threads);
    assert_non_null(block);
    check_metric(&block->forward_us);
    assert_int_equal(block->n_backward, job->groups[g].kind == AH_BLOCK_LAYER  ? AH_ACTIVATIONS_WAYS
                                        : job->groups[g].kind == AH_BLOCK_HEAD ? 0
                                                                               : 1);
    for (size_t i = 0; i < block->n_backward; i++)
        check_metric(&block->backward[i].us);
}

static void check_model(const char *model, enum ah_dtype dtype)
{
    struct test_job job;
    struct ah_error err = {0};
    struct ah_document document = {0}, again = {0};
    struct ah_buffer text = {0};
    test_job_model(&job, model);
    job.document.body.model->vocabulary = 300;
    job.document.body.model->width = 64;
    job.document.body.model->heads = job.document.body.model->kv_heads = 2;
    job.document.body.model->head_dim = 32;
    job.document.body.model->mlp_width = 96;
    test_job_start(&job,
                   (struct ah_plan_training){.batch = 2, .micro_batches = 1, .seq = 80, .dtype = dtype});
    const struct ah_profiler_options options = {.parts = 1u << AH_PROFILER_MATMUL, .job = &job.job};
    CHECK_OK(ah_profiler_run_within(&document, &options, &least, &err), err);
    CHECK_OK(ah_profiler_extend_within(&document, &options, &least, &err), err);
    CHECK_OK(ah_document_print(&document, &text, &err), err);
    CHECK_OK(ah_document_parse(&again, "machine.json", text.data, text.size, AH_DOCUMENT_MACHINE, &err), err);
    const struct ah_machine *machine = again.body.machine;
    for (size_t i = 0; i < machine->n_matmul; i++)
        for (size_t g = 0; g < job.job.n_groups; g++)
            check_group(machine, &job.job, g, machine->matmul[i].threads);
    ah_document_release(&again);
    ah_document_release(&document);
    ah_buffer_release(&text);
    test_job_close(&job);
}

TEST(blocks, of_the_cpu_device)
{
    check_model("tiny", AH_FP32);
    check_model("gpt2-124m", AH_FP32);
    check_model("qwen3-0.6b", AH_BF16);
}
