/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the message engine, and what it guarantees to code that moves messages. Ranks are threads here.
 */
#include "base/threads.h"
#include "runtime/comm/comm.h"
#include "tests/unit/comm_loop/world.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static void sleep_ms(uint64_t ms)
{
    ah_threads_sleep_until_ns(ah_threads_now_ns() + ms * 1000000);
}

/* Opens two ranks. Channels 0 and 1 lead from rank 0 to rank 1, and channel 2 leads back. */
static void open_pair(struct world *world, const struct ah_comm_hub_options *options,
                      const struct ah_comm_driver *driver)
{
    world_open(world, 2, options, driver);
    world_join(world, 0, 1, 10, 4096);
    world_join(world, 0, 1, 11, 4096);
    world_join(world, 1, 0, 12, 4096);
    world_agree(world);
}

/* A rank that many times exchanges a message and its answer. */
struct player {
    struct ah_comm *comm;
    uint32_t out, in;
    uint64_t wrong;
    int rc;
    struct ah_error err;
    bool first;
    unsigned rounds;
};

static void *play(void *context)
{
    struct player *player = context;
    for (uint64_t i = 0; i < player->rounds && !player->rc; i++) {
        uint64_t mine[2] = {i, ~i}, theirs[2] = {0, 0};
        const uint64_t bytes = i % 3 == 0 ? 0 : i % 3 == 1 ? 8 : 16;
        int rc = player->first ? ah_comm_move(player->comm, player->out, mine, bytes, &player->err) : AH_OK;
        rc = rc ? rc : ah_comm_move(player->comm, player->in, theirs, bytes, &player->err);
        if (!player->first)
            rc = rc ? rc : ah_comm_move(player->comm, player->out, mine, bytes, &player->err);
        player->rc = rc;
        player->wrong += memcmp(mine, theirs, bytes) != 0;
    }
    return NULL;
}

static void play_pair(const struct ah_comm_driver *driver, const struct ah_comm_hub_options *options)
{
    struct world world;
    pthread_t other;
    open_pair(&world, options, driver);
    struct player players[2] = {{.comm = world.rank[0].comm, .out = 0, .in = 2, .first = true, .rounds = 300},
                                {.comm = world.rank[1].comm, .out = 2, .in = 0, .rounds = 300}};
    pthread_create(&other, NULL, play, &players[1]);
    play(&players[0]);
    pthread_join(other, NULL);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(players[i].rc, players[i].err);
        assert_int_equal(players[i].wrong, 0);
    }
    world_close(&world);
}

TEST(comm, messages_and_words_arrive_in_order)
{
    play_pair(NULL, NULL);
}

TEST(comm, an_engine_polls_where_the_driver_cannot_wait)
{
    play_pair(world_driver(true), NULL);
    play_pair(world_driver(true), &(struct ah_comm_hub_options){.most_delay_us = 50, .seed = 3});
}

TEST(comm, a_send_waits_for_its_receive)
{
    struct world world;
    struct moving send;
    char from[5] = "abcd", to[5] = "";
    open_pair(&world, NULL, NULL);
    moving_begin(&send, world.rank[0].comm, 0, from, 5);
    world_await_posts(1);
    sleep_ms(20);
    assert_false(atomic_load(&send.is_done));
    struct ah_error err = {0};
    struct ah_comm_under_way waits[2];
    assert_int_equal(ah_comm_under_way(world.rank[0].comm, waits, 2), 1);
    assert_true(waits[0].channel.sends && waits[0].channel.peer == 1 && waits[0].before == 0);
    CHECK_OK(ah_comm_move(world.rank[1].comm, 0, to, 5, &err), err);
    CHECK_OK(moving_end(&send), send.err);
    assert_string_equal(to, "abcd");
    assert_int_equal(ah_comm_under_way(world.rank[0].comm, waits, 2), 0);
    world_close(&world);
}

TEST(comm, a_channel_that_waits_holds_no_other)
{
    struct world world;
    struct moving blocked, send;
    char first[2] = "x", second[2] = "y", to[2] = "";
    struct ah_error err = {0};
    open_pair(&world, NULL, NULL);
    assert_true(ah_comm_independent(world.rank[0].comm));
    moving_begin(&blocked, world.rank[0].comm, 0, first, 2);
    world_await_posts(1);
    moving_begin(&send, world.rank[0].comm, 1, second, 2);
    CHECK_OK(ah_comm_move(world.rank[1].comm, 1, to, 2, &err), err);
    CHECK_OK(moving_end(&send), send.err);
    assert_string_equal(to, "y");
    assert_false(atomic_load(&blocked.is_done));
    CHECK_OK(ah_comm_move(world.rank[1].comm, 0, to, 2, &err), err);
    CHECK_OK(moving_end(&blocked), blocked.err);
    assert_string_equal(to, "x");
    world_close(&world);
}

TEST(comm, sizes_that_differ_lose_the_world)
{
    struct world world;
    struct moving send;
    char from[32] = "", to[32] = "";
    struct ah_error err = {0};
    open_pair(&world, NULL, NULL);
    moving_begin(&send, world.rank[0].comm, 1, from, 16);
    CHECK_FAILS(ah_comm_move(world.rank[1].comm, 1, to, 24, &err), err, AH_E_PEER,
                "rank 0 sends 16 bytes to rank 1 for purpose 11, but the receiver expects 24");
    assert_int_equal(moving_end(&send), AH_E_PEER);
    assert_string_equal(send.err.text, err.text);
    assert_int_equal(ah_comm_fault(world.rank[0].comm, NULL, &err), AH_E_PEER);
    assert_int_equal(err.code, AH_E_MISMATCH);
    world_close(&world);
}

TEST(comm, misuse_is_refused_and_harms_nobody)
{
    struct world world;
    struct moving send;
    char data[8] = "";
    struct ah_error err = {0};
    open_pair(&world, NULL, NULL);
    CHECK_FAILS(ah_comm_move(world.rank[0].comm, 3, data, 1, &err), err, AH_E_USAGE, "no channel 3");
    CHECK_FAILS(ah_comm_move(world.rank[0].comm, 0, data, 4097, &err), err, AH_E_USAGE,
                "rank 0 sends to rank 1 for purpose 10: 4097 bytes");
    CHECK_FAILS(ah_comm_channels(world.rank[0].comm, NULL, 0, &err), err, AH_E_USAGE, "already");
    moving_begin(&send, world.rank[0].comm, 0, data, 8);
    world_await_posts(1);
    const struct ah_comm_moved twice[] = {{1, data, 8}, {0, data, 8}};
    CHECK_FAILS(ah_comm_move_together(world.rank[0].comm, twice, 2, &err), err, AH_E_USAGE, "two messages");
    CHECK_OK(ah_comm_move(world.rank[1].comm, 0, data, 8, &err), err);
    CHECK_OK(moving_end(&send), send.err);
    assert_int_equal(world_posts(), 2); /* none of the refused messages was posted */
    assert_int_equal(ah_comm_fault(world.rank[0].comm, NULL, NULL), AH_OK);
    world_close(&world);
}

static void revoke(struct ah_comm *comm, const char *text)
{
    struct ah_error why = {0};
    ah_error_set(&why, AH_E_NUMERIC, "%s", text);
    ah_comm_revoke(comm, &why);
}

static void check_revoke(const struct ah_comm_driver *driver)
{
    struct world world;
    struct moving waiting[3];
    char data[3][8] = {"", "", ""};
    uint32_t rank = 9;
    struct ah_error err = {0};
    world_open(&world, 4, NULL, driver);
    for (uint32_t i = 0; i < 3; i++)
        world_join(&world, i, i + 1, 5, 8);
    world_agree(&world);
    for (uint32_t i = 0; i < 3; i++)
        moving_begin(&waiting[i], world.rank[i + 1].comm, 0, data[i], 8);
    world_await_posts(3);
    assert_int_equal(ah_comm_fault(world.rank[3].comm, NULL, NULL), AH_OK);
    revoke(world.rank[2].comm, "its loss is not finite");
    revoke(world.rank[2].comm, "again");
    assert_int_equal(ah_comm_fault(world.rank[2].comm, &rank, &err), AH_E_PEER);
    assert_int_equal(rank, 2);
    assert_int_equal(err.code, AH_E_NUMERIC);
    revoke(world.rank[0].comm, "too late");
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(moving_end(&waiting[i]), AH_E_PEER);
        assert_string_equal(waiting[i].err.text, "rank 2: its loss is not finite");
        struct ah_comm_under_way waited[2];
        assert_int_equal(ah_comm_under_way(world.rank[i + 1].comm, waited, 2), 1);
        assert_int_equal(waited[0].channel.peer, i);
    }
    assert_int_equal(ah_comm_under_way(world.rank[0].comm, NULL, 0), 0);
    CHECK_FAILS(ah_comm_move(world.rank[0].comm, 0, data[0], 8, &err), err, AH_E_PEER,
                "rank 2: its loss is not finite");
    world_close(&world);
}

TEST(comm, a_lost_world_ends_everyone_for_the_first_reason)
{
    check_revoke(NULL);
    check_revoke(world_driver(true));
}

TEST(comm, a_dying_rank_ends_the_others)
{
    struct world world;
    pthread_t other;
    open_pair(&world, &(struct ah_comm_hub_options){.dies_at = 41, .dying_rank = 1}, NULL);
    struct player players[2] = {{.comm = world.rank[0].comm, .out = 0, .in = 2, .first = true, .rounds = 300},
                                {.comm = world.rank[1].comm, .out = 2, .in = 0, .rounds = 300}};
    pthread_create(&other, NULL, play, &players[1]);
    play(&players[0]);
    pthread_join(other, NULL);
    for (int i = 0; i < 2; i++)
        CHECK_FAILS(players[i].rc, players[i].err, AH_E_PEER, "rank 1: it died at its message 41");
    world_close(&world);
}

static void *close_one(void *context)
{
    ah_comm_close(context);
    return NULL;
}

TEST(comm, a_rank_that_closes_early_is_named)
{
    struct world world;
    struct moving send, late;
    pthread_t closing;
    char data[8] = "";
    open_pair(&world, NULL, NULL);
    moving_begin(&send, world.rank[0].comm, 0, data, 8);
    world_await_posts(1);
    pthread_create(&closing, NULL, close_one, world.rank[1].comm);
    world.rank[1].comm = NULL;
    CHECK_FAILS(moving_end(&send), send.err, AH_E_PEER, "rank 1: it closed while rank 0 waits for it");
    moving_begin(&late, world.rank[0].comm, 1, data, 8);
    CHECK_FAILS(moving_end(&late), late.err, AH_E_PEER, "rank 1: it closed");
    pthread_join(closing, NULL);
    world_close(&world);
}

TEST(comm, closing_ends_the_moves_of_the_rank)
{
    struct world world;
    struct moving send;
    char data[8] = "";
    open_pair(&world, NULL, NULL);
    moving_begin(&send, world.rank[0].comm, 0, data, 8);
    world_await_posts(1);
    ah_comm_close(world.rank[0].comm);
    world.rank[0].comm = NULL;
    CHECK_FAILS(moving_end(&send), send.err, AH_E_PEER, "rank 0: it closed while 1");
    world_close(&world);
}

static void *open_and_close(void *context)
{
    struct world_rank *rank = context;
    if (rank->options.rank % 2 == 1)
        return NULL; /* this rank never opens its communicator */
    rank->rc = ah_comm_open(&rank->comm, &rank->options, &rank->err);
    return NULL;
}

/* Opens ranks 0, 2 and 4 of 6. Returns false if one of them came too late itself, because the machine is busy. */
static bool open_half(struct world *world, double deadline_s)
{
    struct ah_error err = {0};
    bool in_time = true;
    *world = (struct world){.ranks = 6};
    CHECK_OK(ah_comm_hub_new(&world->hub, 6, NULL, &err), err);
    for (uint32_t i = 0; i < 6; i++)
        world->rank[i].options = (struct ah_comm_options){ah_comm_loop(), i, 6, world->hub, deadline_s};
    world_each(world, open_and_close);
    for (uint32_t i = 0; i < 6; i += 2)
        in_time = in_time && strstr(world->rank[i].err.text, "ranks 1, 3 and 5 of 6");
    return in_time;
}

TEST(comm, absent_ranks_are_named_within_the_deadline)
{
    const double deadlines_s[] = {0.05, 1, 20};
    struct world world;
    struct ah_error err = {0};
    size_t i = 0;
    while (!open_half(&world, deadlines_s[i]) && i + 1 < sizeof deadlines_s / sizeof *deadlines_s) {
        ah_comm_hub_free(world.hub);
        i++;
    }
    char text[64];
    snprintf(text, sizeof text, "ranks 1, 3 and 5 of 6 did not come within %g s", deadlines_s[i]);
    for (uint32_t rank = 0; rank < 6; rank += 2)
        CHECK_FAILS(world.rank[rank].rc, world.rank[rank].err, AH_E_PEER, text);
    CHECK_FAILS(ah_comm_open(&world.rank[1].comm, &world.rank[1].options, &err), err, AH_E_PEER,
                "ranks 1, 3 and 5");
    ah_comm_hub_free(world.hub);
}

static int never_open(struct ah_comm_end **ret_end, const struct ah_comm_options *options,
                      struct ah_error *err)
{
    (void)ret_end, (void)options, (void)err;
    sleep_ms(UINT64_C(1000) * 3600);
    return AH_E_FAILED;
}

TEST(comm, a_driver_that_never_opens_is_given_up)
{
    static struct ah_comm_driver driver; /* the engine keeps using it */
    struct ah_comm *comm = NULL;
    struct ah_error err = {0};
    driver = *ah_comm_loop();
    driver.open = never_open;
    const struct ah_comm_options options = {.driver = &driver, .deadline_s = 0.01};
    CHECK_FAILS(ah_comm_open(&comm, &options, &err), err, AH_E_PEER,
                "has not admitted this rank for 0.01 s: its launcher waits");
    assert_null(comm);
}

TEST(comm, options_that_fit_no_world_are_refused)
{
    struct ah_comm_hub *hub = NULL;
    struct ah_comm *comm = NULL;
    struct ah_error err = {0};
    struct ah_comm_driver other = *ah_comm_loop();
    CHECK_FAILS(ah_comm_hub_new(&hub, 0, NULL, &err), err, AH_E_USAGE, "no ranks");
    CHECK_OK(ah_comm_hub_new(&hub, 2, NULL, &err), err);
    struct ah_comm_options options = {ah_comm_loop(), 2, 2, hub, 0};
    CHECK_FAILS(ah_comm_open(&comm, &options, &err), err, AH_E_USAGE, "no rank 2 of 2");
    options.rank = 1, options.ranks = 3;
    CHECK_FAILS(ah_comm_open(&comm, &options, &err), err, AH_E_MISMATCH, "its world has 2");
    options.deadline_s = -1;
    CHECK_FAILS(ah_comm_open(&comm, &options, &err), err, AH_E_USAGE, "deadline");
    options.deadline_s = 0, options.driver = &other, other.abi++;
    CHECK_FAILS(ah_comm_open(&comm, &options, &err), err, AH_E_MISMATCH, "message interface 2");
    other.abi--, other.layout++;
    CHECK_FAILS(ah_comm_open(&comm, &options, &err), err, AH_E_MISMATCH, "layout");
    ah_comm_hub_free(hub);
}

static void *set_up(void *context)
{
    struct world_rank *rank = context;
    rank->rc = ah_comm_channels(rank->comm, rank->channels, rank->n, &rank->err);
    return NULL;
}

/* Makes two ranks ask for different channels and checks that both get the same error. */
static void check_disagree(const struct ah_comm_channel *of_0, size_t n_0, const struct ah_comm_channel *of_1,
                           size_t n_1, const char *says)
{
    struct world world;
    world_open(&world, 2, NULL, NULL);
    memcpy(world.rank[0].channels, of_0, n_0 * sizeof *of_0);
    memcpy(world.rank[1].channels, of_1, n_1 * sizeof *of_1);
    world.rank[0].n = n_0, world.rank[1].n = n_1;
    world_each(&world, set_up);
    for (int i = 0; i < 2; i++)
        CHECK_FAILS(world.rank[i].rc, world.rank[i].err, AH_E_MISMATCH, says);
    assert_int_equal(ah_comm_fault(world.rank[0].comm, NULL, NULL), AH_E_PEER);
    world_close(&world);
}

TEST(comm, channels_that_differ_are_refused_on_all_ranks)
{
    const struct ah_comm_channel send = {1, 7, true, 64}, receive = {0, 7, false, 64};
    struct ah_comm_channel other = receive;
    other.most_bytes = 65;
    check_disagree(&send, 1, &other, 1,
                   "rank 0 sends to rank 1 for purpose 7: at most 64 bytes, but rank 1 expects 65");
    other = receive, other.purpose = 6;
    check_disagree(&send, 1, &other, 1,
                   "rank 0 sends to rank 1 for purpose 7, but rank 1 does not expect it");
    check_disagree(&send, 0, &receive, 1,
                   "rank 1 receives from rank 0 for purpose 7, but rank 0 does not expect it");
    other = receive, other.sends = true;
    check_disagree(&send, 1, &other, 1, "rank 1 does not expect it");
    other = receive, other.peer = 2;
    check_disagree(&send, 0, &other, 1, "rank 1 receives from rank 2");
    other.peer = 1;
    check_disagree(&send, 0, &other, 1, "its peers are the other ranks from 0 to 1");
    const struct ah_comm_channel twice[] = {send, send};
    check_disagree(twice, 2, &receive, 1, "twice");
}

TEST(comm, a_rank_that_sets_up_no_channels_is_named)
{
    struct world world;
    world_open(&world, 2, NULL, NULL);
    ah_comm_close(world.rank[1].comm);
    world.rank[1].comm = NULL;
    struct ah_error err = {0};
    CHECK_FAILS(ah_comm_channels(world.rank[0].comm, NULL, 0, &err), err, AH_E_PEER,
                "rank 1: it closed without channels");
    world_close(&world);
}
