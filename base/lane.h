/* SPDX-License-Identifier: Apache-2.0
 *
 * Lane: a thread that runs jobs one after another from a queue of fixed capacity.
 *
 * Completion is a timeline. The number of a job in its lane, counted from 1, is its *ticket*, and the lane's `done`
 * count only grows. A job may wait for tickets of other lanes before it starts, even for tickets not yet submitted.
 * CUDA streams with cudaStreamWaitEvent / cuStreamWaitValue behave the same, so devices share this model. An idle lane
 * sleeps. Every job runs and counts as done, so that no waiter hangs; jobs and their submitter must agree on how
 * failures are recorded and what is then skipped.
 *
 *     struct ah_lane_job copy = {.run = run_copy, .payload = &c, .payload_bytes = sizeof c};
 *     ah_lane_submit(copies, &copy, &a);
 *     struct ah_lane_wait after_copy = {copies, a};
 *     struct ah_lane_job product = {
 *         .run = run_product, .payload = &p, .payload_bytes = sizeof p, .waits = &after_copy, .n_waits = 1};
 *     ah_lane_submit(compute, &product, &b);
 *     ah_lane_wait(compute, b);
 *
 * All functions but ah_lane_new() and ah_lane_free() may be called from any thread, also from a job; but a
 * job must not wait for its own lane, nor submit to it when its queue may be full.
 */
#ifndef AH_BASE_LANE_H
#define AH_BASE_LANE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ah_lane;
struct ah_lane_bell;

enum { AH_LANE_PAYLOAD_MAX = 512, AH_LANE_WAITS_MAX = 16 };

struct ah_lane_wait {
    struct ah_lane *lane; /* borrowed; must outlive the job */
    uint64_t ticket;
};

struct ah_lane_span {
    uint64_t ticket;
    uint64_t tag;      /* the job's tag */
    uint64_t ready_ns; /* when the lane took the job and began to wait for its dependencies */
    uint64_t start_ns; /* when its dependencies were met */
    uint64_t end_ns;
};

struct ah_lane_job {
    void (*await)(void *payload);     /* (optional) runs before `run`; waits for events outside lanes */
    void (*run)(void *payload);       /* on the lane's thread */
    const void *payload;              /* copied at submit, to an address aligned to 64 */
    size_t payload_bytes;             /* <= AH_LANE_PAYLOAD_MAX */
    const struct ah_lane_wait *waits; /* copied at submit */
    size_t n_waits;                   /* <= AH_LANE_WAITS_MAX */
    uint64_t tag;                     /* copied to the span */
};

struct ah_lane_options {
    const char *name; /* name of the thread, at most 15 characters; NULL: "lane" */
    int cpu;          /* processor to pin the thread to; -1: not pinned */
    size_t queue;     /* jobs that may wait; 0: 1024. A full queue makes submit wait. */
    size_t spans;     /* finished jobs whose times are kept (a ring); 0: 1024 */

    struct ah_lane_bell *bell; /* (optional) borrowed; rung when a job is done; outlives the lane */
};

/* Makes a bell, which several lanes ring so that one thread can wait for any of them. *Owned* by the caller. */
int ah_lane_bell_new(struct ah_lane_bell **ret_bell, struct ah_error *err);
void ah_lane_bell_free(struct ah_lane_bell *bell);

/* Blocks until one of `n` > 0 tickets of lanes with this bell is done. Returns the index of the first such ticket. */
size_t ah_lane_wait_any(struct ah_lane_bell *bell, const struct ah_lane_wait *waits, size_t n);

/* Starts a lane, *owned* by the caller. AH_E_FAILED if the thread cannot be started or pinned; AH_E_MEMORY. */
int ah_lane_new(struct ah_lane **ret_lane, const struct ah_lane_options *options, struct ah_error *err);

/* Copies the job into the queue; allocates nothing. AH_E_USAGE for a payload or wait list that is too long, and for a
 * wait on this job or a later job of the same lane, which would never end. `ret_ticket` is optional. */
int ah_lane_submit(struct ah_lane *lane, const struct ah_lane_job *job, uint64_t *ret_ticket);

/* Blocks until `ticket` is done; returns at once for ticket 0. */
void ah_lane_wait(struct ah_lane *lane, uint64_t ticket);

/* Blocks until all jobs that were submitted before the call are done. */
void ah_lane_drain(struct ah_lane *lane);

/* Returns the number of finished jobs. A caller that reads a job's ticket here sees what that job wrote. */
uint64_t ah_lane_done(const struct ah_lane *lane);

/* True while a job of the lane is between start and end. Throttles use this to share a link. */
int ah_lane_busy(const struct ah_lane *lane);

/* What a lane is doing, to explain a stall. */
struct ah_lane_head {
    uint64_t submitted, done;
    bool any; /* the job with ticket done + 1 runs or is next, and the rest describes it */
    uint64_t tag;
    size_t n_waits;
    struct ah_lane_wait waits[AH_LANE_WAITS_MAX];
};

/* Describes what the lane is doing. `ret_payload` (optional) gets the first `bytes` of the job's payload; no job of the
 * lane may write there. Never blocks for long, because no lane holds its lock while it works or waits. */
void ah_lane_head(struct ah_lane *lane, struct ah_lane_head *ret_head, void *ret_payload, size_t bytes);

/* Returns the processor time used by the lane's thread, in ns. It grows while a job computes, not while a job waits. */
uint64_t ah_lane_cpu_ns(const struct ah_lane *lane);

/* Copies the spans of jobs finished after ticket `after`, oldest first, at most `max`, and returns their number. If the
 * ring has overwritten some, the first ticket is not after + 1. May be called at any time. */
size_t ah_lane_spans(struct ah_lane *lane, uint64_t after, struct ah_lane_span *ret_spans, size_t max);

/* Finishes the queued jobs and ends the thread. NULL is fine. */
void ah_lane_free(struct ah_lane *lane);

#endif
