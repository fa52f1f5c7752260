/* SPDX-License-Identifier: Apache-2.0
 *
 * Applies each function of functions.inc to arrays, at each level of instruction set, for test_functions.c.
 */
#ifndef AH_TESTS_UNIT_DEVICE_MATH_FUNCTIONS_H
#define AH_TESTS_UNIT_DEVICE_MATH_FUNCTIONS_H

#include <stddef.h>

enum function {
    FUNCTION_EXP,
    FUNCTION_EXP2,
    FUNCTION_SIGMOID,
    FUNCTION_REST,
    FUNCTION_TANH,
    FUNCTION_SLOPE, /* of tanh */
    FUNCTION_TAIL,
    FUNCTIONS
};

/* Sets y[i] = f(x[i]) for 16 elements. */
typedef void function_apply(enum function function, float *y, const float *x);

function_apply functions_portable;
function_apply functions_avx2;
function_apply functions_avx512;

#endif
