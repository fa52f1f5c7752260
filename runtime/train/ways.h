/* SPDX-License-Identifier: Apache-2.0
 *
 * Ways: the NICs of a plan's nodes, for ranks of one machine that play them (pace.h), as threads or as processes. Each node has
 * a way out and a way in, each taken by one message at a time.
 *
 *     rank 0:      rc = ah_ways_new(&ways, turns, nodes, err);      ah_ways_name(ways, name);
 *     the others:  rc = ah_ways_join(&ways, name, err);
 *     all:         rc = ah_ways_take(ways, turn, uses, n, &start_ns);
 *                  ah_ways_free(ways);
 *
 * It is a page that all of them map: a file without a name, which others open through the process that made it and which ends
 * with the last of them. Totals of what took too long are there, too.
 *
 * INVARIANT. Whoever takes ways takes all that he needs at once, when all are free; of several who could, the one with the
 * lowest turn (concert.h: invariants 2 and 5).
 */
#ifndef AH_RUNTIME_TRAIN_WAYS_H
#define AH_RUNTIME_TRAIN_WAYS_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct ah_ways;

enum { AH_WAYS_NAME_MAX = 48 };

/* What passes through a node's NIC: for how long each way; 0: not at all. */
struct ah_ways_use {
    uint32_t node;
    uint64_t out_ns, in_ns;
};

struct ah_ways_totals {
    uint64_t ops;           /* of all ranks: items and messages that had a time to take */
    uint64_t late, late_ns; /* those that took longer, and by how much in all */
};

/* Turns and nodes count from 0. AH_E_FAILED, AH_E_MEMORY. *Owned* by the caller. */
int ah_ways_new(struct ah_ways **ret_ways, uint32_t turns, uint32_t nodes, struct ah_error *err);
void ah_ways_name(const struct ah_ways *ways, char ret_name[AH_WAYS_NAME_MAX]);

/* AH_E_USAGE: not on the machine of whoever made them. */
int ah_ways_join(struct ah_ways **ret_ways, const char *name, struct ah_error *err);

/* Any thread, one at a time a turn. Returns when all are free, and taken; `ret_start_ns` is when they became free, or now. */
void ah_ways_take(struct ah_ways *ways, uint32_t turn, const struct ah_ways_use *uses, size_t n,
                  uint64_t *ret_start_ns);

/* Something that had its time is done; `late_ns` after that. Any thread. */
void ah_ways_count(struct ah_ways *ways, uint64_t late_ns);
struct ah_ways_totals ah_ways_totals(const struct ah_ways *ways);

/* NULL is fine. */
void ah_ways_free(struct ah_ways *ways);

#endif
