/* SPDX-License-Identifier: Apache-2.0
 *
 * Costs: the times of one job's work on one machine, as plain numbers. planner/cost/pricing.h computes them.
 *
 * Each time is that of an op running alone. Ops that run at the same time share resources. A lane at work demands a
 * part of each resource (capacity 1). Demands and the lanes' weights set the speeds (device/virtual/share.h).
 */
#ifndef AH_RUNTIME_SCHEDULE_COSTS_H
#define AH_RUNTIME_SCHEDULE_COSTS_H

#include "runtime/schedule/job.h"

struct ah_cost_group {
    double forward_us; /* per micro-batch; for the head, of forward, loss and backward together */
    double backward_us[AH_ACTIVATIONS_WAYS];
    uint64_t update_ops; /* number of ops of an update on the device */
};

struct ah_costs {
    struct ah_cost_group *groups;            /* by group of the job */
    double send_output_us, send_gradient_us; /* of a pipeline's stage, per micro-batch */
    double h2d_latency_us, h2d_us_per_byte;
    double d2h_latency_us, d2h_us_per_byte;
    double net_latency_us, net_us_per_byte; /* for what one rank sends to all others that share its states */

    /* The times down to host_squares_us are per trained parameter. */
    double host_adam_us;
    double host_accumulate_us; /* for adding one micro-batch's gradient to the sum on the host */
    double device_adam_us;
    double device_accumulate_us;
    double device_squares_us; /* for summing the squares of a gradient on the device; needed for clipping */
    double host_squares_us;   /* for summing the squares of gradients that are added up on the host */

    double host_us_per_byte; /* for gathering rows of a table */
    double norm_us; /* for the norm of all blocks and the clip factor, after the sums of squares are known */
    double launch_us; /* least time of an op of the compute lane; 0: not known */
    struct ah_plan_sharing sharing;
    struct ah_plan_threads threads;
    bool has_threads; /* the host lane and the compute lane share cores */
    bool estimated;   /* some times are not derived from measured times of blocks */
};

/* Returns `us` or, if longer, the time to launch `ops` ops of the compute lane one by one. */
static inline double ah_costs_launched(double us, uint64_t ops, double launch_us)
{
    double launches_us = (double)ops * launch_us;
    return us > launches_us ? us : launches_us;
}

/* Returns the time of updating a block of group `g` on the device. */
static inline double ah_costs_update_us(const struct ah_costs *costs, const struct ah_job *job, size_t g)
{
    return ah_costs_launched(costs->device_adam_us * (double)job->groups[g].own_trained_parameters,
                             costs->groups[g].update_ops, costs->launch_us);
}

#endif
