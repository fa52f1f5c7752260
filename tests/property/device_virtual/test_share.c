/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests random parts and resources. Speeds must satisfy the characterisation of max-min fairness (share.c, invariants 1
 * to 3), which determines them uniquely. They must equal the speeds found by bisection.
 */
#include "runtime/device/virtual/share.h"
#include "tests/property/device_virtual/fill.h"
#include "tests/support/check.h"

#include <stdbool.h>

enum { CASES = 4000 };

struct instance {
    struct ah_share_demand demands[AH_SHARE_PARTS];
    const struct ah_share_demand *parts[AH_SHARE_PARTS];
    double capacity[AH_SHARE_RESOURCES];
    size_t n;
    size_t n_resources;
};

static struct instance *draw(uint64_t *seed)
{
    static struct instance it;
    it = (struct instance){.n = 1 + check_random(seed) % AH_SHARE_PARTS,
                           .n_resources = check_random(seed) % (AH_SHARE_RESOURCES + 1)};
    bool weighted = check_random(seed) % 2;
    bool coarse = check_random(seed) % 2; /* if so, few different numbers: several parts stop at one time */
    for (size_t r = 0; r < it.n_resources; r++)
        it.capacity[r] = coarse ? (double)(1 + check_random(seed) % 4) : 0.1 + 5 * check_uniform(seed);
    for (size_t i = 0; i < it.n; i++) {
        for (size_t r = 0; r < it.n_resources; r++)
            if (check_random(seed) % 3 == 0)
                it.demands[i].amount[r] = coarse ? (double)(check_random(seed) % 4) : 4 * check_uniform(seed);
        if (weighted && check_random(seed) % 2)
            it.demands[i].weight =
                coarse ? (double)(1 + check_random(seed) % 3) : 0.1 + 3 * check_uniform(seed);
        it.parts[i] = &it.demands[i];
    }
    return &it;
}

static double level_of(const struct instance *it, const double *speeds, size_t i)
{
    return speeds[i] / (it->demands[i].weight > 0 ? it->demands[i].weight : 1);
}

static double use_of(const struct instance *it, const double *speeds, size_t r)
{
    double use = 0;
    for (size_t i = 0; i < it->n; i++)
        use += speeds[i] * it->demands[i].amount[r];
    return use;
}

static void check_fair(const struct instance *it, const double *speeds, const uint8_t *limits)
{
    for (size_t r = 0; r < it->n_resources; r++)
        assert_true(use_of(it, speeds, r) <= it->capacity[r] * (1 + 1e-12));
    for (size_t i = 0; i < it->n; i++) {
        assert_true(speeds[i] > 0 && speeds[i] <= 1);
        assert_int_equal(limits[i] == AH_SHARE_NONE, speeds[i] >= 1);
        if (limits[i] == AH_SHARE_NONE)
            continue;
        assert_true(limits[i] < it->n_resources);
        assert_true(it->demands[i].amount[limits[i]] > 0);
        check_near(use_of(it, speeds, limits[i]) / it->capacity[limits[i]], 1, 1e-12);
        for (size_t j = 0; j < it->n; j++)
            if (it->demands[j].amount[limits[i]] > 0)
                assert_true(level_of(it, speeds, j) <= level_of(it, speeds, i) * (1 + 1e-12));
    }
}

TEST(share, speeds_are_max_min_fair)
{
    uint64_t seed = check_seed(20240801);
    size_t limited = 0;
    for (int c = 0; c < CASES; c++) {
        const struct instance *it = draw(&seed);
        double speeds[AH_SHARE_PARTS];
        uint8_t limits[AH_SHARE_PARTS];
        ah_share_fill(it->parts, it->n, it->capacity, it->n_resources, speeds, limits);
        check_fair(it, speeds, limits);
        for (size_t i = 0; i < it->n; i++)
            limited += limits[i] != AH_SHARE_NONE;
    }
    assert_true(limited > CASES); /* parts contend for resources */
}

TEST(share, speeds_equal_those_of_bisection)
{
    uint64_t seed = check_seed(20240802);
    for (int c = 0; c < CASES; c++) {
        const struct instance *it = draw(&seed);
        double speeds[AH_SHARE_PARTS];
        double expected[AH_SHARE_PARTS];
        uint8_t limits[AH_SHARE_PARTS];
        ah_share_fill(it->parts, it->n, it->capacity, it->n_resources, speeds, limits);
        fill_by_bisection(it->parts, it->n, it->capacity, it->n_resources, expected);
        for (size_t i = 0; i < it->n; i++)
            check_near(speeds[i], expected[i], 1e-9);
    }
}

/* The smallest and the largest amounts that the clock admits occur together. */
TEST(share, extreme_amounts_keep_speeds_positive)
{
    uint64_t seed = check_seed(20240803);
    const double amounts[] = {0, 1e-300, 1e-20, 1e-6, 1, 1e6};
    for (int c = 0; c < CASES; c++) {
        struct instance *it = draw(&seed);
        double speeds[AH_SHARE_PARTS];
        uint8_t limits[AH_SHARE_PARTS];
        for (size_t r = 0; r < it->n_resources; r++) {
            it->capacity[r] = 1;
            for (size_t i = 0; i < it->n; i++)
                it->demands[i].amount[r] = amounts[check_random(&seed) % 6];
        }
        ah_share_fill(it->parts, it->n, it->capacity, it->n_resources, speeds, limits);
        for (size_t i = 0; i < it->n; i++)
            assert_true(speeds[i] > 1e-14 && speeds[i] <= 1);
    }
}

/* Two resources have equal demands, and their sizes differ only in the last bits. One part needs almost nothing of the
 * second resource. Rounding must not make the rest of the second resource negative. */
TEST(share, nearly_equal_resources_keep_speeds_positive)
{
    uint64_t seed = check_seed(20240804);
    for (int c = 0; c < CASES; c++) {
        struct ah_share_demand demands[8] = {{.amount = {0, 1e-20}}};
        const struct ah_share_demand *parts[8] = {&demands[0]};
        const double capacity[] = {1, 1 + (double)(check_random(&seed) % 8) * 0x1p-52};
        double speeds[8];
        uint8_t limits[8];
        for (size_t i = 1; i < 8; i++) {
            demands[i].amount[0] = demands[i].amount[1] = 0.2 + check_uniform(&seed);
            parts[i] = &demands[i];
        }
        ah_share_fill(parts, 8, capacity, 2, speeds, limits);
        for (size_t i = 0; i < 8; i++)
            assert_true(speeds[i] > 0.1 && speeds[i] <= 1);
    }
}
