/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels with AVX-512.
 */
#if defined(__x86_64__)

#include "runtime/device/math/math_kernels_internal.h"

#include "runtime/device/host/x16_avx512.h"

#define WIDE       4
#define MATH_TABLE ah_math_kernels_avx512
#include "runtime/device/math/kernels.inc"

#else

typedef int ah_math_kernels_avx512_has_no_code_here;

#endif
