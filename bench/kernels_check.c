/* SPDX-License-Identifier: Apache-2.0
 *
 * Recomputes some rows of an op's results in double, in the plainest way that the formulas of op.h allow.
 */
#include "bench/kernels_internal.h"

#include "base/bf16.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 6, HEADS = 2 };

struct kernel_samples {
    const struct kernel *k;
    unsigned char *before, *after; /* the device arena */
    uint64_t bytes;
    double off; /* largest `off` of any operand so far */
};

struct distance {
    double difference, size;
};

size_t kernel_operands(enum ah_op_kind kind)
{
    static const unsigned char counts[AH_OP_KINDS] = {
        [AH_OP_CAST] = 2,        [AH_OP_ADD] = 3,       [AH_OP_MATMUL] = 5,
        [AH_OP_COLUMN_SUM] = 2,  [AH_OP_NORM] = 5,      [AH_OP_NORM_BACKWARD] = 8,
        [AH_OP_ROPE] = 3,        [AH_OP_ATTENTION] = 6, [AH_OP_ATTENTION_BACKWARD] = 11,
        [AH_OP_ACTIVATION] = 3,  [AH_OP_EMBED] = 5,     [AH_OP_CROSS_ENTROPY] = 5,
        [AH_OP_SUM_SQUARES] = 2, [AH_OP_ADAMW] = 6,
    };
    return counts[kind];
}

static double get(const struct kernel_samples *s, const unsigned char *arena, size_t arg, uint64_t i)
{
    const struct ah_ref *ref = &s->k->op.arg[arg];
    const unsigned char *at = arena + ref->offset_bytes + i * ah_dtype_bytes((enum ah_dtype)ref->dtype);
    uint16_t half;
    float value;
    memcpy(&half, at, sizeof half);
    if (ref->dtype == AH_BF16)
        return (double)ah_bf16_to_fp32(half);
    memcpy(&value, at, sizeof value);
    return (double)value;
}

static double in(const struct kernel_samples *s, size_t arg, uint64_t i)
{
    return get(s, s->before, arg, i);
}

static double out(const struct kernel_samples *s, size_t arg, uint64_t i)
{
    return get(s, s->after, arg, i);
}

static uint32_t word(const struct kernel_samples *s, size_t arg, uint64_t i)
{
    uint32_t value;
    memcpy(&value, s->before + s->k->op.arg[arg].offset_bytes + 4 * i, sizeof value);
    return value;
}

static void add(struct distance *d, double found, double expected)
{
    d->difference += (found - expected) * (found - expected);
    d->size += expected * expected;
}

/* Updates `off` with an operand's distance. A result that is NaN has the largest distance. */
static void close_operand(struct kernel_samples *s, const struct distance *d)
{
    const double off = d->size > 0 ? sqrt(d->difference / d->size) : (double)INFINITY;
    s->off = off <= s->off ? s->off : isnan(off) ? (double)INFINITY : off;
}

/* Returns the i-th row to check: the first, the last, or one between them. */
static uint64_t sample(uint64_t n, unsigned i)
{
    return i == 0 ? 0 : i == 1 ? n - 1 : (i * UINT64_C(2654435761)) % n;
}

static double *numbers(uint64_t n)
{
    double *all = calloc(n, sizeof *all);
    if (!all) {
        fprintf(stderr, "bench_kernels: no memory for what is expected\n");
        exit(1);
    }
    return all;
}

static uint64_t element(const struct kernel_samples *s, size_t arg, uint64_t width, uint64_t row,
                        uint64_t column)
{
    const uint64_t stride = s->k->op.arg[arg].row_stride;
    return row * (stride ? stride : width) + column;
}

static void check_matmul(struct kernel_samples *s)
{
    const struct ah_op_matmul *m = &s->k->op.u.matmul;
    struct distance d = {0, 0};
    for (unsigned n = 0; n < ROWS * ROWS; n++) {
        const uint64_t i = sample(m->m, n / ROWS), j = sample(m->n, n % ROWS);
        double sum = 0;
        for (uint64_t l = 0; l < m->k; l++)
            sum += in(s, 1, m->form == AH_MATMUL_TN ? element(s, 1, m->m, l, i) : element(s, 1, m->k, i, l)) *
                   in(s, 2, m->form == AH_MATMUL_NT ? element(s, 2, m->k, j, l) : element(s, 2, m->n, l, j));
        add(&d, out(s, 0, element(s, 0, m->n, i, j)), sum);
    }
    close_operand(s, &d);
}

/* One query: its weights for its own key and all keys before it. */
struct query {
    const struct kernel_samples *s;
    size_t q, k, v; /* operands */
    uint64_t batch, head, i;
    double *weights, *mixed; /* (i + 1), (head_dim) */
    double lse;
};

static uint64_t place(const struct query *y, uint64_t i)
{
    const struct ah_op_attention *a = &y->s->k->op.u.attention;
    return ((y->batch * a->seq + i) * a->heads + y->head) * a->head_dim;
}

static void attend(struct query *y)
{
    const struct ah_op_attention *a = &y->s->k->op.u.attention;
    double most = -(double)INFINITY, sum = 0;
    for (uint64_t j = 0; j <= y->i; j++) {
        double score = 0;
        for (uint64_t c = 0; c < a->head_dim; c++)
            score += in(y->s, y->q, place(y, y->i) + c) * in(y->s, y->k, place(y, j) + c);
        score *= (double)a->scale;
        y->weights[j] = a->soft_cap > 0 ? (double)a->soft_cap * tanh(score / (double)a->soft_cap) : score;
        most = y->weights[j] > most ? y->weights[j] : most;
    }
    for (uint64_t j = 0; j <= y->i; j++)
        sum += y->weights[j] = exp(y->weights[j] - most);
    memset(y->mixed, 0, a->head_dim * sizeof *y->mixed);
    for (uint64_t j = 0; j <= y->i; j++) {
        y->weights[j] /= sum;
        for (uint64_t c = 0; c < a->head_dim; c++)
            y->mixed[c] += y->weights[j] * in(y->s, y->v, place(y, j) + c);
    }
    y->lse = most + log(sum);
}

static struct query first_query(const struct kernel_samples *s, size_t q, size_t k, size_t v)
{
    const struct ah_op_attention *a = &s->k->op.u.attention;
    return (struct query){
        .s = s, .q = q, .k = k, .v = v, .weights = numbers(a->seq), .mixed = numbers(a->head_dim)};
}

static void check_attention(struct kernel_samples *s)
{
    const struct ah_op_attention *a = &s->k->op.u.attention;
    struct distance mixed = {0, 0}, lse = {0, 0};
    struct query y = first_query(s, 2, 3, 4);
    for (unsigned at = 0; at < ROWS * HEADS; at++) {
        y.batch = sample(a->batch, at % HEADS), y.head = sample(a->heads, at % HEADS);
        y.i = sample(a->seq, at / HEADS);
        attend(&y);
        for (uint64_t c = 0; c < a->head_dim; c++)
            add(&mixed, out(s, 0, place(&y, y.i) + c), y.mixed[c]);
        add(&lse, out(s, 1, (y.batch * a->heads + y.head) * a->seq + y.i), y.lse);
    }
    free(y.weights);
    free(y.mixed);
    close_operand(s, &mixed);
    close_operand(s, &lse);
}

/* Returns the gradient of the score of a query with key j. */
static double score_gradient(const struct query *y, uint64_t j)
{
    const struct ah_op_attention *a = &y->s->k->op.u.attention;
    double sum = 0, bent = 0; /* bent: the square of the cap's tanh, found from the weight */
    if (a->soft_cap > 0 && y->weights[j] > 0)
        bent = pow((log(y->weights[j]) + y->lse) / (double)a->soft_cap, 2);
    for (uint64_t c = 0; c < a->head_dim; c++)
        sum += in(y->s, 3, place(y, y->i) + c) * (in(y->s, y->v, place(y, j) + c) - y->mixed[c]);
    return y->weights[j] * sum * (double)a->scale * (1 - bent);
}

static void check_query_gradient(struct query *y, struct distance *d, double *sums)
{
    const uint64_t width = y->s->k->op.u.attention.head_dim;
    attend(y);
    memset(sums, 0, width * sizeof *sums);
    for (uint64_t j = 0; j <= y->i; j++) {
        const double gradient = score_gradient(y, j);
        for (uint64_t c = 0; c < width; c++)
            sums[c] += gradient * in(y->s, y->k, place(y, j) + c);
    }
    for (uint64_t c = 0; c < width; c++)
        add(d, out(y->s, 0, place(y, y->i) + c), sums[c]);
}

static void check_key_gradients(struct query *y, uint64_t j, struct distance d[2], double *sums)
{
    const struct ah_op_attention *a = &y->s->k->op.u.attention;
    memset(sums, 0, 2 * a->head_dim * sizeof *sums);
    for (y->i = j; y->i < a->seq; y->i++) {
        attend(y);
        const double gradient = score_gradient(y, j);
        for (uint64_t c = 0; c < a->head_dim; c++) {
            sums[c] += gradient * in(y->s, y->q, place(y, y->i) + c);
            sums[a->head_dim + c] += y->weights[j] * in(y->s, 3, place(y, y->i) + c);
        }
    }
    for (uint64_t c = 0; c < a->head_dim; c++) {
        add(&d[0], out(y->s, 1, place(y, j) + c), sums[c]);
        add(&d[1], out(y->s, 2, place(y, j) + c), sums[a->head_dim + c]);
    }
}

/* Checks three keys. Only few queries see the last two; many see the third, an eighth from the end. */
static void check_attention_backward(struct kernel_samples *s)
{
    const struct ah_op_attention *a = &s->k->op.u.attention;
    const uint64_t keys[] = {a->seq - 1, a->seq - 2, a->seq - a->seq / 8};
    struct distance dq = {0, 0}, dkv[2] = {{0, 0}, {0, 0}};
    struct query y = first_query(s, 4, 5, 6);
    double *sums = numbers(2 * (uint64_t)a->head_dim);
    for (unsigned head = 0; head < HEADS; head++) {
        y.batch = sample(a->batch, head), y.head = sample(a->heads, head);
        for (unsigned at = 0; at < ROWS; at++) {
            y.i = sample(a->seq, at);
            check_query_gradient(&y, &dq, sums);
        }
        for (size_t at = 0; at < (head ? 3 : 2); at++)
            check_key_gradients(&y, keys[at], dkv, sums);
    }
    free(sums);
    free(y.weights);
    free(y.mixed);
    close_operand(s, &dq);
    close_operand(s, &dkv[0]);
    close_operand(s, &dkv[1]);
}

/* Computes the mean (rms: 0) and 1 / deviation of a row. */
static void moments(const struct kernel_samples *s, size_t x, uint64_t row, double ret[2])
{
    const struct ah_op_norm *n = &s->k->op.u.norm;
    double mean = 0, square = 0;
    for (uint64_t c = 0; c < n->width && n->kind == AH_NORM_LAYER; c++)
        mean += in(s, x, row * n->width + c) / (double)n->width;
    for (uint64_t c = 0; c < n->width; c++)
        square += pow(in(s, x, row * n->width + c) - mean, 2) / (double)n->width;
    ret[0] = mean;
    ret[1] = 1 / sqrt(square + (double)n->epsilon);
}

/* Returns gain `c`, as stored in operand `gain` and with the offset. */
static double gain_of(const struct kernel_samples *s, size_t gain, uint64_t c)
{
    return in(s, gain, c) + (double)s->k->op.u.norm.gain_offset;
}

static void check_norm(struct kernel_samples *s)
{
    const struct ah_op_norm *n = &s->k->op.u.norm;
    struct distance d = {0, 0};
    for (unsigned at = 0; at < ROWS; at++) {
        const uint64_t row = sample(n->rows, at);
        double m[2];
        moments(s, 1, row, m);
        for (uint64_t c = 0; c < n->width; c++)
            add(&d, out(s, 0, row * n->width + c),
                (in(s, 1, row * n->width + c) - m[0]) * m[1] * gain_of(s, 2, c) +
                    (s->k->op.arg[3].arena ? in(s, 3, c) : 0));
    }
    close_operand(s, &d);
}

static void check_norm_backward(struct kernel_samples *s)
{
    const struct ah_op_norm *n = &s->k->op.u.norm;
    struct distance dx = {0, 0};
    for (unsigned at = 0; at < ROWS; at++) {
        const uint64_t row = sample(n->rows, at) * n->width;
        double m[2], sum = 0, with_x = 0;
        moments(s, 4, row / n->width, m);
        for (uint64_t c = 0; c < n->width; c++) {
            const double scaled = in(s, 3, row + c) * gain_of(s, 5, c) / (double)n->width;
            sum += n->kind == AH_NORM_LAYER ? scaled : 0;
            with_x += scaled * (in(s, 4, row + c) - m[0]) * m[1];
        }
        for (uint64_t c = 0; c < n->width; c++)
            add(&dx, out(s, 0, row + c),
                m[1] * (in(s, 3, row + c) * gain_of(s, 5, c) - sum -
                        (in(s, 4, row + c) - m[0]) * m[1] * with_x));
    }
    close_operand(s, &dx);
}

static void check_activation(struct kernel_samples *s)
{
    const struct ah_op_rows *r = &s->k->op.u.rows;
    struct distance d = {0, 0};
    for (unsigned at = 0; at < ROWS; at++)
        for (uint64_t c = 0; c < r->width; c++) {
            const uint64_t i = sample(r->rows, at) * r->width + c;
            const double x = in(s, 1, i);
            const double gelu = 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
            const double y = r->kind == AH_ACTIVATION_SILU_GATED ? x / (1 + exp(-x)) : gelu;
            add(&d, out(s, 0, i), ah_op_is_gated(r->kind) ? y * in(s, 2, i) : y);
        }
    close_operand(s, &d);
}

static void check_rope(struct kernel_samples *s)
{
    const struct ah_op_rope *r = &s->k->op.u.rope;
    const uint64_t half = (r->rotated ? r->rotated : r->head_dim) / 2;
    struct distance d = {0, 0};
    for (unsigned at = 0; at < ROWS; at++) {
        const uint64_t row = sample(r->rows, at), pairs = row % r->seq * (r->head_dim / 2);
        for (uint64_t i = 0; i < r->heads * half; i++) {
            const uint64_t first = row * r->heads * r->head_dim + i / half * r->head_dim + i % half;
            const double x = in(s, 0, first), y = in(s, 0, first + half);
            const double cosine = in(s, 1, 2 * (pairs + i % half)),
                         sine = in(s, 1, 2 * (pairs + i % half) + 1);
            add(&d, out(s, 0, first), x * cosine - y * sine);
            add(&d, out(s, 0, first + half), x * sine + y * cosine);
        }
    }
    close_operand(s, &d);
}

static void check_embed(struct kernel_samples *s)
{
    const struct ah_op_embed *e = &s->k->op.u.embed;
    struct distance d = {0, 0};
    for (unsigned at = 0; at < ROWS; at++) {
        const uint64_t row = sample(e->rows, at);
        for (uint64_t c = 0; c < e->width; c++)
            add(&d, out(s, 0, row * e->width + c),
                in(s, 1, word(s, 3, row) * e->width + c) * (e->scale > 0 ? (double)e->scale : 1));
    }
    close_operand(s, &d);
}

/* Returns logit i, capped if the op has a cap. */
static double logit_of(const struct kernel_samples *s, uint64_t i)
{
    const double cap = (double)s->k->op.u.cross_entropy.soft_cap;
    return cap > 0 ? cap * tanh(in(s, 1, i) / cap) : in(s, 1, i);
}

static void check_cross_entropy(struct kernel_samples *s)
{
    const struct ah_op_cross_entropy *e = &s->k->op.u.cross_entropy;
    struct distance loss = {0, 0}, gradient = {0, 0};
    for (unsigned at = 0; at < ROWS; at++) {
        const uint64_t row = sample(e->rows, at), begin = row * e->vocabulary, target = word(s, 2, row);
        double sum = 0; /* no overflow, because logits are small */
        for (uint64_t c = 0; c < e->vocabulary; c++)
            sum += exp(logit_of(s, begin + c));
        add(&loss, out(s, 0, row), log(sum) - logit_of(s, begin + target));
        for (uint64_t c = 0; c < e->vocabulary; c++) {
            const double x = logit_of(s, begin + c), part = e->soft_cap > 0 ? x / (double)e->soft_cap : 0;
            add(&gradient, out(s, 1, begin + c),
                (exp(x) / sum - (c == target)) * (1 - part * part) * in(s, 4, 0));
        }
    }
    close_operand(s, &loss);
    close_operand(s, &gradient);
}

/* Checks about 10000 elements of add or cast, evenly spaced. */
static void check_elements(struct kernel_samples *s)
{
    const uint64_t count = s->k->op.u.elements.count;
    const bool is_add = s->k->op.kind == AH_OP_ADD;
    struct distance d = {0, 0};
    for (uint64_t i = 0; i < count; i += 1 + count / 10007)
        add(&d, out(s, 0, i), in(s, 1, i) + (is_add ? in(s, 2, i) : 0));
    close_operand(s, &d);
}

static void check_column_sum(struct kernel_samples *s)
{
    const struct ah_op_rows *r = &s->k->op.u.rows;
    struct distance d = {0, 0};
    for (unsigned at = 0; at < ROWS; at++) {
        const uint64_t c = sample(r->width, at);
        double sum = 0;
        for (uint64_t row = 0; row < r->rows; row++)
            sum += in(s, 1, row * r->width + c);
        add(&d, out(s, 0, c), sum);
    }
    close_operand(s, &d);
}

static void check_sum_squares(struct kernel_samples *s)
{
    struct distance d = {0, 0};
    double sum = 0, found;
    for (uint64_t i = 0; i < s->k->op.u.sum.count; i++)
        sum += in(s, 1, i) * in(s, 1, i);
    memcpy(&found, s->after + s->k->op.arg[0].offset_bytes, sizeof found);
    add(&d, found, sum);
    close_operand(s, &d);
}

/* Compares the step of the master, because the master itself is much larger than the step. */
static void check_adamw(struct kernel_samples *s)
{
    const struct ah_adamw_scalars *a = &s->k->scalars;
    const uint64_t count = s->k->op.u.adamw.count;
    struct distance step = {0, 0}, m_off = {0, 0}, v_off = {0, 0}, weight = {0, 0};
    for (uint64_t i = 0; i < count; i += 1 + count / 10007) {
        const double p = in(s, 0, i), g = in(s, 3, i);
        const double m = (double)a->beta1 * in(s, 1, i) + (double)a->rest1 * g;
        const double v = (double)a->beta2 * in(s, 2, i) + (double)a->rest2 * g * g;
        const double by = (double)a->neg_rate * m / (sqrt(v) * (double)a->root_scale + (double)a->epsilon);
        const double kept = p * (double)a->decay;
        add(&step, out(s, 0, i) - kept, by);
        add(&m_off, out(s, 1, i), m);
        add(&v_off, out(s, 2, i), v);
        add(&weight, out(s, 4, i), kept + by);
    }
    close_operand(s, &step);
    close_operand(s, &m_off);
    close_operand(s, &v_off);
    close_operand(s, &weight);
}

static const struct {
    void (*check)(struct kernel_samples *s);
    double most; /* for fp32 results */
    double most_bf16;
} checks[AH_OP_KINDS] = {
    [AH_OP_MATMUL] = {check_matmul, 1e-4, 4e-3},
    [AH_OP_ATTENTION] = {check_attention, 1e-2, 1e-2},
    [AH_OP_ATTENTION_BACKWARD] = {check_attention_backward, 2e-2, 2e-2},
    [AH_OP_NORM] = {check_norm, 1e-5, 4e-3},
    [AH_OP_NORM_BACKWARD] = {check_norm_backward, 1e-4, 4e-3},
    [AH_OP_ACTIVATION] = {check_activation, 1e-5, 4e-3},
    [AH_OP_ROPE] = {check_rope, 1e-5, 4e-3},
    [AH_OP_EMBED] = {check_embed, 1e-6, 4e-3},
    [AH_OP_CROSS_ENTROPY] = {check_cross_entropy, 1e-4, 4e-3},
    [AH_OP_ADD] = {check_elements, 1e-6, 4e-3},
    [AH_OP_CAST] = {check_elements, 1e-6, 4e-3},
    [AH_OP_COLUMN_SUM] = {check_column_sum, 1e-4, 4e-3},
    [AH_OP_SUM_SQUARES] = {check_sum_squares, 1e-4, 1e-4},
    [AH_OP_ADAMW] = {check_adamw, 4e-3, 4e-3}, /* the op's weights are bf16 */
};

double kernel_tolerance(const struct kernel *k)
{
    return k->op.arg[0].dtype == AH_BF16 ? checks[k->op.kind].most_bf16 : checks[k->op.kind].most;
}

struct kernel_samples *kernel_samples_new(struct kernel *k)
{
    struct kernel_samples *s = calloc(1, sizeof *s);
    uint64_t bytes = 0;
    for (size_t i = 0; i < AH_OP_ARGS; i++)
        if (k->op.arg[i].arena)
            bytes = k->op.arg[i].offset_bytes + k->operands[i].bytes;
    unsigned char *both = malloc(2 * bytes);
    if (!s || !both) {
        fprintf(stderr, "bench_kernels: no memory for copies of the operands\n");
        exit(1);
    }
    *s = (struct kernel_samples){.k = k, .before = both, .after = both + bytes, .bytes = bytes};
    kernel_read(k, 0, bytes, s->before);
    return s;
}

void kernel_samples_free(struct kernel_samples *samples)
{
    free(samples->before);
    free(samples);
}

double kernel_samples_check(struct kernel_samples *samples, struct kernel *k)
{
    kernel_read(k, 0, samples->bytes, samples->after);
    checks[k->op.kind].check(samples);
    return samples->off;
}
