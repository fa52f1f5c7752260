/* SPDX-License-Identifier: Apache-2.0
 *
 * The time of the fastest arrangement of a small instance, found by the hunt, which tries all.
 */
#ifndef AH_TESTS_PROPERTY_CLUSTER_OPTIMUM_H
#define AH_TESTS_PROPERTY_CLUSTER_OPTIMUM_H

#include "planner/cluster/hunt.h"
#include "tests/support/check.h"

#include <math.h>

/* INFINITY: nothing fits. */
static inline double find_optimum_us(const struct ah_instance *instance)
{
    const struct ah_hunt_limits limits = {.improvements = 2000, .exhaustion = 20000000};
    struct ah_error err = {0};
    struct ah_hunt_result result;
    struct ah_draft best;
    CHECK_OK(ah_draft_init(&best, instance, &err), err);
    CHECK_OK(ah_hunt_run(instance, &limits, INFINITY, &best, &result, &err), err);
    assert_true(result.exhausted);
    ah_draft_release(&best);
    return result.step_us;
}

#endif
