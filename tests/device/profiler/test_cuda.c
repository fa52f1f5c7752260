/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests a whole profile through the CUDA plugin, on the double of CUDA. Every part has numbers, algorithms are chosen
 * for the model's products, and readers accept the document. The numbers themselves are not checked.
 */
#include "profiler/measure_internal.h"
#include "runtime/device/device_plugin.h"
#include "runtime/schedule/products.h"

#include "tests/property/schedule/jobs.h"

#define MIB (UINT64_C(1) << 20)

static const struct ah_measure_limits least = {
    .part_s = {[AH_PROFILER_MATMUL] = 0.1,
               [AH_PROFILER_MEMORY] = 0.05,
               [AH_PROFILER_LINKS] = 0.1,
               [AH_PROFILER_ADAM] = 0.1,
               [AH_PROFILER_BESIDE] = 0.1,
               [AH_PROFILER_LAUNCHES] = 0.05,
               [AH_PROFILER_BLOCKS] = 0.1},
    .samples_min = 2,
    .samples_max = 2,
    .blocks = 1,
    .block_s = 0.0005,
    .warm_s = 0.001,
    .shapes = {{16, 32, 32}},
    .n_shapes = 1,
    .product_s = 0.01,
    .thread_counts = 1,
    .memory_bytes = MIB,
    .link_bytes = MIB / 2,
    .link_factor = 2,
    .adam_params = MIB / 16,
    .adam_kinds = 2,
    .block_layers = 3,
    .block_rounds = 1,
};

static const struct ah_device_driver *driver;

static int load(void **state)
{
    struct ah_error err = {0};
    (void)state;
    CHECK_OK(ah_plugin_load("cuda", &driver, &err), err);
    return 0;
}

static void small_job(struct test_job *job)
{
    test_job_model(job, "tiny");
    struct ah_model *model = job->document.body.model;
    model->vocabulary = 96;
    model->width = 64;
    model->heads = model->kv_heads = 1;
    model->head_dim = 64;
    model->mlp_width = 96;
    test_job_start(job,
                   (struct ah_plan_training){.batch = 1, .micro_batches = 1, .seq = 32, .dtype = AH_BF16});
}

static void check_parts(const struct ah_machine *machine)
{
    assert_int_equal(machine->device.kind, AH_DEVICE_CUDA);
    assert_int_equal(machine->n_matmul, 6);
    assert_int_equal(machine->matmul[0].threads, 0);
    assert_int_equal(machine->n_links, 2);
    assert_true(ah_machine_link_bytes_per_s(machine, AH_H2D) > 0 &&
                ah_machine_link_bytes_per_s(machine, AH_D2H) > 0);
    assert_true(ah_machine_adam_params_per_s(machine, AH_HOST, AH_BF16) > 0);
    assert_true(ah_machine_adam_params_per_s(machine, AH_DEVICE, AH_BF16) > 0);
    assert_int_equal(machine->n_beside, 12);
    assert_true(machine->launch_us && machine->launch_us->n > 0 && machine->launch_us->median > 0);
    assert_true(machine->device.reserve_bytes > 32 * MIB);
}

/* Checks that every product of the job has an algorithm of the library. */
static void check_algorithms(const struct ah_machine *machine, struct test_job *job)
{
    struct ah_algorithm *products = NULL;
    struct ah_error err = {0};
    size_t n = 0;
    assert_non_null(machine->algorithms);
    check_text_has(machine->algorithms->library, "cuBLASLt 13.");
    CHECK_OK(ah_products_list(&job->job, &job->arena, &products, &n, &err), err);
    assert_true(n > 8);
    for (size_t i = 0; i < n; i++) {
        const struct ah_algorithm *entry = ah_algorithms_find(machine->algorithms, &products[i]);
        assert_non_null(entry);
        assert_true(entry->us->n > 0 && entry->us->median <= entry->first_us->median);
    }
}

TEST_IN(cuda, is_profiled, load, NULL)
{
    struct test_job job;
    struct ah_error err = {0};
    struct ah_document document = {0}, again = {0};
    struct ah_buffer text = {0};
    small_job(&job);
    const struct ah_profiler_options options = {
        .driver = driver, .parts = (1u << AH_PROFILER_DISK) - 1, .job = &job.job};
    CHECK_OK(ah_profiler_run_within(&document, &options, &least, &err), err);
    CHECK_OK(ah_profiler_extend_within(&document, &options, &least, &err), err);
    CHECK_OK(ah_document_print(&document, &text, &err), err);
    CHECK_OK(ah_document_parse(&again, "machine.json", text.data, text.size, AH_DOCUMENT_MACHINE, &err), err);
    check_parts(again.body.machine);
    check_algorithms(again.body.machine, &job);
    assert_int_equal(again.body.machine->n_blocks, job.job.n_groups);
    ah_document_release(&again);
    ah_document_release(&document);
    ah_buffer_release(&text);
    test_job_close(&job);
}
