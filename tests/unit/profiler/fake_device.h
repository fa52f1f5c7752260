/* SPDX-License-Identifier: Apache-2.0
 *
 * A device whose speed is known: it does no work and takes, on a clock of its own, exactly the time that its
 * rates say. What a profile of it must contain can be written down beforehand.
 *
 * Ops of different lanes run at the same time: a lane whose head runs beside others goes at the product of
 * its shares. Everything submitted is run when somebody waits. Arenas are real memory, filled by nobody.
 */
#ifndef AH_TESTS_UNIT_PROFILER_FAKE_DEVICE_H
#define AH_TESTS_UNIT_PROFILER_FAKE_DEVICE_H

#include "runtime/device/device.h"

enum { FAKE_OFFERS_MAX = 4 };

struct fake_rates {
    double matmul_flops_per_s[2]; /* by dtype, of one thread; more are as many times faster */
    double link_bytes_per_s[2];   /* by direction */
    double link_latency_s[2];
    double noise_s;              /* that copies of less than 4 MiB take longer */
    double adam_params_per_s[2]; /* by dtype of the weight, of one thread */
    double device_copy_bytes_per_s;
    double kept[4][4]; /* [part][beside]; 0 means 1 */
    double late_s;     /* that the host's second op waits for a processor where another lane is busy */
    double
        stall_s; /* that every op of the host stands still, in two of three times that somebody waits for it; others
                       have the memory to themselves meanwhile */
    enum ah_device_kind kind;
    bool no_bf16;
    const char *library;            /* of products; NULL: none */
    double offers[FAKE_OFFERS_MAX]; /* how much faster products are with each of its algorithms; 0: no more */
    int fail_open;                  /* an ah_err to fail with; 0: opens */
    int fail_submit;                /* the n-th submit fails; 0: none */
};

/* The driver; its rates are those that *rates holds while devices are opened and run. `rates` is borrowed, by
 * all devices, until fake_device_driver() is called again. */
const struct ah_device_driver *fake_device_driver(struct fake_rates *rates);

/* Devices open now; a profile leaves none. */
int fake_device_open_count(void);

#endif
