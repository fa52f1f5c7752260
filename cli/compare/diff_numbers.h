/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of two plans side by side: "step  2.29 ms  ->  2.86 ms  +25.00 %".
 */
#ifndef AH_CLI_COMPARE_DIFF_NUMBERS_H
#define AH_CLI_COMPARE_DIFF_NUMBERS_H

#include "cli/frame/cli.h"
#include "cli/frame/emit.h"

enum ah_diff_quantity { AH_DIFF_TIME, AH_DIFF_RATE, AH_DIFF_BYTES, AH_DIFF_COUNT, AH_DIFF_SHARE };

struct ah_diff_number {
    const char *name;
    const char *key; /* in JSON */
    enum ah_diff_quantity quantity;
    double a, b;
    double more_a, more_b; /* bytes added to a and b only in text: the device's reserve, or the process */
};

bool ah_diff_differs(double a, double b);

/* Prints the first number, and every other number that differs. */
void ah_diff_numbers_put(struct ah_cli *cli, const struct ah_diff_number *numbers, size_t n);

/* Adds all numbers to an object opened by the caller. */
void ah_diff_numbers_emit(struct ah_emit *emit, const struct ah_diff_number *numbers, size_t n);

#endif
