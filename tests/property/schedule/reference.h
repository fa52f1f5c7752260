/* SPDX-License-Identifier: Apache-2.0
 *
 * A reference for programs: every op that programs use, in double precision, by its definition, on one flat memory.
 *
 * The element at bytes [b, b + size) of an arena is memory[b / 2]: if two places share bytes, they share the element
 * there. Row numbers of tables (tokens, targets, positions, documents) come from `data`, not from the memory.
 */
#ifndef AH_TESTS_PROPERTY_SCHEDULE_REFERENCE_H
#define AH_TESTS_PROPERTY_SCHEDULE_REFERENCE_H

#include "runtime/device/op.h"

#include <math.h>
#include <string.h>

struct reference_data {
    const uint32_t *tokens, *targets, *positions;
    double loss_scale;
    double theta; /* of rope */
};

struct reference {
    double *memory;
    const struct ah_op *op;
    const uint64_t *at; /* first byte of each operand */
    const struct reference_data *data;
    uint64_t first_row; /* the first of the tokens on which the op works */
};

/* Returns an element of an operand. Dense rows have `width` elements. */
static inline double *ref_element(const struct reference *r, size_t arg, uint64_t row, uint64_t width,
                                  uint64_t col)
{
    const struct ah_ref *ref = &r->op->arg[arg];
    uint64_t bytes = ref->dtype == AH_BF16 ? 2 : 4;
    return &r->memory[(r->at[arg] + (row * (ref->row_stride ? ref->row_stride : width) + col) * bytes) / 2];
}

static inline bool ref_has(const struct reference *r, size_t arg)
{
    return r->op->arg[arg].arena != AH_ARENA_NONE;
}

static inline void ref_matmul(const struct reference *r)
{
    const struct ah_op_matmul *s = &r->op->u.matmul;
    for (uint64_t i = 0; i < s->m; i++)
        for (uint64_t j = 0; j < s->n; j++) {
            double sum = ref_has(r, 3) ? *ref_element(r, 3, 0, s->n, j) : 0;
            for (uint64_t k = 0; k < s->k; k++)
                sum += (s->form == AH_MATMUL_TN ? *ref_element(r, 1, k, s->m, i)
                                                : *ref_element(r, 1, i, s->k, k)) *
                       (s->form == AH_MATMUL_NT ? *ref_element(r, 2, j, s->k, k)
                                                : *ref_element(r, 2, k, s->n, j));
            double *c = ref_element(r, 0, i, s->n, j);
            *c = sum + (s->accumulate ? *c : 0);
        }
}

static inline double ref_gain(const struct reference *r, size_t gain, uint64_t j)
{
    return *ref_element(r, gain, 0, r->op->u.norm.width, j) + (double)r->op->u.norm.gain_offset;
}

static inline void ref_norm(const struct reference *r)
{
    const struct ah_op_norm *s = &r->op->u.norm;
    uint64_t w = s->width, row = w * s->heads, n = s->rows * s->heads;
    for (uint64_t v = 0; v < n; v++) {
        uint64_t at = v / s->heads, first = v % s->heads * w;
        double mean = 0, square = 0;
        for (uint64_t j = 0; j < w && s->kind == AH_NORM_LAYER; j++)
            mean += *ref_element(r, 1, at, row, first + j) / (double)w;
        for (uint64_t j = 0; j < w; j++)
            square += pow(*ref_element(r, 1, at, row, first + j) - mean, 2) / (double)w;
        double inverse = 1 / sqrt(square + (double)s->epsilon);
        for (uint64_t j = 0; j < w; j++)
            *ref_element(r, 0, at, row, first + j) =
                (*ref_element(r, 1, at, row, first + j) - mean) * inverse * ref_gain(r, 2, j) +
                (ref_has(r, 3) ? *ref_element(r, 3, 0, w, j) : 0);
        if (s->kind == AH_NORM_LAYER)
            *ref_element(r, 4, 0, n, v) = mean;
        *ref_element(r, 4, s->kind == AH_NORM_LAYER, n, v) = inverse;
    }
}

static inline void ref_norm_backward(const struct reference *r)
{
    const struct ah_op_norm *s = &r->op->u.norm;
    uint64_t w = s->width, row = w * s->heads, n = s->rows * s->heads;
    for (size_t arg = 1; arg < 3; arg++)
        for (uint64_t j = 0; j < w && ref_has(r, arg); j++)
            *ref_element(r, arg, 0, w, j) = 0;
    for (uint64_t v = 0; v < n; v++) {
        uint64_t at = v / s->heads, first = v % s->heads * w;
        bool layer = s->kind == AH_NORM_LAYER;
        double mean = layer ? *ref_element(r, 6, 0, n, v) : 0, inverse = *ref_element(r, 6, layer, n, v);
        double sum = 0, dot = 0;
        for (uint64_t j = 0; j < w; j++) {
            double hat = (*ref_element(r, 4, at, row, first + j) - mean) * inverse;
            double dy = *ref_element(r, 3, at, row, first + j), d = dy * ref_gain(r, 5, j);
            sum += layer ? d / (double)w : 0;
            dot += d * hat / (double)w;
            if (ref_has(r, 1))
                *ref_element(r, 1, 0, w, j) += dy * hat;
            if (ref_has(r, 2))
                *ref_element(r, 2, 0, w, j) += dy;
        }
        for (uint64_t j = 0; j < w && ref_has(r, 0); j++) {
            double hat = (*ref_element(r, 4, at, row, first + j) - mean) * inverse;
            double d = *ref_element(r, 3, at, row, first + j) * ref_gain(r, 5, j);
            *ref_element(r, 0, at, row, first + j) = inverse * (d - sum - hat * dot);
        }
    }
}

static inline void ref_rope(const struct reference *r)
{
    const struct ah_op_rope *s = &r->op->u.rope;
    const uint32_t rotated = s->rotated ? s->rotated : s->head_dim;
    uint64_t half = rotated / 2, row = (uint64_t)s->heads * s->head_dim;
    for (uint64_t i = 0; i < s->rows; i++)
        for (uint64_t c = 0; c < s->heads * half; c++) {
            uint64_t pair = c % half, first = c / half * s->head_dim + pair;
            double angle = r->data->positions[i] * pow(r->data->theta, -2.0 * (double)pair / rotated) *
                           (s->inverse ? -1 : 1);
            double *a = ref_element(r, 0, i, row, first), *b = ref_element(r, 0, i, row, first + half);
            double x = *a, y = *b;
            *a = x * cos(angle) - y * sin(angle);
            *b = y * cos(angle) + x * sin(angle);
        }
}

/* Returns the score of query row `i` on key row `j` of head `h`. */
static inline double ref_score(const struct reference *r, size_t q, size_t k, uint64_t i, uint64_t j,
                               uint64_t h)
{
    const struct ah_op_attention *s = &r->op->u.attention;
    uint64_t d = s->head_dim, kv = h / (s->heads / s->kv_heads);
    double sum = 0;
    for (uint64_t c = 0; c < d; c++)
        sum += *ref_element(r, q, i, s->heads * d, h * d + c) *
               *ref_element(r, k, j, s->kv_heads * d, kv * d + c);
    const double score = sum * (double)s->scale, cap = (double)s->soft_cap;
    return cap > 0 ? cap * tanh(score / cap) : score;
}

static inline uint64_t ref_first_key(const struct ah_op_attention *s, uint64_t i)
{
    uint64_t start = i / s->seq * s->seq;
    return s->window && i + 1 > start + s->window ? i + 1 - s->window : start;
}

static inline void ref_attention(const struct reference *r)
{
    const struct ah_op_attention *s = &r->op->u.attention;
    uint64_t d = s->head_dim, n = (uint64_t)s->batch * s->seq;
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t h = 0; h < s->heads; h++) {
            double sum = 0;
            uint64_t kv = h / (s->heads / s->kv_heads);
            for (uint64_t j = ref_first_key(s, i); j <= i; j++)
                sum += exp(ref_score(r, 2, 3, i, j, h));
            *ref_element(r, 1, i, s->heads, h) = log(sum);
            for (uint64_t c = 0; c < d; c++) {
                double out = 0;
                for (uint64_t j = ref_first_key(s, i); j <= i; j++)
                    out += exp(ref_score(r, 2, 3, i, j, h)) / sum *
                           *ref_element(r, 4, j, s->kv_heads * d, kv * d + c);
                *ref_element(r, 0, i, s->heads * d, h * d + c) = out;
            }
        }
}

static inline void ref_attention_backward_pair(const struct reference *r, uint64_t i, uint64_t j, uint64_t h)
{
    const struct ah_op_attention *s = &r->op->u.attention;
    uint64_t d = s->head_dim, q = s->heads * d, kv = s->kv_heads * d, at = h / (s->heads / s->kv_heads) * d;
    double score = ref_score(r, 4, 5, i, j, h), dp = 0, delta = 0;
    double p = exp(score - *ref_element(r, 8, i, s->heads, h));
    for (uint64_t c = 0; c < d; c++) {
        double dout = *ref_element(r, 3, i, q, h * d + c);
        dp += dout * *ref_element(r, 6, j, kv, at + c);
        delta += dout * *ref_element(r, 7, i, q, h * d + c);
        *ref_element(r, 2, j, kv, at + c) += p * dout;
    }
    double bent = s->soft_cap > 0 ? pow(score / (double)s->soft_cap, 2) : 0;
    double ds = p * (dp - delta) * (double)s->scale * (1 - bent);
    for (uint64_t c = 0; c < d; c++) {
        *ref_element(r, 0, i, q, h * d + c) += ds * *ref_element(r, 5, j, kv, at + c);
        *ref_element(r, 1, j, kv, at + c) += ds * *ref_element(r, 4, i, q, h * d + c);
    }
}

static inline void ref_attention_backward(const struct reference *r)
{
    const struct ah_op_attention *s = &r->op->u.attention;
    uint64_t n = (uint64_t)s->batch * s->seq, d = s->head_dim;
    for (size_t arg = 0; arg < 3; arg++)
        for (uint64_t i = 0; i < n; i++)
            for (uint64_t c = 0; c < (arg ? s->kv_heads : s->heads) * d; c++)
                *ref_element(r, arg, i, (arg ? s->kv_heads : s->heads) * d, c) = 0;
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t h = 0; h < s->heads; h++)
            for (uint64_t j = ref_first_key(s, i); j <= i; j++)
                ref_attention_backward_pair(r, i, j, h);
}

/* Returns the activation and its derivative. gelu is computed by its definition, its tanh form as published. */
static inline double ref_activate(uint32_t kind, double x, double *ret_slope)
{
    const double pi = acos(-1.0);
    double sigmoid = 1 / (1 + exp(-x)), c = sqrt(2 / pi), t = tanh(c * (x + 0.044715 * x * x * x));
    if (kind == AH_ACTIVATION_SILU_GATED) {
        *ret_slope = sigmoid * (1 + x * (1 - sigmoid));
        return x * sigmoid;
    }
    if (kind == AH_ACTIVATION_GELU) {
        *ret_slope = 0.5 * (1 + erf(x / sqrt(2.0))) + x * exp(-x * x / 2) / sqrt(2 * pi);
        return 0.5 * x * (1 + erf(x / sqrt(2.0)));
    }
    *ret_slope = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
    return 0.5 * x * (1 + t);
}

static inline void ref_activation(const struct reference *r)
{
    const struct ah_op_rows *s = &r->op->u.rows;
    bool backward = r->op->kind == AH_OP_ACTIVATION_BACKWARD, gated = ah_op_is_gated(s->kind);
    for (uint64_t i = 0; i < s->rows; i++)
        for (uint64_t j = 0; j < s->width; j++) {
            double slope, up = gated ? *ref_element(r, backward ? 4 : 2, i, s->width, j) : 1;
            double y = ref_activate(s->kind, *ref_element(r, backward ? 3 : 1, i, s->width, j), &slope);
            double dy = backward ? *ref_element(r, 2, i, s->width, j) : 0;
            *ref_element(r, 0, i, s->width, j) = backward ? dy * slope * up : y * up;
            if (backward && gated)
                *ref_element(r, 1, i, s->width, j) = dy * y;
        }
}

/* Runs an op of kind add, cast, fill with zero, column_sum or sum. */
static inline void ref_elements(const struct reference *r)
{
    const struct ah_op_elements *s = &r->op->u.elements;
    for (uint64_t i = 0; i < (s->rows ? s->rows : 1); i++)
        for (uint64_t j = 0; j < s->count; j++)
            *ref_element(r, 0, i, s->count, j) =
                r->op->kind == AH_OP_FILL
                    ? (double)s->value
                    : *ref_element(r, 1, i, s->count, j) +
                          (r->op->kind == AH_OP_ADD ? *ref_element(r, 2, i, s->count, j) : 0);
}

static inline void ref_sums(const struct reference *r)
{
    bool sum = r->op->kind == AH_OP_SUM;
    uint64_t rows = sum ? r->op->u.sum.count : r->op->u.rows.rows, width = sum ? 1 : r->op->u.rows.width;
    for (uint64_t j = 0; j < width; j++) {
        double total = 0;
        for (uint64_t i = 0; i < rows; i++)
            total += *ref_element(r, 1, i, width, j);
        *ref_element(r, 0, 0, width, j) = total;
    }
}

static inline void ref_embed(const struct reference *r)
{
    const struct ah_op_embed *s = &r->op->u.embed;
    bool backward = r->op->kind == AH_OP_EMBED_BACKWARD;
    double scale = s->scale > 0 ? (double)s->scale : 1;
    for (uint64_t i = 0; i < s->rows; i++)
        for (uint64_t j = 0; j < s->width; j++) {
            uint64_t token = r->data->tokens[i], position = r->data->positions[i];
            if (!backward)
                *ref_element(r, 0, i, s->width, j) =
                    scale * *ref_element(r, 1, token, s->width, j) +
                    (ref_has(r, 2) ? *ref_element(r, 2, position, s->width, j) : 0);
            if (backward && ref_has(r, 0))
                *ref_element(r, 0, token, s->width, j) += scale * *ref_element(r, 2, i, s->width, j);
            if (backward && ref_has(r, 1))
                *ref_element(r, 1, position, s->width, j) += *ref_element(r, 2, i, s->width, j);
        }
}

static inline double ref_capped(const struct reference *r, double x)
{
    double cap = (double)r->op->u.cross_entropy.soft_cap;
    return cap > 0 ? cap * tanh(x / cap) : x;
}

static inline void ref_cross_entropy(const struct reference *r)
{
    const struct ah_op_cross_entropy *s = &r->op->u.cross_entropy;
    for (uint64_t i = 0; i < s->rows; i++) {
        double sum = 0;
        uint32_t target = r->data->targets[r->first_row + i];
        for (uint64_t j = 0; j < s->vocabulary; j++)
            sum += exp(ref_capped(r, *ref_element(r, 1, i, s->vocabulary, j)));
        *ref_element(r, 0, i, 1, 0) = log(sum) - ref_capped(r, *ref_element(r, 1, i, s->vocabulary, target));
        for (uint64_t j = 0; j < s->vocabulary; j++) {
            double logit = ref_capped(r, *ref_element(r, 1, i, s->vocabulary, j));
            double part = s->soft_cap > 0 ? logit / (double)s->soft_cap : 0;
            *ref_element(r, ref_has(r, 5) ? 5 : 1, i, s->vocabulary, j) =
                (exp(logit) / sum - (j == target)) * (1 - part * part) * r->data->loss_scale;
        }
    }
}

/* Runs an op of a kind that programs use. Returns false for other kinds. */
static inline bool reference_do(const struct reference *r)
{
    static void (*const functions[AH_OP_KINDS])(const struct reference *) = {
        [AH_OP_MATMUL] = ref_matmul,
        [AH_OP_NORM] = ref_norm,
        [AH_OP_NORM_BACKWARD] = ref_norm_backward,
        [AH_OP_ROPE] = ref_rope,
        [AH_OP_ATTENTION] = ref_attention,
        [AH_OP_ATTENTION_BACKWARD] = ref_attention_backward,
        [AH_OP_ACTIVATION] = ref_activation,
        [AH_OP_ACTIVATION_BACKWARD] = ref_activation,
        [AH_OP_ADD] = ref_elements,
        [AH_OP_CAST] = ref_elements,
        [AH_OP_FILL] = ref_elements,
        [AH_OP_COLUMN_SUM] = ref_sums,
        [AH_OP_SUM] = ref_sums,
        [AH_OP_EMBED] = ref_embed,
        [AH_OP_EMBED_BACKWARD] = ref_embed,
        [AH_OP_CROSS_ENTROPY] = ref_cross_entropy,
    };
    if (!functions[r->op->kind])
        return false;
    functions[r->op->kind](r);
    return true;
}

#endif
