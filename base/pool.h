/* SPDX-License-Identifier: Apache-2.0
 *
 * Pool: splits one piece of work over pinned threads.
 *
 * A pool has `threads` participants: the thread that calls ah_pool_run(), and threads-1 workers, pinned to the given
 * processors. Work is `chunks` calls of fn(context, chunk, worker). Any worker may take any chunk, so a result must
 * depend on the chunk only. Workers spin for `spin_us` (the next matrix product comes soon), then sleep. A run never
 * waits for a worker that has not woken up yet: the others do its chunks.
 *
 *     ah_pool_new(&pool, &(struct ah_pool_options){.threads = 2}, err);
 *     ah_pool_run(pool, add_tile, &tiles, n_tiles);
 *     ah_pool_free(pool);
 */
#ifndef AH_BASE_POOL_H
#define AH_BASE_POOL_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct ah_pool;

/* `worker` is 0 for the caller, 1..threads-1 for the others: it may select scratch memory. */
typedef void ah_pool_fn(void *context, size_t chunk, unsigned worker);

struct ah_pool_options {
    unsigned threads; /* participants, including the caller; 0: as many as the caller may use */
    const int
        *cpus; /* (optional) by participant; cpus[0] is for the caller, who pins itself; -1: not pinned */
    unsigned spin_us; /* how long idle workers spin; 0: 50 */
};

/* Starts a pool, *owned* by the caller. AH_E_FAILED if a thread cannot be started or pinned; AH_E_MEMORY. */
int ah_pool_new(struct ah_pool **ret_pool, const struct ah_pool_options *options, struct ah_error *err);

/* Returns the number of participants; 1 for a NULL pool. */
unsigned ah_pool_threads(const struct ah_pool *pool);

/* Runs fn for chunks 0 to chunks - 1 on all participants and waits until all are done. Every chunk sees what the caller
 * wrote before; the caller then sees what chunks wrote. Allocates nothing. One caller at a time, never from inside a
 * chunk. A NULL pool runs everything on the caller. Workers use the arithmetic of ah_threads_use_ieee(); a caller that
 * is no lane's thread must call it itself. */
void ah_pool_run(struct ah_pool *pool, ah_pool_fn *fn, void *context, size_t chunks);

/* Returns the processor time that the workers, without the caller, have used; 0 for a NULL pool. */
uint64_t ah_pool_cpu_ns(const struct ah_pool *pool);

/* Ends and joins the workers. NULL is fine. */
void ah_pool_free(struct ah_pool *pool);

#endif
