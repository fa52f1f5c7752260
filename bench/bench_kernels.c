/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks whether each kernel of a device is right, and measures how fast it is, at the shapes of real models.
 *
 *     bench_kernels --list                    the names
 *     bench_kernels [--small] [NAME ...]      a line of JSON before each ("begins"), one after it
 *
 * RIGHT: some rows of the op's results are recomputed in double from its inputs (kernels_check.c). `off` is the norm of
 * the difference divided by the norm of the expected values, for the worst operand. It must not exceed `most`.
 *
 * FAST: `us` is the op's median time by the device's own clock, after one run that is not counted. `gb_per_s` counts
 * each operand once (ah_op_moved_bytes). `tflop_per_s` counts the multiplications and additions of products and
 * attention, without the masked half of attention.
 *
 * INPUTS are random and never zero. Operands are placed one after another in the device arena. One piece of random
 * numbers is copied over each operand; its length is not a multiple of any row's.
 */
#include "bench/kernels_internal.h"

#include "base/bf16.h"
#include "base/stats.h"
#include "base/threads.h"
#include "runtime/device/adamw_scalars.h"
#include "runtime/device/device_plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMES_MOST = 20, TIMES_LEAST = 3, ALIGN = 256 };

#define MIB UINT64_C(1048576)

static const uint64_t PIECE_BYTES = 8 * MIB - 192, TIME_NS = 200000000;

enum { B = AH_BF16, F = AH_FP32, NONE = -1 };

/* `types` of the operands, in the order of op.h; NONE: absent */
#define OP(name_, small_, kind_, field_, sizes_, ...)                                                        \
    {                                                                                                        \
        .name = (name_), .small = (small_), .op = {.kind = (kind_), .u.field_ = sizes_}, .types = {          \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }
#define SIZES(...)                                                                                           \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }

/* clang-format off */
static const struct kernel_case cases[] = {
    OP("product nn 8192x4800x1600", false, AH_OP_MATMUL, matmul, SIZES(AH_MATMUL_NN, 0, 8192, 4800, 1600), B, B, B, NONE, NONE),
    OP("product nt 8192x4096x11008", false, AH_OP_MATMUL, matmul, SIZES(AH_MATMUL_NT, 0, 8192, 4096, 11008), B, B, B, NONE, NONE),
    OP("product tn 4096x4096x8192", false, AH_OP_MATMUL, matmul, SIZES(AH_MATMUL_TN, 0, 4096, 4096, 8192), F, B, B, NONE, NONE),
    OP("logits 1024x50257x1600", false, AH_OP_MATMUL, matmul, SIZES(AH_MATMUL_NT, 0, 1024, 50257, 1600), F, B, B, NONE, NONE),
    OP("logits backward 1024x1600x50257", false, AH_OP_MATMUL, matmul, SIZES(AH_MATMUL_NN, 0, 1024, 1600, 50257), B, B, B, NONE, NONE),
    OP("logits weight 50257x1600x1024", false, AH_OP_MATMUL, matmul, SIZES(AH_MATMUL_TN, 0, 50257, 1600, 1024), F, B, B, NONE, NONE),
    OP("product nt small", true, AH_OP_MATMUL, matmul, SIZES(AH_MATMUL_NT, 0, 64, 48, 80), B, B, B, NONE, NONE),
    OP("attention 8x1024, 25 heads of 64", false, AH_OP_ATTENTION, attention, SIZES(8, 1024, 25, 25, 64, 0, 0.125F), B, F, B, B, B, NONE),
    OP("attention 2x4096, 32 heads of 128", false, AH_OP_ATTENTION, attention, SIZES(2, 4096, 32, 32, 128, 0, 0.0884F), B, F, B, B, B, NONE),
    OP("attention with a soft cap 2x4096, 32 heads of 128", false, AH_OP_ATTENTION, attention, SIZES(2, 4096, 32, 32, 128, 0, 0.0884F, 50), B, F, B, B, B, NONE),
    OP("attention with a soft cap small", true, AH_OP_ATTENTION, attention, SIZES(1, 130, 2, 2, 64, 0, 0.125F, 1), B, F, B, B, B, NONE),
    OP("attention small", true, AH_OP_ATTENTION, attention, SIZES(1, 130, 2, 2, 64, 0, 0.125F), B, F, B, B, B, NONE),
    OP("attention backward 8x1024, 25 heads of 64", false, AH_OP_ATTENTION_BACKWARD, attention, SIZES(8, 1024, 25, 25, 64, 0, 0.125F), B, B, B, B, B, B, B, B, F, NONE, F),
    OP("attention backward 2x4096, 32 heads of 128", false, AH_OP_ATTENTION_BACKWARD, attention, SIZES(2, 4096, 32, 32, 128, 0, 0.0884F), B, B, B, B, B, B, B, B, F, NONE, F),
    OP("attention backward with a soft cap 2x4096, 32 heads of 128", false, AH_OP_ATTENTION_BACKWARD, attention, SIZES(2, 4096, 32, 32, 128, 0, 0.0884F, 50), B, B, B, B, B, B, B, B, F, NONE, F),
    OP("attention backward with a soft cap small", true, AH_OP_ATTENTION_BACKWARD, attention, SIZES(1, 130, 2, 2, 64, 0, 0.125F, 1), B, B, B, B, B, B, B, B, F, NONE, F),
    OP("attention backward small", true, AH_OP_ATTENTION_BACKWARD, attention, SIZES(1, 130, 2, 2, 64, 0, 0.125F), B, B, B, B, B, B, B, B, F, NONE, F),
    OP("layer norm 8192x1600", false, AH_OP_NORM, norm, SIZES(8192, 1600, 0, AH_NORM_LAYER, 1e-5F), B, B, B, B, F),
    OP("rms norm 8192x4096", false, AH_OP_NORM, norm, SIZES(8192, 4096, 0, AH_NORM_RMS, 1e-5F), B, B, B, NONE, F),
    OP("rms norm small", true, AH_OP_NORM, norm, SIZES(40, 96, 0, AH_NORM_RMS, 1e-5F), B, B, B, NONE, F),
    OP("rms norm with an offset small", true, AH_OP_NORM, norm, SIZES(40, 96, 0, AH_NORM_RMS, 1e-5F, 1), B, B, B, NONE, F),
    OP("layer norm backward 8192x1600", false, AH_OP_NORM_BACKWARD, norm, SIZES(8192, 1600, 0, AH_NORM_LAYER, 1e-5F), B, B, B, B, B, B, F, F),
    OP("rms norm backward 8192x4096", false, AH_OP_NORM_BACKWARD, norm, SIZES(8192, 4096, 0, AH_NORM_RMS, 1e-5F), B, B, NONE, B, B, B, F, F),
    OP("rms norm backward small", true, AH_OP_NORM_BACKWARD, norm, SIZES(40, 96, 0, AH_NORM_RMS, 1e-5F), B, B, NONE, B, B, B, F, F),
    OP("rms norm with an offset, backward small", true, AH_OP_NORM_BACKWARD, norm, SIZES(40, 96, 0, AH_NORM_RMS, 1e-5F, 1), B, B, NONE, B, B, B, F, F),
    OP("gelu 8192x6400", false, AH_OP_ACTIVATION, rows, SIZES(8192, 6400, AH_ACTIVATION_GELU_TANH), B, B, NONE),
    OP("silu gated 8192x11008", false, AH_OP_ACTIVATION, rows, SIZES(8192, 11008, AH_ACTIVATION_SILU_GATED), B, B, B),
    OP("gelu gated 8192x9216", false, AH_OP_ACTIVATION, rows, SIZES(8192, 9216, AH_ACTIVATION_GELU_TANH_GATED), B, B, B),
    OP("gelu gated small", true, AH_OP_ACTIVATION, rows, SIZES(40, 96, AH_ACTIVATION_GELU_TANH_GATED), B, B, B),
    OP("silu gated small", true, AH_OP_ACTIVATION, rows, SIZES(40, 96, AH_ACTIVATION_SILU_GATED), B, B, B),
    OP("rope 8192 rows, 32 heads of 128", false, AH_OP_ROPE, rope, SIZES(8192, 32, 128, 0, 4096, 4096, false), B, F, NONE),
    OP("rope small", true, AH_OP_ROPE, rope, SIZES(40, 2, 32, 0, 20, 20, false), B, F, NONE),
    OP("rope of a part small", true, AH_OP_ROPE, rope, SIZES(40, 2, 32, 24, 20, 20, false), B, F, NONE),
    OP("embed 8192x4096 of 32000", false, AH_OP_EMBED, embed, SIZES(8192, 4096, 32000, 0, 0), B, B, NONE, F, NONE),
    OP("embed scaled small", true, AH_OP_EMBED, embed, SIZES(40, 96, 300, 0, 0, 0, 48), B, B, NONE, F, NONE),
    OP("cross entropy 4096x50257", false, AH_OP_CROSS_ENTROPY, cross_entropy, SIZES(4096, 50257), F, F, F, NONE, F),
    OP("cross entropy small", true, AH_OP_CROSS_ENTROPY, cross_entropy, SIZES(30, 257), F, F, F, NONE, F),
    OP("cross entropy capped 1024x256000", false, AH_OP_CROSS_ENTROPY, cross_entropy, SIZES(1024, 256000, 30), F, F, F, NONE, F),
    OP("cross entropy capped small", true, AH_OP_CROSS_ENTROPY, cross_entropy, SIZES(30, 257, 30), F, F, F, NONE, F),
    OP("add 8192x4096", false, AH_OP_ADD, elements, SIZES(UINT64_C(8192) * 4096, 0, 0), B, B, B),
    OP("add small", true, AH_OP_ADD, elements, SIZES(5000, 0, 0), B, B, B),
    OP("cast 8192x4096", false, AH_OP_CAST, elements, SIZES(UINT64_C(8192) * 4096, 0, 0), B, F),
    OP("column sum 8192x6400", false, AH_OP_COLUMN_SUM, rows, SIZES(8192, 6400, 0), F, B),
    OP("column sum small", true, AH_OP_COLUMN_SUM, rows, SIZES(70, 96, 0), F, B),
    OP("sum of squares of 2^26", false, AH_OP_SUM_SQUARES, sum, SIZES(UINT64_C(1) << 26, 0, false), F, B),
    OP("AdamW 2^26", false, AH_OP_ADAMW, adamw, SIZES(UINT64_C(1) << 26, 0, 0, true), F, F, F, B, B, F),
    OP("AdamW small", true, AH_OP_ADAMW, adamw, SIZES(5000, 0, 0, true), F, F, F, B, B, F),
};
/* clang-format on */

enum { CASES = sizeof cases / sizeof *cases };

__attribute__((noreturn)) static void fail(const char *what)
{
    fprintf(stderr, "bench_kernels: %s\n", what);
    exit(1);
}

static void submit(struct kernel *k, uint32_t lane, const struct ah_op *op)
{
    struct ah_error err = {0};
    if (ah_device_submit(k->device, &(struct ah_submission){.lane = lane, .op = op}, 1, NULL, &err))
        fail(err.text);
}

static void drain(struct kernel *k)
{
    struct ah_error err = {0};
    if (ah_device_drain(k->device, &err))
        fail(err.text);
}

void kernel_read(struct kernel *k, uint64_t offset_bytes, uint64_t bytes, void *ret_bytes)
{
    const struct ah_ref here = {AH_ARENA_PINNED, AH_FP32, 0, 0};
    const unsigned char *pinned = ah_device_pointer(k->device, here);
    for (uint64_t at = 0; at < bytes; at += PIECE_BYTES) {
        const uint64_t n = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        const struct ah_op down = {.kind = AH_OP_COPY,
                                   .arg = {here, {AH_ARENA_DEVICE, AH_FP32, offset_bytes + at, 0}},
                                   .u.copy = {n}};
        submit(k, AH_LANE_D2H, &down);
        drain(k);
        memcpy((unsigned char *)ret_bytes + at, pinned, n);
    }
}

static uint32_t next_random(struct kernel *k)
{
    k->random = k->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(k->random >> 33);
}

/* Fills the operand with random words smaller than `below` or, if `below` is 0, with numbers in [low, 1). */
static void write_random(struct kernel *k, size_t arg, uint32_t below, float low)
{
    const struct ah_ref here = {AH_ARENA_PINNED, AH_FP32, 0, 0};
    const uint64_t bytes = k->operands[arg].bytes;
    unsigned char *pinned = ah_device_pointer(k->device, here);
    const uint64_t piece = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
    const bool half = k->op.arg[arg].dtype == AH_BF16 && !below;
    for (uint64_t i = 0; i < piece / (half ? 2 : 4); i++) {
        const uint32_t word = below ? next_random(k) % below : 0;
        const float value = low + (1 - low) * (float)(next_random(k) & 0xffffff) / 0x1p24F;
        const uint16_t small = ah_bf16_from_fp32(value);
        if (half)
            memcpy(pinned + 2 * i, &small, 2);
        else
            memcpy(pinned + 4 * i, below ? (const void *)&word : (const void *)&value, 4);
    }
    for (uint64_t at = 0; at < bytes; at += piece) {
        const struct ah_op up = {
            .kind = AH_OP_COPY,
            .arg = {{AH_ARENA_DEVICE, AH_FP32, k->op.arg[arg].offset_bytes + at, 0}, here},
            .u.copy = {bytes - at < piece ? bytes - at : piece}};
        submit(k, AH_LANE_H2D, &up);
    }
    drain(k);
}

static void write_scalars(struct kernel *k, size_t arg)
{
    const struct ah_ref here = {AH_ARENA_PINNED, AH_FP32, 0, 0};
    const struct ah_adamw_settings settings = {
        .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1, .step = 3, .seed = 1};
    const struct ah_op up = {.kind = AH_OP_COPY,
                             .arg = {{AH_ARENA_DEVICE, AH_FP32, k->op.arg[arg].offset_bytes, 0}, here},
                             .u.copy = {sizeof k->scalars}};
    ah_adamw_scalars_init(&k->scalars, &settings);
    memcpy(ah_device_pointer(k->device, here), &k->scalars, sizeof k->scalars);
    submit(k, AH_LANE_H2D, &up);
    drain(k);
}

/* Writes the inputs: numbers in [-1, 1), unless the kind of op needs others. */
static void write_inputs(struct kernel *k)
{
    for (size_t arg = 0; arg < AH_OP_ARGS; arg++) {
        const enum ah_op_kind kind = k->op.kind;
        const bool tokens = kind == AH_OP_EMBED && arg == 3,
                   targets = kind == AH_OP_CROSS_ENTROPY && arg == 2;
        if (k->operands[arg].role != AH_ROLE_IN && k->operands[arg].role != AH_ROLE_INOUT)
            continue;
        if (kind == AH_OP_ADAMW && arg == 5)
            write_scalars(k, arg);
        else
            write_random(k, arg,
                         tokens    ? (uint32_t)k->op.u.embed.vocabulary
                         : targets ? (uint32_t)k->op.u.cross_entropy.vocabulary
                                   : 0,
                         kind == AH_OP_ADAMW && arg == 2 ? 0 : -1);
    }
}

/* Makes the forward op whose results are inputs of the backward op; false: none is needed. */
static bool make_forward(const struct kernel *k, struct ah_op *ret_op)
{
    const struct ah_ref *r = k->op.arg;
    *ret_op = k->op;
    memset(ret_op->arg, 0, sizeof ret_op->arg);
    if (k->op.kind == AH_OP_ATTENTION_BACKWARD) {
        const struct ah_ref refs[] = {r[7], r[8], r[4], r[5], r[6]};
        ret_op->kind = AH_OP_ATTENTION;
        memcpy(ret_op->arg, refs, sizeof refs);
    } else if (k->op.kind == AH_OP_NORM_BACKWARD) {
        const struct ah_ref refs[] = {r[0], r[4], r[5], {0}, r[6]}; /* backward overwrites its result */
        ret_op->kind = AH_OP_NORM;
        memcpy(ret_op->arg, refs, sizeof refs);
    } else {
        return false;
    }
    return true;
}

/* Pads rows of odd width, such as logits, so that each row is aligned. */
static void set_strides(struct ah_op *op)
{
    enum { LINE = 64 };
    const struct ah_op_matmul *m = &op->u.matmul;
    const uint64_t widths[] = {m->n, m->form == AH_MATMUL_TN ? m->m : m->k,
                               m->form == AH_MATMUL_NT ? m->k : m->n};
    for (size_t i = 0; i < 3 && op->kind == AH_OP_MATMUL; i++)
        if (widths[i] % 2)
            op->arg[i].row_stride = (widths[i] + LINE - 1) / LINE * LINE;
}

static void open_case(struct kernel *k, const struct kernel_case *c)
{
    struct ah_error err = {0};
    uint64_t end = 0;
    *k = (struct kernel){.op = c->op, .random = 12345};
    for (size_t i = 0; i < AH_OP_ARGS; i++) /* also marks unused operands as absent */
        if (c->types[i] != NONE && i < kernel_operands(c->op.kind))
            k->op.arg[i] = (struct ah_ref){AH_ARENA_DEVICE, (uint32_t)c->types[i], 0, 0};
    set_strides(&k->op);
    if (ah_op_operands(&k->op, k->operands, &err))
        fail(err.text);
    for (size_t i = 0; i < AH_OP_ARGS; i++)
        if (k->op.arg[i].arena) {
            k->op.arg[i].offset_bytes = end;
            end += (k->operands[i].bytes + ALIGN - 1) / ALIGN * ALIGN;
        }
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {0, end, 8 * MIB, 4096};
    const struct ah_device_driver *driver = NULL;
    struct ah_op ops[2] = {k->op};
    const size_t n = 1 + make_forward(k, &ops[1]);
    if (ah_plugin_load("cuda", &driver, &err) ||
        ah_device_open(&k->device, driver, &(struct ah_device_options){0}, &err) ||
        ah_device_prepare(k->device, ops, n, &err) || ah_device_reserve(k->device, arena_bytes, &err))
        fail(err.text);
}

static double time_op(struct kernel *k)
{
    double us[TIMES_MOST];
    unsigned n = 0;
    const uint64_t begun_ns = ah_threads_now_ns();
    while (n < TIMES_MOST && (n < TIMES_LEAST || ah_threads_now_ns() - begun_ns < TIME_NS)) {
        struct ah_span span;
        struct ah_span_reader reader = {.lane = AH_LANE_COMPUTE,
                                        .seen = ah_device_submitted(k->device, AH_LANE_COMPUTE)};
        submit(k, AH_LANE_COMPUTE, &k->op);
        drain(k);
        if (ah_device_spans(k->device, &reader, &span, 1) == 1)
            us[n++] = (double)(span.end_ns - span.start_ns) / 1e3;
    }
    return ah_stats_of(us, n).median;
}

/* Returns the number of multiplications and additions in a product or attention. */
static double flops_of(const struct ah_op *op)
{
    const struct ah_op_matmul *m = &op->u.matmul;
    const struct ah_op_attention *a = &op->u.attention;
    if (op->kind == AH_OP_MATMUL)
        return 2.0 * (double)m->m * (double)m->n * (double)m->k;
    if (op->kind == AH_OP_ATTENTION || op->kind == AH_OP_ATTENTION_BACKWARD)
        return (op->kind == AH_OP_ATTENTION ? 2.0 : 5.0) * a->batch * a->heads * (double)a->seq *
               ((double)a->seq + 2.0 * a->past) * a->head_dim;
    return 0;
}

static bool run_case(const struct kernel_case *c)
{
    struct kernel k;
    struct ah_op forward;
    printf("{\"begins\": \"%s\"}\n", c->name);
    (void)fflush(stdout);
    open_case(&k, c);
    write_inputs(&k);
    if (make_forward(&k, &forward))
        submit(&k, AH_LANE_COMPUTE, &forward);
    drain(&k);
    struct kernel_samples *samples = kernel_samples_new(&k);
    submit(&k, AH_LANE_COMPUTE, &k.op);
    drain(&k);
    const double most = kernel_tolerance(&k), off = kernel_samples_check(samples, &k);
    const double us = time_op(&k), flops = flops_of(&k.op);
    const bool right = off <= most; /* false if `off` is NaN */
    printf("{\"kernel\": \"%s\", \"holds\": \"%s\", \"us\": %.1f, \"gb_per_s\": %.1f, ", c->name,
           right ? "yes" : "no", us, (double)ah_op_moved_bytes(&k.op) / us / 1e3);
    if (flops > 0)
        printf("\"tflop_per_s\": %.2f, ", flops / us / 1e6);
    if (off < 1e30)
        printf("\"off\": %.2g, ", off);
    printf("\"most\": %.2g}\n", most);
    (void)fflush(stdout);
    kernel_samples_free(samples);
    ah_device_close(k.device);
    return right;
}

int main(int n, char **arguments)
{
    bool small = false, list = false, right = true;
    int first = 1;
    for (; first < n && arguments[first][0] == '-'; first++) {
        small = small || strcmp(arguments[first], "--small") == 0;
        list = list || strcmp(arguments[first], "--list") == 0;
    }
    for (int i = 0; i < CASES; i++) {
        bool wanted = first == n && cases[i].small == small;
        for (int j = first; j < n; j++)
            wanted = wanted || strcmp(arguments[j], cases[i].name) == 0;
        if (wanted && list)
            printf("%s\n", cases[i].name);
        else if (wanted)
            right = run_case(&cases[i]) && right;
    }
    return right ? 0 : 1;
}
