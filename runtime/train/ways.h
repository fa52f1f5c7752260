/* SPDX-License-Identifier: Apache-2.0
 *
 * Ways: the NICs of a plan's nodes, for ranks on one machine that play these nodes (pace.h), as threads or processes.
 * Each node has a way out and a way in; one message at a time uses each.
 *
 *     rank 0:      rc = ah_ways_new(&ways, turns, nodes, err);      ah_ways_name(ways, name);
 *     the others:  rc = ah_ways_join(&ways, name, err);
 *     all:         rc = ah_ways_take(ways, turn, uses, n, &start_ns);
 *                  ah_ways_free(ways);
 *
 * All ranks map one page. It is a file without a name: others open it through the process that made it, and it vanishes
 * with the last process. The page also counts the ops that took longer than planned.
 *
 * INVARIANT. A turn takes all the ways that it needs at once, when all are free. If several turns could, the lowest
 * is first (replay.h: invariants 2 and 5).
 */
#ifndef AH_RUNTIME_TRAIN_WAYS_H
#define AH_RUNTIME_TRAIN_WAYS_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct ah_ways;

enum { AH_WAYS_NAME_MAX = 48 };

/* How long a message occupies each way of a node's NIC; 0: not at all. */
struct ah_ways_use {
    uint32_t node;
    uint64_t out_ns, in_ns;
};

struct ah_ways_totals {
    uint64_t ops;           /* items and messages with a planned time, of all ranks */
    uint64_t late, late_ns; /* how many took longer than planned, and by how much in total */
};

/* Makes the ways. Turns and nodes count from 0. AH_E_FAILED, AH_E_MEMORY. *Owned* by the caller. */
int ah_ways_new(struct ah_ways **ret_ways, uint32_t turns, uint32_t nodes, struct ah_error *err);
void ah_ways_name(const struct ah_ways *ways, char ret_name[AH_WAYS_NAME_MAX]);

/* Joins ways that another process made. AH_E_USAGE: that one runs on another machine; AH_E_FAILED, AH_E_MEMORY. */
int ah_ways_join(struct ah_ways **ret_ways, const char *name, struct ah_error *err);

/* Any thread, one at a time for each turn. Waits until all ways of `uses` are free; takes them as of `ret_start_ns`. */
void ah_ways_take(struct ah_ways *ways, uint32_t turn, const struct ah_ways_use *uses, size_t n,
                  uint64_t *ret_start_ns);

/* Counts an op that ended `late_ns` after its planned end. Any thread. */
void ah_ways_count(struct ah_ways *ways, uint64_t late_ns);
struct ah_ways_totals ah_ways_totals(const struct ah_ways *ways);

/* NULL is fine. */
void ah_ways_free(struct ah_ways *ways);

#endif
