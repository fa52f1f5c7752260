/* SPDX-License-Identifier: Apache-2.0
 *
 * MILP: how many blocks get which config, as a RELAXATION of planning. Every schedule that can be executed satisfies
 * its rows (milp.c states and proves them). So no plan beats its optimum, and if it has no solution, there is no plan.
 *
 * A CLASS is a set of blocks that the MILP cannot tell apart: blocks of one group that may have the same configs. A
 * COUNT is the number of blocks of a class with one config. Placement decides which blocks these are.
 *
 * THE BOUND holds for all knobs within the given limits of tiles and fetches. It holds for one micro-batch order and,
 * because of the costs, for one split of threads; a caller with several takes the least of their bounds. If there are
 * few vectors of whole counts, the bound is their exact optimum, otherwise the optimum of the linear relaxation. The
 * numbers of blocks and configs decide which. Both are computed without rounding, from coefficients rounded down once.
 * So a faster rate or more memory never raises the bound, not even by one bit.
 *
 * PRICES. A plan takes at least `base_us` plus the prices of its blocks' configs, except for rounding. The cheapest
 * config of a class has price 0.
 *
 * CANDIDATES are counts worth placing, the most promising first. They steer the search and prove nothing.
 *
 *     struct ah_milp_input input = {.job = &job, .costs = &costs, .device_bytes = ..., .host_bytes = ...};
 *     struct ah_milp_result result;
 *     rc = ah_milp_solve(&input, arena, &result, err);
 *     if (!rc && result.feasible)
 *         for each candidate: result.candidates[i].counts[result.class_of[block] * AH_CONFIGS_MAX + config]
 *
 * The same input gives the same result. Threads may solve different inputs at once.
 */
#ifndef AH_PLANNER_BOUND_MILP_H
#define AH_PLANNER_BOUND_MILP_H

#include "base/arena.h"
#include "base/error.h"
#include "runtime/schedule/schedule.h"

#include <stdbool.h>
#include <stdint.h>

struct ah_milp_input {
    const struct ah_job *job;     /* borrowed during the call, like all pointers of the input */
    const struct ah_costs *costs; /* costs of the job's groups */
    uint64_t device_bytes;        /* budget of the arena: capacity less reserve */
    uint64_t host_bytes;          /* budget of pinned and pageable memory together */
    enum ah_micro_order micro_order;
    uint64_t most_tile_elements; /* largest tile of any plan; 0: no limit */
    uint32_t most_fetch_ahead;   /* largest fetch_ahead of any plan; 0: no limit */
    const uint32_t *allowed;     /* (optional) by block: bit i allows the i-th of ah_configs(); NULL: all */
};

enum { AH_MILP_CANDIDATES_MAX = 12 };

struct ah_milp_candidate {
    double bound_us;  /* no plan with these counts takes less time */
    uint32_t *counts; /* blocks, at class x AH_CONFIGS_MAX + index in ah_configs(); in the arena */
};

/* Bytes missing from a budget. AH_MILP_NEVER: no amount of only this memory is enough. */
#define AH_MILP_NEVER UINT64_MAX

struct ah_milp_shortage {
    uint64_t device_bytes;      /* missing if the host's budget stays as it is */
    uint64_t host_bytes;        /* missing if the device's budget stays as it is */
    uint64_t both_device_bytes; /* if both must grow: least device bytes missing with any host memory */
    uint64_t both_host_bytes;   /* host bytes missing with that device memory */
};

struct ah_milp_result {
    size_t n_classes;
    uint32_t *class_of; /* by block; without `allowed`, classes have the numbers of their groups */
    bool feasible;      /* false: proven that no plan exists; bound and candidates are empty then */
    bool exact; /* true: bound_us is the optimum over whole counts; false: over the linear relaxation */
    double bound_us;
    struct ah_milp_candidate *candidates;
    size_t n_candidates; /* 0 if no whole counts were found, even if feasible */
    double *prices_us;   /* at class x AH_CONFIGS_MAX + config; INFINITY: config not allowed; in the arena */
    double base_us;
    struct ah_milp_shortage shortage; /* zero if feasible */
};

/* Solves the MILP. AH_E_USAGE: a block is allowed no config. AH_E_FAILED: the solver gave up, which sane numbers never
 * cause. Arrays of `ret_result` are in `arena`. */
int ah_milp_solve(const struct ah_milp_input *input, struct ah_arena *arena,
                  struct ah_milp_result *ret_result, struct ah_error *err);

/* Lower bounds for given configs of all blocks: no plan with these configs takes less than `time_us` or less memory.
 * `limit` names the row that sets the time ("compute", "host_phase"). */
struct ah_milp_needs {
    double time_us;
    const char *limit;
    uint64_t device_bytes;
    uint64_t host_bytes;
};

/* Computes the lower bounds for `configs`. Ignores budgets and `allowed`. AH_E_USAGE: a block cannot have its
 * config. */
int ah_milp_needs(const struct ah_milp_input *input, const struct ah_config *configs,
                  struct ah_milp_needs *ret_needs, struct ah_error *err);

#endif
