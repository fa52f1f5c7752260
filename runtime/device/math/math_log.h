/* SPDX-License-Identifier: Apache-2.0
 *
 * A natural logarithm with the same bits on all processors, unlike the C library's. Used once per row.
 *
 *     loss = ah_log_natural(sum) + largest - of_target;
 */
#ifndef AH_RUNTIME_DEVICE_MATH_MATH_LOG_H
#define AH_RUNTIME_DEVICE_MATH_MATH_LOG_H

/* Returns ln x, within 0.51 units in the last place; -infinity for 0, NaN for x < 0. */
float ah_log_natural(float x);

#endif
