/* SPDX-License-Identifier: Apache-2.0
 *
 * GPUs: the costs of one of G equal GPUs that share a host and train together (shards, runtime/schedule/job.h).
 *
 * All G run the same ops at the same time, so each has 1/G of what belongs to the host:
 *
 *   1. The host's threads. With a GPU, its updates take G times as long, because all cores update for all GPUs. On a
 *      CPU device, a lane's ops take G x threads / cores times as long if that is more than 1.
 *   2. HOST_DRAM. A lane that takes the fraction a of it at full speed takes G x a of the share, or G x a / f if its
 *      ops already take f times as long. If that is more than 1, its ops take as much longer, and it takes all.
 *   3. ALL_CORES, on a CPU device if the lanes of all ranks have more threads than there are cores.
 *
 * Each GPU has its own links to the host and to the others. A message to all others takes a latency like that of the
 * link to the host, and its bytes at the fabric's rate.
 */
#include "planner/cost/pricing_internal.h"

#include <math.h>
#include <string.h>

/* Returns the cores that a lane keeps busy while it works; on a GPU, compute keeps none. */
static double cores_of(const struct ah_plan_threads *threads, int lane)
{
    if (lane == AH_PLAN_LANE_COMPUTE)
        return (double)threads->compute;
    if (lane == AH_PLAN_LANE_HOST)
        return (double)threads->host;
    return lane == AH_PLAN_LANE_NET ? 0 : 1;
}

static void share_threads(const struct ah_machine *machine, const struct ah_costs *costs, double gpus,
                          double slower[AH_PLAN_LANES])
{
    const double cores = (double)machine->host.cores;
    for (int lane = 0; lane < AH_PLAN_LANES; lane++)
        slower[lane] = costs->has_threads ? fmax(1, gpus * cores_of(&costs->threads, lane) / cores) : 1;
    if (!costs->has_threads)
        slower[AH_PLAN_LANE_HOST] = gpus;
}

static void share_memory(struct ah_plan_sharing *sharing, double gpus, double slower[AH_PLAN_LANES])
{
    for (size_t i = 0; i < sharing->n_resources; i++)
        for (int lane = 0; !strcmp(sharing->resources[i].name, AH_PRICING_DRAM) && lane < AH_PLAN_LANES;
             lane++) {
            double *demand = &sharing->resources[i].demand[lane];
            const double asked = gpus * *demand / slower[lane];
            slower[lane] *= fmax(1, asked);
            *demand = fmin(1, asked);
        }
}

static void slow_lanes(const struct ah_job *job, struct ah_costs *costs, const double slower[AH_PLAN_LANES])
{
    const double compute = slower[AH_PLAN_LANE_COMPUTE], host = slower[AH_PLAN_LANE_HOST];
    double *const of_compute[] = {&costs->device_adam_us, &costs->device_accumulate_us,
                                  &costs->device_squares_us, &costs->launch_us};
    double *const of_host[] = {&costs->host_adam_us, &costs->host_accumulate_us, &costs->host_squares_us,
                               &costs->host_us_per_byte};
    for (size_t i = 0; i < sizeof of_compute / sizeof *of_compute; i++)
        *of_compute[i] *= compute;
    for (size_t i = 0; i < sizeof of_host / sizeof *of_host; i++)
        *of_host[i] *= host;
    for (size_t g = 0; g < job->n_groups; g++) {
        costs->groups[g].forward_us *= compute;
        for (int way = 0; way < AH_ACTIVATIONS_WAYS; way++)
            costs->groups[g].backward_us[way] *= compute;
    }
    costs->h2d_us_per_byte *= slower[AH_PLAN_LANE_H2D];
    costs->d2h_us_per_byte *= slower[AH_PLAN_LANE_D2H];
}

void ah_pricing_gpus(const struct ah_machine *machine, const struct ah_job *job, struct ah_costs *costs)
{
    const double gpus = (double)ah_job_shards(job);
    double slower[AH_PLAN_LANES];
    if (gpus < 2)
        return;
    share_threads(machine, costs, gpus, slower);
    share_memory(&costs->sharing, gpus, slower);
    slow_lanes(job, costs, slower);
}

void ah_pricing_fabric(const struct ah_machine *machine, double bytes_per_s, struct ah_costs *costs)
{
    costs->net_latency_us = machine->n_links ? machine->links[0].latency_us : 0;
    costs->net_us_per_byte = 1e6 / bytes_per_s;
    costs->norm_us += 2 * costs->net_latency_us; /* all GPUs' sums go to one, the norm back */
    costs->sharing.weights.of[AH_PLAN_LANE_NET] = 1;
}
