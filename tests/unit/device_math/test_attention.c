/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention against straight loops in double: many shapes, both types, every level of this processor, any number of
 * threads. Operands lie in one arena full of NaN, so what is read beyond an operand shows, and so does what is written.
 */
#include "runtime/device/math/math.h"

#include "base/bf16.h"
#include "base/pool.h"
#include "runtime/device/math/workspace.h"
#include "tests/support/check.h"
#include "tests/unit/device_math/attention_exact.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, ARGS = AH_OP_ARGS, GAP = 24 };

struct fixture {
    uint64_t random;
    struct ah_pool *pools[THREADS];
    enum ah_tile_level top;
};

static int setup(void **state)
{
    struct ah_error err = {0};
    struct fixture *f = calloc(1, sizeof *f);
    f->random = check_seed(4);
    f->top = ah_tile_detect();
    for (unsigned i = 0; i < THREADS; i++)
        CHECK_OK(ah_pool_new(&f->pools[i], &(struct ah_pool_options){.threads = i + 1}, &err), err);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    for (unsigned i = 0; i < THREADS; i++)
        ah_pool_free(f->pools[i]);
    free(f);
    return 0;
}

/* ---- data ---- */

static double rounded(enum ah_dtype dtype, double value)
{
    return dtype == AH_BF16 ? (double)ah_bf16_to_fp32(ah_bf16_from_fp32((float)value)) : (double)(float)value;
}

static double *random_values(struct fixture *f, uint64_t n, enum ah_dtype dtype, double size)
{
    double *values = malloc(sizeof(double) * n);
    for (uint64_t i = 0; i < n; i++)
        values[i] = rounded(dtype, size * (2 * check_uniform(&f->random) - 1));
    return values;
}

static uint32_t *random_docs(struct fixture *f, const struct attention_shape *s)
{
    uint32_t *docs = malloc(sizeof(uint32_t) * attention_exact_rows(s));
    for (uint32_t batch = 0; batch < s->batch; batch++)
        for (uint32_t i = 0, start = 0; i < s->seq; i++) {
            start = check_random(&f->random) % 23 == 0 ? i : start;
            docs[batch * s->seq + i] = s->docs == DOCS_OWN     ? i
                                       : s->docs == DOCS_TILES ? i / 64 * 64
                                       : s->docs == DOCS_ANY ? (uint32_t)(check_random(&f->random) % (i + 1))
                                                             : start;
        }
    return docs;
}

static void data_init(struct fixture *f, struct attention_data *d, const struct attention_shape *shape,
                      enum ah_dtype dtype)
{
    const uint64_t queries = attention_exact_rows(shape) * shape->heads,
                   keys = attention_exact_rows(shape) * shape->kv_heads;
    const double size = shape->size != 0 ? (double)shape->size : 1;
    *d = (struct attention_data){.shape = *shape, .scale = (float)(2.0 / sqrt((double)shape->head_dim))};
    d->q = random_values(f, queries * shape->head_dim, dtype, size);
    d->k = random_values(f, keys * shape->head_dim, dtype, size);
    d->v = random_values(f, keys * shape->head_dim, dtype, 1);
    d->dout = random_values(f, queries * shape->head_dim, dtype, 1);
    d->out = calloc(queries * shape->head_dim, sizeof(double));
    d->dq = calloc(queries * shape->head_dim, sizeof(double));
    d->dk = calloc(keys * shape->head_dim, sizeof(double));
    d->dv = calloc(keys * shape->head_dim, sizeof(double));
    d->lse = calloc(queries, sizeof(double));
    d->docs = shape->docs ? random_docs(f, shape) : NULL;
    attention_exact_solve(d);
}

static void data_release(struct attention_data *d)
{
    double *const all[] = {d->q, d->k, d->v, d->dout, d->out, d->lse, d->dq, d->dk, d->dv};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(d->docs);
}

/* ---- a run: both ops in an arena ---- */

enum place { OUT, LSE, Q, K, V, DOCS, DQ, DK, DV, DOUT, DELTA, PLACES };

struct run {
    const struct attention_data *data;
    enum ah_dtype dtype;  /* of q, k and v */
    enum ah_dtype others; /* of out, dout, dq, dk and dv */
    struct ah_ref refs[PLACES];
    uint64_t bytes;
    unsigned char *arena; /* owned */
    struct ah_op forward, backward;
};

static uint64_t width_of(const struct attention_shape *s, enum place place)
{
    const bool keys = place == K || place == V || place == DK || place == DV;
    return (uint64_t)(keys ? s->kv_heads : s->heads) * s->head_dim;
}

/* Places that follow each other in the rows of one matrix, `n` of them. */
static void put_matrix(struct run *run, const enum place *places, uint64_t n)
{
    const struct attention_shape *s = &run->data->shape;
    const bool is_input = places[0] == Q || places[0] == K || places[0] == V;
    const enum ah_dtype dtype = is_input ? run->dtype : run->others;
    uint64_t width = GAP, column = 0;
    for (uint64_t i = 0; i < n; i++)
        width += width_of(s, places[i]);
    for (uint64_t i = 0; i < n; column += width_of(s, places[i++]))
        run->refs[places[i]] =
            (struct ah_ref){AH_ARENA_DEVICE, dtype, run->bytes + column * ah_dtype_bytes(dtype), width};
    run->bytes += (attention_exact_rows(s) * width * ah_dtype_bytes(dtype) + 63) / 64 * 64;
}

static void put_vector(struct run *run, enum place place, uint64_t words)
{
    run->refs[place] = (struct ah_ref){AH_ARENA_DEVICE, AH_FP32, run->bytes, 0};
    run->bytes += words * 4 + 64;
}

static void lay_out(struct run *run)
{
    static const enum place all[] = {Q, K, V, DQ, DK, DV, OUT, DOUT};
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
}

static unsigned char *element(const struct run *run, enum place place, uint64_t i)
{
    const struct ah_ref *ref = &run->refs[place];
    const uint64_t width = width_of(&run->data->shape, place);
    const uint64_t index = ref->row_stride ? i / width * ref->row_stride + i % width : i;
    return run->arena + ref->offset_bytes + index * ah_dtype_bytes((enum ah_dtype)ref->dtype);
}

static double get(const struct run *run, enum place place, uint64_t i)
{
    float value;
    uint16_t half;
    memcpy(&value, element(run, place, i), run->refs[place].dtype == AH_BF16 ? 2 : 4);
    memcpy(&half, &value, 2);
    return run->refs[place].dtype == AH_BF16 ? (double)ah_bf16_to_fp32(half) : (double)value;
}

static void put(const struct run *run, enum place place, uint64_t i, double value)
{
    const float single = (float)value;
    const uint16_t half = ah_bf16_from_fp32(single);
    if (run->refs[place].dtype == AH_BF16)
        memcpy(element(run, place, i), &half, 2);
    else
        memcpy(element(run, place, i), &single, 4);
}

static void put_all(const struct run *run, enum place place, const double *values)
{
    for (uint64_t i = 0; i < attention_exact_rows(&run->data->shape) * width_of(&run->data->shape, place);
         i++)
        put(run, place, i, values[i]);
}

static void run_init_of(struct run *run, const struct attention_data *d, enum ah_dtype dtype,
                        enum ah_dtype others)
{
    *run = (struct run){.data = d, .dtype = dtype, .others = others};
    lay_out(run);
    run->arena = malloc(run->bytes);
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
    run->forward.u.attention =
        (struct ah_op_attention){s->batch, s->seq, s->heads, s->kv_heads, s->head_dim, s->window, d->scale};
    run->backward.u.attention = run->forward.u.attention;
}

static void run_init(struct run *run, const struct attention_data *d, enum ah_dtype dtype)
{
    run_init_of(run, d, dtype, dtype);
}

/* Runs the op and checks that nothing but its outputs changed. */
static void do_op(struct run *run, const struct ah_op *op, enum ah_tile_level level, struct ah_pool *pool)
{
    struct ah_error err = {0};
    struct ah_operand operands[ARGS];
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {[AH_ARENA_DEVICE] = run->bytes};
    struct ah_workspace workspace = {.level = level, .threads = ah_pool_threads(pool)};
    struct ah_host host = {.isa = ah_isa_detect(), .pool = pool, .workspace = &workspace};
    unsigned char *before = malloc(run->bytes);
    CHECK_OK(ah_op_check(op, arena_bytes, &err), err);
    CHECK_OK(ah_op_operands(op, operands, &err), err);
    CHECK_OK(ah_workspace_prepare(&workspace, op, &err), err);
    assert_true(ah_workspace_holds(&workspace, op));
    memset(workspace.region.data, 0xff, workspace.region.bytes);
    memcpy(before, run->arena, run->bytes);
    host.arenas[AH_ARENA_DEVICE] = run->arena;
    ah_math_run(&host, op);
    for (size_t i = 0; i < ARGS; i++)
        for (uint64_t r = 0; operands[i].role >= AH_ROLE_OUT && r < operands[i].rows; r++) {
            const uint64_t at = op->arg[i].offset_bytes + r * operands[i].stride_bytes;
            memcpy(before + at, run->arena + at, operands[i].row_bytes);
        }
    if (memcmp(before, run->arena, run->bytes) != 0)
        fail_msg("op '%s' wrote outside its outputs", ah_op_name(op->kind));
    free(before);
    ah_workspace_release(&workspace);
}

static void do_both(struct run *run, enum ah_tile_level level, struct ah_pool *pool)
{
    do_op(run, &run->forward, level, pool);
    do_op(run, &run->backward, level, pool);
}

/* The difference as a whole, relative to the exact values as a whole, and the largest one relative to the largest. */
static void check_close(const struct run *run, enum place place, const double *exact, double of_norm,
                        double of_most)
{
    static const char *const names[PLACES] = {"out", "lse", "q", "k", "v", "docs", "dq", "dk", "dv"};
    const struct attention_shape *s = &run->data->shape;
    const uint64_t n = attention_exact_rows(s) * (place == LSE ? s->heads : width_of(s, place));
    double errors = 0, squares = 0, worst = 0, most = 0;
    for (uint64_t i = 0; i < n; i++) {
        const double error = fabs(get(run, place, i) - exact[i]);
        errors += error * error;
        squares += exact[i] * exact[i];
        worst = error <= worst ? worst : error;
        most = fabs(exact[i]) > most ? fabs(exact[i]) : most;
    }
    /* Gradients that are 0 in exact arithmetic are as small as rounding. */
    const double least = 0.1;
    if (!(sqrt(errors) <= of_norm * (sqrt(squares) + least * sqrt((double)n))) ||
        !(worst <= of_most * (most + least)))
        fail_msg("%s: norm of the error %g of %g, largest %g of %g (batch %u seq %u heads %u/%u dim %u "
                 "window %u docs %d"
                 " packed %d %s)",
                 names[place], sqrt(errors), sqrt(squares), worst, most, s->batch, s->seq, s->heads,
                 s->kv_heads, s->head_dim, s->window, (int)s->docs, (int)s->packed,
                 ah_words_dtype[run->dtype]);
}

static void check_run(const struct run *run, double of_norm, double of_most)
{
    const struct attention_data *d = run->data;
    check_close(run, OUT, d->out, of_norm, of_most);
    check_close(run, LSE, d->lse, of_norm, of_most);
    check_close(run, DQ, d->dq, of_norm, of_most);
    check_close(run, DK, d->dk, of_norm, of_most);
    check_close(run, DV, d->dv, of_norm, of_most);
}

static void check_shape(struct fixture *f, const struct attention_shape *shape)
{
    for (enum ah_dtype dtype = AH_FP32; dtype <= AH_BF16; dtype++) {
        struct attention_data d;
        data_init(f, &d, shape, dtype);
        for (enum ah_tile_level level = AH_TILE_PORTABLE; level <= f->top; level++) {
            struct run run;
            run_init(&run, &d, dtype);
            do_both(&run, level, f->pools[check_random(&f->random) % THREADS]);
            check_run(&run, dtype == AH_FP32 ? 2e-6 : 1e-2, dtype == AH_FP32 ? 1e-5 : 2e-2);
            free(run.arena);
        }
        data_release(&d);
    }
}

static void test_attention__equals_straight_loops(void **state)
{
    static const struct attention_shape shapes[] = {
        {1, 1, 1, 1, 8, 0, DOCS_NONE, false, 0},        {2, 7, 4, 4, 8, 0, DOCS_NONE, true, 0},
        {1, 64, 4, 2, 32, 0, DOCS_NONE, true, 0},       {1, 100, 8, 1, 64, 0, DOCS_NONE, true, 0},
        {1, 257, 1, 1, 80, 0, DOCS_NONE, false, 0},     {2, 100, 4, 2, 96, 0, DOCS_ASCENDING, true, 0},
        {1, 257, 4, 2, 64, 64, DOCS_NONE, true, 0},     {1, 100, 1, 1, 128, 5, DOCS_NONE, false, 0},
        {1, 257, 2, 1, 32, 0, DOCS_ASCENDING, true, 0}, {2, 64, 4, 4, 64, 1, DOCS_NONE, true, 0},
        {1, 257, 2, 2, 8, 64, DOCS_ANY, false, 0},      {2, 129, 2, 1, 16, 0, DOCS_ANY, true, 0},
        {1, 300, 1, 1, 8, 5, DOCS_ASCENDING, true, 0},  {1, 33, 34, 2, 8, 0, DOCS_NONE, true, 0},
        {1, 40, 2, 1, 160, 0, DOCS_NONE, true, 0},      {1, 65, 1, 1, 1, 0, DOCS_NONE, false, 0},
        {1, 600, 1, 1, 8, 0, DOCS_NONE, false, 0},      {1, 545, 1, 1, 24, 130, DOCS_ASCENDING, true, 0},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_shape(*state, &shapes[i]);
}

static void test_attention__equals_straight_loops_at_random(void **state)
{
    static const uint32_t heads[][2] = {{1, 1}, {4, 4}, {4, 2}, {8, 1}, {3, 1}};
    struct fixture *f = *state;
    for (int i = 0; i < 12; i++) {
        const uint32_t *pair = heads[check_random(&f->random) % 5];
        const uint32_t windows[] = {0, 0, 1, 5, 64, 1 + (uint32_t)(check_random(&f->random) % 100)};
        const struct attention_shape shape = {
            .batch = 1 + (uint32_t)(check_random(&f->random) % 2),
            .seq = 1 + (uint32_t)(check_random(&f->random) % 180),
            .heads = pair[0],
            .kv_heads = pair[1],
            .head_dim = 1 + (uint32_t)(check_random(&f->random) % 70),
            .window = windows[check_random(&f->random) % 6],
            .docs = (enum attention_docs)(check_random(&f->random) % 3),
            .packed = check_random(&f->random) % 2,
        };
        check_shape(f, &shape);
    }
}

static void check_slopes(const struct run *run, enum place place, double *values)
{
    const struct attention_data *d = run->data;
    for (uint64_t i = 0; i < attention_exact_rows(&d->shape) * width_of(&d->shape, place); i++) {
        const double value = values[i], step = 1e-4;
        values[i] = value + step;
        const double above = attention_exact_loss(d);
        values[i] = value - step;
        const double below = attention_exact_loss(d);
        values[i] = value;
        check_near(get(run, place, i), (above - below) / (2 * step), 2e-6);
    }
}

static void test_attention__gradients_are_finite_differences(void **state)
{
    static const struct attention_shape shapes[] = {{1, 9, 2, 1, 4, 0, DOCS_NONE, true, 0},
                                                    {1, 37, 2, 2, 3, 6, DOCS_NONE, false, 0},
                                                    {2, 11, 3, 1, 2, 0, DOCS_ASCENDING, true, 0}};
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct attention_data d;
        struct run run;
        data_init(f, &d, &shapes[i], AH_FP32);
        run_init(&run, &d, AH_FP32);
        do_both(&run, f->top, f->pools[1]);
        check_slopes(&run, DQ, d.q);
        check_slopes(&run, DK, d.k);
        check_slopes(&run, DV, d.v);
        free(run.arena);
        data_release(&d);
    }
}

/* q, k and v of one type, all else of the other. */
static void test_attention__takes_both_types_at_once(void **state)
{
    static const struct attention_shape shape = {1, 70, 4, 2, 40, 0, DOCS_NONE, true, 0};
    struct fixture *f = *state;
    for (enum ah_tile_level level = AH_TILE_PORTABLE; level <= f->top; level++)
        for (enum ah_dtype dtype = AH_FP32; dtype <= AH_BF16; dtype++) {
            struct attention_data d;
            struct run run;
            data_init(f, &d, &shape, AH_BF16);
            run_init_of(&run, &d, dtype, dtype == AH_FP32 ? AH_BF16 : AH_FP32);
            do_both(&run, level, f->pools[1]);
            check_run(&run, 1e-2, 2e-2);
            free(run.arena);
            data_release(&d);
        }
}

/* Scores far apart: weights are 0 or 1, and nothing overflows. */
static void test_attention__bears_large_scores(void **state)
{
    struct fixture *f = *state;
    for (enum ah_dtype dtype = AH_FP32; dtype <= AH_BF16; dtype++)
        for (float size = 8; size < 300; size *= 6) {
            const struct attention_shape shape = {1, 100, 2, 1, 64, 0, DOCS_NONE, true, size};
            struct attention_data d;
            struct run run;
            data_init(f, &d, &shape, dtype);
            run_init(&run, &d, dtype);
            do_both(&run, f->top, f->pools[1]);
            const double loose = (double)size * (double)size;
            check_close(&run, LSE, d.lse, 1e-6, 1e-6);
            check_close(&run, OUT, d.out, dtype == AH_FP32 ? 1e-6 * loose : 1e-2, 1e-1);
            check_close(&run, DV, d.dv, dtype == AH_FP32 ? 1e-6 * loose : 1e-2, 1e-1);
            for (uint64_t i = 0; i < attention_exact_rows(&shape) * width_of(&shape, DQ); i++)
                assert_true(isfinite(get(&run, DQ, i)));
            for (uint64_t i = 0; i < attention_exact_rows(&shape) * width_of(&shape, DK); i++)
                assert_true(isfinite(get(&run, DK, i)));
            free(run.arena);
            data_release(&d);
        }
}

/* Who sees one key only gets its v, and its score has no gradient. */
static void test_attention__of_one_key_is_its_value(void **state)
{
    static const struct attention_shape shapes[] = {{2, 70, 2, 2, 24, 1, DOCS_NONE, true, 0},
                                                    {2, 70, 2, 2, 24, 0, DOCS_OWN, true, 0}};
    struct fixture *f = *state;
    for (enum ah_dtype dtype = AH_FP32; dtype <= AH_BF16; dtype++)
        for (size_t i = 0; i < 2; i++) {
            struct attention_data d;
            struct run run;
            data_init(f, &d, &shapes[i], dtype);
            run_init(&run, &d, dtype);
            do_both(&run, f->top, f->pools[2]);
            for (uint64_t j = 0; j < attention_exact_rows(&shapes[i]) * width_of(&shapes[i], V); j++) {
                assert_true(get(&run, OUT, j) == d.v[j]);
                check_near(get(&run, DV, j), d.dout[j], dtype == AH_FP32 ? 1e-6 : 1e-2);
                assert_true(fabs(get(&run, DQ, j)) < (dtype == AH_FP32 ? 1e-6 : 1e-1));
            }
            free(run.arena);
            data_release(&d);
        }
}

/* A tile that nobody of a strip sees is not multiplied: NaN in k and v of what only others see, and in dout of those, reaches
 * nobody. Documents of 64 tokens begin with tiles; later documents are NaN, then earlier ones. */
static void test_attention__skips_what_is_not_seen(void **state)
{
    const struct attention_shape shape = {1, 256, 2, 1, 32, 0, DOCS_TILES, true, 0};
    struct fixture *f = *state;
    for (enum ah_dtype dtype = AH_FP32; dtype <= AH_BF16; dtype++)
        for (uint64_t poisoned = 0; poisoned < 4; poisoned++) {
            struct attention_data d;
            struct run run;
            data_init(f, &d, &shape, dtype);
            run_init(&run, &d, dtype);
            for (uint64_t i = poisoned * 64; i < poisoned * 64 + 64; i++) {
                for (uint64_t j = 0; j < width_of(&shape, Q); j++)
                    put(&run, DOUT, i * width_of(&shape, Q) + j, NAN);
                for (uint64_t j = 0; j < width_of(&shape, V); j++) {
                    put(&run, K, i * width_of(&shape, K) + j, NAN);
                    put(&run, V, i * width_of(&shape, V) + j, NAN);
                }
            }
            do_both(&run, f->top, f->pools[1]);
            for (enum place place = OUT; place <= DV; place++)
                for (uint64_t i = 0; place != LSE && place != DOCS && i < 256 * width_of(&shape, place); i++)
                    assert_true(isnan(get(&run, place, i)) ==
                                (place != Q && i / width_of(&shape, place) / 64 == poisoned));
            free(run.arena);
            data_release(&d);
        }
}

/* What is before a window of whole tiles is not multiplied either. */
static void test_attention__skips_what_is_before_the_window(void **state)
{
    const struct attention_shape shape = {1, 320, 1, 1, 16, 33, DOCS_NONE, true, 0};
    struct fixture *f = *state;
    struct attention_data d;
    struct run run;
    data_init(f, &d, &shape, AH_FP32);
    run_init(&run, &d, AH_FP32);
    for (uint64_t i = 0; i < 128 * 16; i++)
        put(&run, V, i, NAN);
    do_op(&run, &run.forward, f->top, f->pools[1]);
    /* The window of query 160 begins with tile 4. */
    for (uint64_t i = 160 * 16; i < 320 * 16; i++)
        assert_true(isfinite(get(&run, OUT, i)));
    free(run.arena);
    data_release(&d);
}

/* Equal bits of all levels whose words are single, and of all threads at each level. */
static void check_bits(struct fixture *f, const struct attention_data *d, enum ah_dtype dtype)
{
    struct run reference = {0}, run;
    for (enum ah_tile_level level = AH_TILE_PORTABLE; level <= f->top; level++)
        for (unsigned threads = 0; threads < THREADS; threads++) {
            const bool has_pairs = ah_tile_kernel(level, dtype)->words == AH_BF16;
            run_init(&run, d, dtype);
            do_both(&run, level, f->pools[threads]);
            if (threads == 0 && (level == AH_TILE_PORTABLE || has_pairs)) {
                free(reference.arena);
                reference = run;
            } else {
                assert_memory_equal(reference.arena, run.arena, run.bytes);
                free(run.arena);
            }
        }
    free(reference.arena);
}

static void test_attention__has_the_same_bits_for_any_threads_and_level(void **state)
{
    static const struct attention_shape shapes[] = {{2, 257, 4, 2, 40, 0, DOCS_NONE, true, 0},
                                                    {1, 600, 2, 1, 16, 100, DOCS_ASCENDING, true, 0}};
    struct fixture *f = *state;
    for (size_t i = 0; i < 2; i++)
        for (enum ah_dtype dtype = AH_FP32; dtype <= AH_BF16; dtype++) {
            struct attention_data d;
            data_init(f, &d, &shapes[i], dtype);
            check_bits(f, &d, dtype);
            data_release(&d);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention__equals_straight_loops),
        cmocka_unit_test(test_attention__equals_straight_loops_at_random),
        cmocka_unit_test(test_attention__gradients_are_finite_differences),
        cmocka_unit_test(test_attention__takes_both_types_at_once),
        cmocka_unit_test(test_attention__bears_large_scores),
        cmocka_unit_test(test_attention__of_one_key_is_its_value),
        cmocka_unit_test(test_attention__skips_what_is_not_seen),
        cmocka_unit_test(test_attention__skips_what_is_before_the_window),
        cmocka_unit_test(test_attention__has_the_same_bits_for_any_threads_and_level),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
