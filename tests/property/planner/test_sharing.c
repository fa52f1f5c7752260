/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests resources made by pricing. On the virtual clock, each of two busy lanes must keep the fraction of its speed
 * that the machine document states. Documents are the example machines, profiles of a CPU, and random ones.
 */
#include "planner/cost/pricing_internal.h"
#include "runtime/device/virtual/clock.h"
#include "tests/support/documents.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LANES = 4, DOCUMENTS = 300 };

static const enum ah_plan_lane lane_of[LANES] = {[AH_PART_COMPUTE] = AH_PLAN_LANE_COMPUTE,
                                                 [AH_PART_H2D] = AH_PLAN_LANE_H2D,
                                                 [AH_PART_D2H] = AH_PLAN_LANE_D2H,
                                                 [AH_PART_HOST_ADAM] = AH_PLAN_LANE_HOST};

static void demand_of_part(const struct ah_plan_sharing *sharing, int part,
                           struct ah_share_demand *ret_demand)
{
    *ret_demand = (struct ah_share_demand){.weight = sharing->weights.of[lane_of[part]]};
    for (size_t r = 0; r < sharing->n_resources; r++) {
        ret_demand->amount[r] = sharing->resources[r].demand[lane_of[part]];
        assert_true(ret_demand->amount[r] >= 0 && ret_demand->amount[r] <= 1 + 1e-12);
    }
}

/* Returns the fraction of its speed that `part` keeps over 1 s of work while `beside` works all the time. */
static double kept_on_clock(const struct ah_plan_sharing *sharing, int part, int beside)
{
    struct ah_share_demand demands[2];
    demand_of_part(sharing, part, &demands[0]);
    demand_of_part(sharing, beside, &demands[1]);
    const double durations[] = {1e6, 1e9}, capacity[] = {1, 1, 1, 1, 1, 1, 1, 1};
    const uint32_t lanes[] = {0, 1}, rows[] = {0, 1};
    const size_t first[] = {0, 0, 0};
    struct ah_clock_graph graph = {.n_ops = 2,
                                   .n_lanes = 2,
                                   .n_demands = 2,
                                   .n_resources = sharing->n_resources,
                                   .duration_us = durations,
                                   .lane = lanes,
                                   .demand = rows,
                                   .dependency_first = first,
                                   .demands = demands,
                                   .capacity = capacity};
    struct ah_clock clock = {0};
    struct ah_clock_result result;
    struct ah_error err = {0};
    CHECK_OK(ah_clock_reserve(&clock, &graph, 1, &err), err);
    CHECK_OK(ah_clock_run(&clock, &graph, &result, &err), err);
    double kept = 1e6 / result.spans[0].finish_us;
    ah_clock_release(&clock);
    return kept;
}

/* Returns the largest difference between what a pair keeps on the clock and in the document. */
static double worst(const struct ah_machine *machine, bool sums_only)
{
    struct ah_arena arena = {0};
    struct ah_plan_sharing sharing;
    struct ah_error err = {0};
    double most = 0;
    CHECK_OK(ah_pricing_share(machine, &arena, &sharing, &err), err);
    for (int p = 0; p < LANES; p++) {
        for (int q = p + 1; q < LANES; q++) {
            double there_p = fmin(1, ah_machine_kept(machine, (enum ah_part)p, (enum ah_part)q));
            double there_q = fmin(1, ah_machine_kept(machine, (enum ah_part)q, (enum ah_part)p));
            double here_p = kept_on_clock(&sharing, p, q), here_q = kept_on_clock(&sharing, q, p);
            double difference = sums_only ? fabs(here_p + here_q - fmax(1, there_p + there_q))
                                          : fmax(fabs(here_p - there_p), fabs(here_q - there_q));
            most = fmax(most, difference);
        }
    }
    ah_arena_release(&arena);
    return most;
}

TEST(sharing, example_machines)
{
    static const char *const machines[] = {"a100-40g-epyc7713", "rtx4090-64g", "h200-16c-128g"};
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
        struct ah_document document = {0};
        load_example(&document, AH_DOCUMENT_MACHINE, machines[i]);
        double difference = worst(document.body.machine, false);
        if (difference > 1e-6)
            fail_msg("%s: %g", machines[i], difference);
        ah_document_release(&document);
    }
}

/* What the parts of a machine keep, as a table kept[part][beside]. */
struct table {
    struct ah_machine machine;
    struct ah_machine_beside beside[LANES * LANES];
    struct ah_machine_adam adam;
};

static void set_table(struct table *t, const double kept[LANES][LANES], enum ah_device_kind kind,
                      double share)
{
    *t = (struct table){.machine = {.device.kind = kind}};
    t->adam = (struct ah_machine_adam){.side = AH_HOST, .bandwidth_share = share};
    t->machine.adam = &t->adam;
    t->machine.n_adam = 1;
    t->machine.beside = t->beside;
    for (int p = 0; p < LANES; p++)
        for (int q = 0; q < LANES; q++)
            if (p != q)
                t->beside[t->machine.n_beside++] =
                    (struct ah_machine_beside){(enum ah_part)p, (enum ah_part)q, {.median = kept[p][q]}};
}

/* Makes a full profile of a virtual machine with two cores. The parts are compute, h2d, d2h, host_adam. */
TEST(sharing, a_cpu_profile)
{
    static const double kept[LANES][LANES] = {{1, 1.002, 1.019, 1.012},
                                              {1.009, 1, 0.534, 0.544},
                                              {0.961, 0.501, 1, 0.550},
                                              {0.993, 0.511, 0.526, 1}};
    struct table t;
    set_table(&t, kept, AH_DEVICE_CPU, 1.02);
    assert_true(worst(&t.machine, false) < 0.025);
    assert_true(worst(&t.machine, true) < 1e-6);
}

/* No weights explain these fractions. Each fraction is within 0.02, and the sum of each pair is exact. */
TEST(sharing, weights_that_disagree)
{
    static const double kept[LANES][LANES] = {
        {1, 0.93, 0.94, 0.96}, {0.88, 1, 0.71, 0.74}, {0.89, 0.72, 1, 0.76}, {0.97, 0.81, 0.82, 1}};
    struct table t;
    set_table(&t, kept, AH_DEVICE_CPU, 0.95);
    assert_true(worst(&t.machine, false) < 0.02);
    assert_true(worst(&t.machine, true) < 1e-6);
}

TEST(sharing, one_gives_way)
{
    static const double kept[LANES][LANES] = {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, {1, 0.6, 0.6, 1}};
    struct table t;
    set_table(&t, kept, AH_DEVICE_CUDA, 0.9);
    assert_true(worst(&t.machine, false) < 1e-6);
}

TEST(sharing, nothing_shared)
{
    struct ah_machine machine = {.device.kind = AH_DEVICE_CUDA};
    struct ah_arena arena = {0};
    struct ah_plan_sharing sharing;
    struct ah_error err = {0};
    CHECK_OK(ah_pricing_share(&machine, &arena, &sharing, &err), err);
    assert_int_equal(sharing.n_resources, 0);
    ah_arena_release(&arena);
}

/* In any table, the sum of each pair is right. If weights explain the table, each fraction is also right. */
TEST(sharing, random_documents)
{
    uint64_t random = check_seed(41);
    for (int i = 0; i < DOCUMENTS; i++) {
        double kept[LANES][LANES] = {{0}}, weight[LANES];
        bool consistent = i % 2;
        for (int p = 0; p < LANES; p++)
            weight[p] = 0.6 + 0.4 * check_uniform(&random);
        for (int p = 0; p < LANES; p++)
            for (int q = 0; q < p; q++) {
                double both = 1.05 + 0.9 * check_uniform(&random);
                double ratio = weight[p] / (weight[p] + weight[q]);
                kept[p][q] = consistent ? both * ratio : 0.3 + 0.8 * check_uniform(&random);
                kept[q][p] = consistent ? both * (1 - ratio) : 0.3 + 0.8 * check_uniform(&random);
                if (consistent && (kept[p][q] > 1 || kept[q][p] > 1))
                    kept[p][q] = kept[q][p] = 1;
            }
        struct table t;
        set_table(&t, (const double(*)[LANES])kept,
                  check_random(&random) % 2 ? AH_DEVICE_CPU : AH_DEVICE_CUDA,
                  0.5 + 0.5 * check_uniform(&random));
        double difference = worst(&t.machine, !consistent);
        if (difference > 1e-6)
            fail_msg("document %d (%s): %g", i, consistent ? "consistent" : "any", difference);
    }
}
