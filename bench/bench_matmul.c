/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares matrix products of the CPU device with plain oneDNN. Plain oneDNN is one primitive over the whole product.
 * It has as many OpenMP threads as our compute lane, each bound to a core. Ours run through the device and its lane.
 *
 * Every round runs ours and then plain, each for about 20 ms. A ratio of rates (ours / plain) compares runs of one
 * round, so a change in the machine's speed affects both. The output is the median ratio and, for machines that are
 * never quiet for long, the ratio of the best rounds.
 *
 *     bench_matmul [--threads N] [--rounds N] [--tokens N] [--dtype fp32|bf16] [--form nn|nt|tn]
 *                  [--layer INxOUT] [--level avx2|avx512|avx512_bf16|amx] [--no-head]
 *
 * With --level, both are limited to instructions of that level, and ours run on a pool, without a lane. If oneDNN has
 * none, only our rate is shown. Shapes are GPT-2 124M's; tokens are m for nn and nt, k for tn (weight gradients).
 */
#include "base/pool.h"
#include "base/stats.h"
#include "base/threads.h"
#include "runtime/device/cpu/matmul.h"
#include "runtime/device/device.h"

#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS_MAX = 100, VOCABULARY = 50257, WIDTH = 768 };

struct level {
    const char *name;
    enum ah_tile_level ours;
    dnnl_cpu_isa_t plain;
};

static const struct level levels[] = {
    {"avx2", AH_TILE_AVX2, dnnl_cpu_isa_avx2},
    {"avx512", AH_TILE_AVX512, dnnl_cpu_isa_avx512_core},
    {"avx512_bf16", AH_TILE_AVX512_BF16, dnnl_cpu_isa_avx512_core_bf16},
    {"amx", AH_TILE_AMX, dnnl_cpu_isa_avx512_core_amx},
};

enum { LEVELS = sizeof levels / sizeof levels[0] };

struct options {
    unsigned threads;
    unsigned rounds;
    uint64_t tokens; /* 0: all */
    int dtype;       /* -1: all */
    int form;
    uint64_t in, out; /* 0: all layers */
    bool head;
    const struct level *level; /* NULL: this processor's */
};

struct shape {
    enum ah_matmul_form form;
    enum ah_dtype dtype;
    enum ah_dtype out;
    uint64_t m, n, k;
};

struct bench {
    struct options options;
    struct ah_device *device;
    struct ah_matmul *matmul; /* with --level, on `pool` */
    struct ah_pool *pool;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    double worst;
    unsigned rows;
    unsigned below;
};

static void fail(const char *what)
{
    fprintf(stderr, "bench_matmul: %s\n", what);
    exit(1);
}

static void check(dnnl_status_t status)
{
    if (status != dnnl_success)
        fail("oneDNN failed");
}

/* Operands in the device arena, one after another: a, b, c, and oneDNN's c. */
enum { A, B, C, PLAIN, OPERANDS };

static struct ah_ref place(const struct shape *shape, int operand)
{
    const uint64_t elements[] = {shape->m * shape->k, shape->k * shape->n, shape->m * shape->n};
    struct ah_ref ref = {.arena = AH_ARENA_DEVICE, .dtype = operand < C ? shape->dtype : shape->out};
    for (int i = 0; i < operand; i++) {
        uint64_t bytes = elements[i] * ah_dtype_bytes(i < C ? shape->dtype : shape->out);
        ref.offset_bytes += (bytes + (1 << 16)) / 4096 * 4096;
    }
    return ref;
}

static void fill(const struct bench *bench, const struct shape *shape, int operand)
{
    struct ah_ref ref = place(shape, operand);
    unsigned char *data = ah_device_pointer(bench->device, ref);
    uint64_t n = operand == A ? shape->m * shape->k : shape->k * shape->n;
    uint32_t state = 12345;
    for (uint64_t i = 0; i < n; i++) {
        state = state * 1664525 + 1013904223;
        float value = (float)(state >> 8) / (float)(1 << 24) - 0.5f;
        if (shape->dtype == AH_FP32)
            memcpy(data + i * 4, &value, 4);
        else
            memcpy(data + i * 2, (char *)&value + 2, 2);
    }
}

struct plain {
    dnnl_primitive_t primitive;
    dnnl_memory_t memories[4];
};

/* Sets up oneDNN's product. Returns false if oneDNN has none like this. */
static bool plain_init(struct plain *plain, const struct bench *bench, const struct shape *shape)
{
    const dnnl_dim_t m = (dnnl_dim_t)shape->m, n = (dnnl_dim_t)shape->n, k = (dnnl_dim_t)shape->k;
    const dnnl_dims_t dims[] = {{m, k}, {k, n}, {m, n}};
    const dnnl_dims_t strides[] = {{shape->form == AH_MATMUL_TN ? 1 : k, shape->form == AH_MATMUL_TN ? m : 1},
                                   {shape->form == AH_MATMUL_NT ? 1 : n, shape->form == AH_MATMUL_NT ? k : 1},
                                   {n, 1}};
    dnnl_data_type_t in = shape->dtype == AH_FP32 ? dnnl_f32 : dnnl_bf16;
    dnnl_data_type_t out = shape->out == AH_FP32 ? dnnl_f32 : dnnl_bf16;
    dnnl_memory_desc_t descs[3];
    dnnl_matmul_desc_t desc;
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t primitive_desc;
    for (int i = 0; i < 3; i++)
        check(dnnl_memory_desc_init_by_strides(&descs[i], 2, dims[i], i < 2 ? in : out, strides[i]));
    check(dnnl_matmul_desc_init(&desc, &descs[0], &descs[1], NULL, &descs[2]));
    check(dnnl_primitive_attr_create(&attr));
    check(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
    dnnl_status_t status = dnnl_primitive_desc_create(&primitive_desc, &desc, attr, bench->engine, NULL);
    dnnl_primitive_attr_destroy(attr);
    if (status == dnnl_unimplemented)
        return false;
    check(status);
    check(dnnl_primitive_create(&plain->primitive, primitive_desc));
    const int operands[] = {A, B, PLAIN};
    for (int i = 0; i < 3; i++)
        check(dnnl_memory_create(&plain->memories[i], &descs[i], bench->engine,
                                 ah_device_pointer(bench->device, place(shape, operands[i]))));
    check(dnnl_memory_create(&plain->memories[3],
                             dnnl_primitive_desc_query_md(primitive_desc, dnnl_query_scratchpad_md, 0),
                             bench->engine, DNNL_MEMORY_ALLOCATE));
    dnnl_primitive_desc_destroy(primitive_desc);
    return true;
}

static void plain_release(struct plain *plain)
{
    for (int i = 0; i < 4; i++)
        dnnl_memory_destroy(plain->memories[i]);
    dnnl_primitive_destroy(plain->primitive);
}

static double run_plain(const struct bench *bench, const struct plain *plain, unsigned repeat)
{
    const int names[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD};
    dnnl_exec_arg_t args[4];
    for (int i = 0; i < 4; i++)
        args[i] = (dnnl_exec_arg_t){names[i], plain->memories[i]};
    uint64_t start = ah_threads_now_ns();
    for (unsigned i = 0; i < repeat; i++)
        check(dnnl_primitive_execute(plain->primitive, bench->stream, 4, args));
    check(dnnl_stream_wait(bench->stream));
    return (double)(ah_threads_now_ns() - start) / repeat;
}

static double run_at_level(const struct bench *bench, const struct ah_op *op, unsigned repeat)
{
    const struct ah_op_matmul *matmul = &op->u.matmul;
    const struct ah_matmul_shape shape = {.form = matmul->form,
                                          .in = op->arg[1].dtype,
                                          .out = op->arg[0].dtype,
                                          .m = matmul->m,
                                          .n = matmul->n,
                                          .k = matmul->k};
    const struct ah_matmul_args args = {.c = ah_device_pointer(bench->device, op->arg[0]),
                                        .a = ah_device_pointer(bench->device, op->arg[1]),
                                        .b = ah_device_pointer(bench->device, op->arg[2])};
    struct ah_error err = {0};
    if (ah_matmul_prepare(bench->matmul, &shape, &err))
        fail(err.text);
    struct ah_matmul_product *product = ah_matmul_find(bench->matmul, &shape);
    uint64_t start = ah_threads_now_ns();
    for (unsigned i = 0; i < repeat; i++)
        if (ah_matmul_run(product, &args, bench->pool, &err))
            fail(err.text);
    return (double)(ah_threads_now_ns() - start) / repeat;
}

static double run_on_lane(const struct bench *bench, const struct ah_op *op, unsigned repeat)
{
    struct ah_error err = {0};
    struct ah_submission submission = {.lane = AH_LANE_COMPUTE, .op = op};
    uint64_t ticket = 0;
    uint64_t start = ah_threads_now_ns();
    for (unsigned i = 0; i < repeat; i++)
        if (ah_device_submit(bench->device, &submission, 1, &ticket, &err))
            fail(err.text);
    if (ah_device_wait(bench->device, AH_LANE_COMPUTE, ticket, &err))
        fail(err.text);
    return (double)(ah_threads_now_ns() - start) / repeat;
}

static double run_ours(const struct bench *bench, const struct ah_op *op, unsigned repeat)
{
    return bench->matmul ? run_at_level(bench, op, repeat) : run_on_lane(bench, op, repeat);
}

static void rest(void)
{
    /* Waits, because OpenMP's threads spin for a while after their last product and must not slow ours. */
    ah_threads_sleep_until_ns(ah_threads_now_ns() + 10000000);
}

/* Rates of ours and of plain, in GFLOP/s, by round. */
struct rounds {
    double ours[ROUNDS_MAX];
    double plain[ROUNDS_MAX];
    double ratios[ROUNDS_MAX];
};

/* Runs rounds of ours and of plain. If `plain` is NULL, runs only ours. */
static void run_rounds(const struct bench *bench, const struct ah_op *op, const struct plain *plain,
                       struct rounds *rounds)
{
    const struct ah_op_matmul *matmul = &op->u.matmul;
    const double flops = 2.0 * (double)matmul->m * (double)matmul->n * (double)matmul->k;
    const double once_ns = run_ours(bench, op, 1);
    const unsigned repeat = once_ns > 20e6 ? 1 : (unsigned)(20e6 / once_ns) + 1;
    if (plain)
        run_plain(bench, plain, 1);
    for (unsigned i = 0; i < bench->options.rounds; i++) {
        rest();
        rounds->ours[i] = flops / run_ours(bench, op, repeat);
        if (plain)
            rounds->plain[i] = flops / run_plain(bench, plain, repeat);
        rounds->ratios[i] = plain ? rounds->ours[i] / rounds->plain[i] : 0;
    }
}

static void print_shape(const struct shape *shape)
{
    static const char *const forms[] = {"nn", "nt", "tn"};
    printf("%-4s out %-4s %s %6llu x %6llu x %6llu", shape->dtype == AH_FP32 ? "fp32" : "bf16",
           shape->out == AH_FP32 ? "fp32" : "bf16", forms[shape->form], (unsigned long long)shape->m,
           (unsigned long long)shape->n, (unsigned long long)shape->k);
}

static void print_ratio(struct bench *bench, struct rounds *rounds)
{
    const struct ah_stats ratio = ah_stats_of(rounds->ratios, bench->options.rounds);
    const double best = ah_stats_of(rounds->ours, bench->options.rounds).max /
                        ah_stats_of(rounds->plain, bench->options.rounds).max;
    printf("   %5.3f of plain (mad %.3f), best %5.3f%s\n", ratio.median, ratio.mad, best,
           ratio.median < 0.9 ? "  <" : "");
    bench->rows++;
    bench->below += ratio.median < 0.9;
    bench->worst = ratio.median < bench->worst ? ratio.median : bench->worst;
}

static void measure(struct bench *bench, const struct shape *shape)
{
    struct ah_op op = {.kind = AH_OP_MATMUL, .arg = {place(shape, C), place(shape, A), place(shape, B)}};
    op.u.matmul = (struct ah_op_matmul){.form = shape->form, .m = shape->m, .n = shape->n, .k = shape->k};
    struct ah_error err = {0};
    struct plain plain;
    struct rounds rounds;
    fill(bench, shape, A);
    fill(bench, shape, B);
    if (ah_device_prepare(bench->device, &op, 1, &err))
        fail(err.text);
    const bool compares = plain_init(&plain, bench, shape);
    run_rounds(bench, &op, compares ? &plain : NULL, &rounds);
    print_shape(shape);
    printf(" %8.1f GFLOP/s", ah_stats_of(rounds.ours, bench->options.rounds).median);
    if (compares) {
        print_ratio(bench, &rounds);
        plain_release(&plain);
    } else {
        puts("   oneDNN has none");
    }
    fflush(stdout);
}

static void measure_layer(struct bench *bench, uint64_t tokens, uint64_t in, uint64_t out)
{
    if (bench->options.in && (bench->options.in != in || bench->options.out != out))
        return;
    for (int dtype = AH_FP32; dtype <= AH_BF16; dtype++)
        for (int form = AH_MATMUL_NN; form <= AH_MATMUL_TN; form++) {
            struct shape shape = {
                (enum ah_matmul_form)form, (enum ah_dtype)dtype, (enum ah_dtype)dtype, tokens, out, in};
            if (form == AH_MATMUL_TN) {
                shape.m = out;
                shape.n = in;
                shape.k = tokens;
            }
            if ((bench->options.dtype < 0 || bench->options.dtype == dtype) &&
                (bench->options.form < 0 || bench->options.form == form))
                measure(bench, &shape);
        }
}

static void measure_all(struct bench *bench)
{
    static const uint64_t tokens[] = {512, 1024, 2048};
    static const uint64_t layers[][2] = {{768, 2304}, {768, 768}, {768, 3072}, {3072, 768}};
    for (size_t t = 0; t < sizeof tokens / sizeof tokens[0]; t++) {
        if (bench->options.tokens && bench->options.tokens != tokens[t])
            continue;
        for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++)
            measure_layer(bench, tokens[t], layers[i][0], layers[i][1]);
        if (bench->options.head) {
            measure_layer(bench, tokens[t], WIDTH, VOCABULARY); /* logits, and the weight's gradient */
            measure_layer(bench, tokens[t], VOCABULARY, WIDTH); /* the gradient of the head's input */
        }
    }
}

static void bind_openmp(const struct options *options, char **argv)
{
    char text[16];
    if (getenv("OMP_NUM_THREADS"))
        return;
    snprintf(text, sizeof text, "%u", options->threads);
    setenv("OMP_NUM_THREADS", text, 1);
    setenv("OMP_PROC_BIND", "true", 1);
    execv("/proc/self/exe", argv);
    fail("cannot start again with OpenMP's settings");
}

static int word(const char *text, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (!strcmp(text, words[i]))
            return i;
    fail("unknown word");
    return -1;
}

static void parse_layer(struct options *options, const char *text)
{
    const char *x = strchr(text, 'x');
    if (!x || atoi(text) <= 0 || atoi(x + 1) <= 0)
        fail("--layer is INxOUT, as 768x3072");
    options->in = (uint64_t)atoi(text);
    options->out = (uint64_t)atoi(x + 1);
}

static const struct level *parse_level(const char *text)
{
    for (size_t i = 0; i < LEVELS; i++)
        if (!strcmp(text, levels[i].name) && levels[i].ours <= ah_tile_detect())
            return &levels[i];
    fail("--level is avx2, avx512, avx512_bf16 or amx, at most what this processor has");
    return NULL;
}

static struct options parse(int argc, char **argv)
{
    struct options options = {.threads = 2, .rounds = 9, .dtype = -1, .form = -1, .head = true};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--no-head")) {
            options.head = false;
            continue;
        }
        if (!strcmp(argv[i], "--threads"))
            options.threads = (unsigned)atoi(value);
        else if (!strcmp(argv[i], "--rounds"))
            options.rounds = (unsigned)atoi(value);
        else if (!strcmp(argv[i], "--tokens"))
            options.tokens = (uint64_t)atoi(value);
        else if (!strcmp(argv[i], "--dtype"))
            options.dtype = word(value, ah_words_dtype);
        else if (!strcmp(argv[i], "--layer"))
            parse_layer(&options, value);
        else if (!strcmp(argv[i], "--form"))
            options.form = word(value, ah_words_matmul_form);
        else if (!strcmp(argv[i], "--level"))
            options.level = parse_level(value);
        else
            fail("usage: [--threads N] [--rounds N] [--tokens N] [--dtype D] [--form F] [--layer INxOUT]"
                 " [--level L] [--no-head]");
        i++;
    }
    if (options.threads < 1 || options.rounds < 1 || options.rounds > ROUNDS_MAX)
        fail("--threads from 1, --rounds from 1 to 100");
    return options;
}

/* Opens the device so that it sees all cores, although OpenMP has bound this thread to one. */
static void open_device(struct bench *bench, const struct ah_device_options *options)
{
    struct ah_error err = {0};
    cpu_set_t bound;
    cpu_set_t all;
    memset(&all, 0xff, sizeof all);
    sched_getaffinity(0, sizeof bound, &bound);
    sched_setaffinity(0, sizeof all, &all);
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {[AH_ARENA_DEVICE] = UINT64_C(1400) << 20};
    if (ah_device_open(&bench->device, ah_device_cpu(), options, &err) ||
        ah_device_reserve(bench->device, arena_bytes, &err))
        fail(err.text);
    sched_setaffinity(0, sizeof bound, &bound);
}

/* Opens a pool besides this thread. OpenMP has bound this thread to the first core. */
static void hold_to_level(struct bench *bench)
{
    struct ah_error err = {0};
    int cpus[CPU_SETSIZE];
    for (int i = 0; i < CPU_SETSIZE; i++)
        cpus[i] = i ? i : -1;
    const struct ah_pool_options options = {.threads = bench->options.threads, .cpus = cpus};
    check(dnnl_set_max_cpu_isa(bench->options.level->plain));
    if (ah_matmul_new_at(&bench->matmul, options.threads, bench->options.level->ours, &err) ||
        ah_pool_new(&bench->pool, &options, &err))
        fail(err.text);
}

int main(int argc, char **argv)
{
    struct bench bench = {.options = parse(argc, argv), .worst = INFINITY};
    bind_openmp(&bench.options, argv);
    struct ah_device_options options = {.compute_threads = bench.options.threads};
    open_device(&bench, &options);
    if (bench.options.level)
        hold_to_level(&bench);
    check(dnnl_engine_create(&bench.engine, dnnl_cpu, 0));
    check(dnnl_stream_create(&bench.stream, bench.engine, dnnl_stream_default_flags));
    printf("%s, %u threads, %u rounds%s%s\n", bench.device->info.name, bench.options.threads,
           bench.options.rounds, bench.options.level ? ", held to " : "",
           bench.options.level ? bench.options.level->name : "");
    measure_all(&bench);
    printf("%u shapes compared, %u below 0.90, worst %.3f; workspace %.1f MiB\n", bench.rows, bench.below,
           bench.worst, (double)bench.device->reserve_bytes / (1 << 20));
    dnnl_stream_destroy(bench.stream);
    dnnl_engine_destroy(bench.engine);
    ah_pool_free(bench.pool);
    ah_matmul_free(bench.matmul);
    ah_device_close(bench.device);
    return bench.below != 0;
}
