/* SPDX-License-Identifier: Apache-2.0
 *
 * What a rank waited for when its world was lost.
 */
#include "runtime/train/links.h"

#include "runtime/comm/loop/loop.h"
#include "tests/support/check.h"

#include <pthread.h>
#include <sched.h>

enum { MICRO_BATCHES = 2, MESSAGES = 3 };

struct rank {
    struct ah_comm_options options;
    struct ah_comm *comm;
    pthread_t thread;
    int rc; /* of the move that its world's loss ended */
};

static void open_rank(struct rank *rank)
{
    const bool first = !rank->options.rank;
    const struct ah_comm_channel channels[] = {
        {.peer = first, .purpose = AH_LINKS_OUTPUT, .sends = first, .most_bytes = 8},
        {.peer = first, .purpose = AH_LINKS_DOWN, .sends = first, .most_bytes = 8}};
    assert_int_equal(ah_comm_open(&rank->comm, &rank->options, NULL), AH_OK);
    assert_int_equal(ah_comm_channels(rank->comm, channels, 2, NULL), AH_OK);
}

/* Takes all but the last, for which it waits. */
static void *receive(void *context)
{
    struct rank *rank = context;
    char data[8];
    open_rank(rank);
    for (int i = 0; i < MESSAGES && !rank->rc; i++)
        rank->rc = ah_comm_move(rank->comm, 0, data, sizeof data, NULL);
    rank->rc = rank->rc ? rank->rc : ah_comm_move(rank->comm, 0, data, sizeof data, NULL);
    return NULL;
}

static void expect_waits(struct ah_comm *comm, const char *text)
{
    struct ah_buffer out = {0};
    ah_links_waits(comm, MICRO_BATCHES, &out);
    assert_false(out.failed);
    assert_string_equal(out.size ? out.data : "", text);
    ah_buffer_release(&out);
}

static void await_last(struct ah_comm *comm)
{
    struct ah_comm_under_way message;
    while (!ah_comm_under_way(comm, &message, 1) || message.before < MESSAGES)
        sched_yield();
}

TEST(links, a_rank_says_what_it_waited_for)
{
    struct ah_comm_hub *hub;
    struct ah_error why = {.code = AH_E_NUMERIC, .text = "not finite"};
    char data[8] = "";
    assert_int_equal(ah_comm_hub_new(&hub, 2, NULL, NULL), AH_OK);
    struct rank ranks[2] = {{.options = {.driver = ah_comm_loop(), .rank = 0, .ranks = 2, .boot = hub}},
                            {.options = {.driver = ah_comm_loop(), .rank = 1, .ranks = 2, .boot = hub}}};
    pthread_create(&ranks[1].thread, NULL, receive, &ranks[1]);
    open_rank(&ranks[0]);
    for (int i = 0; i < MESSAGES; i++)
        assert_int_equal(ah_comm_move(ranks[0].comm, 0, data, sizeof data, NULL), AH_OK);
    await_last(ranks[1].comm);
    expect_waits(ranks[1].comm, "the output of micro-batch 1 from rank 0");
    ah_comm_revoke(ranks[0].comm, &why);
    pthread_join(ranks[1].thread, NULL);
    assert_int_equal(ranks[1].rc, AH_E_PEER);
    expect_waits(ranks[1].comm, "the output of micro-batch 1 from rank 0");
    expect_waits(ranks[0].comm, "");
    ah_comm_close(ranks[1].comm);
    ah_comm_close(ranks[0].comm);
    ah_comm_hub_free(hub);
}
