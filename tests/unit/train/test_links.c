/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the message of a rank that lost its world while it waited for another rank.
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
    enum ah_links_purpose purpose; /* purpose of the first channel */
    int rc;                        /* result of the move during which the world was lost */
};

static void open_rank(struct rank *rank)
{
    const bool first = !rank->options.rank;
    const struct ah_comm_channel channels[] = {
        {.peer = first, .purpose = rank->purpose, .sends = first, .most_bytes = 8},
        {.peer = first, .purpose = AH_LINKS_DOWN, .sends = first, .most_bytes = 8}};
    assert_int_equal(ah_comm_open(&rank->comm, &rank->options, NULL), AH_OK);
    assert_int_equal(ah_comm_channels(rank->comm, channels, 2, NULL), AH_OK);
}

/* Receives all sent messages and waits for one more. */
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
    ah_links_waits(comm, MICRO_BATCHES, 1, &out);
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

struct pair {
    struct ah_comm_hub *hub;
    struct rank ranks[2];
};

/* Makes rank 1 wait for one more message with this purpose. Meanwhile rank 0 revokes the world. */
static void lose(struct pair *pair, enum ah_links_purpose purpose, const char *waits)
{
    struct ah_error why = {.code = AH_E_NUMERIC, .text = "not finite"};
    char data[8] = "";
    assert_int_equal(ah_comm_hub_new(&pair->hub, 2, NULL, NULL), AH_OK);
    for (uint32_t i = 0; i < 2; i++)
        pair->ranks[i] =
            (struct rank){.options = {.driver = ah_comm_loop(), .rank = i, .ranks = 2, .boot = pair->hub},
                          .purpose = purpose};
    struct rank *ranks = pair->ranks;
    pthread_create(&ranks[1].thread, NULL, receive, &ranks[1]);
    open_rank(&ranks[0]);
    for (int i = 0; i < MESSAGES; i++)
        assert_int_equal(ah_comm_move(ranks[0].comm, 0, data, sizeof data, NULL), AH_OK);
    await_last(ranks[1].comm);
    expect_waits(ranks[1].comm, waits);
    ah_comm_revoke(ranks[0].comm, &why);
    pthread_join(ranks[1].thread, NULL);
    assert_int_equal(ranks[1].rc, AH_E_PEER);
    expect_waits(ranks[1].comm, waits);
    expect_waits(ranks[0].comm, "");
}

static void close_pair(struct pair *pair)
{
    ah_comm_close(pair->ranks[1].comm);
    ah_comm_close(pair->ranks[0].comm);
    ah_comm_hub_free(pair->hub);
}

TEST(links, a_rank_says_what_it_waited_for)
{
    static const struct {
        enum ah_links_purpose purpose;
        const char *waits;
    } cases[] = {{AH_LINKS_OUTPUT, "the output of micro-batch 1 from rank 0"},
                 {AH_LINKS_PARTIAL, "gradients to add up from rank 0"},
                 {AH_LINKS_TOTAL, "summed gradients or gathered weights from rank 0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pair pair;
        lose(&pair, cases[i].purpose, cases[i].waits);
        close_pair(&pair);
    }
}

/* A failing op revokes the world. A thread that waits for another rank learns of the loss before the op's error. */
TEST(links, a_failure_has_its_code_and_its_rank_once_however_a_rank_hears_of_it)
{
    struct pair pair;
    lose(&pair, AH_LINKS_OUTPUT, "the output of micro-batch 1 from rank 0");
    for (uint32_t i = 0; i < 2; i++) {
        const struct ah_trainer_rank place = {.comm = pair.ranks[i].comm, .rank = i, .ranks = 2};
        struct ah_error heard = {.code = AH_E_PEER, .text = "rank 0: not finite"};
        assert_int_equal(ah_links_fail(&place, AH_E_PEER, &heard), AH_E_NUMERIC);
        assert_int_equal(heard.code, AH_E_NUMERIC);
        assert_string_equal(heard.text, i ? "rank 0: not finite" : "not finite");
    }
    const struct ah_trainer_rank place = {.comm = pair.ranks[0].comm, .ranks = 2};
    struct ah_error own = {.code = AH_E_NUMERIC, .text = "not finite, and where"};
    assert_int_equal(ah_links_fail(&place, AH_E_NUMERIC, &own), AH_E_NUMERIC);
    assert_string_equal(own.text, "not finite, and where");
    close_pair(&pair);
}
