/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests which token is chosen: counts over a fine grid of random numbers against probabilities in double.
 */
#include "runtime/sample/pick.h"

#include "tests/support/check.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { N_MAX = 512, GRID = 1 << 14 };

static struct ah_pick_chance room[N_MAX];

/* The largest number below 1. */
static const double LAST = 1 - 0x1p-53;

static uint32_t pick(const float *logits, size_t n, double temperature, double top_p, double uniform)
{
    const struct ah_pick how = {.vocabulary = n, .temperature = temperature, .top_p = top_p, .room = room};
    return ah_pick(&how, logits, uniform);
}

TEST(pick, is_the_first_of_equals)
{
    const float logits[] = {-1, 3, 3, -INFINITY, 3}, same[] = {2, 2}, none[] = {-INFINITY, -3e38f};
    assert_int_equal(pick(logits, 5, 0, 1, 0.9), 1);
    assert_int_equal(pick(logits + 2, 3, 0, 1, 0.9), 0);
    assert_int_equal(pick(same, 2, 0, 1, 0.9), 0);
    assert_int_equal(pick(none, 2, 0, 1, 0), 1);
    assert_int_equal(pick(logits, 1, 0, 1, 0), 0);
}

/* Counts how often each token is chosen over a grid of random numbers. */
static void count(const float *logits, size_t n, double temperature, double top_p, unsigned counts[N_MAX])
{
    memset(counts, 0, N_MAX * sizeof *counts);
    for (size_t i = 0; i < GRID; i++) {
        const uint32_t token = pick(logits, n, temperature, top_p, ((double)i + 0.5) / GRID);
        assert_true(token < n);
        counts[token]++;
    }
}

/* A token owns one interval of random numbers, so its count is at most one off. */
static void check_counts(const unsigned *counts, const double *probabilities, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs(counts[i] - probabilities[i] * GRID) <= 1.001))
            fail_msg("token %zu: %u of %d, not %.2f", i, counts[i], GRID, probabilities[i] * GRID);
}

static void softmax(const float *logits, size_t n, double temperature, double *ret_probabilities)
{
    double most = (double)logits[0], sum = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, (double)logits[i]);
    for (size_t i = 0; i < n; i++)
        sum += ret_probabilities[i] = exp(((double)logits[i] - most) / temperature);
    for (size_t i = 0; i < n; i++)
        ret_probabilities[i] /= sum;
}

static void fill(float *logits, size_t n, uint64_t *seed)
{
    for (size_t i = 0; i < n; i++)
        logits[i] = (float)(8 * check_uniform(seed) - 4);
}

TEST(pick, draws_by_softmax)
{
    static const size_t sizes[] = {1, 2, 3, 17, 300};
    static const double temperatures[] = {0.2, 1, 5};
    float logits[N_MAX];
    double probabilities[N_MAX];
    unsigned counts[N_MAX];
    uint64_t seed = check_seed(3);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t k = 0; k < 3; k++) {
            fill(logits, sizes[i], &seed);
            softmax(logits, sizes[i], temperatures[k], probabilities);
            count(logits, sizes[i], temperatures[k], 1, counts);
            check_counts(counts, probabilities, sizes[i]);
        }
}

/* Finds the fewest most probable tokens with `top_p` together by taking the next one again and again, and makes their
 * probabilities 1 together. Returns their number. */
static size_t cut(double *probabilities, size_t n, double top_p)
{
    bool taken[N_MAX] = {false};
    double sum = 0;
    size_t kept = 0;
    while (kept < n && sum < top_p) {
        size_t best = n;
        for (size_t i = 0; i < n; i++)
            if (!taken[i] && (best == n || probabilities[i] > probabilities[best]))
                best = i;
        taken[best] = true;
        sum += probabilities[best];
        kept++;
    }
    for (size_t i = 0; i < n; i++)
        probabilities[i] = taken[i] ? probabilities[i] / sum : 0;
    return kept;
}

TEST(pick, keeps_the_fewest_that_have_top_p)
{
    static const double parts[] = {0.1, 0.5, 0.9, 0.99};
    enum { N = 60 };
    float logits[N];
    double probabilities[N];
    unsigned counts[N_MAX];
    uint64_t seed = check_seed(5);
    size_t before = 0;
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        fill(logits, N, &seed);
        softmax(logits, N, 1, probabilities);
        const size_t kept = cut(probabilities, N, parts[k]);
        count(logits, N, 1, parts[k], counts);
        check_counts(counts, probabilities, N);
        for (size_t i = 0; i < N; i++)
            if (probabilities[i] == 0)
                assert_int_equal(counts[i], 0);
        assert_true(kept > before && kept < N);
        before = kept;
    }
}

/* Two of four equal tokens have half of all weight exactly. */
TEST(pick, takes_equals_in_the_order_of_the_vocabulary)
{
    const float logits[] = {-INFINITY, 7, 7, -100, 7, 7};
    const double halves[] = {0, 0.5, 0.5, 0, 0, 0}, all[] = {0, 0.25, 0.25, 0, 0.25, 0.25};
    unsigned counts[N_MAX];
    count(logits, 6, 1, 0.5, counts);
    check_counts(counts, halves, 6);
    count(logits, 6, 1, 1, counts);
    check_counts(counts, all, 6);
    for (size_t i = 0; i < 4; i++) { /* each with a quarter, in order */
        const uint32_t tokens[] = {1, 2, 4, 5};
        assert_int_equal(pick(logits, 6, 1, 1, (double)i / 4), tokens[i]);
        assert_int_equal(pick(logits, 6, 1, 0.99, (double)i / 4), tokens[i]);
    }
}

TEST(pick, leaves_one_token_to_the_least_top_p)
{
    const float logits[] = {1, 2, 5, 5, -3};
    static const double least[] = {1e-300, 5e-324, 1e-9, 0.1};
    for (size_t i = 0; i < sizeof least / sizeof *least; i++) {
        assert_int_equal(pick(logits, 5, 1, least[i], 0), 2);
        assert_int_equal(pick(logits, 5, 1, least[i], 0.5), 2);
        assert_int_equal(pick(logits, 5, 1, least[i], LAST), 2);
    }
}

/* Weights are at most 1, so nothing overflows. A token with weight 0 is never chosen. */
TEST(pick, bears_huge_logits_and_temperatures)
{
    const float huge[] = {-3e38f, 1e30f, -INFINITY, 1e30f, 3e29f}, small[] = {0, 1e-30f, -INFINITY};
    static const double uniforms[] = {0, 0.25, 0.499, 0.5, 0.75, 1 - 0x1p-53};
    for (size_t i = 0; i < sizeof uniforms / sizeof *uniforms; i++)
        for (double top_p = 0.6; top_p <= 1; top_p += 0.4) {
            const uint32_t expected = uniforms[i] < 0.5 ? 1 : 3;
            assert_int_equal(pick(huge, 5, 1, top_p, uniforms[i]), expected);
            assert_int_equal(pick(huge, 5, 1e-300, top_p, uniforms[i]), expected);
            assert_int_equal(pick(huge, 5, 5e-324, top_p, uniforms[i]), expected);
            assert_in_range(pick(small, 3, 100, top_p, uniforms[i]), 0, 1);
            assert_int_equal(pick(small, 3, 1e-40, top_p, uniforms[i]), 1);
        }
}

/* The last random number chooses a token of the set, never one beyond it, whatever rounding does. */
TEST(pick, never_leaves_the_set)
{
    float logits[N_MAX];
    uint64_t seed = check_seed(11);
    for (size_t round = 0; round < 30; round++) {
        const size_t n = 2 + check_draw(&seed, N_MAX - 2);
        double probabilities[N_MAX];
        fill(logits, n, &seed);
        logits[n - 1] = -INFINITY;
        for (double top_p = 0.05; top_p <= 1; top_p += 0.05) {
            softmax(logits, n, 1, probabilities);
            cut(probabilities, n, top_p < 0.99 ? top_p + 1e-9 : 1);
            assert_true(probabilities[pick(logits, n, 1, top_p, LAST)] > 0);
        }
    }
}
