/* SPDX-License-Identifier: Apache-2.0
 *
 * Costs: how long things take on one machine, for one job. Plain numbers; planner/cost/pricing.h makes them.
 *
 * Times are those of an op running by itself. Ops that run at the same time share resources: while it works, each lane
 * demands a share of each resource (capacity 1), and the lanes' weights set the speeds (device/virtual/share.h).
 */
#ifndef AH_RUNTIME_SCHEDULE_COSTS_H
#define AH_RUNTIME_SCHEDULE_COSTS_H

#include "runtime/schedule/job.h"

struct ah_cost_group {
    double forward_us; /* per micro-batch; in the head: forward, loss and backward */
    double backward_us[AH_ACTIVATIONS_WAYS];
    uint64_t update_ops; /* ops of an update on the device */
};

struct ah_costs {
    struct ah_cost_group *groups;            /* by group of the job */
    double send_output_us, send_gradient_us; /* of a stage of a pipeline, per micro-batch */
    double h2d_latency_us, h2d_us_per_byte;
    double d2h_latency_us, d2h_us_per_byte;

    /* Per trained parameter. */
    double host_adam_us;
    double host_accumulate_us; /* adds one micro-batch's gradient to the sum on the host */
    double device_adam_us;
    double device_accumulate_us;
    double device_squares_us; /* sum of squares of a gradient on the device, with clipping */
    double host_squares_us;   /* the same on the host, for gradients added up there */

    double host_us_per_byte; /* gathering rows of a table */
    double norm_us;   /* the norm of all blocks and the clip factor, once the sums of squares are known */
    double launch_us; /* least time of an op of the compute lane; 0: not known */
    struct ah_plan_sharing sharing;
    struct ah_plan_threads threads;
    bool has_threads; /* host lane and compute lane share cores */
    bool estimated;   /* some times are not measured block times */
};

/* Returns the time of work made of `ops` ops of the compute lane: no less than it takes to launch them one by one. */
static inline double ah_costs_launched(double us, uint64_t ops, double launch_us)
{
    double launches_us = (double)ops * launch_us;
    return us > launches_us ? us : launches_us;
}

/* Time of updating a block of group `g` on the device. */
static inline double ah_costs_update_us(const struct ah_costs *costs, const struct ah_job *job, size_t g)
{
    return ah_costs_launched(costs->device_adam_us * (double)job->groups[g].trained_parameters,
                             costs->groups[g].update_ops, costs->launch_us);
}

#endif
