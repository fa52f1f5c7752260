/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete check FILE...: checks whether documents are valid, and whether the given assertions are true for them.
 *
 * Every file is checked. The exit status is that of the most fundamental trouble: an invalid document (3) counts more
 * than a failed assertion (8).
 */
#include "cli/frame/emit.h"
#include "cli/frame/input.h"
#include "cli/inspect/inspect.h"
#include "cli/inspect/plan_summary.h"
#include "cli/plan/outdated.h"
#include "cli/plan/proof.h"
#include "cli/verbs.h"
#include "planner/cluster/cluster_verify.h"
#include "planner/cluster/sim/cluster_replay.h"
#include "planner/gpus.h"
#include "planner/verify.h"
#include "runtime/schedule/check.h"
#include "schemas/assertion.h"
#include "schemas/cluster_plan.h"
#include "schemas/document.h"

struct check_options {
    struct ah_option_list assertions;
    const char *model, *machine, *cluster;
};

static const struct ah_option check_table[] = {
    {"assert", 0, AH_OPTION_TEXTS, "'PATH OP VALUE'", NULL, offsetof(struct check_options, assertions),
     "fail (exit 8) unless this holds in every file"},
    {"model", 0, AH_OPTION_FILE, "FILE", NULL, offsetof(struct check_options, model),
     "the model that plans were made for; with --machine or --cluster"},
    {"machine", 0, AH_OPTION_FILE, "FILE", NULL, offsetof(struct check_options, machine),
     "the machine that plans were made for; with --model"},
    {"cluster", 0, AH_OPTION_FILE, "FILE", NULL, offsetof(struct check_options, cluster),
     "the cluster that cluster plans were made for; with --model"},
    {NULL, 0, AH_OPTION_FLAG, NULL, NULL, 0, NULL}};

/* A document from which plans were made. */
struct check_input {
    struct ah_document document;
    char sha256[AH_DOCUMENT_DIGEST_MAX];
    bool given, adapted; /* adapted: a model that has the adapters of the plan that is checked */
};

struct check_inputs {
    struct check_input model, machine, cluster;
};

struct check {
    struct ah_cli *cli;
    const struct ah_assertion *assertions;
    size_t n_assertions;
    struct check_inputs inputs;
    struct ah_emit emit;
    int status; /* lowest exit status so far, except for 0 */
};

static void check_failed(struct check *check, const struct ah_error *err)
{
    int status = ah_cli_fail(check->cli, err);
    if (!check->status || status < check->status)
        check->status = status;
}

static void emit_actual(struct ah_emit *emit, const struct ah_value *actual)
{
    if (actual->kind == AH_VALUE_NUMBER)
        ah_emit_number(emit, "actual", actual->number);
    else if (actual->kind == AH_VALUE_BOOL)
        ah_emit_bool(emit, "actual", actual->number != 0);
    else
        ah_emit_text(emit, "actual", actual->kind == AH_VALUE_TEXT ? actual->text : NULL);
}

/* True if all assertions hold. */
static bool check_assertions(struct check *check, const char *name, const struct ah_document *document)
{
    bool hold = true;
    ah_emit_open(&check->emit, "assertions", '[');
    for (size_t i = 0; i < check->n_assertions; i++) {
        struct ah_error err = {0};
        struct ah_value actual = {.kind = AH_VALUE_ABSENT};
        if (ah_assertion_check(&check->assertions[i], document, &actual, &err)) {
            ah_error_prefix(&err, err.code, "%s", name);
            check_failed(check, &err);
            hold = false;
        }
        ah_emit_open(&check->emit, NULL, '{');
        ah_emit_text(&check->emit, "assertion", check->assertions[i].text);
        ah_emit_bool(&check->emit, "holds", err.code == AH_OK);
        emit_actual(&check->emit, &actual);
        ah_emit_close(&check->emit);
    }
    ah_emit_close(&check->emit);
    return hold;
}

/* Lists the parts of the document that were not checked (docs/planning.md, "What check proves"). */
static void list_unverified(struct check *check, const struct ah_document *document)
{
    static const char *const plan[] = {"solver.evaluations", "alternatives", "names of inputs", NULL};
    static const char *const plan_more[] = {"times of the machine (--model, --machine)", "solver.bound_us",
                                            "budgets", NULL};
    static const char *const cluster[] = {"solver", "names of inputs", NULL};
    static const char *const cluster_more[] = {"what is not in programs (--model, --cluster)", NULL};
    const bool one = document->kind == AH_DOCUMENT_PLAN || document->body.cluster_plan->sharding;
    const bool given = one ? check->inputs.machine.given : check->inputs.cluster.given;
    const char *const *lists[] = {given ? NULL : one ? plan_more : cluster_more, one ? plan : cluster};
    const char *between = "  not verified: ";
    size_t mark = check->cli->out.size;
    ah_emit_open(&check->emit, "not_verified", '[');
    for (size_t i = 0; i < 2; i++) {
        for (const char *const *part = lists[i]; part && *part; part++) {
            ah_emit_text(&check->emit, NULL, *part);
            if (!check->cli->json)
                ah_buffer_printf(&check->cli->out, "%s%s", between, *part);
            between = ", ";
        }
    }
    ah_emit_close(&check->emit);
    if (check->cli->json)
        return;
    ah_buffer_puts(&check->cli->out, "\n");
    ah_cli_fit(check->cli, mark, 4);
}

static void check_valid(struct check *check, const char *name, const struct ah_document *document)
{
    ah_emit_text(&check->emit, "kind", ah_document_word(document->kind));
    ah_emit_open(&check->emit, "warnings", '[');
    for (size_t i = 0; i < document->n_warnings; i++) {
        ah_emit_text(&check->emit, NULL, document->warnings[i]);
        ah_cli_tell(check->cli, AH_CLI_WARNING, "%s: %s", name, document->warnings[i]);
    }
    ah_emit_close(&check->emit);
    struct ah_buffer what_if = {0};
    const struct ah_cluster_plan *cluster =
        document->kind == AH_DOCUMENT_CLUSTER_PLAN ? document->body.cluster_plan : NULL;
    const struct ah_plan *plan = document->kind == AH_DOCUMENT_PLAN ? document->body.plan
                                 : cluster && cluster->sharding     ? &cluster->programs[0]
                                                                    : NULL;
    if (plan) {
        ah_plan_put_what_if(&what_if, plan);
        ah_inspect_plan_what_if_json(&check->emit, plan);
    }
    bool hold = check_assertions(check, name, document);
    if (hold && !check->cli->json)
        ah_buffer_printf(&check->cli->out, "%s: ok, a %s document%s%s\n", ah_cli_clean(check->cli, name),
                         ah_document_word(document->kind), what_if.size ? ": " : "",
                         what_if.size ? ah_cli_clean(check->cli, what_if.data) : "");
    ah_buffer_release(&what_if);
    if (hold && (document->kind == AH_DOCUMENT_PLAN || document->kind == AH_DOCUMENT_CLUSTER_PLAN))
        list_unverified(check, document);
}

static struct ah_verify_inputs inputs_of(const struct check_inputs *inputs)
{
    return (struct ah_verify_inputs){.model = inputs->model.document.body.model,
                                     .model_sha256 = inputs->model.sha256,
                                     .machine = inputs->machine.document.body.machine,
                                     .machine_sha256 = inputs->machine.sha256};
}

static int check_cluster_plan(const struct check *check, const char *name, const struct ah_cluster_plan *plan,
                              struct ah_error *err)
{
    const struct check_inputs *inputs = &check->inputs;
    const struct ah_cluster_verify_inputs given = {
        .model = inputs->model.document.body.model,
        .model_sha256 = inputs->model.sha256,
        .cluster = inputs->cluster.document.body.cluster,
        .cluster_sha256 = inputs->cluster.sha256,
    };
    int rc = ah_proof_cluster_plan(plan, err);
    if (!rc && plan->sharding && inputs->machine.given) {
        const struct ah_verify_inputs machine = inputs_of(inputs);
        rc = ah_gpus_verify(plan, &machine, err);
    }
    if (!rc && !plan->sharding && inputs->cluster.given)
        rc = ah_cluster_verify(plan, &given, err);
    return rc ? ah_error_prefix(err, rc, "%s", name) : AH_OK;
}

/* Checks what the parser cannot: that each statement of the plan follows from its other statements and its inputs. */
static int check_plan(const struct check *check, const char *name, const struct ah_plan *plan,
                      struct ah_error *err)
{
    const struct ah_verify_inputs inputs = inputs_of(&check->inputs);
    int rc = ah_proof_plan(plan, err);
    if (!rc && check->inputs.machine.given)
        rc = ah_verify_inputs(plan, &inputs, err);
    return rc ? ah_error_prefix(err, rc, "%s", name) : AH_OK;
}

/* Gives the model that plans were made from the adapters of a plan: '--lora' of 'plan' added them. */
static int adapt_model(struct check *check, struct ah_model_lora *lora, struct ah_error *err)
{
    struct check_input *input = &check->inputs.model;
    if (!input->given || (input->document.body.model->lora && !input->adapted))
        return AH_OK;
    input->adapted = true;
    input->document.body.model->lora = lora;
    return ah_document_digest(&input->document, input->sha256, err);
}

static int check_plans(struct check *check, const char *name, const struct ah_document *document,
                       struct ah_error *err)
{
    if (document->kind == AH_DOCUMENT_PLAN) {
        const struct ah_plan *plan = document->body.plan;
        const int rc = adapt_model(check, plan->model.lora, err);
        return rc ? rc : check_plan(check, name, plan, err);
    }
    if (document->kind != AH_DOCUMENT_CLUSTER_PLAN)
        return AH_OK;
    const struct ah_cluster_plan *plan = document->body.cluster_plan;
    const int rc = adapt_model(check, plan->model ? plan->model->lora : NULL, err);
    return rc ? rc : check_cluster_plan(check, name, plan, err);
}

static void check_file(struct check *check, const char *name)
{
    char shortened[AH_DOCUMENT_NAME_MAX];
    struct ah_document document = {0};
    struct ah_error err = {0};
    int rc = ah_input_load(&document, name, AH_DOCUMENT_ANY, &err);
    if (!rc && ah_outdated_refuse(&document, "check", &err))
        rc = ah_error_prefix(&err, err.code, "%s", ah_document_short_name(name, shortened));
    rc = rc ? rc : check_plans(check, ah_document_short_name(name, shortened), &document, &err);
    ah_emit_open(&check->emit, NULL, '{');
    ah_emit_text(&check->emit, "file", name);
    ah_emit_bool(&check->emit, "valid", rc == AH_OK);
    if (rc) {
        check_failed(check, &err);
        ah_emit_error(&check->emit, "error", &err, ah_error_exit_status(rc));
    } else {
        check_valid(check, ah_document_short_name(name, shortened), &document);
    }
    ah_emit_close(&check->emit);
    ah_document_release(&document);
}

static int read_assertions(struct ah_cli *cli, const struct check_options *options, struct check *check,
                           struct ah_error *err)
{
    struct ah_assertion *assertions =
        ah_arena_array(&cli->arena, options->assertions.n + 1, sizeof *assertions);
    if (!assertions)
        return ah_error_memory(err);
    for (size_t i = 0; i < options->assertions.n; i++) {
        int rc = ah_assertion_parse(&assertions[i], options->assertions.items[i], &cli->arena, err);
        if (rc)
            return rc;
    }
    check->assertions = assertions;
    check->n_assertions = options->assertions.n;
    return AH_OK;
}

static int read_input(const char *file, enum ah_document_kind kind, struct check_input *input,
                      struct ah_error *err)
{
    if (!file)
        return AH_OK;
    input->given = true;
    int rc = ah_input_load(&input->document, file, kind, err);
    return rc ? rc : ah_document_digest(&input->document, input->sha256, err);
}

static int read_inputs(const struct check_options *options, struct check_inputs *inputs, struct ah_error *err)
{
    const bool on_something = options->machine || options->cluster;
    if (!options->model != !on_something)
        return ah_error_set(err, AH_E_USAGE, "'--%s' gives half of what a plan was made from; give %s, too",
                            options->model     ? "model"
                            : options->machine ? "machine"
                                               : "cluster",
                            options->model ? "'--machine' or '--cluster'" : "'--model'");
    int rc = read_input(options->model, AH_DOCUMENT_MODEL, &inputs->model, err);
    if (!rc)
        rc = read_input(options->machine, AH_DOCUMENT_MACHINE, &inputs->machine, err);
    return rc ? rc : read_input(options->cluster, AH_DOCUMENT_CLUSTER, &inputs->cluster, err);
}

static void release_inputs(struct check_inputs *inputs)
{
    ah_document_release(&inputs->model.document);
    ah_document_release(&inputs->machine.document);
    ah_document_release(&inputs->cluster.document);
}

static int check_run(struct ah_cli *cli, const void *options)
{
    struct check check = {.cli = cli};
    struct ah_error err = {0};
    int rc = read_assertions(cli, options, &check, &err);
    if (!rc)
        rc = read_inputs(options, &check.inputs, &err);
    if (rc) {
        release_inputs(&check.inputs);
        return ah_cli_fail(cli, &err);
    }
    check.emit.out = cli->json ? &cli->out : NULL;
    ah_emit_open(&check.emit, NULL, '{');
    ah_emit_open(&check.emit, "files", '[');
    for (size_t i = 0; i < cli->arguments.n_operands; i++)
        check_file(&check, cli->arguments.operands[i]);
    ah_emit_close(&check.emit);
    ah_emit_integer(&check.emit, "exit_status", (uint64_t)check.status);
    ah_emit_close(&check.emit);
    release_inputs(&check.inputs);
    return check.status;
}

const struct ah_verb ah_verb_check = {
    .name = "check",
    .summary = "check that documents are valid and that assertions hold",
    .description =
        "Reads every file as strictly as any other verb would. It prints the kind of each valid file; "
        "everything else, errors, warnings and failed assertions, is a line on standard error with file and "
        "path. A model may also be a Hugging Face config.json, or the folder it lies in.\n\nFor a plan, "
        "everything that follows from the rest of it is recomputed: the ops and tensors of its blocks, "
        "memory, orders, times. With the --model and --machine that it was made from, sizes, times and bound "
        "are recomputed from those. What only planning again could confirm is listed as not verified. For a "
        "cluster plan, every rank's program is checked as such a plan, and all are simulated together; with "
        "--model and --cluster everything but the search itself is recomputed: memory, times, sums, "
        "programs.\n\nAn assertion is a path as diff and errors print it (layers, time.step_us, "
        "blocks[3].optimizer; for a Hugging Face config, the names of the model document), one of < <= > >= "
        "== !=, and a number, true, false or a word; bytes, times and rates may have a unit (12GiB, 250ms, "
        "22GB/s). A field that the document leaves out has its default; if there is none, every assertion "
        "about it fails. --assert can be given several times.\n\nExit status: 0 all is well, else the "
        "smallest that applies: 1 a file is missing or cannot be read, 2 an assertion makes no sense for a "
        "document, 3 a document is not valid, 6 a plan was made from another model, machine or cluster, 8 an "
        "assertion failed.",
    .syntax = {.options = check_table, .operands = {AH_OPERAND_FILE, "FILE", 1, UINT32_MAX, NULL}},
    .options_bytes = sizeof(struct check_options),
    .examples = {{"check plan.json --assert 'time.step_us<=250ms'",
                  "a step is predicted to take at most 0.25 s"},
                 {"check plan.json --assert 'memory.device_bytes<=22GiB'", "the plan fits a 24 GB card"},
                 {"check plan.json --model model.json --machine machine.json",
                  "check everything that can be recomputed from these"},
                 {"check cluster-plan.json --model model.json --cluster cluster.json",
                  "the same for a cluster plan"},
                 {"check examples/*/*.json", "everything in a folder"}},
    .run = check_run,
};
