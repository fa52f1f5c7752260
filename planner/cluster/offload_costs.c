/* SPDX-License-Identifier: Apache-2.0
 *
 * Offload costs: prices blocks whose states or weights are on the host (offload_costs.h has the model).
 */
#include "planner/cluster/offload_costs.h"

#include <math.h>

enum { RESERVE_PART = 16, BUFFERS = 2 };

#define RESERVE_MOST (UINT64_C(8) << 30)

const struct ah_offload_technique ah_offload_techniques[AH_OFFLOAD_TECHNIQUES] = {
    {AH_TECHNIQUE_HOST_OPTIMIZER, AH_WITHOUT_HOST_OPTIMIZER},
    {AH_TECHNIQUE_STREAMED, AH_WITHOUT_STREAMED},
    {AH_TECHNIQUE_HOST_WEIGHTS, AH_WITHOUT_HOST_WEIGHTS}};

unsigned ah_offload_without(uint32_t techniques)
{
    unsigned without = 0;
    for (size_t i = 0; i < AH_OFFLOAD_TECHNIQUES; i++)
        if (techniques >> ah_offload_techniques[i].technique & 1)
            without |= ah_offload_techniques[i].without;
    return without;
}

uint32_t ah_offload_techniques_of(unsigned without)
{
    uint32_t techniques = 0;
    for (size_t i = 0; i < AH_OFFLOAD_TECHNIQUES; i++)
        if (without & ah_offload_techniques[i].without)
            techniques |= UINT32_C(1) << ah_offload_techniques[i].technique;
    return techniques;
}

struct ah_offload_host ah_offload_share(const struct ah_cluster_node *node, uint64_t gpus)
{
    uint64_t reserve = node->host_memory_bytes / RESERVE_PART;
    if (node->host_link_bytes_per_s <= 0 || node->host_memory_bytes_per_s <= 0)
        return (struct ah_offload_host){0};
    reserve = reserve < RESERVE_MOST ? reserve : RESERVE_MOST;
    return (struct ah_offload_host){node->host_link_bytes_per_s, node->host_memory_bytes_per_s / (double)gpus,
                                    (node->host_memory_bytes - reserve) / gpus};
}

uint64_t ah_offload_tile_elements(const struct ah_job *job, uint64_t tp)
{
    uint64_t most = 1;
    for (size_t g = 0; g < job->n_groups; g++)
        most = job->groups[g].trained_elements > most ? job->groups[g].trained_elements : most;
    most = (most + tp - 1) / tp;
    most = most < AH_OFFLOAD_TILE_ELEMENTS_MAX ? most : AH_OFFLOAD_TILE_ELEMENTS_MAX;
    return (most + AH_PLAN_TILE_UNIT - 1) / AH_PLAN_TILE_UNIT * AH_PLAN_TILE_UNIT;
}

/* A GPU's part of a block, in the letters of the header; l and e are here in microseconds per byte. */
struct part {
    double n, u, w, g, G, held, z, adam, link, host;
};

static struct part part_of(const struct ah_offload_terms *terms, const struct ah_job_group *group,
                           uint64_t table_elements)
{
    const struct ah_job *job = terms->job;
    double t = (double)terms->tp;
    struct part p = {.n = (double)(group->flat_elements + table_elements) / t,
                     .u = (double)(group->trained_elements + table_elements) / t,
                     .w = (double)job->weight_bytes,
                     .g = (double)job->gradient_bytes,
                     .G = (double)terms->sum_bytes,
                     .held = (double)terms->held_bytes,
                     .z = (double)job->state_bytes,
                     .link = 1e6 / terms->host.link_bytes_per_s,
                     .host = 1e6 / terms->host.memory_bytes_per_s};
    p.adam = 2 * p.z + p.G + (job->training.dtype == AH_FP32 ? 2 * p.w : p.w);
    return p;
}

static uint64_t bytes_of(double bytes)
{
    return (uint64_t)ceil(bytes);
}

static void price_states(const struct ah_offload_terms *terms, const struct part *p,
                         const struct ah_problem_block *block, struct ah_problem_away *away)
{
    bool host = !(terms->without & AH_WITHOUT_HOST_OPTIMIZER);
    bool streamed = !(terms->without & AH_WITHOUT_STREAMED);
    double host_us = p->u * fmax(p->link * fmax(p->G, p->w), p->host * (p->adam + p->G + p->w));
    double streamed_us = p->u * p->z * fmax(p->link, 2 * p->host);
    if ((!host && !streamed) || p->u <= 0)
        return;
    host &= !streamed || host_us <= streamed_us;
    away->optimizer = host ? AH_OPTIMIZER_HOST : AH_OPTIMIZER_STREAMED;
    away->update_us = fmax(block->update_us, host ? host_us : streamed_us);
    away->host_bytes = bytes_of(p->u * (host && terms->job->training.dtype == AH_FP32 ? p->z + p->w : p->z));
    away->state_bytes = bytes_of(p->n * p->w + p->u * p->held);
}

static void price_weights(const struct ah_offload_terms *terms, const struct part *p,
                          const struct ah_problem_block *block, struct ah_problem_away *away)
{
    double fetched = p->n * p->w, added = terms->sums ? p->g + 2 * p->G : 0;
    double host_us = p->host * (fetched + p->u * (p->g + added));
    *away = (struct ah_problem_away){.weights = AH_WEIGHTS_HOST,
                                     .optimizer = AH_OPTIMIZER_HOST,
                                     .forward_us = fetched * fmax(p->link, p->host),
                                     .backward_us = fmax(p->link * fmax(fetched, p->u * p->g), host_us),
                                     .update_us = fmax(block->update_us, p->u * p->adam * p->host),
                                     .host_bytes = bytes_of(fetched + p->u * (p->z + p->held)),
                                     .staging_bytes = BUFFERS * bytes_of(fetched + p->u * p->g)};
}

void ah_offload_price(const struct ah_offload_terms *terms, const struct ah_job_group *group,
                      uint64_t table_elements, const struct ah_problem_block *block,
                      struct ah_problem_away ret_away[AH_PROBLEM_AWAYS])
{
    const unsigned needed = AH_WITHOUT_HOST_OPTIMIZER | AH_WITHOUT_HOST_WEIGHTS;
    const struct part p = part_of(terms, group, table_elements);
    ret_away[AH_OFFLOAD_STATES] = (struct ah_problem_away){
        .optimizer = AH_OPTIMIZER_DEVICE, .update_us = block->update_us, .state_bytes = block->state_bytes};
    price_states(terms, &p, block, &ret_away[AH_OFFLOAD_STATES]);
    ret_away[AH_OFFLOAD_WEIGHTS] = ret_away[AH_OFFLOAD_STATES];
    if (group->kind == AH_BLOCK_LAYER && p.u > 0 && !(terms->without & needed))
        price_weights(terms, &p, block, &ret_away[AH_OFFLOAD_WEIGHTS]);
}
