/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests how the ranks of a plan are assigned to hosts.
 */
#include "cli/run/run_hosts.h"

#include "tests/support/check.h"

#include <stdio.h>

/* There are two pipelines. Rank 0 is on node b and rank 1 on node a. Rank 2, in the second pipeline, is on node b. */
static uint64_t ranks[] = {0, 1, 2};
static struct ah_cluster_plan_stage first[] = {{.node = "b", .ranks = &ranks[0], .n_ranks = 1},
                                               {.node = "a", .ranks = &ranks[1], .n_ranks = 1}};
static struct ah_cluster_plan_stage second[] = {{.node = "b", .ranks = &ranks[2], .n_ranks = 1}};
static struct ah_cluster_plan_pipeline pipelines[] = {{.stages = first, .n_stages = 2},
                                                      {.stages = second, .n_stages = 1}};
static const struct ah_cluster_plan plan = {.pipelines = pipelines, .n_pipelines = 2};

static int place(struct ah_hosts_entry *entries, size_t n, struct ah_buffer *out, struct ah_error *err)
{
    struct ah_arena arena = {0};
    const struct ah_hosts given = {entries, n, 0};
    struct ah_hosts hosts = {0};
    int rc = ah_run_hosts_place(&given, &plan, "hosts", &arena, &hosts, err);
    ah_buffer_clear(out);
    for (size_t i = 0; i < hosts.n; i++)
        ah_buffer_printf(out, "%s:%d ", hosts.entries[i].name, (int)hosts.entries[i].slots);
    ah_arena_release(&arena);
    return rc;
}

/* Hosts may be listed in any order, and there may be more hosts than ranks. */
TEST(run_hosts, gives_a_rank_the_host_of_its_nodes_name)
{
    struct ah_hosts_entry entries[] = {{"a", 1}, {"idle", 4}, {"b", 2}};
    struct ah_buffer text = {0};
    struct ah_error err = {0};
    CHECK_OK(place(entries, 3, &text, &err), err);
    assert_string_equal(text.data, "b:1 a:1 b:1 ");
    assert_int_equal(entries[2].slots, 2);
    ah_buffer_release(&text);
}

TEST(run_hosts, fills_slots_in_order_where_names_are_others)
{
    struct ah_hosts_entry same[] = {{"x", 3}}, wrong[] = {{"x", 1}, {"y", 2}}, few[] = {{"a", 1}, {"b", 1}};
    struct ah_buffer text = {0};
    struct ah_error err = {0};
    CHECK_OK(place(same, 1, &text, &err), err);
    assert_string_equal(text.data, "x:3 ");
    CHECK_FAILS(place(wrong, 2, &text, &err), err, AH_E_MISMATCH, "ranks 0 and 2 belong to node 'b'");
    CHECK_FAILS(place(few, 2, &text, &err), err, AH_E_MISMATCH, "has 2 slots, but the plan has 3 ranks");
    ah_buffer_release(&text);
}
