/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures the bandwidth of host memory for reading, writing, copying and scaling in place, by threads (bandwidth.h).
 */
#include "profiler/measure_internal.h"

enum { PATTERNS = 4 };

struct pattern_work {
    struct ah_bandwidth *bandwidth;
    enum ah_memory_pattern pattern;
};

static int run_pattern(void *context, uint64_t repeats, double *ret_seconds, struct ah_error *err)
{
    const struct pattern_work *work = context;
    return ah_bandwidth_run(work->bandwidth, work->pattern, repeats, ret_seconds, err);
}

/* Measures all patterns with this many threads, in one set of rounds. */
static int measure_patterns(struct ah_measure *measure, struct ah_bandwidth *bandwidth, unsigned threads,
                            struct ah_error *err)
{
    struct pattern_work contexts[PATTERNS];
    struct ah_sampler_work works[PATTERNS];
    struct ah_sampler_series series[PATTERNS];
    for (unsigned i = 0; i < PATTERNS; i++) {
        contexts[i] = (struct pattern_work){bandwidth, (enum ah_memory_pattern)i};
        works[i] = (struct ah_sampler_work){.run = run_pattern, .context = &contexts[i]};
    }
    struct ah_sampler sampler = ah_measure_sampler(measure, "host memory, threads: %u", threads);
    int rc = ah_bandwidth_use(bandwidth, threads, measure->topology.cpus, err);
    if (rc == AH_OK)
        rc = ah_sampler_measure(&sampler, works, PATTERNS, series, err);
    for (unsigned i = 0; i < PATTERNS && rc == AH_OK; i++) {
        enum ah_memory_pattern pattern = (enum ah_memory_pattern)i;
        measure->machine->memory[measure->machine->n_memory++] = (struct ah_machine_memory){
            pattern, threads, ah_sampler_rate(&series[i], (double)ah_bandwidth_slice_bytes(pattern))};
        ah_measure_judge(measure, &series[i], "%s on %u", ah_words_memory_pattern[pattern], threads);
    }
    return rc;
}

int ah_memory_measure(struct ah_measure *measure, struct ah_error *err)
{
    unsigned counts[AH_MEASURE_COUNTS_MAX];
    size_t n = ah_measure_threads(measure, measure->processors, counts);
    struct ah_machine *machine = measure->machine;
    machine->memory = ah_arena_array(&measure->document->arena, n * PATTERNS, sizeof *machine->memory);
    if (!machine->memory)
        return ah_error_memory(err);
    struct ah_bandwidth *bandwidth = NULL;
    int rc = ah_measure_bandwidth(measure, &bandwidth, err);
    ah_measure_sets(measure, (unsigned)n);
    for (size_t i = 0; i < n && rc == AH_OK; i++)
        rc = measure_patterns(measure, bandwidth, counts[i], err);
    if (bandwidth)
        ah_bandwidth_rest(bandwidth);
    return rc;
}
