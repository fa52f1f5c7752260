/* SPDX-License-Identifier: Apache-2.0
 *
 * The natural logarithm of one number a row: of sums of exponentials. The library's own differs between processors.
 *
 *     loss = ah_log_natural(sum) + largest - of_target;
 */
#ifndef AH_RUNTIME_DEVICE_MATH_LOG_H
#define AH_RUNTIME_DEVICE_MATH_LOG_H

/* ln x, within 0.51 units of the last place: -infinity for 0, NaN below it. */
float ah_log_natural(float x);

#endif
