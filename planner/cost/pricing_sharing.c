/* SPDX-License-Identifier: Apache-2.0
 *
 * Sharing: computes shared resources from the fraction of its speed that each lane keeps while another lane runs.
 *
 * If lanes demand more of a resource than there is, the clock gives them speeds in proportion to their weights
 * (device/virtual/share.h). Say lanes p and q keep k_p and k_q of their speeds while both run. Then:
 *
 *   1. WEIGHTS, one for each lane, such that w_p / w_q is near k_p / k_q for every pair. They are the least squares of
 *      the logarithms; pairs that lose much count most. Where three pairs contradict each other, a pair keeps its
 *      total, k_p + k_q, divided in the ratio of the weights: s_p, s_q.
 *   2. HOST_DRAM, used by all lanes that move host memory, on a CPU device also by compute. Demands satisfy a_p s_p +
 *      a_q s_q <= 1 for every pair that slows down, and a_p + a_q <= 1 for every other pair. Host Adam's demand is its
 *      measured share of the memory's bandwidth; the others' are as large as these rows allow. So three lanes at once
 *      share one resource, as they share memory. An emulating machine has no such resource: its lanes sleep most of
 *      their time, and slow each other down only as pairs, by the throttle.
 *   3. A RESOURCE OF A PAIR, with demand 1 / (s_p + s_q) by both, unless host_dram slows them that much. Its name is
 *      "link" for the two directions of copying, and both lanes' names for other pairs.
 *   4. ALL_CORES, if compute has every core of a CPU device. A lane demands its threads' share of the cores, a copy one
 *      core's share. The resource is needed because pairs were measured with separate cores.
 *
 * Every demand is at most 1: a lane that runs alone runs at full speed. If k_p + k_q < 1, running the two in turn would
 * be faster. Sharing cannot express that, so both are raised to a sum of 1.
 */
#include "planner/cost/pricing_internal.h"

#include <math.h>

enum { LANES = 4, PAIRS = LANES * (LANES - 1) / 2, RESOURCES_MAX = PAIRS + 2, SWEEPS = 200 };

#define KEPT_LEAST 0.05
#define TIGHT      1e-9
#define LITTLE     1e-2

struct pair {
    int p, q;
    double kept_p, kept_q;   /* measured fractions of full speed */
    double speed_p, speed_q; /* speeds to reach: divided in the ratio of the weights */
    const char *name;
};

struct sharing {
    struct pair pairs[PAIRS];
    double weight[LANES]; /* by enum ah_part */
    double demand[LANES]; /* demands on host_dram */
    bool in_memory[LANES];
};

static const char *const pair_names[LANES][LANES] = {
    [AH_PART_COMPUTE] =
        {[AH_PART_H2D] = "compute_h2d", [AH_PART_D2H] = "compute_d2h", [AH_PART_HOST_ADAM] = "cores"},
    [AH_PART_H2D] = {[AH_PART_D2H] = "link", [AH_PART_HOST_ADAM] = "h2d_host"},
    [AH_PART_D2H] = {[AH_PART_HOST_ADAM] = "d2h_host"},
};

static double kept(const struct ah_machine *machine, int part, int beside)
{
    double share = ah_machine_kept(machine, (enum ah_part)part, (enum ah_part)beside);
    return share > 1 ? 1 : share < KEPT_LEAST ? KEPT_LEAST : share;
}

static bool slows(const struct pair *pair)
{
    return pair->kept_p < 1 || pair->kept_q < 1;
}

static void read_pairs(struct sharing *s, const struct ah_machine *machine)
{
    struct pair *pair = s->pairs;
    for (int p = 0; p < LANES; p++)
        for (int q = p + 1; q < LANES; q++, pair++)
            *pair = (struct pair){.p = p,
                                  .q = q,
                                  .kept_p = kept(machine, p, q),
                                  .kept_q = kept(machine, q, p),
                                  .name = pair_names[p][q]};
}

/* ---- 1: weights ---- */

static double importance(const struct pair *pair)
{
    double lost = 2 - pair->kept_p - pair->kept_q;
    return lost * lost;
}

/* Returns the best logarithm of one lane's weight while the other lanes' weights stay fixed. */
static double best_log(const struct sharing *s, const double *log_weight, int lane)
{
    double sum = 0, all = 0;
    for (int i = 0; i < PAIRS; i++) {
        const struct pair *pair = &s->pairs[i];
        if ((pair->p != lane && pair->q != lane) || !slows(pair))
            continue;
        double ratio = log(pair->kept_p / pair->kept_q);
        double wanted = pair->p == lane ? log_weight[pair->q] + ratio : log_weight[pair->p] - ratio;
        sum += importance(pair) * wanted;
        all += importance(pair);
    }
    return all > 0 ? sum / all : 0;
}

static void fit_weights(struct sharing *s)
{
    double log_weight[LANES] = {0};
    double most = -INFINITY;
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (int lane = 0; lane < LANES; lane++)
            log_weight[lane] = best_log(s, log_weight, lane);
    for (int lane = 0; lane < LANES; lane++)
        most = log_weight[lane] > most ? log_weight[lane] : most;
    for (int lane = 0; lane < LANES; lane++)
        s->weight[lane] = exp(log_weight[lane] - most);
}

/* Divides the sum of a pair's kept speeds (raised to 1 if less) in the ratio of the weights; no speed exceeds 1. */
static void set_speeds(const struct sharing *s, struct pair *pair)
{
    double both = pair->kept_p + pair->kept_q;
    both = both < 1 ? 1 : both;
    double share = s->weight[pair->p] / (s->weight[pair->p] + s->weight[pair->q]);
    pair->speed_p = both * share;
    pair->speed_q = both - pair->speed_p;
    if (pair->speed_p > 1) {
        pair->speed_p = 1;
        pair->speed_q = both - 1;
    } else if (pair->speed_q > 1) {
        pair->speed_q = 1;
        pair->speed_p = both - 1;
    }
}

/* ---- 2: host_dram ---- */

static double speed_of(const struct pair *pair, int lane)
{
    if (!slows(pair))
        return 1;
    return pair->p == lane ? pair->speed_p : pair->speed_q;
}

/* Returns a pair's demand on host_dram at its intended speeds. */
static double dram_load(const struct sharing *s, const struct pair *pair)
{
    return s->demand[pair->p] * speed_of(pair, pair->p) + s->demand[pair->q] * speed_of(pair, pair->q);
}

/* Returns the largest demand of a lane while the other lanes' demands stay fixed. */
static double room(const struct sharing *s, int lane)
{
    double most = 1;
    for (int i = 0; i < PAIRS; i++) {
        const struct pair *pair = &s->pairs[i];
        if (pair->p != lane && pair->q != lane)
            continue;
        int other = pair->p == lane ? pair->q : pair->p;
        double left = (1 - s->demand[other] * speed_of(pair, other)) / speed_of(pair, lane);
        if (s->in_memory[other] && left < most)
            most = left;
    }
    return most;
}

/* Gives both directions of copying an equal first demand: the largest for which both have room. */
static void fit_copies(struct sharing *s)
{
    double both = 1;
    for (int i = 0; i < PAIRS; i++) {
        const struct pair *pair = &s->pairs[i];
        if (pair->p == AH_PART_H2D && pair->q == AH_PART_D2H)
            both = 1 / (speed_of(pair, pair->p) + speed_of(pair, pair->q));
    }
    both = fmin(both, fmin(room(s, AH_PART_H2D), room(s, AH_PART_D2H)));
    s->demand[AH_PART_H2D] = both;
    s->demand[AH_PART_D2H] = both;
}

static void fit_memory(struct sharing *s, const struct ah_machine *machine)
{
    static const int order[LANES] = {AH_PART_H2D, AH_PART_D2H, AH_PART_HOST_ADAM, AH_PART_COMPUTE};
    double share = 0;
    for (size_t i = 0; i < machine->n_adam; i++)
        if (machine->adam[i].side == AH_HOST && machine->adam[i].bandwidth_share > share)
            share = machine->adam[i].bandwidth_share;
    for (int lane = 0; lane < LANES; lane++)
        s->in_memory[lane] =
            !machine->emulates && (lane != AH_PART_COMPUTE || machine->device.kind == AH_DEVICE_CPU);
    s->demand[AH_PART_HOST_ADAM] = share > 0 && share < 1 ? share : 1;
    fit_copies(s);
    for (int i = 0; i < LANES; i++)
        if (s->in_memory[order[i]])
            s->demand[order[i]] = fmax(s->demand[order[i]], room(s, order[i]));
}

static bool pair_in_memory(const struct sharing *s, const struct pair *pair)
{
    return s->in_memory[pair->p] && s->in_memory[pair->q];
}

/* ---- 3: the resources ---- */

/* The lane that a part of the machine's measurements stands for. */
static const enum ah_plan_lane lane_of[LANES] = {[AH_PART_COMPUTE] = AH_PLAN_LANE_COMPUTE,
                                                 [AH_PART_H2D] = AH_PLAN_LANE_H2D,
                                                 [AH_PART_D2H] = AH_PLAN_LANE_D2H,
                                                 [AH_PART_HOST_ADAM] = AH_PLAN_LANE_HOST};

/* True if host_dram alone slows the pair to its speeds. A lane with almost no demand is not slowed by it. */
static bool memory_does(const struct sharing *s, const struct pair *pair)
{
    bool p_asks = pair->speed_p >= 1 || s->demand[pair->p] > LITTLE;
    bool q_asks = pair->speed_q >= 1 || s->demand[pair->q] > LITTLE;
    return pair_in_memory(s, pair) && p_asks && q_asks && dram_load(s, pair) >= 1 - TIGHT;
}

static void add_pair(const struct sharing *s, const struct pair *pair, struct ah_plan_sharing *sharing)
{
    if (!slows(pair) || memory_does(s, pair))
        return;
    struct ah_plan_resource *resource = &sharing->resources[sharing->n_resources++];
    resource->name = pair->name;
    double full = pair->speed_p >= 1 ? pair->speed_q : pair->speed_p;
    bool one_slows = pair->speed_p >= 1 || pair->speed_q >= 1;
    double both = 1 / (pair->speed_p + pair->speed_q);
    resource->demand[lane_of[pair->p]] = one_slows ? (pair->speed_p >= 1 ? 1 - full : 1) : both;
    resource->demand[lane_of[pair->q]] = one_slows ? (pair->speed_q >= 1 ? 1 - full : 1) : both;
}

static bool memory_is_shared(const struct sharing *s)
{
    for (int i = 0; i < PAIRS; i++)
        if (slows(&s->pairs[i]) && pair_in_memory(s, &s->pairs[i]))
            return true;
    return false;
}

int ah_pricing_share(const struct ah_machine *machine, struct ah_arena *arena,
                     struct ah_plan_sharing *ret_sharing, struct ah_error *err)
{
    struct sharing s = {0};
    struct ah_plan_sharing sharing = {0};
    sharing.resources = ah_arena_array(arena, RESOURCES_MAX, sizeof *sharing.resources);
    if (!sharing.resources)
        return ah_error_memory(err);
    read_pairs(&s, machine);
    fit_weights(&s);
    for (int i = 0; i < PAIRS; i++)
        set_speeds(&s, &s.pairs[i]);
    fit_memory(&s, machine);
    for (int part = 0; part < LANES; part++)
        sharing.weights.of[lane_of[part]] = s.weight[part];
    if (memory_is_shared(&s)) {
        struct ah_plan_resource *memory = &sharing.resources[sharing.n_resources++];
        memory->name = AH_PRICING_DRAM;
        for (int lane = 0; lane < LANES; lane++)
            memory->demand[lane_of[lane]] = s.in_memory[lane] ? s.demand[lane] : 0;
    }
    for (int i = 0; i < PAIRS; i++)
        add_pair(&s, &s.pairs[i], &sharing);
    *ret_sharing = sharing;
    return AH_OK;
}

/* ---- 4: all cores ---- */

void ah_pricing_share_cores(const struct ah_machine *machine, const struct ah_plan_threads *threads,
                            uint64_t ranks, struct ah_plan_sharing *sharing)
{
    const double cores = (double)machine->host.cores / (double)ranks; /* of each rank */
    const bool all = threads->compute >= machine->host.cores && machine->host.cores > 1;
    const bool crowded = ranks > 1 && (double)(threads->compute + threads->host) > cores;
    if (machine->device.kind != AH_DEVICE_CPU || (!all && !crowded))
        return;
    sharing->resources[sharing->n_resources++] = (struct ah_plan_resource){
        .name = "all_cores",
        .demand = {[AH_PLAN_LANE_COMPUTE] = fmin(1, (double)threads->compute / cores),
                   [AH_PLAN_LANE_H2D] = fmin(1, 1 / cores),
                   [AH_PLAN_LANE_D2H] = fmin(1, 1 / cores),
                   [AH_PLAN_LANE_HOST] = fmin(1, (double)threads->host / cores)}};
}
