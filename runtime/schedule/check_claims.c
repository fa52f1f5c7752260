/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks claims of a plan that need no simulation: names of blocks, tokens per second, the solver's numbers, and the
 * rows of the other policies.
 */
#include "runtime/schedule/check_internal.h"

#include <string.h>

static const char source[] = "follows from the rest of the plan";

static int check_names(const struct ah_plan *plan, struct ah_error *err)
{
    for (size_t i = 0; i < plan->n_blocks; i++) {
        char name[AH_NAME_MAX];
        ah_name_block(ah_names_of_plan(plan), i, name);
        if (strcmp(plan->blocks[i].name, name) != 0)
            return ah_error_set(err, AH_E_DOCUMENT, "blocks[%zu].name: is '%.80s'; '%s' %s", i,
                                plan->blocks[i].name, name, source);
    }
    return AH_OK;
}

/* Fails if two resources have one name, or if a plan with a single micro-batch is block-major, which means nothing. */
static int check_words(const struct ah_plan *plan, struct ah_error *err)
{
    const struct ah_plan_sharing *sharing = &plan->sharing;
    for (size_t i = 0; i < sharing->n_resources; i++)
        for (size_t j = 0; j < i; j++)
            if (!strcmp(sharing->resources[i].name, sharing->resources[j].name))
                return ah_error_set(err, AH_E_DOCUMENT, "sharing.resources[%zu].name: '%.80s' appears twice",
                                    i, sharing->resources[i].name);
    if (plan->training.micro_batches > 1 || plan->micro_batch_order == AH_MICRO_BATCH_MAJOR)
        return AH_OK;
    return ah_error_set(err, AH_E_DOCUMENT,
                        "micro_batch_order: is '%s'; with one micro-batch it must be "
                        "'%s'",
                        ah_words_micro_order[plan->micro_batch_order],
                        ah_words_micro_order[AH_MICRO_BATCH_MAJOR]);
}

static int check_rate(const struct ah_plan *plan, struct ah_error *err)
{
    double tokens = (double)plan->training.batch * (double)plan->training.seq;
    if (plan->time.step_us <= 0)
        return ah_error_set(err, AH_E_DOCUMENT, "time.step_us: is 0; a step takes time");
    return ah_check_number("tokens_per_s", plan->tokens_per_s, tokens / plan->time.step_us * 1e6, source,
                           err);
}

static enum ah_plan_status status_of(const struct ah_plan_solver *solver)
{
    if (solver->bound_us <= 0)
        return AH_PLAN_NO_BOUND;
    return solver->bound_us >= solver->objective_us * (1 - 1e-6) ? AH_PLAN_OPTIMAL : AH_PLAN_WITHIN_GAP;
}

static int check_solver(const struct ah_plan *plan, struct ah_error *err)
{
    const struct ah_plan_solver *solver = &plan->solver;
    double gap = solver->bound_us > 0 ? (solver->objective_us - solver->bound_us) / solver->objective_us : 0;
    enum ah_plan_status status = status_of(solver);
    if (solver->objective_us != plan->time.step_us)
        return ah_error_set(err, AH_E_DOCUMENT, "solver.objective_us: is %.17g; time.step_us is %.17g",
                            solver->objective_us, plan->time.step_us);
    if (solver->status != status)
        return ah_error_set(err, AH_E_DOCUMENT, "solver.status: is '%s'; '%s' follows from its bound_us",
                            ah_words_plan_status[solver->status], ah_words_plan_status[status]);
    return ah_check_number("solver.gap", solver->gap, gap, "follows from its bound_us", err);
}

/* Checks that the list of policies is empty, or has all except the plan's own and `optimal`, once each, in order. */
static int check_alternatives(const struct ah_plan *plan, struct ah_error *err)
{
    size_t next = 0;
    for (int policy = 0; policy < AH_POLICY_OPTIMAL && plan->n_alternatives; policy++) {
        if (policy == (int)plan->policy)
            continue;
        if (next == plan->n_alternatives || (int)plan->alternatives[next].policy != policy)
            return ah_error_set(err, AH_E_DOCUMENT,
                                "alternatives[%zu]: '%s' is missing; a plan of policy '%s' lists all others",
                                next, ah_words_policy[policy], ah_words_policy[plan->policy]);
        next++;
    }
    if (next == plan->n_alternatives)
        return AH_OK;
    return ah_error_set(err, AH_E_DOCUMENT,
                        "alternatives[%zu]: '%s' does not belong in a plan of policy "
                        "'%s'",
                        next, ah_words_policy[plan->alternatives[next].policy],
                        ah_words_policy[plan->policy]);
}

/* Checks that no alternative is faster than the bound. A plan of policy `optimal` must also be at least as fast as
 * `autohete-paper`, from which its search starts. */
static int check_alternative_times(const struct ah_plan *plan, struct ah_error *err)
{
    for (size_t i = 0; i < plan->n_alternatives; i++) {
        const struct ah_plan_alternative *other = &plan->alternatives[i];
        bool paper = other->policy == AH_POLICY_AUTOHETE_PAPER && plan->policy == AH_POLICY_OPTIMAL;
        double least = paper ? plan->time.step_us : plan->solver.bound_us;
        if (other->feasible && other->step_us < least * (1 - 1e-9))
            return ah_error_set(err, AH_E_DOCUMENT, "alternatives[%zu].step_us: is %.17g; %s is %.17g", i,
                                other->step_us, paper ? "time.step_us" : "solver.bound_us", least);
    }
    return AH_OK;
}

int ah_check_claims(const struct ah_plan *plan, struct ah_error *err)
{
    static int (*const parts[])(const struct ah_plan *, struct ah_error *) = {
        check_names, check_words, check_rate, check_solver, check_alternatives, check_alternative_times};
    int rc = AH_OK;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !rc; i++)
        rc = parts[i](plan, err);
    return rc;
}
