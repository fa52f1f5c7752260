/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread and its queue. Invariants:
 *
 * (1) done <= submitted <= done + capacity; both only grow. Ticket t is in slot (t-1) % capacity from its submit until
 *     done >= t, so a job runs in its slot and nobody overwrites it.
 * (2) `submitted`, `stopping` and `done` change only under `mutex`. `done` is atomic, so that it can also be read
 *     without the mutex; it is stored (release) after the job returned.
 * (3) No wake-up is lost. A sleeper tests its condition under `mutex` and sleeps on a condition variable of that mutex.
 *     The thread that makes a condition true does so under `mutex` and then signals:
 *         work      lane thread      submitted > done, or stopping
 *         progress  all others       done reached a ticket, or a slot became free
 *     `wake_at` is the lowest ticket that a sleeper on `progress` waits for (changed under `mutex`); a sleeper that is
 *     woken too early sets it again. Until `done` reaches it, nobody is signalled: waking a thread costs more than a
 *     small job.
 * (4) The lane's thread holds no mutex while a job runs or while it waits for another lane, and a wait for another lane
 *     takes that lane's mutex only: no two mutexes are ever held together.
 *     Several lanes share a bell: a sleeper counts itself in `waiters` before it tests, and a lane stores `done` before
 *     it reads `waiters`, all in one total order. So the lane sees the sleeper, or the sleeper sees that the job is
 *     done. The bell's mutex is taken without the lane's.
 * (5) A job waits for tickets in the order of its list. The order does not matter, because it waits for all of them.
 */
#include "base/lane.h"

#include "base/threads.h"
#include "base/threads_internal.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { QUEUE_DEFAULT = 1024, SPANS_DEFAULT = 1024, NAME_MAX_BYTES = 16, PAYLOAD_ALIGN = 64 };

struct lane_slot {
    alignas(PAYLOAD_ALIGN) unsigned char payload[AH_LANE_PAYLOAD_MAX];
    void (*await)(void *payload);
    void (*run)(void *payload);
    struct ah_lane_wait waits[AH_LANE_WAITS_MAX];
    size_t n_waits;
    uint64_t tag;
};

struct ah_lane_bell {
    pthread_mutex_t mutex;
    pthread_cond_t rung;
    atomic_uint waiters;
};

struct ah_lane {
    pthread_t thread;
    struct ah_threads_body body;
    pthread_mutex_t mutex;
    pthread_cond_t work;
    pthread_cond_t progress;
    struct lane_slot *slots; /* owned; `capacity` of them */
    size_t capacity;
    struct ah_lane_span *spans; /* owned; ring: ticket t in spans[(t-1) % n_spans] */
    size_t n_spans;
    uint64_t submitted;
    uint64_t wake_at; /* lowest ticket that a sleeper waits for; UINT64_MAX: nobody sleeps */
    bool stopping;
    atomic_int busy;
    _Atomic uint64_t done;
    struct ah_lane_bell *bell; /* borrowed, or NULL */
    char name[NAME_MAX_BYTES];
};

/* Sleeps until `ticket` is done. Call with the mutex held. */
static void sleep_until(struct ah_lane *lane, uint64_t ticket)
{
    while (atomic_load(&lane->done) < ticket) {
        lane->wake_at = ticket < lane->wake_at ? ticket : lane->wake_at;
        pthread_cond_wait(&lane->progress, &lane->mutex);
    }
}

void ah_lane_wait(struct ah_lane *lane, uint64_t ticket)
{
    if (atomic_load_explicit(&lane->done, memory_order_acquire) >= ticket)
        return;
    pthread_mutex_lock(&lane->mutex);
    sleep_until(lane, ticket);
    pthread_mutex_unlock(&lane->mutex);
}

/* Waits for the next job and returns its slot; NULL when the lane stops and its queue is empty. */
static struct lane_slot *lane_next(struct ah_lane *lane)
{
    pthread_mutex_lock(&lane->mutex);
    uint64_t done = atomic_load(&lane->done);
    while (lane->submitted == done && !lane->stopping)
        pthread_cond_wait(&lane->work, &lane->mutex);
    bool any = lane->submitted != done;
    pthread_mutex_unlock(&lane->mutex);
    return any ? &lane->slots[done % lane->capacity] : NULL;
}

int ah_lane_bell_new(struct ah_lane_bell **ret_bell, struct ah_error *err)
{
    struct ah_lane_bell *bell = calloc(1, sizeof *bell);
    if (!bell)
        return ah_error_memory(err);
    pthread_mutex_init(&bell->mutex, NULL);
    pthread_cond_init(&bell->rung, NULL);
    *ret_bell = bell;
    return AH_OK;
}

void ah_lane_bell_free(struct ah_lane_bell *bell)
{
    if (!bell)
        return;
    pthread_cond_destroy(&bell->rung);
    pthread_mutex_destroy(&bell->mutex);
    free(bell);
}

static void bell_ring(struct ah_lane_bell *bell)
{
    if (atomic_load(&bell->waiters) == 0)
        return;
    pthread_mutex_lock(&bell->mutex);
    pthread_cond_broadcast(&bell->rung);
    pthread_mutex_unlock(&bell->mutex);
}

/* Returns the index of the first wait whose ticket is done; n: there is none. */
static size_t find_met(const struct ah_lane_wait *waits, size_t n)
{
    size_t i = 0;
    while (i < n && atomic_load(&waits[i].lane->done) < waits[i].ticket)
        i++;
    return i;
}

size_t ah_lane_wait_any(struct ah_lane_bell *bell, const struct ah_lane_wait *waits, size_t n)
{
    size_t met = find_met(waits, n);
    if (met < n)
        return met;
    atomic_fetch_add(&bell->waiters, 1);
    pthread_mutex_lock(&bell->mutex);
    while ((met = find_met(waits, n)) == n)
        pthread_cond_wait(&bell->rung, &bell->mutex);
    pthread_mutex_unlock(&bell->mutex);
    atomic_fetch_sub(&bell->waiters, 1);
    return met;
}

static void lane_finish(struct ah_lane *lane, const struct ah_lane_span *span)
{
    pthread_mutex_lock(&lane->mutex);
    lane->spans[(span->ticket - 1) % lane->n_spans] = *span;
    atomic_store(&lane->done, span->ticket);
    if (span->ticket >= lane->wake_at) {
        lane->wake_at = UINT64_MAX;
        pthread_cond_broadcast(&lane->progress);
    }
    pthread_mutex_unlock(&lane->mutex);
    if (lane->bell)
        bell_ring(lane->bell);
}

static void lane_run(struct ah_lane *lane, struct lane_slot *slot)
{
    struct ah_lane_span span = {.ticket = atomic_load(&lane->done) + 1, .tag = slot->tag};
    span.ready_ns = ah_threads_now_ns();
    for (size_t i = 0; i < slot->n_waits; i++)
        ah_lane_wait(slot->waits[i].lane, slot->waits[i].ticket);
    if (slot->await)
        slot->await(slot->payload);
    atomic_store(&lane->busy, 1);
    span.start_ns = ah_threads_now_ns();
    slot->run(slot->payload);
    span.end_ns = ah_threads_now_ns();
    atomic_store(&lane->busy, 0);
    lane_finish(lane, &span);
}

static void lane_main(void *context)
{
    struct ah_lane *lane = context;
    for (struct lane_slot *slot = lane_next(lane); slot; slot = lane_next(lane))
        lane_run(lane, slot);
}

static void lane_destroy(struct ah_lane *lane)
{
    pthread_cond_destroy(&lane->progress);
    pthread_cond_destroy(&lane->work);
    pthread_mutex_destroy(&lane->mutex);
    free(lane->spans);
    free(lane->slots);
    free(lane);
}

int ah_lane_new(struct ah_lane **ret_lane, const struct ah_lane_options *options, struct ah_error *err)
{
    struct ah_lane *lane = calloc(1, sizeof *lane);
    if (!lane)
        return ah_error_memory(err);
    pthread_mutex_init(&lane->mutex, NULL);
    pthread_cond_init(&lane->work, NULL);
    pthread_cond_init(&lane->progress, NULL);
    lane->wake_at = UINT64_MAX;
    lane->capacity = options->queue ? options->queue : QUEUE_DEFAULT;
    lane->n_spans = options->spans ? options->spans : SPANS_DEFAULT;
    if (lane->capacity <= SIZE_MAX / sizeof *lane->slots)
        lane->slots = aligned_alloc(PAYLOAD_ALIGN, lane->capacity * sizeof *lane->slots);
    lane->spans = calloc(lane->n_spans, sizeof *lane->spans);
    strncpy(lane->name, options->name ? options->name : "lane", sizeof lane->name - 1);
    lane->bell = options->bell;
    lane->body = (struct ah_threads_body){lane_main, lane};
    int rc = lane->slots && lane->spans ? AH_OK : ah_error_memory(err);
    if (!rc)
        rc = ah_threads_start(&lane->thread, lane->name, options->cpu, &lane->body, err);
    if (rc) {
        lane_destroy(lane);
        return rc;
    }
    *ret_lane = lane;
    return AH_OK;
}

static void slot_fill(struct lane_slot *slot, const struct ah_lane_job *job)
{
    if (job->payload_bytes)
        memcpy(slot->payload, job->payload, job->payload_bytes);
    if (job->n_waits)
        memcpy(slot->waits, job->waits, job->n_waits * sizeof *job->waits);
    slot->await = job->await;
    slot->run = job->run;
    slot->n_waits = job->n_waits;
    slot->tag = job->tag;
}

/* True if the job, with number `ticket` in its lane, would wait for itself or for a later job of the lane. */
static bool waits_for_itself(const struct ah_lane *lane, const struct ah_lane_job *job, uint64_t ticket)
{
    for (size_t i = 0; i < job->n_waits; i++)
        if (job->waits[i].lane == lane && job->waits[i].ticket >= ticket)
            return true;
    return false;
}

int ah_lane_submit(struct ah_lane *lane, const struct ah_lane_job *job, uint64_t *ret_ticket)
{
    if (job->payload_bytes > AH_LANE_PAYLOAD_MAX || job->n_waits > AH_LANE_WAITS_MAX)
        return AH_E_USAGE;
    int rc = AH_E_USAGE;
    pthread_mutex_lock(&lane->mutex);
    while (lane->submitted - atomic_load(&lane->done) >= lane->capacity)
        sleep_until(lane, lane->submitted - lane->capacity + 1);
    uint64_t ticket = lane->submitted + 1;
    if (!waits_for_itself(lane, job, ticket)) {
        slot_fill(&lane->slots[lane->submitted % lane->capacity], job);
        lane->submitted = ticket;
        pthread_cond_signal(&lane->work);
        if (ret_ticket)
            *ret_ticket = ticket;
        rc = AH_OK;
    }
    pthread_mutex_unlock(&lane->mutex);
    return rc;
}

void ah_lane_drain(struct ah_lane *lane)
{
    pthread_mutex_lock(&lane->mutex);
    uint64_t last = lane->submitted;
    pthread_mutex_unlock(&lane->mutex);
    ah_lane_wait(lane, last);
}

uint64_t ah_lane_done(const struct ah_lane *lane)
{
    return atomic_load_explicit(&lane->done, memory_order_acquire);
}

int ah_lane_busy(const struct ah_lane *lane)
{
    return atomic_load(&lane->busy);
}

void ah_lane_head(struct ah_lane *lane, struct ah_lane_head *ret_head, void *ret_payload, size_t bytes)
{
    pthread_mutex_lock(&lane->mutex);
    *ret_head = (struct ah_lane_head){.submitted = lane->submitted, .done = atomic_load(&lane->done)};
    if (ret_head->submitted > ret_head->done) {
        const struct lane_slot *slot = &lane->slots[ret_head->done % lane->capacity];
        ret_head->any = true;
        ret_head->tag = slot->tag;
        ret_head->n_waits = slot->n_waits;
        memcpy(ret_head->waits, slot->waits, slot->n_waits * sizeof *slot->waits);
        if (bytes)
            memcpy(ret_payload, slot->payload, bytes < sizeof slot->payload ? bytes : sizeof slot->payload);
    }
    pthread_mutex_unlock(&lane->mutex);
}

uint64_t ah_lane_cpu_ns(const struct ah_lane *lane)
{
    return ah_threads_cpu_ns(lane->thread);
}

size_t ah_lane_spans(struct ah_lane *lane, uint64_t after, struct ah_lane_span *ret_spans, size_t max)
{
    pthread_mutex_lock(&lane->mutex);
    uint64_t done = atomic_load(&lane->done);
    uint64_t lost = done > lane->n_spans ? done - lane->n_spans : 0;
    uint64_t first = after > lost ? after : lost;
    size_t n = first >= done ? 0 : done - first < max ? (size_t)(done - first) : max;
    for (size_t i = 0; i < n; i++)
        ret_spans[i] = lane->spans[(first + i) % lane->n_spans];
    pthread_mutex_unlock(&lane->mutex);
    return n;
}

void ah_lane_free(struct ah_lane *lane)
{
    if (!lane)
        return;
    pthread_mutex_lock(&lane->mutex);
    lane->stopping = true;
    pthread_cond_signal(&lane->work);
    pthread_mutex_unlock(&lane->mutex);
    pthread_join(lane->thread, NULL);
    lane_destroy(lane);
}
