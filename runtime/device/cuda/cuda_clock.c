/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets the clock's base (cuda_clock.h). The base event happens between two readings of the host's clock; the time
 * between them is the window, and the base is its middle. The first base has the narrowest of FIRST_TRIES windows, or
 * of BUSY_TRIES on a busy machine. A later base replaces it if its window is at most three times as wide, or no wider
 * than the clocks may have drifted apart since.
 */
#include "runtime/device/cuda/cuda_clock.h"

#include "base/threads.h"
#include "runtime/device/cuda/errors.h"

#include <sched.h>

enum {
    FIRST_TRIES = 8,
    BUSY_TRIES = 64,
    PATIENCE_NS = 200 * 1000,
    ADJUST_NS = 1000 * 1000 * 1000,
    AGAIN_NS = ADJUST_NS / 8
};
enum { DRIFT = 20000 }; /* two clocks drift apart by at most one second in this many seconds */

/* Records the base event not in use, and waits for it. Returns the window; UINT64_MAX: it took over `patience_ns`. */
static uint64_t try_base(struct ah_cuda_clock *clock, uint64_t patience_ns, uint64_t *ret_base_ns)
{
    cudaEvent_t event = clock->base[!clock->used];
    uint64_t begin_ns = ah_threads_now_ns(), end_ns = begin_ns;
    cudaError_t rc = cudaEventRecord(event, clock->stream);
    if (rc != cudaSuccess)
        return UINT64_MAX;
    for (rc = cudaEventQuery(event); rc == cudaErrorNotReady && end_ns - begin_ns < patience_ns;
         rc = cudaEventQuery(event)) {
        sched_yield();
        end_ns = ah_threads_now_ns();
    }
    end_ns = ah_threads_now_ns();
    (void)cudaGetLastError(); /* clears "not ready", which is no error, so that no later call reports it */
    *ret_base_ns = begin_ns + (end_ns - begin_ns) / 2;
    return rc == cudaSuccess ? end_ns - begin_ns : UINT64_MAX;
}

static void take_base(struct ah_cuda_clock *clock, uint64_t base_ns, uint64_t window_ns)
{
    clock->used = !clock->used;
    clock->base_ns = base_ns;
    clock->window_ns = window_ns;
}

int ah_cuda_clock_init(struct ah_cuda_clock *clock, struct ah_error *err)
{
    enum { SECOND_NS = 1000 * 1000 * 1000 };
    *clock = (struct ah_cuda_clock){.window_ns = UINT64_MAX};
    int rc = ah_cuda_check(err, cudaStreamCreateWithFlags(&clock->stream, cudaStreamNonBlocking),
                           "cudaStreamCreateWithFlags");
    for (int i = 0; i < 2 && !rc; i++)
        rc = ah_cuda_check(err, cudaEventCreateWithFlags(&clock->base[i], cudaEventDefault),
                           "cudaEventCreateWithFlags");
    for (int i = 0; !rc && i < (clock->window_ns > PATIENCE_NS ? BUSY_TRIES : FIRST_TRIES); i++) {
        uint64_t base_ns = 0, window_ns = try_base(clock, SECOND_NS, &base_ns);
        if (window_ns < clock->window_ns)
            take_base(clock, base_ns, window_ns);
    }
    if (!rc && clock->window_ns == UINT64_MAX)
        rc = ah_error_set(err, AH_E_FAILED, "the GPU does not record events; see 'nvidia-smi' and 'dmesg'");
    if (rc)
        ah_cuda_clock_release(clock);
    return rc;
}

void ah_cuda_clock_release(struct ah_cuda_clock *clock)
{
    for (int i = 0; i < 2; i++)
        if (clock->base[i])
            (void)cudaEventDestroy(clock->base[i]);
    if (clock->stream)
        (void)cudaStreamDestroy(clock->stream);
    *clock = (struct ah_cuda_clock){0};
}

void ah_cuda_clock_adjust(struct ah_cuda_clock *clock)
{
    const uint64_t now_ns = ah_threads_now_ns(), age_ns = now_ns - clock->base_ns;
    uint64_t base_ns = 0;
    if (age_ns < ADJUST_NS || now_ns - clock->tried_ns < AGAIN_NS)
        return;
    clock->tried_ns = now_ns;
    uint64_t window_ns = try_base(clock, PATIENCE_NS, &base_ns);
    if (window_ns / 3 <= clock->window_ns || window_ns <= age_ns / DRIFT)
        take_base(clock, base_ns, window_ns);
}

uint64_t ah_cuda_clock_ns(const struct ah_cuda_clock *clock, cudaEvent_t event)
{
    float ms = 0;
    if (cudaEventElapsedTime(&ms, clock->base[clock->used], event) != cudaSuccess) {
        (void)cudaGetLastError();
        return 0;
    }
    return (uint64_t)((int64_t)clock->base_ns + (int64_t)((double)ms * 1e6));
}
