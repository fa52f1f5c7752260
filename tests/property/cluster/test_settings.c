/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests settings of a cluster with four types of GPU, with a degree for each type. The test builds every combination
 * that could be searched, and bounds its time by its relaxation. None left out by the search is faster than the result.
 */
#include "planner/cluster/search/settings.h"

#include "planner/cluster/bound/relaxation.h"
#include "planner/cluster/cluster_costs.h"
#include "tests/support/documents.h"

#include <math.h>
#include <string.h>

#define DIGEST "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

enum { TYPES = 4, DEGREES = 4, SIZES = 4, BATCH = 64 };

static const char *everything[] = {"*"};

struct fixture {
    struct ah_document model, cluster;
    struct ah_cluster_request request;
    struct ah_arena arena;
    struct ah_settings settings;
};

static void setup(struct fixture *f, enum ah_tp_mode mode)
{
    struct ah_error err = {0};
    memset(f, 0, sizeof *f);
    load_document(&f->model, "examples/models/llama-2-7b.json", AH_DOCUMENT_MODEL);
    load_document(&f->cluster, "examples/clusters/mix-128.json", AH_DOCUMENT_CLUSTER);
    assert_int_equal(f->cluster.body.cluster->n_gpus, TYPES);
    f->request = (struct ah_cluster_request){.model = f->model.body.model,
                                             .model_sha256 = DIGEST,
                                             .cluster = f->cluster.body.cluster,
                                             .cluster_sha256 = DIGEST,
                                             .training = {.batch = BATCH,
                                                          .micro_batches = 1,
                                                          .seq = 1024,
                                                          .dtype = AH_BF16,
                                                          .trainable = everything,
                                                          .n_trainable = 1},
                                             .any_micro_batches = true,
                                             .tp_mode = mode};
    CHECK_OK(ah_settings_make(&f->request, &f->arena, &f->settings, &err), err);
}

static void teardown(struct fixture *f)
{
    ah_arena_release(&f->arena);
    ah_document_release(&f->cluster);
    ah_document_release(&f->model);
}

static bool is_among(const struct ah_settings *settings, const uint64_t *tp, uint64_t micro_batches)
{
    for (size_t i = 0; i < settings->n; i++)
        if (settings->items[i].training.micro_batches == micro_batches &&
            memcmp(settings->items[i].tp, tp, TYPES * sizeof *tp) == 0)
            return true;
    return false;
}

/* Returns a lower bound on the step time of plans with these degrees. */
static double bound_of(const struct fixture *f, const uint64_t *tp, uint64_t micro_batches)
{
    struct ah_error err = {0};
    struct ah_arena arena = {0};
    struct ah_cluster_problem problem;
    double bound_us;
    bool estimated;
    struct ah_cluster_costs_input input = {.model = f->request.model,
                                           .model_sha256 = DIGEST,
                                           .cluster = f->request.cluster,
                                           .training = f->request.training,
                                           .tp = tp};
    input.training.micro_batches = micro_batches;
    CHECK_OK(ah_cluster_costs_build(&input, &arena, &problem, &estimated, &err), err);
    CHECK_OK(ah_relaxation_time(&problem, &bound_us, &err), err);
    ah_arena_release(&arena);
    return bound_us;
}

TEST(settings, what_is_left_out_is_not_faster_than_told)
{
    struct fixture f;
    size_t left_out = 0, searched = 0;
    double least_us = INFINITY;
    setup(&f, AH_TP_ASYMMETRIC);
    for (unsigned combination = 0; combination < 1 << 2 * TYPES; combination++)
        for (unsigned size = 0; size < SIZES; size++) {
            uint64_t tp[TYPES], micro_batches = BATCH >> size;
            for (size_t type = 0; type < TYPES; type++)
                tp[type] = UINT64_C(1) << (combination >> 2 * type & 3);
            if (is_among(&f.settings, tp, micro_batches)) {
                searched++;
                continue;
            }
            left_out++;
            least_us = fmin(least_us, bound_of(&f, tp, micro_batches));
        }
    print_message("%zu combinations searched, %zu left out: none below %.0f us, told %.0f us\n", searched,
                  left_out, least_us, f.settings.left_out_bound_us);
    assert_int_equal(left_out, f.settings.left_out);
    assert_true(left_out > searched && f.settings.left_out_bound_us <= least_us);
    assert_true(f.settings.left_out_bound_us > 0.5 * least_us);
    teardown(&f);
}

TEST(settings, symmetric_ones_are_all_there)
{
    struct fixture f;
    setup(&f, AH_TP_SYMMETRIC);
    for (unsigned degree = 0; degree < DEGREES; degree++)
        for (unsigned size = 0; size < SIZES; size++) {
            uint64_t tp[TYPES];
            for (size_t type = 0; type < TYPES; type++)
                tp[type] = UINT64_C(1) << degree;
            assert_true(is_among(&f.settings, tp, BATCH >> size));
        }
    assert_int_equal(f.settings.left_out, 0);
    assert_true(isinf(f.settings.left_out_bound_us));
    teardown(&f);
}
