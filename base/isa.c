/* SPDX-License-Identifier: Apache-2.0
 *
 * Bits of CPUID and XCR0 after the Intel 64 Software Developer's Manual, volume 1, chapters 14.3 (AVX), 15.2
 * (AVX-512) and 18.3 (AMX).
 */
#include "base/isa.h"

#include <stdint.h>

#if defined(__x86_64__)
#include <cpuid.h>

enum {
    XSAVE_YMM = 0x6,    /* XCR0: XMM and YMM */
    XSAVE_ZMM = 0xE6,   /* XMM, YMM, opmask, upper halves of ZMM0 to 15, ZMM16 to 31 */
    XSAVE_AMX = 0x60000 /* XCR0: tile configuration and tile data */
};

struct cpuid {
    uint32_t eax, ebx, ecx, edx;
};

/* Queries a leaf; returns all zeros if the processor does not have it. */
static struct cpuid cpuid(unsigned leaf, unsigned subleaf)
{
    struct cpuid answer = {0};
    if (!__get_cpuid_count(leaf, subleaf, &answer.eax, &answer.ebx, &answer.ecx, &answer.edx))
        return (struct cpuid){0};
    return answer;
}

static bool has_bits(uint32_t word, uint32_t bits)
{
    return (word & bits) == bits;
}

/* True if the operating system saves all of these register states. */
static bool system_saves(uint32_t states)
{
    if (!has_bits(cpuid(1, 0).ecx, bit_OSXSAVE))
        return false;
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return has_bits(low, states);
}

enum ah_isa ah_isa_detect(void)
{
    struct cpuid leaf1 = cpuid(1, 0), leaf7 = cpuid(7, 0);
    if (!has_bits(leaf1.ecx, bit_AVX | bit_FMA | bit_F16C) || !has_bits(leaf7.ebx, bit_AVX2) ||
        !system_saves(XSAVE_YMM))
        return AH_ISA_PORTABLE;
    uint32_t avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    return has_bits(leaf7.ebx, avx512) && system_saves(XSAVE_ZMM) ? AH_ISA_AVX512 : AH_ISA_AVX2;
}

bool ah_isa_has_avx512_bf16(void)
{
    return ah_isa_detect() == AH_ISA_AVX512 && has_bits(cpuid(7, 1).eax, bit_AVX512BF16);
}

bool ah_isa_has_fast_avx512_bf16(void)
{
    unsigned most, ebx, ecx, edx;
    bool intel = __get_cpuid(0, &most, &ebx, &ecx, &edx) && ebx == signature_INTEL_ebx &&
                 ecx == signature_INTEL_ecx && edx == signature_INTEL_edx;
    return ah_isa_has_avx512_bf16() && !intel;
}

bool ah_isa_has_amx_bf16(void)
{
    enum { BIT_AMX_BF16 = 1 << 22, BIT_AMX_TILE = 1 << 24 }; /* leaf 7, EDX */
    return has_bits(cpuid(7, 0).edx, BIT_AMX_BF16 | BIT_AMX_TILE) && system_saves(XSAVE_AMX);
}

bool ah_isa_has_sha256(void)
{
    return has_bits(cpuid(7, 0).ebx, bit_SHA) && has_bits(cpuid(1, 0).ecx, bit_SSSE3 | bit_SSE4_1);
}

#else

enum ah_isa ah_isa_detect(void)
{
    return AH_ISA_PORTABLE;
}

bool ah_isa_has_avx512_bf16(void)
{
    return false;
}

bool ah_isa_has_fast_avx512_bf16(void)
{
    return false;
}

bool ah_isa_has_amx_bf16(void)
{
    return false;
}

bool ah_isa_has_sha256(void)
{
    return false;
}

#endif

const char *ah_isa_name(enum ah_isa isa)
{
    static const char *const names[] = {"portable", "avx2", "avx512"};
    return names[isa];
}
