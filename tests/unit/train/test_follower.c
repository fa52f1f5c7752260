/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the check that hosts, described by their ranks, have what the plan needs.
 */
#include "runtime/train/follower.h"

#include "tests/support/check.h"

#include <stdio.h>

#define GIB (UINT64_C(1) << 30)

static const char *const nodes[] = {"one", "two", "three"};

static struct ah_follower_host cpu(const char *name, uint64_t free_bytes, uint64_t needs_bytes)
{
    struct ah_follower_host host = {.device = AH_DEVICE_CPU,
                                    .planned = AH_DEVICE_CPU,
                                    .free_bytes = free_bytes,
                                    .needs_bytes = needs_bytes};
    snprintf(host.name, sizeof host.name, "%s", name);
    return host;
}

static void expect(const struct ah_follower_host hosts[3], const char *text)
{
    struct ah_error err = {0};
    if (text)
        CHECK_FAILS(ah_follower_check_hosts(hosts, 3, nodes, &err), err, AH_E_MISMATCH, text);
    else
        CHECK_OK(ah_follower_check_hosts(hosts, 3, nodes, &err), err);
}

TEST(follower, ranks_of_a_host_share_its_memory)
{
    struct ah_follower_host hosts[] = {cpu("a", 4 * GIB, 4 * GIB), cpu("b", 8 * GIB, 5 * GIB),
                                       cpu("b", 9 * GIB, 3 * GIB)};
    expect(hosts, NULL);
    hosts[2].needs_bytes++;
    expect(
        hosts,
        "rank 1 and 1 more on host 'b': only 8.0 GiB of host memory is free, but the plan needs 8.0 GiB of "
        "node 'two'");
    hosts[0].free_bytes = GIB;
    expect(hosts, "rank 0 on host 'a': only 1.0 GiB of host memory is free, but the plan needs 4.0 GiB of "
                  "node 'one'");
}

TEST(follower, a_gpus_own_rank_finds_whether_its_memory_is_enough)
{
    struct ah_follower_host hosts[] = {cpu("a", 4 * GIB, GIB), cpu("a", 4 * GIB, GIB),
                                       cpu("a", 4 * GIB, GIB)};
    hosts[2].planned = AH_DEVICE_CUDA;
    expect(hosts, "rank 2 on host 'a' has a cpu device, but the plan needs a cuda device of node 'three'");
    hosts[2].device = AH_DEVICE_CUDA;
    expect(hosts, NULL);
}
