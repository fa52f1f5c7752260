/* SPDX-License-Identifier: Apache-2.0
 *
 * Comm: the callers' side. Callers pass messages to the engine (engine.c) and sleep until these are done.
 */
#include "runtime/comm/comm.h"

#include "base/threads.h"
#include "runtime/comm/comm_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    DEADLINE_S = 60,
    DEADLINE_MOST_S = 1000 * 1000 * 1000,
    PATIENCE_S = 1 /* time after the deadline in which a driver may still return */
};

/* ---- life ---- */

static int check_options(const struct ah_comm_options *options, struct ah_error *err)
{
    if (options->ranks && options->rank >= options->ranks)
        return ah_error_set(err, AH_E_USAGE, "there is no rank %u of %u; ranks count from 0", options->rank,
                            options->ranks);
    if (!(options->deadline_s >= 0 && options->deadline_s <= DEADLINE_MOST_S))
        return ah_error_set(err, AH_E_USAGE, "the deadline for ranks is %g s; give 0 (the default) to %d s",
                            options->deadline_s, DEADLINE_MOST_S);
    return ah_comm_check_driver(options->driver, options->driver->name, err);
}

/* Makes the engine carry out an order, and waits for it. Call with the mutex held. */
static int give_order(struct ah_comm *comm, enum comm_order order, struct ah_error *err)
{
    comm->order = order;
    ah_comm_engine_wake(comm);
    while (comm->order != ORDER_NONE)
        pthread_cond_wait(&comm->progressed, &comm->mutex);
    return comm->order_rc ? ah_error_set(err, comm->order_rc, "%s", comm->order_err.text) : AH_OK;
}

/* Opens the driver. Its launcher may wait for a process that never comes, in a call that nothing can end. Then returns
 * AH_E_PEER and sets ret_is_stuck, and the engine's thread owns `comm` until the process ends. */
static int open_in_time(struct ah_comm *comm, bool *ret_is_stuck, struct ah_error *err)
{
    const double deadline_s = comm->options.deadline_s + PATIENCE_S;
    const uint64_t until_ns = ah_threads_now_ns() + (uint64_t)(deadline_s * 1e9);
    const struct timespec until = {(time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000)};
    int late = 0;
    comm->order = ORDER_OPEN;
    ah_comm_engine_wake(comm);
    while (comm->order != ORDER_NONE && !late)
        late = pthread_cond_timedwait(&comm->progressed, &comm->mutex, &until);
    *ret_is_stuck = comm->order != ORDER_NONE;
    if (*ret_is_stuck)
        return ah_error_set(err, AH_E_PEER,
                            "driver '%s' has not admitted this rank for %g s: its launcher waits for a "
                            "process that has not started",
                            comm->driver->name, comm->options.deadline_s);
    return comm->order_rc ? ah_error_set(err, comm->order_rc, "%s", comm->order_err.text) : AH_OK;
}

static void free_comm(struct ah_comm *comm)
{
    ah_lane_free(comm->thread);
    for (size_t i = 0; comm->slots && i < comm->n_channels; i++)
        pthread_cond_destroy(&comm->slots[i].done);
    free(comm->channels);
    free(comm->slots);
    free(comm->asked);
    free(comm->posting);
    free(comm->done);
    pthread_cond_destroy(&comm->progressed);
    pthread_cond_destroy(&comm->work);
    pthread_mutex_destroy(&comm->mutex);
    free(comm);
}

static struct ah_comm *new_comm(const struct ah_comm_options *options)
{
    struct ah_comm *comm = calloc(1, sizeof *comm);
    pthread_condattr_t attributes;
    if (!comm)
        return NULL;
    comm->options = *options;
    comm->options.deadline_s = options->deadline_s > 0 ? options->deadline_s : DEADLINE_S;
    comm->driver = options->driver;
    pthread_mutex_init(&comm->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&comm->work, &attributes);
    pthread_cond_init(&comm->progressed, &attributes);
    pthread_condattr_destroy(&attributes);
    return comm;
}

int ah_comm_open(struct ah_comm **ret_comm, const struct ah_comm_options *options, struct ah_error *err)
{
    const struct ah_lane_options thread = {.name = "messages", .cpu = -1, .queue = 1, .spans = 1};
    int rc = check_options(options, err);
    if (rc)
        return rc;
    struct ah_comm *comm = new_comm(options);
    if (!comm)
        return ah_error_memory(err);
    rc = ah_lane_new(&comm->thread, &thread, err);
    if (rc) {
        free_comm(comm);
        return rc;
    }
    const struct ah_lane_job job = {
        .run = ah_comm_engine_run, .payload = &comm, .payload_bytes = sizeof(void *)};
    (void)ah_lane_submit(comm->thread, &job, NULL);
    bool is_stuck = false;
    pthread_mutex_lock(&comm->mutex);
    rc = open_in_time(comm, &is_stuck, err);
    if (!rc) {
        comm->options.rank = comm->end->rank;
        comm->options.ranks = comm->end->ranks;
    }
    pthread_mutex_unlock(&comm->mutex);
    if (rc && !is_stuck)
        ah_comm_close(comm);
    if (rc)
        return rc;
    *ret_comm = comm;
    return AH_OK;
}

static int make_slots(struct ah_comm *comm, const struct ah_comm_channel *channels, size_t n,
                      struct ah_error *err)
{
    const size_t room = n ? n : 1;
    comm->channels = calloc(room, sizeof *comm->channels);
    comm->slots = calloc(room, sizeof *comm->slots);
    comm->asked = calloc(room, sizeof *comm->asked);
    comm->posting = calloc(room, sizeof *comm->posting);
    comm->done = calloc(room, sizeof *comm->done);
    if (!comm->channels || !comm->slots || !comm->asked || !comm->posting || !comm->done) {
        free(comm->slots);
        comm->slots = NULL; /* no conditions to destroy */
        return ah_error_memory(err);
    }
    if (n)
        memcpy(comm->channels, channels, n * sizeof *channels);
    for (size_t i = 0; i < n; i++)
        pthread_cond_init(&comm->slots[i].done, NULL);
    comm->n_channels = n;
    return AH_OK;
}

static void ask_revoke(struct ah_comm *comm, const struct ah_error *why)
{
    if (comm->is_revoking || comm->is_lost)
        return;
    comm->is_revoking = true;
    comm->why_revoke = *why;
    ah_comm_engine_wake(comm);
}

int ah_comm_channels(struct ah_comm *comm, const struct ah_comm_channel *channels, size_t n,
                     struct ah_error *err)
{
    struct ah_error why = {0};
    int rc = AH_OK;
    pthread_mutex_lock(&comm->mutex);
    if (comm->has_channels) {
        pthread_mutex_unlock(&comm->mutex);
        return ah_error_set(err, AH_E_USAGE, "the channels of rank %u are set up already",
                            comm->options.rank);
    }
    comm->has_channels = true;
    rc = make_slots(comm, channels, n, &why);
    rc = rc ? rc : give_order(comm, ORDER_CHANNELS, &why);
    if (rc)
        ask_revoke(comm, &why);
    pthread_mutex_unlock(&comm->mutex);
    return rc ? ah_error_set(err, rc, "%s", why.text) : AH_OK;
}

void ah_comm_close(struct ah_comm *comm)
{
    struct ah_error why = {0};
    if (!comm)
        return;
    pthread_mutex_lock(&comm->mutex);
    if (comm->n_inside) {
        (void)ah_error_set(&why, AH_E_FAILED, "it closed while %u of its messages were under way",
                           comm->n_inside);
        ask_revoke(comm, &why);
    }
    while (comm->n_inside)
        pthread_cond_wait(&comm->progressed, &comm->mutex);
    while (comm->end && comm->is_revoking && !comm->is_revoked)
        pthread_cond_wait(&comm->progressed, &comm->mutex);
    (void)give_order(comm, ORDER_CLOSE, NULL);
    pthread_mutex_unlock(&comm->mutex);
    free_comm(comm);
}

uint32_t ah_comm_rank(const struct ah_comm *comm)
{
    return comm->options.rank;
}

uint32_t ah_comm_ranks(const struct ah_comm *comm)
{
    return comm->options.ranks;
}

bool ah_comm_independent(const struct ah_comm *comm)
{
    return comm->end->is_independent;
}

/* ---- moves ---- */

/* Sets and returns the error of a lost world, with the message that every rank gets. */
static int lost(const struct ah_comm *comm, struct ah_error *err)
{
    return ah_error_set(err, AH_E_PEER, "rank %u: %s", comm->culprit, comm->why.text);
}

static int check_move(const struct ah_comm *comm, const struct ah_comm_moved *moved, struct ah_error *err)
{
    if (moved->channel >= comm->n_channels)
        return ah_error_set(err, AH_E_USAGE, "rank %u has no channel %u; it has %zu", comm->options.rank,
                            moved->channel, comm->n_channels);
    const struct ah_comm_channel *channel = &comm->channels[moved->channel];
    const char *does = channel->sends ? "sends to" : "receives from";
    if (moved->bytes > channel->most_bytes)
        return ah_error_set(
            err, AH_E_USAGE,
            "rank %u %s rank %u for purpose %u: %" PRIu64 " bytes, but its channel is for at most %" PRIu64,
            comm->options.rank, does, channel->peer, channel->purpose, moved->bytes, channel->most_bytes);
    if (comm->slots[moved->channel].state != SLOT_FREE)
        return ah_error_set(
            err, AH_E_USAGE,
            "rank %u %s rank %u for purpose %u: two messages at once, but a channel moves one at "
            "a time",
            comm->options.rank, does, channel->peer, channel->purpose);
    return AH_OK;
}

static void queue_message(struct ah_comm *comm, const struct ah_comm_moved *moved, bool more)
{
    struct comm_slot *slot = &comm->slots[moved->channel];
    assert(comm->n_asked < comm->n_channels); /* at most one message for each channel */
    slot->message = (struct ah_comm_message){moved->channel, more, moved->data, moved->bytes};
    slot->state = SLOT_ASKED;
    comm->asked[comm->n_asked++] = slot->message;
}

static int wait_until_done(struct ah_comm *comm, uint32_t channel)
{
    struct comm_slot *slot = &comm->slots[channel];
    while (slot->state != SLOT_DONE)
        pthread_cond_wait(&slot->done, &comm->mutex);
    slot->state = SLOT_FREE;
    return slot->rc;
}

static int ask_all(struct ah_comm *comm, const struct ah_comm_moved *moved, size_t n, struct ah_error *err)
{
    int rc = comm->is_lost ? lost(comm, err) : AH_OK;
    size_t asked = 0;
    const size_t before = comm->n_asked;
    for (; asked < n && !rc; asked++) {
        rc = check_move(comm, &moved[asked], err);
        if (!rc)
            queue_message(comm, &moved[asked], asked + 1 < n);
    }
    if (!rc)
        return AH_OK;
    for (size_t i = before; i < comm->n_asked; i++)
        comm->slots[comm->asked[i].channel].state = SLOT_FREE;
    comm->n_asked = before;
    return rc;
}

int ah_comm_move_together(struct ah_comm *comm, const struct ah_comm_moved *moved, size_t n,
                          struct ah_error *err)
{
    pthread_mutex_lock(&comm->mutex);
    int rc = ask_all(comm, moved, n, err);
    if (!rc) {
        int worst = AH_OK;
        comm->n_inside++;
        ah_comm_engine_wake(comm);
        for (size_t i = 0; i < n; i++) {
            int one = wait_until_done(comm, moved[i].channel);
            worst = worst ? worst : one;
        }
        if (--comm->n_inside == 0)
            pthread_cond_broadcast(&comm->progressed);
        rc = worst ? lost(comm, err) : AH_OK;
    }
    pthread_mutex_unlock(&comm->mutex);
    return rc;
}

int ah_comm_move(struct ah_comm *comm, uint32_t channel, void *data, uint64_t bytes, struct ah_error *err)
{
    const struct ah_comm_moved moved = {channel, data, bytes};
    return ah_comm_move_together(comm, &moved, 1, err);
}

/* ---- loss ---- */

void ah_comm_revoke(struct ah_comm *comm, const struct ah_error *why)
{
    pthread_mutex_lock(&comm->mutex);
    ask_revoke(comm, why);
    pthread_mutex_unlock(&comm->mutex);
}

size_t ah_comm_under_way(struct ah_comm *comm, struct ah_comm_under_way *ret_messages, size_t max)
{
    size_t n = 0;
    pthread_mutex_lock(&comm->mutex);
    for (size_t i = 0; comm->slots && i < comm->n_channels && n < max; i++) {
        const struct comm_slot *slot = &comm->slots[i];
        if (slot->is_cut || slot->state == SLOT_ASKED || slot->state == SLOT_POSTED)
            ret_messages[n++] = (struct ah_comm_under_way){comm->channels[i], slot->moved};
    }
    pthread_mutex_unlock(&comm->mutex);
    return n;
}

int ah_comm_fault(struct ah_comm *comm, uint32_t *ret_rank, struct ah_error *ret_why)
{
    pthread_mutex_lock(&comm->mutex);
    while (comm->is_revoking && !comm->is_lost)
        pthread_cond_wait(&comm->progressed, &comm->mutex);
    const bool is_lost = comm->is_lost;
    if (is_lost && ret_rank)
        *ret_rank = comm->culprit;
    if (is_lost && ret_why)
        *ret_why = comm->why;
    pthread_mutex_unlock(&comm->mutex);
    return is_lost ? AH_E_PEER : AH_OK;
}
