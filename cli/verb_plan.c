/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete plan MODEL: the best plan for a machine, how good it is, or why there is none.
 *
 * Where the plan goes: `-o FILE` (a summary is shown), else standard output. A plan that was not found leaves a file
 * that was there alone.
 */
#include "base/units.h"
#include "cli/diagnosis.h"
#include "cli/inspect.h"
#include "cli/plan_cluster.h"
#include "cli/plan_summary.h"
#include "cli/request.h"
#include "cli/verbs.h"

#include <string.h>

struct plan_options {
    struct ah_request_options request; /* first: AH_REQUEST_OPTIONS */
    const char *policy;
    const char *output;
    const char *cluster;
    const char *tp;
    const char *search;
};

static const struct ah_option plan_table[] = {
    {"output", 'o', AH_OPTION_FILE, "FILE", NULL, offsetof(struct plan_options, output),
     "write the plan to this file and show a summary ('-': the plan to standard output)"},
    {"policy", 0, AH_OPTION_WORD, "POLICY", ah_request_words_any_policy,
     offsetof(struct plan_options, policy), "plan as this system would (default optimal)"},
    {"cluster", 0, AH_OPTION_FILE, "CLUSTER", ah_input_clusters, offsetof(struct plan_options, cluster),
     "plan for the unequal GPUs of this cluster instead of one machine: a document, or built in"},
    {"tp", 0, AH_OPTION_WORD, "MODE", ah_words_tp_mode, offsetof(struct plan_options, tp),
     "with --cluster: one degree of tensor parallelism for all types of GPU (symmetric, default), or one for "
     "each "
     "type (asym)"},
    {"search", 0, AH_OPTION_WORD, "HOW", ah_words_cluster_search, offsetof(struct plan_options, search),
     "with --cluster: change good arrangements (graph), look at all of few GPUs (exact), or both (default)"},
    AH_REQUEST_OPTIONS,
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
    if (memory->host_capacity_bytes)
        ah_buffer_printf(&line, "; host memory %s of %s", ah_units_print_bytes(used, memory->host_bytes),
                         ah_units_print_bytes(there, memory->host_capacity_bytes));
    ah_cli_put_wrapped(cli, &line, 0);
}

static void print_summary(struct ah_cli *cli, const struct ah_plan *plan)
{
    const struct ah_plan_lane_times times = ah_plan_lane_times(plan);
    struct ah_buffer sentence = {0};
    ah_inspect_plan_headline(cli, plan);
    ah_plan_put_bottleneck(&sentence, plan->time.step_us, &times);
    ah_cli_put_wrapped(cli, &sentence, 0);
    put_memory(cli, plan);
}

static int deliver(struct ah_cli *cli, const struct plan_options *options, struct ah_plan *plan,
                   struct ah_error *err)
{
    if (!to_file(options))
        return print_document(cli, plan, err);
    const struct ah_document document = {.kind = AH_DOCUMENT_PLAN, .body = {.plan = plan}};
    int rc = ah_document_save(&document, options->output, err);
    if (!rc && cli->json)
        rc = print_document(cli, plan, err);
    else if (!rc)
        print_summary(cli, plan);
    if (!rc)
        ah_cli_tell(cli, AH_CLI_WROTE, "%s", options->output);
    return rc;
}

/* Returns the exit status. */
static int plan_request(struct ah_cli *cli, const struct plan_options *options, struct ah_request *request)
{
    struct ah_plan plan = {0};
    struct ah_diagnosis diagnosis = {0};
    struct ah_error err = {0};
    int rc = ah_planner_plan(&request->planner, &cli->arena, &plan, &diagnosis, &err);
    ah_terminal_erase(&request->progress);
    if (rc == AH_E_INFEASIBLE || rc == AH_E_NO_PLAN) {
        const struct ah_diagnosis_view view = {.diagnosis = &diagnosis, .request = &request->planner};
        return ah_diagnosis_fail(cli, &view, &err);
    }
    if (!rc)
        rc = deliver(cli, options, &plan, &err);
    if (rc == AH_E_INTERRUPTED)
        ah_cli_nothing_written(&err);
    return rc == AH_E_USAGE ? ah_cli_fail_usage(cli, &err) : rc ? ah_cli_fail(cli, &err) : 0;
}

/* Other systems' orders are part of what they are. */
static int check_scheduling(const struct ah_plan_request *request, const struct plan_options *options,
                            struct ah_error *err)
{
    if (!options->request.scheduling || request->scheduling == AH_SCHEDULING_FIFO ||
        ah_planner_takes_scheduling(request->policy))
        return AH_OK;
    return ah_error_set(
        err, AH_E_USAGE,
        "'--scheduling' %s: policy '%s' has an order of its own, fifo; leave the option out, or take "
        "'--policy' optimal or autohete-paper",
        options->request.scheduling, options->policy);
}

static int plan_run(struct ah_cli *cli, const void *given)
{
    const struct plan_options *options = given;
    struct ah_request request;
    struct ah_error err = {0};
    int rc = to_file(options) ? ah_cli_check_writable(options->output, &err) : AH_OK;
    if (!rc && options->cluster)
        return ah_plan_cluster(cli,
                               &(struct ah_request_cluster_options){&options->request, options->cluster,
                                                                    options->tp, options->policy,
                                                                    options->search},
                               options->output);
    if (!rc)
        rc = ah_request_cluster_check_machine(options->policy, &err);
    if (!rc && (options->tp || options->search))
        rc = ah_error_set(&err, AH_E_USAGE,
                          "'--%s' is of plans for a cluster; give the cluster with '--cluster'",
                          options->tp ? "tp" : "search");
    if (!rc)
        rc = ah_request_init(&request, cli, &options->request, &err);
    if (rc)
        return rc == AH_E_USAGE ? ah_cli_fail_usage(cli, &err) : ah_cli_fail(cli, &err);
    if (options->policy)
        request.planner.policy = ah_request_index(ah_words_policy, options->policy);
    if (check_scheduling(&request.planner, options, &err)) {
        ah_request_release(&request);
        return ah_cli_fail_usage(cli, &err);
    }
    request.planner.alternatives =
        request.planner.policy == AH_POLICY_OPTIMAL && request.planner.effort != AH_EFFORT_QUICK;
    int status = plan_request(cli, options, &request);
    ah_request_release(&request);
    return status;
}

const struct ah_verb ah_verb_plan = {
    .name = "plan",
    .summary = "find the best plan for a model on a machine",
    .description =
        "Decides for every block of the model what happens to its activations, weights and optimizer state, "
        "in "
        "which order everything is copied, computed and updated, and where in memory it lies; says how fast "
        "a "
        "step will be, how much faster any plan could be at most, and writes all of it as a plan document. "
        "The "
        "same inputs give the same bytes.\n\n"
        "MODEL is the folder of a Hugging Face model, its config.json, a model document, or the name of a "
        "built-in model (llama-2-7b, qwen2.5-0.5b, gpt2-124m, ...). The machine is a document that 'autohete "
        "profile' wrote, or the name of a built-in one, whose times are estimates; without --machine, the "
        "profile of this machine (of its GPU, else of its CPU). A file or folder is taken before a built-in "
        "document of that name; a name that does not exist is answered with those that do.\n\n"
        "With --cluster the plan is a cluster-plan document: pipelines of stages, the blocks that each stage "
        "holds and "
        "what it recomputes, the micro-batches that each pipeline takes, and who adds up which gradients, "
        "simulated to "
        "be as fast as possible. Micro-batches are chosen unless told; --machine and memory budgets do not "
        "apply; other systems' policies have degrees of their own, which --tp does not change. --search "
        "exact "
        "looks at every arrangement of clusters of up to 12 units of GPUs that could be faster, and proves "
        "the "
        "plan "
        "optimal where it comes to an end; --search graph only improves arrangements.\n\n"
        "Unless told otherwise a step is 8 sequences of 1024 tokens (fewer where the model has fewer "
        "positions) in "
        "one micro-batch, in bf16 where the device has it, with fp32 states and gradients clipped to norm 1. "
        "--micro-batches auto may change how sums of gradients are rounded; batch, sequence, dtypes, "
        "clipping "
        "and what is trained never change unless told. With --effort quick the other policies are not "
        "planned for "
        "comparison.\n\n"
        "Where no plan exists (exit 4, proven) or none was found (exit 5), the resource that is short is "
        "named, "
        "with what is available and what is needed (at least so much where proven), and below it changes of "
        "the command line that were planned and "
        "work, "
        "each alone; nothing is written. With --json these stand in the error's object.",
    .syntax = {.options = plan_table, .operands = {AH_OPERAND_FILE, "MODEL", 1, 1, NULL}},
    .options_bytes = sizeof(struct plan_options),
    .examples = {{"plan Qwen2.5-0.5B/ -o plan.json",
                  "plan for this machine, from a Hugging Face model's folder"},
                 {"plan llama-2-7b --machine rtx4090-64g --batch 16 -o plan.json",
                  "plan for a machine that is not here"},
                 {"plan model.json --cluster cluster.json --batch 256 -o plan.json",
                  "plan for a cluster of unequal GPUs"},
                 {"plan model.json --freeze 'embedding.*,layer.0.*' -o plan.json",
                  "leave the embedding and the first layer as they are"}},
    .run = plan_run,
};
