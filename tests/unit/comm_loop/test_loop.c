/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the driver without the engine: two ranks called from one thread, so the test decides the order of calls. Rank 0
 * sends on channels 0 and 1 and receives on channel 2; rank 1 receives on 0 and 1 and sends on 2.
 */
#include "runtime/comm/loop/loop.h"

#include "base/threads.h"
#include "tests/support/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { CHANNELS = 3, BYTES = 16, MOST = 16 << 20 };

struct side {
    pthread_t thread;
    struct ah_comm_options options;
    struct ah_comm_channel channels[CHANNELS];
    struct ah_comm_end *end;
    int rc;
    struct ah_error err;
};

struct pair {
    struct ah_comm_hub *hub;
    struct side sides[2];
};

static void *join(void *context)
{
    struct side *side = context;
    side->rc = ah_comm_loop()->open(&side->end, &side->options, &side->err);
    if (!side->rc)
        side->rc = ah_comm_loop()->channels(side->end, side->channels, CHANNELS, &side->err);
    return NULL;
}

static void pair_open(struct pair *pair, const struct ah_comm_hub_options *options)
{
    struct ah_error err = {0};
    memset(pair, 0, sizeof *pair);
    CHECK_OK(ah_comm_hub_new(&pair->hub, 2, options, &err), err);
    for (uint32_t i = 0; i < 2; i++) {
        struct side *side = &pair->sides[i];
        side->options = (struct ah_comm_options){ah_comm_loop(), i, 2, pair->hub, 60};
        for (uint32_t c = 0; c < CHANNELS; c++)
            side->channels[c] = (struct ah_comm_channel){1 - i, 20 + c, (c < 2) == (i == 0), MOST};
        assert_int_equal(pthread_create(&side->thread, NULL, join, side), 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(pair->sides[i].thread, NULL);
    for (int i = 0; i < 2; i++)
        CHECK_OK(pair->sides[i].rc, pair->sides[i].err);
}

static void pair_close(struct pair *pair)
{
    for (int i = 0; i < 2; i++)
        ah_comm_loop()->close(pair->sides[i].end);
    ah_comm_hub_free(pair->hub);
}

static void post(struct pair *pair, int rank, uint32_t channel, void *data, uint64_t bytes)
{
    const struct ah_comm_message message = {channel, false, data, bytes};
    ah_comm_loop()->post(pair->sides[rank].end, &message, 1);
}

/* Returns the set of finished channels as bits. Fails the test if one of them failed. */
static unsigned polled(struct pair *pair, int rank)
{
    struct ah_comm_done done[CHANNELS];
    size_t n = ah_comm_loop()->poll(pair->sides[rank].end, done, CHANNELS);
    unsigned bits = 0;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(done[i].rc, AH_OK);
        bits |= 1u << done[i].channel;
    }
    return bits;
}

TEST(loop, a_send_is_done_when_its_receive_is_posted)
{
    struct pair pair;
    char from[BYTES] = "first", to[BYTES] = "";
    pair_open(&pair, NULL);
    for (int receives_first = 0; receives_first < 2; receives_first++) {
        memset(to, 0, sizeof to);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(polled(&pair, 0) | polled(&pair, 1), 0);
            if ((i == 0) == receives_first)
                post(&pair, 1, 0, to, BYTES);
            else
                post(&pair, 0, 0, from, BYTES);
        }
        assert_string_equal(to, "first"); /* it arrives although no rank has polled yet */
        assert_int_equal(polled(&pair, 0), 1);
        assert_int_equal(polled(&pair, 1), 1);
    }
    pair_close(&pair);
}

TEST(loop, a_posted_receive_may_be_full_of_poison)
{
    struct pair pair;
    unsigned char from[BYTES] = "x", to[BYTES] = "old", poison[BYTES];
    memset(poison, 0xFF, sizeof poison);
    pair_open(&pair, &(struct ah_comm_hub_options){.poisons = true});
    post(&pair, 1, 0, to, BYTES);
    assert_memory_equal(to, poison, BYTES);
    post(&pair, 0, 0, from, BYTES);
    assert_memory_equal(to, from, BYTES);
    post(&pair, 1, 2, from, BYTES); /* posting a send does not poison its data */
    assert_int_equal(from[0], 'x');
    assert_int_equal(polled(&pair, 1) | polled(&pair, 0), 1);
    post(&pair, 0, 2, to, BYTES);
    pair_close(&pair);
}

/* Sends on both channels of rank 0 and waits for both ranks. Returns the channel that rank 1 completes first; 2: both
 * together. Adds to `early` the bytes arriving before completion, and to `late` the bytes arriving after the posts. */
static int race(struct pair *pair, unsigned *early, unsigned *late)
{
    uint64_t from[2] = {1, 2}, to[2] = {0, 0};
    unsigned sent = 0, received = 0;
    int first = -1;
    for (uint32_t c = 0; c < 2; c++) {
        post(pair, 0, c, &from[c], 8);
        post(pair, 1, c, &to[c], 8);
    }
    *late += to[0] == 0;
    received = polled(pair, 1);
    *early += to[0] == 1 && (received & 1) == 0;
    while (sent != 3 || received != 3) { /* rank 0 polls without sleep */
        sent |= polled(pair, 0);
        received |= polled(pair, 1);
        if (first < 0 && received)
            first = received == 3 ? 2 : received == 2;
        if (received != 3)
            ah_comm_loop()->wait(pair->sides[1].end);
    }
    assert_int_equal(to[0], 1);
    assert_int_equal(to[1], 2);
    return first;
}

TEST(loop, delays_are_long_and_channels_overtake_each_other)
{
    struct pair pair;
    unsigned first[3] = {0}, early = 0, late = 0;
    pair_open(&pair, &(struct ah_comm_hub_options){.most_delay_us = 300, .seed = check_seed(5)});
    for (int i = 0; i < 100; i++) {
        int which = race(&pair, &early, &late);
        assert_in_range(which, 0, 2);
        first[which]++;
    }
    assert_true(first[0] > 0 && first[1] > 0);
    assert_true(early > 0 && late > 0);
    pair_close(&pair);
}

TEST(loop, a_serial_world_takes_turns)
{
    struct pair pair;
    char data[4][BYTES] = {"a", "b", "", ""};
    pair_open(&pair, &(struct ah_comm_hub_options){.is_serial = true});
    post(&pair, 0, 0, data[0], BYTES);
    post(&pair, 0, 1, data[1], BYTES);
    post(&pair, 1, 0, data[2], BYTES);
    assert_int_equal(polled(&pair, 0), 1);
    assert_int_equal(polled(&pair, 1), 1);
    post(&pair, 1, 1, data[3], BYTES);
    assert_int_equal(polled(&pair, 0), 2);
    assert_int_equal(polled(&pair, 1), 2);
    assert_string_equal(data[3], "b");

    pair_close(&pair);
}

TEST(loop, a_serial_world_that_deadlocks_is_told)
{
    struct pair pair;
    char data[3][BYTES] = {"a", "b", ""};
    struct ah_error why = {0};
    uint32_t rank = 9;
    pair_open(&pair, &(struct ah_comm_hub_options){.is_serial = true});
    post(&pair, 0, 0, data[0], BYTES);
    post(&pair, 0, 1, data[1], BYTES);
    assert_int_equal(polled(&pair, 0), 0);
    assert_int_equal(ah_comm_loop()->fault(pair.sides[0].end, &rank, &why), AH_OK);
    post(&pair, 1, 1, data[2], BYTES); /* posted before the message of channel 0, for which rank 0 waits */
    for (int i = 0; i < 2; i++)
        assert_int_equal(ah_comm_loop()->fault(pair.sides[i].end, &rank, &why), AH_E_PEER);
    assert_int_equal(rank, 0);
    assert_non_null(
        strstr(why.text, "it waits for rank 1 for purpose 20, and rank 1 waits for rank 0 for purpose 21"));
    pair_close(&pair);
}

TEST(loop, a_serial_world_moves_a_group_together)
{
    struct pair pair;
    char data[4][BYTES] = {"a", "", "b", ""};
    const struct ah_comm_message of_0[] = {{0, true, data[0], BYTES}, {2, false, data[1], BYTES}};
    const struct ah_comm_message of_1[] = {{2, true, data[2], BYTES}, {0, false, data[3], BYTES}};
    pair_open(&pair, &(struct ah_comm_hub_options){.is_serial = true});
    assert_false(pair.sides[0].end->is_independent);
    ah_comm_loop()->post(pair.sides[0].end, of_0, 2);
    ah_comm_loop()->post(pair.sides[1].end, of_1, 2);
    assert_int_equal(polled(&pair, 0), 5);
    assert_int_equal(polled(&pair, 1), 5);
    assert_string_equal(data[1], "b");
    assert_string_equal(data[3], "a");

    struct ah_error why = {0}; /* each rank posts its send first and alone: a deadlock */
    uint32_t rank = 9;
    const struct ah_comm_message alone[] = {{0, false, data[0], 1}, {2, false, data[1], 1}};
    ah_comm_loop()->post(pair.sides[0].end, &alone[0], 1);
    assert_int_equal(ah_comm_loop()->fault(pair.sides[0].end, &rank, &why), AH_OK);
    ah_comm_loop()->post(pair.sides[1].end, &alone[1], 1);
    assert_int_equal(ah_comm_loop()->fault(pair.sides[0].end, &rank, &why), AH_E_PEER);
    pair_close(&pair);
}

TEST(loop, what_is_posted_comes_back_from_a_lost_world)
{
    struct pair pair;
    struct ah_comm_done done[CHANNELS];
    struct ah_error why = {0};
    char data[BYTES] = "";
    uint32_t rank = 9;
    pair_open(&pair, &(struct ah_comm_hub_options){.dies_at = 2, .dying_rank = 1});
    post(&pair, 0, 0, data, BYTES);
    post(&pair, 1, 2, data, BYTES);
    assert_int_equal(ah_comm_loop()->fault(pair.sides[0].end, &rank, &why), AH_OK);
    post(&pair, 1, 0, data, BYTES); /* the second post of rank 1 */
    post(&pair, 0, 1, data, BYTES);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ah_comm_loop()->fault(pair.sides[i].end, &rank, &why), AH_E_PEER);
        assert_int_equal(rank, 1);
        assert_int_equal(ah_comm_loop()->poll(pair.sides[i].end, done, CHANNELS), 2);
        assert_int_equal(done[0].rc, AH_E_PEER);
        assert_int_equal(done[1].rc, AH_E_PEER);
        assert_int_equal(ah_comm_loop()->poll(pair.sides[i].end, done, CHANNELS), 0);
    }
    pair_close(&pair);
}

struct sending {
    struct pair *pair;
    unsigned char *data;
};

static void *send_all(void *context)
{
    const struct sending *sending = context;
    post(sending->pair, 0, 0, sending->data, MOST);
    return NULL;
}

/* Revokes the world `after_us` after a large copy began. Returns true if the copy was still running. */
static bool revoke_beside(unsigned char *from, unsigned char *to, uint64_t after_us)
{
    struct pair pair;
    struct sending sending = {&pair, from};
    struct ah_comm_done done;
    struct ah_error why = {0};
    pthread_t thread;
    bool is_middle = false;
    pair_open(&pair, NULL);
    ah_error_set(&why, AH_E_NUMERIC, "its loss is not finite");
    post(&pair, 1, 0, to, MOST);
    assert_int_equal(pthread_create(&thread, NULL, send_all, &sending), 0);
    ah_threads_sleep_until_ns(ah_threads_now_ns() + after_us * 1000);
    ah_comm_loop()->revoke(pair.sides[1].end, &why);
    while (ah_comm_loop()->poll(pair.sides[1].end, &done, 1) == 0)
        is_middle = true;
    memset(to, 0, MOST); /* from here on, nothing writes to `to` */
    pthread_join(thread, NULL);
    for (size_t i = 0; i < MOST; i += 4096)
        assert_int_equal(to[i], 0);
    pair_close(&pair);
    return is_middle;
}

TEST(loop, a_copy_under_way_ends_before_it_is_told)
{
    unsigned char *from = malloc(MOST), *to = malloc(MOST);
    unsigned middles = 0;
    assert_true(from && to);
    memset(from, 1, MOST);
    memset(to, 0, MOST);
    for (uint64_t i = 0; i < 500 && middles < 3; i++)
        middles += revoke_beside(from, to, i % 20 * 100);
    assert_true(middles > 0);
    free(from);
    free(to);
}

/* Two sends of rank 0 in one group; the first is large. */
struct sending_both {
    struct pair *pair;
    unsigned char *data;
    atomic_bool began;
};

static void *send_both(void *context)
{
    struct sending_both *both = context;
    const struct ah_comm_message group[] = {{0, true, both->data, MOST}, {1, false, both->data, BYTES}};
    atomic_store(&both->began, true);
    ah_comm_loop()->post(both->pair->sides[0].end, group, 2);
    return NULL;
}

/* Rank 1 has posted both receives. It posts its next group during the first copy, before the second message begins.
 * Returns true if no message was done at that moment. */
static bool post_beside(unsigned char *from, unsigned char *to, uint64_t after_us)
{
    struct pair pair;
    struct sending_both both = {.pair = &pair, .data = from};
    const struct ah_comm_message group[] = {{0, true, to, MOST}, {1, false, to + MOST, BYTES}};
    struct ah_error why = {0};
    uint32_t rank = 9;
    unsigned char word[BYTES] = "";
    pthread_t thread;
    pair_open(&pair, &(struct ah_comm_hub_options){.is_serial = true});
    ah_comm_loop()->post(pair.sides[1].end, group, 2);
    assert_int_equal(pthread_create(&thread, NULL, send_both, &both), 0);
    while (!atomic_load(&both.began))
        continue;
    ah_threads_sleep_until_ns(ah_threads_now_ns() + after_us * 1000);
    post(&pair, 1, 2, word, BYTES);
    if (ah_comm_loop()->fault(pair.sides[1].end, &rank, &why))
        fail_msg("rank %u: %s", rank, why.text);
    const unsigned done = polled(&pair, 1);
    pthread_join(thread, NULL);
    assert_int_equal(polled(&pair, 0), 3);
    assert_int_equal(done | polled(&pair, 1), 3);
    post(&pair, 0, 2, word, BYTES);
    assert_int_equal(polled(&pair, 0) | polled(&pair, 1), 4);
    pair_close(&pair);
    return !done;
}

TEST(loop, what_is_about_to_begin_is_no_deadlock)
{
    unsigned char *from = calloc(1, MOST), *to = calloc(1, MOST + BYTES);
    unsigned middles = 0;
    assert_true(from && to);
    for (uint64_t i = 0; i < 60; i++)
        middles += post_beside(from, to, i % 20 * 50);
    assert_true(middles > 0);
    free(from);
    free(to);
}
