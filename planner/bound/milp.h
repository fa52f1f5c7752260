/* SPDX-License-Identifier: Apache-2.0
 *
 * MILP: how many blocks get which config, as a RELAXATION of planning. Every schedule that can be executed satisfies
 * its rows (milp.c states and proves them). So its optimum is a bound that no plan beats, and if it has no solution,
 * there is no plan.
 *
 * A CLASS is a set of blocks that the MILP cannot tell apart: they are in one group and may have the same configs. A
 * COUNT is the number of blocks of a class that have a config. Placement decides which block has which.
 *
 * THE BOUND holds for all knobs within the given limits of tiles and fetches, but only for one micro-batch order (and,
 * through the costs, one split of threads). A caller that considers several orders takes the least of their bounds. If
 * there are few vectors of whole counts, the bound is their exact optimum, otherwise that of the linear relaxation; the
 * numbers of blocks and configs decide. Both are computed without rounding, from coefficients rounded down once. So a
 * faster rate or more memory never raises the bound, not by one bit.
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
    const struct ah_job *job;     /* borrowed during the call, like all pointers here */
    const struct ah_costs *costs; /* costs of the job's groups */
    uint64_t device_bytes;        /* budget of the arena: capacity less reserve */
    uint64_t host_bytes;          /* budget of pinned and pageable memory together */
    enum ah_micro_order micro_order;
    uint64_t most_tile_elements; /* no plan has larger tiles; 0: no limit */
    uint32_t most_fetch_ahead;   /* no plan fetches weights further ahead; 0: no limit */
    const uint32_t *allowed;     /* (optional) by block: bit i allows the i-th of ah_configs(); NULL: all */
};

enum { AH_MILP_CANDIDATES_MAX = 12 };

struct ah_milp_candidate {
    double bound_us;  /* no plan with these counts is faster */
    uint32_t *counts; /* at class x AH_CONFIGS_MAX + config (as in ah_configs()): blocks; in the arena */
};

/* Bytes that a budget lacks. AH_MILP_NEVER: more of only this memory is never enough. */
#define AH_MILP_NEVER UINT64_MAX

struct ah_milp_shortage {
    uint64_t device_bytes;      /* lacking if the host's budget stays as it is */
    uint64_t host_bytes;        /* lacking if the device's budget stays as it is */
    uint64_t both_device_bytes; /* if both must grow: the least device memory lacking with any host memory, */
    uint64_t both_host_bytes;   /* and the host memory then lacking */
};

struct ah_milp_result {
    size_t n_classes;
    uint32_t *class_of; /* by block; if `allowed` is NULL, a class is a group with the same number */
    bool feasible;      /* false: proven that no plan exists; bound and candidates are empty then */
    bool exact;         /* bound_us is the optimum over whole counts; false: of the linear relaxation */
    double bound_us;
    struct ah_milp_candidate *candidates;
    size_t n_candidates; /* 0 although feasible: no whole counts were found */
    double *prices_us;   /* at class x AH_CONFIGS_MAX + config; INFINITY: config not allowed; in the arena */
    double base_us;
    struct ah_milp_shortage shortage; /* zero where feasible */
};

/* AH_E_USAGE: a block is allowed no config. AH_E_FAILED: the solver gave up (never with sane numbers). Arrays of
 * `ret_result` are in `arena`. */
int ah_milp_solve(const struct ah_milp_input *input, struct ah_arena *arena,
                  struct ah_milp_result *ret_result, struct ah_error *err);

/* Lower bounds by the rows for given configs of all blocks: no plan with them is faster than `time_us` or needs less
 * memory. `limit` names the row that gives the time ("compute", "host_phase"). */
struct ah_milp_needs {
    double time_us;
    const char *limit;
    uint64_t device_bytes;
    uint64_t host_bytes;
};

/* Computes the needs of `configs`; ignores budgets and `allowed`. AH_E_USAGE: a block cannot have its config. */
int ah_milp_needs(const struct ah_milp_input *input, const struct ah_config *configs,
                  struct ah_milp_needs *ret_needs, struct ah_error *err);

#endif
