/* SPDX-License-Identifier: Apache-2.0
 *
 * Sampler: repeats work until the measured time is reliable, and says if it is not.
 *
 * WORK is anything that can be done `repeats` times and reports the time of all repeats. A BLOCK is one such call, with
 * enough repeats to last at least `block_s`. A SAMPLE is the time per repeat of the fastest of `blocks` blocks in a
 * row. On a shared machine, a processor is taken away for milliseconds at a time, and the fastest of a few short blocks
 * is one that was not interrupted. A SERIES is the samples of one work.
 *
 * Works are measured together, in ROUNDS. Each round takes one sample of each work, in turn, so each work's samples are
 * spread over the whole time. A slow second spoils one sample of each series instead of all samples of one series. The
 * works of one round can be compared although the machine drifts, so ratios are computed within a round, never between
 * medians. Before the rounds, each work is warmed up until its last blocks agree.
 *
 *     struct ah_sampler sampler = {.samples_min = 10, .block_s = 0.005, .budget_s = 2};
 *     rc = ah_sampler_measure(&sampler, works, n, series, err);   // series[i].values: seconds per repeat
 *     metric = ah_sampler_rate(&series[0], bytes);
 *     if (ah_sampler_judge(&series[0], &amount) != AH_SAMPLER_CALM) ...
 *
 * Times come from the work and from `clock`, so tests can replace them. Nothing is allocated.
 */
#ifndef AH_PROFILER_SAMPLER_H
#define AH_PROFILER_SAMPLER_H

#include "base/error.h"
#include "schemas/machine.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AH_SAMPLER_SAMPLES_MIN = 10, AH_SAMPLER_SAMPLES_MAX = 64 };

struct ah_sampler_work {
    /* Does the work `repeats` (>= 1) times. `ret_seconds` > 0 is the time of all repeats. Returns 0 or an ah_err. */
    int (*run)(void *context, uint64_t repeats, double *ret_seconds, struct ah_error *err);
    void *context;
    uint64_t repeats_max; /* largest number of repeats in a block; 0: 1 << 20 */
};

struct ah_sampler_clock {
    uint64_t (*now_ns)(void *context); /* NULL: ah_threads_now_ns() */
    void *context;
};

struct ah_sampler {
    struct ah_sampler_clock clock;
    unsigned samples_min;     /* number of rounds that are always made; 0: AH_SAMPLER_SAMPLES_MIN */
    unsigned samples_max;     /* largest number of rounds, if a series is not calm; 0: twice samples_min */
    unsigned blocks;          /* number of blocks in a sample; 0: 3 */
    double block_s;           /* shortest time of a block; 0: 0.004 */
    double warm_s;            /* longest time of a warm-up; 0: 0.25 */
    double budget_s;          /* time for all rounds; 0: no more than samples_min rounds */
    const atomic_int *cancel; /* (optional) if not 0, calls return AH_E_INTERRUPTED */
    /* (optional) `done` is in 0..1, and never falls during a call */
    void (*tick)(void *tick_context, double done);
    void *tick_context;
};

struct ah_sampler_series {
    double values[AH_SAMPLER_SAMPLES_MAX]; /* in the order in which they were taken */
    size_t n;
};

/* Warms `work` up until three blocks in a row agree within 3 %, or for `warm_s` and two blocks. `ret_repeats` is the
 * number of repeats in a block. `ret_seconds` is the time per repeat in the fastest of the last three blocks, so an
 * interrupted block does not count. */
int ah_sampler_settle(const struct ah_sampler *sampler, const struct ah_sampler_work *work,
                      uint64_t *ret_repeats, double *ret_seconds, struct ah_error *err);

/* Takes one sample: the seconds per repeat in the fastest of sampler->blocks blocks. */
int ah_sampler_sample(const struct ah_sampler *sampler, const struct ah_sampler_work *work, uint64_t repeats,
                      double *ret_seconds, struct ah_error *err);

/* Does one round of a measurement with `width` values, which it writes to `ret_values`. */
typedef int ah_sampler_round(void *context, double *ret_values, struct ah_error *err);

/* Makes at least samples_min rounds, and more while a series is not calm and the budget lasts. Appends value i of each
 * round to ret_series[i], which the caller zeroes before the first call. `width` <= AH_SAMPLER_WIDTH_MAX. */
enum { AH_SAMPLER_WIDTH_MAX = 128 };
int ah_sampler_rounds(const struct ah_sampler *sampler, ah_sampler_round *round, void *context, size_t width,
                      struct ah_sampler_series *ret_series, struct ah_error *err);

/* Settled works. Their rounds may be made in several calls. */
struct ah_sampler_set {
    const struct ah_sampler_work *works; /* borrowed; n works */
    size_t n;
    uint64_t repeats[AH_SAMPLER_WIDTH_MAX];
    double round_s;                   /* time of one block of each work */
    const struct ah_sampler *running; /* the sampler of the current call */
};

/* Settles each of `n` works, `n` <= AH_SAMPLER_WIDTH_MAX. */
int ah_sampler_begin(const struct ah_sampler *sampler, const struct ah_sampler_work *works, size_t n,
                     struct ah_sampler_set *ret_set, struct ah_error *err);

/* Makes rounds of one sample of each work, and appends them to `series` (n): the seconds per repeat. */
int ah_sampler_continue(const struct ah_sampler *sampler, struct ah_sampler_set *set,
                        struct ah_sampler_series *series, struct ah_error *err);

/* Settles works and makes their rounds within one budget. ret_series[i] gets the seconds per repeat of works[i]. */
int ah_sampler_measure(const struct ah_sampler *sampler, const struct ah_sampler_work *works, size_t n,
                       struct ah_sampler_series *ret_series, struct ah_error *err);

/* Return the series as a metric: each value times `scale`; or, for durations, `amount` divided by each value. */
struct ah_metric ah_sampler_metric(const struct ah_sampler_series *series, double scale);
struct ah_metric ah_sampler_rate(const struct ah_sampler_series *series, double amount);

/* Judges whether a series is reliable. It SPREADS if its MAD is above 3 % of the median. It DRIFTS if the medians of
 * its halves, without a middle sample, differ by more than 5 % and by more than 3 MAD. `ret_amount` is that MAD or
 * difference as a fraction of the median. */
enum ah_sampler_noise { AH_SAMPLER_CALM, AH_SAMPLER_SPREADS, AH_SAMPLER_DRIFTS };
enum ah_sampler_noise ah_sampler_judge(const struct ah_sampler_series *series, double *ret_amount);

#endif
