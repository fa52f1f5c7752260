/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA device's object, and what its files share.
 *
 *     cuda_plugin.c    the table of functions, and the one symbol
 *     probe.c     which GPUs there are
 *     cuda_device.c    open, prepare, close
 *     arenas.c    reserve: GPU and host memory
 *     pinned.c    locked host memory, which may outlive the device
 *     cuda_lanes.c     submit and wait, for both kinds of lanes; failures
 *     streams.c   compute, h2d and d2h: one stream each, with events
 *     workers.c   the other lanes: a thread each
 *     cuda_dispatch.c  puts an op on a stream
 *     stalls.c    what each lane is doing when nothing moves
 *     warm.c      kernels loaded before the first op
 *     recorder.c  records what the GPU does for ops, through CUPTI
 */
#ifndef AH_RUNTIME_DEVICE_CUDA_CUDA_INTERNAL_H
#define AH_RUNTIME_DEVICE_CUDA_CUDA_INTERNAL_H

#include "base/threads.h"
#include "runtime/device/cuda/cuda_clock.h"
#include "runtime/device/cuda/cuda_products.h"
#include "runtime/device/cuda/driver_calls.h"
#include "runtime/device/cuda/near.h"
#include "runtime/device/cuda/recorder.h"
#include "runtime/device/device_plugin.h"
#include "runtime/device/host/host.h"
#include "runtime/device/host/region.h"

#include <pthread.h>
#include <stdatomic.h>

/* The first lanes are streams; the others are workers. */
enum { AH_CUDA_STREAMS = 3, AH_CUDA_WORKERS = AH_DEVICE_LANES_ALL - AH_CUDA_STREAMS };
_Static_assert((int)AH_LANE_COMPUTE < AH_CUDA_STREAMS && (int)AH_LANE_H2D < AH_CUDA_STREAMS &&
                   (int)AH_LANE_D2H < AH_CUDA_STREAMS && (int)AH_LANE_HOST == AH_CUDA_STREAMS,
               "streams have the first numbers of lanes");

/* An op on its way through a worker: the payload of a lane's job. */
struct ah_cuda_task {
    struct ah_cuda_device *cuda;
    uint32_t lane;
    uint64_t ticket, tag;
    uint64_t after[AH_CUDA_STREAMS]; /* the stream tickets to wait for; 0: none */
    struct ah_op op;
};

_Static_assert(sizeof(struct ah_cuda_task) <= AH_LANE_PAYLOAD_MAX, "a task fits a lane's payload");

/* A lane that is a thread (workers.c). */
struct ah_cuda_worker {
    struct ah_lane *lane; /* owned; NULL: the device has no such lane */
    uint64_t submitted;   /* last ticket; only for the submitter */
    /* The last finished ticket, in locked host memory, so that streams can wait for it. */
    _Atomic uint64_t *done; /* points into the device's `signal` */
    CUdeviceptr done_address;
};

/* What the lane `sums` needs to run kernels beside the compute lane. */
struct ah_cuda_side {
    cudaStream_t stream; /* owned; NULL: there is no such lane */
    cudaEvent_t done;    /* owned; recorded after each op */
    void *workspace;     /* owned */
};

/* An op on a stream, from its submission until its times are read. */
struct ah_cuda_queued {
    cudaEvent_t start; /* owned */
    cudaEvent_t end;   /* owned */
    bool waited;       /* the op waited for other lanes, so `start` is recorded */
    bool joins;        /* the op is in the next op's group, so `end` is not recorded */
    enum ah_op_kind kind;
    uint64_t tag;
    uint32_t n_waits;
    struct ah_wait waits[AH_DEVICE_WAITS_MAX];
    uint64_t queued_ns; /* when it was enqueued, after its waits were checked */
};

/* A lane that is a stream. Ticket t sits in slot (t-1) % capacity, span k (from 0) in slot k % n_spans. The counts
 * change only under the lock: timed <= done <= submitted <= timed + capacity. `timed` and `done` are ends of groups. */
struct ah_cuda_stream {
    cudaStream_t stream;          /* owned */
    struct ah_cuda_queued *queue; /* owned */
    uint64_t capacity;
    struct ah_span *spans; /* owned; a ring */
    uint64_t n_spans, spans_made;
    _Atomic uint64_t submitted; /* the watcher reads `submitted` and `done` without the lock */
    _Atomic uint64_t done;      /* last ticket seen to be done */
    uint64_t timed;             /* spans up to this ticket are known */
    uint64_t end_ns;            /* end of the last timed span */
};

/* The ops that run once before training, to load their kernels: one of each prepared sort (warm.c). */
struct ah_cuda_warm {
    struct ah_op *ops; /* owned */
    size_t n, room;
};

/* How the pinned arena is locked; zeroed if it is not. */
struct ah_cuda_pinning {
    uint64_t bytes;       /* bytes locked; at least the arena's size */
    uint64_t piece_bytes; /* registered in pieces of this size */
    uint64_t table_bytes; /* GPU memory for the page tables of the locked memory */
};

/* What outlives a device on its GPU. The byte counts are 0 until the first device has opened. */
struct ah_cuda_kept {
    int index; /* of the GPU */
    uint64_t free_bytes, context_bytes;
    struct ah_region region; /* the pinned arena; empty while a device uses it */
    struct ah_cuda_pinning pinning;
};

struct ah_cuda_device {
    struct ah_device common; /* first: callers hold a pointer to it */
    int index;
    uint32_t processors; /* multiprocessors */
    struct ah_cuda_near near;
    struct ah_cuda_near_mask unpinned; /* the submitter's affinity before it was pinned */
    struct ah_cuda_driver_calls driver;
    struct ah_cuda_products *products; /* owned */
    struct ah_cuda_warm warm;          /* empty once the arenas are reserved */
    struct ah_cuda_stream streams[AH_CUDA_STREAMS];
    struct ah_cuda_recorder *recorder;       /* owned; NULL: nothing is recorded */
    struct ah_cuda_recorder *recorded;       /* owned; stopped: the last recording */
    void *workspace;                         /* workspace of kernels; owned */
    struct ah_cuda_clock clock;              /* used under the lock */
    uint64_t context_bytes;                  /* GPU memory taken by the context */
    uint64_t messages_bytes;                 /* as in the options */
    unsigned char *device_arena;             /* owned */
    struct ah_region arenas[AH_ARENA_KINDS]; /* only the arenas in host memory */
    struct ah_cuda_pinning pinning;          /* of the pinned arena */
    struct ah_cuda_kept *kept;               /* borrowed; NULL: nothing outlives the device */

    struct ah_cuda_worker workers[AH_CUDA_WORKERS]; /* lane AH_CUDA_STREAMS + i */
    struct ah_pool *host_pool;                      /* owned; of the lane `host` */
    struct ah_host host, sums_host;                 /* what these lanes run on the processor */
    struct ah_cuda_side side;
    void *signal;                                                  /* owned */
    void (*on_failure)(void *context, const struct ah_error *why); /* (optional) */
    void *on_failure_context;

    pthread_mutex_t lock;

    /* The lane on which the submitter is enqueueing an op inside the driver, or AH_CUDA_STREAMS (stalls.c). */
    _Atomic uint32_t enqueueing;

    /* The first failure. Once `failed` is set, read it under failure_lock, the inner of the two locks. `lost` is set
     * after `failed`, if the state of the streams is unknown. */
    pthread_mutex_t failure_lock;
    struct ah_error failure;
    atomic_bool failed;
    atomic_bool lost;
};

/* GPU memory reserved for kernel code (cuda_device.c). */
#define AH_CUDA_CODE_BYTES (UINT64_C(64) << 20)

static inline struct ah_cuda_device *ah_cuda_of(struct ah_device *device)
{
    return (struct ah_cuda_device *)device;
}

static inline struct ah_cuda_worker *ah_cuda_worker(struct ah_cuda_device *cuda, uint32_t lane)
{
    return &cuda->workers[lane - AH_CUDA_STREAMS];
}

static inline struct ah_cuda_queued *ah_cuda_queued(const struct ah_cuda_stream *stream, uint64_t ticket)
{
    return &stream->queue[(ticket - 1) % stream->capacity];
}

/* cuda_plugin.c: the one symbol of the plugin, AH_PLUGIN_SYMBOL */
__attribute__((visibility("default"))) ah_plugin_fn ah_plugin_driver;

/* probe.c */
int ah_cuda_probe(struct ah_device_info *ret_infos, size_t max, size_t *ret_n, struct ah_error *err);
/* Describes a GPU, except for its free memory, which the caller reads after making it current. */
int ah_cuda_describe(int index, struct ah_device_info *ret_info, struct cudaDeviceProp *ret_properties,
                     struct ah_error *err);
/* Counts the GPUs; it is an error if there are none. */
int ah_cuda_count(int *ret_n, struct ah_error *err);

/* cuda_device.c */
/* Returns the device memory that kernels use as workspace. */
uint64_t ah_cuda_workspace_bytes(const struct ah_cuda_device *cuda);
int ah_cuda_open(struct ah_device **ret_device, const struct ah_device_options *options,
                 struct ah_error *err);
void ah_cuda_close(struct ah_device *device);
void ah_cuda_drain(struct ah_device *device);
int ah_cuda_prepare(struct ah_device *device, const struct ah_op *ops, size_t n, struct ah_error *err);
int ah_cuda_algorithms(struct ah_device *device, const struct ah_op *product,
                       struct ah_device_algorithm *ret_algorithms, size_t max, size_t *ret_n,
                       struct ah_error *err);

int ah_cuda_record(struct ah_device *device, struct ah_error *err);
int ah_cuda_recorded(struct ah_device *device, struct ah_device_recording *ret_recording,
                     struct ah_error *err);

/* arenas.c */
int ah_cuda_reserve(struct ah_device *device, const uint64_t arena_bytes[AH_ARENA_KINDS],
                    struct ah_error *err);
void *ah_cuda_address(struct ah_device *device, enum ah_arena_kind arena);
void ah_cuda_release_arenas(struct ah_cuda_device *cuda);

/* pinned.c: releases what is kept for another GPU, then returns what is kept for GPU `index`. NULL: out of memory. */
struct ah_cuda_kept *ah_cuda_kept_find(struct ah_device_keep *keep, int index);
/* ah_cuda_pinned_resume() takes over a kept pinned arena of at least `bytes`; false: none. Then ah_cuda_pinned_take()
 * zeroes it, or maps and locks a new one. ah_cuda_pinned_forget() releases all locked memory; false: none. */
bool ah_cuda_pinned_resume(struct ah_cuda_device *cuda, uint64_t bytes);
int ah_cuda_pinned_take(struct ah_cuda_device *cuda, uint64_t bytes, struct ah_error *err);
bool ah_cuda_pinned_forget(struct ah_cuda_device *cuda);
/* Keeps the pinned arena for the next device, or releases it. */
void ah_cuda_pinned_leave(struct ah_cuda_device *cuda);

/* cuda_lanes.c */
int ah_cuda_submit(struct ah_device *device, const struct ah_submission *submissions, size_t n,
                   struct ah_error *err);
int ah_cuda_wait(struct ah_device *device, uint32_t lane, uint64_t ticket, struct ah_error *err);
int ah_cuda_wait_any(struct ah_device *device, const struct ah_wait *waits, size_t n, size_t *ret_met,
                     struct ah_error *err);
uint64_t ah_cuda_done(struct ah_device *device, uint32_t lane);
size_t ah_cuda_spans(struct ah_device *device, uint32_t lane, uint64_t after, struct ah_span *ret_spans,
                     size_t max);
/* The op to blame for a failure. ah_cuda_fail() stores the first failure only; the caller may hold the lock. */
struct ah_cuda_culprit {
    uint32_t lane;
    enum ah_op_kind kind;
    uint64_t tag;
};
void ah_cuda_fail(struct ah_cuda_device *cuda, const struct ah_cuda_culprit *culprit, int rc,
                  struct ah_error *why);

/* streams.c */
int ah_cuda_stream_init(struct ah_cuda_stream *stream, bool first, const struct ah_device_options *options,
                        struct ah_error *err);
void ah_cuda_stream_release(struct ah_cuda_stream *stream);
/* Returns the last ticket of the group around `ticket`, or the newest ticket if that group is still open. Only for the
 * submitter, and for callers holding the lock. */
uint64_t ah_cuda_stream_group_end(const struct ah_cuda_stream *stream, uint64_t ticket);
/* Enqueues an op after its waits. Blocks only while the queue is full. */
void ah_cuda_stream_submit(struct ah_cuda_device *cuda, const struct ah_submission *submission);
/* Waits until `ticket` is done or the streams are lost. */
void ah_cuda_stream_wait(struct ah_cuda_device *cuda, uint32_t lane, uint64_t ticket);
/* Returns the last finished ticket. */
uint64_t ah_cuda_stream_done(struct ah_cuda_device *cuda, uint32_t lane);
size_t ah_cuda_stream_spans(struct ah_cuda_device *cuda, uint32_t lane, uint64_t after,
                            struct ah_span *ret_spans, size_t max);
/* Pauses a thread that has been polling since `since_ns`. After a long wait, also updates what is done on all streams,
 * so that the watcher sees their progress (stalls.c). */
void ah_cuda_pause(struct ah_cuda_device *cuda, uint64_t since_ns);

/* stalls.c */
uint64_t ah_cuda_pulse(struct ah_device *device);
void ah_cuda_head(struct ah_device *device, uint32_t lane, struct ah_device_head *ret_head);

/* workers.c. Opens the lane `host` and, if the options ask for them, those for messages. */
int ah_cuda_workers_open(struct ah_cuda_device *cuda, const struct ah_device_options *options,
                         struct ah_error *err);
void ah_cuda_worker_submit(struct ah_cuda_device *cuda, const struct ah_submission *submission);
size_t ah_cuda_worker_spans(struct ah_cuda_device *cuda, uint32_t lane, uint64_t after,
                            struct ah_span *ret_spans, size_t max);
void ah_cuda_workers_drain(struct ah_cuda_device *cuda);
/* Ends the threads. Their lanes must be empty. */
void ah_cuda_workers_release(struct ah_cuda_device *cuda);

/* cuda_dispatch.c */
bool ah_cuda_supports(enum ah_op_kind kind);
/* Puts the op on the stream of a lane. */
int ah_cuda_dispatch(struct ah_cuda_device *cuda, uint32_t lane, const struct ah_op *op,
                     struct ah_error *err);
/* Puts an op of the lane `sums` on the side stream. Its operands are on the GPU or in pinned memory. */
int ah_cuda_dispatch_side(struct ah_cuda_device *cuda, const struct ah_op *op, struct ah_error *err);
void *ah_cuda_operand(const struct ah_cuda_device *cuda, struct ah_ref ref);

/* warm.c */
int ah_cuda_warm_add(struct ah_cuda_device *cuda, const struct ah_op *ops, size_t n, struct ah_error *err);
/* Leaves arbitrary data in the device arena. */
int ah_cuda_warm_run(struct ah_cuda_device *cuda, const uint64_t arena_bytes[AH_ARENA_KINDS],
                     struct ah_error *err);
void ah_cuda_warm_release(struct ah_cuda_warm *warm);

#endif
