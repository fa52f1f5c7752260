/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/cluster/search/update_limit.h"

#include "planner/cluster/sim/stage_sim.h"

#include <math.h>

static bool fit_pipelines(const struct ah_cluster_problem *problem, struct ah_arrangement *arrangement)
{
    for (size_t p = 0; p < arrangement->n_pipelines; p++)
        if (!ah_pipeline_fit(problem, &arrangement->pipelines[p]))
            return false;
    return true;
}

/* Fits the stages that exceed a new, lower limit. For any other stage, its fit for the old limit is still the best. */
static bool fit_lower_limit(const struct ah_cluster_problem *problem, struct ah_arrangement *arrangement)
{
    for (size_t p = 0; p < arrangement->n_pipelines; p++)
        for (size_t i = 0; i < arrangement->pipelines[p].n_stages; i++) {
            struct ah_stage *stage = &arrangement->pipelines[p].stages[i];
            if (stage->states_away && stage->update_us > problem->update_limit_us &&
                !ah_stage_fit(problem, stage->in_flight, stage))
                return false;
        }
    return true;
}

double ah_update_limit_longest_us(const struct ah_arrangement *arrangement)
{
    double us = 0;
    for (size_t p = 0; p < arrangement->n_pipelines; p++)
        for (size_t i = 0; i < arrangement->pipelines[p].n_stages; i++) {
            const struct ah_stage *stage = &arrangement->pipelines[p].stages[i];
            us = stage->states_away ? fmax(us, stage->update_us) : us;
        }
    return us;
}

int ah_update_limit_choose(const struct ah_cluster_problem *problem, struct ah_arrangement *arrangement,
                           double *ret_us, uint64_t *evaluations, struct ah_error *err)
{
    struct ah_cluster_problem limited = *problem;
    double best_us = INFINITY, best_limit_us = 0;
    ah_arrangement_share(problem, arrangement);
    for (bool more = fit_pipelines(&limited, arrangement); more;
         more = more && fit_lower_limit(&limited, arrangement)) {
        struct ah_stage_sim_result result = {0};
        int rc = ah_stage_sim_run(&limited, arrangement, &result, err);
        if (rc)
            return rc;
        ++*evaluations;
        if (result.step_us < best_us) {
            best_us = result.step_us;
            best_limit_us = limited.update_limit_us;
        }
        double longest_us = ah_update_limit_longest_us(arrangement);
        more = longest_us > 0;
        limited.update_limit_us = nextafter(longest_us, 0);
    }
    limited.update_limit_us = best_limit_us;
    if (!isinf(best_us))
        fit_pipelines(&limited, arrangement);
    *ret_us = best_us;
    return AH_OK;
}
