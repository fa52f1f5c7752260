/* SPDX-License-Identifier: Apache-2.0
 *
 * Fails each allocation in base/ once: every call must return an error, and nothing may leak (AddressSanitizer checks).
 * Also checks functions that promise to allocate nothing.
 */
#include "base/arena.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/sha256.h"
#include "base/stats.h"
#include "base/threads.h"
#include "base/topology.h"
#include "tests/support/check.h"
#include "tests/support/fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int use_arena(void *context, struct ah_error *err)
{
    (void)context;
    struct ah_arena arena = {0};
    int rc = AH_OK;
    for (size_t i = 0; i < 10 && !rc; i++) {
        void *piece = ah_arena_alloc(&arena, 5000 * i);
        char *text = piece ? ah_arena_strdup(&arena, "text") : NULL;
        if (!text)
            rc = ah_error_memory(err);
    }
    ah_arena_release(&arena);
    return rc;
}

static int use_buffer(void *context, struct ah_error *err)
{
    (void)context;
    struct ah_buffer buffer = {0};
    for (int i = 0; i < 1000; i++)
        ah_buffer_printf(&buffer, "%d,", i);
    int rc = buffer.failed ? ah_error_memory(err) : AH_OK;
    if (!rc && (buffer.size != 3890 || strlen(buffer.data) != 3890))
        rc = ah_error_set(err, AH_E_FAILED, "%zu bytes", buffer.size);
    ah_buffer_release(&buffer);
    return rc;
}

static int read_file(void *context, struct ah_error *err)
{
    struct ah_buffer buffer = {0};
    int rc = ah_file_read(context, 1 << 20, &buffer, err);
    if (rc && (buffer.failed || buffer.size))
        fail_msg("the buffer is not as it was");
    ah_buffer_release(&buffer);
    return rc;
}

static int write_file(void *context, struct ah_error *err)
{
    return ah_file_write(context, "content", 7, err);
}

static void do_nothing(void *context, size_t chunk, unsigned worker)
{
    (void)context;
    (void)chunk;
    (void)worker;
}

static int use_pool(void *context, struct ah_error *err)
{
    (void)context;
    struct ah_pool *pool = NULL;
    int rc = ah_pool_new(&pool, &(struct ah_pool_options){.threads = 3}, err);
    if (!rc)
        ah_pool_run(pool, do_nothing, NULL, 10);
    ah_pool_free(pool);
    return rc;
}

static void run_nothing(void *payload)
{
    (void)payload;
}

static int use_lane(void *context, struct ah_error *err)
{
    (void)context;
    struct ah_lane *lane = NULL;
    int rc = ah_lane_new(&lane, &(struct ah_lane_options){.name = "fault", .cpu = -1}, err);
    if (!rc)
        rc = ah_lane_submit(lane, &(struct ah_lane_job){.run = run_nothing}, NULL);
    ah_lane_free(lane);
    return rc;
}

static int use_topology(void *context, struct ah_error *err)
{
    struct ah_topology topology = {0};
    int rc = ah_topology_init(&topology, &(struct ah_topology_options){.synthetic = context}, err);
    ah_topology_release(&topology);
    return rc;
}

TEST(allocations, each_fails_once)
{
    char path[] = "/tmp/autohete-fault-XXXXXX", synthetic[] = "pack:1 core:2 pu:2";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, "text", 4) == 4);
    close(fd);
    assert_true(fault_sweep(use_arena, NULL, 0) >= 3);
    assert_true(fault_sweep(use_buffer, NULL, 0) >= 4);
    assert_true(fault_sweep(read_file, path, 0) >= 1);
    fault_sweep(write_file, path, 0);
    assert_true(fault_sweep(use_pool, NULL, 0) >= 2);
    assert_true(fault_sweep(use_lane, NULL, 0) >= 3);
    assert_true(fault_sweep(use_topology, NULL, 0) >= 2);
    assert_true(fault_sweep(use_topology, synthetic, 0) >= 1);
    unlink(path);
}

TEST(allocations, none_in_running_and_submitting)
{
    struct ah_error err = {0};
    struct ah_pool *pool = NULL;
    struct ah_lane *lane = NULL;
    CHECK_OK(ah_pool_new(&pool, &(struct ah_pool_options){.threads = 3}, &err), err);
    CHECK_OK(ah_lane_new(&lane, &(struct ah_lane_options){.cpu = -1, .queue = 8}, &err), err);
    (void)fault_count();
    for (int i = 0; i < 100; i++) {
        uint64_t ticket;
        struct ah_lane_wait wait = {lane, (uint64_t)i};
        ah_pool_run(pool, do_nothing, NULL, 10);
        struct ah_lane_job job = {
            .run = run_nothing, .payload = &i, .payload_bytes = sizeof i, .waits = &wait, .n_waits = 1};
        CHECK_OK(ah_lane_submit(lane, &job, &ticket), err);
        ah_lane_wait(lane, ticket);
    }
    ah_lane_drain(lane);
    assert_int_equal(fault_count(), 0);
    ah_lane_free(lane);
    ah_pool_free(pool);
}

TEST(allocations, none_in_statistics_and_hashes)
{
    static double samples[5000];
    struct ah_sha256 hash;
    unsigned char digest[AH_SHA256_BYTES];
    for (size_t i = 0; i < 5000; i++)
        samples[i] = (double)(i * 7919 % 5000);
    (void)fault_count();
    struct ah_stats stats = ah_stats_of(samples, 5000);
    ah_sha256_init(&hash);
    ah_sha256_update(&hash, samples, sizeof samples);
    ah_sha256_finish(&hash, digest);
    assert_int_equal(fault_count(), 0);
    assert_true(stats.median == 2499.5);
}
