/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluator: tries choices one after another and keeps the best that fits.
 *
 * A choice is measured first. It is evaluated only if its live bytes fit, no lane works longer than the best period,
 * and it was not tried before. A budget limits the work of measuring and evaluating.
 *
 * The better choice has the shorter period; then less host memory, less traffic, or configs that sort first decide.
 *
 *     struct ah_evaluator evaluator;
 *     rc = ah_evaluator_init(&evaluator, &limits, err);
 *     rc = ah_evaluator_try(&evaluator, configs, &knobs, &verdict, err);   // as often as you like
 *     if (evaluator.found) ... evaluator.best
 *     ah_evaluator_release(&evaluator);
 */
#ifndef AH_PLANNER_SEARCH_EVALUATOR_H
#define AH_PLANNER_SEARCH_EVALUATOR_H

#include "base/error.h"
#include "planner/policies/restriction.h"
#include "runtime/schedule/schedule.h"

#include <stdbool.h>
#include <stdint.h>

struct ah_evaluator_limits {
    const struct ah_job *job; /* borrowed, like `costs` */
    const struct ah_costs *costs;
    uint64_t device_bytes; /* budget of the arena */
    uint64_t host_bytes;
    const struct ah_restriction *restriction; /* (optional) borrowed; forbidden choices are WORSE, untried */
    uint64_t work;                            /* largest allowed `spent`; 0: no limit */

    /* (optional) Called before each evaluation. If it returns true, trials end with AH_E_INTERRUPTED. */
    bool (*stop)(void *context, uint64_t evaluations);
    void *context;
};

struct ah_candidate {
    struct ah_config *configs; /* by block; owned by the evaluator */
    struct ah_knobs knobs;
    struct ah_score score;
    uint32_t numbers[AH_PLAN_POLICY_NUMBERS]; /* the evaluator's `numbers` when it was tried */
};

enum ah_verdict {
    AH_EVALUATOR_BETTER,   /* the choice is now the best */
    AH_EVALUATOR_WORSE,    /* not better than the best, as an evaluation or a bound shows */
    AH_EVALUATOR_TOO_BIG,  /* the choice does not fit */
    AH_EVALUATOR_SEEN,     /* tried before; last.period_us and last_over_bytes are those of that trial */
    AH_EVALUATOR_EXHAUSTED /* the budget is spent */
};

struct ah_evaluator_seen;

struct ah_evaluator {
    struct ah_evaluator_limits limits;
    struct ah_schedule schedule;
    bool found;
    struct ah_candidate best;
    uint32_t
        numbers[AH_PLAN_POLICY_NUMBERS]; /* of the policy's setting to be tried, if a policy has numbers */
    double us_per_byte;                  /* worth of a live byte of the device; 0 unless set */
    double enough_us; /* above this, period plus worth of bytes may be inexact; 0: the best's period */
    uint64_t evaluations;
    uint64_t
        spent; /* tiles of the iterations of all choices; a choice that was only measured adds an eighth of its tiles.
                * So equal budgets take about equal time */
    struct ah_score last;           /* of the choice tried last; the period may be only a lower bound */
    uint64_t last_live_bytes;       /* device bytes of the choice tried last */
    uint64_t last_over_bytes;       /* its bytes beyond the budgets */
    uint64_t least_device_bytes;    /* least need of all tried choices that fit the host */
    uint64_t least_host_bytes;      /* least need of all tried choices that fit the device */
    struct ah_evaluator_seen *seen; /* owned */
};

int ah_evaluator_init(struct ah_evaluator *evaluator, const struct ah_evaluator_limits *limits,
                      struct ah_error *err);

/* Tries one choice. Errors are AH_E_MEMORY, AH_E_INTERRUPTED and AH_E_USAGE (a config that a block cannot have). */
int ah_evaluator_try(struct ah_evaluator *evaluator, const struct ah_config *configs,
                     const struct ah_knobs *knobs, enum ah_verdict *ret_verdict, struct ah_error *err);

/* Replaces the limits and forgets which choices were tried. Also forgets the best if it does not fit. */
void ah_evaluator_limit(struct ah_evaluator *evaluator, uint64_t device_bytes, uint64_t work);

/* True if the choice tried last fits and takes less than `period_us`. `verdict`: the one it got. */
bool ah_evaluator_is_faster(const struct ah_evaluator *evaluator, enum ah_verdict verdict, double period_us);

bool ah_evaluator_is_spent(const struct ah_evaluator *evaluator);

void ah_evaluator_release(struct ah_evaluator *evaluator);

#endif
