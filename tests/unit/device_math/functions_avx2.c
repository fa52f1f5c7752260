/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions at level avx2. On other processor families, the file compiles them as plain C.
 */
#if defined(__x86_64__)
#include "runtime/device/host/x16_avx2.h"
#else
#include "runtime/device/host/x16_portable.h"
#endif

#define WIDE            1
#define FUNCTIONS_APPLY functions_avx2
#include "tests/unit/device_math/functions.inc"
