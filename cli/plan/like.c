/* SPDX-License-Identifier: Apache-2.0
 *
 * '--like': copies the training of another plan, and refuses options for the same fields.
 */
#include "cli/plan/like.h"

#include "schemas/cluster_plan.h"

#include <string.h>

/* The copied parts of the other plan. */
struct source {
    const struct ah_model_lora *lora;
    struct ah_plan_training training;
    struct ah_plan_input model;
    enum ah_device_kind device;
};

int ah_like_check_options(const struct ah_request_options *given, struct ah_error *err)
{
    const struct {
        const char *name;
        bool given;
    } options[] = {{"batch", given->batch.given},
                   {"micro-batches", given->micro_batches.given || given->micro_batches.word},
                   {"seq", given->seq.given},
                   {"dtype", given->dtype != NULL},
                   {"state-dtype", given->state_dtype != NULL},
                   {"clip", given->clip.given},
                   {"freeze", given->freeze.n > 0},
                   {"lora", given->lora != NULL},
                   {"lora-on", given->lora_on.n > 0},
                   {"train", given->train.n > 0}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (options[i].given)
            return ah_error_set(err, AH_E_USAGE,
                                "'--%s': '--like' already takes this from its plan; leave "
                                "one out",
                                options[i].name);
    return AH_OK;
}

/* Copies `of` to `ret_kept`, together with all that it borrows from its document, to `arena`. */
static int copy_training(struct ah_arena *arena, const struct ah_plan_training *of,
                         struct ah_plan_training *ret_kept, struct ah_error *err)
{
    struct ah_plan_training kept = *of;
    const char **patterns = ah_arena_array(arena, of->n_trainable + 1, sizeof *patterns);
    kept.trainable = patterns;
    kept.sums = ah_arena_array(arena, of->n_sums + 1, sizeof *kept.sums);
    if (!patterns || !kept.sums)
        return ah_error_memory(err);
    for (size_t i = 0; i < of->n_trainable; i++) {
        patterns[i] = ah_arena_strdup(arena, of->trainable[i]);
        if (!patterns[i])
            return ah_error_memory(err);
    }
    if (of->n_sums)
        memcpy(kept.sums, of->sums, of->n_sums * sizeof *kept.sums);
    *ret_kept = kept;
    return AH_OK;
}

/* Refuses tensor parallelism: its ranks add up parts of products, and no other plan adds these up in the same way. */
static int check_degrees(const struct ah_cluster_plan *plan, const char *path, struct ah_error *err)
{
    for (size_t p = 0; p < plan->n_pipelines; p++)
        for (size_t i = 0; i < plan->pipelines[p].n_stages; i++)
            if (plan->pipelines[p].stages[i].tp > 1)
                return ah_error_set(
                    err, AH_E_MISMATCH,
                    "'--like': '%s' uses tensor parallelism, which changes the bits; give a plan made with "
                    "'--tp 1'",
                    path);
    return AH_OK;
}

static int read_source(const struct ah_document *document, const char *path, struct ah_arena *arena,
                       struct source *ret_source, struct ah_error *err)
{
    if (document->kind == AH_DOCUMENT_PLAN) {
        const struct ah_plan *plan = document->body.plan;
        *ret_source = (struct source){plan->model.lora, plan->training, plan->inputs.model,
                                      plan->numeric_signature.device};
        return AH_OK;
    }
    if (document->kind != AH_DOCUMENT_CLUSTER_PLAN)
        return ah_error_set(err, AH_E_USAGE,
                            "'--like': '%s' is a document of kind '%s'; give a plan or a cluster plan", path,
                            ah_document_word(document->kind));
    const struct ah_cluster_plan *plan = document->body.cluster_plan;
    if (!plan->n_programs)
        return ah_error_set(err, AH_E_DOCUMENT, "'--like': '%s' has no programs of ranks; plan it again",
                            path);
    ret_source->lora = plan->model ? plan->model->lora : NULL;
    ret_source->model = plan->inputs.model;
    ret_source->device = plan->programs[0].numeric_signature.device;
    const int rc = check_degrees(plan, path, err);
    return rc ? rc : ah_cluster_plan_step(plan, arena, &ret_source->training, err);
}

/* Gives the request's model the adapters of the other plan. */
static int copy_lora(struct ah_cli *cli, const struct ah_model_lora *of, struct ah_request *request,
                     struct ah_error *err)
{
    struct ah_model *model = request->model.body.model;
    if (!of || model->lora)
        return AH_OK;
    struct ah_model_lora *lora = ah_arena_alloc(&cli->arena, sizeof *lora);
    unsigned *on = ah_arena_array(&cli->arena, of->n_on, sizeof *on);
    if (!lora || !on)
        return ah_error_memory(err);
    *lora = *of;
    lora->on = on;
    memcpy(on, of->on, of->n_on * sizeof *on);
    model->lora = lora;
    return ah_document_digest(&request->model, request->model_sha256, err);
}

/* What the request is for. */
struct target {
    struct ah_request *request;
    const struct ah_model *model;
    const char *model_sha256;
    const char *what, *name; /* machine or cluster */
    enum ah_device_kind device;
};

static int check_source(const struct target *target, const char *path, const struct source *source,
                        struct ah_error *err)
{
    if (strcmp(source->model.sha256, target->model_sha256) != 0)
        return ah_error_set(err, AH_E_MISMATCH,
                            "'--like': '%s' trains the model '%s', which is not the '%s' given here", path,
                            source->model.name, target->model->name);
    if (source->device != target->device)
        return ah_error_set(
            err, AH_E_MISMATCH,
            "'--like': '%s' is for devices of kind '%s' but '%s' is '%s', which changes the bits; give a %s "
            "of its kind, or give its training options instead of '--like'",
            path, ah_words_device_kind[source->device], target->name, ah_words_device_kind[target->device],
            target->what);
    return AH_OK;
}

static int read_training(struct ah_cli *cli, const char *path, const struct target *target,
                         struct ah_plan_training *ret_training, struct ah_error *err)
{
    struct ah_document document;
    struct source source = {0};
    int rc = ah_input_load(&document, path, AH_DOCUMENT_ANY, err);
    if (rc)
        return rc;
    rc = read_source(&document, path, &cli->arena, &source, err);
    rc = rc ? rc : copy_lora(cli, source.lora, target->request, err);
    rc = rc ? rc : check_source(target, path, &source, err);
    rc = rc ? rc : copy_training(&cli->arena, &source.training, ret_training, err);
    ah_document_release(&document);
    return rc;
}

int ah_like_apply(struct ah_request *request, struct ah_cli *cli, const char *path, struct ah_error *err)
{
    const struct ah_machine *machine = request->machine.body.machine;
    const struct target target = {request,   request->planner.model, request->model_sha256,
                                  "machine", machine->name,          machine->device.kind};
    const int rc = read_training(cli, path, &target, &request->planner.training, err);
    request->planner.any_micro_batches = false;
    request->planner.training_stays = true;
    return rc;
}

/* ---- clusters ---- */

static int check_cluster_options(const struct ah_request_cluster_options *options, struct ah_error *err)
{
    if (options->tp && strcmp(options->tp, "1") != 0)
        return ah_error_set(
            err, AH_E_USAGE,
            "'--tp' %s: '--like' keeps the bits, which tensor parallelism changes; leave one out",
            options->tp);
    if (options->policy && strcmp(options->policy, ah_words_cluster_policy[AH_CLUSTER_POLICY_OPTIMAL]) != 0)
        return ah_error_set(
            err, AH_E_USAGE,
            "'--policy' %s: the policy and '--like' both decide how micro-batches are grouped; leave one out",
            options->policy);
    return AH_OK;
}

int ah_like_apply_cluster(struct ah_request_cluster *request, struct ah_cli *cli,
                          const struct ah_request_cluster_options *options, struct ah_error *err)
{
    struct ah_cluster_request *planner = &request->planner;
    const struct target target = {&request->base, planner->model,         planner->model_sha256,
                                  "cluster",      planner->cluster->name, planner->cluster->device};
    const char *gpu;
    int rc = check_cluster_options(options, err);
    rc = rc ? rc : read_training(cli, options->like, &target, &planner->training, err);
    if (!rc && !ah_cluster_has(planner->cluster, planner->training.dtype, &gpu))
        rc =
            ah_error_set(err, AH_E_MISMATCH,
                         "'--like': '%s' trains in %s, but type '%s' of cluster '%s' has no matrix products "
                         "in it",
                         options->like, ah_words_dtype[planner->training.dtype], gpu, planner->cluster->name);
    planner->any_micro_batches = false;
    planner->sums_stay = true;
    planner->tp_mode = AH_TP_SYMMETRIC;
    planner->tp = 1;
    return rc;
}
