/* SPDX-License-Identifier: Apache-2.0
 *
 * Every allocation of a trace and of a page fails once: an error, nothing lost, nothing written.
 */
#include "cli/page.h"
#include "cli/trace.h"
#include "schemas/document.h"
#include "tests/support/check.h"
#include "tests/support/fault.h"

static struct ah_document document;

static int write_trace(void *context, struct ah_error *err)
{
    (void)context;
    struct ah_cli cli = {0};
    struct ah_replay replay;
    int rc = ah_replay_run(document.body.plan, NULL, 4, &cli.arena, &replay, err);
    if (!rc)
        rc = ah_trace_write(&cli, "-", document.body.plan, &replay, err);
    if (!rc && cli.out.failed)
        rc = ah_error_memory(err);
    if (rc)
        assert_int_equal(cli.out.size, 0);
    ah_buffer_release(&cli.out);
    ah_arena_release(&cli.arena);
    return rc;
}

static int write_page(void *context, struct ah_error *err)
{
    (void)context;
    struct ah_cli cli = {0};
    int rc = ah_page_write(&cli, "-", document.body.plan, err);
    if (!rc && cli.out.failed)
        rc = ah_error_memory(err);
    if (rc)
        assert_int_equal(cli.out.size, 0);
    ah_buffer_release(&cli.out);
    ah_arena_release(&cli.arena);
    return rc;
}

static void test_timeline__trace(void **state)
{
    (void)state;
    assert_true(fault_sweep(write_trace, NULL, 0) >= 5);
}

static void test_timeline__page(void **state)
{
    (void)state;
    assert_true(fault_sweep(write_page, NULL, 0) >= 5);
}

static int load(void **state)
{
    (void)state;
    struct ah_error err = {0};
    CHECK_OK(ah_document_load(&document, "tests/cli/documents/plan-tiny.json", AH_DOCUMENT_PLAN, &err), err);
    return 0;
}

static int release(void **state)
{
    (void)state;
    ah_document_release(&document);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timeline__trace),
        cmocka_unit_test(test_timeline__page),
    };
    return cmocka_run_group_tests(tests, load, release);
}
