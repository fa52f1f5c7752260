/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete recover: when nodes of a cluster are lost or added, plans how to continue, and how to move the states.
 *
 * It writes the plan first, then the moves.
 */
#include "cli/frame/input.h"
#include "cli/frame/interrupt.h"
#include "cli/frame/outputs.h"
#include "cli/inspect/inspect.h"
#include "cli/plan/recover_inventory.h"
#include "cli/plan/request_cluster.h"
#include "cli/verbs.h"
#include "planner/recovery/recovery.h"
#include "schemas/document.h"
#include "schemas/field.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct recover_options {
    const char *plan, *cluster, *inventory, *model;
    const char *output, *moves;
    bool force, like;
    const char *sources;
    struct ah_option_integer horizon, effort, micro_batches;
};

static const char *const replaced_plans[] = {"cluster-plan", NULL};
static const char *const replaced_moves[] = {"moves", NULL};

#define RECOVER_FIELD(name) offsetof(struct recover_options, name)
static const struct ah_option recover_table[] = {
    {"plan", 0, AH_OPTION_FILE, "FILE", NULL, RECOVER_FIELD(plan), "the cluster plan of the training so far"},
    {"cluster", 0, AH_OPTION_FILE, "FILE", NULL, RECOVER_FIELD(cluster), "the cluster as it is now"},
    {"inventory", 0, AH_OPTION_FILE, "FILE", NULL, RECOVER_FIELD(inventory),
     "where the states are; for a folder of checkpoints, storage has the newest one and nodes have nothing"},
    {"model", 0, AH_OPTION_FILE, "FILE", NULL, RECOVER_FIELD(model),
     "the model that the plan was made for, if the plan does not hold it"},
    {"output", 'o', AH_OPTION_OUTPUT, "FILE", replaced_plans, RECOVER_FIELD(output),
     "write the new plan to this file; an existing cluster plan is replaced"},
    {"moves", 0, AH_OPTION_OUTPUT, "FILE", replaced_moves, RECOVER_FIELD(moves),
     "write the moves to this file; existing moves are replaced"},
    AH_OUTPUT_FORCE_ROW(struct recover_options),
    {"sources", 0, AH_OPTION_WORD, "WORD", ah_words_sources, RECOVER_FIELD(sources),
     "near: each byte comes from the nearest source (default); fast: from wherever takes the least time"},
    {"horizon", 0, AH_OPTION_COUNT, "N", NULL, RECOVER_FIELD(horizon),
     "number of steps over which a plan's speed is weighed against its moves (default 1000)"},
    {"micro-batches", 0, AH_OPTION_COUNT, "N|auto", ah_request_words_auto, RECOVER_FIELD(micro_batches),
     "micro-batches of the new plan (default the old plan's); auto: the planner chooses"},
    {"like", 0, AH_OPTION_FLAG, NULL, NULL, RECOVER_FIELD(like),
     "keep the sums of the old plan, so that the new one continues with the same bits"},
    {"effort", 0, AH_OPTION_COUNT, "N|quick", ah_request_words_quick, RECOVER_FIELD(effort),
     "how long to search, 1 (quick) to 5 (default 2)"},
    {NULL, 0, AH_OPTION_FLAG, NULL, NULL, 0, NULL}};

struct recovery {
    struct ah_document plan, cluster, inventory, model;
    const struct ah_model *planned; /* from the document if given, otherwise the old plan's model */
    char model_sha256[AH_DOCUMENT_DIGEST_MAX], cluster_sha256[AH_DOCUMENT_DIGEST_MAX];
    char old_sha256[AH_DOCUMENT_DIGEST_MAX], new_sha256[AH_DOCUMENT_DIGEST_MAX];
    char inventory_sha256[AH_DOCUMENT_DIGEST_MAX];
    const char *trainable[1];
    struct ah_recovery_request request;
    struct ah_progress progress;
};

/* Returns the number of documents to read from standard input ('-'). */
static int count_standard_input(const struct recover_options *options)
{
    const char *const inputs[] = {options->plan, options->cluster, options->inventory, options->model};
    int n = 0;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        n += inputs[i] && !strcmp(inputs[i], "-");
    return n;
}

static int check_options(const struct recover_options *options, struct ah_error *err)
{
    const struct {
        const char *name, *value, *what;
    } needed[] = {{"plan", options->plan, "the old cluster plan"},
                  {"cluster", options->cluster, "the new cluster"},
                  {"inventory", options->inventory, "which states are where"},
                  {"output", options->output, "where the new plan goes"},
                  {"moves", options->moves, "where the moves go"}};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!needed[i].value)
            return ah_error_set(err, AH_E_USAGE, "'--%s' FILE is missing: %s", needed[i].name,
                                needed[i].what);
    if (count_standard_input(options) > 1)
        return ah_error_set(err, AH_E_USAGE, "standard input ('-') can be only one of the documents");
    return AH_OK;
}

static int load_model(struct recovery *r, struct ah_cli *cli, const struct recover_options *options,
                      struct ah_error *err)
{
    const struct ah_model *own = r->plan.body.cluster_plan->model;
    if (!options->model && !own)
        return ah_error_set(err, AH_E_USAGE, "plan '%s' does not hold its model; give it with '--model' FILE",
                            options->plan);
    if (!options->model) {
        struct ah_model copy = *own; /* borrows; a document's body must not be const */
        const struct ah_document document = {.kind = AH_DOCUMENT_MODEL, .body = {.model = &copy}};
        r->planned = own;
        return ah_document_digest(&document, r->model_sha256, err);
    }
    int rc = ah_input_load(&r->model, options->model, AH_DOCUMENT_MODEL, err);
    for (size_t i = 0; i < r->model.n_warnings && !rc; i++)
        ah_cli_tell(cli, AH_CLI_WARNING, "%s: %s", options->model, r->model.warnings[i]);
    r->planned = rc ? NULL : r->model.body.model;
    return rc ? rc : ah_document_digest(&r->model, r->model_sha256, err);
}

static int load_inputs(struct recovery *r, struct ah_cli *cli, const struct recover_options *options,
                       struct ah_error *err)
{
    int rc = ah_document_load(&r->plan, options->plan, AH_DOCUMENT_CLUSTER_PLAN, err);
    if (!rc && r->plan.body.cluster_plan->sharding)
        rc = ah_error_set(err, AH_E_DOCUMENT,
                          "%s: is a plan of equal GPUs that share all states ('--gpus'); plan again with the "
                          "number of GPUs that are left",
                          options->plan);
    rc = rc ? rc : ah_input_load(&r->cluster, options->cluster, AH_DOCUMENT_CLUSTER, err);
    rc = rc ? rc
            : ah_recover_inventory_load(&r->inventory, options->inventory, r->plan.body.cluster_plan,
                                        r->cluster.body.cluster, err);
    rc = rc ? rc : load_model(r, cli, options, err);
    rc = rc ? rc : ah_document_digest(&r->plan, r->old_sha256, err);
    rc = rc ? rc : ah_document_digest(&r->cluster, r->cluster_sha256, err);
    return rc ? rc : ah_document_digest(&r->inventory, r->inventory_sha256, err);
}

static int read_numbers(struct recovery *r, const struct recover_options *options, struct ah_error *err)
{
    struct ah_cluster_request *cluster = &r->request.cluster;
    uint64_t micro_batches = options->micro_batches.value;
    int rc = ah_request_effort(&options->effort, &cluster->effort, err);
    if (rc)
        return rc;
    if (options->horizon.given && !options->horizon.value)
        return ah_error_set(err, AH_E_USAGE, "'--horizon' 0 is out of range; give 1 or more");
    if (options->horizon.given && (double)options->horizon.value > AH_FIELD_COUNT_MAX)
        return ah_error_set(err, AH_E_USAGE, "'--horizon' %" PRIu64 " is out of range; give less than 2^53",
                            options->horizon.value);
    r->request.horizon_steps =
        options->horizon.given ? options->horizon.value : (uint64_t)AH_RECOVERY_HORIZON;
    r->request.sources = options->sources && !strcmp(options->sources, ah_words_sources[AH_SOURCES_FAST])
                             ? AH_SOURCES_FAST
                             : AH_SOURCES_NEAR;
    cluster->any_micro_batches = options->micro_batches.word != NULL;
    if (!options->micro_batches.given || options->micro_batches.word)
        return AH_OK;
    if (!micro_batches || cluster->training.batch % micro_batches)
        return ah_error_set(err, AH_E_USAGE,
                            "'--micro-batches' %" PRIu64 " does not divide the plan's batch of %" PRIu64,
                            micro_batches, cluster->training.batch);
    cluster->training.micro_batches = micro_batches;
    return AH_OK;
}

/* Makes the new plan add up gradients like the old plan. */
static int keep_sums(struct recovery *r, struct ah_cli *cli, const struct recover_options *options,
                     struct ah_error *err)
{
    struct ah_cluster_request *cluster = &r->request.cluster;
    const struct ah_cluster_plan *old = r->request.old_plan;
    struct ah_plan_training step;
    if (options->micro_batches.given || options->micro_batches.word)
        return ah_error_set(err, AH_E_USAGE,
                            "'--micro-batches': '--like' keeps the old plan's; leave one out");
    for (size_t p = 0; p < old->n_pipelines; p++)
        for (size_t i = 0; i < old->pipelines[p].n_stages; i++)
            if (old->pipelines[p].stages[i].tp > 1)
                return ah_error_set(
                    err, AH_E_MISMATCH,
                    "'--like': '%s' uses tensor parallelism, whose bits other plans do not reproduce; leave "
                    "'--like' out",
                    options->plan);
    const int rc = ah_cluster_plan_step(old, &cli->arena, &step, err);
    if (rc)
        return rc;
    cluster->training.sums = step.sums;
    cluster->training.n_sums = step.n_sums;
    cluster->sums_stay = true;
    cluster->tp_mode = AH_TP_SYMMETRIC;
    cluster->tp = 1;
    return AH_OK;
}

static int prepare_request(struct recovery *r, struct ah_cli *cli, const struct recover_options *options,
                           struct ah_error *err)
{
    int rc = check_options(options, err);
    rc = rc ? rc : load_inputs(r, cli, options, err);
    if (rc)
        return rc;
    const struct ah_cluster_plan *old = r->plan.body.cluster_plan;
    bool all = !old->training.n_trainable;
    r->trainable[0] = "*";
    r->progress = ah_terminal_progress();
    r->request = (struct ah_recovery_request){
        .cluster = {.model = r->planned,
                    .model_sha256 = r->model_sha256,
                    .cluster = r->cluster.body.cluster,
                    .cluster_sha256 = r->cluster_sha256,
                    .training = {.batch = old->training.batch,
                                 .micro_batches = old->training.micro_batches,
                                 .seq = old->training.seq,
                                 .dtype = old->training.dtype,
                                 .state_dtype = old->training.state_dtype,
                                 .clip = old->training.clip,
                                 .trainable = all ? r->trainable : old->training.trainable,
                                 .n_trainable = all ? 1 : old->training.n_trainable},
                    .tp_mode = old->tp_mode,
                    .generator = "autohete " AUTOHETE_VERSION,
                    .progress = ah_request_cluster_searched,
                    .context = &r->progress},
        .old_plan = old,
        .inventory = r->inventory.body.inventory};
    ah_interrupt_catch();
    rc = read_numbers(r, options, err);
    return rc || !options->like ? rc : keep_sums(r, cli, options, err);
}

static int write_document(struct ah_cli *cli, const struct ah_document *document, const char *path,
                          struct ah_error *err)
{
    return strcmp(path, "-") ? ah_document_save(document, path, err)
                             : ah_document_print(document, &cli->out, err);
}

/* Says whether a run of the new plan gives the same bits as the old plan. */
static int say_bits(struct ah_cli *cli, const struct recovery *r, const struct ah_cluster_plan *plan,
                    struct ah_error *err)
{
    char path[AH_SIGNATURE_PATH_MAX];
    bool differs = false;
    const int rc = ah_cluster_plan_differs(r->request.old_plan, plan, &differs, path, err);
    const size_t mark = cli->out.size;
    if (!rc && differs)
        ah_buffer_printf(&cli->out,
                         "not the training of the old plan: '%s' differs, so '--resume' will refuse what the "
                         "old plan saved%s\n",
                         path, r->request.cluster.sums_stay ? "" : "; '--like' keeps it");
    else if (!rc)
        ah_buffer_puts(&cli->out, "continues with the bits of the old plan\n");
    ah_cli_fit(cli, mark, 0);
    return rc;
}

static int write_plan_and_moves(struct ah_cli *cli, const struct recover_options *options, struct recovery *r,
                                struct ah_cluster_plan *plan, struct ah_moves *moves, struct ah_error *err)
{
    const struct ah_document new_plan = {.kind = AH_DOCUMENT_CLUSTER_PLAN, .body = {.cluster_plan = plan}};
    const struct ah_document list = {.kind = AH_DOCUMENT_MOVES, .body = {.moves = moves}};
    bool to_stdout = !strcmp(options->output, "-") || !strcmp(options->moves, "-");
    int rc = ah_document_digest(&new_plan, r->new_sha256, err);
    moves->inputs.old_plan_sha256 = r->old_sha256;
    moves->inputs.inventory_sha256 = r->inventory_sha256;
    moves->inputs.plan_sha256 = r->new_sha256;
    rc = rc ? rc : write_document(cli, &new_plan, options->output, err);
    if (!rc && (rc = write_document(cli, &list, options->moves, err)) && strcmp(options->output, "-"))
        ah_error_prefix(err, rc, "the new plan is in %s, but its moves could not be written",
                        options->output);
    if (!rc && cli->json && !to_stdout)
        rc = ah_document_print(&list, &cli->out, err);
    else if (!rc && !to_stdout && !cli->arguments.quiet) {
        ah_inspect_moves_summary(cli, moves);
        ah_buffer_puts(&cli->out, "\n");
        ah_inspect_cluster_plan_summary(cli, plan);
        rc = say_bits(cli, r, plan, err);
    }
    if (!rc)
        ah_cli_tell(cli, AH_CLI_WROTE, "%s and %s", options->output, options->moves);
    return rc;
}

static int recover_run(struct ah_cli *cli, const void *given)
{
    const struct recover_options *options = given;
    struct recovery r = {.plan = {0}};
    struct ah_cluster_plan plan;
    struct ah_moves moves;
    struct ah_cluster_shortage shortage;
    struct ah_error err = {0};
    int rc = prepare_request(&r, cli, options, &err);
    if (!rc) {
        rc = ah_recovery_plan(&r.request, &cli->arena, &plan, &moves, &shortage, &err);
        ah_terminal_erase(&r.progress);
        if (rc == AH_E_INFEASIBLE && !strncmp(err.text, "holdings", 8))
            ah_error_prefix(&err, rc, "%s", options->inventory);
    }
    if (!rc)
        rc = write_plan_and_moves(cli, options, &r, &plan, &moves, &err);
    if (rc == AH_E_INTERRUPTED)
        ah_cli_nothing_written(&err);
    ah_document_release(&r.plan);
    ah_document_release(&r.cluster);
    ah_document_release(&r.inventory);
    ah_document_release(&r.model);
    return rc == AH_E_USAGE ? ah_cli_fail_usage(cli, &err) : rc ? ah_cli_fail(cli, &err) : 0;
}

const struct ah_verb ah_verb_recover = {
    .name = "recover",
    .summary = "continue after nodes of a cluster were lost or added",
    .description =
        "Plans how training continues on different nodes: with which cluster plan, and how each of its GPUs "
        "gets the training states that it needs. The inventory says where the states are; those on nodes of "
        "the new cluster and in storage can be reached. All states come from one step, the newest that is "
        "still complete; later steps must be done again.\n\nCandidates are the old plan with as few changes "
        "as the new cluster allows, and the best plan for the new cluster. Equal nodes and GPUs swap places "
        "in it so that states stay where they are. The plan with the shortest total time of its moves and "
        "--horizon steps is chosen.\n\nStates that a GPU already has stay there. Everything else comes from "
        "its node's memory, else its disk, else another node, else, once, from storage, so that the busiest "
        "network card, disk or storage link finishes as early as possible. With --like the new plan keeps "
        "the groups of micro-batches in which the old one adds gradients up: a run of the new plan then "
        "resumes what the old one saved, with the same bits; without --like, the output says whether it "
        "does. With --sources fast nearer sources are not preferred. All times are predicted; the moves "
        "document gives the bound, and the time to read everything from storage.\n\nExit status: 0 written, "
        "3 a document is not valid, 4 no step is complete, or no plan fits the new cluster, 5 no plan was "
        "found, 6 the inventory, the plan and the model do not belong together.",
    .syntax = {.options = recover_table, .operands = {AH_OPERAND_NONE, NULL, 0, 0, NULL}},
    .options_bytes = sizeof(struct recover_options),
    .examples = {{"recover --plan a.json --cluster c.json --inventory i.json -o b.json --moves m.json",
                  "a node is gone: which plan, and what moves"},
                 {"inspect m.json", "who gets what from where"}},
    .run = recover_run,
};
