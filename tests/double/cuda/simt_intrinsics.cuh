/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA's intrinsics that kernels use: conversions of bits, arithmetic rounded once, integers, loads and stores with a
 * hint, atomics on integers. Where CUDA promises the bits of a result, they are the same here; approximations
 * (__expf, exp2 of the special function unit, rsqrtf, ...) come from the C library and differ in the last places.
 *
 * There are no atomics on floating-point numbers: their order would depend on timing.
 *
 * Source: CUDA Math API manual; CUDA C++ Programming Guide, "Atomic Functions", "Load Functions Using Cache Hints".
 */
#ifndef AH_TESTS_DOUBLE_CUDA_SIMT_INTRINSICS_CUH
#define AH_TESTS_DOUBLE_CUDA_SIMT_INTRINSICS_CUH

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "tests/double/cuda/emulator.h"

template <class To, class From> static inline To simt_bits(From value)
{
    static_assert(sizeof(To) == sizeof(From), "bits of the same number");
    To bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Bits, and conversions */

static inline unsigned __float_as_uint(float x)
{
    return simt_bits<unsigned>(x);
}

static inline int __float_as_int(float x)
{
    return simt_bits<int>(x);
}

static inline float __uint_as_float(unsigned x)
{
    return simt_bits<float>(x);
}

static inline float __int_as_float(int x)
{
    return simt_bits<float>(x);
}

static inline long long __double_as_longlong(double x)
{
    return simt_bits<long long>(x);
}

static inline double __longlong_as_double(long long x)
{
    return simt_bits<double>(x);
}

static inline float __double2float_rn(double x)
{
    return static_cast<float>(x);
}

static inline float __uint2float_rn(unsigned x)
{
    return static_cast<float>(x);
}

static inline float __int2float_rn(int x)
{
    return static_cast<float>(x);
}

static inline float __ull2float_rn(unsigned long long x)
{
    return static_cast<float>(x);
}

static inline int __float2int_rn(float x)
{
    return static_cast<int>(rintf(x));
}

static inline int __float2int_rz(float x)
{
    return static_cast<int>(x);
}

/* Arithmetic: one operation each, rounded to nearest even */

static inline float __fadd_rn(float a, float b)
{
    return a + b;
}

static inline float __fsub_rn(float a, float b)
{
    return a - b;
}

static inline float __fmul_rn(float a, float b)
{
    return a * b;
}

static inline float __fdiv_rn(float a, float b)
{
    return a / b;
}

static inline float __frcp_rn(float a)
{
    return 1.0f / a;
}

static inline float __fsqrt_rn(float a)
{
    return sqrtf(a);
}

static inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}

static inline double __dadd_rn(double a, double b)
{
    return a + b;
}

static inline double __dmul_rn(double a, double b)
{
    return a * b;
}

static inline double __ddiv_rn(double a, double b)
{
    return a / b;
}

static inline double __dsqrt_rn(double a)
{
    return sqrt(a);
}

static inline double __fma_rn(double a, double b, double c)
{
    return fma(a, b, c);
}

/* Approximations */

/* The C library uses these names itself. */
#define __expf(x)    expf(x)
#define __exp10f(x)  exp10f(x)
#define __logf(x)    logf(x)
#define __log2f(x)   log2f(x)
#define __sinf(x)    sinf(x)
#define __cosf(x)    cosf(x)
#define __powf(x, y) powf(x, y)

static inline float __fdividef(float a, float b)
{
    return a / b;
}

static inline float __saturatef(float x)
{
    return x > 0 ? (x < 1 ? x : 1) : 0;
}

static inline float rsqrtf(float x)
{
    return 1 / sqrtf(x);
}

static inline double rsqrt(double x)
{
    return 1 / sqrt(x);
}

/* Integers */

static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}

static inline int __popcll(unsigned long long x)
{
    return __builtin_popcountll(x);
}

static inline int __clz(int x)
{
    return x ? __builtin_clz(static_cast<unsigned>(x)) : 32;
}

static inline int __clzll(long long x)
{
    return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64;
}

static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}

static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32);
}

static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    __extension__ typedef unsigned __int128 wide;
    return static_cast<unsigned long long>(static_cast<wide>(a) * b >> 64);
}

static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift)
{
    uint64_t both = static_cast<uint64_t>(high) << 32 | low;
    return static_cast<unsigned>(both << (shift & 31) >> 32);
}

static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift)
{
    uint64_t both = static_cast<uint64_t>(high) << 32 | low;
    return static_cast<unsigned>(both >> (shift & 31));
}

/* Each byte of the result is one of the eight bytes of b and a, or that byte's sign. */
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector)
{
    uint64_t both = static_cast<uint64_t>(b) << 32 | a;
    unsigned result = 0;
    for (unsigned i = 0; i < 4; i++) {
        unsigned choice = selector >> 4 * i & 15;
        unsigned byte = static_cast<unsigned>(both >> 8 * (choice & 7)) & 255;
        if (choice & 8)
            byte = byte & 128 ? 255 : 0;
        result |= byte << 8 * i;
    }
    return result;
}

/* With two types, CUDA takes the wider one; here that is an error. */
#define SIMT_LEAST_AND_MOST(type)                                                                            \
    static inline type min(type a, type b)                                                                   \
    {                                                                                                        \
        return b < a ? b : a;                                                                                \
    }                                                                                                        \
    static inline type max(type a, type b)                                                                   \
    {                                                                                                        \
        return a < b ? b : a;                                                                                \
    }
SIMT_LEAST_AND_MOST(int)
SIMT_LEAST_AND_MOST(unsigned)
SIMT_LEAST_AND_MOST(long)
SIMT_LEAST_AND_MOST(unsigned long)
SIMT_LEAST_AND_MOST(long long)
SIMT_LEAST_AND_MOST(unsigned long long)
#undef SIMT_LEAST_AND_MOST

static inline float min(float a, float b)
{
    return fminf(a, b);
}

static inline float max(float a, float b)
{
    return fmaxf(a, b);
}

static inline double min(double a, double b)
{
    return fmin(a, b);
}

static inline double max(double a, double b)
{
    return fmax(a, b);
}

/* Loads and stores with a cache hint; as on the GPU, a place must be aligned for its type. */

template <class T> static inline const T *simt_aligned(const T *place)
{
    if (reinterpret_cast<uintptr_t>(place) % sizeof(T))
        emulator_trap("accesses memory that has not the alignment of what it takes");
    return place;
}

#define SIMT_LOAD(name)                                                                                      \
    template <class T> static inline T name(const T *from)                                                   \
    {                                                                                                        \
        return *simt_aligned(from);                                                                          \
    }
SIMT_LOAD(__ldg)
SIMT_LOAD(__ldca)
SIMT_LOAD(__ldcg)
SIMT_LOAD(__ldcs)
SIMT_LOAD(__ldlu)
SIMT_LOAD(__ldcv)
#undef SIMT_LOAD

#define SIMT_STORE(name)                                                                                     \
    template <class T> static inline void name(T *to, typename ah_simt_value<T>::type value)                 \
    {                                                                                                        \
        (void)simt_aligned(to);                                                                              \
        *to = value;                                                                                         \
    }
SIMT_STORE(__stwb)
SIMT_STORE(__stcg)
SIMT_STORE(__stcs)
SIMT_STORE(__stwt)
#undef SIMT_STORE

/* Atomics: kernels of several streams run at the same time. Each returns the old value. */

#define SIMT_ATOMIC(type, name, builtin)                                                                     \
    static inline type name(type *place, type value)                                                         \
    {                                                                                                        \
        return builtin(place, value, __ATOMIC_SEQ_CST);                                                      \
    }
#define SIMT_ATOMICS(type)                                                                                   \
    SIMT_ATOMIC(type, atomicAdd, __atomic_fetch_add)                                                         \
    SIMT_ATOMIC(type, atomicSub, __atomic_fetch_sub)                                                         \
    SIMT_ATOMIC(type, atomicExch, __atomic_exchange_n)                                                       \
    SIMT_ATOMIC(type, atomicAnd, __atomic_fetch_and)                                                         \
    SIMT_ATOMIC(type, atomicOr, __atomic_fetch_or)                                                           \
    SIMT_ATOMIC(type, atomicXor, __atomic_fetch_xor)                                                         \
    static inline type atomicCAS(type *place, type expected, type value)                                     \
    {                                                                                                        \
        (void)__atomic_compare_exchange_n(place, &expected, value, false, __ATOMIC_SEQ_CST,                  \
                                          __ATOMIC_SEQ_CST);                                                 \
        return expected;                                                                                     \
    }                                                                                                        \
    static inline type atomicMin(type *place, type value)                                                    \
    {                                                                                                        \
        type there = __atomic_load_n(place, __ATOMIC_SEQ_CST);                                               \
        while (value < there && !__atomic_compare_exchange_n(place, &there, value, false, __ATOMIC_SEQ_CST,  \
                                                             __ATOMIC_SEQ_CST)) {                            \
        }                                                                                                    \
        return there;                                                                                        \
    }                                                                                                        \
    static inline type atomicMax(type *place, type value)                                                    \
    {                                                                                                        \
        type there = __atomic_load_n(place, __ATOMIC_SEQ_CST);                                               \
        while (there < value && !__atomic_compare_exchange_n(place, &there, value, false, __ATOMIC_SEQ_CST,  \
                                                             __ATOMIC_SEQ_CST)) {                            \
        }                                                                                                    \
        return there;                                                                                        \
    }
SIMT_ATOMICS(int)
SIMT_ATOMICS(unsigned)
SIMT_ATOMICS(unsigned long long)
#undef SIMT_ATOMICS
#undef SIMT_ATOMIC

/* Wraps to 0 above `limit`. */
static inline unsigned atomicInc(unsigned *place, unsigned limit)
{
    unsigned there = __atomic_load_n(place, __ATOMIC_SEQ_CST);
    while (!__atomic_compare_exchange_n(place, &there, there >= limit ? 0 : there + 1, false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
    return there;
}

/* The atomics above already order memory, so these have nothing to do. */
static inline void __threadfence(void)
{
}

static inline void __threadfence_block(void)
{
}

static inline void __threadfence_system(void)
{
}

__attribute__((noreturn)) static inline void __trap(void)
{
    emulator_trap("executes __trap()");
}

#endif
