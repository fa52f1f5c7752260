/* SPDX-License-Identifier: Apache-2.0
 *
 * Fiber: a function with its own stack. Several fibers alternate on one thread of the system. A switch makes no system
 * call, and is announced to the address and thread sanitizers.
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

/* Makes an open fiber start its body anew, whatever it was doing. */
void fiber_restart(struct fiber *fiber);

/* Switches to `to`. `from` continues when another fiber switches to it. If never opened, it stands for the thread. */
void fiber_switch(struct fiber *from, struct fiber *to);

void fiber_close(struct fiber *fiber);

#endif
