/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests attention against simple loops in double: many shapes, both types, every level of this processor, any number of
 * threads. Operands are in an arena filled with NaN, so the test notices reads and writes outside them.
 */
#include "runtime/device/math/math.h"

#include "base/pool.h"
#include "runtime/device/math/workspace.h"
#include "tests/support/check.h"
#include "tests/unit/device_math/attention_checks.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4 };

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

static void run_init(struct attention_run *run, const struct attention_data *d, enum ah_dtype dtype)
{
    attention_case_init(run, d, dtype, dtype);
}

/* Runs the op and checks that only its outputs changed. */
static void do_op(struct attention_run *run, const struct ah_op *op, enum ah_tile_level level,
                  struct ah_pool *pool)
{
    struct ah_error err = {0};
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {[AH_ARENA_DEVICE] = run->bytes};
    struct ah_workspace workspace = {.level = level, .threads = ah_pool_threads(pool)};
    struct ah_host host = {.isa = ah_isa_detect(), .pool = pool, .workspace = &workspace};
    unsigned char *before = malloc(run->bytes);
    CHECK_OK(ah_op_check(op, arena_bytes, &err), err);
    CHECK_OK(ah_workspace_prepare(&workspace, op, &err), err);
    assert_true(ah_workspace_holds(&workspace, op));
    memset(workspace.region.data, 0xff, workspace.region.bytes);
    memcpy(before, run->arena, run->bytes);
    host.arenas[AH_ARENA_DEVICE] = run->arena;
    ah_math_run(&host, op);
    attention_case_check_outside(run, op, before);
    free(before);
    ah_workspace_release(&workspace);
}

static void do_both(struct attention_run *run, enum ah_tile_level level, struct ah_pool *pool)
{
    do_op(run, &run->forward, level, pool);
    do_op(run, &run->backward, level, pool);
}

static void check_shape(struct fixture *f, const struct attention_shape *shape)
{
    for (enum ah_dtype dtype = AH_FP32; dtype <= AH_BF16; dtype++) {
        struct attention_data d;
        attention_case_data(&f->random, &d, shape, dtype);
        for (enum ah_tile_level level = AH_TILE_PORTABLE; level <= f->top; level++) {
            struct attention_run run;
            run_init(&run, &d, dtype);
            do_both(&run, level, f->pools[check_random(&f->random) % THREADS]);
            attention_case_check_all(&run, dtype == AH_FP32 ? 2e-6 : 1e-2, dtype == AH_FP32 ? 1e-5 : 2e-2);
            free(run.arena);
        }
        attention_case_release(&d);
    }
}

TEST_IN(attention, equals_straight_loops, setup, teardown)
{
    static const struct attention_shape shapes[] = {
        {1, 1, 1, 1, 8, 0, DOCS_NONE, false, 0, 0},
        {2, 7, 4, 4, 8, 0, DOCS_NONE, true, 0, 0},
        {1, 64, 4, 2, 32, 0, DOCS_NONE, true, 0, 0},
        {1, 100, 8, 1, 64, 0, DOCS_NONE, true, 0, 0},
        {1, 257, 1, 1, 80, 0, DOCS_NONE, false, 0, 0},
        {2, 100, 4, 2, 96, 0, DOCS_ASCENDING, true, 0, 0},
        {1, 257, 4, 2, 64, 64, DOCS_NONE, true, 0, 0},
        {1, 100, 1, 1, 128, 5, DOCS_NONE, false, 0, 0},
        {1, 257, 2, 1, 32, 0, DOCS_ASCENDING, true, 0, 0},
        {2, 64, 4, 4, 64, 1, DOCS_NONE, true, 0, 0},
        {1, 257, 2, 2, 8, 64, DOCS_ANY, false, 0, 0},
        {2, 129, 2, 1, 16, 0, DOCS_ANY, true, 0, 0},
        {1, 300, 1, 1, 8, 5, DOCS_ASCENDING, true, 0, 0},
        {1, 33, 34, 2, 8, 0, DOCS_NONE, true, 0, 0},
        {1, 40, 2, 1, 160, 0, DOCS_NONE, true, 0, 0},
        {1, 65, 1, 1, 1, 0, DOCS_NONE, false, 0, 0},
        {1, 600, 1, 1, 8, 0, DOCS_NONE, false, 0, 0},
        {1, 545, 1, 1, 24, 130, DOCS_ASCENDING, true, 0, 0},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_shape(*state, &shapes[i]);
}

TEST_IN(attention, equals_straight_loops_at_random, setup, teardown)
{
    static const uint32_t heads[][2] = {{1, 1}, {4, 4}, {4, 2}, {8, 1}, {3, 1}};
    struct fixture *f = *state;
    for (int i = 0; i < 12; i++) {
        const uint32_t *pair = heads[check_random(&f->random) % 5];
        const uint32_t windows[] = {0, 0, 1, 5, 64, 1 + (uint32_t)(check_random(&f->random) % 100)};
        const float caps[] = {0, 0, 1, 30};
        const struct attention_shape shape = {
            .batch = 1 + (uint32_t)(check_random(&f->random) % 2),
            .seq = 1 + (uint32_t)(check_random(&f->random) % 180),
            .heads = pair[0],
            .kv_heads = pair[1],
            .head_dim = 1 + (uint32_t)(check_random(&f->random) % 70),
            .window = windows[check_random(&f->random) % 6],
            .docs = (enum attention_docs)(check_random(&f->random) % 3),
            .packed = check_random(&f->random) % 2,
            .cap = caps[check_random(&f->random) % 4],
        };
        check_shape(f, &shape);
    }
}

static void check_slopes(const struct attention_run *run, enum attention_place place, double *values)
{
    const struct attention_data *d = run->data;
    for (uint64_t i = 0; i < attention_exact_rows(&d->shape) * attention_case_width(&d->shape, place); i++) {
        const double value = values[i], step = 1e-4;
        values[i] = value + step;
        const double above = attention_exact_loss(d);
        values[i] = value - step;
        const double below = attention_exact_loss(d);
        values[i] = value;
        check_near(attention_case_get(run, place, i), (above - below) / (2 * step), 2e-6);
    }
}

TEST_IN(attention, gradients_are_finite_differences, setup, teardown)
{
    static const struct attention_shape shapes[] = {{1, 9, 2, 1, 4, 0, DOCS_NONE, true, 0, 0},
                                                    {1, 37, 2, 2, 3, 6, DOCS_NONE, false, 0, 0},
                                                    {2, 11, 3, 1, 2, 0, DOCS_ASCENDING, true, 0, 0},
                                                    {2, 9, 2, 1, 4, 5, DOCS_ASCENDING, true, 0, 0.7f}};
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct attention_data d;
        struct attention_run run;
        attention_case_data(&f->random, &d, &shapes[i], AH_FP32);
        run_init(&run, &d, AH_FP32);
        do_both(&run, f->top, f->pools[1]);
        check_slopes(&run, DQ, d.q);
        check_slopes(&run, DK, d.k);
        check_slopes(&run, DV, d.v);
        free(run.arena);
        attention_case_release(&d);
    }
}

struct way {
    enum ah_tile_level level;
    struct ah_pool *pool;
};

static void run_both(void *context, struct attention_run *run)
{
    const struct way *way = context;
    do_both(run, way->level, way->pool);
}

static void run_forward(void *context, struct attention_run *run)
{
    const struct way *way = context;
    do_op(run, &run->forward, way->level, way->pool);
}

TEST_IN(attention, takes_both_types_at_once, setup, teardown)
{
    struct fixture *f = *state;
    for (enum ah_tile_level level = AH_TILE_PORTABLE; level <= f->top; level++)
        attention_check_both_types(
            &(struct attention_runner){run_both, run_forward, &(struct way){level, f->pools[1]}, &f->random});
}

TEST_IN(attention, with_a_soft_cap_equals_straight_loops, setup, teardown)
{
    struct fixture *f = *state;
    for (enum ah_tile_level level = AH_TILE_PORTABLE; level <= f->top; level++)
        attention_check_soft_caps(
            &(struct attention_runner){run_both, run_forward, &(struct way){level, f->pools[1]}, &f->random});
}

TEST_IN(attention, bears_large_scores, setup, teardown)
{
    struct fixture *f = *state;
    attention_check_large_scores(
        &(struct attention_runner){run_both, run_forward, &(struct way){f->top, f->pools[1]}, &f->random});
}

TEST_IN(attention, of_one_key_is_its_value, setup, teardown)
{
    struct fixture *f = *state;
    attention_check_one_key(
        &(struct attention_runner){run_both, run_forward, &(struct way){f->top, f->pools[2]}, &f->random});
}

TEST_IN(attention, of_last_queries_has_their_bits, setup, teardown)
{
    struct fixture *f = *state;
    for (enum ah_tile_level level = AH_TILE_PORTABLE; level <= f->top; level++)
        attention_check_past(
            &(struct attention_runner){run_both, run_forward, &(struct way){level, f->pools[2]}, &f->random});
}

/* If no query of a strip sees a tile, the tile is not multiplied. So NaN in one document's k, v and dout reaches no
 * other document. Documents have 64 tokens and begin where tiles begin. Each document in turn contains the NaN. */
TEST_IN(attention, skips_what_is_not_seen, setup, teardown)
{
    const struct attention_shape shape = {1, 256, 2, 1, 32, 0, DOCS_TILES, true, 0, 0};
    struct fixture *f = *state;
    for (enum ah_dtype dtype = AH_FP32; dtype <= AH_BF16; dtype++)
        for (uint64_t poisoned = 0; poisoned < 4; poisoned++) {
            struct attention_data d;
            struct attention_run run;
            attention_case_data(&f->random, &d, &shape, dtype);
            run_init(&run, &d, dtype);
            for (uint64_t i = poisoned * 64; i < poisoned * 64 + 64; i++) {
                for (uint64_t j = 0; j < attention_case_width(&shape, Q); j++)
                    attention_case_put(&run, DOUT, i * attention_case_width(&shape, Q) + j, NAN);
                for (uint64_t j = 0; j < attention_case_width(&shape, V); j++) {
                    attention_case_put(&run, K, i * attention_case_width(&shape, K) + j, NAN);
                    attention_case_put(&run, V, i * attention_case_width(&shape, V) + j, NAN);
                }
            }
            do_both(&run, f->top, f->pools[1]);
            for (enum attention_place place = OUT; place <= DV; place++)
                for (uint64_t i = 0;
                     place != LSE && place != DOCS && i < 256 * attention_case_width(&shape, place); i++)
                    assert_true(isnan(attention_case_get(&run, place, i)) ==
                                (place != Q && i / attention_case_width(&shape, place) / 64 == poisoned));
            free(run.arena);
            attention_case_release(&d);
        }
}

/* Whole tiles before the window are not multiplied. */
TEST_IN(attention, skips_what_is_before_the_window, setup, teardown)
{
    const struct attention_shape shape = {1, 320, 1, 1, 16, 33, DOCS_NONE, true, 0, 0};
    struct fixture *f = *state;
    struct attention_data d;
    struct attention_run run;
    attention_case_data(&f->random, &d, &shape, AH_FP32);
    run_init(&run, &d, AH_FP32);
    for (uint64_t i = 0; i < 128 * 16; i++)
        attention_case_put(&run, V, i, NAN);
    do_op(&run, &run.forward, f->top, f->pools[1]);
    /* The window of query 160 begins at the start of tile 4. */
    for (uint64_t i = 160 * 16; i < 320 * 16; i++)
        assert_true(isfinite(attention_case_get(&run, OUT, i)));
    free(run.arena);
    attention_case_release(&d);
}

/* Checks that all levels that do not multiply pairs give equal bits, and that the number of threads changes no bit. */
static void check_bits(struct fixture *f, const struct attention_data *d, enum ah_dtype dtype)
{
    struct attention_run reference = {0}, run;
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

TEST_IN(attention, has_the_same_bits_for_any_threads_and_level, setup, teardown)
{
    static const struct attention_shape shapes[] = {{2, 257, 4, 2, 40, 0, DOCS_NONE, true, 0, 0},
                                                    {1, 600, 2, 1, 16, 100, DOCS_ASCENDING, true, 0, 0},
                                                    {1, 257, 2, 1, 64, 40, DOCS_ASCENDING, true, 3, 5}};
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (enum ah_dtype dtype = AH_FP32; dtype <= AH_BF16; dtype++) {
            struct attention_data d;
            attention_case_data(&f->random, &d, &shapes[i], dtype);
            check_bits(f, &d, dtype);
            attention_case_release(&d);
        }
}
