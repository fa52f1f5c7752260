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
 * FAILURE. A world works for all ranks or is lost for all. A rank that cannot continue revokes the world and says why.
 * Every rank learns the first reason and the rank that gave it. From then on all moves, also those in progress, end
 * with AH_E_PEER. Once a move has returned, its memory is no longer touched. Nobody hangs.
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
    uint32_t rank, ranks; /* ranks 0: the launcher gives rank and ranks */
    void *boot;        /* for the driver; with `loop`: a struct ah_comm_hub *, which must outlive the end */
    double deadline_s; /* seconds after which open and channels fail, naming absent ranks; 0: 60 */
};

/* A channel, as one of its two ranks requests it. */
struct ah_comm_channel {
    uint32_t peer;
    uint32_t purpose;
    bool sends; /* false: receives */
    uint64_t most_bytes;
};

/* A message to move. */
struct ah_comm_moved {
    uint32_t channel;
    void *data; /* read by a send, written by a receive; may be NULL with 0 bytes */
    uint64_t bytes;
};

/* A message in progress. */
struct ah_comm_under_way {
    struct ah_comm_channel channel;
    uint64_t before; /* number of the channel's messages that are done */
};

/* Starts the engine and joins the world; collective. AH_E_PEER names the absent ranks, if the driver knows them. If the
 * world is already lost, returns the error of the rank that lost it. AH_E_MISMATCH: a driver of another build, or a
 * world of another size; AH_E_USAGE, AH_E_MEMORY, AH_E_FAILED. If the driver hangs past the deadline, its thread stays,
 * and the process should end. *Owned* by the caller. */
int ah_comm_open(struct ah_comm **ret_comm, const struct ah_comm_options *options, struct ah_error *err);

/* Opens this rank's channels; collective, called once. From then on, channel i is channels[i]. AH_E_MISMATCH, on all
 * ranks, names two ranks that disagree on a channel, and how. Any failure loses the world. */
int ah_comm_channels(struct ah_comm *comm, const struct ah_comm_channel *channels, size_t n,
                     struct ah_error *err);

/* Moves one message and waits until it is done. Any thread, one message at a time for each channel. Channels of an
 * independent world do not wait for each other. AH_E_PEER: the world is lost. AH_E_USAGE: no such channel, too many
 * bytes, or the channel is in use; nothing was posted. */
int ah_comm_move(struct ah_comm *comm, uint32_t channel, void *data, uint64_t bytes, struct ah_error *err);

/* Moves `n` messages of different channels, which progress together even if the world is not independent. */
int ah_comm_move_together(struct ah_comm *comm, const struct ah_comm_moved *moved, size_t n,
                          struct ah_error *err);

/* Return this end's rank, and the number of ranks. */
uint32_t ah_comm_rank(const struct ah_comm *comm);
uint32_t ah_comm_ranks(const struct ah_comm *comm);

/* True if a message progresses whatever else this rank waits for. If false, a rank's messages may progress only one
 * after another, in the order of their calls, except those moved together. */
bool ah_comm_independent(const struct ah_comm *comm);

/* Loses the world. Any thread, idempotent. Returns at once; everything posted ends soon, on all ranks. */
void ah_comm_revoke(struct ah_comm *comm, const struct ah_error *why);

/* Returns AH_OK or, in a lost world, AH_E_PEER with the first rank that lost it and why (both optional). Any thread. */
int ah_comm_fault(struct ah_comm *comm, uint32_t *ret_rank, struct ah_error *ret_why);

/* Lists at most `max` messages of this rank that are in progress, and returns their number. In a lost world, lists
 * those that the loss ended, which show what this rank waited for. Any thread. */
size_t ah_comm_under_way(struct ah_comm *comm, struct ah_comm_under_way *ret_messages, size_t max);

/* Leaves the world; collective unless it is lost. Closing while a move is in progress loses the world. NULL is fine. */
void ah_comm_close(struct ah_comm *comm);

#endif
