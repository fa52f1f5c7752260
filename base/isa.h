/* SPDX-License-Identifier: Apache-2.0
 *
 * Instruction sets: which vector code may run here, according to the processor and the operating system (a set that the
 * system does not save across task switches is unusable).
 *
 * Each call queries the processor, which costs microseconds under a hypervisor: ask once and keep the answer.
 *
 *     const struct kernels *kernels = table[ah_isa_detect()];
 */
#ifndef AH_BASE_ISA_H
#define AH_BASE_ISA_H

#include <stdbool.h>

enum ah_isa {
    AH_ISA_PORTABLE, /* plain C */
    AH_ISA_AVX2,     /* AVX2, FMA and F16C */
    AH_ISA_AVX512,   /* AVX-512 F, BW, DQ and VL, and all of AH_ISA_AVX2 */
};

/* Returns the widest set that may be used. */
enum ah_isa ah_isa_detect(void);

/* True if the processor has AVX-512 bf16 dot products (with AH_ISA_AVX512), or in the second, AMX tiles for bf16. */
bool ah_isa_has_avx512_bf16(void);
bool ah_isa_has_amx_bf16(void);

/* True if the processor has AVX-512 bf16 dot products that are faster than AVX-512 in fp32; Intel's are not. */
bool ah_isa_has_fast_avx512_bf16(void);

/* True if the processor has instructions for SHA-256, and SSSE3 and SSE4.1. */
bool ah_isa_has_sha256(void);

/* Returns "portable", "avx2" or "avx512": the words of machine documents. */
const char *ah_isa_name(enum ah_isa isa);

#endif
