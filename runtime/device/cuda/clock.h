/* SPDX-License-Identifier: Apache-2.0
 *
 * Clock: when an event of a GPU happened, on the host's monotonic clock.
 *
 * The runtime tells how long after another one an event was recorded. The other one here is a base whose moment on the
 * host's clock is known: it is recorded on a stream that has nothing else to do, between two looks at that clock. The
 * two clocks drift, and times are told in single precision, so the base is set anew while time goes on.
 *
 *     rc = ah_cuda_clock_init(&clock, err);
 *     uint64_t end_ns = ah_cuda_clock_ns(&clock, event);    // an event with timing that is over
 *     ah_cuda_clock_adjust(&clock);                         // now and then
 *     ah_cuda_clock_release(&clock);
 *
 * Right to some microseconds. One thread at a time.
 */
#ifndef AH_RUNTIME_DEVICE_CUDA_CLOCK_H
#define AH_RUNTIME_DEVICE_CUDA_CLOCK_H

#include "base/error.h"

#include <cuda_runtime_api.h>

#include <stdint.h>

struct ah_cuda_clock {
    cudaStream_t stream; /* owned */
    cudaEvent_t base[2]; /* owned; one in use, one for the next try */
    unsigned used;
    uint64_t base_ns;   /* of the base in use, on the host's clock */
    uint64_t window_ns; /* how far apart the two looks were */
    uint64_t tried_ns;  /* when a base was last looked for */
};

/* For the GPU that is current. A zeroed clock may be released. */
int ah_cuda_clock_init(struct ah_cuda_clock *clock, struct ah_error *err);
void ah_cuda_clock_release(struct ah_cuda_clock *clock);

/* Sets the base anew where it is older than a second. Keeps it, and tries again soon, where the GPU or this thread is too
 * busy. */
void ah_cuda_clock_adjust(struct ah_cuda_clock *clock);

/* 0 where the runtime does not know. */
uint64_t ah_cuda_clock_ns(const struct ah_cuda_clock *clock, cudaEvent_t event);

#endif
