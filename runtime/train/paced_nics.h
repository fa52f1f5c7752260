/* SPDX-License-Identifier: Apache-2.0
 *
 * NICs: imitates the NICs of a plan's nodes for paced ranks on one machine (pace.h), which are threads or processes.
 * Each NIC has a way out and a way in; one message at a time uses a way.
 *
 *     rank 0:      rc = ah_paced_nics_new(&nics, turns, nodes, err);      ah_paced_nics_name(nics, name);
 *     the others:  rc = ah_paced_nics_join(&nics, name, err);
 *     all:         rc = ah_paced_nics_take(nics, turn, uses, n, &start_ns);
 *                  ah_paced_nics_free(nics);
 *
 * All ranks map one page of a file without a name. Other processes open the file through the process that made it, and
 * it vanishes with the last process. The page also counts the ops that took longer than planned.
 *
 * INVARIANT. A turn takes all ways that it needs at once, when all are free. If several turns can, the lowest goes
 * first (replay.h: invariants 2 and 5).
 */
#ifndef AH_RUNTIME_TRAIN_PACED_NICS_H
#define AH_RUNTIME_TRAIN_PACED_NICS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ah_paced_nics;

enum { AH_PACED_NICS_NAME_MAX = 48 };

/* The times for which a message occupies the ways of a node's NIC; 0: not at all. */
struct ah_paced_nics_use {
    uint32_t node;
    uint64_t out_ns, in_ns;
};

struct ah_paced_nics_totals {
    uint64_t ops;           /* number of items and messages with a planned time, of all ranks */
    uint64_t late, late_ns; /* how many of them took longer than planned, and the sum of their delays */
};

/* Makes the NICs. Turns and nodes count from 0. AH_E_FAILED, AH_E_MEMORY. *Owned* by the caller. */
int ah_paced_nics_new(struct ah_paced_nics **ret_nics, uint32_t turns, uint32_t nodes, struct ah_error *err);
void ah_paced_nics_name(const struct ah_paced_nics *nics, char ret_name[AH_PACED_NICS_NAME_MAX]);

/* Joins NICs that another process made. AH_E_USAGE: that process is on another machine; AH_E_FAILED, AH_E_MEMORY. */
int ah_paced_nics_join(struct ah_paced_nics **ret_nics, const char *name, struct ah_error *err);

/* Waits until all ways of `uses` are free; takes them from `ret_start_ns` on. Any thread, one at a time per turn. */
void ah_paced_nics_take(struct ah_paced_nics *nics, uint32_t turn, const struct ah_paced_nics_use *uses,
                        size_t n, uint64_t *ret_start_ns);

/* The two halves of ah_paced_nics_take, for a caller with a clock of its own. From ah_paced_nics_wait() on, the turn
 * waits for its ways. ah_paced_nics_try() takes them if it can at `now_ns`: true, from `ret_ns` on. If not, the caller
 * tries again at `ret_ns`. */
void ah_paced_nics_wait(struct ah_paced_nics *nics, uint32_t turn, const struct ah_paced_nics_use *uses,
                        size_t n);
bool ah_paced_nics_try(struct ah_paced_nics *nics, uint32_t turn, const struct ah_paced_nics_use *uses,
                       size_t n, uint64_t came_ns, uint64_t now_ns, uint64_t *ret_ns);

/* Counts an op that ended `late_ns` after its planned end. Any thread. */
void ah_paced_nics_count(struct ah_paced_nics *nics, uint64_t late_ns);
struct ah_paced_nics_totals ah_paced_nics_totals(const struct ah_paced_nics *nics);

/* NULL is fine. */
void ah_paced_nics_free(struct ah_paced_nics *nics);

#endif
