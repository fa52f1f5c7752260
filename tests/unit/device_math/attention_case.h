/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of attention, for every test that compares a device's ops with straight loops (attention_exact.h): random
 * values and documents, operands in an arena full of NaN, so that what is read beyond an operand shows, and results
 * against the exact ones.
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

/* Values of the type for the shape, and the exact results. */
void attention_case_data(uint64_t *random, struct attention_data *ret_data,
                         const struct attention_shape *shape, enum ah_dtype dtype);

void attention_case_release(struct attention_data *data);

enum attention_place { OUT, LSE, Q, K, V, DOCS, DQ, DK, DV, DOUT, DELTA, PLACES };

/* Both ops in an arena. */
struct attention_run {
    const struct attention_data *data; /* borrowed */
    enum ah_dtype dtype;               /* of q, k and v */
    enum ah_dtype others;              /* of out, dout, dq, dk and dv */
    struct ah_ref refs[PLACES];
    uint64_t bytes;
    unsigned char *arena; /* owned by who made it, at a multiple of 64 */
    struct ah_op forward, backward;
};

void attention_case_init(struct attention_run *ret_run, const struct attention_data *data,
                         enum ah_dtype dtype, enum ah_dtype others);

/* Elements of a row of a place. */
uint64_t attention_case_width(const struct attention_shape *shape, enum attention_place place);

/* Element `i` of a place, whatever its stride. */
double attention_case_get(const struct attention_run *run, enum attention_place place, uint64_t i);
void attention_case_put(const struct attention_run *run, enum attention_place place, uint64_t i,
                        double value);

/* Fails if the arena differs from `before`, a copy of it, outside of the outputs of `op`; writes to that copy. */
void attention_case_check_outside(const struct attention_run *run, const struct ah_op *op,
                                  unsigned char *before);

/* Fails unless the difference as a whole, relative to the exact values as a whole, is at most `of_norm`, and the
 * largest one, relative to the largest, at most `of_most`. */
void attention_case_check(const struct attention_run *run, enum attention_place place, const double *exact,
                          double of_norm, double of_most);

/* The same of all results. */
void attention_case_check_all(const struct attention_run *run, double of_norm, double of_most);

#endif
