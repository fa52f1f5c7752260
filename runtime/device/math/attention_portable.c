/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention's steps in plain C.
 */
#include "runtime/device/math/attention_internal.h"

#include "runtime/device/host/x16_portable.h"

#include "runtime/device/host/elements.inc"

#define WIDE 4 /* two rows */
#include "runtime/device/math/attention_single.inc"
#include "runtime/device/math/functions.inc"

#define STEPS ah_attention_portable

#include "runtime/device/math/attention.inc"
