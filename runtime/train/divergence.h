/* SPDX-License-Identifier: Apache-2.0
 *
 * Divergence: detects a loss that rises instead of falling. A run diverges if the median loss of its last 16 steps
 * exceeds that of its first 8 by more than a fifth.
 *
 *     ah_divergence_step(&divergence, loss);               // each step, in order
 *     if (ah_divergence_is(&divergence, &now)) ...
 */
#ifndef AH_RUNTIME_TRAIN_DIVERGENCE_H
#define AH_RUNTIME_TRAIN_DIVERGENCE_H

#include <stdbool.h>
#include <stdint.h>

enum { AH_DIVERGENCE_FIRST = 8, AH_DIVERGENCE_LAST = 16 };

/* Losses of a run. Start with zeros or, in a resumed run, with the earlier value of `first`. */
struct ah_divergence {
    double first; /* median loss of the run's first steps; 0: not enough steps yet */
    uint64_t n;   /* number of losses so far */
    double early[AH_DIVERGENCE_FIRST], late[AH_DIVERGENCE_LAST];
};

/* Adds the loss of a step, which must be finite and above 0. */
void ah_divergence_step(struct ah_divergence *divergence, double loss);

/* True if the run diverges. Sets `ret_last` to the median of the last steps. */
bool ah_divergence_is(const struct ah_divergence *divergence, double *ret_last);

#endif
