/* SPDX-License-Identifier: Apache-2.0
 *
 * A setting is a degree for each type of GPU, and a number of micro-batches. All settings are searched quickly, and the
 * best few thoroughly. Then, in the order of their quick results, every small setting that could still be better is
 * exhausted. The bound is the least over the settings. A setting that is not exhausted has the bound of the relaxation
 * or of bound_raise.h.
 */
#include "planner/cluster/cluster_planner.h"

#include "planner/cluster/bound/bound_raise.h"
#include "planner/cluster/bound/relaxation.h"
#include "planner/cluster/cluster_planner_internal.h"
#include "planner/cluster/mixed.h"
#include "planner/cluster/policies/cluster_policies.h"
#include "planner/cluster/programs.h"
#include "planner/cluster/search/arrangement_search.h"
#include "planner/cluster/search/settings.h"
#include "planner/cluster/search/update_limit.h"
#include "planner/cluster/sim/cluster_replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEGREES = 4, /* 1, 2, 4, 8 */
    THOROUGH_SETTINGS = 3,
    AWAY_SETTINGS = 2, /* settings with hosts searched thoroughly, if something fits without hosts */
    EFFORT_DEFAULT = 2,
    QUICK_EVALUATIONS = 500,
    THOROUGH_EVALUATIONS = 8000,
    SHAKING_EVALUATIONS = 40000,
    LARGE_UNITS = 32,          /* above this, the two budgets above are multiplied by units / 8 */
    EARLY_EVALUATIONS = 20000, /* exhaustion of a setting before the thorough search */
    EXHAUSTION_EVALUATIONS = 50000,
    BOUND_RAISE_STEPS = 60000000, /* with fewer, twelve units would keep a gap */
    BOUND_RAISE_UNITS = 24,
    BOUND_RAISE_FACTOR = 4, /* multiplies the steps if a setting has more than BOUND_RAISE_UNITS */
    EXHAUSTION_UNITS = 12,  /* larger settings have too many sets of pipelines */
    SHORTER_UPDATES = 4
};

#define SHORTER_UPDATE 0.75
#define WORTH_MORE     (1 - 1e-3) /* a step shorter than this times the best is worth another search */
#define FAR_BEHIND     1.3

const char *const ah_words_cluster_search[] = {"both", "exact", "graph", NULL};

/* ---- keeping the best ---- */

/* Copies a draft to the arena as the best arrangement of `policy`. */
static int keep_draft(struct ah_cluster_planning *p, enum ah_cluster_policy policy,
                      const struct ah_setting *setting, const struct ah_draft *draft, double us,
                      struct ah_error *err)
{
    struct ah_stage *stages = ah_arena_array(p->arena, draft->n_stages, sizeof *stages);
    struct ah_pipeline *pipelines =
        ah_arena_array(p->arena, draft->arrangement.n_pipelines, sizeof *pipelines);
    size_t at = 0;
    if (!stages || !pipelines)
        return ah_error_memory(err);
    for (size_t i = 0; i < draft->n_stages; i++)
        stages[i] = draft->stages[i];
    for (size_t i = 0; i < draft->arrangement.n_pipelines; i++) {
        pipelines[i] = draft->arrangement.pipelines[i];
        pipelines[i].stages = stages + at;
        at += pipelines[i].n_stages;
    }
    p->best[policy] = (struct ah_cluster_found){{pipelines, draft->arrangement.n_pipelines}, setting, us};
    ah_arrangement_share(&setting->problem, &p->best[policy].arrangement);
    return AH_OK;
}

static bool may_continue(struct ah_cluster_planning *p)
{
    const struct ah_cluster_request *request = p->request;
    p->done++;
    return !request->progress || !request->progress(request->context, p->done, p->planned);
}

static int fail_interrupted(struct ah_error *err)
{
    return ah_error_set(err, AH_E_INTERRUPTED, "interrupted while planning");
}

/* Fits `draft` under the problem's own limit and returns its longest update; 0: nothing is away, or it does not fit. */
static double first_limit_us(const struct ah_cluster_problem *problem, const struct ah_draft *draft,
                             struct ah_draft *scratch)
{
    ah_draft_copy(scratch, draft);
    for (size_t p = 0; p < scratch->arrangement.n_pipelines; p++)
        if (!ah_pipeline_fit(problem, &scratch->arrangement.pipelines[p]))
            return 0;
    return ah_update_limit_longest_us(&scratch->arrangement);
}

/* Continues the search from `draft`, first with its longest update as the limit, then briefly with shorter limits. A
 * single search has one limit, and under a high limit it prefers short passes to a short update. */
static int search_within(struct ah_cluster_planning *p, const struct ah_setting *setting,
                         const struct ah_arrangement_search_limits *limits, struct ah_draft *draft,
                         double *step_us, struct ah_error *err)
{
    const struct ah_arrangement_search_limits brief = {.improvements = limits->improvements};
    struct ah_cluster_problem limited = setting->problem;
    struct ah_arrangement_search_limits now = *limits;
    struct ah_draft found = {0};
    int rc = ah_draft_init(&found, &limited, err);
    if (!rc)
        limited.update_limit_us = first_limit_us(&setting->problem, draft, &found);
    for (int worse = 0; !rc && worse < SHORTER_UPDATES && limited.update_limit_us > 0;) {
        struct ah_arrangement_search_result result;
        now.start = worse ? NULL : &draft->arrangement;
        rc = ah_arrangement_search_run(&limited, &now, INFINITY, &found, &result, err);
        p->evaluations += rc ? 0 : result.evaluations;
        bool better = !rc && result.step_us < *step_us;
        worse = !rc && result.step_us < *step_us * WORTH_MORE ? 0 : worse + 1;
        if (better) {
            *step_us = result.step_us;
            ah_draft_copy(draft, &found);
        }
        now = worse ? brief : *limits;
        limited.update_limit_us = better ? ah_update_limit_longest_us(&draft->arrangement)
                                         : limited.update_limit_us * SHORTER_UPDATE;
    }
    ah_draft_release(&found);
    return rc;
}

static int search_setting(struct ah_cluster_planning *p, struct ah_setting *setting,
                          const struct ah_arrangement_search_limits *limits, double none_above_us,
                          struct ah_arrangement_search_result *ret_result, struct ah_error *err)
{
    struct ah_arrangement_search_limits started = *limits;
    struct ah_draft draft = {0};
    if (!may_continue(p))
        return fail_interrupted(err);
    started.start = setting->start.n_pipelines ? &setting->start : NULL;
    int rc = ah_draft_init(&draft, &setting->problem, err);
    if (!rc)
        rc = ah_arrangement_search_run(&setting->problem, &started, none_above_us, &draft, ret_result, err);
    if (!rc)
        p->evaluations += ret_result->evaluations;
    if (!rc && setting->away && limits->shaking && !isinf(ret_result->step_us))
        rc = search_within(p, setting, &started, &draft, &ret_result->step_us, err);
    if (!rc && ret_result->step_us < p->best[AH_CLUSTER_POLICY_OPTIMAL].us)
        rc = keep_draft(p, AH_CLUSTER_POLICY_OPTIMAL, setting, &draft, ret_result->step_us, err);
    ah_draft_release(&draft);
    return rc;
}

static int by_quick_result(const void *a, const void *b)
{
    const struct ah_setting *p = a, *q = b;
    if (p->quick_us < q->quick_us || p->quick_us > q->quick_us)
        return p->quick_us < q->quick_us ? -1 : 1;
    return (p->index > q->index) - (p->index < q->index);
}

static int by_bound(const void *a, const void *b)
{
    const struct ah_setting *p = a, *q = b;
    if (p->bound_us < q->bound_us || p->bound_us > q->bound_us)
        return p->bound_us < q->bound_us ? -1 : 1;
    return (p->index > q->index) - (p->index < q->index);
}

/* Sorts the settings, and keeps each best arrangement pointing to its own setting. */
static void sort_settings(struct ah_cluster_planning *p, int (*order)(const void *, const void *))
{
    size_t index[AH_CLUSTER_POLICIES];
    for (size_t i = 0; i < AH_CLUSTER_POLICIES; i++)
        index[i] = p->best[i].setting ? p->best[i].setting->index : SIZE_MAX;
    qsort(p->settings, p->n_settings, sizeof *p->settings, order);
    for (size_t s = 0; s < p->n_settings; s++)
        for (size_t i = 0; i < AH_CLUSTER_POLICIES; i++)
            if (p->settings[s].index == index[i])
                p->best[i].setting = &p->settings[s];
}

static int search_quickly(struct ah_cluster_planning *p, struct ah_error *err)
{
    const struct ah_arrangement_search_limits limits = {.improvements = QUICK_EVALUATIONS};
    int rc = AH_OK;
    sort_settings(p, by_bound);
    for (size_t i = 0; i < p->n_settings && !rc; i++) {
        struct ah_arrangement_search_result result;
        if (p->settings[i].bound_us >= p->best[AH_CLUSTER_POLICY_OPTIMAL].us)
            continue;
        rc = search_setting(p, &p->settings[i], &limits, INFINITY, &result, err);
        if (!rc)
            p->settings[i].quick_us = result.step_us;
    }
    sort_settings(p, by_quick_result);
    return rc;
}

/* ---- searches with hosts ---- */

/* Fits a found arrangement again with blocks on hosts, and keeps the result if it is our best. */
static int use_hosts(struct ah_cluster_planning *p, const struct ah_cluster_found *found,
                     struct ah_error *err)
{
    struct ah_setting *setting = ah_arena_array(p->arena, 1, sizeof *setting);
    struct ah_draft draft = {0};
    double us;
    if (!setting)
        return ah_error_memory(err);
    if (isinf(found->us) || found->setting->away || !ah_setting_has_hosts(found->setting))
        return AH_OK;
    *setting = *found->setting;
    setting->away = true;
    setting->problem.update_limit_us = INFINITY;
    int rc = ah_draft_init(&draft, &setting->problem, err);
    if (rc)
        return rc;
    ah_draft_take(&draft, &found->arrangement);
    rc = ah_update_limit_choose(&setting->problem, &draft.arrangement, &us, &p->evaluations, err);
    if (!rc && us < p->best[AH_CLUSTER_POLICY_OPTIMAL].us)
        rc = keep_draft(p, AH_CLUSTER_POLICY_OPTIMAL, setting, &draft, us, err);
    ah_draft_release(&draft);
    return rc;
}

static int use_hosts_for_ours(struct ah_cluster_planning *p, struct ah_error *err)
{
    const struct ah_cluster_found ours = p->best[AH_CLUSTER_POLICY_OPTIMAL];
    return use_hosts(p, &ours, err);
}

/* ---- other systems ---- */

/* Runs a policy on a setting, and keeps its arrangement if it is faster than those on other settings. */
static int ask_policy(struct ah_cluster_planning *p, enum ah_cluster_policy policy,
                      struct ah_setting *setting, struct ah_error *err)
{
    const struct ah_cluster_request *request = p->request;
    const struct ah_cluster_problem *problem = &setting->problem;
    double *rates = ah_arena_array(p->arena, problem->n_kinds, sizeof *rates);
    struct ah_draft draft = {0};
    double us = INFINITY;
    if (!rates)
        return ah_error_memory(err);
    for (size_t k = 0; k < problem->n_kinds; k++)
        for (size_t g = 0; g < request->cluster->n_gpus; g++)
            if (!strcmp(request->cluster->gpus[g].name, problem->kinds[k].gpu))
                rates[k] = ah_cluster_gpu_flops_per_s(&request->cluster->gpus[g], request->training.dtype);
    const struct ah_cluster_policy_input input = {problem,
                                                  rates,
                                                  request->model->width,
                                                  request->training.seq,
                                                  request->model->vocabulary,
                                                  setting->training.batch / setting->training.micro_batches};
    int rc = ah_draft_init(&draft, problem, err);
    rc = rc ? rc : ah_cluster_policies_search(&input, policy, p->best[policy].us, &draft, &us, err);
    if (!rc && us < p->best[policy].us)
        rc = keep_draft(p, policy, setting, &draft, us, err);
    if (!rc && !isinf(us) && (!setting->start.n_pipelines || us < setting->start_us)) {
        setting->start = p->best[policy].arrangement;
        setting->start_us = us;
    }
    ah_draft_release(&draft);
    return rc;
}

/* Joins all symmetric settings with as many micro-batches as `from`, for policies with a degree for each stage.
 * `ret_mixed` is NULL if `from` is not the first of these settings. */
static int mix_settings(struct ah_cluster_planning *p, const struct ah_setting *from,
                        struct ah_setting **ret_mixed, struct ah_error *err)
{
    const struct ah_cluster_problem *alike[DEGREES];
    size_t n = 0;
    *ret_mixed = NULL;
    for (size_t i = 0; i < p->n_settings; i++) {
        const struct ah_setting *setting = &p->settings[i];
        if (setting->away || !ah_setting_is_symmetric(p->request, setting) ||
            setting->training.micro_batches != from->training.micro_batches)
            continue;
        if (!n && setting != from)
            return AH_OK;
        alike[n++] = &setting->problem;
    }
    struct ah_setting *mixed = ah_arena_array(p->arena, 1, sizeof *mixed);
    if (!mixed)
        return ah_error_memory(err);
    *mixed = *from;
    mixed->index = SIZE_MAX;
    *ret_mixed = mixed;
    return ah_mixed_build(alike, n, p->arena, &mixed->problem, err);
}

static int search_policy(struct ah_cluster_planning *p, enum ah_cluster_policy policy, struct ah_error *err)
{
    bool symmetric = ah_cluster_policies_symmetric(policy);
    int rc = AH_OK;
    for (size_t i = 0; i < p->n_settings && !rc; i++) {
        struct ah_setting *setting = &p->settings[i];
        if (!may_continue(p))
            return fail_interrupted(err);
        if (setting->away || !ah_setting_is_symmetric(p->request, setting))
            continue;
        rc = symmetric ? AH_OK : mix_settings(p, setting, &setting, err);
        if (!rc && setting)
            rc = ask_policy(p, policy, setting, err);
    }
    return rc;
}

/* Searches with every policy. If the request allows a policy's degrees, its arrangement is also a candidate of ours. */
static int search_policies(struct ah_cluster_planning *p, struct ah_error *err)
{
    struct ah_cluster_found *ours = &p->best[AH_CLUSTER_POLICY_OPTIMAL];
    int rc = AH_OK;
    for (unsigned policy = 0; policy < AH_CLUSTER_POLICIES && !rc; policy++) {
        if (policy == AH_CLUSTER_POLICY_OPTIMAL)
            continue;
        rc = search_policy(p, policy, err);
        bool allowed = ah_cluster_policies_symmetric(policy) || p->request->tp_mode == AH_TP_ASYMMETRIC;
        if (!rc && allowed && p->best[policy].us < ours->us)
            *ours = p->best[policy];
        if (!rc && allowed)
            rc = use_hosts(p, &p->best[policy], err);
    }
    return rc;
}

/* ---- our own search ---- */

/* Searches the `most` settings with the best quick results, either with hosts (`away`) or without. Settings with hosts
 * are skipped if they are far behind the best. */
static int search_best(struct ah_cluster_planning *p, bool away, size_t most, struct ah_error *err)
{
    const uint32_t effort = p->request->effort ? p->request->effort : EFFORT_DEFAULT;
    int rc = AH_OK;
    for (size_t i = 0, n = 0; i < p->n_settings && n < most && !rc; i++) {
        struct ah_setting *setting = &p->settings[i];
        const double best_us = p->best[AH_CLUSTER_POLICY_OPTIMAL].us;
        struct ah_arrangement_search_result result;
        if (isinf(setting->quick_us) || setting->exhausted || setting->away != away ||
            (away && n && setting->quick_us > FAR_BEHIND * best_us))
            continue;
        n++;
        const size_t units = ah_problem_units(&setting->problem);
        const uint64_t parts = units > LARGE_UNITS ? units / 8 : 1;
        const struct ah_arrangement_search_limits limits = {
            .improvements = parts * (THOROUGH_EVALUATIONS / 4) << effort,
            .shaking = parts * (SHAKING_EVALUATIONS / 4) << effort};
        rc = search_setting(p, setting, &limits, INFINITY, &result, err);
    }
    return rc;
}

/* Searches without hosts, fits that result with hosts, then searches settings with hosts. */
static int search_thoroughly(struct ah_cluster_planning *p, struct ah_error *err)
{
    bool fits_without = false;
    for (size_t i = 0; i < p->n_settings; i++)
        fits_without |= !p->settings[i].away && !isinf(p->settings[i].quick_us);
    int rc = search_best(p, false, THOROUGH_SETTINGS, err);
    rc = rc ? rc : use_hosts_for_ours(p, err);
    return rc ? rc : search_best(p, true, fits_without ? AWAY_SETTINGS : THOROUGH_SETTINGS, err);
}

static int exhaust(struct ah_cluster_planning *p, uint64_t budget, struct ah_error *err)
{
    int rc = AH_OK;
    p->exhausted = p->left_out_bound_us >= p->best[AH_CLUSTER_POLICY_OPTIMAL].us;
    for (size_t i = 0; i < p->n_settings && !rc; i++) {
        struct ah_setting *setting = &p->settings[i];
        if (setting->away_as_well) /* the same setting with hosts includes this one */
            continue;
        const double best_us = p->best[AH_CLUSTER_POLICY_OPTIMAL].us;
        struct ah_arrangement_search_result result = {.exhausted =
                                                          setting->exhausted || setting->bound_us >= best_us};
        if (budget && !result.exhausted && ah_problem_units(&setting->problem) <= EXHAUSTION_UNITS) {
            const struct ah_arrangement_search_limits limits = {.improvements = 1, .exhaustion = budget};
            rc = search_setting(p, setting, &limits, best_us, &result, err);
            if (!rc && result.exhausted)
                setting->bound_us = result.bound_us;
        }
        setting->exhausted = result.exhausted;
        p->exhausted &= result.exhausted;
    }
    return rc;
}

/* Raises the bounds of settings that are not exhausted; this may prove that nothing is faster. */
static int raise_bounds(struct ah_cluster_planning *p, struct ah_error *err)
{
    const uint32_t effort = p->request->effort ? p->request->effort : EFFORT_DEFAULT;
    const double best_us = p->best[AH_CLUSTER_POLICY_OPTIMAL].us;
    uint64_t steps = (uint64_t)(BOUND_RAISE_STEPS / 4) << effort;
    if (isinf(best_us))
        return AH_OK;
    for (size_t i = 0; i < p->n_settings; i++)
        if (ah_problem_units(&p->settings[i].problem) > BOUND_RAISE_UNITS) {
            steps *= BOUND_RAISE_FACTOR;
            break;
        }
    int rc = ah_bound_raise(p->settings, p->n_settings, fmin(best_us, p->left_out_bound_us), steps, err);
    return rc ? rc : exhaust(p, 0, err);
}

/* ---- the whole planning ---- */

/* Makes the settings with their bounds. */
static int make_settings(struct ah_cluster_planning *p, struct ah_error *err)
{
    struct ah_settings made;
    for (size_t i = 0; i < AH_CLUSTER_POLICIES; i++)
        p->best[i].us = INFINITY;
    int rc = ah_settings_make(p->request, p->arena, &made, err);
    if (rc)
        return rc;
    p->settings = made.items;
    p->n_settings = made.n;
    p->left_out = made.left_out;
    p->left_out_bound_us = made.left_out_bound_us;
    for (size_t i = 0; i < made.n && !rc; i++) {
        made.items[i].quick_us = INFINITY;
        rc = ah_relaxation_time(&made.items[i].problem, &made.items[i].bound_us, err);
    }
    return rc;
}

static int search_all(struct ah_cluster_planning *p, struct ah_error *err)
{
    bool exact = p->request->search != AH_CLUSTER_SEARCH_GRAPH;
    uint32_t effort = p->request->effort ? p->request->effort : EFFORT_DEFAULT;
    p->planned = (2 + AH_CLUSTER_POLICIES) * p->n_settings + THOROUGH_SETTINGS + 1;
    int rc = p->request->sums_stay ? AH_OK : search_policies(p, err); /* no policy keeps the groups of sums */
    rc = rc ? rc : search_quickly(p, err);
    if (!rc && exact)
        rc = exhaust(p, EARLY_EVALUATIONS, err);
    if (!rc && !p->exhausted && p->request->search != AH_CLUSTER_SEARCH_EXACT)
        rc = search_thoroughly(p, err);
    if (!rc && !p->exhausted && p->request->search == AH_CLUSTER_SEARCH_EXACT)
        rc = use_hosts_for_ours(p, err);
    if (!rc && !p->exhausted && exact)
        rc = exhaust(p, (uint64_t)(EXHAUSTION_EVALUATIONS / 4) << effort, err);
    if (!rc && !p->exhausted && exact)
        rc = raise_bounds(p, err);
    return rc;
}

/* Adds the programs of all ranks, and the times predicted by replaying them. */
static int add_programs(const struct ah_cluster_planning *p, enum ah_cluster_policy policy,
                        struct ah_cluster_plan *plan, struct ah_error *err)
{
    const struct ah_cluster_found *best = &p->best[policy];
    struct ah_programs_input input = {.model = p->request->model,
                                      .cluster = p->request->cluster,
                                      .training = p->request->training,
                                      .problem = &best->setting->problem,
                                      .arrangement = &best->arrangement,
                                      .estimated = best->setting->estimated};
    input.training.micro_batches = plan->training.micro_batches;
    int rc = ah_programs_fill(&input, p->arena, plan, err);
    return rc ? rc : ah_cluster_replay_predict(plan, err);
}

int ah_cluster_planner_plan(const struct ah_cluster_request *request, struct ah_arena *arena,
                            struct ah_cluster_plan *ret_plan, struct ah_cluster_shortage *ret_shortage,
                            struct ah_error *err)
{
    struct ah_cluster_planning p = {.request = request, .arena = arena};
    int rc = make_settings(&p, err);
    p.planned = p.n_settings;
    if (!rc)
        rc = request->policy == AH_CLUSTER_POLICY_OPTIMAL ? search_all(&p, err)
                                                          : search_policy(&p, request->policy, err);
    if (rc)
        return rc;
    if (isinf(p.best[request->policy].us))
        return ah_cluster_result_fail(&p, ret_shortage, err);
    rc = ah_cluster_result_write(&p, request->policy, ret_plan, err);
    return rc ? rc : add_programs(&p, request->policy, ret_plan, err);
}

int ah_cluster_planner_compare(const struct ah_cluster_request *request, struct ah_arena *arena,
                               struct ah_cluster_plan *ret_plans[AH_CLUSTER_POLICIES], struct ah_error *err)
{
    struct ah_cluster_planning p = {.request = request, .arena = arena};
    struct ah_cluster_plan *plans = ah_arena_array(arena, AH_CLUSTER_POLICIES, sizeof *plans);
    int rc = plans ? make_settings(&p, err) : ah_error_memory(err);
    rc = rc ? rc : search_all(&p, err);
    for (unsigned i = 0; i < AH_CLUSTER_POLICIES && !rc; i++) {
        ret_plans[i] = isinf(p.best[i].us) ? NULL : &plans[i];
        if (ret_plans[i])
            rc = ah_cluster_result_write(&p, i, ret_plans[i], err);
    }
    return rc;
}
