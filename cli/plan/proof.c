/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks a plan before a verb executes it. For other documents, the message names a verb that accepts them.
 */
#include "cli/plan/proof.h"

#include "cli/frame/input.h"
#include "cli/plan/outdated.h"
#include "planner/cluster/sim/cluster_replay.h"
#include "planner/gpus.h"
#include "planner/verify.h"
#include "runtime/schedule/check.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int ah_proof_plan(const struct ah_plan *plan, struct ah_error *err)
{
    struct ah_error own = {0};
    int rc = ah_document_check_model(&plan->model, plan->inputs.model.sha256, &own);
    rc = rc ? rc : ah_schedule_check(plan, &own);
    rc = rc ? rc : ah_verify_policy(plan, &own);
    /* The planner's checks report AH_E_USAGE, for a bad request; here the document is wrong. */
    if (rc && rc != AH_E_MEMORY && rc != AH_E_MISMATCH)
        rc = AH_E_DOCUMENT;
    return rc ? ah_error_set(err, rc, "%s", own.text) : AH_OK;
}

int ah_proof_cluster_plan(const struct ah_cluster_plan *plan, struct ah_error *err)
{
    int rc = plan->model ? ah_document_check_model(plan->model, plan->inputs.model.sha256, err) : AH_OK;
    for (size_t i = 0; i < plan->n_programs && !rc; i++) {
        const struct ah_plan *program = &plan->programs[i];
        rc = ah_document_check_model(&program->model, program->inputs.model.sha256, err);
        rc = rc ? rc : ah_schedule_check(program, err);
        if (!rc && plan->sharding)
            rc = ah_verify_policy(program, err);
        if (rc)
            ah_error_prefix(err, rc, "programs[%zu]", i);
    }
    return rc ? rc : plan->sharding ? ah_gpus_check(plan, err) : ah_cluster_replay_check(plan, err);
}

/* Refuses a document that is not a plan. */
static int refuse_kind(enum ah_document_kind kind, const char *verb, struct ah_error *err)
{
    if (kind == AH_DOCUMENT_CLUSTER_PLAN)
        return ah_error_set(
            err, AH_E_DOCUMENT,
            "is a plan for a cluster, but '%s' takes plans for one machine. 'inspect', 'check', 'diff', "
            "'recover' and 'run' take it; to plan for one machine, leave out '--cluster' or '--gpus'",
            verb);
    return ah_error_set(err, AH_E_DOCUMENT, "kind: \"%s\" where a plan is expected%s", ah_document_word(kind),
                        kind == AH_DOCUMENT_MODEL ? "; 'autohete plan' makes one from it" : "");
}

/* True if the path is a model's folder, or a built-in model's name. */
static bool names_model(const char *path)
{
    char config[PATH_MAX];
    struct stat about;
    bool named = false;
    for (size_t i = 0; ah_input_models[i]; i++)
        named = named || strcmp(path, ah_input_models[i]) == 0;
    if (stat(path, &about))
        return named;
    return S_ISDIR(about.st_mode) &&
           snprintf(config, sizeof config, "%s/config.json", path) < (int)sizeof config &&
           access(config, F_OK) == 0;
}

static int prove(const struct ah_document *document, struct ah_error *err)
{
    struct ah_error own = {0};
    int rc = document->kind == AH_DOCUMENT_PLAN ? ah_proof_plan(document->body.plan, &own)
                                                : ah_proof_cluster_plan(document->body.cluster_plan, &own);
    if (!rc || rc == AH_E_MEMORY || strstr(own.text, "plan again"))
        return rc ? ah_error_set(err, rc, "%s", own.text) : AH_OK;
    return ah_error_set(err, rc, "%s; the plan was edited or made by another version of autohete: plan again",
                        own.text);
}

static int refuse_or_prove(const struct ah_document *document, const char *verb, struct ah_error *err)
{
    int rc = ah_outdated_refuse(document, verb, err);
    return rc ? rc : prove(document, err);
}

static int load_plan(struct ah_document *ret_document, const char *path, const char *verb, bool clusters,
                     struct ah_error *err)
{
    char shortened[AH_DOCUMENT_NAME_MAX];
    struct ah_document document = {0};
    const char *name = ah_document_short_name(path, shortened);
    if (names_model(path))
        return ah_error_set(
            err, AH_E_DOCUMENT,
            "'%s' is a model, but '%s' takes a plan; make one first: autohete plan %s -o plan.json", name,
            verb, name);
    int rc = ah_document_load(&document, path, AH_DOCUMENT_ANY, err);
    if (rc)
        return rc;
    rc = document.kind == AH_DOCUMENT_PLAN || (clusters && document.kind == AH_DOCUMENT_CLUSTER_PLAN)
             ? refuse_or_prove(&document, verb, err)
             : refuse_kind(document.kind, verb, err);
    if (!rc) {
        *ret_document = document;
        return AH_OK;
    }
    ah_document_release(&document);
    return ah_error_prefix(err, rc, "%s", name);
}

int ah_proof_load(struct ah_document *ret_document, const char *path, const char *verb, struct ah_error *err)
{
    return load_plan(ret_document, path, verb, false, err);
}

int ah_proof_load_any(struct ah_document *ret_document, const char *path, const char *verb,
                      struct ah_error *err)
{
    return load_plan(ret_document, path, verb, true, err);
}
