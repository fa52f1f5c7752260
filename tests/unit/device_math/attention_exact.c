/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention by its definition, one query at a time (attention_exact.h).
 */
#include "tests/unit/device_math/attention_exact.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

uint64_t attention_exact_rows(const struct attention_shape *s)
{
    return (uint64_t)s->batch * s->seq;
}

static uint64_t first_key(const struct attention_data *d, uint64_t batch, uint64_t query)
{
    uint64_t first = d->shape.window && query >= d->shape.window ? query - d->shape.window + 1 : 0;
    if (d->docs && d->docs[batch * d->shape.seq + query] > first)
        first = d->docs[batch * d->shape.seq + query];
    return first;
}

static const double *row(const double *matrix, const struct attention_shape *s, uint32_t heads,
                         uint64_t token, uint64_t head)
{
    return matrix + (token * heads + head) * s->head_dim;
}

static double dot(const double *a, const double *b, uint64_t n)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Returns the score of a query with a key; `ret_slope` is its derivative by q.k. */
static double score_of(const struct attention_data *d, const double *q, const double *k, double *ret_slope)
{
    const double scale = (double)d->scale, cap = (double)d->shape.cap;
    const double score = scale * dot(q, k, d->shape.head_dim), t = cap > 0 ? tanh(score / cap) : 0;
    *ret_slope = scale * (1 - t * t);
    return cap > 0 ? cap * t : score;
}

/* Writes the weights of a query to `p`, which has room for the sequence; returns lse. */
static double weigh(const struct attention_data *d, uint64_t batch, uint64_t head, uint64_t query, double *p)
{
    const struct attention_shape *s = &d->shape;
    const uint64_t kv = head / (s->heads / s->kv_heads), begin = batch * s->seq;
    const double *q = row(d->q, s, s->heads, begin + query, head);
    double most = -INFINITY, sum = 0, slope;
    for (uint64_t key = first_key(d, batch, query); key <= query; key++) {
        p[key] = score_of(d, q, row(d->k, s, s->kv_heads, begin + key, kv), &slope);
        most = p[key] > most ? p[key] : most;
    }
    for (uint64_t key = first_key(d, batch, query); key <= query; key++)
        sum += exp(p[key] - most);
    for (uint64_t key = first_key(d, batch, query); key <= query; key++)
        p[key] = exp(p[key] - most) / sum;
    return most + log(sum);
}

static void forward_of(const struct attention_data *d, uint64_t batch, uint64_t head, uint64_t query,
                       double *p, double *ret_out, double *ret_lse)
{
    const struct attention_shape *s = &d->shape;
    const uint64_t kv = head / (s->heads / s->kv_heads), begin = batch * s->seq;
    *ret_lse = weigh(d, batch, head, query, p);
    memset(ret_out, 0, sizeof(double) * s->head_dim);
    for (uint64_t key = first_key(d, batch, query); key <= query; key++)
        for (uint64_t i = 0; i < s->head_dim; i++)
            ret_out[i] += p[key] * row(d->v, s, s->kv_heads, begin + key, kv)[i];
}

static void backward_of(const struct attention_data *d, uint64_t batch, uint64_t head, uint64_t query,
                        const double *p)
{
    const struct attention_shape *s = &d->shape;
    const uint64_t kv = head / (s->heads / s->kv_heads), begin = batch * s->seq;
    const uint64_t at = ((begin + query) * s->heads + head) * s->head_dim;
    const double delta = dot(d->dout + at, d->out + at, s->head_dim);
    for (uint64_t key = first_key(d, batch, query); key <= query; key++) {
        const uint64_t kv_at = ((begin + key) * s->kv_heads + kv) * s->head_dim;
        double slope;
        (void)score_of(d, d->q + at, d->k + kv_at, &slope);
        slope *= p[key] * (dot(d->dout + at, d->v + kv_at, s->head_dim) - delta);
        for (uint64_t i = 0; i < s->head_dim; i++) {
            d->dv[kv_at + i] += p[key] * d->dout[at + i];
            d->dk[kv_at + i] += slope * d->q[at + i];
            d->dq[at + i] += slope * d->k[kv_at + i];
        }
    }
}

void attention_exact_solve(struct attention_data *d)
{
    const struct attention_shape *s = &d->shape;
    double *p = malloc(sizeof(double) * s->seq);
    for (uint64_t batch = 0; batch < s->batch; batch++)
        for (uint64_t head = 0; head < s->heads; head++)
            for (uint64_t query = 0; query < s->seq; query++) {
                const uint64_t at = ((batch * s->seq + query) * s->heads + head) * s->head_dim;
                forward_of(d, batch, head, query, p, d->out + at,
                           d->lse + (batch * s->heads + head) * s->seq + query);
                backward_of(d, batch, head, query, p);
            }
    free(p);
}

double attention_exact_loss(const struct attention_data *d)
{
    const struct attention_shape *s = &d->shape;
    double *p = malloc(sizeof(double) * s->seq), *out = malloc(sizeof(double) * s->head_dim);
    double loss = 0, lse;
    for (uint64_t batch = 0; batch < s->batch; batch++)
        for (uint64_t head = 0; head < s->heads; head++)
            for (uint64_t query = 0; query < s->seq; query++) {
                forward_of(d, batch, head, query, p, out, &lse);
                loss += dot(out, row(d->dout, s, s->heads, batch * s->seq + query, head), s->head_dim);
            }
    free(p);
    free(out);
    return loss;
}
