/* SPDX-License-Identifier: Apache-2.0
 *
 * A device whose speed is known: it does no work, but takes exactly the time its rates say, on its own clock. So the
 * profile it must yield is known in advance.
 *
 * Ops of different lanes overlap: beside others, a lane's head runs at the product of its shares. Submitted ops run
 * when somebody waits. Arenas are real memory that nothing fills.
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
    double kept[4][4]; /* [part][beside]; 0 means 1 */
    double late_s;     /* wait of the host's second op for a processor if another lane is busy */
    double
        stall_s; /* every host op stands still for this long in two of three waits for it; others then have the
                       memory to themselves */
    enum ah_device_kind kind;
    bool no_bf16;
    const char *library;            /* for products; NULL: none */
    double offers[FAKE_OFFERS_MAX]; /* speedup of products by algorithm, until 0 */
    int fail_open;                  /* an ah_err to fail with; 0: opens */
    int fail_submit;                /* the n-th submit fails; 0: none */
};

/* The driver. It reads `*rates` whenever devices are opened or run; `rates` is borrowed by all devices until the next
 * call of fake_device_driver(). */
const struct ah_device_driver *fake_device_driver(struct fake_rates *rates);

/* Number of open devices; a profile leaves none. */
int fake_device_open_count(void);

#endif
