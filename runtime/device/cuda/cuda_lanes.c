/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes of a GPU: compute, h2d and d2h are streams (streams.c). The host lane and those for messages are workers
 * (workers.c): threads, as on every device (base/lane.h).
 *
 * ORDER
 * 1. One thread submits. An op is enqueued at once, after the waits that it names. So all streams together are filled
 *    in the order of submission, and every wait is for an earlier op.
 * 2. Each ticket has an event: `end` of its slot, recorded after the op. Ticket + `capacity` reuses the slot, but only
 *    once the op has been seen to be done; from then on no stream is told to wait for the old ticket. So an event for
 *    which a stream waits always belongs to the right ticket.
 * 3. A stream waits for another stream by that event (cudaStreamWaitEvent), and for a worker by the value of the
 *    worker's `done` in locked memory (cuStreamWaitValue64). A worker raises this value to an op's ticket after the
 *    op, even if the op failed or was skipped. Before an op starts, the worker's thread polls the events for which
 *    the op waits. A thread that has seen a stream's event sees what the stream wrote to the host; a stream that has
 *    seen the value sees what the host wrote.
 *
 * NO DEADLOCK
 * 4. By 1, the oldest op that is not done has no unmet wait. Even if the streams shared one hardware queue, this op
 *    would be at its head, so everything can run in the order of submission. Separate queues for the streams, as in
 *    CUDA (up to CUDA_DEVICE_MAX_CONNECTIONS), only let the streams overlap. Work of messages is the exception: a
 *    worker enqueues it late, on its own stream. So with messages, streams need separate queues. There are three lanes,
 *    the clock's, the side stream, NCCL's and those that NCCL hides, more than the eight queues that CUDA has unless
 *    CUDA_DEVICE_MAX_CONNECTIONS says otherwise (runtime/run/run_ranks.c sets it).
 * 5. The submitter waits only while a lane's queue is full of older ops. A stream's queue is so short that the driver
 *    never blocks inside a call, where it could keep workers from polling events.
 *
 * FAILURE
 * 6. `failed` is set once, after `failure` is complete. From then on ops of workers and newly submitted ops of
 *    streams are skipped. Ops already in streams cannot be taken back: they run, behind their waits, on whatever is in
 *    the arenas. Their results are useless, and nothing reports them as good.
 * 7. Every wait ends. Streams run what is enqueued, events are recorded even for skipped ops, and `done` of workers
 *    keeps rising. If the GPU itself fails, every later call says so (an error that "sticks"). Then the streams are
 *    `lost` and all their tickets count as done, since the GPU no longer touches memory. The same holds if an event
 *    could not be recorded or queried; close() then waits for the streams themselves.
 * 8. The failure names the op whose call failed. If no call failed but the GPU did, the failure names the oldest
 *    unfinished op of the first lane that has any; compute is the first lane.
 *
 * SPANS of a lane are in the order of tickets and never overlap. A time before the end of the previous op, by the GPU's
 * clock, is replaced by that end. `ready` is the end of the previous op or the submission, whichever was later.
 *
 * Source: CUDA Runtime API manual, "Event Management", "Stream Management"; CUDA Driver API manual, "Stream Memory
 * Operations".
 */
#include "runtime/device/cuda/cuda_internal.h"

/* ---- failure ---- */

void ah_cuda_fail(struct ah_cuda_device *cuda, const struct ah_cuda_culprit *culprit, int rc,
                  struct ah_error *why)
{
    ah_error_prefix(why, rc, "op '%s' on lane '%s'", ah_op_name(culprit->kind),
                    ah_device_lane_name(culprit->lane));
    pthread_mutex_lock(&cuda->failure_lock);
    const bool first = !atomic_load(&cuda->failed);
    if (first) {
        cuda->failure = *why;
        cuda->common.failed = (struct ah_device_failed){true, culprit->lane, culprit->tag};
        atomic_store(&cuda->failed, true);
    }
    pthread_mutex_unlock(&cuda->failure_lock);
    if (first && cuda->on_failure)
        cuda->on_failure(cuda->on_failure_context, why);
}

static int first_failure(struct ah_cuda_device *cuda, struct ah_error *err)
{
    if (!atomic_load(&cuda->failed))
        return AH_OK;
    pthread_mutex_lock(&cuda->failure_lock);
    int rc = cuda->failure.code;
    if (err)
        *err = cuda->failure;
    pthread_mutex_unlock(&cuda->failure_lock);
    return rc;
}

/* ---- functions of the driver's table ---- */

/* Checks that `op`, if it is a product, was prepared. */
static int check_prepared(const struct ah_cuda_device *cuda, const struct ah_op *op, struct ah_error *err)
{
    if (op->kind != AH_OP_MATMUL || ah_cuda_products_has(cuda->products, op))
        return AH_OK;
    return ah_error_set(err, AH_E_USAGE, "op 'matmul': this shape was not prepared");
}

int ah_cuda_submit(struct ah_device *device, const struct ah_submission *submissions, size_t n,
                   struct ah_error *err)
{
    struct ah_cuda_device *cuda = ah_cuda_of(device);
    int rc = AH_OK;
    for (size_t i = 0; i < n && !rc; i++)
        rc = check_prepared(cuda, submissions[i].op, err);
    if (rc)
        return rc;
    (void)cudaSetDevice(cuda->index); /* for the calling thread; if this fails, so do the calls after it */
    for (size_t i = 0; i < n; i++) {
        if (submissions[i].lane >= AH_CUDA_STREAMS)
            ah_cuda_worker_submit(cuda, &submissions[i]);
        else
            ah_cuda_stream_submit(cuda, &submissions[i]);
    }
    return AH_OK;
}

int ah_cuda_wait(struct ah_device *device, uint32_t lane, uint64_t ticket, struct ah_error *err)
{
    struct ah_cuda_device *cuda = ah_cuda_of(device);
    if (lane >= AH_CUDA_STREAMS)
        ah_lane_wait(ah_cuda_worker(cuda, lane)->lane, ticket);
    else
        ah_cuda_stream_wait(cuda, lane, ticket);
    return first_failure(cuda, err);
}

uint64_t ah_cuda_done(struct ah_device *device, uint32_t lane)
{
    struct ah_cuda_device *cuda = ah_cuda_of(device);
    if (lane >= AH_CUDA_STREAMS)
        return ah_lane_done(ah_cuda_worker(cuda, lane)->lane);
    (void)cudaSetDevice(cuda->index);
    return ah_cuda_stream_done(cuda, lane);
}

/* Returns the index of the first wait whose ticket is done; n if there is none. */
static size_t find_met(struct ah_device *device, const struct ah_wait *waits, size_t n)
{
    size_t i = 0;
    while (i < n && ah_cuda_done(device, waits[i].lane) < waits[i].ticket)
        i++;
    return i;
}

int ah_cuda_wait_any(struct ah_device *device, const struct ah_wait *waits, size_t n, size_t *ret_met,
                     struct ah_error *err)
{
    struct ah_cuda_device *cuda = ah_cuda_of(device);
    uint64_t since_ns = ah_threads_now_ns();
    size_t met;
    while ((met = find_met(device, waits, n)) == n)
        ah_cuda_pause(cuda, since_ns);
    int rc = first_failure(cuda, err);
    if (!rc)
        *ret_met = met;
    return rc;
}

size_t ah_cuda_spans(struct ah_device *device, uint32_t lane, uint64_t after, struct ah_span *ret_spans,
                     size_t max)
{
    struct ah_cuda_device *cuda = ah_cuda_of(device);
    return lane >= AH_CUDA_STREAMS ? ah_cuda_worker_spans(cuda, lane, after, ret_spans, max)
                                   : ah_cuda_stream_spans(cuda, lane, after, ret_spans, max);
}
