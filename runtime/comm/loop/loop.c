/* SPDX-License-Identifier: Apache-2.0
 *
 * Loop: the hub, its ends and their slots. A message is one copy between two slots.
 *
 * INVARIANTS
 * 1. Everything in a hub changes under its mutex; bytes are copied without it, while both slots are COPYING.
 * 2. A slot goes IDLE -> POSTED -> (MET ->) COPYING -> DONE -> IDLE. MET: both ends are posted, but the copy is late.
 *    Both ends become MET, COPYING and DONE together. In a lost world, poll sets POSTED and MET back to IDLE.
 * 3. No copy begins in a lost world, and poll reports a COPYING slot only when the copy is over.
 */
#include "runtime/comm/loop/loop.h"

#include "base/threads.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum slot_state { SLOT_IDLE, SLOT_POSTED, SLOT_MET, SLOT_COPYING, SLOT_DONE };

struct loop_end;

struct loop_slot {
    const struct ah_comm_channel *channel; /* borrowed until close */
    struct loop_end *peer;
    struct loop_slot *other; /* the channel's other end */
    enum slot_state state;
    void *data;
    uint64_t bytes;
    uint64_t turn;    /* the message's turn in its rank; messages moved together share a turn */
    uint64_t copy_ns; /* a receive that is MET: the time from which the copy may begin */
    uint64_t due_ns;  /* a slot that is DONE: the time from which poll may report it */
};

struct loop_end {
    struct ah_comm_end base;
    struct ah_comm_hub *hub;
    uint32_t rank;
    bool is_present, is_described, is_closed;
    bool is_woken; /* wake was called since its last sleep */
    bool is_stuck; /* if messages take turns: its turn seems to wait for one that never ends */
    const struct loop_slot *blocks; /* is_stuck: the slot for which the turn waits */
    pthread_cond_t changed;
    struct ah_comm_wishes wishes; /* borrowed until close */
    struct loop_slot *slots;      /* owned by the hub; one for each wish */
    size_t n_busy;                /* number of slots that are not IDLE */
    uint64_t posted;              /* number of messages posted so far */
    uint64_t last_turn, turn;     /* the last turn given; the turn that progresses (is_serial) */
    double deadline_s;
};

struct ah_comm_hub {
    struct ah_comm_hub_options options;
    uint32_t ranks, n_present, n_described;
    pthread_mutex_t mutex;
    pthread_cond_t gathered; /* open and channels sleep here */
    bool is_agreed;          /* all ranks have described their channels, and `verdict` is known */
    int verdict;
    struct ah_error verdict_err;
    atomic_bool is_lost;
    uint32_t culprit;
    struct ah_error why;
    uint64_t random;
    struct loop_end *ends; /* owned */
};

static struct loop_end *end_of(struct ah_comm_end *end)
{
    return (struct loop_end *)end;
}

/* ---- hub ---- */

static void init_conditions(struct ah_comm_hub *hub)
{
    pthread_condattr_t attributes;
    pthread_mutex_init(&hub->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&hub->gathered, &attributes);
    for (uint32_t i = 0; i < hub->ranks; i++)
        pthread_cond_init(&hub->ends[i].changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

int ah_comm_hub_new(struct ah_comm_hub **ret_hub, uint32_t ranks, const struct ah_comm_hub_options *options,
                    struct ah_error *err)
{
    if (ranks == 0)
        return ah_error_set(err, AH_E_USAGE, "a world of no ranks");
    struct ah_comm_hub *hub = calloc(1, sizeof *hub);
    struct loop_end *ends = hub ? calloc(ranks, sizeof *ends) : NULL;
    if (!ends) {
        free(hub);
        return ah_error_memory(err);
    }
    hub->ends = ends;
    hub->ranks = ranks;
    if (options)
        hub->options = *options;
    hub->random = hub->options.seed * 2 + 1;
    for (uint32_t i = 0; i < ranks; i++) {
        ends[i].base = (struct ah_comm_end){i, ranks, !hub->options.is_serial, 0};
        ends[i].hub = hub;
        ends[i].rank = i;
    }
    init_conditions(hub);
    *ret_hub = hub;
    return AH_OK;
}

void ah_comm_hub_free(struct ah_comm_hub *hub)
{
    if (!hub)
        return;
    for (uint32_t i = 0; i < hub->ranks; i++) {
        pthread_cond_destroy(&hub->ends[i].changed);
        free(hub->ends[i].slots);
    }
    pthread_cond_destroy(&hub->gathered);
    pthread_mutex_destroy(&hub->mutex);
    free(hub->ends);
    free(hub);
}

static void wake_end(struct loop_end *end)
{
    end->is_woken = true;
    pthread_cond_signal(&end->changed);
}

/* Loses the world; only the first reason counts. */
static void lose(struct ah_comm_hub *hub, uint32_t culprit, const struct ah_error *why)
{
    if (atomic_load(&hub->is_lost))
        return;
    hub->culprit = culprit;
    hub->why = *why;
    atomic_store(&hub->is_lost, true);
    for (uint32_t i = 0; i < hub->ranks; i++)
        wake_end(&hub->ends[i]);
    pthread_cond_broadcast(&hub->gathered);
}

static int say_lost(const struct ah_comm_hub *hub, struct ah_error *err)
{
    return ah_error_set(err, AH_E_PEER, "rank %u: %s", hub->culprit, hub->why.text);
}

/* ---- open and channels ---- */

static bool has_not_come(const void *hub, uint32_t rank)
{
    return !((const struct ah_comm_hub *)hub)->ends[rank].is_present;
}

static bool has_not_described(const void *hub, uint32_t rank)
{
    return !((const struct ah_comm_hub *)hub)->ends[rank].is_described;
}

/* Waits until all ranks have opened (or described channels) or the world is lost. Loses the world at the deadline. */
static int wait_for_ranks(struct loop_end *end, bool describes, struct ah_error *err)
{
    struct ah_comm_hub *hub = end->hub;
    const uint64_t until_ns = ah_threads_now_ns() + (uint64_t)(end->deadline_s * 1e9);
    const struct timespec until = {(time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000)};
    const uint32_t *n = describes ? &hub->n_described : &hub->n_present;
    int rc = 0;
    while (*n < hub->ranks && !atomic_load(&hub->is_lost) && !rc)
        rc = pthread_cond_timedwait(&hub->gathered, &hub->mutex, &until);
    if (*n < hub->ranks && !atomic_load(&hub->is_lost)) {
        struct ah_error why = {0};
        const struct ah_comm_absent absent = {hub->ranks, describes ? has_not_described : has_not_come, hub,
                                              describes ? "set up channels" : "come", end->deadline_s};
        (void)ah_comm_say_absent(&absent, &why);
        lose(hub, end->rank, &why);
    }
    return atomic_load(&hub->is_lost) ? say_lost(hub, err) : AH_OK;
}

static int check_place(const struct ah_comm_hub *hub, const struct ah_comm_options *options,
                       struct ah_error *err)
{
    if (options->ranks != hub->ranks)
        return ah_error_set(err, AH_E_MISMATCH, "rank %u expects %u ranks, but its world has %u",
                            options->rank, options->ranks, hub->ranks);
    if (hub->ends[options->rank].is_present)
        return ah_error_set(err, AH_E_USAGE, "rank %u has already joined", options->rank);
    return AH_OK;
}

static int loop_open(struct ah_comm_end **ret_end, const struct ah_comm_options *options,
                     struct ah_error *err)
{
    struct ah_comm_hub *hub = options->boot;
    pthread_mutex_lock(&hub->mutex);
    int rc = check_place(hub, options, err);
    if (!rc) {
        struct loop_end *end = &hub->ends[options->rank];
        end->is_present = true;
        end->deadline_s = options->deadline_s;
        if (++hub->n_present == hub->ranks)
            pthread_cond_broadcast(&hub->gathered);
        rc = wait_for_ranks(end, false, err);
        if (!rc)
            *ret_end = &end->base;
        else if (hub->culprit != end->rank && hub->why.code) /* not opened, so fault() cannot report it */
            rc = ah_error_set(err, hub->why.code, "rank %u: %s", hub->culprit, hub->why.text);
    }
    pthread_mutex_unlock(&hub->mutex);
    return rc;
}

/* Finds each slot's other end. */
static void join_slots(struct ah_comm_hub *hub)
{
    for (uint32_t rank = 0; rank < hub->ranks; rank++) {
        struct loop_end *end = &hub->ends[rank];
        for (size_t i = 0; i < end->wishes.n; i++) {
            struct loop_slot *slot = &end->slots[i];
            slot->channel = &end->wishes.channels[i];
            slot->peer = &hub->ends[slot->channel->peer];
            slot->other = &slot->peer->slots[ah_comm_other_end(&slot->peer->wishes, rank, slot->channel)];
        }
    }
}

static void judge_wishes(struct ah_comm_hub *hub)
{
    struct ah_comm_wishes *wishes = calloc(hub->ranks, sizeof *wishes);
    for (uint32_t i = 0; wishes && i < hub->ranks; i++)
        wishes[i] = hub->ends[i].wishes;
    hub->verdict =
        wishes ? ah_comm_agree(wishes, hub->ranks, &hub->verdict_err) : ah_error_memory(&hub->verdict_err);
    free(wishes);
    if (!hub->verdict)
        join_slots(hub);
    hub->is_agreed = true;
    pthread_cond_broadcast(&hub->gathered);
}

/* Loses the world if a rank has described its channels and another rank has closed without doing so. */
static void refuse_undescribed(struct ah_comm_hub *hub)
{
    struct ah_error why = {0};
    (void)ah_error_set(&why, AH_E_FAILED, "it closed without channels");
    for (uint32_t i = 0; hub->n_described > 0 && i < hub->ranks; i++)
        if (hub->ends[i].is_closed && !hub->ends[i].is_described)
            lose(hub, i, &why);
}

static int loop_channels(struct ah_comm_end *base, const struct ah_comm_channel *channels, size_t n,
                         struct ah_error *err)
{
    struct loop_end *end = end_of(base);
    struct ah_comm_hub *hub = end->hub;
    struct loop_slot *slots = calloc(n ? n : 1, sizeof *slots);
    if (!slots)
        return ah_error_memory(err);
    pthread_mutex_lock(&hub->mutex);
    end->slots = slots;
    int rc = atomic_load(&hub->is_lost) ? say_lost(hub, err) : AH_OK; /* wishes of a lost rank may be freed */
    if (!rc) {
        end->wishes = (struct ah_comm_wishes){channels, n};
        end->is_described = true;
        if (++hub->n_described == hub->ranks)
            judge_wishes(hub);
        refuse_undescribed(hub);
        rc = hub->is_agreed ? AH_OK : wait_for_ranks(end, true, err);
        if (hub->is_agreed)
            rc = hub->verdict ? ah_error_set(err, hub->verdict, "%s", hub->verdict_err.text) : AH_OK;
    }
    pthread_mutex_unlock(&hub->mutex);
    return rc;
}

/* ---- messages ---- */

/* Draws a delay in ns; half of all delays are 0. */
static uint64_t draw_delay(struct ah_comm_hub *hub)
{
    if (hub->options.most_delay_us == 0)
        return 0;
    hub->random = hub->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    const uint64_t bits = hub->random >> 33;
    return bits & 1 ? (bits >> 1) % ((uint64_t)hub->options.most_delay_us * 1000) : 0;
}

/* Copies the bytes of a message now. The mutex is not held meanwhile. */
static void copy_bytes(struct ah_comm_hub *hub, struct loop_slot *send, struct loop_slot *receive,
                       uint64_t now_ns)
{
    send->state = receive->state = SLOT_COPYING;
    if (send->bytes) {
        pthread_mutex_unlock(&hub->mutex);
        memcpy(receive->data, send->data, send->bytes);
        pthread_mutex_lock(&hub->mutex);
    }
    send->due_ns = now_ns + draw_delay(hub);
    receive->due_ns = now_ns + draw_delay(hub);
    send->state = receive->state = SLOT_DONE;
    wake_end(send->peer);
    wake_end(receive->peer);
}

static void refuse_sizes(struct ah_comm_hub *hub, const struct loop_slot *send,
                         const struct loop_slot *receive)
{
    struct ah_error why = {0};
    (void)ah_error_set(&why, AH_E_MISMATCH,
                       "rank %u sends %" PRIu64 " bytes to rank %u for purpose %u, but the receiver expects "
                       "%" PRIu64,
                       receive->peer->rank, send->bytes, send->peer->rank, send->channel->purpose,
                       receive->bytes);
    lose(hub, send->peer->rank, &why);
}

static bool takes_turns(const struct loop_slot *slot, const struct loop_end *owner)
{
    const struct ah_comm_hub_options *options = &owner->hub->options;
    return options->is_serial &&
           (!options->serial_purposes || slot->channel->purpose < options->serial_purposes);
}

static bool progresses(const struct loop_slot *slot, const struct loop_end *owner)
{
    return slot->state == SLOT_POSTED && (!takes_turns(slot, owner) || slot->turn == owner->turn);
}

/* Begins a message if both its ends are posted and have their turn. */
static void begin_message(struct loop_slot *slot, uint64_t now_ns)
{
    struct loop_slot *other = slot->other;
    struct loop_slot *send = slot->channel->sends ? slot : other;
    struct loop_slot *receive = slot->channel->sends ? other : slot;
    struct ah_comm_hub *hub = slot->peer->hub;
    if (atomic_load(&hub->is_lost) || !progresses(send, receive->peer) || !progresses(receive, send->peer))
        return;
    if (send->bytes != receive->bytes) {
        refuse_sizes(hub, send, receive);
        return;
    }
    const uint64_t late_ns = draw_delay(hub);
    if (late_ns == 0) {
        copy_bytes(hub, send, receive, now_ns);
        return;
    }
    send->state = receive->state = SLOT_MET;
    receive->copy_ns = now_ns + late_ns;
    wake_end(send->peer); /* the receiver, which then sleeps until copy_ns */
}

/* Returns the lowest turn of the end's unfinished serial messages; UINT64_MAX: there are none. */
static uint64_t first_turn(const struct loop_end *end)
{
    uint64_t turn = UINT64_MAX;
    for (size_t i = 0; i < end->wishes.n; i++)
        if (end->slots[i].state != SLOT_IDLE && takes_turns(&end->slots[i], end) && end->slots[i].turn < turn)
            turn = end->slots[i].turn;
    return turn;
}

/* ---- turns that wait for each other ---- */

/* Returns a slot of the end's current turn that waits for the turn of a stuck rank; NULL: none. If both ends have their
 * turn, the slot is not blocked, because a thread is copying right now, without the mutex. */
static const struct loop_slot *blocked_slot(const struct loop_end *end)
{
    for (size_t i = 0; i < end->wishes.n; i++) {
        const struct loop_slot *slot = &end->slots[i];
        /* Checks POSTED first: an end that has closed has nothing posted, and its channels are gone. */
        if (slot->state == SLOT_POSTED && takes_turns(slot, end) && slot->turn == end->turn &&
            slot->peer->is_stuck && !progresses(slot->other, slot->peer))
            return slot;
    }
    return NULL;
}

/* Loses the world if turns, which end in order, wait for each other in a ring and so never end. Names two of them. */
static void refuse_deadlock(struct ah_comm_hub *hub)
{
    struct loop_end *stuck = NULL;
    struct ah_error why = {0};
    bool changes = true;
    for (uint32_t i = 0; i < hub->ranks; i++)
        hub->ends[i].is_stuck = first_turn(&hub->ends[i]) != UINT64_MAX;
    while (changes) {
        changes = false;
        stuck = NULL;
        for (uint32_t i = 0; i < hub->ranks; i++) {
            struct loop_end *end = &hub->ends[i];
            end->blocks = blocked_slot(end);
            const bool ends = end->is_stuck && !end->blocks;
            end->is_stuck = end->is_stuck && !ends;
            changes = changes || ends;
            stuck = end->is_stuck && !stuck ? end : stuck;
        }
    }
    if (!stuck)
        return;
    for (uint32_t i = 0; i < hub->ranks; i++) /* follows the waits into the ring */
        stuck = stuck->blocks->peer;
    const struct loop_slot *slot = stuck->blocks, *next = slot->peer->blocks;
    (void)ah_error_set(
        &why, AH_E_FAILED,
        "a deadlock of messages that wait for each other: it waits for rank %u for purpose %u, and "
        "rank %u waits for rank %u for purpose %u",
        slot->peer->rank, slot->channel->purpose, slot->peer->rank, next->peer->rank, next->channel->purpose);
    lose(hub, stuck->rank, &why);
}

static void refuse_closed(struct ah_comm_hub *hub, const struct loop_end *closed,
                          const struct loop_end *waits, uint32_t purpose)
{
    struct ah_error why = {0};
    (void)ah_error_set(&why, AH_E_FAILED, "it closed while rank %u waits for it for purpose %u", waits->rank,
                       purpose);
    lose(hub, closed->rank, &why);
}

static void post_one(struct loop_end *end, const struct ah_comm_message *message, bool begins)
{
    struct ah_comm_hub *hub = end->hub;
    struct loop_slot *slot = &end->slots[message->channel];
    end->last_turn += begins;
    slot->state = SLOT_POSTED;
    slot->data = message->data;
    slot->bytes = message->bytes;
    slot->turn = end->last_turn;
    end->n_busy++;
    if (takes_turns(slot, end) && first_turn(end) == slot->turn)
        end->turn = slot->turn;
    if (++end->posted == hub->options.dies_at && end->rank == hub->options.dying_rank) {
        struct ah_error why = {0};
        (void)ah_error_set(&why, AH_E_FAILED, "it died at its message %" PRIu64, end->posted);
        lose(hub, end->rank, &why);
    }
    if (slot->peer->is_closed)
        refuse_closed(hub, slot->peer, end, slot->channel->purpose);
}

static void loop_post(struct ah_comm_end *base, const struct ah_comm_message *messages, size_t n)
{
    struct loop_end *end = end_of(base);
    struct ah_comm_hub *hub = end->hub;
    const uint64_t now_ns = hub->options.most_delay_us ? ah_threads_now_ns() : 0;
    for (size_t i = 0; hub->options.poisons && i < n; i++)
        if (!end->wishes.channels[messages[i].channel].sends && messages[i].bytes)
            memset(messages[i].data, 0xFF, messages[i].bytes);
    pthread_mutex_lock(&hub->mutex);
    for (size_t i = 0; i < n; i++)
        post_one(end, &messages[i], i == 0 || !messages[i - 1].more);
    for (size_t i = 0; i < n; i++)
        begin_message(&end->slots[messages[i].channel], now_ns);
    if (hub->options.is_serial && !atomic_load(&hub->is_lost))
        refuse_deadlock(hub);
    pthread_mutex_unlock(&hub->mutex);
}

/* Begins the next turn if all messages of the last one are done. */
static void take_turn(struct loop_end *end, uint64_t now_ns)
{
    const uint64_t turn = first_turn(end);
    if (turn == end->turn || turn == UINT64_MAX)
        return;
    end->turn = turn;
    for (size_t i = 0; i < end->wishes.n; i++)
        if (progresses(&end->slots[i], end))
            begin_message(&end->slots[i], now_ns);
    if (!atomic_load(&end->hub->is_lost))
        refuse_deadlock(end->hub);
}

static bool is_over(const struct loop_slot *slot, bool is_lost, uint64_t now_ns)
{
    if (slot->state == SLOT_DONE)
        return is_lost || slot->due_ns <= now_ns;
    return is_lost && (slot->state == SLOT_POSTED || slot->state == SLOT_MET);
}

static size_t loop_poll(struct ah_comm_end *base, struct ah_comm_done *ret_done, size_t max)
{
    struct loop_end *end = end_of(base);
    struct ah_comm_hub *hub = end->hub;
    const uint64_t now_ns = hub->options.most_delay_us ? ah_threads_now_ns() : 0;
    size_t n = 0;
    pthread_mutex_lock(&hub->mutex);
    for (size_t i = 0; i < end->wishes.n && end->n_busy; i++) {
        struct loop_slot *slot = &end->slots[i];
        if (slot->state == SLOT_MET && !slot->channel->sends && slot->copy_ns <= now_ns &&
            !atomic_load(&hub->is_lost))
            copy_bytes(hub, slot->other, slot, now_ns);
    }
    const bool is_lost = atomic_load(&hub->is_lost);
    for (size_t i = 0; i < end->wishes.n && end->n_busy && n < max; i++) {
        struct loop_slot *slot = &end->slots[i];
        if (!is_over(slot, is_lost, now_ns))
            continue;
        ret_done[n++] = (struct ah_comm_done){(uint32_t)i, slot->state == SLOT_DONE ? AH_OK : AH_E_PEER};
        slot->state = SLOT_IDLE;
        end->n_busy--;
    }
    if (hub->options.is_serial && n)
        take_turn(end, now_ns);
    pthread_mutex_unlock(&hub->mutex);
    return n;
}

/* Returns the time at which a slot next has something for `poll`; 0: unknown. */
static uint64_t next_moment(const struct loop_end *end)
{
    uint64_t least = 0;
    for (size_t i = 0; i < end->wishes.n && end->n_busy; i++) {
        const struct loop_slot *slot = &end->slots[i];
        const bool copies = slot->state == SLOT_MET && !slot->channel->sends;
        const uint64_t moment = copies ? slot->copy_ns : slot->state == SLOT_DONE ? slot->due_ns : 0;
        if (moment && (!least || moment < least))
            least = moment;
    }
    return least;
}

static void loop_wait(struct ah_comm_end *base)
{
    struct loop_end *end = end_of(base);
    struct ah_comm_hub *hub = end->hub;
    int rc = 0;
    pthread_mutex_lock(&hub->mutex);
    while (!end->is_woken && !rc) {
        const uint64_t until_ns = next_moment(end);
        const struct timespec until = {(time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000)};
        rc = until_ns ? pthread_cond_timedwait(&end->changed, &hub->mutex, &until)
                      : pthread_cond_wait(&end->changed, &hub->mutex);
    }
    end->is_woken = false;
    pthread_mutex_unlock(&hub->mutex);
}

static void loop_wake(struct ah_comm_end *base)
{
    struct loop_end *end = end_of(base);
    pthread_mutex_lock(&end->hub->mutex);
    wake_end(end);
    pthread_mutex_unlock(&end->hub->mutex);
}

/* ---- loss and end ---- */

static int loop_fault(struct ah_comm_end *base, uint32_t *ret_rank, struct ah_error *ret_why)
{
    struct ah_comm_hub *hub = end_of(base)->hub;
    if (!atomic_load(&hub->is_lost)) /* set after culprit and why, and never cleared */
        return AH_OK;
    *ret_rank = hub->culprit;
    *ret_why = hub->why;
    return AH_E_PEER;
}

static void loop_revoke(struct ah_comm_end *base, const struct ah_error *why)
{
    struct loop_end *end = end_of(base);
    pthread_mutex_lock(&end->hub->mutex);
    lose(end->hub, end->rank, why);
    pthread_mutex_unlock(&end->hub->mutex);
}

static void loop_close(struct ah_comm_end *base)
{
    struct loop_end *end = end_of(base);
    struct ah_comm_hub *hub = end->hub;
    pthread_mutex_lock(&hub->mutex);
    end->is_closed = true;
    for (size_t i = 0; hub->is_agreed && !hub->verdict && i < end->wishes.n; i++)
        if (end->slots[i].other->state == SLOT_POSTED)
            refuse_closed(hub, end, end->slots[i].peer, end->slots[i].channel->purpose);
    refuse_undescribed(hub);
    pthread_mutex_unlock(&hub->mutex);
}

const struct ah_comm_driver *ah_comm_loop(void)
{
    static const struct ah_comm_driver driver = {.abi = AH_COMM_ABI,
                                                 .layout = AH_COMM_LAYOUT,
                                                 .name = "loop",
                                                 .open = loop_open,
                                                 .channels = loop_channels,
                                                 .post = loop_post,
                                                 .poll = loop_poll,
                                                 .wait = loop_wait,
                                                 .wake = loop_wake,
                                                 .fault = loop_fault,
                                                 .revoke = loop_revoke,
                                                 .close = loop_close};
    return &driver;
}
