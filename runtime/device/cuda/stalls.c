/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds what lanes are doing, for the thread that watches (runtime/device/watch.h). This code may run while another
 * thread is stuck inside the driver, perhaps with the device's lock held. So:
 * 1. No call of CUDA is made here, and the lock is only tried.
 * 2. A stream's `done` is the last ticket seen to be done. A thread that waits long updates `done` of every stream
 *    (ah_cuda_pause). If that thread is stuck inside the driver, `done` may be out of date, and a note says so.
 */
#include "runtime/device/cuda/cuda_internal.h"

uint64_t ah_cuda_pulse(struct ah_device *device)
{
    struct ah_cuda_device *cuda = ah_cuda_of(device);
    const struct ah_lane *host = ah_cuda_worker(cuda, AH_LANE_HOST)->lane;
    uint64_t pulse = 0;
    for (uint32_t lane = 0; lane < AH_CUDA_STREAMS; lane++)
        pulse += atomic_load(&cuda->streams[lane].done) + atomic_load(&cuda->streams[lane].submitted);
    for (uint32_t lane = AH_CUDA_STREAMS; lane < device->lanes; lane++)
        pulse += ah_lane_done(ah_cuda_worker(cuda, lane)->lane);
    if (ah_lane_busy(host))
        pulse += ah_lane_cpu_ns(host) + ah_pool_cpu_ns(cuda->host_pool);
    return pulse;
}

static bool try_lock(struct ah_cuda_device *cuda)
{
    enum { TRIES = 100, PAUSE_NS = 1000 * 1000 };
    for (int i = 0; i < TRIES; i++) {
        if (!pthread_mutex_trylock(&cuda->lock))
            return true;
        ah_threads_sleep_until_ns(ah_threads_now_ns() + PAUSE_NS);
    }
    return false;
}

static void stream_head(struct ah_cuda_device *cuda, uint32_t lane, struct ah_device_head *ret_head)
{
    const struct ah_cuda_stream *stream = &cuda->streams[lane];
    ret_head->submitted = atomic_load(&stream->submitted);
    ret_head->done = atomic_load(&stream->done);
    if (!try_lock(cuda)) {
        ret_head->note = "the driver blocks the thread that polls for finished ops";
        return;
    }
    ret_head->submitted = stream->submitted;
    ret_head->done = stream->done;
    ret_head->any = ret_head->done < ret_head->submitted;
    if (ret_head->any) {
        const struct ah_cuda_queued *queued = ah_cuda_queued(stream, ret_head->done + 1);
        ret_head->kind = queued->kind;
        ret_head->tag = queued->tag;
        ret_head->n_waits = queued->n_waits;
        for (uint32_t i = 0; i < queued->n_waits; i++)
            ret_head->waits[i] = queued->waits[i];
        if (ah_cuda_stream_group_end(stream, ret_head->done + 1) > ret_head->done + 1)
            ret_head->note = "this op or a later one that is timed together with it";
    }
    pthread_mutex_unlock(&cuda->lock);
    if (atomic_load(&cuda->enqueueing) == lane)
        ret_head->note = "the driver blocks the thread that enqueues the next op";
}

static void worker_head(struct ah_cuda_device *cuda, uint32_t lane, struct ah_device_head *ret_head)
{
    struct ah_lane_head head;
    struct ah_cuda_task task;
    ah_lane_head(ah_cuda_worker(cuda, lane)->lane, &head, &task, sizeof task);
    ret_head->submitted = head.submitted;
    ret_head->done = head.done;
    ret_head->any = head.any;
    if (!head.any)
        return;
    ret_head->kind = task.op.kind;
    ret_head->tag = task.tag;
    for (uint32_t other = 0; other < AH_CUDA_STREAMS; other++)
        if (task.after[other])
            ret_head->waits[ret_head->n_waits++] = (struct ah_wait){other, task.after[other]};
    for (size_t i = 0; i < head.n_waits; i++)
        for (uint32_t other = AH_CUDA_STREAMS; other < cuda->common.lanes; other++)
            if (ah_cuda_worker(cuda, other)->lane == head.waits[i].lane)
                ret_head->waits[ret_head->n_waits++] = (struct ah_wait){other, head.waits[i].ticket};
}

void ah_cuda_head(struct ah_device *device, uint32_t lane, struct ah_device_head *ret_head)
{
    *ret_head = (struct ah_device_head){0};
    if (lane >= AH_CUDA_STREAMS)
        worker_head(ah_cuda_of(device), lane, ret_head);
    else
        stream_head(ah_cuda_of(device), lane, ret_head);
}
