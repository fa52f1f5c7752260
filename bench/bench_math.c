/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures how close the ops other than products come to the memory's bandwidth.
 *
 * The bound is an in-place scaling of one large array (8 bytes an element), run before and after each row. A row's
 * share is its rate, in bytes that the op must move, divided by the mean rate of its two neighbours. Medians over
 * rounds are shown. An output that is not an input is read into the caches before it is written; this read is not
 * counted. So with two arrays in and one out, a share cannot exceed 3/4.
 *
 *     bench_math [--tokens N] [--rounds N] [--threads N] [--isa portable|avx2|avx512] [--op PART]
 *
 * --op: only rows with PART in their names.
 *
 * Widths are GPT-2's: 768, 3072 and a vocabulary of 50257; logits have 512 rows.
 */
#include "base/bf16.h"
#include "base/isa.h"
#include "base/stats.h"
#include "base/threads.h"
#include "runtime/device/host/convert.h"
#include "runtime/device/math/math.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    WIDTH = 768,
    HEADS = 12,
    MLP = 3072,
    VOCABULARY = 50257,
    LOGIT_ROWS = 512,
    SKEW = 72 * 1024, /* distance of each operand from the previous one, modulo 2 MiB */
    CHUNK = 1 << 18,
    ROUNDS_MAX = 100,
    THREADS_MAX = 64,
    ROWS_MAX = 64
};

#define HUGE_BYTES  (UINT64_C(2) << 20)
#define BOUND_COUNT UINT64_C(50000000)

struct row {
    char name[64];
    struct ah_op op;
    double bytes;
    double times[ROUNDS_MAX], bounds[ROUNDS_MAX];
};

struct bench {
    struct ah_host host;
    struct row rows[ROWS_MAX];
    unsigned n_rows, rounds;
    uint64_t tokens, arena_bytes;
    float *bound;
    const char *only;
};

static void fail(const char *what)
{
    fprintf(stderr, "bench_math: %s\n", what);
    exit(1);
}

static void *reserve(uint64_t bytes)
{
    char *at = mmap(NULL, bytes + HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        fail("not enough memory; use fewer --tokens");
    madvise(at, bytes + HUGE_BYTES, MADV_HUGEPAGE);
    return at + (HUGE_BYTES - (uintptr_t)at % HUGE_BYTES);
}

/* Adds a row. Places operands that have a role one after another; `op` gives their types. */
static void add_row(struct bench *bench, const char *name, struct ah_op op)
{
    struct ah_operand operands[AH_OP_ARGS];
    struct ah_error err = {0};
    uint64_t end = 0;
    struct row *row = &bench->rows[bench->n_rows++];
    if (ah_op_operands(&op, operands, &err))
        fail(err.text);
    for (size_t i = 0; i < AH_OP_ARGS; i++) {
        if (operands[i].role == AH_ROLE_NONE)
            continue;
        op.arg[i].offset_bytes = end + i * SKEW;
        end = (end + operands[i].bytes + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES;
    }
    end += AH_OP_ARGS * SKEW;
    bench->arena_bytes = end > bench->arena_bytes ? end : bench->arena_bytes;
    row->op = op;
    row->bytes = (double)ah_op_moved_bytes(&op);
    snprintf(row->name, sizeof row->name, "%s", name);
}

static struct ah_op op_of(enum ah_op_kind kind, const char *operands, uint32_t dtype)
{
    struct ah_op op = {.kind = kind};
    for (size_t i = 0; operands[i]; i++)
        if (operands[i] != '-') /* t: of the row's type, w: fp32 or words */
            op.arg[i] = (struct ah_ref){AH_ARENA_DEVICE, operands[i] == 't' ? dtype : AH_FP32, 0, 0};
    return op;
}

static void add_norms(struct bench *bench, uint32_t dtype)
{
    static const char *const names[] = {"rms norm", "layer norm"};
    char name[64];
    for (uint32_t kind = 0; kind < 2; kind++) {
        struct ah_op op = op_of(AH_OP_NORM, kind ? "ttttw" : "ttt-w", dtype);
        op.u.norm = (struct ah_op_norm){bench->tokens, WIDTH, 1, kind, 1e-5f, 0};
        add_row(bench, names[kind], op);
        op = op_of(AH_OP_NORM_BACKWARD, kind ? "ttttttww" : "tt-tttww", dtype);
        op.u.norm = (struct ah_op_norm){bench->tokens, WIDTH, 1, kind, 1e-5f, 0};
        snprintf(name, sizeof name, "%s, backward", names[kind]);
        add_row(bench, name, op);
    }
}

static void add_activations(struct bench *bench, uint32_t dtype)
{
    static const char *const names[] = {"gelu_tanh", "gelu", "silu * up", "gelu_tanh * up"};
    char name[64];
    for (uint32_t kind = 0; kind < 4; kind++) {
        const bool gated = ah_op_is_gated(kind);
        struct ah_op op = op_of(AH_OP_ACTIVATION, gated ? "ttt" : "tt", dtype);
        op.u.rows = (struct ah_op_rows){bench->tokens, MLP, kind};
        add_row(bench, names[kind], op);
        op = op_of(AH_OP_ACTIVATION_BACKWARD, gated ? "ttttt" : "t-tt", dtype);
        op.u.rows = (struct ah_op_rows){bench->tokens, MLP, kind};
        snprintf(name, sizeof name, "%s, backward", names[kind]);
        add_row(bench, name, op);
    }
}

static void add_others(struct bench *bench, uint32_t dtype)
{
    struct ah_op op = op_of(AH_OP_ROPE, "tww", dtype);
    op.u.rope = (struct ah_op_rope){bench->tokens, 2 * HEADS, WIDTH / HEADS, 0, 1024, 0, false};
    add_row(bench, "rope of q and k", op);
    op = op_of(AH_OP_EMBED, "tttww", dtype);
    op.u.embed = (struct ah_op_embed){bench->tokens, WIDTH, VOCABULARY, 1024, 0, 0, 0};
    add_row(bench, "embed", op);
    op = op_of(AH_OP_EMBED_BACKWARD, "tttwww", dtype);
    op.u.embed = (struct ah_op_embed){bench->tokens, WIDTH, VOCABULARY, 1024, 0, 0, 0};
    add_row(bench, "embed, backward", op);
    op = op_of(AH_OP_CROSS_ENTROPY, "wtw-w", dtype);
    op.u.cross_entropy = (struct ah_op_cross_entropy){LOGIT_ROWS, VOCABULARY, 0};
    add_row(bench, "cross-entropy", op);
    op = op_of(AH_OP_ADD, "ttt", dtype);
    op.u.elements = (struct ah_op_elements){.count = MLP, .rows = bench->tokens};
    add_row(bench, "add (of the host's room)", op);
}

/* Fills the operands with numbers of either sign below 4, or with words that are valid indices into every table. */
static void fill(struct bench *bench, const struct ah_op *op)
{
    struct ah_operand operands[AH_OP_ARGS];
    struct ah_error err = {0};
    uint32_t bits = 1;
    ah_op_operands(op, operands, &err);
    for (size_t i = 0; i < AH_OP_ARGS; i++) {
        unsigned char *at = ah_host_operand(&bench->host, op, i);
        const bool words = operands[i].name &&
                           (strstr(operands[i].name, "tokens") || strstr(operands[i].name, "positions") ||
                            strstr(operands[i].name, "targets"));
        if (operands[i].role != AH_ROLE_IN && operands[i].role != AH_ROLE_INOUT)
            continue;
        for (uint64_t j = 0; j < operands[i].bytes; j += operands[i].align_bytes) {
            bits = bits * 1664525u + 1013904223u;
            const float value = (float)(int32_t)bits * 0x1p-30f;
            const uint16_t half = ah_bf16_from_fp32(value);
            const uint32_t word = (bits >> 8) % 1024;
            if (words && !strstr(operands[i].name, "table"))
                memcpy(at + j, &word, sizeof word);
            else if (op->arg[i].dtype == AH_BF16)
                memcpy(at + j, &half, sizeof half);
            else
                memcpy(at + j, &value, sizeof value);
        }
    }
}

static void scale_chunk(void *context, size_t chunk, unsigned worker)
{
    const struct bench *bench = context;
    const uint64_t begin = (uint64_t)chunk * CHUNK;
    (void)worker;
    ah_convert_scale(bench->host.isa, bench->bound, 1.0000001f, begin,
                     BOUND_COUNT - begin < CHUNK ? BOUND_COUNT : begin + CHUNK);
}

/* Measures the rate of the bound, in bytes/s. */
static double measure_bound(struct bench *bench)
{
    const uint64_t start = ah_threads_now_ns();
    ah_pool_run(bench->host.pool, scale_chunk, bench, (BOUND_COUNT + CHUNK - 1) / CHUNK);
    return 8.0 * (double)BOUND_COUNT / ((double)(ah_threads_now_ns() - start) * 1e-9);
}

static double measure_op(struct bench *bench, const struct ah_op *op)
{
    const uint64_t start = ah_threads_now_ns();
    ah_math_does(op->kind) ? ah_math_run(&bench->host, op) : (void)ah_host_run(&bench->host, op, NULL);
    return (double)(ah_threads_now_ns() - start) * 1e-9;
}

static void measure_row(struct bench *bench, struct row *row)
{
    fill(bench, &row->op);
    measure_op(bench, &row->op);
    double before = measure_bound(bench);
    for (unsigned r = 0; r < bench->rounds; r++) {
        row->times[r] = measure_op(bench, &row->op);
        const double after = measure_bound(bench);
        row->bounds[r] = (before + after) / 2;
        before = after;
    }
}

static void print_row(struct row *row, unsigned rounds)
{
    double share[ROUNDS_MAX];
    for (unsigned r = 0; r < rounds; r++)
        share[r] = row->bytes / row->times[r] / row->bounds[r];
    struct ah_stats t = ah_stats_of(row->times, rounds), s = ah_stats_of(share, rounds);
    printf("%-26s %8.3f ms +- %4.1f %%  %6.1f GB/s  %5.3f of the bound (%5.3f..%5.3f)\n", row->name,
           t.median * 1e3, 100 * t.mad / t.median, row->bytes / t.median * 1e-9, s.median, s.min, s.max);
}

static void start_pool(struct bench *bench, unsigned threads)
{
    static unsigned cpus[THREADS_MAX];
    struct ah_error err = {0};
    int pins[THREADS_MAX];
    const unsigned n = ah_threads_cpus(cpus, THREADS_MAX);
    for (unsigned i = 0; i < threads; i++)
        pins[i] = i < n ? (int)cpus[i] : -1;
    if (ah_threads_pin(pins[0]) ||
        ah_pool_new(&bench->host.pool, &(struct ah_pool_options){.threads = threads, .cpus = pins}, &err))
        fail("cannot pin the threads");
}

static void read_options(struct bench *bench, unsigned *threads, int argc, char **argv)
{
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        const unsigned long number = strtoul(value, NULL, 10);
        if (!strcmp(argv[i], "--tokens") && number)
            bench->tokens = number;
        else if (!strcmp(argv[i], "--rounds") && number && number <= ROUNDS_MAX)
            bench->rounds = (unsigned)number;
        else if (!strcmp(argv[i], "--threads") && number && number <= THREADS_MAX)
            *threads = (unsigned)number;
        else if (!strcmp(argv[i], "--op"))
            bench->only = value;
        else if (!strcmp(argv[i], "--isa"))
            while (bench->host.isa > AH_ISA_PORTABLE && strcmp(value, ah_isa_name(bench->host.isa)) != 0)
                bench->host.isa--;
        else
            fail("usage: [--tokens N] [--rounds N] [--threads N] [--isa portable|avx2|avx512] [--op PART]");
    }
}

int main(int argc, char **argv)
{
    static struct bench bench = {.rounds = 9, .tokens = 4096, .only = ""};
    static const char *const types[] = {[AH_FP32] = "fp32", [AH_BF16] = "bf16"};
    unsigned threads = 2;
    bench.host.isa = ah_isa_detect();
    read_options(&bench, &threads, argc, argv);
    bench.bound = reserve(BOUND_COUNT * sizeof(float));
    for (uint64_t i = 0; i < BOUND_COUNT; i++)
        bench.bound[i] = 1;
    for (uint32_t dtype = AH_FP32; dtype <= AH_BF16; dtype++) {
        add_norms(&bench, dtype);
        add_activations(&bench, dtype);
        add_others(&bench, dtype);
    }
    bench.host.arenas[AH_ARENA_DEVICE] = reserve(bench.arena_bytes);
    start_pool(&bench, threads);
    printf("%llu tokens, %u threads, %s, %u rounds\n", (unsigned long long)bench.tokens, threads,
           ah_isa_name(bench.host.isa), bench.rounds);
    for (unsigned i = 0; i < bench.n_rows; i++) {
        if (i % (bench.n_rows / 2) == 0)
            printf("%s\n", types[i / (bench.n_rows / 2)]);
        if (!strstr(bench.rows[i].name, bench.only))
            continue;
        measure_row(&bench, &bench.rows[i]);
        print_row(&bench.rows[i], bench.rounds);
    }
    ah_pool_free(bench.host.pool);
    return 0;
}
