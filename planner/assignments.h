/* SPDX-License-Identifier: Apache-2.0
 *
 * Assignments: every way to give each block one of its configs, where these are few.
 */
#ifndef AH_PLANNER_ASSIGNMENTS_H
#define AH_PLANNER_ASSIGNMENTS_H

#include "planner/trial.h"
#include "planner/vary.h"

/* How many there are; UINT64_MAX where they are more than that. */
uint64_t ah_assignments_count(const struct ah_vary *vary);

/* Tries all of them with these knobs, whatever the trial's work is limited to. */
int ah_assignments_try(struct ah_trial *trial, const struct ah_vary *vary, const struct ah_knobs *knobs,
                       struct ah_error *err);

#endif
