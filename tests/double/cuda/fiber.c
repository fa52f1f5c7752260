/* SPDX-License-Identifier: Apache-2.0
 *
 * 1. While a fiber does not run, its stack has its callee-saved registers and, above them, the address to continue at.
 * 2. A switch preserves the registers that a function must preserve: System V ABI, AMD64 supplement, section 3.2.1.
 *    Floating-point control words never change here, so they are not saved.
 */
#include "tests/double/cuda/fiber.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
enum { STACK_BYTES = 256 << 10 };
#else
enum { STACK_BYTES = 64 << 10 };
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

enum { GUARD_BYTES = 4096, LINE_BYTES = 64 };

#if defined(__x86_64__)

void fiber_exchange(void **ret_stack_pointer, void *stack_pointer);
/* clang-format off */
__asm__(".text\n"
        ".globl fiber_exchange\n"
        ".hidden fiber_exchange\n"
        ".type fiber_exchange, @function\n"
        "fiber_exchange:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
        "    ret\n"
        ".size fiber_exchange, . - fiber_exchange\n");
/* clang-format on */

enum { SAVED_WORDS = 6 };

/* Builds a frame as if the fiber had switched away just before the body's first instruction. Stacks begin at different
 * cache lines of their pages, because otherwise their first lines would all be in one set of the cache. */
static void *first_frame(struct fiber *fiber, void (*entry)(void))
{
    size_t line = ((uintptr_t)fiber->stack / GUARD_BYTES) % (GUARD_BYTES / LINE_BYTES);
    unsigned char *end = fiber->stack + fiber->stack_bytes - line * LINE_BYTES;
    uintptr_t *top = (uintptr_t *)(void *)end - 2;
    top[1] = 0; /* the address to which `entry` would return */
    top[0] = (uintptr_t)entry;
    memset(top - SAVED_WORDS, 0, SAVED_WORDS * sizeof *top);
    return top - SAVED_WORDS;
}

#else
#error "fibers: say here how this processor switches stacks"
#endif

/* Source and target of a switch. The first frame of a new fiber has no other way to know them. */
static __thread struct fiber *arriving;
static __thread struct fiber *leaving;

static void arrived(struct fiber *self)
{
#if defined(__SANITIZE_ADDRESS__)
    const void *bottom = NULL;
    size_t bytes = 0;
    __sanitizer_finish_switch_fiber(self->fake_stack, &bottom, &bytes);
    if (!leaving->stack_bytes) { /* the thread's own stack is only known after the thread switches away */
        leaving->stack = (unsigned char *)(uintptr_t)bottom;
        leaving->stack_bytes = bytes;
    }
#else
    (void)self;
#endif
}

static void begin(void)
{
    struct fiber *self = arriving;
    arrived(self);
    self->body(self);
    __builtin_trap();
}

static void tell_sanitizers(struct fiber *from, struct fiber *to)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->stack_bytes);
#elif defined(__SANITIZE_THREAD__)
    if (!from->sanitizer_fiber)
        from->sanitizer_fiber = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to->sanitizer_fiber, 0);
#endif
    (void)from;
    (void)to;
}

void fiber_restart(struct fiber *fiber)
{
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(fiber->stack, fiber->stack_bytes);
    fiber->fake_stack = NULL;
#elif defined(__SANITIZE_THREAD__)
    if (fiber->sanitizer_fiber)
        __tsan_destroy_fiber(fiber->sanitizer_fiber);
    fiber->sanitizer_fiber = __tsan_create_fiber(0);
#endif
    fiber->stack_pointer = first_frame(fiber, begin);
}

int fiber_open(struct fiber *fiber, void (*body)(struct fiber *self))
{
    size_t bytes = GUARD_BYTES + STACK_BYTES;
    unsigned char *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return -1;
    if (mprotect(memory, GUARD_BYTES, PROT_NONE)) {
        munmap(memory, bytes);
        return -1;
    }
    *fiber = (struct fiber){.stack = memory + GUARD_BYTES, .stack_bytes = STACK_BYTES, .body = body};
    fiber_restart(fiber);
    return 0;
}

void fiber_switch(struct fiber *from, struct fiber *to)
{
    leaving = from;
    arriving = to;
    tell_sanitizers(from, to);
    fiber_exchange(&from->stack_pointer, to->stack_pointer);
    arrived(from);
}

void fiber_close(struct fiber *fiber)
{
    if (!fiber->stack)
        return;
#if defined(__SANITIZE_ADDRESS__) /* the next mapping at this address is no stack */
    __asan_unpoison_memory_region(fiber->stack, fiber->stack_bytes);
#elif defined(__SANITIZE_THREAD__)
    __tsan_destroy_fiber(fiber->sanitizer_fiber);
#endif
    munmap(fiber->stack - GUARD_BYTES, GUARD_BYTES + STACK_BYTES);
    *fiber = (struct fiber){0};
}
