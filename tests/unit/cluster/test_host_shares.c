/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the search over the number of units sharing each host. It tries all combinations if they are few, otherwise
 * repeated halves. Also tests a problem in which these numbers are fixed.
 */
#include "planner/cluster/search/host_shares.h"

#include "tests/support/check.h"

#include <string.h>

enum { CLASSES = 3, MOST = 10 };

/* Two nodes have one kind, with a host. The third node has another kind, without a host. */
struct fixture {
    struct ah_cluster_problem problem;
    struct ah_problem_kind kinds[2];
    struct ah_problem_class classes[CLASSES];
    struct ah_problem_block blocks[2];
    struct ah_problem_host hosts[MOST];
};

static void make(struct fixture *f, size_t first, size_t second)
{
    *f = (struct fixture){
        .problem = {.n_blocks = 1, .n_kinds = 2, .n_classes = CLASSES, .update_limit_us = 1}};
    for (size_t s = 0; s < MOST; s++)
        f->hosts[s].bytes = 1000 / (s + 1);
    for (size_t k = 0; k < 2; k++)
        f->kinds[k] = (struct ah_problem_kind){.tp = 1, .blocks = &f->blocks[k]};
    f->kinds[0].hosts = f->hosts;
    f->kinds[0].n_hosts = MOST;
    f->classes[0] = (struct ah_problem_class){.kind = 0, .node = 0, .units = first};
    f->classes[1] = (struct ah_problem_class){.kind = 1, .node = 1, .units = 4};
    f->classes[2] = (struct ah_problem_class){.kind = 0, .node = 2, .units = second};
    f->problem.kinds = f->kinds;
    f->problem.classes = f->classes;
}

TEST(host_shares, are_all_of_few)
{
    struct fixture f;
    bool seen[3][9] = {{false}};
    size_t units[CLASSES] = {3, 4, 9}, n = 1;
    make(&f, 3, 9);
    assert_int_equal(ah_host_shares_ways(&f.problem), 27);
    for (seen[2][8] = true; ah_host_shares_next(&f.problem, units); n++) {
        assert_int_equal(units[1], 4);
        assert_false(seen[units[0] - 1][units[2] - 1]);
        seen[units[0] - 1][units[2] - 1] = true;
    }
    assert_int_equal(n, 27);
}

TEST(host_shares, are_halves_of_more)
{
    static const size_t halves[][CLASSES] = {{3, 4, 5}, {2, 4, 2}, {1, 4, 1}};
    struct fixture f;
    size_t units[CLASSES] = {3, 4, 10};
    make(&f, 3, 10);
    assert_int_equal(ah_host_shares_ways(&f.problem), AH_HOST_SHARES_FEW + 1);
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) {
        assert_true(ah_host_shares_next(&f.problem, units));
        assert_memory_equal(units, halves[i], sizeof units);
    }
    assert_false(ah_host_shares_next(&f.problem, units));
}

TEST(host_shares, have_one_share_where_they_are_fixed)
{
    struct fixture f;
    struct ah_host_shares_fixed fixed;
    struct ah_error err = {0};
    make(&f, 3, 9);
    CHECK_OK(ah_host_shares_fix(&fixed, &f.problem, (const size_t[]){2, 4, 5}, &err), err);
    assert_int_equal(fixed.problem.n_kinds, 3);
    assert_int_equal(ah_problem_units(&fixed.problem), 11);
    assert_int_equal(ah_problem_kind_of(&fixed.problem, 0)->hosts[0].bytes, 500);
    assert_int_equal(ah_problem_kind_of(&fixed.problem, 1)->n_hosts, 0);
    assert_int_equal(ah_problem_kind_of(&fixed.problem, 2)->hosts[0].bytes, 200);
    ah_host_shares_release(&fixed);
    CHECK_OK(ah_host_shares_fix(&fixed, &f.problem, (const size_t[]){2, 4, 2}, &err), err);
    assert_int_equal(fixed.problem.n_kinds, 2);
    ah_host_shares_release(&fixed);
}
