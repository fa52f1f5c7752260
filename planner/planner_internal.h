/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the planner's files: a prepared request and its best candidate.
 */
#ifndef AH_PLANNER_PLANNER_INTERNAL_H
#define AH_PLANNER_PLANNER_INTERNAL_H

#include "planner/bound/milp.h"
#include "planner/cost/pricing.h"
#include "planner/planner.h"
#include "planner/search/evaluator.h"

/* One way to divide the host's cores among lanes, with its costs. With a GPU there is only one split. */
struct ah_split {
    struct ah_costs costs;
    struct ah_evaluator evaluator;
};

struct ah_planning {
    const struct ah_plan_request *request;
    uint64_t gpus;                    /* at least 1 */
    struct ah_plan_training step;     /* the request's, patterns filled in */
    struct ah_plan_training training; /* one GPU's part of it */
    struct ah_plan_part part;         /* of a GPU, if there are several */
    struct ah_arena *arena;
    struct ah_job job;
    struct ah_restriction restriction;
    uint64_t device_capacity_bytes, reserve_bytes; /* if the reserve is larger, no plan fits */
    uint64_t host_capacity_bytes, process_bytes;   /* of one GPU's process */
    struct ah_plan_what_if *what_if;               /* in the arena, with room for AH_WHAT_IFS */
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

/* True if the policy of a planning without a winner is proven to have no plan. */
static inline bool ah_planning_proven(const struct ah_planning *planning)
{
    return planning->infeasible || planning->exhausted;
}

/* Returns the i-th number of micro-batches to try; 0: there are no more. If the request leaves the choice, the numbers
 * are the powers of two that divide the batch and, unless a plan was `found`, the batch itself. For several GPUs they
 * are multiples of their number: by powers of two or, for the least that has a plan, all that divide the batch. */
uint64_t ah_planning_micro_batches(const struct ah_plan_request *request, size_t i, bool found);

/* Prepares the budgets, the job and the costs of every split. */
int ah_planning_init(struct ah_planning *planning, const struct ah_plan_request *request,
                     struct ah_arena *arena, struct ah_error *err);

/* Returns the device's capacity less the reserve; 1 if nothing is left. */
uint64_t ah_planning_arena_bytes(const struct ah_planning *planning);

/* Finds the winner, the bound and the shortage. Returns AH_OK even if there is no winner. */
int ah_planning_solve(struct ah_planning *planning, struct ah_error *err);

/* Tries the remaining settings of a policy other than `optimal` that has no winner yet, unless there are too many of
 * them. Finds a winner or sets `exhausted`. */
int ah_planning_exhaust(struct ah_planning *planning, struct ah_error *err);
void ah_planning_release(struct ah_planning *planning);

/* Returns the memory of each GPU, or on a CPU the share of each process in the device memory of all. */
uint64_t ah_planning_device_bytes(const struct ah_plan_request *request);

/* Returns the bytes of host memory available to plans of all GPUs together. The rest is left to the system and, on a
 * CPU device, to the devices' arenas. */
uint64_t ah_planning_host_budget(const struct ah_machine *machine, uint64_t memory_bytes, uint64_t gpus,
                                 uint64_t device_capacity_bytes);

/* Returns the largest budget that '--host-memory' can set on this machine: all memory of the host or, on a CPU device,
 * what the system and the devices' arenas leave. More than that supposes a machine with more memory. */
uint64_t ah_planning_host_most(const struct ah_planning *planning);

/* Names of the memories, for `resource` of a diagnosis. */
extern const char ah_shortage_device[];
extern const char ah_shortage_host[];

/* Fills the diagnosis of a solved planning without a winner, except remedies. */
void ah_shortage_find(const struct ah_planning *planning, struct ah_diagnosis *ret_diagnosis);

/* Writes the diagnosis as the message of `err`. Returns AH_E_INFEASIBLE if it is proven, otherwise AH_E_NO_PLAN. */
int ah_shortage_say(const struct ah_planning *planning, const struct ah_diagnosis *diagnosis,
                    struct ah_error *err);

/* Adds the changes that help, each planned. If trials left the need for memory unknown, takes it from these plans. */
int ah_remedies_find(const struct ah_planning *planning, struct ah_diagnosis *diagnosis,
                     struct ah_error *err);

#endif
