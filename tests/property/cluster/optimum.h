/* SPDX-License-Identifier: Apache-2.0
 *
 * The step time of a small problem's fastest arrangement, found by exhaustive search.
 */
#ifndef AH_TESTS_PROPERTY_CLUSTER_OPTIMUM_H
#define AH_TESTS_PROPERTY_CLUSTER_OPTIMUM_H

#include "planner/cluster/search/arrangement_search.h"
#include "tests/support/check.h"

#include <math.h>

/* Returns the optimum in us, or INFINITY if nothing fits. */
static inline double find_optimum_us(const struct ah_cluster_problem *problem)
{
    const struct ah_arrangement_search_limits limits = {.improvements = 2000, .exhaustion = 20000000};
    struct ah_error err = {0};
    struct ah_arrangement_search_result result;
    struct ah_draft best;
    CHECK_OK(ah_draft_init(&best, problem, &err), err);
    CHECK_OK(ah_arrangement_search_run(problem, &limits, INFINITY, &best, &result, &err), err);
    assert_true(result.exhausted);
    ah_draft_release(&best);
    return result.step_us;
}

#endif
