/* SPDX-License-Identifier: Apache-2.0
 *
 *   1. Shards are placed one by one, in the order of the bundles, each on the way whose busiest resource ends first.
 *   2. Shards on the busiest resource are removed and placed again while this shortens the time. The plain choice is
 *      improved in the same way, and the better result is kept.
 *   3. The program is solved if it is small enough, unless step 2 is proven to be the best.
 *   4. A receiver gets a nearer option if that makes no resource busy for longer than T.
 *
 * At the end, shards of a bundle that move in the same way are joined into pieces.
 */
#include "planner/recovery/transfer_solver_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CLOSE 1e-9
enum { IMPROVEMENT_ROUNDS = 200 };

struct loading {
    const struct ah_transfer_problem *problem;
    double *seconds; /* by resource */
    int *ways;       /* by bundle, then shard: the leader, then the choice of each receiver */
    int *best_ways;
    int *trial; /* the ways of one shard: being tried (trial), and before the change (old) */
    int *old;
    size_t *way_of; /* by bundle: index of its first shard's way in `ways` */
    size_t n_ways;
};

const struct ah_transfer_option *ah_transfer_option_of(const struct ah_transfer_bundle *bundle, size_t leader,
                                                       size_t d, int choice)
{
    return choice == AH_TRANSFER_RELAYED ? &bundle->relays[leader * bundle->n_receivers + d]
                                         : &bundle->receivers[d].options[choice];
}

bool ah_transfer_allows(const struct ah_transfer_bundle *bundle, size_t leader, size_t d, int choice)
{
    if (choice == AH_TRANSFER_RELAYED)
        return d != leader && bundle->relays && bundle->relays[leader * bundle->n_receivers + d].n_passes;
    return d == leader || !bundle->once;
}

/* ---- one shard ---- */

/* Adds `sign` times the shard's time to each resource of an option. Returns the longest time of these resources. */
static double load_option(struct loading *l, const struct ah_transfer_option *option, uint64_t bytes,
                          double sign)
{
    double longest = 0;
    for (size_t i = 0; i < option->n_passes; i++) {
        size_t r = option->passes[i];
        l->seconds[r] += sign * (double)bytes / l->problem->rates[r];
        longest = fmax(longest, l->seconds[r]);
    }
    return longest;
}

static void load_way(struct loading *l, const struct ah_transfer_bundle *bundle, const int *way, double sign)
{
    for (size_t d = 0; d < bundle->n_receivers; d++)
        load_option(l, ah_transfer_option_of(bundle, (size_t)way[0], d, way[1 + d]), bundle->bytes, sign);
}

/* Returns the longest time of any resource on a way. */
static double longest_on(const struct loading *l, const struct ah_transfer_bundle *bundle, const int *way)
{
    double longest = 0;
    for (size_t d = 0; d < bundle->n_receivers; d++) {
        const struct ah_transfer_option *option =
            ah_transfer_option_of(bundle, (size_t)way[0], d, way[1 + d]);
        for (size_t i = 0; i < option->n_passes; i++)
            longest = fmax(longest, l->seconds[option->passes[i]]);
    }
    return longest;
}

/* Returns the option of receiver `d` with the shortest time of its busiest resource. Between equals, the nearest. */
static int choose_option(struct loading *l, const struct ah_transfer_bundle *bundle, size_t leader, size_t d)
{
    int best = AH_TRANSFER_RELAYED;
    double shortest = INFINITY;
    for (size_t i = 0; i <= bundle->receivers[d].n_options; i++) {
        int choice = i < bundle->receivers[d].n_options ? (int)i : AH_TRANSFER_RELAYED;
        if (!ah_transfer_allows(bundle, leader, d, choice))
            continue;
        const struct ah_transfer_option *option = ah_transfer_option_of(bundle, leader, d, choice);
        double longest = load_option(l, option, bundle->bytes, 1);
        load_option(l, option, bundle->bytes, -1);
        if (longest < shortest * (1 - CLOSE)) {
            shortest = longest;
            best = choice;
        }
    }
    return best;
}

/* Finds the best way for a shard, adds its times to the resources, and writes it to `way`. */
static void route_shard(struct loading *l, const struct ah_transfer_bundle *bundle, int *way)
{
    double shortest = INFINITY;
    for (size_t leader = 0; leader < bundle->n_receivers; leader++) {
        int *trial = l->trial;
        trial[0] = (int)leader;
        for (size_t d = 0; d < bundle->n_receivers; d++) {
            trial[1 + d] = choose_option(l, bundle, leader, d);
            load_option(l, ah_transfer_option_of(bundle, leader, d, trial[1 + d]), bundle->bytes, 1);
        }
        double longest = longest_on(l, bundle, trial);
        load_way(l, bundle, trial, -1);
        if (longest < shortest * (1 - CLOSE)) {
            shortest = longest;
            memcpy(way, trial, (1 + bundle->n_receivers) * sizeof *way);
        }
    }
    load_way(l, bundle, way, 1);
}

static int *way_at(const struct loading *l, int *ways, size_t b, size_t shard)
{
    return ways + l->way_of[b] + shard * (1 + l->problem->bundles[b].n_receivers);
}

/* ---- all shards ---- */

static size_t longest_resource(const struct loading *l)
{
    size_t longest = l->problem->n_resources;
    for (size_t r = 0; r < l->problem->n_resources; r++)
        if (l->seconds[r] > 0 && (longest == l->problem->n_resources || l->seconds[r] > l->seconds[longest]))
            longest = r;
    return longest;
}

static double time_of(struct loading *l, int *ways)
{
    const struct ah_transfer_problem *problem = l->problem;
    memset(l->seconds, 0, problem->n_resources * sizeof *l->seconds);
    for (size_t b = 0; b < problem->n_bundles; b++)
        for (size_t i = 0; i < problem->bundles[b].count; i++)
            load_way(l, &problem->bundles[b], way_at(l, ways, b, i), 1);
    size_t r = longest_resource(l);
    return r < problem->n_resources ? l->seconds[r] : 0;
}

static void route_all_shards(struct loading *l)
{
    const struct ah_transfer_problem *problem = l->problem;
    for (size_t b = 0; b < problem->n_bundles; b++)
        for (size_t i = 0; i < problem->bundles[b].count; i++)
            route_shard(l, &problem->bundles[b], way_at(l, l->ways, b, i));
}

static bool is_on(const struct ah_transfer_bundle *bundle, const int *way, size_t resource)
{
    for (size_t d = 0; d < bundle->n_receivers; d++) {
        const struct ah_transfer_option *option =
            ah_transfer_option_of(bundle, (size_t)way[0], d, way[1 + d]);
        for (size_t i = 0; i < option->n_passes; i++)
            if (option->passes[i] == resource)
                return true;
    }
    return false;
}

/* Gives the shard another way if that shortens the longest time on the old and the new way. */
static bool reroute_shard(struct loading *l, const struct ah_transfer_bundle *bundle, int *way)
{
    double before = longest_on(l, bundle, way);
    int *old = l->old;
    memcpy(old, way, (1 + bundle->n_receivers) * sizeof *old);
    load_way(l, bundle, way, -1);
    route_shard(l, bundle, way);
    if (fmax(longest_on(l, bundle, way), longest_on(l, bundle, old)) < before * (1 - CLOSE))
        return true;
    load_way(l, bundle, way, -1);
    memcpy(way, old, (1 + bundle->n_receivers) * sizeof *old);
    load_way(l, bundle, way, 1);
    return false;
}

static void improve_ways(struct loading *l)
{
    const struct ah_transfer_problem *problem = l->problem;
    bool better = true;
    for (int round = 0; round < IMPROVEMENT_ROUNDS && better; round++) {
        size_t longest = longest_resource(l);
        better = false;
        for (size_t b = 0; b < problem->n_bundles && longest < problem->n_resources; b++)
            for (size_t i = 0; i < problem->bundles[b].count; i++) {
                int *way = way_at(l, l->ways, b, i);
                if (is_on(&problem->bundles[b], way, longest))
                    better |= reroute_shard(l, &problem->bundles[b], way);
            }
    }
}

/* Gives every receiver its fallback, if it has one, instead of a relay. */
static void fall_back(const struct loading *l, int *ways)
{
    const struct ah_transfer_problem *problem = l->problem;
    for (size_t b = 0; b < problem->n_bundles; b++) {
        const struct ah_transfer_bundle *bundle = &problem->bundles[b];
        for (size_t i = 0; i < bundle->count && !bundle->once; i++)
            for (size_t d = 0; d < bundle->n_receivers; d++)
                if (bundle->receivers[d].fallback)
                    way_at(l, ways, b, i)[1 + d] = (int)bundle->receivers[d].fallback - 1;
    }
}

/* Improves both the present ways and the plain choice. Leaves the better in `ways`, and returns its time. */
static double improve_both(struct loading *l)
{
    int *first = l->ways;
    improve_ways(l);
    double first_s = time_of(l, first);
    memcpy(l->best_ways, first, l->n_ways * sizeof *first);
    fall_back(l, l->best_ways);
    l->ways = l->best_ways;
    time_of(l, l->ways);
    improve_ways(l);
    double second_s = time_of(l, l->ways);
    if (second_s < first_s * (1 - CLOSE)) {
        l->best_ways = first;
        return second_s;
    }
    l->best_ways = l->ways;
    l->ways = first;
    return first_s;
}

/* Replaces options by nearer ones while no resource is busy for longer than `time_s`. */
static void take_nearer(struct loading *l, double time_s)
{
    const struct ah_transfer_problem *problem = l->problem;
    for (size_t b = 0; b < problem->n_bundles; b++) {
        const struct ah_transfer_bundle *bundle = &problem->bundles[b];
        for (size_t i = 0; i < bundle->count; i++) {
            int *way = way_at(l, l->ways, b, i);
            for (size_t d = 0; d < bundle->n_receivers; d++) {
                int was = way[1 + d], last = was == AH_TRANSFER_RELAYED ? 0 : was;
                load_option(l, ah_transfer_option_of(bundle, (size_t)way[0], d, was), bundle->bytes, -1);
                for (int choice = 0; choice < last; choice++) {
                    const struct ah_transfer_option *option = &bundle->receivers[d].options[choice];
                    double longest = load_option(l, option, bundle->bytes, 1);
                    load_option(l, option, bundle->bytes, -1);
                    if (longest <= time_s) {
                        way[1 + d] = choice;
                        break;
                    }
                }
                load_option(l, ah_transfer_option_of(bundle, (size_t)way[0], d, way[1 + d]), bundle->bytes,
                            1);
            }
        }
    }
}

/* ---- the result ---- */

static int compare_ways(const void *a, const void *b, void *bytes)
{
    return memcmp(a, b, *(const size_t *)bytes);
}

/* Sorts the shards of each bundle, which are interchangeable, so that those with equal ways are adjacent. */
static void sort_ways(struct loading *l)
{
    for (size_t b = 0; b < l->problem->n_bundles; b++) {
        size_t bytes = (1 + l->problem->bundles[b].n_receivers) * sizeof *l->ways;
        qsort_r(way_at(l, l->ways, b, 0), l->problem->bundles[b].count, bytes, compare_ways, &bytes);
    }
}

static bool same_way(const struct loading *l, size_t b, size_t i)
{
    size_t bytes = (1 + l->problem->bundles[b].n_receivers) * sizeof *l->ways;
    return memcmp(way_at(l, l->ways, b, i), way_at(l, l->ways, b, i - 1), bytes) == 0;
}

static int join_pieces(struct loading *l, struct ah_arena *arena, struct ah_transfer_result *result,
                       struct ah_error *err)
{
    const struct ah_transfer_problem *problem = l->problem;
    size_t n = 0;
    for (size_t b = 0; b < problem->n_bundles; b++)
        for (size_t i = 0; i < problem->bundles[b].count; i++)
            n += !i || !same_way(l, b, i);
    result->pieces = ah_arena_array(arena, n + 1, sizeof *result->pieces);
    if (!result->pieces)
        return ah_error_memory(err);
    for (size_t b = 0; b < problem->n_bundles; b++) {
        size_t receivers = problem->bundles[b].n_receivers;
        for (size_t i = 0; i < problem->bundles[b].count; i++) {
            const int *way = way_at(l, l->ways, b, i);
            if (i && same_way(l, b, i)) {
                result->pieces[result->n_pieces - 1].count++;
                continue;
            }
            int *choices = ah_arena_array(arena, receivers, sizeof *choices);
            if (!choices)
                return ah_error_memory(err);
            memcpy(choices, way + 1, receivers * sizeof *choices);
            result->pieces[result->n_pieces++] = (struct ah_transfer_piece){b, i, 1, (size_t)way[0], choices};
        }
    }
    return AH_OK;
}

/* ---- the whole solver ---- */

static int reserve(struct loading *l, struct ah_error *err)
{
    const struct ah_transfer_problem *problem = l->problem;
    size_t most = 0;
    l->way_of = calloc(problem->n_bundles + 1, sizeof *l->way_of);
    if (!l->way_of)
        return ah_error_memory(err);
    for (size_t b = 0; b < problem->n_bundles; b++) {
        size_t width = 1 + problem->bundles[b].n_receivers;
        l->way_of[b] = l->n_ways;
        l->n_ways += width * problem->bundles[b].count;
        most = width > most ? width : most;
    }
    l->seconds = calloc(problem->n_resources + 1, sizeof *l->seconds);
    l->ways = calloc(l->n_ways + 1, sizeof *l->ways);
    l->best_ways = calloc(l->n_ways + 1, sizeof *l->best_ways);
    l->trial = calloc(2 * most + 1, sizeof *l->trial);
    if (!l->seconds || !l->ways || !l->best_ways || !l->trial)
        return ah_error_memory(err);
    l->old = l->trial + most;
    return AH_OK;
}

static void release_loading(struct loading *l)
{
    free(l->seconds);
    free(l->ways);
    free(l->best_ways);
    free(l->trial);
    free(l->way_of);
}

/* Raises the bound by the program's, and replaces our ways if the program finds faster ones. */
static int try_program(struct loading *l, const struct ah_transfer_limits *limits, double *time_s,
                       double *bound_s, struct ah_error *err)
{
    const struct ah_transfer_problem *problem = l->problem;
    bool found = false;
    double bound = 0;
    int rc = ah_transfer_bound_search(problem, bound_s, err);
    if (rc || *time_s <= *bound_s * (1 + CLOSE) || ah_transfer_columns(problem) > limits->columns)
        return rc;
    rc = ah_transfer_program(problem, limits->nodes, *time_s, l->best_ways, &found, &bound, err);
    if (rc)
        return rc;
    *bound_s = fmax(*bound_s, bound);
    double theirs = found ? time_of(l, l->best_ways) : (double)INFINITY;
    if (theirs < *time_s) {
        memcpy(l->ways, l->best_ways, l->n_ways * sizeof *l->ways);
        *time_s = theirs;
    }
    return AH_OK;
}

int ah_transfer_solve(const struct ah_transfer_problem *problem, const struct ah_transfer_limits *limits,
                      struct ah_arena *arena, struct ah_transfer_result *ret_result, struct ah_error *err)
{
    struct loading l = {.problem = problem};
    struct ah_transfer_result result = {.limit = problem->n_resources};
    int rc = reserve(&l, err);
    if (rc)
        goto out;
    route_all_shards(&l);
    result.time_s = improve_both(&l);
    rc = try_program(&l, limits, &result.time_s, &result.bound_s, err);
    if (rc)
        goto out;
    time_of(&l, l.ways);
    take_nearer(&l, result.time_s);
    sort_ways(&l);
    result.time_s = time_of(&l, l.ways);
    result.bound_s = fmin(result.bound_s, result.time_s);
    result.limit = longest_resource(&l);
    rc = join_pieces(&l, arena, &result, err);
    if (!rc)
        *ret_result = result;
out:
    release_loading(&l);
    return rc;
}
