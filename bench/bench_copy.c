/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures what fraction of its speed each copy lane of a device keeps while a matrix product runs.
 *
 * Every round measures the product alone, the copies alone, and both together for about as long. Each fraction compares
 * runs of one round, so a change in the machine's speed affects both runs. The output is the median fraction. Enough
 * ops of both kinds are queued for the whole measurement, and rates come from ops that ran while the other lane worked.
 *
 *     bench_copy [--rounds N] [--direction h2d|d2h|both] [--dtype fp32|bf16]
 *     bench_copy --throttle RATE       ratio of a slowed lane's rate to RATE bytes a second, for each direction
 *
 * One compute thread; copy lanes use the remaining processors.
 */
#include "base/stats.h"
#include "base/threads.h"
#include "runtime/device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS_MAX = 100, COPIES = 400, PRODUCTS = 400, SPANS = 1024 };

#define MIB          UINT64_C(1048576)
#define COPY_BYTES   (16 * MIB)
#define DEVICE_ARENA (192 * MIB)

struct bench {
    struct ah_device *device;
    struct ah_op product;
    struct ah_op copies[2]; /* h2d, d2h */
    bool directions[2];
    unsigned rounds;
};

static void fail(const char *what)
{
    fprintf(stderr, "bench_copy: %s\n", what);
    exit(1);
}

static void submit(const struct bench *bench, uint32_t lane, const struct ah_op *op, unsigned times)
{
    struct ah_error err = {0};
    for (unsigned i = 0; i < times; i++)
        if (ah_device_submit(bench->device, &(struct ah_submission){.lane = lane, .op = op}, 1, NULL, &err))
            fail(err.text);
}

static void drain(const struct bench *bench)
{
    struct ah_error err = {0};
    if (ah_device_drain(bench->device, &err))
        fail(err.text);
}

/* Returns the ops per second among the newest `n` of a lane. Only ops that ran within `from_ns` to `to_ns` count. */
static double rate_of(const struct bench *bench, uint32_t lane, unsigned n, uint64_t from_ns, uint64_t to_ns)
{
    static struct ah_span spans[SPANS];
    struct ah_span_reader reader = ah_device_newest(bench->device, lane, n);
    size_t found = ah_device_spans(bench->device, &reader, spans, n);
    double busy_ns = 0;
    unsigned ops = 0;
    for (size_t i = 0; i < found; i++)
        if (spans[i].start_ns >= from_ns && spans[i].end_ns <= to_ns) {
            busy_ns += (double)(spans[i].end_ns - spans[i].start_ns);
            ops++;
        }
    return ops ? (double)ops / busy_ns : 0;
}

/* Narrows the window to the time during which the lane ran its newest `n` ops. */
static void window_of(const struct bench *bench, uint32_t lane, unsigned n, uint64_t *from_ns,
                      uint64_t *to_ns)
{
    static struct ah_span spans[SPANS];
    struct ah_span_reader reader = ah_device_newest(bench->device, lane, n);
    size_t found = ah_device_spans(bench->device, &reader, spans, n);
    if (found == 0)
        fail("a lane has no spans");
    *from_ns = spans[0].start_ns > *from_ns ? spans[0].start_ns : *from_ns;
    *to_ns = spans[found - 1].end_ns < *to_ns ? spans[found - 1].end_ns : *to_ns;
}

static double alone(const struct bench *bench, uint32_t lane, const struct ah_op *op, unsigned times)
{
    submit(bench, lane, op, times);
    drain(bench);
    return rate_of(bench, lane, times, 0, UINT64_MAX);
}

struct shares {
    double product[ROUNDS_MAX];
    double copy[2][ROUNDS_MAX];
    double bytes_per_s[2][ROUNDS_MAX];
};

static void measure_round(const struct bench *bench, struct shares *shares, unsigned round, unsigned products,
                          unsigned copies)
{
    double product_alone = alone(bench, AH_LANE_COMPUTE, &bench->product, products / 2);
    double copy_alone[2] = {0};
    uint64_t from_ns = 0, to_ns = UINT64_MAX;
    for (uint32_t d = 0; d < 2; d++)
        if (bench->directions[d])
            copy_alone[d] = alone(bench, AH_LANE_H2D + d, &bench->copies[d], copies / 2);
    for (uint32_t d = 0; d < 2; d++)
        if (bench->directions[d])
            submit(bench, AH_LANE_H2D + d, &bench->copies[d], copies);
    submit(bench, AH_LANE_COMPUTE, &bench->product, products);
    drain(bench);
    window_of(bench, AH_LANE_COMPUTE, products, &from_ns, &to_ns);
    for (uint32_t d = 0; d < 2; d++)
        if (bench->directions[d])
            window_of(bench, AH_LANE_H2D + d, copies, &from_ns, &to_ns);
    shares->product[round] = rate_of(bench, AH_LANE_COMPUTE, products, from_ns, to_ns) / product_alone;
    for (uint32_t d = 0; d < 2; d++)
        if (bench->directions[d]) {
            double rate = rate_of(bench, AH_LANE_H2D + d, copies, from_ns, to_ns);
            shares->copy[d][round] = rate / copy_alone[d];
            shares->bytes_per_s[d][round] = rate * (double)COPY_BYTES * 1e9;
        }
}

static int measure_beside(const struct bench *bench)
{
    static struct shares shares;
    static const char *const names[] = {"h2d", "d2h"};
    int below = 0;
    double product_ns = 1 / alone(bench, AH_LANE_COMPUTE, &bench->product, 5);
    double copy_ns = 1 / alone(bench, AH_LANE_H2D, &bench->copies[0], 5);
    unsigned products = (unsigned)(300e6 / product_ns) + 4;
    unsigned copies = (unsigned)(300e6 / copy_ns) + 4;
    if (products > PRODUCTS || copies > COPIES)
        fail("this machine is too fast for the sizes of this benchmark");
    for (unsigned i = 0; i < bench->rounds; i++)
        measure_round(bench, &shares, i, products, copies);
    struct ah_stats product = ah_stats_of(shares.product, bench->rounds);
    printf("product keeps %.3f of its own speed (mad %.3f)\n", product.median, product.mad);
    below += product.median < 0.85;
    for (uint32_t d = 0; d < 2; d++) {
        if (!bench->directions[d])
            continue;
        struct ah_stats copy = ah_stats_of(shares.copy[d], bench->rounds);
        struct ah_stats rate = ah_stats_of(shares.bytes_per_s[d], bench->rounds);
        printf("%s     keeps %.3f of its own speed (mad %.3f), %.2f GB/s\n", names[d], copy.median, copy.mad,
               rate.median * 1e-9);
        below += copy.median < 0.85;
    }
    return below != 0;
}

static int measure_throttle(const struct bench *bench, double bytes_per_s)
{
    static const char *const names[] = {"h2d", "d2h"};
    double ratios[ROUNDS_MAX];
    int off = 0;
    for (uint32_t d = 0; d < 2; d++) {
        for (unsigned i = 0; i < bench->rounds; i++)
            ratios[i] =
                alone(bench, AH_LANE_H2D + d, &bench->copies[d], 4) * (double)COPY_BYTES * 1e9 / bytes_per_s;
        struct ah_stats ratio = ah_stats_of(ratios, bench->rounds);
        printf("%s: %.4f of the rate asked for (%.4f to %.4f)\n", names[d], ratio.median, ratio.min,
               ratio.max);
        off += ratio.median < 0.98 || ratio.median > 1.02;
    }
    return off != 0;
}

static void open_device(struct bench *bench, double throttle_bytes_per_s)
{
    struct ah_error err = {0};
    struct ah_device_options options = {.compute_threads = 1};
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {
        [AH_ARENA_DEVICE] = DEVICE_ARENA, [AH_ARENA_PINNED] = UINT64_C(4) * COPY_BYTES};
    options.throttle.h2d_bytes_per_s = options.throttle.d2h_bytes_per_s = throttle_bytes_per_s;
    if (ah_device_open(&bench->device, ah_device_cpu(), &options, &err) ||
        ah_device_prepare(bench->device, &bench->product, 1, &err) ||
        ah_device_reserve(bench->device, arena_bytes, &err))
        fail(err.text);
    printf("%s, 1 compute thread, copies of 16 MiB, %u rounds%s\n", bench->device->info.name, bench->rounds,
           bench->device->info.locked_bytes ? "" : ", host memory not locked");
}

static struct ah_op copy(uint32_t to, uint64_t to_offset, uint32_t from, uint64_t from_offset)
{
    return (struct ah_op){.kind = AH_OP_COPY,
                          .arg = {{to, AH_FP32, to_offset, 0}, {from, AH_FP32, from_offset, 0}},
                          .u.copy = {COPY_BYTES}};
}

int main(int argc, char **argv)
{
    struct bench bench = {.directions = {true, false}, .rounds = 9};
    uint32_t dtype = AH_FP32;
    double throttle = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--rounds"))
            bench.rounds = (unsigned)atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--dtype"))
            dtype = !strcmp(argv[i + 1], "bf16");
        else if (!strcmp(argv[i], "--throttle"))
            throttle = atof(argv[i + 1]);
        else if (!strcmp(argv[i], "--direction")) {
            bench.directions[0] = strcmp(argv[i + 1], "d2h") != 0;
            bench.directions[1] = strcmp(argv[i + 1], "h2d") != 0;
        } else
            fail("usage: [--rounds N] [--direction h2d|d2h|both] [--dtype fp32|bf16] [--throttle "
                 "BYTES_PER_S]");
    }
    if (bench.rounds < 1 || bench.rounds > ROUNDS_MAX)
        fail("--rounds from 1 to 100");
    bench.product = (struct ah_op){.kind = AH_OP_MATMUL, .u.matmul = {.m = 1024, .n = 2304, .k = 768}};
    for (uint64_t i = 0; i < 3; i++)
        bench.product.arg[i] = (struct ah_ref){AH_ARENA_DEVICE, dtype, i * 16 * MIB, 0};
    bench.copies[0] = copy(AH_ARENA_DEVICE, 64 * MIB, AH_ARENA_PINNED, 0);
    bench.copies[1] = copy(AH_ARENA_PINNED, 2 * COPY_BYTES, AH_ARENA_DEVICE, 96 * MIB);
    open_device(&bench, throttle);
    int rc = throttle > 0 ? measure_throttle(&bench, throttle) : measure_beside(&bench);
    ah_device_close(bench.device);
    return rc;
}
