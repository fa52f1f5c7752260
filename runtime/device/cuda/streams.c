/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams: the lanes compute, h2d and d2h. cuda_lanes.c has the invariants.
 *
 * GROUPS. An event costs the GPU about a microsecond, so ops whose own times are not needed share one event (`joins`).
 * 1. A lane's tickets form groups: an op that joins is in the group of the next op. Only a group's first op waits.
 * 2. A group records its end after its last op, in that op's slot. If its first op waited for other lanes, the group
 *    also records its start, after the waits, in the first op's slot. Otherwise the group started when the previous
 *    group ended or when it was submitted, whichever was later. So a group costs one event, or two if it waits.
 * 3. A ticket is done when the end of its group is seen; a wait for it is a wait for that event.
 * 4. While a group is open, nothing is submitted to another lane, and the submitter closes the group before waiting for
 *    anything. So a group longer than the queue is cut, and no wait is ever for an end that was not recorded.
 * 5. Every op has its own event while activities are recorded.
 *
 * TIMES. Events are read only when spans are asked for or a queue's slot is reused, because a finished event keeps its
 * time.
 */
#include "runtime/device/cuda/cuda_internal.h"
#include "runtime/device/cuda/errors.h"

#include <sched.h>
#include <stdlib.h>

/* Capacities of our queues. A stream's hardware queue holds about a thousand launches and events. A call that finds it
 * full blocks inside the driver, where it may keep other threads from polling events. An op takes two to eight entries:
 * up to three waits, two events, three kernels. A product made in steps takes dozens; a quarter of the thousand is for
 * these. A copy takes four: a wait, two events, the copy. Copy lanes run far ahead, so their queues are longer. */
enum { QUEUE_MOST = 96, COPY_QUEUE_MOST = 192, SPANS_DEFAULT = 1024 };

enum {
    SPIN_NS = 50 * 1000,
    SLEEP_LEAST_NS = 20 * 1000,
    SLEEP_MOST_NS = 200 * 1000,
    LONG_NS = 50 * 1000 * 1000
};

static uint64_t max_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- life ---- */

int ah_cuda_stream_init(struct ah_cuda_stream *stream, bool first, const struct ah_device_options *options,
                        struct ah_error *err)
{
    int least = 0, greatest = 0;
    const uint64_t most = first ? QUEUE_MOST : COPY_QUEUE_MOST;
    stream->capacity = options->queue && options->queue < most ? options->queue : most;
    stream->n_spans = options->spans ? options->spans : SPANS_DEFAULT;
    stream->queue = calloc(stream->capacity, sizeof *stream->queue);
    stream->spans = calloc(stream->n_spans, sizeof *stream->spans);
    if (!stream->queue || !stream->spans)
        return ah_error_memory(err);
    int rc = ah_cuda_check(err, cudaDeviceGetStreamPriorityRange(&least, &greatest),
                           "cudaDeviceGetStreamPriorityRange");
    if (!rc)
        rc = ah_cuda_check(
            err,
            cudaStreamCreateWithPriority(&stream->stream, cudaStreamNonBlocking, first ? greatest : least),
            "cudaStreamCreateWithPriority");
    for (uint64_t i = 0; i < stream->capacity && !rc; i++) {
        rc = ah_cuda_check(err, cudaEventCreateWithFlags(&stream->queue[i].start, cudaEventDefault),
                           "cudaEventCreateWithFlags");
        if (!rc)
            rc = ah_cuda_check(err, cudaEventCreateWithFlags(&stream->queue[i].end, cudaEventDefault),
                               "cudaEventCreateWithFlags");
    }
    return rc;
}

void ah_cuda_stream_release(struct ah_cuda_stream *stream)
{
    for (uint64_t i = 0; stream->queue && i < stream->capacity; i++) {
        if (stream->queue[i].start)
            (void)cudaEventDestroy(stream->queue[i].start);
        if (stream->queue[i].end)
            (void)cudaEventDestroy(stream->queue[i].end);
    }
    if (stream->stream)
        (void)cudaStreamDestroy(stream->stream);
    free(stream->queue);
    free(stream->spans);
    *stream = (struct ah_cuda_stream){0};
}

/* ---- groups ---- */

uint64_t ah_cuda_stream_group_end(const struct ah_cuda_stream *stream, uint64_t ticket)
{
    while (ticket < stream->submitted && ah_cuda_queued(stream, ticket)->joins)
        ticket++;
    return ticket;
}

/* Returns the last ticket of the first group not seen to be done; 0: none, or it is open. Call with the lock held. */
static uint64_t next_end(const struct ah_cuda_stream *stream)
{
    if (stream->done == stream->submitted)
        return 0;
    uint64_t ticket = ah_cuda_stream_group_end(stream, stream->done + 1);
    return ah_cuda_queued(stream, ticket)->joins ? 0 : ticket;
}

/* ---- finished work ---- */

/* Returns the lane to blame for a GPU error: the first with unfinished ops, else `seen`. Call with the lock held. */
static uint32_t find_running(const struct ah_cuda_device *cuda, uint32_t seen)
{
    for (uint32_t lane = 0; lane < AH_CUDA_STREAMS; lane++)
        if (cuda->streams[lane].done < cuda->streams[lane].submitted)
            return lane;
    return seen;
}

/* Marks the streams as lost, after reporting, so that nobody takes lost work for finished. Call with the lock held. */
static void lose_streams(struct ah_cuda_device *cuda, uint32_t seen, cudaError_t code)
{
    struct ah_error why = {0};
    uint32_t lane = find_running(cuda, seen);
    const struct ah_cuda_stream *stream = &cuda->streams[lane];
    const struct ah_cuda_queued *first = ah_cuda_queued(stream, stream->done + 1);
    const unsigned long long behind = stream->submitted - stream->done - 1;
    int rc = ah_cuda_error(&why, code, "cudaEventQuery");
    struct ah_error named = why;
    if (behind > 0)
        ah_error_set(
            &named, rc,
            "%s. It may also have been one of the %llu ops queued behind it; run with CUDA_LAUNCH_BLOCKING=1 "
            "to find out",
            why.text, behind);
    ah_cuda_fail(cuda, &(struct ah_cuda_culprit){lane, first->kind, first->tag}, rc, &named);
    atomic_store(&cuda->lost, true);
}

/* Brings `done` up to date; lost work counts as done. Call with the lock held. */
static void update_done(struct ah_cuda_device *cuda, uint32_t lane)
{
    struct ah_cuda_stream *stream = &cuda->streams[lane];
    for (uint64_t end; (end = next_end(stream)) != 0;) {
        cudaError_t rc = cudaSuccess;
        if (!atomic_load(&cuda->lost))
            rc = cudaEventQuery(ah_cuda_queued(stream, end)->end);
        if (rc == cudaErrorNotReady) {
            (void)cudaGetLastError(); /* no error, so no later call should report it */
            return;
        }
        if (rc == cudaSuccess)
            stream->done = end;
        else
            lose_streams(cuda, lane, rc);
    }
}

static void look_at_all(struct ah_cuda_device *cuda)
{
    pthread_mutex_lock(&cuda->lock);
    for (uint32_t lane = 0; lane < AH_CUDA_STREAMS; lane++)
        update_done(cuda, lane);
    pthread_mutex_unlock(&cuda->lock);
}

uint64_t ah_cuda_stream_done(struct ah_cuda_device *cuda, uint32_t lane)
{
    pthread_mutex_lock(&cuda->lock);
    update_done(cuda, lane);
    uint64_t done = cuda->streams[lane].done;
    pthread_mutex_unlock(&cuda->lock);
    return done;
}

void ah_cuda_pause(struct ah_cuda_device *cuda, uint64_t since_ns)
{
    uint64_t now_ns = ah_threads_now_ns(), waited_ns = now_ns - since_ns;
    if (waited_ns > LONG_NS)
        look_at_all(cuda);
    if (waited_ns < SPIN_NS) {
        sched_yield();
        return;
    }
    uint64_t sleep_ns = waited_ns / 8;
    sleep_ns = sleep_ns < SLEEP_LEAST_NS  ? SLEEP_LEAST_NS
               : sleep_ns > SLEEP_MOST_NS ? SLEEP_MOST_NS
                                          : sleep_ns;
    ah_threads_sleep_until_ns(now_ns + sleep_ns);
}

void ah_cuda_stream_wait(struct ah_cuda_device *cuda, uint32_t lane, uint64_t ticket)
{
    uint64_t since_ns = ah_threads_now_ns();
    (void)cudaSetDevice(cuda->index); /* for the calling thread; if this fails, the queries also fail */
    while (ah_cuda_stream_done(cuda, lane) < ticket)
        ah_cuda_pause(cuda, since_ns);
}

/* ---- times ---- */

/* Records the span of the oldest group without one. The group must be done. Call with the lock held. */
static void time_next(struct ah_cuda_device *cuda, struct ah_cuda_stream *stream)
{
    const struct ah_cuda_queued *queued = ah_cuda_queued(stream, stream->timed + 1);
    const uint64_t ticket = ah_cuda_stream_group_end(stream, stream->timed + 1);
    const struct ah_cuda_queued *last = ah_cuda_queued(stream, ticket);
    struct ah_span span = {.ticket = ticket, .tag = queued->tag, .joined = ticket - stream->timed - 1};
    bool lost = atomic_load(&cuda->lost);
    span.ready_ns = max_of(stream->end_ns, queued->queued_ns);
    span.start_ns = span.ready_ns;
    if (queued->waited && !lost)
        span.start_ns = max_of(span.start_ns, ah_cuda_clock_ns(&cuda->clock, queued->start));
    span.end_ns = lost ? span.start_ns : max_of(span.start_ns, ah_cuda_clock_ns(&cuda->clock, last->end));
    stream->spans[stream->spans_made++ % stream->n_spans] = span;
    stream->end_ns = span.end_ns;
    stream->timed = ticket;
}

/* Adjusts the clock. Call with the lock held, as the clock requires. */
static void adjust_clock(struct ah_cuda_device *cuda)
{
    if (!atomic_load(&cuda->lost))
        ah_cuda_clock_adjust(&cuda->clock);
}

/* Returns the index of the first remembered span with a ticket above `after`. Call with the lock held. */
static uint64_t find_span(const struct ah_cuda_stream *stream, uint64_t after)
{
    uint64_t low = stream->spans_made > stream->n_spans ? stream->spans_made - stream->n_spans : 0;
    uint64_t high = stream->spans_made;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (stream->spans[middle % stream->n_spans].ticket <= after)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t ah_cuda_stream_spans(struct ah_cuda_device *cuda, uint32_t lane, uint64_t after,
                            struct ah_span *ret_spans, size_t max)
{
    struct ah_cuda_stream *stream = &cuda->streams[lane];
    (void)cudaSetDevice(cuda->index);
    pthread_mutex_lock(&cuda->lock);
    update_done(cuda, lane);
    while (stream->timed < stream->done)
        time_next(cuda, stream);
    adjust_clock(cuda);
    const uint64_t first = find_span(stream, after);
    size_t n = (size_t)(stream->spans_made - first);
    n = n < max ? n : max;
    for (size_t i = 0; i < n; i++)
        ret_spans[i] = stream->spans[(first + i) % stream->n_spans];
    pthread_mutex_unlock(&cuda->lock);
    return n;
}

/* ---- submission ---- */

/* Marks the streams as lost, because nobody can know any more when enqueued work is done. */
static void lose_events(struct ah_cuda_device *cuda, const struct ah_cuda_culprit *culprit, int rc,
                        struct ah_error *why)
{
    ah_cuda_fail(cuda, culprit, rc, why);
    atomic_store(&cuda->lost, true);
}

/* Closes the newest op's group if it is open, by recording its end. */
static void close_group(struct ah_cuda_device *cuda, uint32_t lane)
{
    struct ah_cuda_stream *stream = &cuda->streams[lane];
    struct ah_error why = {0};
    if (!stream->submitted)
        return;
    struct ah_cuda_queued *newest = ah_cuda_queued(stream, stream->submitted);
    if (!newest->joins)
        return;
    int rc = atomic_load(&cuda->lost)
                 ? AH_OK
                 : ah_cuda_check(&why, cudaEventRecord(newest->end, stream->stream), "cudaEventRecord");
    if (rc)
        lose_events(cuda, &(struct ah_cuda_culprit){lane, newest->kind, newest->tag}, rc, &why);
    pthread_mutex_lock(&cuda->lock);
    newest->joins = false;
    pthread_mutex_unlock(&cuda->lock);
}

/* Returns a slot for the next ticket, after waiting while the queue is full. */
static struct ah_cuda_queued *take_slot(struct ah_cuda_device *cuda, uint32_t lane, uint64_t *ret_ticket)
{
    struct ah_cuda_stream *stream = &cuda->streams[lane];
    uint64_t ticket = stream->submitted + 1; /* only the submitter changes this number */
    if (ticket > stream->capacity) {
        if (ah_cuda_stream_group_end(stream, ticket - stream->capacity) == stream->submitted)
            close_group(cuda, lane);
        ah_cuda_stream_wait(cuda, lane, ticket - stream->capacity);
        pthread_mutex_lock(&cuda->lock);
        while (stream->timed + stream->capacity < ticket)
            time_next(cuda, stream);
        adjust_clock(cuda);
        pthread_mutex_unlock(&cuda->lock);
    }
    *ret_ticket = ticket;
    return ah_cuda_queued(stream, ticket);
}

/* Makes the stream wait for a ticket and sets `ret_waits`; does neither if the ticket is done. */
static int enqueue_wait(struct ah_cuda_device *cuda, uint32_t lane, struct ah_wait wait, bool *ret_waits,
                        struct ah_error *err)
{
    cudaStream_t stream = cuda->streams[lane].stream;
    if (wait.lane == lane)
        return AH_OK;
    if (wait.lane >= AH_CUDA_STREAMS) {
        const struct ah_cuda_worker *worker = ah_cuda_worker(cuda, wait.lane);
        if (ah_lane_done(worker->lane) >= wait.ticket)
            return AH_OK;
        *ret_waits = true;
        return ah_cuda_check(err,
                             (cudaError_t)cuda->driver.stream_wait_value(
                                 stream, worker->done_address, wait.ticket, CU_STREAM_WAIT_VALUE_GEQ),
                             "cuStreamWaitValue64");
    }
    if (ah_cuda_stream_done(cuda, wait.lane) >= wait.ticket)
        return AH_OK;
    *ret_waits = true;
    const struct ah_cuda_stream *other = &cuda->streams[wait.lane];
    const uint64_t end = ah_cuda_stream_group_end(other, wait.ticket);
    return ah_cuda_check(err, cudaStreamWaitEvent(stream, ah_cuda_queued(other, end)->end, 0),
                         "cudaStreamWaitEvent");
}

static int enqueue_op(struct ah_cuda_device *cuda, const struct ah_submission *submission,
                      struct ah_cuda_queued *queued, struct ah_error *err)
{
    bool waits = false;
    int rc = AH_OK;
    for (uint32_t i = 0; i < submission->n_waits && !rc; i++)
        rc = enqueue_wait(cuda, submission->lane, submission->waits[i], &waits, err);
    queued->queued_ns = ah_threads_now_ns();
    if (!rc && waits) {
        rc = ah_cuda_check(err, cudaEventRecord(queued->start, cuda->streams[submission->lane].stream),
                           "cudaEventRecord");
        queued->waited = !rc;
    }
    return rc ? rc : ah_cuda_dispatch(cuda, submission->lane, submission->op, err);
}

void ah_cuda_stream_submit(struct ah_cuda_device *cuda, const struct ah_submission *submission)
{
    struct ah_cuda_stream *stream = &cuda->streams[submission->lane];
    const struct ah_cuda_culprit culprit = {submission->lane, submission->op->kind, submission->tag};
    struct ah_error why = {0};
    uint64_t ticket;
    struct ah_cuda_queued *queued = take_slot(cuda, submission->lane, &ticket);
    queued->waited = false;
    queued->joins = submission->joins && !cuda->recorder;
    queued->kind = submission->op->kind;
    queued->tag = submission->tag;
    queued->n_waits = submission->n_waits;
    for (uint32_t i = 0; i < submission->n_waits; i++)
        queued->waits[i] = submission->waits[i];
    atomic_store_explicit(&cuda->enqueueing, submission->lane, memory_order_relaxed);
    ah_cuda_recorder_begin(cuda->recorder, submission->lane, ticket);
    queued->queued_ns = ah_threads_now_ns();
    int rc = atomic_load(&cuda->failed) ? AH_OK : enqueue_op(cuda, submission, queued, &why);
    ah_cuda_recorder_end(cuda->recorder);
    if (rc) {
        look_at_all(cuda); /* the call may have reported the failure of an earlier op */
        ah_cuda_fail(cuda, &culprit, rc, &why);
    }
    if (!queued->joins && !atomic_load(&cuda->lost)) {
        rc = ah_cuda_check(&why, cudaEventRecord(queued->end, stream->stream), "cudaEventRecord");
        if (rc)
            lose_events(cuda, &culprit, rc, &why);
    }
    atomic_store_explicit(&cuda->enqueueing, AH_CUDA_STREAMS, memory_order_relaxed);
    pthread_mutex_lock(&cuda->lock);
    stream->submitted = ticket;
    pthread_mutex_unlock(&cuda->lock);
}
