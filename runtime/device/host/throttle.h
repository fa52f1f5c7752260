/* SPDX-License-Identifier: Apache-2.0
 *
 * Throttle: when a lane may go on, so that it works at a given rate (`--emulate`).
 *
 * A running deadline instead of pauses: each piece of work moves the deadline by its cost, and the lane
 * sleeps until then. A sleep that ends late is made up by the next piece, also across ops that follow each
 * other closely, so the rate holds over any number of them. A lane that came later than 200 us after
 * its deadline was idle or is slower than the rate; no credit is given for that time.
 *
 *     ah_throttle_begin(&throttle, ah_threads_now_ns());
 *     for each slice:  copy it;  ah_threads_sleep_until_ns(ah_throttle_pay(&throttle, bytes, rate));
 *
 * No clock and no sleep in here. One thread.
 */
#ifndef AH_RUNTIME_DEVICE_HOST_THROTTLE_H
#define AH_RUNTIME_DEVICE_HOST_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

struct ah_throttle {
    double work_per_s; /* bytes, parameters; 0: not throttled */
    double latency_ns; /* of each op */
    double deadline_ns;
};

static inline bool ah_throttle_is_on(const struct ah_throttle *throttle)
{
    return throttle->work_per_s > 0;
}

/* An op begins at `now_ns`. */
void ah_throttle_begin(struct ah_throttle *throttle, uint64_t now_ns);

/* `work` is done, which may go at `work_per_s` > 0 at this moment; returns when the lane may go on. */
uint64_t ah_throttle_pay(struct ah_throttle *throttle, double work, double work_per_s);

/* Bytes of a slice that takes about a millisecond: a multiple of 64, from 64 KiB to 4 MiB. */
uint64_t ah_throttle_slice_bytes(const struct ah_throttle *throttle);

#endif
