/* SPDX-License-Identifier: Apache-2.0
 *
 * What a cluster plan says of a whole step: its groups of micro-batches, and whether another plan can continue it.
 */
#include "schemas/cluster_plan.h"

#include <stdio.h>

size_t ah_cluster_plan_first_sums(const uint64_t *sums, size_t n_sums, size_t n_pipelines)
{
    const size_t n = n_sums > n_pipelines ? n_sums - n_pipelines + 1 : 0;
    for (size_t i = 1; i < n; i++)
        if (sums[i] > 1)
            return n;
    return 0;
}

uint64_t ah_cluster_plan_dealt(uint64_t micro_batches, size_t n, size_t p)
{
    return micro_batches / n + (p < micro_batches % n);
}

int ah_cluster_plan_step(const struct ah_cluster_plan *plan, struct ah_arena *arena,
                         struct ah_plan_training *ret_training, struct ah_error *err)
{
    const struct ah_cluster_plan_training *of = &plan->training;
    struct ah_plan_training training = {.batch = of->batch,
                                        .micro_batches = of->micro_batches,
                                        .seq = of->seq,
                                        .dtype = of->dtype,
                                        .state_dtype = of->state_dtype,
                                        .clip = of->clip,
                                        .trainable = of->trainable,
                                        .n_trainable = of->n_trainable,
                                        .sums = of->sums,
                                        .n_sums = of->n_sums};
    if (!of->n_sums && !plan->sharding) {
        training.sums = ah_arena_array(arena, plan->n_pipelines, sizeof *training.sums);
        if (!training.sums)
            return ah_error_memory(err);
        for (size_t i = 0; i < plan->n_pipelines; i++)
            training.sums[i] = plan->pipelines[i].micro_batches;
        training.n_sums = ah_plan_join_sums(training.sums, plan->n_pipelines);
    }
    if (plan->n_programs)
        training.tied = plan->programs[0].training.tied;
    if (!training.n_trainable && plan->n_programs) { /* everything, as plans spell it */
        training.trainable = plan->programs[0].training.trainable;
        training.n_trainable = plan->programs[0].training.n_trainable;
    }
    *ret_training = training;
    return AH_OK;
}

/* Returns the degree of all stages; 0: their degrees differ. */
static uint64_t degree_of(const struct ah_cluster_plan *plan)
{
    const uint64_t tp = plan->pipelines[0].stages[0].tp;
    for (size_t p = 0; p < plan->n_pipelines; p++)
        for (size_t i = 0; i < plan->pipelines[p].n_stages; i++)
            if (plan->pipelines[p].stages[i].tp != tp)
                return 0;
    return tp;
}

int ah_cluster_plan_differs(const struct ah_cluster_plan *a, const struct ah_cluster_plan *b,
                            bool *ret_differs, char ret_path[AH_SIGNATURE_PATH_MAX], struct ah_error *err)
{
    const struct ah_cluster_plan *plans[] = {a, b};
    const bool predicted = a->n_programs && b->n_programs;
    const uint64_t tp = degree_of(a);
    struct ah_signature signatures[2];
    struct ah_arena arena = {0};
    int rc = AH_OK;
    for (size_t i = 0; i < 2 && !rc; i++) {
        struct ah_plan step = {.inputs.model = plans[i]->inputs.model};
        rc = ah_cluster_plan_step(plans[i], &arena, &step.training, err);
        if (!predicted)
            step.training.tied = AH_TIED_JOINT;
        signatures[i] = ah_plan_signature(&step, predicted ? plans[i]->programs[0].numeric_signature.device
                                                           : AH_DEVICE_CPU);
    }
    if (!rc) {
        *ret_differs = ah_signature_differs(&signatures[0], &signatures[1], ret_path);
        if (!*ret_differs && (!tp || tp != degree_of(b))) {
            snprintf(ret_path, AH_SIGNATURE_PATH_MAX, "tp");
            *ret_differs = true;
        }
    }
    ah_arena_release(&arena);
    return rc;
}
