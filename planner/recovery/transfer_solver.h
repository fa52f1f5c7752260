/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfer solver: chooses from where each node gets each shard, so that all nodes have their shards as soon as
 * possible. It works on numbers only; transfers.h derives them from documents.
 *
 * THE MODEL. Resources (a NIC's way out and in, a disk, storage) have rates. A BUNDLE is a number of equal shards: they
 * have the same size and the same RECEIVERS, and each receiver has the same OPTIONS to get one directly from a source.
 * An option lists the resources that its bytes pass. One receiver of each shard, its leader, gets the shard directly
 * and may relay it. The others get it directly, or from the leader as it arrives there. All transfers run at the same
 * time, each at its bytes / T, so that
 *
 *     T = max over resources r of (sum of the bytes that pass r) / rate(r)                                        (T)
 *
 * is reached. No schedule of the same choices is faster: (T) is exact for fluid transfers. Latencies are ignored.
 *
 * THE PROGRAM. The integers are y(l) (shards led by receiver l), f(d,s) (shards that d gets directly, by option s) and
 * r(l,d) (shards that d gets from l). For each bundle of c shards:
 *
 *     sum over l of y(l) = c                                                       (1)
 *     r(l,d) <= y(l)                                         for l != d            (2)
 *     sum over s of f(d,s) + sum over l of r(l,d) = c        for each d            (3)
 *     sum over s of f(d,s) <= y(d)     where shards are to be fetched ONCE         (4)
 *     bytes through r - rate(r) T <= 0                       for each r            (5)
 *
 * Every solution gives choices for all shards, and vice versa: of the y(l) shards led by l, any r(l,d) go from l to d.
 * Receiver d gets the rest directly: c - sum r(l,d) >= y(d) shards, by (2) and (1).
 *
 * THE PLAIN CHOICE. Suppose that every receiver of every bundle has a `fallback`, and no bundle is fetched once. Then
 * the result is never slower than all fallbacks together, however short the search.
 *
 * THE BOUND. For prices p(r) >= 0 with sum of p(r) rate(r) = 1, T = sum of p(r) rate(r) T >= sum of p(r) bytes through
 * r. That is at least the sum over all shards of their cheapest choice at these prices. The sum is evaluated here, so
 * the prices need not be trusted.
 */
#ifndef AH_PLANNER_RECOVERY_TRANSFER_SOLVER_H
#define AH_PLANNER_RECOVERY_TRANSFER_SOLVER_H

#include "base/arena.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AH_TRANSFER_PASSES = 6 };

struct ah_transfer_option {
    size_t source; /* any number; the solver does not use it */
    size_t passes[AH_TRANSFER_PASSES];
    size_t n_passes; /* 0 in a relay: it is not allowed */
};

struct ah_transfer_receiver {
    const struct ah_transfer_option *options; /* one or more, nearer ones first */
    size_t n_options;
    size_t fallback; /* 1 + index of the option in the plain choice; 0: none */
};

struct ah_transfer_bundle {
    uint64_t bytes; /* size of each shard */
    size_t count;
    const struct ah_transfer_receiver *receivers;
    size_t n_receivers;
    const struct ah_transfer_option
        *relays; /* (receivers, receivers): from, to; NULL if there is only one receiver */
    bool once;   /* only the leader may get a shard directly; all relays are then allowed */
};

struct ah_transfer_problem {
    const double *rates; /* bytes per second, by resource */
    size_t n_resources;
    const struct ah_transfer_bundle *bundles; /* larger shards first give better results */
    size_t n_bundles;
};

enum { AH_TRANSFER_RELAYED = -1 };

/* Shards of one bundle with the same leader and choices. */
struct ah_transfer_piece {
    size_t bundle;
    size_t first, count; /* range of the bundle's shards */
    size_t leader;       /* a receiver */
    int *choices;        /* by receiver: an option, or AH_TRANSFER_RELAYED */
};

struct ah_transfer_result {
    struct ah_transfer_piece *pieces; /* every shard once; by bundle, then first */
    size_t n_pieces;
    double time_s, bound_s;
    size_t limit; /* the resource busy for `time_s`; n_resources: nothing moves */
};

struct ah_transfer_limits {
    size_t columns; /* a program with more columns is not solved */
    size_t nodes;   /* the most nodes of the program's search tree */
};

/* Solves the problem, in `arena`. AH_E_MEMORY; AH_E_FAILED: as planner/bound/solver.h. */
int ah_transfer_solve(const struct ah_transfer_problem *problem, const struct ah_transfer_limits *limits,
                      struct ah_arena *arena, struct ah_transfer_result *ret_result, struct ah_error *err);

#endif
