/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that ranks measure a shared machine one after another, and then their links. The ranks are threads here.
 */
#include "cli/profile/profile_node.h"

#include "base/threads.h"
#include "runtime/comm/loop/loop.h"
#include "tests/support/check.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 4, FAILS_NEVER = RANKS };

/* Ranks 0 and 2 run on one machine and give the same name. Rank 3 is a container on that machine. */
static const struct ah_profile_hello hellos[RANKS] = {{"a", "boot-1", "build"},
                                                      {"b", "boot-2", "build"},
                                                      {"a", "boot-1", "build"},
                                                      {"a-inner", "boot-1", "build"}};

TEST(profile_node, gives_ranks_of_one_machine_turns)
{
    struct ah_profile_turn turns[RANKS];
    ah_profile_node_turns(hellos, RANKS, turns);
    const uint32_t expected[RANKS][2] = {{0, 0}, {0, 1}, {1, 0}, {2, 3}};
    for (size_t i = 0; i < RANKS; i++) {
        assert_int_equal(turns[i].turn, expected[i][0]);
        assert_int_equal(turns[i].first, expected[i][1]);
    }
}

/* Two different machines may have the same name. Ranks without a boot id are compared by name. */
TEST(profile_node, knows_machines_by_their_boot)
{
    static const struct ah_profile_hello alike[] = {
        {"node", "boot-1", ""}, {"node", "boot-2", ""}, {"node", "", ""}};
    struct ah_profile_turn turns[3];
    ah_profile_node_turns(alike, 3, turns);
    assert_int_equal(turns[1].turn, 0);
    assert_int_equal(turns[1].first, 1);
    assert_int_equal(turns[2].turn, 2);
    assert_int_equal(turns[2].first, 0);
}

struct rank {
    pthread_t thread;
    struct ah_comm_hub *hub;
    struct ah_arena arena;
    struct ah_profile_report report;
    struct ah_error err;
    uint64_t begin_ns, end_ns; /* when the rank measured its machine */
    uint32_t rank, fails;
    const struct ah_profile_hello *hello;
    double told; /* the last fraction that was reported */
    int rc;
};

static int measure(void *context, struct ah_buffer *out, struct ah_error *err)
{
    struct rank *rank = context;
    rank->begin_ns = ah_threads_now_ns();
    usleep(2000);
    rank->end_ns = ah_threads_now_ns();
    if (rank->rank == rank->fails)
        return ah_error_set(err, AH_E_MISSING, "rank %u has no device", rank->rank);
    ah_buffer_printf(out, "document %u\n", rank->rank);
    return AH_OK;
}

static void tell(void *context, double begin, double end, const char *what)
{
    struct rank *rank = context;
    (void)what;
    assert_true(begin >= rank->told && end <= 1);
    rank->told = begin;
}

static void *live(void *context)
{
    struct rank *rank = context;
    struct ah_profile_node node;
    const struct ah_profile_node_options options = {
        .comm = {.driver = ah_comm_loop(), .rank = rank->rank, .ranks = RANKS, .boot = rank->hub},
        .hello = rank->hello,
        .quick = true,
        .measure = measure,
        .context = rank,
        .tell = rank->rank ? NULL : tell};
    rank->rc = ah_profile_node_open(&node, &options, &rank->err);
    if (!rank->rc && rank->rank)
        rank->rc = ah_profile_node_follow(&node, &rank->err);
    else if (!rank->rc)
        rank->rc = ah_profile_node_lead(&node, &rank->arena, &rank->report, &rank->err);
    ah_profile_node_close(&node, rank->rc, &rank->err);
    return NULL;
}

/* Runs all ranks. Each must succeed, even if measuring fails on rank `fails`. */
static void run(struct rank *ranks, const struct ah_profile_hello *with, uint32_t fails)
{
    struct ah_comm_hub *hub = NULL;
    struct ah_error err = {0};
    CHECK_OK(ah_comm_hub_new(&hub, RANKS, NULL, &err), err);
    for (uint32_t i = 0; i < RANKS; i++) {
        ranks[i] = (struct rank){.hub = hub, .rank = i, .fails = fails, .hello = &with[i]};
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, live, &ranks[i]), 0);
    }
    for (uint32_t i = 0; i < RANKS; i++)
        pthread_join(ranks[i].thread, NULL);
    for (uint32_t i = 0; i < RANKS; i++)
        CHECK_OK(ranks[i].rc, ranks[i].err);
    ah_comm_hub_free(hub);
}

TEST(profile_node, reports_every_machine_and_every_link)
{
    struct rank ranks[RANKS];
    run(ranks, hellos, FAILS_NEVER);
    const struct ah_profile_report *report = &ranks[0].report;
    assert_int_equal(report->why.code, AH_OK);
    assert_int_equal(report->n_hosts, RANKS);
    assert_int_equal(report->n_links, RANKS * (RANKS - 1) / 2);
    for (uint32_t i = 0; i < RANKS; i++) {
        char text[32];
        snprintf(text, sizeof text, "document %u\n", i);
        assert_string_equal(report->hosts[i].text, text);
        assert_string_equal(report->hosts[i].name, hellos[i].host);
    }
    for (size_t i = 0; i < report->n_links; i++) {
        assert_true(report->links[i].a < report->links[i].b);
        assert_true(report->links[i].link.bytes_per_s > 0);
    }
    assert_true(ranks[2].begin_ns >= ranks[0].end_ns);
    assert_true(ranks[3].begin_ns >= ranks[2].end_ns);
    assert_true(ranks[0].told > 0.75);
    ah_arena_release(&ranks[0].arena);
}

TEST(profile_node, names_the_rank_that_fails)
{
    for (uint32_t fails = 0; fails < RANKS; fails++) {
        struct rank ranks[RANKS];
        run(ranks, hellos, fails);
        const struct ah_profile_report *report = &ranks[0].report;
        assert_int_equal(report->why.code, AH_E_MISSING);
        assert_int_equal(report->culprit, fails);
        check_text_has(report->why.text, "has no device");
        assert_int_equal(report->n_links, 0);
        ah_arena_release(&ranks[0].arena);
    }
}

TEST(profile_node, refuses_another_build)
{
    struct ah_profile_hello other[RANKS];
    struct rank ranks[RANKS];
    memcpy(other, hellos, sizeof other);
    snprintf(other[3].build, sizeof other[3].build, "other");
    run(ranks, other, FAILS_NEVER);
    assert_int_equal(ranks[0].report.why.code, AH_E_MISMATCH);
    assert_int_equal(ranks[0].report.culprit, 3);
    assert_int_equal(ranks[1].begin_ns, 0);
    ah_arena_release(&ranks[0].arena);
}
