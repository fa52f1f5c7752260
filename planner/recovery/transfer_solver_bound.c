/* SPDX-License-Identifier: Apache-2.0
 *
 * Weak duality (transfer_solver.h, THE BOUND), with prices from multiplicative weights instead of the solver. In each
 * round, the cheapest ways at the present prices give every resource a time. Its share of the prices then grows by the
 * factor exp(step (its time / longest time)). The step shrinks every 40 rounds. The best bound is returned; it need not
 * reach the relaxation's.
 */
#include "planner/recovery/transfer_solver_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEP 2.0
enum { ROUNDS = 400 };

static double price_of(const struct ah_transfer_option *option, const double *prices)
{
    double price = 0;
    for (size_t i = 0; i < option->n_passes; i++)
        price += prices[option->passes[i]];
    return price;
}

/* Returns the cheapest choice of receiver `d` for shards led by `leader`. */
static int cheapest_choice(const struct ah_transfer_bundle *bundle, size_t leader, size_t d,
                           const double *prices, double *ret_price)
{
    int best = AH_TRANSFER_RELAYED;
    double least = INFINITY;
    for (int choice = AH_TRANSFER_RELAYED; choice < (int)bundle->receivers[d].n_options; choice++) {
        if (!ah_transfer_allows(bundle, leader, d, choice))
            continue;
        double price = price_of(ah_transfer_option_of(bundle, leader, d, choice), prices);
        if (price < least) {
            least = price;
            best = choice;
        }
    }
    *ret_price = least;
    return best;
}

static double price_led_by(const struct ah_transfer_bundle *bundle, size_t leader, const double *prices)
{
    double sum = 0, price;
    for (size_t d = 0; d < bundle->n_receivers; d++) {
        cheapest_choice(bundle, leader, d, prices, &price);
        sum += price;
    }
    return sum;
}

static void add_led_by(const struct ah_transfer_bundle *bundle, size_t leader, const double *prices,
                       double *bytes)
{
    double price;
    for (size_t d = 0; d < bundle->n_receivers; d++) {
        int choice = cheapest_choice(bundle, leader, d, prices, &price);
        const struct ah_transfer_option *option = ah_transfer_option_of(bundle, leader, d, choice);
        for (size_t i = 0; i < option->n_passes; i++)
            bytes[option->passes[i]] += (double)bundle->count * (double)bundle->bytes;
    }
}

double ah_transfer_bound(const struct ah_transfer_problem *problem, const double *prices,
                         double *cheapest_bytes)
{
    double scale = 0, sum = 0;
    for (size_t r = 0; r < problem->n_resources; r++)
        scale += prices[r] * problem->rates[r];
    if (cheapest_bytes)
        memset(cheapest_bytes, 0, problem->n_resources * sizeof *cheapest_bytes);
    for (size_t b = 0; b < problem->n_bundles; b++) {
        const struct ah_transfer_bundle *bundle = &problem->bundles[b];
        size_t best = 0;
        double least = INFINITY;
        for (size_t leader = 0; leader < bundle->n_receivers; leader++) {
            double price = price_led_by(bundle, leader, prices);
            if (price < least) {
                least = price;
                best = leader;
            }
        }
        sum += least * (double)bundle->count * (double)bundle->bytes;
        if (cheapest_bytes)
            add_led_by(bundle, best, prices, cheapest_bytes);
    }
    /* Rounding changes these sums by far less than a relative 1e-12. */
    return scale > 0 ? sum / scale * (1 - 1e-12) : 0;
}

/* Returns the time of the busiest resource. */
static double longest_s(const struct ah_transfer_problem *problem, const double *bytes)
{
    double longest = 0;
    for (size_t r = 0; r < problem->n_resources; r++)
        longest = fmax(longest, bytes[r] / problem->rates[r]);
    return longest;
}

int ah_transfer_bound_search(const struct ah_transfer_problem *problem, double *ret_bound_s,
                             struct ah_error *err)
{
    size_t n = problem->n_resources;
    double *prices = calloc(3 * n + 1, sizeof *prices);
    if (!prices)
        return ah_error_memory(err);
    double *shares = prices + n, *bytes = shares + n, best = 0;
    for (size_t r = 0; r < n; r++)
        shares[r] = 1;
    for (int round = 0; round < ROUNDS; round++) {
        double sum = 0;
        for (size_t r = 0; r < n; r++)
            sum += shares[r];
        for (size_t r = 0; r < n; r++) {
            shares[r] /= sum;
            prices[r] = shares[r] / problem->rates[r];
        }
        best = fmax(best, ah_transfer_bound(problem, prices, bytes));
        double longest = longest_s(problem, bytes);
        for (size_t r = 0; r < n && longest > 0; r++)
            shares[r] *= exp(STEP / (1 + round / 40) * (bytes[r] / problem->rates[r] / longest));
    }
    free(prices);
    *ret_bound_s = best;
    return AH_OK;
}
