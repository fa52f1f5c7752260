/* SPDX-License-Identifier: Apache-2.0
 *
 * Hooked: a device around the CPU's whose every op passes through functions of a test, on its lane, where its waits are
 * met: to watch what runs, to look at memory or change it, to take time.
 *
 *     hooked_set(&(struct hooked_hooks){.before = sleep_a_while, .context = &seed});
 *     options.driver = hooked_driver();      // devices opened from now on
 *
 * An op is three of the CPU device's, on the same lane: a call of the first hook, which has the op's waits, the op, and
 * a call of the second. So tickets and waits mean what they mean on any device; a span lasts from before the first hook
 * until behind the second.
 *
 * Hooks of different lanes run at the same time.
 */
#ifndef AH_TESTS_SUPPORT_HOOKED_H
#define AH_TESTS_SUPPORT_HOOKED_H

#include "runtime/device/device.h"

struct hooked_op {
    uint32_t lane;
    uint64_t ticket;
    uint64_t tag; /* the submitter's */
    const struct ah_op *op;
    unsigned char *const *arenas; /* by enum ah_arena_kind */
};

struct hooked_hooks {
    void (*submit)(void *context, const struct hooked_op *op); /* (optional) on the submitter's thread */
    void (*before)(void *context, const struct hooked_op *op); /* (optional) */
    void (*after)(void *context, const struct hooked_op *op);  /* (optional) */
    void *context;
    /* (optional) Behind `before`: an error is that of the op, which is not done. */
    int (*fail)(void *context, const struct hooked_op *op, struct ah_error *err);
};

/* For devices that are opened from now on; copied. */
void hooked_set(const struct hooked_hooks *hooks);

const struct ah_device_driver *hooked_driver(void);

#endif
