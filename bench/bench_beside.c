/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures the rate of each lane of a GPU while all lanes work, as in plans, and what the processors do meanwhile.
 *
 *     bench_beside [--rounds N] [--device cuda] THREADS...      thread counts of the host lane, measured in this order
 *
 * Each set of lanes works for about RUN_S. Rates cover only the time in which all lanes of the set worked. Prints one
 * line of JSON per set and round: `rate` (GB/s, G params/s or products/s) of each work, quantiles of its op times in
 * us, how many processors were busy, and how many the hypervisor took ("steal").
 */
#include "base/threads.h"
#include "profiler/optimizer_internal.h"
#include "runtime/device/device_plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB   UINT64_C(1048576)
#define RUN_S 0.12

enum { WORKS = 8, COPIES = 340, SPANS = 4096, SETS_MAX = 16 };
enum what { PRODUCT, UP_NEAR, UP_FAR, UP_HOT, DOWN, ADAM_LONG, ADAM };

static const char *const names[] = {"product", "h2d_512m", "h2d_4g", "h2d_weights",
                                    "d2h",     "adam_16m", "adam_6m"};
static const uint64_t PARAMS = 64 * MIB, PIECE = 12 * MIB, NEAR_PIECE = 32 * MIB, FAR = 4096 * MIB,
                      NEAR = 512 * MIB, SIDE = 4096;

struct stand {
    struct ah_device *device;
    struct ah_optimizer_layout layout;
    struct ah_ref operands, up, down, from, to;
    struct ah_op product, copies[4][COPIES];
    struct ah_optimizer_work adam[2];
    struct ah_lanes_work works[WORKS];
    double units[WORKS]; /* per op */
    double each_s[WORKS];
};

static struct ah_error err;

static void must(int rc)
{
    if (rc) {
        fprintf(stderr, "bench_beside: %s\n", err.text);
        exit(1);
    }
}

static struct ah_ref take(uint64_t *arena_bytes, enum ah_arena_kind arena, uint64_t bytes)
{
    struct ah_ref ref = {(uint32_t)arena, AH_BF16, arena_bytes[arena], 0};
    arena_bytes[arena] += bytes;
    return ref;
}

static size_t build_copies(struct ah_op *ops, struct ah_ref dst, uint64_t dst_bytes, struct ah_ref src,
                           uint64_t src_bytes, uint64_t piece)
{
    const uint64_t most = dst_bytes > src_bytes ? dst_bytes : src_bytes;
    size_t n = 0;
    for (uint64_t at = 0; n < COPIES && at + piece <= most; at += piece, n++) {
        ops[n] = (struct ah_op){.kind = AH_OP_COPY, .arg = {dst, src}, .u.copy = {piece}};
        ops[n].arg[0].offset_bytes += n % (dst_bytes / piece) * piece;
        ops[n].arg[1].offset_bytes += n % (src_bytes / piece) * piece;
    }
    return n;
}

static void copy_work(struct stand *s, enum what what, size_t n, struct ah_op *ops, uint64_t piece)
{
    s->works[what] = (struct ah_lanes_work){s->device, what == DOWN ? AH_LANE_D2H : AH_LANE_H2D, ops, n, 0};
    s->units[what] = (double)piece / 1e9;
}

static void adam_work(struct stand *s, enum what what, uint64_t tile)
{
    struct ah_optimizer_work *adam = &s->adam[what == ADAM];
    ah_optimizer_build(adam, s->device, &s->layout, &ah_optimizer_kinds[1], tile);
    s->works[what] = adam->lane;
    s->units[what] = (double)tile / 1e9;
}

static void open_stand(struct stand *s, const char *name, unsigned threads)
{
    const struct ah_device_driver *driver = NULL;
    const struct ah_device_options options = {
        .host_threads = threads, .pin_submitter = true, .queue = SPANS, .spans = SPANS};
    uint64_t arena_bytes[AH_ARENA_KINDS];
    if (strcmp(name, "cpu") == 0)
        driver = ah_device_cpu();
    else
        must(ah_plugin_load(name, &driver, &err));
    must(ah_device_open(&s->device, driver, &options, &err));
    s->layout = ah_optimizer_plan(AH_HOST, PARAMS);
    memcpy(arena_bytes, s->layout.arena_bytes, sizeof arena_bytes);
    s->operands = take(arena_bytes, AH_ARENA_DEVICE, 6 * SIDE * SIDE);
    s->up = take(arena_bytes, AH_ARENA_DEVICE, NEAR);
    s->down = take(arena_bytes, AH_ARENA_DEVICE, NEAR);
    s->from = take(arena_bytes, AH_ARENA_PINNED, FAR);
    s->to = take(arena_bytes, AH_ARENA_PINNED, FAR);
    s->product = (struct ah_op){.kind = AH_OP_MATMUL,
                                .u.matmul = {.form = AH_MATMUL_NN, .m = SIDE, .n = SIDE, .k = SIDE}};
    for (uint64_t i = 0; i < 3; i++) {
        s->product.arg[i] = s->operands;
        s->product.arg[i].offset_bytes += i * 2 * SIDE * SIDE;
    }
    must(ah_device_prepare(s->device, &s->product, 1, &err));
    must(ah_device_reserve(s->device, arena_bytes, &err));
    must(ah_optimizer_fill(s->device, &s->layout, &err));
    must(ah_lanes_fill(s->device, s->operands, 6 * SIDE * SIDE, s->layout.stage, &err));
    s->works[PRODUCT] = (struct ah_lanes_work){s->device, AH_LANE_COMPUTE, &s->product, 1, 0};
    s->units[PRODUCT] = 1;
    copy_work(s, UP_NEAR, build_copies(s->copies[0], s->up, NEAR, s->from, NEAR, NEAR_PIECE), s->copies[0],
              NEAR_PIECE);
    copy_work(s, UP_FAR, build_copies(s->copies[1], s->up, NEAR, s->from, FAR, PIECE), s->copies[1], PIECE);
    copy_work(s, UP_HOT, build_copies(s->copies[2], s->up, 2 * PARAMS, s->layout.weight, 2 * PARAMS, PIECE),
              s->copies[2], PIECE);
    copy_work(s, DOWN, build_copies(s->copies[3], s->to, FAR, s->down, NEAR, PIECE), s->copies[3], PIECE);
    adam_work(s, ADAM_LONG, 16 * MIB);
    adam_work(s, ADAM, 6 * MIB);
}

struct ticks {
    unsigned long long user, nice, system, idle, iowait, irq, softirq, steal;
    uint64_t at_ns;
};

static void read_ticks(struct ticks *t)
{
    FILE *file = fopen("/proc/stat", "re");
    *t = (struct ticks){.at_ns = ah_threads_now_ns()};
    if (file && fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t->user, &t->nice, &t->system,
                       &t->idle, &t->iowait, &t->irq, &t->softirq, &t->steal) != 8)
        fprintf(stderr, "bench_beside: no ticks\n");
    if (file)
        fclose(file);
}

static void submit(struct ah_lanes_work *work, uint64_t *ret_ticket)
{
    const struct ah_submission submission = {.lane = work->lane, .op = &work->ops[work->next]};
    must(ah_device_submit(work->device, &submission, 1, ret_ticket, &err));
    work->next = (work->next + 1) % work->n;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_work(const struct stand *s, enum what what, const struct ah_span *spans, size_t n,
                       uint64_t begin, uint64_t end)
{
    static double us[SPANS];
    for (size_t i = 0; i < n; i++)
        us[i] = (double)(spans[i].end_ns - spans[i].start_ns) / 1e3;
    qsort(us, n, sizeof *us, by_value);
    const double done = ah_lanes_done_between(spans, n, begin, end);
    printf(", \"%s\": {\"rate\": %.2f, \"n\": %zu, \"us\": [%.0f, %.0f, %.0f, %.0f, %.0f]}", names[what],
           done * s->units[what] / ((double)(end - begin) / 1e9), n, us[0], us[n / 4], us[n / 2],
           us[n * 9 / 10], us[n - 1]);
}

static void run_set(struct stand *s, const enum what *set, size_t n_set, unsigned threads, unsigned round)
{
    static struct ah_span spans[WORKS][SPANS];
    uint64_t repeats[WORKS], tickets[WORKS], most = 0, begin = 0, end = UINT64_MAX;
    struct ticks before, after;
    for (size_t i = 0; i < n_set; i++) {
        const double wanted = RUN_S / s->each_s[set[i]];
        repeats[i] = wanted < 4 ? 4 : wanted > SPANS ? SPANS : (uint64_t)wanted;
        most = repeats[i] > most ? repeats[i] : most;
    }
    read_ticks(&before);
    uint64_t submitted[WORKS] = {0};
    for (uint64_t k = 1; k <= most; k++)
        for (size_t i = 0; i < n_set; i++)
            for (; submitted[i] * most < k * repeats[i]; submitted[i]++)
                submit(&s->works[set[i]], &tickets[i]);
    for (size_t i = 0; i < n_set; i++)
        must(ah_device_wait(s->device, s->works[set[i]].lane, tickets[i], &err));
    read_ticks(&after);
    for (size_t i = 0; i < n_set; i++) {
        struct ah_span_reader reader = ah_device_newest(s->device, s->works[set[i]].lane, repeats[i]);
        const size_t n = ah_device_spans(s->device, &reader, spans[i], repeats[i]);
        if (n != repeats[i]) {
            fprintf(stderr, "bench_beside: %zu of %llu spans\n", n, (unsigned long long)repeats[i]);
            exit(1);
        }
        begin = spans[i][0].start_ns > begin ? spans[i][0].start_ns : begin;
        end = spans[i][n - 1].end_ns < end ? spans[i][n - 1].end_ns : end;
    }
    const double s_all = (double)(after.at_ns - before.at_ns) / 1e9 * 100;
    const double busy = (double)(after.user + after.nice + after.system + after.irq + after.softirq -
                                 before.user - before.nice - before.system - before.irq - before.softirq);
    printf("{\"threads\": %u, \"round\": %u, \"ms\": %.0f, \"busy\": %.2f, \"steal\": %.2f", threads, round,
           s_all * 10, busy / s_all, (double)(after.steal - before.steal) / s_all);
    for (size_t i = 0; i < n_set; i++)
        print_work(s, set[i], spans[i], (size_t)repeats[i], begin, end);
    printf("}\n");
    fflush(stdout);
}

struct set {
    size_t n;
    enum what works[4];
};

static const struct set sets[] = {
    {1, {ADAM}},         {1, {ADAM_LONG}},          {1, {UP_FAR}},
    {1, {DOWN}},         {2, {ADAM_LONG, UP_NEAR}}, {2, {ADAM, UP_FAR}},
    {2, {ADAM, UP_HOT}}, {2, {ADAM, DOWN}},         {2, {ADAM, PRODUCT}},
    {2, {UP_FAR, DOWN}}, {3, {ADAM, UP_FAR, DOWN}}, {4, {ADAM, UP_FAR, DOWN, PRODUCT}},
};

int main(int argc, char **argv)
{
    static struct stand stands;
    const char *device = "cuda";
    unsigned rounds = 5;
    if (argc < 2) {
        fprintf(stderr, "usage: bench_beside [--rounds N] [--device cuda] THREADS...\n");
        return 2;
    }
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--device") == 0 && i + 1 < argc) {
            device = argv[++i];
            continue;
        }
        if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) {
            rounds = (unsigned)strtoul(argv[++i], NULL, 10);
            continue;
        }
        struct stand *s = &stands;
        const unsigned threads = (unsigned)strtoul(argv[i], NULL, 10);
        *s = (struct stand){0};
        open_stand(s, device, threads);
        for (int what = 0; what < ADAM + 1; what++) {
            double seconds;
            must(ah_lanes_run(&s->works[what], 4, &seconds, &err));
            must(ah_lanes_run(&s->works[what], 4, &seconds, &err));
            s->each_s[what] = seconds / 4;
        }
        for (unsigned round = 0; round < rounds; round++)
            for (size_t at = 0; at < sizeof sets / sizeof sets[0]; at++)
                run_set(s, sets[at].works, sets[at].n, threads, round);
        ah_device_close(s->device);
    }
    return 0;
}
