/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU device's object, shared by cpu.c (life cycle, lanes) and cpu_dispatch.c (ops).
 */
#ifndef AH_RUNTIME_DEVICE_CPU_CPU_INTERNAL_H
#define AH_RUNTIME_DEVICE_CPU_CPU_INTERNAL_H

#include "base/threads.h"
#include "runtime/device/cpu/matmul.h"
#include "runtime/device/cpu/placement.h"
#include "runtime/device/device.h"
#include "runtime/device/host/host.h"
#include "runtime/device/host/region.h"
#include "runtime/device/host/throttle.h"
#include "runtime/device/math/workspace.h"

#include <pthread.h>
#include <stdatomic.h>

struct ah_cpu_lane {
    struct ah_lane *lane;     /* owned */
    struct ah_pool *pool;     /* owned; NULL on copy lanes, which use only the lane's thread */
    struct ah_host host;      /* the pool and the arenas for the lane's ops */
    struct ah_lane *opposite; /* the other copy lane, whose work shares the link; NULL elsewhere */
    double both_kept;         /* fraction of its rate that this lane keeps while `opposite` is busy */
    struct ah_throttle
        throttle; /* only for the lane's thread; on the host lane, AdamW's work is counted in parameters */
    double bytes_per_s; /* rate of the host lane's other ops; 0: not slowed */
};

struct ah_cpu_device {
    struct ah_device common; /* first: what callers hold */
    struct ah_placement placement;
    struct ah_region arenas[AH_ARENA_KINDS];
    struct ah_cpu_lane lanes[AH_DEVICE_LANES_ALL]; /* message lanes exist only if the options ask for them */
    struct ah_lane_bell *bell;                     /* owned; shared by all lanes */
    struct ah_matmul *matmul;                      /* owned */
    struct ah_workspace workspace;                 /* owned; for the compute lane's other ops */

    struct ah_device_pace pace;

    void (*on_failure)(void *context, const struct ah_error *why); /* (optional) */
    void *on_failure_context;

    /* The first failure; read under the lock once `failed` is set. */
    atomic_bool failed;
    pthread_mutex_t failure_lock;
    struct ah_error failure;
};

/* One op on its way through a lane: the payload of a lane's job. */
struct ah_cpu_task {
    struct ah_cpu_device *device;
    struct ah_cpu_lane *lane;
    struct ah_matmul_product *product; /* only if the op is a matrix product */
    uint64_t tag;
    uint8_t pace; /* as in a submission */
    struct ah_op op;
};

_Static_assert(sizeof(struct ah_cpu_task) <= AH_LANE_PAYLOAD_MAX, "a task fits a lane's payload");

/* True if this device can run ops of this kind. */
bool ah_cpu_supports(enum ah_op_kind kind);

/* Runs the op on the calling thread and the lane's pool. */
int ah_cpu_dispatch(struct ah_cpu_task *task, struct ah_error *err);

#endif
