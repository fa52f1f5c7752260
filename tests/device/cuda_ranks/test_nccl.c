/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the driver for messages between GPUs, on the double of NCCL. Ranks are threads; control messages go by `loop`.
 */
#include "base/threads.h"
#include "runtime/comm/loop/loop.h"
#include "runtime/comm/nccl.h"
#include "tests/double/cuda/double.h"
#include "tests/support/check.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum {
    RANKS_MAX = 4,
    CHANNELS_MAX = 2 * RANKS_MAX,
    DATA = 10,
    CONTROL = 30,
    PURPOSES = 20,
    BYTES = 4096,
    ROUNDS = 20
};

ah_comm_plugin_fn ah_comm_plugin;

struct rank {
    pthread_t thread;
    struct ah_comm_nccl nccl;
    struct ah_comm_options options;
    struct ah_comm *comm;
    unsigned char *gpu; /* one message for each channel */
    int (*run)(struct rank *rank, struct ah_error *err);
    int rc;
    struct ah_error err;
};

static struct ah_comm_hub *hub;
static struct rank ranks[RANKS_MAX];

static void be(const struct cuda_double *changed)
{
    struct cuda_double settings = changed ? *changed : cuda_double_default();
    settings.n = CUDA_DOUBLE_DEVICES;
    cuda_double_set(&settings);
}

/* Channels of a rank, two for each other rank: channel 2 i goes to the i-th, channel 2 i + 1 comes from it. Then a
 * control channel goes to the next rank and another comes from the one before. */
static size_t list(const struct rank *rank, struct ah_comm_channel *ret_channels)
{
    const uint32_t own = rank->options.rank, n = rank->options.ranks;
    size_t count = 0;
    for (uint32_t peer = 0; peer < n; peer++)
        for (int sends = 1; sends >= 0 && peer != own; sends--)
            ret_channels[count++] = (struct ah_comm_channel){peer, DATA, sends, BYTES};
    ret_channels[count++] = (struct ah_comm_channel){(own + 1) % n, CONTROL, true, BYTES};
    ret_channels[count++] = (struct ah_comm_channel){(own + n - 1) % n, CONTROL, false, BYTES};
    return count;
}

static int open_rank(struct rank *rank, struct ah_error *err)
{
    struct ah_comm_channel channels[CHANNELS_MAX + 2];
    int rc = ah_comm_open(&rank->comm, &rank->options, err);
    return rc ? rc : ah_comm_channels(rank->comm, channels, list(rank, channels), err);
}

static void *live(void *context)
{
    struct rank *rank = context;
    void *memory = NULL;
    assert_int_equal(cudaSetDevice((int)rank->nccl.gpu), cudaSuccess);
    const bool any = cudaMalloc(&memory, CHANNELS_MAX * BYTES) == cudaSuccess;
    rank->gpu = memory;
    rank->rc = open_rank(rank, &rank->err);
    if (rank->rc)
        (void)cudaDeviceSynchronize(); /* as closing a device does, before the rank leaves its world */
    if (!rank->rc && rank->run)
        rank->rc = rank->run(rank, &rank->err);
    if (rank->rc && rank->rc != AH_E_PEER && rank->comm)
        ah_comm_revoke(rank->comm, &rank->err);
    ah_comm_close(rank->comm);
    rank->comm = NULL;
    if (any)
        (void)cudaFree(memory);
    return NULL;
}

/* Opens `n` ranks, lets each run, and closes them. */
static void run_world(uint32_t n, int (*run)(struct rank *rank, struct ah_error *err), double deadline_s)
{
    struct ah_error err = {0};
    CHECK_OK(ah_comm_hub_new(&hub, n, NULL, &err), err);
    for (uint32_t i = 0; i < n; i++) {
        ranks[i] = (struct rank){.nccl = {ah_comm_loop(), hub, PURPOSES, i, 0}, .run = run};
        ranks[i].options = (struct ah_comm_options){ah_comm_plugin(), i, n, &ranks[i].nccl, deadline_s};
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, live, &ranks[i]), 0);
    }
    for (uint32_t i = 0; i < n; i++)
        pthread_join(ranks[i].thread, NULL);
    ah_comm_hub_free(hub);
}

static void expect_ok(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        CHECK_OK(ranks[i].rc, ranks[i].err);
}

static void expect_nothing_left(bool misused)
{
    const struct cuda_double_alive alive = cuda_double_alive();
    char report[CUDA_DOUBLE_REPORT_MAX];
    cuda_double_report(report);
    if (!misused && cuda_double_misuses())
        fail_msg("%s", report);
    assert_int_equal(alive.device_bytes, 0);
    assert_int_equal(alive.streams, 0);
    assert_int_equal(alive.events, 0);
}

/* ---- messages ---- */

static int set(const struct rank *rank, uint32_t channel, unsigned char value)
{
    unsigned char bytes[BYTES];
    memset(bytes, value, sizeof bytes);
    (void)cudaSetDevice((int)rank->nccl.gpu);
    return cudaMemcpy(rank->gpu + channel * BYTES, bytes, BYTES, cudaMemcpyHostToDevice) ? AH_E_FAILED
                                                                                         : AH_OK;
}

static int expect(const struct rank *rank, uint32_t channel, unsigned char value, size_t bytes)
{
    unsigned char got[BYTES];
    (void)cudaSetDevice((int)rank->nccl.gpu);
    if (cudaMemcpy(got, rank->gpu + channel * BYTES, BYTES, cudaMemcpyDeviceToHost))
        return AH_E_FAILED;
    for (size_t i = 0; i < bytes; i++)
        if (got[i] != value)
            return AH_E_MISMATCH;
    return AH_OK;
}

/* Sends a message to each other rank and gets one from each, all together. Then passes a control message around. */
static int exchange(struct rank *rank, struct ah_error *err)
{
    const uint32_t n = rank->options.ranks, own = rank->options.rank;
    struct ah_comm_moved moved[CHANNELS_MAX];
    int rc = AH_OK;
    for (unsigned round = 0; round < ROUNDS && !rc; round++) {
        const uint64_t bytes = round % 3 == 0 ? 0 : round % 3 == 1 ? 1 : BYTES;
        for (uint32_t c = 0; c < 2 * (n - 1) && !rc; c++) {
            moved[c] = (struct ah_comm_moved){c, bytes ? rank->gpu + c * BYTES : NULL, bytes};
            rc = c % 2 ? AH_OK : set(rank, c, (unsigned char)(16 * own + round));
        }
        rc = rc ? rc : ah_comm_move_together(rank->comm, moved, 2 * (n - 1), err);
        uint32_t in = 1;
        for (uint32_t peer = 0; peer < n && !rc; peer++) {
            if (peer == own)
                continue;
            rc = expect(rank, in, (unsigned char)(16 * peer + round), bytes);
            in += 2;
        }
        uint32_t there = own + 100 * round, here = 0;
        const struct ah_comm_moved pass[] = {{2 * (n - 1), &there, sizeof there},
                                             {2 * (n - 1) + 1, &here, sizeof here}};
        rc = rc ? rc : ah_comm_move_together(rank->comm, pass, 2, err);
        if (!rc && here != (own + n - 1) % n + 100 * round)
            rc = AH_E_MISMATCH;
    }
    return rc;
}

TEST(nccl, moves_messages_and_words)
{
    for (uint32_t n = 2; n <= RANKS_MAX; n++) {
        be(NULL);
        run_world(n, exchange, 0);
        expect_ok(n);
        assert_true(cuda_double_calls("ncclSend") >= n * (n - 1) * ROUNDS);
        expect_nothing_left(false);
    }
}

static int say_whether_independent(struct rank *rank, struct ah_error *err)
{
    return ah_comm_independent(rank->comm) ? ah_error_set(err, AH_E_FAILED, "independent") : AH_OK;
}

TEST(nccl, is_not_independent)
{
    be(NULL);
    run_world(2, say_whether_independent, 0);
    expect_ok(2);
}

/* The communicator is ready only late, and GPUs are slow. */
TEST(nccl, waits_for_a_slow_start)
{
    struct cuda_double settings = cuda_double_default();
    settings.nccl_slow = 50;
    be(&settings);
    run_world(3, exchange, 0);
    expect_ok(3);
    expect_nothing_left(false);
}

/* ---- deadlocks ---- */

static int send_first(struct rank *rank, struct ah_error *err)
{
    int rc = ah_comm_move(rank->comm, 0, rank->gpu, BYTES, err);
    return rc ? rc : ah_comm_move(rank->comm, 1, rank->gpu + BYTES, BYTES, err);
}

static int send_around(struct rank *rank, struct ah_error *err)
{
    const uint32_t own = rank->options.rank, n = rank->options.ranks;
    const uint32_t to = (own + 1) % n, from = (own + n - 1) % n;
    const uint32_t out = 2 * (to - (to > own)), in = 2 * (from - (from > own)) + 1;
    int rc = ah_comm_move(rank->comm, out, rank->gpu, BYTES, err);
    return rc ? rc : ah_comm_move(rank->comm, in, rank->gpu + BYTES, BYTES, err);
}

static void expect_deadlock(uint32_t n)
{
    char report[CUDA_DOUBLE_REPORT_MAX];
    cuda_double_report(report);
    check_text_has(report, "a deadlock of groups: rank ");
    for (uint32_t i = 0; i < n; i++)
        CHECK_FAILS(ranks[i].rc, ranks[i].err, AH_E_PEER,
                    "'ncclCommGetAsyncError' failed: invalid usage (5)");
    expect_nothing_left(true);
}

TEST(nccl, groups_that_wait_for_each_other_are_told)
{
    be(NULL);
    run_world(2, send_first, 0);
    expect_deadlock(2);
    be(NULL);
    run_world(4, send_around, 0);
    expect_deadlock(4);
}

/* ---- failures ---- */

TEST(nccl, names_a_rank_that_does_not_come)
{
    struct cuda_double settings = cuda_double_default();
    settings.nccl_absent = 1;
    be(&settings);
    run_world(2, exchange, 0.2);
    for (uint32_t i = 0; i < 2; i++)
        CHECK_FAILS(ranks[i].rc, ranks[i].err, AH_E_PEER,
                    "connecting GPUs: NCCL has not finished within 0.2 s");
    expect_nothing_left(false);
}

TEST(nccl, refuses_an_old_library)
{
    struct cuda_double settings = cuda_double_default();
    settings.nccl_version = 21706;
    be(&settings);
    run_world(2, exchange, 0);
    unsigned told = 0;
    for (uint32_t i = 0; i < 2; i++) { /* the first that fails loses the world for the other */
        assert_true(ranks[i].rc == AH_E_MISSING || ranks[i].rc == AH_E_PEER);
        check_text_has(ranks[i].err.text, "is NCCL 2.17.6, but messages between GPUs need 2.26.2 or later");
        told += ranks[i].rc == AH_E_MISSING;
    }
    assert_true(told > 0);
    expect_nothing_left(false);
}

/* Makes the `nth` call fail. All ranks must end, with one reason. */
static void fail_call(const char *call, uint64_t nth)
{
    be(NULL);
    cuda_double_fail(call, nth, (cudaError_t)2);
    run_world(3, exchange, 2);
    unsigned failed = 0;
    for (uint32_t i = 0; i < 3; i++) {
        failed += ranks[i].rc != AH_OK;
        if (ranks[i].rc && strlen(ranks[i].err.text) < 20)
            fail_msg("call %d of %s: rank %d has the error '%s'", (int)nth, call, (int)i, ranks[i].err.text);
    }
    if (failed != 3)
        fail_msg("call %d of %s failed, but only %u of 3 ranks", (int)nth, call, failed);
    expect_nothing_left(false);
}

TEST(nccl, a_call_that_fails_ends_all_ranks)
{
    static const struct {
        const char *name;
        uint64_t nth;
    } calls[] = {{"ncclGetUniqueId", 1},
                 {"ncclCommInitRankConfig", 2},
                 {"ncclCommGetAsyncError", 1},
                 {"ncclGroupStart", 1},
                 {"ncclGroupStart", 7},
                 {"ncclGroupEnd", 2},
                 {"ncclGroupEnd", 20},
                 {"ncclSend", 3},
                 {"ncclSend", 40},
                 {"ncclRecv", 5},
                 {"ncclRecv", 50},
                 {"ncclCommGetAsyncError", 60},
                 {"cudaEventRecord", 10},
                 {"cudaEventQuery", 30}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        fail_call(calls[i].name, calls[i].nth);
}

TEST(nccl, an_error_of_the_network_ends_all_ranks)
{
    for (unsigned at = 1; at < 126; at += 25) {
        struct cuda_double settings = cuda_double_default();
        settings.nccl_fails_at = at;
        be(&settings);
        run_world(3, exchange, 2);
        for (uint32_t i = 0; i < 3; i++) { /* the error may come while a rank still opens its channels */
            assert_true(ranks[i].rc == AH_E_PEER || ranks[i].rc == AH_E_FAILED);
            check_text_has(ranks[i].err.text, "remote process exited");
        }
        expect_nothing_left(false);
    }
}

/* Rank 2 revokes the world while the messages of others hang on their GPUs. */
static int hang_or_revoke(struct rank *rank, struct ah_error *err)
{
    static const struct ah_error why = {AH_E_FAILED, "it was tired"};
    if (rank->options.rank < 2)
        return exchange(rank, err);
    ah_threads_sleep_until_ns(ah_threads_now_ns() + 20 * 1000 * 1000);
    ah_comm_revoke(rank->comm, &why);
    return ah_comm_fault(rank->comm, NULL, err);
}

TEST(nccl, messages_that_hang_end_with_the_world)
{
    be(NULL);
    run_world(3, hang_or_revoke, 0);
    for (uint32_t i = 0; i < 2; i++)
        CHECK_FAILS(ranks[i].rc, ranks[i].err, AH_E_PEER, "rank 2: it was tired");
    expect_nothing_left(false);
}
