/* SPDX-License-Identifier: Apache-2.0
 *
 * Watch: a thread that notices when a device has stopped making progress, and reports what every lane is doing.
 *
 * device.c marks every call that may wait for the device with enter and leave. That costs training three atomic
 * operations, and nothing else. The thread wakes up sixteen times during the program's patience (struct
 * ah_device_watch), at most once a second, and only reads counters. It calls nothing that may block, since the
 * waiting thread may be inside a vendor's driver and hold its locks.
 *
 * WHAT COUNTS AS A STALL. The watch counts time while all of these hold, and starts from 0 once one does not:
 * 1. A call waits for the device. A program that saves, reads data or sleeps is not waiting, however long it takes.
 * 2. No such call has ended since the last look.
 * 3. The driver's pulse has not changed: no op was completed, on any lane, and no op that runs on the host's processors
 *    has used any processor time. So an AdamW of 100 seconds is no stall, nor is a lane that an emulation slows. An op
 *    on a GPU gives no such sign, so an op that takes longer than the patience is a stall.
 * 4. The watch's own pulse (struct ah_device_watch) has not changed: the ranks on whose work this device depends have
 *    made no known progress.
 * 5. The process ran. Between two looks, at most twice the usual interval counts, however long the process was stopped
 *    (SIGSTOP, a debugger) or starved.
 *
 * By 2, a thread that keeps waiting for tickets that are already done would hide the stall of another thread. The
 * trainer has only one thread.
 */
#ifndef AH_RUNTIME_DEVICE_WATCH_H
#define AH_RUNTIME_DEVICE_WATCH_H

#include "runtime/device/device.h"

/* What a call waits for. */
enum ah_device_waiting {
    AH_WAITING_FOR_TICKET, /* lane, ticket */
    AH_WAITING_FOR_ANY,    /* one of several tickets; the lane is that of the first */
    AH_WAITING_TO_SUBMIT,  /* `number`: how many ops */
    AH_WAITING_TO_RECORD,
    AH_WAITING_TO_WARM, /* used by drivers; the number: the op's kind */
    AH_WAITING_TO_CLOSE
};

static inline void ah_device_watch_enter(struct ah_device *device, enum ah_device_waiting what, uint32_t lane,
                                         uint64_t number)
{
    const uint64_t low = (UINT64_C(1) << 48) - 1;
    __atomic_store_n(&device->wait_what, (uint64_t)what << 56 | (uint64_t)lane << 48 | (number & low),
                     __ATOMIC_RELAXED);
    __atomic_fetch_add(&device->waiting, 1, __ATOMIC_RELEASE);
}

static inline void ah_device_watch_leave(struct ah_device *device)
{
    __atomic_fetch_add(&device->waited, 1, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&device->waiting, 1, __ATOMIC_RELEASE);
}

/* Starts the thread if the options ask for it and the driver can be watched. AH_E_USAGE, AH_E_MEMORY, AH_E_FAILED. */
int ah_device_watcher_new(struct ah_device *device, const struct ah_device_watch *watch,
                          struct ah_error *err);

/* Ends the thread, if there is one. */
void ah_device_watcher_free(struct ah_device *device);

#endif
