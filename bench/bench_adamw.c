/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures how close AdamW on the host comes to the memory's bandwidth.
 *
 * The bound is an in-place scaling of one large array (8 bytes an element). A shared machine's bandwidth changes from
 * second to second, so every round runs each row between two such scalings. A row's share is its rate relative to the
 * mean rate of these two scalings. A gain compares rows of one round. The output shows medians over rounds.
 *
 *     bench_adamw [--params N] [--rounds N] [--threads N] [--isa portable|avx2|avx512]
 */
#include "base/bf16.h"
#include "base/isa.h"
#include "base/stats.h"
#include "base/threads.h"
#include "runtime/device/host/adamw.h"
#include "runtime/device/host/convert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    CHUNK = 1 << 18,  /* number of elements that a worker takes at a time */
    SKEW = 72 * 1024, /* each array begins this much later than the previous one, modulo 2 MiB */
    ROUNDS_MAX = 200,
    THREADS_MAX = 64
};

struct arrays {
    float *master, *m, *v, *gradient;
    uint16_t *weight, *m16, *v16, *gradient16;
    uint64_t n;
    enum ah_isa isa;
};

static const struct ah_adamw_scalars scalars = {.beta1 = 0.9f,
                                                .rest1 = 1 - 0.9f,
                                                .beta2 = 0.999f,
                                                .rest2 = 1 - 0.999f,
                                                .epsilon = 1e-8f,
                                                .neg_rate = -1e-4f / 0.65f,
                                                .root_scale = 10,
                                                .decay = 1 - 1e-6f,
                                                .grad_scale = 1.0f,
                                                .step = 10,
                                                .seed = 1};

static void adamw(const struct arrays *a, struct ah_adamw_arrays job, uint64_t begin, uint64_t end)
{
    job.master = a->master;
    job.m = job.state_dtype == AH_BF16 ? (void *)a->m16 : (void *)a->m;
    job.v = job.state_dtype == AH_BF16 ? (void *)a->v16 : (void *)a->v;
    job.gradient = job.gradient_dtype == AH_BF16 ? (const void *)a->gradient16 : (const void *)a->gradient;
    job.decay = true;
    ah_adamw_run(a->isa, &job, &scalars, begin, end);
}

static void run_scale(const struct arrays *a, uint64_t begin, uint64_t end)
{
    ah_convert_scale(a->isa, a->gradient, 1.0000001f, begin, end);
}

static void run_fp32(const struct arrays *a, uint64_t begin, uint64_t end)
{
    adamw(a, (struct ah_adamw_arrays){.weight = NULL}, begin, end);
}

static void run_fused(const struct arrays *a, uint64_t begin, uint64_t end)
{
    adamw(a, (struct ah_adamw_arrays){.weight = a->weight, .weight_dtype = AH_BF16}, begin, end);
}

static void run_convert(const struct arrays *a, uint64_t begin, uint64_t end)
{
    ah_convert_cast(a->isa, (struct ah_convert_out){a->weight, AH_BF16},
                    (struct ah_convert_in){a->master, AH_FP32}, begin, end);
}

static void run_stream(const struct arrays *a, uint64_t begin, uint64_t end)
{
    ah_convert_stream_bf16(a->isa, a->weight, a->master, begin, end);
}

static void run_bf16_gradient(const struct arrays *a, uint64_t begin, uint64_t end)
{
    adamw(a,
          (struct ah_adamw_arrays){.weight = a->weight, .weight_dtype = AH_BF16, .gradient_dtype = AH_BF16},
          begin, end);
}

static void run_bf16_state(const struct arrays *a, uint64_t begin, uint64_t end)
{
    adamw(
        a,
        (struct ah_adamw_arrays){
            .weight = a->weight, .weight_dtype = AH_BF16, .gradient_dtype = AH_BF16, .state_dtype = AH_BF16},
        begin, end);
}

enum row_id { SCALE, FP32, FUSED, FP32_AGAIN, CONVERT, STREAM, BF16_GRADIENT, BF16_STATE, ROWS };

static const struct row {
    const char *name;
    void (*run)(const struct arrays *a, uint64_t begin, uint64_t end);
    double bytes; /* bytes that the algorithm must move, per element */
} rows[ROWS] = {
    [SCALE] = {"scale in place", run_scale, 8},
    [FP32] = {"AdamW fp32", run_fp32, 28},
    [FUSED] = {"fused: fp32 + bf16 weight", run_fused, 30},
    [FP32_AGAIN] = {"AdamW fp32, again", run_fp32, 28},
    [CONVERT] = {"conversion", run_convert, 6},
    [STREAM] = {"conversion, streamed", run_stream, 6},
    [BF16_GRADIENT] = {"fused, bf16 gradient", run_bf16_gradient, 28},
    [BF16_STATE] = {"fused, bf16 grad. + states", run_bf16_state, 20},
};

struct task {
    const struct arrays *arrays;
    const struct row *row;
};

static void run_chunk(void *context, size_t chunk, unsigned worker)
{
    const struct task *task = context;
    uint64_t begin = (uint64_t)chunk * CHUNK, n = task->arrays->n;
    (void)worker;
    task->row->run(task->arrays, begin, n - begin < CHUNK ? n : begin + CHUNK);
}

static double seconds(struct ah_pool *pool, const struct arrays *a, const struct row *row)
{
    struct task task = {a, row};
    uint64_t start = ah_threads_now_ns();
    ah_pool_run(pool, run_chunk, &task, (a->n + CHUNK - 1) / CHUNK);
    return (double)(ah_threads_now_ns() - start) * 1e-9;
}

static void *reserve(uint64_t bytes, unsigned *index)
{
    const size_t huge = 2 << 20;
    char *at = mmap(NULL, bytes + 2 * huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    madvise(at, bytes + 2 * huge, MADV_HUGEPAGE);
    at += huge - (uintptr_t)at % huge;
    return at + (size_t)(*index)++ * SKEW;
}

static int arrays_init(struct arrays *a)
{
    unsigned index = 0;
    a->master = reserve(a->n * 4, &index);
    a->m = reserve(a->n * 4, &index);
    a->v = reserve(a->n * 4, &index);
    a->gradient = reserve(a->n * 4, &index);
    a->weight = reserve(a->n * 2, &index);
    a->m16 = reserve(a->n * 2, &index);
    a->v16 = reserve(a->n * 2, &index);
    a->gradient16 = reserve(a->n * 2, &index);
    if (!a->master || !a->m || !a->v || !a->gradient || !a->weight || !a->m16 || !a->v16 || !a->gradient16)
        return -1;
    for (uint64_t i = 0; i < a->n; i++) {
        float g = (float)(i * 2654435761u % 2001) * 1e-6f - 1e-3f;
        a->master[i] = 0.02f + g;
        a->m[i] = g;
        a->v[i] = g * g;
        a->gradient[i] = g;
        a->weight[i] = 0;
        a->m16[i] = ah_bf16_from_fp32(g);
        a->v16[i] = ah_bf16_from_fp32(g * g);
        a->gradient16[i] = a->m16[i];
    }
    return 0;
}

static void print_row(const struct row *row, double *times, double *share, unsigned rounds, double n)
{
    struct ah_stats t = ah_stats_of(times, rounds), s = ah_stats_of(share, rounds);
    printf("%-26s %8.2f ms +- %4.1f %%  %6.0f M/s %6.1f GB/s  %5.3f of the bound (%5.3f..%5.3f)\n", row->name,
           t.median * 1e3, 100 * t.mad / t.median, n / t.median * 1e-6, row->bytes * n / t.median * 1e-9,
           s.median, s.min, s.max);
}

/* Prints the speedup of the fused pass over the fp32 pass plus the conversion `row`. */
static void print_gain(const char *name, double times[ROWS][ROUNDS_MAX], enum row_id row, unsigned rounds)
{
    double gain[ROUNDS_MAX];
    for (unsigned r = 0; r < rounds; r++)
        gain[r] = (times[FP32_AGAIN][r] + times[row][r]) / times[FUSED][r];
    struct ah_stats s = ah_stats_of(gain, rounds);
    printf("%-44s %5.3f x (%5.3f..%5.3f)\n", name, s.median, s.min, s.max);
}

static void report(double times[ROWS][ROUNDS_MAX], double bounds[ROWS][ROUNDS_MAX], unsigned rounds, double n)
{
    double share[ROUNDS_MAX], copy[ROUNDS_MAX];
    for (int row = 0; row < ROWS; row++) {
        for (unsigned r = 0; r < rounds; r++)
            share[r] = rows[row].bytes / times[row][r] / (rows[SCALE].bytes / bounds[row][r]);
        memcpy(copy, times[row], sizeof copy);
        print_row(&rows[row], copy, share, rounds, n);
    }
    print_gain("fused against fp32 pass + conversion", times, CONVERT, rounds);
    print_gain("fused against fp32 pass + streamed conversion", times, STREAM, rounds);
}

/* The CPUs that this process may use. They are read before the first thread is pinned. */
struct cpus {
    unsigned number[THREADS_MAX];
    unsigned n;
};

static int measure(const struct arrays *a, const struct cpus *cpus, unsigned threads, unsigned rounds)
{
    static double times[ROWS][ROUNDS_MAX], bounds[ROWS][ROUNDS_MAX];
    int pins[THREADS_MAX];
    struct ah_error err;
    struct ah_pool *pool;
    for (unsigned i = 0; i < threads; i++)
        pins[i] = i < cpus->n ? (int)cpus->number[i] : -1;
    if (ah_threads_pin(pins[0]) ||
        ah_pool_new(&pool, &(struct ah_pool_options){.threads = threads, .cpus = pins}, &err)) {
        fprintf(stderr, "bench_adamw: cannot pin %u threads\n", threads);
        return 1;
    }
    for (unsigned r = 0; r <= rounds; r++) { /* the first round warms up */
        unsigned place = r ? r - 1 : 0;
        double before = seconds(pool, a, &rows[SCALE]);
        for (int row = 0; row < ROWS; row++) {
            times[row][place] = seconds(pool, a, &rows[row]);
            double after = seconds(pool, a, &rows[SCALE]);
            bounds[row][place] = (before + after) / 2;
            before = after;
        }
    }
    ah_pool_free(pool);
    printf("\n%u thread%s, pinned\n", threads, threads == 1 ? "" : "s");
    report(times, bounds, rounds, (double)a->n);
    return 0;
}

static void print_machine(void)
{
    char line[256];
    FILE *info = fopen("/proc/cpuinfo", "r");
    while (info && fgets(line, sizeof line, info))
        if (!strncmp(line, "model name", 10)) {
            printf("%s", line);
            break;
        }
    if (info)
        fclose(info);
}

/* Finds the instruction set by name. Fails if this processor lacks it. */
static int isa_of(const char *name, enum ah_isa *ret_isa)
{
    for (enum ah_isa isa = AH_ISA_PORTABLE; isa <= ah_isa_detect(); isa++)
        if (!strcmp(name, ah_isa_name(isa))) {
            *ret_isa = isa;
            return 0;
        }
    return -1;
}

static int usage(void)
{
    fprintf(stderr,
            "usage: bench_adamw [--params N] [--rounds N] [--threads N] [--isa portable|avx2|avx512]\n");
    return 2;
}

int main(int argc, char **argv)
{
    struct arrays a = {.n = 100000000, .isa = ah_isa_detect()};
    struct cpus cpus;
    unsigned rounds = 15, threads = 0;
    cpus.n = ah_threads_cpus(cpus.number, THREADS_MAX);
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        unsigned long long number = strtoull(value, NULL, 10);
        if (!strcmp(argv[i], "--params") && number)
            a.n = number;
        else if (!strcmp(argv[i], "--rounds") && number && number <= ROUNDS_MAX)
            rounds = (unsigned)number;
        else if (!strcmp(argv[i], "--threads") && number && number <= THREADS_MAX)
            threads = (unsigned)number;
        else if (strcmp(argv[i], "--isa") || isa_of(value, &a.isa))
            return usage();
    }
    for (int i = 0; i < argc; i++)
        printf("%s%s", i ? " " : "command: ", argv[i]);
    printf("\n");
    print_machine();
    if (arrays_init(&a)) {
        fprintf(stderr, "bench_adamw: not enough memory for %llu parameters\n", (unsigned long long)a.n);
        return 1;
    }
    printf("%.0f M parameters, %u rounds, %s\n", (double)a.n * 1e-6, rounds, ah_isa_name(a.isa));
    if (threads)
        return measure(&a, &cpus, threads, rounds);
    return measure(&a, &cpus, 1, rounds) || measure(&a, &cpus, 2, rounds);
}
