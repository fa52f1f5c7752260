/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of what attention must do on every device, on cases (attention_case.h).
 *
 *     const struct attention_runner runner = {do_both, context, &random};
 *     attention_check_large_scores(&runner);
 */
#ifndef AH_TESTS_UNIT_DEVICE_MATH_ATTENTION_CHECKS_H
#define AH_TESTS_UNIT_DEVICE_MATH_ATTENTION_CHECKS_H

#include "tests/unit/device_math/attention_case.h"

struct attention_runner {
    /* Runs forward, then backward, in the arena, and fails if anything but their outputs changes. */
    void (*both)(void *context, struct attention_run *run);
    void *context;
    uint64_t *random;
};

/* q, k and v have one type, everything else the other. */
void attention_check_both_types(const struct attention_runner *runner);

/* Scores far apart: weights are 0 or 1, nothing overflows. */
void attention_check_large_scores(const struct attention_runner *runner);

/* A query that sees one key gets its v, and its score has no gradient. Most queries see nothing of the first tile that
 * their block looks at. */
void attention_check_one_key(const struct attention_runner *runner);

#endif
