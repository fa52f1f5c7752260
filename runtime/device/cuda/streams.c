/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams: the lanes compute, h2d and d2h. lanes.c has the invariants.
 *
 * EVENTS. Each op records its end; one that waited for others also its start, behind the waits. One that did not wait
 * started when the op before it ended or when it was submitted, whichever was later. So an op costs one event, and two
 * where lanes meet.
 *
 * TIMES. What events say is read when somebody asks for spans, or when a queue's slot is needed again, never earlier:
 * an event that is over keeps its time.
 */
#include "runtime/device/cuda/cuda_internal.h"
#include "runtime/device/cuda/errors.h"

#include <sched.h>
#include <stdlib.h>

/* A stream's hardware queue holds about a thousand launches and events, and a call that finds it full waits inside the
 * driver, where it may keep others from looking at their events. An op is two to eight of them: up to three waits, two
 * events, three kernels. A product that is made in steps is dozens, for which a quarter of the thousand is left. A copy is
 * four of them: a wait, two events, the copy; copy lanes run far ahead, so they hold more. */
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

/* ---- what is done ---- */

/* Under the lock: the lane whose op was running when an error came that no call of ours made. */
static uint32_t find_running(const struct ah_cuda_device *cuda, uint32_t seen)
{
    for (uint32_t lane = 0; lane < AH_CUDA_STREAMS; lane++)
        if (cuda->streams[lane].done < cuda->streams[lane].submitted)
            return lane;
    return seen;
}

/* Under the lock. The failure is told before anybody can take what was lost for done. */
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
            "%s. Or it was one of the %llu ops queued behind it; run with CUDA_LAUNCH_BLOCKING=1 to know",
            why.text, behind);
    ah_cuda_fail(cuda, &(struct ah_cuda_culprit){lane, first->kind, first->tag}, rc, &named);
    atomic_store(&cuda->lost, true);
}

/* Under the lock: counts what is done by now. What was lost is. */
static void look(struct ah_cuda_device *cuda, uint32_t lane)
{
    struct ah_cuda_stream *stream = &cuda->streams[lane];
    while (stream->done < stream->submitted) {
        cudaError_t rc = cudaSuccess;
        if (!atomic_load(&cuda->lost))
            rc = cudaEventQuery(ah_cuda_queued(stream, stream->done + 1)->end);
        if (rc == cudaErrorNotReady) {
            (void)cudaGetLastError(); /* no failure to tell of later */
            return;
        }
        if (rc == cudaSuccess)
            stream->done++;
        else
            lose_streams(cuda, lane, rc);
    }
}

static void look_at_all(struct ah_cuda_device *cuda)
{
    pthread_mutex_lock(&cuda->lock);
    for (uint32_t lane = 0; lane < AH_CUDA_STREAMS; lane++)
        look(cuda, lane);
    pthread_mutex_unlock(&cuda->lock);
}

uint64_t ah_cuda_stream_done(struct ah_cuda_device *cuda, uint32_t lane)
{
    pthread_mutex_lock(&cuda->lock);
    look(cuda, lane);
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
    (void)cudaSetDevice(cuda->index); /* of the calling thread; where it fails, looking fails too */
    while (ah_cuda_stream_done(cuda, lane) < ticket)
        ah_cuda_pause(cuda, since_ns);
}

/* ---- times ---- */

/* Under the lock: the span of the op behind the last one whose times are known. */
static void time_next(struct ah_cuda_device *cuda, struct ah_cuda_stream *stream)
{
    const struct ah_cuda_queued *queued = ah_cuda_queued(stream, stream->timed + 1);
    struct ah_span span = {.ticket = stream->timed + 1, .tag = queued->tag};
    bool lost = atomic_load(&cuda->lost);
    span.ready_ns = max_of(stream->end_ns, queued->queued_ns);
    span.start_ns = span.ready_ns;
    if (queued->waited && !lost)
        span.start_ns = max_of(span.start_ns, ah_cuda_clock_ns(&cuda->clock, queued->start));
    span.end_ns = lost ? span.start_ns : max_of(span.start_ns, ah_cuda_clock_ns(&cuda->clock, queued->end));
    stream->spans[stream->timed % stream->n_spans] = span;
    stream->end_ns = span.end_ns;
    stream->timed++;
}

/* Under the lock. */
static void adjust_clock(struct ah_cuda_device *cuda)
{
    if (!atomic_load(&cuda->lost))
        ah_cuda_clock_adjust(&cuda->clock);
}

size_t ah_cuda_stream_spans(struct ah_cuda_device *cuda, uint32_t lane, uint64_t after,
                            struct ah_span *ret_spans, size_t max)
{
    struct ah_cuda_stream *stream = &cuda->streams[lane];
    (void)cudaSetDevice(cuda->index);
    pthread_mutex_lock(&cuda->lock);
    look(cuda, lane);
    while (stream->timed < stream->done)
        time_next(cuda, stream);
    adjust_clock(cuda);
    uint64_t overwritten = stream->timed > stream->n_spans ? stream->timed - stream->n_spans : 0;
    uint64_t first = max_of(after, overwritten);
    size_t n = first >= stream->timed ? 0 : (size_t)(stream->timed - first);
    n = n < max ? n : max;
    for (size_t i = 0; i < n; i++)
        ret_spans[i] = stream->spans[(first + i) % stream->n_spans];
    pthread_mutex_unlock(&cuda->lock);
    return n;
}

/* ---- submission ---- */

/* A slot for the next ticket. */
static struct ah_cuda_queued *take_slot(struct ah_cuda_device *cuda, uint32_t lane, uint64_t *ret_ticket)
{
    struct ah_cuda_stream *stream = &cuda->streams[lane];
    uint64_t ticket = stream->submitted + 1; /* the submitter's own number: nobody else changes it */
    if (ticket > stream->capacity) {
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

/* Lets the stream wait for a ticket; `ret_waits` where it must. */
static int enqueue_wait(struct ah_cuda_device *cuda, uint32_t lane, struct ah_wait wait, bool *ret_waits,
                        struct ah_error *err)
{
    cudaStream_t stream = cuda->streams[lane].stream;
    if (wait.lane == lane)
        return AH_OK;
    if (wait.lane == AH_LANE_HOST) {
        if (ah_lane_done(cuda->host_lane) >= wait.ticket)
            return AH_OK;
        *ret_waits = true;
        return ah_cuda_check(err,
                             (cudaError_t)cuda->driver.stream_wait_value(
                                 stream, cuda->host_done_address, wait.ticket, CU_STREAM_WAIT_VALUE_GEQ),
                             "cuStreamWaitValue64");
    }
    if (ah_cuda_stream_done(cuda, wait.lane) >= wait.ticket)
        return AH_OK;
    *ret_waits = true;
    return ah_cuda_check(
        err, cudaStreamWaitEvent(stream, ah_cuda_queued(&cuda->streams[wait.lane], wait.ticket)->end, 0),
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
        look_at_all(cuda); /* an earlier op may have failed, which is what the call told of */
        ah_cuda_fail(cuda, &culprit, rc, &why);
    }
    if (!atomic_load(&cuda->lost)) {
        rc = ah_cuda_check(&why, cudaEventRecord(queued->end, stream->stream), "cudaEventRecord");
        if (rc) { /* nothing would tell when it is done */
            ah_cuda_fail(cuda, &culprit, rc, &why);
            atomic_store(&cuda->lost, true);
        }
    }
    atomic_store_explicit(&cuda->enqueueing, AH_CUDA_STREAMS, memory_order_relaxed);
    pthread_mutex_lock(&cuda->lock);
    stream->submitted = ticket;
    pthread_mutex_unlock(&cuda->lock);
}
