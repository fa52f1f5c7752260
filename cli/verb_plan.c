/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete plan MODEL: finds the best plan for a machine and says how good it is, or says why there is none.
 *
 * With `-o FILE`, the plan is written to the file and a summary is shown; otherwise the plan goes to standard output.
 * If no plan is found, an existing file stays unchanged.
 */
#include "base/units.h"
#include "cli/frame/outputs.h"
#include "cli/inspect/inspect.h"
#include "cli/inspect/plan_summary.h"
#include "cli/page/page.h"
#include "cli/plan/diagnosis.h"
#include "cli/plan/like.h"
#include "cli/plan/plan_cluster.h"
#include "cli/plan/plan_prospects.h"
#include "cli/plan/request.h"
#include "cli/verbs.h"

#include <string.h>

struct plan_options {
    struct ah_request_options request; /* first: AH_REQUEST_OPTIONS */
    const char *policy;
    const char *output;
    bool force;
    const char *cluster;
    const char *tp;
    const char *search;
    const char *html;
    const char *like;
    const char *sweep;
    bool explain;
};

static const char *const replaced_plans[] = {"plan", "cluster-plan", NULL};
static const char *const replaced_pages[] = {AH_OUTPUT_PAGE, NULL};

static const struct ah_option plan_table[] = {
    {"output", 'o', AH_OPTION_OUTPUT, "FILE", replaced_plans, offsetof(struct plan_options, output),
     "write the plan to this file and show a summary ('-': the plan to standard output); an existing plan is "
     "replaced"},
    AH_OUTPUT_FORCE_ROW(struct plan_options),
    {"policy", 0, AH_OPTION_WORD, "POLICY", ah_request_words_any_policy,
     offsetof(struct plan_options, policy), "plan as this system would (default optimal)"},
    {"cluster", 0, AH_OPTION_FILE, "CLUSTER", ah_input_clusters, offsetof(struct plan_options, cluster),
     "plan for the unequal GPUs of this cluster instead of one machine: a document, or built in"},
    {"tp", 0, AH_OPTION_WORD, "MODE", ah_request_words_tp, offsetof(struct plan_options, tp),
     "with --cluster: one degree of tensor parallelism for all types of GPU (symmetric, default), one for "
     "each type (asym), or this degree"},
    {"search", 0, AH_OPTION_WORD, "HOW", ah_words_cluster_search, offsetof(struct plan_options, search),
     "with --cluster: improve good arrangements (graph), enumerate all of them for few GPUs (exact), or both "
     "(default)"},
    {"like", 0, AH_OPTION_FILE, "PLAN", NULL, offsetof(struct plan_options, like),
     "train as this plan or cluster plan does, with its batch, sequence, number formats and sums: runs of "
     "both give the same bits, and each can resume what the other saved"},
    AH_REQUEST_OPTIONS,
    {"explain", 0, AH_OPTION_FLAG, NULL, NULL, offsetof(struct plan_options, explain),
     "say what limits the plan, and plan again with more memory and with faster links to show what each "
     "gains"},
    {"sweep", 0, AH_OPTION_TEXT, "WHAT[=LIST]", ah_plan_prospects_words, offsetof(struct plan_options, sweep),
     "plan for a ladder of device-memory, batch or seq, or for the values of a list (batch=1,2,4), and show "
     "a "
     "table"},
    {"html", 0, AH_OPTION_OUTPUT, "FILE", replaced_pages, offsetof(struct plan_options, html),
     "write the plan as a page, too, with what --explain and --sweep found"},
    {NULL, 0, AH_OPTION_FLAG, NULL, NULL, 0, NULL}};

static bool to_file(const struct plan_options *options)
{
    return options->output && strcmp(options->output, "-") != 0;
}

static int print_document(struct ah_cli *cli, struct ah_plan *plan, struct ah_error *err)
{
    const struct ah_document document = {.kind = AH_DOCUMENT_PLAN, .body = {.plan = plan}};
    return ah_document_print(&document, &cli->out, err);
}

static void put_memory(struct ah_cli *cli, const struct ah_plan *plan)
{
    char used[AH_UNITS_TEXT_MAX];
    char there[AH_UNITS_TEXT_MAX];
    const struct ah_plan_memory *memory = &plan->memory;
    struct ah_buffer line = {0};
    ah_buffer_printf(&line, "device memory %s of %s", ah_units_print_bytes(used, ah_plan_device_bytes(plan)),
                     ah_units_print_bytes(there, memory->device_capacity_bytes));
    if (memory->reserved_bytes)
        ah_buffer_printf(&line, ", of which %s are the device's reserve",
                         ah_units_print_bytes(used, memory->reserved_bytes));
    if (memory->host_capacity_bytes > memory->process_bytes)
        ah_buffer_printf(&line, "; host memory %s of %s",
                         ah_units_print_bytes(used, ah_plan_host_bytes(plan)),
                         ah_units_print_bytes(there, memory->host_capacity_bytes));
    ah_cli_put_wrapped(cli, &line, 0);
}

static void print_summary(struct ah_cli *cli, const struct ah_plan *plan)
{
    struct ah_buffer sentence = {0};
    ah_inspect_plan_headline(cli, plan);
    ah_plan_put_bottleneck(&sentence, &plan->time);
    ah_cli_put_wrapped(cli, &sentence, 0);
    put_memory(cli, plan);
}

/* ---- with --explain or --sweep ---- */

static void print_found_json(struct ah_cli *cli, const struct ah_request *request, const struct ah_plan *plan,
                             const struct ah_plan_prospects *prospects)
{
    const struct ah_plan_training *training = plan ? &plan->training : &request->planner.training;
    struct ah_emit emit = {.out = &cli->out};
    ah_emit_open(&emit, NULL, '{');
    ah_emit_text(&emit, "model", request->planner.model->name);
    ah_emit_text(&emit, "machine", request->planner.machine->name);
    ah_emit_text(&emit, "policy", ah_words_policy[request->planner.policy]);
    ah_emit_integer(&emit, "batch", training->batch);
    ah_emit_integer(&emit, "seq", training->seq);
    ah_emit_text(&emit, "dtype", ah_words_dtype[training->dtype]);
    ah_emit_bool(&emit, "simulated", true);
    if (plan) {
        ah_emit_bool(&emit, "estimated", plan->time.estimated);
        ah_emit_number(&emit, "step_us", plan->time.step_us);
        ah_emit_number(&emit, "tokens_per_s", plan->tokens_per_s);
        ah_inspect_plan_what_if_json(&emit, plan);
    }
    ah_plan_prospects_emit(&emit, prospects);
    ah_emit_close(&emit);
}

static void print_found(struct ah_cli *cli, const struct ah_request *request, const struct ah_plan *plan,
                        const struct ah_plan_prospects *prospects)
{
    if (cli->json) {
        print_found_json(cli, request, plan, prospects);
        return;
    }
    if (plan)
        print_summary(cli, plan);
    ah_plan_prospects_put(cli, prospects);
}

/* ---- the plan ---- */

static int print_plan(struct ah_cli *cli, const struct plan_options *options, struct ah_plan *plan,
                      struct ah_error *err)
{
    if (cli->json || !to_file(options)) {
        ah_plan_tell_what_if(cli, plan);
        return print_document(cli, plan, err);
    }
    if (!cli->arguments.quiet)
        print_summary(cli, plan);
    return AH_OK;
}

static int write_plan(struct ah_cli *cli, const struct plan_options *options,
                      const struct ah_request *request, const struct ah_plan_prospects *prospects,
                      struct ah_plan *plan, struct ah_error *err)
{
    const struct ah_document document = {.kind = AH_DOCUMENT_PLAN, .body = {.plan = plan}};
    int rc = to_file(options) ? ah_document_save(&document, options->output, err) : AH_OK;
    if (!rc && (prospects->explain || prospects->sweep))
        print_found(cli, request, plan, prospects);
    else if (!rc)
        rc = print_plan(cli, options, plan, err);
    if (!rc && options->html)
        rc = ah_page_write(cli, options->html, &document, prospects, err);
    if (!rc && to_file(options))
        ah_cli_tell(cli, AH_CLI_WROTE, "%s", options->output);
    if (!rc && options->html)
        ah_cli_tell(cli, AH_CLI_WROTE, "%s", options->html);
    return rc;
}

/* Prints a sweep's results, if requested, then why there is no plan and what helps. Returns the exit status. */
static int fail_without_plan(struct ah_cli *cli, const struct ah_request *request,
                             const struct ah_plan_prospects *prospects, const struct ah_diagnosis *diagnosis,
                             const struct ah_error *err)
{
    if (prospects->n_points)
        print_found(cli, request, NULL, prospects);
    return ah_diagnosis_fail(cli, diagnosis, request->planner.machine, err);
}

/* Plans the request and writes the plan. Returns the exit status. */
static int plan_request(struct ah_cli *cli, const struct plan_options *options, struct ah_request *request,
                        struct ah_plan_prospects *prospects)
{
    struct ah_plan plan = {0};
    struct ah_diagnosis diagnosis = {0};
    struct ah_error err = {0}, why = {0};
    int rc = ah_planner_plan(&request->planner, &cli->arena, &plan, &diagnosis, &why);
    bool none = rc == AH_E_INFEASIBLE || rc == AH_E_NO_PLAN;
    if (rc && !none)
        err = why;
    else
        rc = ah_plan_prospects_find(prospects, &request->planner, none ? NULL : &plan, &err);
    ah_terminal_erase(&request->progress);
    if (!rc && none)
        return fail_without_plan(cli, request, prospects, &diagnosis, &why);
    if (!rc)
        rc = write_plan(cli, options, request, prospects, &plan, &err);
    if (rc == AH_E_INTERRUPTED)
        ah_cli_nothing_written(&err);
    return rc == AH_E_USAGE ? ah_cli_fail_usage(cli, &err) : rc ? ah_cli_fail(cli, &err) : 0;
}

/* Refuses --scheduling for other systems' policies, because their order is fixed. */
static int check_scheduling(const struct ah_plan_request *request, const struct plan_options *options,
                            struct ah_error *err)
{
    if (!options->request.scheduling || request->scheduling == AH_SCHEDULING_FIFO ||
        ah_planner_takes_scheduling(request->policy))
        return AH_OK;
    return ah_error_set(
        err, AH_E_USAGE,
        "'--scheduling' %s: policy '%s' always uses fifo; leave the option out, or choose '--policy' optimal "
        "or autohete-paper",
        options->request.scheduling, options->policy);
}

/* Refuses options that exclude each other, and options that do not exist for a single machine or for a cluster. */
static int check_options(const struct plan_options *options, struct ah_error *err)
{
    const struct {
        const char *name;
        bool given;
    } of_machines[] = {{"explain", options->explain}, {"sweep", options->sweep}, {"html", options->html}};
    bool found = options->explain || options->sweep;
    const bool gpus = options->request.gpus.given && options->request.gpus.value > 1;
    for (size_t i = 0; i < sizeof of_machines / sizeof *of_machines && (options->cluster || gpus); i++)
        if (of_machines[i].given)
            return ah_error_set(err, AH_E_USAGE, "'--%s' works only for plans of one %s%s",
                                of_machines[i].name, options->cluster ? "machine" : "GPU",
                                options->html ? "; 'autohete inspect PLAN --html FILE' makes the page of a "
                                                "cluster plan"
                                : options->cluster ? "; leave it or '--cluster' out"
                                                   : "; leave it or '--gpus' out");
    if (options->html && !strcmp(options->html, "-"))
        return ah_error_set(err, AH_E_USAGE,
                            "'--html -': standard output is needed for the plan or its summary; give a file");
    if (found && options->output && !to_file(options))
        return ah_error_set(err, AH_E_USAGE,
                            "'--output -' and '--%s' both want standard output; give '--output' a file",
                            options->explain ? "explain" : "sweep");
    return options->like ? ah_like_check_options(&options->request, err) : AH_OK;
}

static int plan_machine(struct ah_cli *cli, const struct plan_options *options,
                        struct ah_plan_prospects *prospects)
{
    struct ah_request request;
    struct ah_error err = {0};
    int rc = ah_request_init(&request, cli, &options->request, &err);
    if (rc)
        return rc == AH_E_USAGE ? ah_cli_fail_usage(cli, &err) : ah_cli_fail(cli, &err);
    rc = options->like ? ah_like_apply(&request, cli, options->like, &err) : AH_OK;
    if (rc) {
        ah_request_release(&request);
        return rc == AH_E_USAGE ? ah_cli_fail_usage(cli, &err) : ah_cli_fail(cli, &err);
    }
    if (options->policy)
        request.planner.policy = ah_request_index(ah_words_policy, options->policy);
    if (check_scheduling(&request.planner, options, &err)) {
        ah_request_release(&request);
        return ah_cli_fail_usage(cli, &err);
    }
    request.planner.alternatives =
        request.planner.policy == AH_POLICY_OPTIMAL && request.planner.effort != AH_EFFORT_QUICK;
    int status = request.planner.gpus > 1 ? ah_plan_gpus(cli, &request, options->output)
                                          : plan_request(cli, options, &request, prospects);
    ah_request_release(&request);
    return status;
}

static int plan_run(struct ah_cli *cli, const void *given)
{
    const struct plan_options *options = given;
    struct ah_plan_prospects prospects = {0};
    struct ah_error err = {0};
    int rc = ah_plan_prospects_parse(&prospects, options->explain, options->sweep, &err);
    rc = rc ? rc : check_options(options, &err);
    if (!rc && options->cluster)
        return ah_plan_cluster(cli,
                               &(struct ah_request_cluster_options){&options->request, options->cluster,
                                                                    options->tp, options->policy,
                                                                    options->search, options->like},
                               options->output);
    rc = rc ? rc : ah_request_cluster_check_machine(options->policy, &err);
    if (!rc && (options->tp || options->search))
        rc = ah_error_set(&err, AH_E_USAGE, "'--%s' works only for a cluster; name it with '--cluster'",
                          options->tp ? "tp" : "search");
    if (rc)
        return rc == AH_E_USAGE ? ah_cli_fail_usage(cli, &err) : ah_cli_fail(cli, &err);
    int status = plan_machine(cli, options, &prospects);
    ah_plan_prospects_release(&prospects);
    return status;
}

const struct ah_verb ah_verb_plan = {
    .name = "plan",
    .summary = "find the best plan for a model on a machine",
    .description =
        "Decides what happens to the activations, weights and optimizer state of every block, in which order "
        "everything is copied, computed and updated, and where it lies in memory; predicts the step time, "
        "bounds how much faster any plan could be, and writes all of it as a plan document. The same inputs "
        "give the same bytes.\n\nMODEL is the folder of a Hugging Face model, its config.json, a model "
        "document, or the name of a built-in model (llama-2-7b, qwen2.5-0.5b, gpt2-124m, ...). The machine "
        "is a document that 'autohete profile' wrote, or the name of a built-in one, whose times are "
        "estimates; without --machine, the profile of this machine (of its GPU, else of its CPU). A file or "
        "folder takes precedence over a built-in document of the same name; an unknown name is answered with "
        "the built-in ones.\n\nWith --explain it says what limits the plan, and what each of these would "
        "gain: one GiB more device memory, twice the bandwidth of the link to the device, of the link to the "
        "host, and of both, and twice the host memory. Each is planned like the request, with that one "
        "change of the machine. With --sweep it plans the request for several device memories, batches or "
        "sequences, of its own choice or from a list, and shows a table; rows that do not fit name the "
        "resource that is short. Device memories may be more than the machine has. With either, standard "
        "output has the tables (with --json one object), and the plan goes to -o only. --html writes the "
        "page that inspect --html makes, with these tables on it.\n\nWith --cluster the plan is a "
        "cluster-plan document: pipelines of stages, the blocks that each stage holds and what it "
        "recomputes, the micro-batches that each pipeline takes, and who adds up which gradients, simulated "
        "to be as fast as possible. The planner chooses "
        "micro-batches unless they are given; --machine and memory budgets do not apply; other systems' "
        "policies set their own degrees, which --tp does not change. --search exact examines every "
        "arrangement that could be faster, for clusters of up to 12 units of GPUs, and proves the plan "
        "optimal if it finishes; --search graph only improves arrangements.\n\nBy default a step is 8 "
        "sequences of 1024 tokens (fewer if the model has fewer positions) in one micro-batch, in bf16 if "
        "the device has it, with fp32 states and gradients clipped to norm 1. --micro-batches auto may "
        "change how sums of gradients are rounded; batch, sequence, dtypes, clipping and what is trained "
        "change only on request. With --effort quick the other policies are not planned for "
        "comparison.\n\nIf no plan exists (exit 4, proven) or none was found (exit 5), nothing is written. "
        "The error names the resource that is short, with what is available and what is needed (a lower "
        "limit if proven), followed by changes to the command line that were planned and work, each on its "
        "own. With --json these are in the error object.",
    .syntax = {.options = plan_table, .operands = {AH_OPERAND_FILE, "MODEL", 1, 1, NULL}},
    .options_bytes = sizeof(struct plan_options),
    .examples = {{"plan Qwen2.5-0.5B/ -o plan.json",
                  "plan for this machine, from a Hugging Face model's folder"},
                 {"plan llama-2-7b --machine rtx4090-64g --batch 16 -o plan.json",
                  "plan for a machine that is not here"},
                 {"plan llama-2-7b --machine rtx4090-64g --explain --html plan.html",
                  "see what limits the plan and what would make it faster"},
                 {"plan Qwen2.5-0.5B/ --sweep batch", "see what other batches would bring"},
                 {"plan model.json --cluster cluster.json --batch 256 -o plan.json",
                  "plan for a cluster of unequal GPUs"},
                 {"plan model.json --freeze 'embedding.*,layer.0.*' -o plan.json",
                  "leave the embedding and the first layer as they are"}},
    .run = plan_run,
};
