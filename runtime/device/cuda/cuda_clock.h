/* SPDX-License-Identifier: Apache-2.0
 *
 * Clock: converts the time of a GPU event to the host's monotonic clock.
 *
 * CUDA only measures the time between two events. So a base event is recorded on an idle stream, between two
 * readings of the host's clock. The base is renewed from time to time, because the two clocks drift and CUDA
 * returns times in single precision.
 *
 *     rc = ah_cuda_clock_init(&clock, err);
 *     uint64_t end_ns = ah_cuda_clock_ns(&clock, event);    // `event` has timing and has happened
 *     ah_cuda_clock_adjust(&clock);                         // now and then
 *     ah_cuda_clock_release(&clock);
 *
 * Accurate to a few microseconds. One thread at a time.
 */
#ifndef AH_RUNTIME_DEVICE_CUDA_CUDA_CLOCK_H
#define AH_RUNTIME_DEVICE_CUDA_CUDA_CLOCK_H

#include "base/error.h"

#include <cuda_runtime_api.h>

#include <stdint.h>

struct ah_cuda_clock {
    cudaStream_t stream; /* owned */
    cudaEvent_t base[2]; /* owned; one is in use, the other is for the next try */
    unsigned used;
    uint64_t base_ns;   /* time of the base in use, on the host's clock */
    uint64_t window_ns; /* window of the base in use, between two readings of the host's clock */
    uint64_t tried_ns;  /* when a new base was last tried */
};

/* Uses the current GPU. A zeroed clock may be released. */
int ah_cuda_clock_init(struct ah_cuda_clock *clock, struct ah_error *err);
void ah_cuda_clock_release(struct ah_cuda_clock *clock);

/* Renews a base older than a second. If the GPU or this thread is too busy, keeps the old base and tries again soon. */
void ah_cuda_clock_adjust(struct ah_cuda_clock *clock);

/* Returns the time of a finished `event` (with timing), in ns on the host's clock; 0 if CUDA does not tell. */
uint64_t ah_cuda_clock_ns(const struct ah_cuda_clock *clock, cudaEvent_t event);

#endif
