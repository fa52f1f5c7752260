/* SPDX-License-Identifier: Apache-2.0
 *
 * A double of CUPTI: the calls that the plugin makes, as a library of the same soname. The double of the CUDA runtime
 * tells it of kernels, copies and fills (double_trace()).
 *
 * It guarantees what CUPTI's manual says, and no more. There is one subscriber, and only enabled kinds are recorded. An
 * activity has its op only if the call that enqueued the activity is also recorded. Calls of kinds that are not enabled
 * are not recorded (as in 13.0 on an H100, although the manual says otherwise). Records of all streams and kinds go
 * into the user's buffers in the order in which they are ready. A full or flushed buffer is handed back. Records
 * without a buffer are dropped and counted. Misuse is what works with CUPTI only by luck: enabling without a subscriber
 * or buffers, enabling while a stream waits for the host (enabling takes memory, for which the driver may wait), and
 * exiting with kinds enabled.
 *
 * Source: cupti_activity.h and cupti_callbacks.h of CUDA 13.0.
 */
#include "tests/double/cuda/double_internal.h"

#include <cupti.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

enum { IDS_MAX = 8, OVERHEAD_NS = 1000, KINDS_MAX = 64, CALLS_KNOWN = 3 };

static struct {
    pthread_mutex_t lock;
    int subscriber; /* its address is the handle */
    bool subscribed;
    CUpti_BuffersCallbackRequestFunc request;
    CUpti_BuffersCallbackCompleteFunc complete;
    CUpti_TimestampCallbackFunc now;
    bool enabled[KINDS_MAX];
    bool left_out[CALLS_KNOWN]; /* by enum double_activity_kind: the enqueuing call is not recorded */
    uint32_t correlation;
    uint8_t *buffer; /* the buffer in use; NULL: none */
    size_t size, used;
    size_t written, dropped;
} cupti = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The external ids of the calling thread. */
static __thread struct {
    uint64_t ids[IDS_MAX];
    unsigned n;
} external;

static bool fails(const char *call)
{
    return double_enter(call) != cudaSuccess;
}

static CUptiResult misuse(const char *what)
{
    (void)double_misuse(cudaErrorInvalidValue, "CUPTI: %s", what);
    return CUPTI_ERROR_INVALID_OPERATION;
}

/* ---- buffers ---- */

static const struct {
    CUpti_ActivityKind kind;
    size_t bytes;
} sizes[] = {
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, sizeof(CUpti_ActivityKernel10)},
    {CUPTI_ACTIVITY_KIND_MEMCPY, sizeof(CUpti_ActivityMemcpy6)},
    {CUPTI_ACTIVITY_KIND_MEMSET, sizeof(CUpti_ActivityMemset4)},
    {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, sizeof(CUpti_ActivityExternalCorrelation)},
    {CUPTI_ACTIVITY_KIND_OVERHEAD, sizeof(CUpti_ActivityOverhead3)},
    {CUPTI_ACTIVITY_KIND_RUNTIME, sizeof(CUpti_ActivityAPI)},
    {CUPTI_ACTIVITY_KIND_DRIVER, sizeof(CUpti_ActivityAPI)},
};

static size_t size_of(CUpti_ActivityKind kind)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].kind == kind)
            return sizes[i].bytes;
    return 0;
}

/* Hands back the buffer in use. Call with the lock held. */
static void hand_back(void)
{
    if (cupti.buffer)
        cupti.complete(NULL, 0, cupti.buffer, cupti.size, cupti.used);
    cupti.buffer = NULL;
}

/* Asks the user for a buffer. Call with the lock held. */
static void ask_for_buffer(void)
{
    size_t most = 0, limit = double_settings().cupti_buffer_bytes;
    cupti.request(&cupti.buffer, &cupti.size, &most);
    cupti.used = 0;
    if (cupti.buffer && limit && limit < cupti.size)
        cupti.size = limit;
}

/* Appends a record. Returns false if the record is dropped. Call with the lock held. */
static bool append(const void *record, CUpti_ActivityKind kind)
{
    const size_t bytes = size_of(kind), drop = double_settings().drop;
    if (!cupti.enabled[kind])
        return false;
    if (cupti.buffer && cupti.used + bytes > cupti.size)
        hand_back();
    if (!cupti.buffer)
        ask_for_buffer();
    if (!cupti.buffer || bytes > cupti.size || (drop && ++cupti.written % drop == 0)) {
        cupti.dropped++;
        return false;
    }
    memcpy(cupti.buffer + cupti.used, record, bytes);
    cupti.used += bytes;
    return true;
}

/* ---- activities ---- */

struct traced {
    struct double_activity activity;
    uint32_t stream, correlation;
    uint64_t start_ns;
};

/* Appends a record of the call, after a record of the op for which the call was made. Call with the lock held. */
static void append_call(uint32_t correlation)
{
    const CUpti_ActivityAPI call = {.kind = CUPTI_ACTIVITY_KIND_RUNTIME, .correlationId = correlation};
    if (external.n) {
        const CUpti_ActivityExternalCorrelation record = {.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                                          .externalKind =
                                                              CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0,
                                                          .externalId = external.ids[external.n - 1],
                                                          .correlationId = correlation};
        (void)append(&record, record.kind);
    }
    (void)append(&call, call.kind);
}

static void *enqueued(const struct double_activity *activity, uint32_t stream)
{
    struct traced *traced = calloc(1, sizeof *traced);
    if (!traced)
        return NULL;
    pthread_mutex_lock(&cupti.lock);
    *traced = (struct traced){.activity = *activity, .stream = stream, .correlation = ++cupti.correlation};
    if (cupti.enabled[CUPTI_ACTIVITY_KIND_RUNTIME] && !cupti.left_out[activity->kind])
        append_call(traced->correlation);
    pthread_mutex_unlock(&cupti.lock);
    return traced;
}

/* Returns the time of the wall clock, unless the user has set another clock. */
static uint64_t now_ns(void)
{
    struct timespec now;
    if (cupti.now)
        return cupti.now();
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void starts(void *place)
{
    ((struct traced *)place)->start_ns = now_ns();
}

/* Appends a record of a kernel. Call with the lock held. */
static void append_kernel(const struct traced *traced, uint64_t end_ns)
{
    const CUpti_ActivityKernel10 record = {.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                           .start = traced->start_ns,
                                           .end = end_ns,
                                           .streamId = traced->stream,
                                           .correlationId = traced->correlation,
                                           .name = traced->activity.name};
    (void)append(&record, record.kind);
}

static void append_copy(const struct traced *traced, uint64_t end_ns)
{
    const CUpti_ActivityMemcpy6 record = {.kind = CUPTI_ACTIVITY_KIND_MEMCPY,
                                          .copyKind = (uint8_t)traced->activity.way,
                                          .bytes = traced->activity.bytes,
                                          .start = traced->start_ns,
                                          .end = end_ns,
                                          .streamId = traced->stream,
                                          .correlationId = traced->correlation};
    (void)append(&record, record.kind);
}

static void append_fill(const struct traced *traced, uint64_t end_ns)
{
    const CUpti_ActivityMemset4 record = {.kind = CUPTI_ACTIVITY_KIND_MEMSET,
                                          .bytes = traced->activity.bytes,
                                          .start = traced->start_ns,
                                          .end = end_ns,
                                          .streamId = traced->stream,
                                          .correlationId = traced->correlation};
    (void)append(&record, record.kind);
}

static void done(void *place)
{
    static void (*const appenders[])(const struct traced *, uint64_t) = {
        [ACTIVITY_KERNEL] = append_kernel, [ACTIVITY_COPY] = append_copy, [ACTIVITY_FILL] = append_fill};
    struct traced *traced = place;
    uint64_t end_ns = now_ns();
    pthread_mutex_lock(&cupti.lock);
    appenders[traced->activity.kind](traced, end_ns);
    pthread_mutex_unlock(&cupti.lock);
    free(traced);
}

static const struct double_tracer tracer = {.enqueued = enqueued, .starts = starts, .done = done};

/* ---- the library ---- */

EXPORT CUptiResult cuptiGetVersion(uint32_t *version)
{
    uint32_t told = double_settings().cupti_version;
    if (fails(__func__))
        return CUPTI_ERROR_UNKNOWN;
    *version = told ? told : CUPTI_API_VERSION;
    return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiGetResultString(CUptiResult result, const char **text)
{
    *text = result == CUPTI_SUCCESS ? "success" : "the double was told to fail, or refuses";
    return CUPTI_SUCCESS;
}

/* Under the lock. */
static CUptiResult subscribe(CUpti_SubscriberHandle *subscriber, CUpti_SubscriberParams *params)
{
    const struct cuda_double settings = double_settings();
    if (cupti.subscribed || settings.profiler[0]) {
        if (params && params->oldSubscriberName)
            (void)snprintf(params->oldSubscriberName, params->oldSubscriberSize, "%s",
                           cupti.subscribed ? "CUPTI for autohete" : settings.profiler);
        return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    }
    cupti.subscribed = true;
    *subscriber = (CUpti_SubscriberHandle)(void *)&cupti.subscriber;
    return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback,
                                     void *context, CUpti_SubscriberParams *params)
{
    (void)context;
    if (fails(__func__))
        return CUPTI_ERROR_NOT_INITIALIZED;
    if (!subscriber || !callback || (params && params->structSize != CUpti_SubscriberParams_STRUCT_SIZE))
        return CUPTI_ERROR_INVALID_PARAMETER;
    pthread_mutex_lock(&cupti.lock);
    CUptiResult result = subscribe(subscriber, params);
    pthread_mutex_unlock(&cupti.lock);
    return result;
}

EXPORT CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber)
{
    bool enabled = false;
    if ((void *)subscriber != (void *)&cupti.subscriber || !cupti.subscribed)
        return CUPTI_ERROR_INVALID_PARAMETER;
    pthread_mutex_lock(&cupti.lock);
    for (size_t i = 0; i < KINDS_MAX; i++)
        enabled |= cupti.enabled[i];
    cupti.subscribed = false;
    pthread_mutex_unlock(&cupti.lock);
    (void)double_enter(__func__);
    return enabled ? misuse("its subscriber leaves with kinds of records enabled") : CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t *bytes, void *value)
{
    (void)attribute;
    if (fails(__func__))
        return CUPTI_ERROR_NOT_SUPPORTED;
    return bytes && *bytes && value ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

EXPORT CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc now)
{
    if (fails(__func__))
        return CUPTI_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&cupti.lock);
    cupti.now = now;
    pthread_mutex_unlock(&cupti.lock);
    return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                                  CUpti_BuffersCallbackCompleteFunc complete)
{
    if (fails(__func__))
        return CUPTI_ERROR_UNKNOWN;
    pthread_mutex_lock(&cupti.lock);
    cupti.request = request;
    cupti.complete = complete;
    pthread_mutex_unlock(&cupti.lock);
    return CUPTI_SUCCESS;
}

/* Sets or removes the tracer, depending on whether anything is recorded. Call with the lock held. */
static void set_tracer(void)
{
    bool any = false;
    for (size_t i = 0; i < KINDS_MAX; i++)
        any |= cupti.enabled[i];
    double_trace(any ? &tracer : NULL);
}

static CUptiResult set_kind(CUpti_ActivityKind kind, bool on)
{
    if (!size_of(kind))
        return CUPTI_ERROR_INVALID_KIND;
    pthread_mutex_lock(&cupti.lock);
    bool ready = cupti.subscribed && cupti.request && cupti.complete;
    if (ready || !on)
        cupti.enabled[kind] = on;
    set_tracer();
    pthread_mutex_unlock(&cupti.lock);
    return ready || !on ? CUPTI_SUCCESS
                        : misuse("a kind of records is enabled without a subscriber or buffers");
}

EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
    if (fails(__func__))
        return CUPTI_ERROR_UNKNOWN;
    return double_idle(__func__) ? CUPTI_ERROR_INVALID_OPERATION : set_kind(kind, true);
}

/* Disables the kind even if a test wants the call to fail, because the double could not end otherwise. */
EXPORT CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind)
{
    CUptiResult result = set_kind(kind, false);
    return fails(__func__) ? CUPTI_ERROR_UNKNOWN : result;
}

EXPORT CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId call, uint8_t enable)
{
    static const CUpti_CallbackId known[CALLS_KNOWN] = {
        [ACTIVITY_KERNEL] = CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,
        [ACTIVITY_COPY] = CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020,
        [ACTIVITY_FILL] = CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020};
    if (fails(__func__))
        return CUPTI_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&cupti.lock);
    for (size_t i = 0; i < CALLS_KNOWN; i++)
        if (known[i] == call)
            cupti.left_out[i] = !enable;
    pthread_mutex_unlock(&cupti.lock);
    return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId call, uint8_t enable)
{
    (void)call, (void)enable; /* the runtime's double calls no driver */
    return fails(__func__) ? CUPTI_ERROR_NOT_INITIALIZED : CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
    (void)flag;
    if (!cupti.complete)
        return misuse("it is flushed without buffers");
    bool fault = fails(__func__);
    pthread_mutex_lock(&cupti.lock);
    uint64_t start_ns = now_ns();
    CUpti_ActivityOverhead3 record = {.kind = CUPTI_ACTIVITY_KIND_OVERHEAD,
                                      .overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH,
                                      .start = start_ns,
                                      .end = start_ns + OVERHEAD_NS};
    if (!double_settings().faults[0].nth) /* otherwise the reader may stop before it frees the buffer */
        record.overheadData = malloc(16);
    if (!append(&record, record.kind))
        free(record.overheadData);
    hand_back();
    pthread_mutex_unlock(&cupti.lock);
    return fault ? CUPTI_ERROR_UNKNOWN : CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t bytes, CUpti_Activity **record)
{
    uint8_t *next = buffer;
    if (fails(__func__))
        return CUPTI_ERROR_UNKNOWN;
    if (*record)
        next = (uint8_t *)*record + size_of((*record)->kind);
    if (next >= buffer + bytes)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = (CUpti_Activity *)(void *)next;
    return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *dropped)
{
    (void)context, (void)stream;
    if (fails(__func__))
        return CUPTI_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&cupti.lock);
    *dropped = cupti.dropped;
    cupti.dropped = 0;
    pthread_mutex_unlock(&cupti.lock);
    return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id)
{
    if (fails(__func__))
        return CUPTI_ERROR_UNKNOWN;
    if (kind != CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0)
        return CUPTI_ERROR_INVALID_PARAMETER;
    if (external.n == IDS_MAX)
        return misuse("ids of external correlation are pushed and never popped");
    external.ids[external.n++] = id;
    return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t *last)
{
    bool fault = fails(__func__);
    (void)kind;
    if (!external.n)
        return CUPTI_ERROR_QUEUE_EMPTY;
    external.n--;
    if (last)
        *last = external.ids[external.n];
    return fault ? CUPTI_ERROR_UNKNOWN : CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t per_thread, uint32_t *id)
{
    (void)context, (void)per_thread;
    if (fails(__func__))
        return CUPTI_ERROR_INVALID_STREAM;
    *id = double_stream_id(stream);
    return *id ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_STREAM;
}
