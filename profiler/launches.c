/* SPDX-License-Identifier: Apache-2.0
 *
 * Launches: measures the least time of an op on the compute lane, however little work it has.
 *
 * Ops of ELEMENTS elements are submitted like the ops of a block's pass in a run: an array at a time, joined.
 * Submitting continues while the lane works, so the slower of submitting and working is measured.
 */
#include "profiler/lanes_internal.h"
#include "profiler/measure_internal.h"

#include <stdlib.h>

enum { ELEMENTS = 1025, PASS_OPS = 32, PASSES_MAX = AH_LANES_REPEATS_MAX / PASS_OPS };

struct launches {
    struct ah_device *device;
    struct ah_op op;
    struct ah_submission pass[PASS_OPS];
    struct ah_span spans[AH_LANES_REPEATS_MAX];
};

static int run_passes(void *context, uint64_t repeats, double *ret_seconds, struct ah_error *err)
{
    struct launches *launches = context;
    uint64_t tickets[PASS_OPS] = {0};
    int rc = AH_OK;
    for (uint64_t i = 0; i < repeats && !rc; i++)
        rc = ah_device_submit(launches->device, launches->pass, PASS_OPS, tickets, err);
    rc = rc ? rc : ah_device_wait(launches->device, AH_LANE_COMPUTE, tickets[PASS_OPS - 1], err);
    if (rc)
        return rc;
    struct ah_span_reader reader = ah_device_newest(launches->device, AH_LANE_COMPUTE, repeats * PASS_OPS);
    size_t n = ah_device_spans(launches->device, &reader, launches->spans, AH_LANES_REPEATS_MAX);
    if (!n)
        return ah_error_set(err, AH_E_FAILED, "lane 'compute' does not record its ops");
    *ret_seconds = (double)(launches->spans[n - 1].end_ns - launches->spans[0].start_ns) * 1e-9;
    return AH_OK;
}

static int open_device(const struct ah_measure *measure, struct launches *launches, struct ah_error *err)
{
    const uint64_t arenas[AH_ARENA_KINDS] = {[AH_ARENA_DEVICE] = ELEMENTS * sizeof(float)};
    launches->op = (struct ah_op){
        .kind = AH_OP_FILL, .arg = {{AH_ARENA_DEVICE, AH_FP32, 0, 0}}, .u.elements = {.count = ELEMENTS}};
    for (size_t i = 0; i < PASS_OPS; i++)
        launches->pass[i] =
            (struct ah_submission){.lane = AH_LANE_COMPUTE, .op = &launches->op, .joins = i + 1 < PASS_OPS};
    int rc = ah_measure_open(measure, measure->compute_threads, 1, false, &launches->device, err);
    rc = rc ? rc : ah_device_prepare(launches->device, &launches->op, 1, err);
    return rc ? rc : ah_device_reserve(launches->device, arenas, err);
}

int ah_launches_measure(struct ah_measure *measure, struct ah_error *err)
{
    struct ah_sampler_series series = {.n = 0};
    struct ah_metric *metric = ah_arena_alloc(&measure->document->arena, sizeof *metric);
    struct launches *launches = calloc(1, sizeof *launches);
    if (!metric || !launches) {
        free(launches);
        return ah_error_memory(err);
    }
    const struct ah_sampler_work work = {run_passes, launches, PASSES_MAX};
    ah_measure_sets(measure, 1);
    struct ah_sampler sampler = ah_measure_sampler(measure, "launches");
    int rc = open_device(measure, launches, err);
    rc = rc ? rc : ah_sampler_measure(&sampler, &work, 1, &series, err);
    if (!rc) {
        *metric = ah_sampler_metric(&series, 1e6 / PASS_OPS);
        ah_measure_judge(measure, &series, "launches");
        measure->machine->launch_us = metric;
    }
    ah_device_close(launches->device);
    free(launches);
    return rc;
}
