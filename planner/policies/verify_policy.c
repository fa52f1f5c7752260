/* SPDX-License-Identifier: Apache-2.0
 *
 * Verify policies: checks that the blocks of a plan are a placement of its policy. Most numbers of the policy's family
 * (policies.c) are read from the blocks; a number with few values is tried with each. One placement must be the plan's.
 */
#include "planner/planner.h"
#include "planner/policies/policies.h"
#include "planner/verify.h"

#include <string.h>

enum { TRIED = 3 }; /* a number with at most this many values is tried with each of them */

struct family {
    const struct ah_plan *plan;
    struct ah_job job; /* each block's kind and whether it is trained, as placements need */
    struct ah_config *configs;
    uint32_t sizes[AH_POLICIES_NUMBERS], read[AH_POLICIES_NUMBERS];
};

static void read_numbers(struct family *f)
{
    uint32_t n = (uint32_t)f->plan->n_blocks;
    uint32_t host_weights_end = 0, first_host_weights = n, host_end = 0, first_host = n, recompute_end = 0;
    for (uint32_t i = n; i-- > 0;) {
        const struct ah_plan_block *block = &f->plan->blocks[i];
        if (block->weights == AH_WEIGHTS_HOST) {
            first_host_weights = i;
            host_weights_end = host_weights_end ? host_weights_end : i + 1;
        }
        if (block->optimizer == AH_OPTIMIZER_HOST) {
            first_host = i;
            host_end = host_end ? host_end : i + 1;
        }
        if (block->activations == AH_ACTIVATIONS_RECOMPUTE && !recompute_end)
            recompute_end = i;
    }
    uint32_t patrick_end = host_end > host_weights_end ? host_end : host_weights_end;
    const uint32_t numbers[][AH_POLICIES_NUMBERS] = {
        [AH_POLICY_RESIDENT] = {0},
        [AH_POLICY_ZERO_OFFLOAD] = {0, host_end},
        [AH_POLICY_PATRICKSTAR] = {0, host_weights_end, n - patrick_end},
        [AH_POLICY_STRONGHOLD] = {0, first_host_weights < n ? first_host_weights - 1 : n - 2, 0},
        [AH_POLICY_STREAM] = {0, 0},
        [AH_POLICY_AUTOHETE_PAPER] = {recompute_end,
                                      host_weights_end ? n + host_weights_end : n - first_host},
    };
    memcpy(f->read, numbers[f->plan->policy], sizeof f->read);
}

static int make_job(struct family *f, struct ah_arena *arena, struct ah_error *err)
{
    const struct ah_plan *plan = f->plan;
    size_t n = plan->n_blocks;
    f->job = (struct ah_job){
        .training = plan->training, .adds_up = ah_plan_adds_up(plan), .n_blocks = n, .n_groups = n};
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

static bool is_placed_so(struct family *f, const uint32_t numbers[AH_POLICIES_NUMBERS])
{
    if (!ah_policies_configs(&f->job, f->plan->policy, numbers, f->configs))
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

static bool is_placed(struct family *f, size_t number, uint32_t numbers[AH_POLICIES_NUMBERS])
{
    if (number == AH_POLICIES_NUMBERS)
        return is_placed_so(f, numbers);
    bool tried = f->sizes[number] <= TRIED;
    for (uint32_t k = 0; k < (tried ? f->sizes[number] : 1); k++) {
        numbers[number] = tried ? k : f->read[number];
        if (is_placed(f, number + 1, numbers))
            return true;
    }
    return false;
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
    uint32_t numbers[AH_POLICIES_NUMBERS];
    if (!is_ordered(plan))
        return ah_error_set(err, AH_E_DOCUMENT,
                            "policy: '%s' does not order lanes by '%s', micro-batches by '%s'",
                            ah_words_policy[plan->policy], ah_words_scheduling[plan->scheduling],
                            ah_words_micro_order[plan->micro_batch_order]);
    if (plan->policy == AH_POLICY_OPTIMAL)
        return AH_OK;
    int rc = make_job(&f, &arena, err);
    if (!rc) {
        read_numbers(&f);
        ah_policies_sizes(&f.job, plan->policy, f.sizes);
        if (!is_placed(&f, 0, numbers))
            rc = ah_error_set(err, AH_E_DOCUMENT,
                              "policy: is '%s', which does not produce such block "
                              "configs",
                              ah_words_policy[plan->policy]);
    }
    ah_arena_release(&arena);
    return rc;
}
