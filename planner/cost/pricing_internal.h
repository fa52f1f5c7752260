/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by pricing's files: rates as time per unit of work, block times, and how much lanes slow each other down.
 *
 * Every number is a sum or product of the document's rates and of weights independent of them, and each operation
 * rounds once. So a faster rate never makes any time longer, not even by one bit.
 */
#ifndef AH_PLANNER_COST_PRICING_INTERNAL_H
#define AH_PLANNER_COST_PRICING_INTERNAL_H

#include "planner/cost/pricing.h"

/* the resource of the host's memory */
#define AH_PRICING_DRAM "host_dram"

/* A measured matrix product of the job's dtype, on the threads of compute. */
struct ah_pricing_product {
    enum ah_matmul_form form;
    double log_m, log_n, log_k;
    double us_per_flop;
};

struct ah_pricing_rates {
    struct ah_pricing_product *products; /* in the arena */
    size_t n_products;
    double best_us_per_flop;   /* time per flop of the fastest product */
    double device_us_per_byte; /* time per byte read or written by a pass over device memory */
    double host_us_per_byte;   /* time per byte read or written by the host lane */
    double launch_us;          /* the shortest time of a compute op */
};

/* Inputs of ah_pricing_blocks(), which computes all groups' times; its `ret_estimated`: some were not measured. */
struct ah_pricing_blocks_of {
    const struct ah_machine *machine;
    const struct ah_job *job;
    const struct ah_pricing_rates *rates;
    uint64_t threads; /* threads of the compute lane */
};
int ah_pricing_blocks(const struct ah_pricing_blocks_of *of, struct ah_cost_group *groups,
                      bool *ret_estimated, struct ah_error *err);

/* Computes the resources implied by the document's `beside` measurements, with room for one more. AH_E_MEMORY. */
int ah_pricing_share(const struct ah_machine *machine, struct ah_arena *arena,
                     struct ah_plan_sharing *ret_sharing, struct ah_error *err);

/* Adds the cores as a resource if compute has all of them, or if several ranks have more threads than cores. */
void ah_pricing_share_cores(const struct ah_machine *machine, const struct ah_plan_threads *threads,
                            uint64_t ranks, struct ah_plan_sharing *sharing);

/* Changes the costs of a GPU alone to those of one of the job's equal GPUs (pricing_gpus.c). */
void ah_pricing_gpus(const struct ah_machine *machine, const struct ah_job *job, struct ah_costs *costs);

#endif
