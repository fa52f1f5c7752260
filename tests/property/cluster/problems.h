/* SPDX-License-Identifier: Apache-2.0
 *
 * Random problems of clusters, small enough to try everything, and random arrangements of them.
 */
#ifndef AH_TESTS_PROPERTY_CLUSTER_PROBLEMS_H
#define AH_TESTS_PROPERTY_CLUSTER_PROBLEMS_H

#include "planner/cluster/search/draft.h"
#include "tests/support/check.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BLOCKS = 10, MOST_KINDS = 3, MOST_CLASSES = 4, MOST_UNITS = 6, MOST_SHARERS = 32 };

struct case_problem {
    struct ah_cluster_problem problem;
    struct ah_problem_kind kinds[MOST_KINDS];
    struct ah_problem_class classes[MOST_CLASSES];
    struct ah_problem_block blocks[MOST_KINDS][MOST_BLOCKS];
    struct ah_problem_host hosts[MOST_KINDS][MOST_SHARERS];
    struct ah_problem_away away[MOST_KINDS][MOST_SHARERS][MOST_BLOCKS * AH_PROBLEM_AWAYS];
    struct ah_problem_link links[MOST_CLASSES * MOST_CLASSES];
    uint64_t gradient_bytes[MOST_BLOCKS];
};

static inline double draw_real(uint64_t *random, double low, double high)
{
    return low + (high - low) * (double)check_draw(random, 1000003) / 1000003;
}

static inline void draw_blocks(struct case_problem *c, uint64_t *random)
{
    bool even = check_draw(random, 2);
    for (size_t b = 0; b < c->problem.n_blocks; b++) {
        double work = even ? 5 : draw_real(random, 1, 10);
        uint64_t state = 10 + check_draw(random, 30), saved = 4 + check_draw(random, 12);
        for (size_t k = 0; k < c->problem.n_kinds; k++) {
            double us = 100 * work / (1 + (double)k * (even ? 1.5 : draw_real(random, 0, 3)));
            c->blocks[k][b] = (struct ah_problem_block){.forward_us = us,
                                                        .backward_us = {2 * us, 2.2 * us, 3 * us},
                                                        .update_us = draw_real(random, 0, 20),
                                                        .state_bytes = state / c->kinds[k].tp,
                                                        .saved_bytes = {2 * saved, saved, saved / 4},
                                                        .work_bytes = {3, 3, 3}};
        }
        c->gradient_bytes[b] = state * 1000;
    }
}

static inline void draw_network(struct case_problem *c, uint64_t *random)
{
    struct ah_cluster_problem *problem = &c->problem;
    bool fast = check_draw(random, 2);
    double mean = fast ? 1000 : 40; /* bytes a microsecond */
    for (size_t a = 0; a < problem->n_classes; a++)
        for (size_t b = 0; b <= a; b++) {
            bool inside = problem->classes[a].node == problem->classes[b].node;
            double least = 1e6 * mean;
            if (!inside) {
                double x = problem->classes[a].nic_bytes_per_s, y = problem->classes[b].nic_bytes_per_s;
                least = (x < y ? x : y) * draw_real(random, 0.3, 1);
            }
            c->links[a * problem->n_classes + b] = c->links[b * problem->n_classes + a] =
                (struct ah_problem_link){inside ? 8 * least : least, draw_real(random, 0, 5)};
        }
}

/* Draws block `b` for every number of sharers. Above some number, the host is slower than the link. */
static inline void draw_block_away(struct case_problem *c, uint64_t *random, size_t k, size_t b, double pace,
                                   double slower)
{
    const struct ah_problem_block *block = &c->blocks[k][b];
    const struct ah_problem_away states = {.optimizer = AH_OPTIMIZER_STREAMED,
                                           .update_us = draw_real(random, 0, 60),
                                           .state_bytes = block->state_bytes / 3,
                                           .host_bytes = block->state_bytes - block->state_bytes / 3};
    const struct ah_problem_away weights = {.weights = AH_WEIGHTS_HOST,
                                            .optimizer = AH_OPTIMIZER_HOST,
                                            .forward_us = pace * 100 * draw_real(random, 0.5, 3),
                                            .backward_us = pace * 200 * draw_real(random, 0.5, 3),
                                            .update_us = draw_real(random, 0, 60),
                                            .host_bytes = block->state_bytes,
                                            .staging_bytes = 1 + check_draw(random, 8)};
    const bool may = check_draw(random, 5);
    for (size_t s = 0; s < MOST_SHARERS; s++) {
        struct ah_problem_away *away = &c->away[k][s][b * AH_PROBLEM_AWAYS];
        double times = slower * (double)(s + 1) > 1 ? slower * (double)(s + 1) : 1;
        away[AH_OFFLOAD_STATES] = states;
        away[AH_OFFLOAD_WEIGHTS] = may ? weights : states;
        for (int i = 0; i < AH_PROBLEM_AWAYS; i++) {
            away[i].forward_us *= times;
            away[i].backward_us *= times;
            away[i].update_us = block->update_us + away[i].update_us * times;
        }
    }
}

/* Draws hosts, of any speed, for some kinds of some problems. Weights are away with or without their states. */
static inline void draw_away(struct case_problem *c, uint64_t *random)
{
    static const double limits_us[] = {0, 60, 300, 1e9};
    c->problem.update_limit_us = limits_us[check_draw(random, 4)];
    for (size_t k = 0; k < c->problem.n_kinds; k++) {
        double pace = draw_real(random, 0.2, 2), slower = draw_real(random, 0.1, 1.2);
        uint64_t bytes = (10 + check_draw(random, 300)) * (1 + check_draw(random, 3));
        c->kinds[k].hosts = c->hosts[k];
        c->kinds[k].n_hosts = check_draw(random, 4) ? MOST_SHARERS : 0;
        for (size_t s = 0; s < MOST_SHARERS; s++)
            c->hosts[k][s] = (struct ah_problem_host){bytes / (s + 1), c->away[k][s]};
        for (size_t b = 0; b < c->problem.n_blocks; b++)
            draw_block_away(c, random, k, b, pace, slower);
    }
}

/* Makes all blocks from the third to the last but one equal to the second. */
static inline void make_layers_alike(struct case_problem *c, size_t k)
{
    for (size_t b = 2; b + 1 < c->problem.n_blocks; b++) {
        c->blocks[k][b] = c->blocks[k][1];
        for (size_t s = 0; s < MOST_SHARERS; s++)
            for (size_t i = 0; i < AH_PROBLEM_AWAYS; i++)
                c->away[k][s][b * AH_PROBLEM_AWAYS + i] = c->away[k][s][AH_PROBLEM_AWAYS + i];
    }
}

/* Draws up to `blocks` blocks, `units` units and `micro_batches`. Equal arguments give equal problems. */
static inline void draw_problem(struct case_problem *c, uint64_t *random, size_t blocks, size_t units,
                                uint64_t micro_batches)
{
    struct ah_cluster_problem *problem = &c->problem;
    memset(c, 0, sizeof *c);
    *problem = (struct ah_cluster_problem){.n_blocks = 3 + check_draw(random, blocks - 2),
                                           .n_kinds = 1 + check_draw(random, MOST_KINDS),
                                           .kinds = c->kinds,
                                           .classes = c->classes,
                                           .links = c->links,
                                           .micro_batches = 1 + check_draw(random, micro_batches),
                                           .boundary_bytes = 500 + check_draw(random, 3000),
                                           .gradient_bytes = c->gradient_bytes,
                                           .tied_bytes = check_draw(random, 3) ? 0 : 20000};
    problem->n_kinds = problem->n_kinds < units ? problem->n_kinds : units;
    problem->n_classes = problem->n_kinds;
    for (size_t k = 0; k < problem->n_kinds; k++)
        c->kinds[k] = (struct ah_problem_kind){
            .gpu = "gpu", .tp = UINT64_C(1) << check_draw(random, 2), .blocks = c->blocks[k]};
    if (problem->n_classes < units)
        problem->n_classes += check_draw(random, 2); /* a second node of some kind */
    for (size_t n = 0; n < problem->n_classes; n++)
        c->classes[n] =
            (struct ah_problem_class){n < problem->n_kinds ? n : check_draw(random, problem->n_kinds), n, 1,
                                      1e6 * draw_real(random, 50, 2000)};
    for (size_t left = check_draw(random, units - problem->n_classes + 1); left; left--)
        c->classes[check_draw(random, problem->n_classes)].units++;
    draw_blocks(c, random);
    draw_network(c, random);
    uint64_t all = 0;
    for (size_t b = 0; b < problem->n_blocks; b++)
        all += c->blocks[0][b].state_bytes * c->kinds[0].tp + 2 * c->blocks[0][b].saved_bytes[0];
    for (size_t k = 0; k < problem->n_kinds; k++)
        c->kinds[k].capacity_bytes = 20 + all / (1 + check_draw(random, 4)) / c->kinds[k].tp;
    if (check_draw(random, 2))
        draw_away(c, random);
    for (size_t k = 0; k < problem->n_kinds && problem->micro_batches % 3 == 0; k++)
        make_layers_alike(c, k);
}

/* Makes the network slower, between nodes and inside them. */
static inline void slow_down(struct case_problem *c, double times)
{
    for (size_t i = 0; i < c->problem.n_classes; i++)
        c->classes[i].nic_bytes_per_s /= times;
    for (size_t i = 0; i < c->problem.n_classes * c->problem.n_classes; i++)
        c->links[i].bytes_per_s /= times;
}

/* Lists the class of every unit. The list is class by class, or in any order. */
static inline size_t draw_units(const struct ah_cluster_problem *in, uint64_t *random, bool any_order,
                                size_t classes[MOST_UNITS])
{
    size_t n = 0;
    for (size_t class = 0; class < in->n_classes; class ++)
        for (size_t u = 0; u < in->classes[class].units; u++)
            classes[n++] = class;
    for (size_t i = n; any_order && i > 1; i--) {
        size_t j = check_draw(random, i), other = classes[j];
        classes[j] = classes[i - 1];
        classes[i - 1] = other;
    }
    return n;
}

/* Draws an arrangement: pipelines of all units, splits and shares. Returns false if it does not fit. */
static inline bool draw_arrangement(const struct ah_cluster_problem *in, uint64_t *random, bool any_order,
                                    struct ah_draft *draft)
{
    size_t classes[MOST_UNITS], units = draw_units(in, random, any_order, classes);
    ah_draft_begin(draft);
    for (size_t u = 0; u < units; u++) {
        size_t last = draft->arrangement.n_pipelines - 1;
        if (!draft->n_stages || !check_draw(random, 3) ||
            draft->arrangement.pipelines[last].n_stages == in->n_blocks)
            ah_draft_open(draft);
        ah_draft_add(draft, classes[u]);
    }
    struct ah_arrangement *plan = &draft->arrangement;
    if (plan->n_pipelines > in->micro_batches)
        return false;
    for (size_t p = 0; p < plan->n_pipelines; p++) {
        size_t at = 0, n = plan->pipelines[p].n_stages;
        for (size_t i = 0; i < n; i++) {
            size_t most = in->n_blocks - at - (n - i - 1);
            plan->pipelines[p].stages[i].first = at;
            at = i + 1 == n ? in->n_blocks : at + 1 + check_draw(random, most);
            plan->pipelines[p].stages[i].end = at;
        }
        plan->pipelines[p].micro_batches = 1;
    }
    for (uint64_t left = in->micro_batches - plan->n_pipelines; left; left--)
        plan->pipelines[check_draw(random, plan->n_pipelines)].micro_batches++;
    ah_arrangement_share(in, plan);
    for (size_t p = 0; p < plan->n_pipelines; p++)
        if (!ah_pipeline_fit(in, &plan->pipelines[p]))
            return false;
    return true;
}

#endif
