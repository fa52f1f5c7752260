/* SPDX-License-Identifier: Apache-2.0
 *
 * Let any unit compute any block of any micro-batch, without order, memory or transfers. x(k, b) is the number of
 * micro-batches of block b done on the N(k) units of kind k.
 *
 *     minimise T  subject to  (1) sum over k of x(k, b) = M for each b   (2) sum over b of t(k, b) x(k, b) <= N(k) T
 *
 * Every arrangement gives such x with T = the time until its pipelines end, because no unit works longer than that. For
 * any weights w(k) >= 0 with sum of N(k) w(k) = 1, multiplying the rows (2) by w(k) and adding them up gives
 *
 *     T >= sum over b of M min over k of w(k) t(k, b)                                                          (3)
 *
 * So a search for good weights cannot make the bound wrong. If the ratios of the types' speeds are the same on every
 * block, weights in proportion to speed are best; the search begins there. Two more bounds: each micro-batch passes
 * every block in turn (4), and the block with the longest update is updated at the end (5).
 */
#include "planner/cluster/bound/relaxation.h"

#include <math.h>
#include <stdlib.h>

enum { ROUNDS = 60 };

static double block_us(const struct ah_cluster_problem *problem, size_t kind, size_t block)
{
    const struct ah_problem_block *b = &problem->kinds[kind].blocks[block];
    return b->forward_us + b->backward_us[AH_ACTIVATIONS_KEEP];
}

/* Returns the bound (3) for weights that are scaled to the right sum. */
static double dual_us(const struct ah_cluster_problem *problem, const double *units, const double *weights)
{
    double sum = 0, us = 0;
    for (size_t k = 0; k < problem->n_kinds; k++)
        sum += units[k] * weights[k];
    for (size_t b = 0; b < problem->n_blocks; b++) {
        double least = INFINITY;
        for (size_t k = 0; k < problem->n_kinds; k++)
            if (units[k] > 0)
                least = fmin(least, weights[k] * block_us(problem, k, b));
        us += least;
    }
    return (double)problem->micro_batches * us / sum;
}

static double improve_dual(const struct ah_cluster_problem *problem, const double *units, double *weights)
{
    double best = dual_us(problem, units, weights), step = 0.5;
    for (int round = 0; round < ROUNDS; round++) {
        bool better = false;
        for (size_t i = 0; i < 2 * problem->n_kinds; i++) {
            double before = weights[i / 2];
            weights[i / 2] = i % 2 ? before * (1 + step) : before / (1 + step);
            double us = dual_us(problem, units, weights);
            if (us > best) {
                best = us;
                better = true;
            } else {
                weights[i / 2] = before;
            }
        }
        step = better ? step : step / 2;
    }
    return best;
}

/* Computes the bounds (4) and (5). */
static void path_and_update(const struct ah_cluster_problem *problem, double *ret_path_us,
                            double *ret_update_us)
{
    *ret_path_us = *ret_update_us = 0;
    for (size_t b = 0; b < problem->n_blocks; b++) {
        double pass = INFINITY, update = INFINITY;
        for (size_t k = 0; k < problem->n_kinds; k++) {
            pass = fmin(pass, block_us(problem, k, b));
            update = fmin(update, problem->kinds[k].blocks[b].update_us);
        }
        *ret_path_us += pass;
        *ret_update_us = fmax(*ret_update_us, update);
    }
}

int ah_relaxation_time(const struct ah_cluster_problem *problem, double *ret_us, struct ah_error *err)
{
    double path_us, update_us;
    double *units = calloc(2 * problem->n_kinds, sizeof *units), *weights = units + problem->n_kinds;
    if (!units)
        return ah_error_memory(err);
    for (size_t c = 0; c < problem->n_classes; c++)
        units[problem->classes[c].kind] += (double)problem->classes[c].units;
    for (size_t k = 0; k < problem->n_kinds; k++) {
        double all_us = 0;
        for (size_t b = 0; b < problem->n_blocks; b++)
            all_us += block_us(problem, k, b);
        weights[k] = 1 / fmax(all_us, 1e-9);
    }
    path_and_update(problem, &path_us, &update_us);
    double us = fmax(path_us, improve_dual(problem, units, weights)) + update_us;
    *ret_us = us * (1 - 1e-12); /* reduced by more than the rounding errors of these sums */
    free(units);
    return AH_OK;
}

/* Returns the least bytes of a block on the GPUs of a unit of kind `k` and, if `hosts`, on its host. */
static double least_bytes(const struct ah_cluster_problem *problem, size_t k, size_t block, bool hosts)
{
    const struct ah_problem_kind *kind = &problem->kinds[k];
    double least = (double)kind->blocks[block].state_bytes;
    for (size_t h = 0; h < kind->n_hosts && ah_problem_has_host(problem, k); h++)
        for (int i = 0; i < AH_PROBLEM_AWAYS; i++) {
            const struct ah_problem_away *away = &kind->hosts[h].away[block * AH_PROBLEM_AWAYS + (size_t)i];
            least = fmin(least, (double)away->state_bytes + (hosts ? (double)away->host_bytes : 0));
        }
    return least * (double)kind->tp;
}

/* Returns the largest number of host bytes that all units of a class together can use. */
static double host_bytes(const struct ah_cluster_problem *problem, size_t class)
{
    const struct ah_problem_kind *kind = ah_problem_kind_of(problem, class);
    double most = 0;
    for (size_t u = 0; u < problem->classes[class].units; u++)
        if (ah_problem_has_host(problem, problem->classes[class].kind))
            most = fmax(most, (double)(u + 1) * (double)kind->tp * (double)kind->hosts[u].bytes);
    return most;
}

static void count_bytes(const struct ah_cluster_problem *problem, bool hosts, double *ret_needed,
                        double *ret_available)
{
    *ret_needed = *ret_available = 0;
    for (size_t b = 0; b < problem->n_blocks; b++) {
        double least = INFINITY;
        for (size_t k = 0; k < problem->n_kinds; k++)
            least = fmin(least, least_bytes(problem, k, b, hosts));
        *ret_needed += least;
    }
    for (size_t c = 0; c < problem->n_classes; c++) {
        const struct ah_problem_kind *kind = ah_problem_kind_of(problem, c);
        double units = (double)problem->classes[c].units * (double)kind->tp;
        *ret_available += units * (double)kind->capacity_bytes + (hosts ? host_bytes(problem, c) : 0);
    }
}

void ah_relaxation_bytes(const struct ah_cluster_problem *problem, double *ret_needed, double *ret_available)
{
    double needed, available;
    count_bytes(problem, false, ret_needed, ret_available);
    count_bytes(problem, true, &needed, &available);
    if (needed - available > *ret_needed - *ret_available) {
        *ret_needed = needed;
        *ret_available = available;
    }
}
