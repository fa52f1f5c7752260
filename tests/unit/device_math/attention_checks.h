/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks what attention must do on every device, with cases of attention_case.h.
 *
 *     const struct attention_runner runner = {do_both, do_forward, context, &random};
 *     attention_check_large_scores(&runner);
 */
#ifndef AH_TESTS_UNIT_DEVICE_MATH_ATTENTION_CHECKS_H
#define AH_TESTS_UNIT_DEVICE_MATH_ATTENTION_CHECKS_H

#include "tests/unit/device_math/attention_case.h"

struct attention_runner {
    /* Runs forward and then backward in the arena. Fails the test if anything except their outputs changes. */
    void (*both)(void *context, struct attention_run *run);
    void (*forward)(void *context, struct attention_run *run); /* likewise; for attention_check_past() */
    void *context;
    uint64_t *random;
};

/* Checks cases in which q, k and v have one type and all other operands have the other type. */
void attention_check_both_types(const struct attention_runner *runner);

/* Checks soft caps from a thousandth of the scores to a hundred times their size. lse must be more exact than bf16. */
void attention_check_soft_caps(const struct attention_runner *runner);

/* Checks scores of very different size. Weights are 0 or 1, and nothing overflows. */
void attention_check_large_scores(const struct attention_runner *runner);

/* Checks queries that see exactly one key. Their output is that key's v, and the gradient of the score is 0. Most of
 * the queries see no key in the first tile read by their block. */
void attention_check_one_key(const struct attention_runner *runner);

/* Checks that the last queries of sequences alone, with all keys, have the bits that they have beside all queries. */
void attention_check_past(const struct attention_runner *runner);

#endif
