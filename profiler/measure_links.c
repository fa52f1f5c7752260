/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures copies in each direction on the copy lanes: the times by size, and the line through these times,
 *
 *     time = latency + bytes / rate
 *
 * fitted to the medians so that relative errors weigh equally (ah_stats_fit_line). If noise makes large copies look
 * faster than small ones, the rate is that of the largest copy, without a latency. Copies follow each other on a busy
 * lane. Each copies another part of a large region, so that no copy finds the previous one's data in a cache. All sizes
 * of one direction are measured in one set of rounds.
 */
#include "profiler/measure_internal.h"

#include "base/stats.h"
#include "profiler/lanes_internal.h"
#include "profiler/pcie.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIZES_MAX = 16, OPS_MAX = 64, SMALLEST = 64 << 10, SIZES_MIN = 3 };

/* The longest copy, in blocks. The sweep ends before longer ones, which occur on a throttled lane. */
#define SLOW_BLOCKS 40.0

struct sweep {
    uint64_t bytes[SIZES_MAX];
    struct ah_op ops[SIZES_MAX][OPS_MAX];
    struct ah_lanes_work lanes[SIZES_MAX];
    struct ah_sampler_work works[SIZES_MAX];
    struct ah_sampler_series series[SIZES_MAX];
    size_t n;
};

/* Makes at most OPS_MAX copies of `bytes` each, spread over a region. Returns their number. */
static size_t copy_ops(enum ah_direction direction, uint64_t bytes, uint64_t region, struct ah_op *ret_ops)
{
    size_t n = 0;
    uint64_t spread = region / OPS_MAX / SMALLEST * SMALLEST;
    uint64_t stride = spread > bytes ? spread : bytes;
    for (uint64_t offset = 0; n < OPS_MAX && offset + bytes <= region; offset += stride) {
        struct ah_ref device = {AH_ARENA_DEVICE, AH_BF16, offset, 0};
        struct ah_ref host = {AH_ARENA_PINNED, AH_BF16, offset, 0};
        ret_ops[n++] = (struct ah_op){
            .kind = AH_OP_COPY,
            .arg = {direction == AH_H2D ? device : host, direction == AH_H2D ? host : device},
            .u.copy = {bytes},
        };
    }
    return n;
}

static int build_sweep(const struct ah_measure *measure, struct ah_device *device,
                       enum ah_direction direction, uint64_t region, struct sweep *sweep,
                       struct ah_error *err)
{
    uint64_t most = region / 2;
    sweep->n = 0;
    for (uint64_t bytes = SMALLEST; bytes <= most && sweep->n < SIZES_MAX;
         bytes *= measure->limits->link_factor) {
        size_t i = sweep->n;
        size_t n_ops = copy_ops(direction, bytes, region, sweep->ops[i]);
        sweep->bytes[i] = bytes;
        sweep->lanes[i] = (struct ah_lanes_work){device, direction == AH_H2D ? AH_LANE_H2D : AH_LANE_D2H,
                                                 sweep->ops[i], n_ops, 0};
        sweep->works[i] = ah_lanes_sampler_work(&sweep->lanes[i]);

        double seconds;
        int rc = ah_lanes_run(&sweep->lanes[i], 1, &seconds, err);
        if (rc)
            return rc;
        if (i >= SIZES_MIN && seconds > SLOW_BLOCKS * measure->limits->block_s)
            break;
        sweep->n++;
    }
    return AH_OK;
}

/* Returns a metric with the fitted rate and, relative to its median, the spread of the largest size. */
static struct ah_metric fitted_metric(const struct ah_sampler_series *largest, uint64_t bytes, double rate)
{
    struct ah_metric metric = ah_sampler_rate(largest, (double)bytes);
    double scale = rate / metric.median;
    metric.median = rate;
    metric.mad *= scale;
    metric.min *= scale;
    metric.max *= scale;
    return metric;
}

/* Fits the line of `link`. Returns its slope in us per byte, or 0 if a copy seems to take no time. */
static double fit_link(struct ah_measure *measure, struct ah_machine_link *link)
{
    double bytes[SIZES_MAX];
    double us[SIZES_MAX];
    double slope;
    size_t n = link->n_points;
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (double)link->points[i].bytes;
        us[i] = link->points[i].us.median;
        if (!(us[i] > 0))
            return 0;
    }
    if (ah_stats_fit_line(bytes, us, n, &link->latency_us, &slope, &link->fit_error) == 0 && slope > 0)
        return slope;
    ah_measure_note(measure,
                    "%s: no straight line fits the copy times; the rate comes from copies of %llu "
                    "KiB",
                    ah_words_direction[link->direction],
                    (unsigned long long)(link->points[n - 1].bytes >> 10));
    slope = us[n - 1] / bytes[n - 1];
    link->latency_us = link->fit_error = 0;
    for (size_t i = 0; i < n; i++)
        link->fit_error = fmax(link->fit_error, fabs(slope * bytes[i] - us[i]) / us[i]);
    return slope;
}

static int store_link(struct ah_measure *measure, enum ah_direction direction, const struct sweep *sweep,
                      struct ah_error *err)
{
    struct ah_machine_link link = {.direction = direction, .n_points = sweep->n};
    link.points = ah_arena_array(&measure->document->arena, sweep->n, sizeof *link.points);
    if (!link.points)
        return ah_error_memory(err);
    for (size_t i = 0; i < sweep->n; i++) {
        link.points[i] =
            (struct ah_machine_point){sweep->bytes[i], ah_sampler_metric(&sweep->series[i], 1e6)};
        ah_measure_judge(measure, &sweep->series[i], "%s of %llu KiB", ah_words_direction[direction],
                         (unsigned long long)(sweep->bytes[i] >> 10));
    }
    double slope = fit_link(measure, &link);
    if (!(slope > 0)) {
        ah_measure_note(measure, "%s: a copy seems to take no time; the link was left out",
                        ah_words_direction[direction]);
        return AH_OK;
    }
    size_t last = sweep->n - 1;
    link.bytes_per_s = fitted_metric(&sweep->series[last], sweep->bytes[last], 1e6 / slope);
    measure->machine->links[measure->machine->n_links++] = link;
    return AH_OK;
}

static int measure_direction(struct ah_measure *measure, struct ah_device *device,
                             enum ah_direction direction, uint64_t region, struct ah_error *err)
{
    struct ah_sampler sampler =
        ah_measure_sampler(measure, "copies, %s", direction == AH_H2D ? "host to device" : "device to host");
    struct sweep *sweep = calloc(1, sizeof *sweep);
    if (!sweep)
        return ah_error_memory(err);
    int rc = build_sweep(measure, device, direction, region, sweep, err);
    if (rc == AH_OK)
        rc = ah_sampler_measure(&sampler, sweep->works, sweep->n, sweep->series, err);
    if (rc == AH_OK)
        rc = store_link(measure, direction, sweep, err);
    free(sweep);
    return rc;
}

/* Records the link's state. Call it right after copies, because an idle link is slower. */
static int keep_pcie(struct ah_measure *measure, const struct ah_device *device, struct ah_error *err)
{
    char folder[AH_DEVICE_NAME_MAX + 64];
    struct ah_machine_pcie pcie;
    snprintf(folder, sizeof folder, "/sys/bus/pci/devices/%s", device->info.address);
    if (!device->info.address[0] || !ah_pcie_read(folder, &pcie))
        return AH_OK;
    struct ah_machine_pcie *kept = ah_arena_alloc(&measure->document->arena, sizeof *kept);
    if (!kept)
        return ah_error_memory(err);
    *kept = pcie;
    measure->machine->device.pcie = kept;
    if (pcie.generation < pcie.max_generation || pcie.width < pcie.max_width)
        ah_measure_note(measure, "links: PCIe runs at generation %llu x%llu, but %llu x%llu is possible",
                        (unsigned long long)pcie.generation, (unsigned long long)pcie.width,
                        (unsigned long long)pcie.max_generation, (unsigned long long)pcie.max_width);
    return AH_OK;
}

int ah_links_measure(struct ah_measure *measure, struct ah_error *err)
{
    uint64_t region = ah_measure_fit(measure, 2 * measure->limits->link_bytes);
    const uint64_t arenas[AH_ARENA_KINDS] = {[AH_ARENA_DEVICE] = region, [AH_ARENA_PINNED] = region};
    const struct ah_ref stage = {AH_ARENA_PINNED, AH_BF16, 0, 0};
    struct ah_machine *machine = measure->machine;
    struct ah_device *device = NULL;
    machine->links = ah_arena_array(&measure->document->arena, 2, sizeof *machine->links);
    if (!machine->links)
        return ah_error_memory(err);
    ah_measure_sets(measure, 2);
    int rc = ah_measure_open(measure, measure->compute_threads, measure->host_threads, true, &device, err);
    if (rc == AH_OK)
        rc = ah_device_reserve(device, arenas, err);
    for (uint32_t arena = AH_ARENA_DEVICE; arena <= AH_ARENA_PINNED && rc == AH_OK; arena++)
        rc = ah_lanes_fill(device, (struct ah_ref){arena, AH_BF16, 0, 0}, region, stage, err);
    for (int direction = 0; direction < 2 && rc == AH_OK; direction++)
        rc = measure_direction(measure, device, (enum ah_direction)direction, region, err);
    if (rc == AH_OK)
        rc = keep_pcie(measure, device, err);
    ah_device_close(device);
    return rc;
}
