/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures a model's blocks on the compute lane: forward of every group, and its backward under each config of
 * activations, by number of compute threads.
 *
 * Blocks are measured in cycles (cycle_internal.h), because a pass of training begins when another pass ends, with its
 * operands in memory rather than in a cache. A sample is one cycle, or as many as take SAMPLE_S. Its value for a kind
 * of pass is the mean time over all layers with that pass. A pass lasts from the end of the previous pass to its own
 * end, including the gaps between its ops.
 *
 * If blocks are slow, a cycle has fewer layers, and there are fewer samples than in other parts, but at least
 * limits->block_rounds. That is enough, since a sample of seconds is already a mean of many passes.
 */
#include "profiler/cycle_internal.h"
#include "profiler/lanes_internal.h"
#include "profiler/measure_internal.h"
#include "runtime/device/algorithm.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE_S 0.05

enum { COUNTS_MAX = 64, OPS_MAX = 1 << 14, SERIES_EACH = 1 + AH_ACTIVATIONS_WAYS };

/* The measurement for one number of threads. */
struct bench {
    const struct ah_job *job;
    struct ah_cycle cycle;
    struct ah_device *device;
    /* those of a cycle, repeated for as many cycles as a sample may have */
    struct ah_submission *submissions;
    struct ah_span *spans;
    size_t n_ops;     /* number of submissions */
    uint64_t repeats; /* number of cycles in a sample */
    size_t *column;   /* by group x SERIES_EACH (forward, then backward by config): index of the series */
    struct ah_sampler_series series[AH_SAMPLER_WIDTH_MAX];
    size_t width;
};

/* ---- a sample ---- */

static size_t series_of(const struct bench *bench, const struct ah_cycle_pass *pass)
{
    size_t g = (size_t)(pass->group - bench->job->groups);
    return bench->column[g * SERIES_EACH + (pass->pass == AH_PASS_FORWARD ? 0 : 1 + pass->activations)];
}

static int submit(struct bench *bench, size_t n, struct ah_error *err)
{
    uint64_t ticket = 0;
    int rc = ah_device_submit(bench->device, bench->submissions, n, NULL, err);
    if (!rc)
        ticket = ah_device_submitted(bench->device, AH_LANE_COMPUTE);
    rc = rc ? rc : ah_device_wait(bench->device, AH_LANE_COMPUTE, ticket, err);
    if (rc)
        return rc;
    struct ah_span_reader reader = ah_device_newest(bench->device, AH_LANE_COMPUTE, n);
    if (ah_device_spans(bench->device, &reader, bench->spans, n) != n)
        return ah_error_set(err, AH_E_FAILED, "the compute lane cannot record %zu ops", n);
    return AH_OK;
}

/* Takes a sample: the mean seconds of each kind of pass. */
static int run_sample(void *context, double *ret_values, struct ah_error *err)
{
    struct bench *bench = context;
    const struct ah_cycle *cycle = &bench->cycle;
    double sums[AH_SAMPLER_WIDTH_MAX] = {0};
    uint64_t times[AH_SAMPLER_WIDTH_MAX] = {0};
    int rc = submit(bench, bench->n_ops, err);
    if (rc)
        return rc;
    uint64_t before_ns = bench->spans[0].start_ns;
    for (uint64_t i = 0; i < bench->repeats; i++)
        for (size_t p = 0; p < cycle->n_passes; p++) {
            uint64_t end_ns = bench->spans[i * cycle->n_ops + cycle->passes[p].end - 1].end_ns;
            size_t at = series_of(bench, &cycle->passes[p]);
            sums[at] += (double)(end_ns - before_ns) * 1e-9;
            times[at]++;
            before_ns = end_ns;
        }
    for (size_t i = 0; i < bench->width; i++)
        ret_values[i] = sums[i] / (double)times[i];
    return AH_OK;
}

/* ---- setting up ---- */

/* Numbers the kinds of passes that occur. */
static int number_series(struct bench *bench, struct ah_error *err)
{
    size_t n = bench->job->n_groups * SERIES_EACH;
    bench->column = malloc(n * sizeof *bench->column);
    if (!bench->column)
        return ah_error_memory(err);
    for (size_t i = 0; i < n; i++)
        bench->column[i] = AH_SAMPLER_WIDTH_MAX;
    for (size_t p = 0; p < bench->cycle.n_passes; p++) {
        const struct ah_cycle_pass *pass = &bench->cycle.passes[p];
        size_t g = (size_t)(pass->group - bench->job->groups);
        size_t *column =
            &bench->column[g * SERIES_EACH + (pass->pass == AH_PASS_FORWARD ? 0 : 1 + pass->activations)];
        if (*column == AH_SAMPLER_WIDTH_MAX)
            *column = bench->width++;
    }
    return AH_OK;
}

static int prepare_submissions(struct bench *bench, struct ah_error *err)
{
    const struct ah_cycle *cycle = &bench->cycle;
    size_t most = cycle->n_ops > OPS_MAX ? cycle->n_ops : OPS_MAX / cycle->n_ops * cycle->n_ops;
    bench->submissions = calloc(most, sizeof *bench->submissions);
    bench->spans = calloc(most, sizeof *bench->spans);
    if (!bench->submissions || !bench->spans)
        return ah_error_memory(err);
    for (size_t i = 0; i < most; i++)
        bench->submissions[i] =
            (struct ah_submission){.lane = AH_LANE_COMPUTE, .op = &cycle->ops[i % cycle->n_ops]};
    bench->n_ops = most;
    return AH_OK;
}

static int open_device(const struct ah_measure *measure, unsigned threads, struct bench *bench,
                       struct ah_error *err)
{
    struct ah_device_options options = {.index = measure->options->device_index,
                                        .compute_threads = threads,
                                        .host_threads = 1,
                                        .queue = (uint32_t)bench->n_ops,
                                        .spans = (uint32_t)bench->n_ops,
                                        .watch = measure->options->watch};
    int rc =
        ah_device_algorithm_table(measure->machine->algorithms, &measure->document->arena, &options, err);
    rc = rc ? rc : ah_device_open(&bench->device, measure->driver, &options, err);
    rc = rc ? rc : ah_device_prepare(bench->device, bench->cycle.ops, bench->cycle.n_ops, err);
    rc = rc ? rc : ah_device_reserve(bench->device, bench->cycle.arena_bytes, err);
    return rc ? rc : ah_cycle_fill(&bench->cycle, bench->device, err);
}

/* Records the memory that these blocks need outside the device's arena, so that plans leave it free. */
static void keep_reserve(struct ah_measure *measure, const struct ah_device *device)
{
    uint64_t *most = &measure->machine->device.reserve_bytes;
    const uint64_t bytes = ah_device_outside_bytes(device);
    if (bytes > *most)
        *most = bytes;
}

/* Runs one cycle to warm up, and another to find the number of cycles in a sample. `ret_seconds` is a sample's time. */
static int settle_repeats(struct bench *bench, double *ret_seconds, struct ah_error *err)
{
    const size_t n_ops = bench->cycle.n_ops;
    const uint64_t most = bench->n_ops / n_ops;
    int rc = submit(bench, n_ops, err);
    rc = rc ? rc : submit(bench, n_ops, err);
    if (rc)
        return rc;
    double cycle_s = (double)(bench->spans[n_ops - 1].end_ns - bench->spans[0].start_ns) * 1e-9;
    double wanted = ceil(SAMPLE_S / cycle_s);
    bench->repeats = wanted < 1 ? 1 : wanted < (double)most ? (uint64_t)wanted : most;
    bench->n_ops = bench->repeats * n_ops;
    *ret_seconds = cycle_s * (double)bench->repeats;
    return AH_OK;
}

static void release_bench(struct bench *bench)
{
    ah_device_close(bench->device);
    ah_cycle_release(&bench->cycle);
    free(bench->submissions);
    free(bench->spans);
    free(bench->column);
}

/* ---- limits ---- */

/* Lists the thread counts with which products were measured, in ascending order. Plans choose among these. */
static size_t thread_counts(const struct ah_measure *measure, unsigned ret_counts[COUNTS_MAX])
{
    const struct ah_machine *machine = measure->machine;
    size_t n = 0;
    for (size_t i = 0; i < machine->n_matmul && n < COUNTS_MAX; i++) {
        unsigned count = (unsigned)machine->matmul[i].threads;
        size_t at = 0;
        while (at < n && ret_counts[at] < count)
            at++;
        if (at < n && ret_counts[at] == count)
            continue;
        memmove(&ret_counts[at + 1], &ret_counts[at], (n - at) * sizeof *ret_counts);
        ret_counts[at] = count;
        n++;
    }
    if (!n)
        ret_counts[n++] = measure->info.kind == AH_DEVICE_CPU ? measure->compute_threads : 0;
    return n;
}

static double flops_per_s(const struct ah_machine *machine, enum ah_dtype dtype, unsigned threads)
{
    double best = 0;
    for (size_t i = 0; i < machine->n_matmul; i++)
        if (machine->matmul[i].dtype == dtype && machine->matmul[i].threads == threads)
            best = fmax(best, machine->matmul[i].flops_per_s.median);
    return best;
}

/* Returns the number of layers to use: by the rates of products, few enough for the rounds to fit the budget, but at
 * least one for each config of activations. */
static uint64_t layers_for(const struct ah_measure *measure, unsigned threads, double budget_s)
{
    const struct ah_job *job = measure->options->job;
    double rate = flops_per_s(measure->machine, job->training.dtype, threads);
    uint64_t layers = measure->limits->block_layers;
    while (rate > 0 && layers > AH_ACTIVATIONS_WAYS &&
           measure->limits->block_rounds * ah_cycle_flops(job, layers) / rate > budget_s)
        layers--;
    return layers;
}

/* Returns three quarters of the free bytes. */
static uint64_t bytes_for(const struct ah_measure *measure)
{
    uint64_t free_bytes = measure->info.kind == AH_DEVICE_CPU ? measure->available_bytes : 0;
    if (!free_bytes)
        free_bytes = measure->info.free_bytes ? measure->info.free_bytes : measure->info.memory_bytes;
    return free_bytes / 4 * 3;
}

/* ---- entries of the document ---- */

/* Returns the entry for a program and a number of threads. If there is none, adds one; the list has room. */
static struct ah_machine_block *entry_for(struct ah_machine *machine, const char *program_sha256,
                                          uint64_t threads)
{
    for (size_t i = 0; i < machine->n_blocks; i++)
        if (machine->blocks[i].threads == threads &&
            !strcmp(machine->blocks[i].program_sha256, program_sha256))
            return &machine->blocks[i];
    return &machine->blocks[machine->n_blocks++];
}

static int keep_backward(struct ah_measure *measure, const struct bench *bench, size_t g,
                         struct ah_machine_block *block, struct ah_error *err)
{
    block->backward = ah_arena_array(&measure->document->arena, AH_ACTIVATIONS_WAYS, sizeof *block->backward);
    if (!block->backward)
        return ah_error_memory(err);
    for (int way = 0; way < AH_ACTIVATIONS_WAYS; way++) {
        size_t at = bench->column[g * SERIES_EACH + 1 + (size_t)way];
        if (at == AH_SAMPLER_WIDTH_MAX)
            continue;
        block->backward[block->n_backward++] = (struct ah_machine_backward){
            (enum ah_activations)way, ah_sampler_metric(&bench->series[at], 1e6)};
        ah_measure_judge(measure, &bench->series[at], "%s backward %s on %" PRIu64, block->group,
                         ah_words_activations[way], block->threads);
    }
    return AH_OK;
}

static int keep_group(struct ah_measure *measure, const struct bench *bench, size_t g, unsigned threads,
                      struct ah_error *err)
{
    const struct ah_plan_training *training = &bench->job->training;
    const struct ah_job_group *group = &bench->job->groups[g];
    const struct ah_sampler_series *forward = &bench->series[bench->column[g * SERIES_EACH]];
    struct ah_arena *arena = &measure->document->arena;
    char digest[AH_SHA256_HEX_MAX];
    int rc = ah_program_digest(bench->job, group, digest, err);
    if (rc)
        return rc;
    struct ah_machine_block block = {.group = ah_arena_strdup(arena, group->name),
                                     .program_sha256 = ah_arena_strdup(arena, digest),
                                     .dtype = training->dtype,
                                     .sequences = training->batch / training->micro_batches,
                                     .seq = training->seq,
                                     .threads = threads,
                                     .forward_us = ah_sampler_metric(forward, 1e6)};
    if (!block.group || !block.program_sha256)
        return ah_error_memory(err);
    ah_measure_judge(measure, forward, "%s forward on %u", block.group, threads);
    rc = keep_backward(measure, bench, g, &block, err);
    if (!rc)
        *entry_for(measure->machine, digest, threads) = block;
    return rc;
}

/* Makes a list with room for `more` entries. If a document could not have all entries, drops the oldest. */
static int make_room(struct ah_measure *measure, size_t more, struct ah_error *err)
{
    struct ah_machine *machine = measure->machine;
    size_t most = more < AH_MACHINE_BLOCKS_MAX ? AH_MACHINE_BLOCKS_MAX - more : 0;
    size_t kept = machine->n_blocks < most ? machine->n_blocks : most;
    struct ah_machine_block *blocks = ah_arena_array(&measure->document->arena, kept + more, sizeof *blocks);
    if (!blocks)
        return ah_error_memory(err);
    if (kept)
        memcpy(blocks, machine->blocks + (machine->n_blocks - kept), kept * sizeof *blocks);
    machine->blocks = blocks;
    machine->n_blocks = kept;
    return AH_OK;
}

/* ---- the part's function ---- */

static int measure_on(struct ah_measure *measure, unsigned threads, struct ah_error *err)
{
    struct ah_sampler sampler = ah_measure_sampler(measure, "blocks of '%s' on %u threads",
                                                   measure->options->job->model->name, threads);
    const struct ah_cycle_limits limits = {.layers = layers_for(measure, threads, sampler.budget_s),
                                           .bytes = bytes_for(measure)};
    struct bench *bench = calloc(1, sizeof *bench);
    double sample_s = 0;
    if (!bench)
        return ah_error_memory(err);
    bench->job = measure->options->job;
    int rc = ah_cycle_init(&bench->cycle, bench->job, &limits, err);
    rc = rc ? rc : number_series(bench, err);
    rc = rc ? rc : prepare_submissions(bench, err);
    rc = rc ? rc : open_device(measure, threads, bench, err);
    if (!rc)
        keep_reserve(measure, bench->device);
    rc = rc ? rc : settle_repeats(bench, &sample_s, err);
    double fitting = sampler.budget_s / fmax(sample_s, 1e-9);
    sampler.samples_min = fitting < sampler.samples_min ? (unsigned)fitting : sampler.samples_min;
    if (sampler.samples_min < measure->limits->block_rounds)
        sampler.samples_min = measure->limits->block_rounds;
    rc = rc ? rc : ah_sampler_rounds(&sampler, run_sample, bench, bench->width, bench->series, err);
    for (size_t g = 0; g < bench->job->n_groups && !rc; g++)
        rc = keep_group(measure, bench, g, threads, err);
    release_bench(bench);
    free(bench);
    return rc;
}

int ah_blocks_measure(struct ah_measure *measure, struct ah_error *err)
{
    unsigned counts[COUNTS_MAX];
    size_t n = thread_counts(measure, counts);
    int rc = make_room(measure, n * measure->options->job->n_groups, err);
    rc = rc ? rc : ah_algorithms_measure(measure, err);
    ah_measure_sets(measure, (unsigned)n);
    for (size_t i = 0; i < n && !rc; i++)
        rc = measure_on(measure, counts[i], err);
    return rc;
}
