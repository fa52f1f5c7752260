/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests AdamW on every instruction set of this processor, against a double-precision reference and against the sequence
 * of adamw.h for one element. In that sequence, volatile keeps the compiler from fusing or reordering.
 */
#include "runtime/device/host/adamw.h"

#include "base/bf16.h"
#include "base/philox.h"
#include "runtime/device/adamw_scalars.h"
#include "tests/support/check.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { N = 400, STEPS = 100, NO_WEIGHT = 2, GUARD = 0x5a };

/* Arrays with room for any of the types. A bf16 array uses only the first half. */
struct set {
    float master[N], m[N], v[N], gradient[N], weight[N];
};

static const struct ah_adamw_scalars plain = {.beta1 = 0.9f,
                                              .rest1 = 1 - 0.9f,
                                              .beta2 = 0.999f,
                                              .rest2 = 1 - 0.999f,
                                              .epsilon = 1e-8f,
                                              .neg_rate = -1e-3f / 0.271f,
                                              .root_scale = 1 / 0.0547f,
                                              .decay = 1 - 1e-4f,
                                              .grad_scale = 0.7f,
                                              .step = 3,
                                              .seed = 0x123456789abcdef0};

struct variant {
    enum ah_dtype state, gradient;
    int weight; /* enum ah_dtype or NO_WEIGHT */
};

static struct variant variant_of(int number)
{
    return (struct variant){(enum ah_dtype)(number & 1), (enum ah_dtype)(number >> 1 & 1), number >> 2};
}

enum { VARIANTS = 12 };

static struct ah_adamw_arrays arrays_of(struct set *s, struct variant kind)
{
    return (struct ah_adamw_arrays){
        .master = s->master,
        .m = s->m,
        .v = s->v,
        .gradient = s->gradient,
        .weight = kind.weight == NO_WEIGHT ? NULL : s->weight,
        .state_dtype = kind.state,
        .gradient_dtype = kind.gradient,
        .weight_dtype = kind.weight == NO_WEIGHT ? AH_FP32 : (enum ah_dtype)kind.weight,
        .decay = true,
        .block = 7,
        .first_element = 1000003,
    };
}

static float get(const void *data, enum ah_dtype dtype, uint64_t i)
{
    return dtype == AH_BF16 ? ah_bf16_to_fp32(((const uint16_t *)data)[i]) : ((const float *)data)[i];
}

static void put(void *data, enum ah_dtype dtype, uint64_t i, float value)
{
    if (dtype == AH_BF16)
        ((uint16_t *)data)[i] = ah_bf16_from_fp32(value);
    else
        ((float *)data)[i] = value;
}

static uint16_t round_by(float value, uint32_t random16)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + random16) >> 16);
}

static void put_state(const struct ah_adamw_arrays *a, const struct ah_adamw_scalars *s, uint64_t i, float m,
                      float v)
{
    uint32_t words[4];
    uint64_t element = a->first_element + i;
    if (a->state_dtype == AH_FP32) {
        put(a->m, AH_FP32, i, m);
        put(a->v, AH_FP32, i, v);
        return;
    }
    ah_philox_draw(&(struct ah_philox_name){.seed = s->seed,
                                            .step = s->step,
                                            .block = a->block,
                                            .purpose = AH_PHILOX_ROUNDING,
                                            .element = element / 4},
                   words);
    ((uint16_t *)a->m)[i] = round_by(m, words[element % 4] & 0xffff);
    ((uint16_t *)a->v)[i] = round_by(v, words[element % 4] >> 16);
}

/* Updates one element by the sequence of adamw.h. */
static void one_element(const struct ah_adamw_arrays *a, const struct ah_adamw_scalars *s, uint64_t i)
{
    const float decay = a->decay ? s->decay : 1.0f;
    volatile float g = get(a->gradient, a->gradient_dtype, i) * s->grad_scale;
    volatile float scaled1 = s->rest1 * g, scaled2 = s->rest2 * g;
    volatile float square = scaled2 * g;
    volatile float m = fmaf(s->beta1, get(a->m, a->state_dtype, i), scaled1);
    volatile float v = fmaf(s->beta2, get(a->v, a->state_dtype, i), square);
    volatile float root = sqrtf(v);
    volatile float d = fmaf(root, s->root_scale, s->epsilon);
    volatile float quotient = m / d;
    volatile float decayed = a->master[i] * decay;
    volatile float p = fmaf(s->neg_rate, quotient, decayed);
    a->master[i] = p;
    put_state(a, s, i, m, v);
    if (a->weight)
        put(a->weight, a->weight_dtype, i, p);
}

static bool nan32(uint32_t bits)
{
    return (bits & 0x7fffffff) > 0x7f800000;
}

/* Fails the test unless all elements have the same bits, or both are NaN. */
static void same_array(const char *what, const void *a, const void *b, enum ah_dtype dtype)
{
    for (uint64_t i = 0; i < N; i++) {
        uint32_t x = 0, y = 0;
        size_t bytes = dtype == AH_BF16 ? 2 : 4;
        memcpy(&x, (const char *)a + i * bytes, bytes);
        memcpy(&y, (const char *)b + i * bytes, bytes);
        uint32_t up = dtype == AH_BF16 ? 16 : 0;
        if (x != y && !(nan32(x << up) && nan32(y << up)))
            fail_msg("%s[%u]: %08x, expected %08x", what, (unsigned)i, x, y);
    }
}

static void same_set(const char *what, const struct set *a, const struct set *b, struct variant kind)
{
    char text[96];
    snprintf(text, sizeof text, "%s, state %d gradient %d weight %d", what, kind.state, kind.gradient,
             kind.weight);
    same_array(text, a->master, b->master, AH_FP32);
    same_array(text, a->m, b->m, kind.state);
    same_array(text, a->v, b->v, kind.state);
    same_array(text, a->weight, b->weight, kind.weight == AH_BF16 ? AH_BF16 : AH_FP32);
}

/* Fills with random bits: normal numbers, denormals, infinities, NaNs. One in four is from the edges of the range. */
static void fill_bits(struct set *s, uint64_t *random)
{
    static const uint32_t edges[] = {0x00000000, 0x80000000, 0x00000001, 0x007fffff, 0x00800000, 0x7f7fffff,
                                     0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0x3f800000, 0x0000ffff};
    uint32_t words[sizeof *s / 4];
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        uint64_t r = check_random(random);
        words[i] = (r & 3) ? (uint32_t)(r >> 16) : edges[(r >> 8) % (sizeof edges / sizeof *edges)];
    }
    memcpy(s, words, sizeof *s);
}

static void fill_training(struct set *s, struct variant kind, uint64_t *random)
{
    for (uint64_t i = 0; i < N; i++) {
        float g = (float)(check_uniform(random) - 0.5) * 1e-2f;
        s->master[i] = (float)(check_uniform(random) - 0.5);
        put(s->gradient, kind.gradient, i, g);
        put(s->m, kind.state, i, (float)(check_uniform(random) - 0.5) * 1e-2f);
        put(s->v, kind.state, i, (float)check_uniform(random) * 1e-5f);
    }
}

TEST(adamw, equals_the_written_sequence)
{
    uint64_t random = check_seed(41);
    const enum ah_isa best = ah_isa_detect();
    for (int number = 0; number < VARIANTS; number++)
        for (int round = 0; round < 40; round++) {
            struct set start = {0}, expected, got;
            struct variant kind = variant_of(number);
            if (round % 2)
                fill_bits(&start, &random);
            else
                fill_training(&start, kind, &random);
            uint64_t begin = check_random(&random) % 130, end = N - check_random(&random) % 130;
            expected = start;
            struct ah_adamw_arrays a = arrays_of(&expected, kind);
            for (uint64_t i = begin; i < end; i++)
                one_element(&a, &plain, i);
            for (enum ah_isa isa = AH_ISA_PORTABLE; isa <= best; isa++) {
                got = start;
                a = arrays_of(&got, kind);
                ah_adamw_run(isa, &a, &plain, begin, end);
                same_set(ah_isa_name(isa), &got, &expected, kind);
            }
        }
}

/* Tests sizes 1 to 70 at every offset in a vector. Nothing outside the range may change. */
TEST(adamw, small_sizes_and_odd_offsets)
{
    uint64_t random = check_seed(42);
    const enum ah_isa best = ah_isa_detect();
    for (int number = 0; number < VARIANTS; number++)
        for (uint64_t n = 1; n <= 70; n++)
            for (uint64_t begin = 0; begin < 19; begin += 1 + n % 3) {
                struct set start = {0}, expected, got;
                struct variant kind = variant_of(number);
                fill_training(&start, kind, &random);
                memset(start.weight, GUARD, sizeof start.weight);
                expected = start;
                struct ah_adamw_arrays a = arrays_of(&expected, kind);
                for (uint64_t i = begin; i < begin + n; i++)
                    one_element(&a, &plain, i);
                got = start;
                a = arrays_of(&got, kind);
                ah_adamw_run(n % 2 ? best : AH_ISA_PORTABLE, &a, &plain, begin, begin + n);
                same_set("small", &got, &expected, kind);
            }
}

/* Each array starts at a different place between cache lines. */
TEST(adamw, arrays_at_any_alignment)
{
    uint64_t random = check_seed(43);
    const enum ah_isa best = ah_isa_detect();
    for (int number = 0; number < VARIANTS; number++)
        for (uint64_t shift = 0; shift < 40; shift++) {
            struct set start = {0}, expected, got;
            struct variant kind = variant_of(number);
            fill_training(&start, kind, &random);
            expected = start;
            got = start;
            for (int which = 0; which < 2; which++) {
                struct set *s = which ? &got : &expected;
                struct ah_adamw_arrays a = arrays_of(s, kind);
                a.master = s->master + shift % 5;
                a.m = (char *)s->m + 4 * (shift % 7);
                a.gradient = (const char *)s->gradient + 4 * (shift % 3);
                a.weight = a.weight ? (char *)a.weight + (a.weight_dtype == AH_BF16 ? 2 : 4) * shift : NULL;
                a.first_element = shift * 3;
                for (uint64_t i = 0; i < 300 && !which; i++)
                    one_element(&a, &plain, i);
                if (which)
                    ah_adamw_run(best, &a, &plain, 0, 300);
            }
            same_set("shifted", &got, &expected, kind);
        }
}

TEST(adamw, any_split_gives_the_same_bits)
{
    uint64_t random = check_seed(44);
    for (int number = 0; number < VARIANTS; number++)
        for (int round = 0; round < 20; round++) {
            struct set whole = {0}, parts;
            struct variant kind = variant_of(number);
            fill_training(&whole, kind, &random);
            parts = whole;
            struct ah_adamw_arrays a = arrays_of(&whole, kind), b = arrays_of(&parts, kind);
            ah_adamw_run(ah_isa_detect(), &a, &plain, 0, N);
            for (uint64_t i = 0, stop; i < N; i = stop) {
                stop = i + check_random(&random) % 90;
                stop = stop < N ? stop : N;
                ah_adamw_run(ah_isa_detect(), &b, &plain, i, stop);
            }
            same_set("split", &parts, &whole, kind);
        }
}

/* A tile, with its arrays indexed from 0, rounds as if the whole block were updated. */
TEST(adamw, a_tile_keeps_its_place_in_the_block)
{
    uint64_t random = check_seed(45);
    struct variant kind = {AH_BF16, AH_BF16, AH_BF16};
    struct set whole = {0}, tile = {0};
    fill_training(&whole, kind, &random);
    const uint64_t first = 123;
    memcpy(tile.master, whole.master + first, (N - first) * 4);
    memcpy(tile.m, (uint16_t *)(void *)whole.m + first, (N - first) * 2);
    memcpy(tile.v, (uint16_t *)(void *)whole.v + first, (N - first) * 2);
    memcpy(tile.gradient, (uint16_t *)(void *)whole.gradient + first, (N - first) * 2);
    struct ah_adamw_arrays a = arrays_of(&whole, kind), b = arrays_of(&tile, kind);
    b.first_element += first;
    ah_adamw_run(ah_isa_detect(), &a, &plain, 0, N);
    ah_adamw_run(ah_isa_detect(), &b, &plain, 0, N - first);
    assert_memory_equal(tile.master, whole.master + first, (N - first) * 4);
    assert_memory_equal(tile.m, (uint16_t *)(void *)whole.m + first, (N - first) * 2);
    assert_memory_equal(tile.v, (uint16_t *)(void *)whole.v + first, (N - first) * 2);
}

struct reference {
    double p, m, v;
};

/* Updates as torch.optim.AdamW does, in double: decay comes first, and the corrected step second. */
static void reference_step(struct reference *r, double g, const struct ah_adamw_settings *s)
{
    const double beta1 = s->beta1, beta2 = s->beta2;
    r->p *= 1.0 - s->lr * s->weight_decay;
    r->m = beta1 * r->m + (1.0 - beta1) * g;
    r->v = beta2 * r->v + (1.0 - beta2) * g * g;
    double corrected1 = 1.0 - pow(beta1, s->step), corrected2 = sqrt(1.0 - pow(beta2, s->step));
    r->p -= s->lr / corrected1 * r->m / (sqrt(r->v) / corrected2 + s->epsilon);
}

TEST(adamw, follows_the_double_reference_for_100_steps)
{
    const enum ah_isa best = ah_isa_detect();
    for (enum ah_isa isa = AH_ISA_PORTABLE; isa <= best; isa++) {
        uint64_t random = check_seed(46);
        struct set s = {0};
        struct reference r[N];
        struct ah_adamw_settings settings = {
            .lr = 1e-3, .beta1 = (double)0.9f, .beta2 = (double)0.999f, .epsilon = 1e-8, .weight_decay = 0.1};
        for (int i = 0; i < N; i++) {
            s.master[i] = (float)(check_uniform(&random) - 0.5);
            r[i] = (struct reference){(double)s.master[i], 0, 0};
        }
        for (settings.step = 1; settings.step <= STEPS; settings.step++) {
            struct ah_adamw_scalars scalars;
            ah_adamw_scalars_init(&scalars, &settings);
            for (int i = 0; i < N; i++) {
                s.gradient[i] = (float)((check_uniform(&random) - 0.3) * pow(10.0, -(i % 9)));
                reference_step(&r[i], (double)s.gradient[i], &settings);
            }
            struct ah_adamw_arrays a = arrays_of(&s, (struct variant){AH_FP32, AH_FP32, NO_WEIGHT});
            ah_adamw_run(isa, &a, &scalars, 0, N);
        }
        /* A step rounds p once. The error is half an ulp of a p below 1, so 100 steps err by at most 2^-25 * 100. */
        for (int i = 0; i < N; i++) {
            if (fabs((double)s.master[i] - r[i].p) > 100 * 0x1p-25)
                fail_msg("p[%d] = %.9g, reference %.9g", i, (double)s.master[i], r[i].p);
            if (fabs((double)s.v[i] - r[i].v) > 100 * 0x1p-24 * r[i].v)
                fail_msg("v[%d] = %.9g, reference %.9g", i, (double)s.v[i], r[i].v);
        }
    }
}

TEST(adamw, decay_only_where_asked)
{
    struct set s = {.master = {2.0f}};
    struct ah_adamw_arrays a = arrays_of(&s, (struct variant){AH_FP32, AH_FP32, NO_WEIGHT});
    a.decay = false;
    ah_adamw_run(AH_ISA_PORTABLE, &a, &plain, 0, 1);
    assert_true(s.master[0] == 2.0f); /* unchanged, because there is neither gradient nor decay */
    a.decay = true;
    ah_adamw_run(AH_ISA_PORTABLE, &a, &plain, 0, 1);
    assert_true(s.master[0] == 2.0f * plain.decay);
}

/* The mean of many roundings of one value is that value, within five standard deviations. */
TEST(adamw, stochastic_rounding_is_unbiased)
{
    struct ah_adamw_scalars s = plain;
    const float exact = 1.0f + 0x1p-7f * 0.3f; /* its bf16 neighbours are 1 and 1 + 2^-7 */
    double sum_m = 0, sum_v = 0, both = 0, draws = 0;
    s.beta1 = s.rest1 = s.beta2 = s.rest2 =
        0.5f; /* m = v = 0.5 * 0 + 0.5 * g (* g): no rounding before the stochastic one */
    s.grad_scale = 1.0f;
    for (s.step = 1; s.step <= 100; s.step++) {
        struct set set = {0};
        struct ah_adamw_arrays a = arrays_of(&set, (struct variant){AH_BF16, AH_FP32, NO_WEIGHT});
        for (int i = 0; i < N; i++)
            set.gradient[i] = 2.0f * exact;
        ah_adamw_run(ah_isa_detect(), &a, &s, 0, N);
        for (int i = 0; i < N; i++, draws++) {
            bool up_m = get(set.m, AH_BF16, (uint64_t)i) > 1.0f;
            float v = get(set.v, AH_BF16, (uint64_t)i);
            sum_m += up_m;
            sum_v += (double)v;
            both += up_m && v > 2.0f * exact * exact;
        }
    }
    const double deviation = sqrt(0.3 * 0.7 / draws);
    assert_true(fabs(sum_m / draws - 0.3) < 5 * deviation);
    /* v = 2 exact^2 = 2.0047 lies between 2 and 2 + 2^-6. */
    const double share_v = ((double)(2.0f * exact * exact) - 2.0) / 0x1p-6;
    assert_true(fabs((sum_v / draws - 2.0) / 0x1p-6 - share_v) < 5 * sqrt(share_v * (1 - share_v) / draws));
    /* m and v are rounded by independent bits. */
    assert_true(fabs(both / draws - 0.3 * share_v) < 5 * sqrt(0.3 * share_v / draws));
}

TEST(adamw, stochastic_rounding_keeps_what_bf16_holds)
{
    struct ah_adamw_scalars s = plain;
    struct set set = {0};
    struct ah_adamw_arrays a = arrays_of(&set, (struct variant){AH_BF16, AH_FP32, NO_WEIGHT});
    s.beta1 = s.rest1 = s.beta2 = s.rest2 = 0.5f;
    s.grad_scale = 1.0f;
    for (int i = 0; i < N; i++)
        set.gradient[i] = i % 4 == 0 ? 3.0f : i % 4 == 1 ? INFINITY : i % 4 == 2 ? NAN : 0.0f;
    ah_adamw_run(ah_isa_detect(), &a, &s, 0, N);
    for (uint64_t i = 0; i < N; i++) {
        float m = get(set.m, AH_BF16, i);
        assert_true(i % 4 == 2 ? isnan(m) : m == (i % 4 == 0 ? 1.5f : i % 4 == 1 ? INFINITY : 0.0f));
    }
}
