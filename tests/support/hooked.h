/* SPDX-License-Identifier: Apache-2.0
 *
 * Hooked: a device around the CPU device. It calls functions of a test before and after each op, on the op's lane,
 * after the op's waits. Such a function can watch what runs, read or change memory, or delay the op.
 *
 *     hooked_set(&(struct hooked_hooks){.before = sleep_a_while, .context = &seed});
 *     options.driver = hooked_driver();      // devices opened from now on call the hooks
 *
 * Each op becomes three ops of the CPU device on the same lane: a call of the first hook, which has the op's waits; the
 * op itself; and a call of the second hook. Tickets and waits have their usual meaning. A span includes both hooks.
 *
 * Hooks of different lanes run at the same time.
 */
#ifndef AH_TESTS_SUPPORT_HOOKED_H
#define AH_TESTS_SUPPORT_HOOKED_H

#include "runtime/device/device.h"

struct hooked_op {
    uint32_t lane;
    uint64_t ticket;
    uint64_t tag; /* tag of the submission */
    const struct ah_op *op;
    unsigned char *const *arenas; /* by enum ah_arena_kind: start of the arena */
};

struct hooked_hooks {
    void (*submit)(void *context, const struct hooked_op *op); /* (optional) on the submitting thread */
    void (*before)(void *context, const struct hooked_op *op); /* (optional) */
    void (*after)(void *context, const struct hooked_op *op);  /* (optional) */
    void *context;
    /* (optional) Called after `before`. If it returns an error, the op does not run and fails with this error. */
    int (*fail)(void *context, const struct hooked_op *op, struct ah_error *err);
};

/* Sets the hooks of all devices opened from now on. Copies `hooks`. */
void hooked_set(const struct hooked_hooks *hooks);

const struct ah_device_driver *hooked_driver(void);

#endif
