/* SPDX-License-Identifier: Apache-2.0
 *
 * Fails each allocation once in printing plans, plan differences and diagnoses, and in checking a plan.
 */
#include "cli/compare/diff_plan.h"
#include "cli/inspect/inspect.h"
#include "cli/plan/diagnosis.h"
#include "cli/verbs.h"
#include "runtime/schedule/check.h"
#include "tests/support/fault.h"
#include "tests/support/tiny_plan.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static struct ah_cli plain_cli(void)
{
    static const char *const words[] = {"plan", NULL};
    return (struct ah_cli){.words = words,
                           .out_style = {"", "", "", "", "", ""},
                           .err_style = {"", "", "", "", "", ""},
                           .columns = 80};
}

static int finish(struct ah_cli *cli, struct ah_error *err)
{
    int rc = cli->out.failed ? ah_error_memory(err) : AH_OK;
    ah_buffer_release(&cli->out);
    ah_arena_release(&cli->arena);
    return rc;
}

static int print_text(void *context, struct ah_error *err)
{
    struct ah_cli cli = plain_cli();
    ah_inspect_plan_text(&cli, context);
    return finish(&cli, err);
}

static int print_json(void *context, struct ah_error *err)
{
    struct ah_cli cli = plain_cli();
    struct ah_emit emit = {.out = &cli.out};
    ah_emit_open(&emit, NULL, '{');
    ah_inspect_plan_json(&emit, context);
    ah_emit_close(&emit);
    return finish(&cli, err);
}

/* Prints the difference between a plan and a copy of it with two blocks changed. */
static int print_difference(void *context, struct ah_error *err)
{
    const struct ah_document *document = context;
    struct ah_plan_block blocks[8];
    struct ah_plan other = *document->body.plan;
    struct ah_cli cli = plain_cli();
    struct ah_emit emit = {.out = &cli.out};
    assert_int_equal(other.n_blocks, 8);
    memcpy(blocks, other.blocks, sizeof blocks);
    other.blocks = blocks;
    blocks[2].activations = AH_ACTIVATIONS_KEEP;
    blocks[3].weights = AH_WEIGHTS_HOST;
    ah_diff_plan_text(&cli, document->body.plan, &other);
    ah_emit_open(&emit, NULL, '{');
    ah_diff_plan_json(&emit, document->body.plan, &other);
    ah_emit_close(&emit);
    return finish(&cli, err);
}

static int check_plan(void *context, struct ah_error *err)
{
    const struct ah_document *document = context;
    return ah_schedule_check(document->body.plan, err);
}

/* Replays a file and prints the result. The test discards standard error, which gets the errors. */
static int simulate(void *context, struct ah_error *err)
{
    char options[256] = {0};
    struct ah_cli cli = plain_cli();
    (void)context;
    cli.arguments = (struct ah_arguments){.operands = (const char *[]){TINY_PLAN}, .n_operands = 1};
    int status = ah_verb_simulate.run(&cli, options);
    int rc = finish(&cli, err);
    return status ? ah_error_memory(err) : rc;
}

static int fail_with_remedies(void *context, struct ah_error *err)
{
    const struct ah_machine machine = {.name = "n"};
    const struct ah_diagnosis diagnosis = {.resource = "device memory",
                                           .needed_bytes = 2,
                                           .available_bytes = 1,
                                           .remedies = {{.kind = AH_REMEDY_BATCH, .value = 1, .step_us = 1}},
                                           .n_remedies = 1};
    const struct ah_error why = {.code = AH_E_INFEASIBLE, .text = "no"};
    struct ah_cli cli = plain_cli();
    (void)context;
    assert_int_equal(ah_diagnosis_fail(&cli, &diagnosis, &machine, &why), 4);
    cli.json = true;
    assert_int_equal(ah_diagnosis_fail(&cli, &diagnosis, &machine, &why), 4);
    return finish(&cli, err);
}

TEST_IN(plans, text, tiny_plan_load, tiny_plan_release)
{
    assert_true(fault_sweep(print_text, &tiny_document, 0) >= 10);
}

TEST_IN(plans, json, tiny_plan_load, tiny_plan_release)
{
    assert_true(fault_sweep(print_json, &tiny_document, 0) >= 3);
}

TEST_IN(plans, difference, tiny_plan_load, tiny_plan_release)
{
    assert_true(fault_sweep(print_difference, &tiny_document, 0) >= 5);
}

TEST_IN(plans, check, tiny_plan_load, tiny_plan_release)
{
    assert_true(fault_sweep(check_plan, &tiny_document, 0) >= 10);
}

/* Fails allocations with standard error discarded, because the test does not check what verbs print there. */
static void quietly(int (*run)(void *, struct ah_error *), int may_succeed, size_t least)
{
    int kept = dup(STDERR_FILENO);
    int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_true(kept >= 0 && nothing >= 0);
    dup2(nothing, STDERR_FILENO);
    size_t n = fault_sweep(run, NULL, may_succeed);
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(nothing);
    assert_true(n >= least);
}

TEST_IN(plans, simulation, tiny_plan_load, tiny_plan_release)
{
    quietly(simulate, 0, 20);
}

TEST_IN(plans, diagnosis, tiny_plan_load, tiny_plan_release)
{
    quietly(fail_with_remedies, 1, 3);
}
