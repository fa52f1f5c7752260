/* SPDX-License-Identifier: Apache-2.0
 *
 * Comm: messages between the ranks of one training. It only moves bytes.
 *
 * A WORLD has ranks 0 to n - 1, each with one end. A CHANNEL is directed and first in, first out. It connects one pair
 * of ranks for one purpose: a number on which both ends agree. All channels are requested once, together. The n-th send
 * of a channel matches its n-th receive. If their sizes differ, the receiver loses the world. A message of 0 bytes is a
 * word. A send completes only once its receive is posted. So nothing is buffered: both ends use only the memory that
 * the caller names.
 *
 * PROGRESS. One thread of each rank, the engine, owns the driver. A caller passes its message to the engine and sleeps
 * until the message is done. The engine sleeps when it has nothing to do.
 *
 * FAILURE. A world works or is lost, for all ranks. A rank that cannot continue revokes the world and says why. Every
 * rank gets the first reason, and the rank that gave it. From then on all moves end with AH_E_PEER, also those in
 * progress; when they return, their memory is no longer touched. Nobody hangs.
 *
 *     const struct ah_comm_options options = {.driver = ah_comm_loop(), .rank = 1, .ranks = 2, .boot = hub};
 *     const struct ah_comm_channel channels[] = {{.peer = 0, .purpose = 7, .most_bytes = 4096}}; // from rank 0
 *     ah_comm_open(&comm, &options, err);
 *     ah_comm_channels(comm, channels, 1, err);
 *     ah_comm_move(comm, 0, data, 4096, err);
 *     ah_comm_close(comm);
 */
#ifndef AH_RUNTIME_COMM_COMM_H
#define AH_RUNTIME_COMM_COMM_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ah_comm;
struct ah_comm_driver; /* driver.h */

struct ah_comm_options {
    const struct ah_comm_driver *driver;
    uint32_t rank, ranks; /* ranks 0: the launcher gives both */
    void *boot;        /* for the driver; with `loop`: a struct ah_comm_hub *, which must outlive the end */
    double deadline_s; /* seconds until open and channels fail and name absent ranks; 0: 60 */
};

/* A channel, as one of its two ranks requests it. */
struct ah_comm_channel {
    uint32_t peer;
    uint32_t purpose;
    bool sends; /* false: receives */
    uint64_t most_bytes;
};

/* One message. */
struct ah_comm_moved {
    uint32_t channel;
    void *data; /* read by a send, written by a receive; may be NULL with 0 bytes */
    uint64_t bytes;
};

/* A message under way. */
struct ah_comm_under_way {
    struct ah_comm_channel channel;
    uint64_t before; /* messages of the channel that are done */
};

/* Collective: starts the engine and joins the world. AH_E_PEER names the absent ranks, if the driver knows them. If the
 * world is lost already, returns the error of the rank that lost it. AH_E_MISMATCH: a driver of another build, or a
 * world of another size; AH_E_USAGE, AH_E_MEMORY, AH_E_FAILED. If the driver hangs past the deadline, its thread stays:
 * the process should end. *Owned* by the caller. */
int ah_comm_open(struct ah_comm **ret_comm, const struct ah_comm_options *options, struct ah_error *err);

/* Collective, once: channel i is channels[i] from now on. AH_E_MISMATCH, on all ranks, names two ranks that disagree on
 * a channel, and how. Any failure loses the world. */
int ah_comm_channels(struct ah_comm *comm, const struct ah_comm_channel *channels, size_t n,
                     struct ah_error *err);

/* Moves one message and returns when it is done. Any thread, one at a time for each channel. Channels of an independent
 * world do not wait for each other. AH_E_PEER: the world is lost. AH_E_USAGE: no such channel, too many bytes, or the
 * channel is in use; nothing was posted. */
int ah_comm_move(struct ah_comm *comm, uint32_t channel, void *data, uint64_t bytes, struct ah_error *err);

/* Moves `n` messages of different channels, which progress together even if the world is not independent. */
int ah_comm_move_together(struct ah_comm *comm, const struct ah_comm_moved *moved, size_t n,
                          struct ah_error *err);

/* Return this end's rank; the number of ranks. */
uint32_t ah_comm_rank(const struct ah_comm *comm);
uint32_t ah_comm_ranks(const struct ah_comm *comm);

/* True if a message progresses whatever else this rank waits for. If false, messages of a rank may take turns in the
 * order of their calls, except those moved together. */
bool ah_comm_independent(const struct ah_comm *comm);

/* Loses the world. Any thread, idempotent. Returns at once; everything posted ends soon, on all ranks. */
void ah_comm_revoke(struct ah_comm *comm, const struct ah_error *why);

/* AH_OK, or AH_E_PEER in a lost world, with the rank that lost it first and the reason (both optional). Any thread. */
int ah_comm_fault(struct ah_comm *comm, uint32_t *ret_rank, struct ah_error *ret_why);

/* Lists at most `max` messages of this rank that are under way. In a lost world, lists the messages that the loss
 * ended, which show what this rank waited for. Returns how many. Any thread. */
size_t ah_comm_under_way(struct ah_comm *comm, struct ah_comm_under_way *ret_messages, size_t max);

/* Collective unless the world is lost. Closing while a move is in progress loses the world. NULL is fine. */
void ah_comm_close(struct ah_comm *comm);

#endif
