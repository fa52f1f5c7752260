/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers: the host lane and the lanes for messages. Each is a thread that runs ops one after another (base/lane.h).
 * cuda_lanes.c has the invariants.
 *
 * A message is moved by the submitter's function (op.h), which gets its address in the GPU's memory and returns once
 * the message is done. So no work waits on the GPU for another rank, except what that function enqueues.
 *
 * The lane `sums` also adds. It does that on the GPU, on a side stream, if an operand is in the GPU's memory; the other
 * operands are then in pinned memory, which kernels can access. Otherwise it adds on its own thread. Each op on the GPU
 * is finished before the next op begins, so messages need not wait for the side stream.
 */
#include "runtime/device/cuda/cuda_internal.h"
#include "runtime/device/cuda/errors.h"
#include "runtime/device/math/math.h"

/* Memory between the counts of two workers, so that they do not share a cache line. */
enum { SIGNAL_BYTES = 64 };

/* ---- life ---- */

static int open_signal(struct ah_cuda_device *cuda, struct ah_error *err)
{
    void *address = NULL;
    int rc =
        ah_cuda_check(err, cudaHostAlloc(&cuda->signal, AH_CUDA_WORKERS * SIGNAL_BYTES, cudaHostAllocMapped),
                      "cudaHostAlloc");
    if (rc)
        return rc;
    rc = ah_cuda_check(err, cudaHostGetDevicePointer(&address, cuda->signal, 0), "cudaHostGetDevicePointer");
    for (size_t i = 0; i < AH_CUDA_WORKERS && !rc; i++) {
        struct ah_cuda_worker *worker = &cuda->workers[i];
        worker->done = (void *)((char *)cuda->signal + i * SIGNAL_BYTES);
        worker->done_address = (CUdeviceptr)(uintptr_t)address + i * SIGNAL_BYTES;
        atomic_store(worker->done, 0);
    }
    return rc;
}

static int open_side(struct ah_cuda_side *side, struct ah_error *err)
{
    int least = 0, greatest = 0;
    int rc = ah_cuda_check(err, cudaDeviceGetStreamPriorityRange(&least, &greatest),
                           "cudaDeviceGetStreamPriorityRange");
    if (!rc) /* as compute has; other ranks wait for the sums */
        rc = ah_cuda_check(err, cudaStreamCreateWithPriority(&side->stream, cudaStreamNonBlocking, greatest),
                           "cudaStreamCreateWithPriority");
    if (!rc)
        rc = ah_cuda_check(err, cudaEventCreateWithFlags(&side->done, cudaEventDisableTiming),
                           "cudaEventCreateWithFlags");
    return rc ? rc
              : ah_cuda_check(err, cudaMalloc(&side->workspace, AH_CUDA_KERNEL_WORKSPACE_BYTES),
                              "cudaMalloc");
}

int ah_cuda_workers_open(struct ah_cuda_device *cuda, const struct ah_device_options *options,
                         struct ah_error *err)
{
    static const char *const names[AH_CUDA_WORKERS] = {"host", "send", "receive-before", "receive-behind",
                                                       "sums"};
    const struct ah_pool_options pool = {.threads = cuda->near.threads, .cpus = cuda->near.cpus};
    const size_t n = options->messages ? AH_CUDA_WORKERS : 1;
    int rc = open_signal(cuda, err);
    if (!rc && options->messages)
        rc = open_side(&cuda->side, err);
    for (size_t i = 0; i < n && !rc; i++) {
        const struct ah_lane_options lane = {.name = names[i],
                                             .cpu = i ? -1 : cuda->near.cpus[0],
                                             .queue = options->queue,
                                             .spans = options->spans};
        rc = ah_lane_new(&cuda->workers[i].lane, &lane, err);
    }
    return rc ? rc : ah_pool_new(&cuda->host_pool, &pool, err);
}

void ah_cuda_workers_drain(struct ah_cuda_device *cuda)
{
    for (size_t i = 0; i < AH_CUDA_WORKERS; i++)
        if (cuda->workers[i].lane)
            ah_lane_drain(cuda->workers[i].lane);
}

void ah_cuda_workers_release(struct ah_cuda_device *cuda)
{
    for (size_t i = 0; i < AH_CUDA_WORKERS; i++)
        ah_lane_free(cuda->workers[i].lane);
    ah_pool_free(cuda->host_pool);
    if (cuda->side.workspace)
        (void)cudaFree(cuda->side.workspace);
    if (cuda->side.done)
        (void)cudaEventDestroy(cuda->side.done);
    if (cuda->side.stream)
        (void)cudaStreamDestroy(cuda->side.stream);
    if (cuda->signal)
        (void)cudaFreeHost(cuda->signal);
}

/* ---- running ---- */

static void await_streams(void *payload)
{
    const struct ah_cuda_task *task = payload;
    for (uint32_t lane = 0; lane < AH_CUDA_STREAMS; lane++)
        if (task->after[lane])
            ah_cuda_stream_wait(task->cuda, lane, task->after[lane]);
}

static bool touches(const struct ah_op *op, enum ah_arena_kind arena)
{
    size_t i = 0;
    while (i < AH_OP_ARGS && op->arg[i].arena != (uint32_t)arena)
        i++;
    return i < AH_OP_ARGS;
}

static int move(const struct ah_cuda_task *task, struct ah_error *err)
{
    const struct ah_op_message *message = &task->op.u.message;
    const struct ah_op_moved moved = {message->channel, message->more,
                                      ah_cuda_operand(task->cuda, task->op.arg[0]), message->bytes,
                                      task->cuda->device_arena};
    return message->move(message->context, &moved, err);
}

/* Runs an op on the side stream, and waits until it is done. */
static int run_aside(struct ah_cuda_device *cuda, const struct ah_op *op, struct ah_error *err)
{
    const uint64_t since_ns = ah_threads_now_ns();
    (void)cudaSetDevice(cuda->index); /* for this thread; if this fails, so do the calls after it */
    if (touches(op, AH_ARENA_PAGEABLE))
        return ah_error_set(
            err, AH_E_UNSUPPORTED,
            "device 'cuda' adds numbers in its own memory only to numbers there or in pinned memory");
    int rc = ah_cuda_dispatch_side(cuda, op, err);
    if (!rc)
        rc = ah_cuda_check(err, cudaEventRecord(cuda->side.done, cuda->side.stream), "cudaEventRecord");
    cudaError_t done = cudaErrorNotReady;
    while (!rc && !atomic_load(&cuda->lost) &&
           (done = cudaEventQuery(cuda->side.done)) == cudaErrorNotReady) {
        (void)cudaGetLastError(); /* no error, so no later call should report it */
        ah_cuda_pause(cuda, since_ns);
    }
    return rc || done == cudaErrorNotReady ? rc : ah_cuda_check(err, done, "cudaEventQuery");
}

static int run_op(struct ah_cuda_task *task, struct ah_error *err)
{
    struct ah_cuda_device *cuda = task->cuda;
    const struct ah_op *op = &task->op;
    if (op->kind == AH_OP_SEND || op->kind == AH_OP_RECEIVE)
        return move(task, err);
    if (touches(op, AH_ARENA_DEVICE))
        return run_aside(cuda, op, err);
    const struct ah_host *host = task->lane == AH_LANE_HOST ? &cuda->host : &cuda->sums_host;
    if (!ah_math_does(op->kind))
        return ah_host_run(host, op, err);
    ah_math_run(host, op);
    return AH_OK;
}

static void run_task(void *payload)
{
    struct ah_cuda_task *task = payload;
    struct ah_cuda_device *cuda = task->cuda;
    struct ah_error why = {0};
    const int rc = atomic_load(&cuda->failed) ? AH_OK : run_op(task, &why);
    if (rc)
        ah_cuda_fail(cuda, &(struct ah_cuda_culprit){task->lane, task->op.kind, task->tag}, rc, &why);
    atomic_store_explicit(ah_cuda_worker(cuda, task->lane)->done, task->ticket, memory_order_release);
}

void ah_cuda_worker_submit(struct ah_cuda_device *cuda, const struct ah_submission *submission)
{
    struct ah_cuda_worker *worker = ah_cuda_worker(cuda, submission->lane);
    struct ah_cuda_task task = {.cuda = cuda,
                                .lane = submission->lane,
                                .ticket = ++worker->submitted,
                                .tag = submission->tag,
                                .op = *submission->op};
    struct ah_lane_wait waits[AH_DEVICE_WAITS_MAX];
    size_t n_waits = 0;
    bool any = false;
    for (uint32_t i = 0; i < submission->n_waits; i++) {
        const struct ah_wait wait = submission->waits[i];
        if (wait.lane >= AH_CUDA_STREAMS) {
            waits[n_waits++] = (struct ah_lane_wait){ah_cuda_worker(cuda, wait.lane)->lane, wait.ticket};
        } else if (wait.ticket > task.after[wait.lane]) {
            task.after[wait.lane] = wait.ticket;
            any = true;
        }
    }
    const struct ah_lane_job job = {.await = any ? await_streams : NULL,
                                    .run = run_task,
                                    .payload = &task,
                                    .payload_bytes = sizeof task,
                                    .waits = waits,
                                    .n_waits = n_waits,
                                    .tag = submission->tag};
    (void)ah_lane_submit(worker->lane, &job, NULL); /* fails only for jobs that are too large */
}

size_t ah_cuda_worker_spans(struct ah_cuda_device *cuda, uint32_t lane, uint64_t after,
                            struct ah_span *ret_spans, size_t max)
{
    enum { AT_ONCE = 64 };
    struct ah_lane_span some[AT_ONCE];
    size_t n = 0, found = AT_ONCE;
    while (n < max && found == AT_ONCE) {
        found = ah_lane_spans(ah_cuda_worker(cuda, lane)->lane, after, some,
                              max - n < AT_ONCE ? max - n : AT_ONCE);
        for (size_t i = 0; i < found; i++, n++)
            ret_spans[n] = (struct ah_span){some[i].ticket,   some[i].tag,    some[i].ready_ns,
                                            some[i].start_ns, some[i].end_ns, 0};
        if (n)
            after = ret_spans[n - 1].ticket;
    }
    return n;
}
