/* SPDX-License-Identifier: Apache-2.0
 *
 * A run is a *round*, or several if it has very many chunks. `cursor` packs the round's number (upper half)
 * and how many of its chunks are unclaimed (lower half); a chunk is claimed by compare-and-swap on the whole word, so a
 * claim is for one round.
 *
 * Invariants:
 *
 * (1) A chunk can be claimed only while its round's unclaimed count is not 0; the count reaches 0 before the round
 *     ends and stays there until the next round is opened.
 * (2) fn, context and chunks are rewritten only between rounds: after every claimed chunk was counted in `finished`,
 *     before the cursor opens the next round (release). A worker loads the cursor (acquire), then the fields, then
 *     claims a chunk; it counts the chunk last. If the claim succeeds, the fields were those of its round. If the claim
 *     fails, the fields may be of any round and are not used; so they are atomic, in relaxed order.
 * (3) The caller returns when finished == chunks: each chunk was claimed once (1) and counted after it ran (release);
 *     the caller's load acquires. It never waits for a worker that claimed nothing.
 * (4) No wake-up is lost. A worker reads `epoch`, then looks for a chunk; if there is none, it sleeps with
 *     futex(epoch == what it read). The caller opens the round, then increments `epoch`, then looks at `sleepers`; the
 *     worker increments `sleepers`, then the kernel compares `epoch`. All sequentially consistent: either the caller
 *     sees the sleeper and wakes it, or the kernel sees the new epoch. The caller sleeps on `finished` in the same way,
 *     with `caller_sleeps` instead of `sleepers`.
 * (5) Even if all workers slept for ever, the caller would claim every chunk: waking is only for speed.
 */
#include "base/pool.h"

#include "base/threads.h"
#include "base/threads_internal.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SPIN_DEFAULT_US = 50, SPINS_PER_LOOK = 64, LINE_BYTES = 64 };

/* The most chunks of a round: far fewer than `cursor` can count; more would not shorten the waits between rounds. */
enum { ROUND_CHUNKS_MAX = 1 << 20 };

struct pool_worker {
    struct ah_pool *pool; /* borrowed */
    unsigned number;
    pthread_t thread;
    struct ah_threads_body body;
};

struct ah_pool {
    unsigned threads;
    unsigned started; /* workers to be joined */
    uint64_t spin_ns;
    struct pool_worker *workers; /* owned; threads - 1 of them */
    alignas(LINE_BYTES) _Atomic uint64_t cursor;
    alignas(LINE_BYTES) _Atomic(ah_pool_fn *) fn;
    _Atomic(void *) context;
    _Atomic uint32_t chunks;
    alignas(LINE_BYTES) _Atomic uint32_t epoch; /* futex word of the workers */
    atomic_uint sleepers;
    atomic_bool stopping;
    alignas(LINE_BYTES) _Atomic uint32_t finished; /* futex word of the caller */
    atomic_bool caller_sleeps;
};

static void futex_wait(_Atomic uint32_t *word, uint32_t expected)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, unsigned count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count > INT_MAX ? INT_MAX : count, NULL, NULL, 0);
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Spins while *word == value, at most spin_ns; true if it changed. */
static bool spin_while(_Atomic uint32_t *word, uint32_t value, uint64_t spin_ns)
{
    uint64_t begin = ah_threads_now_ns();
    do {
        for (int i = 0; i < SPINS_PER_LOOK; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != value)
                return true;
            relax();
        }
    } while (ah_threads_now_ns() - begin < spin_ns);
    return false;
}

/* Claims and runs chunks until all are claimed, then counts the chunks that it ran. */
static void pool_work(struct ah_pool *pool, unsigned worker)
{
    uint32_t ran = 0;
    uint64_t cursor = atomic_load_explicit(&pool->cursor, memory_order_acquire);
    for (;;) {
        uint32_t unclaimed = (uint32_t)cursor;
        if (!unclaimed)
            break;
        ah_pool_fn *fn = atomic_load_explicit(&pool->fn, memory_order_relaxed);
        void *context = atomic_load_explicit(&pool->context, memory_order_relaxed);
        uint32_t chunks = atomic_load_explicit(&pool->chunks, memory_order_relaxed);
        if (!atomic_compare_exchange_weak(&pool->cursor, &cursor, cursor - 1))
            continue;
        fn(context, chunks - unclaimed, worker);
        ran++;
        cursor--;
    }
    if (!ran)
        return;
    atomic_fetch_add(&pool->finished, ran);
    if (atomic_load(&pool->caller_sleeps))
        futex_wake(&pool->finished, 1);
}

static void worker_main(void *context)
{
    struct pool_worker *self = context;
    struct ah_pool *pool = self->pool;
    for (;;) {
        uint32_t epoch = atomic_load(&pool->epoch);
        if (atomic_load(&pool->stopping))
            return;
        pool_work(pool, self->number);
        if (spin_while(&pool->epoch, epoch, pool->spin_ns))
            continue;
        atomic_fetch_add(&pool->sleepers, 1);
        while (atomic_load(&pool->epoch) == epoch)
            futex_wait(&pool->epoch, epoch);
        atomic_fetch_sub(&pool->sleepers, 1);
    }
}

static int pool_start(struct ah_pool *pool, const int *cpus, struct ah_error *err)
{
    for (unsigned i = 0; i + 1 < pool->threads; i++) {
        struct pool_worker *worker = &pool->workers[i];
        *worker = (struct pool_worker){.pool = pool, .number = i + 1, .body = {worker_main, worker}};
        char name[16];
        snprintf(name, sizeof name, "pool-%u", i + 1);
        int rc = ah_threads_start(&worker->thread, name, cpus ? cpus[i + 1] : -1, &worker->body, err);
        if (rc)
            return rc;
        pool->started++;
    }
    return AH_OK;
}

int ah_pool_new(struct ah_pool **ret_pool, const struct ah_pool_options *options, struct ah_error *err)
{
    unsigned threads = options->threads ? options->threads : ah_threads_cpus(NULL, 0);
    struct ah_pool *pool = aligned_alloc(LINE_BYTES, sizeof *pool);
    if (!pool)
        return ah_error_memory(err);
    *pool = (struct ah_pool){
        .threads = threads ? threads : 1,
        .spin_ns = 1000ULL * (options->spin_us ? options->spin_us : SPIN_DEFAULT_US),
    };
    pool->workers = calloc(pool->threads, sizeof *pool->workers);
    int rc = pool->workers ? pool_start(pool, options->cpus, err) : ah_error_memory(err);
    if (rc) {
        ah_pool_free(pool);
        return rc;
    }
    *ret_pool = pool;
    return AH_OK;
}

unsigned ah_pool_threads(const struct ah_pool *pool)
{
    return pool ? pool->threads : 1;
}

static void pool_open(struct ah_pool *pool, ah_pool_fn *fn, void *context, uint32_t chunks)
{
    uint64_t round = (atomic_load(&pool->cursor) >> 32) + 1;
    atomic_store(&pool->finished, 0);
    atomic_store_explicit(&pool->fn, fn, memory_order_relaxed);
    atomic_store_explicit(&pool->context, context, memory_order_relaxed);
    atomic_store_explicit(&pool->chunks, chunks, memory_order_relaxed);
    atomic_store(&pool->cursor, round << 32 | chunks);
    atomic_fetch_add(&pool->epoch, 1);
    if (atomic_load(&pool->sleepers))
        futex_wake(&pool->epoch, chunks - 1);
}

/* Waits until every chunk of the open round was counted. */
static void pool_await(struct ah_pool *pool, uint32_t chunks)
{
    uint32_t finished = atomic_load(&pool->finished);
    while (finished != chunks && spin_while(&pool->finished, finished, pool->spin_ns))
        finished = atomic_load(&pool->finished);
    if (finished == chunks)
        return;
    atomic_store(&pool->caller_sleeps, true);
    while ((finished = atomic_load(&pool->finished)) != chunks)
        futex_wait(&pool->finished, finished);
    atomic_store(&pool->caller_sleeps, false);
}

static void pool_round(struct ah_pool *pool, ah_pool_fn *fn, void *context, uint32_t chunks)
{
    pool_open(pool, fn, context, chunks);
    pool_work(pool, 0);
    pool_await(pool, chunks);
}

/* A round in the middle of a run: its chunk 0 is the run's chunk `first`. */
struct part {
    ah_pool_fn *fn;
    void *context;
    size_t first;
};

static void run_part(void *context, size_t chunk, unsigned worker)
{
    const struct part *part = context;
    part->fn(part->context, part->first + chunk, worker);
}

void ah_pool_run(struct ah_pool *pool, ah_pool_fn *fn, void *context, size_t chunks)
{
    if (chunks <= 1 || ah_pool_threads(pool) == 1) {
        for (size_t chunk = 0; chunk < chunks; chunk++)
            fn(context, chunk, 0);
        return;
    }
    struct part part = {.fn = fn, .context = context};
    for (; chunks - part.first > ROUND_CHUNKS_MAX; part.first += ROUND_CHUNKS_MAX)
        pool_round(pool, run_part, &part, ROUND_CHUNKS_MAX);
    if (part.first == 0)
        pool_round(pool, fn, context, (uint32_t)chunks);
    else
        pool_round(pool, run_part, &part, (uint32_t)(chunks - part.first));
}

uint64_t ah_pool_cpu_ns(const struct ah_pool *pool)
{
    uint64_t ns = 0;
    for (unsigned i = 0; pool && i < pool->started; i++)
        ns += ah_threads_cpu_ns(pool->workers[i].thread);
    return ns;
}

void ah_pool_free(struct ah_pool *pool)
{
    if (!pool)
        return;
    atomic_store(&pool->stopping, true);
    atomic_fetch_add(&pool->epoch, 1);
    futex_wake(&pool->epoch, INT_MAX);
    for (unsigned i = 0; i < pool->started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    free(pool->workers);
    free(pool);
}
