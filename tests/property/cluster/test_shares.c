/* SPDX-License-Identifier: Apache-2.0
 *
 * Hosts that are short: one more GPU in a node never makes the plan slower, as it may idle and leave its share of the host
 * to the others. Random clusters of one or two nodes, planned whole, with and without that GPU. And what bounds all numbers of
 * GPUs at once is never above the optimum of any of them, which exhaustion finds.
 *
 * AH_TEST_INSTANCES: how many clusters; 40.
 */
#include "planner/cluster/cluster_costs.h"
#include "planner/cluster/cluster_planner.h"
#include "planner/cluster/cluster_verify.h"
#include "planner/cluster/grouping.h"
#include "planner/cluster/hunt.h"
#include "planner/cluster/relaxation.h"
#include "planner/cluster/shares.h"
#include "schemas/document.h"
#include "tests/property/cluster/instances.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DIGEST "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define MIB    (UINT64_C(1) << 20)

enum { INSTANCES = 40, NODES = 2, MOST_GPUS = 3 };

static const char *everything[] = {"*"};

static size_t instances(void)
{
    const char *wanted = getenv("AH_TEST_INSTANCES");
    return wanted ? strtoul(wanted, NULL, 10) : INSTANCES;
}

/* A cluster of the test's own, on types of GPU of its own. */
struct case_cluster {
    struct ah_cluster cluster;
    struct ah_cluster_gpu gpus[NODES];
    struct ah_cluster_node nodes[NODES];
};

/* Little memory on GPUs and hosts, and slow ways to these. */
static void draw_cluster(const struct ah_cluster *like, uint64_t *random, struct case_cluster *c)
{
    c->cluster = *like;
    c->cluster.gpus = c->gpus;
    c->cluster.nodes = c->nodes;
    c->cluster.n_nodes = 1 + draw(random, NODES);
    for (size_t n = 0; n < NODES; n++) {
        c->gpus[n] = like->gpus[n];
        c->gpus[n].memory_bytes = c->gpus[n].reserved_bytes + (150 + draw(random, 500)) * MIB;
        c->nodes[n] = like->nodes[n];
        c->nodes[n].gpus = 1 + draw(random, MOST_GPUS);
        c->nodes[n].nic_bytes_per_s *= draw_real(random, 0.1, 4);
        c->nodes[n].intra_bytes_per_s *= draw_real(random, 0.02, 1);
        c->nodes[n].host_memory_bytes = (200 + draw(random, 2500)) * MIB;
        c->nodes[n].host_memory_bytes_per_s *= draw_real(random, 0.05, 1);
        c->nodes[n].host_link_bytes_per_s *= draw_real(random, 0.2, 1);
    }
}

static struct ah_cluster_request request_of(const struct ah_model *model, const struct ah_cluster *cluster)
{
    return (struct ah_cluster_request){.model = model,
                                       .model_sha256 = DIGEST,
                                       .cluster = cluster,
                                       .cluster_sha256 = DIGEST,
                                       .training = {.batch = 8,
                                                    .micro_batches = 8,
                                                    .seq = 256,
                                                    .dtype = AH_BF16,
                                                    .trainable = everything,
                                                    .n_trainable = 1},
                                       .search = AH_CLUSTER_SEARCH_EXACT,
                                       .generator = "test"};
}

/* Time of a step; INFINITY: nothing fits. */
static double plan_us(const struct ah_model *model, const struct ah_cluster *cluster, bool *exhausted)
{
    const struct ah_cluster_request request = request_of(model, cluster);
    struct ah_arena arena = {0};
    struct ah_cluster_plan plan;
    struct ah_cluster_shortage shortage;
    struct ah_error err = {0};
    int rc = ah_cluster_planner_plan(&request, &arena, &plan, &shortage, &err);
    if (rc != AH_E_INFEASIBLE && rc != AH_E_NO_PLAN)
        CHECK_OK(rc, err);
    double us = rc ? (double)INFINITY : plan.predicted.step_us;
    const struct ah_cluster_verify_inputs inputs = {model, DIGEST, cluster, DIGEST};
    if (!rc)
        CHECK_OK(ah_cluster_verify(&plan, &inputs, &err), err);
    *exhausted = rc || plan.solver.status == AH_PLAN_OPTIMAL;
    ah_arena_release(&arena);
    return us;
}

static void test_shares__one_more_gpu_is_never_slower(void **state)
{
    (void)state;
    struct ah_document model, cluster;
    struct ah_error err = {0};
    uint64_t random = 0x9e3779b97f4a7c15;
    size_t faster = 0, compared = 0;
    CHECK_OK(ah_document_load(&model, "examples/models/gpt2-124m.json", AH_DOCUMENT_MODEL, &err), err);
    CHECK_OK(
        ah_document_load(&cluster, "examples/clusters/desktops-4090-3090.json", AH_DOCUMENT_CLUSTER, &err),
        err);
    for (size_t n = 0; n < instances(); n++) {
        struct case_cluster c;
        bool before_exhausted, after_exhausted;
        draw_cluster(cluster.body.cluster, &random, &c);
        double before_us = plan_us(model.body.model, &c.cluster, &before_exhausted);
        c.nodes[draw(&random, c.cluster.n_nodes)].gpus++;
        double after_us = plan_us(model.body.model, &c.cluster, &after_exhausted);
        if (!before_exhausted || !after_exhausted || isinf(before_us))
            continue;
        if (after_us > before_us)
            fail_msg("cluster %zu: %.3f us, with another GPU %.3f", n, before_us, after_us);
        compared++;
        faster += after_us < before_us * 0.999;
    }
    printf("%zu clusters of %zu compared, %zu faster with another GPU\n", compared, instances(), faster);
    if (!getenv("AH_TEST_INSTANCES"))
        assert_true(compared > instances() / 6 && faster);
    ah_document_release(&cluster);
    ah_document_release(&model);
}

/* ---- the bound ---- */

/* The optimum where so many `units` work in each node; INFINITY: nothing fits. */
static double optimum_us(const struct ah_cluster_request *request, const struct ah_setting *setting,
                         const uint64_t units[NODES])
{
    const struct ah_cluster_costs_input input = {.model = request->model,
                                                 .model_sha256 = DIGEST,
                                                 .cluster = request->cluster,
                                                 .training = setting->training,
                                                 .tp = setting->tp,
                                                 .units = units};
    const struct ah_hunt_limits whole = {.improvements = 300, .exhaustion = 20000000};
    struct ah_arena arena = {0};
    struct ah_instance instance;
    struct ah_hunt_result result;
    struct ah_draft best;
    struct ah_error err = {0};
    bool estimated;
    CHECK_OK(ah_cluster_costs_build(&input, &arena, &instance, &estimated, &err), err);
    instance.update_limit_us = INFINITY;
    CHECK_OK(ah_draft_init(&best, &instance, &err), err);
    CHECK_OK(ah_hunt_run(&instance, &whole, INFINITY, &best, &result, &err), err);
    assert_true(result.exhausted);
    ah_draft_release(&best);
    ah_arena_release(&arena);
    return result.step_us;
}

static bool proves(const struct ah_instance *instance, double step_us)
{
    struct ah_grouping grouping;
    struct ah_error err = {0};
    uint64_t steps = UINT64_C(5000000);
    bool can, does;
    CHECK_OK(ah_grouping_init(&grouping, instance, &can, &err), err);
    assert_true(can);
    CHECK_OK(ah_grouping_proves(&grouping, step_us, &steps, &does, &err), err);
    ah_grouping_release(&grouping);
    return does;
}

/* Of one setting: its optimum over all numbers of units against what favoured ones prove. */
static void check_favoured(const struct ah_cluster_request *request, struct ah_arena *arena,
                           const struct ah_setting *setting, size_t *idle, size_t *closer)
{
    const struct ah_cluster_node *nodes = request->cluster->nodes;
    const uint64_t second = request->cluster->n_nodes > 1 ? nodes[1].gpus : 1;
    struct ah_setting favoured;
    struct ah_error err = {0};
    double relaxed_us, least_us = INFINITY;
    for (uint64_t u = 1; u <= nodes[0].gpus; u++)
        for (uint64_t v = 1; v <= second; v++)
            least_us = fmin(least_us, optimum_us(request, setting, (const uint64_t[]){u, v}));
    if (isinf(least_us))
        return;
    CHECK_OK(ah_shares_favour(request, arena, setting, &favoured, &err), err);
    if (proves(&favoured.instance, least_us * (1 + 1e-6)))
        fail_msg("a step of %.6f us is said to be too short, but there is one", least_us);
    *idle += proves(&setting->instance, least_us * (1 + 1e-6));
    CHECK_OK(ah_relaxation_time(&setting->instance, &relaxed_us, &err), err);
    *closer += proves(&favoured.instance, 1.01 * relaxed_us);
}

static void test_shares__what_bounds_all_numbers_is_below_their_optimum(void **state)
{
    (void)state;
    struct ah_document model, cluster;
    struct ah_error err = {0};
    uint64_t random = 0xa54ff53a5f1d36f1;
    size_t idle = 0, closer = 0;
    CHECK_OK(ah_document_load(&model, "examples/models/gpt2-124m.json", AH_DOCUMENT_MODEL, &err), err);
    CHECK_OK(
        ah_document_load(&cluster, "examples/clusters/desktops-4090-3090.json", AH_DOCUMENT_CLUSTER, &err),
        err);
    for (size_t n = 0; n < 3 * instances(); n++) {
        struct case_cluster c;
        struct ah_arena arena = {0};
        struct ah_settings settings;
        draw_cluster(cluster.body.cluster, &random, &c);
        for (size_t i = 0; i < NODES; i++)
            c.nodes[i].gpus = 1 + c.nodes[i].gpus % 2;
        const struct ah_cluster_request request = request_of(model.body.model, &c.cluster);
        CHECK_OK(ah_settings_make(&request, &arena, &settings, &err), err);
        for (size_t i = 0; i < settings.n; i++)
            if (settings.items[i].away && settings.items[i].tp[0] == 1)
                check_favoured(&request, &arena, &settings.items[i], &idle, &closer);
        ah_arena_release(&arena);
    }
    printf("%zu clusters: %zu in which GPUs have to idle, %zu bounds above the relaxation\n", 3 * instances(),
           idle, closer);
    if (!getenv("AH_TEST_INSTANCES"))
        assert_true(idle && closer > instances() / 2);
    ah_document_release(&cluster);
    ah_document_release(&model);
}

/* Six GPUs in either node, so that most numbers of them are left out. */
static void draw_many(const struct ah_cluster *like, struct case_cluster *c)
{
    c->cluster = *like;
    memcpy(c->gpus, like->gpus, sizeof c->gpus);
    memcpy(c->nodes, like->nodes, sizeof c->nodes);
    c->cluster.gpus = c->gpus;
    c->cluster.nodes = c->nodes;
    for (size_t n = 0; n < NODES; n++) {
        c->gpus[n].memory_bytes = c->gpus[n].reserved_bytes + 700 * MIB;
        c->nodes[n].gpus = 6;
    }
}

/* A plan's bound is not above what those that were left out prove when they are favoured, nor far below it. */
static void test_shares__a_plan_is_bounded_by_those_left_out(void **state)
{
    (void)state;
    struct ah_document model, document;
    struct ah_error err = {0};
    struct ah_arena arena = {0};
    struct ah_cluster_plan plan;
    struct ah_cluster_shortage shortage;
    struct ah_settings settings;
    struct case_cluster c;
    CHECK_OK(ah_document_load(&model, "examples/models/gpt2-355m.json", AH_DOCUMENT_MODEL, &err), err);
    CHECK_OK(
        ah_document_load(&document, "examples/clusters/desktops-4090-3090.json", AH_DOCUMENT_CLUSTER, &err),
        err);
    draw_many(document.body.cluster, &c);
    struct ah_cluster_request request = request_of(model.body.model, &c.cluster);
    request.search = AH_CLUSTER_SEARCH_BOTH;
    request.effort = 1;
    CHECK_OK(ah_cluster_planner_plan(&request, &arena, &plan, &shortage, &err), err);
    CHECK_OK(ah_settings_make(&request, &arena, &settings, &err), err);
    CHECK_OK(ah_shares_add(&request, &arena, &settings, &err), err);
    assert_true(settings.n_favoured == 1 && plan.solver.status == AH_PLAN_WITHIN_GAP);
    assert_true(proves(&settings.favoured[0].instance, 0.98 * plan.solver.bound_us));
    assert_false(proves(&settings.favoured[0].instance, 1.1 * plan.solver.bound_us));
    ah_arena_release(&arena);
    ah_document_release(&document);
    ah_document_release(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares__a_plan_is_bounded_by_those_left_out),
        cmocka_unit_test(test_shares__one_more_gpu_is_never_slower),
        cmocka_unit_test(test_shares__what_bounds_all_numbers_is_below_their_optimum)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
