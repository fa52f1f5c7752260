/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the grouping bound with the optimum of an exhausted search, which test_exhaust.c compares with all plans.
 * The bound never exceeds the optimum, and is closer to the optimum than the relaxation.
 */
#include "planner/cluster/bound/bound_raise.h"
#include "planner/cluster/bound/grouping.h"
#include "planner/cluster/bound/relaxation.h"
#include "tests/property/cluster/optimum.h"
#include "tests/property/cluster/problems.h"

#include <math.h>
#include <stdio.h>

enum { INSTANCES = 4000, HALVES = 12 };

#define STEPS UINT64_C(20000000)

struct tally {
    size_t problems, closer, proven;
    double relaxed_gap, grouped_gap;
};

static bool proves(struct ah_grouping *grouping, double step_us)
{
    uint64_t steps = STEPS;
    bool does;
    struct ah_error err = {0};
    CHECK_OK(ah_grouping_proves(grouping, step_us, &steps, &does, &err), err);
    return does;
}

/* Gives known bounds to two settings like this one. The second's bound is raised to the first's, and no further. */
static void check_certificate(const struct ah_cluster_problem *in, double relaxed_us, double optimum_us)
{
    struct ah_setting settings[] = {{.problem = *in, .bound_us = relaxed_us},
                                    {.problem = *in, .bound_us = relaxed_us}};
    struct ah_error err = {0};
    CHECK_OK(ah_bound_raise(settings, 2, 2 * optimum_us, STEPS, &err), err);
    assert_true(settings[0].bound_us <= optimum_us * (1 + 1e-6) &&
                settings[1].bound_us <= settings[0].bound_us);
    assert_true(settings[0].bound_us >= relaxed_us && settings[1].bound_us >= relaxed_us);
    settings[0].bound_us = relaxed_us;
    CHECK_OK(ah_bound_raise(settings, 1, fmin(1.001 * relaxed_us, optimum_us), STEPS, &err), err);
    assert_true(settings[0].bound_us <= fmin(1.001 * relaxed_us, optimum_us));
}

static void check(const struct ah_cluster_problem *in, double optimum_us, struct tally *tally)
{
    struct ah_grouping grouping;
    struct ah_error err = {0};
    double relaxed_us;
    bool can;
    CHECK_OK(ah_relaxation_time(in, &relaxed_us, &err), err);
    CHECK_OK(ah_grouping_init(&grouping, in, &can, &err), err);
    assert_true(can);
    if (proves(&grouping, optimum_us * (1 + 1e-6)))
        fail_msg("a step of %.6f us is said to be too short, but there is one", optimum_us);
    double low = 0, high = optimum_us * (1 + 1e-6);
    for (int i = 0; i < HALVES; i++) {
        double middle = (low + high) / 2;
        *(proves(&grouping, middle) ? &low : &high) = middle;
    }
    tally->problems++;
    tally->closer += low > relaxed_us;
    tally->proven += low > 0.995 * optimum_us;
    tally->relaxed_gap += 1 - relaxed_us / optimum_us;
    tally->grouped_gap += 1 - fmax(low, relaxed_us) / optimum_us;
    ah_grouping_release(&grouping);
    if (tally->problems % 8 == 0)
        check_certificate(in, relaxed_us, optimum_us);
}

TEST(grouping, is_below_the_optimum)
{
    size_t problems = check_scaled(INSTANCES);
    uint64_t random = 0x853c49e6748fea9b;
    struct tally tally = {0};
    while (tally.problems < problems) {
        struct case_problem c;
        draw_problem(&c, &random, 7, MOST_UNITS, 9);
        for (size_t b = 0; b < c.problem.n_blocks && tally.problems % 2; b++) /* makes sums matter */
            c.gradient_bytes[b] *= 10;
        double optimum_us = find_optimum_us(&c.problem);
        if (!isinf(optimum_us))
            check(&c.problem, optimum_us, &tally);
    }
    double n = (double)tally.problems;
    printf("%zu instances: on average the relaxation is %.1f %% below the optimum, grouping %.1f %%; closer "
           "for %zu, "
           "within 0.5 %% for %zu\n",
           tally.problems, 100 * tally.relaxed_gap / n, 100 * tally.grouped_gap / n, tally.closer,
           tally.proven);
    assert_true(tally.grouped_gap < 0.7 * tally.relaxed_gap);
    assert_true(tally.closer > tally.problems / 2);
}
