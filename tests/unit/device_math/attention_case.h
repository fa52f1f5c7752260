/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention cases for tests that compare a device's ops with straight loops (attention_exact.h). Values and documents
 * are random. The arena is filled with NaN, so that reading outside an operand spoils the result.
 *
 *     attention_case_data(&random, &data, &shape, AH_BF16);
 *     attention_case_init(&run, &data, AH_BF16, AH_BF16);
 *     ... run.forward, then run.backward, in run.arena
 *     attention_case_check_all(&run, 1e-2, 2e-2);
 *     free(run.arena);
 *     attention_case_release(&data);
 */
#ifndef AH_TESTS_UNIT_DEVICE_MATH_ATTENTION_CASE_H
#define AH_TESTS_UNIT_DEVICE_MATH_ATTENTION_CASE_H

#include "runtime/device/op.h"
#include "tests/unit/device_math/attention_exact.h"

/* Makes random values of this type and their exact results. Release both with attention_case_release(). */
void attention_case_data(uint64_t *random, struct attention_data *ret_data,
                         const struct attention_shape *shape, enum ah_dtype dtype);

void attention_case_release(struct attention_data *data);

enum attention_place { OUT, LSE, Q, K, V, DOCS, DQ, DK, DV, DOUT, DELTA, PLACES };

/* The forward and the backward op, with their operands in one arena. */
struct attention_run {
    const struct attention_data *data; /* borrowed */
    enum ah_dtype dtype;               /* type of q, k and v */
    enum ah_dtype others;              /* type of out, dout, dq, dk and dv */
    struct ah_ref refs[PLACES];
    uint64_t bytes;
    unsigned char *arena; /* aligned to 64 bytes; the caller frees it */
    struct ah_op forward, backward;
};

void attention_case_init(struct attention_run *ret_run, const struct attention_data *data,
                         enum ah_dtype dtype, enum ah_dtype others);

/* Returns the number of elements in a row of the operand at `place`. */
uint64_t attention_case_width(const struct attention_shape *shape, enum attention_place place);

/* attention_case_get() reads element `i` of the operand at `place`, attention_case_put() writes it. Gaps are
 * skipped. */
double attention_case_get(const struct attention_run *run, enum attention_place place, uint64_t i);
void attention_case_put(const struct attention_run *run, enum attention_place place, uint64_t i,
                        double value);

/* Fails the test if the arena differs from its copy `before` outside the outputs of `op`; overwrites that copy. */
void attention_case_check_outside(const struct attention_run *run, const struct ah_op *op,
                                  unsigned char *before);

/* Fails the test unless the norm of the error is at most `of_norm` times the norm of the exact values, and the largest
 * error at most `of_most` times the largest exact value. */
void attention_case_check(const struct attention_run *run, enum attention_place place, const double *exact,
                          double of_norm, double of_most);

/* Checks all results with attention_case_check(). */
void attention_case_check_all(const struct attention_run *run, double of_norm, double of_most);

#endif
