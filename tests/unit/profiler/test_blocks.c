/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests measuring blocks on a device of known speed (fake_device.h): products run at its rate, every other op takes
 * 1 us. The expected time of a pass is the sum over its program.
 */
#include "runtime/schedule/program.h"
#include "tests/unit/profiler/profile_case.h"

#include <math.h>

static void open_case(struct profile_case *c, const char *model, struct ah_plan_training training)
{
    profile_case_open(c, model, training,
                      &(struct fake_rates){.matmul_flops_per_s = {[AH_FP32] = 2e11, [AH_BF16] = 5e11}});
}

static double expected_us(const struct profile_case *c, const struct ah_job_group *group, enum ah_pass pass,
                          enum ah_activations way, uint64_t threads)
{
    struct ah_program program;
    struct ah_error err = {0};
    double us = 0;
    CHECK_OK(ah_program_build(&c->job.job, group, pass, way, &program, &err), err);
    for (size_t i = 0; i < program.n_ops; i++) {
        const struct ah_op *op = &program.ops[i].op;
        const struct ah_op_matmul *product = &op->u.matmul;
        double rate = c->rates.matmul_flops_per_s[op->arg[0].dtype] * (double)threads;
        double flops = 2.0 * (double)product->m * (double)product->n * (double)product->k;
        us += (double)program.ops[i].times * (op->kind == AH_OP_MATMUL ? 1e6 * flops / rate : 1);
    }
    return us;
}

static void check_block(const struct profile_case *c, size_t g, uint64_t threads)
{
    const struct ah_job_group *group = &c->job.job.groups[g];
    const struct ah_machine *machine = c->document.body.machine;
    struct ah_error err = {0};
    char digest[AH_SHA256_HEX_MAX];
    CHECK_OK(ah_program_digest(&c->job.job, group, digest, &err), err);
    const struct ah_machine_block *block = ah_machine_find_block(machine, digest, threads);
    assert_non_null(block);
    assert_string_equal(block->group, group->name);
    assert_int_equal(block->dtype, c->job.job.training.dtype);
    assert_int_equal(block->sequences, 2);
    assert_int_equal(block->seq, 64);
    assert_true(block->forward_us.n >= 3);
    check_near(block->forward_us.median /
                   expected_us(c, group, AH_PASS_FORWARD, AH_ACTIVATIONS_KEEP, threads),
               1, 0.001);
    size_t ways = group->kind == AH_BLOCK_HEAD ? 0 : group->kind == AH_BLOCK_LAYER ? 3 : 1;
    assert_int_equal(block->n_backward, ways);
    for (size_t i = 0; i < ways; i++) {
        enum ah_activations way = block->backward[i].activations;
        assert_int_equal(way, i);
        check_near(block->backward[i].us.median / expected_us(c, group, AH_PASS_BACKWARD, way, threads), 1,
                   0.001);
    }
}

static const struct ah_plan_training usual = {.batch = 4, .micro_batches = 2, .seq = 64, .dtype = AH_FP32};

TEST(blocks, have_the_known_speed)
{
    static const char *const models[] = {"tiny", "gpt2-124m"};
    for (size_t i = 0; i < 2; i++)
        for (int dtype = 0; dtype < 2; dtype++) {
            struct profile_case c;
            struct ah_plan_training training = usual;
            training.dtype = (enum ah_dtype)dtype;
            open_case(&c, models[i], training);
            CHECK_OK(profile_case_extend(&c), c.err);
            const struct ah_machine *machine = c.document.body.machine;
            uint64_t all = machine->host.threads;
            assert_int_equal(machine->n_blocks, (all > 1 ? 2 : 1) * c.job.job.n_groups);
            for (size_t g = 0; g < c.job.job.n_groups; g++) {
                check_block(&c, g, 1);
                check_block(&c, g, all);
            }
            profile_case_close(&c);
        }
}

/* Printing and reading keeps blocks. A second measurement replaces a model's blocks; another model adds blocks. */
TEST(blocks, are_added_and_replaced)
{
    struct profile_case c;
    struct ah_buffer text = {0};
    struct ah_document again = {0};
    open_case(&c, "tiny", usual);
    CHECK_OK(profile_case_extend(&c), c.err);
    struct ah_machine *machine = c.document.body.machine;
    size_t n = machine->n_blocks;
    double before_us = machine->blocks[1].forward_us.median;
    c.rates.matmul_flops_per_s[AH_FP32] /= 2;
    CHECK_OK(profile_case_extend(&c), c.err);
    assert_int_equal(machine->n_blocks, n);
    assert_true(machine->blocks[1].forward_us.median > 1.5 * before_us);
    struct test_job other;
    test_job_open(&other, "gpt2-124m", usual);
    c.options.job = &other.job;
    CHECK_OK(profile_case_extend(&c), c.err);
    assert_int_equal(machine->n_blocks, 2 * n);
    CHECK_OK(ah_document_print(&c.document, &text, &c.err), c.err);
    CHECK_OK(ah_document_parse(&again, "machine.json", text.data, text.size, AH_DOCUMENT_MACHINE, &c.err),
             c.err);
    assert_int_equal(again.body.machine->n_blocks, 2 * n);
    ah_document_release(&again);
    ah_buffer_release(&text);
    test_job_close(&other);
    profile_case_close(&c);
}

/* A full document drops its oldest blocks. */
TEST(blocks, oldest_make_room)
{
    static struct ah_machine_block many[AH_MACHINE_BLOCKS_MAX];
    struct profile_case c;
    open_case(&c, "tiny", usual);
    struct ah_machine *machine = c.document.body.machine;
    for (size_t i = 0; i < AH_MACHINE_BLOCKS_MAX; i++)
        many[i] = (struct ah_machine_block){.group = "old", .program_sha256 = "none", .seq = i};
    machine->blocks = many;
    machine->n_blocks = AH_MACHINE_BLOCKS_MAX;
    CHECK_OK(profile_case_extend(&c), c.err);
    assert_int_equal(machine->n_blocks, AH_MACHINE_BLOCKS_MAX);
    size_t old = 0;
    while (!strcmp(machine->blocks[old].group, "old"))
        old++;
    assert_true(old < AH_MACHINE_BLOCKS_MAX && machine->blocks[0].seq == AH_MACHINE_BLOCKS_MAX - old);
    check_block(&c, 1, 1);
    profile_case_close(&c);
}

/* Frozen blocks have no backward pass, unless a trained block is below them. */
TEST(blocks, of_a_model_that_is_trained_in_part)
{
    static const char *patterns[] = {"layer.2.*", "head.*"};
    struct profile_case c;
    struct ah_plan_training training = usual;
    training.trainable = patterns;
    training.n_trainable = 2;
    open_case(&c, "tiny", training);
    CHECK_OK(profile_case_extend(&c), c.err);
    const struct ah_machine *machine = c.document.body.machine;
    for (size_t i = 0; i < machine->n_blocks; i++) {
        const char *group = machine->blocks[i].group;
        bool none = strstr(group, ".forward") || !strcmp(group, "head");
        assert_int_equal(machine->blocks[i].n_backward, none ? 0 : 3);
    }
    profile_case_close(&c);
}

TEST(blocks, belong_to_this_machine)
{
    struct profile_case c;
    open_case(&c, "tiny", usual);
    struct ah_machine *machine = c.document.body.machine;
    const struct ah_machine right = *machine;
    machine->host.cpu_model = "another";
    CHECK_FAILS(profile_case_extend(&c), c.err, AH_E_MISMATCH, "its processor differs");
    *machine = right;
    machine->device.name = "another";
    CHECK_FAILS(profile_case_extend(&c), c.err, AH_E_MISMATCH, "its device differs");
    *machine = right;
    machine->host.threads++;
    CHECK_FAILS(profile_case_extend(&c), c.err, AH_E_MISMATCH, "number of threads");
    *machine = right;
    machine->origin = AH_MACHINE_SYNTHETIC;
    CHECK_FAILS(profile_case_extend(&c), c.err, AH_E_MISMATCH, "not measured");
    *machine = right;
    assert_int_equal(machine->n_blocks, 0);
    profile_case_close(&c);
}

TEST(blocks, must_fit)
{
    struct profile_case c;
    struct ah_plan_training training = usual;
    training.batch = 1 << 16;
    training.seq = 512;
    open_case(&c, "tiny", training);
    CHECK_FAILS(profile_case_extend(&c), c.err, AH_E_CAPACITY, "blocks of 'tiny': one of each kind needs");
    assert_int_equal(c.document.body.machine->n_blocks, 0);
    profile_case_close(&c);
}

TEST(blocks, a_fault_leaves_the_document)
{
    struct profile_case c;
    open_case(&c, "tiny", usual);
    CHECK_OK(profile_case_extend(&c), c.err);
    const struct ah_machine before = *c.document.body.machine;
    for (int submit = 1; submit < 3000; submit = submit * 3 + 1) {
        c.rates.fail_submit = submit;
        c.options.driver = fake_device_driver(&c.rates);
        CHECK_FAILS(profile_case_extend(&c), c.err, AH_E_FAILED, "refuses an op");
        assert_memory_equal(c.document.body.machine, &before, sizeof before);
    }
    atomic_int cancel = 1;
    c.rates.fail_submit = 0;
    c.options.cancel = &cancel;
    CHECK_FAILS(profile_case_extend(&c), c.err, AH_E_INTERRUPTED, "interrupted");
    assert_memory_equal(c.document.body.machine, &before, sizeof before);
    profile_case_close(&c);
}
