/* SPDX-License-Identifier: Apache-2.0
 *
 * HexiScale's own cost model. It only guides HexiScale's search; the result is timed by our simulation.
 * docs/policies/hexiscale.md has the sources and lists what the formulas leave out.
 */
#ifndef AH_PLANNER_CLUSTER_POLICIES_HEXISCALE_COSTS_H
#define AH_PLANNER_CLUSTER_POLICIES_HEXISCALE_COSTS_H

#include <stddef.h>
#include <stdint.h>

/* The GPUs, sorted by node, and the model. */
struct ah_hexiscale_model {
    size_t n_gpus;
    const double *flops_per_s; /* (gpus) */
    const double *bytes_per_s; /* (gpus, gpus) */
    size_t layers;
    double width, seq, vocabulary, sequences; /* sequences: of a micro-batch */
};

/* A pipeline's GPUs in the order of its stages. Each stage i has the next tp[i] GPUs. */
struct ah_hexiscale_pipeline {
    size_t *gpus, *tp, *layers; /* layers: of each stage */
    size_t n_gpus, n_stages;
};

/* Returns the time of a pipeline for `micro_batches`, including filling and draining. */
double ah_hexiscale_pipeline_s(const struct ah_hexiscale_model *model,
                               const struct ah_hexiscale_pipeline *pipeline, uint64_t micro_batches);

/* Returns the time of a step of all pipelines. */
double ah_hexiscale_step_s(const struct ah_hexiscale_model *model,
                           const struct ah_hexiscale_pipeline *pipelines, size_t n, uint64_t micro_batches);

#endif
