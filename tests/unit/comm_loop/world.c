/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens, uses and closes the ranks of a test (world.h).
 */
#include "tests/unit/comm_loop/world.h"

#include <sched.h>
#include <string.h>

static atomic_uint posted;

static void count_post(struct ah_comm_end *end, const struct ah_comm_message *messages, size_t n)
{
    ah_comm_loop()->post(end, messages, n);
    atomic_fetch_add(&posted, (unsigned)n);
}

const struct ah_comm_driver *world_driver(bool polls)
{
    static struct ah_comm_driver drivers[2];
    struct ah_comm_driver *driver = &drivers[polls];
    *driver = *ah_comm_loop();
    driver->post = count_post;
    if (polls) {
        driver->wait = NULL;
        driver->wake = NULL;
    }
    return driver;
}

unsigned world_posts(void)
{
    return atomic_load(&posted);
}

void world_await_posts(unsigned n)
{
    while (atomic_load(&posted) < n)
        sched_yield();
}

void world_each(struct world *world, void *(*run)(void *rank))
{
    for (uint32_t i = 0; i < world->ranks; i++)
        assert_int_equal(pthread_create(&world->rank[i].thread, NULL, run, &world->rank[i]), 0);
    for (uint32_t i = 0; i < world->ranks; i++)
        pthread_join(world->rank[i].thread, NULL);
}

static void *open_rank(void *context)
{
    struct world_rank *rank = context;
    rank->rc = ah_comm_open(&rank->comm, &rank->options, &rank->err);
    return NULL;
}

void world_open(struct world *world, uint32_t ranks, const struct ah_comm_hub_options *options,
                const struct ah_comm_driver *driver)
{
    struct ah_error err = {0};
    memset(world, 0, sizeof *world);
    atomic_store(&posted, 0);
    CHECK_OK(ah_comm_hub_new(&world->hub, ranks, options, &err), err);
    world->ranks = ranks;
    for (uint32_t i = 0; i < ranks; i++)
        world->rank[i].options =
            (struct ah_comm_options){driver ? driver : world_driver(false), i, ranks, world->hub, 0};
    world_each(world, open_rank);
    for (uint32_t i = 0; i < ranks; i++)
        CHECK_OK(world->rank[i].rc, world->rank[i].err);
}

static void add(struct world_rank *rank, const struct ah_comm_channel *channel)
{
    assert_true(rank->n < WORLD_CHANNELS);
    rank->channels[rank->n++] = *channel;
}

void world_join(struct world *world, uint32_t from, uint32_t to, uint32_t purpose, uint64_t most_bytes)
{
    add(&world->rank[from], &(struct ah_comm_channel){to, purpose, true, most_bytes});
    add(&world->rank[to], &(struct ah_comm_channel){from, purpose, false, most_bytes});
}

static void *agree_rank(void *context)
{
    struct world_rank *rank = context;
    rank->rc = ah_comm_channels(rank->comm, rank->channels, rank->n, &rank->err);
    return NULL;
}

void world_agree(struct world *world)
{
    world_each(world, agree_rank);
    for (uint32_t i = 0; i < world->ranks; i++)
        CHECK_OK(world->rank[i].rc, world->rank[i].err);
}

static void *close_rank(void *context)
{
    struct world_rank *rank = context;
    ah_comm_close(rank->comm);
    rank->comm = NULL;
    return NULL;
}

void world_close(struct world *world)
{
    world_each(world, close_rank);
    ah_comm_hub_free(world->hub);
}

static void *move(void *context)
{
    struct moving *moving = context;
    const struct ah_comm_moved *moved = &moving->moved;
    moving->rc = ah_comm_move(moving->comm, moved->channel, moved->data, moved->bytes, &moving->err);
    atomic_store(&moving->is_done, true);
    return NULL;
}

void moving_begin(struct moving *moving, struct ah_comm *comm, uint32_t channel, void *data, uint64_t bytes)
{
    memset(moving, 0, sizeof *moving);
    moving->comm = comm;
    moving->moved = (struct ah_comm_moved){channel, data, bytes};
    assert_int_equal(pthread_create(&moving->thread, NULL, move, moving), 0);
}

int moving_end(struct moving *moving)
{
    pthread_join(moving->thread, NULL);
    return moving->rc;
}
