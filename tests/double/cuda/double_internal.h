/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of the double of the CUDA runtime.
 *
 *   calls.c      what every call begins and ends with: counting, faults, the broken device, the last error
 *   settings.c   settings (double.h)
 *   devices.c    cudaGetDevice..., versions, limits, names of errors
 *   memory.c     device memory, pinned ranges
 *   streams.c    streams and events
 *   copies.c     copies and fills
 *   launches.c   kernels; crew.h, emulator.h and fiber.h run them
 *   driver.c     the driver's own calls
 *
 * One lock guards everything shared. `double_changed` is signalled when something awaited may have happened.
 */
#ifndef AH_TESTS_DOUBLE_CUDA_DOUBLE_INTERNAL_H
#define AH_TESTS_DOUBLE_CUDA_DOUBLE_INTERNAL_H

#include "tests/double/cuda/double.h"

#include <pthread.h>
#include <stdbool.h>

extern pthread_mutex_t double_lock;
extern pthread_cond_t double_changed;

/* settings.c: returns a copy of the settings in force. The first call reads the environment. */
struct cuda_double double_settings(void);
void double_add_fault(const char *call, uint64_t nth, cudaError_t code); /* under the lock */

/* calls.c. Every call has this form:
 *
 *     cudaError_t rc = double_enter(__func__);
 *     return double_leave(rc ? rc : what it does); */
cudaError_t double_enter(const char *call);
cudaError_t double_leave(cudaError_t code);
bool double_hangs(void);       /* true, once, if the work of this thread's last call must hang */
void double_hang(void);        /* hangs until cuda_double_go_on() */
cudaError_t double_lost(void); /* error that broke the device, or cudaSuccess; with or without the lock */
void double_lose(cudaError_t code, const char *why);
__attribute__((format(printf, 2, 3))) cudaError_t double_misuse(cudaError_t code, const char *format, ...);
void double_forget_calls(void);

/* devices.c: returns the calling thread's device. */
int double_device(void);
void double_forget_device(void);
size_t double_shared_bytes(const struct cuda_double_device *device);

/* memory.c: the kind of memory at `place`, for `bytes` bytes. */
enum double_place { PLACE_UNKNOWN, PLACE_DEVICE, PLACE_PINNED, PLACE_FREED, PLACE_PARTLY };
enum double_place double_place_of(const void *place, size_t bytes);
const char *double_place_name(enum double_place place);
size_t double_device_bytes(void);
bool double_take_code(const struct cuda_double *settings, int device); /* with the lock held, like the next */
void double_forget_code(void);
size_t double_pinned_ranges(void);

/* launches.c */
void double_forget_kernels(void);

/* driver.c. double_awaits_values() is true if a stream of the thread's device waits for a value or has such a wait
 * queued. double_idle() is for calls in which the driver may wait until the GPU is idle. Such a call is misuse while a
 * stream waits for a value, since the host should write the value, but waits for the driver. */
bool double_awaits_values(void);
cudaError_t double_idle(const char *call);

/* Work as a profiler sees it. `name` is never freed. */
enum double_activity_kind { ACTIVITY_KERNEL, ACTIVITY_COPY, ACTIVITY_FILL };
struct double_activity {
    enum double_activity_kind kind;
    const char *name; /* name of a kernel */
    size_t bytes;
    enum cudaMemcpyKind way;
};

/* The functions called for each activity: enqueued() on the caller's thread, the others when the activity starts and is
 * done, with the pointer returned by enqueued(). NULL: no tracer. A tracer is never freed. */
struct double_tracer {
    void *(*enqueued)(const struct double_activity *activity, uint32_t stream);
    void (*starts)(void *traced);
    void (*done)(void *traced);
};
void double_trace(const struct double_tracer *tracer);

/* streams.c. `run` does the work on the stream's thread. If it returns an error, the device is broken, and `report`, of
 * CUDA_DOUBLE_REPORT_MAX bytes, says why. The payload is copied to an address aligned to 64. */
typedef cudaError_t double_run_fn(void *payload, char *report);
struct double_work {
    double_run_fn *run;
    const void *payload;
    size_t payload_bytes;
    const struct double_activity *activity; /* NULL: profilers do not see it */
};
/* Reports misuse if the stream belongs to a different device than `what`. */
cudaError_t double_check_device(cudaStream_t stream, int device, const char *what);
cudaError_t double_enqueue(cudaStream_t stream, const struct double_work *work);
uint32_t double_stream_id(cudaStream_t stream); /* 0: none */
void double_wait_for_all_streams(void);         /* of the thread's device */
int double_stream_device(cudaStream_t stream);  /* -1: none */
uint64_t double_now_ns(void);
void double_sleep_us(unsigned us);
size_t double_streams(void);
size_t double_events(void);

#endif
