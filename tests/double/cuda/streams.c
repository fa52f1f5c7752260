/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams and events.
 *
 * 1. A stream is a thread with a list of work, run in order. The default stream is one more; no stream waits for it.
 * 2. An event records into a `record`, which exists as long as anyone uses it. So recording the event once more, or
 *    destroying it, changes nothing for those already waiting.
 * 3. When the device is broken, work is dropped and nobody waits any more.
 */
#include "tests/double/cuda/double_internal.h"
#include "tests/double/cuda/emulator.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WORK_ALIGN = 64, STREAMS_MAX = 64, MARK = 0x5ca1ab1e };

struct work {
    struct work *next;
    double_run_fn *run;
    const struct double_tracer *tracer;
    void *traced; /* NULL: not traced */
    bool hangs;
    _Alignas(WORK_ALIGN) unsigned char payload[];
};

struct CUstream_st {
    unsigned mark;
    uint32_t id;
    int device;
    pthread_t thread;
    struct work *first, **end;
    uint64_t enqueued, finished;
    bool closing;
};

struct record {
    unsigned users;
    bool done;
    uint64_t time_ns;
};

struct CUevent_st {
    unsigned mark;
    unsigned flags;
    int device;
    struct record *record; /* NULL: never recorded */
};

/* All streams. Use with the lock held. */
static struct CUstream_st *streams[STREAMS_MAX];
static struct CUstream_st *default_stream;
static size_t n_events;
static uint32_t n_stream_ids;

static const struct double_tracer *in_use; /* read without the lock */

void double_trace(const struct double_tracer *tracer)
{
    __atomic_store_n(&in_use, tracer, __ATOMIC_RELEASE);
}

uint64_t double_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void double_sleep_us(unsigned us)
{
    struct timespec time = {us / 1000000, (long)(us % 1000000) * 1000};
    if (us)
        (void)nanosleep(&time, NULL);
}

size_t double_streams(void)
{
    size_t n = 0;
    pthread_mutex_lock(&double_lock);
    for (size_t i = 0; i < STREAMS_MAX; i++)
        n += streams[i] != NULL;
    pthread_mutex_unlock(&double_lock);
    return n;
}

size_t double_events(void)
{
    pthread_mutex_lock(&double_lock);
    size_t n = n_events;
    pthread_mutex_unlock(&double_lock);
    return n;
}

/* ---- a stream's thread ---- */

static struct work *take_work(struct CUstream_st *stream)
{
    pthread_mutex_lock(&double_lock);
    while (!stream->first && !stream->closing)
        pthread_cond_wait(&double_changed, &double_lock);
    struct work *work = stream->first;
    if (work && !(stream->first = work->next))
        stream->end = &stream->first;
    pthread_mutex_unlock(&double_lock);
    return work;
}

static void *run_stream(void *argument)
{
    struct CUstream_st *stream = argument;
    char report[CUDA_DOUBLE_REPORT_MAX] = "";
    for (struct work *work; (work = take_work(stream)); free(work)) {
        if (work->hangs)
            double_hang();
        if (work->traced)
            work->tracer->starts(work->traced);
        cudaError_t rc = work->run(work->payload, report);
        if (work->traced)
            work->tracer->done(work->traced);
        if (rc && !double_lost())
            double_lose(rc, report);
        pthread_mutex_lock(&double_lock);
        stream->finished++;
        pthread_cond_broadcast(&double_changed);
        pthread_mutex_unlock(&double_lock);
    }
    emulator_release();
    return NULL;
}

static cudaError_t open_stream(struct CUstream_st **ret_stream)
{
    struct CUstream_st *stream = calloc(1, sizeof *stream);
    if (!stream)
        return cudaErrorMemoryAllocation;
    stream->mark = MARK;
    stream->id = __atomic_add_fetch(&n_stream_ids, 1, __ATOMIC_RELAXED);
    stream->device = double_device();
    stream->end = &stream->first;
    if (pthread_create(&stream->thread, NULL, run_stream, stream)) {
        free(stream);
        return cudaErrorMemoryAllocation;
    }
    *ret_stream = stream;
    return cudaSuccess;
}

/* Returns the stream of a handle. If the handle is no stream, reports that and returns NULL. */
static struct CUstream_st *stream_of(cudaStream_t handle)
{
    struct CUstream_st *found = NULL;
    pthread_mutex_lock(&double_lock);
    if (!handle || handle == cudaStreamLegacy) {
        if (!default_stream && open_stream(&default_stream) == cudaSuccess)
            (void)pthread_detach(default_stream->thread);
        found = default_stream;
    }
    for (size_t i = 0; i < STREAMS_MAX && !found; i++)
        found = streams[i] == handle ? handle : NULL;
    pthread_mutex_unlock(&double_lock);
    if (!found)
        (void)double_misuse(cudaErrorInvalidResourceHandle,
                            "a stream is used that was destroyed or never created");
    return found;
}

cudaError_t double_check_device(cudaStream_t handle, int device, const char *what)
{
    const struct CUstream_st *stream = handle ? stream_of(handle) : NULL;
    if (!handle || (stream && stream->device == device))
        return cudaSuccess;
    if (!stream)
        return cudaErrorInvalidResourceHandle;
    return double_misuse(cudaErrorInvalidResourceHandle, "%s of GPU %d and a stream of GPU %d", what, device,
                         stream->device);
}

uint32_t double_stream_id(cudaStream_t handle)
{
    struct CUstream_st *stream = stream_of(handle);
    return stream ? stream->id : 0;
}

int double_stream_device(cudaStream_t handle)
{
    const struct CUstream_st *stream = stream_of(handle);
    return stream ? stream->device : -1;
}

static struct work *new_work(const struct CUstream_st *stream, const struct double_work *wanted)
{
    size_t bytes = sizeof(struct work) + (wanted->payload_bytes + WORK_ALIGN - 1) / WORK_ALIGN * WORK_ALIGN;
    struct work *work = aligned_alloc(WORK_ALIGN, bytes);
    if (!work)
        return NULL;
    memset(work, 0, sizeof *work);
    work->run = wanted->run;
    if (wanted->payload_bytes)
        memcpy(work->payload, wanted->payload, wanted->payload_bytes);
    work->tracer = wanted->activity ? __atomic_load_n(&in_use, __ATOMIC_ACQUIRE) : NULL;
    if (work->tracer)
        work->traced = work->tracer->enqueued(wanted->activity, stream->id);
    return work;
}

cudaError_t double_enqueue(cudaStream_t handle, const struct double_work *wanted)
{
    const unsigned channel = double_settings().channel;
    struct CUstream_st *stream = stream_of(handle);
    if (!stream)
        return cudaErrorInvalidResourceHandle;
    struct work *work = new_work(stream, wanted);
    if (!work)
        return cudaErrorMemoryAllocation;
    work->hangs = double_hangs();
    pthread_mutex_lock(&double_lock);
    while (channel && stream->enqueued - stream->finished >= channel)
        pthread_cond_wait(&double_changed, &double_lock);
    *stream->end = work;
    stream->end = &work->next;
    stream->enqueued++;
    pthread_cond_broadcast(&double_changed);
    pthread_mutex_unlock(&double_lock);
    return cudaSuccess;
}

static void wait_for(struct CUstream_st *stream)
{
    pthread_mutex_lock(&double_lock);
    uint64_t all = stream->enqueued;
    while (stream->finished < all) /* ends even if the GPU is lost, because queued work then ends at once */
        pthread_cond_wait(&double_changed, &double_lock);
    pthread_mutex_unlock(&double_lock);
}

void double_wait_for_all_streams(void)
{
    const int device = double_device();
    for (size_t i = 0; i <= STREAMS_MAX; i++) {
        pthread_mutex_lock(&double_lock);
        struct CUstream_st *stream = i < STREAMS_MAX ? streams[i] : default_stream;
        if (stream && i < STREAMS_MAX && stream->device != device)
            stream = NULL;
        pthread_mutex_unlock(&double_lock);
        if (stream)
            wait_for(stream);
    }
}

/* ---- streams ---- */

static cudaError_t create_stream(cudaStream_t *ret_stream, unsigned flags)
{
    if (flags != cudaStreamNonBlocking)
        return double_misuse(cudaErrorInvalidValue, "a stream is created that waits for the default stream");
    struct CUstream_st *stream = NULL;
    cudaError_t rc = open_stream(&stream);
    if (rc)
        return rc;
    size_t i = 0;
    pthread_mutex_lock(&double_lock);
    while (i < STREAMS_MAX - 1 && streams[i])
        i++;
    streams[i] = stream;
    pthread_mutex_unlock(&double_lock);
    *ret_stream = stream;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    cudaError_t rc = double_enter(__func__);
    return double_leave(rc ? rc : create_stream(stream, flags));
}

enum { PRIORITY_GREATEST = -5 };

cudaError_t CUDARTAPI cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    cudaError_t rc = double_enter(__func__);
    if (!rc) {
        *least = 0;
        *greatest = PRIORITY_GREATEST;
    }
    return double_leave(rc);
}

cudaError_t CUDARTAPI cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    cudaError_t rc = double_enter(__func__);
    if (!rc && (priority > 0 || priority < PRIORITY_GREATEST))
        rc = double_misuse(cudaErrorInvalidValue,
                           "a stream is created with the priority %d, not of the range", priority);
    return double_leave(rc ? rc : create_stream(stream, flags));
}

/* Finishes queued work and destroys the stream. If the device is broken, queued work is not finished. */
static cudaError_t destroy_stream(cudaStream_t handle)
{
    struct CUstream_st *stream = handle ? stream_of(handle) : NULL;
    if (!stream)
        return cudaErrorInvalidResourceHandle;
    pthread_mutex_lock(&double_lock);
    stream->closing = true;
    for (size_t i = 0; i < STREAMS_MAX; i++)
        streams[i] = streams[i] == stream ? NULL : streams[i];
    pthread_cond_broadcast(&double_changed);
    pthread_mutex_unlock(&double_lock);
    (void)pthread_join(stream->thread, NULL);
    free(stream);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t stream)
{
    cudaError_t rc = double_enter(__func__);
    cudaError_t done = !rc || double_lost() ? destroy_stream(stream) : cudaSuccess;
    return double_leave(rc ? rc : done);
}

static cudaError_t query_stream(cudaStream_t handle)
{
    struct CUstream_st *stream = stream_of(handle);
    if (!stream)
        return cudaErrorInvalidResourceHandle;
    pthread_mutex_lock(&double_lock);
    bool idle = stream->finished == stream->enqueued;
    pthread_mutex_unlock(&double_lock);
    return idle ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t CUDARTAPI cudaStreamQuery(cudaStream_t stream)
{
    cudaError_t rc = double_enter(__func__);
    return double_leave(rc ? rc : query_stream(stream));
}

cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t handle)
{
    cudaError_t rc = double_enter(__func__);
    struct CUstream_st *stream = rc ? NULL : stream_of(handle);
    if (stream)
        wait_for(stream);
    else if (!rc)
        rc = cudaErrorInvalidResourceHandle;
    return double_leave(rc ? rc : double_lost());
}

cudaError_t CUDARTAPI cudaDeviceSynchronize(void)
{
    cudaError_t rc = double_enter(__func__);
    if (!rc)
        double_wait_for_all_streams();
    return double_leave(rc ? rc : double_lost());
}

/* ---- events ---- */

/* Holds a record, so that it is not freed. Call this and drop_record() with the lock held. */
static struct record *hold(struct record *record)
{
    record->users++;
    return record;
}

static void drop_record(struct record *record)
{
    if (record && --record->users == 0)
        free(record);
}

static cudaError_t create_event(cudaEvent_t *ret_event, unsigned flags)
{
    struct CUevent_st *event = calloc(1, sizeof *event);
    if (!event)
        return cudaErrorMemoryAllocation;
    event->mark = MARK;
    event->flags = flags;
    event->device = double_device();
    pthread_mutex_lock(&double_lock);
    n_events++;
    pthread_mutex_unlock(&double_lock);
    *ret_event = event;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    cudaError_t rc = double_enter(__func__);
    return double_leave(rc ? rc : create_event(event, flags));
}

cudaError_t CUDARTAPI cudaEventCreate(cudaEvent_t *event)
{
    cudaError_t rc = double_enter(__func__);
    return double_leave(rc ? rc : create_event(event, cudaEventDefault));
}

static cudaError_t destroy_event(cudaEvent_t event)
{
    if (!event)
        return cudaErrorInvalidResourceHandle;
    pthread_mutex_lock(&double_lock);
    drop_record(event->record);
    n_events--;
    pthread_mutex_unlock(&double_lock);
    free(event);
    return cudaSuccess;
}

/* Destroys the event even if the call fails, because nobody could try once more. */
cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event)
{
    cudaError_t rc = double_enter(__func__);
    cudaError_t done = destroy_event(event);
    return double_leave(rc ? rc : done);
}

static cudaError_t run_record(void *payload, char *report)
{
    struct record *record = *(struct record **)payload;
    (void)report;
    pthread_mutex_lock(&double_lock);
    record->time_ns = double_now_ns();
    record->done = true;
    drop_record(record);
    pthread_cond_broadcast(&double_changed);
    pthread_mutex_unlock(&double_lock);
    return cudaSuccess;
}

static cudaError_t run_wait(void *payload, char *report)
{
    struct record *record = *(struct record **)payload;
    (void)report;
    pthread_mutex_lock(&double_lock);
    while (!record->done && !double_lost())
        pthread_cond_wait(&double_changed, &double_lock);
    drop_record(record);
    pthread_mutex_unlock(&double_lock);
    return cudaSuccess;
}

/* Enqueues work that uses a record, and holds the record until that work is done. */
static cudaError_t enqueue_record(cudaStream_t stream, double_run_fn *run, struct record *record)
{
    const struct double_work work = {run, &record, sizeof record, NULL};
    cudaError_t rc = double_enqueue(stream, &work);
    if (rc) {
        pthread_mutex_lock(&double_lock);
        drop_record(record);
        pthread_mutex_unlock(&double_lock);
    }
    return rc;
}

static cudaError_t record_event(cudaEvent_t event, cudaStream_t stream)
{
    struct record *record = calloc(1, sizeof *record);
    if (!event || !record) {
        free(record);
        return event ? cudaErrorMemoryAllocation : cudaErrorInvalidResourceHandle;
    }
    pthread_mutex_lock(&double_lock);
    drop_record(event->record);
    event->record = hold(record);
    (void)hold(record);
    pthread_mutex_unlock(&double_lock);
    return enqueue_record(stream, run_record, record);
}

cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    cudaError_t rc = double_enter(__func__);
    if (!rc && event)
        rc = double_check_device(stream, event->device, "an event");
    return double_leave(rc ? rc : record_event(event, stream));
}

/* Returns the event's last record, held for the caller. If there is none, reports that and returns NULL. */
static struct record *record_of(cudaEvent_t event, const char *call)
{
    struct record *record = NULL;
    pthread_mutex_lock(&double_lock);
    if (event && event->mark == MARK && event->record)
        record = hold(event->record);
    pthread_mutex_unlock(&double_lock);
    if (!record)
        (void)double_misuse(cudaErrorInvalidResourceHandle, "%s of an event that was never recorded", call);
    return record;
}

cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    cudaError_t rc = double_enter(__func__);
    struct record *record = rc ? NULL : record_of(event, __func__);
    (void)flags;
    if (!rc)
        rc = record ? enqueue_record(stream, run_wait, record) : cudaErrorInvalidResourceHandle;
    return double_leave(rc);
}

static cudaError_t look_at(cudaEvent_t event, const char *call, bool wait)
{
    struct record *record = record_of(event, call);
    if (!record)
        return cudaErrorInvalidResourceHandle;
    pthread_mutex_lock(&double_lock);
    while (wait && !record->done && !double_lost())
        pthread_cond_wait(&double_changed, &double_lock);
    cudaError_t rc = double_lost() ? double_lost() : record->done ? cudaSuccess : cudaErrorNotReady;
    drop_record(record);
    pthread_mutex_unlock(&double_lock);
    return rc;
}

cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t event)
{
    cudaError_t rc = double_enter(__func__);
    return double_leave(rc ? rc : look_at(event, __func__, false));
}

cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t event)
{
    cudaError_t rc = double_enter(__func__);
    return double_leave(rc ? rc : look_at(event, __func__, true));
}

static cudaError_t elapsed(float *ret_ms, cudaEvent_t begin, cudaEvent_t end, const char *call)
{
    struct record *records[2] = {record_of(begin, call), record_of(end, call)};
    cudaError_t rc = records[0] && records[1] ? cudaSuccess : cudaErrorInvalidResourceHandle;
    if (!rc && ((begin->flags | end->flags) & cudaEventDisableTiming))
        rc = double_misuse(cudaErrorInvalidResourceHandle, "%s of an event that keeps no time", call);
    pthread_mutex_lock(&double_lock);
    if (!rc && !(records[0]->done && records[1]->done))
        rc = cudaErrorNotReady;
    if (!rc)
        *ret_ms = (float)((double)((int64_t)records[1]->time_ns - (int64_t)records[0]->time_ns) / 1e6);
    drop_record(records[0]);
    drop_record(records[1]);
    pthread_mutex_unlock(&double_lock);
    return rc;
}

cudaError_t CUDARTAPI cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    cudaError_t rc = double_enter(__func__);
    return double_leave(rc ? rc : elapsed(ms, begin, end, __func__));
}
