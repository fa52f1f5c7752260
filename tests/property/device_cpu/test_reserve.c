/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that plans count exactly the memory that the device takes outside the arena. Models, trainings and threads are
 * random, and all ops of their programs are prepared.
 */
#include "runtime/device/device.h"
#include "runtime/schedule/program.h"
#include "runtime/schedule/reserve.h"
#include "tests/property/schedule/jobs.h"

#include <inttypes.h>

static struct ah_program program;

static uint64_t from(uint64_t *random, uint64_t least, uint64_t most)
{
    return least + check_random(random) % (most - least + 1);
}

/* Switches to another model family with odd sizes. */
static void change_sizes(struct ah_model *model, uint64_t *random)
{
    model->kv_heads = from(random, 1, 4);
    model->heads = model->kv_heads * from(random, 1, 3);
    model->head_dim = 8 * from(random, 1, 16);
    model->width =
        model->position == AH_POSITION_ROPE ? 8 * from(random, 1, 128) : model->heads * model->head_dim;
    model->mlp_width = 8 * from(random, 1, 400);
    model->vocabulary = from(random, 16, 4000);
}

static void prepare_group(struct ah_device *device, const struct ah_job *job,
                          const struct ah_job_group *group)
{
    struct ah_error err = {0};
    for (int pass = AH_PASS_FORWARD; pass <= AH_PASS_BACKWARD; pass++)
        for (int way = 0; way < AH_ACTIVATIONS_WAYS; way++) {
            CHECK_OK(
                ah_program_build(job, group, (enum ah_pass)pass, (enum ah_activations)way, &program, &err),
                err);
            for (size_t i = 0; i < program.n_ops; i++) {
                struct ah_op op = program.ops[i].op;
                ah_program_drop_documents(&op, job->training.seq);
                CHECK_OK(ah_device_prepare(device, &op, 1, &err), err);
            }
        }
}

static uint64_t taken_bytes(const struct ah_job *job, unsigned threads)
{
    struct ah_device *device;
    struct ah_error err = {0};
    const struct ah_device_options options = {.compute_threads = threads, .host_threads = 1};
    CHECK_OK(ah_device_open(&device, ah_device_cpu(), &options, &err), err);
    for (size_t g = 0; g < job->n_groups; g++)
        prepare_group(device, job, &job->groups[g]);
    const uint64_t bytes = device->reserve_bytes;
    ah_device_close(device);
    return bytes;
}

TEST(reserve, is_never_less_than_the_device_takes)
{
    static const char *const families[] = {"gpt2-124m", "llama-2-7b", "mistral-7b", "qwen2.5-0.5b",
                                           "qwen3-0.6b"};
    uint64_t random = check_seed(11);
    for (uint64_t i = 0; i < check_scaled(60); i++) {
        struct test_job j;
        struct ah_error err = {0};
        uint64_t bytes = 0;
        const unsigned threads = (unsigned)from(&random, 1, 6);
        test_job_model(&j, families[i % (sizeof families / sizeof *families)]);
        change_sizes(j.document.body.model, &random);
        test_job_start(&j, (struct ah_plan_training){.batch = from(&random, 1, 8),
                                                     .micro_batches = 1,
                                                     .seq = from(&random, 1, 512),
                                                     .dtype = (enum ah_dtype)(check_random(&random) % 2)});
        CHECK_OK(ah_reserve_find(&j.job, AH_DEVICE_CPU, threads, &bytes, &err), err);
        const uint64_t taken = taken_bytes(&j.job, threads);
        if (taken > bytes || bytes > 4 * taken)
            fail_msg("case %" PRIu64 ": %u threads take %" PRIu64 " bytes; reckoned with %" PRIu64, i,
                     threads, taken, bytes);
        test_job_close(&j);
    }
}

TEST(reserve, of_a_gpu_is_what_was_measured)
{
    struct test_job j;
    struct ah_error err = {0};
    uint64_t bytes = 1;
    test_job_open(&j, "tiny", (struct ah_plan_training){.batch = 1, .micro_batches = 1, .seq = 64});
    CHECK_OK(ah_reserve_find(&j.job, AH_DEVICE_CUDA, 0, &bytes, &err), err);
    assert_int_equal(bytes, 0);
    test_job_close(&j);
}
