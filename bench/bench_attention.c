/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares attention of the CPU device, forward and backward, with a matrix product of the same type (1024 x 3072 x
 * 768), which reaches the processor's best rate. All three run on the device's compute lane.
 *
 * Every round runs the product, forward and backward one after another, each several times. A share (rate of attention
 * / rate of the product) compares runs of one round. The output is its median over rounds. For machines that are never
 * quiet for long, it also shows the share of the best rounds. Rates count visible pairs of a query and a key: 4 x
 * head_dim operations forward, 10 x backward.
 *
 *     bench_attention [--threads N] [--rounds N] [--dtype fp32|bf16] [--seq N] [--window N] [--soft-cap X]
 */
#include "base/stats.h"
#include "base/threads.h"
#include "runtime/device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS_MAX = 100, ROUND_NS = 20000000 };

struct options {
    unsigned threads;
    unsigned rounds;
    int dtype;    /* -1: all */
    uint32_t seq; /* 0: all */
    uint32_t window;
    float soft_cap;
};

static const struct ah_op_attention shapes[] = {
    {.batch = 4, .seq = 256, .heads = 12, .kv_heads = 12, .head_dim = 64, .scale = 0.125f},
    {.batch = 4, .seq = 1024, .heads = 12, .kv_heads = 12, .head_dim = 64, .scale = 0.125f},
    {.batch = 1, .seq = 2048, .heads = 32, .kv_heads = 8, .head_dim = 64, .scale = 0.125f},
    {.batch = 1, .seq = 4096, .heads = 32, .kv_heads = 32, .head_dim = 128, .scale = 0.088f},
};

enum { SHAPES = sizeof shapes / sizeof shapes[0] };

enum { PRODUCT, FORWARD, BACKWARD, OPS };

struct bench {
    struct options options;
    struct ah_device *device;
    struct ah_op ops[OPS];
    double flops[OPS];
    double rates[OPS][ROUNDS_MAX]; /* GFLOP/s */
};

static void fail(const char *what)
{
    fprintf(stderr, "bench_attention: %s\n", what);
    exit(1);
}

static struct ah_ref take(uint64_t *end, enum ah_dtype dtype, uint64_t elements)
{
    const struct ah_ref ref = {AH_ARENA_DEVICE, dtype, *end, 0};
    *end = (*end + elements * ah_dtype_bytes(dtype) + 8191) / 4096 * 4096;
    return ref;
}

static struct ah_ref part(struct ah_ref whole, uint64_t row_stride, uint64_t column)
{
    whole.offset_bytes += column * ah_dtype_bytes((enum ah_dtype)whole.dtype);
    whole.row_stride = row_stride;
    return whole;
}

/* Places q, k and v as parts of one matrix, as in GPT-2. Returns the bytes of the arena. */
static uint64_t lay_out(struct bench *bench, const struct ah_op_attention *sizes, enum ah_dtype dtype)
{
    const uint64_t tokens = (uint64_t)sizes->batch * sizes->seq, lanes = (uint64_t)sizes->heads * tokens;
    const uint64_t queries = (uint64_t)sizes->heads * sizes->head_dim;
    const uint64_t keys = (uint64_t)sizes->kv_heads * sizes->head_dim, width = queries + 2 * keys;
    uint64_t end = 0;
    const struct ah_ref qkv = take(&end, dtype, tokens * width), dqkv = take(&end, dtype, tokens * width);
    const struct ah_ref out = take(&end, dtype, tokens * queries), dout = take(&end, dtype, tokens * queries);
    const struct ah_ref lse = take(&end, AH_FP32, lanes), delta = take(&end, AH_FP32, lanes);
    const struct ah_ref q = part(qkv, width, 0), k = part(qkv, width, queries),
                        v = part(qkv, width, queries + keys);
    bench->ops[FORWARD] = (struct ah_op){.kind = AH_OP_ATTENTION, .arg = {out, lse, q, k, v}};
    bench->ops[BACKWARD] = (struct ah_op){.kind = AH_OP_ATTENTION_BACKWARD,
                                          .arg = {part(dqkv, width, 0),
                                                  part(dqkv, width, queries),
                                                  part(dqkv, width, queries + keys),
                                                  dout,
                                                  q,
                                                  k,
                                                  v,
                                                  out,
                                                  lse,
                                                  {0},
                                                  delta}};
    bench->ops[PRODUCT] =
        (struct ah_op){.kind = AH_OP_MATMUL,
                       .arg = {take(&end, dtype, 1024 * 3072), take(&end, dtype, 1024 * 768),
                               take(&end, dtype, 3072 * 768)}};
    bench->ops[FORWARD].u.attention = bench->ops[BACKWARD].u.attention = *sizes;
    bench->ops[PRODUCT].u.matmul =
        (struct ah_op_matmul){.form = AH_MATMUL_NT, .m = 1024, .n = 3072, .k = 768};
    return end;
}

static void fill(const struct bench *bench, uint64_t bytes, enum ah_dtype dtype)
{
    unsigned char *data = ah_device_pointer(bench->device, (struct ah_ref){.arena = AH_ARENA_DEVICE});
    uint32_t state = 12345;
    for (uint64_t i = 0; i < bytes / ah_dtype_bytes(dtype); i++) {
        state = state * 1664525 + 1013904223;
        const float value = (float)(state >> 8) / (float)(1 << 23) - 1;
        if (dtype == AH_FP32)
            memcpy(data + i * 4, &value, 4);
        else
            memcpy(data + i * 2, (const char *)&value + 2, 2);
    }
}

static void count_flops(struct bench *bench, const struct ah_op_attention *sizes)
{
    const double seq = sizes->seq, window = sizes->window && sizes->window < sizes->seq ? sizes->window : seq;
    const double pairs = (window * (window + 1) / 2 + (seq - window) * window) * sizes->batch * sizes->heads;
    bench->flops[PRODUCT] = 2.0 * 1024 * 3072 * 768;
    bench->flops[FORWARD] = pairs * 4 * sizes->head_dim;
    bench->flops[BACKWARD] = pairs * 10 * sizes->head_dim;
}

static double run(const struct bench *bench, const struct ah_op *op, unsigned repeat)
{
    struct ah_error err = {0};
    const struct ah_submission submission = {.lane = AH_LANE_COMPUTE, .op = op};
    uint64_t ticket = 0;
    const uint64_t start = ah_threads_now_ns();
    for (unsigned i = 0; i < repeat; i++)
        if (ah_device_submit(bench->device, &submission, 1, &ticket, &err))
            fail(err.text);
    if (ah_device_wait(bench->device, AH_LANE_COMPUTE, ticket, &err))
        fail(err.text);
    return (double)(ah_threads_now_ns() - start) / repeat;
}

static void run_rounds(struct bench *bench)
{
    unsigned repeat[OPS];
    for (int i = 0; i < OPS; i++) {
        const double once_ns = run(bench, &bench->ops[i], 1);
        repeat[i] = once_ns > ROUND_NS ? 1 : (unsigned)(ROUND_NS / once_ns) + 1;
    }
    for (unsigned round = 0; round < bench->options.rounds; round++)
        for (int i = 0; i < OPS; i++)
            bench->rates[i][round] = bench->flops[i] / run(bench, &bench->ops[i], repeat[i]);
}

static void print_rate(struct bench *bench, const char *name, int op)
{
    double shares[ROUNDS_MAX];
    for (unsigned i = 0; i < bench->options.rounds; i++)
        shares[i] = bench->rates[op][i] / bench->rates[PRODUCT][i];
    const struct ah_stats share = ah_stats_of(shares, bench->options.rounds);
    const struct ah_stats rate = ah_stats_of(bench->rates[op], bench->options.rounds);
    const double best = rate.max / ah_stats_of(bench->rates[PRODUCT], bench->options.rounds).max;
    printf("   %s %7.1f GFLOP/s %7.2f ms %5.3f (mad %.3f), best %5.3f", name, rate.median,
           bench->flops[op] / rate.median * 1e-6, share.median, share.mad, best);
}

static void measure(struct bench *bench, const struct ah_op_attention *sizes, enum ah_dtype dtype)
{
    struct ah_error err = {0};
    struct ah_device_options options = {.compute_threads = bench->options.threads};
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {[AH_ARENA_DEVICE] = lay_out(bench, sizes, dtype)};
    if (ah_device_open(&bench->device, ah_device_cpu(), &options, &err) ||
        ah_device_prepare(bench->device, bench->ops, OPS, &err) ||
        ah_device_reserve(bench->device, arena_bytes, &err))
        fail(err.text);
    fill(bench, arena_bytes[AH_ARENA_DEVICE], dtype);
    count_flops(bench, sizes);
    run_rounds(bench);
    printf("%s (%u, %4u, %u/%u, %3u)  product %7.1f", ah_words_dtype[dtype], sizes->batch, sizes->seq,
           sizes->heads, sizes->kv_heads, sizes->head_dim,
           ah_stats_of(bench->rates[PRODUCT], bench->options.rounds).median);
    print_rate(bench, "forward", FORWARD);
    print_rate(bench, "backward", BACKWARD);
    printf("   reserve %.1f MiB\n", (double)bench->device->reserve_bytes / (1 << 20));
    fflush(stdout);
    ah_device_close(bench->device);
}

static int word(const char *text, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (!strcmp(text, words[i]))
            return i;
    fail("unknown word");
    return -1;
}

static struct options parse(int argc, char **argv)
{
    struct options options = {.threads = 2, .rounds = 9, .dtype = -1};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--threads"))
            options.threads = (unsigned)atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--rounds"))
            options.rounds = (unsigned)atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--dtype"))
            options.dtype = word(argv[i + 1], ah_words_dtype);
        else if (!strcmp(argv[i], "--seq"))
            options.seq = (uint32_t)atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--window"))
            options.window = (uint32_t)atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--soft-cap"))
            options.soft_cap = (float)atof(argv[i + 1]);
        else
            fail("usage: [--threads N] [--rounds N] [--dtype D] [--seq N] [--window N] [--soft-cap X]");
    }
    if (options.threads < 1 || options.rounds < 1 || options.rounds > ROUNDS_MAX)
        fail("--threads from 1, --rounds from 1 to 100");
    return options;
}

int main(int argc, char **argv)
{
    struct bench bench = {.options = parse(argc, argv)};
    printf("%u threads, %u rounds; (batch, seq, heads/kv heads, head_dim); share of the product's rate\n",
           bench.options.threads, bench.options.rounds);
    for (int dtype = AH_FP32; dtype <= AH_BF16; dtype++)
        for (size_t i = 0; i < SHAPES; i++) {
            struct ah_op_attention sizes = shapes[i];
            sizes.window = bench.options.window;
            sizes.soft_cap = bench.options.soft_cap;
            if ((bench.options.dtype < 0 || bench.options.dtype == dtype) &&
                (bench.options.seq == 0 || bench.options.seq == sizes.seq))
                measure(&bench, &sizes, (enum ah_dtype)dtype);
        }
    return 0;
}
