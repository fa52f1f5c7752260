/* SPDX-License-Identifier: Apache-2.0
 *
 * Throttle: makes a lane work at a given rate (`--emulate`) by computing when it may continue.
 *
 * It keeps a running deadline instead of pausing: each piece of work moves the deadline by its cost, and the lane
 * sleeps until then. If a sleep ends late, the next piece or op sleeps less, so the rate holds on average. A lane that
 * begins more than 200 us after its deadline was idle or slower than the rate; it may not make up for that time.
 *
 *     ah_throttle_begin(&throttle, ah_threads_now_ns());
 *     for each slice:  copy it;  ah_threads_sleep_until_ns(ah_throttle_pay(&throttle, bytes, rate));
 *
 * The throttle itself reads no clock and does not sleep. One thread.
 */
#ifndef AH_RUNTIME_DEVICE_HOST_THROTTLE_H
#define AH_RUNTIME_DEVICE_HOST_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

struct ah_throttle {
    double work_per_s; /* bytes or parameters; 0: not throttled */
    double latency_ns; /* added for each op */
    double deadline_ns;
};

static inline bool ah_throttle_is_on(const struct ah_throttle *throttle)
{
    return throttle->work_per_s > 0;
}

/* Begins an op at `now_ns`. */
void ah_throttle_begin(struct ah_throttle *throttle, uint64_t now_ns);

/* Charges finished `work` at the rate `work_per_s` > 0. Returns the time, in ns, at which the lane may continue. */
uint64_t ah_throttle_pay(struct ah_throttle *throttle, double work, double work_per_s);

/* Returns the bytes of a slice that takes about a millisecond: a multiple of 64, from 64 KiB to 4 MiB. */
uint64_t ah_throttle_slice_bytes(const struct ah_throttle *throttle);

#endif
