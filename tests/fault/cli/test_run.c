/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens new runs and runs from a checkpoint, while each allocation fails in turn. The checkpoint must not change.
 */
#include "cli/frame/interrupt.h"
#include "cli/run/run_terminal.h"
#include "cli/verbs.h"
#include "runtime/run/run.h"
#include "tests/support/documents.h"
#include "tests/support/fault.h"
#include "tests/support/root.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS_MAX = 24, TEXT_BYTES = 2000 };

static const struct ah_verb *const verbs[] = {&ah_verb_plan, &ah_verb_run, NULL};

/* A folder with a plan, data, and a checkpoint of two steps. */
struct folder {
    char plan[PATH_MAX], text[PATH_MAX], saved[PATH_MAX], weights[PATH_MAX], out[PATH_MAX], model[PATH_MAX];
    struct ah_document document;
};

/* Runs a command line, discards what it prints, and returns its exit status. */
static int command(const char *const *words)
{
    char *argv[WORDS_MAX] = {0};
    int argc = 0, kept[2] = {dup(STDOUT_FILENO), dup(STDERR_FILENO)};
    int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_true(kept[0] >= 0 && kept[1] >= 0 && nothing >= 0);
    for (; words[argc]; argc++)
        argv[argc] = (char *)(uintptr_t)words[argc];
    fflush(stdout);
    dup2(nothing, STDOUT_FILENO);
    dup2(nothing, STDERR_FILENO);
    int status = ah_cli_main(verbs, argc, argv);
    dup2(kept[0], STDOUT_FILENO);
    dup2(kept[1], STDERR_FILENO);
    close(kept[0]);
    close(kept[1]);
    close(nothing);
    return status;
}

/* Writes the test model with one layer, to keep the plan and the manifest small. */
static void make_model(const char *path)
{
    char line[2 * PATH_MAX];
    snprintf(line, sizeof line,
             "sed 's/\"layers\": 3/\"layers\": 1/' tests/cli/documents/model-least.json >'%s'", path);
    assert_int_equal(system(line), 0);
}

static void make(struct folder *f, const char *root)
{
    char text[TEXT_BYTES + 1] = {0};
    for (size_t i = 0; i < TEXT_BYTES; i++)
        text[i] = (char)('a' + i * i % 23);
    root_put(root, "text.txt", text);
    snprintf(f->plan, sizeof f->plan, "%s/plan.json", root);
    snprintf(f->text, sizeof f->text, "%s/text.txt", root);
    snprintf(f->saved, sizeof f->saved, "%s/saved", root);
    snprintf(f->weights, sizeof f->weights, "%s/saved/step-00000002", root);
    snprintf(f->out, sizeof f->out, "%s/out", root);
    snprintf(f->model, sizeof f->model, "%s/model.json", root);
    make_model(f->model);
    const char *plan[] = {"autohete",
                          "plan",
                          f->model,
                          "--machine=tests/cli/documents/machine-cpu.json",
                          "--batch=2",
                          "--seq=16",
                          "--effort=quick",
                          "--policy=stream",
                          "-o",
                          f->plan,
                          NULL};
    const char *run[] = {"autohete", "run",    f->plan, "--data", f->text, "--steps=2", "--schedule=constant",
                         "--save",   f->saved, NULL};
    assert_int_equal(command(plan), 0);
    assert_int_equal(command(run), 0);
    load_document(&f->document, f->plan, AH_DOCUMENT_PLAN);
}

static void release(struct folder *f)
{
    ah_document_release(&f->document);
}

static int open_and_close(const struct folder *f, const struct ah_run_options *options, struct ah_error *err)
{
    static struct ah_run run; /* static, because its paths make it large */
    struct ah_cli cli = {.out_style = {"", "", "", "", "", ""}, .err_style = {"", "", "", "", "", ""}};
    struct ah_run_terminal terminal;
    ah_run_terminal_init(&terminal, &cli);
    terminal.host.stop = ah_interrupt_catch();
    int rc = ah_run_open(&run, &terminal.host, f->document.body.plan, options, err);
    ah_run_close(&run);
    ah_arena_release(&cli.arena);
    return rc;
}

static int open_from_the_start(void *context, struct ah_error *err)
{
    struct folder *f = context;
    const char *paths[] = {f->text};
    const struct ah_run_options options = {.data = {.items = paths, .n = 1},
                                           .valid = {.items = paths, .n = 1},
                                           .data_format = "bytes",
                                           .weights = f->weights,
                                           .save = f->out};
    return open_and_close(f, &options, err);
}

static int open_from_a_checkpoint(void *context, struct ah_error *err)
{
    struct folder *f = context;
    const char *paths[] = {f->text};
    const struct ah_run_options options = {.data = {.items = paths, .n = 1},
                                           .data_format = "bytes",
                                           .steps = {.given = true, .value = 3},
                                           .save = f->saved,
                                           .resume = f->saved};
    return open_and_close(f, &options, err);
}

static void sweep(void **state, int (*run)(void *, struct ah_error *), size_t least)
{
    static struct folder f;
    struct ah_error err = {0};
    make(&f, *state);
    size_t n = fault_sweep(run, &f, 0);
    if (n < least)
        fail_msg("only %zu allocations", n);
    CHECK_OK(open_from_a_checkpoint(&f, &err), err);
    release(&f);
}

TEST_IN(run, opens_from_the_start, root_make, root_remove)
{
    sweep(state, open_from_the_start, 50);
}

TEST_IN(run, opens_from_a_checkpoint, root_make, root_remove)
{
    sweep(state, open_from_a_checkpoint, 50);
}
