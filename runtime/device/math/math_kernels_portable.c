/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels in plain C, and the choice of a table.
 */
#include "runtime/device/math/math_kernels_internal.h"

#include "runtime/device/host/x16_portable.h"

#define WIDE       1
#define MATH_TABLE ah_math_kernels_portable
#include "runtime/device/math/kernels.inc"

const struct ah_math_kernels *ah_math_kernels_of(enum ah_isa isa)
{
    switch (isa) {
#if defined(__x86_64__)
    case AH_ISA_AVX512:
        return &ah_math_kernels_avx512;
    case AH_ISA_AVX2:
        return &ah_math_kernels_avx2;
#else
    case AH_ISA_AVX512:
    case AH_ISA_AVX2:
#endif
    case AH_ISA_PORTABLE:
    default:
        return &ah_math_kernels_portable;
    }
}
