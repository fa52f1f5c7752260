/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes beside each other: measures what fraction of its rate each part keeps while another part works all the time.
 *
 * A round runs each part alone, then each pair of parts at once. The fraction is a part's time per op alone, divided by
 * its time per op in the pair, both from the same round. The link's latency is subtracted from both times, because the
 * fraction is one of rates. In a pair, only the time in which both parts worked counts (measure_lanes.c), so neither
 * has to outlast the other. Each pair gives two fractions.
 *
 * Other users of the machine slow one part or both. If a part lacks a processor and stalls, the other part does not
 * share the memory, and its fraction becomes too large. So each run is made CALM_OF times in a row. Of a part alone,
 * the fastest run counts; of a pair, the run with the largest sum of both fractions.
 *
 *     compute    one product of the first shape, bf16 if the device has it
 *     h2d, d2h   copies through separate regions
 *     host_adam  AdamW with bf16 gradients and weights, states in pageable memory
 */
#include "profiler/measure_internal.h"

#include "profiler/optimizer_internal.h"

#include <math.h>
#include <stdlib.h>

enum {
    PARTS = 4,
    PAIRS = PARTS * (PARTS - 1) / 2,
    SHARES = 2 * PAIRS,
    COPIES_MAX = 16,
    TRIES = 8,
    CALM_OF = 3,
    RUNS = CALM_OF * (PARTS + PAIRS), /* number of runs in a round */
    COPY_UNIT = 64 << 10,
    TILE_UNIT = 4096,
};

/* How long a part runs, in ops of about a block each: BLOCKS, or fewer for a slow part. */
#define BLOCKS       6
#define BLOCKS_LEAST 2

struct stand {
    struct ah_device *device;
    uint64_t arena_bytes[AH_ARENA_KINDS];
    struct ah_optimizer_layout layout; /* begins where the host's arenas begin */
    struct ah_ref operands;            /* three operands of place_bytes each */
    uint64_t place_bytes;
    struct ah_ref regions[2][2]; /* [direction][0: dst, 1: src] */
    uint64_t region_bytes;       /* by direction: size of a region */

    struct ah_op product;
    struct ah_op copies[2][COPIES_MAX];
    struct ah_optimizer_work adam;
    struct ah_lanes_work lanes[PARTS]; /* by enum ah_part */
    uint64_t repeats[PARTS];
    double latency_s[PARTS]; /* latency per op, from the fitted links; 0 for parts other than copies */
    struct ah_sampler_series series[SHARES];
};

static struct ah_ref alloc_place(struct stand *stand, enum ah_arena_kind arena, uint64_t bytes)
{
    struct ah_ref ref = {(uint32_t)arena, AH_BF16, stand->arena_bytes[arena], 0};
    stand->arena_bytes[arena] += (bytes + 4095) / 4096 * 4096;
    return ref;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void lay_out(const struct ah_measure *measure, struct stand *stand)
{
    const struct ah_measure_shape *shape = &measure->shapes[0];
    uint64_t largest = larger(shape->m * shape->k, larger(shape->k * shape->n, shape->m * shape->n));
    uint64_t params = ah_measure_fit(measure, 4 * measure->limits->adam_params) / 4;
    stand->layout = ah_optimizer_plan(AH_HOST, params);
    for (int i = 0; i < AH_ARENA_KINDS; i++)
        stand->arena_bytes[i] = stand->layout.arena_bytes[i];
    stand->place_bytes = (4 * largest + 4095) / 4096 * 4096;
    stand->operands = alloc_place(stand, AH_ARENA_DEVICE, 3 * stand->place_bytes);
    stand->region_bytes = ah_measure_fit(measure, measure->limits->link_bytes);
    for (int direction = 0; direction < 2; direction++) {
        enum ah_arena_kind to = direction == AH_H2D ? AH_ARENA_DEVICE : AH_ARENA_PINNED;
        enum ah_arena_kind from = direction == AH_H2D ? AH_ARENA_PINNED : AH_ARENA_DEVICE;
        stand->regions[direction][0] = alloc_place(stand, to, stand->region_bytes);
        stand->regions[direction][1] = alloc_place(stand, from, stand->region_bytes);
    }
}

static int fill_memory(struct stand *stand, struct ah_error *err)
{
    struct ah_ref stage = stand->layout.stage;
    int rc = ah_optimizer_fill(stand->device, &stand->layout, err);
    if (rc == AH_OK)
        rc = ah_lanes_fill(stand->device, stand->operands, 3 * stand->place_bytes, stage, err);
    for (int i = 0; i < 4 && rc == AH_OK; i++)
        rc = ah_lanes_fill(stand->device, stand->regions[i / 2][i % 2], stand->region_bytes, stage, err);
    return rc;
}

static void build_product(const struct ah_measure *measure, struct stand *stand)
{
    const struct ah_measure_shape *shape = &measure->shapes[0];
    stand->product = (struct ah_op){
        .kind = AH_OP_MATMUL,
        .u.matmul = {.form = AH_MATMUL_NN, .m = shape->m, .n = shape->n, .k = shape->k},
    };
    for (uint64_t i = 0; i < 3; i++) {
        stand->product.arg[i] = stand->operands;
        stand->product.arg[i].dtype = measure->info.bf16 ? AH_BF16 : AH_FP32;
        stand->product.arg[i].offset_bytes += i * stand->place_bytes;
    }
    stand->lanes[AH_PART_COMPUTE] =
        (struct ah_lanes_work){stand->device, AH_LANE_COMPUTE, &stand->product, 1, 0};
}

static void build_copies(struct stand *stand, enum ah_direction direction, uint64_t bytes)
{
    size_t n = 0;
    for (uint64_t offset = 0; n < COPIES_MAX && offset + bytes <= stand->region_bytes; offset += bytes) {
        struct ah_op *op = &stand->copies[direction][n++];
        *op = (struct ah_op){.kind = AH_OP_COPY, .u.copy = {bytes}};
        for (int i = 0; i < 2; i++) {
            op->arg[i] = stand->regions[direction][i];
            op->arg[i].offset_bytes += offset;
        }
    }
    bool up = direction == AH_H2D;
    stand->lanes[up ? AH_PART_H2D : AH_PART_D2H] =
        (struct ah_lanes_work){stand->device, up ? AH_LANE_H2D : AH_LANE_D2H, stand->copies[direction], n, 0};
}

static void build_adam(struct stand *stand, uint64_t tile)
{
    ah_optimizer_build(&stand->adam, stand->device, &stand->layout, &ah_optimizer_kinds[1], tile);
    stand->lanes[AH_PART_HOST_ADAM] = stand->adam.lane;
}

/* Finds how many units an op needs to last about `block_s`. The lane's op must have `units`, and is timed once. */
static int fit_op(struct ah_lanes_work *lane, double block_s, uint64_t units, uint64_t most,
                  uint64_t multiple, uint64_t *ret_units, struct ah_error *err)
{
    double seconds;
    int rc = ah_lanes_run(lane, 1, &seconds, err);
    if (rc)
        return rc;
    double fitting = block_s / seconds * (double)units;
    uint64_t fitted = fitting < (double)most ? (uint64_t)fitting : most;
    fitted = fitted / multiple * multiple;
    *ret_units = fitted ? fitted : multiple;
    return AH_OK;
}

static void take_latencies(const struct ah_machine *machine, struct stand *stand)
{
    for (size_t i = 0; i < machine->n_links; i++) {
        bool up = machine->links[i].direction == AH_H2D;
        stand->latency_s[up ? AH_PART_H2D : AH_PART_D2H] = machine->links[i].latency_us * 1e-6;
    }
}

static int reserve(const struct ah_measure *measure, struct stand *stand, struct ah_error *err)
{
    build_product(measure, stand);
    int rc = ah_device_prepare(stand->device, &stand->product, 1, err);
    return rc ? rc : ah_device_reserve(stand->device, stand->arena_bytes, err);
}

static int build_lanes(const struct ah_measure *measure, struct stand *stand, struct ah_error *err)
{
    double block_s = measure->limits->block_s;
    uint64_t units;
    take_latencies(measure->machine, stand);
    int rc = AH_OK;
    for (int direction = 0; direction < 2 && rc == AH_OK; direction++) {
        build_copies(stand, (enum ah_direction)direction, COPY_UNIT);
        rc = fit_op(&stand->lanes[direction == AH_H2D ? AH_PART_H2D : AH_PART_D2H], block_s, COPY_UNIT,
                    stand->region_bytes / 4, COPY_UNIT, &units, err);
        if (rc == AH_OK)
            build_copies(stand, (enum ah_direction)direction, units);
    }
    if (rc)
        return rc;
    build_adam(stand, 16 * TILE_UNIT);
    rc = fit_op(&stand->lanes[AH_PART_HOST_ADAM], block_s, 16 * TILE_UNIT, stand->layout.params / 4,
                TILE_UNIT, &units, err);
    if (rc == AH_OK)
        build_adam(stand, units);
    return rc;
}

/* Returns the longest time of a run with which the least number of rounds fits into the part's time. */
static double affordable_s(const struct ah_measure *measure)
{
    return measure->part_s / (measure->limits->samples_min * RUNS);
}

/* Sets the number of each part's ops so that all parts run for the same time. The target time is that of BLOCKS ops of
 * the slowest part or, if that is too long, of BLOCKS_LEAST. */
static int settle_repeats(const struct ah_measure *measure, const struct ah_sampler *sampler,
                          struct stand *stand, struct ah_error *err)
{
    struct ah_sampler longer = *sampler;
    double each_s[PARTS];
    double long_s = longer.block_s *= BLOCKS;
    double most_s = fmax(long_s, affordable_s(measure));
    for (int part = 0; part < PARTS; part++) {
        struct ah_sampler_work work = ah_lanes_sampler_work(&stand->lanes[part]);
        int rc = ah_sampler_settle(&longer, &work, &stand->repeats[part], &each_s[part], err);
        if (rc)
            return rc;
        long_s = fmax(long_s, fmin(BLOCKS * each_s[part], fmax(most_s, BLOCKS_LEAST * each_s[part])));
    }
    for (int part = 0; part < PARTS; part++)
        stand->repeats[part] = (uint64_t)fmin(ceil(long_s / each_s[part]), AH_LANES_REPEATS_MAX);
    return AH_OK;
}

/* Runs the two lanes of a pair at once. On a busy machine, one lane may be done before the other gets a processor. So
 * if the lanes did not overlap, tries again with twice as many ops. */
static int run_pair(struct stand *stand, int a, int b, double ret_seconds_each[2], struct ah_error *err)
{
    struct ah_lanes_work *const works[2] = {&stand->lanes[a], &stand->lanes[b]};
    uint64_t repeats[2] = {stand->repeats[a], stand->repeats[b]};
    int rc = AH_E_FAILED;
    for (int i = 0; i < TRIES && rc == AH_E_FAILED; i++) {
        rc = ah_lanes_run_both(works, repeats, ret_seconds_each, err);
        if (larger(repeats[0], repeats[1]) <= AH_LANES_REPEATS_MAX / 2) {
            repeats[0] *= 2;
            repeats[1] *= 2;
        }
    }
    return rc;
}

/* Returns what fraction of its rate `part` keeps, from its times per op alone and in a pair. */
static double share_kept(const struct stand *stand, int part, double alone_s, double beside_s)
{
    double latency_s = stand->latency_s[part];
    if (latency_s >= alone_s || latency_s >= beside_s)
        latency_s = 0;
    return (alone_s - latency_s) / (beside_s - latency_s);
}

/* Measures a part alone. The result is the time per op in the fastest run. */
static int run_alone(struct stand *stand, int part, double *ret_each_s, struct ah_error *err)
{
    double fastest_s = INFINITY;
    int rc = AH_OK;
    for (int i = 0; i < CALM_OF && rc == AH_OK; i++) {
        double seconds = INFINITY;
        rc = ah_lanes_run(&stand->lanes[part], stand->repeats[part], &seconds, err);
        fastest_s = fmin(fastest_s, seconds / (double)stand->repeats[part]);
    }
    if (rc == AH_OK)
        *ret_each_s = fastest_s;
    return rc;
}

/* Measures a pair, given each part's time alone. The results are the fractions of the run with the largest sum. */
static int run_calmly(struct stand *stand, int a, int b, const double alone_s[PARTS], double ret_shares[2],
                      struct ah_error *err)
{
    double most = -INFINITY;
    for (int i = 0; i < CALM_OF; i++) {
        double each_s[2];
        int rc = run_pair(stand, a, b, each_s, err);
        if (rc)
            return rc;
        const double shares[2] = {share_kept(stand, a, alone_s[a], each_s[0]),
                                  share_kept(stand, b, alone_s[b], each_s[1])};
        if (shares[0] + shares[1] > most) {
            most = shares[0] + shares[1];
            ret_shares[0] = shares[0];
            ret_shares[1] = shares[1];
        }
    }
    return AH_OK;
}

/* Runs one round. `ret_shares` gets, for each pair (a < b) in turn, the fractions of their rates that a and b keep. */
static int round_of_shares(void *context, double *ret_shares, struct ah_error *err)
{
    struct stand *stand = context;
    double alone_s[PARTS];
    int rc = AH_OK;
    for (int part = 0; part < PARTS && rc == AH_OK; part++)
        rc = run_alone(stand, part, &alone_s[part], err);
    for (int a = 0; a < PARTS; a++)
        for (int b = a + 1; b < PARTS && rc == AH_OK; b++, ret_shares += 2)
            rc = run_calmly(stand, a, b, alone_s, ret_shares, err);
    return rc;
}

static int store_shares(struct ah_measure *measure, const struct stand *stand, struct ah_error *err)
{
    struct ah_machine *machine = measure->machine;
    size_t n = 0;
    machine->beside = ah_arena_array(&measure->document->arena, SHARES, sizeof *machine->beside);
    if (!machine->beside)
        return ah_error_memory(err);
    for (int a = 0; a < PARTS; a++)
        for (int b = a + 1; b < PARTS; b++)
            for (int swapped = 0; swapped < 2; swapped++) {
                struct ah_machine_beside *to = &machine->beside[machine->n_beside++];
                to->part = (enum ah_part)(swapped ? b : a);
                to->beside = (enum ah_part)(swapped ? a : b);
                to->kept = ah_sampler_metric(&stand->series[n], 1);
                ah_measure_judge(measure, &stand->series[n++], "%s beside %s", ah_words_part[to->part],
                                 ah_words_part[to->beside]);
            }
    return AH_OK;
}

int ah_beside_measure(struct ah_measure *measure, struct ah_error *err)
{
    struct stand *stand = calloc(1, sizeof *stand);
    if (!stand)
        return ah_error_memory(err);
    ah_measure_sets(measure, 1);
    struct ah_sampler sampler = ah_measure_sampler(measure, "lanes beside each other");
    lay_out(measure, stand);
    int rc =
        ah_measure_open(measure, measure->compute_threads, measure->host_threads, true, &stand->device, err);
    if (rc == AH_OK)
        rc = reserve(measure, stand, err);
    if (rc == AH_OK)
        rc = fill_memory(stand, err);
    if (rc == AH_OK)
        rc = build_lanes(measure, stand, err);
    if (rc == AH_OK)
        rc = settle_repeats(measure, &sampler, stand, err);
    if (rc == AH_OK)
        rc = ah_sampler_rounds(&sampler, round_of_shares, stand, SHARES, stand->series, err);
    if (rc == AH_OK)
        rc = store_shares(measure, stand, err);
    ah_device_close(stand->device);
    free(stand);
    return rc;
}
