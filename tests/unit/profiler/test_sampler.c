/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the sampler with simulated work. A script says how long each block takes, and only these times move the clock.
 */
#include "profiler/sampler.h"

#include "tests/support/check.h"

#include <math.h>
#include <string.h>

struct world {
    uint64_t now_ns;
    unsigned blocks; /* number of blocks run by all works */
    char order[512]; /* for each block, the name of the work that ran it */
};

struct script {
    struct world *world;
    char name;
    double each_s;                                  /* seconds per repeat */
    double (*factor)(unsigned block, double now_s); /* (optional) slowdown of a block */
    unsigned blocks;
    uint64_t repeats; /* repeats in the last block */
    int fails_at;     /* number of the block that fails; 0: none */
};

static int run_script(void *context, uint64_t repeats, double *ret_seconds, struct ah_error *err)
{
    struct script *script = context;
    struct world *world = script->world;
    if (world->blocks + 1 < sizeof world->order)
        world->order[world->blocks++] = script->name;
    script->blocks++;
    script->repeats = repeats;
    if (script->fails_at && script->blocks == (unsigned)script->fails_at)
        return ah_error_set(err, AH_E_FAILED, "work %c broke", script->name);
    double factor = script->factor ? script->factor(script->blocks, (double)world->now_ns * 1e-9) : 1;
    *ret_seconds = (double)repeats * script->each_s * factor;
    world->now_ns += (uint64_t)(*ret_seconds * 1e9);
    return AH_OK;
}

static uint64_t world_now(void *context)
{
    return ((struct world *)context)->now_ns;
}

static struct ah_sampler sampler_of(struct world *world)
{
    return (struct ah_sampler){.clock = {world_now, world}, .block_s = 0.004, .warm_s = 0.2};
}

static struct ah_sampler_work work_of(struct script *script)
{
    return (struct ah_sampler_work){.run = run_script, .context = script};
}

/* The first six blocks are cold. */
static double cold_start(unsigned block, double now_s)
{
    (void)now_s;
    return block <= 6 ? 3.0 - 0.3 * block : 1.0;
}

TEST(sampler, warms_up_until_blocks_agree)
{
    struct ah_error err;
    struct world world = {0};
    struct script script = {.world = &world, .name = 'a', .each_s = 0.0011, .factor = cold_start};
    struct ah_sampler sampler = sampler_of(&world);
    struct ah_sampler_work work = work_of(&script);
    uint64_t repeats = 0;
    double seconds = 0;
    CHECK_OK(ah_sampler_settle(&sampler, &work, &repeats, &seconds, &err), err);
    assert_int_equal(script.blocks, 9); /* six cold blocks, and three that agree */
    assert_true((double)repeats * 0.0011 >= 0.004 && (double)(repeats - 1) * 0.0011 < 0.0045);
}

static double never_calm(unsigned block, double now_s)
{
    (void)now_s;
    return block % 2 ? 2.0 : 1.0;
}

TEST(sampler, gives_up_warming_up)
{
    struct ah_error err;
    struct world world = {0};
    struct script script = {.world = &world, .name = 'a', .each_s = 0.004, .factor = never_calm};
    struct ah_sampler sampler = sampler_of(&world);
    struct ah_sampler_work work = work_of(&script);
    uint64_t repeats = 0;
    double seconds = 0;
    CHECK_OK(ah_sampler_settle(&sampler, &work, &repeats, &seconds, &err), err);
    assert_true(world.now_ns >= 200000000 && world.now_ns < 230000000);
}

/* The number of the block during which the processor does other work. */
static unsigned stalled_block;

static double stalls(unsigned block, double now_s)
{
    (void)now_s;
    return block == stalled_block ? 100.0 : 1.0 + 0.05 * (block % 2);
}

TEST(sampler, a_stall_while_warming_up_counts_for_nothing)
{
    for (stalled_block = 1; stalled_block <= 50; stalled_block++) {
        struct ah_error err;
        struct world world = {0};
        struct script script = {.world = &world, .name = 'a', .each_s = 0.0041, .factor = stalls};
        struct ah_sampler sampler = sampler_of(&world);
        struct ah_sampler_work work = work_of(&script);
        uint64_t repeats = 0;
        double seconds = 0;
        CHECK_OK(ah_sampler_settle(&sampler, &work, &repeats, &seconds, &err), err);
        assert_true(seconds < 1.06 * 0.0041 && repeats >= 1 && repeats <= 2);
    }
}

TEST(sampler, short_work_is_repeated)
{
    struct ah_error err;
    struct world world = {0};
    struct script script = {.world = &world, .name = 'a', .each_s = 1e-6};
    struct ah_sampler sampler = sampler_of(&world);
    struct ah_sampler_work work = work_of(&script);
    uint64_t repeats = 0;
    double seconds = 0;
    CHECK_OK(ah_sampler_settle(&sampler, &work, &repeats, &seconds, &err), err);
    assert_true(repeats >= 4000 && repeats <= 4400);
    work.repeats_max = 100;
    CHECK_OK(ah_sampler_settle(&sampler, &work, &repeats, &seconds, &err), err);
    assert_int_equal(repeats, 100);
}

TEST(sampler, takes_turns)
{
    struct ah_error err;
    struct world world = {0};
    struct script a = {.world = &world, .name = 'a', .each_s = 0.005};
    struct script b = {.world = &world, .name = 'b', .each_s = 0.007};
    struct ah_sampler sampler = sampler_of(&world);
    sampler.blocks = 2;
    struct ah_sampler_work works[] = {work_of(&a), work_of(&b)};
    struct ah_sampler_series series[2];
    CHECK_OK(ah_sampler_measure(&sampler, works, 2, series, &err), err);
    assert_int_equal(series[0].n, 10);
    assert_int_equal(series[1].n, 10);
    /* First come the warm-ups of a and b, and then ten turns with two blocks of each. */
    assert_string_equal(world.order, "aaabbb"
                                     "aabbaabbaabbaabbaabbaabbaabbaabbaabbaabb");
    check_near(series[0].values[9], 0.005, 1e-6);
    check_near(series[1].values[9], 0.007, 1e-6);
}

/* Slows the first and the last of three blocks, as an interruption would. */
static double interrupted(unsigned block, double now_s)
{
    (void)now_s;
    return block % 3 == 2 ? 1.0 : 1.5;
}

TEST(sampler, a_sample_is_its_fastest_block)
{
    struct ah_error err;
    struct world world = {0};
    struct script script = {.world = &world, .name = 'a', .each_s = 0.004, .factor = interrupted};
    struct ah_sampler sampler = sampler_of(&world);
    struct ah_sampler_work work = work_of(&script);
    double seconds = 0;
    CHECK_OK(ah_sampler_sample(&sampler, &work, 1, &seconds, &err), err);
    check_near(seconds * 1e3, 4, 1e-9);
    assert_int_equal(script.blocks, 3);
}

/* Work takes 1.5 times as long between 0.3 s and 0.5 s. */
static double slow_spell(unsigned block, double now_s)
{
    (void)block;
    return now_s > 0.30 && now_s < 0.50 ? 1.5 : 1.0;
}

TEST(sampler, a_slow_spell_moves_no_median)
{
    struct ah_error err;
    struct world world = {0};
    struct script a = {.world = &world, .name = 'a', .each_s = 0.005, .factor = slow_spell};
    struct script b = {.world = &world, .name = 'b', .each_s = 0.005, .factor = slow_spell};
    struct ah_sampler sampler = sampler_of(&world);
    sampler.samples_min = 21;
    struct ah_sampler_work works[] = {work_of(&a), work_of(&b)};
    struct ah_sampler_series series[2];
    CHECK_OK(ah_sampler_measure(&sampler, works, 2, series, &err), err);
    for (int i = 0; i < 2; i++) {
        struct ah_metric metric = ah_sampler_metric(&series[i], 1e3);
        check_near(metric.median, 5.0, 1e-6);
        assert_true(metric.max > 7.0); /* both works were slow during the spell */
    }
}

TEST(sampler, rounds_may_come_in_goes)
{
    struct ah_error err;
    struct world world = {0};
    struct script script = {.world = &world, .name = 'a', .each_s = 0.01};
    struct ah_sampler sampler = sampler_of(&world);
    sampler.samples_min = 4;
    sampler.blocks = 1;
    struct ah_sampler_work work = work_of(&script);
    struct ah_sampler_set set;
    struct ah_sampler_series series = {.n = 0};
    CHECK_OK(ah_sampler_begin(&sampler, &work, 1, &set, &err), err);
    for (unsigned go = 1; go <= 3; go++) {
        CHECK_OK(ah_sampler_continue(&sampler, &set, &series, &err), err);
        assert_int_equal(series.n, 4 * go);
        assert_int_equal(script.blocks, 3 + 4 * go); /* warmed up only once */
    }
    for (unsigned go = 0; go < 30; go++)
        CHECK_OK(ah_sampler_continue(&sampler, &set, &series, &err), err);
    assert_int_equal(series.n, AH_SAMPLER_SAMPLES_MAX); /* the series is full */
}

static double noise_of_five_percent(unsigned block, double now_s)
{
    (void)now_s;
    return 1.0 + 0.05 * sin(block * 7.7);
}

TEST(sampler, restless_series_get_more_samples)
{
    struct ah_error err;
    struct world world = {0};
    struct script script = {.world = &world, .name = 'a', .each_s = 0.01, .factor = noise_of_five_percent};
    struct ah_sampler sampler = sampler_of(&world);
    sampler.blocks = 1;
    sampler.samples_min = 10;
    sampler.samples_max = 40;
    struct ah_sampler_work work = work_of(&script);
    struct ah_sampler_series series;

    CHECK_OK(ah_sampler_measure(&sampler, &work, 1, &series, &err), err);
    assert_int_equal(series.n, 10); /* without a budget, the minimum is taken */
    sampler.budget_s = 0.4;         /* of this, the warm-up takes 0.2, because the work never settles */
    CHECK_OK(ah_sampler_measure(&sampler, &work, 1, &series, &err), err);
    assert_in_range(series.n, 18, 21); /* as many samples as the budget allows */
    sampler.budget_s = 60;
    CHECK_OK(ah_sampler_measure(&sampler, &work, 1, &series, &err), err);
    assert_int_equal(series.n, 40);
    script.factor = NULL;
    CHECK_OK(ah_sampler_measure(&sampler, &work, 1, &series, &err), err);
    assert_int_equal(series.n, 10); /* the work is calm from the start */
}

TEST(sampler, a_tight_budget_takes_blocks)
{
    struct ah_error err;
    struct world world = {0};
    struct script script = {.world = &world, .name = 'a', .each_s = 0.01};
    struct ah_sampler sampler = sampler_of(&world);
    sampler.blocks = 3;
    sampler.budget_s = 0.25;
    struct ah_sampler_work work = work_of(&script);
    struct ah_sampler_series series;
    CHECK_OK(ah_sampler_measure(&sampler, &work, 1, &series, &err), err);
    assert_int_equal(series.n, 10);
    assert_int_equal(script.blocks, 3 + 2 * 10); /* after the warm-up, a sample has two blocks */
    script.blocks = 0;
    sampler.budget_s = 0.01;
    CHECK_OK(ah_sampler_measure(&sampler, &work, 1, &series, &err), err);
    assert_int_equal(script.blocks, 3 + 10);
}

struct ratio_world {
    double slow; /* slowdown; it grows each round as the machine drifts */
};

static int ratio_round(void *context, double *ret_values, struct ah_error *err)
{
    struct ratio_world *world = context;
    (void)err;
    double alone = 1.0 * world->slow;
    double beside = 1.25 * world->slow;
    ret_values[0] = alone / beside;
    ret_values[1] = alone;
    world->slow *= 1.1;
    return AH_OK;
}

TEST(sampler, ratios_within_a_round_survive_drift)
{
    struct ah_error err;
    struct ratio_world world = {1};
    struct ah_sampler sampler = {.samples_min = 12};
    struct ah_sampler_series series[2] = {{.n = 0}};
    double amount;
    CHECK_OK(ah_sampler_rounds(&sampler, ratio_round, &world, 2, series, &err), err);
    struct ah_metric kept = ah_sampler_metric(&series[0], 1);
    assert_int_equal(kept.n, 12);
    check_near(kept.median, 0.8, 1e-12);
    check_near(kept.max - kept.min, 0, 1e-12);
    assert_int_equal(ah_sampler_judge(&series[0], &amount), AH_SAMPLER_CALM);
    assert_int_not_equal(ah_sampler_judge(&series[1], &amount), AH_SAMPLER_CALM);
}

TEST(sampler, rates)
{
    struct ah_sampler_series series = {.values = {2, 4, 1}, .n = 3};
    struct ah_metric rate = ah_sampler_rate(&series, 8);
    assert_true(rate.n == 3 && rate.median == 4 && rate.min == 2 && rate.max == 8 && rate.mad == 2);
    struct ah_metric time = ah_sampler_metric(&series, 10);
    assert_true(time.median == 20 && time.min == 10 && time.max == 40 && time.mad == 10);
    assert_true(series.values[0] == 2 && series.values[2] == 1); /* order unchanged */
}

static struct ah_sampler_series series_of(size_t n, double (*value)(size_t i))
{
    struct ah_sampler_series series = {.n = n};
    for (size_t i = 0; i < n; i++)
        series.values[i] = value(i);
    return series;
}

static double steady(size_t i)
{
    return 100 + (i % 3 == 0 ? 0.5 : 0.0);
}

static double spread(size_t i)
{
    return i % 2 ? 96 : 104;
}

static double step_up(size_t i)
{
    return (i < 10 ? 100 : 107) + (double)(i % 2) * 0.2;
}

static double one_outlier(size_t i)
{
    return i == 4 ? 1000 : 100;
}

TEST(sampler, verdicts)
{
    double amount;
    struct ah_sampler_series series = series_of(20, steady);
    assert_int_equal(ah_sampler_judge(&series, &amount), AH_SAMPLER_CALM);
    series = series_of(20, one_outlier);
    assert_int_equal(ah_sampler_judge(&series, &amount), AH_SAMPLER_CALM);
    series = series_of(20, spread);
    assert_int_equal(ah_sampler_judge(&series, &amount), AH_SAMPLER_SPREADS);
    check_near(amount, 0.04, 1e-12);
    series = series_of(20, step_up);
    /* Each half spreads little, but the distance between the halves counts as spread. */
    assert_int_equal(ah_sampler_judge(&series, &amount), AH_SAMPLER_SPREADS);
    series.n = 0;
    assert_int_equal(ah_sampler_judge(&series, &amount), AH_SAMPLER_CALM);
}

/* The first samples spread little, and later ones are all higher. The whole spread is small, but the halves differ. */
static double late_drift(size_t i)
{
    return i < 12 ? 100 + 0.1 * (double)(i % 2) : 106;
}

TEST(sampler, drift_is_told_from_spread)
{
    double amount;
    struct ah_sampler_series series = series_of(21, late_drift);
    assert_int_equal(ah_sampler_judge(&series, &amount), AH_SAMPLER_DRIFTS);
    check_near(amount, 0.0594, 1e-4);
}

TEST(sampler, stops_when_cancelled)
{
    struct ah_error err;
    struct world world = {0};
    struct script script = {.world = &world, .name = 'a', .each_s = 0.01};
    atomic_int cancel = 1;
    struct ah_sampler sampler = sampler_of(&world);
    sampler.cancel = &cancel;
    struct ah_sampler_work work = work_of(&script);
    struct ah_sampler_series series;
    CHECK_FAILS(ah_sampler_measure(&sampler, &work, 1, &series, &err), err, AH_E_INTERRUPTED, "interrupted");
    assert_int_equal(script.blocks, 0);
    struct ratio_world drift = {1};
    CHECK_FAILS(
        ah_sampler_rounds(&sampler, ratio_round, &drift, 2, (struct ah_sampler_series[2]){{{0}, 0}}, &err),
        err, AH_E_INTERRUPTED, "interrupted");
    assert_true(drift.slow == 1);
}

TEST(sampler, reports_failing_work)
{
    for (int block = 1; block < 12; block += 3) {
        struct ah_error err = {0};
        struct world world = {0};
        struct script script = {.world = &world, .name = 'a', .each_s = 0.01, .fails_at = block};
        struct ah_sampler sampler = sampler_of(&world);
        struct ah_sampler_work work = work_of(&script);
        struct ah_sampler_series series;
        CHECK_FAILS(ah_sampler_measure(&sampler, &work, 1, &series, &err), err, AH_E_FAILED, "work a broke");
    }
}

static void collect_tick(void *context, double done)
{
    double *last = context;
    assert_true(done >= *last && done <= 1);
    *last = done;
}

TEST(sampler, progress_never_falls)
{
    struct ah_error err;
    struct world world = {0};
    struct script script = {.world = &world, .name = 'a', .each_s = 0.01};
    double last = 0;
    struct ah_sampler sampler = sampler_of(&world);
    sampler.tick = collect_tick;
    sampler.tick_context = &last;
    struct ah_sampler_work work = work_of(&script);
    struct ah_sampler_series series;
    CHECK_OK(ah_sampler_measure(&sampler, &work, 1, &series, &err), err);
    assert_true(last == 1);
}

TEST(sampler, refuses_too_many_works)
{
    struct ah_error err;
    struct ah_sampler sampler = {0};
    assert_int_equal(ah_sampler_measure(&sampler, NULL, AH_SAMPLER_WIDTH_MAX + 1, NULL, &err), AH_E_FAILED);
    assert_int_equal(ah_sampler_rounds(&sampler, ratio_round, NULL, AH_SAMPLER_WIDTH_MAX + 1, NULL, &err),
                     AH_E_FAILED);
}
