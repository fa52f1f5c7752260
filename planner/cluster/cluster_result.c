/* SPDX-License-Identifier: Apache-2.0
 *
 * Result: writes the best arrangement as a document, with its bound and notes on what was not searched. Or reports that
 * nothing fits, and whether that is proven.
 */
#include "planner/cluster/cluster_planner_internal.h"

#include "base/units.h"
#include "planner/cluster/bound/relaxation.h"
#include "planner/cluster/cluster_document.h"
#include "planner/cluster/offload_costs.h"
#include "planner/cluster/policies/cluster_policies.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static enum ah_tp_mode mode_of(const struct ah_cluster_request *request, enum ah_cluster_policy policy)
{
    if (policy == AH_CLUSTER_POLICY_OPTIMAL)
        return request->tp_mode;
    return ah_cluster_policies_symmetric(policy) ? AH_TP_SYMMETRIC : AH_TP_ASYMMETRIC;
}

/* Sets the certificate: the least bound of all settings. Plans of other systems get no bound. */
static void certify(const struct ah_cluster_planning *p, struct ah_cluster_plan *plan)
{
    double bound_us = plan->predicted.step_us;
    if (plan->policy != AH_CLUSTER_POLICY_OPTIMAL) {
        plan->solver = (struct ah_plan_solver){
            .status = AH_PLAN_NO_BOUND, .objective_us = bound_us, .evaluations = p->evaluations};
        return;
    }
    for (size_t i = 0; i < p->n_settings; i++)
        if (!p->settings[i].away_as_well)
            bound_us = fmin(bound_us, p->settings[i].bound_us);
    bound_us = fmin(bound_us, p->left_out_bound_us);
    if (p->exhausted)
        bound_us = plan->predicted.step_us;
    plan->solver =
        (struct ah_plan_solver){.status = p->exhausted ? AH_PLAN_OPTIMAL : AH_PLAN_WITHIN_GAP,
                                .objective_us = plan->predicted.step_us,
                                .bound_us = bound_us,
                                .gap = (plan->predicted.step_us - bound_us) / plan->predicted.step_us,
                                .evaluations = p->evaluations};
}

static bool add_annotation(const struct ah_cluster_planning *p, const char *key, const char *text,
                           struct ah_cluster_plan *plan)
{
    const char *copy = ah_arena_strdup(p->arena, text);
    plan->annotations[plan->n_annotations++] = (struct ah_text_pair){key, copy};
    return copy;
}

static int fill_without(const struct ah_cluster_planning *p, struct ah_cluster_plan *plan,
                        struct ah_error *err)
{
    return ah_restriction_list(ah_offload_techniques_of(p->request->without), p->arena, &plan->without,
                               &plan->n_without, err);
}

/* Notes how many settings were not searched, and what the request restricts. */
static int annotate(const struct ah_cluster_planning *p, struct ah_cluster_plan *plan, struct ah_error *err)
{
    char text[160];
    bool done = true;
    plan->annotations = ah_arena_array(p->arena, 4, sizeof *plan->annotations);
    if (!plan->annotations)
        return ah_error_memory(err);
    if (p->left_out && plan->policy == AH_CLUSTER_POLICY_OPTIMAL) {
        snprintf(text, sizeof text,
                 "%zu combinations of degrees were not searched; none of them can be faster than %.0f us",
                 p->left_out, p->left_out_bound_us);
        done = add_annotation(p, "solver", text, plan);
    }
    if (p->request->sums_stay)
        done = done && add_annotation(p, "sums", "groups of micro-batches from another plan", plan);
    if (p->request->tp && !p->request->sums_stay) {
        snprintf(text, sizeof text, "%" PRIu64 ", as asked for", p->request->tp);
        done = done && add_annotation(p, "tp", text, plan);
    }
    return done ? AH_OK : ah_error_memory(err);
}

int ah_cluster_result_write(const struct ah_cluster_planning *p, enum ah_cluster_policy policy,
                            struct ah_cluster_plan *ret_plan, struct ah_error *err)
{
    const struct ah_cluster_found *best = &p->best[policy];
    struct ah_cluster_plan plan = ah_cluster_document_begin(p->request, &best->setting->training);
    plan.tp_mode = mode_of(p->request, policy);
    plan.policy = policy;
    int rc = ah_cluster_document_fill(p->request->cluster, &best->setting->problem, &best->arrangement,
                                      p->arena, &plan, err);
    if (rc)
        return rc;
    plan.predicted.estimated = best->setting->estimated;
    certify(p, &plan);
    rc = annotate(p, &plan, err);
    rc = rc ? rc : fill_without(p, &plan, err);
    if (rc)
        return rc;
    *ret_plan = plan;
    return AH_OK;
}

/* Reports why nothing fits. The size of the states or exhaustion may prove it. With hosts, exhaustion proves nothing,
 * because it tries only the first blocks of a stage away, and only equal shares of a host. */
int ah_cluster_result_fail(const struct ah_cluster_planning *p, struct ah_cluster_shortage *ret_shortage,
                           struct ah_error *err)
{
    struct ah_cluster_shortage shortage = {.proven = true};
    bool hosts = false, any = false;
    for (size_t i = 0; i < p->n_settings; i++) {
        double needed, available;
        if (p->settings[i].away_as_well)
            continue;
        ah_relaxation_bytes(&p->settings[i].problem, &needed, &available);
        shortage.proven &= needed > available;
        hosts |= p->settings[i].away;
        if (!any || needed - available < shortage.needed_bytes - shortage.available_bytes) {
            shortage.needed_bytes = needed;
            shortage.available_bytes = available;
        }
        any = true;
    }
    char needed_text[AH_UNITS_TEXT_MAX], available_text[AH_UNITS_TEXT_MAX];
    bool short_of_states = shortage.proven;
    shortage.proven |= p->exhausted && !hosts;
    *ret_shortage = shortage;
    if (short_of_states)
        return ah_error_set(
            err, AH_E_INFEASIBLE,
            "'%s' does not fit cluster '%s': weights, gradients and states take %s, its %s have %s",
            p->request->model->name, p->request->cluster->name,
            ah_units_print_bytes(needed_text, (uint64_t)shortage.needed_bytes),
            hosts ? "GPUs and hosts" : "GPUs",
            ah_units_print_bytes(available_text, (uint64_t)shortage.available_bytes));
    return ah_error_set(
        err, shortage.proven ? AH_E_INFEASIBLE : AH_E_NO_PLAN,
        "no arrangement of cluster '%s' %s for '%s'%s: GPU memory is too small for the blocks and their "
        "activations",
        p->request->cluster->name, shortage.proven ? "fits" : "was found that fits", p->request->model->name,
        p->request->sums_stay ? " with the groups of micro-batches of the other plan" : "");
}
