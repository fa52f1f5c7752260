/* SPDX-License-Identifier: Apache-2.0
 *
 * The page begins with a header. Then it has, for each way, the time at which the way becomes free. Then it has, for
 * each turn and way, whether the turn waits for the way. The way out of node n is number 2 n, the way in 2 n + 1.
 */
#include "runtime/train/paced_nics.h"

#include "base/threads.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A turn that wakes up at most this late counts as having started when its ways became free. */
enum { SLACK_NS = 200000, AGAIN_NS = 100000 };

struct page {
    pthread_mutex_t lock; /* robust: the page stays valid if a process dies with the lock held */
    uint64_t bytes;
    uint32_t turns, ways;
    uint64_t ops, late, late_ns; /* used atomically */
    /* by way: when it becomes free; then by (turns, ways): 1 if the turn waits for the way */
    uint64_t until_ns[];
};

struct ah_paced_nics {
    int file;
    struct page *page;
};

static uint64_t *wants_of(struct page *page, uint32_t turn)
{
    return page->until_ns + page->ways + (size_t)turn * page->ways;
}

/* ---- life ---- */

static int map(struct ah_paced_nics *nics, uint64_t bytes, struct ah_error *err)
{
    void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, nics->file, 0);
    if (page == MAP_FAILED)
        return ah_error_set(err, AH_E_FAILED, "the shared page for pacing cannot be mapped: %s",
                            strerror(errno));
    nics->page = page;
    return AH_OK;
}

static int begin_page(struct ah_paced_nics *nics, uint64_t bytes, struct ah_error *err)
{
    pthread_mutexattr_t shared;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
    const int failed = pthread_mutex_init(&nics->page->lock, &shared);
    pthread_mutexattr_destroy(&shared);
    nics->page->bytes = bytes;
    return failed
               ? ah_error_set(err, AH_E_FAILED, "the lock for pacing cannot be created: %s", strerror(failed))
               : AH_OK;
}

int ah_paced_nics_new(struct ah_paced_nics **ret_nics, uint32_t turns, uint32_t nodes, struct ah_error *err)
{
    const uint64_t numbers = 2 * (uint64_t)nodes * (1 + (uint64_t)turns);
    const uint64_t bytes = sizeof(struct page) + numbers * sizeof(uint64_t);
    struct ah_paced_nics *nics = calloc(1, sizeof *nics);
    if (!nics)
        return ah_error_memory(err);
    nics->file = memfd_create("autohete-pace", MFD_CLOEXEC);
    int rc = nics->file < 0 || ftruncate(nics->file, (off_t)bytes)
                 ? ah_error_set(err, AH_E_FAILED, "the shared page for pacing cannot be created: %s",
                                strerror(errno))
                 : AH_OK;
    rc = rc ? rc : map(nics, bytes, err);
    rc = rc ? rc : begin_page(nics, bytes, err);
    if (rc) {
        ah_paced_nics_free(nics);
        return rc;
    }
    nics->page->turns = turns;
    nics->page->ways = 2 * nodes;
    *ret_nics = nics;
    return AH_OK;
}

void ah_paced_nics_name(const struct ah_paced_nics *nics, char ret_name[AH_PACED_NICS_NAME_MAX])
{
    snprintf(ret_name, AH_PACED_NICS_NAME_MAX, "/proc/%ld/fd/%d", (long)getpid(), nics->file);
}

int ah_paced_nics_join(struct ah_paced_nics **ret_nics, const char *name, struct ah_error *err)
{
    struct stat about;
    struct ah_paced_nics *nics = calloc(1, sizeof *nics);
    if (!nics)
        return ah_error_memory(err);
    nics->file = open(name, O_RDWR | O_CLOEXEC);
    int rc = nics->file < 0 || fstat(nics->file, &about)
                 ? ah_error_set(err, AH_E_USAGE,
                                "'--pace' works only for ranks on one machine, but rank 0's '%s' is not "
                                "here: %s",
                                name, strerror(errno))
                 : map(nics, (uint64_t)about.st_size, err);
    if (rc)
        ah_paced_nics_free(nics);
    else
        *ret_nics = nics;
    return rc;
}

void ah_paced_nics_free(struct ah_paced_nics *nics)
{
    if (!nics)
        return;
    if (nics->page)
        munmap(nics->page, nics->page->bytes);
    if (nics->file >= 0)
        close(nics->file);
    free(nics);
}

/* ---- taking ---- */

static void lock(struct page *page)
{
    if (pthread_mutex_lock(&page->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&page->lock);
}

static void want(struct page *page, uint32_t turn, const struct ah_paced_nics_use *uses, size_t n,
                 bool wanted)
{
    uint64_t *wants = wants_of(page, turn);
    for (size_t i = 0; i < n; i++) {
        wants[2 * uses[i].node] = wanted && uses[i].out_ns;
        wants[2 * uses[i].node + 1] = wanted && uses[i].in_ns;
    }
}

/* Returns the time at which all ways are free for which a turn waits. */
static uint64_t free_ns(struct page *page, uint32_t turn)
{
    uint64_t ns = 0;
    for (uint32_t way = 0; way < page->ways; way++)
        if (wants_of(page, turn)[way] && page->until_ns[way] > ns)
            ns = page->until_ns[way];
    return ns;
}

/* True if a lower turn waits for one of the same ways, and all ways of the lower turn are free now. */
static bool is_behind(struct page *page, uint32_t turn, uint64_t now_ns)
{
    for (uint32_t other = 0; other < turn; other++)
        for (uint32_t way = 0; way < page->ways; way++)
            if (wants_of(page, other)[way] && wants_of(page, turn)[way] && free_ns(page, other) <= now_ns)
                return true;
    return false;
}

static void take_ways(struct page *page, const struct ah_paced_nics_use *uses, size_t n, uint64_t start_ns)
{
    for (size_t i = 0; i < n; i++) {
        if (uses[i].out_ns)
            page->until_ns[2 * uses[i].node] = start_ns + uses[i].out_ns;
        if (uses[i].in_ns)
            page->until_ns[2 * uses[i].node + 1] = start_ns + uses[i].in_ns;
    }
}

void ah_paced_nics_wait(struct ah_paced_nics *nics, uint32_t turn, const struct ah_paced_nics_use *uses,
                        size_t n)
{
    lock(nics->page);
    want(nics->page, turn, uses, n, true);
    pthread_mutex_unlock(&nics->page->lock);
}

bool ah_paced_nics_try(struct ah_paced_nics *nics, uint32_t turn, const struct ah_paced_nics_use *uses,
                       size_t n, uint64_t came_ns, uint64_t now_ns, uint64_t *ret_ns)
{
    struct page *page = nics->page;
    lock(page);
    const uint64_t freed_ns = free_ns(page, turn);
    const bool taken = freed_ns <= now_ns && !is_behind(page, turn, now_ns);
    if (taken) {
        *ret_ns = freed_ns > came_ns && now_ns - freed_ns <= SLACK_NS ? freed_ns : now_ns;
        want(page, turn, uses, n, false);
        take_ways(page, uses, n, *ret_ns);
    } else {
        *ret_ns = freed_ns > now_ns ? freed_ns : now_ns + AGAIN_NS;
    }
    pthread_mutex_unlock(&page->lock);
    return taken;
}

void ah_paced_nics_take(struct ah_paced_nics *nics, uint32_t turn, const struct ah_paced_nics_use *uses,
                        size_t n, uint64_t *ret_start_ns)
{
    const uint64_t came_ns = ah_threads_now_ns();
    ah_paced_nics_wait(nics, turn, uses, n);
    while (!ah_paced_nics_try(nics, turn, uses, n, came_ns, ah_threads_now_ns(), ret_start_ns))
        ah_threads_sleep_until_ns(*ret_start_ns);
}

/* ---- totals ---- */

void ah_paced_nics_count(struct ah_paced_nics *nics, uint64_t late_ns)
{
    __atomic_fetch_add(&nics->page->ops, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&nics->page->late, late_ns > 0, __ATOMIC_RELAXED);
    __atomic_fetch_add(&nics->page->late_ns, late_ns, __ATOMIC_RELAXED);
}

struct ah_paced_nics_totals ah_paced_nics_totals(const struct ah_paced_nics *nics)
{
    return (struct ah_paced_nics_totals){__atomic_load_n(&nics->page->ops, __ATOMIC_RELAXED),
                                         __atomic_load_n(&nics->page->late, __ATOMIC_RELAXED),
                                         __atomic_load_n(&nics->page->late_ns, __ATOMIC_RELAXED)};
}
