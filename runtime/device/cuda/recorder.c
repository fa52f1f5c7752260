/* SPDX-License-Identifier: Apache-2.0
 *
 * The recorder, which uses CUPTI. CUPTI asks for empty buffers and returns full ones through two callbacks, on its own
 * threads or inside any CUDA call.
 *
 * 1. The callbacks get no context: they find the process's one recorder in `recording`, under its lock. They only move
 *    buffers and call nothing; the buffers are read once recording has stopped.
 * 2. Buffers are allocated with the recorder. Once CUPTI has all buffers, it counts the records that it drops.
 * 3. A buffer that CUPTI has not returned belongs to CUPTI. It is freed when CUPTI returns it, not with the recorder.
 * 4. Times are on the host's clock: CUPTI asks us for its time and converts the GPU's times.
 * 5. Kernels are recorded as concurrent, because the other kind of record would make kernels run one by one. Only calls
 *    that enqueue work are recorded, because CUPTI needs them to say to which op a kernel belongs. Whole kinds of calls
 *    are enabled, then all other calls are disabled. The manual also allows enabling calls one by one, but CUPTI 13.0
 *    then records nothing.
 *
 * Source: CUPTI manual, "CUPTI Activity API", "CUPTI Callback API" (one subscriber); cupti_activity.h of CUDA 13.0.
 */
#include "runtime/device/cuda/recorder.h"

#include "base/threads.h"
#include "runtime/device/cuda/records.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUFFERS = 32, BUFFER_BYTES = 2 << 20, RECORDER_STREAMS_MAX = 4, RECORDER_NAME_MAX = 32 };

enum buffer_state { BUFFER_FREE, BUFFER_OUT, BUFFER_FULL };

struct buffer {
    uint8_t *bytes; /* owned, unless CUPTI has the buffer */
    enum buffer_state state;
    size_t valid;
};

struct ah_cuda_recorder {
    struct ah_cupti calls;
    bool claimed, subscribed;
    CUpti_SubscriberHandle subscriber;
    size_t n_enabled;               /* how many of `kinds` are enabled */
    struct buffer buffers[BUFFERS]; /* under the lock of `recording` */
    uint32_t stream_ids[RECORDER_STREAMS_MAX];
    uint32_t n_streams;
    struct ah_cuda_records records;
    uint64_t dropped;
    char name[RECORDER_NAME_MAX];
};

/* The recorder that CUPTI calls back; NULL: none. */
static struct {
    pthread_mutex_t lock;
    struct ah_cuda_recorder *current;
} recording = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_RUNTIME,
                                           CUPTI_ACTIVITY_KIND_DRIVER,
                                           CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                           CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                           CUPTI_ACTIVITY_KIND_MEMCPY,
                                           CUPTI_ACTIVITY_KIND_MEMSET,
                                           CUPTI_ACTIVITY_KIND_OVERHEAD};
enum { KINDS_OF_CALLS = 2, KINDS = sizeof kinds / sizeof *kinds };

static const CUpti_CallbackId runtime_calls[] = {
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020, CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020};
static const CUpti_CallbackId driver_calls[] = {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
                                                CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx};

/* ---- callbacks ---- */

static void CUPTIAPI give_buffer(uint8_t **ret_buffer, size_t *ret_bytes, size_t *ret_most)
{
    *ret_buffer = NULL;
    *ret_bytes = *ret_most = 0;
    pthread_mutex_lock(&recording.lock);
    for (size_t i = 0; recording.current && i < BUFFERS && !*ret_buffer; i++) {
        struct buffer *buffer = &recording.current->buffers[i];
        if (buffer->state != BUFFER_FREE)
            continue;
        buffer->state = BUFFER_OUT;
        *ret_buffer = buffer->bytes;
        *ret_bytes = BUFFER_BYTES;
    }
    pthread_mutex_unlock(&recording.lock);
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *bytes, size_t size,
                                 size_t valid)
{
    struct buffer *mine = NULL;
    (void)context, (void)stream, (void)size;
    pthread_mutex_lock(&recording.lock);
    for (size_t i = 0; recording.current && i < BUFFERS && !mine; i++)
        if (recording.current->buffers[i].bytes == bytes)
            mine = &recording.current->buffers[i];
    if (mine) {
        mine->state = valid ? BUFFER_FULL : BUFFER_FREE;
        mine->valid = valid;
    }
    pthread_mutex_unlock(&recording.lock);
    if (!mine)
        free(bytes); /* its recorder no longer exists */
}

static void CUPTIAPI ignore_call(void *context, CUpti_CallbackDomain domain, CUpti_CallbackId call,
                                 const void *data)
{
    (void)context, (void)domain, (void)call, (void)data;
}

/* ---- start ---- */

static int claim_recording(struct ah_cuda_recorder *recorder, struct ah_error *err)
{
    pthread_mutex_lock(&recording.lock);
    recorder->claimed = !recording.current;
    if (recorder->claimed)
        recording.current = recorder;
    pthread_mutex_unlock(&recording.lock);
    return recorder->claimed ? AH_OK
                             : ah_error_set(err, AH_E_FAILED,
                                            "another device of this process is already recording; CUPTI "
                                            "serves only one");
}

static int subscribe(struct ah_cuda_recorder *recorder, struct ah_error *err)
{
    char other[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN + 1] = "";
    CUpti_SubscriberParams params = {.structSize = CUpti_SubscriberParams_STRUCT_SIZE,
                                     .subscriberName = "autohete",
                                     .oldSubscriberName = other,
                                     .oldSubscriberSize = sizeof other - 1};
    CUptiResult result = recorder->calls.subscribe(&recorder->subscriber, ignore_call, NULL, &params);
    if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
        return ah_error_set(err, AH_E_FAILED,
                            "'%s' already profiles this process, and CUPTI serves only one client; run "
                            "without it",
                            other[0] ? other : "another profiler");
    recorder->subscribed = result == CUPTI_SUCCESS;
    return ah_cupti_check(&recorder->calls, result, "cuptiSubscribe_v2", err);
}

static int take_buffers(struct ah_cuda_recorder *recorder, struct ah_error *err)
{
    for (size_t i = 0; i < BUFFERS; i++) {
        recorder->buffers[i].bytes = malloc(BUFFER_BYTES);
        if (!recorder->buffers[i].bytes)
            return ah_error_memory(err);
    }
    return AH_OK;
}

static int find_streams(struct ah_cuda_recorder *recorder, const cudaStream_t *streams, uint32_t n,
                        struct ah_error *err)
{
    int rc = AH_OK;
    for (recorder->n_streams = 0; recorder->n_streams < n && !rc; recorder->n_streams++)
        rc = ah_cupti_check(&recorder->calls,
                            recorder->calls.stream_id(NULL, streams[recorder->n_streams], 0,
                                                      &recorder->stream_ids[recorder->n_streams]),
                            "cuptiGetStreamIdEx", err);
    return rc;
}

/* Enables only the calls of rule 5. If a call cannot be disabled, its records are skipped. */
static void choose_calls(const struct ah_cupti *calls)
{
    for (CUpti_CallbackId i = 1; i < CUPTI_RUNTIME_TRACE_CBID_SIZE; i++)
        (void)calls->enable_runtime_call(i, 0);
    for (CUpti_CallbackId i = 1; i < CUPTI_DRIVER_TRACE_CBID_SIZE; i++)
        (void)calls->enable_driver_call(i, 0);
    for (size_t i = 0; i < sizeof runtime_calls / sizeof *runtime_calls; i++)
        (void)calls->enable_runtime_call(runtime_calls[i], 1);
    for (size_t i = 0; i < sizeof driver_calls / sizeof *driver_calls; i++)
        (void)calls->enable_driver_call(driver_calls[i], 1);
}

/* Makes CUPTI keep its data in host memory, as plans need the GPU's. If CUPTI refuses, it takes some MiB of the GPU. */
static void prefer_host_memory(const struct ah_cupti *calls)
{
    uint8_t pinned = 1;
    size_t bytes = sizeof pinned;
    (void)calls->set_attribute(CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED, &bytes, &pinned);
}

static int enable(struct ah_cuda_recorder *recorder, struct ah_error *err)
{
    const struct ah_cupti *calls = &recorder->calls;
    int rc = ah_cupti_check(calls, calls->set_clock(ah_threads_now_ns),
                            "cuptiActivityRegisterTimestampCallback", err);
    if (!rc)
        rc = ah_cupti_check(calls, calls->set_buffers(give_buffer, take_buffer),
                            "cuptiActivityRegisterCallbacks", err);
    if (rc)
        return rc;
    prefer_host_memory(calls);
    while (recorder->n_enabled < KINDS && !rc) {
        rc = ah_cupti_check(calls, calls->enable(kinds[recorder->n_enabled]), "cuptiActivityEnable", err);
        recorder->n_enabled += !rc;
        if (!rc && recorder->n_enabled == KINDS_OF_CALLS)
            choose_calls(calls);
    }
    return rc;
}

int ah_cuda_recorder_new(struct ah_cuda_recorder **ret_recorder, const cudaStream_t *streams, uint32_t n,
                         struct ah_error *err)
{
    struct ah_cuda_recorder *recorder = calloc(1, sizeof *recorder);
    if (!recorder)
        return ah_error_memory(err);
    int rc = claim_recording(recorder, err);
    if (!rc)
        rc = ah_cupti_load(&recorder->calls, err);
    if (!rc)
        rc = take_buffers(recorder, err);
    if (!rc)
        rc = subscribe(recorder, err);
    if (!rc)
        rc = find_streams(recorder, streams, n, err);
    if (!rc)
        rc = enable(recorder, err);
    if (rc) {
        ah_cuda_recorder_free(recorder);
        return rc;
    }
    snprintf(recorder->name, sizeof recorder->name, "CUPTI %u.%u", recorder->calls.api_version / 10000,
             recorder->calls.api_version % 10000 / 100);
    *ret_recorder = recorder;
    return AH_OK;
}

/* ---- ops ---- */

void ah_cuda_recorder_begin(struct ah_cuda_recorder *recorder, uint32_t lane, uint64_t ticket)
{
    if (recorder)
        (void)recorder->calls.push_id(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0,
                                      ah_cuda_records_id(lane, ticket));
}

void ah_cuda_recorder_end(struct ah_cuda_recorder *recorder)
{
    uint64_t id;
    if (recorder)
        (void)recorder->calls.pop_id(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &id);
}

/* ---- stop ---- */

/* Flushes twice: the second time returns the records that CUPTI still held when its kinds were disabled. */
static int flush_activities(struct ah_cuda_recorder *recorder, struct ah_error *err)
{
    const struct ah_cupti *calls = &recorder->calls;
    size_t dropped = 0;
    CUptiResult first = calls->flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    while (recorder->n_enabled > 0)
        (void)calls->disable(kinds[--recorder->n_enabled]);
    CUptiResult second = calls->flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    if (calls->count_dropped(NULL, 0, &dropped) == CUPTI_SUCCESS)
        recorder->dropped += dropped;
    return ah_cupti_check(calls, first ? first : second, "cuptiActivityFlushAll", err);
}

/* Stops CUPTI. Its callbacks then find no recorder, so the buffers no longer change. */
static int stop_recording(struct ah_cuda_recorder *recorder, struct ah_error *err)
{
    int rc = AH_OK;
    if (recorder->n_enabled)
        rc = flush_activities(recorder, err);
    pthread_mutex_lock(&recording.lock);
    if (recorder->claimed)
        recording.current = NULL;
    recorder->claimed = false;
    pthread_mutex_unlock(&recording.lock);
    return rc;
}

static void unsubscribe(struct ah_cuda_recorder *recorder)
{
    if (recorder->subscribed)
        (void)recorder->calls.unsubscribe(recorder->subscriber);
    recorder->subscribed = false;
}

/* Reads the returned buffers. Records in a buffer that CUPTI kept are lost and cannot be counted. */
static int read_buffers(struct ah_cuda_recorder *recorder, struct ah_error *err)
{
    int rc = AH_OK;
    recorder->records.calls = &recorder->calls;
    for (size_t i = 0; i < BUFFERS && !rc; i++) {
        struct buffer *buffer = &recorder->buffers[i];
        if (buffer->state == BUFFER_FULL)
            rc = ah_cuda_records_read(&recorder->records, buffer->bytes, buffer->valid, err);
    }
    return rc ? rc
              : ah_cuda_records_settle(&recorder->records, recorder->stream_ids, recorder->n_streams, err);
}

int ah_cuda_recorder_stop(struct ah_cuda_recorder *recorder, struct ah_device_recording *ret_recording,
                          struct ah_error *err)
{
    int rc = stop_recording(recorder, err);
    if (!rc && recorder->subscribed)
        rc = read_buffers(recorder, err);
    unsubscribe(recorder);
    if (!rc)
        *ret_recording = (struct ah_device_recording){.activities = recorder->records.settled,
                                                      .n = recorder->records.n,
                                                      .lost = recorder->dropped + recorder->records.untimed,
                                                      .overhead_ns = recorder->records.overhead_ns,
                                                      .recorder = recorder->name};
    return rc;
}

void ah_cuda_recorder_free(struct ah_cuda_recorder *recorder)
{
    struct ah_device_recording unused;
    if (!recorder)
        return;
    (void)ah_cuda_recorder_stop(recorder, &unused, NULL); /* `records` owns everything that was read */
    for (size_t i = 0; i < BUFFERS; i++)
        if (recorder->buffers[i].state != BUFFER_OUT)
            free(recorder->buffers[i].bytes);
    ah_cuda_records_release(&recorder->records);
    free(recorder);
}
