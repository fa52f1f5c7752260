/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention's steps with AVX-512.
 */
#if defined(__x86_64__)

#include "runtime/device/math/attention_internal.h"

#include "runtime/device/host/x16_avx512.h"

#include "runtime/device/host/elements.inc"

#define WIDE 4 /* two rows */
#include "runtime/device/math/attention_single.inc"
#include "runtime/device/math/functions.inc"

#define STEPS ah_attention_avx512

#include "runtime/device/math/attention.inc"

#else

typedef int ah_attention_avx512_has_no_code_here;

#endif
