/* SPDX-License-Identifier: Apache-2.0
 *
 * HexiScale's own cost model, for its search alone: it scores nothing of ours. docs/policies/hexiscale.md has the
 * sources, and what the formulas leave out.
 */
#ifndef AH_PLANNER_CLUSTER_POLICIES_HEXISCALE_COSTS_H
#define AH_PLANNER_CLUSTER_POLICIES_HEXISCALE_COSTS_H

#include <stddef.h>
#include <stdint.h>

/* GPUs one by one, node after node. */
struct ah_hexiscale_model {
    size_t n_gpus;
    const double *flops_per_s; /* (gpus) */
    const double *bytes_per_s; /* (gpus, gpus) */
    size_t layers;
    double width, seq, vocabulary, sequences; /* of a micro-batch */
};

/* GPUs in the order of the stages, `tp` of them each. */
struct ah_hexiscale_pipeline {
    size_t *gpus, *tp, *layers; /* layers: of each stage */
    size_t n_gpus, n_stages;
};

/* How long a pipeline takes to fill and drain with `micro_batches`, forward and backward in one. */
double ah_hexiscale_pipeline_s(const struct ah_hexiscale_model *model,
                               const struct ah_hexiscale_pipeline *pipeline, uint64_t micro_batches);

/* How long a step of all pipelines takes. */
double ah_hexiscale_step_s(const struct ah_hexiscale_model *model,
                           const struct ah_hexiscale_pipeline *pipelines, size_t n, uint64_t micro_batches);

#endif
