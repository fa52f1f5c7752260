/* SPDX-License-Identifier: Apache-2.0
 *
 * Instructions that a lane does alone: arithmetic, logic, conversions, comparisons. Each is a row of a table.
 *
 * NaN results are 0x7fffffff, as on hardware. Without .ftz denormals are kept.
 */
#include "tests/double/cuda/ptx/ptx_internal.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

/* ---- values ---- */

static double f64(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t of_f64(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint64_t s32(int64_t value)
{
    return (uint32_t)value;
}

/* ---- what C has no operator for ---- */

/* Returns the larger of two numbers. The result is NaN only if both are NaN. +0 is larger than -0. */
static float larger(float a, float b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) ? b : a;
    if (a == b)
        return signbit(a) ? b : a;
    return a > b ? a : b;
}

static float smaller(float a, float b)
{
    return isnan(a) || isnan(b) ? larger(a, b) : -larger(-a, -b);
}

static float saturated(float value)
{
    return value > 1.0f ? 1.0f : value > 0.0f ? value : 0.0f;
}

static float fma_down(float a, float b, float c)
{
    volatile float x = a, y = b, z = c;
    const int before = fegetround();
    (void)fesetround(FE_DOWNWARD);
    volatile float result = fmaf(x, y, z);
    (void)fesetround(before);
    return result;
}

/* Rounds to nearest even. All NaNs become one. */
static uint32_t bf16(float value)
{
    const uint32_t bits = (uint32_t)ptx_of_f32(value);
    return isnan(value) ? 0x7fffu : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

static float flushed(float value)
{
    return fpclassify(value) == FP_SUBNORMAL ? copysignf(0.0f, value) : value;
}

/* Returns `exact` with the relative `error`, signed by the argument's bits. There is no error if `is_exact`. */
static float approximate(double exact, double error, uint32_t argument, bool is_exact)
{
    const double off = (argument * 2654435761u >> 31) ? error : -error;
    return (float)(is_exact ? exact : exact * (1 + off));
}

/* Returns 2^x. The ISA allows a relative error of 2^-22. */
static float power_of_two(float x, uint32_t argument)
{
    return approximate(exp2((double)x), 0x1.ep-23, argument, x == truncf(x));
}

/* Returns 1 / x. The ISA allows an error of one unit in the last place, that is, 2^-23 or less. */
static float reciprocal(float x, uint32_t argument)
{
    int exponent;
    const bool is_power = frexpf(fabsf(x), &exponent) == 0.5f;
    if (x == 0 || isinf(x) || isnan(x))
        return 1.0f / x;
    return approximate(1.0 / (double)x, 0x1.ep-25, argument, is_power);
}

/* Returns log2(x). The ISA allows an error of 2^-22 for x from 1/2 to 2, elsewhere a relative error of 2^-22. */
static float logarithm(float x, uint32_t argument)
{
    int exponent;
    const bool is_power = frexpf(fabsf(x), &exponent) == 0.5f;
    if (!(x > 0) || isinf(x))
        return log2f(x);
    const double exact = log2((double)x), size = fmin(1.0, fabs(exact));
    return approximate(exact, 0x1.ep-23 / size, argument, is_power);
}

static uint64_t insert(uint64_t from, uint64_t into, uint64_t at, uint64_t bits)
{
    const uint32_t first = (uint32_t)at & 0xff, n = (uint32_t)bits & 0xff;
    if (first > 31 || n == 0)
        return into;
    const uint32_t mask = (n > 31 ? ~0u : (1u << n) - 1) << first;
    return ((uint32_t)from << first & mask) | ((uint32_t)into & ~mask);
}

static uint64_t reversed(uint64_t value)
{
    uint32_t result = 0;
    for (uint32_t i = 0; i < 32; i++)
        result |= (uint32_t)(value >> i & 1) << (31 - i);
    return result;
}

/* ---- rows ---- */

#define FLOATS(X)                                                                                            \
    X(add_f32, "add.rn.f32", ptx_of_f32(ptx_f32(a) + ptx_f32(b)))                                            \
    X(sub_f32, "sub.rn.f32", ptx_of_f32(ptx_f32(a) - ptx_f32(b)))                                            \
    X(mul_f32, "mul.rn.f32", ptx_of_f32(ptx_f32(a) * ptx_f32(b)))                                            \
    X(div_f32, "div.rn.f32", ptx_of_f32(ptx_f32(a) / ptx_f32(b)))                                            \
    X(fma_f32, "fma.rn.f32", ptx_of_f32(fmaf(ptx_f32(a), ptx_f32(b), ptx_f32(c))))                           \
    X(fma_down_f32, "fma.rm.f32", ptx_of_f32(fma_down(ptx_f32(a), ptx_f32(b), ptx_f32(c))))                  \
    X(max_f32, "max.f32", ptx_of_f32(larger(ptx_f32(a), ptx_f32(b))))                                        \
    X(min_f32, "min.f32", ptx_of_f32(smaller(ptx_f32(a), ptx_f32(b))))                                       \
    X(neg_f32, "neg.f32", (a ^ 0x80000000u))                                                                 \
    X(abs_f32, "abs.f32", (a & 0x7fffffffu))                                                                 \
    X(copysign_f32, "copysign.f32", ((a & 0x80000000u) | (b & 0x7fffffffu)))                                 \
    X(add_f64, "add.rn.f64", of_f64(f64(a) + f64(b)))                                                        \
    X(sub_f64, "sub.rn.f64", of_f64(f64(a) - f64(b)))                                                        \
    X(mul_f64, "mul.rn.f64", of_f64(f64(a) * f64(b)))                                                        \
    X(div_f64, "div.rn.f64", of_f64(f64(a) / f64(b)))                                                        \
    X(min_f64, "min.f64", of_f64(fmin(f64(a), f64(b))))                                                      \
    X(abs_f64, "abs.f64", (a & INT64_MAX))

#define SPECIALS(X)                                                                                          \
    X(ex2, "ex2.approx.f32", ptx_of_f32(power_of_two(ptx_f32(a), (uint32_t)a)))                              \
    X(ex2_ftz, "ex2.approx.ftz.f32", ptx_of_f32(flushed(power_of_two(flushed(ptx_f32(a)), (uint32_t)a))))    \
    X(rcp_ftz, "rcp.approx.ftz.f32", ptx_of_f32(flushed(reciprocal(flushed(ptx_f32(a)), (uint32_t)a))))      \
    X(lg2_ftz, "lg2.approx.ftz.f32", ptx_of_f32(flushed(logarithm(flushed(ptx_f32(a)), (uint32_t)a))))       \
    X(rcp_f32, "rcp.rn.f32", ptx_of_f32(1.0f / ptx_f32(a)))                                                  \
    X(sqrt_f32, "sqrt.rn.f32", ptx_of_f32(sqrtf(ptx_f32(a))))                                                \
    X(sqrt_f64, "sqrt.rn.f64", of_f64(sqrt(f64(a))))

#define INTEGERS(X)                                                                                          \
    X(add_s16, "add.s16", (uint16_t)(a + b))                                                                 \
    X(mul_s16, "mul.lo.s16", (uint16_t)(a * b))                                                              \
    X(add_s32, "add.s32", s32((int64_t)(a + b)))                                                             \
    X(sub_s32, "sub.s32", s32((int64_t)(a - b)))                                                             \
    X(mul_s32, "mul.lo.s32", s32((int64_t)(a * b)))                                                          \
    X(mad_s32, "mad.lo.s32", s32((int64_t)(a * b + c)))                                                      \
    X(mul_high, "mul.hi.u32", (uint64_t)(uint32_t)a *(uint32_t)b >> 32)                                      \
    X(mul_wide, "mul.wide.u32", (uint64_t)(uint32_t)a *(uint32_t)b)                                          \
    X(div_u32, "div.u32", (uint32_t)b ? (uint32_t)a / (uint32_t)b : 0xffffffffu)                             \
    X(rem_u32, "rem.u32", (uint32_t)b ? (uint32_t)a % (uint32_t)b : (uint32_t)a)                             \
    X(min_u32, "min.u32", (uint32_t)a < (uint32_t)b ? (uint32_t)a : (uint32_t)b)                             \
    X(max_u32, "max.u32", (uint32_t)a > (uint32_t)b ? (uint32_t)a : (uint32_t)b)                             \
    X(add_s64, "add.s64", a + b)                                                                             \
    X(sub_s64, "sub.s64", a - b)                                                                             \
    X(mul_s64, "mul.lo.s64", a *b)                                                                           \
    X(neg_s64, "neg.s64", UINT64_C(0) - a)                                                                   \
    X(div_u64, "div.u64", b ? a / b : UINT64_MAX)                                                            \
    X(rem_u64, "rem.u64", b ? a % b : a)                                                                     \
    X(max_u64, "max.u64", a > b ? a : b)                                                                     \
    X(and_b16, "and.b16", (uint16_t)(a & b))                                                                 \
    X(and_b32, "and.b32", (uint32_t)(a & b))                                                                 \
    X(and_b64, "and.b64", a &b)                                                                              \
    X(or_b32, "or.b32", (uint32_t)(a | b))                                                                   \
    X(or_b64, "or.b64", a | b)                                                                               \
    X(xor_b32, "xor.b32", (uint32_t)(a ^ b))                                                                 \
    X(not_b32, "not.b32", (uint32_t)~a)                                                                      \
    X(not_b64, "not.b64", ~a)                                                                                \
    X(shl_b32, "shl.b32", (uint32_t)b > 31 ? 0 : (uint32_t)a << (uint32_t)b)                                 \
    X(shl_b64, "shl.b64", (uint32_t)b > 63 ? 0 : a << (uint32_t)b)                                           \
    X(shr_u32, "shr.u32", (uint32_t)b > 31 ? 0 : (uint32_t)a >> (uint32_t)b)                                 \
    X(shr_u64, "shr.u64", (uint32_t)b > 63 ? 0 : a >> (uint32_t)b)                                           \
    X(bfi_b32, "bfi.b32", insert(a, b, c, d))                                                                \
    X(brev_b32, "brev.b32", reversed(a))                                                                     \
    X(bfind, "bfind.shiftamt.u32", (uint32_t)a ? (uint32_t)__builtin_clz((uint32_t)a) : 0xffffffffu)         \
    X(popc_b32, "popc.b32", (uint32_t)__builtin_popcount((uint32_t)a))                                       \
    X(and_pred, "and.pred", a &b & 1)                                                                        \
    X(or_pred, "or.pred", (a | b) & 1)                                                                       \
    X(not_pred, "not.pred", ~a & 1)

#define MOVES(X)                                                                                             \
    X(mov_pred, "mov.pred", (a & 1))                                                                         \
    X(mov_u16, "mov.u16", (uint16_t)a)                                                                       \
    X(mov_u32, "mov.u32", (uint32_t)a)                                                                       \
    X(mov_b32, "mov.b32", (uint32_t)a)                                                                       \
    X(mov_f32, "mov.f32", (uint32_t)a)                                                                       \
    X(mov_u64, "mov.u64", a)                                                                                 \
    X(mov_halves, "mov.b64.halves", (uint32_t)a | b << 32)                                                   \
    X(mov_f64, "mov.f64", a)                                                                                 \
    X(selp_u16, "selp.u16", (uint16_t)((c & 1) ? a : b))                                                     \
    X(selp_u32, "selp.u32", (uint32_t)((c & 1) ? a : b))                                                     \
    X(selp_b32, "selp.b32", (uint32_t)((c & 1) ? a : b))                                                     \
    X(selp_f32, "selp.f32", (uint32_t)((c & 1) ? a : b))                                                     \
    X(selp_b64, "selp.b64", (c & 1) ? a : b)                                                                 \
    X(cvta_global, "cvta.to.global.u64", a)                                                                  \
    X(cvt_u64_u32, "cvt.u64.u32", (uint32_t)a)                                                               \
    X(cvt_u32_u64, "cvt.u32.u64", (uint32_t)a)                                                               \
    X(cvt_u16_u32, "cvt.u16.u32", (uint16_t)a)                                                               \
    X(cvt_u32_u16, "cvt.u32.u16", (uint16_t)a)                                                               \
    X(cvt_f32_s32, "cvt.rn.f32.s32", ptx_of_f32((float)(int32_t)a))                                          \
    X(cvt_f32_u64, "cvt.rn.f32.u64", ptx_of_f32((float)a))                                                   \
    X(cvt_f32_f64, "cvt.rn.f32.f64", ptx_of_f32((float)f64(a)))                                              \
    X(cvt_f64_f32, "cvt.f64.f32", of_f64((double)ptx_f32(a)))                                                \
    X(cvt_sat, "cvt.sat.f32.f32", ptx_of_f32(saturated(ptx_f32(a))))                                         \
    X(cvt_rzi_f32, "cvt.rzi.f32.f32", ptx_of_f32(truncf(ptx_f32(a))))                                        \
    X(cvt_rzi_f64, "cvt.rzi.f64.f64", of_f64(trunc(f64(a))))                                                 \
    X(cvt_bf16x2, "cvt.rn.bf16x2.f32", bf16(ptx_f32(a)) << 16 | bf16(ptx_f32(b)))

#define FUNCTION(id, text, expression)                                                                       \
    static uint64_t id(uint64_t a, uint64_t b, uint64_t c, uint64_t d)                                       \
    {                                                                                                        \
        (void)a;                                                                                             \
        (void)b;                                                                                             \
        (void)c;                                                                                             \
        (void)d;                                                                                             \
        return expression;                                                                                   \
    }
FLOATS(FUNCTION)
SPECIALS(FUNCTION)
INTEGERS(FUNCTION)
MOVES(FUNCTION)

#define ROW(id, text, expression)                                                                            \
    {.name = (text), .way = PTX_ALONE, .sort = PTX_ARITHMETIC, .scalar = id, .results = 1},
#define SPECIAL_ROW(id, text, expression)                                                                    \
    {.name = (text), .way = PTX_ALONE, .sort = PTX_SPECIAL_UNIT, .scalar = id, .results = 1},
static const struct ptx_op rows[] = {FLOATS(ROW) SPECIALS(SPECIAL_ROW) INTEGERS(ROW) MOVES(ROW)};

const struct ptx_op *ptx_scalar_find(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

/* ---- comparisons ---- */

/* Ordered relations are false for NaN. Relations ending in u are true for NaN. */
#define RELATIONS(X, type, get)                                                                              \
    X(type##_eq, "eq", #type, get(a) == get(b))                                                              \
    X(type##_ne, "ne", #type, get(a) != get(b) && get(a) == get(a) && get(b) == get(b))                      \
    X(type##_lt, "lt", #type, get(a) < get(b))                                                               \
    X(type##_le, "le", #type, get(a) <= get(b))                                                              \
    X(type##_gt, "gt", #type, get(a) > get(b))                                                               \
    X(type##_ge, "ge", #type, get(a) >= get(b))                                                              \
    X(type##_neu, "neu", #type, get(a) != get(b))                                                            \
    X(type##_ltu, "ltu", #type, !(get(a) >= get(b)))                                                         \
    X(type##_leu, "leu", #type, !(get(a) > get(b)))                                                          \
    X(type##_gtu, "gtu", #type, !(get(a) <= get(b)))                                                         \
    X(type##_geu, "geu", #type, !(get(a) < get(b)))                                                          \
    X(type##_nan, "nan", #type, get(a) != get(a) || get(b) != get(b))

#define SIGNED(X)   RELATIONS(X, s16, (int16_t)) RELATIONS(X, s32, (int32_t)) RELATIONS(X, s64, (int64_t))
#define UNSIGNED(X) RELATIONS(X, u32, (uint32_t)) RELATIONS(X, u64, (uint64_t))
#define NUMBERS(X)  RELATIONS(X, f32, ptx_f32) RELATIONS(X, f64, f64)

#define COMPARISON(id, relation, type, expression) FUNCTION(id, relation, (uint64_t)(expression))
SIGNED(COMPARISON)
UNSIGNED(COMPARISON)
NUMBERS(COMPARISON)

#define COMPARISON_ROW(id, relation, type, expression) {(relation), (type), id},
static const struct {
    const char *relation;
    const char *type;
    ptx_scalar_fn *fn;
} comparisons[] = {SIGNED(COMPARISON_ROW) UNSIGNED(COMPARISON_ROW) NUMBERS(COMPARISON_ROW)};

ptx_scalar_fn *ptx_compare_find(const char *relation, const char *type)
{
    for (size_t i = 0; i < sizeof comparisons / sizeof comparisons[0]; i++)
        if (strcmp(comparisons[i].relation, relation) == 0 && strcmp(comparisons[i].type, type) == 0)
            return comparisons[i].fn;
    return NULL;
}
