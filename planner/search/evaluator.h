/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluator: tries choices one after another and keeps the best that fits.
 *
 * A choice is measured first. It is evaluated only if its live bytes fit, no lane's work takes longer than the best's
 * period, and it was not tried before. A budget limits the work of measuring and evaluating.
 *
 * The better choice has a shorter period; if equal, less host memory; then less traffic; then configs that sort first.
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
    const struct ah_job *job; /* borrowed, as costs */
    const struct ah_costs *costs;
    uint64_t device_bytes; /* budget of the arena */
    uint64_t host_bytes;
    const struct ah_restriction *restriction; /* (optional) borrowed; forbidden choices are WORSE, untried */
    uint64_t work;                            /* the most that `spent` may reach; 0: no limit */

    /* (optional) Asked now and then; true stops with AH_E_INTERRUPTED. */
    bool (*stop)(void *context, uint64_t evaluations);
    void *context;
};

struct ah_candidate {
    struct ah_config *configs; /* by block; owned by the evaluator */
    struct ah_knobs knobs;
    struct ah_score score;
};

enum ah_verdict {
    AH_EVALUATOR_BETTER,   /* it is now the best choice */
    AH_EVALUATOR_WORSE,    /* not better, by an evaluation or a bound */
    AH_EVALUATOR_TOO_BIG,  /* it does not fit */
    AH_EVALUATOR_SEEN,     /* tried before; last.period_us and last_over_bytes repeat that result */
    AH_EVALUATOR_EXHAUSTED /* the budget is spent */
};

struct ah_evaluator_seen;

struct ah_evaluator {
    struct ah_evaluator_limits limits;
    struct ah_schedule schedule;
    bool found;
    struct ah_candidate best;
    double us_per_byte; /* worth of a live byte of the device; 0 unless set */
    double enough_us;   /* period plus worth of bytes need not be exact above this; 0: the best's period */
    uint64_t evaluations;
    uint64_t
        spent; /* tiles of the iterations of all choices, an eighth of them for one that was only measured:
                       so a budget takes about the same time for any choices */
    struct ah_score last;           /* score of the choice tried last; its period may be only a bound */
    uint64_t last_live_bytes;       /* of that choice, on the device */
    uint64_t last_over_bytes;       /* excess over its budgets */
    uint64_t least_device_bytes;    /* least of all choices that fit the host */
    uint64_t least_host_bytes;      /* least of all choices that fit the device */
    struct ah_evaluator_seen *seen; /* owned */
};

int ah_evaluator_init(struct ah_evaluator *evaluator, const struct ah_evaluator_limits *limits,
                      struct ah_error *err);

/* Tries one choice. Errors are AH_E_MEMORY, AH_E_INTERRUPTED and AH_E_USAGE (a config that a block cannot have). */
int ah_evaluator_try(struct ah_evaluator *evaluator, const struct ah_config *configs,
                     const struct ah_knobs *knobs, enum ah_verdict *ret_verdict, struct ah_error *err);

/* Sets new limits, lower or higher. Earlier choices may be tried again; the best is forgotten if it does not fit. */
void ah_evaluator_limit(struct ah_evaluator *evaluator, uint64_t device_bytes, uint64_t work);

/* True if the choice tried last, which got this verdict, fits and takes less than `period_us`. */
bool ah_evaluator_is_faster(const struct ah_evaluator *evaluator, enum ah_verdict verdict, double period_us);

bool ah_evaluator_is_spent(const struct ah_evaluator *evaluator);

void ah_evaluator_release(struct ah_evaluator *evaluator);

#endif
