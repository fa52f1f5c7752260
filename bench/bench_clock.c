/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures the time that the virtual clock takes for a plan: three iterations with 20 ops per block. Blocks are fetched
 * for forward and backward, and updated on the host tile by tile; copies and host Adam share DRAM.
 *
 *     bench_clock [--blocks N] [--rounds N]
 *
 * The first row is dispatched by priority, as a planner does for each candidate. The second has that order frozen, as
 * simulate does. Every round runs both rows.
 */
#include "base/stats.h"
#include "base/threads.h"
#include "bench/options.h"
#include "runtime/device/virtual/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMPUTE, H2D, D2H, HOST, LANES };
enum { ROW_COMPUTE, ROW_COPY, ROW_ADAM, ROWS };
enum { ITERATIONS = 3, TILES = 5, OPS_PER_BLOCK = 20, DEPENDENCIES_PER_OP = 3, ROUNDS_MAX = 1000 };

struct plan {
    struct ah_clock_graph graph;
    size_t max_ops;
    size_t n_dependencies;
    double *duration;
    uint32_t *lane;
    uint32_t *demand;
    uint64_t *priority;
    size_t *first;
    uint32_t *dependency;
};

/* Adds an op that waits for `a` and `b` (AH_CLOCK_NO_OP: for nothing). Returns its index. */
static uint32_t add(struct plan *plan, uint32_t lane, double us, uint64_t priority, uint32_t a, uint32_t b)
{
    static const uint32_t row_of[LANES] = {ROW_COMPUTE, ROW_COPY, ROW_COPY, ROW_ADAM};
    uint32_t op = (uint32_t)plan->graph.n_ops++;
    plan->lane[op] = lane;
    plan->duration[op] = us;
    plan->demand[op] = row_of[lane];
    plan->priority[op] = priority;
    if (a != AH_CLOCK_NO_OP)
        plan->dependency[plan->n_dependencies++] = a;
    if (b != AH_CLOCK_NO_OP)
        plan->dependency[plan->n_dependencies++] = b;
    plan->first[op + 1] = plan->n_dependencies;
    return op;
}

/* Adds ops that send, update and upload the tiles of a block. Returns the last upload. */
static uint32_t update(struct plan *plan, uint32_t backward, uint64_t needed_at)
{
    uint32_t upload = AH_CLOCK_NO_OP;
    for (int tile = 0; tile < TILES; tile++) {
        uint32_t send = add(plan, D2H, 40 + tile, needed_at, backward, AH_CLOCK_NO_OP);
        uint32_t adam = add(plan, HOST, 60 + tile, needed_at, send, AH_CLOCK_NO_OP);
        upload = add(plan, H2D, 40 + tile, needed_at, adam, AH_CLOCK_NO_OP);
    }
    return upload;
}

static void iterate(struct plan *plan, uint64_t iteration, uint32_t blocks, uint32_t *updated,
                    uint32_t *fetched)
{
    uint64_t length = 2 * (uint64_t)blocks;
    uint64_t base = iteration * length;
    uint32_t compute = plan->graph.n_ops ? (uint32_t)plan->graph.n_ops - 1 : AH_CLOCK_NO_OP;
    for (uint32_t b = 0; b < blocks; b++) {
        uint32_t fetch = add(plan, H2D, 100, base + b, updated[b], b >= 3 ? fetched[b - 3] : AH_CLOCK_NO_OP);
        compute = add(plan, COMPUTE, 200 + b % 7, base + b, fetch, b ? compute : AH_CLOCK_NO_OP);
        fetched[b] = compute; /* after this op, block b + 3 may use the memory */
    }
    for (uint32_t b = blocks; b-- > 0;) {
        uint64_t position = base + length - 1 - b;
        uint32_t fetch =
            add(plan, H2D, 100, position, b + 3 < blocks ? fetched[b + 3] : compute, AH_CLOCK_NO_OP);
        uint32_t recompute = add(plan, COMPUTE, 200, position, fetch, compute);
        compute = fetched[b] = add(plan, COMPUTE, 400 + b % 5, position, recompute, AH_CLOCK_NO_OP);
        updated[b] = update(plan, compute, base + length + b);
    }
}

static void build(struct plan *plan, uint32_t blocks)
{
    plan->max_ops = (size_t)blocks * OPS_PER_BLOCK * ITERATIONS;
    plan->duration = malloc(plan->max_ops * sizeof *plan->duration);
    plan->lane = malloc(plan->max_ops * sizeof *plan->lane);
    plan->demand = malloc(plan->max_ops * sizeof *plan->demand);
    plan->priority = malloc(plan->max_ops * sizeof *plan->priority);
    plan->first = calloc(plan->max_ops + 1, sizeof *plan->first);
    plan->dependency = malloc(plan->max_ops * DEPENDENCIES_PER_OP * sizeof *plan->dependency);
    uint32_t *updated = malloc(blocks * sizeof *updated);
    uint32_t *fetched = malloc(blocks * sizeof *fetched);
    if (!plan->duration || !plan->lane || !plan->demand || !plan->priority || !plan->first ||
        !plan->dependency || !updated || !fetched) {
        fprintf(stderr, "bench_clock: out of memory\n");
        exit(1);
    }
    memset(updated, 0xff, blocks * sizeof *updated);
    for (uint64_t iteration = 0; iteration < ITERATIONS; iteration++)
        iterate(plan, iteration, blocks, updated, fetched);
    free(updated);
    free(fetched);
}

static double timed_run(struct ah_clock *clock, const struct ah_clock_graph *graph,
                        struct ah_clock_result *result)
{
    struct ah_error err = {0};
    uint64_t begin = ah_threads_now_ns();
    if (ah_clock_run(clock, graph, result, &err)) {
        fprintf(stderr, "bench_clock: %s\n", err.text);
        exit(1);
    }
    return (double)(ah_threads_now_ns() - begin);
}

static void print_row(const char *name, double *ns, size_t rounds, size_t n_ops)
{
    struct ah_stats stats = ah_stats_of(ns, rounds);
    printf("%-10s %8.1f us   mad %6.1f   min %8.1f   %6.1f ns/op\n", name, stats.median / 1e3,
           stats.mad / 1e3, stats.min / 1e3, stats.median / (double)n_ops);
}

int main(int argc, char **argv)
{
    static double priority_ns[ROUNDS_MAX];
    static double frozen_ns[ROUNDS_MAX];
    const struct ah_share_demand demands[ROWS] = {
        [ROW_COMPUTE] = {.amount = {0}}, [ROW_COPY] = {.amount = {25e9}}, [ROW_ADAM] = {.amount = {150e9}}};
    const double dram_bytes_per_s[] = {170e9};
    const enum ah_clock_rule rules[LANES] = {AH_CLOCK_FROZEN, AH_CLOCK_PRIORITY, AH_CLOCK_PRIORITY,
                                             AH_CLOCK_PRIORITY};
    uint32_t blocks = (uint32_t)bench_option(argc, argv, "--blocks", 96, 100000);
    size_t rounds = bench_option(argc, argv, "--rounds", 200, ROUNDS_MAX);
    struct plan plan = {0};
    build(&plan, blocks);
    plan.graph = (struct ah_clock_graph){.n_ops = plan.graph.n_ops,
                                         .n_lanes = LANES,
                                         .n_demands = ROWS,
                                         .n_resources = 1,
                                         .duration_us = plan.duration,
                                         .lane = plan.lane,
                                         .demand = plan.demand,
                                         .priority = plan.priority,
                                         .dependency_first = plan.first,
                                         .dependency = plan.dependency,
                                         .rule = rules,
                                         .demands = demands,
                                         .capacity = dram_bytes_per_s};
    struct ah_clock clock = {0};
    struct ah_clock frozen_clock = {0};
    struct ah_error err = {0};
    struct ah_clock_result result;
    struct ah_clock_result again;
    if (ah_clock_reserve(&clock, &plan.graph, 1, &err) ||
        ah_clock_reserve(&frozen_clock, &plan.graph, 1, &err)) {
        fprintf(stderr, "bench_clock: %s\n", err.text);
        return 1;
    }
    for (size_t i = 0; i < rounds; i++) {
        priority_ns[i] = timed_run(&clock, &plan.graph, &result);
        struct ah_clock_graph frozen = plan.graph;
        frozen.rule = NULL;
        frozen.order = result.order;
        frozen_ns[i] = timed_run(&frozen_clock, &frozen, &again);
    }
    printf("%u blocks, %d iterations: %zu ops, %zu dependencies, %zu rounds; ends at %.0f us simulated, host "
           "lane slowed "
           "by %.0f us\n",
           blocks, (int)ITERATIONS, plan.graph.n_ops, plan.n_dependencies, rounds, result.end_us,
           result.lanes[HOST].slowed_us);
    print_row("priority", priority_ns, rounds, plan.graph.n_ops);
    print_row("frozen", frozen_ns, rounds, plan.graph.n_ops);
    ah_clock_release(&clock);
    ah_clock_release(&frozen_clock);
    free(plan.duration);
    free(plan.lane);
    free(plan.demand);
    free(plan.priority);
    free(plan.first);
    free(plan.dependency);
    return 0;
}
