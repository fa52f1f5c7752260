/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests hosts with little or slow memory and slow links. Adding a GPU to a node never makes the plan slower, since the
 * GPU may idle and take nothing from its host. So random clusters of up to four nodes are planned with and without that
 * GPU. The optimum with shared hosts is the least over all numbers of units, where each unit has the host share for
 * that number, even if some units idle. A bound of a setting with hosts never exceeds the setting's optimum.
 */
#include "planner/cluster/bound/bound_raise.h"
#include "planner/cluster/bound/grouping.h"
#include "planner/cluster/bound/relaxation.h"
#include "planner/cluster/cluster_planner.h"
#include "planner/cluster/cluster_verify.h"
#include "planner/cluster/search/settings.h"
#include "tests/property/cluster/optimum.h"
#include "tests/property/cluster/problems.h"
#include "tests/support/documents.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DIGEST "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define MIB    (UINT64_C(1) << 20)

enum { INSTANCES = 400, TYPES = 2, NODES = 4, MOST_GPUS = 9 };

static const char *everything[] = {"*"};

static size_t problems(void)
{
    return check_scaled(INSTANCES);
}

/* A cluster whose types of GPU are made for the test. */
struct case_cluster {
    struct ah_cluster cluster;
    struct ah_cluster_gpu gpus[TYPES];
    struct ah_cluster_node nodes[NODES];
};

/* Draws up to `gpus` GPUs in `nodes` nodes. GPUs and hosts have little memory, and links to the hosts are slow. */
static void draw_cluster(const struct ah_cluster *like, uint64_t *random, size_t nodes, size_t gpus,
                         struct case_cluster *c)
{
    static const char *const ids[NODES] = {"a", "b", "c", "d"};
    c->cluster = *like;
    c->cluster.gpus = c->gpus;
    c->cluster.nodes = c->nodes;
    c->cluster.n_nodes = 1 + check_draw(random, nodes);
    for (size_t g = 0; g < TYPES; g++) {
        c->gpus[g] = like->gpus[g];
        c->gpus[g].memory_bytes = c->gpus[g].reserved_bytes + (150 + check_draw(random, 500)) * MIB;
    }
    for (size_t n = 0; n < NODES; n++) {
        c->nodes[n] = like->nodes[n % TYPES];
        c->nodes[n].id = ids[n];
        c->nodes[n].gpus = 1;
        c->nodes[n].nic_bytes_per_s *= draw_real(random, 0.1, 4);
        c->nodes[n].intra_bytes_per_s *= draw_real(random, 0.02, 1);
        c->nodes[n].host_memory_bytes = (200 + check_draw(random, 2500)) * MIB;
        c->nodes[n].host_memory_bytes_per_s *= draw_real(random, 0.05, 1);
        c->nodes[n].host_link_bytes_per_s *= draw_real(random, 0.2, 1);
    }
    for (size_t left = check_draw(random, gpus - c->cluster.n_nodes + 1); left; left--)
        c->nodes[check_draw(random, c->cluster.n_nodes)].gpus++;
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

/* Returns the step time in us, or INFINITY if nothing fits. */
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

TEST(shares, one_more_gpu_is_never_slower)
{
    struct ah_document model, cluster;
    uint64_t random = 0x9e3779b97f4a7c15;
    size_t faster = 0, compared = 0;
    load_document(&model, "examples/models/gpt2-124m.json", AH_DOCUMENT_MODEL);
    load_document(&cluster, "examples/clusters/desktops-4090-3090.json", AH_DOCUMENT_CLUSTER);
    for (size_t n = 0; n < problems(); n++) {
        struct case_cluster c;
        bool before_exhausted, after_exhausted;
        draw_cluster(cluster.body.cluster, &random, NODES, MOST_GPUS, &c);
        double before_us = plan_us(model.body.model, &c.cluster, &before_exhausted);
        c.nodes[check_draw(&random, c.cluster.n_nodes)].gpus++;
        double after_us = plan_us(model.body.model, &c.cluster, &after_exhausted);
        if (!before_exhausted || !after_exhausted || isinf(before_us))
            continue;
        if (after_us > before_us)
            fail_msg("cluster %zu: %.3f us, with another GPU %.3f", n, before_us, after_us);
        compared++;
        faster += after_us < before_us * 0.999;
    }
    printf("%zu clusters of %zu compared, %zu faster with another GPU\n", compared, problems(), faster);
    assert_true(compared > problems() / 6 && faster);
    ah_document_release(&cluster);
    ah_document_release(&model);
}

/* Returns the optimum with `units` of each class. Each unit has the host share for that many, even if some idle. */
static double fixed_us(const struct ah_cluster_problem *problem, const size_t units[MOST_CLASSES])
{
    struct ah_cluster_problem fixed = *problem;
    struct ah_problem_class classes[MOST_CLASSES];
    struct ah_problem_kind kinds[MOST_CLASSES];
    struct ah_problem_host hosts[MOST_CLASSES][MOST_UNITS];
    fixed.classes = classes;
    fixed.kinds = kinds;
    fixed.n_kinds = problem->n_classes;
    for (size_t c = 0; c < problem->n_classes; c++) { /* each class gets its own kind */
        kinds[c] = *ah_problem_kind_of(problem, c);
        for (size_t s = 0; s < MOST_UNITS && kinds[c].n_hosts; s++)
            hosts[c][s] = kinds[c].hosts[units[c] - 1];
        if (kinds[c].n_hosts) {
            kinds[c].hosts = hosts[c];
            kinds[c].n_hosts = MOST_UNITS;
        }
        classes[c] = problem->classes[c];
        classes[c].kind = c;
        classes[c].units = units[c];
    }
    return find_optimum_us(&fixed);
}

/* Returns the least time over all numbers of units from class `c` on. */
static double least_us(const struct ah_cluster_problem *problem, size_t c, size_t units[MOST_CLASSES])
{
    double us = INFINITY;
    if (c == problem->n_classes || c == MOST_CLASSES)
        return fixed_us(problem, units);
    for (units[c] = 1; units[c] <= problem->classes[c].units; units[c]++) {
        size_t of_these[MOST_CLASSES];
        memcpy(of_these, units, sizeof of_these);
        us = fmin(us, least_us(problem, c + 1, of_these));
    }
    return us;
}

TEST(shares, the_optimum_is_the_least_of_all_numbers)
{
    uint64_t random = 0x2545f4914f6cdd1d;
    size_t idle = 0, fits = 0;
    for (size_t n = 0; n < problems(); n++) {
        struct case_problem c;
        size_t units[MOST_CLASSES], all[MOST_CLASSES];
        do {
            draw_problem(&c, &random, 6, MOST_UNITS, 5);
            draw_away(&c, &random);
            for (size_t k = 0; k < c.problem.n_kinds; k++)
                c.kinds[k].capacity_bytes /= 2 + check_draw(&random, 3);
        } while (ah_problem_units(&c.problem) == c.problem.n_classes);
        for (size_t k = 0; k < c.problem.n_classes; k++)
            all[k] = c.classes[k].units;
        double shared_us = find_optimum_us(&c.problem), fixed = least_us(&c.problem, 0, units);
        if (shared_us < fixed || shared_us > fixed)
            fail_msg("the optimum is %.6f us, of fixed shares %.6f", shared_us, fixed);
        idle += fixed_us(&c.problem, all) > shared_us;
        fits += !isinf(shared_us);
    }
    printf("%zu instances, %zu fit, in %zu units idle for their host's sake\n", problems(), fits, idle);
    assert_true(idle && fits > problems() / 3);
}

static bool proves(const struct ah_cluster_problem *problem, double step_us)
{
    struct ah_grouping grouping;
    struct ah_error err = {0};
    uint64_t steps = UINT64_C(5000000);
    bool can, does;
    CHECK_OK(ah_grouping_init(&grouping, problem, &can, &err), err);
    assert_true(can);
    CHECK_OK(ah_grouping_proves(&grouping, step_us, &steps, &does, &err), err);
    ah_grouping_release(&grouping);
    return does;
}

struct tally {
    size_t compared, above_relaxation, above_alone;
};

/* Checks two bounds: one as if each unit were alone on its host, and one raised over the numbers of sharing units. */
static void check_bound(const struct ah_setting *setting, struct tally *tally)
{
    struct ah_setting raised = *setting;
    struct ah_error err = {0};
    double relaxed_us, us = find_optimum_us(&setting->problem);
    if (isinf(us))
        return;
    if (proves(&setting->problem, us * (1 + 1e-6)))
        fail_msg("a step of %.6f us is said to be too short, but there is one", us);
    CHECK_OK(ah_relaxation_time(&setting->problem, &relaxed_us, &err), err);
    raised.bound_us = relaxed_us;
    CHECK_OK(ah_bound_raise(&raised, 1, 2 * us, 10000000, &err), err);
    if (raised.bound_us > us * (1 + 1e-6))
        fail_msg("the bound is %.6f us, the optimum %.6f", raised.bound_us, us);
    tally->compared++;
    tally->above_relaxation += raised.bound_us > 1.01 * relaxed_us;
    tally->above_alone += !proves(&setting->problem, raised.bound_us * (1 - 1e-6));
}

TEST(shares, the_bound_is_below_the_optimum)
{
    struct ah_document model, cluster;
    struct ah_error err = {0};
    uint64_t random = 0xa54ff53a5f1d36f1;
    struct tally tally = {0};
    load_document(&model, "examples/models/gpt2-124m.json", AH_DOCUMENT_MODEL);
    load_document(&cluster, "examples/clusters/desktops-4090-3090.json", AH_DOCUMENT_CLUSTER);
    for (size_t n = 0; n < 3 * problems(); n++) {
        struct case_cluster c;
        struct ah_arena arena = {0};
        struct ah_settings settings;
        draw_cluster(cluster.body.cluster, &random, TYPES, 4, &c);
        struct ah_cluster_request request = request_of(model.body.model, &c.cluster);
        request.training.dtype = n % 3 ? AH_BF16 : AH_FP32;
        CHECK_OK(ah_settings_make(&request, &arena, &settings, &err), err);
        for (size_t i = 0; i < settings.n; i++)
            if (settings.items[i].away && settings.items[i].tp[0] == 1)
                check_bound(&settings.items[i], &tally);
        ah_arena_release(&arena);
    }
    printf("%zu optima of %zu clusters; %zu bounds above the relaxation, %zu above that of units alone\n",
           tally.compared, 3 * problems(), tally.above_relaxation, tally.above_alone);
    assert_true(tally.compared > problems() / 2 && tally.above_relaxation > tally.compared / 2 &&
                tally.above_alone);
    ah_document_release(&cluster);
    ah_document_release(&model);
}

/* With six GPUs a node, there are too many numbers of units to bound. So the bound is that of units alone on hosts. */
TEST(shares, a_plan_has_its_bound)
{
    struct ah_document model, document;
    struct ah_error err = {0};
    struct ah_arena arena = {0};
    struct ah_cluster_plan plan;
    struct ah_cluster_shortage shortage;
    struct ah_settings settings;
    struct case_cluster c;
    uint64_t random = 1;
    load_document(&model, "examples/models/gpt2-355m.json", AH_DOCUMENT_MODEL);
    load_document(&document, "examples/clusters/desktops-4090-3090.json", AH_DOCUMENT_CLUSTER);
    draw_cluster(document.body.cluster, &random, TYPES, TYPES, &c);
    c.cluster.n_nodes = TYPES;
    for (size_t n = 0; n < TYPES; n++) {
        c.nodes[n] = document.body.cluster->nodes[n];
        c.nodes[n].gpus = 6;
        c.gpus[n].memory_bytes = c.gpus[n].reserved_bytes + 700 * MIB;
    }
    struct ah_cluster_request request = request_of(model.body.model, &c.cluster);
    request.search = AH_CLUSTER_SEARCH_BOTH;
    request.effort = 1;
    CHECK_OK(ah_cluster_planner_plan(&request, &arena, &plan, &shortage, &err), err);
    CHECK_OK(ah_settings_make(&request, &arena, &settings, &err), err);
    const struct ah_setting *alone = settings.items;
    while (!alone->away || alone->tp[0] > 1)
        alone++;
    assert_true(plan.solver.status == AH_PLAN_WITHIN_GAP);
    assert_true(proves(&alone->problem, 0.98 * plan.solver.bound_us));
    assert_false(proves(&alone->problem, 1.1 * plan.solver.bound_us));
    ah_arena_release(&arena);
    ah_document_release(&document);
    ah_document_release(&model);
}
