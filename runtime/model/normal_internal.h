/* SPDX-License-Identifier: Apache-2.0
 *
 * Normal: turns random bits into normally distributed numbers, the same on every machine; for initial.h.
 */
#ifndef AH_RUNTIME_MODEL_NORMAL_INTERNAL_H
#define AH_RUNTIME_MODEL_NORMAL_INTERNAL_H

#include <stdint.h>

/* Computes four numbers with mean 0 and deviation 1 from 128 random bits. Their absolute values are at most 6.77. */
void ah_normal_four(const uint32_t bits[4], double ret_normal[4]);

/* Returns the natural logarithm of a positive, finite, normal number, with a relative error of at most 4e-16. */
double ah_normal_log(double x);

/* Computes sine and cosine of (bits + 1/2) / 2^32 turns, each with an error of at most 4e-16. */
void ah_normal_turn(uint32_t bits, double *ret_sine, double *ret_cosine);

#endif
