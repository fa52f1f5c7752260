/* SPDX-License-Identifier: Apache-2.0
 *
 * Verify policies: checks that the numbers which a plan states for its policy give the plan's blocks (policies.c).
 */
#include "planner/planner.h"
#include "planner/policies/policies.h"
#include "planner/verify.h"

#include <inttypes.h>

struct family {
    const struct ah_plan *plan;
    struct ah_job job; /* each block's kind and whether it is trained, as placements need */
    struct ah_config *configs;
    uint32_t numbers[AH_PLAN_POLICY_NUMBERS];
};

static int read_numbers(struct family *f, struct ah_error *err)
{
    const struct ah_plan *plan = f->plan;
    uint32_t sizes[AH_PLAN_POLICY_NUMBERS];
    const size_t n = plan->policy == AH_POLICY_OPTIMAL ? 0 : ah_policies_sizes(&f->job, plan->policy, sizes);
    if (plan->n_policy_numbers != n)
        return ah_error_set(err, AH_E_DOCUMENT, "policy_numbers: there are %zu; '%s' has %zu",
                            plan->n_policy_numbers, ah_words_policy[plan->policy], n);
    for (size_t i = 0; i < n; i++) {
        if (plan->policy_numbers[i] >= sizes[i])
            return ah_error_set(err, AH_E_DOCUMENT,
                                "policy_numbers[%zu]: is %" PRIu64 "; '%s' has less than %" PRIu32, i,
                                plan->policy_numbers[i], ah_words_policy[plan->policy], sizes[i]);
        f->numbers[i] = (uint32_t)plan->policy_numbers[i];
    }
    return AH_OK;
}

static int make_job(struct family *f, struct ah_arena *arena, struct ah_error *err)
{
    const struct ah_plan *plan = f->plan;
    size_t n = plan->n_blocks;
    f->job = (struct ah_job){
        .training = plan->training, .adds_up = ah_plan_adds_up(plan), .n_blocks = n, .n_groups = n};
    f->job.part.shards = plan->part ? plan->part->shards : 0;
    f->job.groups = ah_arena_array(arena, n, sizeof *f->job.groups);
    f->job.group_of = ah_arena_array(arena, n, sizeof *f->job.group_of);
    f->configs = ah_arena_array(arena, n, sizeof *f->configs);
    if (!f->job.groups || !f->job.group_of || !f->configs)
        return ah_error_memory(err);
    bool backward = false;
    for (size_t i = 0; i < n; i++) {
        bool trained = plan->blocks[i].optimizer != AH_OPTIMIZER_NONE;
        backward = backward || trained;
        f->job.group_of[i] = (uint32_t)i;
        f->job.groups[i] = (struct ah_job_group){.kind = !i           ? AH_BLOCK_EMBEDDING
                                                         : i + 1 == n ? AH_BLOCK_HEAD
                                                                      : AH_BLOCK_LAYER,
                                                 .backward = backward,
                                                 .trained_elements = trained};
    }
    return AH_OK;
}

static bool is_placed(struct family *f)
{
    if (!ah_policies_configs(&f->job, f->plan->policy, f->numbers, f->configs))
        return false;
    for (size_t i = 0; i < f->plan->n_blocks; i++) {
        const struct ah_plan_block *block = &f->plan->blocks[i];
        const struct ah_config *config = &f->configs[i];
        if (block->activations != (enum ah_activations)config->activations ||
            block->weights != (enum ah_weights)config->weights ||
            block->optimizer != (enum ah_optimizer)config->optimizer ||
            block->accumulator != (enum ah_accumulator)config->accumulator)
            return false;
    }
    return true;
}

static bool is_ordered(const struct ah_plan *plan)
{
    bool chooses = ah_planner_takes_scheduling(plan->policy);
    bool loops = plan->policy == AH_POLICY_OPTIMAL || plan->policy == AH_POLICY_STREAM;
    return (chooses || plan->scheduling == AH_SCHEDULING_FIFO) &&
           (loops || plan->micro_batch_order == AH_MICRO_BATCH_MAJOR);
}

int ah_verify_policy(const struct ah_plan *plan, struct ah_error *err)
{
    struct family f = {.plan = plan};
    struct ah_arena arena = {0};
    if (!is_ordered(plan))
        return ah_error_set(err, AH_E_DOCUMENT,
                            "policy: '%s' does not order lanes by '%s', micro-batches by '%s'",
                            ah_words_policy[plan->policy], ah_words_scheduling[plan->scheduling],
                            ah_words_micro_order[plan->micro_batch_order]);
    int rc = make_job(&f, &arena, err);
    rc = rc ? rc : read_numbers(&f, err);
    if (!rc && plan->policy != AH_POLICY_OPTIMAL && !is_placed(&f))
        rc = ah_error_set(err, AH_E_DOCUMENT,
                          "policy: is '%s', which does not produce such block configs with these "
                          "policy_numbers",
                          ah_words_policy[plan->policy]);
    ah_arena_release(&arena);
    return rc;
}
