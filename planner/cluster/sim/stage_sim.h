/* SPDX-License-Identifier: Apache-2.0
 *
 * Stage simulation: plays an arrangement on a simulated clock. One forward, one backward (1F1B), with contention on the
 * network.
 *
 * Stage i of P runs min(m, P-1-i) forwards, then a forward and a backward alternately, then the remaining backwards.
 * After each pass it sends and computes nothing meanwhile, but it receives while it computes. Between nodes a transfer
 * occupies the NICs of both ends for its bytes; transfers follow one another in the order of their start. When the last
 * backward of all owners of a segment is past the segment, its gradients are added up, highest segment first, parallel
 * to all other work but through the same NICs. Then all stages update; the gradient's norm is not known earlier.
 *
 * Invariants, checked by tests:
 * 1. A stage has at most min(m, P-i) micro-batches between their forward and the end of their backward.
 * 2. No pipeline ends before ah_pipeline_time(), its time without contention. That is at least the path of one
 *    micro-batch through all stages, and at least the busiest stage's time for its m micro-batches.
 * 3. With equal stages and free transfers a pipeline takes (m + P - 1)(forward + backward).
 */
#ifndef AH_PLANNER_CLUSTER_SIM_STAGE_SIM_H
#define AH_PLANNER_CLUSTER_SIM_STAGE_SIM_H

#include "base/error.h"
#include "planner/cluster/cluster_problem.h"
#include "planner/cluster/segments.h"

struct ah_stage_sim_result {
    double step_us;
    double
        limit_us; /* (optional) set by the caller: a longer step may be reported as INFINITY, and the rest of the result
                   * is then invalid; 0: no limit */
    double pipelines_us; /* end of the last backward of all pipelines */
    double exposed_sync_us;
    double update_us;
    double bubble; /* fraction of pipelines_us in which units of stages neither compute nor send */
    size_t busiest_pipeline, busiest_stage;
    double *pipeline_us; /* (optional) the caller's, by pipeline: end of its last backward */
    double *busy_us;     /* (optional) the caller's, by stage, over all pipelines */
    uint64_t *in_flight; /* (optional) the caller's, by stage: largest number of micro-batches at once */
    double *starts_us;   /* (optional) the caller's, by stage: start of each of its 2m passes, in its order */
    double *sums_us;     /* (optional) the caller's, by segment: start of its sum */
};

/* Simulates an arrangement with fitted stages. AH_E_MEMORY. */
int ah_stage_sim_run(const struct ah_cluster_problem *problem, const struct ah_arrangement *arrangement,
                     struct ah_stage_sim_result *result, struct ah_error *err);

/* Computes the time of one pipeline without contention, which is never more than in ah_stage_sim_run(). AH_E_MEMORY. */
int ah_pipeline_time(const struct ah_cluster_problem *problem, const struct ah_pipeline *pipeline,
                     double *ret_us, struct ah_error *err);

#endif
