/* SPDX-License-Identifier: Apache-2.0
 *
 * Rate: the learning rate of each step. Step t counts from 1.
 *
 *     t <= warmup_steps   lr t / warmup_steps
 *     constant            lr
 *     cosine              lr (floor + (1 - floor) (1 + cos(pi (t - warmup_steps) / (steps - warmup_steps))) / 2)
 *
 * So step 1 has lr / warmup_steps, step warmup_steps has lr, and the last step and all later ones have floor lr.
 */
#ifndef AH_RUNTIME_TRAIN_RATE_H
#define AH_RUNTIME_TRAIN_RATE_H

#include <stdint.h>

enum ah_rate_schedule { AH_RATE_CONSTANT, AH_RATE_COSINE };

struct ah_rate {
    enum ah_rate_schedule schedule;
    double lr;
    double floor; /* cosine: rate of the last step, as a fraction of lr */
    uint64_t warmup_steps;
    uint64_t steps; /* cosine: number of steps of the whole run */
};

double ah_rate_at(const struct ah_rate *rate, uint64_t step);

#endif
