/* SPDX-License-Identifier: Apache-2.0
 *
 * 1. A thread of the block is in one place: not begun (its number is at least `begun`), running, in the ring of ready
 *    threads, at the barrier, with its warp (in `warp->waiting`), or returned.
 * 2. A fiber runs threads one after another: when one returns, it takes the next thread not yet begun. If no thread
 *    ever waits, one fiber runs them all, as a loop.
 * 3. The thread that completes a barrier or an act makes the others ready and continues itself.
 * 4. Static shared memory is all of the thread-local storage of the kernel's program or library, so all is poisoned.
 *
 * Source: CUDA C++ Programming Guide, "Synchronization Functions", "Warp Vote Functions", "Independent Thread
 * Scheduling".
 */
#include "tests/double/cuda/emulator.h"
#include "tests/double/cuda/fiber.h"
#include "tests/double/cuda/ptx/ptx.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes)   ((void)(address))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address))
#endif

enum { WARPS_MAX = EMULATOR_THREADS_MAX / EMULATOR_WARP };

enum place { RUNNING, AT_BARRIER, WITH_WARP };

struct thread {
    struct emulator_thread self; /* first: emulator_self points to it */
    struct fiber *fiber;
    enum place place;
    unsigned mask; /* this field and the next two are valid while the thread waits with its warp */
    emulator_act_fn *act;
    void *mine;
};

struct warp {
    unsigned alive; /* lanes that have not returned, whether or not they have begun */
    unsigned waiting;
};

struct worker {
    struct fiber home; /* the stack of emulator_run() */
    struct fiber fibers[EMULATOR_THREADS_MAX];
    unsigned opened;
    struct fiber *idle[EMULATOR_THREADS_MAX]; /* open fibers that run no thread */
    unsigned n_idle;
    unsigned char *shared;
    unsigned char *fixed; /* static shared memory; NULL: none */
    size_t fixed_bytes;

    const struct emulator_launch *launch;
    struct emulator_block block;
    struct thread threads[EMULATOR_THREADS_MAX];
    struct warp warps[WARPS_MAX];
    unsigned n; /* number of threads of the block */
    unsigned begun;
    unsigned alive;
    struct thread *ready[EMULATOR_THREADS_MAX]; /* a ring */
    unsigned first_ready;
    unsigned n_ready;
    struct thread *at_barrier[EMULATOR_THREADS_MAX];
    unsigned n_at_barrier;
    unsigned yes; /* votes at the barrier that threads are reaching */
    struct emulator_votes votes;
    uint64_t random;

    enum emulator_result result;
    const char *trap;
    unsigned trapped;
};

__thread struct emulator_thread *emulator_self;
static __thread struct worker *emulator_worker;

static struct thread *current(void)
{
    return (struct thread *)(void *)emulator_self;
}

static void make_ready(struct worker *w, struct thread *thread)
{
    thread->place = RUNNING;
    w->ready[(w->first_ready + w->n_ready++) % EMULATOR_THREADS_MAX] = thread;
}

static struct thread *take_ready(struct worker *w)
{
    if (w->launch->order) {
        w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        unsigned chosen = (unsigned)(w->random >> 33) % w->n_ready;
        struct thread **a = &w->ready[w->first_ready];
        struct thread **b = &w->ready[(w->first_ready + chosen) % EMULATOR_THREADS_MAX];
        struct thread *thread = *b;
        *b = *a;
        *a = thread;
    }
    struct thread *thread = w->ready[w->first_ready];
    w->first_ready = (w->first_ready + 1) % EMULATOR_THREADS_MAX;
    w->n_ready--;
    return thread;
}

static void fiber_body(struct fiber *self);

static struct fiber *idle_fiber(struct worker *w)
{
    if (w->n_idle)
        return w->idle[--w->n_idle];
    struct fiber *fiber = &w->fibers[w->opened];
    if (fiber_open(fiber, fiber_body))
        return NULL;
    w->opened++;
    return fiber;
}

/* Leaves the block for good. Threads still waiting in it never continue. */
static void give_up(struct worker *w, struct fiber *self, enum emulator_result result)
{
    w->result = result;
    fiber_switch(self, &w->home);
}

/* Runs other fibers until one of them switches back to `self`. */
static void leave(struct worker *w, struct fiber *self)
{
    if (w->n_ready) {
        struct thread *next = take_ready(w);
        emulator_self = &next->self;
        if (next->fiber != self)
            fiber_switch(self, next->fiber);
    } else if (w->begun < w->n) {
        struct fiber *fiber = idle_fiber(w);
        if (fiber)
            fiber_switch(self, fiber);
        else
            give_up(w, self, EMULATOR_NO_MEMORY);
    } else {
        give_up(w, self, w->alive ? EMULATOR_STUCK : EMULATOR_DONE);
    }
}

static void wait_here(struct worker *w, struct thread *thread, enum place place)
{
    thread->place = place;
    leave(w, thread->fiber);
}

/* Opens the barrier if all alive threads are at it, and makes all but `caller` ready. Returns true if it opened. */
static bool open_barrier(struct worker *w, const struct thread *caller)
{
    if (!w->n_at_barrier || w->n_at_barrier < w->alive)
        return false;
    w->votes = (struct emulator_votes){w->yes, w->n_at_barrier};
    for (unsigned i = 0; i < w->n_at_barrier; i++)
        if (w->at_barrier[i] != caller)
            make_ready(w, w->at_barrier[i]);
    w->n_at_barrier = 0;
    w->yes = 0;
    return true;
}

struct emulator_votes emulator_barrier(bool vote)
{
    struct worker *w = emulator_worker;
    struct thread *self = current();
    w->yes += vote;
    w->at_barrier[w->n_at_barrier++] = self;
    if (!open_barrier(w, self))
        wait_here(w, self, AT_BARRIER);
    return w->votes;
}

/* Acts if all lanes awaited by `thread` are there with its mask and act, and makes all but `caller` ready. Returns true
 * if they acted. */
static bool try_act(struct worker *w, struct thread *thread, const struct thread *caller)
{
    struct warp *warp = &w->warps[thread->self.number / EMULATOR_WARP];
    struct thread *lanes = &w->threads[thread->self.number / EMULATOR_WARP * EMULATOR_WARP];
    unsigned mask = thread->mask & warp->alive;
    void *mine[EMULATOR_WARP] = {NULL};
    if ((warp->waiting & mask) != mask)
        return false;
    for (unsigned left = mask; left; left &= left - 1) {
        unsigned lane = (unsigned)__builtin_ctz(left);
        if (lanes[lane].mask != thread->mask || lanes[lane].act != thread->act)
            return false;
        mine[lane] = lanes[lane].mine;
    }
    thread->act(mine, mask);
    warp->waiting &= ~mask;
    for (unsigned left = mask; left; left &= left - 1)
        if (&lanes[__builtin_ctz(left)] != caller)
            make_ready(w, &lanes[__builtin_ctz(left)]);
    return true;
}

void emulator_warp(unsigned mask, emulator_act_fn *act, void *mine)
{
    struct worker *w = emulator_worker;
    struct thread *self = current();
    unsigned bit = 1u << self->self.number % EMULATOR_WARP;
    if (!(mask & bit))
        emulator_trap("calls a function of the warp with a mask that leaves itself out");
    self->mask = mask;
    self->act = act;
    self->mine = mine;
    w->warps[self->self.number / EMULATOR_WARP].waiting |= bit;
    if (!try_act(w, self, self))
        wait_here(w, self, WITH_WARP);
}

void emulator_trap(const char *why)
{
    struct worker *w = emulator_worker;
    w->trap = why;
    w->trapped = emulator_self->number;
    give_up(w, current()->fiber, EMULATOR_TRAPPED);
    __builtin_trap();
}

/* Ends a thread. Other threads may have waited for its return. */
static void thread_returned(struct worker *w, struct thread *thread)
{
    unsigned first = thread->self.number / EMULATOR_WARP * EMULATOR_WARP;
    struct warp *warp = &w->warps[thread->self.number / EMULATOR_WARP];
    warp->alive &= ~(1u << thread->self.number % EMULATOR_WARP);
    w->alive--;
    for (unsigned lane = 0; lane < EMULATOR_WARP && warp->waiting; lane++)
        if (warp->waiting >> lane & 1)
            (void)try_act(w, &w->threads[first + lane], NULL);
    (void)open_barrier(w, NULL);
}

static void fiber_body(struct fiber *self)
{
    for (;;) {
        struct worker *w = emulator_worker;
        while (w->begun < w->n) {
            struct thread *thread = &w->threads[w->begun++];
            thread->fiber = self;
            emulator_self = &thread->self;
            w->launch->run(w->launch->arguments);
            thread_returned(w, thread);
        }
        w->idle[w->n_idle++] = self;
        leave(w, self);
    }
}

/* The compiler's argument for the address of a thread-local variable: a module, and an offset in its storage. */
struct tls_place {
    unsigned long module;
    unsigned long offset;
};
extern void *__tls_get_addr(struct tls_place *place);

struct search {
    uintptr_t code;
    struct tls_place tls;
    size_t bytes;
};

static int find_tls(struct dl_phdr_info *info, size_t info_bytes, void *context)
{
    struct search *search = context;
    bool here = false;
    (void)info_bytes;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + part->p_vaddr;
        here = here ||
               (part->p_type == PT_LOAD && search->code >= begin && search->code - begin < part->p_memsz);
    }
    for (size_t i = 0; i < info->dlpi_phnum && here; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS) {
            search->tls.module = info->dlpi_tls_modid;
            search->bytes = info->dlpi_phdr[i].p_memsz;
        }
    return here;
}

static void find_fixed(struct worker *w)
{
    struct search search = {.code = (uintptr_t)w->launch->run};
    (void)dl_iterate_phdr(find_tls, &search);
    w->fixed_bytes = search.bytes;
    w->fixed = search.bytes ? __tls_get_addr(&search.tls) : NULL;
}

static void begin_launch(struct worker *w, const struct emulator_launch *launch)
{
    dim3 size = launch->block;
    w->launch = launch;
    w->n = size.x * size.y * size.z;
    w->block = (struct emulator_block){.size = size, .grid = launch->grid, .shared = w->shared};
    w->random = launch->order;
    for (unsigned i = 0; i < w->n; i++)
        w->threads[i].self = (struct emulator_thread){
            .index = {i % size.x, i / size.x % size.y, i / size.x / size.y}, .number = i, .block = &w->block};
    ASAN_UNPOISON_MEMORY_REGION(w->shared, EMULATOR_SHARED_MAX);
    find_fixed(w);
}

/* Poisons memory with an instruction that sanitizers do not see. They would be slow, because blocks begin often and
 * static shared memory has the variables of all kernels. */
static void poison(unsigned char *place, size_t bytes)
{
    __asm__ volatile("rep stosb" : "+D"(place), "+c"(bytes) : "a"(EMULATOR_POISON) : "memory");
}

static void begin_block(struct worker *w, uint3 index)
{
    w->block.index = index;
    w->begun = w->n_ready = w->first_ready = w->n_at_barrier = w->yes = 0;
    w->alive = w->n;
    for (unsigned i = 0; i * EMULATOR_WARP < w->n; i++) {
        unsigned lanes = w->n - i * EMULATOR_WARP;
        w->warps[i] = (struct warp){.alive = lanes < EMULATOR_WARP ? (1u << lanes) - 1 : ~0u};
    }
    poison(w->fixed, w->fixed_bytes);
    poison(w->shared, w->launch->shared_bytes);
    ASAN_POISON_MEMORY_REGION(w->shared + w->launch->shared_bytes,
                              EMULATOR_SHARED_MAX - w->launch->shared_bytes);
}

static enum emulator_result run_block(struct worker *w, uint3 index)
{
    begin_block(w, index);
    struct fiber *first = idle_fiber(w);
    if (!first)
        return EMULATOR_NO_MEMORY;
    fiber_switch(&w->home, first);
    if (w->result == EMULATOR_DONE)
        return EMULATOR_DONE;
    for (w->n_idle = 0; w->n_idle < w->opened; w->n_idle++) {
        w->idle[w->n_idle] = &w->fibers[w->n_idle];
        fiber_restart(w->idle[w->n_idle]);
    }
    return w->result;
}

/* Lists the threads that wait at `place`: their number and the first of them. */
static size_t report_waiting(const struct worker *w, enum place place, char *text, size_t max)
{
    static const char *const what[] = {
        [RUNNING] = "ready", [AT_BARRIER] = "at a barrier", [WITH_WARP] = "with lanes"};
    const struct thread *first = NULL;
    unsigned n = 0;
    for (unsigned i = 0; i < w->n; i++) {
        const struct thread *thread = &w->threads[i];
        if (!(w->warps[i / EMULATOR_WARP].alive >> i % EMULATOR_WARP & 1) || thread->place != place)
            continue;
        first = first ? first : thread;
        n++;
    }
    if (!first)
        return 0;
    int length = snprintf(text, max, ", %u wait %s (thread %u", n, what[place], first->self.number);
    if (place == WITH_WARP)
        length += snprintf(text + length, max - (size_t)length, ", mask 0x%08x, of which 0x%08x wait",
                           first->mask, w->warps[first->self.number / EMULATOR_WARP].waiting);
    length += snprintf(text + length, max - (size_t)length, ")");
    return (size_t)length;
}

static void report(const struct worker *w, enum emulator_result result, char *text)
{
    uint3 b = w->block.index;
    size_t n = (size_t)snprintf(text, EMULATOR_REPORT_MAX / 2,
                                "kernel '%.200s', block (%u, %u, %u) of %u threads: ", w->launch->name, b.x,
                                b.y, b.z, w->n);
    if (result == EMULATOR_NO_MEMORY)
        (void)snprintf(text + n, EMULATOR_REPORT_MAX - n, "no memory for their stacks");
    if (result == EMULATOR_TRAPPED)
        (void)snprintf(text + n, EMULATOR_REPORT_MAX - n, "thread %u %.200s", w->trapped, w->trap);
    if (result != EMULATOR_STUCK)
        return;
    n += (size_t)snprintf(text + n, EMULATOR_REPORT_MAX - n, "none can go on: %u returned", w->n - w->alive);
    n += report_waiting(w, AT_BARRIER, text + n, EMULATOR_REPORT_MAX - n);
    (void)report_waiting(w, WITH_WARP, text + n, EMULATOR_REPORT_MAX - n);
}

static struct worker *this_worker(void)
{
    if (emulator_worker)
        return emulator_worker;
    struct worker *w = calloc(1, sizeof *w);
    void *shared = NULL;
    if (!w || posix_memalign(&shared, EMULATOR_SHARED_ALIGN, EMULATOR_SHARED_MAX)) {
        free(w);
        return NULL;
    }
    w->shared = shared;
    emulator_worker = w;
    return w;
}

enum emulator_result emulator_run(const struct emulator_launch *launch, char *ret_report)
{
    if (launch->code)
        return ptx_run(launch, ret_report);
    struct worker *w = this_worker();
    if (!w) {
        (void)snprintf(ret_report, EMULATOR_REPORT_MAX, "kernel '%.200s': no memory to run it", launch->name);
        return EMULATOR_NO_MEMORY;
    }
    begin_launch(w, launch);
    const dim3 grid = launch->grid;
    const uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
    for (uint64_t b; (b = __atomic_fetch_add(launch->next_block, 1, __ATOMIC_ACQ_REL)) < blocks;) {
        uint3 index = {(unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y),
                       (unsigned)(b / grid.x / grid.y)};
        enum emulator_result result = run_block(w, index);
        if (result == EMULATOR_DONE)
            continue;
        __atomic_store_n(launch->next_block, blocks, __ATOMIC_RELEASE);
        report(w, result, ret_report);
        return result;
    }
    return EMULATOR_DONE;
}

void emulator_release(void)
{
    struct worker *w = emulator_worker;
    if (!w)
        return;
    for (unsigned i = 0; i < w->opened; i++)
        fiber_close(&w->fibers[i]);
    ASAN_UNPOISON_MEMORY_REGION(w->shared, EMULATOR_SHARED_MAX);
    free(w->shared);
    free(w);
    emulator_worker = NULL;
}
