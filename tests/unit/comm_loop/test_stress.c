/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests a ring of ranks. Neighbours have two channels each way, and each end of a channel has a thread. The size and
 * bytes of a message depend on its channel and number, so the test notices a message out of order.
 */
#include "tests/unit/comm_loop/world.h"

#include <string.h>

enum { RANKS = 4, MESSAGES = 60, MOST_BYTES = 3000 };

struct mover {
    pthread_t thread;
    struct ah_comm *comm;
    uint32_t channel, name; /* both ends of a channel have the same name */
    bool sends;
    unsigned revokes_at; /* the rank revokes before this message; 0: never */
    unsigned wrong, moved;
    int rc;
    struct ah_error err;
};

static uint64_t bytes_of(uint32_t name, unsigned i)
{
    uint64_t state = (uint64_t)name * 1000003 + i + 1;
    return check_draw(&state, 4) == 0 ? 0 : check_draw(&state, MOST_BYTES);
}

static unsigned char byte_of(uint32_t name, unsigned i, uint64_t at)
{
    return (unsigned char)(name * 31 + i * 7 + at);
}

static void *move_all(void *context)
{
    struct mover *mover = context;
    unsigned char data[MOST_BYTES];
    for (unsigned i = 0; i < MESSAGES && !mover->rc; i++) {
        const uint64_t bytes = bytes_of(mover->name, i);
        struct ah_error why = {0};
        for (uint64_t k = 0; k < bytes && mover->sends; k++)
            data[k] = byte_of(mover->name, i, k);
        if (mover->revokes_at && mover->revokes_at == i) {
            ah_error_set(&why, AH_E_FAILED, "enough");
            ah_comm_revoke(mover->comm, &why);
        }
        mover->rc = ah_comm_move(mover->comm, mover->channel, data, bytes, &mover->err);
        for (uint64_t k = 0; k < bytes && !mover->sends && !mover->rc; k++)
            mover->wrong += data[k] != byte_of(mover->name, i, k);
        memset(data, 0xAA, sizeof data); /* after the move, nobody may use the old data */
        mover->moved += !mover->rc;
    }
    return NULL;
}

static size_t open_ring(struct world *world, const struct ah_comm_hub_options *options, bool polls,
                        struct mover *movers)
{
    size_t n = 0;
    world_open(world, RANKS, options, world_driver(polls));
    for (uint32_t rank = 0; rank < RANKS; rank++)
        for (uint32_t purpose = 0; purpose < 2; purpose++) {
            world_join(world, rank, (rank + 1) % RANKS, purpose, MOST_BYTES);
            world_join(world, (rank + 1) % RANKS, rank, purpose, MOST_BYTES);
        }
    world_agree(world);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        for (size_t c = 0; c < world->rank[rank].n; c++) {
            const struct ah_comm_channel *channel = &world->rank[rank].channels[c];
            const uint32_t from = channel->sends ? rank : channel->peer,
                           to = channel->sends ? channel->peer : rank;
            movers[n++] = (struct mover){.comm = world->rank[rank].comm,
                                         .channel = (uint32_t)c,
                                         .name = from * 100 + to * 10 + channel->purpose,
                                         .sends = channel->sends};
        }
    return n;
}

static void run_all(struct mover *movers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(pthread_create(&movers[i].thread, NULL, move_all, &movers[i]), 0);
    for (size_t i = 0; i < n; i++)
        pthread_join(movers[i].thread, NULL);
}

static void check_ring(const struct ah_comm_hub_options *options, bool polls)
{
    struct world world;
    struct mover movers[RANKS * WORLD_CHANNELS];
    size_t n = open_ring(&world, options, polls, movers);
    run_all(movers, n);
    for (size_t i = 0; i < n; i++) {
        CHECK_OK(movers[i].rc, movers[i].err);
        assert_int_equal(movers[i].wrong, 0);
        assert_int_equal(movers[i].moved, MESSAGES);
    }
    world_close(&world);
}

TEST(stress, a_ring_moves_all_in_order)
{
    check_ring(&(struct ah_comm_hub_options){.poisons = true}, false);
}

TEST(stress, a_slow_ring_moves_all_in_order)
{
    check_ring(&(struct ah_comm_hub_options){.poisons = true, .most_delay_us = 100, .seed = check_seed(7)},
               false);
}

TEST(stress, a_polled_ring_moves_all_in_order)
{
    check_ring(&(struct ah_comm_hub_options){.poisons = true, .most_delay_us = 100, .seed = check_seed(11)},
               true);
}

TEST(stress, a_ring_that_is_lost_ends)
{
    for (unsigned round = 1; round < 6; round++) {
        struct world world;
        struct mover movers[RANKS * WORLD_CHANNELS];
        size_t n = open_ring(
            &world, &(struct ah_comm_hub_options){.poisons = true, .most_delay_us = 50, .seed = round},
            round % 2 == 0, movers);
        movers[round * 3].revokes_at = round * 9;
        run_all(movers, n);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(movers[i].wrong, 0);
            if (movers[i].rc) {
                assert_int_equal(movers[i].rc, AH_E_PEER);
                check_text_has(movers[i].err.text, ": enough");
            }
        }
        assert_int_equal(movers[round * 3].rc, AH_E_PEER);
        world_close(&world);
    }
}
