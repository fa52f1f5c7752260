/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine: one thread for each rank, which makes all calls of the driver.
 *
 * A turn posts the messages that callers passed, polls once, and wakes callers whose messages are done. After a turn in
 * which nothing happened, the engine rests. It calls the driver's own wait, if there is one. Otherwise, if nothing is
 * posted, it sleeps until a caller wakes it, and checks for a lost world now and then. If messages are posted, the
 * engine first yields the processor for a moment, then sleeps for a fraction of the time that it has waited. So a
 * message is late by a small part of its wait, and a long wait costs almost nothing. While bytes are in transit, the
 * engine sleeps as little as possible, since some transports move them only inside calls.
 */
#include "base/threads.h"
#include "runtime/comm/comm_internal.h"

#include <sched.h>
#include <string.h>
#include <time.h>

enum {
    YIELDING_US = 100,
    COPYING_NS = 5000, /* a poll that takes longer has moved bytes, if any are on their way */
    WAITED_PER_SLEEP = 32,
    SLEEP_LEAST_US = 20,
    SLEEP_MOST_US = 1500,
    SLEEP_IDLE_US = 100 * 1000 /* longest sleep with nothing posted */
};

void ah_comm_engine_wake(struct ah_comm *comm)
{
    if (comm->driver->wake && comm->end)
        comm->driver->wake(comm->end);
    pthread_cond_signal(&comm->work);
}

static void fetch_fault(struct ah_comm *comm)
{
    struct ah_error why = {0};
    uint32_t culprit = 0;
    pthread_mutex_unlock(&comm->mutex);
    const bool is_lost = comm->driver->fault(comm->end, &culprit, &why) != AH_OK;
    pthread_mutex_lock(&comm->mutex);
    if (is_lost) {
        comm->culprit = culprit;
        comm->why = why;
        comm->is_lost = true;
        pthread_cond_broadcast(&comm->progressed);
    }
}

static void revoke(struct ah_comm *comm)
{
    const struct ah_error why = comm->why_revoke;
    comm->is_revoked = true;
    pthread_mutex_unlock(&comm->mutex);
    comm->driver->revoke(comm->end, &why);
    pthread_mutex_lock(&comm->mutex);
    fetch_fault(comm);
    pthread_cond_broadcast(&comm->progressed);
}

static void carry_out(struct ah_comm *comm)
{
    const enum comm_order order = comm->order;
    struct ah_error err = {0};
    int rc = AH_OK;
    pthread_mutex_unlock(&comm->mutex);
    if (order == ORDER_OPEN)
        rc = comm->driver->open(&comm->end, &comm->options, &err);
    else if (order == ORDER_CHANNELS)
        rc = comm->driver->channels(comm->end, comm->channels, comm->n_channels, &err);
    else if (comm->end)
        comm->driver->close(comm->end);
    pthread_mutex_lock(&comm->mutex);
    comm->order = ORDER_NONE;
    comm->order_rc = rc;
    comm->order_err = err;
    comm->over = order == ORDER_CLOSE;
    pthread_cond_broadcast(&comm->progressed);
}

static void complete_message(struct ah_comm *comm, const struct ah_comm_done *done)
{
    struct comm_slot *slot = &comm->slots[done->channel];
    slot->rc = done->rc;
    slot->state = SLOT_DONE;
    slot->moved += done->rc == AH_OK;
    slot->is_cut = done->rc != AH_OK;
    comm->n_posted--;
    pthread_cond_signal(&slot->done);
}

/* Does one turn. Returns false if nothing happened. */
static bool post_and_poll(struct ah_comm *comm)
{
    const size_t n = comm->n_asked;
    if (n)
        memcpy(comm->posting, comm->asked, n * sizeof *comm->posting);
    for (size_t i = 0; i < n; i++)
        comm->slots[comm->posting[i].channel].state = SLOT_POSTED;
    comm->n_posted += n;
    comm->n_asked = 0;
    const bool polls = comm->n_posted > 0;
    pthread_mutex_unlock(&comm->mutex);
    if (n)
        comm->driver->post(comm->end, comm->posting, n);
    const uint64_t polled_ns = ah_threads_now_ns();
    const size_t n_done = polls ? comm->driver->poll(comm->end, comm->done, comm->n_channels) : 0;
    const bool has_copied = comm->end->moving && ah_threads_now_ns() - polled_ns > COPYING_NS;
    pthread_mutex_lock(&comm->mutex);
    if (!comm->is_lost)
        fetch_fault(comm); /* before waking callers, who ask for the fault */
    for (size_t i = 0; i < n_done; i++)
        complete_message(comm, &comm->done[i]);
    const bool begins = comm->end->moving > comm->moving;
    comm->moving = comm->end->moving;
    return n > 0 || n_done > 0 || begins || has_copied;
}

static void sleep_us(struct ah_comm *comm, uint32_t us)
{
    const uint64_t until_ns = ah_threads_now_ns() + (uint64_t)us * 1000;
    const struct timespec until = {(time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000)};
    (void)pthread_cond_timedwait(&comm->work, &comm->mutex, &until);
}

/* Returns the time since something last happened. */
static uint64_t waited_us(const struct ah_comm *comm)
{
    return (ah_threads_now_ns() - comm->moved_ns) / 1000;
}

static uint32_t pause_us(const struct ah_comm *comm)
{
    const uint64_t us = waited_us(comm) / WAITED_PER_SLEEP;
    if (comm->moving || us < SLEEP_LEAST_US)
        return SLEEP_LEAST_US;
    return us < SLEEP_MOST_US ? (uint32_t)us : SLEEP_MOST_US;
}

static void rest(struct ah_comm *comm)
{
    if (comm->driver->wait) {
        pthread_mutex_unlock(&comm->mutex);
        comm->driver->wait(comm->end);
        pthread_mutex_lock(&comm->mutex);
    } else if (comm->n_posted == 0) {
        sleep_us(comm, SLEEP_IDLE_US);
    } else if (waited_us(comm) < YIELDING_US) {
        pthread_mutex_unlock(&comm->mutex);
        sched_yield();
        pthread_mutex_lock(&comm->mutex);
    } else {
        sleep_us(comm, pause_us(comm));
    }
}

static bool has_work(const struct ah_comm *comm)
{
    return comm->order != ORDER_NONE || comm->n_asked > 0 || (comm->is_revoking && !comm->is_revoked);
}

void ah_comm_engine_run(void *payload)
{
    struct ah_comm *comm = *(struct ah_comm **)payload;
    pthread_mutex_lock(&comm->mutex);
    while (!comm->over) {
        if (comm->order != ORDER_NONE) {
            carry_out(comm);
            continue;
        }
        if (!comm->end) { /* open has failed */
            pthread_cond_wait(&comm->work, &comm->mutex);
            continue;
        }
        if (comm->is_revoking && !comm->is_revoked)
            revoke(comm);
        if (post_and_poll(comm))
            comm->moved_ns = ah_threads_now_ns();
        else if (!has_work(comm))
            rest(comm);
    }
    pthread_mutex_unlock(&comm->mutex);
}
