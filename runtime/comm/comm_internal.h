/* SPDX-License-Identifier: Apache-2.0
 *
 * What callers (comm.c) and the engine's thread (engine.c) of one end share.
 *
 * INVARIANTS
 * 1. All fields behind `mutex` change under it; the engine calls the driver without it.
 * 2. A slot goes FREE -> ASKED -> POSTED -> DONE -> FREE; callers take the first and the last step, the engine the
 *    others. So a channel has at most one message at a time.
 * 3. Every slot that is not FREE belongs to a caller inside a move. So all slots are FREE when no caller is inside.
 */
#ifndef AH_RUNTIME_COMM_COMM_INTERNAL_H
#define AH_RUNTIME_COMM_COMM_INTERNAL_H

#include "base/lane.h"
#include "runtime/comm/driver.h"

#include <pthread.h>

enum comm_slot_state { SLOT_FREE, SLOT_ASKED, SLOT_POSTED, SLOT_DONE };

struct comm_slot {
    struct ah_comm_message message;
    enum comm_slot_state state;
    int rc;
    uint64_t moved; /* finished messages */
    bool is_cut;    /* the loss of the world ended a message */
    pthread_cond_t done;
};

/* Calls of the driver that a caller waits for. */
enum comm_order { ORDER_NONE, ORDER_OPEN, ORDER_CHANNELS, ORDER_CLOSE };

struct ah_comm {
    struct ah_comm_options options;
    const struct ah_comm_driver *driver; /* of the options */
    struct ah_lane *thread;              /* owned; the engine */
    struct ah_comm_end *end;             /* the driver's; NULL before open and after close */

    pthread_mutex_t mutex;
    pthread_cond_t work; /* the engine sleeps here if the driver cannot wait */
    pthread_cond_t told; /* an order was carried out, a fault became known, the last caller left */

    enum comm_order order; /* to carry out */
    int order_rc;
    struct ah_error order_err;
    bool over; /* the engine ends */

    struct ah_comm_channel *channels; /* owned */
    struct comm_slot *slots;          /* owned; n_channels */
    struct ah_comm_message *asked;    /* owned; n_channels: to post, in order */
    struct ah_comm_message *posting;  /* owned; the engine's copy */
    struct ah_comm_done *done;        /* owned; the engine's */
    size_t n_channels, n_asked;
    bool has_channels; /* ah_comm_channels() was called */

    size_t n_posted;   /* with the driver */
    unsigned n_inside; /* callers in a move */

    bool is_revoking, is_revoked; /* a caller asked for it (ah_comm_revoke() or close); the driver was told */
    struct ah_error why_revoke;
    bool is_lost; /* the driver says that the world is lost */
    uint32_t culprit;
    struct ah_error why;

    uint32_t moving;   /* the engine's: end->moving as last seen */
    uint64_t moved_ns; /* the engine's: when something was last posted, began to move or was done */
};

/* The engine's whole life, as a job of its lane: the payload is a pointer to the end. */
void ah_comm_engine_run(void *payload);

/* Tells the engine that there is something to do; with the mutex held. */
void ah_comm_engine_wake(struct ah_comm *comm);

#endif
