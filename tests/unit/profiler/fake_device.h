/* SPDX-License-Identifier: Apache-2.0
 *
 * A device of known speed. It does no work, but takes exactly the time given by its rates, on its own clock. So tests
 * know in advance the profile that must result.
 *
 * Ops of different lanes overlap: each other busy lane slows a lane's head to a fraction of its speed, and the
 * fractions multiply. Submitted ops run when the caller waits. Arenas are real memory that nothing fills.
 */
#ifndef AH_TESTS_UNIT_PROFILER_FAKE_DEVICE_H
#define AH_TESTS_UNIT_PROFILER_FAKE_DEVICE_H

#include "runtime/device/device.h"

enum { FAKE_OFFERS_MAX = 4 };

struct fake_rates {
    double matmul_flops_per_s[2]; /* by dtype, for one thread; n threads are n times faster */
    double link_bytes_per_s[2];   /* by direction */
    double link_latency_s[2];
    double noise_s;              /* added to copies below 4 MiB */
    double adam_params_per_s[2]; /* by dtype of the weight, for one thread */
    double device_copy_bytes_per_s;
    double kept[4][4]; /* fraction of its speed that a part keeps, by [part][other part]; 0 means 1 */
    double late_s;     /* how long the host's second op waits for a processor if another lane is busy */
    double
        stall_s; /* in two of three waits for host ops, each queued op stands still for this long; then other lanes
                    have the memory to themselves */
    enum ah_device_kind kind;
    bool no_bf16;
    const char *library;            /* library of the products; NULL: none */
    double offers[FAKE_OFFERS_MAX]; /* speedups of products, one per algorithm; 0 ends the list */
    int fail_open;                  /* ah_err that opening returns */
    int fail_submit;                /* which submit fails, counted from 1; 0: none */
};

/* Returns the driver. It borrows `rates` until the next call, and reads `*rates` whenever a device is opened or run. */
const struct ah_device_driver *fake_device_driver(struct fake_rates *rates);

/* Returns the number of open devices. After a profile it must be 0. */
int fake_device_open_count(void);

#endif
