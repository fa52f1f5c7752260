/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions in plain C.
 */
#include "runtime/device/host/x16_portable.h"

#define WIDE            1
#define FUNCTIONS_APPLY functions_portable
#include "tests/unit/device_math/functions.inc"
