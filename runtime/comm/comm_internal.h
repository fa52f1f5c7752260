/* SPDX-License-Identifier: Apache-2.0
 *
 * Comm, internal: the state of one end, shared by its callers (comm.c) and its engine's thread (engine.c).
 *
 * INVARIANTS
 * 1. All fields declared after `mutex` change only while it is held. The engine releases it to call the driver.
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
    uint64_t moved; /* number of messages that are done */
    bool is_cut;    /* the loss of the world ended the slot's message */
    pthread_cond_t done;
};

/* Calls of the driver that the engine makes for a waiting caller. */
enum comm_order { ORDER_NONE, ORDER_OPEN, ORDER_CHANNELS, ORDER_CLOSE };

struct ah_comm {
    struct ah_comm_options options;
    const struct ah_comm_driver *driver; /* from the options */
    struct ah_lane *thread;              /* owned; runs the engine */
    struct ah_comm_end *end;             /* the driver's; NULL before open and after close */

    pthread_mutex_t mutex;
    pthread_cond_t work; /* the engine sleeps here if the driver cannot wait */
    pthread_cond_t
        progressed; /* signalled when an order was carried out, a fault became known, or the last caller left */

    enum comm_order order; /* the order to carry out */
    int order_rc;
    struct ah_error order_err;
    bool over; /* the engine must end */

    struct ah_comm_channel *channels; /* owned */
    struct comm_slot *slots;          /* owned; n_channels */
    struct ah_comm_message *asked;    /* owned; room for n_channels messages to post, in order */
    struct ah_comm_message *posting;  /* owned; copy of `asked` for the engine */
    struct ah_comm_done *done;        /* owned; only for the engine */
    size_t n_channels, n_asked;
    bool has_channels; /* ah_comm_channels() was called */

    size_t n_posted;   /* number of messages posted to the driver */
    unsigned n_inside; /* callers in a move */

    bool is_revoking,
        is_revoked; /* a caller wants the world lost (ah_comm_revoke() or close); the driver's revoke was called */
    struct ah_error why_revoke;
    bool is_lost; /* the driver reported that the world is lost */
    uint32_t culprit;
    struct ah_error why;

    uint32_t moving;   /* only for the engine: end->moving as last seen */
    uint64_t moved_ns; /* only for the engine: when a message was last posted, began to move or was done */
};

/* Runs the engine until it ends, as a job of its lane; the payload points to a pointer to the end. */
void ah_comm_engine_run(void *payload);

/* Wakes the engine, which has something to do. Call with the mutex held. */
void ah_comm_engine_wake(struct ah_comm *comm);

#endif
