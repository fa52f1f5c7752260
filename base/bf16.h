/* SPDX-License-Identifier: Apache-2.0
 *
 * bf16: the upper half of an fp32, stored in a uint16_t. Conversion from fp32 rounds to nearest, ties to even; overflow
 * rounds to infinity, denormals are kept, and a NaN keeps its sign and upper payload bits but becomes quiet. Conversion
 * to fp32 is exact. All code uses these functions, so results do not depend on which code converts.
 *
 *     uint16_t stored = ah_bf16_from_fp32(x);
 *     float back = ah_bf16_to_fp32(stored);
 */
#ifndef AH_BASE_BF16_H
#define AH_BASE_BF16_H

#include <stdint.h>
#include <string.h>

static inline uint16_t ah_bf16_from_fp32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t rounded = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
    uint32_t quiet = bits >> 16 | 0x40u;
    return (uint16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded);
}

static inline float ah_bf16_to_fp32(uint16_t stored)
{
    uint32_t bits = (uint32_t)stored << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#endif
