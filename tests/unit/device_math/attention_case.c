/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of attention (attention_case.h).
 */
#include "tests/unit/device_math/attention_case.h"

#include "base/bf16.h"
#include "tests/support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GAP = 24 }; /* elements between rows */

static double rounded(enum ah_dtype dtype, double value)
{
    return dtype == AH_BF16 ? (double)ah_bf16_to_fp32(ah_bf16_from_fp32((float)value)) : (double)(float)value;
}

static double *random_values(uint64_t *random, uint64_t n, enum ah_dtype dtype, double size)
{
    double *values = malloc(sizeof(double) * n);
    for (uint64_t i = 0; i < n; i++)
        values[i] = rounded(dtype, size * (2 * check_uniform(random) - 1));
    return values;
}

static uint32_t *random_docs(uint64_t *random, const struct attention_shape *s)
{
    uint32_t *docs = malloc(sizeof(uint32_t) * attention_exact_rows(s));
    for (uint32_t batch = 0; batch < s->batch; batch++)
        for (uint32_t i = 0, start = 0; i < s->seq; i++) {
            start = check_random(random) % 23 == 0 ? i : start;
            docs[batch * s->seq + i] = s->docs == DOCS_OWN     ? i
                                       : s->docs == DOCS_TILES ? i / 64 * 64
                                       : s->docs == DOCS_ANY   ? (uint32_t)(check_random(random) % (i + 1))
                                                               : start;
        }
    return docs;
}

void attention_case_data(uint64_t *random, struct attention_data *d, const struct attention_shape *shape,
                         enum ah_dtype dtype)
{
    const uint64_t queries = attention_exact_rows(shape) * shape->heads,
                   keys = attention_exact_rows(shape) * shape->kv_heads;
    const double size = shape->size != 0 ? (double)shape->size : 1;
    *d = (struct attention_data){.shape = *shape, .scale = (float)(2.0 / sqrt((double)shape->head_dim))};
    d->q = random_values(random, queries * shape->head_dim, dtype, size);
    d->k = random_values(random, keys * shape->head_dim, dtype, size);
    d->v = random_values(random, keys * shape->head_dim, dtype, 1);
    d->dout = random_values(random, queries * shape->head_dim, dtype, 1);
    d->out = calloc(queries * shape->head_dim, sizeof(double));
    d->dq = calloc(queries * shape->head_dim, sizeof(double));
    d->dk = calloc(keys * shape->head_dim, sizeof(double));
    d->dv = calloc(keys * shape->head_dim, sizeof(double));
    d->lse = calloc(queries, sizeof(double));
    d->docs = shape->docs ? random_docs(random, shape) : NULL;
    attention_exact_solve(d);
}

void attention_case_release(struct attention_data *d)
{
    double *const all[] = {d->q, d->k, d->v, d->dout, d->out, d->lse, d->dq, d->dk, d->dv};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(d->docs);
}

uint64_t attention_case_width(const struct attention_shape *s, enum attention_place place)
{
    const bool keys = place == K || place == V || place == DK || place == DV;
    return (uint64_t)(keys ? s->kv_heads : s->heads) * s->head_dim;
}

/* Places `n` operands side by side in the rows of one matrix. */
static void put_matrix(struct attention_run *run, const enum attention_place *places, uint64_t n)
{
    const struct attention_shape *s = &run->data->shape;
    const bool is_input = places[0] == Q || places[0] == K || places[0] == V;
    const enum ah_dtype dtype = is_input ? run->dtype : run->others;
    uint64_t width = GAP, column = 0;
    for (uint64_t i = 0; i < n; i++)
        width += attention_case_width(s, places[i]);
    for (uint64_t i = 0; i < n; column += attention_case_width(s, places[i++]))
        run->refs[places[i]] =
            (struct ah_ref){AH_ARENA_DEVICE, dtype, run->bytes + column * ah_dtype_bytes(dtype), width};
    run->bytes += (attention_exact_rows(s) * width * ah_dtype_bytes(dtype) + 63) / 64 * 64;
}

static void put_vector(struct attention_run *run, enum attention_place place, uint64_t words)
{
    run->refs[place] = (struct ah_ref){AH_ARENA_DEVICE, AH_FP32, run->bytes, 0};
    run->bytes += words * 4 + 64;
}

static void lay_out(struct attention_run *run)
{
    static const enum attention_place all[] = {Q, K, V, DQ, DK, DV, OUT, DOUT};
    const struct attention_shape *s = &run->data->shape;
    if (s->packed) {
        put_matrix(run, all, 3);
        put_matrix(run, all + 3, 3);
    }
    for (uint64_t i = s->packed ? 6 : 0; i < 8; i++)
        put_matrix(run, all + i, 1);
    put_vector(run, LSE, attention_exact_rows(s) * s->heads);
    put_vector(run, DELTA, attention_exact_rows(s) * s->heads);
    put_vector(run, DOCS, attention_exact_rows(s));
    if (!run->data->docs)
        run->refs[DOCS] = (struct ah_ref){0};
    run->bytes = (run->bytes + 63) / 64 * 64;
}

static unsigned char *element(const struct attention_run *run, enum attention_place place, uint64_t i)
{
    const struct ah_ref *ref = &run->refs[place];
    const uint64_t width = attention_case_width(&run->data->shape, place);
    const uint64_t index = ref->row_stride ? i / width * ref->row_stride + i % width : i;
    return run->arena + ref->offset_bytes + index * ah_dtype_bytes((enum ah_dtype)ref->dtype);
}

double attention_case_get(const struct attention_run *run, enum attention_place place, uint64_t i)
{
    float value;
    uint16_t half;
    memcpy(&value, element(run, place, i), run->refs[place].dtype == AH_BF16 ? 2 : 4);
    memcpy(&half, &value, 2);
    return run->refs[place].dtype == AH_BF16 ? (double)ah_bf16_to_fp32(half) : (double)value;
}

void attention_case_put(const struct attention_run *run, enum attention_place place, uint64_t i, double value)
{
    const float single = (float)value;
    const uint16_t half = ah_bf16_from_fp32(single);
    if (run->refs[place].dtype == AH_BF16)
        memcpy(element(run, place, i), &half, 2);
    else
        memcpy(element(run, place, i), &single, 4);
}

static void put_all(const struct attention_run *run, enum attention_place place, const double *values)
{
    for (uint64_t i = 0;
         i < attention_exact_rows(&run->data->shape) * attention_case_width(&run->data->shape, place); i++)
        attention_case_put(run, place, i, values[i]);
}

void attention_case_init(struct attention_run *run, const struct attention_data *d, enum ah_dtype dtype,
                         enum ah_dtype others)
{
    *run = (struct attention_run){.data = d, .dtype = dtype, .others = others};
    lay_out(run);
    run->arena = aligned_alloc(64, run->bytes);
    memset(run->arena, 0xff, run->bytes);
    put_all(run, Q, d->q);
    put_all(run, K, d->k);
    put_all(run, V, d->v);
    put_all(run, DOUT, d->dout);
    if (d->docs)
        memcpy(element(run, DOCS, 0), d->docs, sizeof(uint32_t) * attention_exact_rows(&d->shape));
    const struct ah_ref *r = run->refs;
    const struct attention_shape *s = &d->shape;
    run->forward = (struct ah_op){AH_OP_ATTENTION, {r[OUT], r[LSE], r[Q], r[K], r[V], r[DOCS]}, {{0}}};
    run->backward =
        (struct ah_op){AH_OP_ATTENTION_BACKWARD,
                       {r[DQ], r[DK], r[DV], r[DOUT], r[Q], r[K], r[V], r[OUT], r[LSE], r[DOCS], r[DELTA]},
                       {{0}}};
    run->forward.u.attention = (struct ah_op_attention){
        s->batch, s->seq, s->heads, s->kv_heads, s->head_dim, s->window, d->scale, s->cap, 0};
    run->backward.u.attention = run->forward.u.attention;
}

void attention_case_check_outside(const struct attention_run *run, const struct ah_op *op,
                                  unsigned char *before)
{
    struct ah_error err = {0};
    struct ah_operand operands[AH_OP_ARGS];
    CHECK_OK(ah_op_operands(op, operands, &err), err);
    for (size_t i = 0; i < AH_OP_ARGS; i++)
        for (uint64_t r = 0; operands[i].role >= AH_ROLE_OUT && r < operands[i].rows; r++) {
            const uint64_t at = op->arg[i].offset_bytes + r * operands[i].stride_bytes;
            memcpy(before + at, run->arena + at, operands[i].row_bytes);
        }
    if (memcmp(before, run->arena, run->bytes) != 0)
        fail_msg("op '%s' wrote outside its outputs", ah_op_name(op->kind));
}

void attention_case_check(const struct attention_run *run, enum attention_place place, const double *exact,
                          double of_norm, double of_most)
{
    static const char *const names[PLACES] = {"out", "lse", "q", "k", "v", "docs", "dq", "dk", "dv"};
    const struct attention_shape *s = &run->data->shape;
    const uint64_t n = attention_exact_rows(s) * (place == LSE ? s->heads : attention_case_width(s, place));
    double errors = 0, squares = 0, worst = 0, most = 0;
    for (uint64_t i = 0; i < n; i++) {
        const double error = fabs(attention_case_get(run, place, i) - exact[i]);
        errors += error * error;
        squares += exact[i] * exact[i];
        worst = error <= worst ? worst : error;
        most = fabs(exact[i]) > most ? fabs(exact[i]) : most;
    }
    /* Where exact gradients are 0, computed gradients are as small as rounding errors. */
    const double least = 0.1;
    if (!(sqrt(errors) <= of_norm * (sqrt(squares) + least * sqrt((double)n))) ||
        !(worst <= of_most * (most + least)))
        fail_msg("%s: norm of the error %g of %g, largest %g of %g (batch %u seq %u heads %u/%u dim %u "
                 "window %u docs %d"
                 " packed %d cap %g %s)",
                 names[place], sqrt(errors), sqrt(squares), worst, most, s->batch, s->seq, s->heads,
                 s->kv_heads, s->head_dim, s->window, (int)s->docs, (int)s->packed, (double)s->cap,
                 ah_words_dtype[run->dtype]);
}

void attention_case_check_all(const struct attention_run *run, double of_norm, double of_most)
{
    const struct attention_data *d = run->data;
    attention_case_check(run, OUT, d->out, of_norm, of_most);
    attention_case_check(run, LSE, d->lse, of_norm, of_most);
    attention_case_check(run, DQ, d->dq, of_norm, of_most);
    attention_case_check(run, DK, d->dk, of_norm, of_most);
    attention_case_check(run, DV, d->dv, of_norm, of_most);
}
