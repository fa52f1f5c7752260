/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/recovery/adapt.h"

#include "planner/cluster/cluster_costs.h"
#include "planner/cluster/cluster_document.h"
#include "planner/cluster/groups.h"
#include "planner/cluster/programs.h"
#include "planner/cluster/search/draft.h"
#include "planner/cluster/search/update_limit.h"
#include "planner/cluster/sim/cluster_replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct adapting {
    const struct ah_cluster_request *request;
    const struct ah_cluster_plan *old;
    enum ah_adapt_way way;
    bool
        /* if sums stay: pipelines need a second vector of sums (groups.h) */
        separate_sums;
    bool any; /* any number of pipelines is allowed */
    struct ah_cluster_problem problem;
    bool estimated;
    size_t *left; /* by class: idle units */
    struct ah_draft draft;
    struct ah_fits fits;
    bool *changed; /* by pipeline of the draft: its blocks must be split anew */
    struct ah_arena *arena;
    uint64_t *tp; /* by type of GPU */
};

/* Returns the degree of a type of GPU in the old plan. For a type without stages, returns the first stage's degree. */
static uint64_t degree_of(const struct ah_cluster_plan *old, const char *gpu)
{
    for (size_t p = 0; p < old->n_pipelines; p++)
        for (size_t i = 0; i < old->pipelines[p].n_stages; i++)
            if (strcmp(old->pipelines[p].stages[i].gpu, gpu) == 0)
                return old->pipelines[p].stages[i].tp;
    return old->pipelines[0].stages[0].tp;
}

/* True if the old plan keeps anything on hosts. */
static bool uses_hosts(const struct ah_cluster_plan *old)
{
    for (size_t p = 0; p < old->n_pipelines; p++)
        for (size_t i = 0; i < old->pipelines[p].n_stages; i++) {
            const struct ah_cluster_plan_stage *stage = &old->pipelines[p].stages[i];
            for (size_t c = 0; c < stage->n_configs; c++)
                if (stage->configs[c].weights == AH_WEIGHTS_HOST ||
                    stage->configs[c].optimizer == AH_OPTIMIZER_HOST ||
                    stage->configs[c].optimizer == AH_OPTIMIZER_STREAMED)
                    return true;
        }
    return false;
}

static int build_problem(struct adapting *a, struct ah_error *err)
{
    const struct ah_cluster_costs_input input = {.model = a->request->model,
                                                 .model_sha256 = a->request->model_sha256,
                                                 .cluster = a->request->cluster,
                                                 .training = a->request->training,
                                                 .tp = a->tp,
                                                 .without = a->request->without,
                                                 .separate_sums = a->separate_sums};
    int rc = ah_cluster_costs_build(&input, a->arena, &a->problem, &a->estimated, err);
    a->any = !a->separate_sums;
    if (!rc && a->request->sums_stay)
        rc = ah_groups_read(&a->problem, &a->request->training, a->separate_sums, a->arena, &a->any, err);
    return rc;
}

static int begin_adapting(struct adapting *a, struct ah_error *err)
{
    const struct ah_cluster *cluster = a->request->cluster;
    a->tp = ah_arena_array(a->arena, cluster->n_gpus, sizeof *a->tp);
    if (!a->tp)
        return ah_error_memory(err);
    for (size_t i = 0; i < cluster->n_gpus; i++)
        a->tp[i] = degree_of(a->old, cluster->gpus[i].name);
    int rc = build_problem(a, err);
    if (rc)
        return rc;
    a->left = ah_arena_array(a->arena, a->problem.n_classes + 1, sizeof *a->left);
    a->changed = ah_arena_array(a->arena, a->old->n_pipelines, sizeof *a->changed);
    if (!a->left || !a->changed)
        return ah_error_memory(err);
    for (size_t c = 0; c < a->problem.n_classes; c++)
        a->left[c] = a->problem.classes[c].units;
    return AH_OK;
}

/* ---- stages ---- */

/* Returns the class on the stage's node with the stage's type and degree and an idle unit; n_classes: there is none. */
static size_t same_class(const struct adapting *a, const struct ah_cluster_plan_stage *stage)
{
    const struct ah_cluster_problem *in = &a->problem;
    for (size_t c = 0; c < in->n_classes; c++) {
        const struct ah_problem_kind *kind = ah_problem_kind_of(in, c);
        if (a->left[c] && strcmp(a->request->cluster->nodes[in->classes[c].node].id, stage->node) == 0 &&
            strcmp(kind->gpu, stage->gpu) == 0 && kind->tp == stage->tp)
            return c;
    }
    return in->n_classes;
}

/* Returns a class with an idle unit, of the stage's type if possible; n_classes: there is none. */
static size_t other_class(const struct adapting *a, const struct ah_cluster_plan_stage *stage)
{
    const struct ah_cluster_problem *in = &a->problem;
    size_t found = in->n_classes;
    for (size_t c = in->n_classes; c-- > 0;)
        if (a->left[c] &&
            (found == in->n_classes || strcmp(ah_problem_kind_of(in, c)->gpu, stage->gpu) == 0 ||
             strcmp(ah_problem_kind_of(in, found)->gpu, stage->gpu) != 0))
            found = c;
    return found;
}

/* Gives stages idle units of their class, if there are any, before other stages are replaced. `classes`: by stage. */
static void keep_stages(struct adapting *a, size_t *classes)
{
    for (size_t p = 0; p < a->old->n_pipelines; p++)
        for (size_t i = 0; i < a->old->pipelines[p].n_stages; i++, classes++) {
            *classes = same_class(a, &a->old->pipelines[p].stages[i]);
            if (*classes < a->problem.n_classes)
                a->left[*classes]--;
        }
}

static bool loses(const struct adapting *a, const struct ah_cluster_plan_pipeline *pipeline,
                  const size_t *classes)
{
    for (size_t i = 0; i < pipeline->n_stages; i++)
        if (classes[i] == a->problem.n_classes)
            return true;
    return false;
}

static void add_pipeline(struct adapting *a, const struct ah_cluster_plan_pipeline *pipeline, size_t *classes)
{
    size_t none = a->problem.n_classes, p = a->draft.arrangement.n_pipelines, stages = a->draft.n_stages;
    if (a->way == AH_ADAPT_DROP && loses(a, pipeline, classes))
        return;
    for (size_t i = 0; i < pipeline->n_stages; i++) {
        const struct ah_cluster_plan_stage *stage = &pipeline->stages[i];
        if (classes[i] == none && a->way == AH_ADAPT_REPLACE) {
            classes[i] = other_class(a, stage);
            if (classes[i] < none)
                a->left[classes[i]]--;
        }
        if (classes[i] == none) {
            a->changed[p] = true;
            continue;
        }
        if (a->draft.n_stages == stages)
            ah_draft_open(&a->draft);
        ah_draft_add(&a->draft, classes[i]);
        a->draft.stages[a->draft.n_stages - 1].first = stage->first_block;
        a->draft.stages[a->draft.n_stages - 1].end = stage->first_block + stage->blocks;
    }
    if (a->draft.n_stages == stages)
        a->changed[p] = false; /* all stages of the pipeline are gone */
}

/* Splits changed pipelines and shares out the micro-batches. If stages do not fit then, splits all pipelines anew. */
static bool split_and_share(struct adapting *a)
{
    struct ah_arrangement *arrangement = &a->draft.arrangement;
    uint64_t total = a->problem.micro_batches, n = arrangement->n_pipelines;
    bool fits = n > 0 && n <= total;
    ah_draft_count_sharers(&a->draft);
    for (size_t p = 0; p < n && fits; p++)
        if (a->changed[p]) {
            arrangement->pipelines[p].micro_batches = (total + n - 1) / n;
            fits = ah_split_best(&a->fits, &arrangement->pipelines[p]);
        }
    return (fits && ah_draft_share(&a->draft, &a->fits)) || ah_draft_finish(&a->draft, &a->fits);
}

/* Fits a copy of `from` within this update limit, and copies the result to `best` if it is faster. */
static int settle_within(struct adapting *a, double limit_us, const struct ah_draft *from,
                         struct ah_draft *best, double *best_us, struct ah_error *err)
{
    uint64_t evaluations = 0;
    double us = INFINITY;
    ah_draft_copy(&a->draft, from);
    ah_fits_release(&a->fits);
    a->problem.update_limit_us = limit_us;
    int rc = ah_fits_init(&a->fits, &a->problem, err);
    if (rc || !split_and_share(a))
        return rc;
    a->problem.update_limit_us = limit_us > 0 ? INFINITY : 0;
    rc = ah_update_limit_choose(&a->problem, &a->draft.arrangement, &us, &evaluations, err);
    if (!rc && us < *best_us) {
        *best_us = us;
        ah_draft_copy(best, &a->draft);
    }
    return rc;
}

/* Finds the fastest fit. If the old plan keeps blocks on hosts, tries its update time as the limit, then no limit. */
static int settle_best(struct adapting *a, bool *ret_fits, struct ah_error *err)
{
    const double limits_us[] = {a->old->predicted.update_us, INFINITY};
    struct ah_draft from = {0}, best = {0};
    double best_us = INFINITY;
    bool hosts = uses_hosts(a->old);
    int rc = ah_draft_init(&from, &a->problem, err);
    rc = rc ? rc : ah_draft_init(&best, &a->problem, err);
    if (!rc)
        ah_draft_copy(&from, &a->draft);
    for (size_t i = 0; i < (hosts ? sizeof limits_us / sizeof *limits_us : 1) && !rc; i++)
        rc = settle_within(a, hosts ? limits_us[i] : 0, &from, &best, &best_us, err);
    *ret_fits = !isinf(best_us);
    if (!rc && *ret_fits)
        ah_draft_copy(&a->draft, &best);
    ah_draft_release(&from);
    ah_draft_release(&best);
    return rc;
}

static int arrange(struct adapting *a, bool *ret_fits, struct ah_error *err)
{
    size_t n = 1, at = 0;
    for (size_t p = 0; p < a->old->n_pipelines; p++)
        n += a->old->pipelines[p].n_stages;
    size_t *classes = calloc(n, sizeof *classes);
    if (!classes)
        return ah_error_memory(err);
    ah_draft_begin(&a->draft);
    keep_stages(a, classes);
    for (size_t p = 0; p < a->old->n_pipelines; p++) {
        add_pipeline(a, &a->old->pipelines[p], classes + at);
        at += a->old->pipelines[p].n_stages;
    }
    free(classes);
    int rc = settle_best(a, ret_fits, err);
    *ret_fits = *ret_fits && ah_groups_allow(&a->problem, &a->draft.arrangement);
    ah_draft_sort(&a->draft);
    return rc;
}

static int fill_plan(const struct adapting *a, struct ah_arena *arena, struct ah_cluster_plan *ret_plan,
                     struct ah_error *err)
{
    const struct ah_cluster_request *request = a->request;
    const struct ah_plan_training *training = &request->training;
    struct ah_cluster_plan plan = ah_cluster_document_begin(request, training);
    plan.tp_mode = a->old->tp_mode;
    int rc =
        ah_cluster_document_fill(request->cluster, &a->problem, &a->draft.arrangement, arena, &plan, err);
    if (rc)
        return rc;
    plan.predicted.estimated = a->estimated;
    plan.solver =
        (struct ah_plan_solver){.status = AH_PLAN_NO_BOUND, .objective_us = plan.predicted.step_us, .gap = 1};
    *ret_plan = plan;
    const struct ah_programs_input programs = {.model = request->model,
                                               .cluster = request->cluster,
                                               .training = *training,
                                               .problem = &a->problem,
                                               .arrangement = &a->draft.arrangement,
                                               .estimated = a->estimated};
    rc = ah_programs_fill(&programs, arena, ret_plan, err);
    return rc ? rc : ah_cluster_replay_predict(ret_plan, err);
}

static int adapt(struct adapting *a, struct ah_arena *arena, struct ah_cluster_plan *ret_plan, bool *ret_fits,
                 struct ah_error *err)
{
    int rc = begin_adapting(a, err);
    *ret_fits = false;
    if (rc || !a->any || !ah_problem_units(&a->problem))
        return rc;
    rc = ah_draft_init(&a->draft, &a->problem, err);
    rc = rc ? rc : arrange(a, ret_fits, err);
    if (!rc && *ret_fits)
        rc = fill_plan(a, arena, ret_plan, err);
    ah_draft_release(&a->draft);
    ah_fits_release(&a->fits);
    return rc;
}

int ah_adapt_plan(const struct ah_cluster_request *request, const struct ah_cluster_plan *old,
                  enum ah_adapt_way way, struct ah_arena *arena, struct ah_cluster_plan *ret_plan,
                  bool *ret_fits, struct ah_error *err)
{
    bool fits = false;
    int rc = AH_OK;
    for (int separate_sums = 0; separate_sums < (request->sums_stay ? 2 : 1) && !fits && !rc;
         separate_sums++) {
        struct adapting a = {
            .request = request, .old = old, .way = way, .separate_sums = separate_sums, .arena = arena};
        rc = adapt(&a, arena, ret_plan, &fits, err);
    }
    if (!rc)
        *ret_fits = fits;
    return rc;
}
