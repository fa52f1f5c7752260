/* SPDX-License-Identifier: Apache-2.0
 *
 * A profile of a device of known speed (fake_device.h), to which a test can add blocks of a model.
 *
 *     profile_case_open(&c, "tiny", training, &rates);      measures products
 *     CHECK_OK(profile_case_extend(&c), c.err);             measures blocks, too
 *     ... c.document.body.machine
 *     profile_case_close(&c);
 */
#ifndef AH_TESTS_UNIT_PROFILER_PROFILE_CASE_H
#define AH_TESTS_UNIT_PROFILER_PROFILE_CASE_H

#include "profiler/measure_internal.h"
#include "tests/property/schedule/jobs.h"
#include "tests/unit/profiler/fake_device.h"

extern const struct ah_measure_limits profile_case_limits; /* for the shortest possible profile */

struct profile_case {
    struct test_job job;
    struct fake_rates rates; /* current rates; a test may change them */
    struct ah_profiler_options options;
    struct ah_document document;
    struct ah_error err;
};

void profile_case_open(struct profile_case *ret_case, const char *model, struct ah_plan_training training,
                       const struct fake_rates *rates);

/* Measures the blocks of options.job, adds them to the document and returns the result. No device is left open. */
int profile_case_extend(struct profile_case *c);

void profile_case_close(struct profile_case *c);

#endif
