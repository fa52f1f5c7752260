/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of attention for every device (attention_checks.h), against the exact results in double.
 */
#include "tests/unit/device_math/attention_checks.h"

#include "tests/support/check.h"

#include <math.h>
#include <stdlib.h>

void attention_check_both_types(const struct attention_runner *runner)
{
    static const struct attention_shape shape = {1, 70, 4, 2, 40, 0, DOCS_NONE, true, 0, 0};
    for (enum ah_dtype dtype = AH_FP32; dtype <= AH_BF16; dtype++) {
        struct attention_data d;
        struct attention_run run;
        attention_case_data(runner->random, &d, &shape, AH_BF16);
        attention_case_init(&run, &d, dtype, dtype == AH_FP32 ? AH_BF16 : AH_FP32);
        runner->both(runner->context, &run);
        attention_case_check_all(&run, 1e-2, 2e-2);
        free(run.arena);
        attention_case_release(&d);
    }
}

static void check_soft_cap(const struct attention_runner *runner, const struct attention_shape *shape,
                           enum ah_dtype dtype)
{
    struct attention_data d;
    struct attention_run run;
    attention_case_data(runner->random, &d, shape, dtype);
    attention_case_init(&run, &d, dtype, dtype);
    runner->both(runner->context, &run);
    attention_case_check(&run, LSE, d.lse, 1e-5, 1e-5);
    attention_case_check_all(&run, dtype == AH_FP32 ? 2e-6 : 1e-2, dtype == AH_FP32 ? 1e-5 : 2e-2);
    free(run.arena);
    attention_case_release(&d);
}

void attention_check_soft_caps(const struct attention_runner *runner)
{
    static const struct attention_shape shapes[] = {
        {1, 1, 1, 1, 8, 0, DOCS_NONE, false, 0, 1},
        {2, 70, 2, 1, 32, 5, DOCS_ASCENDING, true, 0, 0.2f},
        {1, 140, 4, 2, 64, 0, DOCS_NONE, true, 4, 8},
        {1, 130, 2, 2, 96, 0, DOCS_ASCENDING, true, 0, 1},
        {1, 137, 2, 1, 128, 60, DOCS_ANY, true, 3, 20},
        {1, 97, 2, 1, 256, 0, DOCS_NONE, true, 0, 1},
        {1, 65, 1, 1, 200, 20, DOCS_ANY, false, 2, 50},
        {1, 100, 3, 1, 33, 40, DOCS_NONE, false, 3, 50},
        {1, 40, 2, 1, 16, 0, DOCS_ASCENDING, true, 0, 1e-3f},
    };
    for (enum ah_dtype dtype = AH_FP32; dtype <= AH_BF16; dtype++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            check_soft_cap(runner, &shapes[i], dtype);
}

static void check_scores_of(const struct attention_runner *runner, enum ah_dtype dtype, float size)
{
    const struct attention_shape shape = {1, 100, 2, 1, 64, 0, DOCS_NONE, true, size, 0};
    struct attention_data d;
    struct attention_run run;
    attention_case_data(runner->random, &d, &shape, dtype);
    attention_case_init(&run, &d, dtype, dtype);
    runner->both(runner->context, &run);
    const double loose = (double)size * (double)size;
    attention_case_check(&run, LSE, d.lse, 1e-6, 1e-6);
    attention_case_check(&run, OUT, d.out, dtype == AH_FP32 ? 1e-6 * loose : 1e-2, 1e-1);
    attention_case_check(&run, DV, d.dv, dtype == AH_FP32 ? 1e-6 * loose : 1e-2, 1e-1);
    for (enum attention_place place = DQ; place <= DV; place++)
        for (uint64_t i = 0; i < attention_exact_rows(&shape) * attention_case_width(&shape, place); i++)
            assert_true(isfinite(attention_case_get(&run, place, i)));
    free(run.arena);
    attention_case_release(&d);
}

void attention_check_large_scores(const struct attention_runner *runner)
{
    for (enum ah_dtype dtype = AH_FP32; dtype <= AH_BF16; dtype++)
        for (float size = 8; size < 300; size *= 6)
            check_scores_of(runner, dtype, size);
}

static void check_one_key_of(const struct attention_runner *runner, enum ah_dtype dtype,
                             const struct attention_shape *shape)
{
    struct attention_data d;
    struct attention_run run;
    attention_case_data(runner->random, &d, shape, dtype);
    attention_case_init(&run, &d, dtype, dtype);
    runner->both(runner->context, &run);
    for (uint64_t i = 0; i < attention_exact_rows(shape) * attention_case_width(shape, V); i++) {
        assert_true(attention_case_get(&run, OUT, i) == d.v[i]);
        check_near(attention_case_get(&run, DV, i), d.dout[i], dtype == AH_FP32 ? 1e-6 : 1e-2);
        assert_true(fabs(attention_case_get(&run, DQ, i)) < (dtype == AH_FP32 ? 1e-6 : 1e-1));
    }
    free(run.arena);
    attention_case_release(&d);
}

void attention_check_one_key(const struct attention_runner *runner)
{
    static const struct attention_shape shapes[] = {{2, 140, 2, 2, 24, 1, DOCS_NONE, true, 0, 0},
                                                    {2, 140, 2, 2, 24, 0, DOCS_OWN, true, 0, 0}};
    for (enum ah_dtype dtype = AH_FP32; dtype <= AH_BF16; dtype++)
        for (size_t i = 0; i < 2; i++)
            check_one_key_of(runner, dtype, &shapes[i]);
}

/* Makes the run one of the last `queries` of each sequence. */
static void keep_last(struct attention_run *run, uint32_t queries)
{
    struct ah_op_attention *sizes = &run->forward.u.attention;
    const uint64_t width = attention_case_width(&run->data->shape, Q), seq = sizes->seq;
    for (uint64_t i = 0; i < sizes->batch * queries * width; i++) {
        const uint64_t sequence = i / width / queries,
                       row = sequence * seq + seq - queries + i / width % queries;
        attention_case_put(run, Q, i, run->data->q[row * width + i % width]);
    }
    sizes->past = (uint32_t)seq - queries;
    sizes->seq = queries;
}

static double *outputs_of(const struct attention_run *run, uint64_t *ret_n)
{
    const struct attention_shape *shape = &run->data->shape;
    const uint64_t rows = attention_exact_rows(shape), width = attention_case_width(shape, OUT);
    double *values = malloc(sizeof *values * rows * (width + shape->heads));
    for (uint64_t i = 0; i < rows * width; i++)
        values[i] = attention_case_get(run, OUT, i);
    for (uint64_t i = 0; i < rows * shape->heads; i++)
        values[rows * width + i] = attention_case_get(run, LSE, i);
    *ret_n = rows * width;
    return values;
}

static void check_last(const struct attention_runner *runner, const struct attention_data *d,
                       enum ah_dtype dtype, uint32_t queries)
{
    const struct attention_shape *shape = &d->shape;
    const uint64_t width = attention_case_width(shape, OUT), seq = shape->seq;
    struct attention_run run;
    uint64_t lse;
    attention_case_init(&run, d, dtype, dtype);
    runner->forward(runner->context, &run);
    double *whole = outputs_of(&run, &lse);
    keep_last(&run, queries);
    runner->forward(runner->context, &run);
    for (uint64_t i = 0; i < shape->batch * queries * width; i++) {
        const uint64_t row = i / width / queries * seq + seq - queries + i / width % queries;
        if (attention_case_get(&run, OUT, i) != whole[row * width + i % width])
            fail_msg("out of query %u of the last %u of %u is %g, not %g", (unsigned)(i / width % queries),
                     queries, shape->seq, attention_case_get(&run, OUT, i), whole[row * width + i % width]);
    }
    for (uint64_t i = 0; i < (uint64_t)shape->batch * shape->heads * queries; i++)
        assert_true(attention_case_get(&run, LSE, i) ==
                    whole[lse + i / queries * seq + seq - queries + i % queries]);
    free(whole);
    free(run.arena);
}

void attention_check_past(const struct attention_runner *runner)
{
    static const struct attention_shape shapes[] = {
        {1, 140, 2, 1, 64, 0, DOCS_NONE, true, 0, 0},   {2, 97, 2, 2, 24, 0, DOCS_NONE, true, 0, 0},
        {1, 97, 2, 1, 8, 40, DOCS_NONE, true, 0, 0},    {1, 96, 3, 1, 16, 5, DOCS_NONE, true, 0, 0},
        {1, 300, 1, 1, 64, 66, DOCS_NONE, false, 0, 0}, {1, 130, 1, 1, 200, 0, DOCS_NONE, true, 0, 0},
        {1, 140, 2, 1, 64, 66, DOCS_NONE, true, 0, 1}};
    static const uint32_t queries[] = {1, 32, 95};
    for (enum ah_dtype dtype = AH_FP32; dtype <= AH_BF16; dtype++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            struct attention_data d;
            attention_case_data(runner->random, &d, &shapes[i], dtype);
            for (size_t n = 0; n < sizeof queries / sizeof *queries; n++)
                check_last(runner, &d, dtype, queries[n]);
            attention_case_release(&d);
        }
}
