/* SPDX-License-Identifier: Apache-2.0
 *
 * What the planner's files share: a prepared request, and its best candidate.
 */
#ifndef AH_PLANNER_PLANNER_INTERNAL_H
#define AH_PLANNER_PLANNER_INTERNAL_H

#include "planner/bound/milp.h"
#include "planner/cost/pricing.h"
#include "planner/planner.h"
#include "planner/search/evaluator.h"

/* One way to give cores to lanes; with a GPU there is only one. */
struct ah_split {
    struct ah_costs costs;
    struct ah_evaluator evaluator;
};

struct ah_planning {
    const struct ah_plan_request *request;
    struct ah_plan_training training; /* the request's, patterns filled in */
    struct ah_arena *arena;
    struct ah_job job;
    struct ah_restriction restriction;
    const char *without; /* words of the forbidden techniques, comma-separated; in the arena; NULL: none */
    uint64_t device_capacity_bytes, reserve_bytes; /* nothing fits if the reserve is larger */
    uint64_t host_capacity_bytes, process_bytes;
    struct ah_plan_what_if *what_if; /* in the arena, with room for all */
    size_t n_what_if;
    struct ah_split splits[AH_PRICING_SPLITS_MAX];
    size_t n_splits;
    const struct ah_split *winner; /* NULL: nothing found */
    uint64_t evaluations;
    double bound_us; /* 0: no bound */
    bool infeasible; /* the relaxation proves that no policy has a plan */
    bool exhausted;  /* every setting was tried: the policy has no plan */
    struct ah_milp_shortage shortage;
};

/* For a planning without a winner: true if it is proven that the policy has no plan. */
static inline bool ah_planning_proven(const struct ah_planning *planning)
{
    return planning->infeasible || planning->exhausted;
}

/* Returns the i-th number of micro-batches to try; 0: there are no more. It is the request's or, if the planner
 * chooses, a power of two that divides the batch; single sequences come last, unless a plan was `found`. */
uint64_t ah_planning_micro_batches(const struct ah_plan_request *request, size_t i, bool found);

/* Prepares budgets, job and costs. */
int ah_planning_init(struct ah_planning *planning, const struct ah_plan_request *request,
                     struct ah_arena *arena, struct ah_error *err);

/* Returns the device's capacity less the reserve: at least a byte. */
uint64_t ah_planning_arena_bytes(const struct ah_planning *planning);

/* Finds winner, bound and shortage; AH_OK even if there is no winner. */
int ah_planning_solve(struct ah_planning *planning, struct ah_error *err);

/* For a policy other than `optimal` without a winner: tries the rest of its settings, unless there are too many. It
 * finds a winner or proves that there is none. */
int ah_planning_exhaust(struct ah_planning *planning, struct ah_error *err);
void ah_planning_release(struct ah_planning *planning);

/* Returns how much of the host's memory plans may use. The rest is for the system and, on a CPU device, for the
 * device's arena. */
uint64_t ah_planning_host_budget(const struct ah_machine *machine, uint64_t memory_bytes,
                                 uint64_t device_capacity_bytes);

/* The names of the memories that may be short. */
extern const char ah_shortage_device[];
extern const char ah_shortage_host[];

/* Fills the diagnosis of a solved planning without a winner, except remedies. */
void ah_shortage_find(const struct ah_planning *planning, struct ah_diagnosis *ret_diagnosis);

/* Writes the diagnosis as the message of `err`, and returns the error. */
int ah_shortage_say(const struct ah_planning *planning, const struct ah_diagnosis *diagnosis,
                    struct ah_error *err);

/* Adds the changes that help, each planned. If no trial showed how much memory is needed, these plans do. */
int ah_remedies_find(const struct ah_planning *planning, struct ah_diagnosis *diagnosis,
                     struct ah_error *err);

#endif
