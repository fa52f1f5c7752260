/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures AdamW in parameters per second, on the host lane by number of threads, and on the compute lane. Either
 * gradients and weights are fp32, or gradients are bf16 and the same pass writes a bf16 weight.
 *
 * bandwidth_share compares AdamW with the memory's bandwidth, which drifts on a shared machine. So every round also
 * times a pass that only moves data, and the share is the median of the ratios within rounds. On the host, that pass
 * scales an array in place with equally many threads (bandwidth.h). On the device, it copies within the arena on the
 * compute lane. Both passes read as much as they write, as AdamW nearly does.
 */
#include "profiler/measure_internal.h"

#include "profiler/optimizer_internal.h"

#include <stdlib.h>

enum { MOVING, TILE_MAX = 4 << 20, TILE_UNIT = 4096 };

/* The longest time of an op on a slow lane, in blocks. */
#define SLOW_BLOCKS 10.0

struct adam {
    struct ah_optimizer_layout layout;
    struct ah_optimizer_work kinds[AH_OPTIMIZER_KINDS];
    unsigned n;                     /* number of kinds measured */
    struct ah_bandwidth *bandwidth; /* passes over host memory; NULL: AdamW is compared with copies instead */
    struct ah_op copy;
    struct ah_lanes_work copies;
    struct ah_sampler_work works[1 + AH_OPTIMIZER_KINDS]; /* MOVING, then the kinds */
    struct ah_sampler_series series[1 + AH_OPTIMIZER_KINDS];
    double moved_bytes; /* bytes moved per repeat of MOVING */
    unsigned threads;
};

static int run_scale(void *context, uint64_t repeats, double *ret_seconds, struct ah_error *err)
{
    return ah_bandwidth_run(context, AH_MEMORY_SCALE, repeats, ret_seconds, err);
}

/* Finds the number of parameters of one op: TILE_MAX, or fewer if an op would take too long. */
static int find_tile(const struct ah_measure *measure, struct ah_device *device, struct adam *adam,
                     uint64_t *ret_tile, struct ah_error *err)
{
    struct ah_optimizer_work *work = &adam->kinds[0];
    uint64_t tile = adam->layout.params < TILE_MAX ? adam->layout.params : TILE_MAX;
    uint64_t probe = tile / 16 / TILE_UNIT * TILE_UNIT;
    double seconds;
    probe = probe ? probe : TILE_UNIT;
    ah_optimizer_build(work, device, &adam->layout, &ah_optimizer_kinds[0], probe);
    int rc = ah_lanes_run(&work->lane, 1, &seconds, err);
    if (rc)
        return rc;
    double most = SLOW_BLOCKS * measure->limits->block_s / seconds * (double)probe;
    if (most < (double)tile)
        tile = (uint64_t)most;
    tile = tile / TILE_UNIT * TILE_UNIT;
    *ret_tile = tile ? tile : TILE_UNIT;
    return AH_OK;
}

static int build_works(const struct ah_measure *measure, struct ah_device *device, struct adam *adam,
                       struct ah_error *err)
{
    uint64_t tile;
    int rc = find_tile(measure, device, adam, &tile, err);
    if (rc)
        return rc;
    for (unsigned i = 0; i < adam->n; i++) {
        ah_optimizer_build(&adam->kinds[i], device, &adam->layout, &ah_optimizer_kinds[i], tile);
        adam->works[1 + i] = ah_lanes_sampler_work(&adam->kinds[i].lane);
    }
    if (adam->bandwidth) {
        adam->works[MOVING] = (struct ah_sampler_work){.run = run_scale, .context = adam->bandwidth};
        adam->moved_bytes = (double)ah_bandwidth_slice_bytes(AH_MEMORY_SCALE);
        return AH_OK;
    }
    adam->copy = (struct ah_op){.kind = AH_OP_COPY,
                                .arg = {adam->layout.m[AH_FP32], adam->layout.master},
                                .u.copy = {4 * adam->layout.params}};
    adam->copies = (struct ah_lanes_work){device, AH_LANE_COMPUTE, &adam->copy, 1, 0};
    adam->works[MOVING] = ah_lanes_sampler_work(&adam->copies);
    adam->moved_bytes = 2.0 * (double)adam->copy.u.copy.bytes;
    return AH_OK;
}

/* Returns the median over rounds of AdamW's bytes per second, relative to those of the pass that only moves data. */
static double share_of(const struct adam *adam, unsigned kind)
{
    const struct ah_sampler_series *steps = &adam->series[1 + kind];
    struct ah_sampler_series shares = {.n = steps->n};
    double bytes = ah_optimizer_kinds[kind].param_bytes * (double)adam->kinds[kind].tile;
    for (size_t i = 0; i < shares.n; i++)
        shares.values[i] = bytes / steps->values[i] / (adam->moved_bytes / adam->series[MOVING].values[i]);
    return ah_sampler_metric(&shares, 1).median;
}

static void store_rates(struct ah_measure *measure, const struct adam *adam)
{
    for (unsigned i = 0; i < adam->n; i++) {
        const struct ah_optimizer_types *types = &ah_optimizer_kinds[i];
        measure->machine->adam[measure->machine->n_adam++] = (struct ah_machine_adam){
            .side = adam->layout.side,
            .threads = adam->threads,
            .state_dtype = types->state,
            .gradient_dtype = types->gradient,
            .weight_dtype = types->weight,
            .params_per_s = ah_sampler_rate(&adam->series[1 + i], (double)adam->kinds[i].tile),
            .bandwidth_share = share_of(adam, i),
        };
        ah_measure_judge(measure, &adam->series[1 + i], "%s %s weights, %s states on %u",
                         ah_words_side[adam->layout.side], ah_words_dtype[types->weight],
                         ah_words_dtype[types->state], adam->threads);
    }
}

/* Measures AdamW on one side, with `threads` threads on its lane. */
static int measure_side(struct ah_measure *measure, enum ah_side side, unsigned threads,
                        struct ah_bandwidth *bandwidth, struct ah_error *err)
{
    struct ah_sampler sampler =
        ah_measure_sampler(measure, "AdamW on the %s, threads: %u", ah_words_side[side], threads);
    bool host = side == AH_HOST;
    struct ah_device *device = NULL;
    struct adam *adam = calloc(1, sizeof *adam);
    if (!adam)
        return ah_error_memory(err);
    adam->layout = ah_optimizer_plan(side, ah_measure_fit(measure, 4 * measure->limits->adam_params) / 4);
    adam->n = measure->limits->adam_kinds;
    adam->bandwidth = bandwidth;
    adam->threads = host || measure->info.kind == AH_DEVICE_CPU ? threads : 0;

    int rc = ah_measure_open(measure, host ? 1 : threads, host ? threads : 1, true, &device, err);
    if (rc == AH_OK)
        rc = ah_device_reserve(device, adam->layout.arena_bytes, err);
    if (rc == AH_OK)
        rc = ah_optimizer_fill(device, &adam->layout, err);
    if (rc == AH_OK && bandwidth)
        rc = ah_bandwidth_use(bandwidth, threads, measure->topology.cpus, err);
    if (rc == AH_OK)
        rc = build_works(measure, device, adam, err);
    if (rc == AH_OK)
        rc = ah_sampler_measure(&sampler, adam->works, 1 + adam->n, adam->series, err);
    if (rc == AH_OK)
        store_rates(measure, adam);
    if (bandwidth)
        ah_bandwidth_rest(bandwidth);
    ah_device_close(device);
    free(adam);
    return rc;
}

/* Returns the largest number of threads: all processors; with a GPU, all cores but one, for enqueuing (cuda/near.h). */
static unsigned most_threads(const struct ah_measure *measure)
{
    const unsigned cores = measure->topology.cores;
    if (measure->info.kind == AH_DEVICE_CPU)
        return measure->processors;
    return cores > 1 ? cores - 1 : 1;
}

int ah_adam_measure(struct ah_measure *measure, struct ah_error *err)
{
    unsigned counts[AH_MEASURE_COUNTS_MAX];
    size_t n = ah_measure_threads(measure, most_threads(measure), counts);
    struct ah_machine *machine = measure->machine;
    machine->adam = ah_arena_array(&measure->document->arena, measure->limits->adam_kinds * (n + 1),
                                   sizeof *machine->adam);
    if (!machine->adam)
        return ah_error_memory(err);
    struct ah_bandwidth *bandwidth = NULL;
    int rc = ah_measure_bandwidth(measure, &bandwidth, err);
    ah_measure_sets(measure, (unsigned)n + 1);
    for (size_t i = 0; i < n && rc == AH_OK; i++)
        rc = measure_side(measure, AH_HOST, counts[i], bandwidth, err);
    bool shared = measure->info.kind == AH_DEVICE_CPU; /* device and host use the same memory */
    if (rc == AH_OK)
        rc = measure_side(measure, AH_DEVICE, measure->compute_threads, shared ? bandwidth : NULL, err);
    return rc;
}
