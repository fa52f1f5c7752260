/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the search's start arrangements on clusters where fast links form islands. The best start is no slower than an
 * arrangement made by hand, in whatever order the document lists the nodes of an island.
 */
#include "planner/cluster/search/arrangement_search_internal.h"
#include "planner/cluster/sim/stage_sim.h"
#include "tests/support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 12, ISLANDS = 3, NODES = 2 * ISLANDS };

/* Island i has a node of fast units and a node of slow units. Their numbers are `at[i][k]`. */
struct sites {
    struct ah_cluster_problem problem;
    struct ah_problem_kind kinds[2];
    struct ah_problem_class classes[NODES];
    struct ah_problem_block blocks[2][BLOCKS];
    struct ah_problem_link links[NODES * NODES];
    uint64_t gradient_bytes[BLOCKS];
    size_t at[ISLANDS][2];
};

/* Makes a cluster in which units hold `room` blocks and recompute nothing. Slow units have a little less memory. */
static void make(struct sites *s, size_t islands, size_t units, size_t room, size_t shift)
{
    const size_t nodes = 2 * islands;
    memset(s, 0, sizeof *s);
    s->problem = (struct ah_cluster_problem){.n_blocks = BLOCKS,
                                             .n_kinds = 2,
                                             .n_classes = nodes,
                                             .kinds = s->kinds,
                                             .classes = s->classes,
                                             .links = s->links,
                                             .micro_batches = 12,
                                             .boundary_bytes = 1000000,
                                             .gradient_bytes = s->gradient_bytes};
    for (size_t k = 0; k < 2; k++) {
        s->kinds[k] = (struct ah_problem_kind){
            .gpu = "gpu", .tp = 1, .capacity_bytes = 1000 * room + 100 * (2 - k), .blocks = s->blocks[k]};
        for (size_t b = 0; b < BLOCKS; b++) {
            double us = k ? 1500 : 1000;
            s->blocks[k][b] = (struct ah_problem_block){
                .forward_us = us, .backward_us = {2 * us, 2 * us, 2 * us}, .state_bytes = 1000};
            s->gradient_bytes[b] = 100;
        }
    }
    size_t island[NODES];
    for (size_t i = 0; i < nodes; i++) {
        size_t node = (i * 5 + shift) % nodes; /* a permutation, because 5 shares no factor with 4 or 6 */
        island[node] = i / 2;
        s->at[i / 2][i % 2] = node;
        s->classes[node] = (struct ah_problem_class){i % 2, node, units, 1e10};
    }
    for (size_t a = 0; a < nodes; a++)
        for (size_t b = 0; b < nodes; b++)
            s->links[a * nodes + b] = (struct ah_problem_link){island[a] == island[b] ? 1e10 : 1e8, 5};
}

/* Compares the best start with pipelines of `classes`, which have `stages` stages each. */
static void compare(const struct sites *s, const size_t *classes, size_t pipelines, size_t stages)
{
    struct ah_error err = {0};
    struct ah_draft best, hand;
    struct ah_arrangement_search search = {.problem = &s->problem, .best = &best, .best_us = INFINITY};
    double us;
    CHECK_OK(ah_draft_init(&best, &s->problem, &err), err);
    CHECK_OK(ah_draft_init(&hand, &s->problem, &err), err);
    CHECK_OK(ah_fits_init(&search.fits, &s->problem, &err), err);
    for (size_t i = 0; i < AH_ARRANGEMENT_SEARCH_STARTS; i++)
        CHECK_OK(ah_draft_init(&search.starts[i].draft, &s->problem, &err), err);
    CHECK_OK(ah_arrangement_search_starts(&search, &err), err);
    for (size_t p = 0; p < pipelines; p++) {
        ah_draft_open(&hand);
        for (size_t i = 0; i < stages; i++)
            ah_draft_add(&hand, classes[p * stages + i]);
    }
    assert_true(ah_draft_finish(&hand, &search.fits));
    CHECK_OK(ah_arrangement_search_time(&search, &hand, INFINITY, &us, &err), err);
    assert_true(search.n_starts > 0);
    assert_true(search.starts[0].us <= us * (1 + 1e-9));
    for (size_t i = 0; i < AH_ARRANGEMENT_SEARCH_STARTS; i++)
        ah_draft_release(&search.starts[i].draft);
    ah_fits_release(&search.fits);
    ah_draft_release(&hand);
    ah_draft_release(&best);
}

/* If sums are small and activations large, each island gets a pipeline. */
TEST(starts, keep_pipelines_on_islands)
{
    static struct sites s;
    for (size_t shift = 0; shift < NODES; shift++) {
        size_t classes[ISLANDS * 4];
        make(&s, ISLANDS, 2, 4, shift);
        for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
            classes[i] = s.at[i / 4][i % 4 / 2];
        compare(&s, classes, ISLANDS, 4);
    }
}

/* Memory suffices for only one copy, and the pipeline crosses between the islands only once. */
TEST(starts, cross_seldom)
{
    static struct sites s;
    for (size_t shift = 0; shift < 4; shift++) {
        make(&s, 2, 1, 3, shift);
        const size_t classes[] = {s.at[0][0], s.at[0][1], s.at[1][1], s.at[1][0]};
        compare(&s, classes, 1, 4);
    }
}

/* Exactly the pipelines that differ only in their nodes are split alike. */
TEST(starts, alike_pipelines_are_split_alike)
{
    static struct sites s;
    struct ah_error err = {0};
    struct ah_draft draft;
    struct ah_fits fits;
    make(&s, ISLANDS, 2, 6, 1);
    CHECK_OK(ah_draft_init(&draft, &s.problem, &err), err);
    CHECK_OK(ah_fits_init(&fits, &s.problem, &err), err);
    const size_t rows[][3] = {{s.at[0][0], s.at[0][0], s.at[0][1]},
                              {s.at[1][0], s.at[1][0], s.at[1][1]},
                              {s.at[2][0], s.at[2][1], s.at[2][0]},
                              {s.at[0][1], s.at[1][1], s.at[2][1]}};
    for (size_t p = 0; p < 4; p++) {
        ah_draft_open(&draft);
        for (size_t i = 0; i < 3; i++)
            ah_draft_add(&draft, rows[p][i]);
    }
    assert_true(ah_draft_finish(&draft, &fits));
    for (size_t p = 0; p < 4; p++) {
        struct ah_stage stages[3];
        struct ah_pipeline alone = {stages, 3, 3};
        memcpy(stages, draft.arrangement.pipelines[p].stages, sizeof stages);
        assert_true(ah_split_best(&fits, &alone));
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(stages[i].end, draft.arrangement.pipelines[p].stages[i].end);
    }
    ah_fits_release(&fits);
    ah_draft_release(&draft);
}
