/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares predictions with iterations measured on unequal GPUs. They are the Sailor project's published runs (MIT
 * licence) of OPT-350M, with sequence 2048, fp32 and micro-batches of 2. The Sailor project's layer profile and node
 * bandwidths are used. Given the arrangements of the runs, we predict iteration times and gradient sums. No constant of
 * the model was fitted to these runs.
 *
 * The profile has milliseconds of the first layer (embedding), a block, and the last layer (head); a stage's layers
 * include the first and the last. The profile has neither optimizer steps nor latencies, so they are 0 here. Layers of
 * 1024 x 4096 have 12.6 million parameters, the tables 50272 x 1024. With one pipeline no sums were measured, so
 * embedding and head are taken as not tied.
 */
#include "planner/cluster/sim/stage_sim.h"
#include "tests/support/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BLOCKS = 26, TYPES = 5, NODES_MAX = 6, STAGES_MAX = 4 };

enum type { RTX3090X2, TITANX2, RTX3090X8, TITANX8, RTX2080X8 };

/* Measured milliseconds of forward and backward. */
static const struct {
    const char *name;
    uint64_t tp;
    double first[2], block[2], last[2];
} profile[TYPES] = {[RTX3090X2] = {"3090", 2, {1.1, 0}, {5.6, 13.0}, {10.1, 14.8}},
                    [TITANX2] = {"titan", 2, {4.8, 0}, {16.7, 29.2}, {19.0, 33.4}},
                    [RTX3090X8] = {"3090", 8, {18.5, 0}, {37.5, 39.6}, {2.9, 22.6}},
                    [TITANX8] = {"titan", 8, {6.5, 0}, {13.9, 17.4}, {5.3, 13.4}},
                    [RTX2080X8] = {"2080", 8, {7.7, 0}, {16.6, 20.1}, {6.2, 14.6}}};

#define BETWEEN_TYPES 0.115e9
#define BETWEEN_EQUAL 2.86e9
#define FP32          4

static const struct run {
    const char *name;
    uint64_t batch;
    size_t n_pipelines, n_stages;
    size_t layers[STAGES_MAX];
    enum type types[2][STAGES_MAX];
    double measured_s;
} runs[] = {{"3090x2 -> titanx2", 256, 1, 2, {12, 14}, {{RTX3090X2, TITANX2}}, 119.84},
            {"3090x8 -> 2080x8 -> titanx8 -> 2080x8",
             256,
             1,
             4,
             {5, 7, 7, 7},
             {{RTX3090X8, RTX2080X8, TITANX8, RTX2080X8}},
             83.77},
            {"{3090x8, 2080x8} -> {titanx8, 2080x8}",
             256,
             2,
             2,
             {12, 14},
             {{RTX3090X8, TITANX8}, {RTX2080X8, RTX2080X8}},
             66.07},
            {"{3090x8, 2080x8} -> {2080x8, titanx8} -> {2080x8, titanx8}",
             288,
             2,
             3,
             {8, 9, 9},
             {{RTX3090X8, RTX2080X8, RTX2080X8}, {RTX2080X8, TITANX8, TITANX8}},
             59.46}};

struct cluster {
    struct ah_cluster_problem problem;
    struct ah_problem_block blocks[TYPES][BLOCKS];
    struct ah_problem_kind kinds[TYPES];
    struct ah_problem_class classes[NODES_MAX];
    struct ah_problem_link links[NODES_MAX * NODES_MAX];
    uint64_t gradient_bytes[BLOCKS];
};

static void set_blocks(struct cluster *c)
{
    const uint64_t layer = 12 * 1024 * 1024 + 13 * 1024, positions = 2048 * 1024, table = 50272 * 1024;
    for (size_t k = 0; k < TYPES; k++) {
        for (size_t b = 0; b < BLOCKS; b++) {
            const double *ms = b == 0            ? profile[k].first
                               : b == BLOCKS - 1 ? profile[k].last
                                                 : profile[k].block;
            double backward_us = 1000 * ms[1];
            c->blocks[k][b] = (struct ah_problem_block){
                .forward_us = 1000 * ms[0], .backward_us = {backward_us, backward_us, backward_us}};
        }
        c->kinds[k] = (struct ah_problem_kind){.gpu = profile[k].name,
                                               .tp = profile[k].tp,
                                               .capacity_bytes = UINT64_C(1) << 40,
                                               .blocks = c->blocks[k]};
    }
    for (size_t b = 0; b < BLOCKS; b++)
        c->gradient_bytes[b] = FP32 * (b == 0 ? table + positions : b == BLOCKS - 1 ? table : layer);
}

static void set_network(struct cluster *c, const struct run *run)
{
    size_t n = c->problem.n_classes = run->n_pipelines * run->n_stages;
    for (size_t i = 0; i < n; i++)
        c->classes[i] =
            (struct ah_problem_class){run->types[i / run->n_stages][i % run->n_stages], i, 1, BETWEEN_EQUAL};
    for (size_t i = 0; i < n * n; i++) {
        const char *a = profile[c->classes[i / n].kind].name, *b = profile[c->classes[i % n].kind].name;
        c->links[i] = (struct ah_problem_link){strcmp(a, b) == 0 ? BETWEEN_EQUAL : BETWEEN_TYPES, 0};
    }
}

/* Predicts an iteration. Micro-batches are shared evenly, as in the measured run. */
static double predict_s(const struct run *run, double *ret_sync_s)
{
    static struct cluster c;
    struct ah_stage stages[2][STAGES_MAX] = {0};
    struct ah_pipeline pipelines[2];
    c = (struct cluster){.problem = {.n_blocks = BLOCKS,
                                     .n_kinds = TYPES,
                                     .kinds = c.kinds,
                                     .classes = c.classes,
                                     .links = c.links,
                                     .gradient_bytes = c.gradient_bytes,
                                     .micro_batches = run->batch / 2,
                                     .boundary_bytes = FP32 * 2 * 2048 * 1024}};
    set_blocks(&c);
    set_network(&c, run);
    for (size_t p = 0; p < run->n_pipelines; p++) {
        size_t at = 0;
        for (size_t i = 0; i < run->n_stages; i++) {
            stages[p][i] =
                (struct ah_stage){.class = p * run->n_stages + i, .first = at, .end = at + run->layers[i]};
            at += run->layers[i];
        }
        assert_int_equal(at, BLOCKS);
        pipelines[p] = (struct ah_pipeline){stages[p], run->n_stages, run->batch / 2 / run->n_pipelines};
        assert_true(ah_pipeline_fit(&c.problem, &pipelines[p]));
    }
    struct ah_stage_sim_result result = {0};
    struct ah_error err = {0};
    CHECK_OK(
        ah_stage_sim_run(&c.problem, &(struct ah_arrangement){pipelines, run->n_pipelines}, &result, &err),
        err);
    *ret_sync_s = result.exposed_sync_us / 1e6;
    return result.step_us / 1e6;
}

TEST(measured_runs, are_predicted)
{
    double sum = 0;
    size_t n = sizeof runs / sizeof *runs;
    printf("%-62s %10s %10s %10s %8s\n", "OPT-350M on", "measured", "predicted", "of it sync", "error");
    for (size_t i = 0; i < n; i++) {
        double sync_s, predicted_s = predict_s(&runs[i], &sync_s);
        double error = predicted_s / runs[i].measured_s - 1;
        printf("%-62s %8.2f s %8.2f s %8.2f s %6.1f %%\n", runs[i].name, runs[i].measured_s, predicted_s,
               sync_s, 100 * error);
        sum += fabs(error);
    }
    printf("mean absolute error: %.1f %%\n", 100 * sum / (double)n);
    assert_true(sum / (double)n < 0.15);
}
