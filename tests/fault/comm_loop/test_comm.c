/* SPDX-License-Identifier: Apache-2.0
 *
 * Fails each allocation of a world of two ranks once, on either rank. Both ranks must end with an error within the
 * deadline. Moving messages must allocate nothing.
 */
#include "runtime/comm/loop/loop.h"
#include "tests/support/check.h"
#include "tests/support/fault.h"

#include <pthread.h>

struct rank {
    struct ah_comm_options options;
    unsigned messages;
    int rc;
    struct ah_error err;
};

static void *live(void *context)
{
    struct rank *rank = context;
    struct ah_comm *comm = NULL;
    const bool is_first = rank->options.rank == 0;
    const struct ah_comm_channel channel = {is_first, 3, is_first, 64};
    char data[64] = "";
    rank->rc = ah_comm_open(&comm, &rank->options, &rank->err);
    if (!rank->rc)
        rank->rc = ah_comm_channels(comm, &channel, 1, &rank->err);
    for (unsigned i = 0; i < rank->messages && !rank->rc; i++)
        rank->rc = ah_comm_move(comm, 0, data, 64, &rank->err);
    ah_comm_close(comm);
    return NULL;
}

static int run_pair(void *context, struct ah_error *err)
{
    struct ah_comm_hub *hub = NULL;
    struct rank ranks[2];
    pthread_t thread;
    int rc = ah_comm_hub_new(&hub, 2, NULL, err);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < 2; i++)
        ranks[i] = (struct rank){{ah_comm_loop(), i, 2, hub, 0.1}, *(const unsigned *)context, 0, {0}};
    assert_int_equal(pthread_create(&thread, NULL, live, &ranks[1]), 0);
    live(&ranks[0]);
    pthread_join(thread, NULL);
    ah_comm_hub_free(hub);
    const struct rank *failed = ranks[0].rc ? &ranks[0] : &ranks[1];
    return failed->rc ? ah_error_set(err, failed->rc, "%s", failed->err.text) : AH_OK;
}

TEST(comm, every_allocation_may_fail)
{
    unsigned messages = 2;
    assert_true(fault_sweep(run_pair, &messages, 0) > 10);
}

/* If a world moves more messages, it makes no more allocations. */
TEST(comm, moves_allocate_nothing)
{
    struct ah_error err = {0};
    size_t allocations[2];
    for (unsigned i = 0; i < 2; i++) {
        unsigned messages = 1 + i * 200;
        (void)fault_count();
        CHECK_OK(run_pair(&messages, &err), err);
        allocations[i] = fault_count();
    }
    assert_int_equal(allocations[0], allocations[1]);
}
