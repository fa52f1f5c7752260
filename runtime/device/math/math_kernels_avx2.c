/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels with AVX2.
 */
#if defined(__x86_64__)

#include "runtime/device/math/math_kernels_internal.h"

#include "runtime/device/host/x16_avx2.h"

#define WIDE       2
#define MATH_TABLE ah_math_kernels_avx2
#include "runtime/device/math/kernels.inc"

#else

typedef int ah_math_kernels_avx2_has_no_code_here;

#endif
