/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete plan --cluster and plan --gpus: searches for a cluster plan, writes it, and prints its predictions.
 */
#include "cli/plan/plan_cluster.h"

#include "cli/inspect/inspect.h"
#include "cli/inspect/plan_summary.h"
#include "cli/plan/diagnosis.h"
#include "cli/plan/like.h"

#include <string.h>

void ah_plan_tell_what_if(struct ah_cli *cli, const struct ah_plan *plan)
{
    struct ah_buffer text = {0};
    ah_plan_put_what_if(&text, plan);
    if (text.size && !text.failed)
        ah_cli_tell(cli, AH_CLI_NOTE, "%s", text.data);
    ah_buffer_release(&text);
}

static int write_plan(struct ah_cli *cli, const char *output, struct ah_cluster_plan *plan,
                      struct ah_error *err)
{
    const struct ah_document document = {.kind = AH_DOCUMENT_CLUSTER_PLAN, .body = {.cluster_plan = plan}};
    const bool to_file = output && strcmp(output, "-");
    if (plan->sharding && (cli->json || !to_file))
        ah_plan_tell_what_if(cli, &plan->programs[0]);
    if (!to_file)
        return ah_document_print(&document, &cli->out, err);
    int rc = ah_document_save(&document, output, err);
    if (!rc && cli->json)
        rc = ah_document_print(&document, &cli->out, err);
    else if (!rc && !cli->arguments.quiet)
        ah_inspect_cluster_plan_summary(cli, plan);
    if (!rc)
        ah_cli_tell(cli, AH_CLI_WROTE, "%s", output);
    return rc;
}

/* Prints why there is no plan, and what would help. */
static int explain_no_plan(struct ah_cli *cli, struct ah_request_cluster *request,
                           const struct ah_cluster_shortage *shortage, const struct ah_error *why)
{
    struct ah_cluster_remedies remedies;
    struct ah_error err = {0};
    int rc = ah_cluster_remedies_find(&request->planner, shortage, &remedies, &err);
    ah_terminal_erase(&request->base.progress);
    if (rc == AH_E_INTERRUPTED)
        ah_cli_nothing_written(&err);
    return rc ? ah_cli_fail(cli, &err) : ah_diagnosis_fail_cluster(cli, shortage, &remedies, why);
}

int ah_plan_gpus(struct ah_cli *cli, struct ah_request *request, const char *output)
{
    struct ah_cluster_plan plan;
    struct ah_diagnosis diagnosis;
    struct ah_error err = {0};
    int rc = ah_planner_plan_gpus(&request->planner, &cli->arena, &plan, &diagnosis, &err);
    ah_terminal_erase(&request->progress);
    if (rc == AH_E_INFEASIBLE || rc == AH_E_NO_PLAN)
        return ah_diagnosis_fail(cli, &diagnosis, request->planner.machine, &err);
    if (!rc)
        rc = write_plan(cli, output, &plan, &err);
    if (rc == AH_E_INTERRUPTED)
        ah_cli_nothing_written(&err);
    return rc == AH_E_USAGE ? ah_cli_fail_usage(cli, &err) : rc ? ah_cli_fail(cli, &err) : 0;
}

int ah_plan_cluster(struct ah_cli *cli, const struct ah_request_cluster_options *options, const char *output)
{
    struct ah_request_cluster request;
    struct ah_cluster_plan plan;
    struct ah_cluster_shortage shortage;
    struct ah_error err = {0};
    int status = 0, rc = ah_request_cluster_init(&request, cli, options, &err);
    if (!rc && options->like && (rc = ah_like_apply_cluster(&request, cli, options, &err)))
        ah_request_cluster_release(&request);
    if (rc)
        return rc == AH_E_USAGE ? ah_cli_fail_usage(cli, &err) : ah_cli_fail(cli, &err);
    rc = ah_cluster_planner_plan(&request.planner, &cli->arena, &plan, &shortage, &err);
    if (rc == AH_E_INFEASIBLE || rc == AH_E_NO_PLAN)
        status = explain_no_plan(cli, &request, &shortage, &err);
    ah_terminal_erase(&request.base.progress);
    if (!rc)
        rc = write_plan(cli, output, &plan, &err);
    ah_request_cluster_release(&request);
    if (rc == AH_E_INTERRUPTED)
        ah_cli_nothing_written(&err);
    if (rc && !status)
        status = rc == AH_E_USAGE ? ah_cli_fail_usage(cli, &err) : ah_cli_fail(cli, &err);
    return status;
}
