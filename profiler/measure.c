/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the parts of a profile: samplers with budgets, progress that never falls, sentences about noise, and
 * devices opened with equal options.
 */
#include "profiler/measure_internal.h"

#include "profiler/lanes_internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NOISE_SENTENCES_MAX = 64 };

void ah_measure_sets(struct ah_measure *measure, unsigned sets)
{
    measure->sets = sets ? sets : 1;
    measure->sets_done = 0;
}

static void report_progress(struct ah_measure *measure, double fraction)
{
    const struct ah_profiler_options *options = measure->options;
    measure->reported = fmin(fmax(measure->reported, fraction), 1.0);
    if (options->progress)
        options->progress(options->progress_context, measure->reported, measure->what);
}

/* Reports progress. `done` is the finished fraction of the running set, which is one of several in its part. */
static void tick(void *context, double done)
{
    struct ah_measure *measure = context;
    double set = fmin(measure->sets_done - 1 + done, measure->sets);
    report_progress(measure,
                    (measure->parts_done_s + measure->part_s * set / measure->sets) / measure->parts_s);
}

struct ah_sampler ah_measure_sampler(struct ah_measure *measure, const char *what, ...)
{
    const struct ah_measure_limits *limits = measure->limits;
    va_list args;
    va_start(args, what);
    vsnprintf(measure->what, sizeof measure->what, what, args);
    va_end(args);
    measure->sets_done++;
    tick(measure, 0);
    return (struct ah_sampler){
        .samples_min = limits->samples_min,
        .samples_max = limits->samples_max,
        .blocks = limits->blocks,
        .block_s = limits->block_s,
        .warm_s = limits->warm_s,
        .budget_s = measure->part_s / measure->sets,
        .cancel = measure->options->cancel,
        .tick = tick,
        .tick_context = measure,
    };
}

void ah_measure_note(struct ah_measure *measure, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ah_log_printf(measure->options->log, AH_LOG_WARNING, "%s", text);

    struct ah_machine *machine = measure->machine;
    if (machine->n_noise == measure->noise_room)
        return;
    char *kept = ah_arena_strdup(&measure->document->arena, text);
    if (kept)
        machine->noise[machine->n_noise++] = kept;
}

static void remember(struct ah_measure_findings *findings, double amount, const char *what)
{
    unsigned at = findings->n < AH_MEASURE_WORST ? findings->n++ : AH_MEASURE_WORST - 1;
    if (findings->found++ >= AH_MEASURE_WORST && amount <= findings->worst[at].amount)
        return;
    for (; at > 0 && findings->worst[at - 1].amount < amount; at--)
        findings->worst[at] = findings->worst[at - 1];
    findings->worst[at].amount = amount;
    snprintf(findings->worst[at].what, sizeof findings->worst[at].what, "%s", what);
}

void ah_measure_judge(struct ah_measure *measure, const struct ah_sampler_series *series, const char *what,
                      ...)
{
    char name[AH_MEASURE_WHAT_MAX];
    double amount;
    va_list args;
    va_start(args, what);
    vsnprintf(name, sizeof name, what, args);
    va_end(args);
    enum ah_sampler_noise noise = ah_sampler_judge(series, &amount);
    measure->judged++;
    if (noise != AH_SAMPLER_CALM)
        remember(&measure->findings[noise], amount, name);
}

void ah_measure_conclude(struct ah_measure *measure)
{
    static const char *const verbs[] = {
        [AH_SAMPLER_SPREADS] = "spread by more than 3 % (MAD / median)",
        [AH_SAMPLER_DRIFTS] = "drifted by more than 5 % while being measured",
    };
    for (int noise = AH_SAMPLER_SPREADS; noise <= AH_SAMPLER_DRIFTS; noise++) {
        const struct ah_measure_findings *findings = &measure->findings[noise];
        char text[AH_MEASURE_WORST * (AH_MEASURE_WHAT_MAX + 16)] = "";
        size_t length = 0;
        for (unsigned i = 0; i < findings->n; i++)
            length += (size_t)snprintf(text + length, sizeof text - length, "%s%s %.1f %%", i ? ", " : "",
                                       findings->worst[i].what, 100 * findings->worst[i].amount);
        if (findings->found)
            ah_measure_note(measure, "%s: %u of %u %s: %s%s", ah_profiler_part_word(measure->part),
                            findings->found, measure->judged, verbs[noise], text,
                            findings->found > findings->n ? ", ..." : "");
    }
    measure->judged = 0;
    memset(measure->findings, 0, sizeof measure->findings);
}

static unsigned power_below(unsigned count)
{
    unsigned power = 1;
    while (2 * power < count)
        power *= 2;
    return power;
}

size_t ah_measure_threads(const struct ah_measure *measure, unsigned largest,
                          unsigned ret_counts[AH_MEASURE_COUNTS_MAX])
{
    unsigned most = measure->limits->thread_counts;
    unsigned falling[AH_MEASURE_COUNTS_MAX];
    size_t n = 0;
    if (most > AH_MEASURE_COUNTS_MAX)
        most = AH_MEASURE_COUNTS_MAX;
    for (unsigned count = largest; count > 1 && n + 1 < most; count = power_below(count))
        falling[n++] = count;
    falling[n++] = 1;
    for (size_t i = 0; i < n; i++)
        ret_counts[i] = falling[n - 1 - i];
    return n;
}

int ah_measure_open(const struct ah_measure *measure, unsigned compute_threads, unsigned host_threads,
                    bool throttled, struct ah_device **ret_device, struct ah_error *err)
{
    struct ah_device_options options = {
        .index = measure->options->device_index,
        .compute_threads = compute_threads,
        .host_threads = host_threads,
        .queue = AH_LANES_REPEATS_MAX,
        .spans = AH_LANES_REPEATS_MAX,
        .watch = measure->options->watch,
    };
    if (throttled)
        options.throttle = measure->throttle;
    return ah_device_open(ret_device, measure->driver, &options, err);
}

int ah_measure_bandwidth(struct ah_measure *measure, struct ah_bandwidth **ret_bandwidth,
                         struct ah_error *err)
{
    int rc = AH_OK;
    if (!measure->bandwidth)
        rc = ah_bandwidth_new(&measure->bandwidth, ah_measure_fit(measure, measure->limits->memory_bytes),
                              err);
    if (rc == AH_OK)
        *ret_bandwidth = measure->bandwidth;
    return rc;
}

uint64_t ah_measure_fit(const struct ah_measure *measure, uint64_t bytes)
{
    const uint64_t mib = UINT64_C(1) << 20;
    uint64_t most = measure->available_bytes / 16;
    uint64_t fitting = bytes < most ? bytes : most;
    return fitting / mib ? fitting / mib * mib : mib;
}
