/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves a throttle's deadline (throttle.h).
 */
#include "runtime/device/host/throttle.h"

static const double slack_ns = 200e3;

void ah_throttle_begin(struct ah_throttle *throttle, uint64_t now_ns)
{
    double now = (double)now_ns;
    if (now - throttle->deadline_ns > slack_ns)
        throttle->deadline_ns = now;
    throttle->deadline_ns += throttle->latency_ns;
}

uint64_t ah_throttle_pay(struct ah_throttle *throttle, double work, double work_per_s)
{
    throttle->deadline_ns += work / work_per_s * 1e9;
    return (uint64_t)throttle->deadline_ns;
}

uint64_t ah_throttle_slice_bytes(const struct ah_throttle *throttle)
{
    enum { LEAST = 64 << 10, MOST = 4 << 20 };
    double bytes = throttle->work_per_s * 1e-3;
    if (bytes <= LEAST)
        return LEAST;
    return bytes >= MOST ? MOST : (uint64_t)bytes / 64 * 64;
}
