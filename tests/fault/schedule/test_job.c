/* SPDX-License-Identifier: Apache-2.0
 *
 * Fails each allocation of a job once: expects an error, no leak, and an untouched result.
 */
#include "tests/property/schedule/jobs.h"
#include "tests/support/fault.h"

static int init(void *context, struct ah_error *err)
{
    static const char *patterns[] = {"*", "!layer.2.mlp.*", "!embedding.*"};
    const struct ah_plan_training training = {
        .batch = 2, .micro_batches = 1, .seq = 64, .trainable = patterns, .n_trainable = 3};
    struct test_job *j = context;
    struct ah_arena arena = {0};
    struct ah_job job = {0};
    int rc = ah_job_init(&job, j->document.body.model, &training, &arena, err);
    if (rc)
        assert_null(job.groups);
    else
        assert_int_equal(job.n_groups, 5);
    ah_arena_release(&arena);
    return rc;
}

TEST(job, survives_every_failing_allocation)
{
    struct test_job j;
    test_job_model(&j, "tiny");
    assert_true(fault_sweep(init, &j, 0) >= 2);
    test_job_close(&j);
}
