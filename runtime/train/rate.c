/* SPDX-License-Identifier: Apache-2.0
 *
 * Rate: the formulas of rate.h.
 */
#include "runtime/train/rate.h"

#include <math.h>

double ah_rate_at(const struct ah_rate *rate, uint64_t step)
{
    const double pi = 3.14159265358979323846;
    if (step <= rate->warmup_steps)
        return rate->lr * (double)step / (double)rate->warmup_steps;
    if (rate->schedule == AH_RATE_CONSTANT)
        return rate->lr;
    if (step >= rate->steps)
        return rate->lr * rate->floor;
    double share = (double)(step - rate->warmup_steps) / (double)(rate->steps - rate->warmup_steps);
    return rate->lr * (rate->floor + (1 - rate->floor) * (1 + cos(pi * share)) / 2);
}
