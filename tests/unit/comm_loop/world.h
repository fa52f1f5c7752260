/* SPDX-License-Identifier: Apache-2.0
 *
 * World: the ranks of one test, which are opened together on separate threads and then used from one thread.
 *
 *     struct world world;
 *     world_open(&world, 2, &(struct ah_comm_hub_options){0}, NULL);
 *     world_channels(&world, 0, channels_of_0, n), ...; world_agree(&world);
 *     ... world.comms[0] ...
 *     world_close(&world);
 */
#ifndef AH_TESTS_UNIT_COMM_LOOP_WORLD_H
#define AH_TESTS_UNIT_COMM_LOOP_WORLD_H

#include "runtime/comm/loop/loop.h"
#include "tests/support/check.h"

#include <pthread.h>
#include <stdatomic.h>

enum { WORLD_RANKS = 8, WORLD_CHANNELS = 16 };

struct world_rank {
    pthread_t thread;
    struct ah_comm_options options;
    struct ah_comm *comm;
    struct ah_comm_channel channels[WORLD_CHANNELS];
    size_t n;
    int rc;
    struct ah_error err;
};

struct world {
    struct ah_comm_hub *hub;
    uint32_t ranks;
    struct world_rank rank[WORLD_RANKS];
};

/* Calls `run` for each rank on its own thread and waits for all threads. */
void world_each(struct world *world, void *(*run)(void *rank));

/* Returns the loop driver, extended to count posts. If `polls`, the driver cannot wait, so the engine polls. */
const struct ah_comm_driver *world_driver(bool polls);

/* Opens all ranks and fails the test if one cannot be opened. A `driver` of NULL means world_driver(false). */
void world_open(struct world *world, uint32_t ranks, const struct ah_comm_hub_options *options,
                const struct ah_comm_driver *driver);

/* world_posts() returns the number of messages posted since the world was opened. world_await_posts() awaits `n`. */
unsigned world_posts(void);
void world_await_posts(unsigned n);

/* Adds a channel to both ranks. Each rank gives the channel its next free number. */
void world_join(struct world *world, uint32_t from, uint32_t to, uint32_t purpose, uint64_t most_bytes);

/* Sets up the channels of all ranks, and fails the test unless all succeed. */
void world_agree(struct world *world);

void world_close(struct world *world);

/* A move that runs on its own thread. */
struct moving {
    pthread_t thread;
    struct ah_comm *comm;
    struct ah_comm_moved moved;
    atomic_bool is_done;
    int rc;
    struct ah_error err;
};

void moving_begin(struct moving *moving, struct ah_comm *comm, uint32_t channel, void *data, uint64_t bytes);
int moving_end(struct moving *moving);

#endif
