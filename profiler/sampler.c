/* SPDX-License-Identifier: Apache-2.0
 *
 * Warm-up, blocks, samples, rounds, and the judgement of results, as defined in sampler.h.
 *
 * Invariants:
 *   1. A series has one value from every round, in order; all series of a call have the same length.
 *   2. At least samples_min rounds are made, even beyond the budget, so a metric never has fewer samples.
 *   3. `cancel` is checked before each block, so an interrupt is delayed by one block at most.
 */
#include "profiler/sampler.h"

#include "base/stats.h"
#include "base/threads.h"

#include <math.h>
#include <string.h>

#define WARM_BLOCKS    3
#define WARM_AGREEMENT 0.03
#define CALM_SPREAD    0.01
#define NOISY_SPREAD   0.03
#define NOISY_DRIFT    0.05

static uint64_t now_ns(const struct ah_sampler *sampler)
{
    return sampler->clock.now_ns ? sampler->clock.now_ns(sampler->clock.context) : ah_threads_now_ns();
}

static double seconds_since(const struct ah_sampler *sampler, uint64_t begin_ns)
{
    return (double)(now_ns(sampler) - begin_ns) * 1e-9;
}

static unsigned samples_min(const struct ah_sampler *sampler)
{
    unsigned least = sampler->samples_min ? sampler->samples_min : AH_SAMPLER_SAMPLES_MIN;
    return least < AH_SAMPLER_SAMPLES_MAX ? least : AH_SAMPLER_SAMPLES_MAX;
}

static unsigned samples_max(const struct ah_sampler *sampler)
{
    unsigned least = samples_min(sampler);
    unsigned most = sampler->samples_max ? sampler->samples_max : 2 * least;
    if (most < least)
        return least;
    return most < AH_SAMPLER_SAMPLES_MAX ? most : AH_SAMPLER_SAMPLES_MAX;
}

static int run_block(const struct ah_sampler *sampler, const struct ah_sampler_work *work, uint64_t repeats,
                     double *ret_seconds, struct ah_error *err)
{
    if (sampler->cancel && atomic_load(sampler->cancel))
        return ah_error_set(err, AH_E_INTERRUPTED, "the measurement was interrupted");
    int rc = work->run(work->context, repeats, ret_seconds, err);
    if (rc)
        return rc;
    if (!(*ret_seconds > 0)) /* too short for the clock: use the clock's shortest time */
        *ret_seconds = 1e-9;
    return AH_OK;
}

/* Returns the number of repeats with which a block lasts `block_s`, if each repeat takes `each_s`. */
static uint64_t repeats_for(const struct ah_sampler_work *work, double block_s, double each_s)
{
    double most = work->repeats_max ? (double)work->repeats_max : (double)(1 << 20);
    double wanted = ceil(1.05 * block_s / each_s);
    if (wanted < 1)
        wanted = 1;
    return (uint64_t)(wanted < most ? wanted : most);
}

static bool agree(const double *recent)
{
    double least = recent[0];
    double most = recent[0];
    for (int i = 1; i < WARM_BLOCKS; i++) {
        least = fmin(least, recent[i]);
        most = fmax(most, recent[i]);
    }
    return most - least <= WARM_AGREEMENT * least;
}

int ah_sampler_settle(const struct ah_sampler *sampler, const struct ah_sampler_work *work,
                      uint64_t *ret_repeats, double *ret_seconds, struct ah_error *err)
{
    double block_s = sampler->block_s > 0 ? sampler->block_s : 0.004;
    double warm_s = sampler->warm_s > 0 ? sampler->warm_s : 0.25;
    double recent[WARM_BLOCKS]; /* seconds per repeat of the last blocks, as a ring */
    double spent = 0;
    uint64_t repeats = 1;
    for (unsigned i = 0; i < WARM_BLOCKS; i++)
        recent[i] = HUGE_VAL;
    for (unsigned done = 1;; done++) {
        double seconds;
        int rc = run_block(sampler, work, repeats, &seconds, err);
        if (rc)
            return rc;
        spent += seconds;
        recent[done % WARM_BLOCKS] = seconds / (double)repeats;
        *ret_seconds = HUGE_VAL;
        for (unsigned i = 0; i < WARM_BLOCKS; i++)
            *ret_seconds = fmin(*ret_seconds, recent[i]);
        repeats = repeats_for(work, block_s, *ret_seconds);
        if ((spent >= warm_s && done >= 2) || (done >= WARM_BLOCKS && agree(recent)))
            break;
    }
    *ret_repeats = repeats;
    return AH_OK;
}

int ah_sampler_sample(const struct ah_sampler *sampler, const struct ah_sampler_work *work, uint64_t repeats,
                      double *ret_seconds, struct ah_error *err)
{
    unsigned blocks = sampler->blocks ? sampler->blocks : 3;
    double fastest = HUGE_VAL;
    for (unsigned i = 0; i < blocks; i++) {
        double seconds;
        int rc = run_block(sampler, work, repeats, &seconds, err);
        if (rc)
            return rc;
        fastest = fmin(fastest, seconds / (double)repeats);
    }
    *ret_seconds = fastest;
    return AH_OK;
}

static struct ah_stats stats_of(const double *values, size_t n)
{
    double sorted[AH_SAMPLER_SAMPLES_MAX];
    memcpy(sorted, values, n * sizeof *values);
    return ah_stats_of(sorted, n);
}

static bool calm(const struct ah_sampler_series *series, size_t width)
{
    for (size_t i = 0; i < width; i++) {
        struct ah_stats stats = stats_of(series[i].values, series[i].n);
        if (stats.mad > CALM_SPREAD * fabs(stats.median))
            return false;
    }
    return true;
}

static void tick(const struct ah_sampler *sampler, double done)
{
    if (sampler->tick)
        sampler->tick(sampler->tick_context, done);
}

/* True if another round is needed after `rounds` rounds. */
static bool wants_more(const struct ah_sampler *sampler, unsigned rounds, uint64_t begin_ns,
                       const struct ah_sampler_series *series, size_t width)
{
    if (rounds < samples_min(sampler))
        return true;
    if (rounds >= samples_max(sampler) || calm(series, width))
        return false;
    return seconds_since(sampler, begin_ns) * (rounds + 1) / rounds <= sampler->budget_s;
}

int ah_sampler_rounds(const struct ah_sampler *sampler, ah_sampler_round *round, void *context, size_t width,
                      struct ah_sampler_series *ret_series, struct ah_error *err)
{
    double values[AH_SAMPLER_WIDTH_MAX];
    if (width > AH_SAMPLER_WIDTH_MAX)
        return ah_error_set(err, AH_E_FAILED, "%zu series are too many for one measurement", width);
    uint64_t begin_ns = now_ns(sampler);
    for (unsigned rounds = 0; width > 0 && ret_series[0].n < AH_SAMPLER_SAMPLES_MAX &&
                              wants_more(sampler, rounds, begin_ns, ret_series, width);) {
        if (sampler->cancel && atomic_load(sampler->cancel))
            return ah_error_set(err, AH_E_INTERRUPTED, "the measurement was interrupted");
        int rc = round(context, values, err);
        if (rc)
            return rc;
        for (size_t i = 0; i < width; i++)
            ret_series[i].values[ret_series[i].n++] = values[i];
        rounds++;
        tick(sampler, (double)rounds / samples_max(sampler));
    }
    tick(sampler, 1);
    return AH_OK;
}

static int sample_each(void *context, double *ret_values, struct ah_error *err)
{
    const struct ah_sampler_set *set = context;
    for (size_t i = 0; i < set->n; i++) {
        int rc = ah_sampler_sample(set->running, &set->works[i], set->repeats[i], &ret_values[i], err);
        if (rc)
            return rc;
    }
    return AH_OK;
}

int ah_sampler_begin(const struct ah_sampler *sampler, const struct ah_sampler_work *works, size_t n,
                     struct ah_sampler_set *ret_set, struct ah_error *err)
{
    if (n > AH_SAMPLER_WIDTH_MAX)
        return ah_error_set(err, AH_E_FAILED, "%zu works are too many for one measurement", n);
    *ret_set = (struct ah_sampler_set){.works = works, .n = n};
    for (size_t i = 0; i < n; i++) {
        double each_s;
        int rc = ah_sampler_settle(sampler, &works[i], &ret_set->repeats[i], &each_s, err);
        if (rc)
            return rc;
        ret_set->round_s += each_s * (double)ret_set->repeats[i];
    }
    return AH_OK;
}

/* Returns the wanted number of blocks in a sample, or fewer (at least one) if samples_min rounds would not fit. */
static unsigned affordable_blocks(const struct ah_sampler *sampler, double round_s)
{
    unsigned wanted = sampler->blocks ? sampler->blocks : 3;
    double fitting = sampler->budget_s / (samples_min(sampler) * round_s);
    if (sampler->budget_s == 0 || fitting >= wanted)
        return wanted;
    return fitting >= 1 ? (unsigned)fitting : 1;
}

int ah_sampler_continue(const struct ah_sampler *sampler, struct ah_sampler_set *set,
                        struct ah_sampler_series *series, struct ah_error *err)
{
    struct ah_sampler affordable = *sampler;
    affordable.blocks = affordable_blocks(sampler, set->round_s);
    set->running = &affordable;
    int rc = ah_sampler_rounds(&affordable, sample_each, set, set->n, series, err);
    set->running = NULL;
    return rc;
}

int ah_sampler_measure(const struct ah_sampler *sampler, const struct ah_sampler_work *works, size_t n,
                       struct ah_sampler_series *ret_series, struct ah_error *err)
{
    struct ah_sampler_set set;
    struct ah_sampler rest = *sampler;
    uint64_t begin_ns = now_ns(sampler);
    int rc = ah_sampler_begin(sampler, works, n, &set, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < n; i++)
        ret_series[i].n = 0;
    if (sampler->budget_s > 0) /* 0 would mean that there is no budget */
        rest.budget_s = fmax(sampler->budget_s - seconds_since(sampler, begin_ns), 1e-9);
    return ah_sampler_continue(&rest, &set, ret_series, err);
}

static struct ah_metric metric_of(double *values, size_t n)
{
    struct ah_stats stats = ah_stats_of(values, n);
    return (struct ah_metric){
        .n = stats.n, .median = stats.median, .mad = stats.mad, .min = stats.min, .max = stats.max};
}

struct ah_metric ah_sampler_metric(const struct ah_sampler_series *series, double scale)
{
    double scaled[AH_SAMPLER_SAMPLES_MAX];
    for (size_t i = 0; i < series->n; i++)
        scaled[i] = series->values[i] * scale;
    return metric_of(scaled, series->n);
}

struct ah_metric ah_sampler_rate(const struct ah_sampler_series *series, double amount)
{
    double rates[AH_SAMPLER_SAMPLES_MAX];
    for (size_t i = 0; i < series->n; i++)
        rates[i] = amount / series->values[i];
    return metric_of(rates, series->n);
}

enum ah_sampler_noise ah_sampler_judge(const struct ah_sampler_series *series, double *ret_amount)
{
    size_t half = series->n / 2;
    struct ah_stats all = stats_of(series->values, series->n);
    *ret_amount = 0;
    if (half == 0 || !(fabs(all.median) > 0))
        return AH_SAMPLER_CALM;
    struct ah_stats first = stats_of(series->values, half);
    struct ah_stats second = stats_of(series->values + (series->n - half), half);
    double drift = fabs((second.median - first.median) / all.median);
    double spread = all.mad / fabs(all.median);
    bool drifts = drift > NOISY_DRIFT && drift > 3 * spread;
    if (!drifts && spread <= NOISY_SPREAD)
        return AH_SAMPLER_CALM;
    *ret_amount = drifts ? drift : spread;
    return drifts ? AH_SAMPLER_DRIFTS : AH_SAMPLER_SPREADS;
}
