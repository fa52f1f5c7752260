/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/train/divergence.h"

#include "base/stats.h"

#include <string.h>

#define TOLERATED 1.2

void ah_divergence_step(struct ah_divergence *divergence, double loss)
{
    const bool is_first = !(divergence->first > 0);
    if (is_first)
        divergence->early[divergence->n % AH_DIVERGENCE_FIRST] = loss;
    else
        divergence->late[divergence->n % AH_DIVERGENCE_LAST] = loss;
    divergence->n++;
    if (!is_first || divergence->n < AH_DIVERGENCE_FIRST)
        return;
    divergence->first = ah_stats_of(divergence->early, AH_DIVERGENCE_FIRST).median;
    divergence->n = 0;
}

bool ah_divergence_is(const struct ah_divergence *divergence, double *ret_last)
{
    double late[AH_DIVERGENCE_LAST];
    if (!(divergence->first > 0) || divergence->n < AH_DIVERGENCE_LAST)
        return false;
    memcpy(late, divergence->late, sizeof late);
    *ret_last = ah_stats_of(late, AH_DIVERGENCE_LAST).median;
    return *ret_last > TOLERATED * divergence->first;
}
