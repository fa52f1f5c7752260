/* SPDX-License-Identifier: Apache-2.0
 *
 * Fails each allocation once in making a trace, a run's trace and a page: expects an error, no leak, nothing written.
 */
#include "cli/page/page.h"
#include "cli/trace/trace.h"
#include "runtime/run/run_timeline.h"
#include "tests/support/fault.h"
#include "tests/support/tiny_plan.h"

static int finish(struct ah_cli *cli, int rc, struct ah_error *err)
{
    if (!rc && cli->out.failed)
        rc = ah_error_memory(err);
    if (rc)
        assert_int_equal(cli->out.size, 0);
    ah_buffer_release(&cli->out);
    ah_arena_release(&cli->arena);
    return rc;
}

static int write_trace(void *context, struct ah_error *err)
{
    (void)context;
    struct ah_cli cli = {0};
    struct ah_replay replay;
    int rc = ah_replay_run(tiny_plan(), 4, &cli.arena, &replay, err);
    if (!rc)
        rc = ah_trace_write(&cli, "-", tiny_plan(), &replay, err);
    return finish(&cli, rc, err);
}

static void tell_step(struct ah_run_timeline *timeline)
{
    const struct ah_plan *plan = tiny_plan();
    for (size_t op = 0; op < plan->n_ops; op++)
        ah_run_timeline_op(timeline, &(struct ah_op_record){.step = 1,
                                                            .lane = (uint32_t)plan->ops[op].lane,
                                                            .op = op,
                                                            .start_ns = 1000 * (op + 1),
                                                            .end_ns = 1000 * (op + 2)});
}

static int write_run_trace(void *context, struct ah_error *err)
{
    (void)context;
    struct ah_cli cli = {0};
    struct ah_run_timeline *timeline = NULL;
    int rc =
        ah_run_timeline_new(&timeline, tiny_plan(), &(struct ah_run_timeline_options){.first_step = 1}, err);
    if (!rc) {
        tell_step(timeline);
        rc = ah_trace_write_run(&cli, "-", tiny_plan(), timeline, err);
    }
    ah_run_timeline_free(timeline);
    return finish(&cli, rc, err);
}

static int write_page(void *context, struct ah_error *err)
{
    struct ah_cli cli = {0};
    int rc = ah_page_write(&cli, "-", context, NULL, err);
    return finish(&cli, rc, err);
}

TEST_IN(timeline, trace, tiny_plan_load, tiny_plan_release)
{
    assert_true(fault_sweep(write_trace, NULL, 0) >= 5);
}

TEST_IN(timeline, trace_of_a_run, tiny_plan_load, tiny_plan_release)
{
    assert_true(fault_sweep(write_run_trace, NULL, 0) >= 5);
}

TEST_IN(timeline, a_run_is_heard_without_memory, tiny_plan_load, tiny_plan_release)
{
    struct ah_run_timeline *timeline;
    struct ah_error err = {0};
    CHECK_OK(ah_run_timeline_new(&timeline, tiny_plan(), &(struct ah_run_timeline_options){0}, &err), err);
    fault_count();
    tell_step(timeline);
    assert_int_equal(fault_count(), 0);
    ah_run_timeline_free(timeline);
}

TEST_IN(timeline, page, tiny_plan_load, tiny_plan_release)
{
    assert_true(fault_sweep(write_page, &tiny_document, 0) >= 5);
}

TEST_IN(timeline, page_of_a_cluster, tiny_plan_load, tiny_plan_release)
{
    struct ah_document cluster;
    load_document(&cluster, "tests/golden/schemas/documents/cluster-plan.json", AH_DOCUMENT_CLUSTER_PLAN);
    assert_true(fault_sweep(write_page, &cluster, 0) >= 3);
    ah_document_release(&cluster);
}
