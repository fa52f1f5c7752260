/* SPDX-License-Identifier: Apache-2.0
 *
 * Fiber: a stack of its own to run on, taking turns with others on one thread of the system. Switching makes no system
 * call. Each switch is announced to the address and thread sanitizers.
 *
 *     struct fiber here = {0}, there;
 *     fiber_open(&there, body);
 *     fiber_switch(&here, &there);     runs body() until it switches back
 *     fiber_close(&there);
 *
 * Fibers that switch to each other must stay on the thread that opened them. `body` never returns.
 */
#ifndef AH_TESTS_DOUBLE_CUDA_FIBER_H
#define AH_TESTS_DOUBLE_CUDA_FIBER_H

#include <stddef.h>

struct fiber {
    void *stack_pointer; /* valid while the fiber does not run */
    unsigned char *stack;
    size_t stack_bytes;
    void (*body)(struct fiber *self);
    void *fake_stack;      /* of the address sanitizer */
    void *sanitizer_fiber; /* of the thread sanitizer */
};

/* Maps a stack with a guard page at its end; returns -1 if the system refuses. */
int fiber_open(struct fiber *fiber, void (*body)(struct fiber *self));

/* Makes an open fiber start its body again, whatever it was doing. */
void fiber_restart(struct fiber *fiber);

/* `from` continues here when somebody switches to it. A `from` that was never opened represents the thread itself. */
void fiber_switch(struct fiber *from, struct fiber *to);

void fiber_close(struct fiber *fiber);

#endif
