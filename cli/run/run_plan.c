/* SPDX-License-Identifier: Apache-2.0
 *
 * Run plan: reads a plan for one machine or a cluster, and checks that it can be run as the command line asks.
 */
#include "cli/run/run_plan.h"

#include "cli/plan/proof.h"

#include <inttypes.h>

/* Refuses the program of one rank. It is a plan, too, but cannot be run alone. */
static int check_whole(const struct ah_plan *plan, struct ah_error *err)
{
    if (!plan->part)
        return AH_OK;
    if (plan->part->shards)
        return ah_error_set(err, AH_E_UNSUPPORTED,
                            "is the plan of one of %" PRIu64
                            " ranks that share all states, and cannot run alone; "
                            "run the cluster plan",
                            plan->part->shards);
    return ah_error_set(err, AH_E_UNSUPPORTED,
                        "is the part of one rank, stage %" PRIu64 " of %" PRIu64 " of a cluster plan, and "
                        "cannot run alone; run the cluster plan",
                        plan->part->stage, plan->part->stages);
}

/* Refuses to start ranks in two ways at once, and options for the lanes of a single machine. */
static int check_cluster_options(const struct ah_run_plan_wish *wish, uint64_t ranks, struct ah_error *err)
{
    const char *variable = NULL;
    const bool launched = ah_run_ranks_launched(&variable);
    if (wish->hosts && (wish->local || launched))
        return ah_error_set(err, AH_E_USAGE, "'--hosts' starts a process for each rank%s%s%s; leave one out",
                            wish->local ? ", but '--local' runs all of them in this one"
                                        : ", but a launcher started this one ('",
                            wish->local ? "" : variable, wish->local ? "" : "' is set)");
    if (wish->local && launched)
        return ah_error_set(
            err, AH_E_USAGE,
            "'--local' runs all ranks in one process, but a launcher started this one ('%s' is set); leave "
            "one out",
            variable);
    if (!wish->local && !launched && !wish->hosts)
        return ah_error_set(err, AH_E_USAGE,
                            "is a plan for %" PRIu64
                            " rank%s: '--local' runs all of them on this machine, as threads, "
                            "'--hosts FILE' or 'mpirun -n %" PRIu64 " autohete run ...' each as a process",
                            ranks, ranks == 1 ? "" : "s", ranks);
    if (wish->emulates || wish->moves)
        return ah_error_set(err, AH_E_USAGE,
                            "is a plan for a cluster, but '--%s' works only for plans for one machine",
                            wish->emulates ? "emulate" : "other-device");
    return AH_OK;
}

static int take_plan(struct ah_run_plan *p, const struct ah_run_plan_wish *wish, struct ah_error *err)
{
    const bool cluster = p->document.kind == AH_DOCUMENT_CLUSTER_PLAN;
    if (!cluster) {
        p->plan = p->document.body.plan;
        int whole = check_whole(p->plan, err);
        if (!whole && ah_run_ranks_started() > 1)
            whole = ah_error_set(err, AH_E_USAGE,
                                 "is a plan for one process, but a launcher started %" PRIu64
                                 " of them; run it without the launcher, or plan for as many with '--gpus'",
                                 ah_run_ranks_started());
        if (!whole && (wish->local || wish->hosts || wish->paces))
            whole = ah_error_set(err, AH_E_USAGE,
                                 "is a plan for one machine, but '--%s' works only for cluster "
                                 "plans",
                                 wish->local   ? "local"
                                 : wish->hosts ? "hosts"
                                               : "pace");
        return whole;
    }
    const struct ah_cluster_plan *plan = p->document.body.cluster_plan;
    int rc = check_cluster_options(wish, ah_run_ranks_of_plan(plan), err);
    if (!rc && wish->paces && plan->sharding)
        rc = ah_error_set(err, AH_E_USAGE,
                          "is a plan of equal GPUs that share all states, which cannot be paced; leave out "
                          "'--pace'");
    if (!rc && wish->paces && plan->n_programs && plan->programs[0].numeric_signature.device != AH_DEVICE_CPU)
        rc = ah_error_set(err, AH_E_USAGE, "is a plan for GPUs, which cannot be paced; leave out '--pace'");
    p->launches = !rc && wish->hosts;
    if (p->launches)
        return ah_run_ranks_check(plan, err);
    rc = rc ? rc : ah_run_ranks_new(&p->ranks, plan, wish->local, err);
    if (!rc) {
        p->plan = ah_run_ranks_plan(p->ranks);
        if (wish->paces)
            ah_run_ranks_pace(p->ranks);
    }
    return rc;
}

int ah_run_plan_load(struct ah_run_plan *ret_plan, const char *path, const struct ah_run_plan_wish *wish,
                     struct ah_error *err)
{
    struct ah_run_plan loaded = {0};
    char shortened[AH_DOCUMENT_NAME_MAX];
    int rc = ah_proof_load_any(&loaded.document, path, "run", err);
    if (rc)
        return rc;
    rc = take_plan(&loaded, wish, err);
    if (rc) {
        ah_run_plan_release(&loaded);
        return ah_error_prefix(err, rc, "%s", ah_document_short_name(path, shortened));
    }
    *ret_plan = loaded;
    return AH_OK;
}

bool ah_run_plan_follows(const struct ah_run_plan *plan)
{
    return plan->ranks && !ah_run_ranks_leads(plan->ranks);
}

void ah_run_plan_release(struct ah_run_plan *plan)
{
    ah_run_ranks_free(plan->ranks);
    ah_document_release(&plan->document);
}
