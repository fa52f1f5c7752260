/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads: a pool that splits one piece of work, and a lane that runs pieces of work one after another.
 *
 * POOL. `threads` participants: the thread that calls ah_pool_run() and threads-1 workers, pinned to the
 * given processors. Work is `chunks` calls of fn(context, chunk, worker); which worker takes which chunk is
 * not determined, so a result must depend on the chunk only. Workers spin for `spin_us` (a matrix product
 * follows the last one closely), then sleep.
 *
 * LANE. A thread with a queue of fixed capacity. Completion is a timeline: job number k of a lane, counted
 * from 1, is its *ticket*; the lane's `done` count only grows; a job may wait for tickets of other lanes
 * before it starts. A CUDA stream with cudaStreamWaitEvent / cuStreamWaitValue has the same meaning, so
 * devices share it. An idle lane sleeps. A job that fails stores the lane's first error; later jobs still run
 * (they are told so through `failed`), so that no waiter is left hanging.
 *
 *     uint64_t a, b;
 *     ah_lane_submit(copies, &(struct ah_lane_job){.run = copy, .payload = &c, .payload_bytes = sizeof c},
 * &a); ah_lane_submit(compute, &(struct ah_lane_job){.run = product, .payload = &p, .payload_bytes = sizeof
 * p, .waits = &(struct ah_lane_wait){copies, a}, .n_waits = 1}, &b); ah_lane_wait(compute, b);
 */
#ifndef AH_BASE_THREADS_H
#define AH_BASE_THREADS_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Monotonic nanoseconds (CLOCK_MONOTONIC). */
uint64_t ah_threads_now_ns(void);

/* Sleeps until `deadline_ns` of that clock. */
void ah_threads_sleep_until_ns(uint64_t deadline_ns);

/* Processors this process may use (its affinity mask): their numbers in ascending order into `ret_cpus`, at
 * most `max`; returns how many there are. */
unsigned ah_threads_cpus(unsigned *ret_cpus, unsigned max);

/* Pins the calling thread; a negative cpu is "leave it". AH_E_FAILED where the kernel refuses. */
int ah_threads_pin(int cpu);

struct ah_pool;

typedef void ah_pool_fn(void *context, size_t chunk, unsigned worker);

struct ah_pool_options {
    unsigned threads; /* participants, the caller included; 0: as many as `cpus`, or 1 */
    const int
        *cpus; /* (optional) one per participant; cpus[0] is for the caller, who pins itself; -1: free */
    unsigned spin_us; /* 0: default 50 */
};

int ah_pool_new(struct ah_pool **ret_pool, const struct ah_pool_options *options, struct ah_error *err);
unsigned ah_pool_threads(const struct ah_pool *pool);

/* Runs fn for chunk 0..chunks-1 on all participants and returns when all are done. One caller at a time.
 * A NULL pool runs everything on the caller. */
void ah_pool_run(struct ah_pool *pool, ah_pool_fn *fn, void *context, size_t chunks);
void ah_pool_free(struct ah_pool *pool);

struct ah_lane;

enum { AH_LANE_PAYLOAD_MAX = 512, AH_LANE_WAITS_MAX = 16 };

struct ah_lane_wait {
    struct ah_lane *lane; /* borrowed; must outlive the job */
    uint64_t ticket;
};

struct ah_lane_span {
    uint64_t ticket;
    uint64_t tag;      /* the job's own */
    uint64_t ready_ns; /* the lane took it up and began waiting for its dependencies */
    uint64_t start_ns; /* dependencies met */
    uint64_t end_ns;
};

struct ah_lane_job {
    int (*run)(void *payload, struct ah_error *err); /* on the lane's thread; 0 or an ah_err */
    const void *payload;                             /* copied at submit */
    size_t payload_bytes;                            /* <= AH_LANE_PAYLOAD_MAX */
    const struct ah_lane_wait *waits;
    size_t n_waits; /* <= AH_LANE_WAITS_MAX */
    uint64_t tag;   /* kept in the span */
};

struct ah_lane_options {
    const char *name; /* of the thread, at most 15 characters */
    int cpu;          /* -1: not pinned */
    size_t queue;     /* jobs that may wait; 0: 1024. A full queue makes submit wait. */
    size_t spans;     /* finished jobs whose times are kept (a ring); 0: 1024 */
};

int ah_lane_new(struct ah_lane **ret_lane, const struct ah_lane_options *options, struct ah_error *err);

/* Copies the job into the queue; allocates nothing. Only fails for a payload or wait list that is too long.
 */
int ah_lane_submit(struct ah_lane *lane, const struct ah_lane_job *job, uint64_t *ret_ticket);

/* Blocks until `ticket` is done (0: returns at once); returns the lane's first error so far, or 0. */
int ah_lane_wait(struct ah_lane *lane, uint64_t ticket);

/* Blocks until everything submitted is done; returns and clears the lane's first error. */
int ah_lane_drain(struct ah_lane *lane, struct ah_error *err);

uint64_t ah_lane_done(const struct ah_lane *lane);

/* True while a job of the lane is between start and end: what a throttle shares a link by. */
int ah_lane_busy(const struct ah_lane *lane);

/* Copies the spans of the newest finished jobs, oldest first, at most `max`; returns how many. Call drained.
 */
size_t ah_lane_spans(struct ah_lane *lane, struct ah_lane_span *ret_spans, size_t max);

/* Finishes what is queued, ends the thread. NULL is fine. */
void ah_lane_free(struct ah_lane *lane);

#endif
